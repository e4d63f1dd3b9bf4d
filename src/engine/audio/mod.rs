//! Audio in: decode by content, mix to mono, resample to 16 kHz, say what the bytes are.

pub mod pcm;

pub use pcm::{Pcm, SAMPLE_RATE};
