//! Live settings over the profile: what they make of it, and which of them fit.

use crate::control::knobs;
use crate::control::ledger::Overrides;
use crate::engine::runtime::batch;
use crate::profile::keys::{Key, Takes};
use crate::profile::{BoxBase, BoxProfile, Live, ProfileErrors, Resolved, Row, knob};

pub(super) fn knob_envelope(key: &Key) -> knobs::Envelope {
    let row = Row { path: String::new(), value: None, origin: crate::profile::Origin::BuiltIn, beneath: Vec::new() };
    knob(key, &row).envelope
}

pub(super) fn restarts(base: &BoxBase, knob: &str) -> bool {
    base.key(knob).is_ok_and(|key| key.takes == Takes::Restart)
}

pub(super) fn resolve(base: &BoxBase, overrides: &Overrides) -> Result<Resolved<BoxProfile>, ProfileErrors> {
    let live: Vec<Live<'_>> = overrides.values().map(|o| (o.knob.as_str(), o.value.as_str())).collect();
    base.resolve(&live)
}

/// The settings of the last life that still fit the profile, which may have changed since; those that do not are told.
pub(super) fn fitting(
    base: &BoxBase,
    overrides: &Overrides,
    remarks: &mut Vec<String>,
) -> Result<(Overrides, Resolved<BoxProfile>), ProfileErrors> {
    let mut fit = Overrides::new();
    let mut resolved = base.resolve(&[])?;
    if let Ok(all) = resolve(base, overrides)
        && all.value.models.iter().all(|model| batch::check(model).is_ok())
    {
        return Ok((overrides.clone(), all));
    }
    for (knob, setting) in overrides {
        let mut more = fit.clone();
        more.insert(knob.clone(), setting.clone());
        match resolve(base, &more) {
            Ok(with) if with.value.models.iter().all(|model| batch::check(model).is_ok()) => {
                (fit, resolved) = (more, with);
            }
            Ok(_) => remarks.push(format!("{knob}={} was set for good and does not fit any more", setting.value)),
            Err(errors) => {
                let why = errors.to_string();
                remarks.push(format!("{knob}={} was set for good and does not fit any more: {why}", setting.value));
            }
        }
    }
    Ok((fit, resolved))
}
