//! One request in a slot.

use super::plan::PlanSequence;
use crate::control::snapshot::ActiveSequence;
use crate::engine::models::sampler::Sampler;
use crate::engine::models::stream_text::StreamText;
use crate::engine::runtime::job::{GenerateJob, GenerationEvent, GenerationTimes, TokenLogprob};
use crate::engine::runtime::{Live, RequestId};
use crate::engine::scheduler::Micros;

/// An admitted request that waits for a slot.
#[derive(Debug)]
pub(super) struct Waiting {
    pub live: Live<GenerationEvent>,
    pub job: GenerateJob,
    /// Prompt and longest answer: what it takes of the KV budget.
    pub reserved: usize,
}

/// A token whose text is not out yet.
#[derive(Debug)]
pub(super) struct HeldToken {
    pub id: u32,
    /// Where its text begins, in bytes of the answer.
    pub start: usize,
    pub logprob: Option<TokenLogprob>,
}

/// A request that holds a slot.
#[derive(Debug)]
pub(super) struct Sequence {
    pub live: Live<GenerationEvent>,
    pub id: RequestId,
    pub slot: usize,
    pub reserved: usize,
    pub prompt: Vec<u32>,
    pub max_tokens: usize,
    pub ignore_eos: bool,
    pub logprobs: Option<usize>,
    pub sampler: Sampler,
    pub text: StreamText,
    pub held: Vec<HeldToken>,
    /// Prompt tokens in the KV cache.
    pub prefilled: usize,
    /// Tokens of the answer so far, the end token included.
    pub generated: usize,
    /// The newest token: the input of the next decode row.
    pub last: u32,
    /// Iterations since it last had a row.
    pub waited: u64,
    pub started: Micros,
    pub first_token: Option<Micros>,
}

impl Sequence {
    /// Takes a slot at `now`.
    pub(super) fn start(waiting: Waiting, slot: usize, now: Micros) -> Sequence {
        let Waiting { mut live, job, reserved } = waiting;
        live.start(now);
        Sequence {
            id: live.id,
            live,
            slot,
            reserved,
            max_tokens: job.max_tokens.min(reserved.saturating_sub(job.prompt.len())),
            ignore_eos: job.ignore_eos,
            logprobs: job.logprobs,
            sampler: Sampler::new(job.sampling, &job.prompt),
            text: StreamText::new(&job.stop),
            held: Vec::new(),
            prefilled: 0,
            generated: 0,
            last: 0,
            waited: 0,
            started: now,
            first_token: None,
            prompt: job.prompt,
        }
    }

    pub(super) fn planned(&self) -> PlanSequence {
        PlanSequence { prompt_left: self.prompt.len() - self.prefilled, waited: self.waited }
    }

    /// Position of the next decode row, whose input is the newest token.
    pub(super) fn decode_position(&self) -> usize {
        self.prompt.len() + self.generated.saturating_sub(1)
    }

    /// Tokens it has in the KV cache.
    pub(super) fn kv_tokens(&self) -> usize {
        self.prefilled + self.generated.saturating_sub(1)
    }

    /// How much of it is done, 0..=1, by its longest possible answer.
    pub(super) fn done_ratio(&self) -> f64 {
        (self.prefilled + self.generated) as f64 / (self.prompt.len() + self.max_tokens).max(1) as f64
    }

    pub(super) fn times(&self, now: Micros) -> GenerationTimes {
        let first = self.first_token.unwrap_or(now);
        GenerationTimes {
            queue_ms: self.live.times(now).queue_ms,
            prompt_ms: (first - self.started).as_ms(),
            predicted_ms: (now - first).as_ms(),
        }
    }

    pub(super) fn view(&self, now: Micros) -> ActiveSequence {
        let decoding = self.first_token.map(|first| (now - first).as_secs());
        let rate = decoding.filter(|s| *s > 0.0 && self.generated > 1).map(|s| (self.generated - 1) as f64 / s);
        ActiveSequence {
            request: self.id.to_string(),
            slot: self.slot as u64,
            prompt_tokens: self.prompt.len() as u64,
            prefilled_tokens: self.prefilled as u64,
            generated_tokens: self.generated as u64,
            max_tokens: self.max_tokens as u64,
            tokens_per_s: rate,
        }
    }
}
