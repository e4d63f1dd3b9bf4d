//! A byte reader that knows where it is, how much is left, and what it is reading.

use crate::engine::models::ModelError;
use std::io::Read;
use std::path::Path;

/// Reads little-endian values from the front of a file whose length is known.
pub(super) struct Reader<'a, R> {
    inner: R,
    path: &'a Path,
    at: u64,
    file_bytes: u64,
    /// Bytes that the whole header may take.
    limit: u64,
    /// What is being read, for messages: `metadata entry 3 of 33 (`general.name`)`.
    pub(super) what: String,
}

impl<'a, R: Read> Reader<'a, R> {
    pub(super) fn new(inner: R, path: &'a Path, file_bytes: u64, limit: u64) -> Self {
        Reader { inner, path, at: 0, file_bytes, limit, what: "the magic number".into() }
    }

    pub(super) fn position(&self) -> u64 {
        self.at
    }

    pub(super) fn remaining(&self) -> u64 {
        self.file_bytes.saturating_sub(self.at)
    }

    /// A refusal of this file at this place.
    pub(super) fn bad(&self, why: impl std::fmt::Display) -> ModelError {
        ModelError::BadFile(format!("{}: {}: {why}", self.path.display(), self.what))
    }

    /// Refuses when fewer than `bytes` are left, before anything is allocated for them.
    pub(super) fn need(&self, bytes: u64) -> Result<(), ModelError> {
        if bytes > self.remaining() {
            return Err(self.bad(format!(
                "needs {bytes} bytes at offset {}, the file has {} left (it is cut short, or damaged)",
                self.at,
                self.remaining()
            )));
        }
        if self.at.saturating_add(bytes) > self.limit {
            return Err(self.bad(format!("the header would take more than {} bytes: the file is damaged", self.limit)));
        }
        Ok(())
    }

    /// `len` bytes.
    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>, ModelError> {
        self.need(len)?;
        let mut data = vec![0u8; len as usize];
        self.fill(&mut data)?;
        Ok(data)
    }

    fn fill(&mut self, data: &mut [u8]) -> Result<(), ModelError> {
        self.need(data.len() as u64)?;
        self.inner.read_exact(data).map_err(|e| self.bad(format!("reading at offset {}: {e}", self.at)))?;
        self.at += data.len() as u64;
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ModelError> {
        let mut data = [0u8; N];
        self.fill(&mut data)?;
        Ok(data)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ModelError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, ModelError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length-prefixed string. Bytes that are not UTF-8 become U+FFFD, as other readers of the format do.
    pub(super) fn string(&mut self) -> Result<String, ModelError> {
        let len = self.u64()?;
        let mut data = self.bytes(len)?;
        // Some writers count a trailing NUL.
        while data.last() == Some(&0) {
            data.pop();
        }
        Ok(match String::from_utf8(data) {
            Ok(s) => s,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        })
    }
}
