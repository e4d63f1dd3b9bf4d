//! What a simulation shows: plain data, for tables, files and comparison.

use super::compare::Compared;
use super::scenario::Scenario;
use super::settings::Settings;
use super::tally::{Fates, Tally};
use crate::control::{Lane, Op};
use crate::engine::scheduler::{CapMove, Micros, SliceWindows};
use serde::Serialize;

/// The schema name that every report carries.
pub const SCHEMA: &str = "lanekeeper.simulation/1";

/// Several settings on one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub load: String,
    /// Absent for a replay: nothing in it is random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Virtual time that was simulated at most, and what of its beginning is not counted.
    pub duration_s: f64,
    pub warm_up_s: f64,
    pub runs: Vec<RunReport>,
    /// Of a replay: what was recorded, and how far the first run is from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Compared>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    pub settings: SettingsView,
    /// Virtual time at the end.
    pub ended_s: f64,
    pub lanes: Vec<LaneReport>,
    pub classes: Vec<ClassReport>,
    pub batches: u64,
    /// Turns of clips.
    pub turns: u64,
    /// What the controller moved, where one is on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_moves: Vec<CapMoveView>,
    /// Part of the counted time in which the device was busy, 0..=1.
    pub busy_ratio: f64,
}

/// A knob that was moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapMoveView {
    pub at_s: f64,
    /// `wait_ms` or `max_batch_cost`.
    pub knob: &'static str,
    pub from: f64,
    pub to: f64,
    pub cause: &'static str,
}

impl CapMoveView {
    fn of(made: &CapMove) -> CapMoveView {
        let CapMove { at, knob, from, to, cause, .. } = *made;
        CapMoveView { at_s: at.as_secs(), knob: knob.name(), from, to, cause: cause.name() }
    }
}

/// The settings of a run, as they were in effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingsView {
    pub name: String,
    pub max_batch_cost: u64,
    pub max_batch_requests: u64,
    pub wait_ms: f64,
    pub coalesce_ms: f64,
    pub depth: u64,
    /// Windows that a recording runs before it is put aside; absent = to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_windows: Option<u32>,
    /// The recordings' part of engine time; absent where recordings run whole and it has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordings_share: Option<f64>,
    pub keep_owed: bool,
    pub owed: bool,
    /// The controller's mode.
    pub adaptive: &'static str,
}

/// One lane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneReport {
    pub lane: Lane,
    #[serde(flatten)]
    pub requests: Requests,
    pub batches: u64,
    /// The lane's part of the device's busy time, 0..=1.
    pub share: f64,
}

/// One class of clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassReport {
    pub class: String,
    #[serde(flatten)]
    pub requests: Requests,
}

/// What became of requests. Those that still wait at the end, and those given up, count with the time they waited.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requests {
    pub submitted: u64,
    pub served: u64,
    /// Given up by their clients.
    pub timeouts: u64,
    /// Neither answered nor given up at the end.
    pub pending: u64,
    /// Seconds of audio, or tokens, served per second; absent where both were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Submission → out of the queue.
    pub queue: Waits,
    /// Submission → the device began with it.
    pub start: Waits,
    /// Submission → answer.
    pub done: Waits,
}

/// How much was served per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    pub per_s: f64,
    /// `audio_s` or `tokens`.
    pub unit: &'static str,
}

/// Percentiles; absent where there was no request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Waits {
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

impl Waits {
    /// Of times in any order.
    pub fn of(times: &[Micros]) -> Waits {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        // As the engine's own percentiles: the index is cut off.
        let at = |p: f64| sorted.get((p * sorted.len().saturating_sub(1) as f64) as usize).map(|time| time.as_ms());
        Waits { p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

impl RunReport {
    pub(super) fn of(scenario: &Scenario, settings: &Settings, tally: &Tally) -> RunReport {
        let counted_s = tally.counted().as_secs();
        let busy = tally.work.values().fold(Micros::ZERO, |sum, work| sum + work.busy);
        let none = Fates::default();
        let lanes = [Lane::Clips, Lane::Recordings]
            .into_iter()
            .filter(|lane| tally.lanes.contains_key(lane) || tally.work.contains_key(lane));
        RunReport {
            settings: SettingsView::of(settings),
            ended_s: tally.now.as_secs(),
            lanes: lanes
                .map(|lane| {
                    let work = tally.work.get(&lane).copied().unwrap_or_default();
                    LaneReport {
                        lane,
                        requests: Requests::of(tally.lanes.get(&lane).unwrap_or(&none), counted_s),
                        batches: work.batches,
                        share: ratio(work.busy.as_secs(), busy.as_secs()),
                    }
                })
                .collect(),
            classes: scenario
                .sources
                .iter()
                .enumerate()
                .map(|(index, source)| ClassReport {
                    class: source.name().to_string(),
                    requests: Requests::of(tally.sources.get(&index).unwrap_or(&none), counted_s),
                })
                .collect(),
            batches: tally.batches_run(),
            turns: tally.turns,
            cap_moves: tally.moves.iter().map(CapMoveView::of).collect(),
            busy_ratio: ratio(busy.as_secs(), counted_s),
        }
    }

    /// A lane's report, where it had requests.
    pub fn lane(&self, lane: Lane) -> Option<&LaneReport> {
        self.lanes.iter().find(|report| report.lane == lane)
    }
}

impl SettingsView {
    fn of(settings: &Settings) -> SettingsView {
        let (caps, rules) = (&settings.caps, &settings.rules);
        let slice_windows = match rules.slice_windows {
            SliceWindows::Whole => None,
            SliceWindows::Windows(windows) => Some(windows.get()),
        };
        SettingsView {
            name: settings.name.clone(),
            max_batch_cost: settings.cost.budget().value,
            max_batch_requests: caps.count() as u64,
            wait_ms: settings.controller.initial_wait_ms,
            coalesce_ms: caps.coalesce.as_ms(),
            adaptive: settings.controller.mode.name(),
            depth: settings.depth as u64,
            slice_windows,
            recordings_share: slice_windows.map(|_| rules.recordings_share),
            keep_owed: rules.keep_owed,
            owed: rules.owed,
        }
    }
}

impl Requests {
    fn of(fates: &Fates, counted_s: f64) -> Requests {
        Requests {
            submitted: fates.submitted,
            served: fates.served,
            timeouts: fates.timeouts,
            pending: fates.pending,
            rate: Rate::of(fates, counted_s),
            queue: Waits::of(&fates.times.queue),
            start: Waits::of(&fates.times.start),
            done: Waits::of(&fates.times.done),
        }
    }
}

impl Rate {
    fn of(fates: &Fates, counted_s: f64) -> Option<Rate> {
        let speech = fates.ops.contains(&Op::Transcribe);
        if speech && fates.ops.len() > 1 {
            return None;
        }
        let per_s = ratio(fates.cost as f64, counted_s);
        Some(if speech { Rate { per_s: per_s / 1_000.0, unit: "audio_s" } } else { Rate { per_s, unit: "tokens" } })
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
