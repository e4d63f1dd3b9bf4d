//! A service model fitted to measured batches.

use super::service::Line;
use crate::control::{Lane, Op};
use crate::engine::scheduler::fit::{self, Candidate};
use serde::Serialize;

/// A batch that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub items: usize,
    pub cost: u64,
    pub run_us: f64,
}

/// A line through measured batches, and how well it fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    pub op: Op,
    pub lane: Lane,
    pub batches: usize,
    pub overhead_ms: f64,
    pub item_ms: f64,
    /// Milliseconds per unit of cost.
    pub cost_ms: f64,
    /// Median over the batches of |fitted − measured| ÷ measured, 0..
    pub median_error: f64,
    #[serde(skip)]
    pub line: Line,
}

/// Fewer batches than this per number that is fitted say too little about it.
const BATCHES_PER_NUMBER: usize = 3;

impl Fit {
    /// The line with the least squared error. Which of overhead, time per item and time per cost are in it is chosen by
    /// Akaike's criterion (a number that explains nothing is left out), and none is ever negative: a load unlike the
    /// measured one must not run backwards. `None` without batches.
    pub fn of(op: Op, lane: Lane, batches: &[Measured]) -> Option<Fit> {
        let n = batches.len() as f64;
        let weighed = |b: &Measured| fit::Measured { items: b.items, cost: b.cost, took_us: b.run_us, weight: 1.0 };
        let weighed: Vec<fit::Measured> = batches.iter().map(weighed).collect();
        // A perfect fit has no logarithm: a tenth of a microsecond is perfect.
        let score = |c: &Candidate| n * (c.squares / n).max(0.01).ln() + 2.0 * c.parts as f64;
        let enough = |c: &Candidate| c.parts == 1 || batches.len() >= c.parts * BATCHES_PER_NUMBER;
        let best = fit::candidates(&weighed, 0.0).filter(enough).min_by(|a, b| score(a).total_cmp(&score(b)))?;
        let [overhead, per_item, per_cost] = best.line;
        let line = Line { overhead, per_item, per_cost };
        Some(Fit {
            op,
            lane,
            batches: batches.len(),
            overhead_ms: line.overhead / 1_000.0,
            item_ms: line.per_item / 1_000.0,
            cost_ms: line.per_cost / 1_000.0,
            median_error: median_error(&line, batches),
            line,
        })
    }
}

fn time(line: &Line, batch: &Measured) -> f64 {
    line.overhead + line.per_item * batch.items as f64 + line.per_cost * batch.cost as f64
}

fn median_error(line: &Line, batches: &[Measured]) -> f64 {
    let error = |b: &Measured| (time(line, b) - b.run_us).abs() / b.run_us.max(1.0);
    let mut errors: Vec<f64> = batches.iter().map(error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(line: Line, of: impl IntoIterator<Item = (usize, u64)>) -> Vec<Measured> {
        let measured = |(items, cost)| {
            let batch = Measured { items, cost, run_us: 0.0 };
            Measured { run_us: time(&line, &batch), ..batch }
        };
        of.into_iter().map(measured).collect()
    }

    fn fitted(batches: &[Measured]) -> Fit {
        Fit::of(Op::Transcribe, Lane::Clips, batches).expect("there are batches")
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn a_line_is_found_again() {
        let line = Line { overhead: 60_000.0, per_item: 1_500.0, per_cost: 10.0 };
        let shapes = [(1, 5_000), (2, 9_000), (12, 90_000), (3, 60_000), (7, 70_000), (1, 30_000), (5, 12_000)];
        let fit = fitted(&batches(line, shapes.into_iter().chain([(4, 44_000), (9, 31_000)])));
        near(fit.line.overhead, line.overhead);
        near(fit.line.per_item, line.per_item);
        near(fit.line.per_cost, line.per_cost);
        assert!(fit.median_error < 1e-9);
    }

    #[test]
    fn what_explains_nothing_is_left_out() {
        // Each item costs a whole window, whatever is in it.
        let line = Line { overhead: 0.0, per_item: 200_000.0, per_cost: 0.0 };
        let shapes = (0..12).map(|n| (1 + n % 5, 3_000 + 977 * (n as u64 % 7)));
        let fit = fitted(&batches(line, shapes));
        near(fit.line.per_item, 200_000.0);
        assert_eq!((fit.line.overhead, fit.line.per_cost), (0.0, 0.0));
    }

    #[test]
    fn batches_that_are_all_alike_still_give_a_model() {
        let alike = vec![Measured { items: 1, cost: 1_000, run_us: 5_000.0 }; 20];
        let fit = fitted(&alike);
        near(time(&fit.line, &alike[0]), 5_000.0);
        assert_eq!(Fit::of(Op::Embed, Lane::Clips, &[]), None);
    }

    #[test]
    fn no_number_is_negative() {
        // Longer batches took less time: no line through them has a positive slope.
        let odd: Vec<Measured> =
            (1..10).map(|n| Measured { items: 1, cost: n * 1_000, run_us: 1e6 - n as f64 * 1e4 }).collect();
        let fit = fitted(&odd);
        assert!(fit.line.per_cost >= 0.0 && fit.line.overhead > 0.0 && fit.line.per_item >= 0.0, "{fit:?}");
    }
}
