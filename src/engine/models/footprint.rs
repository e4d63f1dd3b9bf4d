//! What a model will take of the memory, told from its files before it is loaded.

use super::ModelError;
use super::gguf::{self, Vocabulary};
use super::kernels::KvCache;
use super::llama::config;
use crate::profile::{Family, FileRole, ModelProfile};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Bytes that a model holds while it is served, without the scratch space of its passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// About those of the file: weights are held in the file's own precision or packed into as much.
    pub weights_bytes: u64,
    /// Keys and values of all slots, reserved when the model is loaded; 0 for models that do not generate.
    pub kv_bytes: u64,
    /// Tokens that the model was trained for, where its profile asks for longer sequences.
    pub context_limit: Option<usize>,
}

impl Footprint {
    pub fn total(self) -> u64 {
        self.weights_bytes.saturating_add(self.kv_bytes)
    }
}

/// Reads no more than the headers of the files.
pub fn footprint(profile: &ModelProfile, files: &BTreeMap<FileRole, PathBuf>) -> Result<Footprint, ModelError> {
    let path = files
        .get(&FileRole::Weights)
        .ok_or_else(|| ModelError::Other(format!("model {} has no file of weights", profile.id)))?;
    let meta = std::fs::metadata(path);
    let weights_bytes =
        meta.map_err(|e| ModelError::BadFile(format!("{}: cannot be read: {e}", path.display())))?.len();
    let (kv_bytes, context_limit) = match (profile.family, &profile.generation) {
        (Family::Llama, Some(settings)) => {
            let metadata = gguf::open(path)?.metadata;
            let lm = config::read(&metadata, Vocabulary::from_metadata(&metadata)?.len())?.lm;
            let capacity = settings.context_tokens.min(lm.context);
            let kv_bytes = KvCache::bytes_of(lm.layers, settings.slots, capacity, lm.kv_heads, lm.head_dim);
            (kv_bytes, Some(lm.context).filter(|own| *own < settings.context_tokens))
        }
        _ => (0, None),
    };
    Ok(Footprint { weights_bytes, kv_bytes, context_limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_told_to_the_byte() {
        for (layers, slots, capacity, kv_heads, head_dim) in
            [(2, 3, 100, 4, 64), (1, 1, 1, 1, 2), (30, 4, 2_048, 3, 64)]
        {
            let cache = KvCache::new(layers, slots, capacity, kv_heads, head_dim);
            assert_eq!(KvCache::bytes_of(layers, slots, capacity, kv_heads, head_dim), cache.bytes());
        }
    }

    #[test]
    fn a_model_without_weights_is_named() {
        let profile = crate::profile::load_box("demo", &crate::profile::Env::empty(), &[]).expect("shipped").value;
        let error = footprint(&profile.models[0], &BTreeMap::new()).expect_err("no file");
        assert!(error.to_string().contains(&profile.models[0].id), "{error}");
    }
}
