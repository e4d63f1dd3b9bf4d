//! The worker of a model that runs batches: transcription, embeddings, rerank.
//!
//! Two threads. The [`dispatcher`] owns the formers (one per operation) and everything that waits; it never runs model
//! code, so it answers a cancellation, a deadline or a drain at once. The [`runner`] owns the weights and gets a batch
//! only when a slot is free (slot first, extraction second). Doors hold a [`BatchWorker`].
//!
//! Channels: commands to the dispatcher (bounded; a door that finds it full refuses like a full queue, and a cancellation
//! that finds it full sets a flag that the dispatcher looks at when it has caught up; the runner waits, the dispatcher
//! never waits for it); batches to the runner (as many places as slots, so it never fills up).

mod dispatcher;
mod door;
mod embed;
mod fault;
mod hands;
mod job;
mod queue;
mod rerank;
mod runner;
mod transcribe;
mod view;

pub(super) use door::{BatchWorker, queue_room};
pub(super) use queue::check;
pub(super) use view::{QueueView, Surroundings, WaitingView, WorkerView};

use crate::control::hands::{RequestPlace, Touch};
use crate::control::snapshot::Outcome;
use crate::control::{Fault, Op};
use crate::engine::runtime::RequestId;
use crate::engine::scheduler::{BatchCaps, ControllerSettings, LaneRules, Micros};
use job::Job;
use std::sync::mpsc::SyncSender;

/// What the dispatcher is told.
enum Command {
    Submit(Box<Job>),
    /// The caller of this request no longer wants it.
    Cancel(RequestId),
    /// The model is loaded, or failed to load: its state says which.
    Loaded,
    /// A batch has ended.
    Ran(Box<Report>),
    /// An operator's hand on one request, whether it is only looked at, and where to say what came of it.
    Touch(RequestId, Touch, bool, SyncSender<Result<Touched, Fault>>),
    /// New settings of one operation.
    Retune(Box<Retune>),
    /// The model's settings have changed: look at them. Without this the dispatcher looks before its next batch.
    Settings,
    /// Answer what waits, start nothing more.
    Drain,
    /// The engine is gone.
    Stop,
}

/// Where a request was, and where it is then.
type Touched = (RequestPlace, RequestPlace);

/// The most batches that may be with the runner at once: the places of its channel.
pub(super) const MAX_DEPTH: usize = 16;

/// New settings of one operation, from the next batch on. What is absent stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Retune {
    pub op: Op,
    /// A live override of the cost cap; `Some(None)` lets it go.
    pub max_cost: Option<Option<u64>>,
    /// What bounds batches beside the cost cap, the hard cap and the window: those are not taken from here.
    pub caps: Option<BatchCaps>,
    /// The controller; with mode `off` its `initial_wait_ms` is the batch window.
    pub controller: Option<ControllerSettings>,
    pub rules: Option<LaneRules>,
    /// Batches in flight at once, of all the model's operations; from 1 to 16.
    pub depth: Option<usize>,
}

/// How a batch ended.
struct Report {
    batch: u64,
    /// Model time, without waiting for the device.
    run: Micros,
    /// Cost of what was computed; 0 = that of the batch.
    computed: u64,
    /// Windows of speech that were run, of all requests.
    windows: u64,
    /// After it ran out of memory: the cost that it was cut down to.
    fits: Option<u64>,
    outcome: Outcome,
    /// Of each request that was served: the time from its submission to its end.
    answered: Vec<Micros>,
    /// Recordings whose slice is over, to go on later.
    put_aside: Vec<Job>,
}
