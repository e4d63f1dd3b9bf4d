//! Rotary positions, in place.

use super::Compute;
use super::pool::Parts;

/// Values in one task below which another thread does not pay.
const LEAST_PER_TASK: usize = 16 * 1024;

/// Rotates every head of `head_dim` values of each of `at.len()` rows by the angles of the row's position: `cos` and
/// `sin` are `[positions, head_dim / 2]`. Pairs are (2i, 2i + 1) when `interleaved`, else (i, i + head_dim / 2).
///
/// # Panics
/// When a position is outside the table or the rows are not whole heads.
pub fn rotate(
    compute: &Compute,
    x: &mut [f32],
    head_dim: usize,
    at: &[usize],
    (cos, sin): (&[f32], &[f32]),
    interleaved: bool,
) {
    if at.is_empty() {
        return;
    }
    let (cols, half) = (x.len() / at.len(), head_dim / 2);
    assert!(head_dim > 0 && cols * at.len() == x.len() && cols.is_multiple_of(head_dim), "rows of whole heads");
    let parts = Parts::new(x);
    compute.pool.ranges(at.len(), LEAST_PER_TASK.div_ceil(cols.max(1)), |r| {
        // SAFETY: `ranges` hands out disjoint ranges of rows.
        let x = unsafe { parts.part(r.start * cols..r.end * cols) };
        for (row, p) in x.chunks_exact_mut(cols).zip(&at[r]) {
            let (cos, sin) = (&cos[p * half..][..half], &sin[p * half..][..half]);
            for head in row.chunks_exact_mut(head_dim) {
                if interleaved {
                    for ((pair, c), s) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
                        *pair = [pair[0] * c - pair[1] * s, pair[0] * s + pair[1] * c];
                    }
                } else {
                    let (low, high) = head.split_at_mut(half);
                    for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                        (*a, *b) = (*a * c - *b * s, *a * s + *b * c);
                    }
                }
            }
        }
    });
}
