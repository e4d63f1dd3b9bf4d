//! What the runtime asks of a model, whatever its family.

use super::chat::ChatTemplate;
use super::gguf::Vocabulary;
use crate::engine::audio::Pcm;
use std::sync::Arc;

/// A model failed to load or to run.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file that cannot be a model of this family, or is damaged: says what, where, expected and found.
    #[error("{0}")]
    BadFile(String),
    /// An input that this model cannot take; only this item is at fault.
    #[error("{0}")]
    BadInput(String),
    #[error("out of memory on {device}: {what}")]
    OutOfMemory { device: String, what: String },
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    #[error("{0}")]
    Other(String),
}

/// A loaded model: its shared front and its owned back.
pub struct LoadedModel {
    pub front: ModelFront,
    pub back: ModelBack,
}

/// The shared half, by what doors need of it.
pub enum ModelFront {
    Speech(SpeechFront),
    Text(TextFront),
    Lm(LmFront),
}

/// What doors need to know of a speech model.
#[derive(Debug, Clone)]
pub struct SpeechFront {
    /// Language codes it knows; one entry for an English-only model.
    pub languages: Vec<String>,
    pub multilingual: bool,
}

/// What doors need of a text encoder.
pub struct TextFront {
    pub tokenizer: tokenizers::Tokenizer,
    /// Longest input in tokens, special tokens included.
    pub max_tokens: usize,
    /// Length of a vector; 0 for a pure cross-encoder.
    pub dimensions: usize,
    /// Whether rerank scores come from a cross-encoder head or from the cosine of embeddings.
    pub cross_encoder: bool,
}

/// What doors need of a language model. [`LmFront::encode_prompt`] and [`LmFront::encode_chat`] make prompts.
pub struct LmFront {
    pub tokenizer: tokenizers::Tokenizer,
    /// What each token is, in bytes.
    pub vocabulary: Arc<Vocabulary>,
    pub config: LmConfig,
    /// The model's own chat template.
    pub chat_template: Option<Arc<ChatTemplate>>,
    pub bos: Option<String>,
    pub eos: Option<String>,
    pub bos_id: Option<u32>,
    /// Whether the file asks for the begin token before every prompt.
    pub add_bos: bool,
    /// Tokens that end generation.
    pub end_ids: Vec<u32>,
}

/// The owned half.
pub enum ModelBack {
    Speech(Box<dyn Transcriber>),
    Text(Box<dyn TextEncoder>),
    Lm(Box<dyn CausalLm>),
}

// ---- speech ----

/// What a caller asks of a transcription.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscribeOptions {
    /// `None` = detect (multilingual models).
    pub language: Option<String>,
    /// Translate into English instead of transcribing.
    pub translate: bool,
    /// Text that came before, for context.
    pub prompt: Option<String>,
    /// First temperature; falls back in steps of 0.2 when a window fails its checks, unless > 0.
    pub temperature: f32,
    pub word_timestamps: bool,
    /// Seed of the fall-back sampling.
    pub seed: u64,
}

impl Default for TranscribeOptions {
    fn default() -> Self {
        TranscribeOptions {
            language: None,
            translate: false,
            prompt: None,
            temperature: 0.0,
            word_timestamps: false,
            seed: 0,
        }
    }
}

/// A stretch of transcript. Times are seconds from the start of the audio.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    pub id: usize,
    pub start: f64,
    pub end: f64,
    pub text: String,
    pub tokens: Vec<u32>,
    pub temperature: f32,
    pub avg_logprob: f64,
    pub compression_ratio: f64,
    pub no_speech_prob: f64,
    /// Offset of the window in which this was found, in mel frames (10 ms).
    pub seek: usize,
    pub words: Vec<Word>,
}

/// A word with its times.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    pub text: String,
    pub start: f64,
    pub end: f64,
    pub probability: f64,
}

/// The state of one transcription between windows: audio, seek position, context, results so far. It is a value:
/// it can be put aside and taken up again, and nothing of it lives in the model.
pub struct TranscribeSession {
    pub audio: Pcm,
    pub options: TranscribeOptions,
    /// Next window's start, in samples.
    pub seek: usize,
    /// Text tokens of earlier windows, used as context.
    pub context: Vec<u32>,
    pub segments: Vec<Segment>,
    /// Language in use, once known.
    pub language: Option<String>,
    pub done: bool,
}

impl TranscribeSession {
    /// A fresh session at the start of `audio`.
    pub fn new(audio: Pcm, options: TranscribeOptions) -> Self {
        let language = options.language.clone();
        TranscribeSession { audio, options, seek: 0, context: Vec::new(), segments: Vec::new(), language, done: false }
    }

    /// Part of the audio already transcribed, 0..=1.
    pub fn done_ratio(&self) -> f64 {
        if self.done || self.audio.samples.is_empty() {
            return 1.0;
        }
        (self.seek as f64 / self.audio.samples.len() as f64).min(1.0)
    }
}

/// What one window did to one session.
#[derive(Debug)]
pub struct WindowReport {
    /// Segments that this window added (already in the session too).
    pub new_segments: usize,
    pub decoded_tokens: usize,
    /// Temperature fall-backs taken.
    pub fallbacks: usize,
}

/// A speech-to-text model.
pub trait Transcriber: Send {
    /// Advances every session that is not done by one window of at most 30 s, batched where that gains. One result per
    /// session, in order: a session at fault fails alone.
    fn step(&mut self, sessions: &mut [&mut TranscribeSession]) -> Vec<Result<WindowReport, ModelError>>;
    /// Bytes of weights held.
    fn weights_bytes(&self) -> u64;
}

// ---- text encoders ----

/// An encoder for embeddings and relevance scores.
pub trait TextEncoder: Send {
    /// One unit vector per sequence of token ids (special tokens included), mean-pooled over its tokens.
    fn embed(&mut self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError>;
    /// One relevance score per (query, document) pair, higher = more relevant. A cross-encoder gets the pair as one
    /// sequence with type ids; an embedding model answers with the cosine.
    fn score(&mut self, query: &[u32], documents: &[&[u32]]) -> Result<Vec<f32>, ModelError>;
    fn weights_bytes(&self) -> u64;
}

// ---- language models ----

/// The shape of a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct LmConfig {
    pub architecture: String,
    pub vocab: usize,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub feed_forward: usize,
    pub rope_base: f32,
    pub norm_eps: f32,
    /// Context length the model was trained for.
    pub context: usize,
}

/// Which rows of a span need logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitsFor {
    /// A prefill chunk that is not the last.
    None,
    /// The last row only.
    Last,
    /// Every row (verify windows, prompt log-probabilities).
    All,
}

/// Rows of one sequence in a ragged forward pass.
#[derive(Debug, Clone)]
pub struct LmSpan<'a> {
    /// KV slot of the sequence.
    pub slot: usize,
    /// Absolute position of the first token; must equal or be below the slot's length (writing at p forgets what lies
    /// at and beyond p).
    pub start: usize,
    pub tokens: &'a [u32],
    pub logits: LogitsFor,
}

/// The newest token of a slot, for a model that drafts what may follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftAfter {
    pub slot: usize,
    /// Absolute position of the token; it was chosen from the row before.
    pub at: usize,
    pub token: u32,
}

/// A causal language model with one KV slot per sequence.
pub trait CausalLm: Send {
    fn config(&self) -> &LmConfig;
    /// One forward pass over rows of several sequences at different positions. Returns, for each span in order, its
    /// requested logits rows (`rows × vocab`, row-major; empty for [`LogitsFor::None`]).
    fn forward(&mut self, spans: &[LmSpan<'_>]) -> Result<Vec<Vec<f32>>, ModelError>;
    /// Tokens in a slot's KV cache.
    fn slot_len(&self, slot: usize) -> usize;
    /// Rewinds a slot to `len` tokens; an error when it is shorter.
    fn truncate(&mut self, slot: usize, len: usize) -> Result<(), ModelError>;
    /// Puts the first `len` tokens of slot `from` into slot `to`, in place of what that holds; an error when `from` is
    /// shorter or the model cannot, and then `to` is as it was.
    fn fork(&mut self, from: usize, to: usize, len: usize) -> Result<(), ModelError> {
        Err(ModelError::Other(format!(
            "slot {from} cannot be copied to {to} ({len} tokens): the model does not do that"
        )))
    }
    fn slots(&self) -> usize;
    fn weights_bytes(&self) -> u64;
    fn kv_bytes(&self) -> u64;
    /// Whether the value of a row never depends, bit for bit, on the rows computed beside it. Where it may, a verify window
    /// could settle a near tie otherwise than a plain step would, and speculation stays off.
    fn rows_are_independent(&self) -> bool {
        false
    }
    /// Whether it has a head that drafts.
    fn drafts(&self) -> bool {
        false
    }
    /// At most `n` tokens that it may choose behind each of `after`, by its own draft head. An answer is empty where the last
    /// pass had no logits of the row before.
    fn draft(&mut self, after: &[DraftAfter], _n: usize) -> Result<Vec<Vec<u32>>, ModelError> {
        Ok(vec![Vec::new(); after.len()])
    }
}
