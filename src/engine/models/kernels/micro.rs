//! The float kernel under matrices and attention: rows times sixteen columns.

use super::simd::{Simd, TILE};

/// A strided matrix of rows: row `r` starts at `start + r · step`.
#[derive(Clone, Copy)]
pub(super) struct Strided<P> {
    pub(super) start: P,
    pub(super) step: usize,
}

/// A value that a matrix of weights may hold; read, it is an f32.
pub(super) trait Element: Copy {
    /// # Safety
    /// The processor has `S`, and `S::LANES` values are readable at `p`.
    unsafe fn load<S: Simd>(p: *const Self) -> S::F;
}

impl Element for f32 {
    #[inline(always)]
    unsafe fn load<S: Simd>(p: *const f32) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load(p) }
    }
}

/// The bits of a half float.
impl Element for u16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(p: *const u16) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_f16(p) }
    }
}

/// `out[r][c] = Σ x[r][i] · w[i][c]` for `count` rows, `c` in `0..16`, and `i` in `0..n` in order; with `onto`, added
/// onto what `out` holds. The value of a row does not depend on `count`.
///
/// # Safety
/// The processor has `S`; `x` has `n` values in each of `count` rows, `w` 16 values in each of `n` rows, `out` 16
/// writable values in each of `count` rows.
#[inline(always)]
pub(super) unsafe fn block<S: Simd, W: Element>(
    count: usize,
    n: usize,
    x: Strided<*const f32>,
    w: Strided<*const W>,
    out: Strided<*mut f32>,
    onto: bool,
) {
    let mut row = 0;
    while row < count {
        let x = Strided { start: x.start.wrapping_add(row * x.step), ..x };
        let out = Strided { start: out.start.wrapping_add(row * out.step), ..out };
        // SAFETY: `row + R ≤ count`, so these rows are among the caller's.
        unsafe {
            row += match count - row {
                12.. if S::FLOAT_ROWS >= 12 => rows::<S, W, 12>(n, x, w, out, onto),
                6.. => rows::<S, W, 6>(n, x, w, out, onto),
                4.. => rows::<S, W, 4>(n, x, w, out, onto),
                3 => rows::<S, W, 3>(n, x, w, out, onto),
                2 => rows::<S, W, 2>(n, x, w, out, onto),
                _ => rows::<S, W, 1>(n, x, w, out, onto),
            };
        }
    }
}

/// [`block`] for `R` rows, whose sums stay in registers. Returns `R`.
///
/// # Safety
/// As [`block`] with `count = R`.
#[inline(always)]
unsafe fn rows<S: Simd, W: Element, const R: usize>(
    n: usize,
    x: Strided<*const f32>,
    w: Strided<*const W>,
    out: Strided<*mut f32>,
    onto: bool,
) -> usize {
    // SAFETY: the caller's promise; 16 columns are one or two vectors.
    unsafe {
        if S::LANES == TILE {
            let mut acc = [S::splat(0.0); R];
            if onto {
                for r in 0..R {
                    acc[r] = S::load(out.start.add(r * out.step));
                }
            }
            for i in 0..n {
                let a = W::load::<S>(w.start.add(i * w.step));
                for r in 0..R {
                    acc[r] = S::fma(S::splat(*x.start.add(r * x.step + i)), a, acc[r]);
                }
            }
            for r in 0..R {
                S::store(out.start.add(r * out.step), acc[r]);
            }
        } else {
            let mut acc = [[S::splat(0.0); 2]; R];
            if onto {
                for r in 0..R {
                    let at = out.start.add(r * out.step);
                    acc[r] = [S::load(at), S::load(at.add(S::LANES))];
                }
            }
            for i in 0..n {
                let at = w.start.add(i * w.step);
                let (a, b) = (W::load::<S>(at), W::load::<S>(at.add(S::LANES)));
                for r in 0..R {
                    let x = S::splat(*x.start.add(r * x.step + i));
                    acc[r] = [S::fma(x, a, acc[r][0]), S::fma(x, b, acc[r][1])];
                }
            }
            for r in 0..R {
                let at = out.start.add(r * out.step);
                S::store(at, acc[r][0]);
                S::store(at.add(S::LANES), acc[r][1]);
            }
        }
    }
    R
}
