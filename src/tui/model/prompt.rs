//! What is typed: the prompt for commands, filters and searches, and what a search finds.

use super::lines::lines_of;
use super::update::{complain, settle};
use super::{Line, Overlay, PROMPT_LIMIT, Prompt, PromptKind, State, View};
use std::sync::Arc;

pub fn open_prompt(state: &mut State, kind: PromptKind) {
    let before = match kind {
        PromptKind::Command => String::new(),
        PromptKind::Filter => state.table.filter.clone(),
        PromptKind::Search => state.search.clone(),
    };
    // A filter is changed where it stands; a search begins anew.
    let text = if kind == PromptKind::Search { String::new() } else { before.clone() };
    state.toast = None;
    state.prompt = Some(Prompt { kind, text, before });
}

/// Adds typed or pasted text to the prompt or to the search of help, whichever is open.
pub fn type_into_prompt(state: &mut State, text: &str) {
    let help = match &mut state.overlay {
        Some(Overlay::Help { query, scroll }) => {
            *scroll = 0;
            Some(query)
        }
        _ => None,
    };
    let Some(line) = state.prompt.as_mut().map(|prompt| &mut prompt.text).or(help) else { return };
    let room = PROMPT_LIMIT.saturating_sub(line.chars().count());
    line.extend(text.chars().filter(|c| !c.is_control()).take(room));
    prompt_changed(state);
}

pub fn edit_prompt(state: &mut State, edit: impl FnOnce(&mut String)) {
    if let Some(prompt) = &mut state.prompt {
        edit(&mut prompt.text);
        prompt_changed(state);
    } else if let Some(Overlay::Help { query, scroll }) = &mut state.overlay {
        edit(query);
        *scroll = 0;
    }
}

/// A filter filters while it is typed, and a search finds.
fn prompt_changed(state: &mut State) {
    match &state.prompt {
        Some(Prompt { kind: PromptKind::Filter, text, .. }) => {
            state.table.filter = text.clone();
            settle(state);
        }
        Some(Prompt { kind: PromptKind::Search, text, .. }) => {
            state.search = text.clone();
            find(state, 0, 1);
        }
        _ => {}
    }
}

/// Selects the next line that has every word of the search, `from` lines on from the selected one, round and round,
/// `by` one or back by one. Says whether there is one.
pub fn find(state: &mut State, from: isize, by: isize) -> bool {
    let Some(snapshot) = state.shown().map(|seen| Arc::clone(&seen.snapshot)) else { return false };
    if state.view == View::Settings {
        return find_knob(state, from, by);
    }
    let lines = lines_of(state.view, &snapshot);
    let words: Vec<String> = state.search.split_whitespace().map(str::to_lowercase).collect();
    let matches = |line: &Line<'_>| {
        let text = format!("{} {}", line.model.id, line.op().map_or("", |op| op.name())).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let rows = lines.len() as isize;
    let at = state.line.index() as isize + from;
    let order = (0..rows).map(|step| (at + by * step).rem_euclid(rows) as usize);
    let found = order.map(|index| &lines[index]).find(|line| matches(line)).map(Line::key);
    let Some(key) = found else { return false };
    state.line.select(key);
    settle(state);
    true
}

/// The same among knobs, by name and by what they are.
fn find_knob(state: &mut State, from: isize, by: isize) -> bool {
    let Some(knobs) = state.settings.knobs.clone().filter(|knobs| !knobs.knobs.is_empty()) else { return false };
    let words: Vec<String> = state.search.split_whitespace().map(str::to_lowercase).collect();
    let rows = knobs.knobs.len() as isize;
    let at = state.settings.knob.index() as isize + from;
    let mut order = (0..rows).map(|step| &knobs.knobs[(at + by * step).rem_euclid(rows) as usize]);
    let found = order.find(|knob| {
        let text = format!("{} {}", knob.name, knob.doc).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    });
    let Some(knob) = found else { return false };
    state.settings.knob.select(knob.name.clone());
    settle(state);
    true
}

/// `n` and `N`: the next match of the search, or the next request that passes the filter, round and round.
pub fn next_match(state: &mut State, by: isize) {
    if state.view == View::Requests {
        let Some(snapshot) = state.shown().map(|seen| Arc::clone(&seen.snapshot)) else { return };
        let rows = state.table.rows.len() as isize;
        if rows > 0 {
            let at = state.table.cursor.index() as isize;
            state.table.step((at + by).rem_euclid(rows) - at, &snapshot.requests.shown);
        }
    } else if state.search.is_empty() {
        complain(state, "nothing to look for: / begins a search");
    } else if !find(state, by, by) {
        let text = format!("no line has {:?}", state.search);
        complain(state, text);
    }
}
