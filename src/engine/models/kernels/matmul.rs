//! Products with packed weights: `x · wᵀ + bias`.
//!
//! Every output value is one chain of additions over the columns, in the same order whatever the number of rows in the
//! call and whichever thread computes it: the result for a row has the same bits alone and in any batch, for quantised
//! and for float weights. Quantised products have the same bits on every instruction set too.

use super::activations::{BlockInfo, Quantized};
use super::micro::{self, Element, Strided};
use super::packed::{Body, Line, Packed};
use super::pool::Parts;
use super::simd::{BLOCK, BYTES4, BYTES8, Isa, Portable, Simd, TILE};
use super::{Buffer, Compute};
use std::ops::Range;

/// Multiply-adds below which a region stays on the caller's thread.
const SMALL: usize = 150_000;
/// Tasks per thread: some slack for a core that is taken away.
const TASKS_PER_THREAD: usize = 4;
/// Bytes of activations that a task goes through before it turns to them again for the next tile.
const CACHED: usize = 96 * 1024;

/// The products of `x` `[rows, cols]` with each of `weights`, in one parallel region. `x` is quantised once.
///
/// # Panics
/// When `x` is not whole rows of every weight's columns.
pub fn matmul<const N: usize>(compute: &Compute, x: &[f32], weights: [&Packed; N]) -> [Buffer; N] {
    let Some(cols) = weights.first().map(|w| w.cols) else { return weights.map(|_| compute.buffer(0)) };
    assert!(
        weights.iter().all(|w| w.cols == cols) && cols > 0 && x.len().is_multiple_of(cols),
        "{} values are no rows of {cols}, or the weights differ in columns",
        x.len()
    );
    let rows = x.len() / cols;
    let mut outs = weights.map(|w| compute.buffer(rows * w.rows));
    if rows == 0 {
        return outs;
    }
    let quantized = weights.iter().any(|w| w.quantized()).then(|| Quantized::of(compute, x, cols));
    let row_bytes = if quantized.is_some() { cols } else { 4 * cols };
    let jobs: Vec<_> = outs.iter_mut().zip(weights).map(|(out, w)| (Parts::new(out), w)).collect();

    let tiles: usize = weights.iter().map(|w| w.tiles()).sum();
    let threads = compute.pool.threads();
    let parts =
        if tiles * TILE * cols * rows < SMALL || threads == 1 { 1 } else { (threads * TASKS_PER_THREAD).min(tiles) };
    let rows_at_once = (CACHED / row_bytes).max(8) / 8 * 8;
    compute.pool.run(parts, |part| {
        let mine = part * tiles / parts..(part + 1) * tiles / parts;
        for first in (0..rows).step_by(rows_at_once) {
            let rows = first..(first + rows_at_once).min(rows);
            let mut before = 0;
            for (out, w) in &jobs {
                // The part of this weight's tiles that is mine.
                let tiles = mine.start.saturating_sub(before)..mine.end.saturating_sub(before).min(w.tiles());
                before += w.tiles();
                if !tiles.is_empty() {
                    let task = Task { x, quantized: quantized.as_ref(), w, out, rows: rows.clone() };
                    run_tiles(compute.isa, &task, tiles);
                }
            }
        }
    });
    if let Some(quantized) = quantized {
        quantized.done();
    }
    outs
}

/// Some rows of one product.
struct Task<'a> {
    x: &'a [f32],
    quantized: Option<&'a Quantized>,
    w: &'a Packed,
    out: &'a Parts<'a, f32>,
    rows: Range<usize>,
}

fn run_tiles(isa: Isa, task: &Task<'_>, tiles: Range<usize>) {
    // SAFETY: a `Compute` holds only instruction sets that this processor has.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => tiles_avx2(task, tiles),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => tiles_avx512(task, tiles),
            _ => tiles_with::<Portable>(task, tiles),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tiles_avx2(task: &Task<'_>, tiles: Range<usize>) {
    // SAFETY: this function's own features.
    unsafe { tiles_with::<super::simd::Avx2>(task, tiles) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tiles_avx512(task: &Task<'_>, tiles: Range<usize>) {
    // SAFETY: this function's own features.
    unsafe { tiles_with::<super::simd::Avx512>(task, tiles) }
}

/// # Safety
/// The processor has `S`.
#[inline(always)]
unsafe fn tiles_with<S: Simd>(task: &Task<'_>, tiles: Range<usize>) {
    let w = task.w;
    for tile in tiles {
        let mut row = task.rows.start;
        while row < task.rows.end {
            let left = task.rows.end - row;
            // SAFETY: the caller's promise; `row + R` stays within the task's rows.
            unsafe {
                row += match (&w.body, task.quantized) {
                    (Body::Float { values }, _) => float_rows::<S, f32>(task, values, tile, row, left.min(12)),
                    (Body::Half { values }, _) => float_rows::<S, u16>(task, values, tile, row, left.min(12)),
                    (_, None) => unreachable!("a quantised weight comes with quantised activations"),
                    // Whole tiles at a time, where a tile is two registers and the sums of all rows still fit.
                    (_, Some(q)) if S::LANES < TILE => match left {
                        4.. => block_rows::<S, 4, 1>(task, q, tile, row),
                        3 => block_rows::<S, 3, 1>(task, q, tile, row),
                        2 => block_rows::<S, 2, 1>(task, q, tile, row),
                        _ => block_rows::<S, 1, 2>(task, q, tile, row),
                    },
                    (_, Some(q)) => match left {
                        8.. if S::ROWS == 8 => block_rows::<S, 8, 1>(task, q, tile, row),
                        4.. => block_rows::<S, 4, 1>(task, q, tile, row),
                        3 => block_rows::<S, 3, 1>(task, q, tile, row),
                        2 => block_rows::<S, 2, 1>(task, q, tile, row),
                        _ => block_rows::<S, 1, 1>(task, q, tile, row),
                    },
                };
            }
        }
    }
}

/// `R` rows of one tile of quantised weights, `V` registers of lanes at a time. Returns `R`.
///
/// # Safety
/// The processor has `S`; rows `row..row + R` exist; `V · LANES` divides 16.
#[inline(always)]
unsafe fn block_rows<S: Simd, const R: usize, const V: usize>(
    task: &Task<'_>,
    q: &Quantized,
    tile: usize,
    row: usize,
) -> usize {
    let (w, blocks) = (task.w, q.blocks);
    // Whole rows by slices, so that their bounds are checked here, once per tile.
    let mut x = [std::ptr::null::<i8>(); R];
    let mut info = [std::ptr::null::<BlockInfo>(); R];
    for r in 0..R {
        x[r] = q.bytes[(row + r) * blocks * BLOCK..][..blocks * BLOCK].as_ptr();
        info[r] = q.info[(row + r) * blocks..][..blocks].as_ptr();
    }
    let cell = tile * blocks;
    let mut out = [[0.0f32; TILE]; R];
    // SAFETY: cells cell..cell + blocks of quants and scales are taken by slices; the kernels read `4 · V · LANES` bytes
    // at offsets `64·g + 4·lane` of a cell with lane + V · LANES ≤ 16, so within it, and V · LANES scales likewise. x
    // and info have `blocks` blocks. `out` has 16 lanes for each row.
    unsafe {
        match &w.body {
            Body::Bits4 { quants, scales } => {
                let quants = quants[cell * BYTES4 / 64..][..blocks * BYTES4 / 64].as_ptr().cast::<u8>();
                let scales = scales[cell * 2 * TILE..][..blocks * 2 * TILE].as_ptr();
                let mut lane = 0;
                while lane < TILE {
                    let mut acc = [[S::splat(0.0); V]; R];
                    for b in 0..blocks {
                        if lane == 0 {
                            for line in 0..4 {
                                S::prefetch(quants.wrapping_add((blocks + b) * BYTES4 + 64 * line));
                            }
                            S::prefetch(scales.wrapping_add((blocks + b) * 2 * TILE).cast());
                        }
                        let dots = S::dot4::<R, V>(quants.add(b * BYTES4 + 4 * lane), &x, b * BLOCK);
                        let (mut scale, mut min) = ([S::splat(0.0); V], [S::splat(0.0); V]);
                        for v in 0..V {
                            let at = scales.add(b * 2 * TILE + lane + v * S::LANES);
                            scale[v] = S::load_f16(at);
                            min[v] = S::load_f16(at.add(TILE));
                        }
                        for r in 0..R {
                            let info = &*info[r].add(b);
                            let (step, sum) = (S::splat(info.scale), S::splat(info.sum));
                            for v in 0..V {
                                // One addition in the chain from block to block; the rest overlaps.
                                let least = S::mul(min[v], sum);
                                let scale = S::mul(scale[v], step);
                                acc[r][v] = S::add(S::fma(S::to_float(dots[r][v]), scale, least), acc[r][v]);
                            }
                        }
                    }
                    put_lanes::<S, R, V>(&mut out, lane, &acc);
                    lane += V * S::LANES;
                }
            }
            Body::Bits8 { quants, scales } => {
                let quants = quants[cell * BYTES8 / 64..][..blocks * BYTES8 / 64].as_ptr().cast::<u8>();
                let scales = scales[cell * TILE..][..blocks * TILE].as_ptr();
                let mut lane = 0;
                while lane < TILE {
                    let mut acc = [[S::splat(0.0); V]; R];
                    for b in 0..blocks {
                        let mut sums = [0; R];
                        for r in 0..R {
                            sums[r] = (*info[r].add(b)).bytes;
                        }
                        if lane == 0 {
                            for line in 0..8 {
                                S::prefetch(quants.wrapping_add((blocks + b) * BYTES8 + 64 * line));
                            }
                            S::prefetch(scales.wrapping_add((blocks + b) * TILE).cast());
                        }
                        let dots = S::dot8::<R, V>(quants.add(b * BYTES8 + 4 * lane), &x, b * BLOCK, &sums);
                        let mut scale = [S::splat(0.0); V];
                        for v in 0..V {
                            scale[v] = S::load_f16(scales.add(b * TILE + lane + v * S::LANES));
                        }
                        for r in 0..R {
                            let step = S::splat((*info[r].add(b)).scale);
                            for v in 0..V {
                                acc[r][v] = S::fma(S::to_float(dots[r][v]), S::mul(scale[v], step), acc[r][v]);
                            }
                        }
                    }
                    put_lanes::<S, R, V>(&mut out, lane, &acc);
                    lane += V * S::LANES;
                }
            }
            Body::Float { .. } | Body::Half { .. } => unreachable!("float weights have their own kernel"),
        }
        put_tile(task, tile, row, &mut out);
    }
    R
}

/// Stores sums of lanes from `lane` on.
///
/// # Safety
/// The processor has `S`; `lane + V · LANES ≤ 16`.
#[inline(always)]
unsafe fn put_lanes<S: Simd, const R: usize, const V: usize>(
    out: &mut [[f32; TILE]; R],
    lane: usize,
    acc: &[[S::F; V]; R],
) {
    for r in 0..R {
        for v in 0..V {
            // SAFETY: lanes lane..lane + V · LANES of a row are inside it by the caller's promise.
            unsafe { S::store(out[r].as_mut_ptr().add(lane + v * S::LANES), acc[r][v]) };
        }
    }
}

/// `count` (at most 12) rows of one tile of weights `W`, whose lines hold them by tile, column and lane. Returns `count`.
///
/// # Safety
/// The processor has `S`; rows `row..row + count` exist; any bits are a `W`.
#[inline(always)]
unsafe fn float_rows<S: Simd, W: Element>(
    task: &Task<'_>,
    values: &[Line],
    tile: usize,
    row: usize,
    count: usize,
) -> usize {
    let cols = task.w.cols;
    let x = task.x[row * cols..][..count * cols].as_ptr();
    assert!((tile + 1) * cols * TILE * size_of::<W>() <= size_of_val(values), "tile {tile} of {cols} columns");
    let values = values.as_ptr().cast::<W>().wrapping_add(tile * cols * TILE);
    let mut out = [[0.0f32; TILE]; 12];
    let to = out[..count].as_mut_ptr().cast::<f32>();
    // SAFETY: x has `count` rows of `cols` values, 16 values per column lie at `values` by the assertion above, and
    // `out` has 16 for each of `count` rows.
    unsafe {
        let (x, w) = (Strided { start: x, step: cols }, Strided { start: values, step: TILE });
        micro::block::<S, W>(count, cols, x, w, Strided { start: to, step: TILE }, false);
        put_tile(task, tile, row, &mut out[..count]);
    }
    count
}

/// Adds the bias and stores the lanes that are rows of the weight.
///
/// # Safety
/// Rows `row..row + out.len()` exist, and no other task writes them in this tile's columns.
#[inline(always)]
unsafe fn put_tile(task: &Task<'_>, tile: usize, row: usize, out: &mut [[f32; TILE]]) {
    let w = task.w;
    let bias = &w.bias[tile * TILE..][..TILE];
    let lanes = TILE.min(w.rows - tile * TILE);
    for r in 0..out.len() {
        let values = &mut out[r];
        for lane in 0..TILE {
            values[lane] += bias[lane];
        }
        let at = (row + r) * w.rows + tile * TILE;
        // SAFETY: tiles and rows are divided among tasks without overlap.
        unsafe { task.out.part(at..at + lanes) }.copy_from_slice(&values[..lanes]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, computes, noise};
    use super::*;
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};

    fn tensor(seed: u64, rows: usize, cols: usize) -> Tensor {
        Tensor::from_vec(noise(seed, rows * cols), (rows, cols), &Device::Cpu).unwrap()
    }

    /// The same, as half floats.
    fn halves(seed: u64, rows: usize, cols: usize) -> Tensor {
        tensor(seed, rows, cols).to_dtype(candle_core::DType::F16).unwrap()
    }

    fn bias(rows: usize) -> Tensor {
        Tensor::from_vec(noise(99, rows), rows, &Device::Cpu).unwrap()
    }

    /// `x · wᵀ + bias` in f64.
    fn reference(x: &[f64], w: &[f32], bias: &[f32], cols: usize) -> Vec<f64> {
        let row = |x: &[f64]| -> Vec<f64> {
            let dot = |w: &[f32]| x.iter().zip(w).map(|(x, w)| x * f64::from(*w)).sum::<f64>();
            w.chunks(cols).zip(bias).map(|(w, b)| dot(w) + f64::from(*b)).collect()
        };
        x.chunks(cols).flat_map(row).collect()
    }

    /// Activations as the kernels round them.
    fn rounded(compute: &Compute, x: &[f32], cols: usize) -> Vec<f64> {
        let q = Quantized::of(compute, x, cols);
        let value = |(i, b): (usize, &i8)| f64::from(q.info[i / BLOCK].scale) * f64::from(*b);
        q.bytes.iter().enumerate().map(value).collect()
    }

    const TYPES: [GgmlDType; 8] = [
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ];

    #[test]
    fn block_products_agree_with_f64_over_the_same_blocks() {
        for compute in computes() {
            for dtype in TYPES {
                for (rows, cols) in [(1, 256), (16, 512), (37, 256), (64, 768)] {
                    let q = QTensor::quantize(&tensor(1, rows, cols), dtype).unwrap();
                    let w = q.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
                    let bias = bias(rows);
                    let packed = Packed::from_blocks(&q, Some(&bias), false).unwrap();
                    let x = noise(2, 5 * cols);
                    let [got] = matmul(&compute, &x, [&packed]);
                    let want = reference(&rounded(&compute, &x, cols), &w, &bias.to_vec1().unwrap(), cols);
                    // Exact blocks differ by the order of additions, Q4_K by the rounding of its scales, the others by
                    // half a step of 8 bits a value (six deviations of such a sum).
                    let tolerance = match dtype {
                        GgmlDType::Q4_0 | GgmlDType::Q4_1 | GgmlDType::Q8_0 => 2e-5,
                        GgmlDType::Q4K => 2e-2,
                        _ => 8e-3 * (cols as f64).sqrt(),
                    };
                    close(&got, &want, tolerance);
                }
            }
        }
    }

    #[test]
    fn float_products_agree_with_f64() {
        for compute in computes() {
            for (rows, cols) in [(1, 1), (16, 32), (37, 50), (48, 384)] {
                let (w, bias) = (tensor(1, rows, cols), bias(rows));
                let packed = Packed::from_floats(&w, Some(&bias), false).unwrap();
                let x = noise(2, 20 * cols);
                let exact: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
                let w = w.flatten_all().unwrap().to_vec1().unwrap();
                let [got] = matmul(&compute, &x, [&packed]);
                close(&got, &reference(&exact, &w, &bias.to_vec1().unwrap(), cols), 1e-5);
            }
        }
    }

    #[test]
    fn half_floats_take_half_the_memory_and_give_the_same_bits() {
        for compute in computes() {
            for (rows, cols) in [(1, 1), (37, 50), (48, 384)] {
                let half = Packed::from_floats(&halves(1, rows, cols), None, false).unwrap();
                let full = Packed::widened(&half);
                assert!(half.bytes() < full.bytes() * 6 / 10 + 128, "{} of {}", half.bytes(), full.bytes());
                let x = noise(2, 20 * cols);
                assert_eq!(matmul(&compute, &x, [&half])[0], matmul(&compute, &x, [&full])[0]);
                // One value that is no half float, and all are held as they are.
                let mut values = halves(1, rows, cols)
                    .flatten_all()
                    .unwrap()
                    .to_dtype(candle_core::DType::F32)
                    .unwrap()
                    .to_vec1()
                    .unwrap();
                values[0] = 0.1f32;
                let odd = Tensor::from_vec(values, (rows, cols), &Device::Cpu).unwrap();
                assert_eq!(Packed::from_floats(&odd, None, false).unwrap().bytes(), full.bytes());
            }
        }
    }

    #[test]
    fn floats_rounded_to_8_bits_stay_close() {
        for compute in computes() {
            let w = tensor(1, 48, 384);
            let packed = Packed::from_floats(&w, None, true).unwrap();
            assert!(packed.bytes() < 48 * 384 * 12 / 10, "{} bytes", packed.bytes());
            let x = noise(2, 3 * 384);
            let exact: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
            let w = w.flatten_all().unwrap().to_vec1().unwrap();
            close(&matmul(&compute, &x, [&packed])[0], &reference(&exact, &w, &[0.0; 48], 384), 0.25);
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_any_batch_and_on_any_threads() {
        let (rows, cols) = (50, 576);
        let q4 = QTensor::quantize(&tensor(1, rows, cols), GgmlDType::Q4_1).unwrap();
        let packs = [
            Packed::from_blocks(&q4, None, false).unwrap(),
            Packed::from_floats(&tensor(1, rows, cols), None, true).unwrap(),
            Packed::from_floats(&tensor(1, rows, cols), None, false).unwrap(),
            Packed::from_floats(&halves(1, rows, cols), None, false).unwrap(),
        ];
        let x = noise(3, 300 * cols);
        for isa in Isa::available() {
            let of = |threads| Compute::with_isa(threads, isa).unwrap();
            let (one, three) = (of(1), of(3));
            for (i, pack) in packs.iter().enumerate() {
                let alone: Vec<f32> = x.chunks(cols).flat_map(|x| matmul(&one, x, [pack])[0].to_vec()).collect();
                for width in (1..=9).chain([16, 64, 300]) {
                    for compute in [&one, &three] {
                        let [got] = matmul(compute, &x[..width * cols], [pack]);
                        let same = got.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits());
                        assert!(same, "{} pack {i} width {width} threads {}", isa.name(), compute.threads());
                    }
                }
            }
        }
    }

    #[test]
    fn quantised_products_have_the_same_bits_on_every_instruction_set() {
        let (rows, cols) = (40, 512);
        let x = noise(3, 11 * cols);
        for dtype in TYPES {
            let q = QTensor::quantize(&tensor(1, rows, cols), dtype).unwrap();
            let packed = Packed::from_blocks(&q, None, false).unwrap();
            let mut portable = None;
            for compute in computes() {
                let bits: Vec<u32> = matmul(&compute, &x, [&packed])[0].iter().map(|v| v.to_bits()).collect();
                assert_eq!(*portable.get_or_insert(bits.clone()), bits, "{dtype:?} on {}", compute.isa.name());
            }
        }
    }

    #[test]
    fn several_weights_in_one_region_are_the_same_as_one_by_one() {
        for compute in computes() {
            let packs = [100, 17, 64].map(|rows| Packed::from_floats(&tensor(5, rows, 96), None, true).unwrap());
            let x = noise(4, 40 * 96);
            let together = matmul(&compute, &x, [&packs[0], &packs[1], &packs[2]]);
            for (got, pack) in together.iter().zip(&packs) {
                assert_eq!(*got, matmul(&compute, &x, [pack])[0]);
            }
        }
    }

    #[test]
    fn no_rows_and_mixed_kinds() {
        for compute in computes() {
            let w = tensor(5, 20, 64);
            let packs = [true, false].map(|int8| Packed::from_floats(&w, None, int8).unwrap());
            assert_eq!(matmul(&compute, &[], [&packs[0]])[0].to_vec(), Vec::<f32>::new());
            let x = noise(4, 64);
            let [a, b] = matmul(&compute, &x, [&packs[0], &packs[1]]);
            close(&a, &b.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), 0.05);
        }
    }

    #[test]
    fn extreme_blocks_do_not_overflow() {
        // All weights and activations at the ends of their ranges, in both signs.
        let (rows, cols) = (32, 64);
        let w: Vec<f32> = (0..rows * cols).map(|i| if i / cols % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let w = Tensor::from_vec(w, (rows, cols), &Device::Cpu).unwrap();
        for compute in computes() {
            for dtype in [GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q8_0] {
                let q = QTensor::quantize(&w, dtype).unwrap();
                let dense = q.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
                let packed = Packed::from_blocks(&q, None, false).unwrap();
                for x in [vec![1.0f32; cols], vec![-1.0f32; cols]] {
                    let want = reference(&rounded(&compute, &x, cols), &dense, &[0.0; 32], cols);
                    close(&matmul(&compute, &x, [&packed])[0], &want, 1e-5);
                }
            }
        }
    }

    #[test]
    fn a_nan_shows_in_its_row_only() {
        for compute in computes() {
            let pack = Packed::from_floats(&tensor(5, 20, 64), None, true).unwrap();
            let mut x = noise(4, 3 * 64);
            x[70] = f32::NAN;
            let [y] = matmul(&compute, &x, [&pack]);
            assert!(y[..20].iter().chain(&y[40..]).all(|v| v.is_finite()));
            assert!(y[20..40].iter().all(|v| v.is_nan()));
        }
    }
}
