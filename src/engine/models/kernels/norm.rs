//! Layer norm and RMS norm, row by row. Sums run in 16 lanes that are folded in a fixed order.

use super::elementwise::Arithmetic;
use super::pool::Parts;
use super::{Buffer, Compute};

const LANES: usize = 16;
/// Values in one task below which another thread does not pay.
const LEAST_PER_TASK: usize = 16 * 1024;

/// `(x − mean) / √(variance + eps) · gamma + beta` of every row of `gamma.len()` values.
pub fn layer_norm(compute: &Compute, x: &[f32], gamma: &[f32], beta: &[f32], eps: f32) -> Buffer {
    assert_eq!(gamma.len(), beta.len(), "gamma and beta differ in size");
    by_rows(compute, x, gamma.len(), |x, out| layer_norm_rows(compute.isa, x, gamma, beta, eps, out))
}

/// `x / √(mean of squares + eps) · gamma` of every row of `gamma.len()` values.
pub fn rms_norm(compute: &Compute, x: &[f32], gamma: &[f32], eps: f32) -> Buffer {
    by_rows(compute, x, gamma.len(), |x, out| rms_norm_rows(compute.isa, x, gamma, eps, out))
}

fn by_rows(compute: &Compute, x: &[f32], cols: usize, f: impl Fn(&[f32], &mut [f32]) + Sync) -> Buffer {
    assert!(cols > 0 && x.len().is_multiple_of(cols), "{} values are no rows of {cols}", x.len());
    let mut out = compute.buffer(x.len());
    let parts = Parts::new(&mut out);
    compute.pool.ranges(x.len() / cols, LEAST_PER_TASK.div_ceil(cols), |r| {
        let values = r.start * cols..r.end * cols;
        // SAFETY: `ranges` hands out disjoint ranges of rows.
        f(&x[values.clone()], unsafe { parts.part(values) });
    });
    out
}

versions! {
    fn layer_norm_rows(x: &[f32], gamma: &[f32], beta: &[f32], eps: f32, out: &mut [f32]) = layer_norm_body<M>;
}

versions! {
    fn rms_norm_rows(x: &[f32], gamma: &[f32], eps: f32, out: &mut [f32]) = rms_norm_body<M>;
}

#[inline(always)]
fn layer_norm_body<M: Arithmetic>(x: &[f32], gamma: &[f32], beta: &[f32], eps: f32, out: &mut [f32]) {
    let cols = gamma.len();
    for row in 0..x.len() / cols {
        let (x, out) = (&x[row * cols..][..cols], &mut out[row * cols..][..cols]);
        let mean = total(x, |sum, v| sum + v) / cols as f32;
        let variance = total(x, |sum, v| M::fma(v - mean, v - mean, sum)) / cols as f32;
        let scale = 1.0 / (variance + eps).sqrt();
        for i in 0..cols {
            out[i] = M::fma((x[i] - mean) * scale, gamma[i], beta[i]);
        }
    }
}

#[inline(always)]
fn rms_norm_body<M: Arithmetic>(x: &[f32], gamma: &[f32], eps: f32, out: &mut [f32]) {
    let cols = gamma.len();
    for row in 0..x.len() / cols {
        let (x, out) = (&x[row * cols..][..cols], &mut out[row * cols..][..cols]);
        let squares = total(x, |sum, v| M::fma(v, v, sum)) / cols as f32;
        let scale = 1.0 / (squares + eps).sqrt();
        for i in 0..cols {
            out[i] = x[i] * scale * gamma[i];
        }
    }
}

/// Folds `x` lane by lane with `step`, then the lanes pairwise.
#[inline(always)]
pub(super) fn total(x: &[f32], step: impl Fn(f32, f32) -> f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = step(lanes[lane], chunk[lane]);
        }
    }
    for lane in 0..rest.len() {
        lanes[lane] = step(lanes[lane], rest[lane]);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, computes, noise};
    use super::*;

    #[test]
    fn norms_agree_with_f64() {
        for compute in computes() {
            for cols in [1, 7, 16, 64, 384, 577] {
                let rows = 33;
                let x: Vec<f32> = noise(1, rows * cols).iter().map(|v| v * 3.0 + 1.0).collect();
                let (gamma, beta) = (noise(2, cols), noise(3, cols));
                let (mut layer, mut rms) = (Vec::new(), Vec::new());
                for row in x.chunks(cols) {
                    let row: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
                    let n = cols as f64;
                    let mean = row.iter().sum::<f64>() / n;
                    let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                    let squares = row.iter().map(|v| v * v).sum::<f64>() / n;
                    for ((v, g), b) in row.iter().zip(&gamma).zip(&beta) {
                        layer.push((v - mean) / (variance + 1e-5).sqrt() * f64::from(*g) + f64::from(*b));
                        rms.push(v / (squares + 1e-5).sqrt() * f64::from(*g));
                    }
                }
                close(&layer_norm(&compute, &x, &gamma, &beta, 1e-5), &layer, 1e-5);
                close(&rms_norm(&compute, &x, &gamma, 1e-5), &rms, 1e-5);
            }
        }
    }
}
