//! Forward passes on candle's tensors: the path of CUDA and Metal, and on the CPU the twin that the kernels are tested
//! against.
//!
//! Ragged spans are looped over, one small attention each. Row independence holds as far as the device's matrix
//! library keeps it: a GPU may pick another algorithm for another row count, so a verify window there can differ from
//! single steps in the last bits.

use super::{Backend, FullSpan, HostWeight, KvShape, KvSpan, Precision, RopeStyle};
use crate::engine::models::ModelError;
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{D, DType, Device, DeviceLocation, Module, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// Runs forward passes on a candle device.
#[derive(Debug, Clone)]
pub struct CandleBackend {
    device: Device,
}

impl CandleBackend {
    /// A back end on `device`.
    pub fn new(device: Device) -> Self {
        CandleBackend { device }
    }

    /// The same quantised blocks on this back end's device.
    fn quantized_here(&self, q: Arc<QTensor>) -> Result<Arc<QTensor>, ModelError> {
        if self.device.is_cpu() {
            return Ok(q);
        }
        let storage = QStorage::from_data(q.data()?, &self.device, q.dtype())?;
        Ok(Arc::new(QTensor::new(storage, q.shape().clone())?))
    }

    fn plain_here(&self, t: &Tensor) -> Result<Tensor, ModelError> {
        Ok(t.to_device(&self.device)?.to_dtype(DType::F32)?.contiguous()?)
    }

    fn indices(&self, rows: impl Iterator<Item = usize>) -> Result<Tensor, ModelError> {
        let ids: Vec<u32> = rows.map(|r| r as u32).collect();
        let len = ids.len();
        Ok(Tensor::from_vec(ids, len, &self.device)?)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Result<Tensor, ModelError> {
        Ok(Tensor::zeros((rows, cols), DType::F32, &self.device)?)
    }
}

/// A linear layer: blocks or floats, and its bias.
pub struct Linear {
    weight: QMatMul,
    bias: Option<Tensor>,
    out: usize,
    bytes: u64,
}

/// Rows to look up.
pub enum Table {
    /// f32 `[entries, width]`.
    Plain(Tensor),
    /// Blocks, dequantised row by row.
    Quantized(Arc<QTensor>),
}

/// Keys and values: one preallocated tensor `[capacity, kv_heads · head_dim]` for each (layer, slot).
pub struct Kv {
    shape: KvShape,
    keys: Vec<Tensor>,
    values: Vec<Tensor>,
}

impl Kv {
    fn index(&self, layer: usize, span: &KvSpan) -> Result<usize, ModelError> {
        super::check_span(&self.shape, layer, span)?;
        Ok(layer * self.shape.slots + span.slot)
    }
}

/// Cosines and sines `[positions, head_dim / 2]`.
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
    style: RopeStyle,
}

impl Backend for CandleBackend {
    type Mat = Tensor;
    type Linear = Linear;
    type Vector = Tensor;
    type Table = Table;
    type Kv = Kv;
    type Rope = Rope;

    fn describe(&self) -> String {
        match self.device.location() {
            DeviceLocation::Cpu => "cpu (candle)".to_string(),
            DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
            DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
        }
    }

    fn load_linear(&self, weight: HostWeight, bias: Option<Tensor>, p: Precision) -> Result<Linear, ModelError> {
        let bias = bias.map(|b| self.plain_here(&b.flatten_all()?)).transpose()?;
        let weight = match weight {
            HostWeight::Quantized(q) => self.quantized_here(q)?,
            HostWeight::Plain(t) => {
                let t = self.plain_here(&t)?;
                // A GPU gains nothing from blocks of its own making: int8 is for the CPU.
                let int8 = p == Precision::Int8 && self.device.is_cpu() && t.dim(D::Minus1)?.is_multiple_of(32);
                Arc::new(QTensor::quantize(&t, if int8 { GgmlDType::Q8_0 } else { GgmlDType::F32 })?)
            }
        };
        let (out, _) = weight.shape().dims2()?;
        let bytes = weight.storage_size_in_bytes() as u64 + bias.as_ref().map_or(0, |b| 4 * b.elem_count() as u64);
        Ok(Linear { weight: QMatMul::from_arc(weight)?, bias, out, bytes })
    }

    fn load_vector(&self, t: &Tensor) -> Result<Tensor, ModelError> {
        self.plain_here(&t.flatten_all()?)
    }

    fn load_table(&self, weight: HostWeight) -> Result<Table, ModelError> {
        Ok(match weight {
            HostWeight::Plain(t) => Table::Plain(self.plain_here(&t)?),
            HostWeight::Quantized(q) => Table::Quantized(self.quantized_here(q)?),
        })
    }

    fn linear_bytes(&self, l: &Linear) -> u64 {
        l.bytes
    }

    fn upload(&self, rows: usize, cols: usize, data: Vec<f32>) -> Result<Tensor, ModelError> {
        Ok(Tensor::from_vec(data, (rows, cols), &self.device)?)
    }

    fn download(&self, m: Tensor) -> Result<Vec<f32>, ModelError> {
        Ok(m.flatten_all()?.to_vec1()?)
    }

    fn rows(&self, m: &Tensor) -> usize {
        m.dims().first().copied().unwrap_or(0)
    }

    fn linear(&self, x: &Tensor, w: &Linear) -> Result<Tensor, ModelError> {
        if self.rows(x) == 0 {
            return self.zeros(0, w.out);
        }
        let y = w.weight.forward(x)?;
        Ok(match &w.bias {
            Some(b) => y.broadcast_add(b)?,
            None => y,
        })
    }

    fn linears<const N: usize>(&self, x: &Tensor, ws: [&Linear; N]) -> Result<[Tensor; N], ModelError> {
        let mut out = Vec::with_capacity(N);
        for w in ws {
            out.push(self.linear(x, w)?);
        }
        out.try_into().map_err(|_| ModelError::Other("one product per weight expected".to_string()))
    }

    fn embed(&self, table: &Table, ids: &[u32]) -> Result<Tensor, ModelError> {
        let entries = match table {
            Table::Plain(t) => t.dim(0)?,
            Table::Quantized(q) => q.shape().dims2()?.0,
        };
        super::check_ids(ids, entries)?;
        let ids = Tensor::from_slice(ids, ids.len(), &self.device)?;
        Ok(match table {
            Table::Plain(t) => t.index_select(&ids, 0)?,
            Table::Quantized(q) => q.embedding(&ids)?.to_dtype(DType::F32)?,
        })
    }

    fn layer_norm(&self, x: &Tensor, gamma: &Tensor, beta: &Tensor, eps: f32) -> Result<Tensor, ModelError> {
        Ok(candle_nn::ops::layer_norm(&x.contiguous()?, gamma, beta, eps)?)
    }

    fn rms_norm(&self, x: &Tensor, gamma: &Tensor, eps: f32) -> Result<Tensor, ModelError> {
        Ok(candle_nn::ops::rms_norm(&x.contiguous()?, gamma, eps)?)
    }

    fn gelu(&self, x: Tensor) -> Result<Tensor, ModelError> {
        Ok(x.gelu_erf()?)
    }

    fn silu_mul(&self, gate: Tensor, up: &Tensor) -> Result<Tensor, ModelError> {
        Ok(candle_nn::ops::silu(&gate)?.mul(up)?)
    }

    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor, ModelError> {
        Ok(x.add(y)?)
    }

    fn gather_rows(&self, x: &Tensor, rows: &[usize]) -> Result<Tensor, ModelError> {
        let (have, cols) = x.dims2()?;
        super::check_rows(rows, have)?;
        if rows.is_empty() {
            return self.zeros(0, cols);
        }
        Ok(x.index_select(&self.indices(rows.iter().copied())?, 0)?)
    }

    fn columns(&self, x: &Tensor, cols: Range<usize>) -> Result<Tensor, ModelError> {
        Ok(x.narrow(1, cols.start, cols.len())?.contiguous()?)
    }

    fn unfold(&self, x: &Tensor, kernel: usize, stride: usize, pad: usize) -> Result<Tensor, ModelError> {
        let (t, _) = x.dims2()?;
        let out = super::unfold_rows(t, kernel, stride, pad)?;
        let padded = x.pad_with_zeros(0, pad, pad)?;
        let mut taps = Vec::with_capacity(kernel);
        for tap in 0..kernel {
            taps.push(padded.index_select(&self.indices((0..out).map(|i| i * stride + tap))?, 0)?);
        }
        Ok(Tensor::cat(&taps, 1)?)
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
        let shape = (positions, head_dim / 2);
        Ok(Rope {
            cos: Tensor::from_vec(cos, shape, &self.device)?,
            sin: Tensor::from_vec(sin, shape, &self.device)?,
            style,
        })
    }

    fn rope(&self, x: Tensor, head_dim: usize, at: &[usize], rope: &Rope) -> Result<Tensor, ModelError> {
        let (rows, cols) = x.dims2()?;
        super::check_rope(rows, cols, head_dim, at, rope.cos.dim(0)?)?;
        let at = self.indices(at.iter().copied())?;
        let (cos, sin) = (rope.cos.index_select(&at, 0)?, rope.sin.index_select(&at, 0)?);
        let heads = x.reshape((1, rows, cols / head_dim, head_dim))?.transpose(1, 2)?.contiguous()?;
        let turned = match rope.style {
            RopeStyle::Interleaved => candle_nn::rotary_emb::rope_i(&heads, &cos, &sin)?,
            RopeStyle::Half => candle_nn::rotary_emb::rope(&heads, &cos, &sin)?,
        };
        Ok(turned.transpose(1, 2)?.contiguous()?.reshape((rows, cols))?)
    }

    fn kv_new(&self, shape: KvShape) -> Result<Kv, ModelError> {
        let each = || -> Result<Vec<Tensor>, ModelError> {
            (0..shape.layers * shape.slots)
                .map(|_| self.zeros(shape.capacity, shape.kv_heads * shape.head_dim))
                .collect()
        };
        Ok(Kv { shape, keys: each()?, values: each()? })
    }

    fn kv_bytes(&self, kv: &Kv) -> u64 {
        kv.keys.iter().chain(&kv.values).map(|t| 4 * t.elem_count() as u64).sum()
    }

    fn kv_copy(&self, kv: &mut Kv, from: usize, to: usize, len: usize) -> Result<(), ModelError> {
        super::check_copy(&kv.shape, from, to, len)?;
        let KvShape { layers, slots, .. } = kv.shape;
        for (from, to) in (0..layers).map(|layer| (layer * slots + from, layer * slots + to)).filter(|_| len > 0) {
            for cache in [&kv.keys, &kv.values] {
                cache[to].slice_set(&cache[from].narrow(0, 0, len)?.copy()?, 0, 0)?;
            }
        }
        Ok(())
    }

    fn kv_write(&self, kv: &mut Kv, layer: usize, spans: &[KvSpan], k: &Tensor, v: &Tensor) -> Result<(), ModelError> {
        for span in spans.iter().filter(|s| !s.rows.is_empty()) {
            let at = kv.index(layer, span)?;
            let part = |t: &Tensor| t.narrow(0, span.rows.start, span.rows.len())?.contiguous();
            kv.keys[at].slice_set(&part(k)?, 0, span.start)?;
            kv.values[at].slice_set(&part(v)?, 0, span.start)?;
        }
        Ok(())
    }

    fn attend_causal(
        &self,
        q: &Tensor,
        kv: &Kv,
        layer: usize,
        spans: &[KvSpan],
        heads: usize,
    ) -> Result<Tensor, ModelError> {
        let KvShape { kv_heads, head_dim, .. } = kv.shape;
        let rows = self.rows(q);
        super::check_heads(heads, kv_heads, head_dim, q.dim(1)?)?;
        super::check_cover(spans.iter().map(|s| &s.rows), rows)?;
        let group = heads / kv_heads;
        let mut parts = Vec::with_capacity(spans.len());
        for span in spans.iter().filter(|s| !s.rows.is_empty()) {
            let at = kv.index(layer, span)?;
            let (n, seen) = (span.rows.len(), span.start + span.rows.len());
            let queries = q
                .narrow(0, span.rows.start, n)?
                .reshape((n, kv_heads, group, head_dim))?
                .permute((1, 2, 0, 3))?
                .contiguous()?
                .reshape((kv_heads, group * n, head_dim))?;
            let (keys, values) = (kv.keys[at].narrow(0, 0, seen)?, kv.values[at].narrow(0, 0, seen)?);
            let mask: Vec<f32> = (0..n)
                .flat_map(|i| (0..seen).map(move |j| if j <= span.start + i { 0.0 } else { f32::NEG_INFINITY }))
                .collect();
            let mask = Tensor::from_vec(mask, (1, 1, n, seen), &self.device)?;
            let scores = (queries.matmul(&by_head(&keys, kv_heads)?.t()?)? * (1.0 / (head_dim as f64).sqrt()))?
                .reshape((kv_heads, group, n, seen))?
                .broadcast_add(&mask)?;
            let weights = candle_nn::ops::softmax_last_dim(&scores)?.reshape((kv_heads, group * n, seen))?;
            let out = weights
                .matmul(&by_head(&values, kv_heads)?)?
                .reshape((kv_heads, group, n, head_dim))?
                .permute((2, 0, 1, 3))?
                .contiguous()?
                .reshape((n, heads * head_dim))?;
            parts.push((span.rows.clone(), out));
        }
        self.assemble(parts, rows, heads * head_dim)
    }

    fn attend_full(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        spans: &[FullSpan],
        heads: usize,
    ) -> Result<Tensor, ModelError> {
        let (rows, width) = q.dims2()?;
        let head_dim = width / heads.max(1);
        super::check_heads(heads, heads, head_dim, width)?;
        super::check_cover(spans.iter().map(|s| &s.queries), rows)?;
        super::check_keys(spans, self.rows(k).min(self.rows(v)))?;
        let mut parts = Vec::with_capacity(spans.len());
        for span in spans.iter().filter(|s| !s.queries.is_empty()) {
            let queries = by_head(&q.narrow(0, span.queries.start, span.queries.len())?, heads)?;
            let keys = by_head(&k.narrow(0, span.keys.start, span.keys.len())?, heads)?;
            let values = by_head(&v.narrow(0, span.keys.start, span.keys.len())?, heads)?;
            let scores = (queries.matmul(&keys.t()?)? * (1.0 / (head_dim as f64).sqrt()))?;
            let out = candle_nn::ops::softmax_last_dim(&scores)?.matmul(&values)?;
            parts.push((span.queries.clone(), out.transpose(0, 1)?.contiguous()?.reshape(((), width))?));
        }
        self.assemble(parts, rows, width)
    }
}

impl CandleBackend {
    /// Puts the spans' results together in row order.
    fn assemble(&self, mut parts: Vec<(Range<usize>, Tensor)>, rows: usize, cols: usize) -> Result<Tensor, ModelError> {
        if rows == 0 {
            return self.zeros(0, cols);
        }
        parts.sort_by_key(|(at, _)| at.start);
        let tensors: Vec<Tensor> = parts.into_iter().map(|(_, t)| t).collect();
        Ok(Tensor::cat(&tensors, 0)?)
    }
}

/// `[rows, heads · d]` → `[heads, rows, d]`.
fn by_head(t: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
    let (rows, cols) = t.dims2()?;
    t.reshape((rows, heads, cols / heads))?.transpose(0, 1)?.contiguous()
}
