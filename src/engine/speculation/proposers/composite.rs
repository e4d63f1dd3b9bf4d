//! Native drafts, and a copied tail behind them.

use super::drafts::{Draft, DraftOrigin, Drafts};
use super::{Proposal, Proposer};

/// A tail shorter than this is not worth a longer window.
const TAIL_LEAST: usize = 2;

/// How a tail is found behind native drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailRule {
    /// The passage is looked up without the drafts and must begin with them (`ngram-simple`).
    BeginsWithDrafts,
    /// The drafts are part of what is looked up (`ngram-cache`, `suffix`).
    AfterDrafts,
}

/// Puts `native` drafts and what `lookup` finds together, at most `total` tokens. The limit never cuts the drafts.
///
/// `lookup` takes the uncommitted continuation and the most tokens wanted.
pub fn compose(
    native: &[u32],
    total: usize,
    rule: TailRule,
    lookup: impl FnOnce(&[u32], usize) -> Proposal,
) -> Proposal {
    let room = total.saturating_sub(native.len());
    let (tail, span_available, matched, copied) = match rule {
        TailRule::AfterDrafts => {
            let found = lookup(native, room);
            (found.tokens, found.span_available, found.matched, found.copied)
        }
        TailRule::BeginsWithDrafts => {
            let found = lookup(&[], total.max(native.len()));
            match found.tokens.strip_prefix(native) {
                Some(rest) => {
                    (rest[..rest.len().min(room)].to_vec(), found.span_available, found.matched, found.copied)
                }
                // The passage goes on differently: it is no evidence for what follows the drafts.
                None => (Vec::new(), found.span_available, 0, found.copied),
            }
        }
    };
    let mut tokens = native.to_vec();
    let kept = tail.len() >= TAIL_LEAST;
    if kept {
        tokens.extend(tail);
    }
    Proposal { tokens, native: native.len(), matched: if kept { matched } else { 0 }, copied, span_available }
}

/// Drafts of a model with a copied tail.
pub struct Composite {
    drafts: Drafts,
    copies: Box<dyn Proposer>,
    rule: TailRule,
}

impl Composite {
    pub fn new(copies: Box<dyn Proposer>, rule: TailRule) -> Composite {
        Composite { drafts: Drafts::default(), copies, rule }
    }
}

impl Proposer for Composite {
    fn sync(&mut self, committed: &[u32]) {
        self.drafts.sync(committed);
        self.copies.sync(committed);
    }

    fn propose(&self, continuation: &[u32], budget: usize) -> Proposal {
        let native = self.drafts.propose(continuation, budget);
        compose(&native.tokens, budget, self.rule, |drafted, n| {
            self.copies.propose(&[continuation, drafted].concat(), n)
        })
    }

    fn feed(&mut self, draft: Draft) {
        self.drafts.feed(draft);
    }

    fn drafts_taken(&self) -> [u64; DraftOrigin::KINDS] {
        self.drafts.drafts_taken()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NgramSimple, Suffix};
    use super::*;

    const CONTEXT: [u32; 10] = [0, 0, 2, 3, 9, 1, 7, 8, 2, 3];

    fn simple(native: &[u32], total: usize) -> Proposal {
        let mut ngram = NgramSimple::new(2);
        ngram.sync(&CONTEXT);
        compose(native, total, TailRule::BeginsWithDrafts, |c, n| ngram.propose(c, n))
    }

    #[test]
    fn vector_drafts_that_agree_get_the_passage_as_their_tail() {
        let p = simple(&[9], 4);
        assert_eq!((p.tokens.as_slice(), p.native, p.tail()), ([9, 1, 7, 8].as_slice(), 1, 3));
    }

    #[test]
    fn vector_drafts_that_disagree_stand_alone() {
        let p = simple(&[8], 4);
        assert_eq!((p.tokens.as_slice(), p.native, p.span_available), ([8].as_slice(), 1, true));
    }

    #[test]
    fn vector_without_drafts_the_passage_is_the_proposal() {
        let p = simple(&[], 4);
        assert_eq!((p.tokens.as_slice(), p.native), ([9, 1, 7, 8].as_slice(), 0));
    }

    #[test]
    fn vector_a_tail_of_one_is_dropped_but_the_span_was_there() {
        let p = simple(&[9], 2);
        assert_eq!((p.tokens.as_slice(), p.span_available, p.matched), ([9].as_slice(), true, 0));
    }

    #[test]
    fn a_limit_never_cuts_the_drafts() {
        assert_eq!(simple(&[9, 1, 7], 1).tokens, [9, 1, 7]);
        assert_eq!(simple(&[9, 1, 7], 0).tokens, [9, 1, 7]);
    }

    #[test]
    fn an_index_takes_the_drafts_as_continuation() {
        let mut suffix = Suffix::new(2, 64);
        suffix.sync(&CONTEXT);
        let p = compose(&[9], 4, TailRule::AfterDrafts, |c, n| suffix.propose(c, n));
        assert_eq!((p.tokens.as_slice(), p.native), ([9, 1, 7, 8].as_slice(), 1));
        // Drafts that the text never saw find no passage.
        let p = compose(&[8], 4, TailRule::AfterDrafts, |c, n| suffix.propose(c, n));
        assert_eq!((p.tokens.as_slice(), p.span_available), ([8].as_slice(), false));
    }

    #[test]
    fn a_composite_puts_fed_drafts_first_and_copies_without_them() {
        let mut c = Composite::new(Box::new(NgramSimple::new(2)), TailRule::BeginsWithDrafts);
        c.feed(Draft::new(CONTEXT.len(), vec![9], DraftOrigin::InitialSerial));
        c.sync(&CONTEXT);
        let p = c.propose(&[], 4);
        assert_eq!((p.tokens.as_slice(), p.native), ([9, 1, 7, 8].as_slice(), 1));
        assert_eq!(c.drafts_taken(), [1, 0, 0]);
        // Behind a continuation there are no drafts, only copies.
        let p = c.propose(&[9], 3);
        assert_eq!((p.tokens.as_slice(), p.native), ([1, 7, 8].as_slice(), 0));
        c.sync(&[&CONTEXT[..], &[9]].concat());
        assert_eq!(c.propose(&[], 3).native, 0, "the draft was for another position");
    }
}
