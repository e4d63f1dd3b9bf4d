//! AVX-512 with VNNI: 16 lanes, a whole tile at a time.
//!
//! No processor of the development machines has it, so the tests here run it only where one does; the self-check at
//! start-up ([`super::Isa::best`]) keeps it out of use wherever it would disagree with the portable twin.

use super::Simd;
use std::arch::x86_64::*;

/// Sixteen lanes in a 512-bit register.
pub(in super::super) struct Avx512;

/// Four activation bytes in every lane.
///
/// # Safety
/// Four bytes must be readable at `p`, on a processor with AVX-512 F.
#[inline(always)]
unsafe fn four(p: *const i8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_set1_epi32(p.cast::<i32>().read_unaligned()) }
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const ROWS: usize = 8;
    const FLOAT_ROWS: usize = 12;
    type F = __m512;
    type I = __m512i;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        // SAFETY: the processor has AVX-512 by the trait's contract.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: 16 values are readable by the trait's contract.
        unsafe { _mm512_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        // SAFETY: 16 half floats = 32 bytes are readable by the trait's contract.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        // SAFETY: 16 values are writable by the trait's contract.
        unsafe { _mm512_storeu_ps(p, v) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: registers only.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: registers only.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: registers only.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn to_float(i: __m512i) -> __m512 {
        // SAFETY: registers only.
        unsafe { _mm512_cvtepi32_ps(i) }
    }

    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        // SAFETY: a hint; any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) };
    }

    #[inline(always)]
    unsafe fn turn8(from: *const f32, step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: the trait's contract; a processor with AVX-512 has AVX2, and `Isa::available` asks for it.
        unsafe { super::avx2::turn8(from, step, to, to_step) }
    }

    #[inline(always)]
    unsafe fn dot4<const R: usize, const V: usize>(w: *const u8, x: &[*const i8; R], at: usize) -> [[__m512i; V]; R] {
        // SAFETY: reads 64 bytes at w + 64·g + 64·v for g < 4 (V is 1: a line is one register), and 4 bytes at
        // x + at + 4·g and x + at + 16 + 4·g, so within 32 of x + at.
        unsafe {
            let mask = _mm512_set1_epi8(15);
            let mut sums = [[_mm512_setzero_si512(); V]; R];
            for g in 0..4 {
                for v in 0..V {
                    let both = _mm512_loadu_si512(w.add(64 * g + 64 * v).cast());
                    let low = _mm512_and_si512(both, mask);
                    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), mask);
                    for r in 0..R {
                        let x = x[r].add(at + 4 * g);
                        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], low, four(x));
                        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], high, four(x.add(16)));
                    }
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn dot8<const R: usize, const V: usize>(
        w: *const u8,
        x: &[*const i8; R],
        at: usize,
        sums: &[i32; R],
    ) -> [[__m512i; V]; R] {
        // SAFETY: reads 64 bytes at w + 64·g + 64·v for g < 8 (V is 1), and 4 bytes at x + at + 4·g, so within 32 of
        // x + at.
        // The multiply wants one side without sign: w + 128, and 128 · Σx is taken off at the start.
        unsafe {
            let flip = _mm512_set1_epi8(-128);
            let mut acc = [[_mm512_setzero_si512(); V]; R];
            for r in 0..R {
                acc[r] = [_mm512_set1_epi32(-128 * sums[r]); V];
            }
            for g in 0..8 {
                for v in 0..V {
                    let weights = _mm512_xor_si512(_mm512_loadu_si512(w.add(64 * g + 64 * v).cast()), flip);
                    for r in 0..R {
                        acc[r][v] = _mm512_dpbusd_epi32(acc[r][v], weights, four(x[r].add(at + 4 * g)));
                    }
                }
            }
            acc
        }
    }
}
