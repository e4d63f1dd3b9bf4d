//! The forward pass over a ragged batch.

use super::config::BertConfig;
use super::weights::{Layer, Norm, Weights};
use crate::engine::models::ModelError;
use crate::engine::models::backend::{Backend, FullSpan};
use std::ops::Range;

/// One text: token ids, and the type of each (0, or 1 for the second half of a pair).
pub(super) struct Sequence<'a> {
    pub ids: &'a [u32],
    pub types: &'a [u32],
}

/// Hidden states after the last layer, and the rows of each sequence.
pub(super) fn hidden<B: Backend>(
    backend: &B,
    weights: &Weights<B>,
    config: &BertConfig,
    sequences: &[Sequence<'_>],
) -> Result<(B::Mat, Vec<Range<usize>>), ModelError> {
    let mut spans = Vec::with_capacity(sequences.len());
    let (mut ids, mut types, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for sequence in sequences {
        let start = ids.len();
        ids.extend_from_slice(sequence.ids);
        types.extend_from_slice(sequence.types);
        positions.extend(0..sequence.ids.len() as u32);
        spans.push(start..ids.len());
    }
    let x = backend.embed(&weights.words, &ids)?;
    let x = backend.add(x, &backend.embed(&weights.types, &types)?)?;
    let x = backend.add(x, &backend.embed(&weights.positions, &positions)?)?;
    let mut x = norm(backend, &x, &weights.norm, config)?;
    let attended: Vec<_> = spans.iter().map(|rows| FullSpan { queries: rows.clone(), keys: rows.clone() }).collect();
    for layer in &weights.layers {
        x = block(backend, layer, config, x, &attended)?;
    }
    Ok((x, spans))
}

fn block<B: Backend>(
    backend: &B,
    layer: &Layer<B>,
    config: &BertConfig,
    x: B::Mat,
    spans: &[FullSpan],
) -> Result<B::Mat, ModelError> {
    let [q, k, v] = backend.linears(&x, [&layer.query, &layer.key, &layer.value])?;
    let attended = backend.attend_full(&q, &k, &v, spans, config.num_attention_heads)?;
    let y = backend.add(backend.linear(&attended, &layer.attention_out)?, &x)?;
    let y = norm(backend, &y, &layer.attention_norm, config)?;
    let inner = backend.gelu(backend.linear(&y, &layer.up)?)?;
    let z = backend.add(backend.linear(&inner, &layer.down)?, &y)?;
    norm(backend, &z, &layer.out_norm, config)
}

fn norm<B: Backend>(backend: &B, x: &B::Mat, norm: &Norm<B>, config: &BertConfig) -> Result<B::Mat, ModelError> {
    backend.layer_norm(x, &norm.gamma, &norm.beta, config.layer_norm_eps)
}
