//! Audio in: decode by content, mix to mono, resample to 16 kHz, say what the bytes are.
//!
//! Plain functions over bytes: no state, no thread of its own, callable from any blocking thread. It fails with an
//! [`AudioError`] that says what was wrong with the file (and becomes a [`Fault`](crate::control::Fault) of the field
//! `file`); a panic inside a decoder is contained and reported the same way. Log-mel features for speech models are
//! made here too ([`mel`]).

mod aac;
mod container;
pub mod decode;
pub mod error;
mod matroska;
pub mod mel;
mod ogg;
pub mod pcm;
mod resample;
mod sink;
pub mod sniff;
#[cfg(test)]
mod tests;
mod wav;

pub use decode::{AudioInfo, AudioVerdict, DecodeLimits, Source, decode, decode_with_info, verdict};
pub use error::AudioError;
pub use mel::MelFilter;
pub use pcm::{CLIP_SAMPLES, Pcm, SAMPLE_RATE};
