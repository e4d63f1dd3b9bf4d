//! How a pull fails.

use crate::profile::FileRole;
use std::path::PathBuf;

/// A source that was tried, and why it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub source: String,
    pub why: String,
}

/// A pull failed. The cache is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// `--offline`, and something is missing.
    #[error(
        "{model}: not in the cache, and --offline was asked for: {} (get them with `lanekeeper pull {model}`)",
        names(files)
    )]
    Offline { model: String, files: Vec<FileRole> },
    /// No source yielded the file.
    #[error("{model}: no source yielded the {}:{}", name(*role), list(attempts))]
    NoSource { model: String, role: FileRole, attempts: Vec<Attempt> },
    /// The cache itself failed.
    #[error("{what} {}: {error}", path.display())]
    Io { what: &'static str, path: PathBuf, error: std::io::Error },
}

impl PullError {
    /// The files that are not in the cache, in words, where that is all that is wrong.
    pub fn missing(&self) -> Option<String> {
        match self {
            PullError::Offline { files, .. } => Some(names(files)),
            _ => None,
        }
    }
}

/// The word for a role.
pub(super) fn name(role: FileRole) -> &'static str {
    match role {
        FileRole::Weights => "weights",
        FileRole::Tokenizer => "tokenizer",
        FileRole::Config => "config",
    }
}

fn names(roles: &[FileRole]) -> String {
    roles.iter().map(|role| name(*role)).collect::<Vec<_>>().join(", ")
}

fn list(attempts: &[Attempt]) -> String {
    attempts.iter().map(|attempt| format!("\n  {}: {}", attempt.source, attempt.why)).collect()
}
