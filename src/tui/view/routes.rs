//! Routes: where each model's work goes, stage by stage.

use super::super::model::{Seen, State, Target};
use super::super::text::{columns, count};
use super::super::theme::Label;
use super::layout::{Column, first_row, place};
use super::{Canvas, overview, words};
use crate::control::routes::routes;
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy)]
enum Id {
    Model,
    Route,
    Stage,
    Device,
    Running,
    Waiting,
}

const COLUMNS: [Column<Id>; 6] = [
    Column::left(Id::Model, "MODEL", 16, 16, 0),
    Column::left(Id::Route, "ROUTE", 10, 10, 1),
    Column::left(Id::Stage, "STAGE", 14, 24, 0),
    Column::right(Id::Running, "RUN", 6, 2),
    Column::right(Id::Waiting, "WAIT", 7, 2),
    Column::left(Id::Device, "DEVICE", 20, 60, 3),
];

/// Draws the view: a row per stage, the selected line's model marked.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    let routes = routes(&seen.snapshot);
    let mut all = COLUMNS;
    all[0].max = routes.iter().map(|route| columns(&route.model) as u16).max().unwrap_or(0).clamp(all[0].min, 36);
    let slots = place(&all, body.x + 2, body.width.saturating_sub(3));
    for slot in &slots {
        overview::head(slot, body.y, canvas);
    }
    let stages: Vec<_> = routes.iter().flat_map(|route| route.stages.iter().map(move |stage| (route, stage))).collect();
    let selected = state.line.key().map(|key| key.model.as_str());
    let at = stages.iter().position(|(route, _)| Some(route.model.as_str()) == selected).unwrap_or(0);
    let rows = usize::from(body.height.saturating_sub(3));
    let first = first_row(at, stages.len(), rows);
    let mut y = body.y + 1;
    for (route, stage) in stages.iter().skip(first).take(rows) {
        let row = Rect { y, height: 1, ..body };
        let glyphs = canvas.glyphs();
        let (sign, label) = if route.open { (glyphs.good, Label::Good) } else { (glyphs.off, Label::Dim) };
        for slot in &slots {
            let (text, label) = match slot.id {
                Id::Model => (route.model.clone(), Label::Strong),
                Id::Route => (format!("{sign} {}", route.kind.name()), label),
                Id::Stage => (format!("{} {}", stage.node, stage.device), Label::Text),
                Id::Device => (stage.description.clone(), Label::Dim),
                Id::Running => (count(route.running), Label::Text),
                Id::Waiting => (count(route.waiting), Label::Text),
            };
            if slot.right {
                canvas.put_right(slot.x, y, slot.width, &text, label);
            } else {
                canvas.put(slot.x, y, slot.width, &text, label);
            }
        }
        if Some(route.model.as_str()) == selected {
            canvas.put(row.x, y, 1, glyphs.pointer, Label::Key);
            canvas.restyle(row, Label::Selected);
        }
        let line = super::super::model::lines::lines(&seen.snapshot);
        if let Some(line) = line.iter().find(|line| line.model.id == route.model) {
            canvas.hit(row, Target::Line(line.key()));
        }
        y += 1;
    }
    let local = format!(
        "{} on this engine: nothing leaves {}, answers return the way they came",
        words::routes(routes.len() as u64),
        seen.snapshot.node
    );
    canvas.put(body.x + 2, y + 1, body.width.saturating_sub(3), &local, Label::Dim);
}
