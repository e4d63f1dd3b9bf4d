//! Activations for quantised products: int8 blocks of 32 with one scale each, made anew for every product.

use super::Compute;
use super::pool::Parts;
use super::simd::BLOCK;
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// The memory of the last one: a pass quantises hundreds of matrices, one at a time.
    static LAST: Cell<Quantized> = Cell::default();
}

/// What a kernel needs to know of one block besides its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct BlockInfo {
    /// `value ≈ scale · byte`.
    pub(super) scale: f32,
    /// `scale · Σ bytes`: what a weight block's minimum is multiplied with.
    pub(super) sum: f32,
    /// `Σ bytes`.
    pub(super) bytes: i32,
}

/// A quantised matrix `[rows, blocks · 32]`. Every byte is within ±127; a block that holds a NaN or an infinity has
/// such a scale, so that the product shows it.
#[derive(Default)]
pub(super) struct Quantized {
    pub(super) blocks: usize,
    pub(super) bytes: Vec<i8>,
    pub(super) info: Vec<BlockInfo>,
}

/// Values in one task below which another thread does not pay.
const LEAST_PER_TASK: usize = 16 * 1024;

impl Quantized {
    /// Quantises `x` `[rows, cols]`, `cols` a multiple of 32. A row's result does not depend on other rows.
    pub(super) fn of(compute: &Compute, x: &[f32], cols: usize) -> Quantized {
        assert!(cols > 0 && cols.is_multiple_of(BLOCK) && x.len().is_multiple_of(cols), "rows of {cols} values");
        let blocks = x.len() / BLOCK;
        let Quantized { mut bytes, mut info, .. } = LAST.take();
        bytes.resize(x.len(), 0);
        info.resize(blocks, BlockInfo::default());
        let (to_bytes, to_info) = (Parts::new(&mut bytes), Parts::new(&mut info));
        compute.pool.ranges(blocks, LEAST_PER_TASK / BLOCK, |r: Range<usize>| {
            let values = r.start * BLOCK..r.end * BLOCK;
            // SAFETY: `ranges` hands out disjoint ranges of blocks.
            let (bytes, info) = unsafe { (to_bytes.part(values.clone()), to_info.part(r)) };
            quantize(compute.isa, &x[values], bytes, info);
        });
        Quantized { blocks: cols / BLOCK, bytes, info }
    }

    /// Leaves the memory to the next one.
    pub(super) fn done(self) {
        LAST.set(self);
    }
}

super::versions! {
    fn quantize(x: &[f32], bytes: &mut [i8], info: &mut [BlockInfo]) = quantize_body;
}

/// 1.5 · 2²³: adding it rounds a small float to the nearest integer, ties to even, in the low bits.
const ROUND: f32 = 12_582_912.0;

#[inline(always)]
fn quantize_body(x: &[f32], bytes: &mut [i8], info: &mut [BlockInfo]) {
    let (x, _) = x.as_chunks::<BLOCK>();
    let (bytes, _) = bytes.as_chunks_mut::<BLOCK>();
    let (bytes, info) = (&mut bytes[..x.len()], &mut info[..x.len()]);
    for i in 0..x.len() {
        let (x, bytes) = (&x[i], &mut bytes[i]);
        // The largest magnitude by its bits: so a NaN is larger than everything and stays visible.
        let mut largest = 0u32;
        for v in x {
            largest = largest.max(v.to_bits() & 0x7fff_ffff);
        }
        let largest = f32::from_bits(largest);
        let (scale, inverse) = if largest < 1e-30 { (0.0, 0.0) } else { (largest / 127.0, 127.0 / largest) };
        let mut sum = 0i32;
        for j in 0..BLOCK {
            // In two steps on every instruction set, so that all round alike.
            let q = (x[j] * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32;
            let q = q.clamp(-127, 127);
            bytes[j] = q as i8;
            sum += q;
        }
        info[i] = BlockInfo { scale, sum: scale * sum as f32, bytes: sum };
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{computes, noise};
    use super::*;

    #[test]
    fn values_come_back_within_half_a_step_and_alike_on_every_instruction_set() {
        let x = noise(7, 9 * 96);
        let mut first: Option<Quantized> = None;
        for compute in computes() {
            let q = Quantized::of(&compute, &x, 96);
            assert_eq!(q.blocks, 3);
            for (i, v) in x.iter().enumerate() {
                let info = q.info[i / BLOCK];
                let error = (f64::from(*v) - f64::from(info.scale) * f64::from(q.bytes[i])).abs();
                assert!(error <= f64::from(info.scale) * 0.5001, "value {i}: {v} is off by {error}");
            }
            for (block, info) in q.bytes.chunks(BLOCK).zip(&q.info) {
                assert_eq!(block.iter().map(|&b| i32::from(b)).sum::<i32>(), info.bytes);
            }
            if let Some(f) = &first {
                assert!(f.bytes == q.bytes && f.info == q.info, "{} differs", compute.isa.name());
            }
            first.get_or_insert(q);
        }
    }

    #[test]
    fn odd_values_stay_visible() {
        for compute in computes() {
            let mut x = vec![0.0f32; 4 * 32];
            x[40] = f32::NAN;
            x[70] = f32::INFINITY;
            x[100] = 1e-36;
            let q = Quantized::of(&compute, &x, 32);
            assert_eq!(q.info[0], BlockInfo::default());
            assert!(q.info[1].scale.is_nan());
            assert!(q.info[2].scale.is_infinite());
            assert_eq!(q.info[3], BlockInfo::default());
        }
    }
}
