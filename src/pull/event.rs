//! What a pull reports on its way.

use crate::profile::FileRole;
use std::path::Path;

/// A step of a pull. A printer shows it as it likes: a bar, a line, nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum PullEvent<'a> {
    /// The file was there already.
    Present { role: FileRole, path: &'a Path, sha256: &'a str },
    /// Another process is pulling into the same cache; this one waits for it.
    Waiting { model: &'a str },
    /// `done` of `total` bytes of one part have arrived; `total` is absent where the source does not say. The first
    /// event of a part has `done` 0.
    Progress { role: FileRole, source: &'a str, part: usize, parts: usize, done: u64, total: Option<u64> },
    /// A source failed; the next one is tried.
    SourceFailed { role: FileRole, source: &'a str, why: &'a str },
    /// The file is in its place and checked.
    Done { role: FileRole, path: &'a Path, bytes: u64, sha256: &'a str },
}
