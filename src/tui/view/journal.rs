//! Journal: who changed which settings when, and why; the newest first.

use super::super::model::settings::{entries, entry_lines};
use super::super::model::{Seen, State, Target};
use super::super::text::{coarse, end_of};
use super::super::theme::Label;
use super::layout::{Column, first_row, place};
use super::{Canvas, overview};
use crate::control::changes::{Entry, EntryKind};
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy)]
enum Id {
    Revision,
    Ago,
    Kind,
    Actor,
    What,
    Reason,
}

const COLUMNS: [Column<Id>; 6] = [
    Column::right(Id::Revision, "REV", 5, 0),
    Column::right(Id::Ago, "AGO", 4, 0),
    Column::left(Id::Kind, "KIND", 6, 6, 3),
    Column::left(Id::Actor, "WHO", 10, 16, 1),
    Column::left(Id::What, "WHAT", 44, 70, 0),
    Column::left(Id::Reason, "WHY", 16, 60, 2),
];

/// Below this width what was changed has to do with less.
const NARROW: u16 = 72;

/// Lines under the table for what is known of the selected entry.
const ABOUT: u16 = 4;

/// Draws the view.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    let all = entries(&seen.snapshot);
    if all.is_empty() {
        let text = "nothing was changed yet: settings are as the engine was started";
        canvas.put(body.x + 2, body.y + 1, body.width.saturating_sub(3), text, Label::Dim);
        return;
    }
    let mut columns = COLUMNS;
    if body.width < NARROW {
        columns[4].min = 16;
    }
    let slots = place(&columns, body.x + 2, body.width.saturating_sub(3));
    for slot in &slots {
        overview::head(slot, body.y, canvas);
    }
    let about = if body.height >= 14 { ABOUT + 1 } else { 0 };
    let rows = usize::from(body.height.saturating_sub(1 + about));
    let selected = state.settings.entry.index();
    let first = first_row(selected, all.len(), rows);
    for (i, entry) in all.iter().enumerate().skip(first).take(rows) {
        let row = Rect { y: body.y + 1 + (i - first) as u16, height: 1, ..body };
        for slot in &slots {
            let (mut text, label) = cell(seen, entry, slot.id, canvas.glyphs().ascii);
            if let Id::What = slot.id {
                // The value is at the end, and the end of a name tells it from others.
                text = end_of(&text, usize::from(slot.width), canvas.glyphs()).into_owned();
            }
            if slot.right {
                canvas.put_right(slot.x, row.y, slot.width, &text, label);
            } else {
                canvas.put(slot.x, row.y, slot.width, &text, label);
            }
        }
        if i == selected {
            canvas.put(row.x, row.y, 1, canvas.glyphs().pointer, Label::Key);
            canvas.restyle(row, Label::Selected);
        }
        canvas.hit(row, Target::Entry(entry.revision));
    }
    if let (Some(entry), true) = (all.get(selected), about > 0) {
        let y = body.bottom() - about;
        canvas.rule(body.x, y, body.width, &format!("revision {}", entry.revision), &[]);
        let lines = entry_lines(entry);
        for (i, line) in lines.iter().take_while(|line| !line.is_empty()).take(usize::from(ABOUT)).enumerate() {
            canvas.put(body.x + 2, y + 1 + i as u16, body.width.saturating_sub(3), line, Label::Text);
        }
    }
}

fn cell(seen: &Seen, entry: &Entry, id: Id, ascii: bool) -> (String, Label) {
    match id {
        Id::Revision => (entry.revision.to_string(), Label::Text),
        Id::Ago => (coarse(seen.snapshot.at_ms.saturating_sub(entry.at_ms) as f64), Label::Text),
        Id::Kind => {
            let label = match entry.kind {
                EntryKind::Change | EntryKind::Hand => Label::Text,
                EntryKind::Revert | EntryKind::Expiry => Label::Busy,
                EntryKind::Breach => Label::Warn,
                EntryKind::Start | EntryKind::Head | EntryKind::Effect => Label::Dim,
            };
            (entry.kind.name().to_string(), label)
        }
        Id::Actor => (entry.actor.clone(), Label::Dim),
        Id::What => (what(entry, ascii), Label::Text),
        Id::Reason => (entry.reason.clone().unwrap_or_default(), Label::Dim),
    }
}

fn what(entry: &Entry, ascii: bool) -> String {
    let arrow = if ascii { "->" } else { "→" };
    // The end of a name tells it from others, and room is short.
    let short = |name: &str| name.strip_prefix("models.").unwrap_or(name).to_string();
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_string());
    if let Some(change) = &entry.request {
        return format!("{} {}: {} {arrow} {}", change.what(), change.request, change.from, change.to);
    }
    match entry.changes.as_slice() {
        [] if entry.kind == EntryKind::Start => "the engine was started".to_string(),
        [] => "no setting".to_string(),
        [one] => format!("{} {} {arrow} {}", short(&one.knob), value(&one.from), value(&one.to)),
        [one, rest @ ..] => format!("{} {arrow} {}, and {} more", short(&one.knob), value(&one.to), rest.len()),
    }
}
