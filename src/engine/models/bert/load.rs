//! Files and profile → a loaded BERT.

use super::config::BertConfig;
use super::encoder::BertEncoder;
use super::weights;
use crate::engine::models::backend::Backend;
use crate::engine::models::{LoadedModel, ModelBack, ModelError, ModelFront, TextFront};
use crate::profile::{DEFAULT_BATCH_COST, FileRole, ModelProfile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokenizers::Tokenizer;

/// Loads a BERT. Needs weights, tokenizer and config. The longest input is the profile's, at most the model's; one that
/// would fit no batch is refused here, because the model's own limit is known only now.
pub fn load<B: Backend>(
    profile: &ModelProfile,
    files: &BTreeMap<FileRole, PathBuf>,
    backend: Arc<B>,
    progress: &mut dyn FnMut(f64),
) -> Result<LoadedModel, ModelError> {
    let file = |role: FileRole| {
        let path = files.get(&role).map(PathBuf::as_path);
        path.ok_or_else(|| ModelError::Other(format!("profile {}: no file for its {role:?}", profile.id)))
    };
    let config = BertConfig::read(file(FileRole::Config)?)?;
    let max_tokens = longest_input(profile, &config)?;
    let tokenizer = tokenizer(file(FileRole::Tokenizer)?)?;
    let weights = weights::read(file(FileRole::Weights)?, &config, backend.as_ref(), progress)?;
    let cross_encoder = weights.cross.is_some();
    let dimensions = if cross_encoder { 0 } else { config.hidden_size };
    let front = TextFront { tokenizer, max_tokens, dimensions, cross_encoder };
    let back = BertEncoder { backend, config, weights, max_tokens };
    Ok(LoadedModel { front: ModelFront::Text(front), back: ModelBack::Text(Box::new(back)) })
}

fn longest_input(profile: &ModelProfile, config: &BertConfig) -> Result<usize, ModelError> {
    let own = config.max_position_embeddings;
    let wanted = profile.max_input_tokens.unwrap_or(own);
    if wanted > own {
        let message =
            format!("profile {}: max_input_tokens is {wanted}, the model's position table has {own}", profile.id);
        return Err(ModelError::Other(message));
    }
    let cap = profile.max_batch_tokens.unwrap_or(DEFAULT_BATCH_COST);
    if wanted as u64 > cap {
        return Err(ModelError::Other(format!(
            "profile {}: max_batch_tokens is {cap} but texts may have {wanted} tokens: the longest would fit no batch \
             (raise max_batch_tokens or set max_input_tokens)",
            profile.id
        )));
    }
    Ok(wanted)
}

/// A tokenizer that neither truncates nor pads: the doors decide about long texts, and batches are ragged.
fn tokenizer(path: &Path) -> Result<Tokenizer, ModelError> {
    let bad = |error: tokenizers::Error| ModelError::BadFile(format!("{}: {error}", path.display()));
    let mut tokenizer = Tokenizer::from_file(path).map_err(bad)?;
    tokenizer.with_truncation(None).map_err(bad)?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}
