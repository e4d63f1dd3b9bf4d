//! Metrics of the speculative path.

use super::{FloatGauge, ModelLabels, gauge};
use crate::control::Snapshot;
use crate::control::speculation::{DepthCounts, SURVIVAL_DEPTHS};
use crate::engine::scheduler::Micros;
use crate::engine::speculation::survival::Retired;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// Where proposed tokens came from: `native` (the model's own drafts) or `tail` (copies from the text).
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    model: String,
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DepthLabels {
    model: String,
    source: &'static str,
    depth: u64,
}

/// What one model counts as it goes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SpeculationMetrics {
    windows: Counter,
    drafted: [Counter; 2],
    accepted: [Counter; 2],
    turns: Counter,
    checked: Counter,
    differed: Counter,
    draft_passes: Counter,
    draft_seconds: Counter<f64, AtomicU64>,
    draft_failures: Counter,
}

impl SpeculationMetrics {
    /// A window was verified.
    pub fn window(&self, window: &Retired) {
        self.windows.inc();
        let native = window.accepted.min(window.native);
        for (i, (drafted, accepted)) in
            [(window.native, native), (window.tail, window.accepted - native)].into_iter().enumerate()
        {
            self.drafted[i].inc_by(drafted as u64);
            self.accepted[i].inc_by(accepted as u64);
        }
    }

    /// The gate turned on or off.
    pub fn turned(&self) {
        self.turns.inc();
    }

    /// The draft model ran so many passes.
    pub fn drafted(&self, passes: u64, took: Micros) {
        self.draft_passes.inc_by(passes);
        self.draft_seconds.inc_by(took.as_secs());
    }

    /// The draft model failed and was turned off.
    pub fn draft_failed(&self) {
        self.draft_failures.inc();
    }

    /// An answer was computed again without windows.
    pub fn checked(&self) {
        self.checked.inc();
    }

    /// It came out differently.
    pub fn differed(&self) {
        self.differed.inc();
    }
}

/// The families of all models.
#[derive(Debug, Default)]
pub(super) struct SpeculationFamilies {
    windows: Family<ModelLabels, Counter>,
    drafted: Family<SourceLabels, Counter>,
    accepted: Family<SourceLabels, Counter>,
    turns: Family<ModelLabels, Counter>,
    checked: Family<ModelLabels, Counter>,
    differed: Family<ModelLabels, Counter>,
    draft_passes: Family<ModelLabels, Counter>,
    draft_seconds: Family<ModelLabels, Counter<f64, AtomicU64>>,
    draft_failures: Family<ModelLabels, Counter>,
    on: Family<ModelLabels, Gauge>,
    predicted: Family<ModelLabels, FloatGauge>,
    measured: Family<ModelLabels, FloatGauge>,
    survival: Family<DepthLabels, FloatGauge>,
}

impl SpeculationFamilies {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("speculation_windows", "Windows verified", self.windows.clone());
        r.register("speculation_drafted_tokens", "Tokens proposed in windows, by source", self.drafted.clone());
        let help = "Proposed tokens that the model emitted itself, by source";
        r.register("speculation_accepted_tokens", help, self.accepted.clone());
        r.register("speculation_gate_turns", "Times that the gate turned on or off", self.turns.clone());
        let help = "Answers made with windows and computed again without";
        r.register("speculation_self_checks", help, self.checked.clone());
        let help = "Self-checks that came out differently: anything but 0 is a fault of the engine";
        r.register("speculation_self_check_differences", help, self.differed.clone());
        r.register(
            "speculation_draft_passes",
            "Forward passes of the draft model, or runs of the model's own head",
            self.draft_passes.clone(),
        );
        let help = "Time that the draft model or the model's own head computed";
        r.register_with_unit("speculation_draft", help, Unit::Seconds, self.draft_seconds.clone());
        let help = "Times that a draft model or a model's own head failed and was turned off";
        r.register("speculation_draft_failures", help, self.draft_failures.clone());
        r.register("speculation_on", "1 when the gate is open", self.on.clone());
        let help = "Expected tokens per second with windows over those without";
        r.register("speculation_predicted_gain_ratio", help, self.predicted.clone());
        let help = "Measured tokens per second with windows over those without, over the last windows";
        r.register("speculation_measured_gain_ratio", help, self.measured.clone());
        let help = "Part of the last proposals that held to a depth, by source";
        r.register("speculation_survival_ratio", help, self.survival.clone());
    }

    pub(super) fn of(&self, model: &str) -> SpeculationMetrics {
        let labels = ModelLabels { model: model.to_string() };
        let source = |source| SourceLabels { model: model.to_string(), source };
        let both = |f: &Family<SourceLabels, Counter>| ["native", "tail"].map(|s| f.get_or_create_owned(&source(s)));
        SpeculationMetrics {
            windows: self.windows.get_or_create_owned(&labels),
            drafted: both(&self.drafted),
            accepted: both(&self.accepted),
            turns: self.turns.get_or_create_owned(&labels),
            checked: self.checked.get_or_create_owned(&labels),
            differed: self.differed.get_or_create_owned(&labels),
            draft_passes: self.draft_passes.get_or_create_owned(&labels),
            draft_seconds: self.draft_seconds.get_or_create_owned(&labels),
            draft_failures: self.draft_failures.get_or_create_owned(&labels),
        }
    }

    /// Sets the gauges; what is unknown has no line.
    pub(super) fn set(&self, snapshot: &Snapshot) {
        for generation in &snapshot.generation {
            let Some(view) = &generation.speculation else { continue };
            let labels = ModelLabels { model: generation.model.clone() };
            self.on.get_or_create(&labels).set(gauge(u64::from(view.gate.on)));
            for (family, gain) in
                [(&self.predicted, view.gate.predicted_gain), (&self.measured, view.gate.measured_gain)]
            {
                match gain {
                    Some(gain) => drop(family.get_or_create(&labels).set(gain)),
                    None => drop(family.remove(&labels)),
                }
            }
            let survival = &view.recent.survival;
            self.set_survival(&generation.model, "native", &survival.native);
            self.set_survival(&generation.model, "tail", &survival.tail);
        }
    }

    fn set_survival(&self, model: &str, source: &'static str, counts: &DepthCounts) {
        for depth in 1..=SURVIVAL_DEPTHS {
            let labels = DepthLabels { model: model.to_string(), source, depth: depth as u64 };
            match counts.rate(depth) {
                Some(rate) => drop(self.survival.get_or_create(&labels).set(rate)),
                None => drop(self.survival.remove(&labels)),
            }
        }
    }
}
