//! Bytes to audio, and what to say about them.

use super::container;
use super::error::AudioError;
use super::pcm::{CLIP_SAMPLES, Pcm, SAMPLE_RATE};
use super::sink::{Level, Mix, OVERSHOOT, Sink};
use super::sniff::{Container, Sniffed, sniff};
use super::wav;
use serde::Serialize;

/// Bounds on one decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeLimits {
    /// Longest audio; decoding stops as soon as it is passed.
    pub max_seconds: f64,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        DecodeLimits { max_seconds: 4.0 * 3600.0 }
    }
}

/// What the sound was before it became mono 16 kHz.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    pub container: &'static str,
    pub codec: String,
    pub rate: u32,
    pub channels: usize,
    pub bits: Option<u32>,
}

/// What a decode found out besides the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioInfo {
    pub source: Source,
    pub truncated: bool,
    pub warnings: Vec<String>,
}

/// Decodes an audio file by its content. Never panics, whatever the bytes.
pub fn decode(bytes: &[u8], limits: DecodeLimits) -> Result<Pcm, AudioError> {
    decode_with_info(bytes, limits).map(|(pcm, _)| pcm)
}

/// [`decode`], with what was found on the way.
pub fn decode_with_info(bytes: &[u8], limits: DecodeLimits) -> Result<(Pcm, AudioInfo), AudioError> {
    if bytes.is_empty() {
        return Err(AudioError::Empty);
    }
    let container = match sniff(bytes) {
        Sniffed::Audio(c) => c,
        Sniffed::Unsupported(what) => return Err(AudioError::Unsupported(what.to_string())),
        Sniffed::Other(what) => return Err(AudioError::NotAudio(what)),
    };
    let taken = |mut sink: Sink| {
        let info = match container {
            Container::Wav => wav::decode(bytes, &mut sink)?,
            other => container::decode(other, bytes, &mut sink)?,
        };
        Ok((sink, info))
    };
    let fresh = |mix, clips| match Sink::new(limits.max_seconds, mix) {
        sink if clips => sink.clipping(),
        sink => sink,
    };
    let (mut sink, mut info) = taken(fresh(Mix::Mean, false))?;
    let clips = sink.has_wild_strays();
    if clips {
        (sink, info) = taken(fresh(Mix::Mean, true))?;
    }
    if let Some(channel) = sink.cancelled() {
        (sink, info) = taken(fresh(Mix::Only(channel), clips))?;
        info.warnings.push(format!("its channels cancel each other out: channel {} was taken alone", channel + 1));
    }
    if sink.non_finite > 0 {
        info.warnings.push(format!("{} samples were not numbers and became silence", sink.non_finite));
    }
    let (samples, level) = sink.finish()?;
    if samples.is_empty() {
        return Err(AudioError::NoAudio(format!("a {} file without a whole sample", container.name())));
    }
    match level {
        Level::Clipped { samples, peak } if peak > OVERSHOOT => {
            info.warnings.push(format!("{samples} sample(s) of up to {} times full scale: clipped", times(peak)));
        }
        Level::Scaled { peak } if peak > OVERSHOOT => {
            info.warnings.push(format!("samples of up to {} times full scale: scaled down to fit", times(peak)));
        }
        _ => {}
    }
    Ok((Pcm { samples: samples.into(), truncated: info.truncated }, info))
}

/// A factor in digits that can be read.
fn times(factor: f32) -> String {
    if factor < 1e6 { format!("{factor:.1}") } else { format!("{factor:.0e}") }
}

/// What `lanekeeper check FILE` says of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AudioVerdict {
    /// Whether the engine would accept it.
    pub accepted: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_rate: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Samples of mono 16 kHz audio: what the lane is chosen by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_16k: Option<usize>,
    /// `clip` or `recording`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<&'static str>,
    pub truncated: bool,
    pub warnings: Vec<String>,
}

/// Looks a file over as the engine would.
pub fn verdict(bytes: &[u8], limits: DecodeLimits) -> AudioVerdict {
    match decode_with_info(bytes, limits) {
        Ok((pcm, info)) => AudioVerdict {
            accepted: true,
            reason: None,
            bytes: bytes.len(),
            container: Some(info.source.container.to_string()),
            codec: Some(info.source.codec),
            sample_rate: Some(info.source.rate),
            channels: Some(info.source.channels),
            bits: info.source.bits,
            duration_s: Some(pcm.samples.len() as f64 / f64::from(SAMPLE_RATE)),
            samples_16k: Some(pcm.samples.len()),
            lane: Some(if pcm.samples.len() > CLIP_SAMPLES { "recording" } else { "clip" }),
            truncated: pcm.truncated,
            warnings: info.warnings,
        },
        Err(e) => AudioVerdict {
            accepted: false,
            reason: Some(e.to_string()),
            bytes: bytes.len(),
            container: match (bytes.is_empty(), &e) {
                (true, _) | (_, AudioError::NotAudio(_)) => None,
                _ => match sniff(bytes) {
                    Sniffed::Audio(c) => Some(c.name().to_string()),
                    Sniffed::Unsupported(what) => Some(what.to_string()),
                    Sniffed::Other(_) => None,
                },
            },
            codec: None,
            sample_rate: None,
            channels: None,
            bits: None,
            duration_s: None,
            samples_16k: None,
            lane: None,
            truncated: false,
            warnings: Vec::new(),
        },
    }
}
