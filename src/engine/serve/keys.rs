//! Keys and rights: who may do what over TCP.

use crate::control::{ErrorKind, Fault};
use sha2::{Digest, Sha256};
use std::path::Path;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Environment variable with keys, in the format of the keys file (lines separated by newlines or `;`).
pub const KEYS_VARIABLE: &str = "LANEKEEPER_KEYS";

/// Shortest key accepted: shorter ones can be guessed over the network.
const MIN_KEY_BYTES: usize = 8;

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Use models.
    Serve,
    /// Read status, probes and metrics.
    Read,
    /// Change the engine: cancel requests, settings.
    Control,
}

impl Right {
    pub const ALL: [Right; 3] = [Right::Serve, Right::Read, Right::Control];

    pub fn name(self) -> &'static str {
        match self {
            Right::Serve => "serve",
            Right::Read => "read",
            Right::Control => "control",
        }
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

impl Rights {
    pub const NONE: Rights = Rights(0);
    pub const ALL: Rights = Rights(0b111);

    pub fn with(self, right: Right) -> Rights {
        Rights(self.0 | 1 << right as u8)
    }

    pub fn has(self, right: Right) -> bool {
        self.0 & 1 << right as u8 != 0
    }
}

/// One key. Only its digest is kept, so that no dump or log of this value can show it.
#[derive(Clone)]
struct Key {
    label: String,
    rights: Rights,
    digest: [u8; 32],
}

/// The keys of an engine.
#[derive(Clone, Default)]
pub struct Keys {
    keys: Vec<Key>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|k| &k.label)).finish()
    }
}

impl Keys {
    /// Keys from a file and from the environment's value, both optional. The result is empty when neither has any.
    pub fn load(file: Option<&Path>, environment: Option<&str>) -> Result<Keys, Fault> {
        let mut keys = Keys::default();
        if let Some(path) = file {
            let text = std::fs::read_to_string(path).map_err(|e| {
                Fault::invalid("keys_file", format!("cannot read the keys file `{}`: {e}", path.display()))
            })?;
            warn_when_readable_by_others(path);
            keys.add(&text, &path.display().to_string())?;
            if keys.is_empty() {
                // An empty file is more likely a mistake than a wish to run open.
                return Err(Fault::invalid("keys_file", format!("the keys file `{}` holds no key", path.display()))
                    .hint("a line is `LABEL RIGHT[,RIGHT…] KEY` with rights serve, read, control"));
            }
        }
        if let Some(text) = environment {
            keys.add(&text.replace(';', "\n"), KEYS_VARIABLE)?;
        }
        Ok(keys)
    }

    fn add(&mut self, text: &str, origin: &str) -> Result<(), Fault> {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The line is never quoted: a mistyped one may have its key anywhere.
            let fail = |what: String| Fault::invalid("keys_file", format!("{origin} line {}: {what}", number + 1));
            let words: Vec<&str> = line.split_whitespace().collect();
            let [label, rights, key] = words[..] else {
                return Err(fail(format!("{} words, a key line has 3: LABEL RIGHT[,RIGHT…] KEY", words.len())));
            };
            let key =
                Key { label: label.to_string(), rights: parse_rights(rights).map_err(fail)?, digest: digest(key) };
            if words[2].len() < MIN_KEY_BYTES {
                return Err(fail(format!("the key has {} bytes, at least {MIN_KEY_BYTES} are needed", words[2].len())));
            }
            if self.keys.iter().any(|k| k.label == key.label) {
                return Err(fail("its label is already taken by an earlier line".to_string()));
            }
            if self.keys.iter().any(|k| k.digest == key.digest) {
                return Err(fail("its key is the same as an earlier line's".to_string()));
            }
            self.keys.push(key);
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Label and rights of the key that was presented. Digests are compared in constant time, and every key is looked
    /// at, so that the time tells neither how close a guess was nor which key matched.
    pub fn find(&self, presented: &str) -> Option<(&str, Rights)> {
        let presented = digest(presented);
        let mut found = Choice::from(0);
        let mut index = 0u64;
        for (i, key) in self.keys.iter().enumerate() {
            let equal = key.digest.ct_eq(&presented);
            index.conditional_assign(&(i as u64), equal);
            found |= equal;
        }
        bool::from(found).then(|| {
            let key = &self.keys[index as usize];
            (key.label.as_str(), key.rights)
        })
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn parse_rights(text: &str) -> Result<Rights, String> {
    let mut rights = Rights::NONE;
    for word in text.split(',') {
        let Some(right) = Right::ALL.into_iter().find(|r| r.name() == word) else {
            return Err("its second word is not a list of rights: serve, read, control".to_string());
        };
        rights = rights.with(right);
    }
    Ok(rights)
}

fn warn_when_readable_by_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if let Ok(meta) = std::fs::metadata(path)
        && meta.permissions().mode() & 0o077 != 0
    {
        tracing::warn!(file = %path.display(), "the keys file can be read by other users; chmod 600 it");
    }
}

/// The key of an `Authorization: Bearer KEY` header.
pub(super) fn bearer(headers: &http::HeaderMap) -> Result<Option<&str>, Fault> {
    let Some(value) = headers.get(http::header::AUTHORIZATION) else { return Ok(None) };
    let malformed = || Fault::new(ErrorKind::Unauthenticated, "the authorization header is not `Bearer KEY`");
    let text = value.to_str().map_err(|_| malformed())?;
    match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(key.trim())),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<Keys, Fault> {
        Keys::load(None, Some(text))
    }

    #[test]
    fn finds_label_and_rights() {
        let keys = keys("# ours\nalice serve,read correct-horse; ops control battery-staple").unwrap();
        let (label, rights) = keys.find("battery-staple").unwrap();
        assert_eq!((label, rights.has(Right::Control), rights.has(Right::Serve)), ("ops", true, false));
        let (label, rights) = keys.find("correct-horse").unwrap();
        assert_eq!((label, rights.has(Right::Read), rights.has(Right::Control)), ("alice", true, false));
        assert!(keys.find("correct-hors").is_none());
        assert!(keys.find("").is_none());
    }

    #[test]
    fn refusals_name_the_line_and_never_the_key() {
        for (text, says) in [
            ("a serve", "2 words"),
            ("a swerve marker-key", "list of rights"),
            ("a serve marker-key extra", "4 words"),
            ("a serve short", "5 bytes"),
            ("a serve marker-key\na read marker-kez", "line 2: its label"),
            ("a serve marker-key\nb read marker-key", "line 2: its key"),
        ] {
            let fault = keys(text).unwrap_err();
            assert!(fault.message.contains(says), "{}", fault.message);
            assert!(!fault.message.contains("marker"), "{}", fault.message);
        }
    }

    #[test]
    fn debug_shows_labels_only() {
        let keys = keys("alice serve marker-key").unwrap();
        assert_eq!(format!("{keys:?}"), "[\"alice\"]");
    }

    #[test]
    fn an_empty_file_is_refused() {
        let dir = std::env::temp_dir().join(format!("lanekeeper-keys-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("keys");
        std::fs::write(&path, "# none yet\n").unwrap();
        let fault = Keys::load(Some(&path), None).unwrap_err();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(fault.message.contains("holds no key"));
    }

    #[test]
    fn bearer_is_read_without_regard_to_case() {
        let mut headers = http::HeaderMap::new();
        assert_eq!(bearer(&headers).unwrap(), None);
        headers.insert(http::header::AUTHORIZATION, "bearer  k1 ".parse().unwrap());
        assert_eq!(bearer(&headers).unwrap(), Some("k1"));
        headers.insert(http::header::AUTHORIZATION, "Basic abc".parse().unwrap());
        assert!(bearer(&headers).is_err());
    }
}
