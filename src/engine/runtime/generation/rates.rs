//! Tokens per second over the last seconds.

use crate::engine::scheduler::Micros;
use std::collections::VecDeque;

/// How far back rates look.
const WINDOW: Micros = Micros(5_000_000);
/// Iterations that are kept at most; beyond it the window is shorter.
const KEPT: usize = 1_024;

/// One iteration's work.
#[derive(Debug, Clone, Copy)]
struct Sample {
    ended: Micros,
    took: Micros,
    decoded: usize,
    prefilled: usize,
}

/// The last iterations.
#[derive(Debug, Default)]
pub(super) struct Rates {
    samples: VecDeque<Sample>,
}

impl Rates {
    pub(super) fn note(&mut self, ended: Micros, took: Micros, decoded: usize, prefilled: usize) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { ended, took, decoded, prefilled });
        while self.samples.front().is_some_and(|s| ended - s.ended > WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Forget: nothing runs any more.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    /// Decode rows per second of the iterations that had any.
    pub(super) fn decode(&self) -> Option<f64> {
        self.rate(|s| s.decoded)
    }

    /// Prompt tokens per second of the iterations that had any.
    pub(super) fn prefill(&self) -> Option<f64> {
        self.rate(|s| s.prefilled)
    }

    fn rate(&self, count: impl Fn(&Sample) -> usize) -> Option<f64> {
        let with = self.samples.iter().filter(|s| count(s) > 0);
        let (tokens, time) = with.fold((0, 0.0), |(n, t), s| (n + count(s), t + s.took.as_secs()));
        (time > 0.0).then(|| tokens as f64 / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_window_and_absent_without_work() {
        let mut rates = Rates::default();
        assert_eq!((rates.decode(), rates.prefill()), (None, None));
        rates.note(Micros(100_000), Micros(100_000), 4, 0);
        rates.note(Micros(300_000), Micros(200_000), 0, 50);
        assert_eq!((rates.decode(), rates.prefill()), (Some(40.0), Some(250.0)));
        rates.note(Micros(9_000_000), Micros(500_000), 1, 0);
        assert_eq!((rates.decode(), rates.prefill()), (Some(2.0), None));
        rates.clear();
        assert_eq!(rates.decode(), None);
    }
}
