//! What is measured of each kind of model: the model alone, without queues and doors.

use super::timing::{Figure, PauseMeter, measure};
use crate::cli::demo::assets;
use crate::cli::error::{CliError, CliResult};
use crate::control::ExitCode;
use crate::engine::audio::{DecodeLimits, Pcm, decode};
use crate::engine::models::{
    CausalLm, LmSpan, LogitsFor, ModelError, TextEncoder, TextFront, TranscribeOptions, TranscribeSession, Transcriber,
};

/// What every measurement needs.
pub struct Bench<'a> {
    pub model: &'a str,
    pub rounds: usize,
    /// Parts of the names of what is measured; empty: everything.
    pub only: &'a [String],
    pub meter: &'a mut PauseMeter,
    pub figures: &'a mut Vec<Figure>,
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> CliError {
        CliError::new(ExitCode::Internal, error.to_string())
    }
}

impl Bench<'_> {
    fn add(
        &mut self,
        what: &str,
        unit: &'static str,
        work: f64,
        rounds: usize,
        round: impl FnMut() -> Result<(), ModelError>,
    ) -> CliResult {
        if !self.only.is_empty() && !self.only.iter().any(|part| what.contains(part.as_str())) {
            return Ok(());
        }
        self.meter.look();
        let figure = measure(self.model, what, unit, work, rounds, round)?;
        self.meter.look();
        self.figures.push(figure);
        Ok(())
    }

    /// Audio seconds per second: one clip, clips together, one recording.
    pub fn speech(&mut self, model: &mut dyn Transcriber) -> CliResult {
        let clips = assets::clips()?;
        let pcm = |bytes: &[u8]| -> CliResult<Pcm> { Ok(decode(bytes, DecodeLimits::default())?) };
        let some = clips.iter().take(8).map(|c| pcm(&c.audio)).collect::<CliResult<Vec<_>>>()?;
        let recording = vec![pcm(&assets::recording(&clips)?.audio)?];
        let seconds = |audio: &[Pcm]| audio.iter().map(Pcm::seconds).sum::<f64>();
        let sets: [(&str, &[Pcm], usize); 3] = [
            ("1 clip", &some[..1], self.rounds),
            ("8 clips together", &some, self.rounds),
            ("1 recording", &recording, self.rounds.min(3)),
        ];
        for (what, audio, rounds) in sets {
            self.add(what, "audio-s", seconds(audio), rounds, || transcribe(model, audio))?;
        }
        Ok(())
    }

    /// Texts per second: one short text, short texts together, long texts together.
    pub fn text(&mut self, model: &mut dyn TextEncoder, front: &TextFront) -> CliResult {
        let encode = |text: &str| {
            let encoded = front.tokenizer.encode(text, true);
            let encoded = encoded.map_err(|e| ModelError::BadInput(format!("a text cannot be tokenised: {e}")))?;
            let mut ids = encoded.get_ids().to_vec();
            ids.truncate(front.max_tokens);
            Ok::<_, ModelError>(ids)
        };
        let texts: Vec<&str> = assets::PAIRS.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let short = texts.iter().map(|t| encode(t)).collect::<Result<Vec<_>, _>>()?;
        let long_text = texts.join(" ").repeat(2);
        let long = vec![encode(&long_text)?; 4];
        let sets =
            [("1 short text", &short[..1]), ("16 short texts together", &short), ("4 long texts together", &long)];
        for (what, set) in sets {
            let sequences: Vec<&[u32]> = set.iter().map(Vec::as_slice).collect();
            let rounds = self.rounds * 2;
            self.add(what, "texts", set.len() as f64, rounds, || model.embed(&sequences).map(drop))?;
        }
        Ok(())
    }

    /// Tokens per second: reading a prompt, and writing with 1, 4 and 8 sequences at once.
    pub fn language(&mut self, model: &mut dyn CausalLm) -> CliResult {
        let vocab = model.config().vocab as u32;
        // Any tokens do: speed does not depend on which they are.
        let prompt = |n: usize| (0..n as u32).map(|i| (i * 7919 + 11) % vocab).collect::<Vec<u32>>();
        for n in [64, 256] {
            let tokens = prompt(n);
            self.add(&format!("prefill of {n} tokens"), "tokens", n as f64, self.rounds, || {
                let span = LmSpan { slot: 0, start: 0, tokens: &tokens, logits: LogitsFor::Last };
                model.forward(&[span]).map(drop)
            })?;
        }
        const STEPS: usize = 16;
        let begin = prompt(32);
        for sequences in [1, 4, 8] {
            if sequences > model.slots() {
                continue;
            }
            for slot in 0..sequences {
                model.forward(&[LmSpan { slot, start: 0, tokens: &begin, logits: LogitsFor::None }])?;
            }
            let work = (STEPS * sequences) as f64;
            self.add(&format!("decode of {sequences} at once"), "tokens", work, self.rounds, || {
                for step in 0..STEPS {
                    let token = [begin[step % begin.len()]];
                    let span =
                        |slot| LmSpan { slot, start: begin.len() + step, tokens: &token, logits: LogitsFor::Last };
                    model.forward(&(0..sequences).map(span).collect::<Vec<_>>())?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Transcribes all of `audio` together.
fn transcribe(model: &mut dyn Transcriber, audio: &[Pcm]) -> Result<(), ModelError> {
    let options = TranscribeOptions { language: Some("en".into()), ..TranscribeOptions::default() };
    let mut sessions: Vec<_> = audio.iter().map(|a| TranscribeSession::new(a.clone(), options.clone())).collect();
    loop {
        let mut open: Vec<&mut TranscribeSession> = sessions.iter_mut().filter(|s| !s.done).collect();
        if open.is_empty() {
            return Ok(());
        }
        for report in model.step(&mut open) {
            report?;
        }
    }
}
