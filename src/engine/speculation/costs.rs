//! What a forward pass costs, learned from the passes that were run.
//!
//! c(rows, sequences): medians per number of rows, kept apart by how many sequences decode together, since that decides
//! how much of the cache is read. A median is not moved by a machine that pauses now and then. Between and beyond the
//! row counts that were seen, a line through the medians is used.

use crate::engine::scheduler::Micros;

/// Passes kept per number of rows.
const KEPT: usize = 15;
/// Passes without which a median is not believed.
const LEAST: usize = 3;
/// Row counts that are told apart: each up to 16, then wider.
const BINS: usize = 32;
/// Groups of sequence counts: 1, 2–3, 4–7, 8 and more.
const GROUPS: usize = 4;

/// Passes with about the same number of rows.
#[derive(Debug, Clone, Copy)]
struct Bin {
    took: [u64; KEPT],
    rows: [u32; KEPT],
    seen: u64,
    /// When it was last added to, in passes.
    touched: u64,
    median: f64,
    mean_rows: f64,
}

impl Bin {
    const EMPTY: Bin = Bin { took: [0; KEPT], rows: [0; KEPT], seen: 0, touched: 0, median: 0.0, mean_rows: 0.0 };

    fn len(&self) -> usize {
        (self.seen as usize).min(KEPT)
    }

    fn known(&self) -> bool {
        self.len() >= LEAST
    }

    fn note(&mut self, rows: usize, took: Micros, pass: u64) {
        let at = self.seen as usize % KEPT;
        self.took[at] = took.0;
        self.rows[at] = u32::try_from(rows).unwrap_or(u32::MAX);
        self.seen += 1;
        self.touched = pass;
        let n = self.len();
        let mut sorted = self.took;
        let sorted = &mut sorted[..n];
        sorted.sort_unstable();
        self.median = if n % 2 == 1 { sorted[n / 2] as f64 } else { (sorted[n / 2 - 1] + sorted[n / 2]) as f64 / 2.0 };
        self.mean_rows = self.rows[..n].iter().map(|r| f64::from(*r)).sum::<f64>() / n as f64;
    }
}

/// A straight line of cost over rows, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    base: f64,
    per_row: f64,
}

impl Line {
    /// The line with the middle one of the slopes between any two medians (Theil and Sen), each weighing as much as the
    /// passes behind it. `None` below two row counts, or while all but one of them rest on too few passes together. A
    /// cost never falls with rows.
    fn through(bins: &[Bin]) -> Option<Line> {
        let seen: Vec<&Bin> = bins.iter().filter(|b| b.len() > 0).collect();
        let passes: usize = seen.iter().map(|b| b.len()).sum();
        let most = seen.iter().map(|b| b.len()).max()?;
        if seen.len() < 2 || passes - most < LEAST || most < LEAST {
            return None;
        }
        let mut slopes = Vec::with_capacity(seen.len() * (seen.len() - 1) / 2);
        for (i, a) in seen.iter().enumerate() {
            for b in &seen[i + 1..] {
                let rows = b.mean_rows - a.mean_rows;
                if rows > 0.0 {
                    slopes.push(((b.median - a.median) / rows, a.len().min(b.len()) as f64));
                }
            }
        }
        let per_row = weighted_median(&mut slopes)?.max(0.0);
        let mut bases: Vec<_> = seen.iter().map(|b| (b.median - per_row * b.mean_rows, b.len() as f64)).collect();
        Some(Line { base: weighted_median(&mut bases)?.max(0.0), per_row })
    }

    fn at(&self, rows: usize) -> f64 {
        self.base + self.per_row * rows as f64
    }
}

/// The lowest value at which half of the weight is reached.
fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|v| v.1).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    values
        .iter()
        .find(|v| {
            sum += v.1;
            sum >= half
        })
        .map(|v| v.0)
}

/// The learned costs of one model's passes.
#[derive(Debug, Clone)]
pub struct StepCosts {
    groups: Box<[[Bin; BINS]; GROUPS]>,
    lines: [Option<Line>; GROUPS],
    passes: u64,
}

impl Default for StepCosts {
    fn default() -> Self {
        StepCosts { groups: Box::new([[Bin::EMPTY; BINS]; GROUPS]), lines: [None; GROUPS], passes: 0 }
    }
}

fn bin_of(rows: usize) -> usize {
    match rows {
        0..=16 => rows.saturating_sub(1),
        17..=48 => 16 + (rows - 17) / 4,
        _ => (24 + (rows - 49) / 16).min(BINS - 1),
    }
}

fn group_of(sequences: usize) -> usize {
    match sequences {
        0..=1 => 0,
        2..=3 => 1,
        4..=7 => 2,
        _ => 3,
    }
}

impl StepCosts {
    /// Takes in a pass of `rows` rows over `sequences` decoding sequences. Passes with prompt rows do not belong here.
    pub fn note(&mut self, rows: usize, sequences: usize, took: Micros) {
        if rows == 0 {
            return;
        }
        self.passes += 1;
        let group = group_of(sequences);
        self.groups[group][bin_of(rows)].note(rows, took, self.passes);
        self.lines[group] = Line::through(&self.groups[group]);
    }

    /// Microseconds of such a pass; `None` until enough was seen to say.
    pub fn estimate(&self, rows: usize, sequences: usize) -> Option<f64> {
        if let Some(median) = self.typical(rows, sequences) {
            return Some(median);
        }
        let group = group_of(sequences);
        // A group without a line of its own takes that of the nearest one.
        let nearest = (0..GROUPS).min_by_key(|g| (self.lines[*g].is_none(), g.abs_diff(group)))?;
        self.lines[nearest].map(|line| line.at(rows)).filter(|us| *us > 0.0)
    }

    /// The median of such passes, if enough of them were run.
    pub fn typical(&self, rows: usize, sequences: usize) -> Option<f64> {
        let bin = &self.groups[group_of(sequences)][bin_of(rows)];
        (bin.known() && (bin.mean_rows - rows as f64).abs() < 0.5).then_some(bin.median)
    }

    /// Whether such a pass was run often enough to be believed, not longer than `fresh` passes ago.
    pub fn measured(&self, rows: usize, sequences: usize, fresh: u64) -> bool {
        let bin = &self.groups[group_of(sequences)][bin_of(rows)];
        bin.known() && self.passes - bin.touched <= fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn learned(of: impl Fn(usize) -> u64, rows: &[usize]) -> StepCosts {
        let mut costs = StepCosts::default();
        for _ in 0..5 {
            for &r in rows {
                costs.note(r, 1, Micros(of(r)));
            }
        }
        costs
    }

    #[test]
    fn nothing_is_known_before_it_was_measured() {
        let mut costs = StepCosts::default();
        assert_eq!(costs.estimate(1, 1), None);
        costs.note(1, 1, Micros(100));
        costs.note(1, 1, Micros(100));
        assert_eq!(costs.estimate(1, 1), None);
        costs.note(1, 1, Micros(100));
        assert_eq!(costs.estimate(1, 1), Some(100.0));
        // One row count makes no line.
        assert_eq!(costs.estimate(4, 1), None);
    }

    #[test]
    fn a_line_fills_the_gaps_and_medians_stand_where_they_are() {
        let costs = learned(|r| 1_000 + 200 * r as u64, &[1, 5]);
        assert_eq!(costs.estimate(1, 1), Some(1_200.0));
        assert!((costs.estimate(3, 1).expect("between") - 1_600.0).abs() < 1.0);
        assert!((costs.estimate(8, 1).expect("beyond") - 2_600.0).abs() < 1.0);
        // Another group has nothing of its own yet.
        assert!((costs.estimate(8, 6).expect("from the nearest") - 2_600.0).abs() < 1.0);
    }

    #[test]
    fn one_paused_pass_does_not_tilt_the_line() {
        let mut costs = learned(|r| 1_000 + 200 * r as u64, &[1]);
        costs.note(3, 1, Micros(1_600));
        costs.note(3, 1, Micros(1_600));
        assert_eq!(costs.estimate(3, 1), None, "two passes are not enough");
        costs.note(4, 1, Micros(400_000));
        assert!((costs.estimate(5, 1).expect("a line") - 2_000.0).abs() < 1.0);
    }

    #[test]
    fn pauses_do_not_move_a_median() {
        let mut costs = StepCosts::default();
        for i in 0..15 {
            costs.note(1, 1, Micros(if i % 3 == 2 { 900_000 } else { 1_000 }));
        }
        assert_eq!(costs.estimate(1, 1), Some(1_000.0));
    }

    #[test]
    fn what_was_learned_long_ago_makes_place() {
        let mut costs = learned(|_| 1_000, &[1]);
        for _ in 0..KEPT {
            costs.note(1, 1, Micros(3_000));
        }
        assert_eq!(costs.estimate(1, 1), Some(3_000.0));
        for _ in 0..10 {
            costs.note(5, 1, Micros(4_000));
        }
        assert!(costs.measured(1, 1, 10) && !costs.measured(1, 1, 9));
        assert!(!costs.measured(2, 1, 1_000));
    }

    proptest! {
        /// Estimates of unseen row counts never fall with rows and are never negative.
        #[test]
        fn the_line_never_falls(seen in prop::collection::vec((1usize..40, 1u64..100_000), 0..200)) {
            let mut costs = StepCosts::default();
            for (rows, took) in seen {
                costs.note(rows, 1, Micros(took));
            }
            let mut last = 0.0;
            for rows in 200..230 {
                if let Some(us) = costs.estimate(rows, 1) {
                    prop_assert!(us.is_finite() && us >= last);
                    last = us;
                }
            }
        }
    }
}
