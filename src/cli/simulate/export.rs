//! The simulator's report as a file.

use super::refuse_ending;
use crate::cli::error::{CliError, CliResult};
use crate::control::ExitCode;
use crate::simulate::{Report, Requests, Waits};
use std::path::Path;

/// Writes the report in the form that the file's ending names.
pub fn write(path: &Path, report: &Report) -> CliResult {
    let failed = |e: String| CliError::new(ExitCode::Internal, format!("cannot write the report: {e}"));
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    let text = match ending.as_str() {
        "json" => serde_json::to_string_pretty(report).map_err(|e| failed(e.to_string()))? + "\n",
        "yaml" | "yml" => serde_yaml::to_string(report).map_err(|e| failed(e.to_string()))?,
        "csv" => csv(report),
        _ => return Err(refuse_ending(path)),
    };
    std::fs::write(path, text).map_err(|e| CliError::file(path, "write", &e))
}

/// A line per setting and lane. Times are in milliseconds; what is unknown is empty.
fn csv(report: &Report) -> String {
    let times =
        ["queue", "start", "done"].map(|t| ["p50", "p95", "p99", "max"].map(|p| format!("{t}_{p}_ms")).join(","));
    let mut text =
        format!("settings,lane,submitted,served,timeouts,pending,rate_per_s,rate_unit,share,{}\n", times.join(","));
    for run in &report.runs {
        for lane in &run.lanes {
            let Requests { submitted, served, timeouts, pending, rate, queue, start, done } = &lane.requests;
            let (per_s, unit) = rate.map(|rate| (rate.per_s.to_string(), rate.unit)).unwrap_or_default();
            let waits = [queue, start, done].map(waits).join(",");
            let name = quoted(&run.settings.name);
            let share = lane.share;
            text.push_str(&format!(
                "{name},{},{submitted},{served},{timeouts},{pending},{per_s},{unit},{share},{waits}\n",
                lane.lane
            ));
        }
    }
    text
}

fn waits(waits: &Waits) -> String {
    let all = [waits.p50_ms, waits.p95_ms, waits.p99_ms, waits.max_ms];
    all.map(|ms| ms.map(|ms| ms.to_string()).unwrap_or_default()).join(",")
}

/// As RFC 4180 wants a field that may hold commas and quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_stay_one_field() {
        assert_eq!(quoted("slices, \"half\""), "\"slices, \"\"half\"\"\"");
    }
}
