//! The reducer.

use super::super::keys::{Action, Found, Key};
use super::asks::{accept, ask_to_cancel, meant, toggle_read_only};
use super::command;
use super::lines::lines_of;
use super::overlays::scroll;
use super::past::{freeze, look_back, look_on};
use super::prompt::{edit_prompt, next_match, open_prompt, type_into_prompt};
use super::settings;
use super::tape;
use super::{Ask, Cmd, Confirm, Cursor, Link, Msg, Overlay, PromptKind, Seen, State, Target, Toast, View};
use crate::control::snapshot::RequestState;
use std::sync::Arc;

const TOAST_MS: u64 = 5_000;
/// What terminals take by OSC 52 without cutting it.
const COPY_LIMIT: usize = 48 * 1024;
const MINUTE_MS: u64 = 60_000;
/// An error stays long enough to be read.
const ERROR_TOAST_MS: u64 = 12_000;
/// Rows of the screen that are not the view: header, tabs, footer.
pub(super) const CHROME: u16 = 3;

/// Takes `msg` in: the next state, and what is to be done outside.
pub fn update(mut state: State, msg: Msg) -> (State, Vec<Cmd>) {
    let commands = match msg {
        Msg::Tick { now_ms } => {
            let passed = now_ms.saturating_sub(state.now_ms);
            state.now_ms = state.now_ms.max(now_ms);
            tape::pass(&mut state, passed);
            if state.toast.as_ref().is_some_and(|toast| toast.until_ms <= state.now_ms) {
                state.toast = None;
            }
            Vec::new()
        }
        Msg::Resize { width, height } => {
            state.size = (width, height);
            Vec::new()
        }
        Msg::Traffic { bytes_per_s } => {
            state.traffic = Some(bytes_per_s);
            Vec::new()
        }
        Msg::Fresh { snapshot, received_ms, missed } => {
            let mut history = state.live.take().map(|seen| seen.history).unwrap_or_default();
            Arc::make_mut(&mut history).record(&snapshot);
            state.ring.keep(&snapshot, received_ms);
            state.link = Link::Live { missed };
            state.live = Some(Seen { snapshot, received_ms, history });
            if state.frozen.is_none() {
                settle(&mut state);
            }
            close_confirm_of_ended_request(&mut state);
            settings::wanted(&mut state, false)
        }
        Msg::Away { attempt, retry_in_ms, why } => {
            state.link = Link::Away { attempt, retry_at_ms: state.now_ms.saturating_add(retry_in_ms), why };
            Vec::new()
        }
        Msg::Acted(result) => {
            match result {
                Ok(text) => tell(&mut state, text),
                Err(text) => complain(&mut state, text),
            }
            Vec::new()
        }
        Msg::Knobs(news) => {
            state.settings.take(news);
            settle(&mut state);
            settings::wanted(&mut state, false)
        }
        Msg::Meant(meaning) => {
            meant(&mut state, meaning);
            Vec::new()
        }
        Msg::Paste(text) => {
            type_into_prompt(&mut state, &text);
            Vec::new()
        }
        Msg::Click(target) => {
            click(&mut state, target);
            settings::wanted(&mut state, true)
        }
        Msg::Key(key) => {
            let before = state.view;
            let mut commands = press(&mut state, key);
            if state.view != before {
                commands.extend(settings::wanted(&mut state, true));
            }
            commands
        }
    };
    (state, commands)
}

pub(super) fn tell(state: &mut State, text: impl Into<String>) {
    state.toast = Some(Toast { text: text.into(), error: false, until_ms: state.now_ms + TOAST_MS });
}

pub(super) fn complain(state: &mut State, text: impl Into<String>) {
    state.toast = Some(Toast { text: text.into(), error: true, until_ms: state.now_ms + ERROR_TOAST_MS });
}

/// Orders the rows of what is shown anew and finds both selections again.
pub(super) fn settle(state: &mut State) {
    let shown = state.shown().map(|seen| Arc::clone(&seen.snapshot));
    let Some(snapshot) = shown else { return };
    state.table.refresh(&snapshot.requests.shown);
    state.settings.settle(&snapshot);
    let lines = lines_of(state.view, &snapshot);
    state.line.settle(lines.len(), |key| lines.iter().position(|line| line.key() == *key), |index| lines[index].key());
}

/// A question about a request that has ended meanwhile is moot; leaving it open would invite a wrong answer.
fn close_confirm_of_ended_request(state: &mut State) {
    let Some(Overlay::Confirm(Confirm { ask: Ask::CancelRequest { request, .. }, .. })) = &state.overlay else {
        return;
    };
    let Some(seen) = &state.live else { return };
    let ended = seen.snapshot.requests.shown.iter().any(|r| r.id == *request && r.state == RequestState::Done);
    if ended {
        let text = format!("{request} ended by itself");
        state.overlay = None;
        tell(state, text);
    }
}

fn click(state: &mut State, target: Target) {
    // A click beside a dialog must not act behind it.
    if state.overlay.is_some() || state.prompt.is_some() {
        return;
    }
    match target {
        Target::Tab(view) => state.view = view,
        Target::Line(key) => state.line.select(key),
        Target::Request(id) => state.table.cursor.select(id),
        Target::Knob(name) => state.settings.knob.select(name),
        Target::Entry(revision) => state.settings.entry.select(revision),
    }
    settle(state);
}

fn press(state: &mut State, key: Key) -> Vec<Cmd> {
    let place = state.place();
    let begun = state.begun.take();
    let whole: Vec<Key> = begun.into_iter().chain([key]).collect();
    let keys = Arc::clone(&state.keys);
    let found = match keys.find(place, &whole) {
        // A chord that was broken off: the second key is taken for itself.
        Found::Nothing if whole.len() > 1 => keys.find(place, &[key]),
        found => found,
    };
    match (found, key) {
        (Found::Action(action), _) => act(state, action),
        (Found::Prefix, _) => {
            state.begun = Some(key);
            Vec::new()
        }
        (Found::Nothing, Key::Char(c)) => {
            type_into_prompt(state, c.encode_utf8(&mut [0; 4]));
            Vec::new()
        }
        (Found::Nothing, _) => Vec::new(),
    }
}

fn act(state: &mut State, action: Action) -> Vec<Cmd> {
    match action {
        Action::Help => state.overlay = Some(Overlay::Help { query: String::new(), scroll: 0 }),
        Action::Back => back(state),
        Action::Quit | Action::QuitNow => return vec![Cmd::Quit],
        Action::Command => open_prompt(state, PromptKind::Command),
        Action::Filter => {
            open_prompt(state, if state.view == View::Requests { PromptKind::Filter } else { PromptKind::Search });
        }
        Action::NextMatch => next_match(state, 1),
        Action::PreviousMatch => next_match(state, -1),
        Action::Older => look_back(state, 1),
        Action::Newer => look_on(state, 1),
        Action::MinuteOlder => look_back(state, MINUTE_MS),
        Action::MinuteNewer => look_on(state, MINUTE_MS),
        Action::Oldest => look_back(state, u64::MAX),
        Action::Newest => look_on(state, u64::MAX),
        Action::Slower => tape::change_speed(state, -1),
        Action::Faster => tape::change_speed(state, 1),
        Action::Show(view) => show(state, view),
        Action::NextView => show(state, state.view.step(1)),
        Action::PreviousView => show(state, state.view.step(View::ALL.len() - 1)),
        Action::Down => step(state, 1),
        Action::Up => step(state, -1),
        Action::HalfDown => step(state, half_screen(state)),
        Action::HalfUp => step(state, -half_screen(state)),
        Action::First => step(state, isize::MIN),
        Action::Last => step(state, isize::MAX),
        Action::Open => open(state),
        Action::Sort => {
            state.table.sort = state.table.sort.next();
            settle(state);
        }
        Action::Reverse => {
            state.table.reverse = !state.table.reverse;
            settle(state);
        }
        Action::Freeze => freeze(state),
        Action::CancelRequest => ask_to_cancel(state),
        Action::Copy => return copy(state),
        Action::Edit => match settings::edit(state) {
            Some(text) => {
                open_prompt(state, PromptKind::Command);
                type_into_prompt(state, &text);
            }
            None => complain(state, "nothing is selected"),
        },
        Action::ReadOnly => toggle_read_only(state),
        Action::Repaint => return vec![Cmd::Repaint],
        Action::Suspend => return vec![Cmd::Suspend],
        Action::Accept => return accept(state),
        Action::Erase => edit_prompt(state, |text| {
            text.pop();
        }),
        Action::EraseWord => edit_prompt(state, |text| {
            let before = text.trim_end().char_indices().rfind(|(_, c)| c.is_whitespace());
            text.truncate(before.map_or(0, |(at, space)| at + space.len_utf8()));
        }),
        Action::EraseLine => edit_prompt(state, String::clear),
        Action::Complete => {
            if let Some(prompt) = state.prompt.as_mut().filter(|prompt| prompt.kind == PromptKind::Command)
                && let Some(full) = command::complete(&prompt.text, &state.words)
            {
                prompt.text = full;
            }
        }
        Action::OtherButton | Action::Yes => {
            if let Some(Overlay::Confirm(confirm)) = &mut state.overlay {
                confirm.yes = action == Action::Yes || !confirm.yes;
            }
        }
    }
    Vec::new()
}

pub(super) fn show(state: &mut State, view: View) {
    if view == View::Journal && state.view != view {
        // What happened last is what one comes for.
        state.settings.entry = Cursor::default();
    }
    state.view = view;
    state.overlay = None;
    settle(state);
}

/// Closes the topmost thing; with nothing open, lifts the filter.
fn back(state: &mut State) {
    if let Some(prompt) = state.prompt.take() {
        match prompt.kind {
            PromptKind::Filter => {
                state.table.filter = prompt.before;
                settle(state);
            }
            PromptKind::Search => state.search = prompt.before,
            PromptKind::Command => {}
        }
    } else if state.overlay.take().is_some() || state.toast.take().is_some() {
    } else if !state.table.filter.is_empty() && state.view == View::Requests {
        state.table.filter.clear();
        settle(state);
    } else if state.frozen.is_some() {
        freeze(state);
    }
}

fn half_screen(state: &State) -> isize {
    let rows = state.size.1.saturating_sub(CHROME) / 2;
    isize::try_from(rows.max(1)).unwrap_or(1)
}

fn step(state: &mut State, by: isize) {
    if scroll(state, by) {
        return;
    }
    let Some(snapshot) = state.shown().map(|seen| Arc::clone(&seen.snapshot)) else { return };
    match state.view {
        View::Requests => {
            state.table.step(by, &snapshot.requests.shown);
            // The detail follows the selection, so that one can walk through requests with it open.
            if let (Some(Overlay::Detail { request }), Some(id)) = (&mut state.overlay, state.table.cursor.key()) {
                request.clone_from(id);
            }
        }
        View::Settings => {
            if let Some(knobs) = state.settings.knobs.clone() {
                state.settings.knob.step(by, knobs.knobs.len(), |index| knobs.knobs[index].name.clone());
            }
        }
        View::Journal => {
            let all = settings::entries(&snapshot);
            state.settings.entry.step(by, all.len(), |index| all[index].revision);
        }
        View::Overview | View::Lanes | View::Caps | View::Speculation | View::Routes => {
            let lines = lines_of(state.view, &snapshot);
            state.line.step(by, lines.len(), |index| lines[index].key());
        }
    }
}

fn open(state: &mut State) {
    match state.view {
        View::Overview => show(state, View::Lanes),
        View::Settings | View::Journal => {
            if let Some(detail) = settings::detail(state) {
                state.overlay = Some(detail);
            }
        }
        View::Lanes | View::Caps | View::Speculation | View::Routes => {
            if let Some(key) = state.line.key() {
                let op = key.op.map(|op| format!(" op:{op}")).unwrap_or_default();
                state.table.filter = format!("model:{}{op}", key.model);
                show(state, View::Requests);
            }
        }
        View::Requests => {
            if let Some(id) = state.table.cursor.key() {
                state.overlay = Some(Overlay::Detail { request: id.clone() });
            }
        }
    }
}

/// Copies what is selected: a command's output, a request's id, a model's id.
fn copy(state: &mut State) -> Vec<Cmd> {
    let (what, text) = match (&state.overlay, state.view) {
        (Some(Overlay::Output { title, lines, .. }), _) => (format!("what {title} wrote"), lines.join("\n")),
        (Some(Overlay::Detail { request }), _) => (request.clone(), request.clone()),
        (_, View::Requests) => match state.table.cursor.key() {
            Some(id) => (id.clone(), id.clone()),
            None => return Vec::new(),
        },
        (_, View::Settings) => match state.settings.chosen() {
            Some(knob) => (knob.name.clone(), format!("{}={}", knob.name, knob.value.as_deref().unwrap_or_default())),
            None => return Vec::new(),
        },
        (_, View::Journal) => match state.settings.entry.key() {
            Some(revision) => (format!("revision {revision}"), revision.to_string()),
            None => return Vec::new(),
        },
        _ => match state.line.key() {
            Some(key) => (key.model.clone(), key.model.clone()),
            None => return Vec::new(),
        },
    };
    if text.len() > COPY_LIMIT {
        complain(
            state,
            format!("{what}: {} bytes are more than a terminal's clipboard takes ({COPY_LIMIT})", text.len()),
        );
        return Vec::new();
    }
    tell(state, format!("copied {what}"));
    vec![Cmd::Copy(text)]
}
