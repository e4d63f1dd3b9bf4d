//! Text out of tokens, as it may be shown.
//!
//! Three promises: never half a character, never a part of a stop string, and nothing is lost: what was held back
//! because it might have begun a stop string comes out when it did not. Only the bytes of a character that the end cuts
//! are no text: a sign for them would be one that the model never wrote.

/// What a push or the end released.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Released {
    /// Text that may be shown now.
    pub text: String,
    /// A stop string was found: `text` ends just before it, and nothing follows.
    pub stopped: bool,
}

/// A place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub bytes: usize,
    pub chars: usize,
}

impl Place {
    fn behind(self, text: &str) -> Place {
        Place { bytes: self.bytes + text.len(), chars: self.chars + text.chars().count() }
    }
}

/// Turns the bytes of a token stream into text.
#[derive(Debug, Clone, Default)]
pub struct StreamText {
    stops: Vec<String>,
    /// Bytes of a character that is not whole yet (at most 3).
    partial: Vec<u8>,
    /// Text that may be the beginning of a stop string.
    held: String,
    /// How far the text is decoded, and where the newest token begins in it.
    decoded: Place,
    newest: Place,
    /// Bytes of text released so far.
    released: usize,
    stopped: bool,
}

impl StreamText {
    /// A stream that ends at any of `stops`; empty ones are ignored.
    pub fn new(stops: &[String]) -> Self {
        StreamText { stops: stops.iter().filter(|s| !s.is_empty()).cloned().collect(), ..StreamText::default() }
    }

    /// Where the character begins that has the newest token's first byte; where the text ends if that is not whole yet,
    /// or if the token has no text.
    pub fn newest(&self) -> Place {
        self.newest
    }

    /// Bytes of text released so far.
    pub fn released(&self) -> usize {
        self.released
    }

    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Takes one token's bytes; gives what may be shown.
    pub fn push(&mut self, bytes: &[u8]) -> Released {
        if self.stopped {
            return Released { text: String::new(), stopped: true };
        }
        self.decode(bytes);
        // The earliest stop string wins; of two at one place they end the text alike.
        let hit = self.stops.iter().filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = hit {
            self.stopped = true;
            self.held.truncate(at);
            return self.release(at);
        }
        let keep = self.stops.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0);
        let free = self.held.len() - keep;
        self.release(free)
    }

    /// Takes one token's bytes that no stop string may end in: all whole characters may be shown.
    pub fn pass(&mut self, bytes: &[u8]) -> Released {
        self.decode(bytes);
        let all = self.held.len();
        self.release(all)
    }

    /// The end of the stream: everything held comes out. The bytes of a character that the end cuts are left out.
    pub fn finish(&mut self) -> Released {
        if self.stopped {
            return Released { text: String::new(), stopped: true };
        }
        self.partial.clear();
        let all = self.held.len();
        self.release(all)
    }

    fn add(&mut self, text: &str) {
        self.held.push_str(text);
        self.decoded = self.decoded.behind(text);
    }

    fn release(&mut self, len: usize) -> Released {
        let text: String = self.held.drain(..len).collect();
        self.released += text.len();
        Released { text, stopped: self.stopped }
    }

    /// Moves whole characters from the bytes into the held text; bytes that can begin no character become U+FFFD.
    fn decode(&mut self, bytes: &[u8]) {
        self.newest = self.decoded;
        let earlier = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.partial);
        let mut rest = pending.as_slice();
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.add(text);
                    return;
                }
                Err(e) => {
                    let (good, bad) = rest.split_at(e.valid_up_to());
                    self.add(&String::from_utf8_lossy(good));
                    match e.error_len() {
                        Some(n) => {
                            self.add("\u{fffd}");
                            rest = &bad[n..];
                            if pending.len() - rest.len() == earlier {
                                // What was there cannot go on with this token: its own text comes after.
                                self.newest = self.decoded;
                            }
                        }
                        None => {
                            self.partial = bad.to_vec();
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Length of the longest end of `text` that is a proper beginning of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let most = stop.len().saturating_sub(1).min(text.len());
    (1..=most)
        .rev()
        .find(|&n| stop.is_char_boundary(n) && text.as_bytes()[text.len() - n..] == stop.as_bytes()[..n])
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], pieces: &[&[u8]]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(|s| s.to_string()).collect();
        let mut s = StreamText::new(&stops);
        let mut shown: Vec<String> = pieces.iter().map(|p| s.push(p).text).collect();
        let end = s.finish();
        shown.push(end.text);
        (shown, end.stopped)
    }

    #[test]
    fn characters_come_out_whole() {
        let e = "é".as_bytes();
        assert_eq!(
            run(&[], &[b"caf", &e[..1], &e[1..]]),
            (vec!["caf".into(), "".into(), "é".into(), "".into()], false)
        );
        assert_eq!(run(&[], &[b"\xff\xfea"]).0, ["\u{fffd}\u{fffd}a", ""]);
    }

    #[test]
    fn a_character_that_the_end_cuts_is_left_out_and_a_broken_one_is_shown() {
        let smile = "😀".as_bytes();
        for cut in 1..4 {
            assert_eq!(run(&[], &[b"a", &smile[..cut]]).0, ["a", "", ""]);
            assert_eq!(run(&["ab"], &[b"a", &smile[..cut]]).0, ["", "", "a"], "held text comes out without it");
            assert_eq!(run(&[], &[&smile[..cut], b"a"]).0, ["", "\u{fffd}a", ""]);
        }
    }

    #[test]
    fn tokens_begin_where_their_character_does() {
        let places = |pieces: &[&[u8]]| -> Vec<(usize, usize)> {
            let mut s = StreamText::new(&[]);
            let place = |p: &&[u8]| {
                s.push(p);
                (s.newest().bytes, s.newest().chars)
            };
            pieces.iter().map(place).collect()
        };
        let smile = "😀".as_bytes();
        assert_eq!(places(&["é".as_bytes(), b"b", b"", b"c"]), [(0, 0), (2, 1), (3, 2), (3, 2)]);
        assert_eq!(
            places(&[b"a", &smile[..2], &smile[2..3], &smile[3..], b"b"]),
            [(0, 0), (1, 1), (1, 1), (1, 1), (5, 2)]
        );
        let [head, tail] = [[b"a", &smile[..3]].concat(), [&smile[3..], b"b"].concat()];
        assert_eq!(places(&[&head, b"", &tail, b"c"]), [(0, 0), (1, 1), (1, 1), (6, 3)]);
        // Broken: by the token's first byte, and by a later one.
        assert_eq!(places(&[&smile[..2], b"a", b"b"]), [(0, 0), (3, 1), (4, 2)]);
        assert_eq!(places(&[&smile[..2], b"\x98a", b"b"]), [(0, 0), (0, 0), (4, 2)]);
        assert_eq!(places(&[&smile[..2], b"\xff", b"b"]), [(0, 0), (3, 1), (6, 2)]);
    }

    #[test]
    fn a_stop_string_cuts_just_before() {
        assert_eq!(
            run(&["END"], &[b"one E", b"N", b"D two"]),
            (vec!["one ".into(), "".into(), "".into(), "".into()], true)
        );
    }

    #[test]
    fn a_held_beginning_is_sent_when_it_was_none() {
        assert_eq!(run(&["END"], &[b"EN", b"E", b"ND"]), (vec!["".into(), "EN".into(), "".into(), "".into()], true));
        assert_eq!(run(&["END"], &[b"x EN"]), (vec!["x ".into(), "EN".into()], false));
    }

    #[test]
    fn what_may_not_stop_is_shown_and_is_no_part_of_a_later_stop() {
        let mut s = StreamText::new(&["ab".to_string()]);
        assert_eq!((s.pass(b"xab").text.as_str(), s.pass(b"a").text.as_str()), ("xab", "a"));
        assert_eq!(s.push(b"b").text, "b");
        assert!(s.push(b"cab").stopped);
    }

    #[test]
    fn a_first_token_stop_leaves_nothing() {
        assert_eq!(run(&["Hi"], &[b"Hi there"]), (vec!["".into(), "".into()], true));
    }

    #[test]
    fn empty_stops_are_ignored_and_the_earliest_wins() {
        assert!(!run(&[""], &[b"a"]).1);
        assert_eq!(run(&["cd", "b"], &[b"abcd"]).0[0], "a");
    }

    proptest! {
        /// However the bytes are cut into tokens, the text is the whole text up to the first stop string.
        #[test]
        fn pieces_do_not_matter(text in "[abé€]{0,24}", stop in "[abé]{1,3}", cuts in prop::collection::vec(1usize..4, 0..40)) {
            let mut s = StreamText::new(std::slice::from_ref(&stop));
            let mut shown = String::new();
            let mut rest = text.as_bytes();
            let mut cuts = cuts.into_iter();
            while !rest.is_empty() && !s.stopped() {
                let n = cuts.next().unwrap_or(1).min(rest.len());
                shown += &s.push(&rest[..n]).text;
                prop_assert!(s.newest().bytes <= s.decoded.bytes && s.released() <= s.decoded.bytes);
                rest = &rest[n..];
            }
            shown += &s.finish().text;
            let expected = text.find(&stop).map_or(text.as_str(), |at| &text[..at]);
            prop_assert_eq!(shown, expected);
        }
    }
}
