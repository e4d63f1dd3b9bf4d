//! `config.json` of a BERT checkpoint.

use crate::engine::models::ModelError;
use serde::Deserialize;
use std::path::Path;

/// The shape of a BERT encoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BertConfig {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    /// Rows of the position table: the longest input.
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    #[serde(default = "default_eps")]
    pub layer_norm_eps: f32,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

fn default_eps() -> f32 {
    1e-12
}

impl BertConfig {
    /// Reads and checks a file. What this forward pass does not compute is refused, not approximated.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::BadFile(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let config: BertConfig = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        config.check().map_err(bad)?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let only = |key: &str, found: &Option<String>, wanted: &str| match found {
            Some(found) if found != wanted => Err(format!("`{key}` is `{found}`; only `{wanted}` is supported")),
            _ => Ok(()),
        };
        only("model_type", &self.model_type, "bert")?;
        only("hidden_act", &self.hidden_act, "gelu")?;
        only("position_embedding_type", &self.position_embedding_type, "absolute")?;
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ];
        if let Some((key, size)) = sizes.iter().find(|(_, size)| !(1..=1 << 24).contains(size)) {
            return Err(format!("`{key}` is {size}"));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "`hidden_size` {} is not a multiple of `num_attention_heads` {}",
                self.hidden_size, self.num_attention_heads
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl FnOnce(&mut serde_json::Value)) -> Result<BertConfig, String> {
        let mut json = serde_json::json!({
            "vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
            "max_position_embeddings": 6, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
        });
        change(&mut json);
        let config: BertConfig = serde_json::from_value(json).map_err(|error| error.to_string())?;
        config.check().map(|()| config)
    }

    #[test]
    fn what_cannot_be_computed_is_refused_by_name() {
        assert!(read(|_| {}).is_ok());
        assert!(read(|json| json["hidden_act"] = "relu".into()).unwrap_err().contains("`hidden_act` is `relu`"));
        assert!(read(|json| json["model_type"] = "roberta".into()).unwrap_err().contains("model_type"));
        assert!(read(|json| json["num_attention_heads"] = 3.into()).unwrap_err().contains("not a multiple"));
        assert!(read(|json| json["hidden_size"] = 0.into()).unwrap_err().contains("`hidden_size` is 0"));
        let missing = read(|json| drop(json.as_object_mut().unwrap().remove("vocab_size"))).unwrap_err();
        assert!(missing.contains("vocab_size"), "{missing}");
    }
}
