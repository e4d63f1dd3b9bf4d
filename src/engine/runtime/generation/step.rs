//! The state of a generation worker, and one iteration of it.

use super::commit::{Advanced, Words};
use super::door::Message;
use super::draft::{DraftFor, DraftSource, StepCost, Verified};
use super::native;
use super::pass::{Outcome, forward, of_panic, span};
use super::plan::{Plan, PlanLimits, PlanSequence, Rows, draft_room, plan};
use super::rates::Rates;
use super::self_check::SelfCheck;
use super::sequence::Sequence;
use super::slots::Slots;
use super::view::GenerationView;
use crate::control::Fault;
use crate::control::speculation::SpeculationView;
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::{CausalLm, LmSpan};
use crate::engine::runtime::device::{DeviceGuard, DeviceSlot};
use crate::engine::runtime::handle::WorkerContext;
use crate::engine::runtime::job::FinishReason;
use crate::engine::runtime::metrics::GenerationMetrics;
use crate::engine::runtime::stats::OpStats;
use crate::engine::scheduler::Micros;
use crate::profile::{GenerationSettings, ModelProfile};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Everything a generation worker owns.
pub(super) struct Generator {
    pub context: WorkerContext,
    pub settings: GenerationSettings,
    /// The profile that they are of.
    profile: Arc<ModelProfile>,
    pub stats: Arc<OpStats>,
    pub metrics: GenerationMetrics,
    pub model: Box<dyn CausalLm>,
    pub drafter: Box<dyn DraftSource>,
    vocabulary: Arc<Vocabulary>,
    /// Tokens that end an answer.
    pub end_ids: Vec<u32>,
    /// In the order of arrival; those that lost their slots are the oldest, and so the first.
    pub queue: VecDeque<Sequence>,
    /// Oldest first.
    pub active: Vec<Sequence>,
    pub slots: Slots,
    pub check: SelfCheck,
    /// Who waits and who holds a slot has changed since [`moved`](Generator::moved) was asked.
    pub moved: bool,
    after_prefill: bool,
    rates: Rates,
    iterations: u64,
    prompt_tokens: u64,
    generated_tokens: u64,
    pub cached_tokens: u64,
    pub preemptions: u64,
    pub failed_rewinds: u64,
}

/// How a sequence ends.
type End = Result<FinishReason, Fault>;

impl Generator {
    pub(super) fn new(
        context: WorkerContext,
        settings: GenerationSettings,
        stats: Arc<OpStats>,
        model: Box<dyn CausalLm>,
        drafter: Box<dyn DraftSource>,
        vocabulary: Arc<Vocabulary>,
        end_ids: Vec<u32>,
    ) -> Generator {
        let metrics = context.shared.metrics.generation(&context.handle.name);
        let profile = context.handle.settings();
        let slots = Slots::new(model.slots().min(settings.slots));
        Generator {
            context,
            settings,
            profile,
            stats,
            metrics,
            model,
            drafter,
            vocabulary,
            end_ids,
            queue: VecDeque::new(),
            active: Vec::new(),
            slots,
            check: SelfCheck::default(),
            moved: false,
            after_prefill: false,
            rates: Rates::default(),
            iterations: 0,
            prompt_tokens: 0,
            generated_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            failed_rewinds: 0,
        }
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Submit(sequence) => self.submit(*sequence),
            // Every iteration looks at them.
            Message::Settings => {}
        }
    }

    pub(super) fn submit(&mut self, sequence: Sequence) {
        self.pause_check();
        self.moved = true;
        self.queue.push_back(sequence);
    }

    /// Takes over the model's settings if they have changed: they hold from this iteration on.
    pub(super) fn adopt(&mut self) {
        if !self.context.handle.has_newer(&self.profile) {
            return;
        }
        self.profile = self.context.handle.settings();
        let Some(settings) = self.profile.generation else { return };
        // What the model was allocated for does not change.
        let GenerationSettings { context_tokens, kv_tokens, .. } = self.settings;
        self.slots.set_limit(settings.slots);
        self.drafter.configure(&settings.speculation);
        self.settings = GenerationSettings { context_tokens, kv_tokens, ..settings };
    }

    /// Nothing waits and nothing runs, checks of earlier answers apart.
    pub(super) fn idle(&self) -> bool {
        self.queue.is_empty() && self.active.is_empty()
    }

    pub(super) fn now(&self) -> Micros {
        self.context.shared.clock.now()
    }

    /// Drops what is not wanted any more, and decides who has a slot.
    pub(super) fn arrange(&mut self) {
        self.adopt();
        self.sweep();
        self.admit();
        self.share_prompts();
        self.preempt();
    }

    /// Runs one forward pass over those that have a slot.
    pub(super) fn iterate(&mut self) {
        if self.active.is_empty() {
            self.rates.clear();
            return;
        }
        let used: usize = self.active.iter().map(|s| s.computed).sum();
        let limits = PlanLimits {
            iteration_tokens: self.settings.iteration_tokens,
            prefill_chunk: self.settings.prefill_chunk,
            kv_free: self.settings.kv_tokens.saturating_sub(used),
        };
        let device = self.context.device.clone();
        let held = self.draft(limits, &device);
        let planned: Vec<PlanSequence> = self.active.iter().map(Sequence::planned).collect();
        let plan = plan(&planned, limits, self.after_prefill);
        self.after_prefill = plan.prefill_tokens > 0;
        self.evict(plan.decode_rows + plan.draft_rows + plan.prefill_tokens);
        for rows in &plan.rows {
            if let Rows::Decode { index, drafts } = *rows {
                let window = &mut self.active[index].window;
                window.truncate(if drafts > 0 { drafts + 1 } else { 0 });
            }
        }
        // Who drafted on the device keeps it for the pass.
        let held = held.unwrap_or_else(|| device.acquire(&self.context.handle.name));
        self.run(&plan, held);
    }

    /// Asks for drafts behind the decode rows. Gives the device back if the model has used it for drafts.
    fn draft<'d>(&mut self, limits: PlanLimits, device: &'d DeviceSlot) -> Option<DeviceGuard<'d>> {
        for sequence in &mut self.active {
            sequence.window.clear();
        }
        let planned: Vec<PlanSequence> = self.active.iter().map(Sequence::planned).collect();
        let room = draft_room(&planned, limits, self.after_prefill);
        let decoding: Vec<usize> = (0..self.active.len()).filter(|&i| self.active[i].decodes()).collect();
        let ask = |&i: &usize| {
            let s = &self.active[i];
            DraftFor { request: s.id, choice: s.speculation, history: &s.tokens, most: s.most_drafts() }
        };
        let asked: Vec<DraftFor<'_>> = decoding.iter().map(ask).collect();
        let slots: Vec<usize> = decoding.iter().map(|&i| self.active[i].slot).collect();
        let held = native::draft(&mut *self.model, &mut *self.drafter, &asked, &slots, &self.context, device);
        let drafts = self.drafter.draft(&asked, room);
        for (index, mut drafts) in decoding.into_iter().zip(drafts) {
            let sequence = &mut self.active[index];
            drafts.truncate(sequence.most_drafts());
            if let (Some(&newest), false) = (sequence.tokens.last(), drafts.is_empty()) {
                sequence.window.push(newest);
                sequence.window.append(&mut drafts);
            }
        }
        held
    }

    /// One forward pass over the planned rows, and what follows from it.
    fn run(&mut self, plan: &Plan, device: DeviceGuard<'_>) {
        let began = self.now();
        let spans: Vec<LmSpan<'_>> = plan.rows.iter().map(|rows| span(&self.active, rows)).collect();
        let outcomes: Vec<Outcome> = forward(&mut *self.model, &spans, &self.context);
        drop(device);
        let now = self.now();
        for sequence in &mut self.active {
            sequence.waited += 1;
        }
        let mut cost = StepCost {
            decode_rows: plan.decode_rows,
            draft_rows: plan.draft_rows,
            prefill_rows: plan.prefill_tokens,
            committed: 0,
            took: now - began,
        };
        let mut ended: Vec<(usize, End)> = Vec::new();
        for (rows, outcome) in plan.rows.iter().zip(outcomes) {
            let (index, verified, end) = self.apply(*rows, outcome, now);
            cost.committed += verified.map_or(0, |v| v.committed);
            ended.extend(end.map(|end| (index, end)));
        }
        self.count(cost, now);
        // From the end, so that the earlier indices stay true.
        ended.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, end) in ended {
            self.end(index, end, now);
        }
    }

    fn count(&mut self, cost: StepCost, now: Micros) {
        self.iterations += 1;
        self.rates.passed(now, cost);
        self.drafter.stepped(cost);
        self.metrics.iteration_seconds.observe(cost.took.as_secs());
        self.metrics.prompt_tokens.inc_by(cost.prefill_rows as u64);
        self.prompt_tokens += cost.prefill_rows as u64;
        self.stats.batches.fetch_add(1, Ordering::Relaxed);
        self.stats.run_us.fetch_add(cost.took.0, Ordering::Relaxed);
        self.context.handle.advance(now);
    }

    /// Takes one sequence's rows into its state; says what its decode row brought, and if and how it ends.
    fn apply(&mut self, rows: Rows, outcome: Outcome, now: Micros) -> (usize, Option<Verified>, Option<End>) {
        let (index, tokens, samples) = match rows {
            Rows::Decode { index, .. } => (index, 1, true),
            Rows::Prefill { index, tokens, last } => (index, tokens, last),
        };
        let sequence = &mut self.active[index];
        sequence.waited = 0;
        let mut logits = match outcome {
            Ok(logits) => logits,
            Err(fault) => return (index, None, Some(Err(fault))),
        };
        sequence.computed += tokens;
        if !samples {
            sequence.live.progress(sequence.done_ratio());
            return (index, None, None);
        }
        let words = Words { vocabulary: &self.vocabulary, vocab: self.model.config().vocab, end_ids: &self.end_ids };
        let before = sequence.tokens.len();
        let advanced = catch_unwind(AssertUnwindSafe(|| sequence.advance(&mut logits, &words, now)));
        sequence.live.progress(sequence.done_ratio());
        sequence.tell(before, now);
        let committed = (sequence.tokens.len() - before) as u64;
        self.generated_tokens += committed;
        self.metrics.generated_tokens.inc_by(committed);
        let Advanced { verified, finish } = match advanced {
            Ok(Ok(advanced)) => advanced,
            Ok(Err(fault)) => return (index, None, Some(Err(fault))),
            Err(panic) => return (index, None, Some(Err(of_panic(&self.context, &*panic)))),
        };
        let decoded = matches!(rows, Rows::Decode { .. });
        if decoded {
            self.settle(index, verified, before);
        }
        (index, decoded.then_some(verified), finish.map(Ok))
    }

    /// Rewinds the slot over drafts that were not accepted, and tells who drafted. `before` tokens were there before.
    fn settle(&mut self, index: usize, verified: Verified, before: usize) {
        let sequence = &mut self.active[index];
        sequence.verified.add(verified);
        self.drafter.verified(sequence.id, verified, &sequence.tokens[before..]);
        let (slot, computed) = (sequence.slot, sequence.computed);
        if verified.accepted < verified.drafted && !self.rewind(slot, computed) {
            self.active[index].computed = 0;
        }
    }

    pub(super) fn view(&self) -> GenerationView {
        let now = self.now();
        GenerationView {
            slots: self.settings.slots,
            active: self.active.iter().map(|s| s.view(now)).collect(),
            kv_used: self.active.iter().map(|s| s.computed).sum(),
            kv_cached: self.slots.cached(),
            kv_capacity: self.settings.kv_tokens,
            decode_tokens_per_s: self.rates.decode(),
            prefill_tokens_per_s: self.rates.prefill(),
            iterations: self.iterations,
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated_tokens,
            cached_tokens: self.cached_tokens,
            preemptions: self.preemptions,
            failed_rewinds: self.failed_rewinds,
            speculation: self.drafter.view().map(|v| SpeculationView { self_check: self.check.view(), ..v }),
            kv_taken: self.kv_taken(),
            waiting: self.queue.iter().map(|s| (s.id, s.live.hold.is_held())).collect(),
            reason: self.waits_for(),
        }
    }
}
