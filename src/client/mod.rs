//! Speaks the contract to a running engine: over its unix socket, or over TCP with a key.
//!
//! Floor 4, beside the doors: it knows `control` and HTTP, nothing of the engine's inside. A [`Client`] is an address
//! and a key; it holds no connection and no state. A [`Feed`] owns one task that follows the engine's snapshots and
//! reconnects for ever; a [`Tape`] is a recorded session in memory. Every fault is a [`ClientError`], which knows its exit code and, mostly, a way out.

pub mod control;
pub mod error;
pub mod feed;
pub mod http;
pub mod inference;
mod multipart;
pub mod recording;
pub mod sse;
pub mod target;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use control::SnapshotStream;
pub use error::ClientError;
pub use feed::{Feed, FeedState};
pub use http::Client;
pub use inference::{
    Answered, ChatRequest, Embeddings, GenerationPiece, GenerationStream, RankedDocument, Reranking, Transcription,
    TranscriptionStream, Usage,
};
pub use recording::{Moment, SessionWriter, Tape, TapeError};
pub use target::{Key, Target, socket_folder};
