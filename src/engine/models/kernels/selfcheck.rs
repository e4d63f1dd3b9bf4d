//! Whether an instruction set computes here what the portable kernels compute.

use super::{Compute, Isa, Packed, Pool, matmul};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use std::sync::Arc;

/// Compares small products in 4 and 8 bits, bit for bit, and in floats, within rounding.
pub(super) fn agrees(isa: Isa) -> bool {
    isa == Isa::Portable || compare(isa).unwrap_or(false)
}

fn compare(isa: Isa) -> candle_core::Result<bool> {
    let (rows, cols) = (40, 96);
    // 15 rows: every width of both kernels takes part (8 + 4 + 3, 12 + 3).
    // Any fixed values with both signs and no pattern that fits the tiles.
    let value = |i: usize| ((i * 7919) % 1009) as f32 / 504.5 - 1.0;
    let w = Tensor::from_vec((0..rows * cols).map(value).collect::<Vec<f32>>(), (rows, cols), &Device::Cpu)?;
    let x: Vec<f32> = (0..15 * cols).map(|i| value(3 * i + 1)).collect();
    let q4 = QTensor::quantize(&w, GgmlDType::Q4_0)?;
    let packs = [
        Packed::from_blocks(&q4, None, false),
        Packed::from_floats(&w, None, true),
        Packed::from_floats(&w, None, false),
        Packed::from_floats(&w.to_dtype(DType::F16)?, None, false),
    ];
    let pool = Arc::new(Pool::new(1));
    for (i, pack) in packs.into_iter().enumerate() {
        let Ok(pack) = pack else { return Ok(false) };
        let [ours] = matmul(&Compute::of(pool.clone(), isa), &x, [&pack]);
        let [twin] = matmul(&Compute::of(pool.clone(), Isa::Portable), &x, [&pack]);
        let same = |(a, b): (&f32, &f32)| if i < 2 { a.to_bits() == b.to_bits() } else { (a - b).abs() < 1e-3 };
        if !ours.iter().zip(twin.iter()).all(same) {
            return Ok(false);
        }
    }
    Ok(true)
}
