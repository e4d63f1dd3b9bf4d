//! What lies over a view: help, a request's detail, a question.

use super::super::keys::Keys;
use super::super::model::help::{HelpPage, help_lines, wrap};
use super::super::model::{Ask, Confirm, State};
use super::super::text::columns;
use super::super::theme::Label;
use super::layout::centred;
use super::{Canvas, detail as detail_view};
use ratatui::layout::Rect;

/// Every key that matches the search, the explanation beside it.
pub fn help(keys: &Keys, query: &str, scroll: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let page = HelpPage::of(body.width, body.height);
    let area = centred(body, page.width, body.height);
    let inside = canvas.window(area, "Keys");
    if inside.height < 2 {
        return;
    }
    canvas.pieces(
        inside.x,
        inside.y,
        inside.width,
        &[("search: ", Label::Head), (query, Label::Strong), ("_", Label::Key)],
    );
    let (lines, keys) = help_lines(keys, query, page);
    if lines.is_empty() {
        canvas.put(inside.x, inside.y + 1, inside.width, "no key does that", Label::Dim);
        return;
    }
    let room = inside.width.saturating_sub(keys + 2);
    let first = scroll.min(lines.len().saturating_sub(page.rows));
    for (i, line) in lines.iter().skip(first).take(page.rows).enumerate() {
        let y = inside.y + 1 + i as u16;
        canvas.put(inside.x, y, keys, &line.keys, Label::Key);
        canvas.put(inside.x + keys + 2, y, room, &line.text, Label::Text);
    }
    let below = lines.len().saturating_sub(first + page.rows);
    if below > 0 {
        let more = format!(" {below} more lines: Down, C-d ");
        canvas.put(area.x + 2, area.bottom() - 1, area.width.saturating_sub(4), &more, Label::Dim);
    }
}

/// One request in a window.
pub fn detail(state: &State, id: &str, canvas: &mut Canvas<'_>, body: Rect) {
    let Some(seen) = state.shown() else { return };
    let found = seen.snapshot.requests.shown.iter().find(|request| request.id == id);
    let width = body.width.min(72);
    let height = found.map_or(1, |request| detail_view::height(seen, request, width.saturating_sub(4)));
    let inside = canvas.window(centred(body, width, height + 2), id);
    match found {
        Some(request) => detail_view::draw(seen, request, canvas, inside),
        None => {
            canvas.put(inside.x, inside.y, inside.width, "it has left the engine; Esc closes this", Label::Dim);
        }
    }
}

/// What a command wrote.
pub fn output(title: &str, lines: &[String], scroll: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let inside = canvas.window(body, title);
    let rows = usize::from(inside.height);
    let first = scroll.min(lines.len().saturating_sub(rows));
    for (i, line) in lines.iter().skip(first).take(rows).enumerate() {
        canvas.put(inside.x, inside.y + i as u16, inside.width, line, Label::Text);
    }
    if lines.len() > rows && body.height > 2 {
        let shown = format!(" {} to {} of {} ", first + 1, (first + rows).min(lines.len()), lines.len());
        canvas.put(body.x + 2, body.bottom() - 1, body.width.saturating_sub(4), &shown, Label::Dim);
    }
}

/// A question with two buttons; the one that does nothing is marked first.
pub fn confirm(confirm: &Confirm, canvas: &mut Canvas<'_>, body: Rect) {
    let widest = if matches!(confirm.ask, Ask::Run { .. }) { 84 } else { 64 };
    let room = usize::from(body.width.clamp(12, widest) - 4);
    let (title, question, about, buttons) = match &confirm.ask {
        Ask::CancelRequest { request, about } => {
            let lost = "Work done on it is lost; its client gets an error.".to_string();
            let about = vec![about.clone(), lost];
            ("Cancel a request", format!("Cancel {request}?"), about, ["keep it", "cancel it"])
        }
        Ask::Run { line, about } => {
            // A table's line that fits keeps its columns.
            let lines = |line: &String| if columns(line) <= room { vec![line.clone()] } else { wrap(line, room) };
            let about = about.iter().flat_map(lines).collect();
            ("Change something", format!("Run {line}?"), about, ["leave it", "do it"])
        }
    };
    let question = wrap(&question, room);
    // The border, a blank line and the buttons are always seen: what it is about gives way.
    let height = (question.len() + about.len() + 4).min(usize::from(body.height)) as u16;
    let inside = canvas.window(centred(body, widest, height), title);
    if inside.height == 0 {
        return;
    }
    let texts = question.iter().map(|text| (text, Label::Strong)).chain(about.iter().map(|text| (text, Label::Text)));
    let y = inside.bottom() - 1;
    for (i, (text, label)) in texts.take(usize::from(inside.height.saturating_sub(1))).enumerate() {
        canvas.put(inside.x, inside.y + i as u16, inside.width, text, label);
    }
    let mut x = inside.x;
    for (text, marked) in [(buttons[0], !confirm.yes), (buttons[1], confirm.yes)] {
        let sign = if marked { canvas.glyphs().pointer } else { " " };
        let button = format!("{sign}[ {text} ]");
        let used = canvas.put(x, y, inside.width, &button, if marked { Label::Strong } else { Label::Dim });
        if marked {
            canvas.restyle(Rect { x: x + 1, y, width: used.saturating_sub(1), height: 1 }, Label::Selected);
        }
        x += used + 2;
    }
}
