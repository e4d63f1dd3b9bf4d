//! Element by element: GELU, SiLU, sums, and the exponential under them. Branch-free loops that the compiler turns into
//! vectors for each instruction set.

use super::Compute;
use super::pool::Parts;

/// How `a · b + c` is computed: fused where the hardware fuses, else in two steps (a fused operation in software would
/// be a function call per value).
pub(super) trait Arithmetic {
    fn fma(a: f32, b: f32, c: f32) -> f32;
}

/// One rounding.
pub(super) struct Fused;
/// Two roundings.
pub(super) struct Separate;

impl Arithmetic for Fused {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

impl Arithmetic for Separate {
    #[inline(always)]
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Values in one task below which another thread does not pay.
const LEAST_PER_TASK: usize = 16 * 1024;

/// Calls `f` with disjoint chunks of `x` and where each lies.
fn in_chunks(compute: &Compute, x: &mut [f32], f: impl Fn(&mut [f32], std::ops::Range<usize>) + Sync) {
    let len = x.len();
    let parts = Parts::new(x);
    compute.pool.ranges(len, LEAST_PER_TASK, |r| {
        // SAFETY: `ranges` hands out disjoint ranges.
        f(unsafe { parts.part(r.clone()) }, r);
    });
}

/// Exact (erf) GELU in place; the error is below 1e-6.
pub fn gelu(compute: &Compute, x: &mut [f32]) {
    in_chunks(compute, x, |x, _| gelu_slice(compute.isa, x));
}

/// `gate = silu(gate) · up`.
pub fn silu_mul(compute: &Compute, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up differ in size");
    in_chunks(compute, gate, |gate, r| silu_mul_slice(compute.isa, gate, &up[r]));
}

/// `x += y`.
pub fn add(compute: &Compute, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "sum of matrices of different size");
    in_chunks(compute, x, |x, r| x.iter_mut().zip(&y[r]).for_each(|(x, y)| *x += y));
}

versions! {
    fn gelu_slice(x: &mut [f32]) = gelu_body<M>;
}

versions! {
    fn silu_mul_slice(gate: &mut [f32], up: &[f32]) = silu_mul_body<M>;
}

#[inline(always)]
fn gelu_body<M: Arithmetic>(x: &mut [f32]) {
    for v in x {
        let half = 0.5 * *v;
        *v = M::fma(half, erf::<M>(*v * std::f32::consts::FRAC_1_SQRT_2), half);
    }
}

#[inline(always)]
fn silu_mul_body<M: Arithmetic>(gate: &mut [f32], up: &[f32]) {
    let up = &up[..gate.len()];
    for i in 0..gate.len() {
        gate[i] = gate[i] / (1.0 + exp::<M>(-gate[i])) * up[i];
    }
}

/// `e^x` within 2 units in the last place; the argument is held within ±87, NaN stays NaN.
#[inline(always)]
pub(super) fn exp<M: Arithmetic>(x: f32) -> f32 {
    // 1.5 · 2²³ rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 87.0);
    let shifted = M::fma(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts: n times the first is exact.
    let r = M::fma(n, 2.121_944_4e-4, M::fma(n, -355.0 / 512.0, x));
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.0e-1] {
        p = M::fma(p, r, c);
    }
    let y = M::fma(p, r * r, r + 1.0);
    // 2ⁿ by its exponent bits: n is within ±126, so the number is normal. (NaN: y carries it.)
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    y * power
}

/// The error function, absolute error below 5e-7: a quotient of two polynomials on ±4, beyond which it is ±1.
#[inline(always)]
fn erf<M: Arithmetic>(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let s = x * x;
    let mut p = -2.726_142_3e-10;
    for c in [2.770_681_2e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906e-4, -2.954_6e-3, -1.609_603_3e-2] {
        p = M::fma(p, s, c);
    }
    let mut q = -1.456_607_2e-5;
    for c in [-2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2] {
        q = M::fma(q, s, c);
    }
    x * p / q
}

#[cfg(test)]
mod tests {
    use super::super::testing::{computes, noise};
    use super::*;

    fn sweep() -> Vec<f32> {
        (-4000..=4000).map(|i| i as f32 * 0.005).chain([1e-20, -1e-20, 0.0, 60.0, -60.0, 86.9, -86.9]).collect()
    }

    #[test]
    fn exponential_is_right_to_the_last_places() {
        for x in sweep() {
            let want = f64::from(x).exp();
            for got in [exp::<Fused>(x), exp::<Separate>(x)] {
                assert!((f64::from(got) - want).abs() <= 3e-7 * want, "e^{x} = {want}, got {got}");
            }
        }
        assert!(exp::<Fused>(f32::NAN).is_nan() && exp::<Separate>(f32::NAN).is_nan());
        assert!(exp::<Fused>(f32::NEG_INFINITY) < 2e-38);
    }

    #[test]
    fn gelu_is_exact_to_a_millionth() {
        for compute in computes() {
            let mut got = sweep();
            gelu(&compute, &mut got);
            for (x, got) in sweep().into_iter().zip(got) {
                let x = f64::from(x);
                let want = 0.5 * x * (1.0 + candle_core::cpu::erf::erf_f64(x / 2.0f64.sqrt()));
                assert!((f64::from(got) - want).abs() < 1e-6 * x.abs().max(1.0), "gelu({x}) = {want}, got {got}");
            }
        }
    }

    #[test]
    fn silu_times_up() {
        for compute in computes() {
            let (x, up) = (sweep(), noise(1, sweep().len()));
            let mut got = x.clone();
            silu_mul(&compute, &mut got, &up);
            for ((x, up), got) in x.iter().zip(&up).zip(got) {
                let (x, up) = (f64::from(*x), f64::from(*up));
                let want = x / (1.0 + (-x).exp()) * up;
                assert!(
                    (f64::from(got) - want).abs() <= 1e-6 * want.abs() + 1e-30,
                    "silu({x})·{up} = {want}, got {got}"
                );
            }
        }
    }

    #[test]
    fn sums_over_threads() {
        for compute in computes() {
            let (x, y) = (noise(2, 100_003), noise(3, 100_003));
            let mut got = x.clone();
            add(&compute, &mut got, &y);
            assert!(got.iter().zip(x.iter().zip(&y)).all(|(g, (a, b))| *g == a + b));
        }
    }
}
