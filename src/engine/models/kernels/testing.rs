//! Helpers of this room's tests.

use super::{Compute, Isa};

/// Every instruction set of this processor with one and with three threads.
pub(super) fn computes() -> Vec<Compute> {
    let sets = Isa::available();
    sets.iter().flat_map(|&isa| [1, 3].into_iter().filter_map(move |t| Compute::with_isa(t, isa))).collect()
}

/// Repeatable values within ±1 (a linear congruential generator).
pub(super) fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Asserts that values agree within `tolerance`, relative above 1.
#[track_caller]
pub(super) fn close(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(*g) - w).abs();
        assert!(error <= tolerance * w.abs().max(1.0), "value {i}: {g} for {w}, off by {error:e}");
    }
}
