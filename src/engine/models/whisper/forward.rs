//! The forward passes: encoder over a window of mel frames, decoder over ragged rows of several windows.

use super::weights::{Dims, Weights, to_f32};
use crate::engine::models::ModelError;
use crate::engine::models::backend::{Backend, FullSpan, HostWeight, KvShape, KvSpan, Precision};
use std::ops::Range;
use std::sync::Arc;

const EPS: f32 = 1e-5;

struct Norm<B: Backend> {
    gamma: B::Vector,
    beta: B::Vector,
}

struct Attention<B: Backend> {
    q: B::Linear,
    k: B::Linear,
    v: B::Linear,
    out: B::Linear,
}

struct EncoderLayer<B: Backend> {
    before_attention: Norm<B>,
    attention: Attention<B>,
    before_mlp: Norm<B>,
    fc1: B::Linear,
    fc2: B::Linear,
}

struct DecoderLayer<B: Backend> {
    before_own: Norm<B>,
    own: Attention<B>,
    before_cross: Norm<B>,
    cross: Attention<B>,
    before_mlp: Norm<B>,
    fc1: B::Linear,
    fc2: B::Linear,
}

/// Weights on a back end.
pub struct Whisper<B: Backend> {
    pub backend: Arc<B>,
    pub dims: Dims,
    conv1: B::Linear,
    conv2: B::Linear,
    encoder_positions: B::Mat,
    encoder: Vec<EncoderLayer<B>>,
    encoder_norm: Norm<B>,
    tokens: B::Table,
    positions: B::Table,
    decoder: Vec<DecoderLayer<B>>,
    decoder_norm: Norm<B>,
    /// The token embeddings again, as the output layer.
    head: B::Linear,
    weights_bytes: u64,
}

/// Cross-attention keys and values of every decoder layer, for the windows of one batch, one after the other.
pub struct Cross<B: Backend> {
    layers: Vec<(B::Mat, B::Mat)>,
    /// Rows per window.
    rows: usize,
}

/// Rows of one window in a decoder pass.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    /// KV slot, and place of the window in [`Cross`].
    pub slot: usize,
    /// Position of the first token.
    pub start: usize,
    pub tokens: &'a [u32],
}

/// Sees the cross-attention queries of a layer.
type Watch<'a, B> = dyn FnMut(usize, &<B as Backend>::Mat) -> Result<(), ModelError> + 'a;

/// Loads layers, counting what they hold.
struct Loader<'a, B: Backend> {
    backend: &'a B,
    weights: &'a mut Weights,
    precision: Precision,
    bytes: u64,
}

impl<B: Backend> Loader<'_, B> {
    fn linear(&mut self, name: &str, out: usize, input: usize, bias: bool) -> Result<B::Linear, ModelError> {
        let w = self.weights.take(&format!("{name}.weight"), &[out, input])?;
        let b = if bias { Some(self.weights.take(&format!("{name}.bias"), &[out])?) } else { None };
        self.keep(HostWeight::Plain(w), b)
    }

    fn keep(&mut self, w: HostWeight, bias: Option<candle_core::Tensor>) -> Result<B::Linear, ModelError> {
        let l = self.backend.load_linear(w, bias, self.precision)?;
        self.bytes += self.backend.linear_bytes(&l);
        Ok(l)
    }

    /// A convolution `[out, in, taps]` as a linear layer over unfolded windows (tap-major).
    fn conv(&mut self, name: &str, out: usize, input: usize) -> Result<B::Linear, ModelError> {
        let w = self.weights.take(&format!("{name}.weight"), &[out, input, 3])?;
        let w = w.transpose(1, 2)?.contiguous()?.reshape((out, 3 * input))?;
        let b = self.weights.take(&format!("{name}.bias"), &[out])?;
        self.keep(HostWeight::Plain(w), Some(b))
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm<B>, ModelError> {
        let gamma = self.weights.take(&format!("{name}.weight"), &[width])?;
        let beta = self.weights.take(&format!("{name}.bias"), &[width])?;
        Ok(Norm { gamma: self.backend.load_vector(&gamma)?, beta: self.backend.load_vector(&beta)? })
    }

    fn attention(&mut self, name: &str, width: usize) -> Result<Attention<B>, ModelError> {
        Ok(Attention {
            q: self.linear(&format!("{name}.q_proj"), width, width, true)?,
            k: self.linear(&format!("{name}.k_proj"), width, width, false)?,
            v: self.linear(&format!("{name}.v_proj"), width, width, true)?,
            out: self.linear(&format!("{name}.out_proj"), width, width, true)?,
        })
    }
}

impl<B: Backend> Whisper<B> {
    /// Builds the model; `progress` gets the part done, 0..=1.
    pub fn load(
        backend: Arc<B>,
        mut weights: Weights,
        precision: Precision,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, ModelError> {
        let dims = weights.dims;
        let d = dims.width;
        let steps = (dims.encoder_layers + dims.decoder_layers + 2) as f64;
        let mut done = 0.0;
        let mut advance = || {
            done += 1.0;
            progress(done / steps);
        };
        let embed = weights.take("decoder.embed_tokens.weight", &[dims.vocab, d])?;
        let encoder_positions = weights.take("encoder.embed_positions.weight", &[dims.audio_ctx, d])?;
        let positions = weights.take("decoder.embed_positions.weight", &[dims.text_ctx, d])?;
        let b = backend.clone();
        let mut l = Loader { backend: b.as_ref(), weights: &mut weights, precision, bytes: 0 };
        let head = l.keep(HostWeight::Plain(embed.clone()), None)?;
        advance();
        let conv1 = l.conv("encoder.conv1", d, dims.bands)?;
        let conv2 = l.conv("encoder.conv2", d, d)?;
        let mlp = |l: &mut Loader<'_, B>, at: &str| -> Result<(B::Linear, B::Linear), ModelError> {
            let inner = l.weights.rows_of(&format!("{at}.fc1.weight"))?;
            Ok((l.linear(&format!("{at}.fc1"), inner, d, true)?, l.linear(&format!("{at}.fc2"), d, inner, true)?))
        };
        let mut encoder = Vec::with_capacity(dims.encoder_layers);
        for i in 0..dims.encoder_layers {
            let at = format!("encoder.layers.{i}");
            let (fc1, fc2) = mlp(&mut l, &at)?;
            encoder.push(EncoderLayer {
                before_attention: l.norm(&format!("{at}.self_attn_layer_norm"), d)?,
                attention: l.attention(&format!("{at}.self_attn"), d)?,
                before_mlp: l.norm(&format!("{at}.final_layer_norm"), d)?,
                fc1,
                fc2,
            });
            advance();
        }
        let mut decoder = Vec::with_capacity(dims.decoder_layers);
        for i in 0..dims.decoder_layers {
            let at = format!("decoder.layers.{i}");
            let (fc1, fc2) = mlp(&mut l, &at)?;
            decoder.push(DecoderLayer {
                before_own: l.norm(&format!("{at}.self_attn_layer_norm"), d)?,
                own: l.attention(&format!("{at}.self_attn"), d)?,
                before_cross: l.norm(&format!("{at}.encoder_attn_layer_norm"), d)?,
                cross: l.attention(&format!("{at}.encoder_attn"), d)?,
                before_mlp: l.norm(&format!("{at}.final_layer_norm"), d)?,
                fc1,
                fc2,
            });
            advance();
        }
        let encoder_norm = l.norm("encoder.layer_norm", d)?;
        let decoder_norm = l.norm("decoder.layer_norm", d)?;
        let tables = 4 * (dims.vocab + dims.text_ctx + dims.audio_ctx) * d;
        let weights_bytes = l.bytes + tables as u64;
        let model = Whisper {
            encoder_positions: backend.upload(dims.audio_ctx, d, to_f32(&encoder_positions)?)?,
            tokens: backend.load_table(HostWeight::Plain(embed))?,
            positions: backend.load_table(HostWeight::Plain(positions))?,
            backend,
            dims,
            conv1,
            conv2,
            encoder,
            encoder_norm,
            decoder,
            decoder_norm,
            head,
            weights_bytes,
        };
        advance();
        Ok(model)
    }

    pub fn weights_bytes(&self) -> u64 {
        self.weights_bytes
    }

    /// The KV cache of the decoder's own attention, for `slots` windows at once.
    pub fn new_kv(&self, slots: usize) -> Result<B::Kv, ModelError> {
        self.backend.kv_new(KvShape {
            layers: self.dims.decoder_layers,
            slots,
            capacity: self.dims.text_ctx,
            kv_heads: self.dims.decoder_heads,
            head_dim: self.dims.width / self.dims.decoder_heads,
        })
    }

    fn norm(&self, x: &B::Mat, n: &Norm<B>) -> Result<B::Mat, ModelError> {
        self.backend.layer_norm(x, &n.gamma, &n.beta, EPS)
    }

    fn mlp(&self, x: &B::Mat, fc1: &B::Linear, fc2: &B::Linear) -> Result<B::Mat, ModelError> {
        let inner = self.backend.gelu(self.backend.linear(x, fc1)?)?;
        self.backend.linear(&inner, fc2)
    }

    /// Encodes one window: features `[2 · audio_ctx, bands]` → `[audio_ctx, width]`.
    pub fn encode(&self, features: Vec<f32>) -> Result<B::Mat, ModelError> {
        let b = self.backend.as_ref();
        let frames = 2 * self.dims.audio_ctx;
        let x = b.upload(frames, self.dims.bands, features)?;
        let x = b.gelu(b.linear(&b.unfold(&x, 3, 1, 1)?, &self.conv1)?)?;
        let x = b.gelu(b.linear(&b.unfold(&x, 3, 2, 1)?, &self.conv2)?)?;
        let mut x = b.add(x, &self.encoder_positions)?;
        let all = [FullSpan { queries: 0..self.dims.audio_ctx, keys: 0..self.dims.audio_ctx }];
        for layer in &self.encoder {
            let h = self.norm(&x, &layer.before_attention)?;
            let a = &layer.attention;
            let [q, k, v] = b.linears(&h, [&a.q, &a.k, &a.v])?;
            let h = b.attend_full(&q, &k, &v, &all, self.dims.encoder_heads)?;
            x = b.add(b.linear(&h, &a.out)?, &x)?;
            let h = self.norm(&x, &layer.before_mlp)?;
            x = b.add(self.mlp(&h, &layer.fc1, &layer.fc2)?, &x)?;
        }
        self.norm(&x, &self.encoder_norm)
    }

    /// Cross-attention keys and values of encoded windows; computed once per window.
    pub fn cross(&self, encoded: Vec<B::Mat>) -> Result<Cross<B>, ModelError> {
        let b = self.backend.as_ref();
        let all = b.concat_rows(encoded)?;
        let layers = self
            .decoder
            .iter()
            .map(|l| {
                let [k, v] = b.linears(&all, [&l.cross.k, &l.cross.v])?;
                Ok((k, v))
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Cross { layers, rows: self.dims.audio_ctx })
    }

    /// One decoder pass over rows of several windows; returns the normalised hidden states of all rows.
    pub fn decode(&self, rows: &[Rows<'_>], kv: &mut B::Kv, cross: &Cross<B>) -> Result<B::Mat, ModelError> {
        self.decode_watched(rows, kv, cross, &mut |_, _| Ok(()))
    }

    /// [`decode`](Self::decode); `watch` sees the cross-attention queries of each layer.
    fn decode_watched(
        &self,
        rows: &[Rows<'_>],
        kv: &mut B::Kv,
        cross: &Cross<B>,
        watch: &mut Watch<'_, B>,
    ) -> Result<B::Mat, ModelError> {
        let b = self.backend.as_ref();
        let ids: Vec<u32> = rows.iter().flat_map(|r| r.tokens.iter().copied()).collect();
        let at: Vec<u32> = rows.iter().flat_map(|r| r.start..r.start + r.tokens.len()).map(|p| p as u32).collect();
        let mut own = Vec::with_capacity(rows.len());
        let mut across = Vec::with_capacity(rows.len());
        let mut first = 0;
        for r in rows {
            let range = first..first + r.tokens.len();
            first = range.end;
            across.push(FullSpan { queries: range.clone(), keys: r.slot * cross.rows..(r.slot + 1) * cross.rows });
            own.push(KvSpan { slot: r.slot, rows: range, start: r.start });
        }
        let mut x = b.add(b.embed(&self.tokens, &ids)?, &b.embed(&self.positions, &at)?)?;
        for (i, (layer, (keys, values))) in self.decoder.iter().zip(&cross.layers).enumerate() {
            let h = self.norm(&x, &layer.before_own)?;
            let [q, k, v] = b.linears(&h, [&layer.own.q, &layer.own.k, &layer.own.v])?;
            b.kv_write(kv, i, &own, &k, &v)?;
            let h = b.attend_causal(&q, kv, i, &own, self.dims.decoder_heads)?;
            x = b.add(b.linear(&h, &layer.own.out)?, &x)?;
            let h = self.norm(&x, &layer.before_cross)?;
            let q = b.linear(&h, &layer.cross.q)?;
            watch(i, &q)?;
            let h = b.attend_full(&q, keys, values, &across, self.dims.decoder_heads)?;
            x = b.add(b.linear(&h, &layer.cross.out)?, &x)?;
            let h = self.norm(&x, &layer.before_mlp)?;
            x = b.add(self.mlp(&h, &layer.fc1, &layer.fc2)?, &x)?;
        }
        self.norm(&x, &self.decoder_norm)
    }

    /// Logits of some rows of hidden states, `[rows.len(), vocab]`.
    pub fn logits(&self, hidden: &B::Mat, rows: &[usize]) -> Result<Vec<f32>, ModelError> {
        let b = self.backend.as_ref();
        b.download(b.linear(&b.gather_rows(hidden, rows)?, &self.head)?)
    }

    /// Cross-attention of a whole token sequence over its window: per (layer, head) pair of `heads`, ordered by layer,
    /// `[tokens, frames]` of raw scores `q·k/√head_dim`, row-major, for the encoder positions `frames`.
    pub fn alignment_scores(
        &self,
        tokens: &[u32],
        slot: usize,
        kv: &mut B::Kv,
        cross: &Cross<B>,
        heads: &[(usize, usize)],
        frames: Range<usize>,
    ) -> Result<(B::Mat, Vec<Vec<f32>>), ModelError> {
        let b = self.backend.as_ref();
        let d = self.dims.width;
        let head_dim = d / self.dims.decoder_heads;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let rows = [Rows { slot, start: 0, tokens }];
        let mut scores = Vec::with_capacity(heads.len());
        let n = tokens.len();
        let hidden = self.decode_watched(&rows, kv, cross, &mut |layer, q| {
            if !heads.iter().any(|h| h.0 == layer) {
                return Ok(());
            }
            let q = b.download(b.gather_rows(q, &(0..n).collect::<Vec<_>>())?)?;
            let wanted: Vec<usize> = frames.clone().map(|f| slot * cross.rows + f).collect();
            let k = b.download(b.gather_rows(&cross.layers[layer].0, &wanted)?)?;
            for &(_, head) in heads.iter().filter(|h| h.0 == layer) {
                let cols = head * head_dim..(head + 1) * head_dim;
                let mut out = Vec::with_capacity(n * wanted.len());
                for q in q.chunks_exact(d) {
                    let q = &q[cols.clone()];
                    out.extend(k.chunks_exact(d).map(|k| {
                        let dot: f32 = q.iter().zip(&k[cols.clone()]).map(|(a, b)| a * b).sum();
                        dot * scale
                    }));
                }
                scores.push(out);
            }
            Ok(())
        })?;
        Ok((hidden, scores))
    }
}
