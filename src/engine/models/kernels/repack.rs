//! Keys and values of a matrix, one head at a time, in the tiles that attention reads.

use super::simd::{Isa, Portable, Simd, TILE};
use std::ops::Range;

/// Values that one repacked head takes: key tiles, then value tiles.
pub(super) fn packed_head(keys: usize, d: usize, dims: usize) -> usize {
    keys.div_ceil(TILE) * TILE * d + keys * dims
}

/// Repacks the keys and values of one head: `d` columns of `rows`, from `column` on.
pub(super) fn pack_head(
    isa: Isa,
    (k, v): (&[f32], &[f32]),
    rows: Range<usize>,
    width: usize,
    column: usize,
    d: usize,
    to: &mut [f32],
) {
    let n = rows.len();
    let (keys, values) = to.split_at_mut(n.div_ceil(TILE) * TILE * d);
    let first = rows.start * width + column;
    for (tile, to) in keys.chunks_exact_mut(d * TILE).enumerate() {
        let (from, count) = (&k[first + tile * TILE * width..], (n - tile * TILE).min(TILE));
        // SAFETY: a `Compute` holds only instruction sets that this processor has.
        unsafe {
            match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 => pack_keys_avx2(from, width, count, to),
                _ => pack_keys::<Portable>(from, width, count, to),
            }
        }
    }
    for (i, row) in v[first..].chunks(width).take(n).enumerate() {
        for (tile, part) in row[..d].chunks(TILE).enumerate() {
            values[(tile * n + i) * TILE..][..part.len()].copy_from_slice(part);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn pack_keys_avx2(from: &[f32], step: usize, count: usize, to: &mut [f32]) {
    // SAFETY: this function's own features.
    unsafe { pack_keys::<super::simd::Avx2>(from, step, count, to) }
}

/// Turns `count` (at most 16) rows of keys into one tile `[head_dim, 16]`.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub(super) unsafe fn pack_keys<S: Simd>(from: &[f32], step: usize, count: usize, to: &mut [f32]) {
    let d = to.len() / TILE;
    let mut done = 0;
    if count == TILE {
        assert!(from.len() >= (TILE - 1) * step + d, "sixteen rows of {d} values");
        while done + 8 <= d {
            for lane in [0, 8] {
                let (from, to) = (&from[lane * step + done..], &mut to[done * TILE + lane..]);
                // SAFETY: rows lane..lane + 8 have columns done..done + 8 by the assertion; `to` has `d` rows of 16,
                // and done + 8 ≤ d, lane + 8 ≤ 16.
                unsafe { S::turn8(from.as_ptr(), step, to.as_mut_ptr(), TILE) };
            }
            done += 8;
        }
    }
    for lane in 0..count {
        let row = &from[lane * step..][..d];
        for column in done..d {
            to[column * TILE + lane] = row[column];
        }
    }
}
