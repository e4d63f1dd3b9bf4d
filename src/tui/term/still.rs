//! One frame as text, for where there is no terminal: what a console would show now.

use super::super::model::{Msg, Playback, State, update};
use super::super::text::columns;
use super::super::view;
use super::Options;
use super::surface::Surface;
use crate::client::Tape;
use crate::control::Snapshot;
use crate::control::knobs::Knobs;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::fmt::Write;
use std::sync::Arc;

/// The width that a reader who says nothing gets.
const WIDTH: u16 = 100;
/// The height where `inline` says none.
const HEIGHT: u16 = 16;

/// A snapshot in one of the views; `knobs` is needed for Settings.
pub fn still(snapshot: Arc<Snapshot>, knobs: Option<Arc<Knobs>>, options: &Options) -> String {
    let mut state = empty(options);
    let knobs = knobs.map(|knobs| Msg::Knobs(Ok(knobs)));
    for msg in [Msg::Fresh { snapshot, received_ms: 0, missed: 0 }].into_iter().chain(knobs) {
        state = update(state, msg).0;
    }
    text(&state, options)
}

/// A recorded session, `from_ms` after its beginning.
pub fn still_of_tape(tape: Arc<Tape>, from_ms: u64, options: &Options) -> String {
    let mut playback = Playback::new(tape);
    if from_ms > playback.at_ms() {
        playback.seek(from_ms);
    }
    let mut state = empty(options);
    state.play(playback);
    text(&state, options)
}

fn empty(options: &Options) -> State {
    let width = options.facts.get("COLUMNS").and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH);
    let size = Surface::new(options.inline).fit((width, options.inline.unwrap_or(HEIGHT)));
    State::new(options.view, options.read_only, size)
}

/// The frame's lines without the blanks at their ends, and without the hints: no key can be pressed.
fn text(state: &State, options: &Options) -> String {
    let (width, height) = state.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let area = buffer.area;
    view::draw(state, &options.look(), area, &mut buffer);
    let mut out = String::new();
    for y in 0..height.saturating_sub(1) {
        let (mut line, mut x) = (String::new(), 0);
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += (columns(symbol) as u16).max(1);
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
    out
}
