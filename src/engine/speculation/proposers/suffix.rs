//! The passage that shares the longest stretch of text with what was just said.

use super::hash::{Context, hash};
use super::{Proposal, Proposer};
use std::collections::HashMap;

/// Longest seed that is hashed.
const SEED_MAX: usize = 8;
/// Longest match that is looked for.
const MATCH_MAX: usize = 64;
/// Occurrences of the seed that a lookup compares, newest first: a text of nothing but repeats costs no more.
const SCAN: usize = 64;
/// Fewest tokens that a match of any length copies, where there are so many.
const COPY_LEAST: usize = 4;
/// No earlier occurrence.
const NONE: u32 = u32::MAX;

/// An index of every seed in the committed text, chained from the newest occurrence to the oldest.
#[derive(Debug, Clone)]
pub struct Suffix {
    ngram_min: usize,
    ngram_max: usize,
    committed: Vec<u32>,
    /// Hash of a seed → end of its newest occurrence.
    newest: HashMap<u64, u32>,
    /// End of an occurrence → end of the one before it with the same hash.
    earlier: Vec<u32>,
}

impl Suffix {
    /// Silent unless `ngram_min` tokens match; matches are measured up to `ngram_max`.
    pub fn new(ngram_min: usize, ngram_max: usize) -> Suffix {
        let ngram_min = ngram_min.clamp(1, MATCH_MAX);
        let ngram_max = ngram_max.clamp(ngram_min, MATCH_MAX);
        Suffix { ngram_min, ngram_max, committed: Vec::new(), newest: HashMap::new(), earlier: vec![NONE] }
    }

    fn seed(&self) -> usize {
        self.ngram_min.min(SEED_MAX)
    }

    fn append(&mut self, tokens: &[u32]) {
        let seed = self.seed();
        for &token in tokens {
            self.committed.push(token);
            let end = self.committed.len();
            let before = end.checked_sub(seed).map(|from| hash(self.committed[from..].iter().copied()));
            // Texts beyond 4 billion tokens are not indexed further.
            let before = before.zip(u32::try_from(end).ok()).and_then(|(h, end)| self.newest.insert(h, end));
            self.earlier.push(before.unwrap_or(NONE));
        }
    }

    /// The end of the best earlier match, and its length.
    fn find(&self, text: &Context<'_>) -> Option<(usize, usize)> {
        let (len, seed) = (text.len(), self.seed());
        let from = len.checked_sub(seed)?;
        let mut at = self.newest.get(&hash((from..len).map(|i| text.at(i)))).copied().unwrap_or(NONE);
        let mut best: Option<(usize, usize)> = None;
        let mut compared = 0;
        while at != NONE && compared < SCAN {
            let end = at as usize;
            at = self.earlier[end];
            // At the very end nothing follows: it is the query itself.
            if end >= len {
                continue;
            }
            compared += 1;
            let matched = text.shared_before(end, len, self.ngram_max);
            if matched >= self.ngram_min && best.is_none_or(|(_, longest)| matched > longest) {
                best = Some((end, matched));
                if matched == self.ngram_max {
                    break;
                }
            }
        }
        best
    }
}

impl Proposer for Suffix {
    fn sync(&mut self, committed: &[u32]) {
        if let Some(new) = committed.strip_prefix(self.committed.as_slice()) {
            return self.append(new);
        }
        *self = Suffix::new(self.ngram_min, self.ngram_max);
        self.append(committed);
    }

    fn propose(&self, continuation: &[u32], budget: usize) -> Proposal {
        let text = Context { committed: &self.committed, continuation };
        match self.find(&text) {
            None => Proposal::default(),
            Some((end, matched)) => {
                let tokens = text.copy(end, budget.min((2 * matched).max(COPY_LEAST)));
                Proposal { tokens, native: 0, matched, span_available: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn suffix(committed: &[u32]) -> Suffix {
        let mut s = Suffix::new(3, 64);
        s.sync(committed);
        s
    }

    fn proposed(committed: &[u32], budget: usize) -> Vec<u32> {
        suffix(committed).propose(&[], budget).tokens
    }

    #[test]
    fn the_longest_match_wins() {
        // 1 2 3 follows 9 once and 8 once; the newer one shares only three tokens.
        let text = [9, 1, 2, 3, 50, 51, 8, 1, 2, 3, 60, 61, 9, 1, 2, 3];
        assert_eq!(proposed(&text, 2), [50, 51]);
        assert_eq!(suffix(&text).propose(&[], 2).matched, 4);
    }

    #[test]
    fn of_equals_the_newest_wins() {
        assert_eq!(proposed(&[1, 2, 3, 50, 7, 1, 2, 3, 60, 8, 1, 2, 3], 1), [60]);
    }

    #[test]
    fn below_the_least_match_it_is_silent() {
        assert_eq!(proposed(&[5, 2, 3, 50, 6, 2, 3], 4), [0u32; 0]);
        assert_eq!(proposed(&[2, 3], 4), [0u32; 0]);
        assert_eq!(proposed(&[], 4), [0u32; 0]);
        assert!(!suffix(&[5, 2, 3, 50, 6, 2, 3]).propose(&[], 4).span_available);
    }

    #[test]
    fn a_copy_is_as_long_as_the_least_of_its_bounds() {
        let text: Vec<u32> = (0..40).chain([100, 101]).chain(0..3).collect();
        // Twice the match of three, but at least four.
        assert_eq!(proposed(&text, 100), (3..9).collect::<Vec<_>>());
        assert_eq!(proposed(&text, 2), [3, 4]);
        assert_eq!(proposed(&text, 0), [0u32; 0]);
        let mut one = Suffix::new(1, 64);
        one.sync(&[7, 1, 2, 3, 4, 5, 9, 7]);
        assert_eq!(one.propose(&[], 100).tokens, [1, 2, 3, 4]);
    }

    #[test]
    fn a_periodic_text_is_continued_with_its_period() {
        assert_eq!(proposed(&[5; 12], 4), [5; 4]);
        let text: Vec<u32> = [1, 2, 3].repeat(6);
        assert_eq!(proposed(&text, 5), [1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_continuation_extends_the_query_and_is_never_indexed() {
        let s = suffix(&[1, 2, 3, 4, 5, 6, 9, 1, 2]);
        assert_eq!(s.propose(&[3, 4], 2).tokens, [5, 6]);
        assert_eq!(s.propose(&[30, 31, 32, 33, 30, 31, 32], 2).tokens, [0u32; 0]);
        // And the lookup left no trace.
        assert_eq!(s.propose(&[3, 4], 2).tokens, [5, 6]);
    }

    #[test]
    fn more_than_eight_occurrences_are_compared() {
        // The one with the longest match is the oldest of eleven.
        let mut text = vec![70, 71, 1, 2, 3, 42];
        for i in 0..10 {
            text.extend([80 + i, 1, 2, 3, 90 + i]);
        }
        text.extend([70, 71, 1, 2, 3]);
        assert_eq!(proposed(&text, 1), [42]);
    }

    #[test]
    fn a_scan_is_bounded() {
        let mut text = vec![70, 71, 1, 2, 3, 42];
        for i in 0..200 {
            text.extend([1_000 + i, 1, 2, 3, 2_000 + i]);
        }
        text.extend([70, 71, 1, 2, 3]);
        // The oldest is out of reach: the newest of the rest is taken.
        assert_eq!(proposed(&text, 1), [2_199]);
    }

    #[test]
    fn another_history_is_indexed_afresh() {
        let mut s = suffix(&[1, 2, 3, 40, 9, 1, 2, 3]);
        s.sync(&[1, 2, 3, 41, 9, 1, 2, 3]);
        assert_eq!(s.propose(&[], 1).tokens, [41]);
        s.sync(&[1, 2]);
        assert!(s.propose(&[], 1).is_empty());
    }

    /// The rule without an index: the longest match of at most 64 tokens, the newest among equals.
    fn plainly(text: &[u32], min: usize) -> Option<(usize, usize)> {
        let len = text.len();
        let shared = |end: usize| (1..=end.min(64)).take_while(|k| text[end - k] == text[len - k]).count();
        (min..len).map(|end| (end, shared(end))).filter(|(_, n)| *n >= min).max_by_key(|&(end, n)| (n, end))
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_plain_search_finds(
            text in prop::collection::vec(0u32..4, 0..60),
            min in 1usize..10,
            cuts in prop::collection::vec(0usize..60, 0..4),
        ) {
            let mut s = Suffix::new(min, 64);
            // However the text grew.
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).collect();
            cuts.sort_unstable();
            for c in cuts {
                s.sync(&text[..c]);
            }
            s.sync(&text);
            let found = s.find(&Context { committed: &text, continuation: &[] });
            prop_assert_eq!(found, plainly(&text, min));
        }

        /// Proposals never change with what was looked up before.
        #[test]
        fn lookups_leave_no_trace(text in prop::collection::vec(0u32..3, 0..50), probe in prop::collection::vec(0u32..3, 0..9)) {
            let s = suffix(&text);
            let before = s.propose(&[], 8);
            s.propose(&probe, 8);
            prop_assert_eq!(s.propose(&[], 8), before);
        }
    }
}
