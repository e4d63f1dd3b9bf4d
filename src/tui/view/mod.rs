//! Drawing: pure functions of the state and the look onto a buffer. Nothing here changes what it draws.
//!
//! Every text goes through [`Canvas::put`], which makes it harmless, cuts it to its columns and keeps to ASCII where
//! the terminal shows no more.

mod canvas;
mod caps;
mod cards;
mod detail;
mod footer;
mod header;
mod journal;
mod lanes;
mod layout;
mod overlay;
mod overview;
mod panels;
mod requests;
mod routes;
mod settings;
mod speculation;
#[cfg(test)]
mod tests;
mod turn;
mod words;

pub use canvas::Canvas;

use super::glyphs::Glyphs;
use super::model::{Overlay, State, Target, View};
use super::text;
use super::theme::{Label, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// How everything looks: fixed when the console begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    pub theme: Theme,
    pub glyphs: Glyphs,
    /// Progress moves in steps of a tenth; the terminal also draws data once a second only.
    pub reduced_motion: bool,
}

/// A place on the screen that a click means something on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub area: Rect,
    pub target: Target,
}

/// What drawing tells beside the buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drawn {
    pub hits: Vec<Hit>,
    /// Where the terminal's cursor belongs: in a prompt, else hidden.
    pub cursor: Option<Position>,
}

/// Draws `state` onto `area` of `buffer`.
pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) -> Drawn {
    let area = area.intersection(*buffer.area());
    let mut canvas = Canvas::new(buffer, look, area);
    let row = |y: u16| Rect { y: area.y + y, height: 1, ..area }.intersection(area);
    header::draw(state, &mut canvas, row(0));
    if area.height > 2 {
        header::tabs(state, &mut canvas, row(1));
    }
    if area.height > 3 {
        let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
        canvas.within(body, |canvas| draw_body(state, canvas, body));
    }
    let mut cursor = None;
    if area.height > 1 {
        cursor = footer::draw(state, &mut canvas, row(area.height - 1));
    }
    Drawn { hits: canvas.into_hits(), cursor }
}

fn draw_body(state: &State, canvas: &mut Canvas<'_>, body: Rect) {
    match state.shown() {
        None => nothing_yet(state, canvas, body),
        Some(seen) => {
            match state.view {
                View::Overview => overview::draw(state, seen, canvas, body),
                View::Lanes => lanes::draw(state, seen, canvas, body),
                View::Caps => caps::draw(state, seen, canvas, body),
                View::Speculation => speculation::draw(state, seen, canvas, body),
                View::Routes => routes::draw(state, seen, canvas, body),
                View::Requests => requests::draw(state, seen, canvas, body),
                View::Settings => settings::draw(state, seen, canvas, body),
                View::Journal => journal::draw(state, seen, canvas, body),
            }
            if state.stale() {
                canvas.restyle(body, Label::Stale);
            }
        }
    }
    match &state.overlay {
        Some(Overlay::Help { query, scroll }) => overlay::help(&state.keys, query, *scroll, canvas, body),
        Some(Overlay::Detail { request }) => overlay::detail(state, request, canvas, body),
        Some(Overlay::Output { title, lines, scroll }) => overlay::output(title, lines, *scroll, canvas, body),
        Some(Overlay::Confirm(confirm)) => overlay::confirm(confirm, canvas, body),
        None => {}
    }
}

/// The first screen, before a snapshot has come.
fn nothing_yet(state: &State, canvas: &mut Canvas<'_>, body: Rect) {
    let (what, hint) = words::absence(state);
    let y = body.y + body.height / 3;
    let lines = [("waiting for the engine", Label::Strong), (what.as_str(), Label::Text), (hint, Label::Dim)];
    for (i, (text, label)) in lines.into_iter().enumerate() {
        let y = y + i as u16;
        if y < body.bottom() {
            let width = (text::columns(text) as u16).min(body.width.saturating_sub(2));
            canvas.put(body.x + (body.width - width) / 2, y, width, text, label);
        }
    }
}
