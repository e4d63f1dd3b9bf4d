//! Weights of a BERT checkpoint, with or without the `bert.` prefix.

use super::config::BertConfig;
use crate::engine::models::ModelError;
use crate::engine::models::backend::{Backend, HostWeight, Precision};
use crate::engine::models::safetensors::Safetensors;
use candle_core::{DType, Tensor};
use std::path::Path;

/// A layer norm's scale and shift.
pub(super) struct Norm<B: Backend> {
    pub gamma: B::Vector,
    pub beta: B::Vector,
}

/// One transformer block.
pub(super) struct Layer<B: Backend> {
    pub query: B::Linear,
    pub key: B::Linear,
    pub value: B::Linear,
    pub attention_out: B::Linear,
    pub attention_norm: Norm<B>,
    pub up: B::Linear,
    pub down: B::Linear,
    pub out_norm: Norm<B>,
}

/// The head that turns the first row into one relevance score.
pub(super) struct CrossHead<B: Backend> {
    pub pooler: B::Linear,
    pub classifier: B::Linear,
}

/// Everything a checkpoint holds.
pub(super) struct Weights<B: Backend> {
    pub words: B::Table,
    pub positions: B::Table,
    pub types: B::Table,
    pub norm: Norm<B>,
    pub layers: Vec<Layer<B>>,
    pub cross: Option<CrossHead<B>>,
    pub bytes: u64,
}

/// Reads a checkpoint. `progress` gets the part done.
pub(super) fn read<B: Backend>(
    path: &Path,
    config: &BertConfig,
    backend: &B,
    progress: &mut dyn FnMut(f64),
) -> Result<Weights<B>, ModelError> {
    let file = Safetensors::open(path)?;
    let prefix = if file.contains("bert.embeddings.word_embeddings.weight") { "bert." } else { "" };
    let mut reader = Reader { path, file, prefix, backend, bytes: 0 };
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let words = reader.table("embeddings.word_embeddings.weight", config.vocab_size, hidden)?;
    let positions = reader.table("embeddings.position_embeddings.weight", config.max_position_embeddings, hidden)?;
    let types = reader.table("embeddings.token_type_embeddings.weight", config.type_vocab_size, hidden)?;
    let norm = reader.norm("embeddings.LayerNorm", hidden)?;
    let mut layers = Vec::with_capacity(config.num_hidden_layers);
    for index in 0..config.num_hidden_layers {
        progress((index + 1) as f64 / (config.num_hidden_layers + 1) as f64);
        let at = |name: &str| format!("encoder.layer.{index}.{name}");
        layers.push(Layer {
            query: reader.linear(&at("attention.self.query"), hidden, hidden)?,
            key: reader.linear(&at("attention.self.key"), hidden, hidden)?,
            value: reader.linear(&at("attention.self.value"), hidden, hidden)?,
            attention_out: reader.linear(&at("attention.output.dense"), hidden, hidden)?,
            attention_norm: reader.norm(&at("attention.output.LayerNorm"), hidden)?,
            up: reader.linear(&at("intermediate.dense"), inner, hidden)?,
            down: reader.linear(&at("output.dense"), hidden, inner)?,
            out_norm: reader.norm(&at("output.LayerNorm"), hidden)?,
        });
    }
    let cross = match reader.file.shape("classifier.weight").map(<[usize]>::to_vec) {
        None => None,
        Some(shape) if shape == [1, hidden] => {
            let pooler = reader.linear("pooler.dense", hidden, hidden)?;
            reader.prefix = "";
            Some(CrossHead { pooler, classifier: reader.linear("classifier", 1, hidden)? })
        }
        Some(shape) => {
            return Err(reader.bad(format!("`classifier.weight` is {shape:?}; rerank needs one score, [1, {hidden}]")));
        }
    };
    progress(1.0);
    Ok(Weights { words, positions, types, norm, layers, cross, bytes: reader.bytes })
}

struct Reader<'a, B> {
    path: &'a Path,
    file: Safetensors,
    prefix: &'static str,
    backend: &'a B,
    bytes: u64,
}

impl<B: Backend> Reader<'_, B> {
    fn bad(&self, what: String) -> ModelError {
        ModelError::BadFile(format!("{}: {what}", self.path.display()))
    }

    /// A float tensor of the expected shape.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        let name = format!("{}{name}", self.prefix);
        let found = self.file.shape(&name).map(<[usize]>::to_vec);
        match found {
            None => Err(self.bad(format!("there is no tensor `{name}`"))),
            Some(found) if found != shape => {
                Err(self.bad(format!("tensor `{name}` is {found:?}, config.json makes it {shape:?}")))
            }
            Some(_) => Ok(self.file.load(&name)?.to_dtype(DType::F32)?),
        }
    }

    fn table(&mut self, name: &str, rows: usize, cols: usize) -> Result<B::Table, ModelError> {
        let tensor = self.tensor(name, &[rows, cols])?;
        self.bytes += 4 * (rows * cols) as u64;
        self.backend.load_table(HostWeight::Plain(tensor))
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm<B>, ModelError> {
        self.bytes += 8 * width as u64;
        let gamma = self.tensor(&format!("{name}.weight"), &[width])?;
        let beta = self.tensor(&format!("{name}.bias"), &[width])?;
        Ok(Norm { gamma: self.backend.load_vector(&gamma)?, beta: self.backend.load_vector(&beta)? })
    }

    fn linear(&mut self, name: &str, out: usize, inner: usize) -> Result<B::Linear, ModelError> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, inner])?;
        let bias = self.tensor(&format!("{name}.bias"), &[out])?;
        let linear = self.backend.load_linear(HostWeight::Plain(weight), Some(bias), Precision::AsIs)?;
        self.bytes += self.backend.linear_bytes(&linear);
        Ok(linear)
    }
}
