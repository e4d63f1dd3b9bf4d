//! A recording in place of an engine: time moves it, and the keys that look back walk on it.

use super::update::{complain, settle, tell};
use super::{Playback, State};

impl State {
    /// Watches a recording instead of an engine. Nothing can be changed then.
    pub fn play(&mut self, playback: Playback) {
        self.read_only.on = true;
        self.read_only.locked = true;
        self.playback = Some(playback);
        show(self);
    }
}

/// Shows what is seen at the recording's place.
fn show(state: &mut State) {
    let Some(playback) = &state.playback else { return };
    state.live = playback.seen(state.now_ms);
    state.link = playback.link(state.now_ms);
    state.settings.knobs = playback.knobs();
    if state.settings.knobs.is_none() {
        state.settings.failed = Some("the recording has no table of settings here".to_string());
    }
    settle(state);
}

/// Lets time go by.
pub fn pass(state: &mut State, passed_ms: u64) {
    if state.playback.as_mut().is_some_and(|playback| playback.pass(passed_ms)) {
        show(state);
    }
}

/// Stops a recording, or lets it play on (from its end: from its beginning). Says whether there is one.
pub fn stop_or_go(state: &mut State) -> bool {
    let Some(playback) = &mut state.playback else { return false };
    playback.paused = !playback.paused;
    if !playback.paused && playback.at_end() {
        playback.seek(0);
    }
    show(state);
    true
}

/// Walks to another place on a recording and stops there. Says whether there is one.
pub fn walk(state: &mut State, to: impl FnOnce(u64) -> u64) -> bool {
    let Some(playback) = &mut state.playback else { return false };
    playback.seek(to(playback.at_ms()));
    playback.paused = true;
    show(state);
    true
}

/// Plays a recording faster or slower.
pub fn change_speed(state: &mut State, by: isize) {
    let Some(playback) = &mut state.playback else {
        return complain(state, "only a recording has a speed (lanekeeper replay FILE)");
    };
    playback.change_speed(by);
    let pace = playback.pace();
    tell(state, format!("plays at {pace} of its own pace"));
}
