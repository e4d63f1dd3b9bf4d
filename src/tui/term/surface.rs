//! What is drawn on: the whole screen, or some lines under the prompt.

use super::Screen;
use super::inline::Inline;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;

pub enum Surface {
    Whole(Screen),
    /// At most so many lines.
    Lines(Inline, u16),
}

impl Surface {
    pub fn new(inline: Option<u16>) -> Surface {
        match inline {
            Some(lines) => Surface::Lines(Inline::new(), lines),
            None => Surface::Whole(Screen::new()),
        }
    }

    /// The part of a terminal of this size that is drawn on.
    pub fn fit(&self, (width, height): (u16, u16)) -> (u16, u16) {
        match self {
            Surface::Whole(_) => (width, height),
            Surface::Lines(_, lines) => (width, height.min(*lines)),
        }
    }

    /// Paints everything anew.
    pub fn forget(&mut self) {
        match self {
            Surface::Whole(screen) => screen.forget(),
            Surface::Lines(lines, _) => lines.forget(),
        }
    }

    /// After something else has had the terminal.
    pub fn begin_anew(&mut self) {
        match self {
            Surface::Whole(screen) => screen.forget(),
            Surface::Lines(lines, _) => lines.begin_anew(),
        }
    }

    /// The bytes that show `next`; empty when it is shown already.
    pub fn frame(&mut self, next: Buffer, cursor: Option<Position>) -> String {
        match self {
            Surface::Whole(screen) => screen.frame(next, cursor),
            Surface::Lines(lines, _) => lines.frame(next, cursor),
        }
    }
}
