//! Where proposals come from.
//!
//! A proposer looks tokens up or hands out drafts that were made elsewhere ([`Drafts`]); it never runs a model itself. Looking up
//! changes nothing, and only committed tokens ever enter an index: what was proposed and refuted leaves no trace.

mod bridge;
pub mod composite;
pub mod drafts;
mod hash;
pub mod ngram_cache;
pub mod ngram_simple;
pub mod suffix;
pub mod vocabulary;

pub use composite::{Composite, TailRule, compose};
pub use drafts::{Draft, DraftOrigin, Drafter, Drafts};
pub use ngram_cache::NgramCache;
pub use ngram_simple::NgramSimple;
pub use suffix::Suffix;

use crate::profile::{ProposerKind, SpeculationSettings};

/// The kind of a proposal's tokens, as far as their chance to hold depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Source {
    /// Drafts of the model's own heads or of a draft model.
    Native,
    /// A copy of a passage that shares fewer than 5 tokens with what stands before the copy's place.
    #[default]
    CopyShort,
    /// 5 to 12 shared tokens.
    CopyMedium,
    /// More than 12 shared tokens.
    CopyLong,
    /// Several passages go on alike: it is copied as far as they agree.
    CopyAgreed,
    /// Several passages match and go on in different ways: the best of them is copied.
    CopySplit,
    /// The passage shares the last token or two, and more before some tokens in which the two differ.
    CopyBridged,
}

impl Source {
    pub const KINDS: usize = 7;

    /// A copy whose passage shares `matched` tokens.
    pub fn copied(matched: usize) -> Source {
        match matched {
            0..=4 => Source::CopyShort,
            5..=12 => Source::CopyMedium,
            _ => Source::CopyLong,
        }
    }

    pub(super) fn kind(self) -> usize {
        self as usize
    }
}

/// Tokens that may follow the committed ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// Native drafts first, copies behind them.
    pub tokens: Vec<u32>,
    /// How many of the tokens are native drafts.
    pub native: usize,
    /// Tokens that the copied passage shares with the context, 0 without a copy.
    pub matched: usize,
    /// The kind of the copied tokens.
    pub copied: Source,
    /// Whether a passage was found, even if it was too short to be used.
    pub span_available: bool,
}

impl Proposal {
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Copied tokens behind the native drafts.
    pub fn tail(&self) -> usize {
        self.tokens.len() - self.native
    }

    /// The kind of the copied tokens.
    pub fn tail_source(&self) -> Source {
        self.copied
    }

    /// The first `width` tokens of it.
    pub fn cut(mut self, width: usize) -> Proposal {
        self.tokens.truncate(width);
        self.native = self.native.min(width);
        self
    }
}

/// The proposer that `settings` ask for.
pub fn copying(settings: &SpeculationSettings) -> Box<dyn Proposer> {
    let (min, max) = (settings.ngram_min, settings.ngram_max);
    match settings.proposer {
        ProposerKind::NgramSimple => Box::new(NgramSimple::new(min)),
        ProposerKind::NgramCache => Box::new(NgramCache::new(min, max)),
        ProposerKind::Suffix => Box::new(Suffix::new(min, max)),
    }
}

/// The same behind drafts that a model makes.
pub fn drafting(settings: &SpeculationSettings) -> Box<dyn Proposer> {
    let rule = match settings.proposer {
        ProposerKind::NgramSimple => TailRule::BeginsWithDrafts,
        ProposerKind::NgramCache | ProposerKind::Suffix => TailRule::AfterDrafts,
    };
    Box::new(Composite::new(copying(settings), rule))
}

/// A source of proposals for one sequence.
pub trait Proposer: Send {
    /// Brings the index to `committed`: appends when it extends what is known, else builds it again.
    fn sync(&mut self, committed: &[u32]);

    /// At most `budget` tokens to follow the committed ones and then `continuation`, which is uncommitted and only read.
    fn propose(&self, continuation: &[u32], budget: usize) -> Proposal;

    /// Hands over a draft that a model made; a proposer that only copies has no use for it.
    fn feed(&mut self, _draft: Draft) {}

    /// How many drafts were put to use, by origin.
    fn drafts_taken(&self) -> [u64; DraftOrigin::KINDS] {
        [0; DraftOrigin::KINDS]
    }
}
