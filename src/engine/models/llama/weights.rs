//! The weights of a llama-family model in a back end's form.

use super::config::LlamaConfig;
use crate::engine::models::ModelError;
use crate::engine::models::backend::{Backend, HostWeight, Precision};
use crate::engine::models::gguf::tensors::{TensorReader, host_weight};
use candle_core::quantized::QTensor;
use std::sync::Arc;

/// One transformer layer.
pub struct Layer<B: Backend> {
    pub attn_norm: B::Vector,
    pub q: B::Linear,
    pub k: B::Linear,
    pub v: B::Linear,
    pub o: B::Linear,
    pub ffn_norm: B::Vector,
    pub gate: B::Linear,
    pub up: B::Linear,
    pub down: B::Linear,
}

/// All weights.
pub struct Weights<B: Backend> {
    pub embed: B::Table,
    pub layers: Vec<Layer<B>>,
    pub norm: B::Vector,
    pub head: B::Linear,
    /// Divisors of the rotary frequencies, where the file has them.
    pub rope_factors: Option<Vec<f32>>,
    /// Bytes held.
    pub bytes: u64,
}

/// Loads every weight; `progress` gets the part done.
pub fn load<B: Backend>(
    reader: &mut TensorReader<'_>,
    config: &LlamaConfig,
    backend: &B,
    progress: &mut dyn FnMut(f64),
) -> Result<Weights<B>, ModelError> {
    let c = &config.lm;
    let mut bytes = 0;
    let (q_width, kv_width) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let mut layers = Vec::with_capacity(c.layers);
    for i in 0..c.layers {
        let mut linear = |name: &str, out: usize, input: usize| -> Result<B::Linear, ModelError> {
            let weight = reader.weight(&format!("blk.{i}.{name}.weight"), out, input)?;
            let bias = reader.opt_vector(&format!("blk.{i}.{name}.bias"), out)?;
            let l = backend.load_linear(weight, bias, Precision::AsIs)?;
            bytes += backend.linear_bytes(&l);
            Ok(l)
        };
        let (q, k, v) = (
            linear("attn_q", q_width, c.hidden)?,
            linear("attn_k", kv_width, c.hidden)?,
            linear("attn_v", kv_width, c.hidden)?,
        );
        let (o, gate, up, down) = (
            linear("attn_output", c.hidden, q_width)?,
            linear("ffn_gate", c.feed_forward, c.hidden)?,
            linear("ffn_up", c.feed_forward, c.hidden)?,
            linear("ffn_down", c.hidden, c.feed_forward)?,
        );
        let attn_norm = backend.load_vector(&reader.vector(&format!("blk.{i}.attn_norm.weight"), c.hidden)?)?;
        let ffn_norm = backend.load_vector(&reader.vector(&format!("blk.{i}.ffn_norm.weight"), c.hidden)?)?;
        bytes += 8 * c.hidden as u64;
        layers.push(Layer { attn_norm, q, k, v, o, ffn_norm, gate, up, down });
        // The tables of tokens behind them count as a layer more.
        progress((i + 1) as f64 / (c.layers + 1) as f64);
    }
    let norm = backend.load_vector(&reader.vector("output_norm.weight", c.hidden)?)?;
    let embeddings = reader.read("token_embd.weight", &[c.vocab, c.hidden])?;
    bytes += embeddings.storage_size_in_bytes() as u64;
    let (embed, tied) = share(embeddings)?;
    // Without an output matrix the head is the embedding table.
    let head = if reader.has("output.weight") { reader.weight("output.weight", c.vocab, c.hidden)? } else { tied };
    let head = backend.load_linear(head, None, Precision::AsIs)?;
    bytes += backend.linear_bytes(&head);
    let rope_factors = match reader.opt_vector("rope_freqs.weight", c.head_dim / 2)? {
        Some(t) => Some(t.to_vec1::<f32>()?),
        None => None,
    };
    progress(1.0);
    Ok(Weights { embed: backend.load_table(embed)?, layers, norm, head, rope_factors, bytes })
}

/// The same table twice, without a copy of its blocks.
fn share(table: QTensor) -> Result<(HostWeight, HostWeight), ModelError> {
    Ok(match host_weight(table)? {
        HostWeight::Plain(t) => (HostWeight::Plain(t.clone()), HostWeight::Plain(t)),
        HostWeight::Quantized(q) => (HostWeight::Quantized(Arc::clone(&q)), HostWeight::Quantized(q)),
    })
}
