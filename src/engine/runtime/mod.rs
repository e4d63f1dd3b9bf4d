//! The runtime: threads that run models, and the handle that doors hold.
//!
//! Doors hold an [`Engine`] and get a [`Ticket`] per request; dropping a ticket cancels the request. Work goes to the
//! model's worker through a bounded channel; when that is full the request is refused like one that meets a full queue.
//!
//! A batch model has a worker of two threads: a dispatcher that owns the formers and never runs model code, so that
//! cancellation, deadlines and the snapshot never wait for a window, and a runner that owns the weights (no lock around
//! a model). A generation model has one thread, which plans each iteration itself ([`generation`]). On a shared device
//! they take turns, step by step ([`DeviceSlot`]).
//!
//! What an operator may change while it runs has its owner in [`settings`]; workers take it between two batches.
//!
//! Shared by all of them, without blocking: [`Shared`] (clock, request registry, metrics, recorder of
//! arrivals, limits). A request inside the
//! engine is a [`Live`] value; whoever owns it ends it, once. A panic in one request is contained by its runner and
//! answered as an internal fault; the others in its batch are run again without it.

mod batch;
pub mod clock;
pub mod commits;
pub mod device;
pub mod engine;
pub mod events;
pub mod generation;
mod handle;
mod hands;
mod host;
pub mod job;
pub mod live;
mod lookout;
pub mod metrics;
mod pace;
mod probe;
mod progress;
pub mod receipts;
pub mod recorder;
pub mod registry;
pub mod settings;
pub mod shared;
mod snapshot;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod ticket;

pub use batch::Retune;
pub use clock::Clock;
pub use commits::{CommitFeed, CommitHub};
pub use device::{DeviceGuard, DeviceSlot};
pub use engine::{Engine, Loader, LogSwitch, ModelFiles, not_alive};
pub use events::{EventSink, events};
pub use handle::ModelHandle;
pub use job::{
    Caller, EmbedJob, Embedded, FinishReason, GenerateJob, GenerationEvent, GenerationTimes, JobTimes, RerankJob,
    Reranked, Sampling, TokenLogprob, TranscribeJob, TranscriptEvent,
};
pub use live::Live;
pub use recorder::{Recorder, Recording};
pub use settings::Settings;
pub use shared::Shared;
pub use ticket::{CancelFlag, RequestId, Ticket};
