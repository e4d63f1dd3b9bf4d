//! Draft heads: small blocks that say, from a model's last hidden state and the token it chose there, what it will choose
//! next (multi-token prediction).
//!
//! A head belongs to one file of weights, named by its sha256, and is loaded with the model ([`HeadFile`] opens and checks
//! it, [`Head`] runs it). It lives in the model's back, on the model's thread, and keeps no state. `scripts/mtp` makes
//! them; `docs/speculation.md` says how, and how often the drafts of the shipped one hold.
//!
//! Failure: a head of other weights, or a damaged one, is a [`ModelError::BadFile`](super::ModelError::BadFile) that names
//! both digests. What a head drafts is verified like any proposal, so a bad head costs time and never changes text.

mod file;
mod head;
mod shipped;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use file::HeadFile;
pub use head::Head;
