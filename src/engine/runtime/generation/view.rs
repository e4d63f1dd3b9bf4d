//! What a generation worker shows.

use crate::control::WaitCode;
use crate::control::snapshot::{ActiveSequence, Generation, Pace, Wait};
use crate::control::speculation::SpeculationView;
use crate::engine::runtime::RequestId;
use crate::engine::runtime::stats::OpStats;

/// A worker at one instant, as its thread publishes it after each iteration.
#[derive(Debug, Default)]
pub(in crate::engine::runtime) struct GenerationView {
    pub slots: usize,
    pub active: Vec<ActiveSequence>,
    /// Tokens of running sequences in the KV cache.
    pub kv_used: usize,
    /// Tokens that idle slots keep for requests that begin alike; they go when the room is needed.
    pub kv_cached: usize,
    pub kv_capacity: usize,
    /// What running sequences hold or may hold of it.
    pub kv_taken: usize,
    pub decode_tokens_per_s: Option<f64>,
    pub prefill_tokens_per_s: Option<f64>,
    pub iterations: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    pub cached_tokens: u64,
    pub preemptions: u64,
    pub failed_rewinds: u64,
    pub speculation: Option<SpeculationView>,
    /// In order, and whether an operator holds it; all others wait for the same thing.
    pub waiting: Vec<(RequestId, bool)>,
    /// What the first of those waits for.
    pub reason: Option<WaitCode>,
}

impl GenerationView {
    /// Milliseconds until the first running sequence has its longest possible answer, at its pace so far.
    pub fn free_in_ms(&self) -> Option<f64> {
        let left = |a: &ActiveSequence| {
            let tokens = a.max_tokens.saturating_sub(a.generated_tokens) as f64;
            a.tokens_per_s.map(|rate| tokens / rate * 1_000.0)
        };
        self.active.iter().filter_map(left).min_by(f64::total_cmp)
    }

    /// The place and reason of each waiting request. The estimate is an upper bound, known for the first.
    pub fn places(&self) -> impl Iterator<Item = (RequestId, Option<u64>, Wait)> + '_ {
        let code = self.reason.unwrap_or(WaitCode::SlotsFull);
        let free = self.free_in_ms();
        let held = self.waiting.iter().filter(|(_, held)| *held);
        let in_line = (1u64..).zip(self.waiting.iter().filter(|(_, held)| !*held));
        let in_line = in_line.map(move |(place, (id, _))| {
            (*id, Some(place), Wait { estimate_ms: free.filter(|_| place == 1), ..Wait::of(code) })
        });
        in_line.chain(held.map(|(id, _)| (*id, None, Wait::of(WaitCode::Held))))
    }

    /// Why a request waits that the thread has not looked at yet: it stands behind all others. `cost` are the tokens that
    /// it can take at most, `reserve` those of an answer that are set aside; `device_busy`: another model computes.
    pub fn arriving(&self, cost: u64, reserve: usize, device_busy: bool) -> WaitCode {
        let least = usize::try_from(cost).unwrap_or(usize::MAX).min(reserve);
        if let Some(code) = self.reason.filter(|_| !self.waiting.is_empty()) {
            code
        } else if self.active.len() >= self.slots {
            WaitCode::SlotsFull
        } else if !self.active.is_empty() && self.kv_taken.saturating_add(least) > self.kv_capacity {
            WaitCode::KvFull
        } else if device_busy {
            WaitCode::DeviceBusy
        } else {
            // It gets its slot when the pass under way has ended.
            WaitCode::SlotBusy
        }
    }

    /// The snapshot's form.
    pub fn assemble(&self, model: &str, stats: &OpStats, max_queue: usize) -> Generation {
        Generation {
            model: model.to_string(),
            slots: self.slots as u64,
            slots_used: self.active.len() as u64,
            active: self.active.clone(),
            queued: stats.waiting() as u64,
            max_queue: max_queue as u64,
            kv_used_tokens: self.kv_used as u64,
            kv_cached_tokens: self.kv_cached as u64,
            kv_capacity_tokens: self.kv_capacity as u64,
            decode_tokens_per_s: self.decode_tokens_per_s,
            prefill_tokens_per_s: self.prefill_tokens_per_s,
            iterations: self.iterations,
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated_tokens,
            cached_tokens: self.cached_tokens,
            preemptions: self.preemptions,
            failed_rewinds: self.failed_rewinds,
            speculation: self.speculation.clone(),
            // Its window ends when a snapshot is taken: whoever takes one fills it in.
            pace: Pace::default(),
            latency: stats.latency(),
            counters: stats.counters(),
        }
    }
}
