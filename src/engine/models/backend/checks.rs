//! Checks and small sums that both back ends share, so that they refuse the same input with the same words.

use super::{FullSpan, KvShape, KvSpan};
use crate::engine::models::ModelError;
use std::ops::Range;

fn refuse<T>(what: String) -> Result<T, ModelError> {
    Err(ModelError::BadInput(what))
}

/// Ids must lie inside the table.
pub(super) fn check_ids(ids: &[u32], entries: usize) -> Result<(), ModelError> {
    match ids.iter().find(|&&id| id as usize >= entries) {
        Some(id) => refuse(format!("id {id} is outside the table of {entries} entries")),
        None => Ok(()),
    }
}

/// Row numbers must exist.
pub(super) fn check_rows(rows: &[usize], have: usize) -> Result<(), ModelError> {
    match rows.iter().find(|&&r| r >= have) {
        Some(r) => refuse(format!("row {r} is outside the matrix of {have} rows")),
        None => Ok(()),
    }
}

/// A span must lie inside its slot and layer.
pub(super) fn check_span(shape: &KvShape, layer: usize, span: &KvSpan) -> Result<(), ModelError> {
    if layer >= shape.layers || span.slot >= shape.slots {
        return refuse(format!(
            "layer {layer}, slot {} is outside the KV cache of {} layers and {} slots",
            span.slot, shape.layers, shape.slots
        ));
    }
    match span.start.checked_add(span.rows.len()) {
        Some(end) if end <= shape.capacity => Ok(()),
        _ => refuse(format!(
            "positions {}..+{} do not fit the {} positions of slot {}",
            span.start,
            span.rows.len(),
            shape.capacity,
            span.slot
        )),
    }
}

/// Both slots of a copy must exist, be two, and have room.
pub(super) fn check_copy(shape: &KvShape, from: usize, to: usize, len: usize) -> Result<(), ModelError> {
    if from >= shape.slots || to >= shape.slots || from == to || len > shape.capacity {
        return refuse(format!(
            "{len} positions of slot {from} cannot be copied to slot {to}: there are {} slots of {} positions",
            shape.slots, shape.capacity
        ));
    }
    Ok(())
}

/// Heads must divide evenly and match the width of the queries.
pub(super) fn check_heads(heads: usize, kv_heads: usize, head_dim: usize, width: usize) -> Result<(), ModelError> {
    if heads == 0 || kv_heads == 0 || head_dim == 0 || !heads.is_multiple_of(kv_heads) || heads * head_dim != width {
        return refuse(format!(
            "{heads} query heads over {kv_heads} key heads of {head_dim} do not fit rows of {width} values"
        ));
    }
    Ok(())
}

/// Spans must cover every row exactly once.
pub(super) fn check_cover<'a>(spans: impl Iterator<Item = &'a Range<usize>>, rows: usize) -> Result<(), ModelError> {
    let mut spans: Vec<&Range<usize>> = spans.filter(|s| !s.is_empty()).collect();
    spans.sort_by_key(|s| s.start);
    let mut next = 0;
    for s in spans {
        if s.start != next {
            return refuse(format!("spans must cover every row once: row {next} comes before span {s:?}"));
        }
        next = s.end;
    }
    if next != rows {
        return refuse(format!("spans cover {next} rows of a matrix of {rows}"));
    }
    Ok(())
}

/// Every query must have a key, and every key must exist.
pub(super) fn check_keys(spans: &[FullSpan], have: usize) -> Result<(), ModelError> {
    match spans.iter().find(|s| !s.queries.is_empty() && (s.keys.is_empty() || s.keys.end > have)) {
        Some(s) => refuse(format!("keys {:?} of queries {:?} are outside the {have} rows", s.keys, s.queries)),
        None => Ok(()),
    }
}

/// Positions must lie inside the rotary table, one for each row.
pub(super) fn check_rope(
    rows: usize,
    cols: usize,
    head_dim: usize,
    at: &[usize],
    positions: usize,
) -> Result<(), ModelError> {
    if at.len() != rows || head_dim == 0 || !cols.is_multiple_of(head_dim) {
        return refuse(format!(
            "{} positions for {rows} rows of {cols} values in heads of {head_dim} do not fit",
            at.len()
        ));
    }
    match at.iter().find(|&&p| p >= positions) {
        Some(p) => refuse(format!("position {p} is beyond the {positions} positions of the rotary table")),
        None => Ok(()),
    }
}

/// Rows of an unfolded matrix: `(rows + 2·pad − kernel)/stride + 1`.
pub(super) fn unfold_rows(rows: usize, kernel: usize, stride: usize, pad: usize) -> Result<usize, ModelError> {
    let padded = rows + 2 * pad;
    if kernel == 0 || stride == 0 || padded < kernel {
        return refuse(format!("a window of {kernel} steps by {stride} does not fit {rows} rows padded by {pad}"));
    }
    Ok((padded - kernel) / stride + 1)
}

/// Cosines and sines `[positions, head_dim / 2]` of the rotary angles, computed in f64.
pub(super) fn rope_angles(
    head_dim: usize,
    positions: usize,
    base: f32,
    factors: Option<&[f32]>,
) -> Result<(Vec<f32>, Vec<f32>), ModelError> {
    let half = head_dim / 2;
    if head_dim == 0 || !head_dim.is_multiple_of(2) || factors.is_some_and(|f| f.len() != half) {
        return Err(ModelError::BadFile(format!(
            "rotary heads of {head_dim} values with {:?} factors do not fit",
            factors.map(<[f32]>::len)
        )));
    }
    let frequency = |i: usize| {
        let plain = f64::from(base).powf(-2.0 * i as f64 / head_dim as f64);
        factors.map_or(plain, |f| plain / f64::from(f[i]))
    };
    let frequencies: Vec<f64> = (0..half).map(frequency).collect();
    let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| (p as f64 * f).sin_cos()));
    Ok(angles.map(|(sin, cos)| (cos as f32, sin as f32)).unzip())
}
