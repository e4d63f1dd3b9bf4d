//! Which token may come next, and which one does: OpenAI's decoding rules, on plain logits.

use super::tokens::{TIMESTAMP_S, Tokens};

/// Latest start of the first segment of a window, in timestamp steps (1 s).
const MAX_INITIAL_TIMESTAMP: u32 = (1.0 / TIMESTAMP_S) as u32;
/// Logits this far below the largest add less than 1e-4 to a sum over the whole vocabulary.
const NEGLIGIBLE: f32 = 20.0;

/// A chosen token with its log-probability under the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub token: u32,
    pub logprob: f32,
}

/// Sets to −∞ what may not follow `sampled` (the tokens after the prompt).
pub fn restrict(logits: &mut [f32], sampled: &[u32], t: &Tokens) {
    const NEVER: f32 = f32::NEG_INFINITY;
    let begin = t.timestamps as usize;
    let forbid = |logits: &mut [f32], range: std::ops::Range<usize>| {
        let end = range.end.min(logits.len());
        if range.start < end {
            logits[range.start..end].fill(NEVER);
        }
    };
    for &id in &t.suppress {
        logits[id as usize] = NEVER;
    }
    if sampled.is_empty() {
        for &id in &t.suppress_first {
            logits[id as usize] = NEVER;
        }
    }
    // Times come in pairs (end of one segment, start of the next), except at the very start and before the end.
    let last = sampled.last().is_some_and(|&x| t.is_timestamp(x));
    let before = sampled.len() < 2 || t.is_timestamp(sampled[sampled.len() - 2]);
    if last && before {
        forbid(logits, begin..usize::MAX);
    } else if last {
        forbid(logits, 0..t.eot as usize);
    }
    // They never fall, and no segment is empty.
    if let Some(&latest) = sampled.iter().rev().find(|&&x| t.is_timestamp(x)) {
        let floor = if last && !before { latest } else { latest + 1 };
        forbid(logits, begin..floor as usize);
    }
    if sampled.is_empty() {
        forbid(logits, 0..begin);
        forbid(logits, begin + MAX_INITIAL_TIMESTAMP as usize + 1..usize::MAX);
    }
    // When some time is likelier than every text token, a time it is.
    let (text, times) = logits.split_at(begin);
    let best_text = text.iter().copied().fold(NEVER, f32::max);
    if log_sum_exp(times) > best_text {
        forbid(logits, 0..begin);
    }
}

/// ln Σ exp(x).
pub fn log_sum_exp(x: &[f32]) -> f32 {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        return max;
    }
    let sum: f32 = x.iter().map(|&v| v - max).filter(|&d| d > -NEGLIGIBLE).map(f32::exp).sum();
    max + sum.ln()
}

/// The likeliest token; the lowest id of equals.
pub fn greedy(logits: &[f32]) -> Choice {
    let mut best = 0;
    for (i, &v) in logits.iter().enumerate() {
        if v > logits[best] {
            best = i;
        }
    }
    Choice { token: best as u32, logprob: logits[best] - log_sum_exp(logits) }
}

/// A token drawn at `temperature`; its log-probability is the one at temperature 1, as the checks want it.
pub fn sample(logits: &[f32], temperature: f32, rng: &mut SplitMix) -> Choice {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |v: f32| f64::from((v - max) / temperature).exp();
    let total: f64 = logits.iter().map(|&v| weight(v)).sum();
    let mut left = rng.unit() * total;
    let mut token = None;
    for (i, &v) in logits.iter().enumerate() {
        let w = weight(v);
        if w > 0.0 {
            token = Some(i);
            left -= w;
            if left <= 0.0 {
                break;
            }
        }
    }
    match token {
        Some(i) => Choice { token: i as u32, logprob: logits[i] - log_sum_exp(logits) },
        None => greedy(logits),
    }
}

/// exp(logit) / Σ exp over the unrestricted logits.
pub fn probability(logits: &[f32], token: u32) -> f64 {
    logits.get(token as usize).map_or(0.0, |&l| f64::from(l - log_sum_exp(logits)).exp())
}

/// A small seeded generator (SplitMix64): the same seed draws the same tokens on every machine.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    pub fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::whisper::tokens::tests::toy;
    use proptest::prelude::*;

    fn allowed(logits: &[f32]) -> Vec<u32> {
        (0..logits.len() as u32).filter(|&i| logits[i as usize] > f32::NEG_INFINITY).collect()
    }

    fn after(sampled: &[u32]) -> Vec<u32> {
        let t = toy();
        // Text is made likely, so that the sum rule does not force a time.
        let mut logits: Vec<f32> = (0..t.vocab as u32).map(|i| if i < t.timestamps { 10.0 } else { 0.0 }).collect();
        restrict(&mut logits, sampled, &t);
        allowed(&logits)
    }

    #[test]
    fn a_window_starts_with_a_time_of_at_most_a_second() {
        let t = toy();
        let first = after(&[]);
        assert!(first.iter().all(|&id| t.is_timestamp(id) && id <= t.timestamps + 50), "{first:?}");
        assert!(first.contains(&t.timestamps));
    }

    #[test]
    fn times_pair_up_and_never_fall() {
        let t = toy();
        // After a start time: text only.
        assert!(after(&[29]).iter().all(|&id| !t.is_timestamp(id)));
        // After text: text, or a later time, or the end; never a suppressed token.
        let mid = after(&[33, 0]);
        assert!(mid.contains(&1) && mid.contains(&21) && mid.contains(&34) && !mid.contains(&33) && !mid.contains(&3));
        // After a closing time: the same or a later time, or the end; no text.
        let closed = after(&[29, 0, 35]);
        assert!(closed.iter().all(|&id| id >= 35 || id == t.eot), "{closed:?}");
        assert!(closed.contains(&35) && closed.contains(&t.eot));
    }

    #[test]
    fn a_time_is_taken_when_times_together_outweigh_every_word() {
        let t = toy();
        let mut logits = vec![0.0; t.vocab];
        logits[0] = 2.0; // e^2 = 7.4 against the 25 times that are still allowed
        restrict(&mut logits, &[33, 0], &t);
        assert!(allowed(&logits).iter().all(|&id| t.is_timestamp(id)));
        let mut logits = vec![0.0; t.vocab];
        logits[0] = 4.0;
        restrict(&mut logits, &[33, 0], &t);
        assert!(allowed(&logits).contains(&0));
    }

    #[test]
    fn choices_carry_true_log_probabilities() {
        let logits = [1.0, 3.0, 2.0, f32::NEG_INFINITY];
        let total: f32 = logits.iter().map(|l: &f32| l.exp()).sum();
        let c = greedy(&logits);
        assert_eq!(c.token, 1);
        assert!((c.logprob - (3f32.exp() / total).ln()).abs() < 1e-6);
        assert!((probability(&logits, 2) - f64::from(2f32.exp() / total)).abs() < 1e-6);
        assert_eq!(log_sum_exp(&[f32::NEG_INFINITY; 3]), f32::NEG_INFINITY);
    }

    #[test]
    fn sampling_follows_the_weights_and_the_seed() {
        let logits = [0.0f32, 1.0, f32::NEG_INFINITY, 2.0];
        let mut rng = SplitMix::new(5);
        let mut counts = [0u32; 4];
        for _ in 0..20_000 {
            counts[sample(&logits, 1.0, &mut rng).token as usize] += 1;
        }
        let total: f32 = logits.iter().map(|l| l.exp()).sum();
        for (c, l) in counts.iter().zip(logits) {
            assert!((*c as f32 / 20_000.0 - l.exp() / total).abs() < 0.02, "{counts:?}");
        }
        let draw = |seed| {
            let mut rng = SplitMix::new(seed);
            (0..20).map(|_| sample(&logits, 0.8, &mut rng).token).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    proptest! {
        /// Whatever was sampled before, something may follow.
        #[test]
        fn something_is_always_allowed(sampled in proptest::collection::vec(0u32..58, 0..30)) {
            let t = toy();
            let mut logits = vec![0.5; t.vocab];
            restrict(&mut logits, &sampled, &t);
            prop_assert!(!allowed(&logits).is_empty());
        }
    }
}
