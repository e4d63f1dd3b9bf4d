//! Whisper: speech in windows of 30 s to text with times.
//!
//! [`load`] gives the two halves of a model; the back is a [`WhisperTranscriber`], owned by its worker thread. All
//! state between windows is in the [`TranscribeSession`](super::TranscribeSession): a session can be put aside after
//! any window and taken up again, in any batch. One forward pass ([`forward`]) is generic over the back end; what may
//! be said next ([`rules`]), how tokens become segments ([`segments`]), whether a text loops ([`repetition`]) and whether
//! there is anything to hear ([`gate`]) are plain functions. A damaged file fails the load with what, where, expected and found; a session at fault fails
//! alone.
//!
//! Windows are always padded to 30 s, as the model was trained: a shorter encoder context would be quicker for short
//! clips and costs words.

mod ct2;
mod decode;
mod forward;
mod gate;
mod load;
mod repetition;
mod rules;
mod segments;
mod tokens;
mod transcriber;
mod weights;
mod words;

pub use load::load;
pub use transcriber::WhisperTranscriber;
