//! Words and signs for what the snapshot says: shared by views, so that they cannot say it differently.

use super::super::glyphs::Glyphs;
use super::super::model::{Link, State};
use super::super::text::{coarse, columns, count, duration, short};
use super::super::theme::Label;
use crate::control::snapshot::{EngineState, Model, ModelState, Outcome, Request, RequestState, Wait};
use crate::control::{Op, WaitCode};

/// The engine's state: sign, word, label.
pub fn engine(state: EngineState, glyphs: &Glyphs) -> (&'static str, &'static str, Label) {
    match state {
        EngineState::Ready => (glyphs.good, "ready", Label::Good),
        EngineState::Starting => (glyphs.busy, "starting", Label::Busy),
        EngineState::Degraded => (glyphs.warn, "degraded", Label::Warn),
        EngineState::Draining => (glyphs.warn, "draining", Label::Warn),
        EngineState::Stopped => (glyphs.off, "stopped", Label::Bad),
    }
}

/// A model's state: sign, word, label.
pub fn model(model: &Model, glyphs: &Glyphs) -> (&'static str, String, Label) {
    match &model.state {
        ModelState::Ready => (glyphs.good, "ready".to_string(), Label::Good),
        ModelState::Loading { done_ratio } => {
            (glyphs.busy, format!("load {:.0}%", done_ratio.clamp(0.0, 1.0) * 100.0), Label::Busy)
        }
        ModelState::Failed { .. } => (glyphs.bad, "failed".to_string(), Label::Bad),
        ModelState::Unloaded => (glyphs.off, "unloaded".to_string(), Label::Dim),
    }
}

/// A request's state: sign, word, label.
pub fn request(request: &Request, glyphs: &Glyphs) -> (&'static str, &'static str, Label) {
    match (request.state, request.outcome) {
        (RequestState::Decoding, _) => (glyphs.off, "decoding", Label::Dim),
        (RequestState::Queued, _) => (glyphs.off, "queued", Label::Warn),
        (RequestState::Running, _) => (glyphs.busy, "running", Label::Busy),
        (RequestState::Streaming, _) => (glyphs.busy, "streaming", Label::Busy),
        (RequestState::Done, None) => (glyphs.good, "done", Label::Dim),
        (RequestState::Done, Some(Outcome::Served)) => (glyphs.good, "served", Label::Dim),
        (RequestState::Done, Some(Outcome::Failed)) => (glyphs.bad, "failed", Label::Bad),
        (RequestState::Done, Some(Outcome::Expired)) => (glyphs.bad, "expired", Label::Bad),
        (RequestState::Done, Some(Outcome::Cancelled)) => (glyphs.bad, "cancelled", Label::Dim),
    }
}

/// A cost in its operation's unit: `34s` of audio, `1 234 tok`.
pub fn cost(op: Op, cost: u64) -> String {
    match op {
        Op::Transcribe => duration(cost as f64),
        Op::Embed | Op::Rerank | Op::Generate => format!("{} tok", count(cost)),
    }
}

/// `1 window`, `3 windows`.
pub fn windows(n: u64) -> String {
    if n == 1 { "1 window".to_string() } else { format!("{} windows", count(n)) }
}

/// A throughput in cost units per second: `14.2x rt` (seconds of audio per second), `410 tok/s`.
pub fn rate(op: Op, per_second: f64, glyphs: &Glyphs) -> String {
    match op {
        Op::Transcribe => format!("{}{} rt", short(per_second / 1000.0), glyphs.times),
        Op::Embed | Op::Rerank | Op::Generate => format!("{} tok/s", short(per_second)),
    }
}

/// A time that may be unknown.
pub fn time(ms: Option<f64>, glyphs: &Glyphs) -> String {
    ms.map_or_else(|| glyphs.unknown.to_string(), duration)
}

/// Why a request waits, in as many words as `width` columns hold: a sentence with the estimate, or the code's words.
pub fn wait(wait: &Wait, width: u16) -> String {
    let sentence = wait.code.sentence();
    let (long, short) = match wait.estimate_ms {
        Some(ms) => {
            let ms = duration(ms);
            (format!("{sentence}; about {ms} more"), format!("{}, {ms}", code(wait.code)))
        }
        None => (sentence.to_string(), code(wait.code)),
    };
    if columns(&long) <= usize::from(width) { long } else { short }
}

/// A wait code as scripts see it, in words: `slot busy`.
fn code(code: WaitCode) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(code)) => code.replace('_', " "),
        // A unit variant is always written as a string; its name would do as well.
        _ => format!("{code:?}"),
    }
}

/// `1 request`, `2 requests`.
pub fn requests(n: u64) -> String {
    if n == 1 { "1 request".to_string() } else { format!("{} requests", count(n)) }
}

/// `1 route`, `2 routes`.
pub fn routes(n: u64) -> String {
    if n == 1 { "1 route".to_string() } else { format!("{} routes", count(n)) }
}

/// Why the engine is away, and when the next try is.
pub fn absence(state: &State) -> (String, &'static str) {
    let hint = "is it running? `lanekeeper serve --profile demo` starts one";
    match &state.link {
        Link::Away { attempt: 0, .. } => ("connecting".to_string(), ""),
        Link::Away { attempt, retry_at_ms, why } => {
            let left = retry_at_ms.saturating_sub(state.now_ms);
            let when = if left < 1000 { "now".to_string() } else { format!("in {}", coarse(left as f64)) };
            (format!("try {attempt} failed: {why}; next {when}"), hint)
        }
        Link::Live { .. } => ("connected; the first snapshot is on its way".to_string(), ""),
    }
}
