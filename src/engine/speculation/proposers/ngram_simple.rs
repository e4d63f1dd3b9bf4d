//! The latest earlier occurrence of the last few tokens, and what followed it.

use super::hash::Context;
use super::{Proposal, Proposer, Source};

/// Tokens of the text that a lookup goes back over.
const SCAN: usize = 32_768;

/// Looks back through the text; no index.
#[derive(Debug, Clone)]
pub struct NgramSimple {
    size: usize,
    committed: Vec<u32>,
}

impl NgramSimple {
    /// Matches the last `size` tokens (at least 1).
    pub fn new(size: usize) -> NgramSimple {
        NgramSimple { size: size.max(1), committed: Vec::new() }
    }
}

impl Proposer for NgramSimple {
    fn sync(&mut self, committed: &[u32]) {
        match committed.strip_prefix(self.committed.as_slice()) {
            Some(new) => self.committed.extend_from_slice(new),
            None => self.committed = committed.to_vec(),
        }
    }

    fn propose(&self, continuation: &[u32], budget: usize) -> Proposal {
        let text = Context { committed: &self.committed, continuation };
        let (len, n) = (text.len(), self.size);
        if budget == 0 || len <= n {
            return Proposal::default();
        }
        // `end` is one past an occurrence; the very last one is the query itself.
        let earliest = n.max(self.committed.len().saturating_sub(SCAN));
        let newest = self.committed.len().min(len - 1);
        let found = (earliest..=newest).rev().find(|&end| text.shared_before(end, len, n) == n);
        match found {
            None => Proposal::default(),
            Some(end) => {
                let n = budget.min(len - end);
                let tokens = text.copy(end, n);
                let copied = Source::copied(self.size);
                Proposal { tokens, native: 0, matched: self.size, copied, span_available: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(size: usize, committed: &[u32], continuation: &[u32], budget: usize) -> Vec<u32> {
        let mut p = NgramSimple::new(size);
        p.sync(committed);
        p.propose(continuation, budget).tokens
    }

    #[test]
    fn the_latest_earlier_occurrence_is_continued() {
        assert_eq!(proposed(2, &[0, 0, 2, 3, 9, 1, 7, 8, 2, 3], &[], 4), [9, 1, 7, 8]);
        assert_eq!(proposed(2, &[2, 3, 5, 2, 3, 6, 2, 3], &[], 1), [6]);
    }

    #[test]
    fn a_text_shorter_than_the_ngram_proposes_nothing() {
        assert_eq!(proposed(3, &[1, 1], &[], 4), [0u32; 0]);
        assert_eq!(proposed(3, &[], &[], 4), [0u32; 0]);
        assert_eq!(proposed(2, &[1, 2], &[], 4), [0u32; 0]);
    }

    #[test]
    fn a_continuation_is_part_of_the_query_but_not_of_what_is_found() {
        assert_eq!(proposed(2, &[2, 3, 9, 1, 7], &[2, 3], 2), [9, 1]);
        // The continuation repeats itself, the committed text does not.
        assert_eq!(proposed(2, &[5, 6, 7], &[1, 2, 1, 2], 2), [0u32; 0]);
    }

    #[test]
    fn another_history_replaces_the_old_one() {
        let mut p = NgramSimple::new(2);
        p.sync(&[1, 2, 3, 1, 2]);
        p.sync(&[1, 2, 4, 1, 2]);
        assert_eq!(p.propose(&[], 1).tokens, [4]);
    }
}
