//! One request on its way: it waits for a slot, holds one, may lose it to others and take one again.

use super::draft::Verified;
use super::plan::PlanSequence;
use crate::control::snapshot::ActiveSequence;
use crate::control::speculation::SpeculationChoice;
use crate::engine::models::sampler::Sampler;
use crate::engine::models::stream_text::StreamText;
use crate::engine::runtime::commits::Observed;
use crate::engine::runtime::job::{GenerateJob, GenerationEvent, GenerationTimes, TokenLogprob};
use crate::engine::runtime::{Live, RequestId};
use crate::engine::scheduler::Micros;

/// A token whose text is not out yet.
#[derive(Debug)]
pub(super) struct HeldToken {
    pub id: u32,
    /// Where its text begins, in bytes of the answer; for a part of a character where that begins.
    pub start: usize,
    pub logprob: Option<TokenLogprob>,
}

/// A request, its prompt and its answer so far.
#[derive(Debug)]
pub(super) struct Sequence {
    pub live: Live<GenerationEvent>,
    pub id: RequestId,
    /// Prompt and answer.
    pub tokens: Vec<u32>,
    pub prompt: usize,
    /// The first so many tokens are in the KV cache of its slot.
    pub computed: usize,
    /// Prompt tokens that the slot held already when it started.
    pub cached: usize,
    /// It waits for an older sequence to read the start that both have.
    pub follows: bool,
    /// What others have read could not be taken over: it reads for itself.
    pub alone: bool,
    /// Longest answer.
    pub max_tokens: usize,
    pub min_tokens: usize,
    pub stop_ids: Vec<u32>,
    pub ignore_eos: bool,
    pub logprobs: Option<usize>,
    pub sampler: Sampler,
    /// What it asks of speculation.
    pub speculation: SpeculationChoice,
    pub text: StreamText,
    pub held: Vec<HeldToken>,
    /// Its newest token and drafts behind it, while these are being verified; else empty.
    pub window: Vec<u32>,
    /// All windows so far, together.
    pub verified: Verified,
    /// What observers are told; there once it has had a slot.
    pub observed: Option<Observed>,
    /// Of no meaning while it waits.
    pub slot: usize,
    /// What it took of the KV budget when it got its slot.
    pub reserved: usize,
    /// Times it lost its slot to older ones.
    pub preempted: u64,
    /// Iterations since it last had a row.
    pub waited: u64,
    pub started: Option<Micros>,
    pub first_token: Option<Micros>,
}

impl Sequence {
    /// A request that waits. Its answer has at most `limit` tokens.
    pub(super) fn new(live: Live<GenerationEvent>, job: GenerateJob, limit: usize) -> Sequence {
        Sequence {
            id: live.id,
            live,
            max_tokens: job.max_tokens.min(limit),
            min_tokens: job.min_tokens,
            stop_ids: job.stop_ids,
            ignore_eos: job.ignore_eos,
            logprobs: job.logprobs,
            sampler: Sampler::new(job.sampling, &job.prompt),
            speculation: job.speculation,
            text: StreamText::new(&job.stop),
            held: Vec::new(),
            window: Vec::new(),
            verified: Verified::default(),
            observed: None,
            computed: 0,
            cached: 0,
            follows: false,
            alone: false,
            slot: 0,
            reserved: 0,
            preempted: 0,
            waited: 0,
            started: None,
            first_token: None,
            prompt: job.prompt.len(),
            tokens: job.prompt,
        }
    }

    /// Takes a slot at `now`, whose cache holds its first `reused` tokens.
    pub(super) fn take(&mut self, slot: usize, reused: usize, reserved: usize, now: Micros) {
        if self.started.is_none() {
            self.started = Some(now);
            self.cached = reused;
            self.live.start(now);
        }
        (self.slot, self.computed, self.reserved, self.waited) = (slot, reused, reserved, 0);
    }

    /// Tokens of the answer so far, the end token included.
    pub(super) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// KV tokens to start with: what it knows, and of the rest of its answer at most `reserve`.
    pub(super) fn need(&self, reserve: usize) -> usize {
        self.tokens.len() + (self.max_tokens - self.generated().min(self.max_tokens)).min(reserve)
    }

    /// Whether its next row continues its answer; else it still reads.
    pub(super) fn decodes(&self) -> bool {
        self.generated() > 0 && self.computed + 1 == self.tokens.len()
    }

    /// Drafts that it could use now.
    pub(super) fn most_drafts(&self) -> usize {
        if self.decodes() { self.max_tokens.saturating_sub(self.generated() + 1) } else { 0 }
    }

    pub(super) fn planned(&self) -> PlanSequence {
        PlanSequence {
            left: self.tokens.len() - self.computed,
            decodes: self.decodes(),
            drafts: self.window.len().saturating_sub(1),
            follows: self.follows,
            waited: self.waited,
        }
    }

    /// Tells observers of the tokens behind the first `before`.
    pub(super) fn tell(&mut self, before: usize, now: Micros) {
        if let (Some(observed), Some(started)) = (&mut self.observed, self.started) {
            // It is open until the sequence is closed, which is the last thing that happens to it.
            let _ = observed.commit(&self.tokens[before..], now - started);
        }
    }

    /// How much of it is done, 0..=1, by its longest possible answer.
    pub(super) fn done_ratio(&self) -> f64 {
        let done = self.computed.min(self.prompt) + self.generated();
        done as f64 / (self.prompt + self.max_tokens).max(1) as f64
    }

    pub(super) fn times(&self, now: Micros) -> GenerationTimes {
        let started = self.started.unwrap_or(now);
        let first = self.first_token.unwrap_or(now);
        GenerationTimes {
            queue_ms: self.live.times(now).queue_ms,
            prompt_ms: (first - started).as_ms(),
            predicted_ms: (now - first).as_ms(),
        }
    }

    pub(super) fn view(&self, now: Micros) -> ActiveSequence {
        let decoding = self.first_token.map(|first| (now - first).as_secs());
        let generated = self.generated();
        let rate = decoding.filter(|s| *s > 0.0 && generated > 1).map(|s| (generated - 1) as f64 / s);
        ActiveSequence {
            request: self.id.to_string(),
            slot: self.slot as u64,
            prompt_tokens: self.prompt as u64,
            prefilled_tokens: self.computed.min(self.prompt) as u64,
            cached_tokens: self.cached as u64,
            generated_tokens: generated as u64,
            max_tokens: self.max_tokens as u64,
            preempted: self.preempted,
            drafted_tokens: self.verified.drafted as u64,
            accepted_tokens: self.verified.accepted as u64,
            tokens_per_s: rate,
        }
    }
}
