//! The head itself, over the operations of a back end.

use super::HeadFile;
use crate::engine::models::ModelError;
use crate::engine::models::backend::{Backend, HostWeight, Precision};
use crate::engine::models::gguf::tensors::TensorReader;
use candle_core::{Device, Tensor};

/// ```text
/// x = from_hidden(norm(hidden)) + from_token(norm(embedding))
/// x = x + down(silu(gate(norm(x))) * up(norm(x)))
/// logits = norm(x) * some rows of the model's output table
/// ```
///
/// `norm(x)` stands where the model's own normed hidden state stands, so that it can be put in again for a further draft.
pub struct Head<B: Backend> {
    hidden_norm: B::Vector,
    token_norm: B::Vector,
    inner_norm: B::Vector,
    output_norm: B::Vector,
    from_hidden: B::Linear,
    from_token: B::Linear,
    gate: B::Linear,
    up: B::Linear,
    down: B::Linear,
    /// Rows of the model's output table.
    rows: B::Linear,
    /// The token of each row.
    tokens: Vec<u32>,
    norm_eps: f32,
    bytes: u64,
}

impl<B: Backend> Head<B> {
    /// Loads it. `output` is the table of `[vocab, hidden]` that the model's logits come from.
    pub fn load(
        file: &HeadFile,
        output: &B::Table,
        [vocab, hidden]: [usize; 2],
        backend: &B,
    ) -> Result<Head<B>, ModelError> {
        let mut reader = file.reader()?;
        let reader: &mut TensorReader<'_> = &mut reader;
        let inner = file.inner()?;
        let tokens = file.tokens(vocab)?;
        let picked = backend.download(backend.embed(output, &tokens)?)?;
        let picked = Tensor::from_vec(picked, (tokens.len(), hidden), &Device::Cpu)?;
        let mut bytes = 0;
        let mut linear = |weight: HostWeight, p: Precision| -> Result<B::Linear, ModelError> {
            let l = backend.load_linear(weight, None, p)?;
            bytes += backend.linear_bytes(&l);
            Ok(l)
        };
        Ok(Head {
            from_hidden: linear(reader.weight("from_hidden.weight", hidden, hidden)?, Precision::AsIs)?,
            from_token: linear(reader.weight("from_token.weight", hidden, hidden)?, Precision::AsIs)?,
            gate: linear(reader.weight("gate.weight", inner, hidden)?, Precision::AsIs)?,
            up: linear(reader.weight("up.weight", inner, hidden)?, Precision::AsIs)?,
            down: linear(reader.weight("down.weight", hidden, inner)?, Precision::AsIs)?,
            // A draft needs the order of the first few, not their values.
            rows: linear(HostWeight::Plain(picked), Precision::Int8)?,
            hidden_norm: backend.load_vector(&reader.vector("hidden_norm.weight", hidden)?)?,
            token_norm: backend.load_vector(&reader.vector("token_norm.weight", hidden)?)?,
            inner_norm: backend.load_vector(&reader.vector("inner_norm.weight", hidden)?)?,
            output_norm: backend.load_vector(&reader.vector("output_norm.weight", hidden)?)?,
            tokens,
            norm_eps: file.norm_eps()?,
            bytes,
        })
    }

    /// Bytes of weights held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One draft for each row: `hidden` are normed hidden states `[rows, hidden]`, `embeddings` those of the tokens that the
    /// model chose there. Gives what to put in for the next one, and the drafts.
    pub fn step(&self, b: &B, hidden: &B::Mat, embeddings: &B::Mat) -> Result<(B::Mat, Vec<u32>), ModelError> {
        let from_hidden = b.linear(&b.rms_norm(hidden, &self.hidden_norm, self.norm_eps)?, &self.from_hidden)?;
        let from_token = b.linear(&b.rms_norm(embeddings, &self.token_norm, self.norm_eps)?, &self.from_token)?;
        let x = b.add(from_hidden, &from_token)?;
        let normed = b.rms_norm(&x, &self.inner_norm, self.norm_eps)?;
        let [gate, up] = b.linears(&normed, [&self.gate, &self.up])?;
        let x = b.add(b.linear(&b.silu_mul(gate, &up)?, &self.down)?, &x)?;
        let out = b.rms_norm(&x, &self.output_norm, self.norm_eps)?;
        let logits = b.download(b.linear(&out, &self.rows)?)?;
        let best = |row: &[f32]| {
            let top = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            top.map_or(0, |(at, _)| self.tokens[at])
        };
        Ok((out, logits.chunks_exact(self.tokens.len()).map(best).collect()))
    }
}
