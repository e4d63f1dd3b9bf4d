//! The file of a head: which weights it belongs to, its shape, and its tensors.

use super::shipped::HEADS;
use crate::engine::models::ModelError;
use crate::engine::models::gguf::tensors::TensorReader;
use crate::engine::models::gguf::{self, Gguf, header};
use crate::profile::DraftHead;
use std::path::Path;

/// Widest gated block that is believed.
const MAX_INNER: usize = 1 << 16;

/// An opened head, of the weights that it was asked for.
pub struct HeadFile {
    pub(super) gguf: Gguf,
    /// The whole file, where it is not on disk.
    bytes: Option<&'static [u8]>,
}

impl HeadFile {
    /// Opens the head that a profile names for the weights of this sha256.
    pub fn open(named: &DraftHead, weights: &str) -> Result<HeadFile, ModelError> {
        match named {
            DraftHead::File(path) => {
                let head = HeadFile { gguf: gguf::open(path)?, bytes: None };
                let made_for = head.made_for()?;
                if made_for == weights {
                    return Ok(head);
                }
                Err(ModelError::BadFile(format!(
                    "{}: this draft head is for weights with sha256 {made_for}, the model's have {weights}: take \
                     `speculation.mtp_head` out of its profile, or make a head for it with scripts/mtp",
                    path.display()
                )))
            }
            DraftHead::Shipped => {
                let mut others = Vec::with_capacity(HEADS.len());
                for (name, bytes) in HEADS {
                    let gguf = header::read(bytes, Path::new(name), bytes.len() as u64)?;
                    let head = HeadFile { gguf, bytes: Some(bytes) };
                    let made_for = head.made_for()?.to_string();
                    if made_for == weights {
                        return Ok(head);
                    }
                    others.push(format!("{name} for {made_for}"));
                }
                Err(ModelError::BadFile(format!(
                    "no draft head is shipped for weights with sha256 {weights} (there is {}): take \
                     `speculation.mtp_head` out of the model's profile, or make a head with scripts/mtp and name its file",
                    others.join(", ")
                )))
            }
        }
    }

    /// The sha256 of the weights that it was trained on.
    fn made_for(&self) -> Result<&str, ModelError> {
        self.gguf.metadata.text("mtp.model.sha256")
    }

    /// The width of its gated block.
    pub(super) fn inner(&self) -> Result<usize, ModelError> {
        self.gguf.metadata.count_within("mtp.feed_forward_length", MAX_INNER)
    }

    pub(super) fn norm_eps(&self) -> Result<f32, ModelError> {
        self.gguf.metadata.float("mtp.norm_epsilon")
    }

    /// The tokens that it can draft, of a vocabulary of `vocab`.
    pub(super) fn tokens(&self, vocab: usize) -> Result<Vec<u32>, ModelError> {
        const KEY: &str = "mtp.tokens";
        let m = &self.gguf.metadata;
        let ids = m.opt_integers(KEY)?.unwrap_or_default();
        if ids.is_empty() {
            return Err(m.bad(KEY, "names no token: such a head could draft nothing"));
        }
        let known = |id: &i64| u32::try_from(*id).ok().filter(|id| (*id as usize) < vocab);
        ids.iter()
            .map(|id| known(id).ok_or_else(|| m.bad(KEY, format!("has {id}, but the vocabulary has {vocab} tokens"))))
            .collect()
    }

    pub(super) fn reader(&self) -> Result<TensorReader<'_>, ModelError> {
        match self.bytes {
            Some(bytes) => Ok(TensorReader::of_bytes(&self.gguf, bytes)),
            None => TensorReader::new(&self.gguf),
        }
    }
}
