//! What doors ask of the engine, and what comes back.

use crate::control::speculation::{SpeculationChoice, SpeculationReport};
use crate::engine::audio::Pcm;
use crate::engine::models::{Segment, TranscribeOptions};

pub use crate::engine::models::sampler::Sampling;

/// Time spent by a request, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct JobTimes {
    pub queue_ms: f64,
    pub run_ms: f64,
}

/// Common to all jobs: who asks, and until when it is of use.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Label of the key, or `local`.
    pub client: String,
    /// Seconds from submission after which the answer is of no use.
    pub deadline_s: Option<f64>,
}

#[derive(Debug)]
pub struct TranscribeJob {
    pub audio: Pcm,
    pub options: TranscribeOptions,
}

#[derive(Debug)]
pub enum TranscriptEvent {
    /// A finished segment, in order.
    Segment(Segment),
    /// The end: nothing follows.
    Done { language: Option<String>, times: JobTimes },
}

#[derive(Debug)]
pub struct EmbedJob {
    /// Token ids per text, special tokens included.
    pub sequences: Vec<Vec<u32>>,
}

#[derive(Debug)]
pub struct Embedded {
    /// One unit vector per text, in order.
    pub vectors: Vec<Vec<f32>>,
    pub times: JobTimes,
}

#[derive(Debug)]
pub struct RerankJob {
    pub query: Vec<u32>,
    pub documents: Vec<Vec<u32>>,
}

#[derive(Debug)]
pub struct Reranked {
    /// One score per document, in order.
    pub scores: Vec<f32>,
    pub times: JobTimes,
}

#[derive(Debug)]
pub struct GenerateJob {
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    pub sampling: Sampling,
    /// Text that ends the answer; never part of it.
    pub stop: Vec<String>,
    /// Tokens that end the answer, besides the model's own; never part of its text.
    pub stop_ids: Vec<u32>,
    /// So many tokens are generated before anything may end the answer.
    pub min_tokens: usize,
    /// Go on past the end-of-sequence token.
    pub ignore_eos: bool,
    /// How many alternatives to report per token; `None` = no log-probabilities.
    pub logprobs: Option<usize>,
    /// Whether windows may be, must be or must not be used.
    pub speculation: SpeculationChoice,
}

/// A token with its log-probability and the best alternatives.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    pub id: u32,
    /// Its own bytes, maybe of a part of a character; of a special token those of its name.
    pub bytes: Vec<u8>,
    pub logprob: f32,
    /// Where its text begins in the answer, in characters: for a part of a character where that begins.
    pub offset: usize,
    /// The likeliest tokens with their bytes, falling; the chosen one may not be among them.
    pub top: Vec<(u32, Vec<u8>, f32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// End token or a stop string.
    Stop,
    /// `max_tokens` or the context is used up.
    Length,
}

#[derive(Debug)]
pub enum GenerationEvent {
    /// Text that is safe to show (never part of a stop string, never half a character), and the tokens it came from. The
    /// last may have tokens of a character that the end cut, and no text of them.
    Delta { text: String, tokens: Vec<u32>, logprobs: Vec<TokenLogprob> },
    /// The end: nothing follows.
    Done {
        finish: FinishReason,
        prompt_tokens: usize,
        /// Prompt tokens that needed no computing: an idle slot still held them.
        cached_tokens: usize,
        completion_tokens: usize,
        times: GenerationTimes,
        /// What speculation did; `None` where nobody speculates.
        speculation: Option<Box<SpeculationReport>>,
    },
}

/// Where a generation's time went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GenerationTimes {
    pub queue_ms: f64,
    pub prompt_ms: f64,
    pub predicted_ms: f64,
}
