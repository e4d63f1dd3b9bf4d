//! What the console's tests share: recorded snapshots, and states made of them.

use super::facts::Depth;
use super::glyphs::Glyphs;
use super::keys::Key;
use super::model::{Cmd, Msg, Playback, State, View, update};
use super::theme::{Theme, ThemeName};
use super::view::Look;
use crate::client::Tape;
use crate::control::Snapshot;
use crate::control::knobs::Knobs;
use crate::control::snapshot::Request;
use std::sync::Arc;

/// A recorded snapshot of `tests/fixtures/snapshots`.
pub fn recorded(name: &str) -> Snapshot {
    let path = format!("{}/tests/fixtures/snapshots/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The recorded session: under load, a share lowered at 12 s with a lease of ten seconds, the engine gone at 25 s.
pub fn session() -> Arc<Tape> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/session.jsonl");
    Arc::new(Tape::open(path.as_ref()).unwrap_or_else(|error| panic!("{error}")))
}

/// A state that plays the recorded session from its beginning.
pub fn playing(view: View, size: (u16, u16)) -> State {
    let mut state = State::new(view, false, size);
    state.play(Playback::new(session()));
    state
}

/// The recorded table of settings.
pub fn knobs() -> Knobs {
    let path = format!("{}/tests/fixtures/knobs.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The busy snapshot with this many requests.
pub fn crowd(requests: usize) -> Snapshot {
    let mut snapshot = recorded("busy");
    let some = std::mem::take(&mut snapshot.requests.shown);
    let many = some.iter().cycle().take(requests).enumerate();
    snapshot.requests.shown =
        many.map(|(i, request)| Request { id: format!("req-{i:05}"), ..request.clone() }).collect();
    snapshot.requests.total = requests as u64;
    snapshot
}

/// Takes messages in one after the other; also gives what they asked for.
pub fn take(mut state: State, messages: impl IntoIterator<Item = Msg>) -> (State, Vec<Cmd>) {
    let mut commands = Vec::new();
    for msg in messages {
        let (next, asked) = update(state, msg);
        state = next;
        commands.extend(asked);
    }
    (state, commands)
}

/// Presses keys.
pub fn press(state: State, keys: &[Key]) -> State {
    take(state, keys.iter().map(|&key| Msg::Key(key))).0
}

/// Types text.
pub fn type_text(state: State, text: &str) -> State {
    take(state, text.chars().map(|c| Msg::Key(Key::Char(c)))).0
}

/// A state of `size` that has watched `snapshot` come about for half a minute.
pub fn watching(snapshot: &Snapshot, view: View, size: (u16, u16)) -> State {
    const SECONDS: u64 = 30;
    let mut messages = Vec::new();
    for second in 1..=SECONDS {
        let mut past = snapshot.clone();
        let left = SECONDS - second;
        past.seq -= left.min(past.seq);
        past.uptime_ms = past.uptime_ms.saturating_sub(left * 1000);
        for queue in past.models.iter_mut().flat_map(|model| &mut model.queues) {
            let busy = !queue.inflight.is_empty();
            let step = queue.caps.max_batch_cost_effective / 8;
            // A wave, so that sparklines have something to show.
            let missing: u64 = (second..SECONDS).map(|s| step * (3 + (s * 7 + s * s) % 5)).sum();
            queue.counters.cost_served -= if busy { missing.min(queue.counters.cost_served) } else { 0 };
            for lane in queue.lanes.iter_mut().filter(|_| busy && left > 0) {
                lane.pending = lane.pending * (second % 9 + 2) / 8;
            }
        }
        for generation in past.generation.iter_mut().filter(|generation| generation.slots_used > 0) {
            generation.generated_tokens -= (second..SECONDS).map(|s| 40 + (s * 13) % 31).sum::<u64>();
            generation.queued = if left > 0 { second % 5 } else { generation.queued };
        }
        messages.push(Msg::Tick { now_ms: second * 1000 });
        messages.push(Msg::Fresh { snapshot: Arc::new(past), received_ms: second * 1000, missed: 0 });
    }
    messages.push(Msg::Tick { now_ms: SECONDS * 1000 + 200 });
    if view == View::Settings {
        messages.push(Msg::Knobs(Ok(Arc::new(knobs()))));
    }
    messages.push(Msg::Traffic { bytes_per_s: 1230 });
    take(State::new(view, false, size), messages).0
}

/// A look.
pub fn look(depth: Depth, ascii: bool) -> Look {
    let theme = Theme::resolve(ThemeName::Dark, depth, false);
    Look { theme, glyphs: Glyphs::for_ascii(ascii), reduced_motion: false }
}
