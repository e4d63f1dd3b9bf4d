//! The cache folder.
//!
//! ```text
//! models/SHA256/NAME            a pinned file
//! models/SHA256/NAME.stamp      its hash, size and time of change when it was last hashed
//! models/unpinned-…/NAME        an unpinned file; the folder's name is a hash of model, role and sources
//! models/stamps/HASH.stamp      stamps of files used where they lie (`file:`); the name is a hash of the path
//! models/tmp/…                  parts and wheels of the pull that holds the lock
//! models/lock
//! ```

use super::error::{PullError, name};
use super::options::Verify;
use crate::profile::{FileRole, ModelFile, Source};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A file's place and the place of its stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub path: PathBuf,
    stamp: PathBuf,
}

/// The cache.
pub(super) struct Store {
    root: PathBuf,
}

/// What a file was when it was last hashed.
struct Stamp {
    sha256: String,
    size: u64,
    changed_ns: u128,
}

impl Store {
    pub fn new(cache_dir: &Path) -> Self {
        Store { root: cache_dir.join("models") }
    }

    /// Where a file of a model lies, or would.
    pub fn slot(&self, model: &str, role: FileRole, file: &ModelFile) -> Slot {
        let folder = match &file.sha256 {
            Some(sha256) => sha256.clone(),
            None => {
                let identity = format!("{model} {} {:?}", name(role), file.sources);
                format!("unpinned-{}", &hex(&Sha256::digest(identity))[..16])
            }
        };
        let path = self.root.join(folder).join(file_name(role, file));
        let stamp = with_ending(&path, "stamp");
        Slot { path, stamp }
    }

    /// A file that is used where it lies.
    pub fn local_slot(&self, path: &Path) -> Slot {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let stamp = format!("{}.stamp", &hex(&Sha256::digest(whole.as_os_str().as_encoded_bytes()))[..32]);
        Slot { path: path.to_path_buf(), stamp: self.root.join("stamps").join(stamp) }
    }

    /// The sha256 of the file in `slot`, if it is there and is what it should be: what is pinned, or what its stamp says.
    pub fn check(&self, slot: &Slot, pinned: Option<&str>, verify: Verify) -> Result<Option<String>, PullError> {
        let Some((size, changed_ns)) = facts(&slot.path) else { return Ok(None) };
        let stamp = read_stamp(&slot.stamp);
        if let (Verify::Stamp, Some(stamp)) = (verify, &stamp) {
            let untouched = stamp.size == size && stamp.changed_ns == changed_ns;
            if untouched && pinned.is_none_or(|pinned| pinned == stamp.sha256) {
                return Ok(Some(stamp.sha256.clone()));
            }
        }
        let sha256 = hash(&slot.path).map_err(io("cannot read", &slot.path))?;
        if pinned.is_some_and(|pinned| pinned != sha256) {
            return Ok(None);
        }
        // A stamp that cannot be written costs a hash at the next start, no more.
        let _ = write_stamp(&slot.stamp, &Stamp { sha256: sha256.clone(), size, changed_ns });
        Ok(Some(sha256))
    }

    /// Waits until this process alone writes to the cache. `waiting` is called once if it is another's turn.
    pub fn lock(&self, waiting: &mut dyn FnMut()) -> Result<File, PullError> {
        let path = self.root.join("lock");
        std::fs::create_dir_all(&self.root).map_err(io("cannot create", &self.root))?;
        let file = File::create(&path).map_err(io("cannot create", &path))?;
        if file.try_lock().is_err() {
            waiting();
            file.lock().map_err(io("cannot lock", &path))?;
        }
        Ok(file)
    }

    /// A folder for wheels, empty. Only under the lock: it wipes what a killed pull left.
    pub fn scratch(&self) -> Result<PathBuf, PullError> {
        let path = self.root.join("tmp").join("wheels");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(io("cannot create", &path))?;
        Ok(path)
    }

    /// Where part `index` of a file is gathered. The name is the same in the next pull, so that it can be resumed.
    pub fn part(&self, slot: &Slot, index: usize) -> Result<PathBuf, PullError> {
        let folder = self.root.join("tmp");
        std::fs::create_dir_all(&folder).map_err(io("cannot create", &folder))?;
        Ok(self.part_path(slot, index))
    }

    fn part_path(&self, slot: &Slot, index: usize) -> PathBuf {
        let identity = format!("{} {index}", slot.path.display());
        self.root.join("tmp").join(format!("{}.part", &hex(&Sha256::digest(identity))[..16]))
    }

    /// Whether an earlier try left a beginning of the file.
    pub fn has_part(&self, slot: &Slot) -> bool {
        self.part_path(slot, 0).exists()
    }

    /// Appends the later parts to the first and returns it.
    pub fn join(&self, parts: &[PathBuf]) -> Result<PathBuf, PullError> {
        let (first, rest) = parts.split_first().expect("a source has at least one part: the profile checks it");
        let mut whole = File::options().append(true).open(first).map_err(io("cannot write", first))?;
        for part in rest {
            let mut from = File::open(part).map_err(io("cannot read", part))?;
            std::io::copy(&mut from, &mut whole).map_err(io("cannot write", first))?;
            let _ = std::fs::remove_file(part);
        }
        whole.sync_all().map_err(io("cannot write", first))?;
        Ok(first.clone())
    }

    /// Checks a fetched file and moves it to its place in one step. A file that is not what is pinned is deleted.
    pub fn install(&self, from: &Path, slot: &Slot, pinned: Option<&str>) -> Result<String, String> {
        let sha256 = hash(from).map_err(|error| format!("{}: {error}", from.display()))?;
        if let Some(pinned) = pinned.filter(|pinned| *pinned != sha256) {
            let _ = std::fs::remove_file(from);
            return Err(format!("its sha256 is {sha256}, the profile pins {pinned}"));
        }
        let place = || -> std::io::Result<()> {
            std::fs::create_dir_all(slot.path.parent().unwrap_or(&self.root))?;
            std::fs::rename(from, &slot.path)
        };
        place().map_err(|error| format!("{}: {error}", slot.path.display()))?;
        if let Some((size, changed_ns)) = facts(&slot.path) {
            let _ = write_stamp(&slot.stamp, &Stamp { sha256: sha256.clone(), size, changed_ns });
        }
        Ok(sha256)
    }
}

/// The name that the first source gives the file, without a part's ending.
fn file_name(role: FileRole, file: &ModelFile) -> String {
    let first = file.sources.first().and_then(|parts| parts.first());
    let path = match first {
        Some(Source::Hub { file, .. }) => file.clone(),
        Some(Source::Wheel { path, .. }) => path.clone(),
        Some(Source::Local { path }) => path.to_string_lossy().into_owned(),
        None => String::new(),
    };
    let base = path.rsplit('/').next().unwrap_or_default();
    let whole = base.find(".part").map_or(base, |at| &base[..at]);
    if whole.is_empty() { name(role).to_string() } else { whole.to_string() }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Size and time of change of a file that is there.
fn facts(path: &Path) -> Option<(u64, u128)> {
    let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_file())?;
    let changed = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((meta.len(), changed.as_nanos()))
}

fn read_stamp(path: &Path) -> Option<Stamp> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    Some(Stamp {
        sha256: words.next().filter(|word| word.len() == 64)?.to_string(),
        size: words.next()?.parse().ok()?,
        changed_ns: words.next()?.parse().ok()?,
    })
}

fn write_stamp(path: &Path, stamp: &Stamp) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let temporary = with_ending(path, "new");
    let mut file = File::create(&temporary)?;
    writeln!(file, "{} {} {}", stamp.sha256, stamp.size, stamp.changed_ns)?;
    std::fs::rename(&temporary, path)
}

/// The sha256 of a file, as lower-case hex.
pub fn hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn io<'p>(what: &'static str, path: &'p Path) -> impl FnOnce(std::io::Error) -> PullError + 'p {
    move |error| PullError::Io { what, path: path.to_path_buf(), error }
}
