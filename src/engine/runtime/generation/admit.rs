//! Who has a slot: requests come in, lose their slot to older ones when the KV budget runs out, and leave.

use super::plan::to_preempt;
use super::self_check::Answer;
use super::sequence::Sequence;
use super::step::Generator;
use crate::control::snapshot::Outcome;
use crate::control::{Fault, WaitCode};
use crate::engine::runtime::job::{FinishReason, GenerationEvent};
use crate::engine::runtime::live::outcome_of;
use crate::engine::runtime::receipts::Receipt;
use crate::engine::runtime::shared::draining_fault;
use crate::engine::scheduler::Micros;
use crate::engine::speculation::commits::Terminal;

impl Generator {
    /// Ends requests that were cancelled, are past their deadline or have lost their reader, and what a drain does not
    /// let start.
    pub(super) fn sweep(&mut self) {
        let now = self.now();
        let draining = self.context.shared.is_draining();
        for i in (0..self.queue.len()).rev() {
            let waiting = &mut self.queue[i];
            let refused = draining && waiting.started.is_none();
            let wanted = if refused { Err(draining_fault()) } else { waiting.live.wanted(now) };
            if let Err(fault) = wanted
                && let Some(waiting) = self.queue.remove(i)
            {
                self.close(waiting, Err(fault), now);
            }
        }
        for i in (0..self.active.len()).rev() {
            if let Err(fault) = self.active[i].live.wanted(now) {
                self.end(i, Err(fault), now);
            }
        }
    }

    /// Where the first of the queue is that nobody holds. A drain lets go what is held.
    fn first_in_line(&self) -> Option<usize> {
        let draining = self.context.shared.is_draining();
        self.queue.iter().position(|s| draining || !s.live.hold.is_held())
    }

    /// What the first in line waits for; `None` = nothing, or nobody is in line.
    pub(super) fn waits_for(&self) -> Option<WaitCode> {
        self.first_in_line().and_then(|at| self.blocked(&self.queue[at]))
    }

    /// Gives free slots to the first in line while the KV budget has room. Nobody overtakes.
    pub(super) fn admit(&mut self) {
        let now = self.now();
        while let Some(at) = self.first_in_line() {
            if self.blocked(&self.queue[at]).is_some() {
                return;
            }
            if !self.queue[at].live.hold.take(self.context.shared.is_draining()) {
                // Somebody held it in this very moment.
                continue;
            }
            let Some(mut sequence) = self.queue.remove(at) else { return };
            let need = sequence.need(self.settings.kv_reserve);
            self.moved = true;
            if sequence.max_tokens == 0 {
                sequence.take(0, 0, 0, now);
                self.close(sequence, Ok(FinishReason::Length), now);
                continue;
            }
            let Some(place) = self.slots.take(&sequence.tokens) else {
                self.queue.insert(at, sequence);
                return;
            };
            // What the slot held beyond the common start is forgotten.
            let reused = if self.rewind(place.slot, place.reused) { place.reused } else { 0 };
            let first_time = sequence.started.is_none();
            sequence.take(place.slot, reused, need, now);
            if first_time {
                let hub = &self.context.shared.commits;
                sequence.observed = Some(hub.start(sequence.id, &self.context.handle.name));
                self.metrics.cached_tokens.inc_by(reused as u64);
                self.cached_tokens += reused as u64;
            }
            let at = self.active.partition_point(|s| s.id < sequence.id);
            self.active.insert(at, sequence);
        }
    }

    /// Whether nothing goes on until somebody lets the queue go, or one in it leaves.
    pub(super) fn held(&self) -> bool {
        let nobody = !self.queue.is_empty() && self.first_in_line().is_none();
        self.active.is_empty() && (nobody || self.waits_for() == Some(WaitCode::LanePaused))
    }

    /// What keeps the first in line from starting now.
    fn blocked(&self, first: &Sequence) -> Option<WaitCode> {
        let need = first.need(self.settings.kv_reserve);
        // One that had begun and lost its slot is running work.
        let begun = first.started.is_some();
        if self.settings.paused && !begun && !self.context.shared.is_draining() {
            Some(WaitCode::LanePaused)
        } else if !self.slots.any_free() {
            Some(WaitCode::SlotsFull)
        } else if self.kv_taken() + need > self.settings.kv_tokens && !self.active.is_empty() {
            Some(WaitCode::KvFull)
        } else {
            None
        }
    }

    /// What running sequences hold or may hold of the KV budget.
    pub(super) fn kv_taken(&self) -> usize {
        self.active.iter().map(|s| s.reserved.max(s.computed + 1)).sum()
    }

    /// Makes room for a row of each sequence: answers may grow beyond what was reserved for them. The youngest lose
    /// their slots; they keep their text, wait first in line, and read their tokens again.
    pub(super) fn preempt(&mut self) {
        let held: Vec<usize> = self.active.iter().map(|s| s.computed).collect();
        for _ in 0..to_preempt(&held, self.settings.kv_tokens) {
            let Some(mut sequence) = self.active.pop() else { return };
            self.slots.give_back(sequence.slot, self.kept(&sequence));
            self.moved = true;
            (sequence.computed, sequence.follows) = (0, false);
            sequence.preempted += 1;
            self.metrics.preempted.inc();
            self.preemptions += 1;
            let at = self.queue.partition_point(|s| s.id < sequence.id);
            self.queue.insert(at, sequence);
        }
    }

    /// Forgets what idle slots hold beyond the room that running sequences and `rows` more leave.
    pub(super) fn evict(&mut self, rows: usize) {
        let used: usize = self.active.iter().map(|s| s.computed).sum();
        let room = self.settings.kv_tokens.saturating_sub(used + rows);
        for (slot, len) in self.slots.shrink(room) {
            if !self.rewind(slot, len) {
                self.slots.forget(slot);
            }
        }
    }

    /// Rewinds a slot; false when its content is not to be trusted any more: it is read again from the start.
    pub(super) fn rewind(&mut self, slot: usize, len: usize) -> bool {
        let Err(error) = self.model.truncate(slot, len) else { return true };
        tracing::warn!(model = %self.context.handle.name, slot, len, %error, "a KV rewind failed; the slot is read again");
        self.metrics.failed_rewinds.inc();
        self.failed_rewinds += 1;
        false
    }

    fn receipt(&self, sequence: &Sequence, end: &Result<FinishReason, Fault>, now: Micros) -> Receipt {
        let (prompt, completion) = sequence.tokens.split_at(sequence.prompt);
        Receipt {
            request: sequence.id.to_string(),
            model: self.context.handle.name.to_string(),
            client: sequence.live.client().to_string(),
            outcome: end.as_ref().map_or_else(outcome_of, |_| Outcome::Served).name(),
            cached_tokens: sequence.cached,
            preempted: sequence.preempted,
            ..Receipt::of(prompt, completion, sequence.times(now))
        }
    }

    /// What of a sequence may stay in its slot.
    fn kept(&self, sequence: &Sequence) -> Vec<u32> {
        if self.settings.prefix_cache { sequence.tokens[..sequence.computed].to_vec() } else { Vec::new() }
    }

    /// Ends the sequence at `index`: frees its slot, then tells its reader.
    pub(super) fn end(&mut self, index: usize, end: Result<FinishReason, Fault>, now: Micros) {
        let sequence = self.active.remove(index);
        // After a fault of the model's nobody knows what the slot holds.
        let sound = end.is_ok() || self.model.slot_len(sequence.slot) >= sequence.computed;
        let kept = if sound { self.kept(&sequence) } else { Vec::new() };
        let len = kept.len();
        self.slots.give_back(sequence.slot, kept);
        if !self.rewind(sequence.slot, len) {
            self.slots.forget(sequence.slot);
        }
        self.close(sequence, end, now);
    }

    /// Notes an answer for the self-check, if it was made with windows and is one of the share.
    fn queue_check(&mut self, sequence: &Sequence) {
        let share = self.settings.speculation.self_check_ratio;
        if sequence.verified.drafted > 0 && sequence.generated() > 0 && self.check.picks(share) {
            let prompt = sequence.prompt;
            let sampler = sequence.sampler.again(&sequence.tokens[..prompt]);
            let own = if sequence.ignore_eos { &[][..] } else { &self.end_ids };
            let ends = own.iter().chain(&sequence.stop_ids).copied().collect();
            let (tokens, min_tokens) = (sequence.tokens.clone(), sequence.min_tokens);
            self.check.push(Answer { request: sequence.id, tokens, prompt, sampler, ends, min_tokens });
        }
    }

    /// Tells a request's observers and its reader how it ended.
    fn close(&mut self, mut sequence: Sequence, end: Result<FinishReason, Fault>, now: Micros) {
        self.moved = true;
        let speculation = self.drafter.report(sequence.id, sequence.speculation).map(Box::new);
        self.drafter.ended(sequence.id);
        if let Some(mut observed) = sequence.observed.take() {
            // It was open until now.
            let _ = observed.end(if end.is_ok() { Terminal::Finished } else { Terminal::Aborted });
        }
        if let Some(receipts) = &self.context.shared.receipts {
            receipts.send(self.receipt(&sequence, &end, now));
        }
        match end {
            Ok(finish) => {
                self.queue_check(&sequence);
                let done = GenerationEvent::Done {
                    finish,
                    prompt_tokens: sequence.prompt,
                    cached_tokens: sequence.cached,
                    completion_tokens: sequence.generated(),
                    times: sequence.times(now),
                    speculation,
                };
                sequence.live.done(done, now);
            }
            Err(fault) => sequence.live.fail(fault, now),
        }
    }
}
