//! Speculation as others see it: policies, what a request asks, why the gate is as it is, and a response's timings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Depths that survival is counted for: proposals beyond the eighth token are not told apart.
pub const SURVIVAL_DEPTHS: usize = 8;

/// Who decides whether a model speculates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeculationPolicy {
    /// Never.
    Off,
    /// The published rule: the share of proposals that hold, against the times of a serial and of a verifying step.
    Published,
    /// Whenever something is proposed.
    Force,
    /// When the estimated tokens per second with windows exceed those without, at the load of the moment.
    #[default]
    Gain,
}

impl SpeculationPolicy {
    pub const ALL: [SpeculationPolicy; 4] =
        [SpeculationPolicy::Off, SpeculationPolicy::Published, SpeculationPolicy::Force, SpeculationPolicy::Gain];

    pub fn name(self) -> &'static str {
        match self {
            SpeculationPolicy::Off => "off",
            SpeculationPolicy::Published => "published",
            SpeculationPolicy::Force => "force",
            SpeculationPolicy::Gain => "gain",
        }
    }
}

/// What one request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeculationChoice {
    /// No windows for this request.
    Off,
    /// As the model's policy decides.
    #[default]
    Auto,
    /// A window whenever something is proposed, unless the model's policy is `off`.
    Force,
}

impl SpeculationChoice {
    pub const ALL: [SpeculationChoice; 3] = [SpeculationChoice::Off, SpeculationChoice::Auto, SpeculationChoice::Force];

    pub fn name(self) -> &'static str {
        match self {
            SpeculationChoice::Off => "off",
            SpeculationChoice::Auto => "auto",
            SpeculationChoice::Force => "force",
        }
    }
}

/// Why the gate is open or shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateCode {
    RowsDepend,
    PolicyOff,
    PolicyForce,
    RequestOff,
    RequestForce,
    Unmeasured,
    Exploring,
    PredictedGain,
    PredictedLoss,
    MeasuredLoss,
    NothingProposed,
    TooFewObservations,
    AcceptanceHigh,
    AcceptanceLow,
}

impl GateCode {
    /// The name used in snapshots and scripts.
    pub fn name(self) -> &'static str {
        match self {
            GateCode::RowsDepend => "rows_depend",
            GateCode::PolicyOff => "policy_off",
            GateCode::PolicyForce => "policy_force",
            GateCode::RequestOff => "request_off",
            GateCode::RequestForce => "request_force",
            GateCode::Unmeasured => "unmeasured",
            GateCode::Exploring => "exploring",
            GateCode::PredictedGain => "predicted_gain",
            GateCode::PredictedLoss => "predicted_loss",
            GateCode::MeasuredLoss => "measured_loss",
            GateCode::NothingProposed => "nothing_proposed",
            GateCode::TooFewObservations => "too_few_observations",
            GateCode::AcceptanceHigh => "acceptance_high",
            GateCode::AcceptanceLow => "acceptance_low",
        }
    }

    /// What is going on, in one sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            GateCode::RowsDepend => {
                "this device may compute a row otherwise beside other rows, so that windows could change an answer"
            }
            GateCode::PolicyOff => "the model's speculation policy is off",
            GateCode::PolicyForce => "the model's policy verifies whatever is proposed",
            GateCode::RequestOff => "the request asked for no speculation",
            GateCode::RequestForce => "the request asked for speculation whatever it gains",
            GateCode::Unmeasured => "the cost of a step with windows has not been measured yet",
            GateCode::Exploring => "a small share of steps measures again what windows cost",
            GateCode::PredictedGain => "at the measured step costs, what is proposed is expected to pay",
            GateCode::PredictedLoss => "too little of what is proposed holds to pay for the rows that verify it",
            GateCode::MeasuredLoss => "windows were expected to pay, but were slower than plain steps",
            GateCode::NothingProposed => "the text repeats nothing that a proposal could be copied from",
            GateCode::TooFewObservations => "the published rule has not seen enough proposals to judge",
            GateCode::AcceptanceHigh => "the share of proposals that hold is above the published rule's bound",
            GateCode::AcceptanceLow => "the share of proposals that hold is below the published rule's bound",
        }
    }
}

/// A decision of the gate, with its reason and its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateVerdict {
    /// Whether windows are verified.
    pub on: bool,
    pub because: GateCode,
    /// Expected tokens per second with windows over those without; absent = not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_gain: Option<f64>,
    /// The same, measured over the last steps that carried windows; absent = none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_gain: Option<f64>,
}

impl GateVerdict {
    /// `on` or `off`.
    pub fn state(&self) -> &'static str {
        if self.on { "on" } else { "off" }
    }
}

/// How many proposals reached a depth, and how many held to it. Index 0 is depth 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DepthCounts {
    pub eligible: [u64; SURVIVAL_DEPTHS],
    pub survived: [u64; SURVIVAL_DEPTHS],
}

impl DepthCounts {
    /// The share that held to `depth` (from 1); `None` when none was eligible.
    pub fn rate(&self, depth: usize) -> Option<f64> {
        let i = depth.checked_sub(1)?;
        let eligible = *self.eligible.get(i)?;
        (eligible > 0).then(|| self.survived[i] as f64 / eligible as f64)
    }

    /// Counts one proposal of `proposed` tokens of which the first `survived` held.
    pub fn count(&mut self, proposed: usize, survived: usize) {
        for i in 0..proposed.min(SURVIVAL_DEPTHS) {
            self.eligible[i] += 1;
            self.survived[i] += u64::from(survived > i);
        }
    }

    pub fn add(&mut self, other: &DepthCounts) {
        for i in 0..SURVIVAL_DEPTHS {
            self.eligible[i] += other.eligible[i];
            self.survived[i] += other.survived[i];
        }
    }
}

/// Survival by the source of the proposal: the model's own heads or a draft model, and copies from the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SurvivalCounts {
    pub native: DepthCounts,
    pub tail: DepthCounts,
}

impl SurvivalCounts {
    pub fn add(&mut self, other: &SurvivalCounts) {
        self.native.add(&other.native);
        self.tail.add(&other.tail);
    }
}

/// What speculation did for one response.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SpeculationTally {
    /// Tokens proposed in verified windows.
    pub draft_n: u64,
    /// Of those, tokens that the model emitted itself.
    pub draft_n_accepted: u64,
    pub windows: u64,
    /// Sum of the windows' widths: with `windows` it gives the mean.
    #[serde(skip)]
    pub width_sum: u64,
    pub width_max: u64,
    /// Most windows under way at once.
    pub in_flight_max: u64,
    /// Windows that were sent behind one that diverged.
    pub stale_discarded: u64,
    pub survival: SurvivalCounts,
}

impl SpeculationTally {
    /// Mean width of a window; `None` without one.
    pub fn width_mean(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.width_sum as f64 / self.windows as f64)
    }

    /// The part of proposed tokens that held; `None` when none was proposed.
    pub fn accept_ratio(&self) -> Option<f64> {
        (self.draft_n > 0).then(|| self.draft_n_accepted as f64 / self.draft_n as f64)
    }

    pub fn add(&mut self, other: &SpeculationTally) {
        self.draft_n += other.draft_n;
        self.draft_n_accepted += other.draft_n_accepted;
        self.windows += other.windows;
        self.width_sum += other.width_sum;
        self.width_max = self.width_max.max(other.width_max);
        self.in_flight_max = self.in_flight_max.max(other.in_flight_max);
        self.stale_discarded += other.stale_discarded;
        self.survival.add(&other.survival);
    }
}

/// What speculation did for one response, as its `timings` tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeculationReport {
    #[serde(flatten)]
    pub tally: SpeculationTally,
    pub policy: SpeculationPolicy,
    /// The gate's verdict for this request when it ended.
    pub gate: GateVerdict,
}

/// The speculative path of a generation model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeculationView {
    pub policy: SpeculationPolicy,
    /// Where proposals come from.
    pub proposer: String,
    /// Who drafts what the text does not repeat; absent where the profile names nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftModelView>,
    #[serde(flatten)]
    pub gate: GateVerdict,
    /// Narrowest and widest window.
    pub width_min: u64,
    pub width_max: u64,
    /// Windows of one sequence that may be under way at once.
    pub depth: u64,
    /// Sequences that are told to speculate or not by their request.
    pub forced: u64,
    pub opted_out: u64,
    /// The last windows, at most 512.
    pub recent: SpeculationTally,
    /// Mean width of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_mean: Option<f64>,
    /// The part of their proposed tokens that held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_ratio: Option<f64>,
    /// Since start.
    pub totals: SpeculationTotals,
    /// Times that the gate turned, since start.
    pub turns: u64,
    pub self_check: SelfCheckView,
}

/// A model that drafts for another, or a model's own head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DraftModelView {
    /// The draft model's name, or `mtp head`.
    pub model: String,
    /// Whether it still drafts. It is turned off for good when it fails; answers go on without it.
    pub on: bool,
    /// Why it was turned off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Passes that it ran, and tokens that it drafted, since start.
    pub passes: u64,
    pub tokens: u64,
    /// Milliseconds of one of its passes over the sequences of the last one; absent = not measured yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_ms: Option<f64>,
    pub failures: u64,
}

/// Counts since start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SpeculationTotals {
    pub windows: u64,
    pub drafted: u64,
    pub accepted: u64,
    /// Windows that were sent behind one that diverged.
    pub stale: u64,
}

/// Answers that were made with windows and computed again without.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheckView {
    pub checked: u64,
    /// Of these, the ones that came out differently. Anything but 0 is a fault of the engine.
    pub differed: u64,
    /// Answers whose turn to be checked has not come, or that were given up for others.
    pub waiting: u64,
    pub skipped: u64,
    /// The last differences, newest last, at most 16.
    pub differences: Vec<SelfCheckDifference>,
}

/// Where an answer came out differently. Never its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheckDifference {
    pub request: String,
    /// The first token of the answer that differs, from 0.
    pub at: u64,
    /// Tokens of the answer.
    pub of: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_absent_where_nothing_was_eligible() {
        let mut counts = DepthCounts::default();
        assert_eq!(counts.rate(1), None);
        counts.count(3, 2);
        counts.count(2, 0);
        assert_eq!(
            [counts.rate(1), counts.rate(2), counts.rate(3), counts.rate(4)],
            [Some(0.5), Some(0.5), Some(0.0), None]
        );
        assert_eq!((counts.rate(0), counts.rate(99)), (None, None));
    }

    #[test]
    fn proposals_deeper_than_the_counts_are_cut() {
        let mut counts = DepthCounts::default();
        counts.count(40, 40);
        assert_eq!(counts.eligible, [1; SURVIVAL_DEPTHS]);
        assert_eq!(counts.survived, [1; SURVIVAL_DEPTHS]);
    }
}
