//! What became of the load's requests. Pure.

use super::Kind;
use crate::cli::demo::quantile;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Answers that the figures of the moment are of.
const RECENT: usize = 200;
/// Different errors that are told.
const ERRORS: usize = 5;

/// An answered request, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    pub latency_ms: f64,
    /// What it waited for its turn, as the engine says.
    pub queue_ms: Option<f64>,
    /// Until the first piece of a streamed answer.
    pub first_ms: Option<f64>,
}

/// The requests of one kind so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub sent: u64,
    /// Requests whose moment came while too many were open.
    pub unsent: u64,
    pub failed: u64,
    answers: Vec<Answer>,
    recent: VecDeque<f64>,
    errors: Vec<String>,
}

impl Tally {
    pub fn answered(&mut self, answer: Answer) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(answer.latency_ms);
        self.answers.push(answer);
    }

    pub fn failed(&mut self, error: String) {
        self.failed += 1;
        if self.errors.len() < ERRORS && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    pub fn answers(&self) -> u64 {
        self.answers.len() as u64
    }

    pub fn open(&self) -> u64 {
        self.sent - self.failed - self.answers()
    }

    /// Quantiles of the last answers.
    pub fn recent(&self) -> Option<Quantiles> {
        Quantiles::of(self.recent.iter().copied())
    }

    pub fn figures(&self, kind: Kind, pace: String, seconds: f64) -> KindFigures {
        KindFigures {
            kind,
            pace,
            sent: self.sent,
            answered: self.answers(),
            failed: self.failed,
            unsent: self.unsent,
            open: self.open(),
            answers_per_s: self.answers() as f64 / seconds.max(1e-9),
            latency_ms: Quantiles::of(self.answers.iter().map(|a| a.latency_ms)),
            queue_ms: Quantiles::of(self.answers.iter().filter_map(|a| a.queue_ms)),
            first_ms: Quantiles::of(self.answers.iter().filter_map(|a| a.first_ms)),
            errors: self.errors.clone(),
        }
    }
}

/// Quantiles of times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Quantiles {
    fn of(values: impl Iterator<Item = f64>) -> Option<Quantiles> {
        let mut values: Vec<f64> = values.collect();
        let mut at = |q| quantile(&mut values, q);
        Some(Quantiles { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, max: at(1.0)? })
    }
}

/// What one kind of request saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindFigures {
    pub kind: Kind,
    pub pace: String,
    pub sent: u64,
    pub answered: u64,
    pub failed: u64,
    /// Not sent, because too many of the kind were open.
    pub unsent: u64,
    /// Not answered when the load ended.
    pub open: u64,
    pub answers_per_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Quantiles>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<Quantiles>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<Quantiles>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// A whole run, as it is exported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub schema: String,
    pub engine: String,
    pub version: String,
    pub seconds: f64,
    pub seed: u64,
    pub kinds: Vec<KindFigures>,
}

/// The name of the export's form.
pub const SCHEMA: &str = "lanekeeper.bench-mixed/1";

impl Run {
    pub fn failures(&self) -> u64 {
        self.kinds.iter().map(|k| k.failed).sum()
    }

    pub fn kind(&self, kind: Kind) -> Option<&KindFigures> {
        self.kinds.iter().find(|k| k.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(latency_ms: f64) -> Answer {
        Answer { latency_ms, queue_ms: Some(latency_ms / 2.0), first_ms: None }
    }

    #[test]
    fn what_is_open_is_what_was_neither_answered_nor_failed() {
        let mut tally = Tally { sent: 5, ..Tally::default() };
        tally.answered(answer(10.0));
        tally.failed("full".into());
        tally.failed("full".into());
        assert_eq!((tally.open(), tally.failed), (2, 2));
        let figures = tally.figures(Kind::Clips, "5/s".into(), 2.0);
        assert_eq!(
            (figures.open, figures.answers_per_s, figures.errors.as_slice()),
            (2, 0.5, &["full".to_string()][..])
        );
        assert_eq!(figures.queue_ms.map(|q| q.max), Some(5.0));
        assert_eq!(figures.first_ms, None);
    }

    #[test]
    fn figures_of_the_moment_forget_and_those_of_the_run_do_not() {
        let mut tally = Tally::default();
        (0..RECENT).for_each(|_| tally.answered(answer(1000.0)));
        (0..RECENT).for_each(|_| tally.answered(answer(1.0)));
        assert_eq!(tally.recent().unwrap().max, 1.0);
        assert_eq!(tally.figures(Kind::Chats, String::new(), 1.0).latency_ms.unwrap().max, 1000.0);
    }

    #[test]
    fn an_export_is_read_back() {
        let figures = Tally::default().figures(Kind::Recordings, "1 client".into(), 1.0);
        let run = Run {
            schema: SCHEMA.into(),
            engine: "e".into(),
            version: "1".into(),
            seconds: 1.0,
            seed: 3,
            kinds: vec![figures],
        };
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
    }
}
