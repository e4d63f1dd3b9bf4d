//! Every sign the console draws beyond letters, each with its ASCII twin.

/// One set of signs. All of them are one column wide; the two sets have the same shape, so that a layout never
/// depends on which one is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyphs {
    /// Nothing beyond ASCII may be drawn, names included.
    pub ascii: bool,
    pub rule: &'static str,
    pub vertical: &'static str,
    /// Top left, top right, bottom left, bottom right.
    pub corners: [&'static str; 4],
    pub good: &'static str,
    pub busy: &'static str,
    pub warn: &'static str,
    pub bad: &'static str,
    pub off: &'static str,
    pub paused: &'static str,
    /// Marks the selected row.
    pub pointer: &'static str,
    pub ascending: &'static str,
    pub descending: &'static str,
    pub ellipsis: &'static str,
    pub dot: &'static str,
    pub times: &'static str,
    /// Stands for a value that is not known.
    pub unknown: &'static str,
    /// Stands for a character that must not reach the terminal.
    pub replaced: char,
    pub gauge_full: &'static str,
    pub gauge_empty: &'static str,
    /// Nine heights, nothing first.
    pub bars: [&'static str; 9],
}

/// Signs of a terminal that shows Unicode.
pub const UNICODE: Glyphs = Glyphs {
    ascii: false,
    rule: "─",
    vertical: "│",
    corners: ["╭", "╮", "╰", "╯"],
    good: "●",
    busy: "◐",
    warn: "▲",
    bad: "✖",
    off: "○",
    paused: "‖",
    pointer: "▸",
    ascending: "↑",
    descending: "↓",
    ellipsis: "…",
    dot: "·",
    times: "×",
    unknown: "–",
    replaced: '\u{fffd}',
    gauge_full: "━",
    gauge_empty: "─",
    bars: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
};

/// Signs of a terminal that shows ASCII only.
pub const ASCII: Glyphs = Glyphs {
    ascii: true,
    rule: "-",
    vertical: "|",
    corners: ["+", "+", "+", "+"],
    good: "*",
    busy: "~",
    warn: "!",
    bad: "X",
    off: "o",
    paused: "=",
    pointer: ">",
    ascending: "^",
    descending: "v",
    ellipsis: "~",
    dot: "-",
    times: "x",
    unknown: "-",
    replaced: '?',
    gauge_full: "#",
    gauge_empty: ".",
    bars: [" ", "_", ".", ":", "-", "=", "+", "*", "#"],
};

impl Glyphs {
    /// The set for a terminal that shows `ascii` only, or not.
    pub fn for_ascii(ascii: bool) -> Glyphs {
        if ascii { ASCII } else { UNICODE }
    }

    /// The bar for a `ratio` of the full height (clamped to 0–1). Anything above nothing shows at least a line.
    pub fn bar(&self, ratio: f64) -> &'static str {
        let level = if ratio > 0.0 { (ratio.min(1.0) * 8.0).ceil() as usize } else { 0 };
        self.bars[level.min(8)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::text::Span;

    fn all(glyphs: &Glyphs) -> Vec<String> {
        let g = glyphs;
        let single = [
            g.rule,
            g.vertical,
            g.good,
            g.busy,
            g.warn,
            g.bad,
            g.off,
            g.paused,
            g.pointer,
            g.ascending,
            g.descending,
            g.ellipsis,
            g.dot,
            g.times,
            g.unknown,
            g.gauge_full,
            g.gauge_empty,
        ];
        let parts = single.iter().chain(&g.corners).chain(&g.bars).map(|sign| sign.to_string());
        parts.chain([g.replaced.to_string()]).collect()
    }

    #[test]
    fn both_sets_have_one_column_signs_and_the_ascii_set_is_ascii() {
        for sign in all(&UNICODE) {
            assert_eq!(Span::raw(sign.clone()).width(), 1, "{sign}");
        }
        for sign in all(&ASCII) {
            assert!(sign.is_ascii() && sign.len() == 1, "{sign}");
        }
    }

    #[test]
    fn a_bar_shows_something_as_soon_as_there_is_something() {
        assert_eq!(UNICODE.bar(0.0), " ");
        assert_eq!(UNICODE.bar(0.001), "▁");
        assert_eq!(UNICODE.bar(1.0), "█");
        assert_eq!(UNICODE.bar(7.0), "█");
        assert_eq!(UNICODE.bar(f64::NAN), " ");
    }
}
