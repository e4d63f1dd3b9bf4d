//! What a queue's scheduler shows: whose turn it is, what is owed, what moved the caps, and how long work takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a lane did of late: over the last `window_s` seconds. What is not known, since nothing started or ended in that
/// time, is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pace {
    /// Of requests that were served, from admission to their end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// Of requests that started, from admission to their start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p95_ms: Option<f64>,
    /// Requests served per second.
    pub served_per_s: f64,
    /// What they cost per second, in the operation's unit.
    pub cost_per_s: f64,
    /// A minute; less in a younger engine, and where more was served than is remembered.
    pub window_s: f64,
}

/// The turn under way, and what the turns so far left over. Present while recordings are about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// `clips`, `recording` (one, to its end) or `slice` (some windows of one).
    pub kind: String,
    /// Which turn of its lane since the start, from 1.
    pub number: u64,
    /// Milliseconds ago that it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_ago_ms: Option<f64>,
    /// Clips of the turn that are still to be taken.
    pub members_left: u64,
    /// Cost that the turn has taken so far.
    pub served_cost: u64,
    /// Cost that the whole turn may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Clips that a turn passed over, oldest first, at most 32: they go first in the next turns.
    pub owed: Vec<Owed>,
    /// How many are owed in all.
    pub owed_total: u64,
}

/// A clip that a turn passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Owed {
    pub request: String,
    pub cost: u64,
    pub waited_ms: f64,
    /// The most turns of clips that can still begin until it is taken, the one that takes it included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_left: Option<u64>,
}

/// What adapts the caps of a queue, and what moved them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Controller {
    /// `off` or `pi`.
    pub mode: String,
    /// Held by an operator: nothing moves.
    pub frozen: bool,
    /// Whether it has a target.
    pub calibrated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_p50_ms: Option<f64>,
    /// Target minus observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom_ms: Option<f64>,
    /// Mean cost of the last batches over the cap at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill_ratio: Option<f64>,
    /// Accumulated headroom, in ms·s.
    pub integral: f64,
    /// Batches in a row of one request or none.
    pub streak: u64,
    /// Times that it began anew because it had nothing left to lower.
    pub resets: u64,
    /// The last moves of caps, newest last, at most 10.
    pub moves: Vec<CapMoved>,
}

/// A cap that was moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapMoved {
    pub ago_ms: f64,
    /// `max_batch_cost`, `wait_ms`.
    pub knob: String,
    pub from: f64,
    pub to: f64,
    /// Why, in one word: `out_of_memory`, `headroom`, `hold`, …
    pub cause: String,
}

/// How long batches take, as measured: `base_ms` + `item_ms` × requests + `cost_us` × cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    pub base_ms: f64,
    pub item_ms: f64,
    pub cost_us: f64,
    /// Batches that it was measured on.
    pub window: u64,
}

/// How far estimates of waits, given at admission, were from the waits that came.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateError {
    /// Median of |estimated − waited| ÷ waited; waits below 50 ms count as 50 ms.
    pub median_ratio: f64,
    /// Requests that it was measured on.
    pub window: u64,
}
