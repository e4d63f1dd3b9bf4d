//! Who generates what, for observers: a bounded channel that never holds a generation up.
//!
//! Generation threads send, any number of observers take. The channel keeps the last [`KEPT`] frames; an observer that
//! is further behind loses the oldest and is told how many ([`CommitFrame::Gap`]). While nobody observes nothing is made.

use super::clock::unix_ms;
use super::ticket::RequestId;
use crate::control::commits::{CommitFrame, CommitKey};
use crate::engine::speculation::commits::{Commit, CommitSettings, CommitSink, Terminal};
use crate::engine::speculation::lifecycle::Lifecycle;
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

/// Frames that an observer may be behind.
const KEPT: usize = 1_024;

/// Where frames go. One per engine.
#[derive(Debug)]
pub struct CommitHub {
    frames: broadcast::Sender<Arc<CommitFrame>>,
    session: String,
    counts: CommitCounts,
}

/// What the hub counts, as the metrics show it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct CommitCounts {
    /// Frames sent to observers.
    pub sent: Counter,
    /// Frames that observers missed, over all of them.
    pub dropped: Counter,
    /// Things told of requests that had ended: a mistake of ours, each.
    pub settled: Counter,
}

impl Default for CommitHub {
    fn default() -> Self {
        CommitHub::new(CommitCounts::default())
    }
}

impl CommitHub {
    /// A hub that counts into `counts`.
    pub fn new(counts: CommitCounts) -> CommitHub {
        let session = format!("{:x}-{:x}", unix_ms(), std::process::id());
        let frames = broadcast::Sender::new(KEPT);
        CommitHub { frames, session, counts }
    }
}

impl CommitHub {
    /// Frames from now on; of requests that start from now on.
    pub fn observe(self: &Arc<Self>) -> CommitFeed {
        CommitFeed { frames: self.frames.subscribe(), hub: self.clone() }
    }

    /// Frames that observers missed, over all of them.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.get()
    }

    /// Things told of requests after their end.
    pub fn settled(&self) -> u64 {
        self.counts.settled.get()
    }

    /// The lifecycle of a request that starts now. Without observers it holds nothing and tells nothing.
    pub fn start(self: &Arc<Self>, request: RequestId, model: &str) -> Observed {
        let observed = self.frames.receiver_count() > 0;
        let key = CommitKey {
            session: if observed { self.session.clone() } else { String::new() },
            request: if observed { request.to_string() } else { String::new() },
            model: if observed { model.to_string() } else { String::new() },
        };
        Lifecycle::start(Arc::new(key), CommitSettings::default(), observed.then(|| HubSink(self.clone())))
    }
}

/// What observers are told of one request.
pub type Observed = Lifecycle<Arc<CommitKey>, HubSink>;

/// The sending end that one request has.
#[derive(Debug, Clone)]
pub struct HubSink(Arc<CommitHub>);

impl HubSink {
    /// An error means that the last observer has gone.
    fn send(&self, frame: CommitFrame) {
        if self.0.frames.send(Arc::new(frame)).is_ok() {
            self.0.counts.sent.inc();
        }
    }
}

impl CommitSink<Arc<CommitKey>> for HubSink {
    fn started(&mut self, key: &Arc<CommitKey>) {
        self.send(CommitFrame::Started { of: CommitKey::clone(key) });
    }

    /// Always taken: the channel drops its oldest frame instead, and the observer is told.
    fn commit(&mut self, commit: Commit<Arc<CommitKey>>) -> Result<(), Commit<Arc<CommitKey>>> {
        let Commit { key, total, missed, tokens } = commit;
        self.send(CommitFrame::Committed { of: CommitKey::clone(&key), total, missed, tokens });
        Ok(())
    }

    fn ended(&mut self, key: &Arc<CommitKey>, end: Terminal, total: u64, missed: u64) {
        let of = CommitKey::clone(key);
        self.send(match end {
            Terminal::Finished => CommitFrame::Finished { of, total, missed },
            Terminal::Aborted => CommitFrame::Aborted { of, total, missed },
        });
    }

    fn settled(&mut self, _: &Arc<CommitKey>) {
        self.0.counts.settled.inc();
    }
}

/// What one observer takes.
#[derive(Debug)]
pub struct CommitFeed {
    frames: broadcast::Receiver<Arc<CommitFrame>>,
    hub: Arc<CommitHub>,
}

impl CommitFeed {
    /// The next frame, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<CommitFrame>> {
        match self.frames.try_recv() {
            Ok(frame) => Some(frame),
            Err(TryRecvError::Lagged(frames)) => Some(self.gap(frames)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    fn gap(&self, frames: u64) -> Arc<CommitFrame> {
        self.hub.counts.dropped.inc_by(frames);
        Arc::new(CommitFrame::Gap { frames })
    }

    /// The next frame; waits for one.
    pub async fn next(&mut self) -> Arc<CommitFrame> {
        match self.frames.recv().await {
            Ok(frame) => frame,
            Err(RecvError::Lagged(frames)) => self.gap(frames),
            // The hub holds a sender and this feed holds the hub.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scheduler::Micros;

    fn total(frame: &CommitFrame) -> u64 {
        match frame {
            CommitFrame::Committed { total, .. } => *total,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_slow_observer_sees_the_gap_and_the_totals_show_it() {
        let hub = Arc::new(CommitHub::default());
        let mut slow = hub.observe();
        let mut life = hub.start(RequestId(1), "m");
        let tokens = 2_000;
        for n in 0..tokens {
            life.commit(&[n], Micros(u64::from(n) * 200_000)).expect("open");
        }
        life.end(Terminal::Finished).expect("open");
        let gap = slow.next().await;
        // One started, so many commits, one end; the last `KEPT` are there.
        let CommitFrame::Gap { frames } = *gap else { panic!("{gap:?}") };
        assert_eq!(frames, u64::from(tokens) + 2 - KEPT as u64);
        assert_eq!(total(&*slow.next().await), frames, "the first frame was the start");
        assert_eq!((hub.dropped(), hub.counts.sent.get()), (frames, u64::from(tokens) + 2));
        assert!(life.commit(&[1], Micros(0)).is_err());
        assert_eq!(hub.settled(), 1);
    }

    #[tokio::test]
    async fn nobody_observes_nobody_is_told() {
        let hub = Arc::new(CommitHub::default());
        let mut life = hub.start(RequestId(1), "m");
        let mut late = hub.observe();
        life.commit(&[1], Micros(0)).expect("open");
        life.end(Terminal::Finished).expect("open");
        drop(hub.start(RequestId(2), "m"));
        let first = late.next().await;
        assert!(matches!(&*first, CommitFrame::Started { of } if of.request == "req-2"), "{first:?}");
        assert!(matches!(&*late.next().await, CommitFrame::Aborted { total: 0, .. }));
    }
}
