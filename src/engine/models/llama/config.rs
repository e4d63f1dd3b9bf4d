//! The shape of a llama-family model, from its metadata.

use crate::engine::models::backend::RopeStyle;
use crate::engine::models::gguf::Metadata;
use crate::engine::models::{LmConfig, ModelError};

const MAX_LAYERS: usize = 1024;
const MAX_WIDTH: usize = 1 << 20;
const MAX_CONTEXT: usize = 1 << 24;
/// What the format's specification gives for files without the key.
const DEFAULT_ROPE_BASE: f32 = 10_000.0;

/// What the metadata say beyond [`LmConfig`].
#[derive(Debug, Clone, PartialEq)]
pub struct LlamaConfig {
    pub lm: LmConfig,
    pub rope_style: RopeStyle,
    /// Positions are divided by this (linear scaling); 1 = none.
    pub rope_linear: f32,
}

/// Reads and checks the shape; `vocab` is the length of the token list.
pub fn read(m: &Metadata, vocab: usize) -> Result<LlamaConfig, ModelError> {
    let architecture = m.text("general.architecture")?.to_string();
    let rope_style = match architecture.as_str() {
        "llama" => RopeStyle::Interleaved,
        "qwen2" => RopeStyle::Half,
        other => {
            return Err(m.bad("general.architecture", format!("is `{other}`; `llama` and `qwen2` can be served")));
        }
    };
    let key = |name: &str| format!("{architecture}.{name}");
    let hidden = m.count_within(&key("embedding_length"), MAX_WIDTH)?;
    let heads = m.count_within(&key("attention.head_count"), hidden)?;
    let kv_key = key("attention.head_count_kv");
    let kv_heads = m.opt_count(&kv_key)?.unwrap_or(heads);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(m.bad(&kv_key, format!("is {kv_heads}, which does not divide the {heads} heads")));
    }
    let head_key = key("attention.key_length");
    let head_dim = match m.opt_count(&head_key)? {
        Some(d) => d,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(
                m.bad(&key("attention.head_count"), format!("is {heads}, which does not divide the width {hidden}"))
            );
        }
    };
    if head_dim == 0 || head_dim % 2 != 0 || head_dim > MAX_WIDTH {
        return Err(m.bad(&head_key, format!("gives heads of {head_dim} values, expected a positive even number")));
    }
    let rope_key = key("rope.dimension_count");
    match m.opt_count(&rope_key)? {
        Some(d) if d != head_dim => {
            return Err(m.bad(&rope_key, format!("is {d}; only whole heads ({head_dim}) can be rotated here")));
        }
        _ => {}
    }
    let base_key = key("rope.freq_base");
    let rope_base = match m.opt_float(&base_key)? {
        Some(b) if b > 0.0 => b,
        Some(b) => return Err(m.bad(&base_key, format!("is {b}, expected more than 0"))),
        None => {
            tracing::warn!(file = %m.path().display(), key = base_key, "missing; using {DEFAULT_ROPE_BASE}");
            DEFAULT_ROPE_BASE
        }
    };
    let eps_key = key("attention.layer_norm_rms_epsilon");
    let norm_eps = m.float(&eps_key)?;
    if !(0.0..1.0).contains(&norm_eps) {
        return Err(m.bad(&eps_key, format!("is {norm_eps}, expected 0 to 1")));
    }
    let rope_linear = linear_scaling(m, &architecture)?;
    if let Some(stated) = m.opt_count(&key("vocab_size"))?
        && stated != vocab
    {
        return Err(m.bad(&key("vocab_size"), format!("is {stated}, but the token list has {vocab} entries")));
    }
    Ok(LlamaConfig {
        lm: LmConfig {
            vocab,
            hidden,
            layers: m.count_within(&key("block_count"), MAX_LAYERS)?,
            heads,
            kv_heads,
            head_dim,
            feed_forward: m.count_within(&key("feed_forward_length"), MAX_WIDTH)?,
            rope_base,
            norm_eps,
            context: m.count_within(&key("context_length"), MAX_CONTEXT)?,
            architecture,
        },
        rope_style,
        rope_linear,
    })
}

fn linear_scaling(m: &Metadata, architecture: &str) -> Result<f32, ModelError> {
    let type_key = format!("{architecture}.rope.scaling.type");
    match m.opt_text(&type_key)? {
        None | Some("none") => Ok(1.0),
        Some("linear") => {
            let key = format!("{architecture}.rope.scaling.factor");
            let factor = m.float(&key)?;
            if factor > 0.0 { Ok(factor) } else { Err(m.bad(&key, format!("is {factor}, expected more than 0"))) }
        }
        Some(other) => {
            Err(m.bad(&type_key, format!("is `{other}`; `none`, `linear` and factor tensors can be served")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::gguf::Value;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn values() -> BTreeMap<String, Value> {
        let n = |k: &str, v: u64| (format!("llama.{k}"), Value::Unsigned(v));
        let f = |k: &str, v: f64| (format!("llama.{k}"), Value::Float(v));
        BTreeMap::from([
            ("general.architecture".into(), Value::Text("llama".into())),
            n("embedding_length", 64),
            n("attention.head_count", 4),
            n("attention.head_count_kv", 2),
            n("block_count", 3),
            n("feed_forward_length", 128),
            n("context_length", 512),
            f("attention.layer_norm_rms_epsilon", 1e-5),
            f("rope.freq_base", 1e5),
        ])
    }

    fn parse(values: BTreeMap<String, Value>) -> Result<LlamaConfig, ModelError> {
        read(&Metadata::new(Path::new("m.gguf"), values), 100)
    }

    #[test]
    fn a_sound_shape_is_read() {
        let c = parse(values()).expect("sound");
        assert_eq!((c.lm.heads, c.lm.kv_heads, c.lm.head_dim, c.lm.layers), (4, 2, 16, 3));
        assert_eq!(c.rope_style, RopeStyle::Interleaved);
    }

    #[test]
    fn every_needed_key_is_named_when_missing_or_of_another_type() {
        for key in values().keys() {
            let optional = key.ends_with("head_count_kv") || key.ends_with("freq_base");
            let mut without = values();
            without.remove(key);
            match parse(without) {
                Ok(_) => assert!(optional, "{key} is needed"),
                Err(e) => assert!(e.to_string().contains(&format!("`{key}` is missing")), "{e}"),
            }
            let mut other = values();
            other.insert(key.clone(), Value::Bools(vec![true]));
            let e = parse(other).expect_err("retyped");
            assert!(e.to_string().contains(&format!("`{key}`")), "{e}");
        }
    }

    #[test]
    fn a_missing_rope_base_has_its_documented_default() {
        let mut v = values();
        v.remove("llama.rope.freq_base");
        assert_eq!(parse(v).expect("default").lm.rope_base, DEFAULT_ROPE_BASE);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let with = |key: &str, v: Value| {
            let mut m = values();
            m.insert(key.to_string(), v);
            parse(m).expect_err("refused").to_string()
        };
        assert!(with("llama.attention.head_count", Value::Unsigned(0)).contains("head_count` is 0"));
        assert!(with("llama.attention.head_count_kv", Value::Unsigned(3)).contains("does not divide"));
        assert!(with("llama.rope.freq_base", Value::Float(-1.0)).contains("more than 0"));
        assert!(with("llama.rope.freq_base", Value::Float(f64::NAN)).contains("finite"));
        assert!(with("llama.block_count", Value::Unsigned(u64::MAX)).contains("expected 1 to"));
        assert!(with("llama.vocab_size", Value::Unsigned(5)).contains("token list has 100"));
        assert!(with("general.architecture", Value::Text("mamba".into())).contains("`mamba`"));
        assert!(with("llama.rope.scaling.type", Value::Text("yarn".into())).contains("`yarn`"));
    }
}
