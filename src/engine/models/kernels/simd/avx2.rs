//! AVX2 with FMA and F16C: 8 lanes, half a tile at a time.

use super::Simd;
use std::arch::x86_64::*;

/// Eight lanes in a 256-bit register.
pub(in super::super) struct Avx2;

/// Four activation bytes in every lane.
///
/// # Safety
/// Four bytes must be readable at `p`, on a processor with AVX2.
#[inline(always)]
unsafe fn four(p: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi32(p.cast::<i32>().read_unaligned()) }
}

/// [`Simd::turn8`], for AVX-512 too.
///
/// # Safety
/// As there, on a processor with AVX2.
#[inline(always)]
pub(super) unsafe fn turn8(from: *const f32, step: usize, to: *mut f32, to_step: usize) {
    // SAFETY: reads 8 values of each of 8 rows and writes 8 of each of 8 columns, by the caller's promise.
    unsafe {
        let (a, b) = (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(step)));
        let (c, d) = (_mm256_loadu_ps(from.add(2 * step)), _mm256_loadu_ps(from.add(3 * step)));
        let (e, f) = (_mm256_loadu_ps(from.add(4 * step)), _mm256_loadu_ps(from.add(5 * step)));
        let (g, h) = (_mm256_loadu_ps(from.add(6 * step)), _mm256_loadu_ps(from.add(7 * step)));
        // Pairs of rows, then fours, within each half; then the halves change sides.
        let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let (ef0, ef1) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
        let (gh0, gh1) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
        let low = [
            _mm256_shuffle_ps::<0x44>(ab0, cd0),
            _mm256_shuffle_ps::<0xee>(ab0, cd0),
            _mm256_shuffle_ps::<0x44>(ab1, cd1),
            _mm256_shuffle_ps::<0xee>(ab1, cd1),
        ];
        let high = [
            _mm256_shuffle_ps::<0x44>(ef0, gh0),
            _mm256_shuffle_ps::<0xee>(ef0, gh0),
            _mm256_shuffle_ps::<0x44>(ef1, gh1),
            _mm256_shuffle_ps::<0xee>(ef1, gh1),
        ];
        for i in 0..4 {
            _mm256_storeu_ps(to.add(i * to_step), _mm256_permute2f128_ps::<0x20>(low[i], high[i]));
            _mm256_storeu_ps(to.add((4 + i) * to_step), _mm256_permute2f128_ps::<0x31>(low[i], high[i]));
        }
    }
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const ROWS: usize = 4;
    const FLOAT_ROWS: usize = 6;
    type F = __m256;
    type I = __m256i;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        // SAFETY: the processor has AVX2 by the trait's contract.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: 8 values are readable by the trait's contract.
        unsafe { _mm256_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m256 {
        // SAFETY: 8 half floats = 16 bytes are readable by the trait's contract.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        // SAFETY: 8 values are writable by the trait's contract.
        unsafe { _mm256_storeu_ps(p, v) }
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: registers only.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        // SAFETY: registers only.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: registers only.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn to_float(i: __m256i) -> __m256 {
        // SAFETY: registers only.
        unsafe { _mm256_cvtepi32_ps(i) }
    }

    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        // SAFETY: a hint; any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) };
    }

    #[inline(always)]
    unsafe fn turn8(from: *const f32, step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: the trait's contract.
        unsafe { turn8(from, step, to, to_step) }
    }

    #[inline(always)]
    unsafe fn dot4<const R: usize, const V: usize>(w: *const u8, x: &[*const i8; R], at: usize) -> [[__m256i; V]; R] {
        // SAFETY: reads 32 bytes at w + 64·g + 32·v for g < 4 and v < V, and 4 bytes at x + at + 4·g and
        // x + at + 16 + 4·g, so within 32 of x + at.
        // The 16-bit sums cannot overflow: 8 groups · 2 products · 15 · 127 = 30 480.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            let mut sums = [[_mm256_setzero_si256(); V]; R];
            for g in 0..4 {
                let (mut low, mut high) = ([mask; V], [mask; V]);
                for v in 0..V {
                    let both = _mm256_loadu_si256(w.add(64 * g + 32 * v).cast());
                    low[v] = _mm256_and_si256(both, mask);
                    high[v] = _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask);
                }
                for r in 0..R {
                    let x = x[r].add(at + 4 * g);
                    let (first, second) = (four(x), four(x.add(16)));
                    for v in 0..V {
                        let a = _mm256_maddubs_epi16(low[v], first);
                        let b = _mm256_maddubs_epi16(high[v], second);
                        sums[r][v] = _mm256_add_epi16(sums[r][v], _mm256_add_epi16(a, b));
                    }
                }
            }
            let ones = _mm256_set1_epi16(1);
            for r in 0..R {
                for v in 0..V {
                    sums[r][v] = _mm256_madd_epi16(sums[r][v], ones);
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
        _sums: &[i32; R],
    ) -> [[__m256i; V]; R] {
        // SAFETY: reads 32 bytes at w + 64·g + 32·v for g < 8 and v < V, and 4 bytes at x + at + 4·g, so within 32 of
        // x + at.
        // The multiply wants one side without sign: |w| · (x with w's sign). 2 · 128 · 127 = 32 512 does not saturate.
        unsafe {
            let ones = _mm256_set1_epi16(1);
            let mut sums = [[_mm256_setzero_si256(); V]; R];
            for g in 0..8 {
                for v in 0..V {
                    let weights = _mm256_loadu_si256(w.add(64 * g + 32 * v).cast());
                    let sizes = _mm256_abs_epi8(weights);
                    for r in 0..R {
                        let signed = _mm256_sign_epi8(four(x[r].add(at + 4 * g)), weights);
                        let pairs = _mm256_maddubs_epi16(sizes, signed);
                        sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(pairs, ones));
                    }
                }
            }
            sums
        }
    }
}
