//! Weights as the kernels read them: repacked once, at load, into tiles of 16 output rows.
//!
//! | held as | from | exact? |
//! | --- | --- | --- |
//! | 4 bits, scale and minimum per 32 | GGUF Q4_0, Q4_1 | yes |
//! | | GGUF Q4_K | its scales, products of two numbers, are rounded to half floats |
//! | 8 bits, scale per 32 | GGUF Q8_0 | yes |
//! | | GGUF Q2_K, Q3_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_1, Q8_K, and floats on request | the values are rounded to 8 bits |
//! | half floats | floats that all are half floats | yes |
//! | f32 | other floats | yes |
//!
//! Rows whose length is not a multiple of 32 are held as floats. The last tile is padded with zeros.

use super::simd::{BLOCK, BYTES4, BYTES8, TILE};
use crate::engine::models::ModelError;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use half::f16;

/// A weight `[rows, cols]` in tiles, with an optional bias per row.
pub struct Packed {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) body: Body,
    /// One value per row, padded with zeros to whole tiles.
    pub(super) bias: Vec<f32>,
}

/// The tiles. Quantised: quants by tile, block, group, lane; scales by tile, block, lane.
pub(super) enum Body {
    /// Scales of a block are 16 scales, then 16 minima.
    Bits4 {
        quants: Vec<Line>,
        scales: Vec<u16>,
    },
    Bits8 {
        quants: Vec<Line>,
        scales: Vec<u16>,
    },
    /// f32, by tile, column, lane.
    Float {
        values: Vec<Line>,
    },
    /// Half floats in the same order: half the memory to go through for each row, and the products keep their bits.
    Half {
        values: Vec<Line>,
    },
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

/// `bytes` zero bytes, rounded up to whole lines.
fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64)]
}

impl Packed {
    /// Packs a GGUF tensor `[rows, cols]`. `int8`: plain floats inside are rounded to 8 bits, else kept as they are.
    pub fn from_blocks(q: &QTensor, bias: Option<&Tensor>, int8: bool) -> Result<Packed, ModelError> {
        let (rows, cols) = q.shape().dims2()?;
        let body = match q.dtype() {
            _ if cols % BLOCK != 0 || rows == 0 => float(&floats(&q.dequantize(&Device::Cpu)?)?, rows, cols),
            GgmlDType::Q4_0 => pack4(rows, cols, &q.data()?, 18, |b| {
                let d = half_at(b, 0);
                ([d, f16::from_f32(-8.0 * d.to_f32())], nibbles(&b[2..18]))
            })?,
            GgmlDType::Q4_1 => {
                pack4(rows, cols, &q.data()?, 20, |b| ([half_at(b, 0), half_at(b, 2)], nibbles(&b[4..20])))?
            }
            GgmlDType::Q4K => pack_q4k(rows, cols, &q.data()?)?,
            GgmlDType::Q8_0 => pack8(rows, cols, &q.data()?, 34, |b| {
                (half_at(b, 0), std::array::from_fn(|i| i8::from_le_bytes([b[2 + i]])))
            })?,
            GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16 if !int8 => {
                float(&floats(&q.dequantize(&Device::Cpu)?)?, rows, cols)
            }
            _ => bits8(&floats(&q.dequantize(&Device::Cpu)?)?, rows, cols),
        };
        Self::with_bias(rows, cols, body, bias)
    }

    /// Packs a float tensor `[rows, cols]` of any float type, as it is or, with `int8`, rounded to 8 bits.
    pub fn from_floats(t: &Tensor, bias: Option<&Tensor>, int8: bool) -> Result<Packed, ModelError> {
        let (rows, cols) = t.dims2()?;
        let values = floats(t)?;
        let body =
            if int8 && cols.is_multiple_of(BLOCK) { bits8(&values, rows, cols) } else { float(&values, rows, cols) };
        Self::with_bias(rows, cols, body, bias)
    }

    fn with_bias(rows: usize, cols: usize, body: Body, bias: Option<&Tensor>) -> Result<Packed, ModelError> {
        let mut padded = bias.map(floats).transpose()?.unwrap_or_else(|| vec![0.0; rows]);
        if padded.len() != rows {
            return Err(ModelError::BadFile(format!("a bias of {} values for a weight of {rows} rows", padded.len())));
        }
        padded.resize(rows.div_ceil(TILE) * TILE, 0.0);
        Ok(Packed { rows, cols, body, bias: padded })
    }

    /// Output values: rows of the weight.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input values: columns of the weight.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        let (quants, scales) = match &self.body {
            Body::Bits4 { quants, scales } | Body::Bits8 { quants, scales } => (quants.len(), scales.len()),
            Body::Float { values } | Body::Half { values } => (values.len(), 0),
        };
        (64 * quants + 2 * scales + 4 * self.bias.len()) as u64
    }

    /// The same weights, held as f32.
    #[cfg(test)]
    pub(super) fn widened(half: &Packed) -> Packed {
        let Body::Half { values } = &half.body else { panic!("no half floats") };
        let mut wide = lines(128 * values.len());
        let all = values.iter().flat_map(|l| l.0.as_chunks::<2>().0);
        for (i, bytes) in all.enumerate() {
            wide[i / 16].0[4 * (i % 16)..][..4].copy_from_slice(&f16::from_ne_bytes(*bytes).to_f32().to_ne_bytes());
        }
        wide.truncate(half.tiles() * half.cols);
        Packed { rows: half.rows, cols: half.cols, body: Body::Float { values: wide }, bias: half.bias.clone() }
    }

    pub(super) fn tiles(&self) -> usize {
        self.rows.div_ceil(TILE)
    }

    /// Whether the product reads quantised activations.
    pub(super) fn quantized(&self) -> bool {
        !matches!(self.body, Body::Float { .. } | Body::Half { .. })
    }
}

/// All values of a tensor as f32, in row-major order.
fn floats(t: &Tensor) -> Result<Vec<f32>, ModelError> {
    Ok(t.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

fn half_at(bytes: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 values of 16 GGUF bytes: the low halves first.
fn nibbles(bytes: &[u8]) -> [u8; BLOCK] {
    std::array::from_fn(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 })
}

fn check_bytes(have: usize, rows: usize, blocks: usize, each: usize) -> Result<(), ModelError> {
    if have != rows * blocks * each {
        return Err(ModelError::BadFile(format!(
            "a quantised tensor of {rows} rows by {blocks} blocks of {each} bytes has {have} bytes"
        )));
    }
    Ok(())
}

/// Tiles in 4 bits.
struct Tiles4 {
    blocks: usize,
    quants: Vec<Line>,
    scales: Vec<u16>,
}

impl Tiles4 {
    fn new(rows: usize, blocks: usize) -> Self {
        let cells = rows.div_ceil(TILE) * blocks;
        Tiles4 { blocks, quants: lines(cells * BYTES4), scales: vec![0; cells * 2 * TILE] }
    }

    fn put(&mut self, row: usize, block: usize, [scale, min]: [f16; 2], q: &[u8; BLOCK]) {
        let (cell, lane) = ((row / TILE) * self.blocks + block, row % TILE);
        self.scales[cell * 2 * TILE + lane] = scale.to_bits();
        self.scales[cell * 2 * TILE + TILE + lane] = min.to_bits();
        for i in 0..16 {
            // Group i / 4 is one line: value i low, value 16 + i high.
            self.quants[cell * 4 + i / 4].0[4 * lane + i % 4] = q[i] | q[16 + i] << 4;
        }
    }
}

fn pack4(
    rows: usize,
    cols: usize,
    data: &[u8],
    each: usize,
    read: impl Fn(&[u8]) -> ([f16; 2], [u8; BLOCK]),
) -> Result<Body, ModelError> {
    let blocks = cols / BLOCK;
    check_bytes(data.len(), rows, blocks, each)?;
    let mut tiles = Tiles4::new(rows, blocks);
    for (i, bytes) in data.chunks_exact(each).enumerate() {
        let (scales, q) = read(bytes);
        tiles.put(i / blocks, i % blocks, scales, &q);
    }
    Ok(Body::Bits4 { quants: tiles.quants, scales: tiles.scales })
}

/// Q4_K: 256 values in 144 bytes: two half floats, eight 6-bit scales and minima in 12 bytes, 128 bytes of halves where
/// each 32 bytes hold block 2i low and block 2i + 1 high.
fn pack_q4k(rows: usize, cols: usize, data: &[u8]) -> Result<Body, ModelError> {
    if !cols.is_multiple_of(256) {
        return Err(ModelError::BadFile(format!("a Q4_K row of {cols} values is not a multiple of 256")));
    }
    let each = cols / 256;
    check_bytes(data.len(), rows, each, 144)?;
    let mut tiles = Tiles4::new(rows, cols / BLOCK);
    for (i, bytes) in data.chunks_exact(144).enumerate() {
        let (d, dmin) = (half_at(bytes, 0).to_f32(), half_at(bytes, 2).to_f32());
        let s = &bytes[4..16];
        for j in 0..8 {
            let (scale, min) = if j < 4 {
                (s[j] & 63, s[j + 4] & 63)
            } else {
                ((s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4)
            };
            let halves = &bytes[16 + 32 * (j / 2)..48 + 32 * (j / 2)];
            let q = std::array::from_fn(|v| if j % 2 == 0 { halves[v] & 15 } else { halves[v] >> 4 });
            let scales = [f16::from_f32(d * f32::from(scale)), f16::from_f32(-dmin * f32::from(min))];
            tiles.put(i / each, (i % each) * 8 + j, scales, &q);
        }
    }
    Ok(Body::Bits4 { quants: tiles.quants, scales: tiles.scales })
}

/// Tiles in 8 bits.
struct Tiles8 {
    blocks: usize,
    quants: Vec<Line>,
    scales: Vec<u16>,
}

impl Tiles8 {
    fn new(rows: usize, blocks: usize) -> Self {
        let cells = rows.div_ceil(TILE) * blocks;
        Tiles8 { blocks, quants: lines(cells * BYTES8), scales: vec![0; cells * TILE] }
    }

    fn put(&mut self, row: usize, block: usize, scale: f16, q: &[i8; BLOCK]) {
        let (cell, lane) = ((row / TILE) * self.blocks + block, row % TILE);
        self.scales[cell * TILE + lane] = scale.to_bits();
        for (i, v) in q.iter().enumerate() {
            self.quants[cell * 8 + i / 4].0[4 * lane + i % 4] = v.to_le_bytes()[0];
        }
    }
}

fn pack8(
    rows: usize,
    cols: usize,
    data: &[u8],
    each: usize,
    read: impl Fn(&[u8]) -> (f16, [i8; BLOCK]),
) -> Result<Body, ModelError> {
    let blocks = cols / BLOCK;
    check_bytes(data.len(), rows, blocks, each)?;
    let mut tiles = Tiles8::new(rows, blocks);
    for (i, bytes) in data.chunks_exact(each).enumerate() {
        let (scale, q) = read(bytes);
        tiles.put(i / blocks, i % blocks, scale, &q);
    }
    Ok(Body::Bits8 { quants: tiles.quants, scales: tiles.scales })
}

/// Rounds floats to 8 bits, by the scale as it will be read back.
fn bits8(values: &[f32], rows: usize, cols: usize) -> Body {
    let blocks = cols / BLOCK;
    let mut tiles = Tiles8::new(rows, blocks);
    let (chunks, _) = values.as_chunks::<BLOCK>();
    for (i, chunk) in chunks.iter().enumerate() {
        let largest = chunk.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let scale = f16::from_f32((largest / 127.0).min(f16::MAX.to_f32()));
        let step = scale.to_f32();
        let q = chunk.map(|v| if step > 0.0 { (v / step).round_ties_even().clamp(-127.0, 127.0) as i8 } else { 0 });
        tiles.put(i / blocks, i % blocks, scale, &q);
    }
    Body::Bits8 { quants: tiles.quants, scales: tiles.scales }
}

/// Floats as they are: as half floats where each of them is one.
fn float(values: &[f32], rows: usize, cols: usize) -> Body {
    let half = |v: f32| f16::from_f32(v).to_f32().to_bits() == v.to_bits();
    match values.iter().all(|v| half(*v)) {
        true => Body::Half { values: by_column(values, rows, cols, |v| f16::from_f32(v).to_ne_bytes()) },
        false => Body::Float { values: by_column(values, rows, cols, f32::to_ne_bytes) },
    }
}

fn by_column<const BYTES: usize>(
    values: &[f32],
    rows: usize,
    cols: usize,
    bytes: impl Fn(f32) -> [u8; BYTES],
) -> Vec<Line> {
    let mut out = lines(rows.div_ceil(TILE) * cols * TILE * BYTES);
    for (row, values) in values.chunks_exact(cols.max(1)).enumerate() {
        for (col, v) in values.iter().enumerate() {
            let at = ((row / TILE * cols + col) * TILE + row % TILE) * BYTES;
            out[at / 64].0[at % 64..][..BYTES].copy_from_slice(&bytes(*v));
        }
    }
    out
}
