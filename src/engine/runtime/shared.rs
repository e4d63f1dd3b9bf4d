//! What every worker of an engine shares with its doors.

use super::clock::Clock;
use super::commits::CommitHub;
use super::metrics::Metrics;
use super::receipts::Receipts;
use super::recorder::Recorder;
use super::registry::Registry;
use crate::control::{ErrorKind, Fault};
use crate::engine::scheduler::Micros;
use crate::profile::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One per engine. Everything in it may be used from any thread; nothing in it blocks.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    pub registry: Registry,
    pub metrics: Metrics,
    pub recorder: Recorder,
    pub limits: Limits,
    /// Progress of generations, for observers.
    pub commits: Arc<CommitHub>,
    /// Where generations leave a line each; absent unless the profile names a file.
    pub receipts: Option<Receipts>,
    draining: AtomicBool,
    stopped: AtomicBool,
}

impl Shared {
    pub fn new(limits: Limits) -> Shared {
        Shared {
            clock: Clock::start(),
            registry: Registry::default(),
            metrics: Metrics::default(),
            recorder: Recorder::default(),
            limits,
            commits: Arc::new(CommitHub::default()),
            receipts: None,
            draining: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// How long a reader may take nothing.
    pub fn stall(&self) -> Micros {
        Micros::from_ms(self.limits.stall_s * 1_000.0)
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
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
        asked_s.or(self.limits.default_deadline_s).map(|s| now + Micros::from_ms(s * 1_000.0))
    }
}

/// What queued and new work is answered while the engine drains.
pub fn draining_fault() -> Fault {
    Fault::new(ErrorKind::Draining, "the engine is draining and starts no further work")
        .hint("send the request to another engine, or again when this one is back")
        .retry_after(5)
}
