//! Every operation of the CPU back end against candle's tensors on the same input.

use super::candle::CandleBackend;
use super::cpu::CpuBackend;
use super::{Backend, FullSpan, HostWeight, KvShape, KvSpan, Precision, RopeStyle};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use proptest::prelude::*;
use std::sync::Arc;

fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn tensor(seed: u64, rows: usize, cols: usize) -> Tensor {
    Tensor::from_vec(noise(seed, rows * cols), (rows, cols), &Device::Cpu).unwrap()
}

/// Runs the same steps on a back end.
trait Steps {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>>;
}

#[track_caller]
fn same(steps: &impl Steps, tolerance: f32) {
    let ours = steps.run(&CpuBackend::new(2));
    let twin = steps.run(&CandleBackend::new(Device::Cpu));
    assert_eq!(ours.len(), twin.len());
    for (which, (ours, twin)) in ours.iter().zip(&twin).enumerate() {
        assert_eq!(ours.len(), twin.len(), "result {which}");
        for (i, (a, b)) in ours.iter().zip(twin).enumerate() {
            assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "result {which}, value {i}: {a} for {b}");
        }
    }
}

fn plain(seed: u64, out: usize, cols: usize) -> HostWeight {
    HostWeight::Plain(tensor(seed, out, cols))
}

fn blocks(seed: u64, out: usize, cols: usize, dtype: GgmlDType) -> HostWeight {
    HostWeight::Quantized(Arc::new(QTensor::quantize(&tensor(seed, out, cols), dtype).unwrap()))
}

struct Linears {
    rows: usize,
    out: usize,
}

impl Steps for Linears {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>> {
        let cols = 256;
        let x = b.upload(self.rows, cols, noise(1, self.rows * cols)).unwrap();
        let bias = Tensor::from_vec(noise(2, self.out), self.out, &Device::Cpu).unwrap();
        let mut results = Vec::new();
        let mut layers = vec![b.load_linear(plain(3, self.out, cols), Some(bias.clone()), Precision::AsIs).unwrap()];
        layers.push(b.load_linear(plain(3, self.out, cols), None, Precision::Int8).unwrap());
        for dtype in [GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::F16] {
            let w = blocks(4, self.out, cols, dtype);
            layers.push(b.load_linear(w, Some(bias.clone()), Precision::AsIs).unwrap());
        }
        for layer in &layers {
            assert!(b.linear_bytes(layer) > 0);
            results.push(b.download(b.linear(&x, layer).unwrap()).unwrap());
        }
        let [q, k, v] = b.linears(&x, [&layers[0], &layers[1], &layers[2]]).unwrap();
        for m in [q, k, v] {
            assert_eq!(b.rows(&m), self.rows);
            results.push(b.download(m).unwrap());
        }
        results
    }
}

struct Simple {
    rows: usize,
    cols: usize,
}

impl Steps for Simple {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>> {
        let (rows, cols) = (self.rows, self.cols);
        let mat = |seed| {
            let data = noise(seed, rows * cols).iter().map(|v| v * 5.0).collect();
            b.upload(rows, cols, data).unwrap()
        };
        let vector = |seed| b.load_vector(&tensor(seed, 1, cols).to_dtype(DType::F32).unwrap()).unwrap();
        let (gamma, beta) = (vector(7), vector(8));
        let picks: Vec<usize> = (0..rows * 2).map(|i| (i * 5 + 1) % rows).collect();
        let results = [
            b.layer_norm(&mat(1), &gamma, &beta, 1e-5),
            b.rms_norm(&mat(1), &gamma, 1e-5),
            b.gelu(mat(1)),
            b.silu_mul(mat(1), &mat(2)),
            b.add(mat(1), &mat(2)),
            b.gather_rows(&mat(1), &picks),
            b.gather_rows(&mat(1), &[]),
            b.columns(&mat(1), cols / 3..cols),
            b.unfold(&mat(1), 3, 2, 1),
            b.unfold(&mat(1), 1, 1, 0),
            b.unfold(&mat(1), 2, 3, 4),
        ];
        results.into_iter().map(|m| b.download(m.unwrap()).unwrap()).collect()
    }
}

struct Tables;

impl Steps for Tables {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>> {
        let half = tensor(1, 40, 64).to_dtype(DType::F16).unwrap();
        let tables = [
            b.load_table(plain(1, 40, 64)),
            b.load_table(HostWeight::Plain(half)),
            b.load_table(blocks(1, 40, 64, GgmlDType::Q8_0)),
        ];
        let rows = tables.into_iter().map(|t| b.embed(&t.unwrap(), &[0, 39, 7, 7, 1]).unwrap());
        rows.map(|m| b.download(m).unwrap()).collect()
    }
}

struct Ropes {
    heads: usize,
    head_dim: usize,
    at: Vec<usize>,
}

impl Steps for Ropes {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>> {
        let (rows, cols) = (self.at.len(), self.heads * self.head_dim);
        let factors: Vec<f32> = (0..self.head_dim / 2).map(|i| 1.0 + i as f32 / 4.0).collect();
        let mut results = Vec::new();
        for style in [RopeStyle::Interleaved, RopeStyle::Half] {
            for factors in [None, Some(factors.as_slice())] {
                let table = b.rope_table(self.head_dim, 512, 10_000.0, factors, style).unwrap();
                let x = b.upload(rows, cols, noise(1, rows * cols)).unwrap();
                results.push(b.download(b.rope(x, self.head_dim, &self.at, &table).unwrap()).unwrap());
            }
        }
        results
    }
}

/// Sequences in slots: (slot, positions before, rows now).
struct Causal {
    group: usize,
    kv_heads: usize,
    head_dim: usize,
    sequences: Vec<(usize, usize, usize)>,
}

impl Steps for Causal {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>> {
        let shape = KvShape { layers: 2, slots: 4, capacity: 300, kv_heads: self.kv_heads, head_dim: self.head_dim };
        let mut kv = b.kv_new(shape).unwrap();
        assert!(b.kv_bytes(&kv) >= 2 * 2 * 4 * 300 * 4 * (self.kv_heads * self.head_dim) as u64);
        let width = self.kv_heads * self.head_dim;
        let mut at = 0;
        let mut spans = Vec::new();
        for (slot, before, rows) in &self.sequences {
            let past = |seed| b.upload(*before, width, noise(seed + *slot as u64, before * width)).unwrap();
            let span = KvSpan { slot: *slot, rows: 0..*before, start: 0 };
            b.kv_write(&mut kv, 1, &[span], &past(10), &past(20)).unwrap();
            spans.push(KvSpan { slot: *slot, rows: at..at + rows, start: *before });
            at += rows;
        }
        let mat = |seed, cols| b.upload(at, cols, noise(seed, at * cols)).unwrap();
        b.kv_write(&mut kv, 1, &spans, &mat(1, width), &mat(2, width)).unwrap();
        let heads = self.group * self.kv_heads;
        let out = b.attend_causal(&mat(3, heads * self.head_dim), &kv, 1, &spans, heads).unwrap();
        vec![b.download(out).unwrap()]
    }
}

struct Full {
    heads: usize,
    head_dim: usize,
    lengths: Vec<(usize, usize)>,
}

impl Steps for Full {
    fn run<B: Backend>(&self, b: &B) -> Vec<Vec<f32>> {
        let (mut q, mut k) = (0, 0);
        let mut spans = Vec::new();
        for (queries, keys) in &self.lengths {
            spans.push(FullSpan { queries: q..q + queries, keys: k..k + keys });
            (q, k) = (q + queries, k + keys);
        }
        let width = self.heads * self.head_dim;
        let mat = |seed, rows| b.upload(rows, width, noise(seed, rows * width)).unwrap();
        vec![b.download(b.attend_full(&mat(1, q), &mat(2, k), &mat(3, k), &spans, self.heads).unwrap()).unwrap()]
    }
}

#[test]
fn tables_agree() {
    same(&Tables, 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn linear_layers_agree(rows in 1usize..40, out in 1usize..70) {
        // candle rounds activations for its own quantised products, in other blocks for Q4_K.
        same(&Linears { rows, out }, 0.15);
    }

    #[test]
    fn simple_operations_agree(rows in 1usize..40, cols in 1usize..130) {
        same(&Simple { rows, cols }, 1e-5);
    }

    #[test]
    fn rotations_agree(heads in 1usize..5, half in 1usize..40, at in prop::collection::vec(0usize..512, 1..20)) {
        same(&Ropes { heads, head_dim: 2 * half, at }, 1e-5);
    }

    #[test]
    fn causal_attention_agrees(
        group in 1usize..5,
        kv_heads in 1usize..4,
        head_dim in 1usize..80,
        lengths in prop::collection::vec((0usize..200, 1usize..40), 1..4),
    ) {
        let sequences = lengths.into_iter().enumerate().map(|(slot, (before, rows))| (slot, before, rows)).collect();
        same(&Causal { group, kv_heads, head_dim, sequences }, 1e-5);
    }

    #[test]
    fn full_attention_agrees(
        heads in 1usize..5,
        head_dim in 1usize..80,
        lengths in prop::collection::vec((0usize..60, 1usize..200), 1..4),
    ) {
        prop_assume!(lengths.iter().any(|l| l.0 > 0));
        same(&Full { heads, head_dim, lengths }, 1e-5);
    }
}

/// Input that does not fit is an error, never a panic.
fn refuses<B: Backend>(b: &B) {
    let text = |r: Result<B::Mat, super::ModelError>| match r {
        Ok(_) => panic!("must be refused"),
        Err(e) => e.to_string(),
    };
    let mat = |rows: usize, cols: usize| b.upload(rows, cols, vec![0.5; rows * cols]).unwrap();
    let layer = b.load_linear(plain(1, 8, 64), None, Precision::AsIs).unwrap();
    text(b.linear(&mat(2, 32), &layer));
    let table = b.load_table(plain(1, 40, 64)).unwrap();
    assert!(text(b.embed(&table, &[3, 40])).contains("id 40 is outside the table of 40 entries"));
    assert!(text(b.gather_rows(&mat(2, 4), &[2])).contains("row 2"));
    text(b.columns(&mat(2, 4), 1..5));
    text(b.unfold(&mat(2, 4), 5, 1, 1));
    text(b.add(mat(2, 4), &mat(2, 5)));
    let rope = b.rope_table(4, 16, 1e4, None, RopeStyle::Half).unwrap();
    assert!(text(b.rope(mat(1, 8), 4, &[16], &rope)).contains("position 16"));
    let shape = KvShape { layers: 1, slots: 2, capacity: 20, kv_heads: 2, head_dim: 4 };
    let mut kv = b.kv_new(shape).unwrap();
    let span = |slot, rows, start| KvSpan { slot, rows, start };
    for (layer, bad) in [(0, span(2, 0..1, 0)), (1, span(0, 0..1, 0)), (0, span(0, 0..2, 19))] {
        let spans = [bad];
        assert!(b.kv_write(&mut kv, layer, &spans, &mat(2, 8), &mat(2, 8)).is_err());
        let n = spans[0].rows.len();
        text(b.attend_causal(&mat(n, 8), &kv, layer, &spans, 2));
    }
    text(b.attend_causal(&mat(3, 8), &kv, 0, &[span(0, 0..2, 0)], 2));
    text(b.attend_causal(&mat(1, 8), &kv, 0, &[span(0, 0..1, 0)], 3));
    let full = |queries, keys| FullSpan { queries, keys };
    text(b.attend_full(&mat(2, 8), &mat(3, 8), &mat(3, 8), &[full(0..2, 0..4)], 2));
    text(b.attend_full(&mat(2, 8), &mat(3, 8), &mat(3, 8), &[full(0..2, 3..3)], 2));
    text(b.attend_full(&mat(2, 8), &mat(3, 8), &mat(3, 8), &[full(0..1, 0..3)], 2));
}

#[test]
fn both_refuse_what_does_not_fit() {
    refuses(&CpuBackend::new(1));
    refuses(&CandleBackend::new(Device::Cpu));
}
