//! Requests: the table, and beside it on a wide screen the selected one in detail.

use super::super::model::{Seen, Sort, State, Target};
use super::super::text::{coarse, columns, duration, percent};
use super::super::theme::Label;
use super::layout::{Column, Slot, first_row, place};
use super::{Canvas, detail, words};
use crate::control::Op;
use crate::control::snapshot::{Request, RequestState};
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Request,
    State,
    Model,
    Op,
    Lane,
    Client,
    Cost,
    Waited,
    Ran,
    Place,
    Why,
}

// The first two grow to the longest name there is.
const COLUMNS: [Column<Id>; 11] = [
    Column::left(Id::Request, "REQUEST", 9, 9, 0),
    Column::left(Id::State, "STATE", 11, 11, 0),
    Column::left(Id::Model, "MODEL", 10, 10, 2),
    Column::left(Id::Op, "OP", 10, 10, 7),
    Column::left(Id::Lane, "LANE", 10, 10, 8),
    Column::left(Id::Client, "CLIENT", 10, 16, 9),
    Column::right(Id::Cost, "COST", 9, 5),
    Column::right(Id::Waited, "WAITED", 6, 0),
    Column::right(Id::Ran, "RAN", 5, 4),
    Column::right(Id::Place, "PLACE", 5, 6),
    Column::left(Id::Why, "WHY, OR HOW FAR", 22, 90, 3),
];

/// From this width on, the selected request is shown beside the table.
const WIDE: u16 = 170;
const PANE: u16 = 52;

/// Draws the view.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    let requests = &seen.snapshot.requests.shown;
    let table = &state.table;
    let pane = body.width >= WIDE && body.height >= 12 && state.overlay.is_none();
    let left = if pane { Rect { width: body.width - PANE - 2, ..body } } else { body };
    let slots = place(&columns_for(seen), left.x + 2, left.width.saturating_sub(3));
    heads(state, &slots, canvas, left);
    let rows = usize::from(left.height.saturating_sub(1));
    if table.rows.is_empty() {
        let text = match (requests.is_empty(), table.filter.is_empty()) {
            (true, _) => "no request is in the engine",
            (false, true) => "no request to show",
            (false, false) => "no request passes the filter; Esc lifts it",
        };
        canvas.put(left.x + 2, left.y + 2, left.width.saturating_sub(3), text, Label::Dim);
        return;
    }
    let first = first_row(table.cursor.index(), table.rows.len(), rows);
    for (i, &at) in table.rows.iter().skip(first).take(rows).enumerate() {
        // Rows are made from the snapshot that is shown; a place that it lacks is not drawn.
        let Some(request) = requests.get(at) else { continue };
        let row = Rect { y: left.y + 1 + i as u16, height: 1, ..left };
        line(request, &slots, canvas, row);
        if first + i == table.cursor.index() {
            canvas.put(row.x, row.y, 1, canvas.glyphs().pointer, Label::Key);
            canvas.restyle(row, Label::Selected);
        }
        canvas.hit(row, Target::Request(request.id.clone()));
    }
    if pane {
        let selected = table.rows.get(table.cursor.index()).and_then(|&at| requests.get(at));
        let pane = Rect { x: body.right() - PANE - 1, width: PANE, ..body };
        if let Some(request) = selected {
            canvas.rule(pane.x, pane.y, pane.width, &request.id, &[]);
            detail::draw(
                seen,
                request,
                canvas,
                Rect { x: pane.x + 1, y: pane.y + 1, width: PANE - 2, height: pane.height - 1 },
            );
        }
    }
}

/// The columns, with room for the names of this snapshot: over all rows, so that scrolling moves no column.
fn columns_for(seen: &Seen) -> [Column<Id>; 11] {
    let snapshot = &seen.snapshot;
    // Ids are ASCII: their length is their width, and ten thousand of them are measured in no time.
    let id = snapshot.requests.shown.iter().map(|request| request.id.len()).max().unwrap_or(0);
    let model = snapshot.models.iter().map(|model| columns(&model.id)).max().unwrap_or(0);
    COLUMNS.map(|column| match column.id {
        Id::Request => Column { max: (id as u16).clamp(column.min, 20), ..column },
        Id::Model => Column { max: (model as u16).clamp(column.min, 24), ..column },
        _ => column,
    })
}

fn heads(state: &State, slots: &[Slot<Id>], canvas: &mut Canvas<'_>, area: Rect) {
    let glyphs = canvas.glyphs();
    let sorted = match state.table.sort {
        Sort::Engine => None,
        Sort::Waited => Some(Id::Waited),
        Sort::Ran => Some(Id::Ran),
        Sort::Cost => Some(Id::Cost),
        Sort::State => Some(Id::State),
        Sort::Model => Some(Id::Model),
        Sort::Id => Some(Id::Request),
    };
    // Numbers fall and names rise unless reversed.
    let falls = matches!(state.table.sort, Sort::Waited | Sort::Ran | Sort::Cost) != state.table.reverse;
    let arrow = if falls { glyphs.descending } else { glyphs.ascending };
    for slot in slots {
        let marked = Some(slot.id) == sorted;
        let label = if marked { Label::Strong } else { Label::Head };
        if slot.right {
            canvas.put_right(slot.x, area.y, slot.width, slot.head, label);
            if marked {
                // In the gap before the head: the head keeps its place.
                let x = (slot.x + slot.width).saturating_sub(slot.head.len() as u16 + 1);
                canvas.put(x, area.y, 1, arrow, label);
            }
        } else {
            let used = canvas.put(slot.x, area.y, slot.width, slot.head, label);
            if marked {
                canvas.put(slot.x + used, area.y, 1, arrow, label);
            }
        }
    }
}

fn line(request: &Request, slots: &[Slot<Id>], canvas: &mut Canvas<'_>, row: Rect) {
    let glyphs = canvas.glyphs();
    let (sign, word, state_label) = words::request(request, glyphs);
    let done = request.state == RequestState::Done;
    let usual = if done { Label::Dim } else { Label::Text };
    for slot in slots {
        let (text, label) = match slot.id {
            Id::Request => (request.id.clone(), usual),
            Id::State => (format!("{sign} {word}"), state_label),
            Id::Model => (request.model.clone(), usual),
            Id::Op => (request.op.to_string(), Label::Dim),
            Id::Lane if request.op == Op::Generate => (glyphs.unknown.to_string(), Label::Dim),
            Id::Lane => (request.lane_name().to_string(), Label::Dim),
            Id::Client => (request.client.clone(), Label::Dim),
            Id::Cost => match request.cost {
                Some(cost) => (words::cost(request.op, cost), usual),
                None => (glyphs.unknown.to_string(), Label::Dim),
            },
            Id::Waited => (duration(request.queued_ms), usual),
            Id::Ran => (words::time(request.running_ms, glyphs), usual),
            Id::Place => (request.position.map(|place| place.to_string()).unwrap_or_default(), usual),
            Id::Why => {
                why(request, slot, canvas, row);
                continue;
            }
        };
        if slot.right {
            canvas.put_right(slot.x, row.y, slot.width, &text, label);
        } else {
            canvas.put(slot.x, row.y, slot.width, &text, label);
        }
    }
}

/// Why it waits, how far it is, or how long ago it ended.
fn why(request: &Request, slot: &Slot<Id>, canvas: &mut Canvas<'_>, row: Rect) {
    if let Some(wait) = &request.wait {
        canvas.put(slot.x, row.y, slot.width, &words::wait(wait, slot.width), Label::Dim);
    } else if let Some(ago) = request.ended_ago_ms {
        canvas.put(slot.x, row.y, slot.width, &format!("{} ago", coarse(ago)), Label::Dim);
    } else if let Some(ratio) = request.done_ratio {
        let gauge = slot.width.saturating_sub(6).min(24);
        canvas.gauge(slot.x, row.y, gauge, ratio, Label::GaugeFull);
        canvas.put(slot.x + gauge + 1, row.y, 5, &percent(ratio.min(1.0)), Label::Text);
    }
}
