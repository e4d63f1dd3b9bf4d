//! Where profiles are found: a path, the user's folder, or compiled in.

use super::env::Env;
use super::error::ProfileError;
use super::origin::SourceFile;
use crate::control::nearest;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kinds of profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProfileKind {
    Box,
    Model,
    /// A load for the simulator.
    Load,
}

impl ProfileKind {
    pub const ALL: [ProfileKind; 3] = [ProfileKind::Box, ProfileKind::Model, ProfileKind::Load];

    pub fn name(self) -> &'static str {
        match self {
            ProfileKind::Box => "box",
            ProfileKind::Model => "model",
            ProfileKind::Load => "load",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            ProfileKind::Box => "boxes",
            ProfileKind::Model => "models",
            ProfileKind::Load => "loads",
        }
    }
}

macro_rules! shipped {
    ($($kind:ident $folder:literal: $($name:literal),+;)+) => {
        /// Compiled-in profiles, so that the binary works alone: kind, name, text.
        pub const SHIPPED: &[(ProfileKind, &str, &str)] = &[
            $($((
                ProfileKind::$kind,
                $name,
                include_str!(concat!("../../profiles/", $folder, "/", $name, ".yaml")),
            ),)+)+
        ];
    };
}

shipped! {
    Box "boxes": "demo", "box-gpu";
    Model "models": "whisper-tiny-en", "whisper-base", "whisper-large-v3-turbo", "smollm2-135m", "llama-3.1-8b", "minilm-l6";
    Load "loads": "mixed", "published-closed-loop", "review";
}

/// A profile's text and where it was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// File name without its ending.
    pub name: String,
    pub text: String,
    pub file: Arc<SourceFile>,
}

/// The places to look in.
#[derive(Debug, Clone)]
pub(super) struct Library {
    user: Option<PathBuf>,
}

impl Library {
    pub fn new(env: &Env) -> Self {
        Library { user: env.user_profiles() }
    }

    /// Finds `reference`: a path where it contains `/` or ends in `.yaml` or `.yml` (relative to `from`), else a name:
    /// the user's before the shipped. Files in `seen` are passed over, so that a user's `demo` can extend the shipped one.
    pub fn find(
        &self,
        kind: ProfileKind,
        reference: &str,
        from: Option<&Path>,
        seen: &[Arc<SourceFile>],
    ) -> Result<Found, ProfileError> {
        if is_path(reference) {
            return read(&super::value::path(reference, from), reference);
        }
        for path in self.user_candidates(kind, reference) {
            let found = path.is_file().then(|| read(&path, &path.to_string_lossy())).transpose()?;
            if let Some(found) = found.filter(|found| !seen.contains(&found.file)) {
                return Ok(found);
            }
        }
        let known = SHIPPED.iter().find(|(k, name, _)| *k == kind && *name == reference);
        known.map(|(_, name, text)| shipped(kind, name, text)).ok_or_else(|| self.missing(kind, reference))
    }

    /// Names that can be used for profiles of a kind, with a flag for the user's own.
    pub fn names(&self, kind: ProfileKind) -> Vec<(String, bool)> {
        let mut names: Vec<(String, bool)> = Vec::new();
        if let Some(user) = &self.user {
            for entry in std::fs::read_dir(user.join(kind.folder())).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                if yaml_ending(&path) && path.is_file() && !names.iter().any(|(known, _)| *known == name) {
                    names.push((name, true));
                }
            }
        }
        names.sort();
        let shipped = SHIPPED.iter().filter(|(k, ..)| *k == kind).map(|(_, name, _)| name.to_string());
        for name in shipped {
            if !names.iter().any(|(known, _)| *known == name) {
                names.push((name, false));
            }
        }
        names
    }

    fn user_candidates(&self, kind: ProfileKind, name: &str) -> Vec<PathBuf> {
        let Some(user) = &self.user else { return Vec::new() };
        let folder = user.join(kind.folder());
        vec![folder.join(format!("{name}.yaml")), folder.join(format!("{name}.yml"))]
    }

    fn missing(&self, kind: ProfileKind, reference: &str) -> ProfileError {
        let error = ProfileError::new(format!("there is no {} profile `{reference}`", kind.name()));
        let others = ProfileKind::ALL.into_iter().filter(|other| *other != kind);
        for other in others {
            if self.names(other).iter().any(|(name, _)| name == reference) {
                return error.hint(format!("`{reference}` is a {} profile", other.name()));
            }
        }
        let names = self.names(kind);
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        match nearest(reference, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("known: {}; a path needs a `/` or ends in .yaml", names.join(", "))),
        }
    }
}

/// Whether a reference is a path rather than a name.
pub(super) fn is_path(reference: &str) -> bool {
    reference.contains('/') || yaml_ending(Path::new(reference))
}

fn yaml_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

fn shipped(kind: ProfileKind, name: &str, text: &str) -> Found {
    let display = format!("profiles/{}/{name}.yaml", kind.folder());
    let file = SourceFile { display, folder: None, shipped: true };
    Found { name: name.to_string(), text: text.to_string(), file: Arc::new(file) }
}

fn read(path: &Path, display: &str) -> Result<Found, ProfileError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ProfileError::new(match error.kind() {
            std::io::ErrorKind::InvalidData => format!("{display}: not a text file in UTF-8"),
            _ => format!("{display}: cannot be read: {error}"),
        })
    })?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = Some(path.parent().unwrap_or(Path::new("")).to_path_buf());
    let file = SourceFile { display: display.to_string(), folder, shipped: false };
    Ok(Found { name, text, file: Arc::new(file) })
}
