//! The last windows, summed up.

use super::survival::Retired;
use crate::control::speculation::SpeculationTally;
use std::collections::VecDeque;

/// Windows that are summed.
const KEPT: usize = 512;

/// Sums over the last windows of a model.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    windows: VecDeque<Retired>,
}

impl Recent {
    pub fn note(&mut self, window: Retired) {
        if self.windows.len() == KEPT {
            self.windows.pop_front();
        }
        self.windows.push_back(window);
    }

    /// The sums. Windows of a model in this process go one at a time.
    pub fn tally(&self) -> SpeculationTally {
        let mut tally = SpeculationTally::default();
        for window in &self.windows {
            let width = window.proposed() as u64;
            tally.draft_n += width;
            tally.draft_n_accepted += window.accepted as u64;
            tally.windows += 1;
            tally.width_sum += width;
            tally.width_max = tally.width_max.max(width);
            tally.in_flight_max = 1;
            window.count(&mut tally.survival);
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::super::acceptance::Ending;
    use super::*;

    #[test]
    fn only_the_last_windows_count() {
        let mut recent = Recent::default();
        let of = |accepted| Retired { native: 0, tail: 4, accepted, ending: Ending::Rejected };
        (0..600).for_each(|_| recent.note(of(0)));
        (0..KEPT / 2).for_each(|_| recent.note(of(2)));
        let tally = recent.tally();
        assert_eq!((tally.windows, tally.draft_n, tally.draft_n_accepted), (512, 2_048, 512));
        assert_eq!((tally.width_mean(), tally.accept_ratio()), (Some(4.0), Some(0.25)));
        assert_eq!(tally.survival.tail.rate(1), Some(0.5));
        assert_eq!(Recent::default().tally(), SpeculationTally::default());
    }
}
