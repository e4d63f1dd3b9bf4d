//! A request in the engine, seen from its door.

use crate::control::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::mpsc;

/// A request's name: `req-` and a number that rises with each request of this engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "req-{}", self.0)
    }
}

impl std::str::FromStr for RequestId {
    type Err = Fault;
    fn from_str(s: &str) -> Result<Self, Fault> {
        s.strip_prefix("req-").and_then(|n| n.parse().ok()).map(RequestId).ok_or_else(|| {
            Fault::invalid("id", format!("`{s}` is not a request id"))
                .hint("ids look like req-17; see `lanekeeper requests`")
        })
    }
}

/// Shared flag: the caller no longer wants the answer. A request that has ended cannot be cancelled any more.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicU8>);

const LIVE: u8 = 0;
const CANCELLED: u8 = 1;
const ENDED: u8 = 2;

impl CancelFlag {
    /// Cancels; false when it was cancelled or had ended before.
    pub fn cancel(&self) -> bool {
        self.0.compare_exchange(LIVE, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) == CANCELLED
    }

    /// Notes the end of the request.
    pub(crate) fn end(&self) {
        self.0.store(ENDED, Ordering::Release);
    }
}

/// Shared flag: an operator holds the request back from its slot. One that has been taken cannot be held any more.
#[derive(Debug, Clone, Default)]
pub struct HoldFlag(Arc<AtomicU8>);

const FREE: u8 = 0;
const HELD: u8 = 1;
const TAKEN: u8 = 2;

impl HoldFlag {
    /// Holds it; false when it has been taken.
    pub fn hold(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::AcqRel, Ordering::Acquire).is_ok() || self.is_held()
    }

    /// Lets it go.
    pub fn release(&self) {
        // One that is not held stays as it is.
        let _ = self.0.compare_exchange(HELD, FREE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Takes it for its slot, `even_held`; false when somebody holds it.
    pub fn take(&self, even_held: bool) -> bool {
        let taken = |old| (old != HELD || even_held).then_some(TAKEN);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_ok()
    }

    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire) == HELD
    }
}

/// The receiving end of a request. Dropping it before the end cancels the request: queued work leaves the queue at
/// once, running work stops at its next window or iteration.
pub struct Ticket<E> {
    pub id: RequestId,
    events: mpsc::Receiver<Result<E, Fault>>,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl<E> Ticket<E> {
    /// `on_drop` runs when the ticket goes, finished or not; it must not block.
    pub fn new(
        id: RequestId,
        events: mpsc::Receiver<Result<E, Fault>>,
        on_drop: impl FnOnce() + Send + 'static,
    ) -> Self {
        Ticket { id, events, on_drop: Some(Box::new(on_drop)) }
    }

    /// The next event; `None` after the last. A fault is the last event.
    pub async fn next(&mut self) -> Option<Result<E, Fault>> {
        self.events.recv().await
    }
}

impl<E> Drop for Ticket<E> {
    fn drop(&mut self) {
        if let Some(f) = self.on_drop.take() {
            f();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_taken_and_what_is_taken_is_not_held() {
        let flag = HoldFlag::default();
        assert!(flag.hold() && flag.hold() && flag.is_held(), "twice is once");
        assert!(!flag.take(false) && flag.is_held());
        flag.release();
        assert!(flag.take(false) && flag.take(false), "one that lost its slot is taken again");
        flag.release();
        assert!(!flag.hold() && !flag.is_held(), "it runs");
        let drained = HoldFlag::default();
        assert!(drained.hold() && drained.take(true) && !drained.is_held(), "a drain lets go what is held");
    }
}
