//! The simulator's report as tables.

use crate::cli::print::text::{figure, known, millis};
use crate::cli::print::{Cell, Column, Table, Tone};
use crate::simulate::{Requests, RunReport};

/// Columns that lanes and classes share, behind the two that name a row.
const COLUMNS: [Column; 16] = [
    Column::right("SENT").wide(),
    Column::right("SERVED"),
    Column::right("TIMEOUTS"),
    Column::right("PENDING"),
    Column::right("QUEUE P50").wide(),
    Column::right("QUEUE MAX").wide(),
    Column::right("START P50"),
    Column::right("START P95").wide(),
    Column::right("START P99").wide(),
    Column::right("START MAX").wide(),
    Column::right("DONE P50"),
    Column::right("DONE P95"),
    Column::right("DONE P99"),
    Column::right("DONE MAX"),
    Column::right("RATE"),
    Column::right("SHARE"),
];

fn cells(requests: &Requests, share: Option<f64>) -> Vec<Cell> {
    let time = |ms: Option<f64>| Cell::from(known(ms, millis));
    // What a person looks for first: did anybody wait in vain?
    let bad = |n: u64| Cell::from(n).tone(if n > 0 { Tone::Warn } else { Tone::Plain });
    let rate = requests.rate.map(|rate| match rate.unit {
        "audio_s" => format!("{} s/s", figure(rate.per_s)),
        unit => format!("{} {unit}/s", figure(rate.per_s)),
    });
    vec![
        requests.submitted.into(),
        requests.served.into(),
        bad(requests.timeouts),
        requests.pending.into(),
        time(requests.queue.p50_ms),
        time(requests.queue.max_ms),
        time(requests.start.p50_ms),
        time(requests.start.p95_ms),
        time(requests.start.p99_ms),
        time(requests.start.max_ms),
        time(requests.done.p50_ms).tone(Tone::Strong),
        time(requests.done.p95_ms),
        time(requests.done.p99_ms),
        time(requests.done.max_ms),
        known(rate, |rate| rate).into(),
        known(share, |share| format!("{:.0} %", share * 100.0)).into(),
    ]
}

/// A row per setting and lane.
pub fn lanes(runs: &[RunReport]) -> Table {
    let head = [Column::left("SETTINGS"), Column::left("LANE")];
    let tail = [Column::right("BATCHES"), Column::right("TURNS")];
    let columns: Vec<Column> = head.into_iter().chain(COLUMNS).chain(tail).collect();
    let mut table = Table::new(columns);
    for run in runs {
        for (index, lane) in run.lanes.iter().enumerate() {
            let mut row = vec![name(run, index), lane.lane.into()];
            row.extend(cells(&lane.requests, Some(lane.share)));
            let turns = if lane.lane == crate::control::Lane::Clips { run.turns } else { lane.batches };
            row.extend([lane.batches.into(), turns.into()]);
            table.row(row);
        }
    }
    table
}

/// A row per setting and class of clients.
pub fn classes(runs: &[RunReport]) -> Table {
    let head = [Column::left("SETTINGS"), Column::left("CLASS")];
    let columns: Vec<Column> = head.into_iter().chain(COLUMNS.into_iter().take(COLUMNS.len() - 1)).collect();
    let mut table = Table::new(columns);
    for run in runs {
        for (index, class) in run.classes.iter().enumerate() {
            let mut row = vec![name(run, index), Cell::new(&class.class)];
            let mut shared = cells(&class.requests, None);
            shared.pop();
            row.extend(shared);
            table.row(row);
        }
    }
    table
}

/// The setting's name on its first row alone.
fn name(run: &RunReport, row: usize) -> Cell {
    if row == 0 { Cell::new(&run.settings.name).tone(Tone::Strong) } else { Cell::default() }
}
