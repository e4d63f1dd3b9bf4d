//! What the demo feeds its engine: clips with known words, a recording put together from them, texts and questions.

use crate::cli::error::{CliError, CliResult};
use crate::control::ExitCode;
use crate::engine::audio::{DecodeLimits, Pcm, SAMPLE_RATE, decode};
use bytes::Bytes;
use serde::Deserialize;

/// A clip with the words spoken in it.
pub struct Clip {
    pub audio: Bytes,
    pub seconds: f64,
    pub text: String,
}

/// A recording with its sentences.
pub struct Recording {
    pub audio: Bytes,
    pub seconds: f64,
    pub sentences: Vec<String>,
}

macro_rules! clips {
    ($($number:literal)+) => {
        /// The committed clips (scripts/make-clips), compiled in so that the binary works alone.
        const FILES: &[(&str, &[u8])] = &[$((
            concat!($number, ".flac"),
            include_bytes!(concat!("../../../assets/clips/", $number, ".flac")),
        )),+];
    };
}

clips!("01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20");

/// What each clip says.
const TEXTS: &str = include_str!("../../../assets/clips/texts.json");

/// Sentences in the recording.
const SENTENCES: usize = 13;
/// Silence after each sentence of the recording, in samples. The lengths differ, so that no sentence ends where a 30-s
/// window does.
const GAPS: [usize; 4] = [9_600, 16_000, 6_400, 12_800];

/// Every clip.
pub fn clips() -> CliResult<Vec<Clip>> {
    #[derive(Deserialize)]
    struct Entry {
        file: String,
        text: String,
    }
    let broken = |what: String| CliError::new(ExitCode::Internal, format!("the built-in clips are broken: {what}"));
    let entries: Vec<Entry> = serde_json::from_str(TEXTS).map_err(|e| broken(e.to_string()))?;
    let mut clips = Vec::new();
    for (name, bytes) in FILES {
        let entry = entries.iter().find(|e| e.file == *name).ok_or_else(|| broken(format!("no text for {name}")))?;
        let pcm = decode(bytes, DecodeLimits::default()).map_err(|e| broken(format!("{name}: {e}")))?;
        let audio = Bytes::from_static(bytes);
        clips.push(Clip { audio, seconds: pcm.seconds(), text: entry.text.clone() });
    }
    Ok(clips)
}

/// A WAV of more than a minute: sentences of `clips` with short gaps between them.
pub fn recording(clips: &[Clip]) -> CliResult<Recording> {
    let mut samples: Vec<f32> = Vec::new();
    let mut sentences = Vec::new();
    for (i, clip) in clips.iter().take(SENTENCES).enumerate() {
        let pcm: Pcm = decode(&clip.audio, DecodeLimits::default())?;
        samples.extend_from_slice(&pcm.samples);
        samples.extend(std::iter::repeat_n(0.0, GAPS[i % GAPS.len()]));
        sentences.push(clip.text.clone());
    }
    let seconds = samples.len() as f64 / f64::from(SAMPLE_RATE);
    Ok(Recording { audio: wav(&samples), seconds, sentences })
}

/// A WAV of `seconds`: the clips read one after the other, from the first again when they are through.
pub fn reading(clips: &[Clip], seconds: f64) -> CliResult<Bytes> {
    let length = (seconds * f64::from(SAMPLE_RATE)) as usize;
    let read = clips.iter().map(|c| Ok(decode(&c.audio, DecodeLimits::default())?.samples));
    let once = read.collect::<CliResult<Vec<_>>>()?.concat();
    Ok(wav(&once.iter().copied().cycle().take(length).collect::<Vec<f32>>()))
}

impl From<crate::engine::audio::AudioError> for CliError {
    fn from(error: crate::engine::audio::AudioError) -> CliError {
        crate::control::Fault::from(error).into()
    }
}

/// A 16-bit mono WAV file at 16 kHz.
pub fn wav(samples: &[f32]) -> Bytes {
    let data = samples.len() as u32 * 2;
    let mut out = Vec::with_capacity(44 + data as usize);
    let field = |out: &mut Vec<u8>, name: &[u8; 4], value: u32| {
        out.extend_from_slice(name);
        out.extend_from_slice(&value.to_le_bytes());
    };
    field(&mut out, b"RIFF", 36 + data);
    out.extend_from_slice(b"WAVE");
    field(&mut out, b"fmt ", 16);
    out.extend_from_slice(&[1, 0, 1, 0]);
    out.extend_from_slice(&SAMPLE_RATE.to_le_bytes());
    out.extend_from_slice(&(SAMPLE_RATE * 2).to_le_bytes());
    out.extend_from_slice(&[2, 0, 16, 0]);
    field(&mut out, b"data", data);
    for sample in samples {
        out.extend_from_slice(&((sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16).to_le_bytes());
    }
    Bytes::from(out)
}

/// Pairs of texts that mean nearly the same: each must find its partner among all others.
pub const PAIRS: [(&str, &str); 8] = [
    ("How do I reset my password?", "I forgot my password and need a new one."),
    ("The weather in Lisbon is sunny today.", "It is a bright and warm day in Lisbon."),
    ("Bread is baked from flour, water and yeast.", "The baker mixes flour with water and yeast to make a loaf."),
    ("The train to Berlin was late again.", "Our train to Berlin arrived behind schedule."),
    ("Cats sleep for most of the day.", "A cat spends many hours of the day asleep."),
    ("The orchestra played a symphony by Mozart.", "Musicians performed one of Mozart's symphonies."),
    ("Water boils at a lower temperature in the mountains.", "High up in the mountains water boils sooner."),
    ("She bought a red bicycle for her son.", "A mother got her boy a new red bike."),
];

/// A query, the document that answers it, and others that do not.
pub struct Question {
    pub query: &'static str,
    pub best: usize,
    pub documents: [&'static str; 4],
}

pub const QUESTIONS: [Question; 3] = [
    Question {
        query: "What do bees make?",
        best: 2,
        documents: [
            "The harbour is closed in winter.",
            "A sonnet has fourteen lines.",
            "Bees make honey from the nectar of flowers.",
            "The engine needs a new belt.",
        ],
    },
    Question {
        query: "How far is the moon from the earth?",
        best: 0,
        documents: [
            "The distance from the earth to the moon is about four hundred thousand kilometres.",
            "Tomatoes grow well in a sunny place.",
            "The committee meets every second Tuesday.",
            "He plays the violin in the evening.",
        ],
    },
    Question {
        query: "How do I cook rice?",
        best: 3,
        documents: [
            "The castle was built on a hill above the river.",
            "Shares fell for the third day in a row.",
            "The ferry leaves from the northern pier.",
            "Cook the rice in twice its volume of water until the water is gone.",
        ],
    },
];

/// What the language model is asked.
pub const CHATS: [&str; 6] = [
    "Name three colours of the rainbow.",
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Why is the sky blue? Answer in two sentences.",
    "Give a short tip for growing tomatoes.",
    "What can I cook with eggs and potatoes?",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_are_whole_and_the_recording_is_longer_than_a_minute() {
        let clips = clips().unwrap();
        assert_eq!(clips.len(), 20);
        assert!(clips.iter().all(|c| c.seconds >= 3.0 && c.seconds < 30.0 && c.text.ends_with('.')));
        let recording = recording(&clips).unwrap();
        assert!(recording.seconds > 60.0, "{}", recording.seconds);
        assert_eq!(recording.sentences.len(), SENTENCES);
        let back = decode(&recording.audio, DecodeLimits::default()).unwrap();
        assert_eq!(back.seconds(), recording.seconds);
        assert!(!back.truncated);
        let total: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(total < 2_500_000, "{total}");
    }

    #[test]
    fn no_sentence_is_there_twice() {
        let clips = clips().unwrap();
        let mut texts: Vec<&str> = clips.iter().map(|c| c.text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), clips.len());
    }
}
