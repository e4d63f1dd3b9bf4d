//! Sessions through the model, one window at a time.

use super::decode::{self, Lane, MAX_NO_SPEECH, MIN_LOGPROB, Outcome};
use super::forward::{Cross, Whisper};
use super::gate::{self, Gate, Heard};
use super::segments;
use super::tokens::Tokens;
use crate::engine::audio::mel::HOP;
use crate::engine::audio::{MelFilter, SAMPLE_RATE};
use crate::engine::models::backend::Backend;
use crate::engine::models::{ModelError, Segment, TranscribeSession, Transcriber, WindowReport};

/// Windows in one batched pass. Each holds its cross-attention keys and values (18 MB for the tiny model, 37 for base),
/// and beyond four rows a decoder step gains little more from sharing the weights.
const GROUP: usize = 4;
/// A remnant shorter than this at the end of a recording holds no word.
const REMNANT: usize = SAMPLE_RATE as usize / 5;
/// Above this temperature a window's text is not used as context for the next: it may be invented.
const CONTEXT_MAX_TEMPERATURE: f32 = 0.5;

/// A Whisper model with what belongs to it.
pub struct WhisperTranscriber<B: Backend> {
    pub(super) model: Whisper<B>,
    pub(super) tokens: Tokens,
    mel: MelFilter,
    gate: Gate,
    pub(super) kv: B::Kv,
    /// (layer, head) pairs that word times are read from.
    pub(super) alignment_heads: Vec<(usize, usize)>,
}

/// The window of a session that is about to be decoded.
struct Window {
    /// Index of its session in the call.
    session: usize,
    /// Samples of audio in it.
    content: usize,
    context: Vec<u32>,
}

impl<B: Backend> WhisperTranscriber<B> {
    pub fn new(model: Whisper<B>, tokens: Tokens, alignment_heads: Vec<(usize, usize)>) -> Result<Self, ModelError> {
        let kv = model.new_kv(GROUP)?;
        let mel = MelFilter::new(model.dims.bands);
        Ok(WhisperTranscriber { model, tokens, mel, gate: Gate::default(), kv, alignment_heads })
    }

    /// Samples of a full window.
    fn window_samples(&self) -> usize {
        2 * self.model.dims.audio_ctx * HOP
    }

    /// The next window of a session; `None` when it was passed over without the model (silence, steady noise).
    fn prepare(&self, index: usize, s: &mut TranscribeSession) -> Result<Option<Window>, ModelError> {
        let t = &self.tokens;
        if let Some(code) = &s.language
            && t.language(code).is_none()
        {
            return Err(ModelError::BadInput(match t.multilingual {
                true => format!("language `{code}` is not one that this model knows"),
                false => format!("language `{code}` was asked for, but this model knows English only"),
            }));
        }
        if s.options.translate && !t.multilingual {
            return Err(ModelError::BadInput("this model transcribes English only; it cannot translate".to_string()));
        }
        if !t.multilingual {
            s.language = Some("en".to_string());
        }
        let left = s.audio.samples.len().saturating_sub(s.seek);
        let content = left.min(self.window_samples());
        let heard = match s.seek > 0 && left < REMNANT {
            true => Heard::Silence,
            false => self.gate.judge(&s.audio.samples[s.seek..s.seek + content]),
        };
        if heard != Heard::Something {
            advance(s, content);
            return Ok(None);
        }
        let context = match (&s.options.prompt, s.context.is_empty() && s.segments.is_empty()) {
            (Some(prompt), true) => t.encode(&format!(" {}", prompt.trim())),
            _ => s.context.clone(),
        };
        Ok(Some(Window { session: index, content, context }))
    }

    /// Decodes windows of several sessions in one batch.
    fn run_group(
        &mut self,
        windows: &[Window],
        sessions: &mut [&mut TranscribeSession],
    ) -> Result<Vec<WindowReport>, ModelError> {
        let frames = 2 * self.model.dims.audio_ctx;
        let mut encoded = Vec::with_capacity(windows.len());
        for w in windows {
            let s = &sessions[w.session];
            encoded.push(self.model.encode(self.mel.features(&s.audio.samples, s.seek, frames))?);
        }
        let cross = self.model.cross(encoded)?;
        self.find_languages(windows, sessions, &cross)?;
        let lanes = windows
            .iter()
            .enumerate()
            .map(|(slot, w)| {
                let s = &sessions[w.session];
                let seed = s.options.seed.wrapping_mul(31).wrapping_add(s.seek as u64);
                let steer = self.steer(s);
                let ctx = self.model.dims.text_ctx;
                Lane::new(slot, &w.context, &steer, s.options.temperature, seed, &self.tokens, ctx)
            })
            .collect();
        let outcomes = decode::run(&self.model, &self.tokens, &mut self.kv, &cross, lanes)?;
        let mut reports = Vec::with_capacity(windows.len());
        for (slot, (w, outcome)) in windows.iter().zip(outcomes).enumerate() {
            reports.push(self.apply(slot, w, outcome, &cross, sessions[w.session])?);
        }
        Ok(reports)
    }

    /// Start-of-transcript, and for a multilingual model language and task.
    fn steer(&self, s: &TranscribeSession) -> Vec<u32> {
        let t = &self.tokens;
        let mut steer = vec![t.sot];
        if t.multilingual {
            steer.extend(s.language.as_deref().and_then(|code| t.language(code)));
            steer.push(if s.options.translate { t.translate } else { t.transcribe });
        }
        steer
    }

    fn find_languages(
        &mut self,
        windows: &[Window],
        sessions: &mut [&mut TranscribeSession],
        cross: &Cross<B>,
    ) -> Result<(), ModelError> {
        let slots: Vec<usize> =
            (0..windows.len()).filter(|&i| sessions[windows[i].session].language.is_none()).collect();
        if slots.is_empty() {
            return Ok(());
        }
        let codes = decode::detect_languages(&self.model, &self.tokens, &mut self.kv, cross, &slots)?;
        for (slot, code) in slots.into_iter().zip(codes) {
            sessions[windows[slot].session].language = Some(code);
        }
        Ok(())
    }

    /// Writes what a window was heard as into its session.
    fn apply(
        &mut self,
        slot: usize,
        w: &Window,
        outcome: Outcome,
        cross: &Cross<B>,
        s: &mut TranscribeSession,
    ) -> Result<WindowReport, ModelError> {
        let mut report =
            WindowReport { new_segments: 0, decoded_tokens: outcome.decoded_tokens, fallbacks: outcome.fallbacks };
        if outcome.no_speech_prob > MAX_NO_SPEECH && outcome.avg_logprob < MIN_LOGPROB {
            advance(s, w.content);
            return Ok(report);
        }
        let rate = f64::from(SAMPLE_RATE);
        let window_s = w.content as f64 / rate;
        let offset = s.seek as f64 / rate;
        let split = segments::split(&outcome.tokens, window_s, &self.tokens);
        let first_new = s.segments.len();
        s.context = if outcome.without_context { Vec::new() } else { w.context.clone() };
        for piece in split.pieces {
            let (start, end) = (piece.start.min(window_s), piece.end.min(window_s));
            let text = self.tokens.decode(&piece.tokens);
            let span = (s.seek + (start * rate) as usize)..(s.seek + (end * rate) as usize).min(s.audio.samples.len());
            // Words over silence are the model's own.
            if end <= start || text.trim().is_empty() || gate::is_silent(s.audio.samples.get(span).unwrap_or(&[])) {
                continue;
            }
            s.context.extend_from_slice(&piece.tokens);
            s.segments.push(Segment {
                id: s.segments.len(),
                start: offset + start,
                end: offset + end,
                text,
                tokens: piece.tokens,
                temperature: outcome.temperature,
                avg_logprob: outcome.avg_logprob,
                compression_ratio: outcome.compression_ratio,
                no_speech_prob: outcome.no_speech_prob,
                seek: s.seek / HOP,
                words: Vec::new(),
            });
        }
        if outcome.temperature > CONTEXT_MAX_TEMPERATURE {
            s.context.clear();
        }
        let keep = self.model.dims.text_ctx / 2;
        if s.context.len() > keep {
            s.context.drain(..s.context.len() - keep);
        }
        report.new_segments = s.segments.len() - first_new;
        if s.options.word_timestamps {
            let steer = self.steer(s);
            let language = s.language.clone();
            let new = &mut s.segments[first_new..];
            self.add_words(slot, &steer, language.as_deref(), (offset, window_s), cross, new)?;
        }
        // A window that closes nothing must still end: no progress would be for ever.
        let samples = (split.advance * rate).round() as usize;
        advance(s, if samples == 0 { w.content } else { samples.min(w.content) });
        Ok(report)
    }
}

/// Moves a session on; it is done when its audio is.
fn advance(s: &mut TranscribeSession, samples: usize) {
    s.seek = (s.seek + samples).min(s.audio.samples.len());
    s.done = s.seek >= s.audio.samples.len();
}

impl<B: Backend> Transcriber for WhisperTranscriber<B> {
    fn step(&mut self, sessions: &mut [&mut TranscribeSession]) -> Vec<Result<WindowReport, ModelError>> {
        let nothing = || WindowReport { new_segments: 0, decoded_tokens: 0, fallbacks: 0 };
        let mut results: Vec<Result<WindowReport, ModelError>> = Vec::with_capacity(sessions.len());
        let mut windows = Vec::new();
        for (i, s) in sessions.iter_mut().enumerate() {
            results.push(Ok(nothing()));
            if s.done {
                continue;
            }
            match self.prepare(i, s) {
                Ok(window) => windows.extend(window),
                Err(e) => results[i] = Err(e),
            }
        }
        for group in windows.chunks(GROUP) {
            match self.run_group(group, sessions) {
                Ok(reports) => {
                    for (w, r) in group.iter().zip(reports) {
                        results[w.session] = Ok(r);
                    }
                }
                Err(e) if group.len() == 1 => results[group[0].session] = Err(e),
                // Who asked can split the batch; window by window everything would be computed twice.
                Err(ModelError::OutOfMemory { device, what }) => {
                    for w in group {
                        let (device, what) = (device.clone(), what.clone());
                        results[w.session] = Err(ModelError::OutOfMemory { device, what });
                    }
                }
                // Someone in the group is at fault: each alone shows who.
                Err(_) => {
                    for w in group {
                        let one = self.run_group(std::slice::from_ref(w), sessions);
                        results[w.session] = one.map(|mut r| r.pop().unwrap_or_else(nothing));
                    }
                }
            }
        }
        results
    }

    fn weights_bytes(&self) -> u64 {
        self.model.weights_bytes()
    }
}
