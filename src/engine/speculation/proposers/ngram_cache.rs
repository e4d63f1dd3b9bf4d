//! What most often followed the last few tokens.

use super::hash::{Context, hash};
use super::{Proposal, Proposer, Source};
use std::collections::HashMap;

/// Longest run of tokens that is counted.
const ORDER_MAX: usize = 4;
/// Different followers remembered per run; the rarest of the oldest makes place.
const FOLLOWERS: usize = 8;

/// A token that followed a run.
#[derive(Debug, Clone, Copy)]
struct Follower {
    token: u32,
    count: u32,
}

/// Counts of what followed each run of `min` to `max` tokens.
#[derive(Debug, Clone)]
pub struct NgramCache {
    min: usize,
    max: usize,
    committed: Vec<u32>,
    /// Newest last.
    followers: HashMap<u64, Vec<Follower>>,
}

impl NgramCache {
    /// Runs of `min` to `max` tokens, at most 4.
    pub fn new(min: usize, max: usize) -> NgramCache {
        let max = max.clamp(1, ORDER_MAX);
        NgramCache { min: min.clamp(1, max), max, committed: Vec::new(), followers: HashMap::new() }
    }

    fn append(&mut self, tokens: &[u32]) {
        for &token in tokens {
            let len = self.committed.len();
            for order in self.min..=self.max.min(len) {
                let key = hash(self.committed[len - order..].iter().copied());
                count(self.followers.entry(key).or_default(), token);
            }
            self.committed.push(token);
        }
    }

    /// The likeliest follower of a text, and the length of the run that says so.
    fn next(&self, text: &Context<'_>) -> Option<(u32, usize)> {
        let len = text.len();
        (self.min..=self.max.min(len)).rev().find_map(|order| {
            let seen = self.followers.get(&hash((len - order..len).map(|i| text.at(i))))?;
            let total: u64 = seen.iter().map(|f| u64::from(f.count)).sum();
            // Of equals the newest, which is the last.
            let best = seen.iter().max_by_key(|f| f.count)?;
            (2 * u64::from(best.count) >= total).then_some((best.token, order))
        })
    }
}

fn count(seen: &mut Vec<Follower>, token: u32) {
    let before = seen.iter().position(|f| f.token == token).map_or(0, |i| seen.remove(i).count);
    if seen.len() == FOLLOWERS {
        // The first of the rarest is the oldest of them.
        let rarest = seen.iter().enumerate().min_by_key(|(_, f)| f.count).map_or(0, |(i, _)| i);
        seen.remove(rarest);
    }
    seen.push(Follower { token, count: before.saturating_add(1) });
}

impl Proposer for NgramCache {
    fn sync(&mut self, committed: &[u32]) {
        if committed.starts_with(&self.committed) {
            return self.append(&committed[self.committed.len()..]);
        }
        *self = NgramCache::new(self.min, self.max);
        self.append(committed);
    }

    fn propose(&self, continuation: &[u32], budget: usize) -> Proposal {
        let mut ahead = continuation.to_vec();
        let mut matched = 0;
        while ahead.len() < continuation.len() + budget {
            let text = Context { committed: &self.committed, continuation: &ahead };
            let Some((token, order)) = self.next(&text) else { break };
            if matched == 0 {
                matched = order;
            }
            ahead.push(token);
        }
        let tokens = ahead.split_off(continuation.len());
        let copied = Source::copied(matched);
        Proposal { native: 0, matched, copied, span_available: !tokens.is_empty(), tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(min: usize, max: usize, committed: &[u32], continuation: &[u32], budget: usize) -> Vec<u32> {
        let mut c = NgramCache::new(min, max);
        c.sync(committed);
        c.propose(continuation, budget).tokens
    }

    #[test]
    fn the_most_frequent_follower_wins() {
        assert_eq!(proposed(1, 1, &[1, 5, 1, 6, 1, 5, 1, 7, 1, 5, 1], &[], 1), [5]);
    }

    #[test]
    fn the_longest_known_run_decides() {
        // After 2 mostly 9, but after 1 2 always 8.
        let text = [3, 2, 9, 4, 2, 9, 5, 2, 9, 1, 2, 8, 6, 1, 2];
        assert_eq!(proposed(1, 4, &text, &[], 1), [8]);
        assert_eq!(proposed(1, 1, &text, &[], 1), [9]);
    }

    #[test]
    fn of_equals_the_newest_wins_and_a_minority_is_not_proposed() {
        assert_eq!(proposed(1, 1, &[1, 5, 1, 6, 1], &[], 1), [6]);
        assert_eq!(proposed(1, 1, &[1, 5, 1, 6, 1, 7, 1], &[], 1), [0u32; 0]);
    }

    #[test]
    fn drafts_go_on_from_what_they_drafted() {
        assert_eq!(proposed(2, 4, &[0, 0, 2, 3, 9, 1, 7, 8, 2, 3], &[], 4), [9, 1, 7, 8]);
        assert_eq!(proposed(2, 4, &[0, 0, 2, 3, 9, 1, 7, 8, 2, 3], &[9], 2), [1, 7]);
        assert_eq!(proposed(2, 4, &[1], &[], 4), [0u32; 0]);
    }

    #[test]
    fn orders_beyond_four_are_cut() {
        let c = NgramCache::new(9, 99);
        assert_eq!((c.min, c.max), (4, 4));
    }

    #[test]
    fn followers_are_bounded() {
        let mut c = NgramCache::new(1, 1);
        let text: Vec<u32> = (0..100).flat_map(|i| [1, 1_000 + i]).collect();
        c.sync(&text);
        assert!(c.followers.values().all(|f| f.len() <= FOLLOWERS));
        c.sync(&[7, 8, 7]);
        assert_eq!(c.propose(&[], 1).tokens, [8], "another history is counted afresh");
    }
}
