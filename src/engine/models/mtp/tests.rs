//! A small head against plain arithmetic, and files that are refused.

use super::shipped::HEADS;
use super::testing::{Written, head, random};
use super::{Head, HeadFile};
use crate::engine::models::ModelError;
use crate::engine::models::backend::cpu::CpuBackend;
use crate::engine::models::backend::{Backend, HostWeight};
use crate::profile::DraftHead;
use candle_core::{Device, Tensor};

const HIDDEN: usize = 16;
const INNER: usize = 24;
const VOCAB: usize = 20;
const TOKENS: [i32; 5] = [3, 4, 9, 12, 19];

fn opened(written: &Written, weights: &str) -> Result<HeadFile, ModelError> {
    HeadFile::open(&DraftHead::File(written.0.clone()), weights)
}

fn load(written: &Written, backend: &CpuBackend) -> Result<Head<CpuBackend>, ModelError> {
    let table = Tensor::from_vec(random(77, VOCAB * HIDDEN), (VOCAB, HIDDEN), &Device::Cpu).expect("a table");
    let output = backend.load_table(HostWeight::Plain(table)).expect("loads");
    Head::load(&opened(written, "aa")?, &output, [VOCAB, HIDDEN], backend)
}

fn norm(x: &[f32], seed: u32) -> Vec<f32> {
    let scale = (x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32 + 1e-5).sqrt();
    x.iter().zip(random(seed, x.len())).map(|(v, w)| v / scale * (1.0 + w / 4.0)).collect()
}

fn product(weight: &[f32], x: &[f32]) -> Vec<f32> {
    weight.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

/// One row through the head, as its formula says.
fn plainly(hidden: &[f32], embedding: &[f32]) -> (Vec<f32>, u32) {
    let of = |seed: u32, n: usize| random(seed, n);
    let from_hidden = product(&of(1, HIDDEN * HIDDEN), &norm(hidden, 11));
    let from_token = product(&of(2, HIDDEN * HIDDEN), &norm(embedding, 12));
    let x: Vec<f32> = from_hidden.iter().zip(from_token).map(|(a, b)| a + b).collect();
    let inner = norm(&x, 13);
    let (gate, up) = (product(&of(3, INNER * HIDDEN), &inner), product(&of(4, INNER * HIDDEN), &inner));
    let gated: Vec<f32> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
    let down = product(&of(5, HIDDEN * INNER), &gated);
    let out = norm(&x.iter().zip(down).map(|(a, b)| a + b).collect::<Vec<f32>>(), 14);
    let table = of(77, VOCAB * HIDDEN);
    let logit = |t: &i32| product(&table[*t as usize * HIDDEN..][..HIDDEN], &out)[0];
    let best = TOKENS.iter().max_by(|a, b| logit(a).total_cmp(&logit(b))).expect("tokens");
    (out, *best as u32)
}

#[test]
fn it_computes_its_formula_row_by_row() {
    let backend = CpuBackend::new(2);
    let written = Written::new(&head("aa", HIDDEN, INNER, &TOKENS));
    let loaded = load(&written, &backend).expect("loads");
    assert!(loaded.bytes() > 0);
    let (hidden, embeddings) = (random(21, 6 * HIDDEN), random(22, 6 * HIDDEN));
    let up = |v: &[f32]| backend.upload(6, HIDDEN, v.to_vec()).expect("a matrix");
    let (out, drafts) = loaded.step(&backend, &up(&hidden), &up(&embeddings)).expect("runs");
    let out = backend.download(out).expect("values");
    assert_eq!(drafts.len(), 6);
    for (i, found) in drafts.iter().enumerate() {
        let row = i * HIDDEN..(i + 1) * HIDDEN;
        let (expected, draft) = plainly(&hidden[row.clone()], &embeddings[row.clone()]);
        assert!(out[row].iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "row {i}");
        assert_eq!(*found, draft, "row {i}");
    }
}

#[test]
fn a_head_of_other_weights_is_refused_with_both_digests() {
    let written = Written::new(&head("aa11", HIDDEN, INNER, &TOKENS));
    assert!(opened(&written, "aa11").is_ok());
    let text = opened(&written, "bb22").err().expect("refused").to_string();
    assert!(text.contains("aa11") && text.contains("bb22") && text.contains("speculation.mtp_head"), "{text}");
    let text = HeadFile::open(&DraftHead::Shipped, "bb22").err().expect("refused").to_string();
    assert!(text.contains("bb22") && text.contains("scripts/mtp"), "{text}");
    assert!(HEADS.iter().all(|(name, _)| text.contains(name)), "{text}");
}

#[test]
fn damaged_and_misshapen_heads_are_named() {
    let backend = CpuBackend::new(1);
    let refused = |file| load(&Written::new(&file), &backend).err().expect("refused").to_string();
    assert!(refused(head("aa", HIDDEN, INNER, &[])).contains("`mtp.tokens` names no token"));
    assert!(refused(head("aa", HIDDEN, INNER, &[3, 20])).contains("has 20, but the vocabulary has 20 tokens"));
    assert!(refused(head("aa", HIDDEN, INNER, &[3, -1])).contains("has -1"));
    assert!(refused(head("aa", 8, INNER, &[3])).contains("`from_hidden.weight` has shape [8, 8]"));
    let no_head = crate::engine::models::gguf::testing::FileBuilder::new().text("general.architecture", "llama");
    assert!(refused(no_head).contains("`mtp.model.sha256` is missing"));
}

/// What this program carries is whole, for a profile of its own, and small.
#[test]
fn shipped_heads_are_sound() {
    for (name, bytes) in HEADS {
        assert!(bytes.len() < 6_000_000, "{name}");
        let gguf = crate::engine::models::gguf::header::read(bytes, name.as_ref(), bytes.len() as u64).expect("whole");
        let weights = gguf.metadata.text("mtp.model.sha256").expect("named");
        let file = HeadFile::open(&DraftHead::Shipped, weights).expect("found");
        let hidden = file.gguf.tensors["output_norm.weight"].shape[0];
        let vocab = 1 + file.tokens(usize::MAX).expect("a list").into_iter().max().expect("tokens") as usize;
        let backend = CpuBackend::new(1);
        let table = Tensor::zeros((vocab, hidden), candle_core::DType::F32, &Device::Cpu).expect("a table");
        let output = backend.load_table(HostWeight::Plain(table)).expect("loads");
        Head::load(&file, &output, [vocab, hidden], &backend).expect("loads");
        let record: serde_json::Value =
            serde_json::from_str(gguf.metadata.text("mtp.record").expect("a record")).expect("JSON");
        assert!(record["acceptance"]["all"]["first"].as_f64().is_some_and(|a| a >= 0.3), "{record}");
    }
}
