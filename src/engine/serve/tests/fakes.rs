//! Models that answer at once, or when the test lets them.

use crate::engine::models::chat::ChatTemplate;
use crate::engine::models::gguf::testing::FileBuilder;
use crate::engine::models::gguf::{Vocabulary, header, tokenizer};
use crate::engine::models::{
    CausalLm, LmConfig, LmFront, LmSpan, LoadedModel, LogitsFor, ModelBack, ModelError, ModelFront, Segment,
    SpeechFront, TextEncoder, TranscribeSession, Transcriber, WindowReport,
};
use crate::engine::runtime::Loader;
use crate::profile::Family;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use tokio::sync::watch;

/// Samples of one window.
const WINDOW: usize = 30 * 16_000;

/// Where models wait while it is shut. Open at first.
pub(super) struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    arrived: watch::Sender<usize>,
}

impl Gate {
    pub(super) fn new() -> Arc<Gate> {
        Arc::new(Gate { shut: Mutex::new(false), opened: Condvar::new(), arrived: watch::Sender::new(0) })
    }

    pub(super) fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }

    pub(super) fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }

    /// Steps of models so far.
    pub(super) fn steps(&self) -> usize {
        *self.arrived.borrow()
    }

    /// Waits until that many steps have begun.
    pub(super) async fn arrived(&self, steps: usize) {
        self.arrived.subscribe().wait_for(|n| *n >= steps).await.unwrap();
    }

    fn pass(&self) {
        self.arrived.send_modify(|n| *n += 1);
        let shut = self.shut.lock().unwrap();
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap());
    }
}

/// Loads fakes in place of files.
pub(super) fn loader(gate: Arc<Gate>) -> Loader {
    Arc::new(move |profile, _| match profile.family {
        Family::Whisper => Ok(LoadedModel {
            front: ModelFront::Speech(SpeechFront { languages: vec!["en".into()], multilingual: false }),
            back: ModelBack::Speech(Box::new(Ears(gate.clone()))),
        }),
        Family::Bert => Ok(LoadedModel {
            front: ModelFront::Text(super::super::http::tests::text_front(16)),
            back: ModelBack::Text(Box::new(Vectors(gate.clone()))),
        }),
        Family::Llama => Ok(Alphabet::load(gate.clone(), profile.generation.map_or(1, |g| g.slots))),
    })
}

/// Hears one segment in each window that is not silent.
struct Ears(Arc<Gate>);

impl Transcriber for Ears {
    fn step(&mut self, sessions: &mut [&mut TranscribeSession]) -> Vec<Result<WindowReport, ModelError>> {
        self.0.pass();
        sessions.iter_mut().map(|session| Ok(hear(session))).collect()
    }

    fn weights_bytes(&self) -> u64 {
        1
    }
}

fn hear(session: &mut TranscribeSession) -> WindowReport {
    let total = session.audio.samples.len();
    let end = (session.seek + WINDOW).min(total);
    let silent = session.audio.samples[session.seek..end].iter().all(|x| x.abs() < 1e-3);
    if !silent {
        let id = session.segments.len();
        session.segments.push(Segment {
            id,
            start: session.seek as f64 / 16_000.0,
            end: end as f64 / 16_000.0,
            text: format!(" Window {}.", session.seek / WINDOW),
            tokens: vec![1],
            temperature: 0.0,
            avg_logprob: -0.1,
            compression_ratio: 1.0,
            no_speech_prob: 0.0,
            seek: session.seek / 160,
            words: vec![],
        });
    }
    session.seek = end;
    session.done = end == total;
    session.language = Some("en".into());
    WindowReport { new_segments: usize::from(!silent), decoded_tokens: 1, fallbacks: 0 }
}

/// A vector that depends on the text's tokens; a document scores by the tokens it shares with the query.
struct Vectors(Arc<Gate>);

impl TextEncoder for Vectors {
    fn embed(&mut self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.0.pass();
        Ok(sequences.iter().map(|ids| unit(ids)).collect())
    }

    fn score(&mut self, query: &[u32], documents: &[&[u32]]) -> Result<Vec<f32>, ModelError> {
        self.0.pass();
        let shared = |ids: &&[u32]| ids.iter().filter(|id| query.contains(id)).count() as f32;
        Ok(documents.iter().map(shared).collect())
    }

    fn weights_bytes(&self) -> u64 {
        1
    }
}

fn unit(ids: &[u32]) -> Vec<f32> {
    let mut vector = [0.5f32, 0.0, 0.0, 0.0];
    for (i, id) in ids.iter().enumerate() {
        vector[i % 4] += (*id as f32).sin();
    }
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / norm).collect()
}

/// The end token of [`Alphabet`].
const END: u32 = 0;

/// Goes on with the alphabet: `b` follows `a`, the end follows `z`, and `a` follows anything else.
struct Alphabet {
    gate: Arc<Gate>,
    config: LmConfig,
    slots: Vec<Vec<u32>>,
}

impl Alphabet {
    fn load(gate: Arc<Gate>, slots: usize) -> LoadedModel {
        let front = alphabet_front();
        let config = front.config.clone();
        LoadedModel {
            front: ModelFront::Lm(front),
            back: ModelBack::Lm(Box::new(Alphabet { gate, config, slots: vec![Vec::new(); slots] })),
        }
    }
}

/// The token of a printable character: the vocabulary is the end, then these in order, then blank and line break.
fn letter(c: char) -> u32 {
    u32::from(c) - u32::from('!') + 1
}

fn after(token: u32) -> u32 {
    match token {
        z if z == letter('z') => END,
        l if (letter('a')..letter('z')).contains(&l) => l + 1,
        _ => letter('a'),
    }
}

fn alphabet_front() -> LmFront {
    let mut tokens = vec!["</s>".to_string()];
    tokens.extend(('!'..='~').map(String::from));
    tokens.extend(["Ġ", "Ċ"].map(String::from));
    let kinds: Vec<i32> = (0..tokens.len()).map(|i| if i == 0 { 3 } else { 1 }).collect();
    let file = FileBuilder::new()
        .text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &kinds)
        .texts::<&str>("tokenizer.ggml.merges", &[])
        .build();
    let gguf = header::read(&file[..], Path::new("fake.gguf"), file.len() as u64).unwrap();
    let vocabulary = Vocabulary::from_metadata(&gguf.metadata).unwrap();
    let config = LmConfig {
        architecture: "fake".into(),
        vocab: tokens.len(),
        hidden: 1,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        feed_forward: 1,
        rope_base: 1.0,
        norm_eps: 0.0,
        context: 256,
    };
    LmFront {
        tokenizer: tokenizer::build(&gguf.metadata, &vocabulary).unwrap(),
        vocabulary: Arc::new(vocabulary),
        config,
        chat_template: Some(Arc::new(ChatTemplate::chatml())),
        bos: None,
        eos: None,
        bos_id: None,
        add_bos: false,
        end_ids: vec![END],
    }
}

impl CausalLm for Alphabet {
    fn config(&self) -> &LmConfig {
        &self.config
    }

    fn forward(&mut self, spans: &[LmSpan<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.gate.pass();
        let row = |span: &LmSpan<'_>| {
            let slot = &mut self.slots[span.slot];
            slot.truncate(span.start);
            slot.extend_from_slice(span.tokens);
            let mut row = vec![0.0; self.config.vocab];
            row[after(slot[slot.len() - 1]) as usize] = 9.0;
            if span.logits == LogitsFor::None { Vec::new() } else { row }
        };
        Ok(spans.iter().map(row).collect())
    }

    fn slot_len(&self, slot: usize) -> usize {
        self.slots[slot].len()
    }

    fn truncate(&mut self, slot: usize, len: usize) -> Result<(), ModelError> {
        self.slots[slot].truncate(len);
        Ok(())
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn weights_bytes(&self) -> u64 {
        1
    }

    fn kv_bytes(&self) -> u64 {
        1
    }
}
