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
mod job;
mod rerank;
mod runner;
mod transcribe;
mod view;

pub(super) use door::BatchWorker;
pub(super) use view::{Surroundings, WaitingView, WorkerView};

use crate::control::snapshot::Outcome;
use crate::engine::runtime::RequestId;
use crate::engine::scheduler::Micros;
use job::Job;

/// What the dispatcher is told.
enum Command {
    Submit(Box<Job>),
    /// The caller of this request no longer wants it.
    Cancel(RequestId),
    /// The model is loaded, or failed to load: its state says which.
    Loaded,
    /// A batch has ended.
    Ran(Report),
    /// Answer what waits, start nothing more.
    Drain,
    /// The engine is gone.
    Stop,
}

/// How a batch ended.
struct Report {
    batch: u64,
    /// Model time, without waiting for the device.
    run: Micros,
    outcome: Outcome,
}
