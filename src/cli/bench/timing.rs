//! Measuring on a machine that is not ours alone: best of several rounds, CPU time beside wall time, and a meter that
//! tells how much of the time the machine took away.

use serde::Serialize;
use std::time::{Duration, Instant};

/// A measured rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    pub model: String,
    pub measure: String,
    /// What a second brings: `audio-s`, `tokens`, `texts`.
    pub unit: &'static str,
    /// Work per second in the best round.
    pub best: f64,
    /// Work per second in the middle round.
    pub p50: f64,
    /// Work per second of CPU time, all threads together, in the round that took least of it.
    pub per_cpu_s: Option<f64>,
    /// Wall time of the best round.
    pub best_ms: f64,
    pub rounds: usize,
}

/// Runs `round` once to warm up and `rounds` times to measure; each does `work` units.
pub fn measure<E>(
    model: &str,
    measure: &str,
    unit: &'static str,
    work: f64,
    rounds: usize,
    mut round: impl FnMut() -> Result<(), E>,
) -> Result<Figure, E> {
    round()?;
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let (began, cpu_began) = (Instant::now(), cpu_time());
        round()?;
        wall.push(began.elapsed().as_secs_f64());
        cpu.extend(cpu_began.zip(cpu_time()).map(|(a, b)| b.saturating_sub(a).as_secs_f64()));
    }
    wall.sort_by(f64::total_cmp);
    cpu.sort_by(f64::total_cmp);
    let rate = |seconds: f64| work / seconds.max(1e-9);
    Ok(Figure {
        model: model.to_string(),
        measure: measure.to_string(),
        unit,
        best: rate(wall[0]),
        p50: rate(wall[wall.len() / 2]),
        per_cpu_s: cpu.first().filter(|s| **s > 0.0).map(|s| rate(*s)),
        best_ms: wall[0] * 1e3,
        rounds: wall.len(),
    })
}

/// CPU time of all threads of this process, to the nanosecond (the kernel's scheduler statistics).
pub fn cpu_time() -> Option<Duration> {
    let mut total = 0u64;
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread may end between the listing and the reading.
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        total += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(total))
}

/// Watches the clock between measurements: a gap in a loop that does nothing else is time that the machine took.
#[derive(Debug, Default)]
pub struct PauseMeter {
    lost: Duration,
    watched: Duration,
}

impl PauseMeter {
    /// Gaps shorter than this are the loop's own.
    const GAP: Duration = Duration::from_micros(100);
    /// How long one look takes.
    const LOOK: Duration = Duration::from_millis(50);

    /// Looks once.
    pub fn look(&mut self) {
        let began = Instant::now();
        let mut last = began;
        while last.duration_since(began) < Self::LOOK {
            let now = Instant::now();
            let gap = now.duration_since(last);
            if gap > Self::GAP {
                self.lost += gap;
            }
            last = now;
        }
        self.watched += last.duration_since(began);
    }

    /// Share of the watched time that was taken away.
    pub fn lost_ratio(&self) -> f64 {
        if self.watched.is_zero() { 0.0 } else { self.lost.as_secs_f64() / self.watched.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_best_of_its_rounds() {
        let mut calls = 0;
        let figure = measure::<()>("m", "spin", "units", 10.0, 3, || {
            calls += 1;
            let until = Instant::now() + Duration::from_millis(5);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            Ok(())
        });
        let figure = figure.unwrap();
        assert_eq!((calls, figure.rounds), (4, 3));
        assert!(figure.best <= 2_000.0 && figure.best >= figure.p50, "{figure:?}");
        assert!(figure.best_ms >= 5.0);
    }

    #[test]
    fn a_failing_round_ends_the_measurement() {
        assert_eq!(measure("m", "x", "u", 1.0, 3, || Err("broke")).unwrap_err(), "broke");
    }

    #[test]
    fn the_meter_reads_a_share() {
        let mut meter = PauseMeter::default();
        assert_eq!(meter.lost_ratio(), 0.0);
        meter.look();
        assert!((0.0..=1.0).contains(&meter.lost_ratio()));
    }
}
