//! Whether to have tokens drafted by another model, and how many.
//!
//! A copy costs nothing to propose; a draft costs a pass of the draft model for each token. So it is decided before: with
//! k tokens drafted for each of m of n sequences, where a pass of the draft model over them takes d,
//!
//! ```text
//! gain = (n + Σ P(1) + … + P(k)) / ((c(n + m·k) + k·d) / c(n)) / n
//! ```
//!
//! Before it drafts, the draft model must have read the text. That happens once for each answer, so it is held against what
//! drafting is expected to save over the next tokens of that answer.
//!
//! What was drafted is paid for. Which of it is verified is decided like everything else, by the rows.

use super::gate::{Gate, OPENS_AT};
use crate::control::speculation::{SURVIVAL_DEPTHS, SpeculationPolicy};
use crate::engine::scheduler::Micros;

/// Tokens that are drafted to see how they hold and what they cost.
const TRIED: usize = 2;
/// Passes after which drafts that were found not to pay are tried again.
const AGAIN: u64 = 256;

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
    /// Tokens that the draft model has not read.
    pub unread: usize,
    /// Whether the request wants them whatever the policy says.
    pub forced: bool,
}

impl Gate {
    /// How many tokens to draft for each of `wanting`, among `sequences` that decode; 0 = none. `pass`: microseconds of
    /// a pass of the draft model over all of `wanting`; `None` = not measured yet.
    pub fn drafts(&mut self, sequences: usize, wanting: &[Wanting], pass: Option<f64>) -> usize {
        let most = wanting.iter().map(|w| w.room).max().unwrap_or(0).min(SURVIVAL_DEPTHS);
        if self.rows_depend || self.policy == SpeculationPolicy::Off || most == 0 || sequences == 0 {
            return 0;
        }
        let told = wanting.iter().map(|w| w.told).max().unwrap_or(0).min(most);
        let chosen = match self.policy {
            SpeculationPolicy::Gain => self.drafts_by_gain(sequences, wanting, pass, most),
            SpeculationPolicy::Force => told,
            // While it is shut it learns of drafts only from those that are tried.
            _ if self.verdict.on || self.untried() => told,
            _ => 0,
        };
        let forced = wanting.iter().filter(|w| w.forced).map(|w| w.told).max().unwrap_or(0);
        let chosen = chosen.max(forced.min(most));
        if chosen > 0 {
            self.assisted_at = Some(self.passes);
        }
        chosen
    }

    /// Whether nothing was drafted yet, or not for long.
    fn untried(&self) -> bool {
        self.assisted_at.is_none_or(|at| self.passes - at >= AGAIN)
    }

    fn drafts_by_gain(&mut self, n: usize, wanting: &[Wanting], pass: Option<f64>, most: usize) -> usize {
        let Some(plain) = self.costs().estimate(n, n) else { return 0 };
        if self.passes < self.held_until {
            return 0;
        }
        let unread: usize = wanting.iter().map(|w| w.unread.saturating_sub(1)).sum();
        let reading = unread as f64 / READ_AT_ONCE * pass.unwrap_or(plain);
        let horizon = wanting.iter().map(|w| w.left).min().unwrap_or(0).min(HORIZON) as f64;
        let gain = |k: usize| {
            let tokens: f64 = wanting.iter().map(|w| w.odds[..k.min(w.room)].iter().sum::<f64>()).sum();
            let rows: usize = wanting.iter().map(|w| k.min(w.room)).sum();
            let cost = self.costs().estimate(n + rows, n)? + k as f64 * pass?;
            Some((n as f64 + tokens) / cost * plain / n as f64)
        };
        let known = self.assisted_at.is_some().then(|| (1..=most).filter_map(|k| Some((k, gain(k)?))).max_by(better));
        match known.flatten() {
            Some((k, gain)) if gain >= OPENS_AT && reading <= horizon * plain * (1.0 - 1.0 / gain) => k,
            Some(_) if !self.untried() => 0,
            // What they cost is tried, as far as the ledger goes: at worst a try gains nothing.
            _ => {
                let tried = TRIED.min(most);
                let lost = pass.unwrap_or(plain) * tried as f64 + reading;
                if self.exploration == 0.0 || self.tries.forbids(lost, plain) {
                    return 0;
                }
                self.tries.note(lost, plain);
                tried
            }
        }
    }

    /// Drafts were made for the pass to come, and took so long.
    pub fn note_assisting(&mut self, took: Micros) {
        self.assisting = Micros(self.assisting.0 + took.0);
    }
}

/// Orders by gain.
fn better(a: &(usize, f64), b: &(usize, f64)) -> std::cmp::Ordering {
    a.1.total_cmp(&b.1)
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
        Wanting { odds, room: 8, told: 0, left: 100, unread: 1, forced: false }
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

    #[test]
    fn a_cheap_draft_that_holds_is_drafted_far_and_a_dear_one_not_at_all() {
        let mut gate = gate(SpeculationPolicy::Gain);
        assert_eq!(gate.drafts(1, &[wanting(0.9)], None), TRIED, "what it costs is tried first");
        assert!(gate.drafts(1, &[wanting(0.9)], Some(100.0)) >= 5);
        let near = gate.drafts(1, &[wanting(0.6)], Some(200.0));
        assert!((1..=3).contains(&near), "{near}");
        // A draft model as slow as the model itself gains nothing, whatever holds.
        assert_eq!(gate.drafts(1, &[wanting(0.99)], Some(1_000.0)), 0);
        assert_eq!(gate.drafts(1, &[wanting(0.1)], Some(100.0)), 0);
        assert_eq!(gate.drafts(1, &[], Some(1.0)), 0);
    }

    #[test]
    fn drafts_that_did_not_pay_are_tried_again_now_and_then() {
        let mut gate = gate(SpeculationPolicy::Gain);
        let mut tried = 0;
        for _ in 0..2_000 {
            let k = gate.drafts(1, &[wanting(0.05)], Some(100.0));
            if k > 0 {
                tried += 1;
                gate.note_assisting(Micros(100 * k as u64));
            }
            let purpose = Purpose::Plain;
            gate.note_pass(&Pass { sequences: 1, rows: 1, prompt_rows: 0, committed: 1, took: Micros(1_000), purpose });
        }
        assert!((2..=9).contains(&tried), "{tried}");
    }

    #[test]
    fn a_long_text_is_read_for_a_long_answer_alone() {
        let mut gate = gate(SpeculationPolicy::Gain);
        assert!(gate.drafts(1, &[wanting(0.9)], None) > 0);
        let of = |unread, left| Wanting { unread, left, ..wanting(0.9) };
        // 800 tokens are read in the time of 100 drafts, 10 plain passes: what 16 tokens save at twice the speed.
        assert!(gate.drafts(1, &[of(800, 200)], Some(100.0)) > 0);
        assert_eq!(gate.drafts(1, &[of(800, 8)], Some(100.0)), 0);
        assert_eq!(gate.drafts(1, &[of(30_000, 200)], Some(100.0)), 0);
    }

    #[test]
    fn tries_lose_no_more_than_their_share() {
        let mut gate = gate(SpeculationPolicy::Gain);
        let long = Wanting { unread: 4_000, ..wanting(0.5) };
        assert_eq!(gate.drafts(1, &[long], None), 0, "reading it would take 500 plain passes");
        gate.note_assisting(Micros(500_000));
        let purpose = Purpose::Plain;
        gate.note_pass(&Pass { sequences: 1, rows: 1, prompt_rows: 0, committed: 1, took: Micros(1_000), purpose });
        assert!(gate.ledger.forbids(0.0, 1_000.0), "what drafts took counts as lost");
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
            assert_eq!(gate(policy).drafts(1, &[told], Some(1e9)), drafted, "{policy:?}");
        }
        let mut depends = gate(SpeculationPolicy::Force);
        depends.rows_depend();
        assert_eq!(depends.drafts(1, &[told], Some(1.0)), 0);
    }
}
