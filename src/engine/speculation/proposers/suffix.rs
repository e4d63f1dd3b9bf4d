//! The passage that shares the longest stretch of text with what was just said.
//!
//! Where several passages match about as well, they are witnesses of what comes next: the copy goes as far as they agree,
//! since where they part is where the text varies (the values of a table, the names in a form). Where no passage matches
//! directly, since a value has just been put in place of another, one is looked for that goes on alike behind the
//! difference (`bridge`).

use super::bridge::bridge;
use super::hash::{Context, hash};
use super::{Proposal, Proposer, Source};
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

/// An index of every run of some tokens in a text, chained from the newest occurrence to the oldest.
#[derive(Debug, Clone)]
struct Chains {
    /// Length of a run.
    run: usize,
    /// Hash of a run → end of its newest occurrence.
    newest: HashMap<u64, u32>,
    /// End of an occurrence → end of the one before it with the same hash.
    earlier: Vec<u32>,
}

impl Chains {
    fn new(run: usize) -> Chains {
        Chains { run, newest: HashMap::new(), earlier: vec![NONE] }
    }

    /// Takes in the last token of `text`.
    fn note(&mut self, text: &[u32]) {
        let end = text.len();
        let before = end.checked_sub(self.run).map(|from| hash(text[from..].iter().copied()));
        // Texts beyond 4 billion tokens are not indexed further.
        let before = before.zip(u32::try_from(end).ok()).and_then(|(h, end)| self.newest.insert(h, end));
        self.earlier.push(before.unwrap_or(NONE));
    }

    /// Where the last run of `text` ends earlier, newest first. At the very end nothing follows: that is the run itself.
    fn ends<'a>(&'a self, text: &Context<'_>) -> impl Iterator<Item = usize> + 'a {
        let len = text.len();
        let last = len.checked_sub(self.run).map(|from| hash((from..len).map(|i| text.at(i))));
        let first = last.and_then(|h| self.newest.get(&h)).copied();
        let next = |end: &u32| Some(self.earlier[*end as usize]).filter(|end| *end != NONE);
        std::iter::successors(first, next).map(|end| end as usize).filter(move |end| *end < len)
    }
}

/// An index of the committed text by seeds, and by single tokens.
#[derive(Debug, Clone)]
pub struct Suffix {
    ngram_min: usize,
    ngram_max: usize,
    committed: Vec<u32>,
    seeds: Chains,
    tokens: Chains,
}

/// An earlier passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    /// Where what follows it begins.
    end: usize,
    /// Tokens that it shares.
    matched: usize,
}

impl Suffix {
    /// Silent unless `ngram_min` tokens match; matches are measured up to `ngram_max`.
    pub fn new(ngram_min: usize, ngram_max: usize) -> Suffix {
        let ngram_min = ngram_min.clamp(1, MATCH_MAX);
        let ngram_max = ngram_max.clamp(ngram_min, MATCH_MAX);
        let seeds = Chains::new(ngram_min.min(SEED_MAX));
        Suffix { ngram_min, ngram_max, committed: Vec::new(), seeds, tokens: Chains::new(1) }
    }

    fn append(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.committed.push(token);
            self.seeds.note(&self.committed);
            self.tokens.note(&self.committed);
        }
    }

    /// Earlier passages that match, newest first.
    fn matches(&self, text: &Context<'_>) -> Vec<Passage> {
        let measured = |end| Passage { end, matched: text.shared_before(end, text.len(), self.ngram_max) };
        let found = self.seeds.ends(text).take(SCAN).map(measured);
        found.filter(|passage| passage.matched >= self.ngram_min).collect()
    }

    /// What the longest match and those that are at least half as long go on with.
    fn copy(text: &Context<'_>, matches: &[Passage], budget: usize) -> Proposal {
        // Of equals the newest, which is the first.
        let Some(best) = matches.iter().rev().max_by_key(|passage| passage.matched) else { return Proposal::default() };
        let matched = best.matched;
        let n = budget.min((2 * matched).max(COPY_LEAST));
        let mut tokens = text.copy(best.end, n);
        let mut witnesses = matches.iter().filter(|w| w.end != best.end && 2 * w.matched >= matched).peekable();
        let copied = if witnesses.peek().is_none() {
            Source::copied(matched)
        } else {
            let agree = |w: &Passage| tokens.iter().zip(text.copy(w.end, n)).take_while(|(a, b)| **a == *b).count();
            match witnesses.map(agree).min().unwrap_or(0) {
                0 => Source::CopySplit,
                agreed => {
                    tokens.truncate(agreed);
                    Source::CopyAgreed
                }
            }
        };
        Proposal { tokens, native: 0, matched, copied, span_available: true }
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
        let matches = self.matches(&text);
        if !matches.is_empty() {
            return Suffix::copy(&text, &matches, budget);
        }
        match bridge(&text, self.tokens.ends(&text), self.ngram_min) {
            None => Proposal::default(),
            Some((end, matched)) => {
                let tokens = text.copy(end, budget.min(COPY_LEAST));
                Proposal { tokens, native: 0, matched, copied: Source::CopyBridged, span_available: true }
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
    fn a_copy_goes_as_far_as_the_passages_agree() {
        let form = |value: u32| [1, 2, 3, 4, value, 5, 6, 7];
        let text: Vec<u32> = [form(80), form(81), form(82)].concat().into_iter().chain([1, 2, 3]).collect();
        let p = suffix(&text).propose(&[], 8);
        assert_eq!((p.tokens.as_slice(), p.copied), ([4].as_slice(), Source::CopyAgreed));
        // At the value they part: that of the newest is the guess.
        let p = suffix(&text).propose(&[4], 8);
        assert_eq!((p.tokens[0], p.copied), (82, Source::CopySplit));
        // A much longer match needs no witnesses.
        let p = suffix(&[70, 71, 72, 73, 1, 2, 3, 60, 9, 1, 2, 3, 61, 70, 71, 72, 73, 1, 2, 3]).propose(&[], 1);
        assert_eq!((p.tokens.as_slice(), p.copied), ([60].as_slice(), Source::CopyMedium));
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
            let found = s.matches(&Context { committed: &text, continuation: &[] });
            let found = found.iter().rev().max_by_key(|p| p.matched).map(|p| (p.end, p.matched));
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
