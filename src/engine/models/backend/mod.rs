//! Back ends: the operations that the forward passes are written in.
//!
//! One forward pass per model family, generic over [`Backend`]. [`CpuBackend`](cpu::CpuBackend) runs it on this
//! project's kernels, [`CandleBackend`](candle::CandleBackend) on candle's tensors (CUDA, Metal, and the CPU as the
//! twin that the kernels are tested against).

pub mod candle;
mod checks;
pub mod cpu;
#[cfg(test)]
mod twins;

use super::ModelError;
use candle_core::Tensor;
use candle_core::quantized::QTensor;
use checks::{
    check_copy, check_cover, check_heads, check_ids, check_keys, check_rope, check_rows, check_span, rope_angles,
    unfold_rows,
};
use std::ops::Range;
use std::sync::Arc;

/// A weight as a file holds it, on the host.
pub enum HostWeight {
    /// f32, f16 or bf16 tensor `[out, in]`.
    Plain(Tensor),
    /// A GGUF block-quantised tensor `[out, in]`.
    Quantized(Arc<QTensor>),
}

/// How a linear weight is to be held for multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Quantised weights keep their blocks, floats become f32.
    AsIs,
    /// Floats become int8 blocks of 32 with one scale each (activations are quantised on the fly).
    Int8,
}

/// Rows of one sequence inside a ragged matrix, at positions `start..start + rows.len()` of KV slot `slot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvSpan {
    pub slot: usize,
    pub rows: Range<usize>,
    pub start: usize,
}

/// Query rows that may attend to key rows, in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullSpan {
    pub queries: Range<usize>,
    pub keys: Range<usize>,
}

/// Shape of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    pub layers: usize,
    pub slots: usize,
    /// Positions per slot.
    pub capacity: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// How rotary pairs are laid out in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// Pairs (2i, 2i+1): GGUF llama files.
    Interleaved,
    /// Pairs (i, i + d/2): HF safetensors files.
    Half,
}

/// Operations over row-major f32 matrices `[rows, cols]`. Results for one row never depend on which other rows are in
/// the matrix: speculative verification and batching rest on it.
pub trait Backend: Send + Sync + 'static {
    /// Activations `[rows, cols]`.
    type Mat: Send;
    /// A linear layer: weight `[out, in]` and bias `[out]`.
    type Linear: Send + Sync;
    /// A vector of parameters.
    type Vector: Send + Sync;
    /// A lookup table `[entries, width]`.
    type Table: Send + Sync;
    /// Keys and values of all slots and layers. Length bookkeeping is the caller's.
    type Kv: Send;
    /// Rotary cosines and sines.
    type Rope: Send + Sync;

    /// Words for the device line of the snapshot.
    fn describe(&self) -> String;

    /// Rows of a batch worth computing at once: as many as fill the device, as few as stay in its caches.
    fn rows_at_once(&self) -> usize {
        4096
    }

    fn load_linear(&self, weight: HostWeight, bias: Option<Tensor>, p: Precision) -> Result<Self::Linear, ModelError>;
    fn load_vector(&self, t: &Tensor) -> Result<Self::Vector, ModelError>;
    fn load_table(&self, weight: HostWeight) -> Result<Self::Table, ModelError>;
    fn linear_bytes(&self, l: &Self::Linear) -> u64;

    fn upload(&self, rows: usize, cols: usize, data: Vec<f32>) -> Result<Self::Mat, ModelError>;
    /// The values of a matrix that is not needed further, row by row.
    fn download(&self, m: Self::Mat) -> Result<Vec<f32>, ModelError>;
    fn rows(&self, m: &Self::Mat) -> usize;

    /// `x · wᵀ + bias` → `[rows, out]`.
    fn linear(&self, x: &Self::Mat, w: &Self::Linear) -> Result<Self::Mat, ModelError>;
    /// Several layers over the same input (q, k, v; gate, up): quantises `x` once, one parallel region.
    fn linears<const N: usize>(&self, x: &Self::Mat, ws: [&Self::Linear; N]) -> Result<[Self::Mat; N], ModelError>;
    fn embed(&self, table: &Self::Table, ids: &[u32]) -> Result<Self::Mat, ModelError>;
    fn layer_norm(
        &self,
        x: &Self::Mat,
        gamma: &Self::Vector,
        beta: &Self::Vector,
        eps: f32,
    ) -> Result<Self::Mat, ModelError>;
    fn rms_norm(&self, x: &Self::Mat, gamma: &Self::Vector, eps: f32) -> Result<Self::Mat, ModelError>;
    /// Exact (erf) GELU.
    fn gelu(&self, x: Self::Mat) -> Result<Self::Mat, ModelError>;
    /// `silu(gate) * up`.
    fn silu_mul(&self, gate: Self::Mat, up: &Self::Mat) -> Result<Self::Mat, ModelError>;
    /// `x + y`.
    fn add(&self, x: Self::Mat, y: &Self::Mat) -> Result<Self::Mat, ModelError>;
    fn gather_rows(&self, x: &Self::Mat, rows: &[usize]) -> Result<Self::Mat, ModelError>;
    /// The rows of all parts, one part after the other. The parts have equal widths; at least one is given.
    fn concat_rows(&self, mut parts: Vec<Self::Mat>) -> Result<Self::Mat, ModelError> {
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let mut rows = 0;
        let mut data = Vec::new();
        for part in parts {
            rows += self.rows(&part);
            data.append(&mut self.download(part)?);
        }
        let cols = data.len().checked_div(rows).unwrap_or(0);
        self.upload(rows, cols, data)
    }
    /// The same columns of every row.
    fn columns(&self, x: &Self::Mat, cols: Range<usize>) -> Result<Self::Mat, ModelError>;
    /// Rows of a convolution's input windows, so that a convolution is a linear layer: `x` `[T, C]` zero-padded by
    /// `pad` on both ends → `[(T + 2·pad − kernel)/stride + 1, kernel · C]`, kernel-major (tap, then channel).
    fn unfold(&self, x: &Self::Mat, kernel: usize, stride: usize, pad: usize) -> Result<Self::Mat, ModelError>;

    fn rope_table(
        &self,
        head_dim: usize,
        positions: usize,
        base: f32,
        factors: Option<&[f32]>,
        style: RopeStyle,
    ) -> Result<Self::Rope, ModelError>;
    /// Rotates every head of every row by its position.
    fn rope(&self, x: Self::Mat, head_dim: usize, at: &[usize], rope: &Self::Rope) -> Result<Self::Mat, ModelError>;

    fn kv_new(&self, shape: KvShape) -> Result<Self::Kv, ModelError>;
    fn kv_bytes(&self, kv: &Self::Kv) -> u64;
    /// Whether the value of a row never depends, bit for bit, on the rows computed beside it.
    fn rows_are_independent(&self) -> bool {
        false
    }
    /// Copies the first `len` positions of slot `from` to slot `to`, in every layer.
    fn kv_copy(&self, kv: &mut Self::Kv, from: usize, to: usize, len: usize) -> Result<(), ModelError>;
    /// Stores the rows of `k` and `v` at their spans' positions in `layer`.
    fn kv_write(
        &self,
        kv: &mut Self::Kv,
        layer: usize,
        spans: &[KvSpan],
        k: &Self::Mat,
        v: &Self::Mat,
    ) -> Result<(), ModelError>;
    /// Causal attention of every row over its slot's positions `0..=own`. Scale 1/√head_dim; grouped heads.
    fn attend_causal(
        &self,
        q: &Self::Mat,
        kv: &Self::Kv,
        layer: usize,
        spans: &[KvSpan],
        heads: usize,
    ) -> Result<Self::Mat, ModelError>;
    /// Attention of query rows over key rows, span by span, without a mask. Scale 1/√head_dim.
    fn attend_full(
        &self,
        q: &Self::Mat,
        k: &Self::Mat,
        v: &Self::Mat,
        spans: &[FullSpan],
        heads: usize,
    ) -> Result<Self::Mat, ModelError>;
}
