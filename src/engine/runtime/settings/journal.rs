//! The journal on disk: one JSON line per entry, on the disk before the change is answered.
//!
//! A line is whole or it is not there: an engine that is killed while it writes leaves a torn last line, which the next
//! start cuts off and says so; its change was never answered. A file that has grown to its limit is put aside under a
//! number and another begins with a line that says what holds, so that the newest file alone is enough for a start.

use crate::control::changes::Entry;
use crate::control::{ErrorKind, Fault};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes after which another file is begun.
pub(super) const LIMIT: u64 = 1 << 20;
/// Files that are kept beside the newest.
const KEPT: usize = 4;

/// An open journal. Its folder is locked until it is dropped.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    file: File,
    /// Bytes of whole lines.
    size: u64,
    limit: u64,
    /// Why nothing more is written.
    broken: Option<String>,
    lock: File,
}

/// What a folder held when it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub journal: Journal,
    /// Oldest first: those of the file before the newest, and the newest.
    pub entries: Vec<Entry>,
    /// What was wrong with the files.
    pub remarks: Vec<String>,
}

impl Journal {
    /// Opens the journal in `folder`, which is made if it is not there.
    pub fn open(folder: &Path, limit: u64) -> Result<Opened, Fault> {
        let fail = |doing: &str, e: &dyn std::fmt::Display| {
            Fault::new(ErrorKind::Internal, format!("cannot {doing} the journal in `{}`: {e}", folder.display()))
                .hint("XDG_STATE_HOME says where state is kept")
        };
        make(folder).map_err(|e| fail("make a folder for", &e))?;
        let lock = lock(folder).map_err(|e| fail("lock", &e))?;
        let mut remarks = Vec::new();
        let mut entries = match std::fs::read(aside(folder, 1)) {
            Ok(bytes) => read(&bytes, "journal.1.jsonl", &mut remarks).0,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(fail("read", &e)),
        };
        let path = newest(folder);
        if std::fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(fail("open", &"it is not a regular file"));
        }
        let file = private(&path).map_err(|e| fail("open", &e))?;
        let bytes = std::fs::read(&path).map_err(|e| fail("read", &e))?;
        let (newer, size) = read(&bytes, "journal.jsonl", &mut remarks);
        entries.extend(newer);
        if size < bytes.len() as u64 {
            file.set_len(size).and_then(|()| file.sync_all()).map_err(|e| fail("mend", &e))?;
        }
        // The file's name is to be on the disk as well, not only what is in it.
        sync_folder(folder).map_err(|e| fail("flush", &e))?;
        let journal = Journal { folder: folder.to_path_buf(), file, size, limit, broken: None, lock };
        Ok(Opened { journal, entries, remarks })
    }

    /// The newest file.
    pub fn path(&self) -> PathBuf {
        newest(&self.folder)
    }

    /// Writes an entry and flushes it to the disk. `head` says what holds before it, should a new file begin.
    pub fn append(&mut self, entry: &Entry, head: impl FnOnce() -> Entry) -> Result<(), Fault> {
        let fault = |why: &str| {
            Fault::new(ErrorKind::Internal, format!("the change is not made: the journal cannot be written ({why})"))
                .hint("free the disk and start the engine again; it goes on serving with the settings it has")
        };
        if let Some(why) = &self.broken {
            return Err(fault(why));
        }
        let line = line(entry).map_err(|e| fault(&e.to_string()))?;
        let gone = self.gone().map_err(|e| fault(&e.to_string()))?;
        if gone {
            tracing::warn!(folder = %self.folder.display(), "the journal is not where it was: it begins anew with what holds");
            self.come_back().map_err(|e| fault(&e.to_string()))?;
        }
        if gone || (self.size > 0 && self.size + line.len() as u64 > self.limit) {
            self.rotate(&head()).map_err(|e| fault(&e.to_string()))?;
        }
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(e) = written {
            // Whatever reached the file is to be gone: a change that was refused must not come back at the next start.
            if let Err(also) = self.file.set_len(self.size).and_then(|()| self.file.sync_data()) {
                self.broken = Some(format!("{e}; and it could not be mended: {also}"));
            }
            return Err(fault(&e.to_string()));
        }
        self.size += line.len() as u64;
        Ok(())
    }

    /// From now on its disk is full.
    #[cfg(test)]
    pub fn fill_disk(&mut self) {
        std::fs::rename(self.path(), self.folder.join("before")).expect("it moves");
        std::os::unix::fs::symlink("/dev/full", self.path()).expect("a link");
        self.file = OpenOptions::new().append(true).open(self.path()).expect("there");
    }

    /// Whether somebody has removed the file or put another in its place: what is written to it would not be found again.
    fn gone(&self) -> io::Result<bool> {
        Ok(!lies_at(&self.file, &self.path())?)
    }

    /// Makes the folder again, and takes its lock.
    fn come_back(&mut self) -> io::Result<()> {
        make(&self.folder)?;
        if !lies_at(&self.lock, &lock_path(&self.folder))? {
            self.lock = lock(&self.folder)?;
        }
        Ok(())
    }

    /// Puts the file aside and begins another. At every moment a whole journal lies under the name of the newest.
    fn rotate(&mut self, head: &Entry) -> io::Result<()> {
        for number in (1..KEPT).rev() {
            match std::fs::rename(aside(&self.folder, number), aside(&self.folder, number + 1)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        let (path, begun) = (newest(&self.folder), self.folder.join("journal.begun"));
        match std::fs::hard_link(&path, aside(&self.folder, 1)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&begun)?;
        let line = line(head)?;
        file.write_all(&line)?;
        file.sync_all()?;
        std::fs::rename(&begun, &path)?;
        sync_folder(&self.folder)?;
        self.file = OpenOptions::new().append(true).open(&path)?;
        self.size = line.len() as u64;
        Ok(())
    }
}

fn newest(folder: &Path) -> PathBuf {
    folder.join("journal.jsonl")
}

fn aside(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("journal.{number}.jsonl"))
}

/// Makes the folder, for its owner alone.
fn make(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// The folder's lock, held until it is dropped.
fn lock(folder: &Path) -> io::Result<File> {
    let file = private(&lock_path(folder))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::other("another engine of this name keeps it")),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn lock_path(folder: &Path) -> PathBuf {
    folder.join("journal.lock")
}

/// Whether an open file is the one that lies there.
fn lies_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// The entries of a file and the length of its whole lines.
fn read(bytes: &[u8], name: &str, remarks: &mut Vec<String>) -> (Vec<Entry>, u64) {
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        let torn = bytes.len() - whole;
        remarks.push(format!(
            "{name}: the last line was torn ({torn} bytes): its change was never answered and is dropped"
        ));
    }
    let mut entries = Vec::new();
    for (number, line) in bytes[..whole].split(|b| *b == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(entry) => entries.push(entry),
            Err(e) => remarks.push(format!("{name}: line {} is no entry and is skipped: {e}", number + 1)),
        }
    }
    (entries, whole as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::changes::EntryKind;

    fn entry(revision: u64) -> Entry {
        Entry::new(EntryKind::Start, revision, 0, "engine")
    }

    #[test]
    fn a_full_disk_refuses_and_goes_on_refusing_when_the_file_cannot_be_mended() {
        let folder = std::env::temp_dir().join(format!("lanekeeper-full-disk-{}", std::process::id()));
        let mut journal = Journal::open(&folder, 1 << 20).expect("opens").journal;
        journal.append(&entry(1), || entry(0)).expect("written");
        journal.fill_disk();
        let fault = journal.append(&entry(2), || entry(0)).expect_err("refused");
        assert!(fault.message.contains("the change is not made"), "{fault}");
        std::fs::rename(folder.join("before"), journal.path()).expect("it moves");
        journal.file = OpenOptions::new().append(true).open(journal.path()).expect("there");
        let fault = journal.append(&entry(3), || entry(0)).expect_err("what is in the file is not known any more");
        assert!(fault.message.contains("could not be mended"), "{fault}");
        drop(journal);
        let entries = Journal::open(&folder, 1 << 20).expect("opens").entries;
        assert_eq!(entries.iter().map(|e| e.revision).collect::<Vec<_>>(), [1]);
        std::fs::remove_dir_all(&folder).expect("it goes");
    }

    #[test]
    fn a_journal_that_was_removed_begins_anew_with_what_holds() {
        let folder = std::env::temp_dir().join(format!("lanekeeper-removed-{}", std::process::id()));
        let revisions = || {
            let entries = Journal::open(&folder, 1 << 20).expect("opens").entries;
            entries.iter().map(|e| e.revision).collect::<Vec<_>>()
        };
        let mut journal = Journal::open(&folder, 1 << 20).expect("opens").journal;
        journal.append(&entry(1), || entry(0)).expect("written");
        std::fs::remove_dir_all(&folder).expect("it goes");
        journal.append(&entry(2), || entry(1)).expect("written");
        assert!(Journal::open(&folder, 1 << 20).is_err(), "it is locked again");
        std::fs::remove_file(journal.path()).expect("it goes");
        journal.append(&entry(3), || entry(2)).expect("written");
        std::fs::write(folder.join("other"), b"").expect("written");
        std::fs::rename(folder.join("other"), journal.path()).expect("another takes its place");
        journal.append(&entry(4), || entry(3)).expect("written");
        journal.append(&entry(5), || entry(4)).expect("written");
        drop(journal);
        assert_eq!(revisions(), [3, 4, 5], "the head, and what came after it");
        std::fs::remove_dir_all(&folder).expect("it goes");
    }
}
