//! An operator's hands on one request: checked, done by whoever has the request, and written down before it is answered.
//!
//! Nothing of a request outlives the engine, so here the deed comes first and the journal second: an engine that is killed
//! in between has neither. What cannot be written down is undone, but for a cancellation: that a disk is full is no
//! reason to let work run on that nobody wants. One hand comes after the other, so that the journal has their order.

use super::Settings;
use super::checks::{sound_reason, sound_ttl};
use super::faults::{conflict, read_only};
use super::store::{ENGINE, State};
use crate::control::changes::{ChangeAnswer, ChangeRequest, Entry, EntryKind};
use crate::control::hands::{RequestChange, RequestPatch, Touch};
use crate::control::ledger::lease_end;
use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::clock::lock;
use std::time::Duration;

/// Does something to the request of an id, or looks at it.
type Reach<'a> = &'a dyn Fn(&str, Touch, bool) -> Result<RequestChange, Fault>;

/// Time until a request is tried again that should be let go and whose worker has no time.
const AGAIN: Duration = Duration::from_secs(1);

/// What is to be done, and what is said of it.
struct Deed<'a> {
    kind: EntryKind,
    touch: Touch,
    ttl_s: Option<f64>,
    reason: &'a Option<String>,
    reverts: Option<u64>,
    dry_run: bool,
}

impl Settings {
    /// Does what `patch` asks for, by `touch`, for `actor`: all of it or nothing.
    pub(in crate::engine::runtime) fn hand(
        &self,
        patch: &RequestPatch,
        actor: &str,
        touch: &dyn Fn(Touch, bool) -> Result<RequestChange, Fault>,
    ) -> Result<ChangeAnswer, Fault> {
        sound(patch)?;
        let deed = Deed {
            kind: EntryKind::Hand,
            touch: patch.touch(),
            ttl_s: patch.ttl_s,
            reason: &patch.reason,
            reverts: None,
            dry_run: patch.dry_run,
        };
        let _one = lock(&self.hands);
        self.done(&deed, actor, touch)
    }

    /// Undoes what the entry did to a request that `request` reverts; `None` where it is about settings, and where it
    /// is not about a revert at all.
    pub(in crate::engine::runtime) fn take_back(
        &self,
        request: &ChangeRequest,
        actor: &str,
        reach: Reach<'_>,
    ) -> Result<Option<ChangeAnswer>, Fault> {
        let Some(revision) = request.revert else { return Ok(None) };
        let _one = lock(&self.hands);
        let change = {
            let state = lock(&self.state);
            let Some(change) = state.ledger.undoable(revision).map_err(conflict)?.cloned() else { return Ok(None) };
            self.sound(request)?;
            state.ledger.check_revision(request).map_err(conflict)?;
            change
        };
        if change.back().is_empty() {
            let message = format!("revision {revision} held {} for another time: there is no way back", change.request);
            return Err(Fault::invalid("revert", message).hint("hold it anew, or release it"));
        }
        let deed = Deed {
            kind: EntryKind::Revert,
            touch: change.back(),
            ttl_s: None,
            reason: &request.reason,
            reverts: Some(revision),
            dry_run: request.dry_run,
        };
        self.done(&deed, actor, &|touch, dry| reach(&change.request, touch, dry)).map(Some)
    }

    fn done(
        &self,
        deed: &Deed<'_>,
        actor: &str,
        touch: &dyn Fn(Touch, bool) -> Result<RequestChange, Fault>,
    ) -> Result<ChangeAnswer, Fault> {
        if self.boot.read_only && !deed.dry_run {
            return Err(read_only());
        }
        if !deed.touch.cancelled && !deed.dry_run {
            lock(&self.state).journal.as_ref().map_err(Fault::clone)?;
        }
        let change = touch(deed.touch, deed.dry_run)?;
        let mut state = lock(&self.state);
        let now_ms = self.now_ms();
        let expires_at_ms = deed.ttl_s.map(|seconds| lease_end(now_ms, seconds));
        let held_for = state.ledger.holds().end_of(&change.request);
        let renewed = deed.touch.held == Some(true) && expires_at_ms != held_for;
        let mut answer =
            ChangeAnswer { request: Some(change.clone()), ..ChangeAnswer::new(state.ledger.revision(), false) };
        if deed.dry_run || (change.from == change.to && !renewed) {
            return Ok(answer);
        }
        let entry = Entry {
            reason: deed.reason.clone(),
            request: Some(change.clone()),
            expires_at_ms,
            reverts: deed.reverts,
            ..Entry::new(deed.kind, state.ledger.revision() + 1, now_ms, actor)
        };
        if let Err(fault) = state.write(&entry) {
            if !deed.touch.cancelled {
                drop(state);
                return Err(self.undone(&change, fault, touch));
            }
            answer.warnings.push(format!("the journal does not tell of it: {}", fault.message));
        }
        tracing::info!(
            request = change.request, what = change.what(), from = %change.from, to = %change.to, actor,
            revision = entry.revision, "a request was taken in hand"
        );
        self.keep_entry(&mut state, entry);
        Ok(ChangeAnswer { revision: state.ledger.revision(), applied: true, ..answer })
    }

    /// What was done to a request is taken back: it could not be written down.
    fn undone(
        &self,
        change: &RequestChange,
        fault: Fault,
        touch: &dyn Fn(Touch, bool) -> Result<RequestChange, Fault>,
    ) -> Fault {
        match touch(change.back(), false) {
            Ok(_) => fault,
            // It went on in this very moment: that is told, since the journal cannot.
            Err(also) => {
                tracing::error!(request = change.request, what = change.what(), %also, "done, and not written down");
                let message = format!("{}; and {} is {} all the same", fault.message, change.request, change.did());
                Fault { message, ..fault }
            }
        }
    }

    /// Lets go the requests whose hold is over. Gives the time until the next one is.
    pub(in crate::engine::runtime) fn let_go_due(&self, reach: Reach<'_>) -> Option<Duration> {
        let due = lock(&self.state).ledger.holds().due(self.now_ms());
        let mut again = None;
        for request in due {
            let _one = lock(&self.hands);
            // Somebody may have held it anew, or let it go, a moment ago.
            if lock(&self.state).ledger.holds().end_of(&request).is_none_or(|at| at > self.now_ms()) {
                continue;
            }
            let released = reach(&request, Touch::RELEASE, false);
            let mut state = lock(&self.state);
            match released {
                Ok(change) if change.from.held => self.ended(&mut state, change),
                Err(fault) if fault.kind == ErrorKind::QueueFull => again = Some(AGAIN),
                // It is gone, or a drain has let it go.
                Ok(_) | Err(_) => state.ledger.holds_mut().forget(&request),
            }
        }
        let state = lock(&self.state);
        let next = state.ledger.holds().next().map(|at| Duration::from_millis(at.saturating_sub(self.now_ms()).max(1)));
        again.or(next)
    }

    /// A hold has ended by itself. It has although nobody can write that down.
    fn ended(&self, state: &mut State, change: RequestChange) {
        let entry = Entry {
            reason: Some("the hold has ended".to_string()),
            request: Some(change),
            ..Entry::new(EntryKind::Expiry, state.ledger.revision() + 1, self.now_ms(), ENGINE)
        };
        if let Err(fault) = state.write(&entry) {
            tracing::error!(%fault, "a hold has ended and the journal does not say so");
        }
        self.keep_entry(state, entry);
    }

    /// Forgets the holds of requests that live no more.
    pub(in crate::engine::runtime) fn forget_holds(&self, lives: &dyn Fn(&str) -> bool) {
        lock(&self.state).ledger.holds_mut().retain(lives);
    }
}

/// What is wrong with a request in itself.
fn sound(patch: &RequestPatch) -> Result<(), Fault> {
    let touch = patch.touch();
    if touch.is_empty() {
        return Err(Fault::invalid("body", "nothing is asked for")
            .hint(r#"say {"held": true}, {"held": false}, {"lane": "clips"} or {"cancelled": true}"#));
    }
    if touch.cancelled && touch != Touch::CANCEL {
        return Err(Fault::invalid("cancelled", "a request that is cancelled is neither held nor moved"));
    }
    if patch.ttl_s.is_some() && touch.held != Some(true) {
        return Err(Fault::invalid("ttl_s", "a hold alone ends by itself").hint("leave out ttl_s, or add held"));
    }
    sound_ttl(patch.ttl_s)?;
    sound_reason(&patch.reason)
}
