//! GGUF files: a bounded reader of the header, its tensors, and the tokenizer inside.
//!
//! The header is read by this room and not by candle: a hostile or cut file must be refused quickly, naming the key or
//! tensor at fault with expected and present bytes, before anything large is allocated. Nothing of a file is trusted:
//! counts are held against the bytes that are there, the whole header against [`header::MAX_HEADER_BYTES`], and each
//! tensor's extent against the file's length. Blocks of weights are handed to candle's `QTensor`.
//!
//! Used while a model loads, on its worker thread; it holds no state afterwards. Every failure is a
//! [`ModelError::BadFile`](super::ModelError::BadFile).

pub mod header;
pub mod metadata;
mod reader;
mod sniff;
pub mod tensors;
pub mod tokenizer;
pub mod vocabulary;

#[cfg(test)]
pub(crate) mod testing;

pub use header::{Gguf, open};
pub use metadata::{Metadata, Value};
pub use vocabulary::{TokenKind, Vocabulary};
