//! What a recorded request takes of the engine, however its batches are formed: its windows, and its pace.

use super::service::{Service, Work};
use super::windows::Windows;
use crate::control::arrivals::{Arrival, BatchRun};
use crate::control::snapshot::Outcome;
use crate::control::{Lane, Op};
use crate::engine::scheduler::WINDOW_MS;
use std::collections::BTreeMap;

/// Slices of one request that are timed: of windows, a week of speech.
const SLICES: u64 = 20_000;

/// What recorded requests are measured by.
pub(super) struct Ear<'a> {
    service: &'a Service,
    /// Windows of a slice, as recordings were cut; `None` = not at all.
    slice_windows: Option<u64>,
    /// What a window moves a recording on by in the mean.
    step: u64,
    /// Items of a batch in the mean: those that an overhead is shared by.
    together: BTreeMap<(Op, Lane), f64>,
}

impl<'a> Ear<'a> {
    pub fn new<'b>(
        service: &'a Service,
        slice_windows: Option<u64>,
        arrivals: &[&Arrival],
        batches: impl Iterator<Item = &'b BatchRun>,
    ) -> Ear<'a> {
        let mut counts: BTreeMap<(Op, Lane), (u64, u64)> = BTreeMap::new();
        for batch in batches {
            let (items, batches) = counts.entry((batch.op, batch.lane)).or_default();
            *items = items.saturating_add(batch.items);
            *batches += 1;
        }
        let mean = |(items, batches): (u64, u64)| (items as f64 / batches.max(1) as f64).max(1.0);
        let together = counts.into_iter().map(|(key, count)| (key, mean(count))).collect();
        Ear { service, slice_windows, step: mean_step(arrivals), together }
    }

    pub fn windows(&self, arrival: &Arrival) -> Windows {
        match counted(arrival) {
            Some(count) => Windows::counted(arrival.cost, count, self.step),
            None => Windows::expected(arrival.cost, if arrival.op == Op::Transcribe { self.step } else { WINDOW_MS }),
        }
    }

    /// How long it took the model, as a part of what the service model says of such a request: one speaks faster than
    /// another, one is full of pauses, and so they are in any batch. 1 where it was not measured.
    pub fn pace(&self, arrival: &Arrival) -> f64 {
        let measured = arrival.model_ms.filter(|_| counted(arrival).is_some());
        let expected = self.alone(arrival) / 1_000.0;
        measured.map(|ms| ms / expected).filter(|pace| pace.is_finite() && *pace >= 0.0).unwrap_or(1.0)
    }

    /// Microseconds of the request's batches, an overhead shared with those beside it.
    fn alone(&self, arrival: &Arrival) -> f64 {
        let line = self.service.line_of(arrival.op, arrival.lane);
        let together = self.together.get(&(arrival.op, arrival.lane)).copied().unwrap_or(1.0);
        let most = self.slice_windows.filter(|n| *n > 0 && arrival.lane == Lane::Recordings);
        let (mut windows, mut cost, mut us) = (self.windows(arrival), arrival.cost, 0.0);
        for _ in 0..SLICES {
            let n = windows.slice(most);
            let slice = most.map_or(cost, |most| cost.min(most.saturating_mul(WINDOW_MS)));
            us += line.overhead / together + line.of_items(Work { items: 1, windows: n, cost: slice });
            (windows, cost) = windows.after(n, cost);
            if windows.count == 0 {
                break;
            }
        }
        us
    }
}

/// The windows that it has in all, where they were counted to its end.
fn counted(arrival: &Arrival) -> Option<u64> {
    arrival.windows.filter(|n| *n > 0 && arrival.outcome == Some(Outcome::Served))
}

/// What a window moves a recording on by in the mean, its last taken for half a one. Clips say nothing of it: their
/// second window, where there is one, hears a remnant.
fn mean_step(arrivals: &[&Arrival]) -> u64 {
    let recordings = arrivals.iter().filter(|a| a.cost > WINDOW_MS).filter_map(|a| Some((a.cost, counted(a)?)));
    let (cost, windows) = recordings.fold((0.0, 0.0), |(c, w), (cost, n)| (c + cost as f64, w + n as f64 - 0.5));
    if windows > 0.0 { ((cost / windows) as u64).clamp(1, WINDOW_MS) } else { WINDOW_MS }
}
