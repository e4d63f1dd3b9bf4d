//! Settings and Journal: which knob or entry is selected, and what is known of the table of knobs.

use super::super::text::duration;
use super::cursor::Cursor;
use super::{Cmd, Overlay, State, View};
use crate::control::changes::{Effect, Entry, EntryKind, LaneEffect, Override};
use crate::control::knobs::{Knob, Knobs};
use crate::control::snapshot::Snapshot;
use crate::control::{Lane, WaitCode, utc};
use std::sync::Arc;

/// What the console knows of the engine's settings. The table of knobs is asked for when it is looked at, and again when
/// the settings' revision has moved.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub knobs: Option<Arc<Knobs>>,
    /// Why the table could not be had.
    pub failed: Option<String>,
    /// The table of this revision was asked for, and nothing has come yet.
    asked: Option<u64>,
    /// The selected knob, by name.
    pub knob: Cursor<String>,
    /// The selected entry of the journal, by revision.
    pub entry: Cursor<u64>,
}

impl Settings {
    /// The selected knob's row.
    pub fn chosen(&self) -> Option<&Knob> {
        let name = self.knob.key()?;
        self.knobs.as_ref()?.knobs.iter().find(|knob| knob.name == *name)
    }

    /// Finds both selections again.
    pub fn settle(&mut self, snapshot: &Snapshot) {
        if let Some(knobs) = &self.knobs {
            let all = &knobs.knobs;
            self.knob.settle(all.len(), |name| all.iter().position(|k| k.name == *name), |i| all[i].name.clone());
        }
        let all = entries(snapshot);
        self.entry.settle(all.len(), |rev| all.iter().position(|e| e.revision == *rev), |i| all[i].revision);
    }

    /// Takes the table in, or why there is none.
    pub fn take(&mut self, news: Result<Arc<Knobs>, String>) {
        self.asked = None;
        match news {
            Ok(knobs) => (self.knobs, self.failed) = (Some(knobs), None),
            Err(why) => self.failed = Some(why),
        }
    }
}

/// The entries of the journal that the snapshot holds, newest first.
pub fn entries(snapshot: &Snapshot) -> Vec<&Entry> {
    snapshot.journal_tail.iter().rev().collect()
}

/// Asks for the table of knobs where it is looked at and not the newest; `again` also after a failure.
pub fn wanted(state: &mut State, again: bool) -> Vec<Cmd> {
    if state.playback.is_some() {
        return Vec::new();
    }
    let Some(revision) = state.live.as_ref().map(|seen| seen.snapshot.revision) else { return Vec::new() };
    let settings = &mut state.settings;
    let known = settings.knobs.as_ref().map(|knobs| knobs.revision);
    let failed = settings.failed.is_some() && !again;
    if state.view != View::Settings || known == Some(revision) || settings.asked == Some(revision) || failed {
        return Vec::new();
    }
    settings.asked = Some(revision);
    vec![Cmd::LoadKnobs]
}

/// The command that `e` begins: what the selected knob has, to be changed; the undoing of the selected entry; the
/// holding of the selected request, or its release.
pub fn edit(state: &State) -> Option<String> {
    match state.view {
        View::Settings => {
            let knob = state.settings.chosen()?;
            Some(format!("set {}={}", knob.name, knob.value.as_deref().map(quoted).unwrap_or_default()))
        }
        View::Journal => Some(format!("journal revert {}", state.settings.entry.key()?)),
        View::Requests => {
            let id = state.table.cursor.key()?;
            let request = state.shown()?.snapshot.requests.shown.iter().find(|request| request.id == *id)?;
            let held = request.wait.as_ref().is_some_and(|wait| wait.code == WaitCode::Held);
            Some(format!("{} {id}", if held { "release" } else { "hold" }))
        }
        _ => None,
    }
}

/// A value as it is typed: in quotes where it would be taken apart.
fn quoted(value: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"'\"\\".contains(c);
    if value.chars().all(plain) { value.to_string() } else { format!("'{}'", value.replace('\'', "'\\''")) }
}

/// All about the selected knob or entry.
pub fn detail(state: &State) -> Option<Overlay> {
    let (title, lines) = match state.view {
        View::Settings => {
            let knob = state.settings.chosen()?;
            (knob.name.clone(), knob_lines(state, knob))
        }
        View::Journal => {
            let revision = *state.settings.entry.key()?;
            let seen = state.shown()?;
            let entry = seen.snapshot.journal_tail.iter().find(|entry| entry.revision == revision)?;
            (format!("revision {revision}"), entry_lines(entry))
        }
        _ => return None,
    };
    Some(Overlay::Output { title, lines: lines.into(), scroll: 0 })
}

fn knob_lines(state: &State, knob: &Knob) -> Vec<String> {
    let unset = || "not set: the engine chooses".to_string();
    let mut lines = super::help::wrap(&knob.doc, 70);
    lines.push(String::new());
    let unit = knob.unit.as_ref().map(|unit| format!(", a bare number counts {unit}")).unwrap_or_default();
    lines.push(format!("value     {}", knob.value.clone().unwrap_or_else(unset)));
    lines.push(format!("kind      {}{unit}", knob.kind));
    let envelope = knob.envelope.text();
    if !envelope.is_empty() {
        let reason = knob.envelope.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        lines.push(format!("allowed   {envelope}{reason}"));
    }
    lines.push(format!("takes     {}", knob.takes.name()));
    if let Some(pending) = &knob.pending {
        lines.push(format!("pending   {pending}, from the next start on"));
    }
    let overrides = state.shown().map(|seen| seen.snapshot.overrides.as_slice()).unwrap_or_default();
    lines.extend(overrides.iter().find(|setting| setting.knob == knob.name).map(override_line));
    lines.push(String::new());
    for layer in &knob.layers {
        let value = layer.value.as_deref().unwrap_or("left open");
        lines.push(format!("{:<13} {value}  from {}", layer.layer.name(), layer.origin));
    }
    lines
}

/// How the lanes did before and after a change, as it was measured.
fn effect_lines(effect: &Effect) -> Vec<String> {
    let with: Vec<String> = effect.beside.iter().map(u64::to_string).collect();
    let with = if with.is_empty() { String::new() } else { format!(", together with {}", with.join(" and ")) };
    let time = |ms: Option<f64>| ms.map_or_else(|| "?".to_string(), duration);
    let of_lane = |lane: &LaneEffect| {
        let (before, after) = (&lane.before, &lane.after);
        let (p50, p95) = ((before.wait_p50_ms, after.wait_p50_ms), (before.wait_p95_ms, after.wait_p95_ms));
        let then = |(before, after)| format!("{} then {}", time(before), time(after));
        let name = format!("{}/{}", lane.model, lane.lane.map_or(lane.op.name(), Lane::name));
        let served = format!("{:.2}/s then {:.2}/s", before.served_per_s, after.served_per_s);
        [format!("{name}: waited p50 {}, p95 {}", then(p50), then(p95)), format!("  served {served}")]
    };
    let span = duration(effect.window_s * 1000.0);
    let head = match effect.lanes.is_empty() {
        true => format!("nothing was asked for in the {span} before and after{with}"),
        false => format!("measured in the {span} before and after{with}:"),
    };
    std::iter::once(head).chain(effect.lanes.iter().flat_map(of_lane)).collect()
}

/// A live setting in a sentence: who set it, what it is held to, and why.
pub fn override_line(setting: &Override) -> String {
    let mut line = format!("live since revision {} by {}", setting.revision, setting.actor);
    if let Some(guard) = &setting.guard {
        line.push_str(&format!(", while {}", guard.strip_prefix("models.").unwrap_or(guard)));
    }
    if let Some(reason) = &setting.reason {
        line.push_str(&format!(": {reason}"));
    }
    line
}

/// What is known of an entry: who, why and until when, then a blank line and what was changed.
pub fn entry_lines(entry: &Entry) -> Vec<String> {
    let mut lines = vec![format!("{} by {} at {}", entry.kind.name(), entry.actor, utc(entry.at_ms))];
    lines.extend(entry.reason.as_ref().map(|reason| format!("because {reason}")));
    lines.extend(entry.reverts.map(|revision| format!("undoes revision {revision}")));
    lines.extend(entry.expires_at_ms.map(|at| format!("undone by the engine at {}", utc(at))));
    if entry.persist {
        lines.push("comes back when the engine is started again".to_string());
    }
    if let Some(guard) = &entry.guard {
        let broke = if entry.kind == EntryKind::Breach { "broken" } else { "guard" };
        lines.push(format!("{broke}: {guard}"));
    }
    lines.extend(entry.readings.iter().map(ToString::to_string));
    if let Some(effect) = &entry.effect {
        lines.extend(effect_lines(effect));
    }
    lines.extend(
        entry.request.as_ref().map(|r| format!("{} {} of {}, {}", r.did(), r.request, r.model, r.state.name())),
    );
    lines.push(String::new());
    lines.extend(entry.request.as_ref().map(|r| format!("{}: {} to {}", r.request, r.from, r.to)));
    for change in &entry.changes {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_string());
        lines.push(format!("{}: {} to {}", change.knob, value(&change.from), value(&change.to)));
    }
    lines
}
