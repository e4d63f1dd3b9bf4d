//! What a change must be like: sound in itself, and such that the engine can take it.

use super::Settings;
use super::envelope::narrowed;
use super::faults::refused;
use super::resolve::{knob_envelope, resolve, restarts};
use super::store::State;
use crate::control::Fault;
use crate::control::changes::{ChangeRequest, KnobChange, Override};
use crate::control::knobs::TakesEffect;
use crate::control::ledger::Overrides;
use crate::engine::runtime::batch;
use crate::profile::keys::Takes;
use crate::profile::{BoxProfile, Resolved, figure};

/// What a lease may last, in seconds.
const TTL_S: std::ops::RangeInclusive<f64> = 0.1..=2_592_000.0;
/// Longest reason, in characters.
const REASON: usize = 500;

impl Settings {
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
    pub(super) fn checked(
        &self,
        state: &State,
        next: &Overrides,
    ) -> Result<(Resolved<BoxProfile>, Vec<KnobChange>), Fault> {
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
