//! Lines through measured batches: `base + items × item + cost × rate`, none of the three parts below zero (a batch never
//! gets quicker by growing).
//!
//! Two ask for them: the engine, batch by batch ([`ServiceFit`](super::ServiceFit)), and the simulator, over a recording.
//! Which of the lines is the right one is their own question: the one forgets, the other has all its batches at once.

/// The three parts of a line: by the call, by the item, by the unit of cost.
pub const PARTS: usize = 3;

/// A measured batch: what it is fitted by, what it took, and what it counts beside the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub items: usize,
    pub cost: u64,
    pub took_us: f64,
    pub weight: f64,
}

/// A line with the least squared error of those that use the same parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Microseconds by the call, by the item, by the unit of cost; what is not used is 0.
    pub line: [f64; PARTS],
    /// How many parts were free to be fitted.
    pub parts: usize,
    /// Weighted sum of the squared errors, in µs².
    pub squares: f64,
}

impl Measured {
    /// Each part is measured in mean batches, so that none is favoured by its unit, and none's digits are lost.
    fn row(&self, scale: &[f64; PARTS]) -> [f64; PARTS] {
        [1.0, self.items as f64 / scale[1], self.cost as f64 / scale[2]]
    }
}

/// The best line of every set of parts, those of few parts among the first; sets whose parts cannot be told apart, or of
/// which one would be negative, have none.
///
/// `ridge` is a slight pull to zero, by weight: with it parts that the measurements cannot tell apart share evenly.
pub fn candidates(batches: &[Measured], ridge: f64) -> impl Iterator<Item = Candidate> + '_ {
    let n = batches.len().max(1) as f64;
    let mean = |of: fn(&Measured) -> f64| (batches.iter().map(of).sum::<f64>() / n).max(1.0);
    let scale = [1.0, mean(|b| b.items as f64), mean(|b| b.cost as f64)];
    (1u8..1 << PARTS).filter_map(move |set| {
        let used: Vec<usize> = (0..PARTS).filter(|part| set & (1 << part) != 0).collect();
        let parts = solve(normal_equations(batches, &used, &scale, ridge), used.len())?;
        let mut scaled = [0.0; PARTS];
        used.iter().zip(parts).for_each(|(&part, value)| scaled[part] = value);
        if scaled.iter().any(|part| !part.is_finite() || *part < 0.0) {
            return None;
        }
        let error = |b: &Measured| {
            let row = b.row(&scale);
            b.weight * (b.took_us - row.iter().zip(&scaled).map(|(x, part)| x * part).sum::<f64>()).powi(2)
        };
        let squares = batches.iter().map(error).sum();
        let line = [0, 1, 2].map(|part| scaled[part] / scale[part]);
        Some(Candidate { line, parts: used.len(), squares })
    })
}

type Matrix = [[f64; PARTS + 1]; PARTS];

fn normal_equations(batches: &[Measured], used: &[usize], scale: &[f64; PARTS], ridge: f64) -> Matrix {
    let mut matrix: Matrix = Default::default();
    let mut total = 0.0;
    for batch in batches {
        let row = batch.row(scale);
        for (i, &a) in used.iter().enumerate() {
            for (j, &b) in used.iter().enumerate() {
                matrix[i][j] += batch.weight * row[a] * row[b];
            }
            matrix[i][PARTS] += batch.weight * row[a] * batch.took_us;
        }
        total += batch.weight;
    }
    (0..used.len()).for_each(|i| matrix[i][i] += ridge * total);
    matrix
}

/// Gauss and Jordan with pivoting, over the first `n` unknowns; `None` when the rows depend on each other.
fn solve(mut m: Matrix, n: usize) -> Option<[f64; PARTS]> {
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs()))?;
        m.swap(i, pivot);
        let above = m[i];
        if above[i].abs() < 1e-9 * above.iter().take(n).fold(1.0, |most: f64, x| most.max(x.abs())) {
            return None;
        }
        for (j, row) in m.iter_mut().enumerate().take(n) {
            if j != i {
                let factor = row[i] / above[i];
                row.iter_mut().zip(above).for_each(|(value, above)| *value -= factor * above);
            }
        }
    }
    let mut parts = [0.0; PARTS];
    (0..n).for_each(|i| parts[i] = m[i][PARTS] / m[i][i]);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(line: [f64; PARTS], shapes: &[(usize, u64)]) -> Vec<Measured> {
        let one = |&(items, cost): &(usize, u64)| {
            let took_us = line[0] + line[1] * items as f64 + line[2] * cost as f64;
            Measured { items, cost, took_us, weight: 1.0 }
        };
        shapes.iter().map(one).collect()
    }

    #[test]
    fn every_set_of_parts_has_its_best_line() {
        let batches = measured([60_000.0, 1_500.0, 10.0], &[(1, 5_000), (2, 9_000), (12, 90_000), (3, 60_000)]);
        let all: Vec<Candidate> = candidates(&batches, 0.0).collect();
        assert_eq!(all.iter().filter(|c| c.parts == 1).count(), 3);
        let exact = all.iter().find(|c| c.parts == 3).expect("four batches tell three parts apart");
        for (got, wanted) in exact.line.iter().zip([60_000.0, 1_500.0, 10.0]) {
            assert!((got - wanted).abs() < 1e-6 * wanted, "{exact:?}");
        }
        assert!(exact.squares < 1e-6 && all.iter().all(|c| c.squares >= exact.squares));
        let mean = all[0];
        assert_eq!((mean.line[1], mean.line[2], mean.parts), (0.0, 0.0, 1));
        let took: f64 = batches.iter().map(|b| b.took_us).sum();
        assert!((mean.line[0] - took / 4.0).abs() < 1e-6, "by the call alone it is the mean");
    }

    #[test]
    fn what_cannot_be_told_apart_has_no_line_without_a_pull_and_shares_evenly_with_one() {
        let alike = measured([900.0, 0.0, 0.0], &[(1, 1_000); 5]);
        assert!(candidates(&alike, 0.0).all(|c| c.parts == 1));
        let shared = candidates(&alike, 1e-4).find(|c| c.parts == 3).expect("the pull tells them apart");
        assert!((shared.line[0] - 300.0).abs() < 1.0 && (shared.line[2] - 0.3).abs() < 1e-3, "{shared:?}");
    }

    #[test]
    fn a_batch_counts_by_its_weight() {
        let mut batches = measured([100.0, 0.0, 0.0], &[(1, 1), (1, 1)]);
        batches[1].took_us = 400.0;
        batches[1].weight = 2.0;
        let mean = candidates(&batches, 0.0).next().expect("by the call alone");
        assert!((mean.line[0] - 300.0).abs() < 1e-9 && (mean.squares - 60_000.0).abs() < 1e-6, "{mean:?}");
        assert_eq!(candidates(&[], 0.0).next(), None);
    }

    proptest! {
        /// Nothing near a candidate, with the same parts, has a smaller error.
        #[test]
        fn no_line_nearby_is_better(
            batches in prop::collection::vec((1usize..13, 1u64..300_000, 1.0f64..1e7), 4..30),
            part in 0usize..PARTS,
            by in prop::sample::select(vec![-0.01, 0.01]),
        ) {
            let batches: Vec<Measured> = batches
                .into_iter()
                .map(|(items, cost, took_us)| Measured { items, cost, took_us, weight: 1.0 })
                .collect();
            for candidate in candidates(&batches, 0.0) {
                let mut line = candidate.line;
                line[part] *= 1.0 + by;
                let error = |b: &Measured| {
                    (b.took_us - line[0] - line[1] * b.items as f64 - line[2] * b.cost as f64).powi(2)
                };
                let squares: f64 = batches.iter().map(error).sum();
                prop_assert!(squares >= candidate.squares * (1.0 - 1e-9), "{} {:?}", squares, candidate);
            }
        }
    }
}
