//! The scheduler's settings of one run.

use crate::control::Op;
use crate::engine::scheduler::setup::{controller_settings, cost_layers, slice_windows};
use crate::engine::scheduler::{
    AUDIO_HARD_CAP_MS, Adaptive, BatchCaps, ControllerSettings, CostLayers, Former, LaneRules, Layered, Micros,
};
use crate::profile::{Origin, SchedulerSettings};

/// What one run tries.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub name: String,
    /// Beside the window and the cost cap, which are the controller's.
    pub caps: BatchCaps,
    pub rules: LaneRules,
    /// Batches extracted and not ended at once; the device serves one at a time.
    pub depth: usize,
    /// What moves the window and the cost cap, and between which bounds.
    pub controller: ControllerSettings,
    pub cost: CostLayers,
}

/// Settings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting `{name}`: {why}")]
pub struct SettingsFault {
    pub name: String,
    pub why: String,
}

impl Settings {
    /// As the engine sets up a model whose profile says the same.
    pub fn of(settings: &SchedulerSettings) -> Result<Settings, SettingsFault> {
        let fault = |why: String| SettingsFault { name: settings.name.clone(), why };
        let set = settings.max_batch_cost.map(|value| Layered::set(value, Origin::BuiltIn));
        let cost = cost_layers(set, &settings.adaptive);
        cost.range().map_err(|e| fault(e.to_string()))?;
        let controller = controller_settings(&settings.adaptive, settings.wait_ms);
        controller.check().map_err(|e| fault(e.to_string()))?;
        Ok(Settings {
            name: settings.name.clone(),
            caps: BatchCaps {
                max_requests: settings.max_batch_requests,
                coalesce: Micros::from_ms(settings.coalesce_ms),
                coalesce_ratio: settings.coalesce_ratio,
                idle_bypass: settings.idle_bypass,
                ..BatchCaps::default()
            },
            rules: LaneRules {
                slice_windows: slice_windows(settings.slice_windows),
                recordings_share: settings.recordings_share,
                keep_owed: settings.keep_owed,
                owed: settings.owed,
                ..LaneRules::default()
            },
            depth: settings.depth.max(1),
            controller,
            cost,
        })
    }

    /// What decides an operation's caps; `None` where its range is upside down, which [`of`](Self::of) refuses.
    pub(super) fn adaptive(&self) -> Option<Adaptive> {
        Adaptive::new(self.controller, self.cost.clone()).ok()
    }

    /// What bounds an operation's batches beside window and cost cap.
    pub(super) fn caps_of(&self, op: Op) -> BatchCaps {
        BatchCaps { hard_cost: (op == Op::Transcribe).then_some(AUDIO_HARD_CAP_MS), ..self.caps }
    }

    /// A former for an operation.
    pub(super) fn former(&self, op: Op) -> Former {
        let caps = self.caps_of(op);
        let mut former = Former::new(self.adaptive().map_or(caps, |adaptive| adaptive.caps(caps)));
        former.set_rules(self.rules);
        former
    }
}
