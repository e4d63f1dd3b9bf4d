//! A passage that goes on alike behind a difference.
//!
//! In a list of records, the passage that was being copied ends where a value differs: behind the new value nothing of
//! `ngram_min` tokens matches until so many have been computed one by one. But the last token or two do match, and so does
//! the text before the value:
//!
//! ```text
//! earlier     {"name": "Ada    ", "age":
//! now         {"name": "Mira   ", ?
//! ```
//!
//! So an earlier occurrence of the last token counts when, in front of what it shares, at most [`GAP`] tokens on either
//! side are passed over and enough are alike again.

use super::hash::Context;

/// Most tokens that are passed over, on either side.
const GAP: usize = 12;
/// Occurrences of the last token that are looked at, newest first.
const SCAN: usize = 16;
/// Fewest tokens alike before the gap: fewer are alike somewhere in any text.
const LEAST: usize = 3;
/// Tokens before the gap beyond which a longer match is no better.
const ENOUGH: usize = 16;

/// Where the best such passage goes on, and how many tokens it shares on both sides of the gap: the one with most alike
/// before the gap, then with the narrowest gap, then the newest. `ends`: where the last token ends earlier, newest first.
pub(super) fn bridge(text: &Context<'_>, ends: impl Iterator<Item = usize>, least: usize) -> Option<(usize, usize)> {
    let (len, least) = (text.len(), least.max(LEAST));
    let mut best: Option<((usize, usize), (usize, usize))> = None;
    for end in ends.take(SCAN) {
        let shared = text.shared_before(end, len, least);
        // A collision of hashes.
        if shared == 0 {
            continue;
        }
        let (there, here) = (end - shared, len - shared);
        let gaps = (0..=GAP.min(there)).flat_map(|a| (0..=GAP.min(here)).map(move |b| (a, b))).skip(1);
        // Beyond a gap that leads back to the earlier passage the text would be compared with itself.
        for (a, b) in gaps.filter(|(a, b)| there - a < here - b) {
            let before = text.shared_before(there - a, here - b, ENOUGH);
            let rank = (before, 2 * GAP - a - b);
            if before >= least && best.is_none_or(|(top, _)| rank > top) {
                best = Some((rank, (end, shared + before)));
            }
        }
    }
    best.map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::super::{Proposer, Source, Suffix};

    fn proposed(text: &[u32], budget: usize) -> (Vec<u32>, Source) {
        let mut s = Suffix::new(3, 64);
        s.sync(text);
        let p = s.propose(&[], budget);
        (p.tokens, p.copied)
    }

    #[test]
    fn a_new_value_does_not_end_the_copy_of_a_form() {
        // 1 2 3 VALUE 4 5 6: the value is another and longer, and behind it only the 4 matches.
        let text = [1, 2, 3, 90, 4, 5, 6, 7, 8, 1, 2, 3, 91, 92, 4];
        assert_eq!(proposed(&text, 8), (vec![5, 6, 7, 8], Source::CopyBridged));
        assert_eq!(proposed(&text, 2).0, [5, 6]);
    }

    #[test]
    fn of_two_forms_the_one_with_most_before_the_value_is_followed() {
        let text = [9, 1, 2, 3, 90, 4, 50, 51, 8, 1, 2, 3, 93, 4, 60, 61, 9, 1, 2, 3, 91, 92, 4];
        assert_eq!(proposed(&text, 2).0, [50, 51]);
    }

    #[test]
    fn a_difference_wider_than_the_gap_is_none() {
        let text = |n: u32| -> Vec<u32> {
            [1, 2, 3, 90, 4, 5, 6, 7, 8, 1, 2, 3].into_iter().chain(100..100 + n).chain([4]).collect()
        };
        assert_eq!(proposed(&text(12), 1).0, [5]);
        assert_eq!(proposed(&text(13), 1).0, [0u32; 0]);
    }

    #[test]
    fn the_same_token_elsewhere_is_no_passage() {
        assert!(proposed(&[1, 2, 3, 90, 4, 5, 6, 31, 32, 33, 91, 4], 4).0.is_empty());
        assert!(proposed(&[4, 4], 4).0.is_empty());
    }
}
