//! The routes' handlers: one file per route, or a folder where a route needs more.

pub(super) mod arrivals;
pub(super) mod audio;
pub(super) mod chat;
pub(super) mod commits;
pub(super) mod completions;
pub(super) mod control;
pub(super) mod embeddings;
mod generate;
pub(super) mod models;
mod neutral;
mod options;
pub(super) mod probes;
pub(super) mod requests;
pub(super) mod rerank;
pub(super) mod settings;
mod texts;

#[cfg(test)]
pub(super) mod tests;

use std::time::Duration;

/// How long the head of a stream is held back for the first event: a fault in that time is answered with its status
/// instead of an error frame after a 200.
const HEAD_HOLD: Duration = Duration::from_secs(2);
