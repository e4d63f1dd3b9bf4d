//! Speculation: one card per language model, with the gate and its reason, the gains, and how deep proposals hold.

use super::super::model::{Line, LineKind, Seen, State};
use super::super::text::{count, percent};
use super::super::theme::Label;
use super::{Canvas, cards};
use crate::control::snapshot::ActiveSequence;
use crate::control::speculation::{DepthCounts, SURVIVAL_DEPTHS, SpeculationView};
use ratatui::layout::Rect;

/// Draws as many cards as fit, the selected one among them.
pub fn draw(state: &State, seen: &Seen, canvas: &mut Canvas<'_>, body: Rect) {
    if state.line.key().is_none() {
        canvas.put(body.x + 2, body.y + 1, body.width.saturating_sub(3), "no model generates text", Label::Dim);
        return;
    }
    cards::draw(state, seen, canvas, body, height, card);
}

fn height(line: &Line<'_>, _selected: bool) -> u16 {
    let LineKind::Generation(generation) = line.kind else { return 1 };
    let Some(view) = &generation.speculation else { return 2 };
    // Title, gate, because, gain, window, counts, the heads of depths, both sources, self-check; differences; sequences.
    let sequences = if generation.active.is_empty() { 0 } else { 1 + generation.active.len() as u16 };
    10 + view.self_check.differences.len() as u16 + sequences
}

fn card(line: &Line<'_>, selected: bool, canvas: &mut Canvas<'_>, area: Rect) {
    let LineKind::Generation(generation) = line.kind else { return };
    let Some(view) = &generation.speculation else {
        let inside = cards::frame(line, selected, &[], canvas, area);
        cards::row("gate", &[("off: this engine tells of no speculation", Label::Dim)], canvas, inside, inside.y);
        return;
    };
    let policy = format!("{}, policy {}", view.proposer, view.policy.name());
    let inside = cards::frame(line, selected, &[policy, view.policy.name().to_string()], canvas, area);
    let y = gate(view, canvas, inside);
    let y = survival(view, canvas, inside, y);
    let y = self_check(view, canvas, inside, y);
    sequences(&generation.active, canvas, inside, y);
}

fn gate(view: &SpeculationView, canvas: &mut Canvas<'_>, area: Rect) -> u16 {
    let glyphs = canvas.glyphs();
    let (sign, label) = if view.gate.on { (glyphs.good, Label::Good) } else { (glyphs.off, Label::Dim) };
    let turned =
        if view.turns == 1 { "  turned once".to_string() } else { format!("  turned {} times", count(view.turns)) };
    let state = [(sign, label), (" ", label), (view.gate.state(), label), (&*turned, Label::Dim)];
    let gain = |gain: Option<f64>| gain.map_or_else(|| glyphs.unknown.to_string(), |gain| format!("x{gain:.2}"));
    let gains = format!("predicted {}, measured {}", gain(view.gate.predicted_gain), gain(view.gate.measured_gain));
    let known = |text: Option<String>| text.unwrap_or_else(|| glyphs.unknown.to_string());
    let window = format!(
        "{} wide of {} to {}, depth {}, {} in flight at most",
        known(view.width_mean.map(|mean| format!("{mean:.1}"))),
        view.width_min,
        view.width_max,
        view.depth,
        view.recent.in_flight_max,
    );
    let counts = format!(
        "{} over the last {} windows; since start {} of {} in {}",
        known(view.accept_ratio.map(percent)),
        count(view.recent.windows),
        count(view.totals.accepted),
        count(view.totals.drafted),
        count(view.totals.windows),
    );
    let stale = format!(", {} stale", count(view.totals.stale));
    let stale_label = if view.totals.stale > 0 { Label::Warn } else { Label::Dim };
    let rows: [(&str, &[(&str, Label)]); 5] = [
        ("gate", &state),
        ("because", &[(view.gate.because.sentence(), Label::Text)]),
        ("gain", &[(&gains, Label::Text)]),
        ("window", &[(&window, Label::Text), (&stale, stale_label)]),
        ("held", &[(&counts, Label::Text)]),
    ];
    for (i, (head, pieces)) in rows.into_iter().enumerate() {
        cards::row(head, pieces, canvas, area, area.y + i as u16);
    }
    area.y + 5
}

/// A bar and a number per depth, a row per source.
fn survival(view: &SpeculationView, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> u16 {
    let room = area.width.saturating_sub(cards::HEAD);
    let each = (room / SURVIVAL_DEPTHS as u16).clamp(3, 12);
    let depths = (usize::from(room / each)).min(SURVIVAL_DEPTHS);
    canvas.put(area.x, y, cards::HEAD, "depth", Label::Head);
    for depth in 1..=depths {
        let x = area.x + cards::HEAD + (depth as u16 - 1) * each;
        canvas.put(x, y, each, &depth.to_string(), Label::Head);
    }
    let recent = &view.recent.survival;
    for (i, (name, counts)) in [("native", &recent.native), ("tail", &recent.tail)].into_iter().enumerate() {
        source(name, counts, each, depths, canvas, Rect { y: y + 1 + i as u16, height: 1, ..area });
    }
    y + 3
}

fn source(name: &str, counts: &DepthCounts, each: u16, depths: usize, canvas: &mut Canvas<'_>, row: Rect) {
    if counts.rate(1).is_none() {
        cards::row(name, &[("nothing proposed", Label::Dim)], canvas, row, row.y);
        return;
    }
    canvas.put(row.x, row.y, cards::HEAD, name, Label::Head);
    for depth in 1..=depths {
        let x = row.x + cards::HEAD + (depth as u16 - 1) * each;
        let Some(rate) = counts.rate(depth) else {
            canvas.put(x, row.y, 1, canvas.glyphs().unknown, Label::Dim);
            continue;
        };
        canvas.put(x, row.y, 1, canvas.glyphs().bar(rate), Label::Flow);
        // A number needs its four columns and the bar's.
        if each >= 6 {
            canvas.put(x + 1, row.y, each - 1, &percent(rate), Label::Text);
        }
    }
}

fn self_check(view: &SpeculationView, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> u16 {
    let check = &view.self_check;
    let label = if check.differed > 0 { Label::Bad } else { Label::Text };
    let text = format!("{} of {} answers computed again differed", count(check.differed), count(check.checked));
    let rest = format!(", {} wait, {} given up", count(check.waiting), count(check.skipped));
    cards::row("check", &[(&text, label), (&rest, Label::Dim)], canvas, area, y);
    for (i, difference) in check.differences.iter().rev().enumerate() {
        let text = format!("{} from token {} of {}", difference.request, difference.at, difference.of);
        cards::row("", &[(&text, Label::Bad)], canvas, area, y + 1 + i as u16);
    }
    let asked = format!("{} told to, {} opted out", count(view.forced), count(view.opted_out));
    let y = y + 1 + check.differences.len() as u16;
    cards::row("requests", &[(&asked, Label::Dim)], canvas, area, y);
    y + 1
}

/// The sequences that generate now.
fn sequences(active: &[ActiveSequence], canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    if active.is_empty() {
        return;
    }
    canvas.put(area.x, y, area.width, "REQUEST          TOKENS      HELD                 RATE", Label::Head);
    for (i, sequence) in active.iter().enumerate() {
        let y = y + 1 + i as u16;
        canvas.put(area.x, y, 15, &sequence.request, Label::Text);
        let tokens = format!("{}/{}", sequence.generated_tokens, sequence.max_tokens);
        canvas.put(area.x + 17, y, 10, &tokens, Label::Text);
        let rate = sequence.tokens_per_s.map_or_else(|| "prefill".to_string(), |rate| format!("{rate:.1} tok/s"));
        let held = match sequence.drafted_tokens {
            0 => canvas.glyphs().unknown.to_string(),
            drafted => {
                let accepted = sequence.accepted_tokens;
                format!("{} ({}/{})", percent(accepted as f64 / drafted as f64), count(accepted), count(drafted))
            }
        };
        let label = if sequence.drafted_tokens == 0 { Label::Dim } else { Label::Text };
        canvas.put(area.x + 29, y, 19, &held, label);
        canvas.put(area.x + 50, y, 12, &rate, Label::Text);
    }
}
