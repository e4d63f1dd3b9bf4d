//! A replay against what was recorded.

use super::fit::Fit;
use super::report::{RunReport, Waits};
use super::trace::{RecordedWaits, Trace};
use crate::control::Lane;
use serde::Serialize;

/// What was recorded, the service model fitted to it, and how far the replay is from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Times that each setting was run: its waits are the middle of so many.
    pub repeats: u64,
    pub fits: Vec<Fit>,
    pub lanes: Vec<RecordedLane>,
}

/// One lane as it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedLane {
    pub lane: Lane,
    pub requests: u64,
    pub served: u64,
    pub queue: Waits,
    pub done: Waits,
    /// How far the waits of the first run are from the recorded ones.
    pub error: Deviation,
}

/// Simulated less recorded, as a part of what was recorded; absent where that is nothing, or either is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Deviation {
    /// As a part of the recorded time to the answer, as `done_p50`. A queue may be next to nothing, and a part of that says
    /// nothing: none instead of two milliseconds is all of the queue, and nobody's answer came sooner.
    pub queue_p50: Option<f64>,
    pub done_p50: Option<f64>,
    pub done_p95: Option<f64>,
    pub done_max: Option<f64>,
}

impl Compared {
    pub(super) fn of(trace: &Trace, run: Option<&RunReport>, repeats: u64) -> Compared {
        let lane = |(lane, recorded): (&Lane, &RecordedWaits)| {
            let simulated = run.and_then(|run| run.lane(*lane)).map(|lane| &lane.requests);
            let RecordedWaits { requests, served, queue, done } = *recorded;
            let error = simulated.map_or(Deviation::default(), |simulated| Deviation {
                queue_p50: off(simulated.queue.p50_ms, queue.p50_ms, done.p50_ms),
                done_p50: off(simulated.done.p50_ms, done.p50_ms, done.p50_ms),
                done_p95: off(simulated.done.p95_ms, done.p95_ms, done.p95_ms),
                done_max: off(simulated.done.max_ms, done.max_ms, done.max_ms),
            });
            RecordedLane { lane: *lane, requests, served, queue, done, error }
        };
        Compared { repeats, fits: trace.fits.clone(), lanes: trace.waits.iter().map(lane).collect() }
    }
}

fn off(simulated: Option<f64>, recorded: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some((simulated? - recorded?) / whole.filter(|ms| *ms > 0.0)?)
}
