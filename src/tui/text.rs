//! Text on its way to the terminal: made harmless, cut to columns, numbers made readable.

use super::glyphs::Glyphs;
use ratatui::style::Style;
use ratatui::text::Span;
use std::borrow::Cow;

/// Makes `text` safe to draw: control bytes (a name can carry an escape sequence), characters that reorder or hide
/// their neighbours, and in an ASCII terminal everything beyond ASCII, become one visible sign each.
pub fn neutral<'a>(text: &'a str, glyphs: &Glyphs) -> Cow<'a, str> {
    let unsafe_here = |c: char| is_unsafe(c) || (glyphs.ascii && !c.is_ascii());
    if !text.contains(unsafe_here) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if unsafe_here(c) { glyphs.replaced } else { c }).collect())
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The columns that `text` takes.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// `text` cut to at most `width` columns; what does not fit is announced by an ellipsis. Wide characters are never
/// cut in half.
pub fn fit<'a>(text: &'a str, width: usize, glyphs: &Glyphs) -> Cow<'a, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    if width == 0 {
        return Cow::Borrowed("");
    }
    let span = Span::raw(text);
    let mut kept = String::new();
    let mut used = 0;
    for grapheme in span.styled_graphemes(Style::new()) {
        let wide = columns(grapheme.symbol);
        if used + wide > width - 1 {
            break;
        }
        used += wide;
        kept.push_str(grapheme.symbol);
    }
    kept.push_str(glyphs.ellipsis);
    Cow::Owned(kept)
}

/// The end of `text` in at most `width` columns, for what is told apart by its end: what goes is announced by an ellipsis.
pub fn end_of<'a>(text: &'a str, width: usize, glyphs: &Glyphs) -> Cow<'a, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut rests = text.char_indices().map(|(at, _)| &text[at..]);
    let rest = rests.find(|rest| columns(rest) < width).unwrap_or_default();
    Cow::Owned(if width == 0 { String::new() } else { format!("{}{rest}", glyphs.ellipsis) })
}

/// A time span for people, in at most five columns: `8ms`, `420ms`, `1.9s`, `58s`, `3m20`, `2h05`, `4d`.
pub fn duration(ms: f64) -> String {
    if !ms.is_finite() || ms < 0.0 {
        return "?".to_string();
    }
    let s = ms / 1000.0;
    match s {
        _ if ms < 10.0 => format!("{ms:.1}ms"),
        _ if ms < 999.5 => format!("{ms:.0}ms"),
        _ if s < 9.95 => format!("{s:.1}s"),
        _ if s < 99.5 => format!("{s:.0}s"),
        _ if s < 3600.0 => format!("{:.0}m{:02.0}", (s / 60.0).floor(), (s % 60.0).floor()),
        _ if s < 86_400.0 => format!("{:.0}h{:02.0}", (s / 3600.0).floor(), ((s % 3600.0) / 60.0).floor()),
        _ => format!("{:.0}d", (s / 86_400.0).floor()),
    }
}

/// A time span in steps coarse enough that a screen full of them stays still: `5s`, `40s`, `3m`, `2h`.
pub fn coarse(ms: f64) -> String {
    let s = (ms / 1000.0).max(0.0);
    match s {
        _ if s < 1.0 => "<1s".to_string(),
        _ if s < 10.0 => format!("{:.0}s", s.floor()),
        _ if s < 60.0 => format!("{:.0}s", (s / 10.0).floor() * 10.0),
        _ if s < 3600.0 => format!("{:.0}m", (s / 60.0).floor()),
        _ if s < 86_400.0 => format!("{:.0}h", (s / 3600.0).floor()),
        _ => format!("{:.0}d", (s / 86_400.0).floor()),
    }
}

/// A count with thin groups: `12 345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Bytes in binary units: `812 MiB`, `1.2 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit >= 3 && value < 99.5 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A plain number in at most five columns: `0.4`, `56.1`, `410`, `12.3k`.
pub fn short(n: f64) -> String {
    match n.abs() {
        a if !a.is_finite() => "?".to_string(),
        a if a < 99.95 => format!("{n:.1}"),
        a if a < 9_999.5 => format!("{n:.0}"),
        a if a < 999_950.0 => format!("{:.1}k", n / 1e3),
        _ => format!("{:.1}M", n / 1e6),
    }
}

/// A ratio in percent: `82%`.
pub fn percent(ratio: f64) -> String {
    format!("{:.0}%", ratio.clamp(0.0, 9.99) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::glyphs::{ASCII, UNICODE};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_bytes_and_reordering_characters_are_replaced() {
        assert_eq!(neutral("a\x1b[31mb\u{7}\r\n", &UNICODE), "a\u{fffd}[31mb\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(neutral("a\u{9b}2Jb\u{202e}c\u{200b}", &UNICODE), "a\u{fffd}2Jb\u{fffd}c\u{fffd}");
        assert_eq!(neutral("modèle 模型", &ASCII), "mod?le ??");
        assert!(matches!(neutral("modèle 模型", &UNICODE), Cow::Borrowed(_)));
    }

    #[test]
    fn a_cut_never_splits_a_wide_character() {
        assert_eq!(fit("模型模型", 8, &UNICODE), "模型模型");
        assert_eq!(fit("模型模型", 7, &UNICODE), "模型模…");
        assert_eq!(fit("模型模型", 6, &UNICODE), "模型…");
        assert_eq!(fit("abc", 0, &UNICODE), "");
        assert_eq!(fit("abc", 1, &ASCII), "~");
    }

    #[test]
    fn numbers_read_well() {
        let spans = [0.4, 8.0, 420.0, 999.7, 1900.0, 58_000.0, 200_000.0, 7_500_000.0, 4e8];
        let read = spans.map(duration);
        assert_eq!(read, ["0.4ms", "8.0ms", "420ms", "1.0s", "1.9s", "58s", "3m20", "2h05", "4d"]);
        assert_eq!([300.0, 5_400.0, 47_000.0, 200_000.0].map(coarse), ["<1s", "5s", "40s", "3m"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([900, 851_443_712, 1_288_490_189].map(bytes), ["900 B", "812 MiB", "1.2 GiB"]);
        assert_eq!([0.44, 56.1, 410.2, 12_345.0, 3e6].map(short), ["0.4", "56.1", "410", "12.3k", "3.0M"]);
        assert_eq!(duration(f64::NAN), "?");
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_never_a_control_character(text in any::<String>(), ascii in any::<bool>()) {
            let glyphs = Glyphs::for_ascii(ascii);
            let safe = neutral(&text, &glyphs);
            prop_assert!(!safe.chars().any(char::is_control));
            prop_assert!(!ascii || safe.is_ascii());
        }

        #[test]
        fn a_cut_fits(text in any::<String>(), width in 0usize..30) {
            let safe = neutral(&text, &UNICODE).into_owned();
            prop_assert!(columns(&fit(&safe, width, &UNICODE)) <= width);
            prop_assert!(columns(&end_of(&safe, width, &UNICODE)) <= width);
        }

        #[test]
        fn durations_stay_in_five_columns(ms in 0.0f64..8e10) {
            prop_assert!(duration(ms).len() <= 5, "{}", duration(ms));
        }
    }
}
