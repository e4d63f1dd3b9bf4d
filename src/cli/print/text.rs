//! Numbers and names for people. Pure.

use crate::control::Op;
use std::borrow::Cow;

/// `text` with everything that could steer a terminal made visible: control characters (C0, DEL, C1) and characters
/// that reorder what follows. Names come from files and peers; none may move a cursor.
pub fn neutral(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect())
}

/// [`neutral`], but line ends and tabs stay: for text that may have several lines.
pub fn neutral_lines(text: &str) -> Cow<'_, str> {
    let odd = |c: char| !matches!(c, '\n' | '\t') && neutral(c.encode_utf8(&mut [0; 4])) == "\u{fffd}";
    if !text.chars().any(odd) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if odd(c) { '\u{fffd}' } else { c }).collect())
}

/// A span of time given in milliseconds: `0.8 ms`, `12 ms`, `1.24 s`, `2m05s`, `3h07m`, `2d04h`.
pub fn millis(ms: f64) -> String {
    if !ms.is_finite() {
        return "-".into();
    }
    let s = ms / 1000.0;
    match ms {
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 59_995.0 => format!("{s:.2} s"),
        _ => {
            let whole = s.round() as u64;
            let (d, h, m, s) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
            match (d, h) {
                (0, 0) => format!("{m}m{s:02}s"),
                (0, h) => format!("{h}h{m:02}m"),
                (d, h) => format!("{d}d{h:02}h"),
            }
        }
    }
}

/// A cost in its operation's unit: a span of audio, or tokens.
pub fn cost(op: Op, cost: u64) -> String {
    match op {
        Op::Transcribe => millis(cost as f64),
        Op::Embed | Op::Rerank | Op::Generate => format!("{cost} tok"),
    }
}

/// A size in bytes: `512 B`, `91.2 MiB`.
pub fn bytes(n: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// A rate or count with about three figures: `0.52`, `7.4`, `128`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".into(),
        v if v < 0.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// An optional value, `-` when unknown.
pub fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_string(), show)
}

/// `1 batch`, `2 batches`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_and_sizes_read_well() {
        let cases = [
            (0.04, "0.0 ms"),
            (0.84, "0.8 ms"),
            (9.96, "10 ms"),
            (999.4, "999 ms"),
            (999.6, "1.00 s"),
            (59_990.0, "59.99 s"),
            (59_999.0, "1m00s"),
            (125_000.0, "2m05s"),
            (11_220_000.0, "3h07m"),
            (187_200_000.0, "2d04h"),
            (f64::NAN, "-"),
        ];
        for (ms, text) in cases {
            assert_eq!(millis(ms), text, "{ms}");
        }
        assert_eq!(cost(Op::Transcribe, 3_900) + " " + &cost(Op::Rerank, 3_900), "3.90 s 3900 tok");
        for (n, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (95_630_000, "91.2 MiB"), (u64::MAX, "16777216.0 TiB")]
        {
            assert_eq!(bytes(n), text);
        }
        assert_eq!([figure(0.0), figure(0.52), figure(7.44), figure(128.4)], ["0.00", "0.52", "7.4", "128"]);
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(neutral("plain ünï"), "plain ünï");
        assert_eq!(neutral("a\u{1b}[2Jb\r\n\u{9b}x\u{202e}"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}x\u{fffd}");
        assert_eq!(neutral_lines("a\n\tb\u{1b}"), "a\n\tb\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_neutral_holds_a_control_character(text in "\\PC*|[\\x00-\\x1f\\x7f-\\x9f]{0,8}") {
            prop_assert!(!neutral(&text).chars().any(char::is_control));
        }
    }
}
