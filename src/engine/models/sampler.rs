//! Choosing the next token.
//!
//! The choice at a position depends on the logits there, on the committed tokens, and on `seed` and the absolute
//! position: never on how rows were batched or on how many draws came before. So batching and speculation leave
//! sampled text unchanged.
//!
//! Order: biases → penalties → temperature → top-k → top-p → min-p → draw. Greedy (`temperature` 0) is the largest logit after
//! penalties, the lowest id among equals.

use std::collections::HashMap;

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 = greedy.
    pub temperature: f32,
    /// Smallest set of tokens whose probabilities reach this sum; 1 = off.
    pub top_p: f32,
    /// Most likely tokens kept; 0 = off.
    pub top_k: usize,
    /// Least probability kept, as a part of the largest; 0 = off.
    pub min_p: f32,
    /// Taken from the logit of every token that the answer already has.
    pub presence_penalty: f32,
    /// Taken from a logit once per occurrence in the answer.
    pub frequency_penalty: f32,
    /// Divides positive and multiplies negative logits of tokens in prompt or answer; 1 = off.
    pub repetition_penalty: f32,
    /// Added to the logits of these tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Same seed, same prompt, same settings → same tokens.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl Sampling {
    /// Always the likeliest token.
    pub fn greedy() -> Self {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }

    /// Whether what was said counts against saying it again.
    pub fn penalises(&self) -> bool {
        self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 || self.repetition_penalty != 1.0
    }
}

/// The logits hold no number that a choice could rest on (all are NaN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model gave no usable logits (all of {0} are NaN)")]
pub struct NoChoice(pub usize);

/// Occurrences of a token.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    in_prompt: bool,
    in_answer: u32,
}

/// The sampling state of one sequence.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: Sampling,
    /// Kept only when a penalty needs it.
    seen: HashMap<u32, Seen>,
    /// Reused between choices.
    candidates: Vec<(u32, f32)>,
}

impl Sampler {
    /// A sampler for an answer to `prompt`.
    pub fn new(settings: Sampling, prompt: &[u32]) -> Self {
        let mut seen: HashMap<u32, Seen> = HashMap::new();
        if settings.repetition_penalty != 1.0 {
            for &id in prompt {
                seen.entry(id).or_default().in_prompt = true;
            }
        }
        Sampler { settings, seen, candidates: Vec::new() }
    }

    /// A sampler with the same settings, before the first token of an answer to `prompt`.
    pub fn again(&self, prompt: &[u32]) -> Self {
        Sampler::new(self.settings.clone(), prompt)
    }

    /// Notes a token of the answer once it is committed.
    pub fn commit(&mut self, id: u32) {
        if self.settings.penalises() {
            self.seen.entry(id).or_default().in_answer += 1;
        }
    }

    /// The token for absolute position `position`. `logits` are changed by biases and penalties.
    pub fn choose(&mut self, logits: &mut [f32], position: usize) -> Result<u32, NoChoice> {
        for &(id, bias) in &self.settings.logit_bias {
            if let Some(l) = logits.get_mut(id as usize) {
                *l += bias;
            }
        }
        self.penalise(logits);
        let best = argmax(logits).ok_or(NoChoice(logits.len()))?;
        if self.settings.temperature <= 0.0 {
            return Ok(best);
        }
        let top = logits[best as usize];
        if !top.is_finite() {
            return Ok(best);
        }
        self.gather(logits, top);
        self.cut();
        let total: f64 = self.candidates.iter().map(|c| f64::from(c.1)).sum();
        let mut left = uniform(self.settings.seed, position as u64) * total;
        for &(id, weight) in &self.candidates {
            left -= f64::from(weight);
            if left < 0.0 {
                return Ok(id);
            }
        }
        Ok(self.candidates.last().map_or(best, |c| c.0))
    }

    fn penalise(&self, logits: &mut [f32]) {
        let s = &self.settings;
        for (&id, seen) in &self.seen {
            let Some(l) = logits.get_mut(id as usize) else { continue };
            if seen.in_answer > 0 || seen.in_prompt {
                *l = if *l > 0.0 { *l / s.repetition_penalty } else { *l * s.repetition_penalty };
            }
            if seen.in_answer > 0 {
                *l -= s.presence_penalty + s.frequency_penalty * seen.in_answer as f32;
            }
        }
    }

    /// Fills the candidates with weights relative to the best token, dropping what no cut could keep.
    fn gather(&mut self, logits: &[f32], top: f32) {
        let s = &self.settings;
        // Below this weight a token is beyond min-p, or is so rare that f32 sums would lose it.
        let floor = s.min_p.clamp(0.0, 1.0).max(1e-9);
        self.candidates.clear();
        let cut = top + s.temperature * floor.ln();
        self.candidates.extend(
            logits
                .iter()
                .enumerate()
                .filter(|(_, l)| **l >= cut)
                .map(|(id, &l)| (id as u32, ((l - top) / s.temperature).exp())),
        );
    }

    /// Applies top-k and top-p.
    fn cut(&mut self) {
        let s = &self.settings;
        let likelier = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if s.top_k > 0 && s.top_k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(s.top_k - 1, likelier);
            self.candidates.truncate(s.top_k);
            // Back to a fixed order, so that the draw does not depend on how the selection moved things.
            self.candidates.sort_unstable_by_key(|c| c.0);
        }
        if s.top_p < 1.0 {
            let total: f64 = self.candidates.iter().map(|c| f64::from(c.1)).sum();
            self.candidates.sort_unstable_by(likelier);
            let wanted = f64::from(s.top_p.max(0.0)) * total;
            let mut sum = 0.0;
            let keep = self.candidates.iter().take_while(|c| {
                let go = sum < wanted;
                sum += f64::from(c.1);
                go
            });
            let keep = keep.count().max(1);
            self.candidates.truncate(keep);
        }
    }
}

/// Index of the largest value, the first among equals; NaN is skipped; `None` when nothing is left.
pub fn argmax(values: &[f32]) -> Option<u32> {
    // Several maxima side by side: one alone is a chain of comparisons that no vector unit can help with.
    const LANES: usize = 16;
    let larger = |best: f32, v: f32| if v > best { v } else { best };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (best, v) in lanes.iter_mut().zip(chunk) {
            *best = larger(*best, *v);
        }
    }
    let best = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |best, v| larger(best, *v));
    values.iter().position(|v| *v == best).map(|i| i as u32)
}

/// A number in `0..1` that depends on the seed and the position alone (SplitMix64, two rounds).
fn uniform(seed: u64, position: u64) -> f64 {
    let mixed = mix(mix(seed) ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Natural logarithm of the sum of exponentials: `logits[i] - this` is token `i`'s log-probability.
pub fn log_sum_exp(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().filter(|l| !l.is_nan()).fold(f32::NEG_INFINITY, f32::max);
    if !top.is_finite() {
        return f64::from(top);
    }
    let sum: f64 = logits.iter().filter(|l| !l.is_nan()).map(|&l| f64::from(l - top).exp()).sum();
    f64::from(top) + sum.ln()
}

/// The model's own log-probability of `id` (before penalties and temperature), and of its `n` likeliest tokens.
pub fn log_probabilities(logits: &[f32], id: u32, n: usize) -> (f32, Vec<(u32, f32)>) {
    let norm = log_sum_exp(logits);
    let of = |l: f32| (f64::from(l) - norm) as f32;
    let own = logits.get(id as usize).map_or(f32::NEG_INFINITY, |&l| of(l));
    let mut top: Vec<(u32, f32)> = Vec::with_capacity(n + 1);
    for (i, &l) in logits.iter().enumerate() {
        if n == 0 || l.is_nan() || (top.len() == n && l <= top[n - 1].1) {
            continue;
        }
        let at = top.partition_point(|t| t.1 >= l);
        top.insert(at, (i as u32, l));
        top.truncate(n);
    }
    (own, top.into_iter().map(|(i, l)| (i, of(l))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn choose(settings: Sampling, logits: &[f32], position: usize) -> u32 {
        Sampler::new(settings, &[]).choose(&mut logits.to_vec(), position).expect("a choice")
    }

    #[test]
    fn greedy_takes_the_first_of_equals_and_skips_nan() {
        assert_eq!(choose(Sampling::greedy(), &[f32::NAN, 1.0, 3.0, 3.0], 0), 2);
        let mut s = Sampler::new(Sampling::greedy(), &[]);
        assert_eq!(s.choose(&mut [f32::NAN; 3], 0), Err(NoChoice(3)));
        assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY]), Some(1));
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0f32, 2f32.ln(), 5f32.ln()];
        let mut counts = [0usize; 3];
        for position in 0..20_000 {
            counts[choose(Sampling { seed: 7, ..Sampling::default() }, &logits, position) as usize] += 1;
        }
        for (count, expected) in counts.iter().zip([0.125, 0.25, 0.625]) {
            let got = *count as f64 / 20_000.0;
            assert!((got - expected).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn cuts_keep_what_they_say() {
        let logits = [0.0f32, 1.0, 2.0, 3.0];
        let drawn = |settings: Sampling| {
            let mut ids: Vec<u32> = (0..3000).map(|p| choose(settings.clone(), &logits, p)).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(drawn(Sampling { top_k: 2, ..Sampling::default() }), [2, 3]);
        // Probabilities are 0.032, 0.087, 0.237, 0.644.
        assert_eq!(drawn(Sampling { top_p: 0.6, ..Sampling::default() }), [3]);
        assert_eq!(drawn(Sampling { top_p: 0.7, ..Sampling::default() }), [2, 3]);
        assert_eq!(drawn(Sampling { min_p: 0.2, ..Sampling::default() }), [2, 3]);
        assert_eq!(drawn(Sampling { top_p: 0.0, ..Sampling::default() }), [3]);
        assert_eq!(drawn(Sampling::default()), [0, 1, 2, 3]);
    }

    #[test]
    fn penalties_count_the_answer_and_repetition_the_prompt_too() {
        let mut s =
            Sampler::new(Sampling { presence_penalty: 0.5, frequency_penalty: 1.0, ..Sampling::greedy() }, &[0]);
        assert_eq!(s.choose(&mut [2.0, 1.0], 0), Ok(0));
        s.commit(0);
        assert_eq!(s.choose(&mut [2.0, 1.0], 1), Ok(1));
        let mut s = Sampler::new(Sampling { repetition_penalty: 3.0, ..Sampling::greedy() }, &[0]);
        assert_eq!(s.choose(&mut [2.0, 1.0], 0), Ok(1));
        assert_eq!(s.choose(&mut [-2.0, -4.0], 0), Ok(1));
    }

    #[test]
    fn biases_move_the_choice_and_strangers_are_ignored() {
        let biased =
            |logit_bias: Vec<(u32, f32)>| choose(Sampling { logit_bias, ..Sampling::greedy() }, &[1.0, 2.0], 0);
        assert_eq!(biased(vec![(0, 1.5), (9, 5.0)]), 0);
        assert_eq!(biased(vec![(1, -100.0)]), 0);
        assert_eq!(biased(vec![(0, 0.5)]), 1);
    }

    #[test]
    fn log_probabilities_are_sorted_and_normalised() {
        let (own, top) = log_probabilities(&[0.0, 2f32.ln(), 5f32.ln()], 1, 2);
        assert!((own - 0.25f32.ln()).abs() < 1e-6);
        assert_eq!(top.iter().map(|t| t.0).collect::<Vec<_>>(), [2, 1]);
        assert!((top[0].1 - 0.625f32.ln()).abs() < 1e-6);
        assert!(log_probabilities(&[1.0, 2.0], 0, 0).1.is_empty());
    }

    proptest! {
        /// As the plain loop has it, wherever the largest stands.
        #[test]
        fn argmax_is_the_first_of_the_largest(values in prop::collection::vec(-3i8..3, 0..70)) {
            let values: Vec<f32> = values.into_iter().map(f32::from).collect();
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert_eq!(argmax(&values), values.iter().position(|v| *v == largest).map(|i| i as u32));
        }

        /// The same seed and position give the same token whatever was drawn before, and never one that is cut away.
        #[test]
        fn draws_depend_on_seed_and_position_alone(
            logits in prop::collection::vec(-8f32..8.0, 2..60),
            seed: u64,
            position in 0usize..5000,
            top_k in 0usize..8,
            top_p in 0.05f32..1.0,
        ) {
            let settings = Sampling { seed, top_k, top_p, temperature: 0.8, ..Sampling::default() };
            let mut used = Sampler::new(settings.clone(), &[]);
            for p in 0..5 {
                used.choose(&mut logits.clone(), p).expect("a choice");
            }
            let id = used.choose(&mut logits.clone(), position).expect("a choice");
            prop_assert_eq!(id, choose(settings, &logits, position));
            if top_k > 0 {
                let larger = logits.iter().filter(|l| **l > logits[id as usize]).count();
                prop_assert!(larger < top_k);
            }
        }
    }
}
