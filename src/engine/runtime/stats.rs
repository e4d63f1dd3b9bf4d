//! What one (model, operation) has done: counts, recent latencies, and how long its work takes.

use super::clock::lock;
use super::pace::PaceWindow;
use crate::control::snapshot::{Counters, EstimateError, Latency, Outcome, Pace};
use crate::control::{Lane, Op};
use crate::engine::scheduler::Micros;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Requests in the latency window.
const LATENCY_WINDOW: usize = 256;

/// Waits in the window that estimates are scored over.
const ESTIMATE_WINDOW: usize = 256;

/// A wait shorter than this nobody notices: it counts as this long when an estimate of it is scored.
const LEAST_WAIT: Micros = Micros(50_000);

/// Counts of one lane since the start, and what is in it now.
#[derive(Debug, Default)]
pub struct LaneStats {
    pub running: AtomicU64,
    pub served: AtomicU64,
    pub cancelled: AtomicU64,
    pub expired: AtomicU64,
    pub failed: AtomicU64,
    pub cost_served: AtomicU64,
    /// Starts of its work: of requests, and of each batch that was taken from it.
    starts: AtomicU64,
    /// When the last one was, in microseconds; zero = never.
    started_us: AtomicU64,
    pace: Mutex<PaceWindow>,
}

impl LaneStats {
    /// Some of its work was started: it gets on.
    pub fn got_on(&self, now: Micros) {
        self.starts.fetch_add(1, Ordering::AcqRel);
        self.started_us.store(now.0.max(1), Ordering::Release);
    }

    /// Starts of its work so far, and when the last one was.
    pub fn starts(&self) -> (u64, Option<Micros>) {
        let at = Micros(self.started_us.load(Ordering::Acquire));
        (self.starts.load(Ordering::Acquire), (at != Micros::ZERO).then_some(at))
    }

    /// Counts an end.
    pub fn ended(&self, outcome: Outcome, cost: u64) {
        let count = match outcome {
            Outcome::Served => &self.served,
            Outcome::Cancelled => &self.cancelled,
            Outcome::Expired => &self.expired,
            Outcome::Failed => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if outcome == Outcome::Served {
            self.cost_served.fetch_add(cost, Ordering::Relaxed);
        }
    }
}

/// Counts of one (model, operation). Written by doors and workers, read by whoever takes a snapshot.
#[derive(Debug)]
pub struct OpStats {
    pub op: Op,
    clips: LaneStats,
    recordings: LaneStats,
    /// Admitted and not started: what `max_queue` bounds.
    waiting: AtomicUsize,
    pub submitted: AtomicU64,
    pub refused: AtomicU64,
    pub batches: AtomicU64,
    pub run_us: AtomicU64,
    latency: Mutex<LatencyWindow>,
    /// By lane: how good estimates were.
    estimates: [Mutex<EstimateWindow>; 2],
}

impl OpStats {
    pub fn new(op: Op) -> OpStats {
        OpStats {
            op,
            clips: LaneStats::default(),
            recordings: LaneStats::default(),
            waiting: AtomicUsize::new(0),
            submitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            run_us: AtomicU64::new(0),
            latency: Mutex::default(),
            estimates: Default::default(),
        }
    }

    pub fn lane(&self, lane: Lane) -> &LaneStats {
        match lane {
            Lane::Clips => &self.clips,
            Lane::Recordings => &self.recordings,
        }
    }

    /// Takes a place in the queue, if fewer than `max` are taken.
    pub fn admit(&self, max: usize) -> bool {
        let admitted =
            self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < max).then_some(n + 1)).is_ok();
        let count = if admitted { &self.submitted } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        admitted
    }

    /// Gives a place in the queue back.
    pub fn leave_queue(&self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests admitted and not started.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Notes that a request of a lane started after it had `waited`.
    pub fn began(&self, lane: Lane, waited: Micros, now: Micros) {
        let lane = self.lane(lane);
        lane.running.fetch_add(1, Ordering::Relaxed);
        lane.got_on(now);
        lock(&lane.pace).started(waited, now);
    }

    /// Notes a served request: how long it queued, how long it took in all, and what it cost.
    pub fn served(&self, lane: Lane, queue: Micros, total: Micros, cost: u64, now: Micros) {
        lock(&self.latency).push(queue, total);
        lock(&self.lane(lane).pace).served(total, cost, now);
    }

    /// How a lane did of late.
    pub fn pace(&self, lane: Lane, now: Micros) -> Pace {
        lock(&self.lane(lane).pace).view(now)
    }

    pub fn latency(&self) -> Latency {
        lock(&self.latency).view()
    }

    /// Scores the wait that was estimated at admission against the wait that was.
    pub fn estimated(&self, lane: Lane, estimate: Micros, waited: Micros) {
        lock(&self.estimates[usize::from(lane == Lane::Recordings)]).push(estimate, waited);
    }

    /// How far off the last estimates of a lane were; `None` until one was scored.
    pub fn estimate_error(&self, lane: Lane) -> Option<EstimateError> {
        lock(&self.estimates[usize::from(lane == Lane::Recordings)]).view()
    }

    pub fn counters(&self) -> Counters {
        let sum = |get: fn(&LaneStats) -> &AtomicU64| {
            get(&self.clips).load(Ordering::Relaxed) + get(&self.recordings).load(Ordering::Relaxed)
        };
        Counters {
            submitted: self.submitted.load(Ordering::Relaxed),
            served: sum(|l| &l.served),
            cancelled: sum(|l| &l.cancelled),
            expired: sum(|l| &l.expired),
            failed: sum(|l| &l.failed),
            refused: self.refused.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            cost_served: sum(|l| &l.cost_served),
            run_ms: self.run_us.load(Ordering::Relaxed) / 1_000,
        }
    }
}

/// Latencies of the last served requests.
#[derive(Debug, Default)]
struct LatencyWindow {
    requests: VecDeque<(Micros, Micros)>,
}

impl LatencyWindow {
    fn push(&mut self, queue: Micros, total: Micros) {
        if self.requests.len() == LATENCY_WINDOW {
            self.requests.pop_front();
        }
        self.requests.push_back((queue, total));
    }

    fn view(&self) -> Latency {
        let sorted = |get: fn(&(Micros, Micros)) -> Micros| {
            let mut all: Vec<Micros> = self.requests.iter().map(get).collect();
            all.sort_unstable();
            all
        };
        // Nearest rank: at least that share of the requests took no longer.
        let at = |all: &[Micros], p: f64| {
            all.get(((p * all.len() as f64).ceil() as usize).saturating_sub(1)).map(|m| m.as_ms())
        };
        let (queue, total) = (sorted(|r| r.0), sorted(|r| r.1));
        Latency {
            p50_ms: at(&total, 0.5),
            p95_ms: at(&total, 0.95),
            max_ms: at(&total, 1.0),
            queue_p50_ms: at(&queue, 0.5),
            window: self.requests.len() as u64,
        }
    }
}

/// How far the last estimates of waits were off, as parts of the waits.
#[derive(Debug, Default)]
struct EstimateWindow {
    errors: VecDeque<f64>,
}

impl EstimateWindow {
    fn push(&mut self, estimate: Micros, waited: Micros) {
        if self.errors.len() == ESTIMATE_WINDOW {
            self.errors.pop_front();
        }
        let off = estimate.0.abs_diff(waited.0) as f64;
        self.errors.push_back(off / waited.max(LEAST_WAIT).0 as f64);
    }

    fn view(&self) -> Option<EstimateError> {
        let mut errors: Vec<f64> = self.errors.iter().copied().collect();
        errors.sort_unstable_by(f64::total_cmp);
        let median_ratio = *errors.get(errors.len() / 2)?;
        Some(EstimateError { median_ratio, window: errors.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_places_come_back() {
        let stats = OpStats::new(Op::Embed);
        assert!(stats.admit(2) && stats.admit(2));
        assert!(!stats.admit(2));
        stats.leave_queue();
        assert!(stats.admit(2));
        let counters = stats.counters();
        assert_eq!((counters.submitted, counters.refused), (3, 1));
    }

    #[test]
    fn latency_is_of_the_last_requests() {
        let stats = OpStats::new(Op::Embed);
        assert_eq!(stats.latency(), Latency::default());
        let served =
            |stats: &OpStats, queue, total| stats.served(Lane::Clips, Micros(queue), Micros(total), 1, Micros(total));
        served(&stats, 999_000, 999_000);
        for ms in 1..=256 {
            served(&stats, ms * 500, ms * 1_000);
        }
        let latency = stats.latency();
        assert_eq!(latency.window, 256);
        assert_eq!((latency.p50_ms, latency.p95_ms, latency.max_ms), (Some(128.0), Some(244.0), Some(256.0)));
        assert_eq!(latency.queue_p50_ms, Some(64.0));
        let few = OpStats::new(Op::Embed);
        served(&few, 0, 2_000);
        served(&few, 0, 1_000);
        let latency = few.latency();
        assert_eq!((latency.p50_ms, latency.p95_ms, latency.max_ms), (Some(1.0), Some(2.0), Some(2.0)));
    }

    #[test]
    fn estimates_are_scored_as_parts_of_the_wait() {
        let stats = OpStats::new(Op::Transcribe);
        assert_eq!(stats.estimate_error(Lane::Clips), None);
        let ms = |ms: u64| Micros(ms * 1_000);
        // A wait that nobody notices is not missed by a multiple.
        stats.estimated(Lane::Clips, ms(20), ms(1));
        stats.estimated(Lane::Clips, ms(1_500), ms(1_000));
        stats.estimated(Lane::Clips, ms(700), ms(1_000));
        let error = stats.estimate_error(Lane::Clips).expect("scored");
        assert!((error.median_ratio - 0.38).abs() < 1e-9, "{error:?}");
        assert_eq!((error.window, stats.estimate_error(Lane::Recordings)), (3, None));
    }
}
