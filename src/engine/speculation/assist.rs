//! Whether to have tokens drafted, and how many: by the model's own head, or by another model.
//!
//! A copy costs nothing to propose; a draft costs a run of whoever drafts for each token. So it is decided before: with k
//! tokens drafted for each of m of n sequences, where one token for each of these takes d(m),
//!
//! ```text
//! gain = (n + Σ P(1) + … + P(k)) / ((c(n + m·k) + k·d(m)) / c(n)) / n
//! ```
//!
//! The m are those whose drafts are the likeliest to hold. Before it drafts, a draft model must have read the text. That
//! happens once for each answer, so it is held against what drafting is expected to save over the next tokens of that answer.
//! A head has read it: it starts from what the model itself has computed.
//!
//! What was drafted is paid for. Which of it is verified is decided like everything else, by the rows. Where drafts do not
//! pay, or nobody knows, they are tried: for each sequence a few times at its start, then now and then, out of a ledger of
//! its own.

use super::gate::{Gate, OPENS_AT, PAUSE};
use crate::control::speculation::{SURVIVAL_DEPTHS, SpeculationPolicy};
use crate::engine::scheduler::Micros;

/// Tokens that are drafted to see how they hold and what they cost.
const TRIED: usize = 2;
/// Drafts of a sequence below which too little is known of how they hold.
pub(super) const FEW: f64 = 10.0;
/// Tokens after which drafts that were found not to pay are tried again.
pub(super) const AGAIN: usize = 64;
/// The part of what exploring may lose that tries may lose.
pub(super) const TRIES_SHARE: f64 = 0.25;
/// Most tokens in a row of a head: each rests on the one before, and a head was trained on the model's own states.
pub const DEEPEST: usize = 3;

/// Rows that are read in about the time of a pass of one row.
const READ_AT_ONCE: f64 = 8.0;
/// Tokens of an answer that are counted on when a text is to be read for it.
const HORIZON: usize = 64;

/// A sequence for which nothing better than a draft is proposed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanting {
    /// P(at least `i + 1` drafted tokens hold).
    pub odds: [f64; SURVIVAL_DEPTHS],
    /// Most tokens that can be used.
    pub room: usize,
    /// Tokens to draft where nobody weighs what they cost; 0 where the gate does.
    pub told: usize,
    /// Tokens that the answer may still have.
    pub left: usize,
    /// Tokens that whoever drafts has not read.
    pub unread: usize,
    /// Whether the request wants them whatever the policy says.
    pub forced: bool,
    /// Whether nothing was drafted for it yet, or too little, or not for long.
    pub unsure: bool,
}

/// Drafts that pay.
#[derive(Debug, Clone, PartialEq)]
struct Paying {
    whose: Vec<usize>,
    depth: usize,
    gain: f64,
}

impl Gate {
    /// How many tokens to draft for each of `wanting`, among `sequences` that decode. `each`: microseconds of one token
    /// for each of so many sequences; `None` = not measured yet.
    pub fn drafts(&mut self, sequences: usize, wanting: &[Wanting], each: impl Fn(usize) -> Option<f64>) -> Vec<usize> {
        let policy = self.policy;
        self.trying = false;
        if self.rows_depend || policy == SpeculationPolicy::Off || sequences == 0 || wanting.is_empty() {
            return vec![0; wanting.len()];
        }
        let mut depths = match policy {
            SpeculationPolicy::Gain => self.drafts_by_gain(sequences, wanting, each),
            _ => {
                // While it is shut it learns of drafts only from those that are tried.
                let told = |w: &Wanting| policy == SpeculationPolicy::Force || self.verdict.on || w.unsure;
                wanting.iter().map(|w| if told(w) { w.told } else { 0 }).collect()
            }
        };
        for (depth, w) in depths.iter_mut().zip(wanting) {
            *depth = if w.forced { (*depth).max(w.told) } else { *depth }.min(w.room).min(SURVIVAL_DEPTHS);
        }
        depths
    }

    fn drafts_by_gain(&mut self, n: usize, wanting: &[Wanting], each: impl Fn(usize) -> Option<f64>) -> Vec<usize> {
        let mut depths = vec![0; wanting.len()];
        let Some(plain) = self.costs().estimate(n, n) else { return depths };
        if self.passes < self.held_until {
            return depths;
        }
        let reading = |whose: &[usize]| -> f64 {
            let unread: usize = whose.iter().map(|&i| wanting[i].unread.saturating_sub(1)).sum();
            unread as f64 / READ_AT_ONCE * each(whose.len()).unwrap_or(plain)
        };
        let best = self.best_drafts(n, wanting, plain, &each);
        self.declined = best.as_ref().map(|best| best.gain);
        if let Some(best) = &best {
            let horizon = best.whose.iter().map(|&i| wanting[i].left).min().unwrap_or(0).min(HORIZON) as f64;
            let saved = horizon * plain * (1.0 - 1.0 / best.gain);
            if best.gain >= OPENS_AT && reading(&best.whose) <= saved {
                self.declined = None;
                best.whose.iter().for_each(|&i| depths[i] = best.depth);
                return depths;
            }
        }
        // What is not known is tried, as far as the ledger goes: at worst a try gains nothing.
        let unknown = best.is_none();
        let tried: Vec<usize> = (0..wanting.len()).filter(|&i| unknown || wanting[i].unsure).collect();
        let lost = each(tried.len()).unwrap_or(plain) * TRIED as f64 + reading(&tried);
        if !tried.is_empty() && self.exploration > 0.0 && !self.tries.forbids(lost, plain) {
            self.tries.note(lost, plain);
            self.trying = true;
            tried.into_iter().for_each(|i| depths[i] = TRIED);
        }
        depths
    }

    /// The drafts with the most expected tokens per time; `None` where a cost is not known.
    fn best_drafts(
        &self,
        n: usize,
        wanting: &[Wanting],
        plain: f64,
        each: &impl Fn(usize) -> Option<f64>,
    ) -> Option<Paying> {
        let mut likeliest: Vec<usize> = (0..wanting.len()).collect();
        likeliest.sort_by(|&a, &b| wanting[b].odds[0].total_cmp(&wanting[a].odds[0]));
        let mut best: Option<(usize, usize, f64)> = None;
        for m in 1..=likeliest.len() {
            let chosen = || likeliest[..m].iter().map(|&i| &wanting[i]);
            let (cost, deepest) = (each(m)?, chosen().map(|w| w.room).max().unwrap_or(0).min(SURVIVAL_DEPTHS));
            for k in 1..=deepest {
                let tokens: f64 = chosen().map(|w| w.odds[..k.min(w.room)].iter().sum::<f64>()).sum();
                let rows: usize = chosen().map(|w| k.min(w.room)).sum();
                let took = self.costs().estimate(n + rows, n)? + k as f64 * cost;
                let gain = (n as f64 + tokens) / took * plain / n as f64;
                if best.is_none_or(|(_, _, g)| gain > g) {
                    best = Some((m, k, gain));
                }
            }
        }
        best.map(|(m, depth, gain)| Paying { whose: likeliest[..m].to_vec(), depth, gain })
    }

    /// Drafts were made for the pass to come, and took so long where `expected` was: a machine that paused meanwhile is
    /// not held against them.
    pub fn note_assisting(&mut self, took: Micros, expected: Option<f64>) {
        let took = took.0 as f64;
        // What tries take is in their own ledger.
        if !std::mem::take(&mut self.trying) {
            self.assisting += expected.map_or(took, |expected| took.min(PAUSE * expected));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::{Pass, Purpose};
    use super::*;
    use crate::profile::SpeculationSettings;

    fn wanting(step: f64) -> Wanting {
        let mut odds = [0.0; SURVIVAL_DEPTHS];
        for (i, p) in odds.iter_mut().enumerate() {
            *p = step.powi(i as i32 + 1);
        }
        Wanting { odds, room: 8, told: 0, left: 100, unread: 1, forced: false, unsure: false }
    }

    /// A gate that knows: a plain pass takes 1 000, each row 50 more.
    fn gate(policy: SpeculationPolicy) -> Gate {
        let mut gate = Gate::new(&SpeculationSettings { policy, ..SpeculationSettings::default() });
        for rows in [1, 3, 5, 9].repeat(5) {
            let took = Micros(950 + 50 * rows as u64);
            gate.note_pass(&Pass { sequences: 1, rows, prompt_rows: 0, committed: rows, took, purpose: Purpose::Gain });
        }
        gate
    }

    fn plain(gate: &mut Gate, n: usize) {
        for _ in 0..n {
            let purpose = Purpose::Plain;
            gate.note_pass(&Pass { sequences: 1, rows: 1, prompt_rows: 0, committed: 1, took: Micros(1_000), purpose });
        }
    }

    #[test]
    fn a_cheap_draft_that_holds_is_drafted_far_and_a_dear_one_not_at_all() {
        let mut gate = gate(SpeculationPolicy::Gain);
        let mut drafts = |step, each: Option<f64>| gate.drafts(1, &[wanting(step)], |_| each)[0];
        assert_eq!(drafts(0.9, None), TRIED, "what it costs is tried first");
        assert!(drafts(0.9, Some(100.0)) >= 5);
        let near = drafts(0.6, Some(200.0));
        assert!((1..=3).contains(&near), "{near}");
        // One that takes as long as the model itself gains nothing, whatever holds.
        assert_eq!(drafts(0.99, Some(1_000.0)), 0);
        assert_eq!(drafts(0.1, Some(100.0)), 0);
        assert!(gate.drafts(1, &[], |_| Some(1.0)).is_empty());
    }

    /// Of several, those get drafts whose drafts hold.
    #[test]
    fn a_neighbour_whose_drafts_hold_does_not_have_them_made_for_all() {
        let mut gate = gate(SpeculationPolicy::Gain);
        for rows in [2, 4, 6, 10].repeat(5) {
            let took = Micros(950 + 50 * rows as u64);
            gate.note_pass(&Pass { sequences: 2, rows, prompt_rows: 0, committed: rows, took, purpose: Purpose::Gain });
        }
        let depths = gate.drafts(2, &[wanting(0.02), wanting(0.9)], |m| Some(100.0 * m as f64));
        assert!(depths[0] == 0 && depths[1] >= 3, "{depths:?}");
        let unsure = Wanting { unsure: true, ..wanting(0.02) };
        assert_eq!(gate.drafts(2, &[unsure, wanting(0.02)], |_| Some(100.0)), [TRIED, 0], "one is tried");
    }

    #[test]
    fn tries_lose_no_more_than_their_share() {
        let mut gate = gate(SpeculationPolicy::Gain);
        let mut lost = 0;
        for _ in 0..2_000 {
            let k = gate.drafts(1, &[Wanting { unsure: true, ..wanting(0.05) }], |_| Some(100.0))[0] as u64;
            lost += 100 * k;
            gate.note_assisting(Micros(100 * k), None);
            plain(&mut gate, 1);
        }
        // A half of a hundredth, and what was lent at the start.
        assert!((10_000..=14_200).contains(&lost), "{lost}");
        assert!(!gate.ledger.forbids(0.0, 1_000.0), "trying windows loses out of another purse");
        let long = Wanting { unread: 4_000, unsure: true, ..wanting(0.5) };
        assert_eq!(gate.drafts(1, &[long], |_| None), [0], "reading it would take 500 plain passes");
        gate.exploration = 0.0;
        plain(&mut gate, 1_000);
        assert_eq!(gate.drafts(1, &[Wanting { unsure: true, ..wanting(0.05) }], |_| Some(1.0)), [0]);
    }

    #[test]
    fn a_long_text_is_read_for_a_long_answer_alone() {
        let mut gate = gate(SpeculationPolicy::Gain);
        let mut drafts = |unread, left| {
            let of = Wanting { unread, left, ..wanting(0.9) };
            gate.drafts(1, &[of], |_| Some(100.0))[0]
        };
        // 800 tokens are read in the time of 100 drafts, 10 plain passes: what 16 tokens save at twice the speed.
        assert!(drafts(800, 200) > 0);
        assert_eq!(drafts(800, 8), 0);
        assert_eq!(drafts(30_000, 200), 0);
    }

    #[test]
    fn what_drafts_took_is_held_against_them_but_no_pause_is() {
        for (took, expected, shut) in [(500_000, None, true), (500_000, Some(100.0), false)] {
            let mut gate = gate(SpeculationPolicy::Gain);
            assert!(gate.drafts(1, &[wanting(0.9)], |_| Some(100.0))[0] > 0);
            gate.note_assisting(Micros(took), expected);
            plain(&mut gate, 1);
            assert_eq!(gate.ledger.forbids(0.0, 1_000.0), shut, "{took} where {expected:?} was expected");
        }
    }

    #[test]
    fn what_is_told_is_drafted_unless_the_policy_is_off() {
        let told = Wanting { told: 2, forced: true, ..wanting(0.0) };
        for (policy, drafted) in [
            (SpeculationPolicy::Force, 2),
            (SpeculationPolicy::Published, 2),
            (SpeculationPolicy::Gain, 2),
            (SpeculationPolicy::Off, 0),
        ] {
            assert_eq!(gate(policy).drafts(1, &[told], |_| Some(1e9)), [drafted], "{policy:?}");
        }
        let mut shut = gate(SpeculationPolicy::Published);
        let of = |unsure| Wanting { told: 2, unsure, ..wanting(0.5) };
        assert_eq!(shut.drafts(1, &[of(true), of(false)], |_| Some(1.0)), [2, 0]);
        let mut depends = gate(SpeculationPolicy::Force);
        depends.rows_depend();
        assert_eq!(depends.drafts(1, &[told], |_| Some(1.0)), [0]);
    }
}
