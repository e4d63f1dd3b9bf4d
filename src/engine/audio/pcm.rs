//! Decoded audio as every speech model here takes it.

use std::sync::Arc;

/// Samples per second of all decoded audio.
pub const SAMPLE_RATE: u32 = 16_000;

/// The longest clip: audio with more samples than this is a recording (compare samples, not milliseconds).
pub const CLIP_SAMPLES: usize = 480_000;

/// Mono 16 kHz audio in [-1, 1]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pcm {
    pub samples: Arc<[f32]>,
    /// The file ended before its container said it would: what could be decoded is here.
    pub truncated: bool,
}

impl Pcm {
    /// Duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(SAMPLE_RATE)
    }
}
