//! Figures from samples, and the table.

use super::measure::Sample;
use crate::cli::print::text::{figure, known};
use crate::cli::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::speculation::{GateVerdict, SpeculationChoice, SpeculationTally};
use serde::Serialize;
use std::io::{self, Write};

/// What the run found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub model: String,
    pub threads: usize,
    pub kernels: &'static str,
    pub rounds: usize,
    pub lost_ratio: f64,
    pub disturbed: bool,
    pub prefill: Rates,
    pub sets: Vec<SetFigures>,
}

/// Tokens per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rates {
    /// Tokens of one round.
    pub tokens: u64,
    /// In the best round.
    pub best: f64,
    /// In the middle round.
    pub p50: f64,
    /// Per second of CPU time, in the round that took least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_cpu_s: Option<f64>,
}

/// One prompt set at one width.
#[derive(Debug, Serialize)]
pub struct SetFigures {
    pub set: String,
    pub about: String,
    /// Tokens of an answer at most.
    pub max_tokens: usize,
    /// Answers that run together.
    pub sequences: usize,
    /// In the order measured: the first is plain decoding.
    pub runs: Vec<RunFigures>,
}

/// One way to decode.
#[derive(Debug, Serialize)]
pub struct RunFigures {
    pub speculation: SpeculationChoice,
    #[serde(flatten)]
    pub rates: Rates,
    /// CPU time of plain decoding over this one's, best round of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The same, round by round; the middle one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_p50: Option<f64>,
    /// The same, round by round: the geometric mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_mean: Option<f64>,
    /// Standard error of `ratio_mean`, as a part of it; needs two rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_error: Option<f64>,
    /// Of the last round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<Draft>,
    /// Answers that are not plain decoding's, over all rounds. Anything but 0 is a fault of the engine.
    pub differing: u64,
}

/// What speculation did.
#[derive(Debug, Serialize)]
pub struct Draft {
    pub proposed: u64,
    pub accepted: u64,
    pub windows: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_mean: Option<f64>,
    /// The gate when the last answer ended.
    pub gate: GateVerdict,
}

impl Rates {
    /// `samples` has one for each round, at least one.
    pub fn of(samples: &[Sample]) -> Rates {
        let mut walls: Vec<f64> = samples.iter().map(Sample::rate).collect();
        walls.sort_by(|a, b| b.total_cmp(a));
        Rates {
            tokens: samples.last().map_or(0, |s| s.tokens),
            best: walls.first().copied().unwrap_or(0.0),
            p50: walls.get(walls.len() / 2).copied().unwrap_or(0.0),
            per_cpu_s: samples.iter().filter_map(Sample::cpu_rate).max_by(f64::total_cmp),
        }
    }
}

impl RunFigures {
    /// `samples` and `plain` have one for each round.
    pub fn of(speculation: SpeculationChoice, samples: &[Sample], plain: &[Sample]) -> RunFigures {
        let rates = Rates::of(samples);
        let pair = |(a, b): (&Sample, &Sample)| Some(a.cpu_rate()? / b.cpu_rate()?);
        let mut pairs: Vec<f64> = samples.iter().zip(plain).filter_map(pair).collect();
        pairs.sort_by(f64::total_cmp);
        let mean = geometric_mean(&pairs);
        let differs = |(a, b): (&Sample, &Sample)| a.answers.iter().zip(&b.answers).filter(|(a, b)| a != b).count();
        RunFigures {
            speculation,
            ratio: rates.per_cpu_s.zip(Rates::of(plain).per_cpu_s).map(|(a, b)| a / b),
            ratio_p50: pairs.get(pairs.len() / 2).copied(),
            ratio_mean: mean.map(|(mean, _)| mean),
            ratio_error: mean.and_then(|(_, error)| error),
            draft: samples.last().and_then(Draft::of),
            differing: samples.iter().zip(plain).map(differs).sum::<usize>() as u64,
            rates,
        }
    }
}

/// The geometric mean, and its standard error as a part of it. Of ratios: one of a half and one of two make one.
fn geometric_mean(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| v.ln()).sum::<f64>() / n;
    let spread = values.iter().map(|v| (v.ln() - mean).powi(2)).sum::<f64>();
    let error = (values.len() > 1).then(|| (spread / (n - 1.0) / n).sqrt());
    (!values.is_empty()).then(|| (mean.exp(), error))
}

impl Draft {
    fn of(sample: &Sample) -> Option<Draft> {
        let gate = sample.speculation.last()?.gate;
        let mut tally = SpeculationTally::default();
        sample.speculation.iter().for_each(|report| tally.add(&report.tally));
        Some(Draft {
            proposed: tally.draft_n,
            accepted: tally.draft_n_accepted,
            windows: tally.windows,
            accept_ratio: tally.accept_ratio(),
            width_mean: tally.width_mean(),
            gate,
        })
    }
}

impl Report {
    /// Answers that came out differently with speculation.
    pub fn differing(&self) -> u64 {
        self.sets.iter().flat_map(|set| &set.runs).map(|run| run.differing).sum()
    }

    pub fn write(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let mut table = Table::new([
            Column::left("SET"),
            Column::right("AT ONCE"),
            Column::left("SPECULATION"),
            Column::right("TOKENS/S"),
            Column::right("P50"),
            Column::right("PER CPU-S"),
            Column::right("RATIO"),
            Column::right("P50"),
            Column::right("MEAN"),
            Column::right("ACCEPTED"),
            Column::right("WIDTH").wide(),
            Column::left("GATE"),
        ]);
        let two = |v: f64| format!("{v:.2}");
        for set in &self.sets {
            for run in &set.runs {
                let draft = run.draft.as_ref();
                table.row([
                    Cell::new(&set.set),
                    set.sequences.into(),
                    run.speculation.name().into(),
                    figure(run.rates.best).into(),
                    figure(run.rates.p50).into(),
                    Cell::new(known(run.rates.per_cpu_s, figure)).tone(Tone::Strong),
                    known(run.ratio, two).into(),
                    known(run.ratio_p50, two).into(),
                    known(run.ratio_mean, |mean| with_error(mean, run.ratio_error)).into(),
                    known(draft.and_then(|d| d.accept_ratio), |v| format!("{:.0}%", v * 100.0)).into(),
                    known(draft.and_then(|d| d.width_mean), |v| format!("{v:.1}")).into(),
                    known(draft, |d| format!("{} ({})", d.gate.state(), d.gate.because.name())).into(),
                ]);
            }
        }
        table.write(out, style)?;
        let p = &self.prefill;
        writeln!(
            out,
            "\nprefill of {} tokens: {} tokens/s, {} per CPU second",
            p.tokens,
            figure(p.best),
            known(p.per_cpu_s, figure)
        )?;
        let lost = format!("{:.1}% of the watched time was taken away", self.lost_ratio * 100.0);
        let mut most: Vec<String> = self.sets.iter().map(|s| format!("{} {}", s.set, s.max_tokens)).collect();
        most.dedup();
        let rounds = self.rounds;
        writeln!(out, "tokens of an answer at most: {}", most.join(", "))?;
        writeln!(out, "{}: {rounds} rounds; {} threads, {} kernels; {lost}", self.model, self.threads, self.kernels)?;
        writeln!(out, "ratios are by CPU time, against plain decoding in the same run")?;
        if self.differing() > 0 {
            let text = format!("{} answers came out differently with speculation", self.differing());
            writeln!(out, "{}", Tone::Warn.paint(&text, style.colour))?;
        }
        Ok(())
    }
}

/// `0.98±0.01`
fn with_error(mean: f64, error: Option<f64>) -> String {
    error.map_or_else(|| format!("{mean:.2}"), |part| format!("{mean:.2}±{:.2}", part * mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(tokens: u64, wall_ms: u64, cpu_ms: Option<u64>, answers: Vec<Vec<u32>>) -> Sample {
        Sample {
            tokens,
            wall: Duration::from_millis(wall_ms),
            cpu: cpu_ms.map(Duration::from_millis),
            speculation: Vec::new(),
            answers,
        }
    }

    #[test]
    fn ratios_are_of_best_rounds_and_of_rounds_in_pairs() {
        let plain = [100, 200, 100].map(|cpu| sample(10, 300, Some(cpu), vec![vec![1, 2]]));
        let fast = [80, 50, 100].map(|cpu| sample(10, 100, Some(cpu), vec![vec![1, 2]]));
        let run = RunFigures::of(SpeculationChoice::Auto, &fast, &plain);
        assert_eq!(run.rates.per_cpu_s, Some(200.0));
        assert_eq!(run.ratio, Some(2.0));
        assert_eq!(run.ratio_p50, Some(1.25));
        // Of 1.25, 4 and 1.
        assert!(run.ratio_mean.is_some_and(|mean| (mean - 5f64.cbrt()).abs() < 1e-9), "{run:?}");
        assert!(run.ratio_error.is_some_and(|part| (part - 0.4298).abs() < 1e-3), "{run:?}");
        assert_eq!(run.differing, 0);
    }

    #[test]
    fn an_answer_that_differs_is_counted() {
        let plain = [sample(2, 1, None, vec![vec![1], vec![2]])];
        let other = [sample(2, 1, None, vec![vec![1], vec![3]])];
        let run = RunFigures::of(SpeculationChoice::Force, &other, &plain);
        assert_eq!((run.differing, run.ratio, run.rates.per_cpu_s), (1, None, None));
        assert_eq!((run.ratio_mean, run.ratio_error), (None, None));
    }
}
