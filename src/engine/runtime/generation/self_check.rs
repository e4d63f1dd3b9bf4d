//! The standing self-check: a share of the answers that were made with windows is computed again without, one row at a
//! time, when nobody waits. The tokens must be the same.
//!
//! It takes a free slot, and gives it back as soon as a request comes; the answer then waits for the next quiet moment.

use super::pass::attempt;
use super::step::Generator;
use crate::control::speculation::{SelfCheckDifference, SelfCheckView};
use crate::engine::models::sampler::Sampler;
use crate::engine::models::{LmSpan, LogitsFor};
use crate::engine::runtime::RequestId;
use std::collections::VecDeque;

/// Answers that may wait; more are skipped, and counted.
const WAITING: usize = 8;
/// Differences that are kept.
const KEPT: usize = 16;

/// An answer to be computed again.
#[derive(Debug)]
pub(super) struct Answer {
    pub request: RequestId,
    /// Prompt and answer.
    pub tokens: Vec<u32>,
    pub prompt: usize,
    /// As it was before the first token.
    pub sampler: Sampler,
    /// Tokens that were impossible as long as the answer had fewer than `min_tokens`.
    pub ends: Vec<u32>,
    pub min_tokens: usize,
}

impl Answer {
    /// What the request's own rules make impossible at the answer's token `at`.
    fn steer(&self, row: &mut [f32], at: usize) {
        for &id in self.ends.iter().filter(|_| at < self.min_tokens) {
            if let Some(l) = row.get_mut(id as usize) {
                *l = f32::NEG_INFINITY;
            }
        }
    }
}

/// An answer under way.
#[derive(Debug)]
struct Running {
    answer: Answer,
    sampler: Sampler,
    slot: usize,
    /// Tokens that are in the slot's cache.
    computed: usize,
}

/// The answers to check, and what came of those before.
#[derive(Debug, Default)]
pub(super) struct SelfCheck {
    waiting: VecDeque<Answer>,
    running: Option<Running>,
    /// Parts of answers owed to the share.
    owed: f64,
    checked: u64,
    differed: u64,
    skipped: u64,
    differences: VecDeque<SelfCheckDifference>,
}

impl SelfCheck {
    /// Whether the next speculated answer is one of the share.
    pub(super) fn picks(&mut self, share: f64) -> bool {
        self.owed += share;
        if self.owed < 1.0 {
            return false;
        }
        self.owed -= 1.0;
        true
    }

    pub(super) fn push(&mut self, answer: Answer) {
        if self.waiting.len() == WAITING {
            self.skipped += 1;
        } else {
            self.waiting.push_back(answer);
        }
    }

    /// Whether there is anything to compute.
    pub(super) fn has_work(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    fn ended(&mut self, request: RequestId, of: usize, differs: Option<usize>) {
        self.checked += 1;
        let Some(at) = differs else { return };
        self.differed += 1;
        if self.differences.len() == KEPT {
            self.differences.pop_front();
        }
        self.differences.push_back(SelfCheckDifference { request: request.to_string(), at: at as u64, of: of as u64 });
    }

    pub(super) fn view(&self) -> SelfCheckView {
        SelfCheckView {
            checked: self.checked,
            differed: self.differed,
            waiting: self.waiting.len() as u64 + u64::from(self.running.is_some()),
            skipped: self.skipped,
            differences: self.differences.iter().cloned().collect(),
        }
    }
}

impl Generator {
    /// Runs one pass of the self-check: a chunk of a prompt, or one token.
    pub(super) fn check_step(&mut self) {
        let Some(mut running) = self.check.running.take().or_else(|| self.begin_check()) else { return };
        let Running { answer, sampler, slot, computed } = &mut running;
        let reading = *computed < answer.prompt;
        let end =
            if reading { answer.prompt.min(*computed + self.settings.prefill_chunk.max(1)) } else { *computed + 1 };
        let samples = end >= answer.prompt;
        let logits = if samples { LogitsFor::Last } else { LogitsFor::None };
        let span = LmSpan { slot: *slot, start: *computed, tokens: &answer.tokens[*computed..end], logits };
        let device = self.context.device.acquire(&self.context.handle.name);
        let outcome = attempt(&mut *self.model, std::slice::from_ref(&span), &self.context);
        drop(device);
        *computed = end;
        // The token at `end` follows from what the cache holds now.
        let verdict = match outcome {
            // A model that fails here fails on requests too, where it is told.
            Err(_) => Some(None),
            Ok(_) if !samples => None,
            Ok(rows) => {
                let mut row = rows.into_iter().next().unwrap_or_default();
                answer.steer(&mut row, end - answer.prompt);
                let id = sampler.choose(&mut row, end).ok();
                sampler.commit(answer.tokens[end]);
                if id != Some(answer.tokens[end]) {
                    Some(Some(end - answer.prompt))
                } else {
                    (end + 1 == answer.tokens.len()).then_some(None)
                }
            }
        };
        match verdict {
            None => self.check.running = Some(running),
            Some(differs) => {
                let (request, of) = (running.answer.request, running.answer.tokens.len() - running.answer.prompt);
                self.leave_check_slot(running.slot);
                if let Some(at) = differs {
                    let model = &self.context.handle.name;
                    tracing::error!(%model, %request, at, "an answer made with windows differs from the plain one");
                    self.metrics.speculation.differed();
                }
                self.metrics.speculation.checked();
                self.check.ended(request, of, differs);
            }
        }
    }

    /// Gives the slot of a check under way back: a request has come.
    pub(super) fn pause_check(&mut self) {
        if let Some(Running { answer, slot, .. }) = self.check.running.take() {
            self.leave_check_slot(slot);
            self.check.waiting.push_front(answer);
        }
    }

    fn begin_check(&mut self) -> Option<Running> {
        let answer = self.check.waiting.pop_front()?;
        // Nothing that an idle slot holds is reused: it may come from the very windows that are checked. Starting at
        // the start forgets it.
        let Some(slot) = self.slots.take(&[]).map(|place| place.slot) else {
            self.check.skipped += 1;
            return None;
        };
        self.evict(answer.tokens.len());
        Some(Running { sampler: answer.sampler.clone(), answer, slot, computed: 0 })
    }

    fn leave_check_slot(&mut self, slot: usize) {
        self.slots.give_back(slot, Vec::new());
        // Whoever takes it next begins at the start, which forgets the rest as well.
        self.rewind(slot, 0);
    }
}
