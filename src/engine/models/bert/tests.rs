//! A small BERT with random weights: batching, prefixes, the cross-encoder head, refusals.

use super::config::BertConfig;
use super::encoder::BertEncoder;
use super::weights;
use crate::engine::models::TextEncoder;
use crate::engine::models::backend::Backend;
use crate::engine::models::backend::candle::CandleBackend;
use crate::engine::models::backend::cpu::CpuBackend;
use crate::engine::models::safetensors::testing::write;
use candle_core::Device;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const HIDDEN: usize = 32;
const VOCAB: usize = 50;

fn config() -> BertConfig {
    serde_json::from_value(serde_json::json!({
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 24, "type_vocab_size": 2,
    }))
    .unwrap()
}

/// Writes a checkpoint; the same seed gives the same weights.
fn checkpoint(prefix: &str, classes: Option<usize>) -> PathBuf {
    let mut random = StdRng::seed_from_u64(7);
    let mut tensors: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![VOCAB, HIDDEN]),
        ("embeddings.position_embeddings.weight".into(), vec![24, HIDDEN]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, HIDDEN]),
        ("embeddings.LayerNorm.weight".into(), vec![HIDDEN]),
        ("embeddings.LayerNorm.bias".into(), vec![HIDDEN]),
    ];
    for layer in 0..2 {
        let mut linear = |name: &str, out: usize, inner: usize| {
            tensors.push((format!("encoder.layer.{layer}.{name}.weight"), vec![out, inner]));
            tensors.push((format!("encoder.layer.{layer}.{name}.bias"), vec![out]));
        };
        for name in ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"] {
            linear(name, HIDDEN, HIDDEN);
        }
        linear("intermediate.dense", 64, HIDDEN);
        linear("output.dense", HIDDEN, 64);
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            tensors.push((format!("encoder.layer.{layer}.{name}.weight"), vec![HIDDEN]));
            tensors.push((format!("encoder.layer.{layer}.{name}.bias"), vec![HIDDEN]));
        }
    }
    let mut named: Vec<(String, Vec<usize>)> =
        tensors.into_iter().map(|(name, shape)| (format!("{prefix}{name}"), shape)).collect();
    if let Some(classes) = classes {
        named.push((format!("{prefix}pooler.dense.weight"), vec![HIDDEN, HIDDEN]));
        named.push((format!("{prefix}pooler.dense.bias"), vec![HIDDEN]));
        named.push(("classifier.weight".into(), vec![classes, HIDDEN]));
        named.push(("classifier.bias".into(), vec![classes]));
    }
    let filled: Vec<_> = named
        .iter()
        .map(|(name, shape)| {
            let values = (0..shape.iter().product()).map(|_| random.random_range(-0.5f32..0.5)).collect();
            (name.as_str(), shape.as_slice(), values)
        })
        .collect();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("lanekeeper-bert-{}-{number}.safetensors", std::process::id()));
    write(&path, &filled);
    path
}

fn encoder(prefix: &str, classes: Option<usize>) -> Result<BertEncoder<CpuBackend>, String> {
    encoder_on(CpuBackend::new(2), prefix, classes)
}

fn encoder_on<B: Backend>(backend: B, prefix: &str, classes: Option<usize>) -> Result<BertEncoder<B>, String> {
    let backend = Arc::new(backend);
    let path = checkpoint(prefix, classes);
    let read = weights::read(&path, &config(), backend.as_ref(), &mut |_| {});
    std::fs::remove_file(&path).unwrap();
    let weights = read.map_err(|error| error.to_string())?;
    Ok(BertEncoder { backend, config: config(), weights, max_tokens: 24 })
}

fn texts(count: usize) -> Vec<Vec<u32>> {
    let mut random = StdRng::seed_from_u64(3);
    let mut text = |_| (0..random.random_range(1..=24)).map(|_| random.random_range(0..VOCAB as u32)).collect();
    (0..count).map(&mut text).collect()
}

fn slices(texts: &[Vec<u32>]) -> Vec<&[u32]> {
    texts.iter().map(Vec::as_slice).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn vectors_do_not_depend_on_the_batch() {
    let mut encoder = encoder("", None).unwrap();
    // More rows than are computed at once.
    let texts = texts(100);
    let together = encoder.embed(&slices(&texts)).unwrap();
    for (text, vector) in texts.iter().zip(&together) {
        let alone = &encoder.embed(&[text.as_slice()]).unwrap()[0];
        assert!(distance(alone, vector) < 1e-6, "{}", distance(alone, vector));
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
    assert!(distance(&together[0], &together[1]) > 1e-3, "different texts have different vectors");
}

#[test]
fn the_back_ends_agree() {
    let texts = texts(20);
    let own = encoder("", None).unwrap().embed(&slices(&texts)).unwrap();
    let twin = encoder_on(CandleBackend::new(Device::Cpu), "", None).unwrap().embed(&slices(&texts)).unwrap();
    for (own, twin) in own.iter().zip(&twin) {
        assert!(distance(own, twin) < 1e-5, "{}", distance(own, twin));
    }
}

#[test]
fn a_prefix_changes_nothing() {
    let texts = texts(3);
    let plain = encoder("", None).unwrap().embed(&slices(&texts)).unwrap();
    assert_eq!(encoder("bert.", None).unwrap().embed(&slices(&texts)).unwrap(), plain);
}

#[test]
fn scores_without_a_head_are_cosines() {
    let mut encoder = encoder("", None).unwrap();
    let texts = texts(4);
    let vectors = encoder.embed(&slices(&texts)).unwrap();
    let scores = encoder.score(&texts[0], &slices(&texts)).unwrap();
    assert!((scores[0] - 1.0).abs() < 1e-5);
    assert!(scores.iter().all(|score| (-1.0..=1.0).contains(score)), "{scores:?}");
    let cosine: f32 = vectors[0].iter().zip(&vectors[2]).map(|(a, b)| a * b).sum();
    assert!((scores[2] - cosine).abs() < 1e-6);
}

#[test]
fn a_head_scores_pairs_with_their_order_and_halves() {
    let mut encoder = encoder("bert.", Some(1)).unwrap();
    let (query, document) = ([1, 5, 6, 2], [1, 9, 8, 7, 2]);
    let scores = encoder.score(&query, &[&document, &[1, 3, 2], &document]).unwrap();
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
    assert!((scores[0] - scores[2]).abs() < 1e-6 && (scores[0] - scores[1]).abs() > 1e-6);
    // The halves have different types: moving the border changes the score of the same tokens.
    let moved = encoder.score(&[1, 5, 6, 2, 9], &[&[1, 8, 7, 2]]).unwrap();
    assert!((scores[0] - moved[0]).abs() > 1e-6, "{scores:?} {moved:?}");
    let error = encoder.embed(&[&query]).unwrap_err().to_string();
    assert!(error.contains("cross-encoder"), "{error}");
    let error = encoder.score(&[1; 20], &[&[1; 20]]).unwrap_err().to_string();
    assert_eq!(error, "text 0 has 39 tokens, the model takes 24");
}

#[test]
fn bad_texts_and_heads_are_refused() {
    let mut encoder_ = encoder("", None).unwrap();
    assert_eq!(encoder_.embed(&[&[1], &[]]).unwrap_err().to_string(), "text 1 has no tokens");
    let error = encoder_.embed(&[&[VOCAB as u32]]).unwrap_err().to_string();
    assert_eq!(error, "text 0: token 50 is not in the vocabulary of 50");
    assert_eq!(encoder_.embed(&[&[1; 25]]).unwrap_err().to_string(), "text 0 has 25 tokens, the model takes 24");
    assert_eq!(encoder_.embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
    let error = encoder("bert.", Some(3)).err().unwrap();
    assert!(error.contains("`classifier.weight` is [3, 32]"), "{error}");
}
