//! Which rows go into an iteration's forward pass. Pure.
//!
//! Decode rows of live sequences come first, then chunks of new prompts, within a budget of rows. While anything
//! decodes, an iteration that carries prompt chunks is followed by one that does not: a long prompt at most every other
//! time slows down those who stream.

/// Bounds of one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Rows of one forward pass.
    pub iteration_tokens: usize,
    /// Prompt tokens of one sequence in one forward pass.
    pub prefill_chunk: usize,
}

/// A sequence that holds a slot, oldest first in the list given to [`plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanSequence {
    /// Prompt tokens that are not in the KV cache yet; 0 = it decodes.
    pub prompt_left: usize,
    /// Iterations since it last had a row.
    pub waited: u64,
}

/// Rows of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One decode row of sequence `index`.
    Decode { index: usize },
    /// The next `tokens` prompt tokens of sequence `index`; `last` when they complete the prompt.
    Prefill { index: usize, tokens: usize, last: bool },
}

/// An iteration's rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub rows: Vec<Rows>,
    pub decode_rows: usize,
    pub prefill_tokens: usize,
}

/// Plans an iteration. `after_prefill`: the one before carried prompt chunks.
pub fn plan(sequences: &[PlanSequence], limits: PlanLimits, after_prefill: bool) -> Plan {
    let mut plan = Plan::default();
    let mut budget = limits.iteration_tokens.max(1);

    let mut decoding: Vec<usize> = (0..sequences.len()).filter(|&i| sequences[i].prompt_left == 0).collect();
    // Under a budget smaller than the live sequences the longest without a row goes first; equals keep their order.
    decoding.sort_by_key(|&i| std::cmp::Reverse(sequences[i].waited));
    let live = !decoding.is_empty();
    for index in decoding.into_iter().take(budget) {
        plan.rows.push(Rows::Decode { index });
        plan.decode_rows += 1;
    }
    budget -= plan.decode_rows;
    if live && after_prefill {
        return plan;
    }
    for (index, sequence) in sequences.iter().enumerate() {
        let tokens = sequence.prompt_left.min(limits.prefill_chunk.max(1)).min(budget);
        if tokens > 0 {
            plan.rows.push(Rows::Prefill { index, tokens, last: tokens == sequence.prompt_left });
            plan.prefill_tokens += tokens;
            budget -= tokens;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PlanLimits = PlanLimits { iteration_tokens: 16, prefill_chunk: 8 };

    fn sequences(prompt_left: &[usize]) -> Vec<PlanSequence> {
        prompt_left.iter().map(|&prompt_left| PlanSequence { prompt_left, waited: 0 }).collect()
    }

    #[test]
    fn decode_rows_come_first_and_chunks_share_what_is_left() {
        let p = plan(&sequences(&[20, 0, 3, 9]), LIMITS, false);
        let expected = [
            Rows::Decode { index: 1 },
            Rows::Prefill { index: 0, tokens: 8, last: false },
            Rows::Prefill { index: 2, tokens: 3, last: true },
            Rows::Prefill { index: 3, tokens: 4, last: false },
        ];
        assert_eq!(p.rows, expected);
        assert_eq!((p.decode_rows, p.prefill_tokens), (1, 15));
    }

    #[test]
    fn prefill_never_comes_twice_in_a_row_while_something_decodes() {
        assert_eq!(plan(&sequences(&[20, 0]), LIMITS, true).rows, [Rows::Decode { index: 1 }]);
        assert_eq!(plan(&sequences(&[20]), LIMITS, true).prefill_tokens, 8);
    }

    #[test]
    fn under_a_small_budget_the_longest_wait_goes_first() {
        let limits = PlanLimits { iteration_tokens: 1, prefill_chunk: 8 };
        let mut s = sequences(&[0, 0, 0]);
        s[1].waited = 2;
        s[2].waited = 5;
        assert_eq!(plan(&s, limits, false).rows, [Rows::Decode { index: 2 }]);
    }

    proptest! {
        /// The budget holds, nobody has two spans, and within a bounded number of iterations everybody has a row.
        #[test]
        fn bounded_and_fair(
            prompts in prop::collection::vec(0usize..40, 1..8),
            iteration_tokens in 1usize..20,
            prefill_chunk in 1usize..12,
        ) {
            let limits = PlanLimits { iteration_tokens, prefill_chunk };
            let mut state = sequences(&prompts);
            let mut after_prefill = false;
            let total: usize = prompts.iter().sum();
            let mut served = vec![false; state.len()];
            // Enough for every prompt token one by one, every other iteration, and a decode row in between.
            for _ in 0..(2 * total + 2 * state.len() + 2) {
                let p = plan(&state, limits, after_prefill);
                prop_assert!(p.decode_rows + p.prefill_tokens <= iteration_tokens);
                prop_assert!(!p.rows.is_empty());
                let decoding = state.iter().filter(|s| s.prompt_left == 0).count();
                if decoding >= iteration_tokens {
                    // Decode alone fills the pass: prompts wait until a sequence ends.
                    break;
                }
                prop_assert!(!(after_prefill && decoding > 0 && p.prefill_tokens > 0));
                let mut seen = vec![0; state.len()];
                for row in &p.rows {
                    let index = match *row {
                        Rows::Decode { index } => index,
                        Rows::Prefill { index, tokens, last } => {
                            prop_assert!(tokens <= prefill_chunk);
                            state[index].prompt_left -= tokens;
                            prop_assert_eq!(last, state[index].prompt_left == 0);
                            index
                        }
                    };
                    seen[index] += 1;
                    served[index] = true;
                }
                prop_assert!(seen.iter().all(|&n| n <= 1));
                after_prefill = p.prefill_tokens > 0;
                if state.iter().all(|s| s.prompt_left == 0) {
                    break;
                }
            }
            let decoding = state.iter().filter(|s| s.prompt_left == 0).count();
            prop_assert!(decoding >= iteration_tokens || served.iter().all(|s| *s));
        }
    }
}
