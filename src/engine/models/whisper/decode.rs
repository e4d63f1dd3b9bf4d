//! The token loop: several windows side by side, each at its own position and temperature.

use super::forward::{Cross, Rows, Whisper};
use super::rules::{self, SplitMix};
use super::tokens::Tokens;
use crate::engine::models::ModelError;
use crate::engine::models::backend::Backend;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// A text that compresses better than this repeats itself.
const MAX_COMPRESSION: f64 = 2.4;
/// A mean log-probability below this is a guess.
pub const MIN_LOGPROB: f64 = -1.0;
/// A no-speech probability above this, with a guess for a text, is no speech.
pub const MAX_NO_SPEECH: f64 = 0.6;
/// Fall-back goes up to temperature 1 in steps of this.
const TEMPERATURE_STEP: f32 = 0.2;

/// What a window was heard as.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Sampled tokens without the end token.
    pub tokens: Vec<u32>,
    pub temperature: f32,
    pub avg_logprob: f64,
    pub compression_ratio: f64,
    pub no_speech_prob: f64,
    pub fallbacks: usize,
    /// Tokens sampled over all attempts.
    pub decoded_tokens: usize,
}

/// One window in the loop.
pub struct Lane {
    /// KV slot, and place in the batch's [`Cross`].
    slot: usize,
    prompt: Vec<u32>,
    /// Place of the start-of-transcript token in the prompt.
    sot_at: usize,
    /// Temperatures to try, in order; at least one.
    temperatures: Vec<f32>,
    seed: u64,
    attempt: usize,
    rng: SplitMix,
    tokens: Vec<u32>,
    sum_logprob: f64,
    no_speech_prob: f64,
    /// Logits after the prompt: where every attempt starts.
    first: Vec<f32>,
    decoded_tokens: usize,
    /// The best of the attempts that failed their checks.
    best_failed: Option<Outcome>,
    outcome: Option<Outcome>,
}

impl Lane {
    /// A lane for a window: `context` is text that came before, `steer` the tokens from start-of-transcript on.
    pub fn new(
        slot: usize,
        context: &[u32],
        steer: &[u32],
        temperature: f32,
        seed: u64,
        t: &Tokens,
        ctx: usize,
    ) -> Self {
        let mut prompt = Vec::new();
        if !context.is_empty() {
            let keep = context.len().min(ctx / 2 - 1);
            prompt.push(t.sot_prev);
            prompt.extend_from_slice(&context[context.len() - keep..]);
        }
        let sot_at = prompt.len();
        prompt.extend_from_slice(steer);
        let temperatures =
            if temperature > 0.0 { vec![temperature] } else { (0..=5).map(|i| i as f32 * TEMPERATURE_STEP).collect() };
        Lane {
            slot,
            prompt,
            sot_at,
            temperatures,
            seed,
            attempt: 0,
            rng: SplitMix::new(seed),
            tokens: Vec::new(),
            sum_logprob: 0.0,
            no_speech_prob: 0.0,
            first: Vec::new(),
            decoded_tokens: 0,
            best_failed: None,
            outcome: None,
        }
    }

    /// Takes the logits after the newest token, and chooses the next.
    fn accept(&mut self, mut logits: Vec<f32>, t: &Tokens, ctx: usize) {
        loop {
            rules::restrict(&mut logits, &self.tokens, t);
            let temperature = self.temperatures[self.attempt];
            let choice = if temperature > 0.0 {
                rules::sample(&logits, temperature, &mut self.rng)
            } else {
                rules::greedy(&logits)
            };
            self.sum_logprob += f64::from(choice.logprob);
            self.decoded_tokens += 1;
            let ended = choice.token == t.eot;
            if !ended {
                self.tokens.push(choice.token);
            }
            if !ended && self.tokens.len() < ctx / 2 && self.prompt.len() + self.tokens.len() < ctx {
                return;
            }
            if !self.end_attempt(t) {
                return;
            }
            // Another attempt at a higher temperature, from the same logits after the prompt.
            logits = self.first.clone();
        }
    }

    /// Judges a finished attempt; true when another one is to be made. Where all fail, the best of them stands: the
    /// likeliest, but repetition only if there is nothing else.
    fn end_attempt(&mut self, t: &Tokens) -> bool {
        let avg_logprob = self.sum_logprob / (self.tokens.len() + 1) as f64;
        let compression_ratio = compression_ratio(t.decode(&self.tokens).trim());
        let outcome = Outcome {
            tokens: std::mem::take(&mut self.tokens),
            temperature: self.temperatures[self.attempt],
            avg_logprob,
            compression_ratio,
            no_speech_prob: self.no_speech_prob,
            fallbacks: self.attempt,
            decoded_tokens: self.decoded_tokens,
        };
        let guess = avg_logprob < MIN_LOGPROB;
        let silence = guess && self.no_speech_prob > MAX_NO_SPEECH;
        if silence || !(guess || outcome.repeats()) {
            self.outcome = Some(outcome);
            return false;
        }
        let worth = |o: &Outcome| (!o.repeats(), o.avg_logprob);
        if self.best_failed.as_ref().is_none_or(|best| worth(&outcome) > worth(best)) {
            self.best_failed = Some(outcome);
        }
        if self.attempt + 1 == self.temperatures.len() {
            self.outcome = self.best_failed.take().map(|best| Outcome {
                fallbacks: self.attempt,
                decoded_tokens: self.decoded_tokens,
                ..best
            });
            return false;
        }
        self.attempt += 1;
        self.rng = SplitMix::new(self.seed.wrapping_add(self.attempt as u64));
        self.sum_logprob = 0.0;
        true
    }
}

impl Outcome {
    fn repeats(&self) -> bool {
        self.compression_ratio > MAX_COMPRESSION
    }
}

/// Decodes all lanes to their end. Lanes that end leave the batch; lanes that fall back stay in it.
pub fn run<B: Backend>(
    model: &Whisper<B>,
    t: &Tokens,
    kv: &mut B::Kv,
    cross: &Cross<B>,
    mut lanes: Vec<Lane>,
) -> Result<Vec<Outcome>, ModelError> {
    let ctx = model.dims.text_ctx;
    let rows: Vec<Rows<'_>> = lanes.iter().map(|l| Rows { slot: l.slot, start: 0, tokens: &l.prompt }).collect();
    let hidden = model.decode(&rows, kv, cross)?;
    let mut wanted = Vec::with_capacity(2 * lanes.len());
    let mut first_row = 0;
    for l in &lanes {
        wanted.push(first_row + l.sot_at);
        wanted.push(first_row + l.prompt.len() - 1);
        first_row += l.prompt.len();
    }
    let logits = model.logits(&hidden, &wanted)?;
    for (l, both) in lanes.iter_mut().zip(logits.chunks_exact(2 * t.vocab)) {
        let (at_sot, last) = both.split_at(t.vocab);
        l.no_speech_prob = rules::probability(at_sot, t.no_speech);
        l.first = last.to_vec();
        l.accept(last.to_vec(), t, ctx);
    }
    loop {
        let live: Vec<usize> = (0..lanes.len()).filter(|&i| lanes[i].outcome.is_none()).collect();
        if live.is_empty() {
            break;
        }
        let rows: Vec<Rows<'_>> = live
            .iter()
            .map(|&i| {
                let l = &lanes[i];
                let n = l.tokens.len();
                Rows { slot: l.slot, start: l.prompt.len() + n - 1, tokens: &l.tokens[n - 1..] }
            })
            .collect();
        let hidden = model.decode(&rows, kv, cross)?;
        let all: Vec<usize> = (0..live.len()).collect();
        let logits = model.logits(&hidden, &all)?;
        for (&i, row) in live.iter().zip(logits.chunks_exact(t.vocab)) {
            lanes[i].accept(row.to_vec(), t, ctx);
        }
    }
    lanes
        .into_iter()
        .map(|l| l.outcome.ok_or_else(|| ModelError::Other("a window ended without an outcome".to_string())))
        .collect()
}

/// The likeliest language of each window: the first token after start-of-transcript.
pub fn detect_languages<B: Backend>(
    model: &Whisper<B>,
    t: &Tokens,
    kv: &mut B::Kv,
    cross: &Cross<B>,
    slots: &[usize],
) -> Result<Vec<String>, ModelError> {
    let rows: Vec<Rows<'_>> =
        slots.iter().map(|&slot| Rows { slot, start: 0, tokens: std::slice::from_ref(&t.sot) }).collect();
    let hidden = model.decode(&rows, kv, cross)?;
    let logits = model.logits(&hidden, &(0..slots.len()).collect::<Vec<_>>())?;
    logits
        .chunks_exact(t.vocab)
        .map(|row| {
            t.languages
                .iter()
                .max_by(|a, b| row[a.1 as usize].total_cmp(&row[b.1 as usize]))
                .map(|(code, _)| code.clone())
                .ok_or_else(|| ModelError::Other("the tokenizer names no languages".to_string()))
        })
        .collect()
}

/// Bytes of a text over bytes of its zlib form.
fn compression_ratio(text: &str) -> f64 {
    let mut z = ZlibEncoder::new(Vec::new(), Compression::default());
    match z.write_all(text.as_bytes()).and_then(|()| z.finish()) {
        Ok(packed) => text.len() as f64 / packed.len().max(1) as f64,
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tests::toy;
    use super::*;

    #[test]
    fn repetition_compresses() {
        assert!(compression_ratio(&"and then ".repeat(30)) > MAX_COMPRESSION);
        assert!(compression_ratio("He had, however, a great deal of sense and of taste.") < MAX_COMPRESSION);
        assert_eq!(compression_ratio(""), 0.0);
    }

    #[test]
    fn the_prompt_keeps_the_newest_context_within_half_the_positions() {
        let t = toy();
        let context: Vec<u32> = (0..50).map(|i| i % 20).collect();
        let l = Lane::new(0, &context, &[t.sot], 0.0, 0, &t, 20);
        assert_eq!(l.prompt.len(), 1 + 9 + 1);
        assert_eq!((l.prompt[0], l.prompt[10], l.sot_at), (t.sot_prev, t.sot, 10));
        assert_eq!(&l.prompt[1..10], &context[41..]);
        let l = Lane::new(0, &[], &[t.sot], 0.4, 0, &t, 20);
        assert_eq!((l.prompt.as_slice(), l.temperatures.as_slice()), (&[t.sot][..], &[0.4][..]));
    }

    #[test]
    fn a_guess_falls_back_through_every_temperature_and_the_best_stands() {
        let t = toy();
        let mut l = Lane::new(0, &[], &[t.sot], 0.0, 3, &t, 20);
        // Flat logits: every choice is a guess.
        l.first = vec![0.0; t.vocab];
        l.accept(l.first.clone(), &t, 20);
        let mut steps = 0;
        while l.outcome.is_none() {
            l.accept(vec![0.0; t.vocab], &t, 20);
            steps += 1;
            assert!(steps < 1000);
        }
        let o = l.outcome.unwrap();
        assert_eq!(o.fallbacks, 5);
        assert!(o.avg_logprob < MIN_LOGPROB && o.decoded_tokens > o.tokens.len());
    }

    #[test]
    fn a_guess_that_is_probably_silence_is_not_tried_again() {
        let t = toy();
        let mut l = Lane::new(0, &[], &[t.sot], 0.0, 3, &t, 20);
        l.no_speech_prob = 0.9;
        l.first = vec![0.0; t.vocab];
        l.accept(l.first.clone(), &t, 20);
        while l.outcome.is_none() {
            l.accept(vec![0.0; t.vocab], &t, 20);
        }
        assert_eq!(l.outcome.unwrap().fallbacks, 0);
    }

    #[test]
    fn a_confident_text_ends_at_the_end_token() {
        let t = toy();
        let sure = |id: u32| {
            let mut l = vec![-50.0; t.vocab];
            l[id as usize] = 50.0;
            l
        };
        let mut l = Lane::new(0, &[], &[t.sot], 0.0, 0, &t, 20);
        l.first = sure(29);
        l.accept(l.first.clone(), &t, 20);
        for id in [0, 1, 35, t.eot] {
            l.accept(sure(id), &t, 20);
        }
        let o = l.outcome.unwrap();
        assert_eq!((o.tokens, o.fallbacks), (vec![29, 0, 1, 35], 0));
        assert!(o.avg_logprob > -1e-3);
    }
}
