//! Attention in f32: scores of a block of queries against tiles of 16 keys, softmax over each whole row, weighted sum
//! of values. Rows see only their own positions, in order, so the result of a row has the same bits whatever other
//! queries share its block.

use super::elementwise::{Arithmetic, Fused, Separate, exp};
use super::kv::KvCache;
use super::micro::{self, Strided};
use super::norm::total;
use super::pool::Parts;
use super::repack::{pack_head, pack_keys, packed_head};
use super::simd::{Isa, Portable, Simd, TILE};
use super::{Buffer, Compute};
use std::cell::RefCell;
use std::ops::Range;

/// Queries in one block: their scores stay in the second-level cache.
const QUERIES: usize = 24;
/// Queries of one span from which its keys and values are repacked first.
const WORTH_PACKING: usize = 8;
/// Positions whose values stay in the first-level cache while the block's queries go over them.
const POSITIONS: usize = 256;
/// Multiply-adds below which a region stays on the caller's thread.
const SMALL: usize = 100_000;

thread_local! {
    /// Scores and sums of the block in work.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// A query: where its head lies in the matrix, and how many positions it sees.
#[derive(Clone, Copy)]
struct Query {
    at: usize,
    seen: usize,
}

/// The keys of one head.
enum Keys<'a> {
    /// `[tiles, head_dim, 16]`.
    Tiles(&'a [f32]),
    /// One row of the matrix per key, the head's values first.
    Rows { from: &'a [f32], step: usize },
}

/// The values of one head: 16 dimensions `tile` of position `i` lie at `tile · tile_step + i · step`.
struct Values<'a> {
    from: &'a [f32],
    tile_step: usize,
    step: usize,
}

/// Causal attention of query rows over a cache: row `i` of `rows` sees positions `0..=start + i` of its slot. Spans are
/// (slot, rows, start). `q` is `[rows, heads · head_dim]`; several query heads may share a key head.
///
/// # Panics
/// When a span is outside the cache or the matrix, or spans overlap.
pub fn attend_causal(
    compute: &Compute,
    q: &[f32],
    kv: &KvCache,
    layer: usize,
    spans: &[(usize, Range<usize>, usize)],
    heads: usize,
) -> Buffer {
    let (d, group) = (kv.head_dim, heads / kv.kv_heads);
    assert!(group * kv.kv_heads == heads, "{heads} query heads over {} key heads", kv.kv_heads);
    let mut out = compute.buffer(q.len());
    let parts = Parts::new(&mut out);
    let at_once = (QUERIES / group).max(1);
    let mut tasks = Vec::new();
    let mut work = 0;
    for (slot, rows, start) in spans {
        assert!(start + rows.len() <= kv.positions, "positions {start}..+{} of {}", rows.len(), kv.positions);
        work += 2 * rows.len() * (start + rows.len()) * heads * d;
        for first in rows.clone().step_by(at_once) {
            let block = first..(first + at_once).min(rows.end);
            tasks.extend((0..kv.kv_heads).map(|head| (*slot, block.clone(), start + first - rows.start, head)));
        }
    }
    assert_disjoint(spans.iter().map(|s| s.1.clone()));
    in_tasks(compute, tasks.len(), work, |i| {
        let (slot, rows, start, head) = &tasks[i];
        let queries: Vec<Query> = rows
            .clone()
            .flat_map(|row| (0..group).map(move |g| (row, head * group + g)))
            .map(|(row, head)| Query { at: (row * heads + head) * d, seen: start + row - rows.start + 1 })
            .collect();
        let keys = Keys::Tiles(kv.keys(layer, *slot, *head));
        let values = Values { from: kv.values(layer, *slot, *head), tile_step: kv.positions * TILE, step: TILE };
        run_block(compute.isa, q, &queries, d, &keys, &values, &parts);
    });
    out
}

/// Attention of query rows over key rows without a mask, span by span: (queries, keys). All matrices are
/// `[rows, heads · head_dim]`.
///
/// # Panics
/// When a span is outside a matrix or has no keys, or spans overlap.
pub fn attend_full(
    compute: &Compute,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    spans: &[(Range<usize>, Range<usize>)],
    width: usize,
    heads: usize,
) -> Buffer {
    let d = width / heads;
    assert!(d * heads == width && d > 0, "rows of {width} values in {heads} heads");
    let mut out = compute.buffer(q.len());
    let parts = Parts::new(&mut out);
    assert_disjoint(spans.iter().map(|s| s.0.clone()));
    let dims = d.div_ceil(TILE) * TILE;

    // Repack the heads that many queries go over. A few queries read the rows where they are; their arithmetic is the
    // same.
    let packs = |s: &(Range<usize>, Range<usize>)| s.0.len() > WORTH_PACKING || !d.is_multiple_of(TILE);
    let mut places = Vec::new();
    let mut packed_len = 0;
    for span in spans {
        assert!(!span.1.is_empty() || span.0.is_empty(), "queries {:?} have no keys", span.0);
        places.push(packed_len);
        if packs(span) {
            packed_len += heads * packed_head(span.1.len(), d, dims);
        }
    }
    let mut packed = compute.buffer(packed_len);
    let to = Parts::new(&mut packed);
    in_tasks(compute, spans.len() * heads, packed_len * 8, |i| {
        let (span, head) = (&spans[i / heads], i % heads);
        if packs(span) {
            let each = packed_head(span.1.len(), d, dims);
            // SAFETY: every (span, head) has its own place.
            let to = unsafe { to.part(places[i / heads] + head * each..places[i / heads] + (head + 1) * each) };
            pack_head(compute.isa, (k, v), span.1.clone(), width, head * d, d, to);
        }
    });

    let mut tasks = Vec::new();
    let mut work = 0;
    for (i, (queries, keys)) in spans.iter().enumerate() {
        work += 2 * queries.len() * keys.len() * width;
        for head in 0..heads {
            let blocks = queries.clone().step_by(QUERIES);
            tasks.extend(blocks.map(|first| (i, head, first..(first + QUERIES).min(queries.end))));
        }
    }
    in_tasks(compute, tasks.len(), work, |task| {
        let (i, head, rows) = &tasks[task];
        let (span, n) = (&spans[*i], spans[*i].1.len());
        let queries: Vec<Query> = rows.clone().map(|row| Query { at: row * width + head * d, seen: n }).collect();
        let (keys, values);
        if packs(span) {
            let each = packed_head(n, d, dims);
            let (k, v) = packed[places[*i] + head * each..][..each].split_at(n.div_ceil(TILE) * TILE * d);
            (keys, values) = (Keys::Tiles(k), Values { from: v, tile_step: n * TILE, step: TILE });
        } else {
            let first = span.1.start * width + head * d;
            keys = Keys::Rows { from: &k[first..], step: width };
            values = Values { from: &v[first..], tile_step: TILE, step: width };
        }
        run_block(compute.isa, q, &queries, d, &keys, &values, &parts);
    });
    out
}

fn in_tasks(compute: &Compute, tasks: usize, work: usize, f: impl Fn(usize) + Sync) {
    if work < SMALL {
        (0..tasks).for_each(f);
    } else {
        compute.pool.run(tasks, f);
    }
}

fn assert_disjoint(rows: impl Iterator<Item = Range<usize>>) {
    let mut rows: Vec<_> = rows.filter(|r| !r.is_empty()).collect();
    rows.sort_by_key(|r| r.start);
    assert!(rows.windows(2).all(|w| w[0].end <= w[1].start), "spans overlap: {rows:?}");
}

fn run_block(
    isa: Isa,
    q: &[f32],
    queries: &[Query],
    d: usize,
    keys: &Keys<'_>,
    values: &Values<'_>,
    out: &Parts<'_, f32>,
) {
    SCRATCH.with_borrow_mut(|scratch| {
        let block = Block { q, queries, d, keys, values };
        // SAFETY: a `Compute` holds only instruction sets that this processor has.
        unsafe {
            match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => block_avx2(&block, scratch),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => block_avx512(&block, scratch),
                _ => block.run::<Portable, Separate>(scratch),
            }
        }
        let dims = d.div_ceil(TILE) * TILE;
        for (query, sums) in queries.iter().zip(scratch.chunks_exact(dims)) {
            // SAFETY: every (row, head) is in one task.
            unsafe { out.part(query.at..query.at + d) }.copy_from_slice(&sums[..d]);
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn block_avx2(block: &Block<'_>, scratch: &mut Vec<f32>) {
    // SAFETY: this function's own features.
    unsafe { block.run::<super::simd::Avx2, Fused>(scratch) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn block_avx512(block: &Block<'_>, scratch: &mut Vec<f32>) {
    // SAFETY: this function's own features.
    unsafe { block.run::<super::simd::Avx512, Fused>(scratch) }
}

/// Some queries over one head's keys and values.
struct Block<'a> {
    q: &'a [f32],
    queries: &'a [Query],
    d: usize,
    keys: &'a Keys<'a>,
    values: &'a Values<'a>,
}

impl Block<'_> {
    /// Plain loops all through: a closure that the compiler leaves out of line would be built without the instruction
    /// set.
    ///
    /// Leaves the results, `[queries, head_dim in whole tiles]`, at the start of `scratch`.
    ///
    /// # Safety
    /// The processor has `S`.
    #[inline(always)]
    unsafe fn run<S: Simd, M: Arithmetic>(&self, scratch: &mut Vec<f32>) {
        let (d, count) = (self.d, self.queries.len());
        let dims = d.div_ceil(TILE) * TILE;
        let (mut longest, mut shortest) = (0, usize::MAX);
        for query in self.queries {
            longest = longest.max(query.seen);
            shortest = shortest.min(query.seen);
        }
        let shortest = shortest.min(longest);
        let tiles = longest.div_ceil(TILE);
        let row = tiles * TILE;
        let need = count * (dims + d + row + 1) + TILE * d;
        if scratch.len() < need {
            scratch.resize(need, 0.0);
        }
        let (sums, rest) = scratch.split_at_mut(count * dims);
        let (queries, rest) = rest.split_at_mut(count * d);
        let (scores, rest) = rest.split_at_mut(count * row);
        let (totals, rest) = rest.split_at_mut(count);
        let tile_of_rows = &mut rest[..TILE * d];

        // The scale goes into the queries: one product per dimension instead of one per key.
        let scale = 1.0 / (d as f32).sqrt();
        for r in 0..count {
            let (to, from) = (&mut queries[r * d..][..d], &self.q[self.queries[r].at..][..d]);
            for i in 0..d {
                to[i] = from[i] * scale;
            }
        }
        for tile in 0..tiles {
            let keys: &[f32] = match self.keys {
                Keys::Tiles(tiles) => &tiles[tile * d * TILE..][..d * TILE],
                Keys::Rows { from, step } => {
                    // Lanes past the last key keep what an earlier tile left: their scores are never read.
                    let (from, count) = (&from[tile * TILE * step..], (longest - tile * TILE).min(TILE));
                    // SAFETY: the processor has `S`.
                    unsafe { pack_keys::<S>(from, *step, count, tile_of_rows) };
                    tile_of_rows
                }
            };
            // SAFETY: `queries` has `count` rows of d, `keys` d rows of 16, and `scores` rows of `tiles · 16` values.
            unsafe {
                micro::block::<S, f32>(
                    count,
                    d,
                    Strided { start: queries.as_ptr(), step: d },
                    Strided { start: keys.as_ptr(), step: TILE },
                    Strided { start: scores.as_mut_ptr().add(tile * TILE), step: row },
                    false,
                );
            }
        }
        for tile in 0..dims / TILE {
            let last = tile * self.values.tile_step + longest.saturating_sub(1) * self.values.step;
            assert!(last + TILE <= self.values.from.len(), "values of {longest} positions");
        }
        for r in 0..count {
            totals[r] = softmax::<M>(&mut scores[r * row..][..self.queries[r].seen]);
        }
        for tile in 0..dims / TILE {
            let step = self.values.step;
            // As an address: past the last position where no query sees one.
            let values = self.values.from.as_ptr().wrapping_add(tile * self.values.tile_step);
            let mut first = 0;
            while first < shortest {
                let n = (shortest - first).min(POSITIONS);
                // SAFETY: every query sees at least first + n positions, all scored; values of all of them lie inside
                // `from` by the assertion above; `sums` has `dims` values for each query.
                unsafe {
                    micro::block::<S, f32>(
                        count,
                        n,
                        Strided { start: scores.as_ptr().add(first), step: row },
                        Strided { start: values.add(first * step), step },
                        Strided { start: sums.as_mut_ptr().add(tile * TILE), step: dims },
                        first > 0,
                    );
                }
                first += n;
            }
            // What longer queries see beyond the shortest.
            for r in 0..count {
                let seen = self.queries[r].seen;
                if seen == shortest {
                    continue;
                }
                // SAFETY: as above, for one query and the positions shortest..seen.
                unsafe {
                    micro::block::<S, f32>(
                        1,
                        seen - shortest,
                        Strided { start: scores.as_ptr().add(r * row + shortest), step: row },
                        Strided { start: values.add(shortest * step), step },
                        Strided { start: sums.as_mut_ptr().add(r * dims + tile * TILE), step: dims },
                        shortest > 0,
                    );
                }
            }
        }
        for r in 0..count {
            let scale = 1.0 / totals[r];
            for v in &mut sums[r * dims..][..dims] {
                *v *= scale;
            }
        }
    }
}

/// Exponentials of a row, less its maximum, in place; returns their sum.
#[inline(always)]
fn softmax<M: Arithmetic>(row: &mut [f32]) -> f32 {
    let largest = largest(row);
    for i in 0..row.len() {
        row[i] = exp::<M>(row[i] - largest);
    }
    total(row, |sum, v| sum + v)
}

/// The maximum; 0 for an empty row.
#[inline(always)]
fn largest(row: &[f32]) -> f32 {
    let Some(first) = row.first() else { return 0.0 };
    let (chunks, rest) = row.as_chunks::<16>();
    let mut lanes = [*first; 16];
    for chunk in chunks {
        for lane in 0..16 {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    for i in 0..rest.len() {
        lanes[i] = if rest[i] > lanes[i] { rest[i] } else { lanes[i] };
    }
    let mut largest = *first;
    for lane in lanes {
        largest = if lane > largest { lane } else { largest };
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, computes, noise};
    use super::*;

    /// One query over some keys, in f64.
    fn reference(q: &[f32], keys: &[&[f32]], values: &[&[f32]]) -> Vec<f64> {
        let dot = |k: &&[f32]| q.iter().zip(*k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let scores: Vec<f64> = keys.iter().map(|k| dot(k) / (q.len() as f64).sqrt()).collect();
        let largest = scores.iter().fold(f64::MIN, |m, v| m.max(*v));
        let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let sum = |c: usize| weights.iter().zip(values).map(|(w, v)| w * f64::from(v[c])).sum::<f64>() / total;
        (0..q.len()).map(sum).collect()
    }

    #[test]
    fn full_attention_agrees_with_f64() {
        for compute in computes() {
            for (heads, d) in [(2, 32), (3, 64), (2, 20), (1, 8)] {
                let width = heads * d;
                let spans = [(0..3, 0..40), (3..33, 40..41), (33..63, 41..350), (63..63, 0..0), (63..64, 0..350)];
                let (q, k, v) = (noise(1, 64 * width), noise(2, 350 * width), noise(3, 350 * width));
                let q: Vec<f32> = q.iter().map(|v| v * 4.0).collect();
                let got = attend_full(&compute, &q, &k, &v, &spans, width, heads);
                let mut want = vec![0.0; q.len()];
                for (rows, keys) in &spans {
                    for (row, head) in rows.clone().flat_map(|r| (0..heads).map(move |h| (r, h))) {
                        let at = |i: usize| i * width + head * d..i * width + (head + 1) * d;
                        let part = |m| keys.clone().map(|i| &(m as &[f32])[at(i)]).collect::<Vec<_>>();
                        want[at(row)].copy_from_slice(&reference(&q[at(row)], &part(&k), &part(&v)));
                    }
                }
                close(&got, &want, 2e-6);
            }
        }
    }

    /// Rows of keys and of values.
    type Rows = (Vec<f32>, Vec<f32>);

    /// A cache with `filled` positions in each of three slots of layer 1, and the rows of each slot.
    fn filled(d: usize, kv_heads: usize, filled: usize) -> (KvCache, Vec<Rows>) {
        let mut kv = KvCache::new(2, 3, 400, kv_heads, d);
        let mut rows = Vec::new();
        for slot in 0..3 {
            let len = filled * kv_heads * d;
            let (k, v) = (noise(10 + slot as u64, len), noise(20 + slot as u64, len));
            // In two pieces, the second over stale rows.
            let half = filled / 2 * kv_heads * d;
            kv.write(1, slot, 0, &v, &k);
            kv.write(1, slot, 0, &k[..half], &v[..half]);
            kv.write(1, slot, filled / 2, &k[half..], &v[half..]);
            rows.push((k, v));
        }
        (kv, rows)
    }

    #[test]
    fn causal_attention_agrees_with_f64() {
        for compute in computes() {
            for (heads, kv_heads, d) in [(9, 3, 64), (4, 4, 32), (4, 1, 20)] {
                let (kv, rows) = filled(d, kv_heads, 380);
                let spans = [(1, 0..1, 0), (0, 1..2, 379), (2, 2..6, 100), (1, 6..56, 290)];
                let q: Vec<f32> = noise(1, 56 * heads * d).iter().map(|v| v * 4.0).collect();
                let got = attend_causal(&compute, &q, &kv, 1, &spans, heads);
                let mut want = vec![0.0; q.len()];
                for (slot, range, start) in &spans {
                    for (row, head) in range.clone().flat_map(|r| (0..heads).map(move |h| (r, h))) {
                        let (at, own) = ((row * heads + head) * d, head / (heads / kv_heads));
                        let place = |i: usize| (i * kv_heads + own) * d..(i * kv_heads + own + 1) * d;
                        let seen = 0..start + row - range.start + 1;
                        let keys: Vec<_> = seen.clone().map(|i| &rows[*slot].0[place(i)]).collect();
                        let values: Vec<_> = seen.map(|i| &rows[*slot].1[place(i)]).collect();
                        want[at..at + d].copy_from_slice(&reference(&q[at..at + d], &keys, &values));
                    }
                }
                close(&got, &want, 2e-6);
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_whatever_rows_are_beside_it() {
        let (heads, kv_heads, d) = (9, 3, 64);
        let (kv, _) = filled(d, kv_heads, 380);
        let q = noise(1, 64 * heads * d);
        let width = heads * d;
        for isa in Isa::available() {
            let of = |threads| Compute::with_isa(threads, isa).unwrap();
            for compute in [of(1), of(3)] {
                let alone: Vec<f32> = (0..64)
                    .flat_map(|i| {
                        attend_causal(&of(1), &q[i * width..][..width], &kv, 1, &[(0, 0..1, 300 + i)], heads).to_vec()
                    })
                    .collect();
                for n in (1..=9).chain([16, 64]) {
                    let got = attend_causal(&compute, &q[..n * width], &kv, 1, &[(0, 0..n, 300)], heads);
                    assert!(got.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()), "causal, {n} rows");
                }
                let (k, v) = (noise(2, 70 * width), noise(3, 70 * width));
                let full = |n: usize| attend_full(&compute, &q[..n * width], &k, &v, &[(0..n, 1..70)], width, heads);
                let all = full(64);
                for n in (1..=9).chain([16]) {
                    assert!(full(n).iter().zip(all.iter()).all(|(a, b)| a.to_bits() == b.to_bits()), "full, {n} rows");
                }
            }
        }
    }

    #[test]
    fn what_was_rewound_is_not_seen() {
        let (heads, d) = (2, 16);
        let mut kv = KvCache::new(1, 1, 40, heads, d);
        let row = |seed| noise(seed, heads * d);
        kv.write(0, 0, 0, &[row(1), row(2)].concat(), &[row(3), row(4)].concat());
        let q = row(9);
        for compute in computes() {
            let before = attend_causal(&compute, &q, &kv, 0, &[(0, 0..1, 1)], heads);
            let mut dirty = KvCache::new(1, 1, 40, heads, d);
            let nan = vec![f32::NAN; 40 * heads * d];
            dirty.write(0, 0, 0, &nan, &nan);
            dirty.write(0, 0, 0, &[row(1), row(2)].concat(), &[row(3), row(4)].concat());
            assert_eq!(attend_causal(&compute, &q, &dirty, 0, &[(0, 0..1, 1)], heads), before);
        }
    }
}
