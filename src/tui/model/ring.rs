//! The last ten minutes of snapshots, for looking back: the first of each second.
//!
//! Bounded in time and in memory: whatever the engine sends, no more than [`BYTES`] (by estimate) is kept, the oldest
//! goes first, and the newest stays.

use super::{History, Seen};
use crate::control::Snapshot;
use crate::control::snapshot::{RecentBatch, Request};
use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

/// How far back one can look.
pub const SPAN_MS: u64 = 600_000;
/// The time between two kept snapshots.
pub const STEP_MS: u64 = 1_000;
/// What the kept snapshots may take: ten minutes of a thousand requests, one minute of ten thousand.
pub const BYTES: usize = 128 << 20;

#[derive(Debug, Clone)]
struct Kept {
    snapshot: Arc<Snapshot>,
    received_ms: u64,
    bytes: usize,
}

/// Kept snapshots, oldest first, by the console's clock.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
}

impl Ring {
    /// Keeps a snapshot, unless one of the same second is kept already.
    pub fn keep(&mut self, snapshot: &Arc<Snapshot>, received_ms: u64) {
        if self.kept.back().is_some_and(|last| received_ms < last.received_ms.saturating_add(STEP_MS)) {
            return;
        }
        let bytes = weight(snapshot);
        self.bytes += bytes;
        self.kept.push_back(Kept { snapshot: Arc::clone(snapshot), received_ms, bytes });
        while let Some(first) = self.kept.front() {
            let old = received_ms - first.received_ms > SPAN_MS;
            if self.kept.len() == 1 || !(old || self.bytes > BYTES) {
                break;
            }
            self.bytes -= first.bytes;
            self.kept.pop_front();
        }
    }

    /// The newest kept snapshot that came before `ms`.
    pub fn before(&self, ms: u64) -> Option<Seen> {
        let place = self.kept.partition_point(|kept| kept.received_ms < ms);
        self.seen(place.checked_sub(1)?)
    }

    /// The oldest kept snapshot that came after `ms`.
    pub fn after(&self, ms: u64) -> Option<Seen> {
        self.seen(self.kept.partition_point(|kept| kept.received_ms <= ms))
    }

    pub fn oldest(&self) -> Option<Seen> {
        self.seen(0)
    }

    /// A kept snapshot with the past that was known then.
    fn seen(&self, place: usize) -> Option<Seen> {
        let kept = self.kept.get(place)?;
        let mut history = History::default();
        for past in self.kept.iter().take(place + 1) {
            history.record(&past.snapshot);
        }
        Some(Seen { snapshot: Arc::clone(&kept.snapshot), received_ms: kept.received_ms, history: Arc::new(history) })
    }
}

/// What a snapshot takes, by estimate: requests make nearly all of it.
fn weight(snapshot: &Snapshot) -> usize {
    const NAMES: usize = 96;
    let batches: usize = snapshot.models.iter().flat_map(|model| &model.queues).map(|queue| queue.recent.len()).sum();
    let sequences: usize = snapshot.generation.iter().map(|generation| generation.active.len()).sum();
    8192 + snapshot.requests.shown.len() * (size_of::<Request>() + NAMES)
        + (batches + sequences) * (size_of::<RecentBatch>() + NAMES)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{crowd, recorded};
    use super::*;

    #[test]
    fn one_snapshot_a_second_of_the_last_ten_minutes_is_kept() {
        let snapshot = Arc::new(recorded("idle"));
        let mut ring = Ring::default();
        for quarter in 0..4 * 1000 {
            ring.keep(&snapshot, quarter * 250);
        }
        let at = |seen: Option<Seen>| seen.map(|seen| seen.received_ms);
        assert_eq!(ring.kept.len(), 601);
        assert_eq!(at(ring.oldest()), Some(399_000));
        assert_eq!((at(ring.before(500_000)), at(ring.after(500_000))), (Some(499_000), Some(501_000)));
        assert_eq!((at(ring.before(399_000)), at(ring.after(999_000))), (None, None));
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stays() {
        let crowd = Arc::new(crowd(10_000));
        let mut ring = Ring::default();
        for second in 0..600 {
            ring.keep(&crowd, second * 1000);
        }
        assert!(ring.bytes <= BYTES && ring.kept.len() > 30, "{} in {} bytes", ring.kept.len(), ring.bytes);
        assert_eq!(ring.bytes, ring.kept.iter().map(|kept| kept.bytes).sum::<usize>());
        assert_eq!(ring.before(u64::MAX).map(|seen| seen.received_ms), Some(599_000));
        let huge = Arc::new(super::super::super::testing::crowd(500_000));
        ring.keep(&huge, 700_000);
        assert_eq!(ring.kept.len(), 1);
    }
}
