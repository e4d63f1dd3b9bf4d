//! The scheduler's settings of one run.

use crate::control::Op;
use crate::engine::scheduler::{
    AUDIO_HARD_CAP_MS, BatchCaps, DEFAULT_MAX_BATCH_COST, Former, LaneRules, Micros, SliceWindows,
};
use crate::profile::SchedulerSettings;

/// What one run tries.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub name: String,
    pub caps: BatchCaps,
    pub rules: LaneRules,
    /// Batches extracted and not ended at once; the device serves one at a time.
    pub depth: usize,
}

impl Settings {
    /// As the engine sets up a model whose profile says the same.
    pub fn of(settings: &SchedulerSettings) -> Settings {
        let caps = BatchCaps {
            max_cost: settings.max_batch_cost.unwrap_or(DEFAULT_MAX_BATCH_COST),
            max_requests: settings.max_batch_requests,
            wait: Micros::from_ms(settings.wait_ms),
            coalesce: Micros::from_ms(settings.coalesce_ms),
            ..BatchCaps::default()
        };
        let rules = LaneRules {
            slice_windows: settings.slice_windows.and_then(SliceWindows::windows).unwrap_or_default(),
            recordings_share: settings.recordings_share,
            keep_owed: settings.keep_owed,
            owed: settings.owed,
            ..LaneRules::default()
        };
        Settings { name: settings.name.clone(), caps, rules, depth: settings.depth.max(1) }
    }

    /// A former for an operation.
    pub(super) fn former(&self, op: Op) -> Former {
        let hard_cost = (op == Op::Transcribe).then_some(AUDIO_HARD_CAP_MS);
        let mut former = Former::new(BatchCaps { hard_cost, ..self.caps });
        former.set_rules(self.rules);
        former
    }
}
