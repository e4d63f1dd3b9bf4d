//! Time as the pure rooms know it.

use std::ops::{Add, Sub};

/// Microseconds since the engine started. The runtime passes the real clock, the simulator a virtual one, tests a
/// number. Arithmetic saturates: time never wraps and never panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

impl Micros {
    pub const ZERO: Micros = Micros(0);
    pub const MAX: Micros = Micros(u64::MAX);

    /// From milliseconds; negative and non-finite values become zero.
    pub fn from_ms(ms: f64) -> Micros {
        if ms.is_finite() && ms > 0.0 { Micros((ms * 1_000.0).round() as u64) } else { Micros::ZERO }
    }

    pub fn from_secs(s: u64) -> Micros {
        Micros(s.saturating_mul(1_000_000))
    }

    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1_000_000.0
    }
}

impl Add for Micros {
    type Output = Micros;
    fn add(self, rhs: Micros) -> Micros {
        Micros(self.0.saturating_add(rhs.0))
    }
}

impl Sub for Micros {
    type Output = Micros;
    fn sub(self, rhs: Micros) -> Micros {
        Micros(self.0.saturating_sub(rhs.0))
    }
}
