//! What bounds a batch, and the windows that decide when one is due.

use super::Micros;

/// No batch of audio is dearer than this, whatever the cost cap says (a recording, which runs alone, may be).
pub const AUDIO_HARD_CAP_MS: u64 = 720_000;

/// The cost cap where neither operator, profile nor model names one.
pub const DEFAULT_MAX_BATCH_COST: u64 = 16_384;

/// The count cap where the profile names none.
pub const DEFAULT_MAX_BATCH_REQUESTS: usize = 12;

/// The settings of one former. Any of them may change between two batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchCaps {
    /// Cost of one batch, in the operation's unit.
    pub max_cost: u64,
    /// A cap that no setting lifts (audio); absent = none.
    pub hard_cost: Option<u64>,
    /// Items in one batch; 0 counts as 1, because a former that can take nothing never empties.
    pub max_requests: usize,
    /// How long the oldest item may wait for company. [`Micros::MAX`] = for ever.
    pub wait: Micros,
    /// How long after the last submission a batch goes although the window is still open.
    pub coalesce: Micros,
    /// Upper bound of the coalesce time as a part of the wait window.
    pub coalesce_ratio: f64,
    /// Whether a worker that was idle takes what there is at once.
    pub idle_bypass: bool,
    /// Whether, without recordings, an item that waited for a whole window goes first.
    pub aged_promotion: bool,
}

impl Default for BatchCaps {
    fn default() -> Self {
        BatchCaps {
            max_cost: DEFAULT_MAX_BATCH_COST,
            hard_cost: None,
            max_requests: DEFAULT_MAX_BATCH_REQUESTS,
            wait: Micros(15_000),
            coalesce: Micros(5_000),
            coalesce_ratio: 0.5,
            idle_bypass: false,
            aged_promotion: true,
        }
    }
}

impl BatchCaps {
    /// What binds now: the smaller of the cost cap and the hard cap.
    pub fn effective_cost(&self) -> u64 {
        self.hard_cost.map_or(self.max_cost, |hard| self.max_cost.min(hard))
    }

    /// The count cap, at least 1.
    pub fn count(&self) -> usize {
        self.max_requests.max(1)
    }

    /// The coalesce window that binds: the smaller of its own time and its part of the wait window.
    pub fn coalesce_window(&self) -> Micros {
        if self.wait == Micros::MAX {
            return self.coalesce;
        }
        // `as` saturates and maps NaN to zero: a window is never negative and never overflows.
        self.coalesce.min(Micros((self.wait.0 as f64 * self.coalesce_ratio) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hard_cap_binds_only_below_the_cost_cap() {
        let caps = BatchCaps { max_cost: 2_880_000, hard_cost: Some(AUDIO_HARD_CAP_MS), ..BatchCaps::default() };
        assert_eq!(caps.effective_cost(), 720_000);
        assert_eq!(BatchCaps { max_cost: 4_096, ..caps }.effective_cost(), 4_096);
        assert_eq!(BatchCaps { hard_cost: None, ..caps }.effective_cost(), 2_880_000);
    }

    #[test]
    fn the_coalesce_window_is_the_smaller_of_two() {
        let caps = BatchCaps::default();
        assert_eq!(caps.coalesce_window(), Micros(5_000));
        assert_eq!(BatchCaps { wait: Micros(6_000), ..caps }.coalesce_window(), Micros(3_000));
        assert_eq!(BatchCaps { wait: Micros::ZERO, ..caps }.coalesce_window(), Micros::ZERO);
        assert_eq!(BatchCaps { wait: Micros::MAX, ..caps }.coalesce_window(), Micros(5_000));
        assert_eq!(BatchCaps { coalesce_ratio: f64::NAN, ..caps }.coalesce_window(), Micros::ZERO);
    }
}
