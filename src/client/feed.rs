//! Snapshots as they come, newest wins: what the console and `--watch` are fed from.

use crate::control::Snapshot;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What is known of the engine now.
#[derive(Debug, Clone)]
pub enum FeedState {
    /// Not yet connected, or lost: the last snapshot, if one was seen, and when the next try is.
    Reconnecting { attempt: u32, retry_in: Duration, why: String, last: Option<(Arc<Snapshot>, Instant)> },
    /// Connected; `missed` counts the sequence numbers skipped since the feed began.
    Live { snapshot: Arc<Snapshot>, received: Instant, missed: u64 },
}

/// A live feed of snapshots. Dropping it ends its task.
pub struct Feed {
    pub states: watch::Receiver<FeedState>,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
