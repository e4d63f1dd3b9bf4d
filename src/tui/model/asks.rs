//! What is to be done outside of the console: said in a prompt, asked about in a dialog, refused where nothing may change.

use super::command::{self, Command};
use super::overlays::output;
use super::past::freeze;
use super::prompt::find;
use super::update::{complain, settle, show, tell};
use super::{Ask, Cmd, Confirm, Meaning, Overlay, PromptKind, State, View};
use crate::control::snapshot::RequestState;

/// Enter in a prompt or in a dialog.
pub fn accept(state: &mut State) -> Vec<Cmd> {
    if let Some(prompt) = state.prompt.take() {
        if prompt.kind == PromptKind::Search && !prompt.text.is_empty() && !find(state, 0, 1) {
            complain(state, format!("no line has {:?}", prompt.text));
        }
        if prompt.kind != PromptKind::Command {
            return Vec::new();
        }
        return match command::parse(&prompt.text, &state.words) {
            Ok(Some(command)) => obey(state, command),
            Ok(None) => Vec::new(),
            Err(why) => {
                complain(state, why);
                Vec::new()
            }
        };
    }
    match state.overlay.take() {
        Some(Overlay::Confirm(Confirm { ask: Ask::CancelRequest { request, .. }, yes: true })) => {
            tell(state, format!("cancelling {request}"));
            vec![Cmd::CancelRequest { request }]
        }
        Some(Overlay::Confirm(Confirm { ask: Ask::Run { line, .. }, yes: true })) => {
            tell(state, format!("running {line}"));
            vec![Cmd::Run { line }]
        }
        Some(Overlay::Confirm(_)) => Vec::new(),
        other => {
            state.overlay = other;
            Vec::new()
        }
    }
}

/// What came of a typed command.
pub fn meant(state: &mut State, meaning: Meaning) {
    match meaning {
        Meaning::Output { title, text } => {
            state.toast = None;
            state.overlay = Some(output(title, &text));
        }
        Meaning::Change { line, about } => {
            if !refuse_when_read_only(state) {
                state.toast = None;
                state.overlay = Some(Overlay::Confirm(Confirm { ask: Ask::Run { line, about }, yes: false }));
            }
        }
        Meaning::Refused(why) => complain(state, why),
    }
}

fn obey(state: &mut State, command: Command) -> Vec<Cmd> {
    match command {
        Command::Show(view) => show(state, view),
        Command::Help(query) => state.overlay = Some(Overlay::Help { query, scroll: 0 }),
        Command::Quit => return vec![Cmd::Quit],
        Command::Cancel(request) => ask_to_cancel_one(state, request),
        Command::Cli(line) => {
            tell(state, format!("running {line}"));
            return vec![Cmd::Interpret { line }];
        }
        Command::Filter(filter) => {
            show(state, View::Requests);
            state.table.filter = filter;
            settle(state);
        }
        Command::Sort(sort) => {
            show(state, View::Requests);
            state.table.sort = sort;
            settle(state);
        }
        Command::Freeze => freeze(state),
        Command::ReadOnly => toggle_read_only(state),
    }
    Vec::new()
}

pub fn ask_to_cancel(state: &mut State) {
    if let Some(id) = state.chosen_request().map(str::to_string) {
        ask_to_cancel_one(state, id);
    }
}

fn ask_to_cancel_one(state: &mut State, id: String) {
    if refuse_when_read_only(state) {
        return;
    }
    let found = state.shown().and_then(|seen| seen.snapshot.requests.shown.iter().find(|request| request.id == id));
    match found {
        None => complain(state, format!("{id} is no longer in the engine")),
        Some(request) if request.state == RequestState::Done => {
            complain(state, format!("{id} has ended already: there is nothing to cancel"));
        }
        Some(request) => {
            let about =
                format!("{} on {}, {}, from {}", request.op, request.model, request.state.name(), request.client);
            let ask = Ask::CancelRequest { request: id, about };
            state.overlay = Some(Overlay::Confirm(Confirm { ask, yes: false }));
        }
    }
}

fn refuse_when_read_only(state: &mut State) -> bool {
    if state.read_only.on {
        let way_out = if state.playback.is_some() {
            "a recording plays"
        } else if state.read_only.locked {
            "started with --read-only"
        } else {
            "R lifts it"
        };
        complain(state, format!("read-only: nothing can be changed here ({way_out})"));
    }
    state.read_only.on
}

pub fn toggle_read_only(state: &mut State) {
    if state.playback.is_some() {
        complain(state, "a recording plays: there is nothing that could be changed");
        return;
    }
    if state.read_only.locked {
        complain(state, "read-only since start (--read-only): leave the console to change that");
        return;
    }
    state.read_only.on = !state.read_only.on;
    tell(state, if state.read_only.on { "read-only: nothing can be changed" } else { "changes are possible again" });
}
