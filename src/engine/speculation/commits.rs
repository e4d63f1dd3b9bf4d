//! Progress for observers: tokens in batches, so that observing costs little.
//!
//! Times are those of the request (since it started), given by the caller. A commit says how many tokens there are once it
//! is applied; so the commits of a request put together are its exact tokens, and a consumer that missed some can tell.

use crate::engine::scheduler::Micros;

/// Bounds of the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitSettings {
    /// Least time between two commits.
    pub interval: Micros,
    /// Tokens that go at once, whatever the time.
    pub capacity: usize,
    /// Tokens that are kept at most while an observer refuses them; then the oldest are dropped, and the gap is told.
    pub kept: usize,
}

impl Default for CommitSettings {
    fn default() -> Self {
        CommitSettings { interval: Micros(100_000), capacity: 256, kept: 4_096 }
    }
}

/// Tokens added to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit<K> {
    /// Whose they are.
    pub key: K,
    /// Tokens of the answer once these are applied.
    pub total: u64,
    /// Tokens just before these that were dropped because the observer did not take them.
    pub missed: u64,
    pub tokens: Vec<u32>,
}

/// How a request ended, for its observers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    Finished,
    Aborted,
}

/// Takes what happens to requests. It must not block; what it cannot take now comes back.
pub trait CommitSink<K> {
    fn started(&mut self, key: &K);

    /// A batch; it comes back when there is no room for it.
    fn commit(&mut self, commit: Commit<K>) -> Result<(), Commit<K>>;

    /// The end, with the answer's length and how many of its last tokens were never taken. There is always room for it: a
    /// sink that is full drops something else.
    fn ended(&mut self, key: &K, end: Terminal, total: u64, missed: u64);

    /// Something was told of a request that had ended.
    fn settled(&mut self, key: &K);
}

/// Batches the tokens of one request.
#[derive(Debug)]
pub(super) struct Batch {
    settings: CommitSettings,
    pending: Vec<u32>,
    /// Tokens told or pending.
    total: u64,
    /// Tokens dropped since the last commit that was taken.
    missed: u64,
    last: Option<Micros>,
}

impl Batch {
    pub(super) fn new(settings: CommitSettings) -> Batch {
        let capacity = settings.capacity.max(1);
        let settings = CommitSettings { capacity, kept: settings.kept.max(capacity), ..settings };
        Batch { settings, pending: Vec::with_capacity(capacity), total: 0, missed: 0, last: None }
    }

    /// Adds a token; sends what is due.
    pub(super) fn push<K: Clone>(&mut self, token: u32, elapsed: Micros, key: &K, sink: &mut impl CommitSink<K>) {
        if self.pending.len() == self.settings.kept {
            // The oldest capacity's worth at once: dropping one by one would move the rest each time.
            let dropped = self.settings.capacity.min(self.pending.len());
            self.pending.drain(..dropped);
            self.missed += dropped as u64;
        }
        self.pending.push(token);
        self.total += 1;
        let due = self.last.is_none_or(|last| elapsed - last >= self.settings.interval);
        if (due || self.pending.len() >= self.settings.capacity) && self.flush(key, sink) {
            self.last = Some(elapsed);
        }
    }

    /// Sends what is pending; whether it was taken. The time of the next commit does not move.
    pub(super) fn flush<K: Clone>(&mut self, key: &K, sink: &mut impl CommitSink<K>) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let tokens = self.pending.as_slice().to_vec();
        let commit = Commit { key: key.clone(), total: self.total, missed: self.missed, tokens };
        let taken = sink.commit(commit).is_ok();
        if taken {
            self.pending.clear();
            self.missed = 0;
        }
        taken
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Tokens that no commit has carried.
    pub(super) fn untold(&self) -> u64 {
        self.missed + self.pending.len() as u64
    }
}
