//! What one (model, operation) has done: counts, recent latencies, and how long its work takes.

use super::clock::lock;
use crate::control::snapshot::{Counters, Latency, Outcome};
use crate::control::{Lane, Op};
use crate::engine::scheduler::Micros;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Requests in the latency window.
const LATENCY_WINDOW: usize = 256;

/// Counts of one lane since the start, and what is in it now.
#[derive(Debug, Default)]
pub struct LaneStats {
    pub running: AtomicU64,
    pub served: AtomicU64,
    pub cancelled: AtomicU64,
    pub expired: AtomicU64,
    pub failed: AtomicU64,
    pub cost_served: AtomicU64,
}

impl LaneStats {
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

    /// Notes a served request: how long it queued, and how long it took in all.
    pub fn served(&self, queue: Micros, total: Micros) {
        lock(&self.latency).push(queue, total);
    }

    pub fn latency(&self) -> Latency {
        lock(&self.latency).view()
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

/// How long a unit of cost takes: a moving average over batches, for estimates.
#[derive(Debug, Clone, Copy, Default)]
pub struct CostRate {
    us_per_cost: Option<f64>,
}

impl CostRate {
    /// Weight of the newest batch.
    const ALPHA: f64 = 0.3;

    pub fn observe(&mut self, cost: u64, run: Micros) {
        let now = run.0 as f64 / cost.max(1) as f64;
        self.us_per_cost = Some(self.us_per_cost.map_or(now, |old| old + Self::ALPHA * (now - old)));
    }

    /// Estimated run time of `cost`; `None` until a batch was measured.
    pub fn estimate(&self, cost: u64) -> Option<Micros> {
        self.us_per_cost.map(|rate| Micros((rate * cost as f64) as u64))
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
        stats.served(Micros(999_000), Micros(999_000));
        for ms in 1..=256 {
            stats.served(Micros(ms * 500), Micros(ms * 1_000));
        }
        let latency = stats.latency();
        assert_eq!(latency.window, 256);
        assert_eq!((latency.p50_ms, latency.p95_ms, latency.max_ms), (Some(128.0), Some(244.0), Some(256.0)));
        assert_eq!(latency.queue_p50_ms, Some(64.0));
        let few = OpStats::new(Op::Embed);
        few.served(Micros(0), Micros(2_000));
        few.served(Micros(0), Micros(1_000));
        let latency = few.latency();
        assert_eq!((latency.p50_ms, latency.p95_ms, latency.max_ms), (Some(1.0), Some(2.0), Some(2.0)));
    }

    #[test]
    fn rates_are_unknown_until_measured_and_follow_what_is_measured() {
        let mut rate = CostRate::default();
        assert_eq!(rate.estimate(10), None);
        rate.observe(1_000, Micros(2_000));
        assert_eq!(rate.estimate(500), Some(Micros(1_000)));
        for _ in 0..50 {
            rate.observe(1_000, Micros(4_000));
        }
        assert!(rate.estimate(500).expect("measured").0.abs_diff(2_000) <= 1);
    }
}
