//! From a window's tokens to its segments, and to where the next window starts.

use super::tokens::{TIMESTAMP_S, Tokens};

/// A stretch of a window: seconds from the window's start, and its tokens with the times around them.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    pub start: f64,
    pub end: f64,
    pub tokens: Vec<u32>,
}

/// What a window's tokens mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    pub pieces: Vec<Piece>,
    /// Seconds to advance: to the last closed segment when the window ends inside a sentence, else past the window.
    pub advance: f64,
}

/// Splits at pairs of times. `window` is the seconds of audio in the window.
pub fn split(tokens: &[u32], window: f64, t: &Tokens) -> Split {
    let time = |id: u32| f64::from(id - t.timestamps) * TIMESTAMP_S;
    let is_time = |i: usize| t.is_timestamp(tokens[i]);
    let n = tokens.len();
    let single_ending = n >= 2 && is_time(n - 1) && !is_time(n - 2);
    let mut cuts: Vec<usize> = (1..n).filter(|&i| is_time(i) && is_time(i - 1)).collect();
    if cuts.is_empty() {
        let last = tokens.iter().rev().find(|&&id| t.is_timestamp(id)).map(|&id| time(id));
        let end = last.filter(|&s| s > 0.0).unwrap_or(window);
        return Split { pieces: vec![Piece { start: 0.0, end, tokens: tokens.to_vec() }], advance: window };
    }
    if single_ending {
        cuts.push(n);
    }
    let mut pieces = Vec::with_capacity(cuts.len());
    let mut from = 0;
    for &cut in &cuts {
        let part = &tokens[from..cut];
        let edge = |id: Option<&u32>| id.filter(|&&id| t.is_timestamp(id)).map(|&id| time(id));
        let start = edge(part.first()).unwrap_or(0.0);
        let end = edge(part.last()).unwrap_or(window);
        pieces.push(Piece { start, end, tokens: part.to_vec() });
        from = cut;
    }
    // An open segment after the last pair is heard again, whole, by the next window.
    let advance = if single_ending { window } else { time(tokens[from - 1]) };
    Split { pieces, advance }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::models::whisper::tokens::tests::toy;
    use proptest::prelude::*;

    /// The token of a time.
    pub(in crate::engine::models::whisper) fn at(t: &Tokens, s: f64) -> u32 {
        t.timestamps + (s / TIMESTAMP_S).round() as u32
    }

    #[test]
    fn one_closed_segment_takes_the_whole_window() {
        let t = toy();
        let at = |s| at(&t, s);
        let s = split(&[at(0.0), 5, 6, at(2.0)], 3.0, &t);
        assert_eq!(s.advance, 3.0);
        assert_eq!(s.pieces.len(), 1);
        assert_eq!((s.pieces[0].start, s.pieces[0].end), (0.0, 2.0));
    }

    #[test]
    fn an_open_segment_is_left_to_the_next_window() {
        let t = toy();
        let at = |s| at(&t, s);
        let s = split(&[at(0.0), 5, at(12.0), at(12.4), 6, 7], 30.0, &t);
        assert_eq!(s.pieces.len(), 1);
        assert_eq!(s.pieces[0].end, 12.0);
        // The reference goes on from the last closed time.
        assert!((s.advance - 12.0).abs() < 1e-9);
    }

    #[test]
    fn text_without_times_spans_the_window() {
        let t = toy();
        let s = split(&[5, 6], 7.0, &t);
        assert_eq!((s.pieces[0].start, s.pieces[0].end, s.advance), (0.0, 7.0, 7.0));
    }

    proptest! {
        #[test]
        fn every_split_advances_or_says_zero_and_never_panics(
            ids in proptest::collection::vec(0u32..60, 0..40), window in 0.01f64..30.0
        ) {
            let t = toy();
            let s = split(&ids, window, &t);
            prop_assert!(s.advance >= 0.0 && s.advance.is_finite());
            for p in &s.pieces {
                prop_assert!(!p.tokens.is_empty() || ids.is_empty());
            }
        }
    }
}
