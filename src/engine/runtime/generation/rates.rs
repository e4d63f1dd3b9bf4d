//! Tokens per second over the last seconds.

use super::draft::StepCost;
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
    cost: StepCost,
}

/// The last iterations.
#[derive(Debug, Default)]
pub(super) struct Rates {
    samples: VecDeque<Sample>,
}

impl Rates {
    /// A pass ended now.
    pub(super) fn passed(&mut self, ended: Micros, cost: StepCost) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { ended, cost });
        while self.samples.front().is_some_and(|s| ended - s.ended > WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Forget: nothing runs any more.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    /// Answer tokens per second of the iterations that had any.
    pub(super) fn decode(&self) -> Option<f64> {
        self.rate(|s| s.cost.committed)
    }

    /// Prompt tokens per second of the iterations that had any.
    pub(super) fn prefill(&self) -> Option<f64> {
        self.rate(|s| s.cost.prefill_rows)
    }

    fn rate(&self, count: impl Fn(&Sample) -> usize) -> Option<f64> {
        let with = self.samples.iter().filter(|s| count(s) > 0);
        let (tokens, time) = with.fold((0, 0.0), |(n, t), s| (n + count(s), t + s.cost.took.as_secs()));
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
        let pass = |took, committed, prefill_rows| StepCost {
            decode_rows: 2,
            draft_rows: 4,
            prefill_rows,
            committed,
            took: Micros(took),
        };
        rates.passed(Micros(100_000), pass(100_000, 4, 0));
        rates.passed(Micros(300_000), pass(200_000, 0, 50));
        assert_eq!((rates.decode(), rates.prefill()), (Some(40.0), Some(250.0)));
        rates.passed(Micros(9_000_000), pass(500_000, 1, 0));
        assert_eq!((rates.decode(), rates.prefill()), (Some(2.0), None));
        rates.clear();
        assert_eq!(rates.decode(), None);
    }
}
