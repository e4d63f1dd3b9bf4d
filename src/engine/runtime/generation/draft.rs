//! The seam between the loop and whoever proposes tokens for verify windows.

use super::draft_model::DraftModel;
use crate::control::speculation::{SpeculationChoice, SpeculationReport, SpeculationView};
use crate::engine::runtime::RequestId;
use crate::engine::scheduler::Micros;
use crate::profile::SpeculationSettings;

/// What one forward pass cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepCost {
    /// Sequences that decode: one row each.
    pub decode_rows: usize,
    /// Drafts verified behind these.
    pub draft_rows: usize,
    /// Rows that read prompts.
    pub prefill_rows: usize,
    /// Tokens that the decode rows and drafts added to answers.
    pub committed: usize,
    pub took: Micros,
}

/// What came of a verify window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Drafts that were in the pass.
    pub drafted: usize,
    /// Of these, how many the model says itself.
    pub accepted: usize,
    /// Tokens added to the answer: the accepted ones, and the model's own behind them unless the answer ended.
    pub committed: usize,
    /// Whether the answer ended inside; nothing is known of the drafts beyond.
    pub stopped: bool,
}

impl Verified {
    /// Adds a later window of the same request.
    pub fn add(&mut self, later: Verified) {
        self.drafted += later.drafted;
        self.accepted += later.accepted;
        self.committed += later.committed;
        self.stopped |= later.stopped;
    }
}

/// A sequence that could use drafts.
#[derive(Debug, Clone, Copy)]
pub struct DraftFor<'a> {
    pub request: RequestId,
    /// What the request asks for.
    pub choice: SpeculationChoice,
    /// Prompt and committed answer.
    pub history: &'a [u32],
    /// Most tokens that could be used.
    pub most: usize,
}

/// What the model's own head is to draft.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeWish {
    /// The sequences to draft for, as places in what was asked; in their order.
    pub whose: Vec<usize>,
    /// Tokens for each.
    pub depth: usize,
}

/// What the head drafted for one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeDraft {
    pub request: RequestId,
    /// Absolute position of the first token.
    pub at: usize,
    pub tokens: Vec<u32>,
}

/// Proposes tokens, and learns what became of them. Lives on the generation thread: it must be quick, and what it says
/// decides speed alone, never text.
pub(in crate::engine::runtime) trait DraftSource: Send {
    /// Tokens that may follow each of `of`, which are all sequences that decode in this iteration; at most `room` in all.
    /// Beyond that, and beyond what was asked for, they are not used.
    fn draft(&mut self, of: &[DraftFor<'_>], room: usize) -> Vec<Vec<u32>>;
    /// What the model's own head should draft before [`draft`](Self::draft) is asked for the same sequences.
    fn wish(&mut self, _of: &[DraftFor<'_>]) -> NativeWish {
        NativeWish::default()
    }
    /// What came of a wish for `depth` tokens, and the time that it took.
    fn drafted(&mut self, _drafts: Vec<NativeDraft>, _depth: usize, _took: Micros) {}
    /// The head failed, and why: there will be no drafts of it any more.
    fn drafts_failed(&mut self, _why: String) {}
    /// A window of this request was verified, and `tokens` were added to its answer; without drafts, by a plain decode
    /// row.
    fn verified(&mut self, request: RequestId, outcome: Verified, tokens: &[u32]);
    /// A pass was measured. Comes after the outcomes of its windows.
    fn stepped(&mut self, cost: StepCost);
    /// The model is loaded. `rows_are_independent`: what it computes for a row never depends on the rows beside it. Where it
    /// may, drafts could change answers, and there must be none. `drafts`: it has a head of its own that drafts.
    fn loaded(&mut self, _rows_are_independent: bool, _drafts: bool) {}
    /// Other settings, from the next iteration on.
    fn configure(&mut self, _settings: &SpeculationSettings) {}
    /// A model that drafts is loaded.
    fn assisted(&mut self, _by: DraftModel) {}
    /// What came of a request so far. `None` = nobody speculates.
    fn report(&self, _request: RequestId, _choice: SpeculationChoice) -> Option<SpeculationReport> {
        None
    }
    /// The request has ended.
    fn ended(&mut self, request: RequestId);
    /// What is shown.
    fn view(&self) -> Option<SpeculationView> {
        None
    }
}

/// Speculation is off.
pub struct NoDrafts;

impl DraftSource for NoDrafts {
    fn draft(&mut self, _: &[DraftFor<'_>], _: usize) -> Vec<Vec<u32>> {
        Vec::new()
    }
    fn verified(&mut self, _: RequestId, _: Verified, _: &[u32]) {}
    fn stepped(&mut self, _: StepCost) {}
    fn ended(&mut self, _: RequestId) {}
}
