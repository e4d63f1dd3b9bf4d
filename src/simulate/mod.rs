//! The simulator: the scheduler's own formers and rounds under clients and an engine of numbers, in virtual time.
//!
//! Pure: no clock, no thread, no file. A [`Scenario`] (who sends what, how long batches take) or a recorded [`Trace`] is
//! run under one or more [`Settings`]; the outcome is a [`Report`]. Nothing is shared. It fails where settings contradict
//! each other; all else that is odd is refused when a load is read.
//!
//! There is no second copy of a scheduling rule here: what goes next and why is asked of
//! [`Former`](crate::engine::scheduler::Former) and [`Rounds`](crate::engine::scheduler::Rounds), what moves the caps of
//! [`Adaptive`](crate::engine::scheduler::Adaptive), as the engine's dispatcher asks them. What stands here is the world
//! around them: clients (`scenario`), the device (`service`), the order of events (`run`), the counting (`tally`,
//! `report`), and for traces the fit of a service model (`fit`), what each request takes of the engine (`heard`, `windows`),
//! its repetition (`repeat`) and the comparison with what was recorded (`compare`).
//!
//! The same load and seed give the same report on every machine.

mod compare;
mod fit;
mod heard;
mod random;
mod repeat;
mod report;
mod run;
mod scenario;
mod service;
mod settings;
mod tally;
#[cfg(test)]
mod tests;
mod trace;
mod windows;

pub use compare::{Compared, Deviation, RecordedLane};
pub use fit::{Fit, Measured};
pub use report::{ClassReport, LaneReport, Rate, Report, Requests, RunReport, SCHEMA, SettingsView, Waits};
pub use scenario::{Recorded, Scenario, Source};
pub use service::{Line, Service, Work};
pub use settings::{Settings, SettingsFault};
pub use trace::{RecordedWaits, Trace, TraceError};
pub use windows::Windows;

use crate::profile::Workload;

/// Runs a load under each of its settings; fails where one of them contradicts itself.
pub fn simulate(load: &Workload) -> Result<Report, SettingsFault> {
    let scenario = Scenario::of(load);
    let settings = load.settings.iter().map(Settings::of).collect::<Result<Vec<Settings>, SettingsFault>>()?;
    Ok(Report {
        schema: SCHEMA,
        load: load.name.clone(),
        seed: Some(load.seed),
        duration_s: load.duration_s,
        warm_up_s: load.warm_up_s,
        runs: run_each(&scenario, &settings),
        recorded: None,
    })
}

/// Replays recorded arrivals under each setting. The first is taken for the one that was in effect when they were
/// recorded: how far its waits are from the recorded ones is the model's error.
///
/// Where requests are few, each setting is run several times, with a little chance in the times of batches, and its waits
/// are the middle of all: see `repeat`.
pub fn replay(trace: &Trace, settings: &[Settings]) -> Report {
    let (scenario, repeats) = (trace.scenario(), repeat::repeats(trace.arrivals.len()));
    let runs: Vec<RunReport> = settings.iter().map(|settings| repeat::run(&scenario, settings, repeats)).collect();
    Report {
        schema: SCHEMA,
        load: trace.model.clone(),
        seed: None,
        duration_s: trace.span.as_secs(),
        warm_up_s: 0.0,
        recorded: Some(Compared::of(trace, runs.first(), repeats)),
        runs,
    }
}

/// Runs a scenario under each setting.
pub fn run_each(scenario: &Scenario, settings: &[Settings]) -> Vec<RunReport> {
    let one = |settings: &Settings| RunReport::of(scenario, settings, &run::run(scenario, settings, None));
    settings.iter().map(one).collect()
}
