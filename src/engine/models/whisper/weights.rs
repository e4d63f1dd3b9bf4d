//! Named weights on the host, whatever file they came from.
//!
//! Names are those of the Hugging Face checkpoints without their `model.` prefix; the CTranslate2 reader translates.

use crate::engine::models::ModelError;
use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// The shape of a Whisper model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// Mel bands of the input.
    pub bands: usize,
    /// Encoder positions: half the mel frames of a window.
    pub audio_ctx: usize,
    pub width: usize,
    pub encoder_heads: usize,
    pub decoder_heads: usize,
    pub encoder_layers: usize,
    pub decoder_layers: usize,
    /// Decoder positions.
    pub text_ctx: usize,
    pub vocab: usize,
}

/// Tensors by name; each is taken once, so that the host copy goes as the model is built.
pub struct Weights {
    file: String,
    tensors: HashMap<String, Tensor>,
    pub dims: Dims,
}

impl Weights {
    /// Checks that the tensors make one model, and derives its shape. `heads` is (encoder, decoder).
    pub fn new(file: &Path, tensors: HashMap<String, Tensor>, heads: (usize, usize)) -> Result<Self, ModelError> {
        let file = file.display().to_string();
        let shape = |name: &str, rank: usize| -> Result<Vec<usize>, ModelError> {
            let t = tensors.get(name).ok_or_else(|| {
                ModelError::BadFile(format!("{file}: not a Whisper model: tensor `{name}` is missing"))
            })?;
            if t.rank() != rank {
                return Err(ModelError::BadFile(format!(
                    "{file}: tensor `{name}` has shape {:?}, expected {rank} dimensions",
                    t.dims()
                )));
            }
            Ok(t.dims().to_vec())
        };
        let conv = shape("encoder.conv1.weight", 3)?;
        let (width, bands) = (conv[0], conv[1]);
        let embed = shape("decoder.embed_tokens.weight", 2)?;
        let layers =
            |side: &str| (0..).take_while(|i| tensors.contains_key(&format!("{side}.layers.{i}.fc1.weight"))).count();
        let dims = Dims {
            bands,
            audio_ctx: shape("encoder.embed_positions.weight", 2)?[0],
            width,
            encoder_heads: heads.0,
            decoder_heads: heads.1,
            encoder_layers: layers("encoder"),
            decoder_layers: layers("decoder"),
            text_ctx: shape("decoder.embed_positions.weight", 2)?[0],
            vocab: embed[0],
        };
        for (side, heads, layers) in
            [("encoder", dims.encoder_heads, dims.encoder_layers), ("decoder", dims.decoder_heads, dims.decoder_layers)]
        {
            if heads == 0 || !width.is_multiple_of(heads) || layers == 0 {
                return Err(ModelError::BadFile(format!(
                    "{file}: {side} of {layers} layers with {heads} heads does not fit a width of {width}"
                )));
            }
        }
        if embed[1] != width {
            return Err(ModelError::BadFile(format!(
                "{file}: token embeddings are {} wide, the encoder {width}",
                embed[1]
            )));
        }
        Ok(Weights { file, tensors, dims })
    }

    /// Rows of a tensor: the output width of a layer.
    pub fn rows_of(&self, name: &str) -> Result<usize, ModelError> {
        let t = self.tensors.get(name).filter(|t| t.rank() > 0);
        t.map(|t| t.dims()[0]).ok_or_else(|| ModelError::BadFile(format!("{}: tensor `{name}` is missing", self.file)))
    }

    /// Takes a tensor that must be there with exactly this shape.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        let t = self
            .tensors
            .remove(name)
            .ok_or_else(|| ModelError::BadFile(format!("{}: tensor `{name}` is missing", self.file)))?;
        if t.dims() != shape {
            return Err(ModelError::BadFile(format!(
                "{}: tensor `{name}` has shape {:?}, expected {shape:?}",
                self.file,
                t.dims()
            )));
        }
        Ok(t)
    }
}

/// What the model's config.json says that its weights do not. Field names of both the CTranslate2 and the Hugging Face
/// file; everything is optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    pub encoder_attention_heads: Option<usize>,
    pub decoder_attention_heads: Option<usize>,
    /// Tokens that are never sampled.
    #[serde(alias = "suppress_tokens")]
    pub suppress_ids: Option<Vec<i64>>,
    /// Tokens that are never sampled first.
    #[serde(alias = "begin_suppress_tokens")]
    pub suppress_ids_begin: Option<Vec<i64>>,
    /// (layer, head) pairs whose cross-attention follows the audio: word timestamps are read from them.
    pub alignment_heads: Option<Vec<(usize, usize)>>,
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(path).map_err(|e| ModelError::BadFile(format!("{}: {e}", path.display())))?;
        serde_json::from_slice(&bytes).map_err(|e| ModelError::BadFile(format!("{}: {e}", path.display())))
    }
}

/// Reads a Hugging Face checkpoint (`model.safetensors`).
pub fn read_safetensors(path: &Path, config: &Config) -> Result<Weights, ModelError> {
    let bad = |e: &dyn std::fmt::Display| ModelError::BadFile(format!("{}: {e}", path.display()));
    let loaded = candle_core::safetensors::load(path, &Device::Cpu).map_err(|e| bad(&e))?;
    let tensors = loaded
        .into_iter()
        .map(|(name, t)| (name.strip_prefix("model.").unwrap_or(&name).to_string(), t))
        .collect::<HashMap<_, _>>();
    let heads = config
        .encoder_attention_heads
        .zip(config.decoder_attention_heads)
        .ok_or_else(|| bad(&"its config.json lacks encoder_attention_heads or decoder_attention_heads"))?;
    Weights::new(path, tensors, heads)
}

/// f32 values of a vector or matrix.
pub fn to_f32(t: &Tensor) -> Result<Vec<f32>, ModelError> {
    Ok(t.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}
