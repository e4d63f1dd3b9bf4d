//! The snapshot: one JSON document (`lanekeeper.snapshot/1`) that console, CLI and API all read.
//!
//! Numbers carry their unit in the name; an absent field is unknown, never zero. It never holds request text, audio
//! or keys. Unknown fields of a newer engine are kept in `extra` where a client may have to pass them on.

mod scheduling;

pub use scheduling::{CapMoved, Controller, EstimateError, Owed, Pace, Service, Turn};

use super::changes::{Entry, Override};
use super::speculation::SpeculationView;
use super::{Lane, Op, WaitCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every snapshot carries.
pub const SCHEMA: &str = "lanekeeper.snapshot/1";

/// Everything the engine shows, at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// The engine's name (the box profile's name unless set).
    pub node: String,
    /// Version of the engine binary.
    pub version: String,
    /// Process id of the engine.
    pub pid: u32,
    /// Rises by one with each snapshot taken.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// Time since the engine started.
    pub uptime_ms: u64,
    /// Revision of the settings; rises with each change.
    pub revision: u64,
    pub state: EngineState,
    /// Why the state is not `ready`; empty when it is.
    pub reasons: Vec<String>,
    /// Whether what waits gets on, lane by lane.
    #[serde(default)]
    pub progress: Vec<LaneProgress>,
    pub host: Host,
    pub devices: Vec<Device>,
    pub models: Vec<Model>,
    pub generation: Vec<Generation>,
    pub requests: Requests,
    /// Live settings that hold, with what is left of their leases.
    #[serde(default)]
    pub overrides: Vec<Override>,
    /// The last changes of settings, newest last.
    #[serde(default)]
    pub journal_tail: Vec<Entry>,
    pub dropped: Dropped,
    /// Fields of a newer engine that this build does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// How a lane gets on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneProgress {
    /// `MODEL.OP.LANE`; of generations `MODEL.generate`.
    pub name: String,
    pub model: String,
    pub op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// Requests that could be started: none that an operator holds.
    pub waiting: u64,
    /// Milliseconds ago that some of its work was last started; absent = none ever was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_start_ago_ms: Option<f64>,
    /// For how long it has been stuck: work waits that could be started, and is not. Absent = it is not stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck_ms: Option<f64>,
    /// The first request that waits, while it is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What is seen of it, in words, while it is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The engine's life stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineState {
    Starting,
    Ready,
    Degraded,
    Draining,
    Stopped,
}

impl EngineState {
    pub fn name(self) -> &'static str {
        match self {
            EngineState::Starting => "starting",
            EngineState::Ready => "ready",
            EngineState::Degraded => "degraded",
            EngineState::Draining => "draining",
            EngineState::Stopped => "stopped",
        }
    }
}

/// Facts about the machine, read from the operating system.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    pub cpu_threads: u32,
    /// Resident memory of the engine process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available_bytes: Option<u64>,
    /// One-minute load average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_1m: Option<f64>,
}

/// A compute device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// `cpu`, `cuda:0`, `metal:0`.
    pub id: String,
    /// What it is, in words (the CPU kernels in use, the GPU's name).
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// The models whose work is on the device now, joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Models that may use it at once.
    #[serde(default)]
    pub places: u64,
    /// The models that stand in line for it, the next one first.
    #[serde(default)]
    pub waiting: Vec<DeviceWait>,
}

/// A model that stands in line for a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceWait {
    pub model: String,
    pub waited_ms: f64,
    /// Its weight: its wait counts so many times.
    pub weight: u64,
}

/// One served model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    pub id: String,
    /// `whisper`, `llama`, `bert`.
    pub family: String,
    pub ops: Vec<Op>,
    pub state: ModelState,
    /// Device id the weights are on.
    pub device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_bytes: Option<u64>,
    /// One former per operation; empty for generation.
    pub queues: Vec<Queue>,
}

/// Where a model is in its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ModelState {
    Unloaded,
    Loading { done_ratio: f64 },
    Ready,
    Failed { why: String },
}

impl ModelState {
    pub fn name(&self) -> &'static str {
        match self {
            ModelState::Unloaded => "unloaded",
            ModelState::Loading { .. } => "loading",
            ModelState::Ready => "ready",
            ModelState::Failed { .. } => "failed",
        }
    }
}

/// The batch former of one (model, op): its lanes, caps, running and recent batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    pub op: Op,
    pub lanes: Vec<LaneView>,
    /// Windows of 30 s that a recording runs before it is put aside; absent where it runs to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_windows: Option<u64>,
    pub caps: Caps,
    #[serde(default)]
    pub controller: Controller,
    /// Whose turn it is; absent while there are no turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// What would be extracted now, and why; absent when nothing is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    pub inflight: Vec<InflightBatch>,
    /// The last batches, newest last, at most 32.
    pub recent: Vec<RecentBatch>,
    pub latency: Latency,
    pub counters: Counters,
}

/// One lane of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneView {
    pub lane: Lane,
    pub paused: bool,
    /// Its part of the engine's time while the other lane waits too; absent where the lanes take turns one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Requests that have not started.
    pub pending: u64,
    /// Requests that an operator holds: neither pending nor put aside until they are let go.
    #[serde(default)]
    pub held: u64,
    /// Recordings that have started and wait for their next slice.
    #[serde(default)]
    pub put_aside: u64,
    /// Sum of the pending items' costs, in the operation's unit.
    pub cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_wait_ms: Option<f64>,
    /// Requests that have started and not ended, those put aside included.
    pub running: u64,
    pub served: u64,
    pub cancelled: u64,
    pub expired: u64,
    pub failed: u64,
    /// Model time spent on it since the start.
    #[serde(default)]
    pub engine_ms: f64,
    /// How long its batches take; absent until one was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// How good the estimates of its waits were; absent until one was scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_error: Option<EstimateError>,
    /// How it did of late.
    #[serde(flatten)]
    pub pace: Pace,
}

/// The caps that bound one batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Caps {
    /// What binds now: the smallest of the cost cap and the hard caps.
    pub max_batch_cost_effective: u64,
    pub max_batch_cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_cost_hard: Option<u64>,
    /// The range that the controller may move the cost cap in, and where it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_cost_floor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_cost_start: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_cost_ceiling: Option<u64>,
    /// Which layer the cost cap comes from: `profile`, `model`, `environment`, `default`, or what moved it.
    pub max_batch_cost_source: String,
    pub max_batch_requests: u64,
    pub wait_ms: f64,
    /// The range that the controller moves the wait in, and where it began; absent where nothing can move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_floor_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_start_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ceiling_ms: Option<f64>,
    pub coalesce_ms: f64,
    /// Batches that may be in flight at once.
    pub depth: u64,
    /// Requests that may wait here before new ones are refused with 429.
    pub max_queue: u64,
}

/// What the former would extract now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Next {
    pub lane: Lane,
    /// The flush reason, or the window that is still open.
    pub why: String,
    /// Why it is this lane that goes; absent where there is one lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_why: Option<String>,
    pub items: u64,
    pub cost: u64,
    /// Windows that the recording may run; absent for clips, and where it runs to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
}

/// A batch that runs now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InflightBatch {
    pub batch: u64,
    pub lane: Lane,
    pub items: u64,
    pub cost: u64,
    /// Milliseconds since it started.
    pub running_ms: f64,
    /// Estimated whole run time, from measured batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_ms: Option<f64>,
    /// Windows that a recording runs in it at most; absent for clips, and where it runs to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// The turn of clips that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
}

/// A batch that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecentBatch {
    pub batch: u64,
    pub lane: Lane,
    /// The flush reason it was formed for.
    pub why: String,
    pub items: u64,
    pub cost: u64,
    /// Its cost over the cap at that time.
    pub fill_ratio: f64,
    /// The longest wait of an item in it.
    pub queue_ms: f64,
    pub run_ms: f64,
    pub outcome: Outcome,
    /// Milliseconds ago that it ended.
    pub ended_ago_ms: f64,
    /// Whether it was a slice of a recording that goes on later.
    #[serde(default)]
    pub put_aside: bool,
    /// The turn of clips that it belonged to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
}

/// How a batch or a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Served,
    Cancelled,
    Expired,
    Failed,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Served => "served",
            Outcome::Cancelled => "cancelled",
            Outcome::Expired => "expired",
            Outcome::Failed => "failed",
        }
    }
}

/// Latency over a window of recent requests; absent until there is one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_p50_ms: Option<f64>,
    /// Requests in the window.
    pub window: u64,
}

/// Totals since start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    pub submitted: u64,
    pub served: u64,
    pub cancelled: u64,
    pub expired: u64,
    pub failed: u64,
    /// Refused because the queue was full.
    pub refused: u64,
    pub batches: u64,
    /// Cost of everything served.
    pub cost_served: u64,
    /// Model time spent, in milliseconds.
    pub run_ms: u64,
}

/// One generation model's iteration scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generation {
    pub model: String,
    pub slots: u64,
    pub slots_used: u64,
    pub active: Vec<ActiveSequence>,
    pub queued: u64,
    pub max_queue: u64,
    /// Tokens of running sequences in the KV cache.
    pub kv_used_tokens: u64,
    /// Tokens that idle slots keep for requests that begin alike. They count as free: they go when room is needed.
    #[serde(default)]
    pub kv_cached_tokens: u64,
    pub kv_capacity_tokens: u64,
    /// Tokens per second over the last seconds; absent when idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_tokens_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_tokens_per_s: Option<f64>,
    pub iterations: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Prompt tokens that were found in the KV cache instead of being computed.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Times that a sequence lost its slot to older ones and was read again.
    #[serde(default)]
    pub preemptions: u64,
    /// KV rewinds that failed; the slot was read again.
    #[serde(default)]
    pub failed_rewinds: u64,
    /// Absent where nobody speculates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationView>,
    /// How it did of late.
    #[serde(flatten)]
    pub pace: Pace,
    pub latency: Latency,
    pub counters: Counters,
}

/// A sequence that holds a generation slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActiveSequence {
    pub request: String,
    pub slot: u64,
    pub prompt_tokens: u64,
    /// Prompt tokens already in the KV cache.
    pub prefilled_tokens: u64,
    /// Prompt tokens that were in it already when the sequence started.
    #[serde(default)]
    pub cached_tokens: u64,
    pub generated_tokens: u64,
    pub max_tokens: u64,
    /// Times that it lost its slot to older sequences.
    #[serde(default)]
    pub preempted: u64,
    /// Tokens that were proposed for it and verified, and of these the ones that it emitted.
    #[serde(default)]
    pub drafted_tokens: u64,
    #[serde(default)]
    pub accepted_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
}

/// The requests in the engine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Requests alive now.
    pub total: u64,
    /// The shown ones: running first, then oldest waiting, then the last that ended.
    pub shown: Vec<Request>,
}

/// One request. Never its text or audio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    pub id: String,
    pub model: String,
    pub op: Op,
    /// Absent for a generation, which takes a slot of its own, and while its audio is being decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    pub state: RequestState,
    /// The label of the key that sent it, or `local`.
    pub client: String,
    /// In the operation's unit; absent while its audio is being decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Time in the queue (so far, or until it started).
    pub queued_ms: f64,
    /// Time running (so far, or until it ended).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_ms: Option<f64>,
    /// Place in its lane, 1 = next; absent while it runs or is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Why it waits, and until when; absent while it runs. A recording that was put aside between two slices waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// How long an operator holds it still; absent where that has no end, and while nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_left_ms: Option<f64>,
    /// Time until its deadline; absent where it has none, or has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_ratio: Option<f64>,
    /// How it ended; present when `state` is `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Milliseconds ago that it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ago_ms: Option<f64>,
}

impl Request {
    /// Its lane's name; its operation's where it is in none.
    pub fn lane_name(&self) -> &'static str {
        self.lane.map_or(self.op.name(), Lane::name)
    }
}

/// Where a request is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    Decoding,
    Queued,
    Running,
    Streaming,
    Done,
}

impl RequestState {
    pub fn name(self) -> &'static str {
        match self {
            RequestState::Decoding => "decoding",
            RequestState::Queued => "queued",
            RequestState::Running => "running",
            RequestState::Streaming => "streaming",
            RequestState::Done => "done",
        }
    }
}

/// Why a request waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    pub code: WaitCode,
    /// What it waits for, in words: the batch, the turn, the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The most turns that can still begin until it is taken, whatever else arrives; absent where there are no turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_left: Option<u64>,
    /// Estimated time until it starts, from measured batch times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_ms: Option<f64>,
}

impl Wait {
    /// A wait of which no more is known.
    pub fn of(code: WaitCode) -> Wait {
        Wait { code, on: None, turns_left: None, estimate_ms: None }
    }
}

/// What observers missed, never what requests lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Dropped {
    pub events: u64,
    pub frames: u64,
}
