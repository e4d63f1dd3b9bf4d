//! From files to a model that is ready to run.

use super::ct2;
use super::forward::Whisper;
use super::tokens::Tokens;
use super::transcriber::WhisperTranscriber;
use super::weights::{Config, Weights, read_safetensors};
use crate::engine::models::backend::{Backend, Precision};
use crate::engine::models::{LoadedModel, ModelBack, ModelError, ModelFront, SpeechFront};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Share of the loading time that reading the file takes.
const READING: f64 = 0.3;

/// Loads a Whisper model: weights as CTranslate2 `model.bin` or Hugging Face safetensors, told apart by content.
/// `progress` gets the part done, 0..=1.
pub fn load<B: Backend>(
    weights: &Path,
    tokenizer: &Path,
    config: Option<&Path>,
    precision: Precision,
    backend: Arc<B>,
    progress: &mut dyn FnMut(f64),
) -> Result<LoadedModel, ModelError> {
    let config = config.map(Config::read).transpose()?.unwrap_or_default();
    let weights = read_weights(weights, &config)?;
    let dims = weights.dims;
    let tokens = Tokens::read(tokenizer, dims.vocab, &config)?;
    progress(READING);
    let model = Whisper::load(backend, weights, precision, &mut |p| progress(READING + (1.0 - READING) * p))?;
    // Without a list from the model's makers: every head of the upper half of the decoder, as the reference does.
    let heads = config.alignment_heads.unwrap_or_else(|| {
        let upper = dims.decoder_layers / 2..dims.decoder_layers;
        upper.flat_map(|l| (0..dims.decoder_heads).map(move |h| (l, h))).collect()
    });
    let heads = heads.into_iter().filter(|&(l, h)| l < dims.decoder_layers && h < dims.decoder_heads).collect();
    let front = SpeechFront {
        languages: tokens.languages.iter().map(|(code, _)| code.clone()).collect(),
        multilingual: tokens.multilingual,
    };
    let back = WhisperTranscriber::new(model, tokens, heads)?;
    Ok(LoadedModel { front: ModelFront::Speech(front), back: ModelBack::Speech(Box::new(back)) })
}

fn read_weights(path: &Path, config: &Config) -> Result<Weights, ModelError> {
    let bad = |what: String| ModelError::BadFile(format!("{}: {what}", path.display()));
    let mut head = Vec::with_capacity(64);
    std::fs::File::open(path).and_then(|f| f.take(64).read_to_end(&mut head)).map_err(|e| bad(e.to_string()))?;
    match head.as_slice() {
        [] => Err(bad("the file is empty".to_string())),
        h if h.get(8) == Some(&b'{') => read_safetensors(path, config),
        h if ct2::is_ct2(h) => ct2::read(path),
        h => Err(bad(format!(
            "neither a CTranslate2 model nor safetensors: it starts with {:02x?}",
            &h[..h.len().min(8)]
        ))),
    }
}
