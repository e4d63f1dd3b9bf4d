//! Overview: is it healthy, what does each model do, what runs, and who waits.

use super::super::model::lines::lines;
use super::super::model::{Line, LineKind, Seen, State, Target};
use super::super::text::{bytes, columns, count, percent, short};
use super::super::theme::Label;
use super::layout::{Column, Slot, first_row, place};
use super::{Canvas, panels, words};
use crate::control::Lane;
use crate::control::snapshot::{Latency, ModelState, Snapshot};
use ratatui::layout::Rect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Model,
    State,
    Op,
    Waiting,
    Running,
    Oldest,
    Rate,
    P50,
    P95,
    Cap,
    Served,
    Failed,
    Flow,
    Queue,
}

const COLUMNS: [Column<Id>; 14] = [
    // Grows to the longest name.
    Column::left(Id::Model, "MODEL", 12, 12, 0),
    Column::left(Id::Op, "OP", 10, 10, 5),
    Column::left(Id::State, "STATE", 10, 10, 0),
    Column::right(Id::Waiting, "WAIT", 5, 0),
    Column::right(Id::Running, "RUN", 4, 0),
    Column::right(Id::Oldest, "OLDEST", 6, 4),
    Column::right(Id::Rate, "RATE", 11, 1),
    Column::right(Id::P50, "P50", 5, 2),
    Column::right(Id::P95, "P95", 5, 2),
    Column::right(Id::Cap, "CAP", 10, 6),
    Column::right(Id::Served, "SERVED", 8, 7),
    Column::right(Id::Failed, "FAILED", 6, 8),
    Column::left(Id::Flow, "FLOW", 8, 48, 3),
    Column::left(Id::Queue, "QUEUE", 8, 48, 9),
];

/// Draws the view.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    let snapshot = &seen.snapshot;
    let mut y = health(snapshot, canvas, body);
    let lines = lines(snapshot);
    let names = |line: &Line<'_>| columns(&name(line, true)) as u16;
    let mut all = COLUMNS;
    all[0].max = lines.iter().map(names).max().unwrap_or(0).clamp(all[0].min, 36);
    if body.width >= 100 {
        all[0].min = all[0].max.min(20);
    }
    let slots = place(&all, body.x + 2, body.width.saturating_sub(3));
    let room = body.bottom().saturating_sub(y);
    if room < 2 {
        return;
    }
    for slot in &slots {
        head(slot, y, canvas);
    }
    y += 1;
    // Models come first; panels get what is left, if it is worth having.
    let shown = lines.len().min(usize::from(room) - 1);
    let first = first_row(state.line.index(), lines.len(), shown);
    for (index, line) in lines.iter().enumerate().skip(first).take(shown) {
        let row = Rect { x: body.x, y, width: body.width, height: 1 };
        model_line(seen, line, &slots, canvas, row);
        if index == state.line.index() {
            canvas.put(body.x, y, 1, canvas.glyphs().pointer, Label::Key);
            canvas.restyle(row, Label::Selected);
        }
        canvas.hit(row, Target::Line(line.key()));
        y += 1;
    }
    let rest = Rect { y: y + 1, height: body.bottom().saturating_sub(y + 1), ..body };
    panels::draw(seen, canvas, rest);
}

/// A column's head, over its cells.
pub fn head<I>(slot: &Slot<I>, y: u16, canvas: &mut Canvas<'_>) {
    if slot.right {
        canvas.put_right(slot.x, y, slot.width, slot.head, Label::Head);
    } else {
        canvas.put(slot.x, y, slot.width, slot.head, Label::Head);
    }
}

/// The lines above the table; returns where the table begins.
fn health(snapshot: &Snapshot, canvas: &mut Canvas<'_>, body: Rect) -> u16 {
    let glyphs = canvas.glyphs();
    let (x, width) = (body.x + 2, body.width.saturating_sub(3));
    let mut y = body.y;
    let ready = snapshot.models.iter().filter(|model| model.state == ModelState::Ready).count();
    let waiting: u64 = snapshot.models.iter().flat_map(|m| &m.queues).flat_map(|q| &q.lanes).map(|l| l.pending).sum();
    let queued: u64 = snapshot.generation.iter().map(|generation| generation.queued).sum();
    let (sign, word, label) = words::engine(snapshot.state, glyphs);
    let counts = format!(
        "  {ready} of {} models ready, {}, {} waiting",
        snapshot.models.len(),
        words::requests(snapshot.requests.total),
        count(waiting + queued),
    );
    canvas.pieces(x, y, width, &[(sign, label), (" ", label), (word, label), (&counts, Label::Text)]);
    y += 1;
    let reasons = if body.height < 14 { 1 } else { 4 };
    for reason in snapshot.reasons.iter().take(reasons) {
        canvas.pieces(x, y, width, &[(glyphs.warn, Label::Warn), (" ", Label::Warn), (reason, Label::Warn)]);
        y += 1;
    }
    if body.height < 16 {
        return y;
    }
    let widest = snapshot.devices.iter().map(|device| device.id.len() + 2).max().unwrap_or(0).max(6);
    canvas.pieces(x, y, width, &[(&format!("{:<widest$}", "host"), Label::Dim), (&host(snapshot), Label::Text)]);
    y += 1;
    for device in &snapshot.devices {
        let id = format!("{:<widest$}", device.id);
        let mut facts = device.description.clone();
        if let (Some(used), Some(total)) = (device.memory_used_bytes, device.memory_total_bytes) {
            facts.push_str(&format!(", {} of {}", bytes(used), bytes(total)));
        }
        let held = device.holder.as_ref().map(|holder| format!(", held by {holder}")).unwrap_or_default();
        canvas.pieces(x, y, width, &[(&id, Label::Dim), (&facts, Label::Text), (&held, Label::Busy)]);
        y += 1;
    }
    y + 1
}

fn host(snapshot: &Snapshot) -> String {
    let host = &snapshot.host;
    let mut facts = vec![format!("{} threads", host.cpu_threads)];
    facts.extend(host.load_1m.map(|load| format!("load {load:.1}")));
    if let (Some(available), Some(total)) = (host.memory_available_bytes, host.memory_total_bytes) {
        facts.push(format!("{} of {} free", bytes(available), bytes(total)));
    }
    facts.extend(host.resident_bytes.map(|resident| format!("engine holds {}", bytes(resident))));
    facts.join(", ")
}

/// A line's name: where there is no column for operations, one of several is told beside the model.
fn name(line: &Line<'_>, alone: bool) -> String {
    match line.op() {
        Some(op) if alone && line.model.ops.len() > 1 => format!("{} {op}", line.model.id),
        _ => line.model.id.clone(),
    }
}

/// What a line says, whether it is a queue or a generation scheduler.
struct Facts {
    waiting: String,
    crowded: bool,
    running: String,
    oldest_ms: Option<f64>,
    latency: Latency,
    cap: String,
    served: u64,
    failed: u64,
}

fn facts(line: &Line<'_>) -> Option<Facts> {
    match line.kind {
        LineKind::Bare => None,
        LineKind::Queue(queue) => {
            let pending = |lane: Lane| queue.lanes.iter().filter(|l| l.lane == lane).map(|l| l.pending).sum::<u64>();
            let (clips, recordings) = (pending(Lane::Clips), pending(Lane::Recordings));
            let split = if recordings > 0 { format!("{clips}+{recordings}") } else { clips.to_string() };
            let oldest = queue
                .lanes
                .iter()
                .filter_map(|lane| lane.oldest_wait_ms)
                .fold(None, |top: Option<f64>, ms| Some(top.map_or(ms, |top| top.max(ms))));
            Some(Facts {
                waiting: split,
                crowded: crowded(clips + recordings, queue.caps.max_queue),
                running: queue.lanes.iter().map(|lane| lane.running).sum::<u64>().to_string(),
                oldest_ms: oldest,
                latency: queue.latency.clone(),
                cap: words::cost(queue.op, queue.caps.max_batch_cost_effective),
                served: queue.counters.served,
                failed: queue.counters.failed,
            })
        }
        LineKind::Generation(generation) => Some(Facts {
            waiting: generation.queued.to_string(),
            crowded: crowded(generation.queued, generation.max_queue),
            running: format!("{}/{}", generation.slots_used, generation.slots),
            oldest_ms: None,
            latency: generation.latency.clone(),
            cap: format!(
                "kv {}",
                percent(generation.kv_used_tokens as f64 / generation.kv_capacity_tokens.max(1) as f64)
            ),
            served: generation.counters.served,
            failed: generation.counters.failed,
        }),
    }
}

/// Close to refusing new requests.
fn crowded(waiting: u64, max_queue: u64) -> bool {
    max_queue > 0 && waiting * 5 >= max_queue * 4
}

fn model_line(seen: &Seen, line: &Line<'_>, slots: &[Slot<Id>], canvas: &mut Canvas<'_>, row: Rect) {
    let glyphs = canvas.glyphs();
    let unknown = glyphs.unknown;
    let facts = facts(line);
    let past = seen.history.past(&line.key());
    let op = line.op();
    for slot in slots {
        let (x, width) = (slot.x, slot.width);
        match slot.id {
            Id::Model => {
                let alone = !slots.iter().any(|slot| slot.id == Id::Op);
                canvas.put(x, row.y, width, &name(line, alone), Label::Strong);
            }
            Id::Op => {
                canvas.put(x, row.y, width, op.map_or(unknown, |op| op.name()), Label::Dim);
            }
            Id::State => {
                let (sign, word, label) = words::model(line.model, glyphs);
                let text = format!("{sign} {word}");
                canvas.put(x, row.y, width, &text, label);
                if facts.is_none() {
                    absent(line, canvas, x + width + 2, row);
                    return;
                }
            }
            _ => {}
        }
        let Some(facts) = &facts else { continue };
        let (text, label) = match slot.id {
            Id::Waiting => (facts.waiting.clone(), if facts.crowded { Label::Bad } else { quiet_zero(&facts.waiting) }),
            Id::Running => (facts.running.clone(), quiet_zero(&facts.running)),
            Id::Oldest => (words::time(facts.oldest_ms, glyphs), Label::Text),
            Id::Rate => match (past.and_then(|past| past.rate()), op) {
                (Some(rate), Some(op)) if rate > 0.0 => (words::rate(op, rate, glyphs), Label::Text),
                _ => (unknown.to_string(), Label::Dim),
            },
            Id::P50 => (words::time(facts.latency.p50_ms, glyphs), Label::Text),
            Id::P95 => (words::time(facts.latency.p95_ms, glyphs), Label::Text),
            Id::Cap => (facts.cap.clone(), Label::Dim),
            Id::Served => (count(facts.served), Label::Dim),
            Id::Failed => (count(facts.failed), if facts.failed > 0 { Label::Bad } else { Label::Dim }),
            Id::Flow | Id::Queue => {
                if let Some(past) = past {
                    let area = Rect { x, y: row.y, width, height: 1 };
                    match slot.id {
                        Id::Flow => canvas.bars(area, past.flow.iter().copied(), Label::Flow),
                        _ => canvas.bars(area, past.queue.iter().copied(), Label::Queue),
                    }
                }
                continue;
            }
            Id::Model | Id::Op | Id::State => continue,
        };
        canvas.put_right(x, row.y, width, &text, label);
    }
}

/// A model that has no queue to show says why instead.
fn absent(line: &Line<'_>, canvas: &mut Canvas<'_>, x: u16, row: Rect) {
    let width = row.right().saturating_sub(x + 1);
    match &line.model.state {
        ModelState::Failed { why } => {
            canvas.put(x, row.y, width, why, Label::Bad);
        }
        ModelState::Loading { done_ratio } => canvas.gauge(x, row.y, width.min(40), *done_ratio, Label::GaugeFull),
        ModelState::Unloaded | ModelState::Ready => {}
    }
}

/// Zeros recede, so that what is not zero stands out.
fn quiet_zero(text: &str) -> Label {
    if text.starts_with('0') { Label::Dim } else { Label::Text }
}

/// A peak for a chart's title.
pub fn peak(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// A queue length for a chart's title.
pub fn length(n: f64) -> String {
    if n.fract() == 0.0 { format!("{n:.0}") } else { short(n) }
}
