//! The vector operations that the matrix kernels are written in, once for each instruction set.
//!
//! The integer dot products are exact, and the float steps around them are fused in the same order everywhere, so a
//! quantised product has the same bits on every instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
pub(super) use portable::Portable;

use std::sync::OnceLock;

/// Output rows in one tile of packed weights.
pub(super) const TILE: usize = 16;
/// Values that share one scale.
pub(super) const BLOCK: usize = 32;
/// Bytes of one block of a tile in 4 bits.
pub(super) const BYTES4: usize = TILE * BLOCK / 2;
/// Bytes of one block of a tile in 8 bits.
pub(super) const BYTES8: usize = TILE * BLOCK;

/// An instruction set that the kernels are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
}

impl Isa {
    /// The sets that this processor has, least first.
    pub fn available() -> Vec<Isa> {
        let mut have = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            if avx2 {
                have.push(Isa::Avx2);
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                have.push(Isa::Avx512);
            }
        }
        have
    }

    /// The best set whose products agree with the portable ones on this very processor, found once per process. A set
    /// that disagrees (a faulty hypervisor, an emulator) is passed over with a warning: slow beats wrong.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            for isa in Isa::available().into_iter().rev() {
                if super::selfcheck::agrees(isa) {
                    return isa;
                }
                tracing::warn!(isa = isa.name(), "kernels disagree with the portable ones on this processor: not used");
            }
            Isa::Portable
        })
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "AVX2",
            Isa::Avx512 => "AVX-512 VNNI",
        }
    }
}

/// Vector operations of one instruction set. `F` and `I` hold [`LANES`](Self::LANES) values each.
///
/// # Safety
/// Every function may be called only where the processor has the instruction set; pointers must be valid for what the
/// function's own line says. Nothing needs to be aligned.
pub(super) trait Simd {
    /// 8 or 16: divides [`TILE`].
    const LANES: usize;
    /// Rows that one pass of a quantised kernel handles at most: bounded by the registers.
    const ROWS: usize;
    /// Rows that one pass of the float kernel handles at most.
    const FLOAT_ROWS: usize;
    type F: Copy;
    type I: Copy;

    unsafe fn splat(x: f32) -> Self::F;
    /// Reads `LANES` values at `p`.
    unsafe fn load(p: *const f32) -> Self::F;
    /// Reads `LANES` half floats at `p`.
    unsafe fn load_f16(p: *const u16) -> Self::F;
    /// Writes `LANES` values at `p`.
    unsafe fn store(p: *mut f32, v: Self::F);
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    unsafe fn to_float(i: Self::I) -> Self::F;

    /// Asks for the cache line of `p`, which need not be readable.
    unsafe fn prefetch(p: *const u8);

    /// Turns 8 rows of 8 values, row `r` at `from + r · step`, into 8 columns: value `c` of row `r` goes to
    /// `to + c · to_step + r`.
    unsafe fn turn8(from: *const f32, step: usize, to: *mut f32, to_step: usize);

    /// Dot products of `V · LANES` weight rows with `R` activation rows over one block, weights in 4 bits without sign.
    ///
    /// Reads `4 · V · LANES` bytes at `w + 64·g` for `g` in `0..4`: byte `4·lane + j` holds value `4·g + j` of the block
    /// low and value `16 + 4·g + j` high. Reads [`BLOCK`] bytes at `at` of each of `x`, all within ±127.
    unsafe fn dot4<const R: usize, const V: usize>(w: *const u8, x: &[*const i8; R], at: usize) -> [[Self::I; V]; R];

    /// The same with signed bytes. Reads `4 · V · LANES` bytes at `w + 64·g` for `g` in `0..8`: byte `4·lane + j` is
    /// value `4·g + j`. `sums` are the sums of each activation block.
    unsafe fn dot8<const R: usize, const V: usize>(
        w: *const u8,
        x: &[*const i8; R],
        at: usize,
        sums: &[i32; R],
    ) -> [[Self::I; V]; R];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_set_is_the_last_available_one() {
        assert_eq!(Some(Isa::best()), Isa::available().last().copied());
        assert_eq!(Isa::available()[0], Isa::Portable);
    }
}
