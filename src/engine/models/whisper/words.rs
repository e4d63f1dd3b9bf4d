//! Word times, from where the decoder's cross-attention looks: a second pass over the window's own text, dynamic time
//! warping over the attention of the heads that follow the audio, and words put together from tokens.

use super::forward::Cross;
use super::rules;
use super::tokens::Tokens;
use super::transcriber::WhisperTranscriber;
use crate::engine::models::backend::Backend;
use crate::engine::models::{ModelError, Segment, Word};
use std::ops::Range;

/// Seconds per encoder position.
const FRAME_S: f64 = 0.02;
/// Width of the median filter over attention, in encoder positions.
const MEDIAN: usize = 7;
/// A word lasts at most twice the window's median, but that is never taken as longer than this.
const TYPICAL_MAX_S: f64 = 0.7;
/// Languages written without spaces: every character is a word.
const UNSPACED: [&str; 6] = ["zh", "ja", "th", "lo", "my", "yue"];
/// Punctuation that belongs to the word after it, and to the word before it.
const LEADING: &str = "\"'“¿([{-";
const TRAILING: &str = "\"'.。,，!！?？:：”)]}、";

impl<B: Backend> WhisperTranscriber<B> {
    /// Adds words to `segments`, which are those of one window in `slot`; `steer` is what its prompt ended with, `offset`
    /// the window's start and `window_s` its length in seconds.
    pub(super) fn add_words(
        &mut self,
        slot: usize,
        steer: &[u32],
        language: Option<&str>,
        (offset, window_s): (f64, f64),
        cross: &Cross<B>,
        segments: &mut [Segment],
    ) -> Result<(), ModelError> {
        let t = &self.tokens;
        let text: Vec<u32> = segments.iter().flat_map(|s| s.tokens.iter().copied()).filter(|&id| id < t.eot).collect();
        if text.is_empty() {
            return Ok(());
        }
        let mut tokens = steer.to_vec();
        tokens.push(t.no_timestamps);
        let first = tokens.len();
        tokens.extend_from_slice(&text);
        tokens.push(t.eot);
        let frames = ((window_s / FRAME_S).ceil() as usize).clamp(1, self.model.dims.audio_ctx);
        let (hidden, scores) =
            self.model.alignment_scores(&tokens, slot, &mut self.kv, cross, &self.alignment_heads, 0..frames)?;
        // The row before a token predicts it.
        let rows: Vec<usize> = (first - 1..first - 1 + text.len()).collect();
        let logits = self.model.logits(&hidden, &rows)?;
        let probabilities: Vec<f64> =
            text.iter().zip(logits.chunks_exact(t.vocab)).map(|(&id, row)| rules::probability(row, id)).collect();

        // Rows of the no-timestamps token and the text; the end token's row closes the last word.
        let matrix = attention(&scores, tokens.len(), frames, first - 1..tokens.len() - 1);
        let starts = token_starts(&matrix, text.len() + 1, frames);
        let time = |i: usize| starts.get(i).map_or(window_s, |&f| f as f64 * FRAME_S);

        let mut words = Vec::new();
        for (word, range) in split_words(t, &text, language.is_some_and(|l| UNSPACED.contains(&l))) {
            let probability = probabilities[range.clone()].iter().sum::<f64>() / range.len() as f64;
            words.push((Word { text: word, start: time(range.start), end: time(range.end), probability }, range));
        }
        let mut lengths: Vec<f64> = words.iter().map(|(w, _)| w.end - w.start).filter(|d| *d > 0.0).collect();
        lengths.sort_unstable_by(f64::total_cmp);
        let longest = 2.0 * lengths.get(lengths.len() / 2).map_or(TYPICAL_MAX_S, |d| d.min(TYPICAL_MAX_S));
        merge_punctuation(&mut words);

        let mut words = words.into_iter().peekable();
        let mut end = 0;
        for s in segments {
            end += s.tokens.iter().filter(|&&id| id < t.eot).count();
            while let Some((mut word, _)) = words.next_if(|(_, range)| range.start < end) {
                // Attention lingers on pauses at the edges of sentences: a word does not.
                if word.end - word.start > longest {
                    match s.words.is_empty() {
                        true => word.start = word.end - longest,
                        false => word.end = word.start + longest,
                    }
                }
                word.start += offset;
                word.end += offset;
                s.words.push(word);
            }
            lengthen(&mut s.words);
            // Words know better than the model's own times where a segment begins and ends.
            if let (Some(first), Some(last)) = (s.words.first(), s.words.last())
                && first.start < last.end
            {
                (s.start, s.end) = (first.start, last.end);
            }
        }
        Ok(())
    }
}

/// Mean over heads of the normalised, smoothed attention; `[rows, frames]` for the wanted rows.
fn attention(scores: &[Vec<f32>], tokens: usize, frames: usize, rows: Range<usize>) -> Vec<f32> {
    let mut mean = vec![0f32; rows.len() * frames];
    for head in scores {
        let mut w = head.clone();
        for row in w.chunks_exact_mut(frames) {
            let max = row.iter().copied().fold(f32::MIN, f32::max);
            row.iter_mut().for_each(|v| *v = (*v - max).exp());
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|v| *v /= sum);
        }
        // Over the tokens, per frame: attention that every token pays to a frame says nothing.
        for f in 0..frames {
            let column = || (0..tokens).map(|r| w[r * frames + f]);
            let m = column().sum::<f32>() / tokens as f32;
            let sd = (column().map(|v| (v - m) * (v - m)).sum::<f32>() / tokens as f32).sqrt().max(1e-8);
            for r in 0..tokens {
                w[r * frames + f] = (w[r * frames + f] - m) / sd;
            }
        }
        for (out, r) in mean.chunks_exact_mut(frames).zip(rows.clone()) {
            let row = &w[r * frames..(r + 1) * frames];
            for (f, slot) in out.iter_mut().enumerate() {
                *slot += median_at(row, f) / scores.len() as f32;
            }
        }
    }
    mean
}

/// Median around `at`, mirrored at the edges.
fn median_at(row: &[f32], at: usize) -> f32 {
    let last = row.len() as isize - 1;
    let mut window = [0f32; MEDIAN];
    for (i, slot) in window.iter_mut().enumerate() {
        let j = (at as isize + i as isize - MEDIAN as isize / 2).abs();
        let j = if j > last { 2 * last - j } else { j };
        *slot = row[j.clamp(0, last) as usize];
    }
    window.sort_unstable_by(f32::total_cmp);
    window[MEDIAN / 2]
}

/// Dynamic time warping of rows (tokens) to frames: the first frame of each row on the best monotonic path.
fn token_starts(matrix: &[f32], rows: usize, frames: usize) -> Vec<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum From {
        Diagonal,
        Up,
        Left,
    }
    let width = frames + 1;
    let mut cost = vec![f32::INFINITY; (rows + 1) * width];
    let mut from = vec![From::Diagonal; (rows + 1) * width];
    cost[0] = 0.0;
    for r in 1..=rows {
        for f in 1..=frames {
            let (diagonal, up, left) =
                (cost[(r - 1) * width + f - 1], cost[(r - 1) * width + f], cost[r * width + f - 1]);
            let (best, way) = if diagonal < up && diagonal < left {
                (diagonal, From::Diagonal)
            } else if up < diagonal && up < left {
                (up, From::Up)
            } else {
                (left, From::Left)
            };
            cost[r * width + f] = best - matrix[(r - 1) * frames + f - 1];
            from[r * width + f] = way;
        }
    }
    let mut starts = vec![0; rows];
    let (mut r, mut f) = (rows, frames);
    while r > 0 && f > 0 {
        starts[r - 1] = f - 1;
        match from[r * width + f] {
            From::Diagonal => (r, f) = (r - 1, f - 1),
            From::Up => r -= 1,
            From::Left => f -= 1,
        }
    }
    starts
}

/// Words with the range of text tokens that each is made of.
fn split_words(t: &Tokens, text: &[u32], unspaced: bool) -> Vec<(String, Range<usize>)> {
    let mut words: Vec<(String, Range<usize>)> = Vec::new();
    let mut from = 0;
    for end in 1..=text.len() {
        let piece = t.decode(&text[from..end]);
        // Half a character: its other bytes are in the next token.
        if piece.contains('\u{fffd}') && end < text.len() {
            continue;
        }
        let punctuation = !piece.trim().is_empty() && piece.trim().chars().all(|c| c.is_ascii_punctuation());
        match words.last_mut() {
            Some((word, range)) if !unspaced && !piece.starts_with(' ') && !punctuation => {
                word.push_str(&piece);
                range.end = end;
            }
            _ => words.push((piece, from..end)),
        }
        from = end;
    }
    words
}

/// A word lasts one encoder position at least, where there is room: one that was given no time takes it from what comes
/// after it, else from what comes before.
fn lengthen(words: &mut [Word]) {
    let short = |w: &Word| w.end - w.start < FRAME_S / 2.0;
    let spare = |w: &Word| w.end - w.start > 1.5 * FRAME_S;
    for i in 0..words.len() {
        if !short(&words[i]) {
            continue;
        }
        if let Some(next) = words.get(i + 1).filter(|next| spare(next) || next.start - words[i].end > FRAME_S / 2.0) {
            let end = words[i].start + FRAME_S;
            (words[i + 1].start, words[i].end) = (next.start.max(end), end);
        } else if let Some(before) = i.checked_sub(1)
            && (spare(&words[before]) || words[i].start - words[before].end > FRAME_S / 2.0)
        {
            words[i].start = words[i].end - FRAME_S;
            words[before].end = words[before].end.min(words[i].start);
        }
    }
}

/// Joins punctuation to the word that it belongs to.
fn merge_punctuation(words: &mut Vec<(Word, Range<usize>)>) {
    let is = |w: &Word, set: &str| {
        let s = w.text.trim();
        !s.is_empty() && s.chars().all(|c| set.contains(c))
    };
    let mut out: Vec<(Word, Range<usize>)> = Vec::with_capacity(words.len());
    for (mut word, mut range) in words.drain(..) {
        if let Some((last, _)) = out.last()
            && is(last, LEADING)
            && last.text.starts_with(' ')
            && let Some((lead, lead_range)) = out.pop()
        {
            word.text = format!("{}{}", lead.text, word.text);
            word.start = lead.start;
            range.start = lead_range.start;
        }
        match out.last_mut() {
            Some((last, last_range)) if is(&word, TRAILING) && !word.text.starts_with(' ') => {
                last.text.push_str(&word.text);
                last_range.end = range.end;
            }
            _ => out.push((word, range)),
        }
    }
    *words = out;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warping_follows_the_bright_path() {
        // Four rows that light up one after the other over twelve frames.
        let (rows, frames) = (4, 12);
        let starts = [0, 3, 7, 10];
        let mut m = vec![-0.5f32; rows * frames];
        for r in 0..rows {
            let end = starts.get(r + 1).copied().unwrap_or(frames);
            m[r * frames + starts[r]..r * frames + end].fill(1.0);
        }
        assert_eq!(token_starts(&m, rows, frames), starts);
        // More tokens than frames still gives a rising answer.
        let many = token_starts(&[0.5; 10 * 3], 10, 3);
        assert!(many.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn the_median_filter_drops_spikes() {
        let mut row = vec![0f32; 20];
        row[10] = 9.0;
        assert!((0..20).all(|f| median_at(&row, f) == 0.0));
        assert_eq!(median_at(&[2.0], 0), 2.0);
    }

    #[test]
    fn no_word_takes_no_time_while_its_neighbours_have_some() {
        let lengthened = |times: &[(f64, f64)]| {
            let word = |&(start, end): &(f64, f64)| Word { text: "a".to_string(), start, end, probability: 1.0 };
            let mut words: Vec<Word> = times.iter().map(word).collect();
            lengthen(&mut words);
            let round = |s: f64| (s * 100.0).round() / 100.0;
            words.iter().map(|w| (round(w.start), round(w.end))).collect::<Vec<_>>()
        };
        assert_eq!(lengthened(&[(0.0, 1.0), (1.0, 1.0), (1.0, 2.0)]), [(0.0, 1.0), (1.0, 1.02), (1.02, 2.0)]);
        assert_eq!(lengthened(&[(0.0, 1.0), (1.0, 1.0), (1.0, 1.02)]), [(0.0, 0.98), (0.98, 1.0), (1.0, 1.02)]);
        assert_eq!(lengthened(&[(0.0, 1.0), (1.0, 1.0), (2.0, 3.0)]), [(0.0, 1.0), (1.0, 1.02), (2.0, 3.0)]);
        assert_eq!(lengthened(&[(0.0, 1.0), (1.0, 1.0)]), [(0.0, 0.98), (0.98, 1.0)]);
        assert_eq!(lengthened(&[(0.0, 0.02), (1.0, 1.0), (1.0, 1.02)]), [(0.0, 0.02), (0.98, 1.0), (1.0, 1.02)]);
        assert_eq!(lengthened(&[(1.0, 1.0)]), [(1.0, 1.0)], "there is no room");
        assert_eq!(lengthened(&[(0.0, 1.0), (1.0, 2.0)]), [(0.0, 1.0), (1.0, 2.0)]);
    }

    #[test]
    fn punctuation_joins_its_word() {
        let word = |s: &str, i: usize| {
            (Word { text: s.to_string(), start: i as f64, end: i as f64 + 1.0, probability: 1.0 }, i..i + 1)
        };
        let mut words = vec![word(" (", 0), word("yes", 1), word(",", 2), word(" no", 3), word(".", 4)];
        merge_punctuation(&mut words);
        let got: Vec<(&str, f64, f64)> = words.iter().map(|(w, _)| (w.text.as_str(), w.start, w.end)).collect();
        assert_eq!(got, [(" (yes,", 0.0, 2.0), (" no.", 3.0, 4.0)]);
        assert_eq!(words[0].1, 0..3);
    }
}
