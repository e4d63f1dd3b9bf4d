//! Models that answer at once, or when the test lets them.

use crate::engine::models::testing::{FakeLm, Probe, alphabet};
use crate::engine::models::{
    LoadedModel, ModelBack, ModelError, ModelFront, Segment, SpeechFront, TextEncoder, TranscribeSession, Transcriber,
    WindowReport,
};
use crate::engine::runtime::Loader;
use crate::profile::Family;
use std::sync::Arc;

pub(super) use crate::engine::models::testing::Gate;

/// Context of the language model in tokens, which are characters.
const CONTEXT: usize = 256;

/// Samples of one window.
const WINDOW: usize = 30 * 16_000;

/// Loads fakes in place of files.
pub(super) fn loader(gate: Arc<Gate>) -> Loader {
    Arc::new(move |profile, _, _| match profile.family {
        Family::Whisper => Ok(LoadedModel {
            front: ModelFront::Speech(SpeechFront { languages: vec!["en".into()], multilingual: false }),
            back: ModelBack::Speech(Box::new(Ears(gate.clone()))),
        }),
        Family::Bert => Ok(LoadedModel {
            front: ModelFront::Text(super::super::http::tests::text_front(16)),
            back: ModelBack::Text(Box::new(Vectors(gate.clone()))),
        }),
        Family::Llama => {
            let slots = profile.generation.map_or(1, |g| g.slots);
            Ok(FakeLm::load(slots, CONTEXT, alphabet, gate.clone(), Arc::new(Probe::default())))
        }
    })
}

/// Hears one segment in each window that is not silent.
struct Ears(Arc<Gate>);

impl Transcriber for Ears {
    fn step(&mut self, sessions: &mut [&mut TranscribeSession]) -> Vec<Result<WindowReport, ModelError>> {
        self.0.pass();
        sessions.iter_mut().map(|session| Ok(hear(session))).collect()
    }

    fn weights_bytes(&self) -> u64 {
        1
    }
}

fn hear(session: &mut TranscribeSession) -> WindowReport {
    let total = session.audio.samples.len();
    let end = (session.seek + WINDOW).min(total);
    let silent = session.audio.samples[session.seek..end].iter().all(|x| x.abs() < 1e-3);
    if !silent {
        let id = session.segments.len();
        session.segments.push(Segment {
            id,
            start: session.seek as f64 / 16_000.0,
            end: end as f64 / 16_000.0,
            text: format!(" Window {}.", session.seek / WINDOW),
            tokens: vec![1],
            temperature: 0.0,
            avg_logprob: -0.1,
            compression_ratio: 1.0,
            no_speech_prob: 0.0,
            seek: session.seek / 160,
            words: vec![],
        });
    }
    session.seek = end;
    session.done = end == total;
    session.language = Some("en".into());
    WindowReport { new_segments: usize::from(!silent), decoded_tokens: 1, fallbacks: 0 }
}

/// A vector that depends on the text's tokens; a document scores by the tokens it shares with the query.
struct Vectors(Arc<Gate>);

impl TextEncoder for Vectors {
    fn embed(&mut self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.0.pass();
        Ok(sequences.iter().map(|ids| unit(ids)).collect())
    }

    fn score(&mut self, query: &[u32], documents: &[&[u32]]) -> Result<Vec<f32>, ModelError> {
        self.0.pass();
        let shared = |ids: &&[u32]| ids.iter().filter(|id| query.contains(id)).count() as f32;
        Ok(documents.iter().map(shared).collect())
    }

    fn weights_bytes(&self) -> u64 {
        1
    }
}

fn unit(ids: &[u32]) -> Vec<f32> {
    let mut vector = [0.5f32, 0.0, 0.0, 0.0];
    for (i, id) in ids.iter().enumerate() {
        vector[i % 4] += (*id as f32).sin();
    }
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / norm).collect()
}
