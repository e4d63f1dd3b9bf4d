//! A service model fitted to measured batches.

use super::service::{Line, Work};
use crate::control::{Lane, Op};
use crate::engine::scheduler::fit::{self, Candidate};
use serde::Serialize;

/// A batch that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub items: usize,
    /// Windows of speech; `None` for text, and where they were not counted.
    pub windows: Option<u64>,
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
    /// Milliseconds per window of speech.
    pub window_ms: f64,
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
    ///
    /// Where windows were counted they stand in the place of items: a window is encoded whole, an item costs nothing
    /// beside its windows. Where every slice had one window what is fixed is its window's or its batch's, and the figures
    /// cannot say whose: then it is the window's. An overhead must explain as much as two numbers to be one, and where
    /// every batch had one item it is the item's: a plan of other batches is not to be cheap because nobody tried them.
    pub fn of(op: Op, lane: Lane, batches: &[Measured]) -> Option<Fit> {
        let n = batches.len() as f64;
        let by_window = batches.iter().all(|b| b.windows.is_some());
        let windows = |b: &Measured| b.windows.and_then(|n| usize::try_from(n).ok());
        let weighed = |b: &Measured| {
            let items = windows(b).filter(|_| by_window).unwrap_or(b.items);
            fit::Measured { items, cost: b.cost, took_us: b.run_us, weight: 1.0 }
        };
        let weighed: Vec<fit::Measured> = batches.iter().map(weighed).collect();
        let numbers = |c: &Candidate| c.parts + usize::from(by_window && c.line[0] > 0.0);
        // A perfect fit has no logarithm: a tenth of a microsecond is perfect.
        let score = |c: &Candidate| n * (c.squares / n).max(0.01).ln() + 2.0 * numbers(c) as f64;
        let enough = |c: &Candidate| c.parts == 1 || batches.len() >= c.parts * BATCHES_PER_NUMBER;
        let best = fit::candidates(&weighed, 0.0).filter(enough).min_by(|a, b| score(a).total_cmp(&score(b)))?;
        let [fixed, by_number, per_cost] = best.line;
        let line = match by_window {
            false => Line { overhead: fixed, per_item: by_number, per_window: 0.0, per_cost },
            true if batches.iter().all(|b| b.items == 1) => {
                Line { overhead: 0.0, per_item: fixed, per_window: by_number, per_cost }
            }
            true => Line { overhead: fixed, per_item: 0.0, per_window: by_number, per_cost },
        };
        Some(Fit {
            op,
            lane,
            batches: batches.len(),
            overhead_ms: line.overhead / 1_000.0,
            item_ms: line.per_item / 1_000.0,
            window_ms: line.per_window / 1_000.0,
            cost_ms: line.per_cost / 1_000.0,
            median_error: median_error(&line, batches),
            line,
        })
    }
}

fn time(line: &Line, batch: &Measured) -> f64 {
    line.of_work(Work { items: batch.items, windows: batch.windows.unwrap_or(0), cost: batch.cost })
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
            let batch = Measured { items, windows: None, cost, run_us: 0.0 };
            Measured { run_us: time(&line, &batch), ..batch }
        };
        of.into_iter().map(measured).collect()
    }

    fn one(items: usize, windows: Option<u64>, cost: u64, run_us: f64) -> Measured {
        Measured { items, windows, cost, run_us }
    }

    /// A law by windows and cost, with an error that is nobody's: it goes up and down by a twentieth.
    fn slices(windows: impl Fn(u64) -> u64) -> Vec<Measured> {
        let of = |n: u64| {
            let (windows, noise) = (windows(n), 1.0 + ((n * 7 % 11) as f64 - 5.0) / 100.0);
            let cost = if n.is_multiple_of(4) { 3_000 + 2_000 * (n % 13) } else { 30_000 * windows };
            let windows = cost.div_ceil(30_000);
            one(1, Some(windows), cost, noise * (500_000.0 * windows as f64 + 20.0 * cost as f64))
        };
        (1..=60).map(of).collect()
    }

    fn fitted(batches: &[Measured]) -> Fit {
        Fit::of(Op::Transcribe, Lane::Clips, batches).expect("there are batches")
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn a_line_is_found_again() {
        let line = Line { overhead: 60_000.0, per_item: 1_500.0, per_window: 0.0, per_cost: 10.0 };
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
        let line = Line { per_item: 200_000.0, ..Line::default() };
        let shapes = (0..12).map(|n| (1 + n % 5, 3_000 + 977 * (n as u64 % 7)));
        let fit = fitted(&batches(line, shapes));
        near(fit.line.per_item, 200_000.0);
        assert_eq!((fit.line.overhead, fit.line.per_cost), (0.0, 0.0));
    }

    #[test]
    fn batches_that_are_all_alike_still_give_a_model() {
        let alike = vec![Measured { items: 1, windows: None, cost: 1_000, run_us: 5_000.0 }; 20];
        let fit = fitted(&alike);
        near(time(&fit.line, &alike[0]), 5_000.0);
        assert_eq!(Fit::of(Op::Embed, Lane::Clips, &[]), None);
    }

    #[test]
    fn what_is_fixed_is_the_windows_where_slices_of_one_cannot_say() {
        let two = Work { items: 1, windows: 2, cost: 60_000 };
        let from_one = fitted(&slices(|_| 1));
        assert_eq!((from_one.overhead_ms, from_one.item_ms), (0.0, 0.0), "{from_one:?}");
        let from_two = fitted(&slices(|_| 2));
        for (fit, of) in [(&from_one, two), (&from_two, Work { windows: 1, cost: 30_000, ..two })] {
            let truth = 500_000.0 * of.windows as f64 + 20.0 * of.cost as f64;
            let off = fit.line.of_work(of) / truth - 1.0;
            assert!(off.abs() < 0.04, "{off}: {fit:?}");
        }
    }

    #[test]
    fn an_overhead_that_batches_of_several_show_is_one() {
        // Windows that are decoded side by side share the steps of the decoder.
        let of = |n: u64| {
            let items = 1 + n % 6;
            let cost = items * (4_000 + 700 * (n % 5));
            one(items as usize, Some(items), cost, 300_000.0 + 90_000.0 * items as f64 + 5.0 * cost as f64)
        };
        let fit = fitted(&(1..40).map(of).collect::<Vec<_>>());
        near(fit.line.overhead, 300_000.0);
        near(fit.line.per_window, 90_000.0);
        // Alone in its batch it is the item's own: four in a batch are not promised to be cheaper.
        let alone = |n: u64| {
            let windows = 1 + u64::from(n.is_multiple_of(9));
            one(1, Some(windows), 500 * n, 300_000.0 + 90_000.0 * windows as f64 + 2_500.0 * n as f64)
        };
        let fit = fitted(&(1..40).map(alone).collect::<Vec<_>>());
        near(fit.line.per_item, 300_000.0);
        assert_eq!(fit.line.overhead, 0.0);
    }

    #[test]
    fn no_number_is_negative() {
        // Longer batches took less time: no line through them has a positive slope.
        let odd: Vec<Measured> = (1..10).map(|n| one(1, None, n * 1_000, 1e6 - n as f64 * 1e4)).collect();
        let fit = fitted(&odd);
        assert!(fit.line.per_cost >= 0.0 && fit.line.overhead > 0.0 && fit.line.per_item >= 0.0, "{fit:?}");
    }
}
