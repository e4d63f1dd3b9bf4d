//! The typed values of a model profile and a box profile, after layering and validation.

use super::adaptive::AdaptiveSettings;
use super::origin::Origin;
use super::speculation::SpeculationSettings;
use crate::control::Op;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Which forward pass a model needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Whisper,
    Llama,
    Bert,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::Whisper => "whisper",
            Family::Llama => "llama",
            Family::Bert => "bert",
        }
    }
}

/// What a file is to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileRole {
    Weights,
    Tokenizer,
    Config,
}

impl FileRole {
    /// Its key under `files`.
    pub fn name(self) -> &'static str {
        match self {
            FileRole::Weights => "weights",
            FileRole::Tokenizer => "tokenizer",
            FileRole::Config => "config",
        }
    }
}

/// One way to get a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `hf:REPO/FILE@REV`
    Hub { repo: String, file: String, revision: String },
    /// `pip:NAME==VERSION#PATH/IN/WHEEL`
    Wheel { name: String, version: String, path: String },
    /// `file:PATH`
    Local { path: PathBuf },
}

/// A file of a model: where it can be had, and what it must hash to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    /// Tried in order. Each entry is a list of parts to concatenate (usually one).
    pub sources: Vec<Vec<Source>>,
    /// Lower-case hex sha256 of the whole file; absent only where the profile says `sha256: unpinned`.
    pub sha256: Option<String>,
}

/// Numeric form the weights are held and multiplied in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DType {
    /// As the file has it; on a CPU, floats of a model that tolerates it become int8.
    #[default]
    Auto,
    F32,
    F16,
    Bf16,
    Int8,
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The first GPU that this build supports, else the CPU.
    #[default]
    Auto,
    Cpu,
    Cuda(usize),
    Metal(usize),
}

/// Where the draft head of a model that generates comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftHead {
    /// The one that this program carries for the model's weights.
    Shipped,
    File(PathBuf),
}

/// Settings of the generation scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerationSettings {
    /// Sequences decoded at once.
    pub slots: usize,
    /// Longest sequence (prompt + answer) in tokens; at most the model's own context.
    pub context_tokens: usize,
    /// KV budget over all slots, in tokens.
    pub kv_tokens: usize,
    /// Tokens of an answer that must fit into the budget, with its prompt, before a request starts.
    pub kv_reserve: usize,
    /// Whether no further request may begin.
    pub paused: bool,
    /// Whether idle slots keep their tokens for requests that begin alike.
    pub prefix_cache: bool,
    /// Requests that may wait for a slot.
    pub queue: usize,
    /// Rows (tokens) in one forward pass.
    pub iteration_tokens: usize,
    /// Prompt tokens of one sequence in one forward pass.
    pub prefill_chunk: usize,
    /// Answer length when the request names none.
    pub default_max_tokens: usize,
    pub speculation: SpeculationSettings,
}

/// A model profile: one servable model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelProfile {
    pub id: String,
    pub family: Family,
    pub ops: Vec<Op>,
    pub description: String,
    pub licence: String,
    pub files: BTreeMap<FileRole, ModelFile>,
    /// Cost budget of one batch, in the unit of the model's operation; absent = the model's own, else 16 384.
    pub max_batch_tokens: Option<u64>,
    /// Where it is set.
    pub budget_origin: Origin,
    /// What adapts the batch window and the cost cap.
    pub adaptive: AdaptiveSettings,
    /// Most requests in one batch; absent = by operation and device.
    pub max_batch_requests: Option<usize>,
    /// The batch window: how long the first item may wait for company.
    pub wait_ms: f64,
    pub coalesce_ms: f64,
    /// Upper bound of the coalesce time as a part of the window.
    pub coalesce_ratio: f64,
    /// Whether a worker that was idle takes what there is at once.
    pub idle_bypass: bool,
    /// Batches in flight at once; absent = by the device.
    pub depth: Option<usize>,
    /// Most times that one step of a request is tried.
    pub max_attempts: usize,
    /// Requests that may wait per operation.
    pub max_queue: usize,
    pub dtype: DType,
    pub device: DeviceChoice,
    /// How often its wait for a shared device counts.
    pub device_weight: u32,
    /// Longest input in tokens (embeddings); at most the model's own limit.
    pub max_input_tokens: Option<usize>,
    /// Whisper: whether windows beyond 30 s are served by seeking.
    pub long_form: bool,
    /// Whisper: windows that a recording runs before it is put aside; absent = to its end.
    pub slice_windows: Option<usize>,
    /// Whisper: the recordings' part of the engine's time while clips wait too.
    pub recordings_share: f64,
    /// Which lanes are held.
    pub clips_paused: bool,
    pub recordings_paused: bool,
    /// Whisper: whether clips that a turn passed over stay owed when no recording is left.
    pub keep_owed: bool,
    /// Whisper: language assumed when the request names none and the model does not detect one.
    pub language: Option<String>,
    /// Present for models that generate.
    pub generation: Option<GenerationSettings>,
    /// A head that drafts for a model that generates.
    pub draft_head: Option<DraftHead>,
    /// The model that drafts for it (`speculation.draft_model`); that one's own is not looked at.
    pub draft: Option<Box<ModelProfile>>,
}

impl ModelProfile {
    /// It and the model that drafts for it: what has to be there to load it.
    pub fn with_draft(&self) -> impl Iterator<Item = &ModelProfile> {
        std::iter::once(self).chain(self.draft.as_deref())
    }

    /// The name that the files of its draft model go by: no model has it, since ids have no slash.
    pub fn draft_files(&self) -> String {
        format!("{}/draft", self.id)
    }
}

/// Where the engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// OpenAI-style HTTP and probes.
    pub http: SocketAddr,
    /// Control socket; absent = `$XDG_RUNTIME_DIR/lanekeeper/<name>.sock`.
    pub control: Option<PathBuf>,
}

/// Limits on audio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AudioLimits {
    /// Longest accepted recording, in seconds of decoded audio.
    pub max_seconds: f64,
    /// Files decoded at once.
    pub decoders: usize,
}

/// Limits of the doors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Largest JSON body in bytes.
    pub json_bytes: usize,
    /// Largest audio upload in bytes.
    pub audio_bytes: usize,
    /// Most texts (or documents) in one request.
    pub max_items: usize,
    pub audio: AudioLimits,
    /// Deadline of a request that names none, in seconds; absent = none.
    pub default_deadline_s: Option<f64>,
    /// A stream whose reader takes nothing for this long is cancelled.
    pub stall_s: f64,
    /// How long a drain waits for running work.
    pub drain_s: f64,
    /// A lane that could admit what waits in it and admits nothing for this long is stuck.
    pub progress_s: f64,
}

/// How much of the past an engine remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Ended requests that snapshots show.
    pub requests: usize,
    /// Arrivals, and as many batches, for replay and for what changes did.
    pub arrivals: usize,
}

/// Console defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Console {
    /// Snapshot interval of `top`.
    pub interval_ms: u64,
    /// `auto`, `dark`, `light`, `safe`, `ansi16`, `none`.
    pub theme: String,
    /// Other looks for labels, as the console reads them; may be empty.
    pub colours: String,
    /// Other keys for actions, as the console reads them; may be empty.
    pub keys: String,
}

/// A box profile: what one machine serves.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxProfile {
    pub name: String,
    pub description: String,
    pub models: Vec<ModelProfile>,
    pub listen: Listen,
    /// File of keys, one per line: `LABEL RIGHT[,RIGHT…] KEY` with rights `serve`, `read`, `control`.
    pub keys_file: Option<PathBuf>,
    /// File that gets a line per generation; absent = none.
    pub receipts_file: Option<PathBuf>,
    /// Threads for CPU model work; absent = the cores this process may use.
    pub cpu_threads: Option<usize>,
    pub limits: Limits,
    /// Whether new work is refused: an operator drains the engine.
    pub draining: bool,
    /// Whether changes of settings are refused.
    pub read_only: bool,
    /// Seconds before and after a change over which its effect is measured.
    pub effect_window_s: f64,
    pub retention: Retention,
    /// What is logged; absent = as the process was told at its start.
    pub log_level: Option<String>,
    pub console: Console,
}
