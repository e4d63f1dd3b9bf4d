//! Why bytes could not be turned into audio.

use crate::control::{ErrorKind, Fault};

/// Bytes that could not be decoded. Never carries any of the content.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AudioError {
    #[error("the audio file is empty (0 bytes)")]
    Empty,
    /// A container without a single sample in it.
    #[error("the file holds no audio: {0}")]
    NoAudio(String),
    /// Bytes of another kind altogether.
    #[error("the file is not audio: its bytes look like {0}")]
    NotAudio(&'static str),
    /// Audio whose header contradicts itself, or that no decoder can follow.
    #[error("the audio is damaged: {0}")]
    Damaged(String),
    /// A container or coding that is not decoded here; names it.
    #[error("{0} is not supported")]
    Unsupported(String),
    #[error("the audio is longer than {max_seconds} s, the limit of this engine (at least {seconds:.1} s)")]
    TooLong { seconds: f64, max_seconds: f64 },
}

impl From<AudioError> for Fault {
    fn from(e: AudioError) -> Fault {
        let (kind, hint) = match &e {
            AudioError::Empty | AudioError::NoAudio(_) => {
                (ErrorKind::InvalidRequest, "send a recording with sound in it")
            }
            AudioError::NotAudio(_) => {
                (ErrorKind::InvalidRequest, "send the bytes of an audio file: wav, flac, mp3, m4a, ogg or webm")
            }
            AudioError::Damaged(_) => (
                ErrorKind::InvalidRequest,
                "`lanekeeper check FILE` shows what is wrong with it; record or convert it again",
            ),
            // Of what is taken, never what was just refused.
            AudioError::Unsupported(what) if what.contains("AAC") => {
                (ErrorKind::UnsupportedMedia, "convert it to wav, flac or mp3, or to the LC profile in mono or stereo")
            }
            AudioError::Unsupported(what) if what.starts_with("WAV with") => {
                (ErrorKind::UnsupportedMedia, "convert it to samples of 16 bits (PCM), or to flac or mp3")
            }
            AudioError::Unsupported(_) => {
                (ErrorKind::UnsupportedMedia, "convert it to wav, flac, mp3, m4a (AAC) or ogg/webm (Vorbis)")
            }
            AudioError::TooLong { .. } => (ErrorKind::TooLong, "split it, or raise limits.audio.max_seconds"),
        };
        let mut fault = Fault::new(kind, e.to_string()).param("file").hint(hint);
        if matches!(e, AudioError::TooLong { .. }) {
            fault = fault.code("audio_too_long");
        }
        fault
    }
}
