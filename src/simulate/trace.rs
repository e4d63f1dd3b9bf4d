//! Recorded arrivals, as the simulator replays them.

use super::fit::{Fit, Measured};
use super::heard::Ear;
use super::report::Waits;
use super::scenario::{Recorded, Scenario, Source};
use super::service::Service;
use crate::control::arrivals::{Arrival, Arrivals, BatchRun, RecordedQueue};
use crate::control::snapshot::Outcome;
use crate::control::{Lane, Op};
use crate::engine::scheduler::Micros;
use std::collections::BTreeMap;

/// Why a document cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("the document is `{found}`; this build reads `{known}`")]
    Schema { found: String, known: &'static str },
    #[error("nothing that is batched was recorded for {whom}")]
    Empty { whom: String },
    #[error("arrivals of several models were recorded: {}", .models.join(", "))]
    SeveralModels { models: Vec<String> },
    #[error("no batch was recorded: there is nothing to fit a service model to")]
    NoBatches,
}

/// The recorded arrivals of one model, with an engine that is as fast as the recorded one.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    pub model: String,
    pub span: Micros,
    /// In the order of their arrival.
    pub arrivals: Vec<Recorded>,
    /// The engine of the replay: what was fitted to the recorded batches, or [another](Trace::set_engine).
    service: Service,
    pub fits: Vec<Fit>,
    /// The engine's settings at the end of the recording.
    pub queue: Option<RecordedQueue>,
    /// How long the recorded requests waited.
    pub waits: BTreeMap<Lane, RecordedWaits>,
}

/// The recorded waits of one lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedWaits {
    pub requests: u64,
    pub served: u64,
    /// Submission → out of the queue.
    pub queue: Waits,
    /// Submission → answer, or as long as it has taken so far.
    pub done: Waits,
}

impl Trace {
    /// The arrivals of `model`, or of the only one that has any. Generation is left out: it is not batched.
    pub fn of(document: &Arrivals, model: Option<&str>) -> Result<Trace, TraceError> {
        let known = crate::control::arrivals::SCHEMA;
        if document.schema != known {
            return Err(TraceError::Schema { found: document.schema.clone(), known });
        }
        let batched: Vec<&Arrival> = document.arrivals.iter().filter(|a| a.op != Op::Generate).collect();
        let mut models: Vec<String> = batched.iter().map(|a| a.model.clone()).collect();
        models.sort_unstable();
        models.dedup();
        let model = match (model, models.as_slice()) {
            (Some(model), _) => model.to_string(),
            (None, [one]) => one.clone(),
            (None, []) => return Err(TraceError::Empty { whom: "any model".to_string() }),
            (None, _) => return Err(TraceError::SeveralModels { models }),
        };
        let mut own: Vec<&Arrival> = batched.into_iter().filter(|a| a.model == model).collect();
        if own.is_empty() {
            return Err(TraceError::Empty { whom: format!("model `{model}`") });
        }
        own.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        let fits = fits(document, &model);
        if fits.is_empty() {
            return Err(TraceError::NoBatches);
        }
        let mut service = Service::default();
        fits.iter().for_each(|fit| service.set(fit.op, fit.lane, fit.line));
        let queue = document.queues.iter().find(|queue| queue.model == model).cloned();
        let slice_windows = queue.as_ref().and_then(|queue| queue.slice_windows);
        let ear = Ear::new(&service, slice_windows, &own, batches(document, &model));
        Ok(Trace {
            span: Micros::from_ms(document.span_ms),
            arrivals: own.iter().map(|arrival| recorded(arrival, &ear)).collect(),
            service,
            fits,
            queue,
            waits: waits(&own),
            model,
        })
    }

    /// Puts an engine of known numbers in the place of the fitted one: it takes by them for every request alike.
    pub fn set_engine(&mut self, service: Service) {
        self.service = service;
        self.arrivals.iter_mut().for_each(|arrival| arrival.pace = 1.0);
    }

    /// The trace as a load.
    pub(super) fn scenario(&self) -> Scenario {
        Scenario {
            duration: self.span,
            warm_up: Micros::ZERO,
            seed: 0,
            batches: None,
            sources: vec![Source::Recorded { name: self.model.clone(), arrivals: self.arrivals.clone() }],
            service: self.service.clone(),
        }
    }
}

fn recorded(arrival: &Arrival, ear: &Ear<'_>) -> Recorded {
    let Arrival { at_ms, op, lane, cost, .. } = *arrival;
    // A client that went away does so in the replay too, if it has no answer by then.
    let left = matches!(arrival.outcome, Some(Outcome::Cancelled | Outcome::Expired));
    let patience = left.then(|| taken(arrival));
    let (windows, pace) = (ear.windows(arrival), ear.pace(arrival));
    Recorded { at: Micros::from_ms(at_ms), op, lane, cost, windows, pace, patience }
}

/// Submission → end, or as long as it has taken so far.
fn taken(arrival: &Arrival) -> Micros {
    Micros::from_ms(arrival.queue_ms + arrival.run_ms.unwrap_or(0.0))
}

/// The batches that say how long the model takes; one in which no window was run says nothing.
fn batches<'a>(document: &'a Arrivals, model: &'a str) -> impl Iterator<Item = &'a BatchRun> {
    let own = document.batches.iter().filter(move |b| b.model == model && b.op != Op::Generate);
    own.filter(|b| b.run_ms > 0.0 && b.windows != Some(0))
}

fn fits(document: &Arrivals, model: &str) -> Vec<Fit> {
    let mut measured: BTreeMap<(Op, Lane), Vec<Measured>> = BTreeMap::new();
    for batch in batches(document, model) {
        let items = usize::try_from(batch.items).unwrap_or(usize::MAX);
        let one = Measured { items, windows: batch.windows, cost: batch.cost, run_us: batch.run_ms * 1_000.0 };
        measured.entry((batch.op, batch.lane)).or_default().push(one);
    }
    measured.iter().filter_map(|((op, lane), batches)| Fit::of(*op, *lane, batches)).collect()
}

fn waits(arrivals: &[&Arrival]) -> BTreeMap<Lane, RecordedWaits> {
    let mut by_lane: BTreeMap<Lane, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        by_lane.entry(arrival.lane).or_default().push(arrival);
    }
    let of_lane = |arrivals: Vec<&Arrival>| {
        let queue: Vec<Micros> = arrivals.iter().map(|a| Micros::from_ms(a.queue_ms)).collect();
        let done: Vec<Micros> = arrivals.iter().map(|a| taken(a)).collect();
        RecordedWaits {
            requests: arrivals.len() as u64,
            served: arrivals.iter().filter(|a| a.outcome == Some(Outcome::Served)).count() as u64,
            queue: Waits::of(&queue),
            done: Waits::of(&done),
        }
    };
    by_lane.into_iter().map(|(lane, arrivals)| (lane, of_lane(arrivals))).collect()
}
