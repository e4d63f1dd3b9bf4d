//! Recorded arrivals: one JSON document (`lanekeeper.arrivals/1`) of what was asked of an engine, when, and how long it
//! took. `record` writes it, `simulate --trace` replays it. It never holds text, audio, client names or keys.

use super::snapshot::{Caps, Outcome};
use super::{Lane, Op};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every document carries.
pub const SCHEMA: &str = "lanekeeper.arrivals/1";

/// What arrived at an engine in a span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arrivals {
    /// [`SCHEMA`].
    pub schema: String,
    /// The engine's name.
    pub node: String,
    /// Version of the engine binary.
    pub version: String,
    /// Unix time in milliseconds at the end of the span.
    pub at_ms: u64,
    /// Length of the span. Times in this document count from its beginning.
    pub span_ms: f64,
    /// False when the engine had forgotten a part of the span: its memory is bounded.
    pub complete: bool,
    /// How each queue was set at the end of the span.
    pub queues: Vec<RecordedQueue>,
    /// Admitted requests, in the order of their arrival. Refused ones never queued and are not here.
    pub arrivals: Vec<Arrival>,
    /// Batches that ended in the span, in the order of their ends.
    pub batches: Vec<BatchRun>,
}

/// A queue's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedQueue {
    pub model: String,
    pub op: Op,
    pub caps: Caps,
    /// Windows of 30 s that a recording ran before it was put aside; absent where recordings ran to their ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_windows: Option<u64>,
    /// The recordings' part of engine time; absent where it had no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordings_share: Option<f64>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arrival {
    pub at_ms: f64,
    pub model: String,
    pub op: Op,
    pub lane: Lane,
    /// In the operation's unit: milliseconds of audio, or tokens.
    pub cost: u64,
    /// How it ended; absent while it waited or ran at the end of the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Time in the queue, so far if it had not started.
    pub queue_ms: f64,
    /// Time from its start to its end, so far if it had not ended; absent if it had not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<f64>,
    /// Windows of speech that the model ran for it. Absent for text, and for what had not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// Time that the model computed for it: of each window of a batch, its equal part. Absent where `windows` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_ms: Option<f64>,
}

/// A batch that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchRun {
    pub ended_ms: f64,
    pub model: String,
    pub op: Op,
    pub lane: Lane,
    pub items: u64,
    /// Windows of speech that the model ran, of all items; absent for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// Sum of what was run of its items' costs.
    pub cost: u64,
    /// Time that the model computed.
    pub run_ms: f64,
}
