//! Settings: every knob with its value, the layer that it comes from, what is left of a lease, and what is allowed.

use super::super::model::help::wrap;
use super::super::model::settings::override_line;
use super::super::model::{Seen, State, Target};
use super::super::text::{coarse, end_of};
use super::super::theme::Label;
use super::layout::{Column, first_row, place};
use super::{Canvas, overview};
use crate::control::knobs::{Knob, Layer};
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy)]
enum Id {
    Name,
    Value,
    Layer,
    Lease,
    Takes,
    Allowed,
}

const COLUMNS: [Column<Id>; 6] = [
    Column::left(Id::Name, "KNOB", 40, 52, 0),
    Column::left(Id::Value, "VALUE", 12, 24, 0),
    Column::left(Id::Layer, "FROM", 12, 12, 1),
    Column::right(Id::Lease, "LEASE", 5, 0),
    Column::left(Id::Takes, "TAKES", 7, 7, 3),
    Column::left(Id::Allowed, "ALLOWED", 14, 60, 2),
];

/// Below this width names have to do with less.
const NARROW: u16 = 72;
/// Rows under the table for what the selected knob is.
const DOC: u16 = 2;

/// Draws the view.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    let settings = &state.settings;
    let Some(knobs) = &settings.knobs else {
        let (text, label) = match &settings.failed {
            Some(why) => (why.as_str(), Label::Bad),
            None => ("asking the engine for its settings", Label::Dim),
        };
        canvas.put(body.x + 2, body.y + 1, body.width.saturating_sub(3), text, label);
        return;
    };
    let mut all = COLUMNS;
    if body.width < NARROW {
        all[0].min = 16;
    }
    let slots = place(&all, body.x + 2, body.width.saturating_sub(3));
    for slot in &slots {
        overview::head(slot, body.y, canvas);
    }
    let doc = if body.height >= 8 { DOC + 1 } else { 0 };
    let rows = usize::from(body.height.saturating_sub(1 + doc));
    let first = first_row(settings.knob.index(), knobs.knobs.len(), rows);
    for (i, knob) in knobs.knobs.iter().enumerate().skip(first).take(rows) {
        let row = Rect { y: body.y + 1 + (i - first) as u16, height: 1, ..body };
        for slot in &slots {
            let (mut text, label) = cell(seen, knob, slot.id, canvas);
            if let Id::Name = slot.id {
                text = end_of(&text, usize::from(slot.width), canvas.glyphs()).into_owned();
            }
            if slot.right {
                canvas.put_right(slot.x, row.y, slot.width, &text, label);
            } else {
                canvas.put(slot.x, row.y, slot.width, &text, label);
            }
        }
        if i == settings.knob.index() {
            canvas.put(row.x, row.y, 1, canvas.glyphs().pointer, Label::Key);
            canvas.restyle(row, Label::Selected);
        }
        canvas.hit(row, Target::Knob(knob.name.clone()));
    }
    if let (Some(knob), true) = (settings.chosen(), doc > 0) {
        let y = body.bottom() - doc;
        let rights = [format!("revision {}", knobs.revision)];
        let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
        canvas.rule(body.x, y, body.width, &knob.name, &rights);
        let room = usize::from(body.width.saturating_sub(3));
        // Who set it live and what ends that comes first: the doc can be opened.
        let live = seen.snapshot.overrides.iter().find(|setting| setting.knob == knob.name);
        let live = live.map(|setting| (override_line(setting), Label::Warn));
        let doc = wrap(&knob.doc, room).into_iter().map(|line| (line, Label::Text));
        for (i, (line, label)) in live.into_iter().chain(doc).take(usize::from(DOC)).enumerate() {
            canvas.put(body.x + 2, y + 1 + i as u16, room as u16, &line, label);
        }
    }
}

fn cell(seen: &Seen, knob: &Knob, id: Id, canvas: &Canvas<'_>) -> (String, Label) {
    let unknown = || canvas.glyphs().unknown.to_string();
    match id {
        Id::Name => (knob.name.clone(), if knob.layer == Layer::Live { Label::Strong } else { Label::Text }),
        Id::Value => match &knob.value {
            Some(value) => (value.clone(), Label::Text),
            None => (unknown(), Label::Dim),
        },
        Id::Layer if knob.layer == Layer::Live => (knob.layer.name().to_string(), Label::Warn),
        Id::Layer => (knob.layer.name().to_string(), Label::Dim),
        Id::Lease => {
            let holds = seen.snapshot.overrides.iter().find(|setting| setting.knob == knob.name);
            (holds.and_then(|setting| setting.left_ms).map(coarse).unwrap_or_default(), Label::Warn)
        }
        Id::Takes => (knob.takes.name().to_string(), Label::Dim),
        Id::Allowed => (knob.envelope.text(), Label::Dim),
    }
}
