//! Drafts that a model made: its own extra heads, or a smaller model with the same vocabulary.

use super::{Proposal, Proposer};

/// When a draft was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DraftOrigin {
    /// With the first plain step of a sequence.
    InitialSerial,
    /// With a plain step after steps that had no draft.
    SerialAfterGap,
    /// With a verified window, for the next one.
    VerifyNext,
}

impl DraftOrigin {
    pub const KINDS: usize = 3;

    pub fn name(self) -> &'static str {
        match self {
            DraftOrigin::InitialSerial => "initial_serial",
            DraftOrigin::SerialAfterGap => "serial_after_gap",
            DraftOrigin::VerifyNext => "verify_next",
        }
    }
}

/// Tokens that a model expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Absolute position of the first of them.
    pub at: usize,
    pub tokens: Vec<u32>,
    pub origin: DraftOrigin,
    /// Whether it was counted as taken.
    counted: bool,
}

impl Draft {
    pub fn new(at: usize, tokens: Vec<u32>, origin: DraftOrigin) -> Draft {
        Draft { at, tokens, origin, counted: false }
    }
}

/// A model that drafts, as the runtime drives it. It follows one sequence per slot.
pub trait Drafter: Send {
    /// At most `n` tokens that may follow `history` in `slot`. An empty answer is allowed.
    fn draft(&mut self, slot: usize, history: &[u32], n: usize) -> Vec<u32>;

    /// `slot` is free: whatever was kept of it is of no use.
    fn forget(&mut self, slot: usize);
}

/// The one draft that waits to be used.
#[derive(Debug, Clone, Default)]
pub struct Drafts {
    pending: Option<Draft>,
    /// Length of the committed text.
    committed: usize,
    taken: [u64; DraftOrigin::KINDS],
}

impl Drafts {
    /// Takes the pending draft out, if it begins at `at`; one for another position is dropped. Counts it once, however
    /// often it is restored and taken again.
    pub fn take(&mut self, at: usize) -> Option<Draft> {
        let mut draft = self.pending.take().filter(|d| d.at == at && !d.tokens.is_empty())?;
        if !draft.counted {
            draft.counted = true;
            self.taken[draft.origin as usize] += 1;
        }
        Some(draft)
    }

    /// Puts a taken draft back: it was not used after all. A newer one is not overwritten.
    pub fn restore(&mut self, draft: Draft) {
        self.pending.get_or_insert(draft);
    }

    /// The pending draft, if it follows the committed text.
    fn following(&self) -> &[u32] {
        self.pending.as_ref().filter(|d| d.at == self.committed).map_or(&[], |d| &d.tokens)
    }

    /// Whether a draft is there for the committed text.
    pub fn ready(&self) -> bool {
        !self.following().is_empty()
    }
}

impl Proposer for Drafts {
    fn sync(&mut self, committed: &[u32]) {
        self.committed = committed.len();
        // Taking and restoring counts what is about to be proposed, once.
        if let Some(draft) = self.take(committed.len()) {
            self.restore(draft);
        }
    }

    /// A draft follows the committed text only: nothing is known behind a continuation.
    fn propose(&self, continuation: &[u32], budget: usize) -> Proposal {
        let drafted = if continuation.is_empty() { self.following() } else { &[] };
        let tokens = drafted[..drafted.len().min(budget)].to_vec();
        Proposal { native: tokens.len(), tokens, ..Proposal::default() }
    }

    fn feed(&mut self, draft: Draft) {
        self.pending = Some(draft);
    }

    fn drafts_taken(&self) -> [u64; DraftOrigin::KINDS] {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(at: usize, tokens: &[u32], origin: DraftOrigin) -> Draft {
        Draft::new(at, tokens.to_vec(), origin)
    }

    #[test]
    fn one_draft_is_pending_and_follows_the_committed_text() {
        let mut d = Drafts::default();
        d.feed(draft(3, &[7, 8], DraftOrigin::InitialSerial));
        d.sync(&[1, 2, 3]);
        assert!(d.ready());
        let p = d.propose(&[], 8);
        assert_eq!((p.tokens.as_slice(), p.native, p.tail()), ([7, 8].as_slice(), 2, 0));
        assert_eq!(d.propose(&[], 1).tokens, [7]);
        assert!(d.propose(&[7], 8).is_empty(), "behind a continuation nothing is known");
    }

    #[test]
    fn a_draft_for_another_position_is_dropped() {
        let mut d = Drafts::default();
        d.feed(draft(3, &[7], DraftOrigin::VerifyNext));
        d.sync(&[1, 2, 3, 4]);
        assert!(!d.ready() && d.propose(&[], 8).is_empty());
        d.sync(&[1, 2, 3]);
        assert!(!d.ready(), "it does not come back");
        assert_eq!(d.drafts_taken(), [0; 3]);
    }

    #[test]
    fn taken_and_restored_counts_once() {
        let mut d = Drafts::default();
        d.feed(draft(3, &[7], DraftOrigin::SerialAfterGap));
        let taken = d.take(3).expect("pending");
        assert_eq!(d.take(3), None);
        d.restore(taken);
        let again = d.take(3).expect("restored");
        assert_eq!(d.drafts_taken(), [0, 1, 0]);
        d.feed(draft(3, &[9], DraftOrigin::VerifyNext));
        d.restore(again);
        assert_eq!(d.take(3).map(|d| d.tokens), Some(vec![9]), "the newer one stays");
        assert_eq!(d.drafts_taken(), [0, 1, 1]);
    }

    #[test]
    fn looking_twice_counts_once() {
        let mut d = Drafts::default();
        d.feed(draft(2, &[7], DraftOrigin::InitialSerial));
        d.sync(&[1, 2]);
        d.sync(&[1, 2]);
        assert_eq!(d.drafts_taken(), [1, 0, 0]);
        assert_eq!(DraftOrigin::InitialSerial.name(), "initial_serial");
    }
}
