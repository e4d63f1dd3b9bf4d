//! The settings themselves: how they change, and when they end.

use super::faults::{conflict, read_only};
use super::journal::{Journal, LIMIT, Opened};
use super::resolve::{fitting, resolve, restarts};
use super::shown::{Published, publish};
use crate::control::changes::{ChangeAnswer, ChangeRequest, Effect, Entry, EntryKind};
use crate::control::knobs::TakesEffect;
use crate::control::ledger::{Ledger, Overrides};
use crate::control::predicate::Reading;
use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::clock::{Clock, lock, unix_ms};
use crate::profile::{BoxBase, BoxProfile, ProfileErrors, Resolved};
use arc_swap::ArcSwap;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Changes that wait for their effect to be measured.
const UNMEASURED: usize = 64;
/// Who the engine is, in the journal.
pub(super) const ENGINE: &str = "engine";

/// The live settings of one engine.
#[derive(Debug)]
pub struct Settings {
    pub(super) base: BoxBase,
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
    pub resolved: Resolved<BoxProfile>,
    /// The settings of knobs that take a restart, as they were at the start.
    pub started: Overrides,
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
            ..Entry::new(EntryKind::Start, state.ledger.revision() + 1, epoch_ms, ENGINE)
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
            ..Entry::new(kind, state.ledger.revision() + 1, now_ms, actor)
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
                ..Entry::new(EntryKind::Expiry, state.ledger.revision() + 1, now_ms, ENGINE)
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
            ..Entry::new(EntryKind::Breach, state.ledger.revision() + 1, now_ms, ENGINE)
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
        let entry = Entry { effect: Some(effect), ..Entry::new(EntryKind::Effect, revision, self.now_ms(), ENGINE) };
        if let Ok(open) = journal
            && let Err(fault) = open.append(&entry, || head(ledger))
        {
            return tracing::warn!(%fault, "what a change did is not written down");
        }
        ledger.commit(entry);
        self.published.store(Arc::new(publish(ledger)));
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

/// What a new file of the journal begins with.
fn head(ledger: &Ledger) -> Entry {
    let at_ms = ledger.tail(1).next().map_or(0, |entry| entry.at_ms);
    Entry {
        overrides: ledger.overrides().values().cloned().collect(),
        ..Entry::new(EntryKind::Head, ledger.revision(), at_ms, ENGINE)
    }
}
