//! Which rows go into an iteration's forward pass, and who must give up its slot for them. Pure.
//!
//! Rows of live sequences come first: one each, then the drafts of their verify windows, then chunks of prompts, within
//! a budget of rows. While anything decodes, an iteration carries prompt rows of one chunk at most over all sequences,
//! and one that does is followed by one that does not: reading prompts slows down those who stream by at most a chunk,
//! every other time.
//!
//! Prompts are read shortest first, so that a short one does not wait behind a long one; each iteration without a row
//! counts as one chunk read, so that a long one waits no longer than it would have taken to read it.

use std::cmp::Reverse;

/// Bounds of one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Rows of one forward pass.
    pub iteration_tokens: usize,
    /// Prompt tokens of one sequence in one forward pass, and of all together while anything decodes.
    pub prefill_chunk: usize,
    /// Tokens for which the KV budget still has room: each row takes one.
    pub kv_free: usize,
}

/// A sequence that holds a slot, oldest first in the list given to [`plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanSequence {
    /// Tokens that are not in the KV cache yet. One that decodes has one: its newest.
    pub left: usize,
    /// Whether its rows continue an answer; else they read a prompt (or read again, after a preemption).
    pub decodes: bool,
    /// Drafts that could be verified behind its decode row.
    pub drafts: usize,
    /// Whether it waits for an older one to read the start that both have: it gets no rows.
    pub follows: bool,
    /// Iterations since it last had a row.
    pub waited: u64,
}

/// Rows of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// A decode row of sequence `index`, and behind it the first `drafts` of its drafts: a verify window.
    Decode { index: usize, drafts: usize },
    /// The next `tokens` tokens of sequence `index`; `last` when nothing is left to read after them.
    Prefill { index: usize, tokens: usize, last: bool },
}

/// An iteration's rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub rows: Vec<Rows>,
    pub decode_rows: usize,
    pub draft_rows: usize,
    pub prefill_tokens: usize,
}

/// Plans an iteration. `after_prefill`: the one before carried prompt chunks.
pub fn plan(sequences: &[PlanSequence], limits: PlanLimits, after_prefill: bool) -> Plan {
    let mut plan = Plan::default();
    let mut budget = limits.iteration_tokens.max(1).min(limits.kv_free);

    let (mut decoding, reading): (Vec<usize>, Vec<usize>) = (0..sequences.len())
        .filter(|&i| !sequences[i].follows)
        .partition(|&i| sequences[i].decodes && sequences[i].left <= 1);
    // Under a budget smaller than the live sequences the longest without a row goes first; equals keep their order.
    decoding.sort_by_key(|&i| Reverse(sequences[i].waited));
    let live = !decoding.is_empty();
    decoding.truncate(budget);
    plan.decode_rows = decoding.len();
    budget -= plan.decode_rows;

    let reads = !(reading.is_empty() || (live && after_prefill));
    // Drafts are worth less than prompts that somebody waits for: those keep half of what is left, or a chunk.
    let mut for_drafts = if reads { budget - budget.div_ceil(2).min(limits.prefill_chunk.max(1)) } else { budget };
    for index in decoding {
        let drafts = sequences[index].drafts.min(for_drafts);
        for_drafts -= drafts;
        plan.draft_rows += drafts;
        plan.rows.push(Rows::Decode { index, drafts });
    }
    budget -= plan.draft_rows;
    if reads {
        let together = if live { budget.min(limits.prefill_chunk.max(1)) } else { budget };
        read(&mut plan, sequences, reading, limits.prefill_chunk.max(1), together);
    }
    plan
}

/// How many drafts [`plan`] will take in all.
pub fn draft_room(sequences: &[PlanSequence], limits: PlanLimits, after_prefill: bool) -> usize {
    let wanting = |s: &PlanSequence| PlanSequence { drafts: limits.iteration_tokens, ..*s };
    let wanting: Vec<PlanSequence> = sequences.iter().map(wanting).collect();
    plan(&wanting, limits, after_prefill).draft_rows
}

/// Adds chunks of at most `chunk` tokens each and `budget` together.
fn read(plan: &mut Plan, sequences: &[PlanSequence], mut reading: Vec<usize>, chunk: usize, mut budget: usize) {
    let aged =
        |s: &PlanSequence| s.left.saturating_sub(usize::try_from(s.waited).unwrap_or(usize::MAX).saturating_mul(chunk));
    reading.sort_by_key(|&i| aged(&sequences[i]));
    for index in reading {
        let left = sequences[index].left;
        let tokens = left.min(chunk).min(budget);
        if tokens > 0 {
            plan.rows.push(Rows::Prefill { index, tokens, last: tokens == left });
            plan.prefill_tokens += tokens;
            budget -= tokens;
        }
    }
}

/// How many of the youngest sequences must give up their slots so that each of the others can get a row. `held` are the
/// tokens in the KV cache, oldest first. The oldest stays, whatever it holds: it alone always fits.
pub fn to_preempt(held: &[usize], capacity: usize) -> usize {
    let mut total: usize = held.iter().map(|n| n + 1).sum();
    let mut victims = 0;
    for n in held.iter().skip(1).rev() {
        if total <= capacity {
            break;
        }
        total -= n + 1;
        victims += 1;
    }
    victims
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PlanLimits = PlanLimits { iteration_tokens: 16, prefill_chunk: 8, kv_free: 1_000 };

    /// 0 decodes; else so many prompt tokens are left.
    fn sequences(prompt_left: &[usize]) -> Vec<PlanSequence> {
        let of = |&left: &usize| PlanSequence {
            left: left.max(1),
            decodes: left == 0,
            drafts: 0,
            follows: false,
            waited: 0,
        };
        prompt_left.iter().map(of).collect()
    }

    fn decode(index: usize) -> Rows {
        Rows::Decode { index, drafts: 0 }
    }

    #[test]
    fn decode_rows_come_first_and_one_chunk_is_shared_beside_them() {
        let p = plan(&sequences(&[20, 0, 3, 9]), LIMITS, false);
        let expected = [
            decode(1),
            Rows::Prefill { index: 2, tokens: 3, last: true },
            Rows::Prefill { index: 3, tokens: 5, last: false },
        ];
        assert_eq!(p.rows, expected);
        assert_eq!((p.decode_rows, p.prefill_tokens), (1, 8));
        let alone = plan(&sequences(&[20, 3, 9]), LIMITS, false);
        assert_eq!(alone.prefill_tokens, 16, "with nobody to disturb the whole budget is read");
    }

    #[test]
    fn prefill_never_comes_twice_in_a_row_while_something_decodes() {
        assert_eq!(plan(&sequences(&[20, 0]), LIMITS, true).rows, [decode(1)]);
        assert_eq!(plan(&sequences(&[20]), LIMITS, true).prefill_tokens, 8);
    }

    #[test]
    fn under_a_small_budget_the_longest_wait_goes_first() {
        let limits = PlanLimits { iteration_tokens: 1, ..LIMITS };
        let mut s = sequences(&[0, 0, 0]);
        s[1].waited = 2;
        s[2].waited = 5;
        assert_eq!(plan(&s, limits, false).rows, [decode(2)]);
    }

    #[test]
    fn a_long_prompt_that_has_waited_its_own_length_goes_first() {
        let mut s = sequences(&[40, 3]);
        assert_eq!(plan(&s, LIMITS, false).rows[0], Rows::Prefill { index: 1, tokens: 3, last: true });
        s[0].waited = 5;
        assert_eq!(plan(&s, LIMITS, false).rows[0], Rows::Prefill { index: 0, tokens: 8, last: false });
    }

    #[test]
    fn who_follows_has_no_rows() {
        let mut s = sequences(&[20, 20, 0]);
        s[1].follows = true;
        assert_eq!(plan(&s, LIMITS, false).rows, [decode(2), Rows::Prefill { index: 0, tokens: 8, last: false }]);
    }

    #[test]
    fn drafts_follow_their_row_and_leave_room_for_prompts() {
        let mut s = sequences(&[0, 0, 50]);
        (s[0].drafts, s[1].drafts) = (4, 40);
        let p = plan(&s, LIMITS, false);
        assert_eq!(p.rows[..2], [Rows::Decode { index: 0, drafts: 4 }, Rows::Decode { index: 1, drafts: 3 }]);
        assert_eq!((p.decode_rows, p.draft_rows, p.prefill_tokens), (2, 7, 7));
        let p = plan(&s, LIMITS, true);
        assert_eq!((p.draft_rows, p.prefill_tokens), (14, 0));
        let p = plan(&s, PlanLimits { kv_free: 3, ..LIMITS }, true);
        assert_eq!((p.decode_rows, p.draft_rows), (2, 1));
    }

    #[test]
    fn the_youngest_give_way_and_the_oldest_never() {
        assert_eq!(to_preempt(&[3, 3, 3], 12), 0);
        assert_eq!(to_preempt(&[3, 3, 3], 11), 1);
        assert_eq!(to_preempt(&[3, 3, 3], 7), 2);
        assert_eq!(to_preempt(&[9, 9, 9], 5), 2);
        assert_eq!(to_preempt(&[], 5), 0);
    }

    prop_compose! {
        fn sequence()(left in 1usize..40, decodes: bool, drafts in 0usize..6, waited in 0u64..6) -> PlanSequence {
            PlanSequence { left: if decodes { 1 } else { left }, decodes, drafts, follows: false, waited }
        }
    }

    proptest! {
        /// Budgets hold, nobody has two spans, and no more than asked is given; decode rows are never left out for
        /// anything else.
        #[test]
        fn budgets_hold(
            s in prop::collection::vec(sequence(), 0..8),
            iteration_tokens in 1usize..30,
            prefill_chunk in 1usize..12,
            kv_free in 0usize..40,
            after_prefill: bool,
        ) {
            let limits = PlanLimits { iteration_tokens, prefill_chunk, kv_free };
            let p = plan(&s, limits, after_prefill);
            let budget = iteration_tokens.min(kv_free);
            prop_assert!(p.decode_rows + p.draft_rows + p.prefill_tokens <= budget);
            let decoding = s.iter().filter(|s| s.decodes).count();
            prop_assert_eq!(p.decode_rows, decoding.min(budget));
            prop_assert!(decoding == 0 || p.prefill_tokens <= prefill_chunk);
            prop_assert!(!(after_prefill && decoding > 0 && p.prefill_tokens > 0));
            let mut seen = vec![0; s.len()];
            for row in &p.rows {
                let index = match *row {
                    Rows::Decode { index, drafts } => {
                        prop_assert!(s[index].decodes && drafts <= s[index].drafts);
                        index
                    }
                    Rows::Prefill { index, tokens, last } => {
                        prop_assert!(!s[index].decodes && (1..=prefill_chunk).contains(&tokens));
                        prop_assert_eq!(last, tokens == s[index].left);
                        index
                    }
                };
                seen[index] += 1;
            }
            prop_assert!(seen.iter().all(|&n| n <= 1));
            prop_assert!(budget == 0 || s.is_empty() || !p.rows.is_empty());
            let room = draft_room(&s, limits, after_prefill);
            let wanted = s.iter().filter(|s| s.decodes).map(|s| s.drafts).sum::<usize>();
            // Under a budget smaller than the live sequences, those that have no row have no drafts either.
            prop_assert!(decoding > budget || p.draft_rows == wanted.min(room));
        }

        /// However short prompts keep arriving, a long one is read: it waits no longer than reading it would take.
        #[test]
        fn nobody_starves(
            long in 1usize..200,
            short in 1usize..8,
            arrivals in 1usize..4,
            live in 0usize..3,
        ) {
            let mut s = sequences(&vec![0; live]);
            s.push(PlanSequence { left: long, decodes: false, drafts: 0, follows: false, waited: 0 });
            let at = s.len() - 1;
            let mut after_prefill = false;
            let mut turns_without = 0;
            while s[at].left > 0 {
                s.truncate(at + 1);
                s.extend(sequences(&vec![short; arrivals]));
                let p = plan(&s, LIMITS, after_prefill);
                after_prefill = p.prefill_tokens > 0;
                s.iter_mut().for_each(|s| s.waited += 1);
                let rows = p.rows.iter().find_map(|r| match *r {
                    Rows::Prefill { index, tokens, .. } if index == at => Some(tokens),
                    _ => None,
                });
                match rows {
                    Some(tokens) => {
                        s[at].left -= tokens;
                        s[at].waited = 0;
                        turns_without = 0;
                    }
                    None => turns_without += 1,
                }
                prop_assert!(turns_without <= long.div_ceil(LIMITS.prefill_chunk) + 2);
            }
        }

        /// After the victims have gone, each that stays has room for a row, unless only the oldest stays.
        #[test]
        fn victims_make_room(held in prop::collection::vec(0usize..30, 1..8), capacity in 1usize..120) {
            let victims = to_preempt(&held, capacity);
            prop_assert!(victims < held.len());
            let stay = &held[..held.len() - victims];
            let room = |held: &[usize]| held.iter().map(|n| n + 1).sum::<usize>() <= capacity;
            prop_assert!(room(stay) || stay.len() == 1);
            prop_assert!(victims == 0 || !room(&held[..held.len() - victims + 1]));
        }
    }
}
