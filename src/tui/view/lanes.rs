//! Lanes: one card per queue, with both lanes, what goes next and why, what runs, and the last batches.

use super::super::model::{Line, LineKind, Seen, State};
use super::super::text::{count, duration, percent, short};
use super::super::theme::Label;
use super::layout::{Column, place};
use super::{Canvas, cards, overview, turn, words};
use crate::control::snapshot::{Generation, LaneView, Latency, ModelState, Outcome, Queue};
use ratatui::layout::Rect;

/// Draws as many cards as fit, the selected one among them.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    cards::draw(state, seen, canvas, body, height, card);
}

/// The rows that a card takes.
fn height(line: &Line<'_>, _selected: bool) -> u16 {
    match line.kind {
        // Title, head, lanes, turn (where there are two lanes), next, running (at least one line), recent, latency.
        LineKind::Queue(queue) => 5 + turn::height(queue) + (queue.lanes.len() + queue.inflight.len().max(1)) as u16,
        // Title, slots, kv, speed, and the sequences under their head.
        LineKind::Generation(generation) => match generation.active.len() {
            0 => 5,
            n => 6 + n as u16,
        },
        LineKind::Bare => 2,
    }
}

fn card(line: &Line<'_>, selected: bool, canvas: &mut Canvas<'_>, area: Rect) {
    let (_, _, label) = words::model(line.model, canvas.glyphs());
    let rights = match line.kind {
        LineKind::Queue(queue) => caps(queue),
        LineKind::Generation(generation) => {
            vec![format!("{} slots, queue of {}", generation.slots, count(generation.max_queue))]
        }
        LineKind::Bare => Vec::new(),
    };
    let inside = cards::frame(line, selected, &rights, canvas, area);
    match line.kind {
        LineKind::Queue(queue) => queue_card(queue, canvas, inside),
        LineKind::Generation(generation) => generation_card(generation, canvas, inside),
        LineKind::Bare => bare_card(&line.model.state, label, canvas, inside),
    }
}

/// The caps in words, the longest first.
fn caps(queue: &Queue) -> Vec<String> {
    let caps = &queue.caps;
    let hard = match caps.max_batch_cost_effective < caps.max_batch_cost {
        true => format!(" of {}", words::cost(queue.op, caps.max_batch_cost)),
        false => String::new(),
    };
    let cost = format!("cap {}{hard}", words::cost(queue.op, caps.max_batch_cost_effective));
    let most = words::requests(caps.max_batch_requests);
    let source = &caps.max_batch_cost_source;
    vec![
        format!("{cost} ({source}), {most}, wait {}, depth {}", duration(caps.wait_ms), caps.depth),
        format!("{cost}, {most}, depth {}", caps.depth),
        cost,
    ]
}

#[derive(Debug, Clone, Copy)]
enum Id {
    Lane,
    Pending,
    Cost,
    Oldest,
    Running,
    Served,
    Cancelled,
    Expired,
    Failed,
}

const COLUMNS: [Column<Id>; 9] = [
    Column::left(Id::Lane, "LANE", 12, 22, 0),
    Column::right(Id::Pending, "PENDING", 7, 0),
    Column::right(Id::Cost, "COST", 11, 2),
    Column::right(Id::Oldest, "OLDEST", 6, 0),
    Column::right(Id::Running, "RUN", 4, 1),
    Column::right(Id::Served, "SERVED", 7, 3),
    Column::right(Id::Cancelled, "CANCELLED", 9, 5),
    Column::right(Id::Expired, "EXPIRED", 7, 6),
    Column::right(Id::Failed, "FAILED", 6, 4),
];

fn queue_card(queue: &Queue, canvas: &mut Canvas<'_>, area: Rect) {
    let mut columns = COLUMNS;
    if queue.lanes.iter().any(|lane| lane.paused || lane.held > 0) {
        // "recordings, paused" in full matters more than the last counters.
        columns[0].min = 19;
    }
    let slots = place(&columns, area.x, area.width.min(110));
    for slot in &slots {
        overview::head(slot, area.y, canvas);
    }
    let mut y = area.y + 1;
    for lane in &queue.lanes {
        for slot in &slots {
            let (text, label) = lane_cell(queue, lane, slot.id, canvas);
            if slot.right {
                canvas.put_right(slot.x, y, slot.width, &text, label);
            } else {
                canvas.put(slot.x, y, slot.width, &text, label);
            }
        }
        y += 1;
    }
    y = turn::draw(queue, canvas, Rect { y, ..area });
    let next = match &queue.next {
        Some(next) => format!(
            "{}: {}, {}, {}{}",
            next.lane,
            next.why.replace('_', " "),
            words::requests(next.items),
            words::cost(queue.op, next.cost),
            next.lane_why.as_deref().map(|why| format!(", {}", why.replace('_', " "))).unwrap_or_default(),
        ),
        None => "nothing is pending".to_string(),
    };
    let next_label = if queue.next.is_some() { Label::Text } else { Label::Dim };
    canvas.pieces(area.x, y, area.width, &[("next     ", Label::Head), (&next, next_label)]);
    y += 1;
    y = inflight(queue, canvas, Rect { y, ..area });
    recent(queue, canvas, Rect { y, height: 1, ..area });
    latency(&queue.latency, canvas, Rect { y: y + 1, height: 1, ..area });
}

fn lane_cell(queue: &Queue, lane: &LaneView, id: Id, canvas: &Canvas<'_>) -> (String, Label) {
    let glyphs = canvas.glyphs();
    let number = |n: u64| (count(n), if n == 0 { Label::Dim } else { Label::Text });
    let trouble = |n: u64| (count(n), if n == 0 { Label::Dim } else { Label::Bad });
    match id {
        Id::Lane if lane.paused => (format!("{} {} paused", lane.lane, glyphs.paused), Label::Warn),
        Id::Lane if lane.held > 0 => (format!("{}, {} held", lane.lane, count(lane.held)), Label::Warn),
        Id::Lane => (lane.lane.to_string(), Label::Strong),
        Id::Pending => number(lane.pending),
        Id::Cost if lane.cost == 0 => (glyphs.unknown.to_string(), Label::Dim),
        Id::Cost => (words::cost(queue.op, lane.cost), Label::Text),
        Id::Oldest => (words::time(lane.oldest_wait_ms, glyphs), Label::Text),
        Id::Running => number(lane.running),
        Id::Served => number(lane.served),
        Id::Cancelled => (count(lane.cancelled), Label::Dim),
        Id::Expired => trouble(lane.expired),
        Id::Failed => trouble(lane.failed),
    }
}

/// The running batches, a line each; returns the line after them.
fn inflight(queue: &Queue, canvas: &mut Canvas<'_>, area: Rect) -> u16 {
    if queue.inflight.is_empty() {
        canvas.pieces(area.x, area.y, area.width, &[("running  ", Label::Head), ("no batch", Label::Dim)]);
        return area.y + 1;
    }
    let mut y = area.y;
    for (i, batch) in queue.inflight.iter().enumerate() {
        let head = if i == 0 { "running  " } else { "         " };
        let what = format!("#{} {} {}, {}", batch.batch, batch.lane, batch.items, words::cost(queue.op, batch.cost));
        canvas.pieces(area.x, y, area.width, &[(head, Label::Head), (&what, Label::Text)]);
        let (x, room) = (area.x + 38, area.width.saturating_sub(38));
        let time = match batch.expected_ms {
            Some(expected) if expected > batch.running_ms => {
                let left = duration(expected - batch.running_ms);
                format!("{} of {}, {left} to go", duration(batch.running_ms), duration(expected))
            }
            Some(expected) => format!("{} of {}, overdue", duration(batch.running_ms), duration(expected)),
            None => format!("{} so far", duration(batch.running_ms)),
        };
        match batch.expected_ms {
            Some(expected) if room >= 36 => {
                let gauge = (room - 28).min(40);
                let ratio = batch.running_ms / expected.max(1.0);
                canvas.gauge(x, y, gauge, ratio, if ratio > 1.5 { Label::Warn } else { Label::GaugeFull });
                canvas.put(x + gauge + 2, y, 26, &time, Label::Text);
            }
            _ => {
                canvas.put(x, y, room, &time, Label::Text);
            }
        }
        y += 1;
    }
    y
}

/// The last batches as a strip: how full each was; a sign instead where one did not end well.
fn recent(queue: &Queue, canvas: &mut Canvas<'_>, row: Rect) {
    let glyphs = canvas.glyphs();
    let mut x = row.x + canvas.put(row.x, row.y, row.width, "recent   ", Label::Head);
    let Some(last) = queue.recent.last() else {
        canvas.put(x, row.y, row.width, "no batch yet", Label::Dim);
        return;
    };
    let room = usize::from(row.right().saturating_sub(x)).min(32);
    for batch in queue.recent.iter().skip(queue.recent.len().saturating_sub(room)) {
        match batch.outcome {
            Outcome::Served => x += canvas.put(x, row.y, 1, glyphs.bar(batch.fill_ratio), Label::Flow),
            Outcome::Cancelled => x += canvas.put(x, row.y, 1, glyphs.off, Label::Dim),
            Outcome::Expired | Outcome::Failed => x += canvas.put(x, row.y, 1, glyphs.bad, Label::Bad),
        }
    }
    let fill = queue.recent.iter().map(|batch| batch.fill_ratio).sum::<f64>() / queue.recent.len() as f64;
    let text = format!(
        "  fill {}, last: {} {} in {}, {}",
        percent(fill),
        last.lane,
        last.items,
        duration(last.run_ms),
        last.why.replace('_', " "),
    );
    canvas.put(x, row.y, row.right().saturating_sub(x), &text, Label::Dim);
}

fn latency(latency: &Latency, canvas: &mut Canvas<'_>, row: Rect) {
    let glyphs = canvas.glyphs();
    if latency.window == 0 {
        canvas.pieces(row.x, row.y, row.width, &[("latency  ", Label::Head), ("no request yet", Label::Dim)]);
        return;
    }
    let text = format!(
        "p50 {}  p95 {}  max {}  queue p50 {}",
        words::time(latency.p50_ms, glyphs),
        words::time(latency.p95_ms, glyphs),
        words::time(latency.max_ms, glyphs),
        words::time(latency.queue_p50_ms, glyphs),
    );
    let over = format!("  over {}", words::requests(latency.window));
    canvas.pieces(row.x, row.y, row.width, &[("latency  ", Label::Head), (&text, Label::Text), (&over, Label::Dim)]);
}

fn generation_card(generation: &Generation, canvas: &mut Canvas<'_>, area: Rect) {
    let gauge = (area.width / 4).min(30);
    let mut y = area.y;
    let kept = match generation.kv_cached_tokens {
        0 => " tokens".to_string(),
        kept => format!(" tokens, {} more kept for prompts that begin alike", count(kept)),
    };
    let gauges = [
        ("slots    ", generation.slots_used, generation.slots, format!(", {} queued", count(generation.queued))),
        ("kv       ", generation.kv_used_tokens, generation.kv_capacity_tokens, kept),
    ];
    for (head, used, of, rest) in gauges {
        let ratio = used as f64 / of.max(1) as f64;
        let label = if ratio >= 0.95 { Label::Warn } else { Label::GaugeFull };
        canvas.put(area.x, y, area.width, head, Label::Head);
        canvas.gauge(area.x + 9, y, gauge, ratio, label);
        let text = format!("{} of {}{rest}", count(used), count(of));
        canvas.put(area.x + 11 + gauge, y, area.width.saturating_sub(11 + gauge), &text, Label::Text);
        y += 1;
    }
    let unknown = canvas.glyphs().unknown;
    let per_second =
        |rate: Option<f64>| rate.map_or_else(|| unknown.to_string(), |rate| format!("{} tok/s", short(rate)));
    let speed = format!(
        "decode {}  prefill {}  {} iterations  {} tokens out",
        per_second(generation.decode_tokens_per_s),
        per_second(generation.prefill_tokens_per_s),
        count(generation.iterations),
        count(generation.generated_tokens),
    );
    canvas.pieces(area.x, y, area.width, &[("speed    ", Label::Head), (&speed, Label::Text)]);
    latency(&generation.latency, canvas, Rect { y: y + 1, height: 1, ..area });
    y += 2;
    if generation.active.is_empty() {
        return;
    }
    let wide = area.width >= 60;
    let head = if wide { "SLOT  REQUEST         PROMPT       GENERATED" } else { "SLOT  REQUEST         GENERATED" };
    canvas.put(area.x, y, area.width, head, Label::Head);
    for sequence in &generation.active {
        y += 1;
        canvas.put_right(area.x, y, 4, &sequence.slot.to_string(), Label::Dim);
        canvas.put(area.x + 6, y, 14, &sequence.request, Label::Text);
        let mut x = area.x + 22;
        if wide {
            let prompt = format!("{}/{}", sequence.prefilled_tokens, sequence.prompt_tokens);
            canvas.put(x, y, 11, &prompt, Label::Dim);
            x += 13;
        }
        let done = format!("{}/{}", sequence.generated_tokens, sequence.max_tokens);
        canvas.put(x, y, 10, &done, Label::Text);
        x += 12;
        if wide {
            let ratio = sequence.generated_tokens as f64 / sequence.max_tokens.max(1) as f64;
            let gauge = area.right().saturating_sub(x + 14).min(40);
            canvas.gauge(x, y, gauge, ratio, Label::GaugeFull);
            x += gauge + 2;
        }
        let rate = sequence.tokens_per_s.map_or_else(|| "prefill".to_string(), |rate| format!("{} tok/s", short(rate)));
        canvas.put(x, y, area.right().saturating_sub(x), &rate, Label::Text);
    }
}

fn bare_card(state: &ModelState, label: Label, canvas: &mut Canvas<'_>, area: Rect) {
    match state {
        ModelState::Failed { why } => {
            canvas.put(area.x, area.y, area.width, why, label);
        }
        ModelState::Loading { done_ratio } => {
            canvas.gauge(area.x, area.y, area.width.min(40), *done_ratio, Label::GaugeFull);
        }
        ModelState::Ready | ModelState::Unloaded => {
            canvas.put(area.x, area.y, area.width, "no queue", Label::Dim);
        }
    }
}
