//! A request as its observers see it: it starts once, commits any number of times, and ends once, however it ends.

use super::commits::{Batch, CommitSettings, CommitSink, Terminal};
use crate::engine::scheduler::Micros;

/// Told of a request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has ended: nothing more is told of it")]
pub struct Settled;

/// What an observer is told of one request.
#[derive(Debug)]
struct Observed<K: Clone, S: CommitSink<K>> {
    key: K,
    sink: S,
    batch: Batch,
}

/// The lifecycle of one request. Dropped before its end, it ends as aborted: early returns, cancels and panics do too.
#[derive(Debug)]
pub struct Lifecycle<K: Clone, S: CommitSink<K>> {
    /// Absent when nobody observes: then nothing is held.
    observed: Option<Observed<K, S>>,
    settled: bool,
    rejected: u64,
}

impl<K: Clone, S: CommitSink<K>> Lifecycle<K, S> {
    /// Starts a request that `sink` observes; `None` = nobody does.
    pub fn start(key: K, settings: CommitSettings, sink: Option<S>) -> Lifecycle<K, S> {
        let observed = sink.map(|mut sink| {
            sink.started(&key);
            Observed { key, sink, batch: Batch::new(settings) }
        });
        Lifecycle { observed, settled: false, rejected: 0 }
    }

    /// Tells of accepted tokens, `elapsed` after the start. Proposals are not told of before they are accepted.
    pub fn commit(&mut self, tokens: &[u32], elapsed: Micros) -> Result<(), Settled> {
        self.open()?;
        if let Some(Observed { key, sink, batch }) = &mut self.observed {
            for &token in tokens {
                batch.push(token, elapsed, key, sink);
            }
        }
        Ok(())
    }

    /// Sends what is pending now. Again is nothing.
    pub fn flush(&mut self) -> Result<(), Settled> {
        self.open()?;
        if let Some(Observed { key, sink, batch }) = &mut self.observed {
            batch.flush(key, sink);
        }
        Ok(())
    }

    /// The end.
    pub fn end(&mut self, end: Terminal) -> Result<(), Settled> {
        self.open()?;
        self.settled = true;
        if let Some(Observed { key, sink, batch }) = &mut self.observed {
            batch.flush(key, sink);
            sink.ended(key, end, batch.total(), batch.untold());
        }
        Ok(())
    }

    /// Things told after the end.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    fn open(&mut self) -> Result<(), Settled> {
        if !self.settled {
            return Ok(());
        }
        self.rejected += 1;
        if let Some(Observed { key, sink, .. }) = &mut self.observed {
            sink.settled(key);
        }
        Err(Settled)
    }
}

impl<K: Clone, S: CommitSink<K>> Drop for Lifecycle<K, S> {
    fn drop(&mut self) {
        if !self.settled {
            // It is open: this cannot be refused.
            let _ = self.end(Terminal::Aborted);
        }
    }
}
