//! Plain Rust: the twin that every other set is compared with.

use super::{BLOCK, Simd, TILE};
use half::f16;

/// Arrays of 16 lanes; the compiler makes of them what the target's baseline has.
pub(in super::super) struct Portable;

const LANES: usize = TILE;

impl Simd for Portable {
    const LANES: usize = LANES;
    const ROWS: usize = 4;
    const FLOAT_ROWS: usize = 6;
    type F = [f32; LANES];
    type I = [i32; LANES];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::F {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        // SAFETY: 16 values are readable by the trait's contract.
        unsafe { p.cast::<[f32; LANES]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self::F {
        // SAFETY: 16 half floats are readable by the trait's contract.
        let bits = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        bits.map(|b| f16::from_bits(b).to_f32())
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::F) {
        // SAFETY: 16 values are writable by the trait's contract.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(v) }
    }

    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    unsafe fn to_float(i: Self::I) -> Self::F {
        i.map(|v| v as f32)
    }

    #[inline(always)]
    unsafe fn prefetch(_p: *const u8) {}

    #[inline(always)]
    unsafe fn turn8(from: *const f32, step: usize, to: *mut f32, to_step: usize) {
        for r in 0..8 {
            for c in 0..8 {
                // SAFETY: value c < 8 of row r < 8 is readable, and its place writable, by the trait's contract.
                unsafe { *to.add(c * to_step + r) = *from.add(r * step + c) };
            }
        }
    }

    #[inline(always)]
    unsafe fn dot4<const R: usize, const V: usize>(w: *const u8, x: &[*const i8; R], at: usize) -> [[Self::I; V]; R] {
        let mut sums = [[[0i32; LANES]; V]; R];
        // SAFETY: V is 1: with 16 lanes the four reads of 64 bytes follow each other; each activation block has 32 bytes.
        let w = unsafe { &*w.cast::<[u8; 256]>() };
        for r in 0..R {
            // SAFETY: as above.
            let x = unsafe { &*x[r].add(at).cast::<[i8; BLOCK]>() };
            for g in 0..4 {
                for lane in 0..LANES {
                    for j in 0..4 {
                        let byte = w[64 * g + 4 * lane + j];
                        let (low, high) = (i32::from(byte & 15), i32::from(byte >> 4));
                        sums[r][0][lane] += low * i32::from(x[4 * g + j]) + high * i32::from(x[16 + 4 * g + j]);
                    }
                }
            }
        }
        sums
    }

    #[inline(always)]
    unsafe fn dot8<const R: usize, const V: usize>(
        w: *const u8,
        x: &[*const i8; R],
        at: usize,
        _sums: &[i32; R],
    ) -> [[Self::I; V]; R] {
        let mut sums = [[[0i32; LANES]; V]; R];
        // SAFETY: V is 1: with 16 lanes the eight reads of 64 bytes follow each other; each activation block has 32
        // bytes.
        let w = unsafe { &*w.cast::<[i8; 512]>() };
        for r in 0..R {
            // SAFETY: as above.
            let x = unsafe { &*x[r].add(at).cast::<[i8; BLOCK]>() };
            for g in 0..8 {
                for lane in 0..LANES {
                    for j in 0..4 {
                        sums[r][0][lane] += i32::from(w[64 * g + 4 * lane + j]) * i32::from(x[4 * g + j]);
                    }
                }
            }
        }
        sums
    }
}
