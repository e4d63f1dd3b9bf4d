//! What every worker of an engine shares with its doors.

use super::clock::Clock;
use super::commits::CommitHub;
use super::metrics::Metrics;
use super::receipts::Receipts;
use super::recorder::Recorder;
use super::registry::Registry;
use crate::control::{ErrorKind, Fault};
use crate::engine::scheduler::Micros;
use crate::profile::{Limits, Retention};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One per engine. Everything in it may be used from any thread; nothing in it blocks.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    pub registry: Registry,
    pub metrics: Metrics,
    pub recorder: Recorder,
    limits: ArcSwap<Limits>,
    /// Progress of generations, for observers.
    pub commits: Arc<CommitHub>,
    /// Where generations leave a line each; absent unless the profile names a file.
    pub receipts: Option<Receipts>,
    /// The process ends.
    draining: AtomicBool,
    /// An operator has new work refused.
    closed: AtomicBool,
    stopped: AtomicBool,
}

impl Shared {
    pub fn new(limits: Limits) -> Shared {
        let metrics = Metrics::default();
        let commits = Arc::new(CommitHub::new(metrics.commits()));
        Shared {
            clock: Clock::start(),
            registry: Registry::default(),
            metrics,
            recorder: Recorder::default(),
            limits: ArcSwap::from_pointee(limits),
            commits,
            receipts: None,
            draining: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// The limits as they hold now.
    pub fn limits(&self) -> Arc<Limits> {
        self.limits.load_full()
    }

    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// How long a reader may take nothing.
    pub fn stall(&self) -> Micros {
        Micros::from_ms(self.limits.load().stall_s * 1_000.0)
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// How much of the past is remembered from now on.
    pub fn retain(&self, retention: Retention) {
        self.registry.remember(retention.requests);
        self.recorder.remember(retention.arrivals);
    }

    /// Refuses new work, or takes it again. A process that ends goes on draining.
    pub fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Release);
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.closed.load(Ordering::Acquire)
    }

    /// The engine is gone: workers end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// The deadline of a request submitted now: its own, else the box's default, else none.
    pub fn deadline(&self, asked_s: Option<f64>, now: Micros) -> Option<Micros> {
        asked_s.or(self.limits.load().default_deadline_s).map(|s| now + Micros::from_ms(s * 1_000.0))
    }
}

/// What queued and new work is answered while the engine drains.
pub fn draining_fault() -> Fault {
    Fault::new(ErrorKind::Draining, "the engine is draining and starts no further work")
        .hint("send the request to another engine, or again when this one is back")
        .retry_after(5)
}
