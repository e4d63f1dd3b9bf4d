//! From buffers to bytes: only the cells that changed, with only the codes that the palette allows.

use super::super::text::columns;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier};
use std::fmt::Write;

pub(super) const BEGIN_FRAME: &str = "\x1b[?2026h";
pub(super) const END_FRAME: &str = "\x1b[?2026l";

/// How the terminal draws the next character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pen {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

/// What the terminal shows, as far as we know. Crossterm's own backend would do, but for two things: it writes colour
/// codes (resets) even without colours, and it writes some bytes for a frame in which nothing has changed.
#[derive(Debug)]
pub struct Screen {
    shown: Buffer,
    /// Nothing is known of what the terminal shows: the next frame begins by clearing it.
    unknown: bool,
    pen: Option<Pen>,
    cursor: Option<Position>,
}

impl Screen {
    /// A screen of which nothing is known.
    pub fn new() -> Screen {
        Screen { shown: Buffer::empty(Rect::ZERO), unknown: true, pen: None, cursor: None }
    }

    /// Forgets what is shown: the next frame paints everything.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// The bytes that turn what is shown into `next`; empty when it is shown already.
    pub fn frame(&mut self, mut next: Buffer, cursor: Option<Position>) -> String {
        let mut out = String::new();
        blank_halves(&mut next);
        if self.unknown || self.shown.area != next.area {
            self.unknown = false;
            self.shown = Buffer::empty(next.area);
            self.pen = None;
            self.cursor = None;
            out.push_str("\x1b[?25l\x1b[0m\x1b[2J");
        }
        self.write_cells(&next, &mut out);
        match cursor {
            // Writing cells moves the cursor: a prompt's is put back.
            Some(at) if !out.is_empty() || self.cursor != cursor => {
                let _ = write!(out, "\x1b[{};{}H\x1b[?25h", at.y + 1, at.x + 1);
            }
            None if self.cursor.is_some() => out.push_str("\x1b[?25l"),
            _ => {}
        }
        self.cursor = cursor;
        self.shown = next;
        if out.is_empty() { out } else { format!("{BEGIN_FRAME}{out}{END_FRAME}") }
    }

    fn write_cells(&mut self, next: &Buffer, out: &mut String) {
        let mut at: Option<(u16, u16)> = None;
        for (x, y, cell) in self.shown.diff(next) {
            if at != Some((x, y)) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\x1b[{};{}H", y + 1, x + 1);
            }
            let pen = Pen { fg: cell.fg, bg: cell.bg, modifier: cell.modifier };
            if self.pen != Some(pen) {
                write_pen(pen.fg, pen.bg, pen.modifier, out);
                self.pen = Some(pen);
            }
            out.push_str(cell.symbol());
            let end = x + width(cell);
            // At the right edge terminals differ in where the cursor is: it is placed anew.
            at = (end < next.area.right()).then_some((end, y));
        }
    }
}

impl Default for Screen {
    fn default() -> Self {
        Screen::new()
    }
}

/// What is drawn over the right half of a wide character leaves a blank of its left half, as it does on a terminal:
/// otherwise the differences would count on a character that no terminal shows.
pub(super) fn blank_halves(buffer: &mut Buffer) {
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right().saturating_sub(1) {
            if width(&buffer[(x, y)]) > 1 && buffer[(x + 1, y)].symbol() != " " {
                buffer[(x, y)].set_symbol(" ");
            }
        }
    }
}

pub(super) fn width(cell: &Cell) -> u16 {
    (columns(cell.symbol()) as u16).max(1)
}

pub(super) fn write_pen(fg: Color, bg: Color, modifier: Modifier, out: &mut String) {
    out.push_str("\x1b[0");
    for (one, code) in [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)] {
        if modifier.contains(one) {
            let _ = write!(out, ";{code}");
        }
    }
    write_colour(fg, 30, out);
    write_colour(bg, 40, out);
    out.push('m');
}

/// `base` is 30 for the foreground and 40 for the background.
fn write_colour(colour: Color, base: u8, out: &mut String) {
    let plain = match colour {
        Color::Reset => return,
        Color::Rgb(r, g, b) => {
            let _ = write!(out, ";{};2;{r};{g};{b}", base + 8);
            return;
        }
        Color::Indexed(index) => {
            let _ = write!(out, ";{};5;{index}", base + 8);
            return;
        }
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
    };
    let _ = write!(out, ";{}", base + plain);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::style::Style;

    #[test]
    fn a_frame_that_changes_nothing_writes_nothing() {
        let mut screen = Screen::new();
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 2));
        buffer.set_string(0, 0, "hello", Style::new().fg(Color::Green));
        assert!(screen.frame(buffer.clone(), None).contains("hello"));
        assert_eq!(screen.frame(buffer.clone(), None), "");
        assert!(screen.frame(buffer.clone(), Some(Position { x: 1, y: 1 })).contains("\x1b[2;2H\x1b[?25h"));
        assert_eq!(screen.frame(buffer.clone(), Some(Position { x: 1, y: 1 })), "");
        screen.forget();
        assert!(screen.frame(buffer, None).contains("\x1b[2J"));
    }

    #[test]
    fn without_colours_no_colour_code_is_written() {
        let mut screen = Screen::new();
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
        buffer.set_string(0, 0, "a", Style::new().add_modifier(Modifier::BOLD));
        buffer.set_string(1, 0, "b", Style::new().add_modifier(Modifier::REVERSED));
        let bytes = screen.frame(buffer, None);
        assert!(bytes.contains("\x1b[0;1ma\x1b[0;7mb"), "{bytes:?}");
    }

    fn texts() -> impl Strategy<Value = Vec<(u16, u16, String, bool)>> {
        let text =
            prop::sample::select(vec!["a", "model", "模型", "x模", "━━", "é", "      "]).prop_map(str::to_string);
        prop::collection::vec((0u16..20, 0u16..5, text, any::<bool>()), 0..12)
    }

    proptest! {
        /// Whatever was shown before, a terminal that is given the bytes shows the buffer.
        #[test]
        fn a_terminal_shows_what_was_drawn(frames in prop::collection::vec(texts(), 1..5)) {
            let mut terminal = vt100::Parser::new(5.try_into().unwrap(), 20.try_into().unwrap(), 0);
            let mut screen = Screen::new();
            for texts in frames {
                let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 5));
                for (x, y, text, bold) in texts {
                    let style = if bold { Style::new().add_modifier(Modifier::BOLD) } else { Style::new().fg(Color::Red) };
                    buffer.set_string(x, y, text, style);
                }
                terminal.process(screen.frame(buffer.clone(), None).as_bytes());
                for y in 0..5 {
                    let mut x = 0;
                    while x < 20 {
                        let cell = &buffer[(x, y)];
                        let seen = terminal.screen().cell(y, x).map(|cell| cell.contents().to_string()).unwrap_or_default();
                        let seen = if seen.is_empty() { " ".to_string() } else { seen };
                        let covered = width(cell) > 1 && buffer[(x + 1, y)].symbol() != " ";
                        let wanted = if covered { " " } else { cell.symbol() };
                        prop_assert_eq!(&seen, wanted, "at column {} of row {}", x, y);
                        x += if covered { 1 } else { width(cell) };
                    }
                }
            }
        }
    }
}
