//! Forward passes on this project's CPU kernels.
//!
//! Row independence holds bit for bit: a row gives the same result alone and in any batch, with any number of threads.

use super::{Backend, FullSpan, HostWeight, KvShape, KvSpan, Precision, RopeStyle};
use crate::engine::models::ModelError;
use crate::engine::models::kernels::{self, Buffer, Compute, KvCache, Packed};
use candle_core::quantized::QTensor;
use candle_core::{DType, Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// Runs forward passes on the CPU.
#[derive(Clone)]
pub struct CpuBackend {
    compute: Compute,
}

impl CpuBackend {
    /// A back end with `threads` threads of its own, the calling thread included.
    pub fn new(threads: usize) -> Self {
        Self::with_compute(Compute::new(threads))
    }

    /// A back end on threads shared with others (clone the [`Compute`], or the back end itself).
    pub fn with_compute(compute: Compute) -> Self {
        CpuBackend { compute }
    }
}

/// A row-major matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Mat {
    rows: usize,
    cols: usize,
    data: Buffer,
}

impl Mat {
    fn of(cols: usize, data: Buffer) -> Mat {
        Mat { rows: data.len() / cols.max(1), cols, data }
    }

    fn need(&self, rows: usize, cols: usize, what: &str) -> Result<(), ModelError> {
        if (self.rows, self.cols) != (rows, cols) {
            return Err(ModelError::BadInput(format!(
                "{what}: a matrix of {} × {} where {rows} × {cols} is needed",
                self.rows, self.cols
            )));
        }
        Ok(())
    }
}

/// Rows to look up, as the file holds them.
pub enum Table {
    /// Floats of any type.
    Plain(Tensor),
    /// Blocks, dequantised row by row.
    Quantized(Arc<QTensor>),
}

/// Keys and values.
pub struct Kv {
    shape: KvShape,
    cache: KvCache,
}

/// Cosines and sines `[positions, head_dim / 2]`.
pub struct Rope {
    cos: Vec<f32>,
    sin: Vec<f32>,
    positions: usize,
    head_dim: usize,
    style: RopeStyle,
}

impl Backend for CpuBackend {
    type Mat = Mat;
    type Linear = Packed;
    type Vector = Vec<f32>;
    type Table = Table;
    type Kv = Kv;
    type Rope = Rope;

    fn describe(&self) -> String {
        let threads = self.compute.threads();
        format!("cpu, {threads} thread{}, {}", if threads == 1 { "" } else { "s" }, self.compute.isa().name())
    }

    /// Beyond this the activations of a layer leave the cache and a row costs more (about a fifth at 4096 rows of
    /// MiniLM).
    fn rows_at_once(&self) -> usize {
        512
    }

    fn load_linear(&self, weight: HostWeight, bias: Option<Tensor>, p: Precision) -> Result<Packed, ModelError> {
        let int8 = p == Precision::Int8;
        match weight {
            HostWeight::Plain(t) => Packed::from_floats(&t, bias.as_ref(), int8),
            HostWeight::Quantized(q) => Packed::from_blocks(&q, bias.as_ref(), int8),
        }
    }

    fn load_vector(&self, t: &Tensor) -> Result<Vec<f32>, ModelError> {
        Ok(t.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    fn load_table(&self, weight: HostWeight) -> Result<Table, ModelError> {
        Ok(match weight {
            HostWeight::Plain(t) => Table::Plain(t.to_device(&Device::Cpu)?.contiguous()?),
            HostWeight::Quantized(q) => Table::Quantized(q),
        })
    }

    fn linear_bytes(&self, l: &Packed) -> u64 {
        l.bytes()
    }

    fn upload(&self, rows: usize, cols: usize, data: Vec<f32>) -> Result<Mat, ModelError> {
        if rows * cols != data.len() {
            return Err(ModelError::BadInput(format!("{} values for a matrix of {rows} × {cols}", data.len())));
        }
        Ok(Mat { rows, cols, data: data.into() })
    }

    fn download(&self, m: Mat) -> Result<Vec<f32>, ModelError> {
        Ok(m.data.into_vec())
    }

    fn rows(&self, m: &Mat) -> usize {
        m.rows
    }

    fn linear(&self, x: &Mat, w: &Packed) -> Result<Mat, ModelError> {
        let [y] = self.linears(x, [w])?;
        Ok(y)
    }

    fn linears<const N: usize>(&self, x: &Mat, ws: [&Packed; N]) -> Result<[Mat; N], ModelError> {
        if let Some(w) = ws.iter().find(|w| w.cols() != x.cols) {
            return Err(ModelError::BadInput(format!(
                "rows of {} values for a weight of {} columns",
                x.cols,
                w.cols()
            )));
        }
        let mut rows = ws.map(|w| w.rows()).into_iter();
        let outs = kernels::matmul(&self.compute, &x.data, ws);
        Ok(outs.map(|data| Mat { rows: x.rows, cols: rows.next().unwrap_or_default(), data }))
    }

    fn embed(&self, table: &Table, ids: &[u32]) -> Result<Mat, ModelError> {
        let (entries, width) = match table {
            Table::Plain(t) => t.dims2()?,
            Table::Quantized(q) => q.shape().dims2()?,
        };
        super::check_ids(ids, entries)?;
        if ids.is_empty() {
            return Ok(Mat { rows: 0, cols: width, data: Vec::new().into() });
        }
        let at = Tensor::from_slice(ids, ids.len(), &Device::Cpu)?;
        let rows = match table {
            Table::Plain(t) => t.index_select(&at, 0)?,
            Table::Quantized(q) => q.embedding(&at)?,
        };
        Ok(Mat::of(width, rows.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?.into()))
    }

    fn layer_norm(&self, x: &Mat, gamma: &Vec<f32>, beta: &Vec<f32>, eps: f32) -> Result<Mat, ModelError> {
        x.need(x.rows, gamma.len(), "layer norm")?;
        x.need(x.rows, beta.len(), "layer norm")?;
        Ok(Mat { data: kernels::layer_norm(&self.compute, &x.data, gamma, beta, eps), ..*x })
    }

    fn rms_norm(&self, x: &Mat, gamma: &Vec<f32>, eps: f32) -> Result<Mat, ModelError> {
        x.need(x.rows, gamma.len(), "RMS norm")?;
        Ok(Mat { data: kernels::rms_norm(&self.compute, &x.data, gamma, eps), ..*x })
    }

    fn gelu(&self, mut x: Mat) -> Result<Mat, ModelError> {
        kernels::gelu(&self.compute, &mut x.data);
        Ok(x)
    }

    fn silu_mul(&self, mut gate: Mat, up: &Mat) -> Result<Mat, ModelError> {
        up.need(gate.rows, gate.cols, "gate and up")?;
        kernels::silu_mul(&self.compute, &mut gate.data, &up.data);
        Ok(gate)
    }

    fn add(&self, mut x: Mat, y: &Mat) -> Result<Mat, ModelError> {
        y.need(x.rows, x.cols, "sum")?;
        kernels::add(&self.compute, &mut x.data, &y.data);
        Ok(x)
    }

    fn gather_rows(&self, x: &Mat, rows: &[usize]) -> Result<Mat, ModelError> {
        super::check_rows(rows, x.rows)?;
        let mut data = self.compute.buffer(rows.len() * x.cols);
        for (to, r) in data.chunks_exact_mut(x.cols.max(1)).zip(rows) {
            to.copy_from_slice(&x.data[r * x.cols..(r + 1) * x.cols]);
        }
        Ok(Mat { rows: rows.len(), cols: x.cols, data })
    }

    fn columns(&self, x: &Mat, cols: Range<usize>) -> Result<Mat, ModelError> {
        if cols.start > cols.end || cols.end > x.cols {
            return Err(ModelError::BadInput(format!("columns {cols:?} of a matrix of {} columns", x.cols)));
        }
        let mut data = self.compute.buffer(x.rows * cols.len());
        for (to, row) in data.chunks_exact_mut(cols.len().max(1)).zip(x.data.chunks_exact(x.cols.max(1))) {
            to.copy_from_slice(&row[cols.clone()]);
        }
        Ok(Mat { rows: x.rows, cols: cols.len(), data })
    }

    fn unfold(&self, x: &Mat, kernel: usize, stride: usize, pad: usize) -> Result<Mat, ModelError> {
        let rows = super::unfold_rows(x.rows, kernel, stride, pad)?;
        let width = kernel * x.cols;
        let mut data = self.compute.buffer(rows * width);
        data.fill(0.0);
        for (i, to) in data.chunks_exact_mut(width.max(1)).enumerate() {
            // The taps that fall on the matrix are neighbours in it: one copy per window.
            let (first, end) = ((i * stride).max(pad), (i * stride + kernel).min(pad + x.rows));
            if first < end {
                let from = &x.data[(first - pad) * x.cols..(end - pad) * x.cols];
                to[(first - i * stride) * x.cols..][..from.len()].copy_from_slice(from);
            }
        }
        Ok(Mat { rows, cols: width, data })
    }

    fn rope_table(
        &self,
        head_dim: usize,
        positions: usize,
        base: f32,
        factors: Option<&[f32]>,
        style: RopeStyle,
    ) -> Result<Rope, ModelError> {
        let (cos, sin) = super::rope_angles(head_dim, positions, base, factors)?;
        Ok(Rope { cos, sin, positions, head_dim, style })
    }

    fn rope(&self, mut x: Mat, head_dim: usize, at: &[usize], rope: &Rope) -> Result<Mat, ModelError> {
        super::check_rope(x.rows, x.cols, head_dim, at, rope.positions)?;
        if head_dim != rope.head_dim {
            return Err(ModelError::BadInput(format!(
                "heads of {head_dim} values with a rotary table for {}",
                rope.head_dim
            )));
        }
        let interleaved = rope.style == RopeStyle::Interleaved;
        kernels::rotate(&self.compute, &mut x.data, head_dim, at, (&rope.cos, &rope.sin), interleaved);
        Ok(x)
    }

    fn kv_new(&self, shape: KvShape) -> Result<Kv, ModelError> {
        let cache = KvCache::new(shape.layers, shape.slots, shape.capacity, shape.kv_heads, shape.head_dim);
        Ok(Kv { shape, cache })
    }

    /// As [`kernels`](crate::engine::models::kernels) promise.
    fn rows_are_independent(&self) -> bool {
        true
    }

    fn kv_bytes(&self, kv: &Kv) -> u64 {
        kv.cache.bytes()
    }

    fn kv_copy(&self, kv: &mut Kv, from: usize, to: usize, len: usize) -> Result<(), ModelError> {
        super::check_copy(&kv.shape, from, to, len)?;
        kv.cache.copy(from, to, len);
        Ok(())
    }

    fn kv_write(&self, kv: &mut Kv, layer: usize, spans: &[KvSpan], k: &Mat, v: &Mat) -> Result<(), ModelError> {
        let width = kv.shape.kv_heads * kv.shape.head_dim;
        k.need(k.rows, width, "keys")?;
        v.need(k.rows, width, "values")?;
        for span in spans {
            super::check_span(&kv.shape, layer, span)?;
            check_range(&span.rows, k.rows)?;
            let part = span.rows.start * width..span.rows.end * width;
            kv.cache.write(layer, span.slot, span.start, &k.data[part.clone()], &v.data[part]);
        }
        Ok(())
    }

    fn attend_causal(&self, q: &Mat, kv: &Kv, layer: usize, spans: &[KvSpan], heads: usize) -> Result<Mat, ModelError> {
        super::check_heads(heads, kv.shape.kv_heads, kv.shape.head_dim, q.cols)?;
        super::check_cover(spans.iter().map(|s| &s.rows), q.rows)?;
        for span in spans {
            super::check_span(&kv.shape, layer, span)?;
        }
        let spans: Vec<_> = spans.iter().map(|s| (s.slot, s.rows.clone(), s.start)).collect();
        let data = kernels::attend_causal(&self.compute, &q.data, &kv.cache, layer, &spans, heads);
        Ok(Mat { data, ..*q })
    }

    fn attend_full(&self, q: &Mat, k: &Mat, v: &Mat, spans: &[FullSpan], heads: usize) -> Result<Mat, ModelError> {
        super::check_heads(heads, heads, q.cols / heads.max(1), q.cols)?;
        super::check_cover(spans.iter().map(|s| &s.queries), q.rows)?;
        super::check_keys(spans, k.rows)?;
        k.need(k.rows, q.cols, "keys")?;
        v.need(k.rows, q.cols, "values")?;
        let spans: Vec<_> = spans.iter().map(|s| (s.queries.clone(), s.keys.clone())).collect();
        let data = kernels::attend_full(&self.compute, &q.data, &k.data, &v.data, &spans, q.cols, heads);
        Ok(Mat { data, ..*q })
    }
}

fn check_range(rows: &Range<usize>, have: usize) -> Result<(), ModelError> {
    if rows.start > rows.end || rows.end > have {
        return Err(ModelError::BadInput(format!("rows {rows:?} of a matrix of {have} rows")));
    }
    Ok(())
}
