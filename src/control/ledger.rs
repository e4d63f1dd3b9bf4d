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
    #[error("revision {revision} is not in the engine's memory, which reaches back to {oldest}")]
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
mod tests {
    use super::*;
    use crate::control::changes::{Effect, KnobChange};
    use crate::control::hands::{RequestPlace, Touch};
    use crate::control::knobs::TakesEffect;
    use crate::control::snapshot::RequestState;
    use crate::control::{Lane, Op};
    use proptest::prelude::*;

    fn set(knob: &str, value: &str) -> ChangeRequest {
        ChangeRequest { set: BTreeMap::from([(knob.to_string(), value.to_string())]), ..ChangeRequest::default() }
    }

    fn lease(knob: &str, value: &str, ttl_s: f64) -> ChangeRequest {
        ChangeRequest { ttl_s: Some(ttl_s), ..set(knob, value) }
    }

    /// Writes down what `next` changes, as an engine does.
    fn entry(ledger: &Ledger, kind: EntryKind, next: &Overrides, now_ms: u64) -> Entry {
        let text = |o: Option<&Override>| o.map(|o| o.value.clone());
        let change = |knob: String| KnobChange {
            from: text(ledger.overrides().get(&knob)),
            to: text(next.get(&knob)),
            takes: TakesEffect::Live,
            was: ledger.overrides().get(&knob).cloned().map(Box::new),
            now: next.get(&knob).cloned().map(Box::new),
            knob,
        };
        Entry {
            revision: ledger.revision() + 1,
            at_ms: now_ms,
            kind,
            actor: "uid:7".to_string(),
            reason: None,
            changes: ledger.moved(next).into_iter().map(change).collect(),
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

    fn make(ledger: &mut Ledger, request: &ChangeRequest, now_ms: u64) -> Result<(), Moved> {
        let next = ledger.changed(request, "uid:7", now_ms)?;
        let entry = entry(ledger, EntryKind::Change, &next, now_ms);
        ledger.commit(entry);
        assert_eq!(ledger.overrides(), &next, "the entry says all of it");
        Ok(())
    }

    fn expire(ledger: &mut Ledger, now_ms: u64) -> bool {
        let Some(next) = ledger.expired(now_ms) else { return false };
        let entry = entry(ledger, EntryKind::Expiry, &next, now_ms);
        ledger.commit(entry);
        true
    }

    fn value<'l>(ledger: &'l Ledger, knob: &str) -> Option<&'l str> {
        ledger.overrides().get(knob).map(|o| o.value.as_str())
    }

    #[test]
    fn a_lease_gives_back_what_it_hid() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("a", "1"), 0).unwrap();
        make(&mut ledger, &lease("a", "2", 10.0), 100).unwrap();
        make(&mut ledger, &lease("a", "3", 5.0), 200).unwrap();
        assert_eq!(ledger.next_expiry(), Some(5_200));
        assert!(!expire(&mut ledger, 5_199));
        assert!(expire(&mut ledger, 5_200));
        assert_eq!((value(&ledger, "a"), ledger.next_expiry()), (Some("2"), Some(10_100)));
        assert!(expire(&mut ledger, 99_000));
        assert_eq!((value(&ledger, "a"), ledger.next_expiry(), ledger.revision()), (Some("1"), None, 5));
    }

    #[test]
    fn leases_that_end_together_give_way_together() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &lease("a", "1", 1.0), 0).unwrap();
        make(&mut ledger, &lease("a", "2", 1.0), 0).unwrap();
        make(&mut ledger, &lease("b", "3", 2.0), 0).unwrap();
        assert!(expire(&mut ledger, 1_000));
        assert_eq!((value(&ledger, "a"), value(&ledger, "b")), (None, Some("3")));
    }

    #[test]
    fn a_moved_revision_is_refused_with_who_and_when() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("models.m.wait_ms", "5"), 1_795_000_000_000).unwrap();
        let stale = ChangeRequest { if_revision: Some(0), ..set("a", "1") };
        let moved = ledger.changed(&stale, "uid:8", 0).unwrap_err().to_string();
        assert_eq!(
            moved,
            "the settings have revision 1, not 0: uid:7 set models.m.wait_ms to 5 at 2026-11-18T11:06:40Z (revision 1)"
        );
        assert!(ledger.changed(&ChangeRequest { if_revision: Some(1), ..set("a", "1") }, "uid:8", 0).is_ok());
    }

    #[test]
    fn a_revert_undoes_one_change_and_nothing_that_came_later() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("a", "1"), 0).unwrap();
        make(&mut ledger, &set("a", "2"), 0).unwrap();
        make(&mut ledger, &set("b", "9"), 0).unwrap();
        let undo = |revision| ChangeRequest { revert: Some(revision), ..ChangeRequest::default() };
        let moved = ledger.changed(&undo(1), "uid:7", 0).unwrap_err();
        assert!(matches!(&moved, Moved::Knob { knob, by, .. } if knob == "a" && by.contains("revision 2")), "{moved}");
        make(&mut ledger, &undo(2), 0).unwrap();
        assert_eq!((value(&ledger, "a"), value(&ledger, "b")), (Some("1"), Some("9")));
        assert!(matches!(ledger.changed(&undo(77), "uid:7", 0), Err(Moved::Unknown { revision: 77, oldest: 1 })));
    }

    #[test]
    fn what_was_set_for_good_comes_back_after_a_restart_and_nothing_else() {
        let mut ledger = Ledger::default();
        let keep = |knob, value| ChangeRequest { persist: true, ..set(knob, value) };
        make(&mut ledger, &keep("a", "1"), 0).unwrap();
        make(&mut ledger, &lease("a", "2", 60.0), 0).unwrap();
        make(&mut ledger, &keep("b", "3"), 0).unwrap();
        make(&mut ledger, &set("b", "4"), 0).unwrap();
        make(&mut ledger, &set("c", "5"), 0).unwrap();
        let back = Ledger::restored(ledger.tail(99).cloned());
        assert_eq!(back.revision(), 5);
        assert_eq!(value(&back, "a"), Some("1"), "a lease only hides it");
        assert_eq!(value(&back, "b"), Some("3"), "what is said for this life of the engine hides it, too");
        assert_eq!(value(&back, "c"), None);
        make(&mut ledger, &ChangeRequest { unset: vec!["b".into()], ..ChangeRequest::default() }, 0).unwrap();
        let back = Ledger::restored(ledger.tail(99).cloned());
        assert_eq!((value(&ledger, "b"), value(&back, "b")), (None, None), "let go is let go");
    }

    #[test]
    fn a_lease_that_is_renewed_again_and_again_does_not_pile_up() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("a", "1"), 0).unwrap();
        for second in 0..50 {
            make(&mut ledger, &lease("a", "2", 60.0), second * 1_000).unwrap();
        }
        let beneath = ledger.overrides()["a"].beneath.as_ref().expect("what was set before");
        assert_eq!((beneath.value.as_str(), &beneath.beneath), ("1", &None));
    }

    #[test]
    fn a_guard_takes_back_what_its_own_change_set_and_nothing_else() {
        let mut ledger = Ledger::default();
        let guarded = |knob, value| ChangeRequest { guard: Some("state==ready".into()), ..lease(knob, value, 60.0) };
        make(&mut ledger, &set("a", "1"), 0).unwrap();
        let mut both = guarded("a", "2");
        both.set.insert("b".into(), "2".into());
        make(&mut ledger, &both, 0).unwrap();
        make(&mut ledger, &lease("a", "3", 10.0), 0).unwrap();
        assert_eq!(ledger.guards(), BTreeMap::from([(2, "state==ready".to_string())]), "one guard, although covered");
        assert_eq!(ledger.broken(3, 0).unwrap()["a"].value, "2");
        assert_eq!(ledger.broken(9, 0), None);
        let next = ledger.broken(2, 500).expect("it holds");
        let line = Entry { reverts: Some(2), ..entry(&ledger, EntryKind::Breach, &next, 500) };
        ledger.commit(line);
        assert_eq!((value(&ledger, "a"), value(&ledger, "b")), (Some("3"), None));
        assert!(ledger.guards().is_empty());
        assert!(expire(&mut ledger, 10_000));
        assert_eq!(value(&ledger, "a"), Some("1"), "what the guarded lease hid");
    }

    #[test]
    fn an_effect_becomes_part_of_its_change() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("a", "1"), 10_000).unwrap();
        make(&mut ledger, &set("b", "1"), 12_000).unwrap();
        let effect = Effect { of: 1, window_s: 2.0, beside: ledger.beside(1, 8_000, 12_000), lanes: Vec::new() };
        let line =
            Entry { effect: Some(effect.clone()), ..entry(&ledger, EntryKind::Effect, &Overrides::new(), 12_000) };
        let (before, revision) = (ledger.overrides().clone(), ledger.revision());
        ledger.commit(Entry { revision, ..line });
        assert_eq!((ledger.overrides(), ledger.revision()), (&before, revision), "it changes nothing");
        let shown: Vec<_> = ledger.tail(9).map(|e| (e.revision, e.effect.clone())).collect();
        assert_eq!(shown, [(1, Some(Effect { beside: vec![2], ..effect })), (2, None)]);
    }

    #[test]
    fn many_cancellations_do_not_push_out_what_can_be_undone() {
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("a", "1"), 0).unwrap();
        let place = |cancelled| RequestPlace { lane: Some(Lane::Clips), held: false, cancelled };
        for n in 0..3 * REMEMBERED {
            let request = RequestChange {
                request: format!("req-{n}"),
                model: "ears".to_string(),
                op: Op::Transcribe,
                state: RequestState::Queued,
                from: place(false),
                to: place(true),
            };
            let line = entry(&ledger, EntryKind::Hand, &ledger.overrides().clone(), 0);
            ledger.commit(Entry { request: Some(request), ..line });
        }
        assert_eq!(ledger.tail(usize::MAX).count(), REMEMBERED);
        make(&mut ledger, &ChangeRequest { revert: Some(1), ..ChangeRequest::default() }, 0).unwrap();
        assert_eq!(value(&ledger, "a"), None);
        for _ in 0..REMEMBERED {
            make(&mut ledger, &set("b", "2"), 0).unwrap();
        }
        let undo = ChangeRequest { revert: Some(1), ..ChangeRequest::default() };
        assert!(matches!(ledger.changed(&undo, "uid:7", 0), Err(Moved::Unknown { .. })), "it is bounded");
    }

    #[test]
    fn a_hand_on_a_request_is_undone_by_its_own_entry_and_by_no_other_life_of_the_engine() {
        let place = |held| RequestPlace { lane: Some(Lane::Clips), held, cancelled: false };
        let hand = |ledger: &mut Ledger, request: &str, from, to, expires_at_ms| {
            let request = RequestChange {
                request: request.to_string(),
                model: "ears".to_string(),
                op: Op::Transcribe,
                state: RequestState::Queued,
                from,
                to,
            };
            let line = entry(ledger, EntryKind::Hand, &ledger.overrides().clone(), 0);
            ledger.commit(Entry { request: Some(request), expires_at_ms, ..line });
        };
        let mut ledger = Ledger::default();
        make(&mut ledger, &set("a", "1"), 0).unwrap();
        hand(&mut ledger, "req-1", place(false), place(true), Some(900));
        hand(&mut ledger, "req-2", place(false), place(true), None);
        assert_eq!((ledger.undoable(1), value(&ledger, "a")), (Ok(None), Some("1")), "settings are no request's");
        assert_eq!(ledger.undoable(2).unwrap().map(RequestChange::back), Some(Touch::RELEASE));
        assert_eq!(ledger.holds().next(), Some(900));
        hand(&mut ledger, "req-1", place(true), place(false), None);
        let moved = ledger.undoable(2).unwrap_err().to_string();
        assert!(moved.starts_with("req-1 has moved since revision 2: uid:7 released req-1 at "), "{moved}");
        assert!(ledger.undoable(3).is_ok() && ledger.holds().next().is_none());
        hand(&mut ledger, "req-2", place(true), RequestPlace { cancelled: true, ..place(true) }, None);
        assert!(matches!(ledger.undoable(5), Err(Moved::Cancelled { revision: 5, .. })));
        hand(&mut ledger, "req-3", place(false), place(true), Some(900));
        let start = entry(&ledger, EntryKind::Start, &Overrides::new(), 0);
        ledger.commit(start);
        assert_eq!(ledger.undoable(6), Err(Moved::Gone { revision: 6 }), "another req-3 may live now");
        assert_eq!(ledger.holds(), &Holds::default(), "and nothing is held");
    }

    proptest! {
        /// Whatever is set, leased, let go, expired and broken: replaying the entries gives the same settings, and no lease
        /// outlives its end.
        #[test]
        fn the_entries_are_the_settings(steps in prop::collection::vec((0usize..6, 0usize..3, 0u32..5, 0u64..4_000), 1..60)) {
            let mut ledger = Ledger::default();
            let mut now = 0;
            for (what, knob, value, wait) in steps {
                now += wait;
                expire(&mut ledger, now);
                let knob = ["a", "b", "c"][knob];
                let request = match what {
                    0 => set(knob, &value.to_string()),
                    1 => lease(knob, &value.to_string(), f64::from(value) + 0.5),
                    2 => ChangeRequest { unset: vec![knob.to_string()], ..ChangeRequest::default() },
                    3 => ChangeRequest {
                        guard: Some("state==ready".into()),
                        ..lease(knob, &value.to_string(), f64::from(value) + 0.5)
                    },
                    // The oldest guard breaks.
                    4 => {
                        let Some((revision, _)) = ledger.guards().pop_first() else { continue };
                        let next = ledger.broken(revision, now).expect("it holds");
                        let line = entry(&ledger, EntryKind::Breach, &next, now);
                        ledger.commit(line);
                        prop_assert!(!ledger.guards().contains_key(&revision));
                        prop_assert!(ledger.overrides() == &next && ledger.next_expiry().is_none_or(|at| at > now));
                        continue;
                    }
                    _ => ChangeRequest { persist: true, ..set(knob, &value.to_string()) },
                };
                make(&mut ledger, &request, now).unwrap();
                prop_assert!(ledger.next_expiry().is_none_or(|at| at > now));
                let mut again = Ledger::default();
                ledger.tail(999).cloned().for_each(|entry| again.commit(entry));
                prop_assert_eq!(again.overrides(), ledger.overrides());
                prop_assert_eq!(again.revision(), ledger.revision());
            }
        }
    }
}
