//! all-MiniLM-L6-v2 against sentence-transformers (`scripts/peers.d/text.py` made the reference).

use base64::Engine as _;
use lanekeeper::engine::models::{ModelBack, ModelFront, TextEncoder, TextFront, load};
use lanekeeper::profile::FileRole;
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    dimensions: usize,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    text: String,
    tokens: usize,
    vector: String,
}

impl Row {
    /// base64 of little-endian f16.
    fn vector(&self) -> Vec<f64> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.vector).unwrap();
        bytes.chunks_exact(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f64()).collect()
    }
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/text.json")).unwrap()
}

fn minilm() -> (TextFront, Box<dyn TextEncoder>) {
    let (profile, files) = crate::model("minilm-l6");
    let loaded = load(&profile, &files).unwrap();
    match (loaded.front, loaded.back) {
        (ModelFront::Text(front), ModelBack::Text(back)) => (front, back),
        _ => panic!("minilm-l6 is not a text encoder"),
    }
}

fn ids(front: &TextFront, text: &str) -> Vec<u32> {
    front.tokenizer.encode(text, true).unwrap().get_ids().to_vec()
}

fn slices(sequences: &[Vec<u32>]) -> Vec<&[u32]> {
    sequences.iter().map(Vec::as_slice).collect()
}

fn cosine_distance(a: &[f32], b: &[f64]) -> f64 {
    let dot: f64 = a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum();
    let lengths: (f64, f64) = (a.iter().map(|a| f64::from(*a).powi(2)).sum(), b.iter().map(|b| b * b).sum());
    1.0 - dot / (lengths.0 * lengths.1).sqrt()
}

#[test]
fn embeddings_agree_with_sentence_transformers() {
    let reference = reference();
    let (front, mut back) = minilm();
    assert_eq!((front.dimensions, front.max_tokens, front.cross_encoder), (reference.dimensions, 256, false));
    let sequences: Vec<_> = reference.rows.iter().map(|row| ids(&front, &row.text)).collect();
    for (row, sequence) in reference.rows.iter().zip(&sequences) {
        assert_eq!(sequence.len(), row.tokens, "tokens of {:?}", row.text);
    }
    let vectors = back.embed(&slices(&sequences)).unwrap();
    assert_eq!(vectors.len(), 50);
    let mut worst = 0.0f64;
    for (row, vector) in reference.rows.iter().zip(&vectors) {
        let distance = cosine_distance(vector, &row.vector());
        assert!(distance < 1e-4, "{distance:.2e} for {:?}", row.text);
        worst = worst.max(distance);
    }
    println!("worst cosine distance of 50 texts: {worst:.2e}");
}

#[test]
fn a_text_has_one_vector_whatever_it_is_batched_with() {
    let (front, mut back) = minilm();
    let sequences: Vec<_> = reference().rows.iter().map(|row| ids(&front, &row.text)).collect();
    let together = back.embed(&slices(&sequences)).unwrap();
    for (sequence, vector) in sequences.iter().zip(&together) {
        let alone = &back.embed(&[sequence]).unwrap()[0];
        let worst = alone.iter().zip(vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1e-6, "{worst:.2e}");
    }
}

#[test]
fn rerank_finds_the_paraphrase() {
    let (front, mut back) = minilm();
    let query = ids(&front, "How do I reset the password of my router?");
    let documents = [
        "Quarterly revenue fell short of what the analysts had expected.",
        "Where can I change the access code of my wireless box?",
        "Whisk the eggs with sugar until the mixture turns pale.",
    ]
    .map(|text| ids(&front, text));
    let scores = back.score(&query, &slices(&documents)).unwrap();
    assert!(scores[1] > scores[0] + 0.2 && scores[1] > scores[2] + 0.2, "{scores:?}");
}

/// A cut checkpoint is refused before anything is loaded, with the bytes that are there.
#[test]
fn a_cut_checkpoint_is_refused() {
    let (profile, mut files) = crate::model("minilm-l6");
    let whole = std::fs::read(&files[&FileRole::Weights]).unwrap();
    let folder = std::env::temp_dir().join(format!("lanekeeper-cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.safetensors");
    files.insert(FileRole::Weights, path.clone());
    for length in [0, whole.len() / 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = load(&profile, &files).err().unwrap().to_string();
        assert!(error.contains("model.safetensors") && error.contains(&length.to_string()), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
