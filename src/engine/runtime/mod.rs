//! The runtime: threads that run models, and the handle that doors hold.
//!
//! One OS thread per loaded model owns its weights and its former and takes commands from a bounded channel. Doors hold
//! an [`Engine`] and get a [`Ticket`] per request; dropping a ticket cancels the request. A panic in one request is
//! contained by its worker and answered as an internal fault.

pub mod engine;
pub mod job;
pub mod ticket;

pub use engine::{Engine, ModelHandle};
pub use job::{
    EmbedJob, Embedded, FinishReason, GenerateJob, GenerationEvent, JobTimes, RerankJob, Reranked, Sampling,
    TokenLogprob, TranscribeJob, TranscriptEvent,
};
pub use ticket::{RequestId, Ticket};
