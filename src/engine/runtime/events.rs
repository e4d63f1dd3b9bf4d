//! From a worker to a request's reader, without ever blocking the worker.
//!
//! The channel is bounded, with room for far more events than a reader that is alive leaves untaken. One place is kept
//! for the last event, so that an end can always be told. A reader that takes nothing for the stall limit, or that
//! lets the channel fill up, is given up: its request is cancelled.

use crate::control::Fault;
use crate::engine::scheduler::Micros;
use tokio::sync::mpsc;

/// Why a reader is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The ticket was dropped.
    Gone,
    /// The reader takes nothing any more.
    Stalled,
}

/// The sending end. Dropping it without [`finish`](Self::finish) ends the stream without a last event.
#[derive(Debug)]
pub struct EventSink<E> {
    tx: mpsc::Sender<Result<E, Fault>>,
    last: mpsc::OwnedPermit<Result<E, Fault>>,
    sent: usize,
    /// While the reader has something to take: how many events it had taken when that was first seen, and when.
    waits: Option<(usize, Micros)>,
}

/// A channel with room for `capacity` events and the last one.
pub fn events<E>(capacity: usize) -> (EventSink<E>, mpsc::Receiver<Result<E, Fault>>) {
    let (tx, rx) = mpsc::channel(capacity + 1);
    let last = tx.clone().try_reserve_owned().expect("a fresh channel has room for one");
    (EventSink { tx, last, sent: 0, waits: None }, rx)
}

impl<E> EventSink<E> {
    /// Sends an event that is not the last.
    pub fn send(&mut self, event: E) -> Result<(), Lost> {
        match self.tx.try_send(Ok(event)) {
            Ok(()) => {
                self.sent += 1;
                Ok(())
            }
            Err(mpsc::error::TrySendError::Full(_)) => Err(Lost::Stalled),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Lost::Gone),
        }
    }

    /// Whether the reader is to be given up: it is gone, or has events to take and has taken none for `stall`. The time
    /// counts from the look that first saw them there: between two looks may lie a whole window of a slow model, and an
    /// event that was sent a moment ago has kept nobody waiting.
    pub fn lost(&mut self, now: Micros, stall: Micros) -> Option<Lost> {
        if self.tx.is_closed() {
            return Some(Lost::Gone);
        }
        // The reserved place counts as used.
        let untaken = (self.tx.max_capacity() - self.tx.capacity()).saturating_sub(1);
        let taken = self.sent.saturating_sub(untaken);
        match self.waits {
            _ if untaken == 0 => self.waits = None,
            Some((then, since)) if then == taken => return (now - since >= stall).then_some(Lost::Stalled),
            _ => self.waits = Some((taken, now)),
        }
        None
    }

    /// Sends the last event; a reader that is gone does not miss it.
    pub fn finish(self, last: Result<E, Fault>) {
        self.last.send(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_always_has_room() {
        let (mut sink, mut rx) = events::<u32>(2);
        assert_eq!((sink.send(1), sink.send(2)), (Ok(()), Ok(())));
        assert_eq!(sink.send(3), Err(Lost::Stalled));
        sink.finish(Ok(9));
        let got: Vec<u32> = std::iter::from_fn(|| rx.try_recv().ok()).map(|r| r.expect("no fault was sent")).collect();
        assert_eq!(got, vec![1, 2, 9]);
    }

    #[test]
    fn a_reader_stalls_only_while_it_has_something_to_take() {
        let stall = Micros(100);
        let (mut sink, mut rx) = events::<u32>(8);
        assert_eq!(sink.lost(Micros(500), stall), None, "nothing to take");
        sink.send(1).expect("room");
        sink.send(2).expect("room");
        assert_eq!(sink.lost(Micros(599), stall), None, "they were not there for long");
        assert!(rx.try_recv().is_ok());
        assert_eq!(sink.lost(Micros(650), stall), None, "it took one");
        assert_eq!(sink.lost(Micros(749), stall), None);
        assert_eq!(sink.lost(Micros(750), stall), Some(Lost::Stalled));
        drop(rx);
        assert_eq!(sink.lost(Micros(750), stall), Some(Lost::Gone));
    }
}
