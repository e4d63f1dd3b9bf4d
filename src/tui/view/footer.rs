//! The bottom line: what is being typed, else a message, else what can be done here.

use super::super::model::{PromptKind, State};
use super::super::text;
use super::super::theme::Label;
use super::Canvas;
use ratatui::layout::{Position, Rect};

/// Draws the line; returns where the cursor belongs.
pub fn draw(state: &State, canvas: &mut Canvas<'_>, row: Rect) -> Option<Position> {
    if let Some(prompt) = &state.prompt {
        return Some(draw_prompt(state, prompt.kind, &prompt.text, canvas, row));
    }
    if let Some(toast) = &state.toast {
        let glyphs = canvas.glyphs();
        let (sign, label) = if toast.error { (glyphs.bad, Label::Bad) } else { (glyphs.good, Label::Good) };
        canvas.pieces(
            row.x + 1,
            row.y,
            row.width.saturating_sub(1),
            &[(sign, label), (" ", label), (&toast.text, label)],
        );
        return None;
    }
    let mut x = row.x + 1;
    for (key, verb) in state.keys.hints(state.place()) {
        let needed = (text::columns(key) + 1 + text::columns(verb)) as u16;
        if x + needed > row.right() {
            break;
        }
        canvas.pieces(x, row.y, needed, &[(key, Label::Key), (" ", Label::Dim), (verb, Label::Dim)]);
        x += needed + 2;
    }
    None
}

fn draw_prompt(state: &State, kind: PromptKind, typed: &str, canvas: &mut Canvas<'_>, row: Rect) -> Position {
    let sign = match kind {
        PromptKind::Command => ":",
        PromptKind::Filter | PromptKind::Search => "/",
    };
    canvas.put(row.x, row.y, 1, sign, Label::Key);
    let room = usize::from(row.width.saturating_sub(2)).max(1);
    // The end is what is being typed: a long line shows its end.
    let safe = text::neutral(typed, canvas.glyphs()).into_owned();
    let mut shown = safe.as_str();
    while text::columns(shown) > room {
        let mut rest = shown.chars();
        rest.next();
        shown = rest.as_str();
    }
    let used = canvas.put(row.x + 1, row.y, row.width.saturating_sub(1), shown, Label::Text);
    let x = (row.x + 1 + used).min(row.right().saturating_sub(1));
    // Hints stay beside a short line.
    let mut at = x + 4;
    for (key, verb) in state.keys.hints(state.place()) {
        let needed = (text::columns(key) + 1 + text::columns(verb)) as u16;
        if at + needed > row.right() {
            break;
        }
        canvas.pieces(at, row.y, needed, &[(key, Label::Dim), (" ", Label::Dim), (verb, Label::Dim)]);
        at += needed + 2;
    }
    Position { x, y: row.y }
}
