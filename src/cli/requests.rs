//! `lanekeeper requests`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{WatchArgs, show};
use super::print::text::{known, millis};
use super::print::{Cell, Column, Table, Tone};
use crate::control::snapshot::{Outcome, Request, RequestState, Requests, Snapshot};
use clap::Args;

/// List requests: running first, then by waiting time, then the last that ended.
///
/// A waiting request says why it waits. Request text and audio are never shown.
#[derive(Debug, Args)]
pub struct RequestsArgs {
    /// Show only requests to this model.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Leave out requests that have ended.
    #[arg(long)]
    alive: bool,
    #[command(flatten)]
    watch: WatchArgs,
}

pub fn run(context: &Context, args: &RequestsArgs) -> CliResult {
    let section = |s: &Snapshot| Requests {
        total: s.requests.total,
        shown: s
            .requests
            .shown
            .iter()
            .filter(|r| args.model.as_deref().is_none_or(|m| m == r.model))
            .filter(|r| !args.alive || r.state != RequestState::Done)
            .cloned()
            .collect(),
    };
    show(context, &args.watch, section, |s, out, style| {
        let requests = section(s);
        if requests.shown.is_empty() {
            return writeln!(out, "no requests");
        }
        let table = table(&requests.shown);
        table.write(out, style)
    })
}

const COLUMNS: [Column; 11] = [
    Column::left("ID"),
    Column::left("MODEL"),
    Column::left("OP"),
    Column::left("LANE"),
    Column::left("STATE"),
    Column::left("CLIENT").wide(),
    Column::right("COST"),
    Column::right("QUEUED"),
    Column::right("RAN"),
    Column::right("DONE"),
    Column::left("WHY"),
];

fn table(requests: &[Request]) -> Table {
    let mut table = Table::new(COLUMNS);
    for r in requests {
        let (state, tone) = match (r.state, r.outcome) {
            (RequestState::Done, Some(outcome)) => {
                (outcome.name(), if outcome == Outcome::Served { Tone::Dim } else { Tone::Bad })
            }
            (RequestState::Running | RequestState::Streaming, _) => (r.state.name(), Tone::Good),
            _ => (r.state.name(), Tone::Plain),
        };
        let why = match &r.wait {
            Some(wait) => {
                let estimate = wait.estimate_ms.map(|ms| format!(" (about {})", millis(ms))).unwrap_or_default();
                format!("{}{estimate}", wait.code.sentence())
            }
            None => r.ended_ago_ms.map(|ms| format!("{} ago", millis(ms))).unwrap_or_default(),
        };
        let position = r.position.map(|p| format!(" #{p}")).unwrap_or_default();
        table.row([
            Cell::new(&r.id),
            Cell::new(&r.model),
            r.op.into(),
            r.lane.into(),
            Cell::new(format!("{state}{position}")).tone(tone),
            Cell::new(&r.client),
            known(r.cost, |cost| cost.to_string()).into(),
            millis(r.queued_ms).into(),
            known(r.running_ms, millis).into(),
            known(r.done_ratio, |d| format!("{:.0}%", d * 100.0)).into(),
            Cell::new(why),
        ]);
    }
    table
}
