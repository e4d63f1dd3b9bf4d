//! Lanes: one card per queue, with both lanes, what goes next and why, what runs, and the last batches.

use super::super::model::lines::lines;
use super::super::model::{Line, LineKind, Seen, State, Target};
use super::super::text::{count, duration, percent, short};
use super::super::theme::Label;
use super::layout::{Column, place};
use super::{Canvas, overview, words};
use crate::control::snapshot::{Generation, LaneView, Latency, ModelState, Outcome, Queue};
use ratatui::layout::Rect;

/// From this width on, cards stand in two columns.
const WIDE: u16 = 200;

/// Draws as many cards as fit, the selected one among them.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    let lines = lines(&seen.snapshot);
    let heights: Vec<u16> = lines.iter().map(height).collect();
    let columns = if body.width >= WIDE { 2 } else { 1 };
    let width = (body.width + 1) / columns - 1;
    let selected = state.line.index();
    for (index, column, y) in arrange(&heights, selected, columns, body.height) {
        let area = Rect { x: body.x + column * (width + 1), y: body.y + y, width, height: heights[index] };
        let area = area.intersection(body);
        canvas.within(area, |canvas| card(&lines[index], index == selected, canvas, area));
        canvas.hit(area, Target::Line(lines[index].key()));
    }
}

/// Where cards go, column after column: (card, column, row). Starts with the first card from which the selected one
/// is still seen whole; a card that is higher than the screen is cut.
fn arrange(heights: &[u16], selected: usize, columns: u16, room: u16) -> Vec<(usize, u16, u16)> {
    let from = |first: usize| {
        let (mut column, mut y) = (0, 0);
        let mut placed = Vec::new();
        for (index, &height) in heights.iter().enumerate().skip(first) {
            if y > 0 && y + height > room && column + 1 < columns {
                (column, y) = (column + 1, 0);
            }
            if y >= room {
                break;
            }
            placed.push((index, column, y));
            y += height + 1;
        }
        placed
    };
    let whole = |placed: &[(usize, u16, u16)]| {
        placed.iter().any(|&(index, _, y)| index == selected && (y == 0 || y + heights[index] <= room))
    };
    (0..=selected).map(from).find(|placed| whole(placed)).unwrap_or_default()
}

/// The rows that a card takes.
fn height(line: &Line<'_>) -> u16 {
    match line.kind {
        // Title, head, lanes, turn (where there are two lanes), next, running (at least one line), recent, latency.
        LineKind::Queue(queue) => {
            let turn = usize::from(queue.lanes.len() > 1);
            5 + (queue.lanes.len() + turn + queue.inflight.len().max(1)) as u16
        }
        // Title, slots, kv, speed, and the sequences under their head.
        LineKind::Generation(generation) => match generation.active.len() {
            0 => 5,
            n => 6 + n as u16,
        },
        LineKind::Bare => 2,
    }
}

fn card(line: &Line<'_>, selected: bool, canvas: &mut Canvas<'_>, area: Rect) {
    let glyphs = canvas.glyphs();
    let (sign, word, label) = words::model(line.model, glyphs);
    let op = line.op().map_or("", |op| op.name());
    let title = format!("{} {}  {sign} {word}", line.model.id, op);
    let rights = match line.kind {
        LineKind::Queue(queue) => caps(queue),
        LineKind::Generation(generation) => {
            vec![format!("{} slots, queue of {}", generation.slots, count(generation.max_queue))]
        }
        LineKind::Bare => Vec::new(),
    };
    let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
    canvas.rule(area.x, area.y, area.width, &title, &rights);
    if selected {
        canvas.put(area.x, area.y, 1, glyphs.pointer, Label::Key);
    }
    let inside = Rect { x: area.x + 2, y: area.y + 1, width: area.width.saturating_sub(3), height: area.height - 1 };
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
    if queue.lanes.iter().any(|lane| lane.paused) {
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
    if queue.lanes.len() > 1 {
        turn(queue, canvas, Rect { y, height: 1, ..area });
        y += 1;
    }
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

/// Whose turn it is, how far it is, what is owed, and how the lanes share the engine.
fn turn(queue: &Queue, canvas: &mut Canvas<'_>, row: Rect) {
    let head = ("turn     ", Label::Head);
    let share = queue.lanes.iter().rev().find_map(|lane| lane.share);
    let share = match (queue.slice_windows, share) {
        (Some(n), Some(share)) => format!("  recordings: {} each, share {}", words::windows(n), percent(share)),
        _ => "  recordings run to their end".to_string(),
    };
    let Some(turn) = &queue.turn else {
        canvas.pieces(row.x, row.y, row.width, &[head, ("none", Label::Dim), (&share, Label::Dim)]);
        return;
    };
    let mut text = format!("{} {}", turn.kind, turn.number);
    if turn.members_left > 0 {
        text.push_str(&format!(", {} left", words::requests(turn.members_left)));
    }
    if let Some(limit) = turn.limit {
        let (served, limit) = (words::cost(queue.op, turn.served_cost), words::cost(queue.op, limit));
        text.push_str(&format!(", {served} of {limit}"));
    }
    let owed = match turn.owed_total {
        0 => String::new(),
        n => format!("  {} owed", words::requests(n)),
    };
    let pieces = [head, (&*text, Label::Text), (&*owed, Label::Warn), (&*share, Label::Dim)];
    canvas.pieces(row.x, row.y, row.width, &pieces);
}

fn lane_cell(queue: &Queue, lane: &LaneView, id: Id, canvas: &Canvas<'_>) -> (String, Label) {
    let glyphs = canvas.glyphs();
    let number = |n: u64| (count(n), if n == 0 { Label::Dim } else { Label::Text });
    let trouble = |n: u64| (count(n), if n == 0 { Label::Dim } else { Label::Bad });
    match id {
        Id::Lane if lane.paused => (format!("{} {} paused", lane.lane, glyphs.paused), Label::Warn),
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
            Some(expected) => format!("{} of about {}", duration(batch.running_ms), duration(expected)),
            None => format!("{} so far", duration(batch.running_ms)),
        };
        match batch.expected_ms {
            Some(expected) if room >= 32 => {
                let gauge = (room - 22).min(40);
                let ratio = batch.running_ms / expected.max(1.0);
                canvas.gauge(x, y, gauge, ratio, if ratio > 1.5 { Label::Warn } else { Label::GaugeFull });
                canvas.put(x + gauge + 2, y, 20, &time, Label::Text);
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
        last.items,
        last.lane,
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
    let gauges = [
        ("slots    ", generation.slots_used, generation.slots, format!(", {} queued", count(generation.queued))),
        ("kv       ", generation.kv_used_tokens, generation.kv_capacity_tokens, " tokens".to_string()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_card_is_seen_whole_wherever_it_is() {
        let heights = [8, 5, 9, 2, 8, 30, 8];
        for selected in 0..heights.len() {
            for (columns, room) in [(1, 9), (1, 21), (2, 12), (2, 40)] {
                let placed = arrange(&heights, selected, columns, room);
                let found = placed.iter().find(|(index, ..)| *index == selected);
                let &(_, column, y) = found.unwrap_or_else(|| panic!("card {selected} in {columns} columns of {room}"));
                assert!(column < columns && (y == 0 || y + heights[selected] <= room));
            }
        }
    }
}
