//! Looking back: at what was frozen, along the ring of kept snapshots, or on a recording.

use super::State;
use super::ring::STEP_MS;
use super::tape;
use super::update::{complain, settle};

pub fn freeze(state: &mut State) {
    if tape::stop_or_go(state) {
        return;
    }
    match state.frozen.take() {
        Some(_) => settle(state),
        None => state.frozen = state.live.clone(),
    }
}

/// Shows the snapshot that came before what is shown, or so many milliseconds before it.
pub fn look_back(state: &mut State, by_ms: u64) {
    if tape::walk(state, |at_ms| at_ms.saturating_sub(by_ms.max(STEP_MS))) {
        return;
    }
    let Some(shown) = state.shown().map(|seen| seen.received_ms) else { return };
    let found = state.ring.before(shown.saturating_sub(by_ms - 1));
    match found.or_else(|| state.ring.oldest().filter(|oldest| oldest.received_ms < shown)) {
        Some(seen) => state.frozen = Some(seen),
        None => return complain(state, "nothing older is kept: the last ten minutes, since this console began"),
    }
    settle(state);
}

/// Shows what came after; behind the newest, the view goes on by itself.
pub fn look_on(state: &mut State, by_ms: u64) {
    if tape::walk(state, |at_ms| at_ms.saturating_add(by_ms.max(STEP_MS))) {
        return;
    }
    let Some(shown) = state.frozen.as_ref().map(|seen| seen.received_ms) else { return };
    state.frozen = state.ring.after(shown.saturating_add(by_ms - 1));
    settle(state);
}
