//! One request in full: what it is, where it is, why it waits, the way out, and until when.

use super::super::model::Seen;
use super::super::model::help::wrap;
use super::super::text::{coarse, count, duration, percent};
use super::super::theme::Label;
use super::{Canvas, words};
use crate::control::snapshot::Request;
use ratatui::layout::Rect;

/// The rows that a request takes in `width` columns.
pub fn height(seen: &Seen, request: &Request, width: u16) -> u16 {
    facts(seen, request).iter().map(|(_, text, _)| wrapped(text, width).len() as u16).sum()
}

/// Draws the facts, each under its name, wrapped.
pub fn draw(seen: &Seen, request: &Request, canvas: &mut Canvas<'_>, area: Rect) {
    let (sign, word, label) = words::request(request, canvas.glyphs());
    let mut y = area.y;
    for (name, text, fact_label) in facts(seen, request) {
        for (i, line) in wrapped(&text, area.width).into_iter().enumerate() {
            if y >= area.bottom() {
                return;
            }
            if i == 0 {
                canvas.put(area.x, y, NAME, name, Label::Head);
            }
            let (x, width) = (area.x + NAME, area.width.saturating_sub(NAME));
            match (name, request.done_ratio) {
                ("state", _) => {
                    canvas.pieces(x, y, width, &[(sign, label), (" ", label), (word, label)]);
                }
                ("done", Some(ratio)) => {
                    let gauge = width.saturating_sub(6).min(30);
                    canvas.gauge(x, y, gauge, ratio, Label::GaugeFull);
                    canvas.put(x + gauge + 1, y, 5, &line, fact_label);
                }
                _ => {
                    canvas.put(x, y, width, &line, fact_label);
                }
            }
            y += 1;
        }
    }
}

/// Columns that the names of facts take.
const NAME: u16 = 10;

/// What matters most comes first: on a small screen the rest is cut.
fn facts(seen: &Seen, request: &Request) -> Vec<(&'static str, String, Label)> {
    let mut facts = vec![("state", request.state.name().to_string(), Label::Text)];
    if let Some(wait) = &request.wait {
        facts.push(("waits", sentence(wait.code.sentence()), Label::Warn));
        let estimate = match (request.held_left_ms, wait.estimate_ms) {
            (Some(ms), _) => format!("{} more, then the engine lets it go", duration(ms)),
            (None, Some(ms)) => format!("about {} more until it starts", duration(ms)),
            (None, None) => "not known: nothing measured yet to go by".to_string(),
        };
        facts.push(("until", estimate, Label::Text));
        facts.extend(wait.turns_left.map(|turns| ("bound", bound(turns), Label::Text)));
        facts.push(("way out", sentence(wait.code.way_out()), Label::Text));
    }
    if let (Some(outcome), Some(ago)) = (request.outcome, request.ended_ago_ms) {
        facts.push(("ended", format!("{}, {} ago", outcome.name(), coarse(ago)), Label::Text));
    }
    facts.extend(request.done_ratio.map(|ratio| ("done", percent(ratio.min(1.0)), Label::Text)));
    facts.extend(request.position.map(|place| ("place", place_in_words(seen, request, place), Label::Text)));
    facts.push(("waited", duration(request.queued_ms), Label::Text));
    facts.extend(request.running_ms.map(|ms| ("ran", duration(ms), Label::Text)));
    let lane = request.lane.map(|lane| format!(", lane {lane}")).unwrap_or_default();
    facts.push(("model", format!("{}, {}{lane}", request.model, request.op), Label::Text));
    if let Some(cost) = request.cost {
        facts.push(("cost", format!("{} {}", count(cost), request.op.cost_unit()), Label::Text));
    }
    let mut running = seen.snapshot.generation.iter().flat_map(|generation| &generation.active);
    if let Some(sequence) = running.find(|sequence| sequence.request == request.id && sequence.cached_tokens > 0) {
        let (cached, prompt) = (count(sequence.cached_tokens), count(sequence.prompt_tokens));
        facts.push(("prompt", format!("{prompt} tokens, {cached} of them found in the KV cache"), Label::Text));
    }
    facts.push(("client", request.client.clone(), Label::Text));
    facts
}

/// How many turns can still go first, whatever arrives.
fn bound(turns: u64) -> String {
    match turns {
        0 => "in the turn under way, or the one that is due".to_string(),
        1 => "taken within 1 turn, whatever arrives".to_string(),
        _ => format!("taken within {} turns, whatever arrives", count(turns)),
    }
}

fn place_in_words(seen: &Seen, request: &Request, place: u64) -> String {
    let queue = seen.snapshot.models.iter().find(|model| model.id == request.model);
    let queue = queue.and_then(|model| model.queues.iter().find(|queue| queue.op == request.op));
    let lane = queue.and_then(|queue| queue.lanes.iter().find(|lane| Some(lane.lane) == request.lane));
    match (place, lane) {
        (1, _) => "next".to_string(),
        (_, Some(lane)) => format!("{} of {}", count(place), count(lane.pending.max(place))),
        (_, None) => count(place),
    }
}

/// A sentence that begins with a capital.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// `text` in lines that fit beside the names.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    wrap(text, usize::from(width.saturating_sub(NAME)).max(8))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{recorded, watching};
    use super::*;
    use crate::control::WaitCode;
    use crate::control::snapshot::Wait;
    use crate::tui::View;

    #[test]
    fn a_hold_that_ends_by_itself_says_when() {
        let state = watching(&recorded("busy"), View::Requests, (80, 24));
        let seen = state.shown().unwrap();
        let waits = |r: &&Request| r.wait.is_some();
        let mut held = seen.snapshot.requests.shown.iter().find(waits).unwrap().clone();
        held.wait = Some(Wait::of(WaitCode::Held));
        let until = |request: &Request| facts(seen, request).into_iter().find(|(name, ..)| *name == "until").unwrap().1;
        assert!(until(&held).starts_with("not known"), "somebody has to let it go");
        held.held_left_ms = Some(12_000.0);
        assert!(until(&held).ends_with("more, then the engine lets it go"));
    }
}
