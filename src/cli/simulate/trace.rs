//! Replaying what `lanekeeper record` wrote.

use super::SimulateArgs;
use crate::cli::error::{CliError, CliResult};
use crate::cli::print::text::{known, millis};
use crate::cli::print::{Cell, Column, Out, Table, Tone};
use crate::control::arrivals::RecordedQueue;
use crate::control::{Arrivals, ExitCode};
use crate::profile::{Workload, WorkloadOverrides, workload_of_values};
use crate::simulate::{self, Compared, Report, Service, Settings, SettingsFault, Trace};
use std::path::Path;

/// What the first run of a replay is called: the settings in effect when the arrivals were recorded.
const AS_RECORDED: &str = "as recorded";

/// Replays the arrivals in `path` under the recorded settings and, where the command line says others, under those.
pub fn replay(path: &Path, args: &SimulateArgs, out: &Out) -> CliResult<Report> {
    let trace = read(path, args.model.as_deref(), out)?;
    let name = path.display().to_string();
    let values = trace.queue.as_ref().map(values_of).unwrap_or_default();
    let settings = |overrides: &WorkloadOverrides| workload_of_values(&name, &values, overrides);
    let recorded = settings(&WorkloadOverrides::default())?.value;
    let mut runs = settings_of(&recorded)?;
    let overrides = args.overrides();
    let (engine, set): (Vec<String>, Vec<String>) =
        overrides.set.iter().cloned().partition(|set| set.starts_with("service."));
    let mut trace = trace;
    if !engine.is_empty() {
        let mut named = values.clone();
        named.retain(|(key, _)| !key.starts_with("service."));
        let load = workload_of_values(&name, &named, &overrides)?.value;
        trace.set_engine(Service::of_lanes(&load.clips, &load.recordings));
    }
    // Another engine is that of every run; other settings are tried beside the recorded ones.
    let label = |of: &str, more: &[String]| [&[of.to_string()], more].concat().join(", ");
    runs.iter_mut().for_each(|run| run.name = label(AS_RECORDED, &engine));
    if !set.is_empty() || !overrides.vary.is_empty() {
        for mut run in settings_of(&settings(&overrides)?.value)? {
            let varied = if overrides.vary.is_empty() { Vec::new() } else { vec![run.name] };
            run.name = [varied, set.clone(), engine.clone()].concat().join(", ");
            runs.push(run);
        }
    }
    Ok(simulate::replay(&trace, &runs))
}

pub fn settings_of(load: &Workload) -> CliResult<Vec<Settings>> {
    Ok(load.settings.iter().map(Settings::of).collect::<Result<Vec<Settings>, SettingsFault>>()?)
}

fn read(path: &Path, model: Option<&str>, out: &Out) -> CliResult<Trace> {
    let text = std::fs::read(path).map_err(|e| CliError::file(path, "read", &e))?;
    let document: Arrivals = serde_json::from_slice(&text).map_err(|e| {
        CliError::new(ExitCode::Refused, format!("{}: not recorded arrivals: {e}", path.display()))
            .hint("`lanekeeper record FILE` writes them")
    })?;
    if !document.complete {
        out.warn("the engine had forgotten a part of the recorded span: early arrivals are missing");
    }
    let hint = "`lanekeeper record FILE` writes what a replay needs; --model picks one of several";
    Trace::of(&document, model)
        .map_err(|e| CliError::new(ExitCode::Refused, format!("{}: {e}", path.display())).hint(hint))
}

/// The recorded settings, as the keys of a load.
pub fn values_of(queue: &RecordedQueue) -> Vec<(&'static str, String)> {
    let caps = &queue.caps;
    let mut values = vec![
        // The engine that was measured stands in for it; this only says that there is one.
        ("service.clips.rate", "1".to_string()),
        ("max_batch_tokens", caps.max_batch_cost.to_string()),
        ("max_batch_requests", caps.max_batch_requests.to_string()),
        ("wait_ms", caps.wait_ms.to_string()),
        ("coalesce_ms", caps.coalesce_ms.to_string()),
        ("depth", caps.depth.to_string()),
        ("long_form.slice_windows", queue.slice_windows.map_or_else(|| "whole".to_string(), |n| n.to_string())),
    ];
    values.extend(queue.recordings_share.map(|share| ("lanes.recordings.share", share.to_string())));
    values
}

/// What was recorded against the first run.
pub fn compared(compared: &Compared, report: &Report) -> Table {
    let mut table = Table::new([
        Column::left("LANE"),
        Column::left("WAITS"),
        Column::right("SERVED"),
        Column::right("QUEUE P50"),
        Column::right("DONE P50"),
        Column::right("DONE P95"),
        Column::right("DONE MAX"),
    ]);
    let time = |ms: Option<f64>| Cell::from(known(ms, millis));
    for lane in &compared.lanes {
        table.row([
            lane.lane.into(),
            "recorded".into(),
            lane.served.into(),
            time(lane.queue.p50_ms),
            time(lane.done.p50_ms),
            time(lane.done.p95_ms),
            time(lane.done.max_ms),
        ]);
        let Some(simulated) = report.runs.first().and_then(|run| run.lane(lane.lane)) else { continue };
        let simulated = &simulated.requests;
        table.row([
            "".into(),
            "simulated".into(),
            simulated.served.into(),
            time(simulated.queue.p50_ms),
            time(simulated.done.p50_ms),
            time(simulated.done.p95_ms),
            time(simulated.done.max_ms),
        ]);
        let part =
            |part: Option<f64>| Cell::from(known(part, |part| format!("{:+.0} %", part * 100.0))).tone(Tone::Dim);
        let error = &lane.error;
        let parts = [error.queue_p50, error.done_p50, error.done_p95, error.done_max].map(part);
        let mut row = vec![Cell::default(), "error".into(), Cell::default()];
        row.extend(parts);
        table.row(row);
    }
    table
}

/// The fitted service model, one line per lane.
pub fn fits(compared: &Compared) -> Table {
    let mut table = Table::new([
        Column::left("OP"),
        Column::left("LANE"),
        Column::right("BATCHES"),
        Column::right("OVERHEAD"),
        Column::right("PER ITEM"),
        Column::right("PER WINDOW"),
        Column::right("PER 1000 COST"),
        Column::right("ERROR"),
    ]);
    for fit in &compared.fits {
        table.row([
            fit.op.into(),
            fit.lane.into(),
            fit.batches.into(),
            millis(fit.overhead_ms).into(),
            millis(fit.item_ms).into(),
            millis(fit.window_ms).into(),
            millis(fit.cost_ms * 1_000.0).into(),
            format!("{:.0} %", fit.median_error * 100.0).into(),
        ]);
    }
    table
}
