//! CPU kernels: products with packed weights, attention, norms, activations, rotary positions.
//!
//! The only room where `unsafe` may stand. Every kernel is written once, over the vector operations of [`simd`] or as
//! plain loops, and built for plain Rust, AVX2 and AVX-512 VNNI; the set is chosen once per process, after the kernels
//! have agreed with their portable twins on this very processor ([`Isa::best`]).
//!
//! State: a [`Compute`] holds a thread pool, the instruction set and buffers that wait for use, and is shared by all
//! models; nothing else lives here. Any thread may call; the pool serves one region at a time and a second caller works alone ([`Pool`]).
//! Failure: wrong shapes panic (the back end checks what comes from outside); nothing else can fail.
//!
//! The value of a row never depends on which other rows are in the call, nor on the number of threads, bit for bit.

// Vector intrinsics, writing disjoint parts of one matrix from several threads, and a pool that lends closures to them
// cannot be written without it. Each block proves its bounds.
#![allow(unsafe_code)]
// Inner loops are plain loops over indices. Adapters (`zip`, `map`, `from_fn`) are functions of their own: where the
// compiler leaves one out of line, it is built without the kernel's instruction set, and every vector goes through memory.
#![allow(clippy::needless_range_loop)]

/// Builds a body for every instruction set: the same plain loops, compiled with that set's features. A body that fuses
/// multiply-adds takes the [`Arithmetic`](elementwise::Arithmetic) to use as its type parameter, `= body<M>`.
macro_rules! versions {
    ($vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident $(<$arithmetic:ident>)?;) => {
        $vis fn $name(isa: $crate::engine::models::kernels::Isa, $($arg: $type),*) {
            use $crate::engine::models::kernels::Isa;
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2($($arg: $type),*) {
                $(type $arithmetic = $crate::engine::models::kernels::elementwise::Fused;)?
                $body $(::<$arithmetic>)? ($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
            fn avx512($($arg: $type),*) {
                $(type $arithmetic = $crate::engine::models::kernels::elementwise::Fused;)?
                $body $(::<$arithmetic>)? ($($arg),*)
            }
            fn portable($($arg: $type),*) {
                $(type $arithmetic = $crate::engine::models::kernels::elementwise::Separate;)?
                $body $(::<$arithmetic>)? ($($arg),*)
            }
            match isa {
                // SAFETY: a `Compute` holds only sets that this processor has.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => unsafe { avx512($($arg),*) },
                _ => portable($($arg),*),
            }
        }
    };
}
use versions;

mod activations;
mod attention;
mod buffer;
mod elementwise;
mod kv;
mod matmul;
mod micro;
mod norm;
mod packed;
mod pool;
mod repack;
mod rope;
mod selfcheck;
mod simd;
#[cfg(test)]
mod testing;

pub use attention::{attend_causal, attend_full};
pub use buffer::Buffer;
pub use elementwise::{add, gelu, silu_mul};
pub use kv::KvCache;
pub use matmul::matmul;
pub use norm::{layer_norm, rms_norm};
pub use packed::Packed;
pub use pool::Pool;
pub use rope::rotate;
pub use simd::Isa;

use buffer::Spare;
use std::sync::Arc;

/// Threads, an instruction set and buffers: what every kernel runs with. Cheap to clone; clones share the threads.
#[derive(Clone)]
pub struct Compute {
    pool: Arc<Pool>,
    isa: Isa,
    spare: Arc<Spare>,
}

impl Compute {
    /// A pool of `threads` threads and the best instruction set.
    pub fn new(threads: usize) -> Compute {
        Compute::of(Arc::new(Pool::new(threads)), Isa::best())
    }

    /// The same with a named instruction set; `None` when this processor lacks it.
    pub fn with_isa(threads: usize, isa: Isa) -> Option<Compute> {
        Isa::available().contains(&isa).then(|| Compute::of(Arc::new(Pool::new(threads)), isa))
    }

    fn of(pool: Arc<Pool>, isa: Isa) -> Compute {
        Compute { pool, isa, spare: Arc::default() }
    }

    /// A buffer of `len` values, whatever they are.
    pub fn buffer(&self, len: usize) -> Buffer {
        self.spare.take(len)
    }

    /// Threads in the pool, the caller included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}
