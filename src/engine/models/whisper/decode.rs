//! The token loop: several windows side by side, each at its own position and temperature.

use super::forward::{Cross, Rows, Whisper};
use super::repetition::{compression_ratio, loops, repeats};
use super::rules::{self, SplitMix};
use super::tokens::Tokens;
use crate::engine::models::ModelError;
use crate::engine::models::backend::Backend;

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
    /// With the text before it the model only repeated itself: this was heard without.
    pub without_context: bool,
}

/// One window in the loop.
pub struct Lane {
    /// KV slot, and place in the batch's [`Cross`].
    slot: usize,
    prompt: Vec<u32>,
    /// Place of the start-of-transcript token in the prompt: beyond 0 there is text before it.
    sot_at: usize,
    /// The prompt is still to be read.
    begins: bool,
    without_context: bool,
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
    /// The best of the attempts that failed their checks, and whether it repeats itself.
    best_failed: Option<(bool, Outcome)>,
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
            begins: true,
            without_context: false,
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

    /// What the model has still to read: the prompt, or the newest token.
    fn rows(&self) -> Rows<'_> {
        let n = self.tokens.len();
        match self.begins {
            true => Rows { slot: self.slot, start: 0, tokens: &self.prompt },
            false => Rows { slot: self.slot, start: self.prompt.len() + n - 1, tokens: &self.tokens[n - 1..] },
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
            if self.sot_at > 0 && loops(&self.tokens) {
                return self.forget_context();
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

    /// Starts the attempt anew without the text before it. A model that repeats itself behind a text repeats that text,
    /// warmer attempts with it: a prompt of one word a hundred times would cost six attempts to the last token, and the
    /// answer would be the prompt's word.
    fn forget_context(&mut self) {
        self.prompt.drain(..self.sot_at);
        self.sot_at = 0;
        self.begins = true;
        self.without_context = true;
        self.tokens.clear();
        self.sum_logprob = 0.0;
        self.rng = SplitMix::new(self.seed.wrapping_add(self.attempt as u64));
    }

    /// Judges a finished attempt; true when another one is to be made from the logits after the prompt. Where all fail, the
    /// best of them stands: the likeliest, but repetition only if there is nothing else.
    fn end_attempt(&mut self, t: &Tokens) -> bool {
        let avg_logprob = self.sum_logprob / (self.tokens.len() + 1) as f64;
        let compression_ratio = compression_ratio(t.decode(&self.tokens).trim());
        let repeats = repeats(&self.tokens, compression_ratio, avg_logprob, self.no_speech_prob, t);
        let outcome = Outcome {
            tokens: std::mem::take(&mut self.tokens),
            temperature: self.temperatures[self.attempt],
            avg_logprob,
            compression_ratio,
            no_speech_prob: self.no_speech_prob,
            fallbacks: self.attempt,
            decoded_tokens: self.decoded_tokens,
            without_context: self.without_context,
        };
        let guess = avg_logprob < MIN_LOGPROB;
        let silence = guess && self.no_speech_prob > MAX_NO_SPEECH;
        if silence || !(guess || repeats) {
            self.outcome = Some(outcome);
            return false;
        }
        if repeats && self.sot_at > 0 {
            self.forget_context();
            return false;
        }
        let worth = (!repeats, avg_logprob);
        if self.best_failed.as_ref().is_none_or(|(looped, best)| worth > (!looped, best.avg_logprob)) {
            self.best_failed = Some((repeats, outcome));
        }
        if self.attempt + 1 == self.temperatures.len() {
            self.outcome = self.best_failed.take().map(|(_, best)| Outcome {
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

/// Decodes all lanes to their end. Lanes that end leave the batch; lanes that fall back stay in it.
pub fn run<B: Backend>(
    model: &Whisper<B>,
    t: &Tokens,
    kv: &mut B::Kv,
    cross: &Cross<B>,
    mut lanes: Vec<Lane>,
) -> Result<Vec<Outcome>, ModelError> {
    let ctx = model.dims.text_ctx;
    loop {
        let live: Vec<usize> = (0..lanes.len()).filter(|&i| lanes[i].outcome.is_none()).collect();
        if live.is_empty() {
            break;
        }
        let rows: Vec<Rows<'_>> = live.iter().map(|&i| lanes[i].rows()).collect();
        let hidden = model.decode(&rows, kv, cross)?;
        let mut wanted = Vec::with_capacity(2 * live.len());
        let mut first_row = 0;
        for (&i, rows) in live.iter().zip(&rows) {
            wanted.extend(lanes[i].begins.then_some(first_row + lanes[i].sot_at));
            first_row += rows.tokens.len();
            wanted.push(first_row - 1);
        }
        let logits = model.logits(&hidden, &wanted)?;
        let mut logits = logits.chunks_exact(t.vocab);
        let mut next = || logits.next().ok_or_else(|| ModelError::Other("a row has no logits".to_string()));
        for &i in &live {
            let lane = &mut lanes[i];
            if std::mem::take(&mut lane.begins) {
                lane.no_speech_prob = rules::probability(next()?, t.no_speech);
                lane.first = next()?.to_vec();
                lane.accept(lane.first.clone(), t, ctx);
            } else {
                lane.accept(next()?.to_vec(), t, ctx);
            }
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

#[cfg(test)]
mod tests {
    use super::super::repetition::LOOP_TOKENS;
    use super::super::tokens::tests::toy;
    use super::*;

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

    fn sure(t: &Tokens, id: u32) -> Vec<f32> {
        let mut l = vec![-50.0; t.vocab];
        l[id as usize] = 50.0;
        l
    }

    #[test]
    fn a_loop_behind_a_text_is_left_at_once_and_the_text_with_it() {
        let t = toy();
        let mut l = Lane::new(0, &[3, 3, 3], &[t.sot], 0.0, 0, &t, 400);
        l.begins = false;
        l.accept(sure(&t, 29), &t, 400);
        let mut looped = 0;
        while !l.begins {
            l.accept(sure(&t, 5), &t, 400);
            looped += 1;
            assert!(looped <= LOOP_TOKENS + 1, "it is noticed while it is short");
        }
        assert_eq!((l.rows().start, l.rows().tokens, l.attempt), (0, &[t.sot][..], 0), "from the start, no warmer");
        l.begins = false;
        for id in [29, 0, 1, 35, t.eot] {
            l.accept(sure(&t, id), &t, 400);
        }
        let o = l.outcome.unwrap();
        assert_eq!((o.tokens, o.fallbacks, o.without_context), (vec![29, 0, 1, 35], 0, true));
        assert_eq!(o.decoded_tokens, looped + 6);
    }

    #[test]
    fn a_loop_without_a_text_before_it_is_heard_out() {
        let t = toy();
        let mut l = Lane::new(0, &[], &[t.sot], 0.4, 0, &t, 400);
        l.begins = false;
        l.first = sure(&t, 5);
        l.accept(sure(&t, 29), &t, 400);
        while l.outcome.is_none() {
            l.accept(sure(&t, 5), &t, 400);
            assert!(!l.begins);
        }
        assert_eq!(l.outcome.unwrap().tokens.len(), 200, "who sings may say one thing for half a minute");
    }

    #[test]
    fn a_confident_text_ends_at_the_end_token() {
        let t = toy();
        let mut l = Lane::new(0, &[], &[t.sot], 0.0, 0, &t, 20);
        l.first = sure(&t, 29);
        l.accept(l.first.clone(), &t, 20);
        for id in [0, 1, 35, t.eot] {
            l.accept(sure(&t, id), &t, 20);
        }
        let o = l.outcome.unwrap();
        assert_eq!((o.tokens, o.fallbacks), (vec![29, 0, 1, 35], 0));
        assert!(o.avg_logprob > -1e-3);
    }
}
