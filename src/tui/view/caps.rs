//! Caps: one card per line, with what bounds a batch, the range that the controller has, and what moved it last.

use super::super::model::{Line, LineKind, Seen, State};
use super::super::text::{coarse, count, duration, percent, short};
use super::super::theme::Label;
use super::{Canvas, cards, words};
use crate::control::Op;
use crate::control::snapshot::{CapMoved, Caps, Controller, Generation, Queue};
use ratatui::layout::Rect;

/// Moves that a card shows beside the selected one's, which shows all.
const MOVES: usize = 1;

/// Draws as many cards as fit, the selected one among them.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    cards::draw(state, seen, canvas, body, height, card);
}

/// Moves that a card shows.
fn shown(controller: &Controller, selected: bool) -> usize {
    controller.moves.len().min(if selected { usize::MAX } else { MOVES })
}

fn height(line: &Line<'_>, selected: bool) -> u16 {
    match line.kind {
        // Title, cost, range, wait (where it is adapted), batch, control, latency, and the moves or that there are none.
        LineKind::Queue(queue) => {
            let wait = u16::from(queue.caps.wait_ceiling_ms.is_some());
            6 + wait + shown(&queue.controller, selected).max(1) as u16
        }
        // Title, slots, kv, queue.
        LineKind::Generation(_) => 4,
        LineKind::Bare => 1,
    }
}

fn card(line: &Line<'_>, selected: bool, canvas: &mut Canvas<'_>, area: Rect) {
    let rights = match line.kind {
        LineKind::Queue(queue) => vec![format!("cap from {}", queue.caps.max_batch_cost_source)],
        LineKind::Generation(_) | LineKind::Bare => Vec::new(),
    };
    let inside = cards::frame(line, selected, &rights, canvas, area);
    match line.kind {
        LineKind::Queue(queue) => queue_card(queue, selected, canvas, inside),
        LineKind::Generation(generation) => generation_card(generation, canvas, inside),
        LineKind::Bare => {}
    }
}

fn queue_card(queue: &Queue, selected: bool, canvas: &mut Canvas<'_>, area: Rect) {
    let (op, caps, controller) = (queue.op, &queue.caps, &queue.controller);
    let mut y = area.y;
    cost(op, caps, canvas, area, y);
    y += 1;
    let range = range(op, caps);
    let known = caps.max_batch_cost_floor.is_some() || caps.max_batch_cost_ceiling.is_some();
    cards::row("range", &[(&range, if known { Label::Text } else { Label::Dim })], canvas, area, y);
    y += 1;
    y += u16::from(wait(caps, canvas, area, y));
    let batch = format!(
        "{}, wait {}, coalesce {}, depth {}, queue of {}",
        words::requests(caps.max_batch_requests),
        duration(caps.wait_ms),
        duration(caps.coalesce_ms),
        caps.depth,
        count(caps.max_queue),
    );
    cards::row("batch", &[(&batch, Label::Text)], canvas, area, y);
    y += 1;
    control(controller, canvas, area, y);
    y += 1;
    latency(queue, canvas, area, y);
    y += 1;
    let shown = shown(controller, selected);
    if shown == 0 {
        cards::row("moved", &[("nothing has moved a cap", Label::Dim)], canvas, area, y);
    }
    for (i, moved) in controller.moves.iter().rev().take(shown).enumerate() {
        let head = if i == 0 { "moved" } else { "" };
        let hidden = if i + 1 == shown { controller.moves.len() - shown } else { 0 };
        let more = if hidden > 0 { format!("  {hidden} earlier") } else { String::new() };
        let ago = format!("{:>4} ago  ", coarse(moved.ago_ms));
        let cause = format!("  {}", moved.cause.replace('_', " "));
        let label = if moved.to < moved.from { Label::Warn } else { Label::Good };
        let what = step(op, moved, canvas.glyphs().ascii);
        let pieces = [(&*ago, Label::Dim), (&*what, label), (&*cause, Label::Text), (&*more, Label::Dim)];
        cards::row(head, &pieces, canvas, area, y);
        y += 1;
    }
}

/// The sign of each bound on a track, in the order in which they are drawn: where marks meet, the last is what matters.
struct Marks {
    floor: Option<f64>,
    ceiling: Option<f64>,
    start: Option<f64>,
    hard: Option<f64>,
    cap: f64,
}

impl Marks {
    /// A track from nothing to the highest bound there is, filled up to `filled`. Returns the column after it.
    fn draw(&self, head: &str, filled: f64, label: Label, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> u16 {
        let top = [self.hard, self.ceiling].into_iter().flatten().fold(self.cap, f64::max).max(f64::MIN_POSITIVE);
        let gauge = (area.width / 3).clamp(8, 48);
        let x = area.x + cards::HEAD;
        let at = |value: f64| x + ((value / top).clamp(0.0, 1.0) * f64::from(gauge - 1)).round() as u16;
        canvas.put(area.x, y, cards::HEAD, head, Label::Head);
        canvas.gauge(x, y, gauge, filled / top, label);
        let marks = [
            (self.floor, "[", Label::Dim),
            (self.ceiling, "]", Label::Dim),
            (self.start, "+", Label::Dim),
            (self.hard, "!", Label::Bad),
            (Some(self.cap), "|", Label::Strong),
        ];
        for (value, sign, label) in marks {
            if let Some(value) = value {
                canvas.put(at(value), y, 1, sign, label);
            }
        }
        x + gauge + 2
    }
}

/// The cost cap between its bounds, and what binds.
fn cost(op: Op, caps: &Caps, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let known = |cost: Option<u64>| cost.map(|cost| cost as f64);
    let marks = Marks {
        floor: known(caps.max_batch_cost_floor),
        ceiling: known(caps.max_batch_cost_ceiling),
        start: known(caps.max_batch_cost_start),
        hard: known(caps.max_batch_cost_hard),
        cap: caps.max_batch_cost as f64,
    };
    let bound = caps.max_batch_cost_effective < caps.max_batch_cost;
    let fill = if bound { Label::Warn } else { Label::GaugeFull };
    let x = marks.draw("cost", caps.max_batch_cost_effective as f64, fill, canvas, area, y);
    let text = match bound {
        true => format!(
            "binds at {}, cap {}",
            words::cost(op, caps.max_batch_cost_effective),
            words::cost(op, caps.max_batch_cost)
        ),
        false => format!("cap {}", words::cost(op, caps.max_batch_cost)),
    };
    let hard = caps.max_batch_cost_hard.map(|hard| format!(", hard {}", words::cost(op, hard))).unwrap_or_default();
    let label = if bound { Label::Warn } else { Label::Text };
    canvas.pieces(x, y, area.right().saturating_sub(x), &[(&text, label), (&hard, Label::Dim)]);
}

/// The window that a batch waits for, where the controller moves it. Says whether it is drawn.
fn wait(caps: &Caps, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> bool {
    let (Some(floor), Some(ceiling)) = (caps.wait_floor_ms, caps.wait_ceiling_ms) else { return false };
    let start = caps.wait_start_ms;
    let marks = Marks { floor: Some(floor), ceiling: Some(ceiling), start, hard: None, cap: caps.wait_ms };
    let x = marks.draw("wait", caps.wait_ms, Label::GaugeFull, canvas, area, y);
    let start = start.map(|start| format!("  + start {}", duration(start))).unwrap_or_default();
    let now = format!("waits {}", duration(caps.wait_ms));
    let range = format!("  [ floor {}{start}  ] ceiling {}", duration(floor), duration(ceiling));
    canvas.pieces(x, y, area.right().saturating_sub(x), &[(&now, Label::Text), (&range, Label::Dim)]);
    true
}

/// The range of the cost cap, each bound with the mark that it has on the track.
fn range(op: Op, caps: &Caps) -> String {
    let bounds = [
        ("[", "floor", caps.max_batch_cost_floor),
        ("+", "start", caps.max_batch_cost_start),
        ("]", "ceiling", caps.max_batch_cost_ceiling),
    ];
    let known: Vec<String> = bounds
        .iter()
        .filter_map(|(sign, name, cost)| Some(format!("{sign} {name} {}", words::cost(op, (*cost)?))))
        .collect();
    if known.is_empty() { "none: nothing adapts the cap".to_string() } else { known.join("  ") }
}

fn control(controller: &Controller, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let (state, label) = match (controller.mode.as_str(), controller.frozen, controller.calibrated) {
        ("off" | "", ..) => ("off: caps stay as they are set".to_string(), Label::Dim),
        (mode, true, _) => (format!("{mode}, {} frozen by an operator", canvas.glyphs().paused), Label::Warn),
        (mode, _, false) => (format!("{mode}, calibrating: it has no target yet"), Label::Busy),
        (mode, ..) => (mode.to_string(), Label::Good),
    };
    let inner = format!(
        "  integral {}, streak {}, resets {}",
        short(controller.integral),
        count(controller.streak),
        count(controller.resets)
    );
    let inner = if label == Label::Dim { "" } else { &inner };
    cards::row("control", &[(&state, label), (inner, Label::Dim)], canvas, area, y);
}

/// Target, what is observed, the headroom between them, and how full batches are.
fn latency(queue: &Queue, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let controller = &queue.controller;
    let glyphs = canvas.glyphs();
    let observed = controller.observed_p50_ms.or(queue.latency.p50_ms);
    let headroom = match controller.headroom_ms {
        Some(ms) if ms < 0.0 => format!("-{}", duration(-ms)),
        ms => words::time(ms, glyphs),
    };
    let short_of = controller.headroom_ms.is_some_and(|ms| ms < 0.0);
    let text = format!("target {}, p50 {}", words::time(controller.target_ms, glyphs), words::time(observed, glyphs));
    let headroom = format!(", headroom {headroom}");
    let fill = controller.fill_ratio.map_or_else(|| glyphs.unknown.to_string(), percent);
    let fill = format!(", fill {fill}");
    let label = if short_of { Label::Bad } else { Label::Text };
    cards::row("latency", &[(&text, Label::Text), (&headroom, label), (&fill, Label::Text)], canvas, area, y);
}

/// A move in the knob's unit.
fn step(op: Op, moved: &CapMoved, ascii: bool) -> String {
    let value = |value: f64| match moved.knob.as_str() {
        "max_batch_cost" => words::cost(op, value.max(0.0) as u64),
        knob if knob.ends_with("_ms") => duration(value),
        _ => short(value),
    };
    let arrow = if ascii { "->" } else { "→" };
    let name = match moved.knob.as_str() {
        "max_batch_cost" => "cost",
        "wait_ms" => "wait",
        other => other,
    };
    format!("{name} {} {arrow} {}", value(moved.from), value(moved.to))
}

fn generation_card(generation: &Generation, canvas: &mut Canvas<'_>, area: Rect) {
    let gauge = (area.width / 3).clamp(8, 48);
    let bounds = [
        ("slots", generation.slots_used, generation.slots, "slots"),
        ("kv", generation.kv_used_tokens, generation.kv_capacity_tokens, "tokens"),
        ("queue", generation.queued, generation.max_queue, "may wait"),
    ];
    for (i, (head, used, of, unit)) in bounds.into_iter().enumerate() {
        let y = area.y + i as u16;
        let ratio = used as f64 / of.max(1) as f64;
        canvas.put(area.x, y, cards::HEAD, head, Label::Head);
        let label = if ratio >= 0.95 { Label::Warn } else { Label::GaugeFull };
        canvas.gauge(area.x + cards::HEAD, y, gauge, ratio, label);
        let text = format!("{} of {} {unit}", count(used), count(of));
        let x = area.x + cards::HEAD + gauge + 2;
        canvas.put(x, y, area.right().saturating_sub(x), &text, Label::Text);
    }
}
