//! A load for the simulator: who sends what, how fast it is computed, and the scheduler's settings to try.

use super::adaptive::AdaptiveSettings;
use super::spread::Spread;
use crate::control::Op;

/// A load.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub name: String,
    pub description: String,
    pub duration_s: f64,
    pub warm_up_s: f64,
    pub seed: u64,
    /// Ends the run after so many batches.
    pub batches: Option<u64>,
    pub clips: LaneService,
    pub recordings: LaneService,
    pub clients: Vec<ClientClass>,
    /// Tried side by side; never empty.
    pub settings: Vec<SchedulerSettings>,
}

/// How long a lane's batches take: overhead + items × item time + cost ÷ rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneService {
    pub overhead_ms: f64,
    pub item_ms: f64,
    /// Seconds of audio, or tokens, per second.
    pub rate: f64,
}

/// Clients that behave alike.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientClass {
    pub name: String,
    pub op: Op,
    pub arrivals: ArrivalPattern,
    /// Seconds of audio or tokens of text.
    pub length: Spread,
    pub start_s: f64,
    pub requests: Option<u64>,
    pub timeout_s: Option<f64>,
    pub retries: u64,
}

/// When requests come.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrivalPattern {
    /// Each client waits for its answer, thinks, and sends again.
    Closed { clients: u64, think_s: Spread },
    /// So many per second, whatever happens to those before.
    Open { per_s: f64, poisson: bool },
}

/// The scheduler's settings of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerSettings {
    pub name: String,
    /// Absent = the default of the operation's former.
    pub max_batch_cost: Option<u64>,
    pub max_batch_requests: usize,
    pub wait_ms: f64,
    pub coalesce_ms: f64,
    pub coalesce_ratio: f64,
    pub idle_bypass: bool,
    pub depth: usize,
    /// Windows that a recording runs before it is put aside; absent = to its end.
    pub slice_windows: Option<usize>,
    /// The recordings' part of the engine's time while clips wait too.
    pub recordings_share: f64,
    /// Whether clips that a turn passed over stay owed when no recording is left.
    pub keep_owed: bool,
    /// Whether a clip that a turn passed over goes first in the next: an experiment, no engine has it off.
    pub owed: bool,
    /// What moves the caps while it runs.
    pub adaptive: AdaptiveSettings,
}
