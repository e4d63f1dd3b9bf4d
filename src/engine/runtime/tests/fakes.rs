//! Models that follow a script.

use super::super::Loader;
use crate::engine::models::{
    LoadedModel, ModelBack, ModelError, ModelFront, Segment, SpeechFront, TextEncoder, TextFront, TranscribeSession,
    Transcriber, WindowReport,
};
use crate::profile::Family;
use std::sync::{Arc, Condvar, Mutex};

/// Samples of one window.
pub(super) const WINDOW: usize = WINDOW_S * 16_000;
pub(super) const WINDOW_S: usize = 30;

/// Where fake models stop, once the test closes the curtain, until it lets them go on.
#[derive(Debug, Default)]
pub(super) struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// Steps that may pass although it is closed.
    passes: usize,
    /// Steps that have arrived, passed or not.
    arrived: usize,
    /// Sizes of the steps, in order.
    steps: Vec<usize>,
}

impl Stage {
    /// A stage that is closed from the start.
    pub fn closed() -> Arc<Stage> {
        let stage = Arc::new(Stage::default());
        stage.close();
        stage
    }

    /// From now on every step stops and waits to be let on.
    pub fn close(&self) {
        self.state.lock().expect("no test panics here").closed = true;
    }

    pub fn open(&self) {
        self.state.lock().expect("no test panics here").closed = false;
        self.changed.notify_all();
    }

    /// Lets one step go on.
    pub fn pass_one(&self) {
        self.state.lock().expect("no test panics here").passes += 1;
        self.changed.notify_all();
    }

    /// Waits until `n` steps have arrived since the start.
    pub fn await_arrivals(&self, n: usize) {
        let mut state = self.state.lock().expect("no test panics here");
        while state.arrived < n {
            state = self.changed.wait(state).expect("no test panics here");
        }
    }

    pub fn steps(&self) -> Vec<usize> {
        self.state.lock().expect("no test panics here").steps.clone()
    }

    fn arrive(&self, size: usize) {
        let mut state = self.state.lock().expect("no test panics here");
        state.arrived += 1;
        state.steps.push(size);
        self.changed.notify_all();
        while state.closed && state.passes == 0 {
            state = self.changed.wait(state).expect("no test panics here");
        }
        state.passes = state.passes.saturating_sub(1);
    }
}

struct Ears(Arc<Stage>);

impl Transcriber for Ears {
    fn step(&mut self, sessions: &mut [&mut TranscribeSession]) -> Vec<Result<WindowReport, ModelError>> {
        self.0.arrive(sessions.len());
        let count = sessions.len();
        let one = |session: &mut &mut TranscribeSession| {
            let script = session.options.prompt.clone().unwrap_or_default();
            match script.as_str() {
                "panic" => {
                    session.seek += 1;
                    panic!("the script says so");
                }
                "panics later" if !session.segments.is_empty() => panic!("the script says so"),
                "bad" => return Err(ModelError::BadInput("noise beyond belief".to_string())),
                "stuck" => return Ok(WindowReport { new_segments: 0, decoded_tokens: 0, fallbacks: 0 }),
                "large" if count > 1 => {
                    return Err(ModelError::OutOfMemory { device: "cpu".to_string(), what: "mel".to_string() });
                }
                _ => {}
            }
            let id = session.segments.len();
            let text = match script.as_str() {
                // Says what it remembers, and remembers more.
                "memory" => {
                    let (context, language) = (session.context.len(), session.language.clone());
                    let (seek, done) = (session.seek, session.done);
                    session.context.push(7);
                    session.language = Some("en".to_string());
                    format!("{id} at {seek} behind {context} in {language:?}, {done}")
                }
                _ => format!("{script} {id}"),
            };
            session.segments.push(segment(id, text));
            session.seek += WINDOW;
            session.done = session.seek >= session.audio.samples.len();
            Ok(WindowReport { new_segments: 1, decoded_tokens: 1, fallbacks: 0 })
        };
        sessions.iter_mut().map(one).collect()
    }

    fn weights_bytes(&self) -> u64 {
        1_000
    }
}

fn segment(id: usize, text: String) -> Segment {
    Segment {
        id,
        start: 0.0,
        end: 1.0,
        text,
        tokens: Vec::new(),
        temperature: 0.0,
        avg_logprob: 0.0,
        compression_ratio: 1.0,
        no_speech_prob: 0.0,
        seek: 0,
        words: Vec::new(),
    }
}

pub(super) const BAD: u32 = 666;
pub(super) const PANIC: u32 = 667;
pub(super) const LARGE: u32 = 668;

/// A text's vector is its first token and its length.
struct Vectors(Arc<Stage>);

impl TextEncoder for Vectors {
    fn embed(&mut self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.0.arrive(sequences.len());
        let has = |token: u32| sequences.iter().any(|s| s.contains(&token));
        assert!(!has(PANIC), "the script says so");
        if has(BAD) {
            return Err(ModelError::BadInput("not a text".to_string()));
        }
        if has(LARGE) && sequences.len() > 2 {
            return Err(ModelError::OutOfMemory { device: "cpu".to_string(), what: "attention".to_string() });
        }
        Ok(sequences.iter().map(|s| vec![s[0] as f32, s.len() as f32]).collect())
    }

    fn score(&mut self, query: &[u32], documents: &[&[u32]]) -> Result<Vec<f32>, ModelError> {
        self.0.arrive(documents.len());
        assert!(!query.contains(&PANIC), "the script says so");
        Ok(documents.iter().map(|d| d[0] as f32).collect())
    }

    fn weights_bytes(&self) -> u64 {
        2_000
    }
}

/// Loads fakes; a model whose description is `broken` fails to load, one that is `waiting` waits at the stage first.
pub(super) fn loader(stage: &Arc<Stage>) -> Loader {
    let stage = stage.clone();
    Arc::new(move |profile, _files, progress| {
        match profile.description.as_str() {
            "broken" => return Err(ModelError::BadFile("tensor `a` is cut short".to_string())),
            "waiting" => {
                progress(0.25);
                stage.arrive(0);
            }
            _ => {}
        }
        Ok(match profile.family {
            Family::Whisper => LoadedModel {
                front: ModelFront::Speech(SpeechFront { languages: vec!["en".to_string()], multilingual: false }),
                back: ModelBack::Speech(Box::new(Ears(stage.clone()))),
            },
            Family::Bert | Family::Llama => LoadedModel {
                front: ModelFront::Text(TextFront {
                    tokenizer: tokenizers::Tokenizer::new(tokenizers::models::wordlevel::WordLevel::default()),
                    max_tokens: 512,
                    dimensions: 2,
                    cross_encoder: false,
                }),
                back: ModelBack::Text(Box::new(Vectors(stage.clone()))),
            },
        })
    })
}
