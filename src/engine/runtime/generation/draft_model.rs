//! A second model that drafts: the same tokens, smaller, with a KV cache of its own.
//!
//! Lives on the generation thread, beside the model that it drafts for, and takes the device for each of its passes as
//! that one does. Per sequence it keeps what its own cache holds; a history that went another way is rewound to where
//! they part. Long prompts it reads chunk by chunk, one chunk before each pass of the model, and drafts nothing until it
//! has caught up.
//!
//! Failure: an error or a panic of its ends drafting for good ([`Failed`]); the caller says so and goes on without.

use super::slots::common;
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::{CausalLm, LmSpan, LoadedModel, LogitsFor, ModelBack, ModelFront};
use crate::engine::runtime::RequestId;
use crate::engine::runtime::handle::WorkerContext;
use crate::engine::scheduler::Micros;
use crate::engine::speculation::costs::StepCosts;
use crate::engine::speculation::proposers::vocabulary::{Difference, difference};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows of a sequence that a pass has behind a window that held, at most; one that has more reads.
const FEW: usize = 16;

/// A history that tokens are to be drafted for.
#[derive(Debug, Clone, Copy)]
pub(super) struct History<'a> {
    pub request: RequestId,
    /// Prompt and committed answer; never empty.
    pub tokens: &'a [u32],
    /// Most tokens to draft.
    pub most: usize,
}

/// Tokens drafted for each history, and what that took.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Drafted {
    /// Empty where the model has not caught up yet.
    pub tokens: Vec<Vec<u32>>,
    pub took: Micros,
    /// What reading texts took beside that.
    pub reading: Micros,
    pub passes: u64,
}

/// The model failed; it is of no use any more.
#[derive(Debug)]
pub(super) struct Failed(pub String);

/// What a slot of the draft model holds.
#[derive(Debug)]
struct Held {
    request: RequestId,
    tokens: Vec<u32>,
    used: u64,
}

/// A model that drafts.
pub(in crate::engine::runtime) struct DraftModel {
    pub name: String,
    model: Box<dyn CausalLm>,
    context: WorkerContext,
    /// Rows of one history in one pass.
    chunk: usize,
    slots: Vec<Option<Held>>,
    calls: u64,
    costs: StepCosts,
}

/// Whether `draft` may draft for a model with `vocabulary`: it must have the same tokens, and then some at most where
/// neither can say them.
fn differs(main: &Vocabulary, draft: &Vocabulary) -> Option<Difference> {
    let bytes = |v: &'_ Vocabulary| -> Vec<Vec<u8>> {
        (0..v.len() as u32).map(|id| v.written(id).as_bytes().to_vec()).collect()
    };
    let (main, draft) = (bytes(main), bytes(draft));
    difference(main.iter().map(Vec::as_slice), draft.iter().map(Vec::as_slice))
}

impl DraftModel {
    /// A loaded model called `name`, if its tokens are those of `main`; else why not.
    pub(super) fn new(
        name: &str,
        loaded: LoadedModel,
        main: &Vocabulary,
        chunk: usize,
        context: WorkerContext,
    ) -> Result<DraftModel, String> {
        let target = &context.handle.name;
        let LoadedModel { front: ModelFront::Lm(front), back: ModelBack::Lm(model) } = loaded else {
            return Err(format!("the draft model `{name}` of `{target}` does not generate"));
        };
        if let Some(difference) = differs(main, &front.vocabulary) {
            return Err(format!("the draft model `{name}` has other tokens than `{target}`: {difference}"));
        }
        let slots = std::iter::repeat_with(|| None).take(model.slots()).collect();
        let chunk = chunk.max(1);
        Ok(DraftModel { name: name.to_string(), model, context, chunk, slots, calls: 0, costs: StepCosts::default() })
    }

    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.model.weights_bytes(), self.model.kv_bytes())
    }

    /// Microseconds of a pass over `sequences`, one row each; `None` until measured.
    pub(super) fn pass(&self, sequences: usize) -> Option<f64> {
        self.costs.estimate(sequences, sequences)
    }

    /// Tokens of a request's text, `len` of them, that are still to be read.
    pub(super) fn unread(&self, request: RequestId, len: usize) -> usize {
        let held = self.slots.iter().flatten().find(|held| held.request == request);
        len - held.map_or(0, |held| held.tokens.len()).min(len)
    }

    /// The request has ended: its slot is free. What it holds stays until somebody takes the slot.
    pub(super) fn forget(&mut self, request: RequestId) {
        for held in self.slots.iter_mut().flatten().filter(|held| held.request == request) {
            held.used = 0;
        }
    }

    /// The likeliest tokens behind each history.
    pub(super) fn draft(&mut self, of: &[History<'_>]) -> Result<Drafted, Failed> {
        self.calls += 1;
        let mut drafted = Drafted { tokens: vec![Vec::new(); of.len()], ..Drafted::default() };
        // The slot of each history, and what it has to read next; a history too many has none.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(of.len());
        for history in of {
            places.push(self.place(history));
        }
        let longest = of.iter().map(|h| h.most).max().unwrap_or(0);
        for round in 0..longest {
            let (mut spans, mut asked) = (Vec::new(), Vec::new());
            for (i, history) in of.iter().enumerate() {
                let (Some(slot), true) = (places[i], round < history.most) else { continue };
                let Some(held) = &self.slots[slot] else { continue };
                let start = held.tokens.len();
                let last = || drafted.tokens[i].get(round - 1..).unwrap_or_default();
                let unread = if round == 0 { &history.tokens[start..] } else { last() };
                // One that has not caught up drafts nothing this time.
                if unread.is_empty() {
                    continue;
                }
                let part = &unread[..unread.len().min(self.chunk)];
                let logits = if part.len() == unread.len() { LogitsFor::Last } else { LogitsFor::None };
                spans.push(LmSpan { slot, start, tokens: part, logits });
                asked.push(i);
            }
            if spans.is_empty() {
                break;
            }
            let (rows, took) = self.pass_over(&spans)?;
            let read: Vec<(usize, Vec<u32>)> = spans.iter().map(|s| (s.slot, s.tokens.to_vec())).collect();
            let longest = read.iter().map(|(_, tokens)| tokens.len()).max().unwrap_or(0);
            if longest == 1 {
                self.costs.note(read.len(), read.len(), took);
            }
            let of = if longest > FEW { &mut drafted.reading } else { &mut drafted.took };
            *of = *of + took;
            drafted.passes += 1;
            for ((i, (slot, tokens)), row) in asked.into_iter().zip(read).zip(rows) {
                if let Some(held) = &mut self.slots[slot] {
                    held.tokens.extend(tokens);
                }
                drafted.tokens[i].extend(likeliest(&row));
            }
        }
        Ok(drafted)
    }

    /// The slot of a history, rewound to what both have in common; at least one token is left to read.
    fn place(&mut self, history: &History<'_>) -> Option<usize> {
        let now = self.calls;
        let own = |slot: &Option<Held>| slot.as_ref().is_some_and(|held| held.request == history.request);
        let found = self.slots.iter().position(own).or_else(|| {
            // A free one, else the one unused for longest; never one that is in use in this very call.
            let used = |slot: &Option<Held>| slot.as_ref().map_or(0, |held| held.used);
            let oldest = (0..self.slots.len()).min_by_key(|&i| used(&self.slots[i]))?;
            (used(&self.slots[oldest]) < now).then_some(oldest)
        })?;
        let most = history.tokens.len().saturating_sub(1);
        let kept = self.slots[found].as_ref().map_or(0, |held| common(&held.tokens, &history.tokens[..most]));
        // A rewind that fails leaves nothing to build on; neither does a slot that was cut short.
        let kept = if self.model.truncate(found, kept).is_ok() { kept } else { 0 };
        let tokens = history.tokens[..kept].to_vec();
        self.slots[found] = Some(Held { request: history.request, tokens, used: now });
        Some(found)
    }

    fn pass_over(&mut self, spans: &[LmSpan<'_>]) -> Result<(Vec<Vec<f32>>, Micros), Failed> {
        let device = self.context.device.acquire(&self.context.handle.name);
        let began = self.context.shared.clock.now();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.model.forward(spans)));
        let took = self.context.shared.clock.now() - began;
        drop(device);
        match outcome {
            Ok(Ok(rows)) if rows.len() == spans.len() => Ok((rows, took)),
            Ok(Ok(rows)) => Err(Failed(format!("it answered {} of {} sequences", rows.len(), spans.len()))),
            Ok(Err(error)) => Err(Failed(format!("it failed: {error}"))),
            // The panic's own text is for the log, where the hook has put it: it may quote input.
            Err(_) => Err(Failed("it panicked; the engine's log has the panic".to_string())),
        }
    }
}

/// The likeliest token of a row; `None` of an empty one, or one of nothing but NaN.
fn likeliest(row: &[f32]) -> Option<u32> {
    let best =
        row.iter().enumerate().filter(|(_, l)| !l.is_nan()).max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    best.and_then(|(id, _)| u32::try_from(id).ok())
}
