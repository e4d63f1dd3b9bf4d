//! The settings themselves: checks, changes, leases, and what is shown.

use super::envelope::narrowed;
use super::faults::{conflict, read_only, refused};
use super::journal::{Journal, LIMIT, Opened};
use super::resolve::{fitting, knob_envelope, resolve, restarts};
use crate::control::changes::{
    ChangeAnswer, ChangeRequest, Effect, Entry, EntryKind, JOURNAL_SCHEMA, Journal as Shown, KnobChange, Override,
};
use crate::control::knobs::{self, Knob, Knobs, Layer, TakesEffect};
use crate::control::ledger::{Ledger, Overrides, utc};
use crate::control::predicate::Reading;
use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::batch;
use crate::engine::runtime::clock::{Clock, lock, unix_ms};
use crate::profile::keys::{Key, Takes};
use crate::profile::{BoxBase, BoxProfile, ProfileErrors, Resolved, Row, figure, knob};
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Entries that a snapshot shows.
const TAIL: usize = 10;
/// What a lease may last, in seconds.
const TTL_S: std::ops::RangeInclusive<f64> = 0.1..=2_592_000.0;
/// Longest reason, in characters.
const REASON: usize = 500;
/// Changes that wait for their effect to be measured.
const UNMEASURED: usize = 64;
/// Who the engine is, in the journal.
pub(super) const ENGINE: &str = "engine";

/// What a snapshot shows of the settings.
#[derive(Debug, Default)]
pub(in crate::engine::runtime) struct Published {
    pub revision: u64,
    pub overrides: Vec<Override>,
    pub tail: Vec<Entry>,
    /// Conditions that changes are held to, by revision.
    pub guards: BTreeMap<u64, String>,
    /// Requests that are held for a time, with its end in Unix milliseconds.
    pub holds: BTreeMap<String, u64>,
}

/// The live settings of one engine.
#[derive(Debug)]
pub struct Settings {
    base: BoxBase,
    /// What the engine is started with: what its allocations are made for.
    pub(super) boot: BoxProfile,
    /// Warnings of that profile, and what was found out about the journal.
    remarks: Vec<String>,
    /// Unix time when `clock` began: times go on evenly when somebody sets the machine's clock.
    epoch_ms: u64,
    clock: Clock,
    pub(super) state: Mutex<State>,
    /// Held while something is done to a request. Taken before `state`, never after it.
    pub(super) hands: Mutex<()>,
    published: ArcSwap<Published>,
}

#[derive(Debug)]
pub(super) struct State {
    pub ledger: Ledger,
    pub journal: Result<Journal, Fault>,
    /// Every setting resolved, those that wait for a start included.
    resolved: Resolved<BoxProfile>,
    /// The settings of knobs that take a restart, as they were at the start.
    started: Overrides,
    /// Changes whose effect is still to be measured, oldest first: revision, and Unix milliseconds. At most
    /// [`UNMEASURED`]; in a burst of changes the oldest are not measured.
    unmeasured: VecDeque<(u64, u64)>,
}

impl State {
    /// Writes an entry down and flushes it to the disk.
    pub fn write(&mut self, entry: &Entry) -> Result<(), Fault> {
        let State { ledger, journal, .. } = self;
        journal.as_mut().map_err(|fault| fault.clone())?.append(entry, || head(ledger))
    }
}

/// A change whose effect can be told.
#[derive(Debug)]
pub(super) struct Measurable {
    pub revision: u64,
    pub age_ms: u64,
    pub window_ms: u64,
    pub beside: Vec<u64>,
}

/// What is handed to the owners of the values.
type Apply<'a> = &'a dyn Fn(&BoxProfile);

impl Settings {
    /// Reads the journal in `folder` and puts what was set for good over `base`, unless it is to be a `fresh` start. A folder that cannot be used leaves an
    /// engine that serves and refuses changes.
    pub fn open(base: BoxBase, folder: Option<&Path>, fresh: bool) -> Result<Settings, ProfileErrors> {
        Settings::open_with(base, folder, fresh, LIMIT)
    }

    pub(super) fn open_with(
        base: BoxBase,
        folder: Option<&Path>,
        fresh: bool,
        limit: u64,
    ) -> Result<Settings, ProfileErrors> {
        let nowhere = || {
            Fault::new(ErrorKind::Forbidden, "this engine keeps no journal, so its settings cannot be changed")
                .code("read_only")
                .hint("`lanekeeper serve` keeps one under XDG_STATE_HOME or HOME")
        };
        let opened = folder.ok_or_else(nowhere).and_then(|folder| Journal::open(folder, limit));
        let (journal, entries, mut remarks) = match opened {
            Ok(Opened { journal, entries, remarks }) => (Ok(journal), entries, remarks),
            Err(fault) => {
                let remark = format!("settings cannot be changed while the engine runs: {fault}");
                (Err(fault), Vec::new(), vec![remark])
            }
        };
        let ledger = Ledger::restored(entries);
        let kept = if fresh { Overrides::new() } else { ledger.overrides().clone() };
        let (overrides, resolved) = fitting(&base, &kept, &mut remarks)?;
        remarks.extend(resolved.warnings.iter().cloned());
        let boot = resolved.value.clone();
        let started = overrides.iter().filter(|(knob, _)| restarts(&base, knob));
        let started = started.map(|(knob, o)| (knob.clone(), o.clone())).collect();
        let mut state = State { ledger, journal, resolved, started, unmeasured: VecDeque::new() };
        let (epoch_ms, clock) = (unix_ms(), Clock::start());
        let start = Entry {
            overrides: overrides.into_values().collect(),
            ..blank(EntryKind::Start, state.ledger.revision() + 1, epoch_ms, ENGINE)
        };
        state.ledger.commit(start);
        let published = ArcSwap::from_pointee(publish(&state.ledger));
        Ok(Settings {
            base,
            boot,
            remarks,
            epoch_ms,
            clock,
            state: Mutex::new(state),
            hands: Mutex::new(()),
            published,
        })
    }

    /// The profile to start the engine with.
    pub fn profile(&self) -> &BoxProfile {
        &self.boot
    }

    /// What looks wrong, for whoever starts the engine.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub(in crate::engine::runtime) fn published(&self) -> Arc<Published> {
        self.published.load_full()
    }

    /// Unix milliseconds, evenly.
    pub(in crate::engine::runtime) fn now_ms(&self) -> u64 {
        self.epoch_ms + self.clock.now().0 / 1_000
    }

    /// Writes down that the engine has started. A journal that cannot be written refuses what comes later.
    pub(in crate::engine::runtime) fn begin(&self) {
        let mut state = lock(&self.state);
        let State { ledger, journal, .. } = &mut *state;
        let Some(start) = ledger.tail(1).next().cloned() else { return };
        if let Ok(open) = journal
            && let Err(fault) = open.append(&start, || head(ledger))
        {
            tracing::error!(%fault, "settings cannot be changed while the engine runs");
            *journal = Err(fault);
        }
    }

    /// Checks a change and makes it, for `actor`: all of it or none.
    pub(in crate::engine::runtime) fn change(
        &self,
        request: &ChangeRequest,
        actor: &str,
        apply: Apply<'_>,
    ) -> Result<ChangeAnswer, Fault> {
        let mut state = lock(&self.state);
        self.sound(request)?;
        if self.boot.read_only && !request.dry_run {
            return Err(read_only());
        }
        let now_ms = self.now_ms();
        let next = state.ledger.changed(request, actor, now_ms).map_err(conflict)?;
        let (resolved, changes) = self.checked(&state, &next)?;
        let warnings = resolved.warnings.iter().filter(|w| !state.resolved.warnings.contains(w)).cloned().collect();
        let answer =
            |revision, applied, changes| ChangeAnswer { changes, warnings, ..ChangeAnswer::new(revision, applied) };
        if request.dry_run || changes.is_empty() {
            return Ok(answer(state.ledger.revision(), false, changes));
        }
        let kind = if request.revert.is_some() { EntryKind::Revert } else { EntryKind::Change };
        let entry = Entry {
            reason: request.reason.clone(),
            changes: changes.clone(),
            expires_at_ms: next.values().filter(|o| o.at_ms == now_ms).find_map(|o| o.expires_at_ms),
            guard: request.guard.clone(),
            persist: request.persist,
            reverts: request.revert,
            ..blank(kind, state.ledger.revision() + 1, now_ms, actor)
        };
        self.commit(&mut state, entry, resolved, apply)?;
        Ok(answer(state.ledger.revision(), true, changes))
    }

    /// Ends the leases that are due. Gives the time until the next one.
    pub(in crate::engine::runtime) fn expire(&self, apply: Apply<'_>) -> Option<Duration> {
        let mut state = lock(&self.state);
        let now_ms = self.now_ms();
        if let Some(next) = state.ledger.expired(now_ms) {
            let entry = Entry {
                reason: Some("the lease has ended".to_string()),
                ..blank(EntryKind::Expiry, state.ledger.revision() + 1, now_ms, ENGINE)
            };
            self.end(&mut state, &next, entry, apply);
        }
        state.ledger.next_expiry().map(|at| Duration::from_millis(at.saturating_sub(self.now_ms()).max(1)))
    }

    /// Undoes the change of `revision`, whose guard does not hold any more.
    pub(in crate::engine::runtime) fn breach(&self, revision: u64, readings: Vec<Reading>, apply: Apply<'_>) {
        let mut state = lock(&self.state);
        let now_ms = self.now_ms();
        let (guards, next) = (state.ledger.guards(), state.ledger.broken(revision, now_ms));
        // Somebody else may have undone it a moment ago.
        let (Some(guard), Some(next)) = (guards.get(&revision), next) else { return };
        let seen: Vec<String> = readings.iter().map(Reading::to_string).collect();
        let entry = Entry {
            reason: Some(format!("the guard broke: {}", seen.join(", "))),
            guard: Some(guard.clone()),
            readings,
            reverts: Some(revision),
            ..blank(EntryKind::Breach, state.ledger.revision() + 1, now_ms, ENGINE)
        };
        tracing::warn!(revision, guard, readings = seen.join(", "), "a guard broke: its change is undone");
        self.end(&mut state, &next, entry, apply);
    }

    /// Ends settings that the engine itself ends: `next` is what is left, `entry` says why.
    fn end(&self, state: &mut State, next: &Overrides, entry: Entry, apply: Apply<'_>) {
        match self.checked(state, next) {
            Ok((resolved, changes)) => {
                let entry = Entry { changes, ..entry };
                if let Err(fault) = self.commit(state, entry.clone(), resolved.clone(), apply) {
                    // A lease is not a restart's business: it ends although nobody can write that down.
                    tracing::error!(%fault, "a lease has ended and the journal does not say so");
                    self.take(state, entry, resolved, apply);
                }
            }
            Err(fault) => {
                // What a lease hid was sound with the settings of its time, and is not with those of today.
                tracing::error!(%fault, "a lease has ended and what it hid does not fit any more: it is let go");
                self.let_go(state, next, entry, apply);
            }
        }
    }

    /// Ends leases without bringing back what they hid.
    fn let_go(&self, state: &mut State, next: &Overrides, entry: Entry, apply: Apply<'_>) {
        let moved = state.ledger.moved(next);
        let mut left = state.ledger.overrides().clone();
        moved.iter().for_each(|knob| drop(left.remove(knob)));
        // Should even that not fit, all live settings go: the profile itself was sound at the start.
        for left in [left, Overrides::new()] {
            let Ok((resolved, changes)) = self.checked(state, &left) else { continue };
            let why = entry.reason.as_deref().unwrap_or_default();
            let reason = Some(format!("{why}; what it hid does not fit any more"));
            let entry = Entry { reason, changes, ..entry.clone() };
            if self.commit(state, entry.clone(), resolved.clone(), apply).is_err() {
                self.take(state, entry, resolved, apply);
            }
            return;
        }
    }

    /// The changes whose effect can be told now, each with its Unix time and the changes beside it; and the time until
    /// the next one can be.
    pub(super) fn measurable(&self) -> (Vec<Measurable>, Option<Duration>) {
        let mut state = lock(&self.state);
        let window_ms = (state.resolved.value.effect_window_s * 1_000.0) as u64;
        let now_ms = self.now_ms();
        let mut due = Vec::new();
        while let Some((revision, at_ms)) = state.unmeasured.front().copied().filter(|(_, at)| at + window_ms <= now_ms)
        {
            state.unmeasured.pop_front();
            let beside = state.ledger.beside(revision, at_ms.saturating_sub(window_ms), at_ms + window_ms);
            due.push(Measurable { revision, age_ms: now_ms - at_ms, window_ms, beside });
        }
        let next =
            state.unmeasured.front().map(|(_, at)| Duration::from_millis((at + window_ms).saturating_sub(now_ms)));
        (due, next)
    }

    /// Writes down what a change did. What cannot be written is told and let go: nothing depends on it.
    pub(super) fn measured(&self, effect: Effect) {
        let mut state = lock(&self.state);
        let State { ledger, journal, .. } = &mut *state;
        let revision = ledger.revision();
        let entry = Entry { effect: Some(effect), ..blank(EntryKind::Effect, revision, self.now_ms(), ENGINE) };
        if let Ok(open) = journal
            && let Err(fault) = open.append(&entry, || head(ledger))
        {
            return tracing::warn!(%fault, "what a change did is not written down");
        }
        ledger.commit(entry);
        self.published.store(Arc::new(publish(ledger)));
    }

    /// Every knob with its layers, its envelope here, and when it takes effect.
    pub fn knobs(&self) -> Knobs {
        let state = lock(&self.state);
        let rows = state.resolved.rows.iter().filter_map(|row| Some((self.base.key(&row.path).ok()?, row)));
        Knobs {
            schema: knobs::SCHEMA.to_string(),
            node: self.boot.name.clone(),
            revision: state.ledger.revision(),
            read_only: self.boot.read_only || state.journal.is_err(),
            knobs: rows.map(|(key, row)| self.knob(&state, key, row)).collect(),
        }
    }

    fn knob(&self, state: &State, key: &Key, row: &Row) -> Knob {
        let mut made = knob(key, row);
        made.envelope = narrowed(made.envelope, &made.name, &self.boot);
        let Some(live) = state.ledger.overrides().get(&made.name) else { return made };
        for layer in made.layers.iter_mut().filter(|layer| layer.layer == Layer::Live) {
            layer.origin = format!("{} at {} (revision {})", live.actor, utc(live.at_ms), live.revision);
        }
        let holds = state.started.get(&made.name).map(|o| &o.value);
        if key.takes == Takes::Restart && holds != Some(&live.value) {
            made.pending = Some(live.value.clone());
            made.layers.retain(|layer| layer.layer != Layer::Live);
            made.value = made.layers.first().and_then(|layer| layer.value.clone());
            made.layer = made.layers.first().map_or(Layer::BuiltIn, |layer| layer.layer);
        }
        made
    }

    /// The last `n` entries of the journal.
    pub fn journal(&self, n: usize) -> Shown {
        let state = lock(&self.state);
        Shown {
            schema: JOURNAL_SCHEMA.to_string(),
            node: self.boot.name.clone(),
            revision: state.ledger.revision(),
            file: state.journal.as_ref().ok().map(|journal| journal.path().display().to_string()),
            entries: state.ledger.tail(n).cloned().collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn fill_disk(&self) {
        lock(&self.state).journal.as_mut().expect("open").fill_disk();
    }

    /// Takes an entry in that changes no setting, and shows it.
    pub(super) fn keep_entry(&self, state: &mut State, entry: Entry) {
        state.ledger.commit(entry);
        self.published.store(Arc::new(publish(&state.ledger)));
    }

    /// What is wrong with a request in itself.
    pub(super) fn sound(&self, request: &ChangeRequest) -> Result<(), Fault> {
        sound_ttl(request.ttl_s)?;
        if request.guard.is_some() && request.ttl_s.is_none() {
            return Err(
                Fault::invalid("guard", "a guard watches over a lease, and this change is none").hint("add ttl")
            );
        }
        if request.ttl_s.is_some() && request.persist {
            return Err(Fault::invalid("persist", "a lease ends by itself: it cannot come back at the next start")
                .hint("leave out ttl, or persist"));
        }
        if request.revert.is_some() && !(request.set.is_empty() && request.unset.is_empty() && !request.unset_all) {
            return Err(Fault::invalid(
                "revert",
                "a revert says itself what changes: `set` and `unset` have no place in it",
            ));
        }
        if request.revert.is_some() && (request.ttl_s.is_some() || request.persist) {
            return Err(Fault::invalid("revert", "a revert brings back what was set before, as it was set")
                .hint("leave out ttl and persist"));
        }
        if let Some(both) = request.unset.iter().find(|knob| request.set.contains_key(*knob)) {
            return Err(Fault::invalid(both.clone(), format!("`{both}` is to be set and to be let go")));
        }
        sound_reason(&request.reason)?;
        if request.revert.is_none() && request.set.is_empty() && request.unset.is_empty() && !request.unset_all {
            return Err(Fault::invalid("set", "nothing is to be changed").hint("name a knob to set or to let go"));
        }
        let unknown: Vec<String> =
            request.unset.iter().filter_map(|name| Some(self.base.key(name).err()?.to_string())).collect();
        match request.unset.iter().find(|name| self.base.key(name).is_err()) {
            Some(name) => Err(refused(name, &unknown)),
            None => Ok(()),
        }
    }

    /// Resolves `next` and says what it changes. Everything that is wrong with it is told at once.
    fn checked(&self, state: &State, next: &Overrides) -> Result<(Resolved<BoxProfile>, Vec<KnobChange>), Fault> {
        let moved = state.ledger.moved(next);
        let mut wrong: Vec<(String, String)> = Vec::new();
        for setting in moved.iter().filter_map(|name| next.get(name)) {
            if let Err(why) = self.allowed(setting) {
                wrong.push((setting.knob.clone(), why));
            }
        }
        if let Some((name, _)) = wrong.first() {
            let all: Vec<String> = wrong.iter().map(|(_, why)| why.clone()).collect();
            return Err(refused(name, &all));
        }
        let named = moved.first().cloned().unwrap_or_default();
        let resolved = resolve(&self.base, next).map_err(|errors| {
            let all: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            refused(&named, &all)
        })?;
        for model in &resolved.value.models {
            batch::check(model).map_err(|fault| refused(&named, &[fault.message]))?;
        }
        let value = |rows: &Resolved<BoxProfile>, name: &str| {
            rows.rows.iter().find(|row| row.path == name).and_then(|row| row.value.clone())
        };
        let change = |name: &String| KnobChange {
            knob: name.clone(),
            from: value(&state.resolved, name),
            to: value(&resolved, name),
            takes: if restarts(&self.base, name) { TakesEffect::Restart } else { TakesEffect::Live },
            was: state.ledger.overrides().get(name).cloned().map(Box::new),
            now: next.get(name).cloned().map(Box::new),
        };
        let changes = moved.iter().map(change).collect();
        Ok((resolved, changes))
    }

    /// Whether one setting is known, within what this engine permits, and can be made at all.
    fn allowed(&self, setting: &Override) -> Result<(), String> {
        let Override { knob: name, value, .. } = setting;
        let key = self.base.key(name).map_err(|e| e.to_string())?;
        let envelope = narrowed(knob_envelope(key), name, &self.boot);
        if let (Some(figure), Some(reason)) = (figure(key, value), &envelope.reason)
            && envelope.max.is_some_and(|max| figure > max)
        {
            return Err(format!("`{name}`: {value} is outside {}: {reason}", envelope.text()));
        }
        if key.takes == Takes::Restart && !setting.persist {
            return Err(format!(
                "`{name}` takes effect when the engine is started again: set it for good (persist), or in the profile"
            ));
        }
        Ok(())
    }

    /// Writes an entry down, then lets it happen.
    fn commit(
        &self,
        state: &mut State,
        entry: Entry,
        resolved: Resolved<BoxProfile>,
        apply: Apply<'_>,
    ) -> Result<(), Fault> {
        state.write(&entry)?;
        self.take(state, entry, resolved, apply);
        Ok(())
    }

    fn take(&self, state: &mut State, entry: Entry, resolved: Resolved<BoxProfile>, apply: Apply<'_>) {
        let knobs: Vec<&str> = entry.changes.iter().map(|change| change.knob.as_str()).collect();
        let (kind, actor, revision) = (entry.kind.name(), entry.actor.as_str(), entry.revision);
        if entry.changes.iter().any(|change| change.takes == TakesEffect::Live) {
            if state.unmeasured.len() == UNMEASURED {
                state.unmeasured.pop_front();
            }
            state.unmeasured.push_back((revision, entry.at_ms));
        }
        tracing::info!(kind, actor, revision, knobs = knobs.join(" "), "settings changed");
        state.ledger.commit(entry);
        // Without those that wait for a start. They were resolved with the others a moment ago, so these fit as well.
        let mut running = state.started.clone();
        let live = state.ledger.overrides().iter().filter(|(knob, _)| !restarts(&self.base, knob));
        running.extend(live.map(|(knob, o)| (knob.clone(), o.clone())));
        match resolve(&self.base, &running) {
            Ok(running) => apply(&running.value),
            Err(errors) => tracing::error!(%errors, "settings fit only after a start: they hold from then on"),
        }
        state.resolved = resolved;
        self.published.store(Arc::new(publish(&state.ledger)));
    }
}

pub(super) fn sound_ttl(ttl_s: Option<f64>) -> Result<(), Fault> {
    match ttl_s.filter(|ttl| !TTL_S.contains(ttl)) {
        None => Ok(()),
        Some(ttl) => {
            let message = format!("`ttl_s` is {ttl}: a lease lasts from {} to {} seconds", TTL_S.start(), TTL_S.end());
            Err(Fault::invalid("ttl_s", message))
        }
    }
}

pub(super) fn sound_reason(reason: &Option<String>) -> Result<(), Fault> {
    match reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON) {
        true => Err(Fault::invalid("reason", format!("`reason` is longer than {REASON} characters"))),
        false => Ok(()),
    }
}

/// An entry that tells of nothing yet.
pub(super) fn blank(kind: EntryKind, revision: u64, at_ms: u64, actor: &str) -> Entry {
    Entry {
        revision,
        at_ms,
        kind,
        actor: actor.to_string(),
        reason: None,
        changes: Vec::new(),
        request: None,
        expires_at_ms: None,
        persist: false,
        guard: None,
        readings: Vec::new(),
        reverts: None,
        overrides: Vec::new(),
        effect: None,
    }
}

/// What a new file of the journal begins with.
fn head(ledger: &Ledger) -> Entry {
    let at_ms = ledger.tail(1).next().map_or(0, |entry| entry.at_ms);
    Entry {
        overrides: ledger.overrides().values().cloned().collect(),
        ..blank(EntryKind::Head, ledger.revision(), at_ms, ENGINE)
    }
}

fn publish(ledger: &Ledger) -> Published {
    let slim = |entry: &Entry| {
        let changes = entry.changes.iter().map(|c| KnobChange { was: None, now: None, ..c.clone() }).collect();
        Entry { changes, overrides: Vec::new(), ..entry.clone() }
    };
    let whole = |o: &Override| Override { beneath: None, ..o.clone() };
    Published {
        revision: ledger.revision(),
        overrides: ledger.overrides().values().map(whole).collect(),
        tail: ledger.tail(TAIL).map(slim).collect(),
        guards: ledger.guards(),
        holds: ledger.holds().all().clone(),
    }
}
