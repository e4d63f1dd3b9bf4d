//! The panels under the models of Overview: what runs now, who waits longest, and the past as charts.

use super::super::model::history::Past;
use super::super::model::lines::lines;
use super::super::model::{Line, LineKind, Seen};
use super::super::text::{duration, short};
use super::super::theme::Label;
use super::overview::{length, peak};
use super::{Canvas, words};
use crate::control::snapshot::{Request, RequestState};
use ratatui::layout::Rect;

/// A panel of fewer rows (title included) is not worth its title.
const LEAST: u16 = 3;
/// From this width on, panels stand side by side.
const WIDE: u16 = 110;
/// Rows that the panels take at most while there is room for charts under them.
const PANEL_ROWS: u16 = 12;

/// Draws as much as fits into `area`.
pub fn draw(seen: &Seen, canvas: &mut Canvas<'_>, area: Rect) {
    if area.height < LEAST {
        return;
    }
    let tall = area.height >= 24;
    let panels = Rect { height: if tall { PANEL_ROWS } else { area.height }, ..area };
    if area.width >= WIDE {
        let left = Rect { width: panels.width / 2 - 1, ..panels };
        let right = Rect { x: left.right() + 2, width: panels.width - left.width - 2, ..panels };
        running(seen, canvas, left);
        waiting(seen, canvas, right);
    } else {
        let height = (panels.height / 2).max(LEAST).min(panels.height);
        running(seen, canvas, Rect { height, ..panels });
        let rest = panels.height - height;
        if rest >= LEAST {
            waiting(seen, canvas, Rect { y: panels.y + height, height: rest, ..panels });
        }
    }
    if tall {
        charts(seen, canvas, Rect { y: panels.bottom() + 1, height: area.height - PANEL_ROWS - 1, ..area });
    }
}

/// Something that runs: who, what, how far, how long.
struct Running {
    who: String,
    what: String,
    ratio: Option<f64>,
    time: String,
}

fn running(seen: &Seen, canvas: &mut Canvas<'_>, area: Rect) {
    let mut all = Vec::new();
    for line in lines(&seen.snapshot) {
        match line.kind {
            LineKind::Queue(queue) => all.extend(queue.inflight.iter().map(|batch| Running {
                who: line.model.id.clone(),
                what: format!("#{} {} {}, {}", batch.batch, batch.lane, batch.items, words::cost(queue.op, batch.cost)),
                ratio: batch.expected_ms.map(|expected| batch.running_ms / expected.max(1.0)),
                time: match batch.expected_ms {
                    Some(expected) => format!("{} of {}", duration(batch.running_ms), duration(expected)),
                    None => duration(batch.running_ms),
                },
            })),
            LineKind::Generation(generation) => {
                all.extend(generation.active.iter().map(|sequence| {
                    Running {
                        who: line.model.id.clone(),
                        what: format!("{} {}/{}", sequence.request, sequence.generated_tokens, sequence.max_tokens),
                        ratio: Some(sequence.generated_tokens as f64 / sequence.max_tokens.max(1) as f64),
                        time: sequence
                            .tokens_per_s
                            .map_or_else(|| "prefill".to_string(), |rate| format!("{} tok/s", short(rate))),
                    }
                }))
            }
            LineKind::Bare => {}
        }
    }
    let room = usize::from(area.height - 1);
    let title = format!("Running now  {}", all.len());
    canvas.rule(area.x, area.y, area.width, &title, &[]);
    if all.is_empty() {
        canvas.put(area.x + 2, area.y + 1, area.width, "nothing: every slot is free", Label::Dim);
    }
    let (x, width) = (area.x + 2, area.width.saturating_sub(3));
    let time = 14.min(width / 4);
    let who = 22.min(width / 4);
    let what = 26.min(width / 3);
    let gauge = width.saturating_sub(who + what + time + 6).min(40);
    // A gauge of a few columns tells nothing: its room goes to the words.
    let (what, gauge) = if gauge < 8 { (width.saturating_sub(who + time + 4), None) } else { (what, Some(gauge)) };
    for (i, item) in all.iter().take(room).enumerate() {
        let y = area.y + 1 + i as u16;
        canvas.put(x, y, who, &item.who, Label::Text);
        canvas.put(x + who + 2, y, what, &item.what, Label::Dim);
        if let (Some(ratio), Some(gauge)) = (item.ratio, gauge) {
            // Overrunning its estimate is worth a look, and is no error.
            let label = if ratio > 1.5 { Label::Warn } else { Label::GaugeFull };
            canvas.gauge(x + who + what + 4, y, gauge, ratio, label);
        }
        let end = x + who + what + 4 + gauge.map_or(0, |gauge| gauge + 2);
        canvas.put_right(end, y, time, &item.time, Label::Text);
    }
    more(all.len(), room, canvas, area);
}

fn waiting(seen: &Seen, canvas: &mut Canvas<'_>, area: Rect) {
    let queued = |request: &&Request| matches!(request.state, RequestState::Queued | RequestState::Decoding);
    let mut all: Vec<&Request> = seen.snapshot.requests.shown.iter().filter(queued).collect();
    all.sort_by(|a, b| b.queued_ms.total_cmp(&a.queued_ms));
    let room = usize::from(area.height - 1);
    let title = format!("Waiting longest  {}", all.len());
    canvas.rule(area.x, area.y, area.width, &title, &[]);
    if all.is_empty() {
        canvas.put(area.x + 2, area.y + 1, area.width, "nobody waits", Label::Dim);
    }
    let (x, width) = (area.x + 2, area.width.saturating_sub(3));
    let id = 14.min(width / 4);
    let model = if width >= 90 { 20 } else { 0 };
    for (i, request) in all.iter().take(room).enumerate() {
        let y = area.y + 1 + i as u16;
        canvas.put(x, y, id, &request.id, Label::Text);
        if model > 0 {
            canvas.put(x + id + 2, y, model - 2, &request.model, Label::Dim);
        }
        canvas.put_right(x + id + model + 2, y, 5, &duration(request.queued_ms), Label::Warn);
        let used = id + model + 9;
        let room = width.saturating_sub(used);
        let why = request.wait.as_ref().map(|wait| words::wait(wait, room)).unwrap_or_default();
        canvas.put(x + used, y, room, &why, Label::Dim);
    }
    more(all.len(), room, canvas, area);
}

/// Says on the panel's rule how many did not fit.
fn more(all: usize, room: usize, canvas: &mut Canvas<'_>, area: Rect) {
    if all > room {
        let text = format!(" +{} more ", all - room);
        let width = text.len() as u16;
        canvas.put(area.right().saturating_sub(width + 1), area.y, width, &text, Label::Dim);
    }
}

/// Throughput and queue of each line over the last minutes.
fn charts(seen: &Seen, canvas: &mut Canvas<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = lines(&seen.snapshot);
    let lively = |past: &&Past| past.flow.iter().chain(&past.queue).any(|&value| value > 0.0);
    let past = |line| Some((line, seen.history.past(&Line::key(line)).filter(lively)?));
    let with_past: Vec<(&Line<'_>, &Past)> = lines.iter().filter_map(past).collect();
    if with_past.is_empty() || area.height < 4 {
        return;
    }
    let glyphs = canvas.glyphs();
    let each = (area.height / with_past.len() as u16).clamp(4, 9);
    let half = area.width / 2 - 1;
    for (i, (line, past)) in with_past.into_iter().enumerate() {
        let y = area.y + i as u16 * each;
        if y + each > area.bottom() {
            break;
        }
        let Some(op) = line.op() else { continue };
        let chart = Rect { x: area.x + 2, y: y + 1, width: half.saturating_sub(3), height: each - 2 };
        let newest = usize::from(chart.width);
        let top = peak(past.flow.iter().rev().take(newest).copied());
        let title = format!("{} {}", line.model.id, op);
        canvas.rule(area.x, y, half, &title, &[&format!("peak {}", words::rate(op, top, glyphs))]);
        canvas.bars(chart, past.flow.iter().copied(), Label::Flow);
        let x = area.x + half + 2;
        let top = peak(past.queue.iter().rev().take(newest).copied());
        canvas.rule(x, y, area.width - half - 2, "waiting", &[&format!("peak {}", length(top))]);
        canvas.bars(Rect { x: x + 2, ..chart }, past.queue.iter().copied(), Label::Queue);
    }
}
