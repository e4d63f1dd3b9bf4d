//! Speaks the contract to a running engine: over its unix socket, or over TCP with a key.
//!
//! Floor 4, beside the doors: it knows `control` and HTTP, nothing of the engine's inside.

pub mod feed;

pub use feed::{Feed, FeedState};
