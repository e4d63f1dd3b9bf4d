//! The forward pass.

use super::config::LlamaConfig;
use super::weights::{Layer, Weights};
use crate::engine::models::backend::{Backend, KvShape, KvSpan};
use crate::engine::models::mtp::Head;
use crate::engine::models::{CausalLm, DraftAfter, LmConfig, LmSpan, LogitsFor, ModelError};
use std::ops::Range;
use std::sync::Arc;

/// A loaded model with its KV slots.
pub struct Llama<B: Backend> {
    backend: Arc<B>,
    config: LmConfig,
    weights: Weights<B>,
    rope: B::Rope,
    kv: B::Kv,
    /// Tokens in each slot.
    lengths: Vec<usize>,
    /// Positions per slot.
    capacity: usize,
    /// Drafts what may come next.
    head: Option<Head<B>>,
    /// What the head starts from: the rows of the last pass that logits were computed of.
    last: Option<LastRows<B>>,
}

/// Normed hidden states `[rows, hidden]`, and the slot and absolute position of each row.
struct LastRows<B: Backend> {
    normed: B::Mat,
    of: Vec<(usize, usize)>,
}

/// Where the rows of one forward pass belong.
struct Rows {
    spans: Vec<KvSpan>,
    /// Absolute position of each row.
    positions: Vec<usize>,
}

impl<B: Backend> Llama<B> {
    /// A model with `slots` sequences of at most `capacity` tokens.
    pub fn new(
        backend: Arc<B>,
        config: LlamaConfig,
        weights: Weights<B>,
        slots: usize,
        capacity: usize,
    ) -> Result<Self, ModelError> {
        let c = config.lm;
        let factors = scaled_factors(weights.rope_factors.as_deref(), config.rope_linear, c.head_dim / 2);
        let rope = backend.rope_table(c.head_dim, capacity, c.rope_base, factors.as_deref(), config.rope_style)?;
        let shape = KvShape { layers: c.layers, slots, capacity, kv_heads: c.kv_heads, head_dim: c.head_dim };
        let kv = backend.kv_new(shape)?;
        let lengths = vec![0; slots];
        Ok(Llama { backend, config: c, weights, rope, kv, lengths, capacity, head: None, last: None })
    }

    /// The same model with a head that drafts.
    pub fn with_head(self, head: Head<B>) -> Self {
        Llama { head: Some(head), ..self }
    }

    /// Checks the spans; gives their rows.
    fn rows_of(&self, spans: &[LmSpan<'_>]) -> Result<Rows, ModelError> {
        let bad = |why: String| Err(ModelError::BadInput(why));
        let mut rows = Rows { spans: Vec::with_capacity(spans.len()), positions: Vec::new() };
        for (i, s) in spans.iter().enumerate() {
            let Some(&len) = self.lengths.get(s.slot) else {
                return bad(format!("slot {} of {}", s.slot, self.lengths.len()));
            };
            if s.tokens.is_empty() {
                return bad(format!("a span without tokens (slot {})", s.slot));
            }
            if s.start > len {
                return bad(format!("slot {} holds {len} tokens, the span starts at {}", s.slot, s.start));
            }
            let end = s.start + s.tokens.len();
            if end > self.capacity {
                return bad(format!("slot {} has room for {} tokens, the span ends at {end}", s.slot, self.capacity));
            }
            if let Some(id) = s.tokens.iter().find(|id| **id as usize >= self.config.vocab) {
                return bad(format!("token {id} of a vocabulary of {}", self.config.vocab));
            }
            if spans[..i].iter().any(|other| other.slot == s.slot) {
                return bad(format!("slot {} twice in one pass", s.slot));
            }
            let first = rows.positions.len();
            rows.positions.extend(s.start..end);
            rows.spans.push(KvSpan { slot: s.slot, rows: first..rows.positions.len(), start: s.start });
        }
        Ok(rows)
    }

    /// Runs the layers of `range` over `hidden` `[rows, hidden]`: hidden state in, hidden state out.
    fn forward_layers(&mut self, range: Range<usize>, mut hidden: B::Mat, rows: &Rows) -> Result<B::Mat, ModelError> {
        for i in range {
            hidden = self.layer(i, hidden, rows)?;
        }
        Ok(hidden)
    }

    fn layer(&mut self, i: usize, hidden: B::Mat, rows: &Rows) -> Result<B::Mat, ModelError> {
        let (b, c) = (&*self.backend, &self.config);
        let Layer { attn_norm, q, k, v, o, ffn_norm, gate, up, down } = &self.weights.layers[i];
        let normed = b.rms_norm(&hidden, attn_norm, c.norm_eps)?;
        let [q, k, v] = b.linears(&normed, [q, k, v])?;
        let q = b.rope(q, c.head_dim, &rows.positions, &self.rope)?;
        let k = b.rope(k, c.head_dim, &rows.positions, &self.rope)?;
        b.kv_write(&mut self.kv, i, &rows.spans, &k, &v)?;
        let seen = b.attend_causal(&q, &self.kv, i, &rows.spans, c.heads)?;
        let hidden = b.add(b.linear(&seen, o)?, &hidden)?;
        let normed = b.rms_norm(&hidden, ffn_norm, c.norm_eps)?;
        let [gate, up] = b.linears(&normed, [gate, up])?;
        let inner = b.silu_mul(gate, &up)?;
        b.add(b.linear(&inner, down)?, &hidden)
    }

    /// Logits of the given rows of the last layer's output, and the normed rows.
    fn logits(&self, hidden: &B::Mat, wanted: &[usize]) -> Result<(Vec<f32>, B::Mat), ModelError> {
        let b = &*self.backend;
        let picked = b.gather_rows(hidden, wanted)?;
        let normed = b.rms_norm(&picked, &self.weights.norm, self.config.norm_eps)?;
        Ok((b.download(b.linear(&normed, &self.weights.head)?)?, normed))
    }

    /// Drafts for those of `after` whose row before was in the last pass; `None` for the others.
    fn drafted(&self, after: &[DraftAfter], n: usize) -> Result<Vec<Option<Vec<u32>>>, ModelError> {
        let (Some(head), Some(last)) = (&self.head, &self.last) else { return Ok(vec![None; after.len()]) };
        let b = &*self.backend;
        let row = |a: &DraftAfter| last.of.iter().position(|(slot, at)| (*slot, at + 1) == (a.slot, a.at));
        let rows: Vec<Option<usize>> = after.iter().map(row).collect();
        let known: Vec<usize> = rows.iter().flatten().copied().collect();
        let mut drafts: Vec<Vec<u32>> = vec![Vec::with_capacity(n); known.len()];
        let mut tokens: Vec<u32> = after.iter().zip(&rows).filter(|(_, r)| r.is_some()).map(|(a, _)| a.token).collect();
        if !known.is_empty() && n > 0 {
            let mut hidden = b.gather_rows(&last.normed, &known)?;
            for _ in 0..n {
                let embeddings = b.embed(&self.weights.embed, &tokens)?;
                (hidden, tokens) = head.step(b, &hidden, &embeddings)?;
                drafts.iter_mut().zip(&tokens).for_each(|(draft, token)| draft.push(*token));
            }
        }
        let mut drafts = drafts.into_iter();
        Ok(rows.into_iter().map(|row| row.and_then(|_| drafts.next())).collect())
    }

    /// A forward pass whose layers run as the given ranges, one after the other; together they are all layers. What one
    /// hands to the next is the hidden state of every row, so a stage may run elsewhere.
    pub fn forward_stages(
        &mut self,
        stages: &[Range<usize>],
        spans: &[LmSpan<'_>],
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        let rows = self.rows_of(spans)?;
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        self.last = None;
        // What lies at and beyond a span's start is forgotten first: if the pass fails, the slot is still sound.
        for s in spans {
            self.lengths[s.slot] = s.start;
        }
        let ids: Vec<u32> = spans.iter().flat_map(|s| s.tokens).copied().collect();
        let mut hidden = self.backend.embed(&self.weights.embed, &ids)?;
        for stage in stages {
            hidden = self.forward_layers(stage.clone(), hidden, &rows)?;
        }
        let mut wanted = Vec::new();
        for (s, at) in spans.iter().zip(&rows.spans) {
            match s.logits {
                LogitsFor::None => {}
                LogitsFor::Last => wanted.push(at.rows.end - 1),
                LogitsFor::All => wanted.extend(at.rows.clone()),
            }
        }
        let mut all = Vec::new();
        if !wanted.is_empty() {
            let normed;
            (all, normed) = self.logits(&hidden, &wanted)?;
            if self.head.is_some() {
                let slots = spans.iter().zip(&rows.spans).flat_map(|(s, at)| at.rows.clone().map(|_| s.slot));
                let of: Vec<(usize, usize)> = slots.zip(rows.positions.iter().copied()).collect();
                self.last = Some(LastRows { normed, of: wanted.iter().map(|row| of[*row]).collect() });
            }
        }
        for s in spans {
            self.lengths[s.slot] = s.start + s.tokens.len();
        }
        Ok(split_rows(spans, &mut all, self.config.vocab))
    }
}

impl<B: Backend> CausalLm for Llama<B> {
    fn config(&self) -> &LmConfig {
        &self.config
    }

    fn forward(&mut self, spans: &[LmSpan<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        let all = 0..self.config.layers;
        self.forward_stages(std::slice::from_ref(&all), spans)
    }

    fn slot_len(&self, slot: usize) -> usize {
        self.lengths.get(slot).copied().unwrap_or(0)
    }

    fn truncate(&mut self, slot: usize, len: usize) -> Result<(), ModelError> {
        match self.lengths.get_mut(slot) {
            Some(have) if len <= *have => {
                *have = len;
                Ok(())
            }
            Some(have) => Err(ModelError::BadInput(format!("slot {slot} holds {have} tokens, cannot rewind to {len}"))),
            None => Err(ModelError::BadInput(format!("slot {slot} of {}", self.lengths.len()))),
        }
    }

    fn fork(&mut self, from: usize, to: usize, len: usize) -> Result<(), ModelError> {
        let (Some(&have), Some(_)) = (self.lengths.get(from), self.lengths.get(to)) else {
            return Err(ModelError::BadInput(format!("slots {from} and {to} of {}", self.lengths.len())));
        };
        if have < len || from == to {
            return Err(ModelError::BadInput(format!(
                "slot {from} holds {have} tokens, {len} of them cannot be copied to slot {to}"
            )));
        }
        self.lengths[to] = 0;
        self.backend.kv_copy(&mut self.kv, from, to, len)?;
        self.lengths[to] = len;
        Ok(())
    }

    fn slots(&self) -> usize {
        self.lengths.len()
    }

    fn weights_bytes(&self) -> u64 {
        self.weights.bytes + self.head.as_ref().map_or(0, Head::bytes)
    }

    fn rows_are_independent(&self) -> bool {
        self.backend.rows_are_independent()
    }

    fn kv_bytes(&self) -> u64 {
        self.backend.kv_bytes(&self.kv)
    }

    fn drafts(&self) -> bool {
        self.head.is_some()
    }

    fn draft(&mut self, after: &[DraftAfter], n: usize) -> Result<Vec<Vec<u32>>, ModelError> {
        Ok(self.drafted(after, n)?.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// Cuts the logits of all wanted rows into one vector per span; a single wanting span takes them as they are.
fn split_rows(spans: &[LmSpan<'_>], all: &mut Vec<f32>, vocab: usize) -> Vec<Vec<f32>> {
    let count = |s: &LmSpan<'_>| match s.logits {
        LogitsFor::None => 0,
        LogitsFor::Last => vocab,
        LogitsFor::All => s.tokens.len() * vocab,
    };
    let mut at = 0;
    spans
        .iter()
        .map(|s| {
            let n = count(s);
            if n == all.len() {
                return std::mem::take(all);
            }
            let part = all[at..at + n].to_vec();
            at += n;
            part
        })
        .collect()
}

/// The divisors of the rotary frequencies: the file's own and linear scaling together.
fn scaled_factors(own: Option<&[f32]>, linear: f32, pairs: usize) -> Option<Vec<f32>> {
    match (own, linear) {
        (None, 1.0) => None,
        (None, by) => Some(vec![by; pairs]),
        (Some(f), by) => Some(f.iter().map(|f| f * by).collect()),
    }
}
