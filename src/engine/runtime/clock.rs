//! The engine's clock: the one place where the runtime reads the time that it passes down.

use crate::engine::scheduler::Micros;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since the engine started. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub fn now(&self) -> Micros {
        Micros(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// As the standard library takes it; very long times are cut to a day, after which a sleeper simply looks again.
pub(crate) fn duration(time: Micros) -> Duration {
    Duration::from_micros(time.0).min(Duration::from_secs(86_400))
}

/// Unix time in milliseconds.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Locks, whatever became of an earlier holder: what these locks guard is plain counts and lists that every holder
/// leaves whole, and a panic is contained and reported where it happens.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
