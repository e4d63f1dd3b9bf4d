//! Frames in the lines under the prompt: no other screen is opened, and what scrolled by before stays where it was.
//!
//! The lines are made room for by writing them; from then on the cursor rests on the last of them, and a frame goes up from
//! there and rewrites the lines that changed. Only moves relative to the cursor are used: nobody knows which row of the
//! terminal the first line is on.

use super::screen::{BEGIN_FRAME, END_FRAME, blank_halves, width, write_pen};
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use std::fmt::Write;

/// What stands in the lines, as far as we know.
#[derive(Debug, Default)]
pub struct Inline {
    /// Absent: no line is there yet.
    shown: Option<Buffer>,
    /// What stands in the lines is not known: they are cleared first.
    unknown: bool,
    cursor: Option<Position>,
}

impl Inline {
    pub fn new() -> Inline {
        Inline::default()
    }

    /// Paints every line anew, in place.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// Begins again under what the terminal shows now: something else has written there.
    pub fn begin_anew(&mut self) {
        *self = Inline::new();
    }

    /// The bytes that turn the lines into `next`; empty when they are so already.
    pub fn frame(&mut self, mut next: Buffer, cursor: Option<Position>) -> String {
        blank_halves(&mut next);
        let anew = self.unknown || self.shown.as_ref().is_none_or(|shown| shown.area != next.area);
        let same = |y: u16| !anew && self.shown.as_ref().is_some_and(|shown| row(shown, y) == row(&next, y));
        if self.cursor == cursor && (0..next.area.height).all(same) {
            return String::new();
        }
        let mut out = format!("{BEGIN_FRAME}\x1b[?25l\r");
        let up = self.shown.as_ref().map_or(0, |shown| shown.area.height.saturating_sub(1));
        if up > 0 {
            // Writing to a String cannot fail.
            let _ = write!(out, "\x1b[{up}A");
        }
        if anew {
            out.push_str("\x1b[0m\x1b[J");
        }
        for y in 0..next.area.height {
            if !same(y) {
                line(&next, y, &mut out);
            }
            if y + 1 < next.area.height {
                out.push_str("\r\n");
            }
        }
        // Prompts are in the last line, where the cursor is.
        if let Some(at) = cursor {
            let _ = write!(out, "\x1b[{}G\x1b[?25h", at.x + 1);
        }
        out.push_str(END_FRAME);
        (self.shown, self.unknown, self.cursor) = (Some(next), false, cursor);
        out
    }
}

fn row(buffer: &Buffer, y: u16) -> &[ratatui::buffer::Cell] {
    let (columns, y) = (usize::from(buffer.area.width), usize::from(y));
    &buffer.content[y * columns..(y + 1) * columns]
}

/// A line from its first column on; the rest of it is erased.
fn line(buffer: &Buffer, y: u16, out: &mut String) {
    let cells = row(buffer, y);
    let blank =
        |cell: &ratatui::buffer::Cell| cell.symbol() == " " && cell.style() == ratatui::buffer::Cell::EMPTY.style();
    let end = cells.iter().rposition(|cell| !blank(cell)).map_or(0, |last| last + 1);
    out.push_str("\r\x1b[0m\x1b[K");
    let (mut pen, mut x) = (None, 0);
    while x < end {
        let cell = &cells[x];
        let next = (cell.fg, cell.bg, cell.modifier);
        if pen != Some(next) {
            write_pen(next.0, next.1, next.2, out);
            pen = Some(next);
        }
        out.push_str(cell.symbol());
        x += usize::from(width(cell));
    }
    out.push_str("\x1b[0m");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Style};

    fn terminal() -> vt100::Parser {
        vt100::Parser::new(8.try_into().unwrap(), 20.try_into().unwrap(), 100)
    }

    fn text(terminal: &vt100::Parser) -> Vec<String> {
        terminal.screen().contents().lines().map(str::to_string).collect()
    }

    fn buffer(height: u16, lines: &[&str]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, height));
        for (y, line) in lines.iter().enumerate() {
            buffer.set_string(0, y as u16, line, Style::new().fg(Color::Red));
        }
        buffer
    }

    #[test]
    fn what_was_there_before_stays_and_scrolls_on() {
        let mut terminal = terminal();
        for n in 1..=6 {
            terminal.process(format!("before {n}\r\n").as_bytes());
        }
        terminal.process(b"$ top");
        terminal.process(b"\r\n");
        let mut lines = Inline::new();
        terminal.process(lines.frame(buffer(3, &["a", "b", "c"]), None).as_bytes());
        assert_eq!(text(&terminal), ["before 3", "before 4", "before 5", "before 6", "$ top", "a", "b", "c"]);
        let bytes = lines.frame(buffer(3, &["a", "x", "c"]), None);
        assert!(!bytes.contains('a') || !bytes.contains("ma"), "only the line that changed: {bytes:?}");
        terminal.process(bytes.as_bytes());
        assert_eq!(text(&terminal)[4..], ["$ top", "a", "x", "c"]);
        assert_eq!(lines.frame(buffer(3, &["a", "x", "c"]), None), "");
        // Fewer lines: those that were there are taken away.
        terminal.process(lines.frame(buffer(2, &["d", "e"]), None).as_bytes());
        assert_eq!(text(&terminal)[4..], ["$ top", "d", "e"]);
        // After a stop, the shell has written: the lines begin anew below.
        terminal.process(b"\r\nfg\r\n");
        lines.begin_anew();
        terminal.process(lines.frame(buffer(2, &["d", "e"]), None).as_bytes());
        assert_eq!(text(&terminal)[4..], ["e", "fg", "d", "e"]);
    }

    #[test]
    fn a_prompts_cursor_is_shown_where_it_types() {
        let mut terminal = terminal();
        let mut lines = Inline::new();
        terminal.process(lines.frame(buffer(2, &["a", ":x"]), Some(Position { x: 2, y: 1 })).as_bytes());
        assert_eq!((terminal.screen().cursor_position(), terminal.screen().hide_cursor()), ((1, 2), false));
        terminal.process(lines.frame(buffer(2, &["a", ""]), None).as_bytes());
        assert!(terminal.screen().hide_cursor());
    }

    proptest! {
        /// Whatever stood there, the lines show the buffer afterwards, and the line above is left alone.
        #[test]
        fn the_lines_show_what_was_drawn(
            frames in prop::collection::vec(prop::collection::vec("[a-c模 ]{0,9}", 0..4), 1..6), heights in prop::collection::vec(1u16..5, 6)
        ) {
            let mut terminal = terminal();
            terminal.process(b"above\r\n");
            let mut lines = Inline::new();
            for (texts, height) in frames.iter().zip(heights) {
                let texts: Vec<&str> = texts.iter().map(String::as_str).take(usize::from(height)).collect();
                terminal.process(lines.frame(buffer(height, &texts), None).as_bytes());
                let shown = text(&terminal);
                prop_assert_eq!(&shown[0], "above");
                for y in 0..usize::from(height) {
                    let shown = shown.get(y + 1).map_or("", |line| line.trim_end());
                    prop_assert_eq!(shown, texts.get(y).copied().unwrap_or("").trim_end());
                }
            }
        }
    }
}
