//! The state of a generation worker, and one iteration of it.

use super::commit::Committed;
use super::plan::{Plan, PlanLimits, PlanSequence, Rows, plan};
use super::rates::Rates;
use super::sequence::{Sequence, Waiting};
use super::view::GenerationView;
use crate::control::{ErrorKind, Fault, WaitCode};
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::{CausalLm, LmSpan, LogitsFor, ModelError};
use crate::engine::runtime::handle::WorkerContext;
use crate::engine::runtime::job::{FinishReason, GenerationEvent};
use crate::engine::runtime::metrics::GenerationMetrics;
use crate::engine::runtime::shared::draining_fault;
use crate::engine::runtime::stats::OpStats;
use crate::engine::scheduler::Micros;
use crate::profile::GenerationSettings;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Everything a generation worker owns.
pub(super) struct Generator {
    pub context: WorkerContext,
    pub settings: GenerationSettings,
    pub stats: Arc<OpStats>,
    pub metrics: GenerationMetrics,
    model: Box<dyn CausalLm>,
    vocabulary: Arc<Vocabulary>,
    /// Tokens that end an answer.
    end_ids: Vec<u32>,
    queue: VecDeque<Waiting>,
    /// Oldest first.
    active: Vec<Sequence>,
    free_slots: Vec<usize>,
    after_prefill: bool,
    rates: Rates,
    iterations: u64,
    prompt_tokens: u64,
    generated_tokens: u64,
}

/// The logits of one sequence's rows, or why there are none.
type Outcome = Result<Vec<f32>, Fault>;

impl Generator {
    pub(super) fn new(
        context: WorkerContext,
        settings: GenerationSettings,
        stats: Arc<OpStats>,
        model: Box<dyn CausalLm>,
        vocabulary: Arc<Vocabulary>,
        end_ids: Vec<u32>,
    ) -> Generator {
        let metrics = context.shared.metrics.generation(&context.handle.name);
        let slots = model.slots().min(settings.slots);
        Generator {
            context,
            settings,
            stats,
            metrics,
            model,
            vocabulary,
            end_ids,
            queue: VecDeque::new(),
            active: Vec::new(),
            // Popped from the end: the lowest first.
            free_slots: (0..slots).rev().collect(),
            after_prefill: false,
            rates: Rates::default(),
            iterations: 0,
            prompt_tokens: 0,
            generated_tokens: 0,
        }
    }

    pub(super) fn submit(&mut self, waiting: Waiting) {
        self.queue.push_back(waiting);
    }

    /// Nothing waits and nothing runs.
    pub(super) fn idle(&self) -> bool {
        self.queue.is_empty() && self.active.is_empty()
    }

    fn now(&self) -> Micros {
        self.context.shared.clock.now()
    }

    /// Drops what is not wanted any more, admits, and runs one forward pass if anything is to be computed.
    pub(super) fn iterate(&mut self) {
        self.sweep();
        self.admit();
        if self.active.is_empty() {
            self.rates.clear();
            return;
        }
        let planned: Vec<PlanSequence> = self.active.iter().map(Sequence::planned).collect();
        let limits =
            PlanLimits { iteration_tokens: self.settings.iteration_tokens, prefill_chunk: self.settings.prefill_chunk };
        let plan = plan(&planned, limits, self.after_prefill);
        self.after_prefill = plan.prefill_tokens > 0;
        self.run(&plan);
    }

    /// Ends requests that were cancelled, are past their deadline or have lost their reader.
    fn sweep(&mut self) {
        let now = self.now();
        let draining = self.context.shared.is_draining();
        for _ in 0..self.queue.len() {
            let Some(mut waiting) = self.queue.pop_front() else { break };
            match if draining { Err(draining_fault()) } else { waiting.live.wanted(now) } {
                Ok(()) => self.queue.push_back(waiting),
                Err(fault) => waiting.live.fail(fault, now),
            }
        }
        for i in (0..self.active.len()).rev() {
            if let Err(fault) = self.active[i].live.wanted(now) {
                self.end(i, Err(fault), now);
            }
        }
    }

    /// Gives free slots to the first in the queue while the KV budget has room. Nobody overtakes.
    fn admit(&mut self) {
        let now = self.now();
        while let Some(first) = self.queue.front() {
            if self.blocked(first.reserved).is_some() {
                return;
            }
            let (Some(slot), Some(waiting)) = (self.free_slots.pop(), self.queue.pop_front()) else { return };
            let sequence = Sequence::start(waiting, slot, now);
            let nothing_to_say = sequence.max_tokens == 0;
            self.active.push(sequence);
            if nothing_to_say {
                self.end(self.active.len() - 1, Ok(FinishReason::Length), now);
            }
        }
    }

    /// What keeps a request of `reserved` tokens from starting now.
    fn blocked(&self, reserved: usize) -> Option<WaitCode> {
        let taken: usize = self.active.iter().map(|s| s.reserved).sum();
        if self.free_slots.is_empty() {
            Some(WaitCode::SlotsFull)
        } else if taken + reserved > self.settings.kv_tokens && !self.active.is_empty() {
            Some(WaitCode::KvFull)
        } else {
            None
        }
    }

    /// One forward pass over the planned rows, and what follows from it.
    fn run(&mut self, plan: &Plan) {
        let began;
        let outcomes: Vec<Outcome> = {
            let device = self.context.device.acquire(&self.context.handle.name);
            began = self.context.shared.clock.now();
            let spans: Vec<LmSpan<'_>> = plan.rows.iter().map(|rows| span(&self.active, rows)).collect();
            let outcomes = forward(&mut *self.model, &spans, &self.context);
            drop(device);
            outcomes
        };
        let now = self.now();
        let took = now - began;
        self.count(plan, took, now);
        for sequence in &mut self.active {
            sequence.waited += 1;
        }
        let mut ended: Vec<(usize, Result<FinishReason, Fault>)> = Vec::new();
        for (rows, outcome) in plan.rows.iter().zip(outcomes) {
            let (index, end) = self.apply(*rows, outcome, now);
            ended.extend(end.map(|end| (index, end)));
        }
        // From the end, so that the earlier indices stay true.
        ended.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, end) in ended {
            self.end(index, end, now);
        }
    }

    fn count(&mut self, plan: &Plan, took: Micros, now: Micros) {
        self.iterations += 1;
        self.rates.note(now, took, plan.decode_rows, plan.prefill_tokens);
        self.metrics.iteration_seconds.observe(took.as_secs());
        self.metrics.prompt_tokens.inc_by(plan.prefill_tokens as u64);
        self.prompt_tokens += plan.prefill_tokens as u64;
        self.stats.batches.fetch_add(1, Ordering::Relaxed);
        self.stats.run_us.fetch_add(took.0, Ordering::Relaxed);
        self.context.handle.advance(now);
    }

    /// Takes one sequence's rows into its state; says if and how it ends.
    fn apply(&mut self, rows: Rows, outcome: Outcome, now: Micros) -> (usize, Option<Result<FinishReason, Fault>>) {
        let (index, samples) = match rows {
            Rows::Decode { index } => (index, true),
            Rows::Prefill { index, tokens, last } => {
                if outcome.is_ok() {
                    self.active[index].prefilled += tokens;
                }
                (index, last)
            }
        };
        let sequence = &mut self.active[index];
        sequence.waited = 0;
        let mut logits = match outcome {
            Ok(logits) => logits,
            Err(fault) => return (index, Some(Err(fault))),
        };
        sequence.live.progress(sequence.done_ratio());
        if !samples {
            return (index, None);
        }
        let (vocabulary, end_ids) = (&self.vocabulary, &self.end_ids);
        let advanced = catch_unwind(AssertUnwindSafe(|| sequence.advance(&mut logits, vocabulary, end_ids, now)));
        self.generated_tokens += 1;
        self.metrics.generated_tokens.inc();
        let end = match advanced {
            Ok(Ok(Committed::GoesOn)) => None,
            Ok(Ok(Committed::Finished(reason))) => Some(Ok(reason)),
            Ok(Err(fault)) => Some(Err(fault)),
            Err(panic) => Some(Err(of_panic(&self.context, &*panic))),
        };
        (index, end)
    }

    /// Ends the sequence at `index`: frees its slot, then tells its reader.
    fn end(&mut self, index: usize, end: Result<FinishReason, Fault>, now: Micros) {
        let sequence = self.active.remove(index);
        if let Err(error) = self.model.truncate(sequence.slot, 0) {
            // The next user of the slot starts at position 0, which forgets the rest as well.
            tracing::error!(model = %self.context.handle.name, slot = sequence.slot, %error, "a slot was not emptied");
        }
        self.free_slots.push(sequence.slot);
        self.free_slots.sort_unstable_by_key(|slot| std::cmp::Reverse(*slot));
        match end {
            Ok(finish) => {
                let done = GenerationEvent::Done {
                    finish,
                    prompt_tokens: sequence.prompt.len(),
                    completion_tokens: sequence.generated,
                    times: sequence.times(now),
                };
                sequence.live.done(done, now);
            }
            Err(fault) => sequence.live.fail(fault, now),
        }
    }

    pub(super) fn view(&self) -> GenerationView {
        let now = self.now();
        GenerationView {
            slots: self.settings.slots,
            active: self.active.iter().map(|s| s.view(now)).collect(),
            kv_used: self.active.iter().map(Sequence::kv_tokens).sum(),
            kv_capacity: self.settings.kv_tokens,
            decode_tokens_per_s: self.rates.decode(),
            prefill_tokens_per_s: self.rates.prefill(),
            iterations: self.iterations,
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated_tokens,
            waiting: self.queue.iter().map(|w| w.live.id).collect(),
            reason: self.queue.front().and_then(|w| self.blocked(w.reserved)),
        }
    }
}

fn span<'a>(active: &'a [Sequence], rows: &Rows) -> LmSpan<'a> {
    match *rows {
        Rows::Decode { index } => {
            let s = &active[index];
            let tokens = std::slice::from_ref(&s.last);
            LmSpan { slot: s.slot, start: s.decode_position(), tokens, logits: LogitsFor::Last }
        }
        Rows::Prefill { index, tokens, last } => {
            let s = &active[index];
            let logits = if last { LogitsFor::Last } else { LogitsFor::None };
            LmSpan { slot: s.slot, start: s.prefilled, tokens: &s.prompt[s.prefilled..s.prefilled + tokens], logits }
        }
    }
}

/// The pass over all spans; when it fails, over each span alone, so that only those at fault fail.
fn forward(model: &mut dyn CausalLm, spans: &[LmSpan<'_>], context: &WorkerContext) -> Vec<Outcome> {
    match attempt(model, spans, context) {
        Ok(logits) => logits.into_iter().map(Ok).collect(),
        Err(fault) if spans.len() == 1 => vec![Err(fault)],
        Err(_) => spans
            .iter()
            .map(|span| {
                // What a broken pass left beyond the span's start is forgotten by starting there again.
                let one = std::slice::from_ref(span);
                attempt(model, one, context).map(|mut logits| logits.pop().unwrap_or_default())
            })
            .collect(),
    }
}

fn attempt(model: &mut dyn CausalLm, spans: &[LmSpan<'_>], context: &WorkerContext) -> Result<Vec<Vec<f32>>, Fault> {
    let name = &context.handle.name;
    // A model's own promise: after a failed or panicked pass its slots are at most as long as where the pass began.
    match catch_unwind(AssertUnwindSafe(|| model.forward(spans))) {
        Ok(Ok(logits)) if logits.len() == spans.len() => Ok(logits),
        Ok(Ok(_)) => Err(Fault::new(ErrorKind::Internal, format!("model `{name}` answered for other rows than asked"))),
        Ok(Err(error)) => Err(of_error(name, &error)),
        Err(panic) => Err(of_panic(context, &*panic)),
    }
}

fn of_error(model: &str, error: &ModelError) -> Fault {
    match error {
        ModelError::BadInput(why) => Fault::invalid("prompt", why.clone()),
        _ => {
            tracing::error!(model, %error, "a model failed on a request");
            Fault::new(ErrorKind::Internal, format!("model `{model}` failed on this request: {error}"))
        }
    }
}

/// The panic's own text is for the log: it may quote input.
fn of_panic(context: &WorkerContext, panic: &(dyn Any + Send)) -> Fault {
    let model = &context.handle.name;
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(%model, panic = text.unwrap_or("no text"), "a panic in a model was contained");
    context.shared.metrics.panicked(model);
    Fault::new(ErrorKind::Internal, format!("model `{model}` panicked on this request; other requests go on"))
        .hint("the engine's log has the panic")
}
