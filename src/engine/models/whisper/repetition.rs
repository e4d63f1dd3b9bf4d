//! Text that says one thing over and over: the model in a loop, or somebody who says it again.

use super::segments::split;
use super::tokens::Tokens;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// A text that compresses better than this repeats itself.
const MAX_COMPRESSION: f64 = 2.4;
/// So many tokens that repeat a phrase of at most `LOOP_PHRASE` are a loop: nothing said in a window sounds like that.
pub const LOOP_TOKENS: usize = 32;
const LOOP_PHRASE: usize = 8;
/// Mean log-probability of a text that was heard: above it, a repetition may be one.
const SURE_LOGPROB: f64 = -0.5;
/// No-speech probability of what is no speech, however sure its text: over a beat or a hum the model is sure of its loop.
const NO_SPEECH: f64 = 0.8;
/// Characters a second that nobody speaks.
const FASTEST: f64 = 25.0;
/// How far apart the lengths are in which one says the same, as a part of the longer one.
const UNLIKE: f64 = 0.25;
/// Seconds of a window.
const WINDOW_S: f64 = 30.0;

/// Bytes of a text over bytes of its zlib form.
pub fn compression_ratio(text: &str) -> f64 {
    let mut z = ZlibEncoder::new(Vec::new(), Compression::default());
    match z.write_all(text.as_bytes()).and_then(|()| z.finish()) {
        Ok(packed) => text.len() as f64 / packed.len().max(1) as f64,
        Err(_) => 1.0,
    }
}

/// Whether the newest tokens are one short phrase over and over.
pub fn loops(tokens: &[u32]) -> bool {
    let newest = |phrase: usize| tokens.len().checked_sub(LOOP_TOKENS + phrase).map(|at| &tokens[at..]);
    (1..=LOOP_PHRASE)
        .any(|phrase| newest(phrase).is_some_and(|new| new.iter().zip(&new[phrase..]).all(|(a, b)| a == b)))
}

/// Whether a text of this compression ratio is the model's repetition, and not a speaker's.
pub fn repeats(tokens: &[u32], ratio: f64, avg_logprob: f64, no_speech_prob: f64, t: &Tokens) -> bool {
    let heard = avg_logprob > SURE_LOGPROB && no_speech_prob < NO_SPEECH;
    ratio > MAX_COMPRESSION && !(heard && said_again(tokens, t))
}

/// Whether the text repeats itself in whole segments, each as long as one speaks it and as the others of its words, and
/// otherwise not.
fn said_again(tokens: &[u32], t: &Tokens) -> bool {
    let mut distinct: Vec<(String, f64)> = Vec::new();
    let mut again = false;
    let pieces = split(tokens, WINDOW_S, t).pieces;
    let closed: usize = pieces.iter().map(|piece| piece.tokens.len()).sum();
    for piece in &pieces {
        let (text, length) = (words(&t.decode(&piece.tokens)), piece.end - piece.start);
        // Signs alone are nobody's words.
        if text.is_empty() || text.chars().count() as f64 > FASTEST * length {
            return false;
        }
        match distinct.iter().find(|(known, _)| *known == text) {
            Some((_, other)) if (length - other).abs() > UNLIKE * length.max(*other) => return false,
            Some(_) => again = true,
            None => distinct.push((text, length)),
        }
    }
    // What the window's end cuts short is often the beginning of what was said before.
    let open = words(&t.decode(&tokens[closed.min(tokens.len())..]));
    let mut texts: Vec<&str> = distinct.iter().map(|(text, _)| text.as_str()).collect();
    if !texts.iter().any(|text| text.starts_with(&open)) {
        texts.push(&open);
    }
    again && compression_ratio(&texts.join(" ")) <= MAX_COMPRESSION
}

/// The words of a text: case and signs are a matter of where it stands.
fn words(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric() || c.is_whitespace());
    let lower: String = kept.flat_map(char::to_lowercase).collect();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::segments::tests::at;
    use super::super::tokens::tests::toy;
    use super::*;

    #[test]
    fn repetition_compresses() {
        assert!(compression_ratio(&"and then ".repeat(30)) > MAX_COMPRESSION);
        assert!(compression_ratio("He had, however, a great deal of sense and of taste.") < MAX_COMPRESSION);
        assert_eq!(compression_ratio(""), 0.0);
    }

    #[test]
    fn a_phrase_over_and_over_is_a_loop() {
        let text = |phrase: &[u32], n: usize| phrase.iter().copied().cycle().take(n).collect::<Vec<u32>>();
        assert!(loops(&text(&[7], 33)) && !loops(&text(&[7], 32)));
        assert!(loops(&text(&[1, 2, 3], 35)) && !loops(&text(&[1, 2, 3], 34)));
        assert!(loops(&[&[9, 8, 9][..], &text(&[1, 2, 3], 40)].concat()), "whatever came before it");
        assert!(!loops(&[&text(&[1, 2, 3], 60)[..], &[4]].concat()), "it was left again");
        assert!(!loops(&text(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 90)) && !loops(&[]));
    }

    /// Segments of (start, end, tokens).
    fn timed(t: &Tokens, segments: &[(f64, f64, &[u32])]) -> Vec<u32> {
        segments.iter().flat_map(|(start, end, text)| [&[at(t, *start)], *text, &[at(t, *end)]].concat()).collect()
    }

    #[test]
    fn whole_sentences_of_one_length_are_said_again() {
        let t = toy();
        let (one, other) = (&[0, 1, 2, 5, 6][..], &[7, 8, 9, 10][..]);
        let said = timed(&t, &[(0.0, 2.0, one), (3.0, 5.0, other), (6.0, 8.0, one)]);
        assert!(said_again(&said, &t));
        assert!(!repeats(&said, 3.0, -0.1, 0.3, &t), "somebody's repetition");
        assert!(
            repeats(&said, 3.0, -0.6, 0.3, &t) && repeats(&said, 3.0, -0.1, 0.8, &t),
            "not surely heard, no speech"
        );
        assert!(!repeats(&said, 2.4, -0.6, 0.85, &t), "it does not repeat itself");
        let cut = [&said[..], &[at(&t, 8.0)], &one[..3]].concat();
        assert!(said_again(&cut, &t), "cut short by the end of the window");
    }

    #[test]
    fn loops_are_said_by_nobody() {
        let t = toy();
        let one = &[0, 1, 2, 5, 6][..];
        assert!(!said_again(&timed(&t, &[(0.0, 4.0, one), (4.0, 8.0, one), (8.0, 10.0, one)]), &t), "of other lengths");
        assert!(!said_again(&timed(&t, &[(0.0, 0.1, one), (0.1, 0.2, one)]), &t), "faster than one can speak");
        let many: Vec<u32> = one.iter().copied().cycle().take(60).collect();
        assert!(!said_again(&timed(&t, &[(0.0, 9.0, &many), (9.0, 18.0, &many)]), &t), "within a segment");
        assert!(!said_again(&many, &t) && !said_again(&[], &t), "without times");
        assert!(!said_again(&timed(&t, &[(0.0, 2.0, &[]), (2.0, 4.0, &[])]), &t), "without words");
        let tail = [&timed(&t, &[(0.0, 2.0, one), (2.0, 4.0, one)])[..], &[at(&t, 4.0)], &many[..]].concat();
        assert!(!said_again(&tail, &t), "in what is left open");
    }
}
