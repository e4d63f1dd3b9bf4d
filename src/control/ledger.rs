//! The live settings and their revision, and how they change: compare-and-set, leases, reverts, what comes back after a
//! restart. Pure: the time comes in as Unix milliseconds, and an [`Entry`] goes out, which its owner writes down before
//! it hands it back to [`Ledger::commit`].

use super::changes::{ChangeRequest, Entry, EntryKind, Override};
use super::hands::{Holds, RequestChange};
use super::utc;
use std::collections::{BTreeMap, VecDeque};

/// Entries that are remembered, for `journal` and reverts.
const REMEMBERED: usize = 512;

/// Live settings by knob. What a change would make of them is a value of this type, too.
pub type Overrides = BTreeMap<String, Override>;

/// A change that cannot be made of the settings as they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Moved {
    #[error("the settings have revision {now}, not {expected}: {by}")]
    Revision { now: u64, expected: u64, by: String },
    #[error("`{knob}` has moved since revision {revision}: {by}")]
    Knob { knob: String, revision: u64, by: String },
    #[error("revision {revision} is not (or no longer) in the engine's memory, which reaches back to {oldest} at most")]
    Unknown { revision: u64, oldest: u64 },
    #[error("revision {revision} is a start of the engine, which cannot be undone")]
    Start { revision: u64 },
    #[error("revision {revision} cancelled {request}, which cannot be undone")]
    Cancelled { revision: u64, request: String },
    #[error("revision {revision} is of a time before the engine's last start: its request is gone")]
    Gone { revision: u64 },
    #[error("{request} has moved since revision {revision}: {by}")]
    Request { request: String, revision: u64, by: String },
}

/// The live settings, their revision, and the last entries of the journal.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    revision: u64,
    overrides: Overrides,
    holds: Holds,
    tail: VecDeque<Entry>,
}

impl Ledger {
    /// What the entries of a journal, oldest first, leave behind at a start: persistent settings alone. A lease that was
    /// running is over.
    pub fn restored(entries: impl IntoIterator<Item = Entry>) -> Ledger {
        let mut ledger = Ledger::default();
        entries.into_iter().for_each(|entry| ledger.commit(entry));
        ledger.overrides = std::mem::take(&mut ledger.overrides)
            .into_iter()
            .filter_map(|(knob, setting)| Some((knob, persistent(setting)?)))
            .collect();
        ledger
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Requests that are held for a time.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// The same, to forget those of requests that are gone.
    pub fn holds_mut(&mut self) -> &mut Holds {
        &mut self.holds
    }

    /// The last `n` entries, newest last.
    pub fn tail(&self, n: usize) -> impl Iterator<Item = &Entry> {
        self.tail.iter().skip(self.tail.len().saturating_sub(n))
    }

    /// Refuses a change whose `if_revision` is not the present one, saying who moved the settings, when and what.
    pub fn check_revision(&self, request: &ChangeRequest) -> Result<(), Moved> {
        match request.if_revision {
            Some(expected) if expected != self.revision => {
                let by = self.tail.back().map_or("nothing is known of it".to_string(), sentence);
                Err(Moved::Revision { now: self.revision, expected, by })
            }
            _ => Ok(()),
        }
    }

    /// What the live settings would be after `request`, made by `actor` at `now_ms`.
    pub fn changed(&self, request: &ChangeRequest, actor: &str, now_ms: u64) -> Result<Overrides, Moved> {
        self.check_revision(request)?;
        if let Some(revision) = request.revert {
            return self.reverted(revision, now_ms);
        }
        let mut next = if request.unset_all { Overrides::new() } else { self.overrides.clone() };
        for knob in &request.unset {
            next.remove(knob);
        }
        let expires_at_ms = request.ttl_s.map(|seconds| lease_end(now_ms, seconds));
        for (knob, value) in &request.set {
            // A lease hides what was set before it and holds for longer. What was set for good waits for the next start
            // beneath what is not; otherwise nothing is to come back.
            let before = self.overrides.get(knob).filter(|_| !request.unset_all).cloned();
            let beneath = match expires_at_ms {
                Some(end) => before.and_then(|before| holding(before, end)),
                None if request.persist => None,
                None => before.and_then(persistent),
            };
            let setting = Override {
                knob: knob.clone(),
                value: value.clone(),
                revision: self.revision + 1,
                at_ms: now_ms,
                actor: actor.to_string(),
                reason: request.reason.clone(),
                expires_at_ms,
                left_ms: None,
                guard: request.guard.clone(),
                persist: request.persist,
                beneath: beneath.map(Box::new),
            };
            next.insert(knob.clone(), setting);
        }
        Ok(next)
    }

    /// Undoes the entry of `revision`: each of its knobs gets the live setting it had before, unless somebody has moved it
    /// since.
    fn reverted(&self, revision: u64, now_ms: u64) -> Result<Overrides, Moved> {
        let index = self.find(revision)?;
        let entry = &self.tail[index];
        if entry.kind == EntryKind::Start {
            return Err(Moved::Start { revision });
        }
        let mut next = self.overrides.clone();
        for change in &entry.changes {
            let later = self.tail.iter().skip(index + 1).rev();
            if let Some(moved) = later.into_iter().find(|e| e.changes.iter().any(|c| c.knob == change.knob)) {
                return Err(Moved::Knob { knob: change.knob.clone(), revision, by: sentence(moved) });
            }
            next.remove(&change.knob);
            // A lease that has ended in the meantime does not come back.
            let was = change.was.as_deref().cloned().and_then(|was| holding(was, now_ms));
            next.extend(was.map(|was| (change.knob.clone(), was)));
        }
        Ok(next)
    }

    fn find(&self, revision: u64) -> Result<usize, Moved> {
        let oldest = self.tail.front().map_or(self.revision, |entry| entry.revision);
        self.tail.iter().position(|entry| entry.revision == revision).ok_or(Moved::Unknown { revision, oldest })
    }

    /// What the entry of `revision` did with a request, for whoever is to undo it; `None` where it is about settings. An id
    /// of another life of the engine names another request, and nobody's later hand is taken back with an earlier one.
    pub fn undoable(&self, revision: u64) -> Result<Option<&RequestChange>, Moved> {
        let index = self.find(revision)?;
        let Some(change) = &self.tail[index].request else { return Ok(None) };
        let request = change.request.clone();
        for later in self.tail.iter().skip(index + 1).rev() {
            match &later.request {
                _ if later.kind == EntryKind::Start => return Err(Moved::Gone { revision }),
                Some(other) if other.request == request => {
                    return Err(Moved::Request { request, revision, by: sentence(later) });
                }
                _ => {}
            }
        }
        if change.to.cancelled {
            return Err(Moved::Cancelled { revision, request });
        }
        Ok(Some(change))
    }

    /// What the live settings are once the leases that end until `now_ms` have ended; `None` while none does.
    pub fn expired(&self, now_ms: u64) -> Option<Overrides> {
        let due = |o: &Override| o.expires_at_ms.is_some_and(|at| at <= now_ms);
        if !self.overrides.values().any(due) {
            return None;
        }
        let left = |(knob, setting): (&String, &Override)| Some((knob.clone(), holding(setting.clone(), now_ms)?));
        Some(self.overrides.iter().filter_map(left).collect())
    }

    /// The changes that have a guard and still hold, covered by others or not, each with its condition.
    pub fn guards(&self) -> BTreeMap<u64, String> {
        let mut guards = BTreeMap::new();
        for setting in self.overrides.values() {
            let mut layer = Some(setting);
            while let Some(setting) = layer {
                if let Some(guard) = &setting.guard {
                    guards.insert(setting.revision, guard.clone());
                }
                layer = setting.beneath.as_deref();
            }
        }
        guards
    }

    /// What the live settings are once all that the change of `revision` set is gone; `None` where nothing of it holds.
    pub fn broken(&self, revision: u64, now_ms: u64) -> Option<Overrides> {
        let left =
            |(knob, setting): (&String, &Override)| Some((knob.clone(), without(setting.clone(), revision, now_ms)?));
        let next: Overrides = self.overrides.iter().filter_map(left).collect();
        (next != self.overrides).then_some(next)
    }

    /// Changes in the time from `from_ms` to `to_ms`, other than the one of `revision`.
    pub fn beside(&self, revision: u64, from_ms: u64, to_ms: u64) -> Vec<u64> {
        let others = self.tail.iter().filter(|e| e.kind != EntryKind::Start && e.revision != revision);
        others.filter(|e| (from_ms..=to_ms).contains(&e.at_ms)).map(|e| e.revision).collect()
    }

    /// When the next lease ends, in Unix milliseconds.
    pub fn next_expiry(&self) -> Option<u64> {
        self.overrides.values().filter_map(|o| o.expires_at_ms).min()
    }

    /// The knobs whose live setting differs between now and `next`, in order.
    pub fn moved(&self, next: &Overrides) -> Vec<String> {
        let all: std::collections::BTreeSet<&String> = self.overrides.keys().chain(next.keys()).collect();
        let differs = |knob: &&String| self.overrides.get(*knob) != next.get(*knob);
        all.into_iter().filter(differs).cloned().collect()
    }

    /// Takes an entry in. It says all that changes: a ledger is what its entries say, no more.
    pub fn commit(&mut self, entry: Entry) {
        self.revision = self.revision.max(entry.revision);
        if let Some(change) = &entry.request {
            self.holds.take(change, entry.expires_at_ms);
        }
        match entry.kind {
            EntryKind::Start | EntryKind::Head => {
                if entry.kind == EntryKind::Start {
                    self.holds = Holds::default();
                }
                self.overrides = entry.overrides.iter().map(|o| (o.knob.clone(), o.clone())).collect();
            }
            EntryKind::Change | EntryKind::Revert | EntryKind::Expiry | EntryKind::Breach | EntryKind::Hand => {
                for change in &entry.changes {
                    match &change.now {
                        Some(setting) => self.overrides.insert(change.knob.clone(), (**setting).clone()),
                        None => self.overrides.remove(&change.knob),
                    };
                }
            }
            EntryKind::Effect => {
                let Some(effect) = entry.effect else { return };
                if let Some(measured) = self.tail.iter_mut().rev().find(|e| e.revision == effect.of) {
                    measured.effect = Some(effect);
                }
                return;
            }
        }
        if entry.kind == EntryKind::Head {
            return;
        }
        if self.tail.len() == REMEMBERED {
            self.forget();
        }
        self.tail.push_back(entry);
    }

    /// Makes room for an entry. Where most are cancellations, which nobody can undo, the oldest of them goes: hundreds of
    /// them do not take away the way back from what was set before.
    fn forget(&mut self) {
        let cancels = |entry: &Entry| entry.request.as_ref().is_some_and(|change| change.to.cancelled);
        let many = self.tail.iter().filter(|entry| cancels(entry)).count() > REMEMBERED / 2;
        let oldest = if many { self.tail.iter().position(cancels).unwrap_or(0) } else { 0 };
        self.tail.remove(oldest);
    }
}

/// The strongest setting of a pile that a restart brings back.
fn persistent(setting: Override) -> Option<Override> {
    match setting {
        Override { persist: true, expires_at_ms: None, .. } => Some(Override { beneath: None, ..setting }),
        Override { beneath, .. } => persistent(*beneath?),
    }
}

/// The strongest setting of a pile whose lease has not ended.
fn holding(setting: Override, now_ms: u64) -> Option<Override> {
    match setting {
        Override { expires_at_ms: Some(at), beneath, .. } if at <= now_ms => holding(*beneath?, now_ms),
        setting => Some(setting),
    }
}

/// A pile without what the change of `revision` put on it.
fn without(setting: Override, revision: u64, now_ms: u64) -> Option<Override> {
    let Override { beneath, .. } = setting;
    let beneath = beneath.and_then(|beneath| without(*beneath, revision, now_ms));
    if setting.revision == revision {
        return beneath.and_then(|beneath| holding(beneath, now_ms));
    }
    Some(Override { beneath: beneath.map(Box::new), ..setting })
}

/// When a lease of so many seconds ends that begins at `now_ms`.
pub fn lease_end(now_ms: u64, seconds: f64) -> u64 {
    now_ms.saturating_add((seconds * 1_000.0).ceil() as u64)
}

/// Who did what when, in words.
fn sentence(entry: &Entry) -> String {
    let what = match (&entry.request, entry.kind, entry.changes.as_slice()) {
        (Some(change), ..) => format!("{} {}", change.did(), change.request),
        (None, EntryKind::Start | EntryKind::Head, _) => "started the engine".to_string(),
        (None, kind, []) => kind.name().to_string(),
        (None, _, [one]) => format!("set {} to {}", one.knob, one.to.as_deref().unwrap_or("nothing")),
        (None, _, [one, rest @ ..]) => format!("set {} and {} more", one.knob, rest.len()),
    };
    format!("{} {what} at {} (revision {})", entry.actor, utc(entry.at_ms), entry.revision)
}

#[cfg(test)]
mod tests;
