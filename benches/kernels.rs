//! Kernels on one thread: products in each weight format, attention, norms and activations.
//!
//! `cargo bench --bench kernels`; one group by name: `cargo bench --bench kernels -- matmul`. Sizes are those of
//! SmolLM2-135M (576 wide) and of the Whisper tiny encoder (1 500 positions, 6 heads of 64).

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lanekeeper::engine::models::kernels::{
    Compute, KvCache, Packed, attend_causal, attend_full, gelu, layer_norm, matmul, rms_norm, silu_mul,
};
use std::hint::black_box;
use std::time::Duration;

/// Repeatable values within ±1.
fn noise(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919) % 20_011) as f32 / 10_005.5 - 1.0).collect()
}

fn products(c: &mut Criterion) {
    let compute = Compute::new(1);
    let (cols, out) = (576, 1536);
    let w = Tensor::from_vec(noise(cols * out), (out, cols), &Device::Cpu).expect("a tensor of its own size");
    let q4 = QTensor::quantize(&w, GgmlDType::Q4_1).expect("576 is a multiple of 32");
    let packs = [
        ("4 bits", Packed::from_blocks(&q4, None, false)),
        ("8 bits", Packed::from_floats(&w, None, true)),
        ("f32", Packed::from_floats(&w, None, false)),
    ]
    .map(|(name, pack)| (name, pack.expect("a tensor of two dimensions")));
    let mut group = c.benchmark_group(format!("matmul 576→1536, {}", compute.isa().name()));
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(200));
    for rows in [1, 4, 64, 512] {
        let x = noise(rows * cols);
        group.throughput(Throughput::Elements((rows * cols * out) as u64));
        for (name, pack) in &packs {
            group.bench_with_input(BenchmarkId::new(*name, rows), &x, |b, x| {
                b.iter(|| matmul(&compute, black_box(x), [pack]));
            });
        }
    }
    group.finish();
}

fn attention(c: &mut Criterion) {
    let compute = Compute::new(1);
    let (heads, width) = (6, 384);
    let mut group = c.benchmark_group("attention");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(200)).sample_size(10);
    for positions in [128, 512, 1500] {
        let x = noise(positions * width);
        group.throughput(Throughput::Elements((2 * positions * positions * width) as u64));
        group.bench_with_input(BenchmarkId::new("encoder", positions), &x, |b, x| {
            b.iter(|| attend_full(&compute, x, x, x, &[(0..positions, 0..positions)], width, heads));
        });
    }
    let (positions, x) = (1500, noise(1500 * width));
    group.throughput(Throughput::Elements((2 * positions * width) as u64));
    group.bench_function("one row over an encoding", |b| {
        b.iter(|| attend_full(&compute, &x[..width], &x, &x, &[(0..1, 0..positions)], width, heads));
    });
    let mut kv = KvCache::new(1, 1, 1024, 3, 64);
    kv.write(0, 0, 0, &noise(1000 * 192), &noise(1000 * 192));
    for rows in [1, 4] {
        let q = noise(rows * 576);
        group.throughput(Throughput::Elements((2 * rows * 1000 * 576) as u64));
        group.bench_with_input(BenchmarkId::new("causal at 1000", rows), &q, |b, q| {
            b.iter(|| attend_causal(&compute, q, &kv, 0, &[(0, 0..rows, 1000 - rows)], 9));
        });
    }
    group.finish();
}

fn rows(c: &mut Criterion) {
    let compute = Compute::new(1);
    let (count, cols) = (64, 576);
    let (x, gamma) = (noise(count * cols), noise(cols));
    let mut group = c.benchmark_group("64 rows of 576");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(200));
    group.throughput(Throughput::Elements((count * cols) as u64));
    group.bench_function("RMS norm", |b| b.iter(|| rms_norm(&compute, black_box(&x), &gamma, 1e-5)));
    group.bench_function("layer norm", |b| b.iter(|| layer_norm(&compute, black_box(&x), &gamma, &gamma, 1e-5)));
    let mut y = x.clone();
    group.bench_function("GELU", |b| {
        b.iter(|| {
            y.copy_from_slice(&x);
            gelu(&compute, black_box(&mut y));
        })
    });
    group.bench_function("SiLU times up", |b| {
        b.iter(|| {
            y.copy_from_slice(&x);
            silu_mul(&compute, black_box(&mut y), &x);
        })
    });
    group.finish();
}

criterion_group!(benches, products, attention, rows);
criterion_main!(benches);
