//! The published gate: one number for how often proposals hold, one rule.
//!
//! It opens when `r · D > (1 − r) · max(S, D) · 1.15`, where r is the share of proposals that held in full over the last
//! 8 to 32 observations, D the time of a verifying step and S that of a serial one. For D ≥ S that is r > 0.535 whatever
//! the times are: it never asks how much a window saves.

use std::collections::VecDeque;

/// Observations below which the rule does not judge.
const LEAST: usize = 8;
/// Observations that it looks back over.
const KEPT: usize = 32;
/// By how much a loss counts more than a gain.
const MARGIN: f64 = 1.15;

/// Whether the gate opens at hold share `r`, verify time `d` and serial time `s`.
pub fn opens(r: f64, d: f64, s: f64) -> bool {
    r * d > (1.0 - r) * s.max(d) * MARGIN
}

/// The last proposals: whether they held in full.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    held: VecDeque<bool>,
}

impl Observed {
    pub(super) fn note(&mut self, held: bool) {
        if self.held.len() == KEPT {
            self.held.pop_front();
        }
        self.held.push_back(held);
    }

    /// The share that held; `None` while there are too few.
    pub(super) fn share(&self) -> Option<f64> {
        let n = self.held.len();
        (n >= LEAST).then(|| self.held.iter().filter(|h| **h).count() as f64 / n as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_verify_step_as_long_as_a_serial_one_the_bound_is_the_same_whatever_the_times() {
        for d in [1.0, 20.0, 3_000.0] {
            for s in [0.5, 1.0] {
                assert!(opens(0.536, d, s * d) && !opens(0.534, d, s * d));
            }
        }
    }

    #[test]
    fn a_short_verify_step_asks_for_more() {
        assert!(!opens(0.6, 1.0, 2.0) && opens(0.72, 1.0, 2.0));
        assert!(opens(1.0, 1.0, 1e9) && !opens(0.0, 1.0, 0.0));
    }

    #[test]
    fn it_judges_from_eight_observations_and_forgets_after_thirty_two() {
        let mut o = Observed::default();
        for _ in 0..7 {
            o.note(true);
        }
        assert_eq!(o.share(), None);
        o.note(false);
        assert_eq!(o.share(), Some(7.0 / 8.0));
        for _ in 0..32 {
            o.note(false);
        }
        assert_eq!(o.share(), Some(0.0));
    }
}
