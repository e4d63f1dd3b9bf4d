//! `lanekeeper requests`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{ModelArgs, WatchArgs, show_of};
use super::print::text::{cost, known, millis};
use super::print::{Cell, Column, Table, Tone};
use crate::control::Predicate;
use crate::control::snapshot::{Outcome, Request, RequestState, Requests, Snapshot};
use clap::Args;

/// List requests: running first, then by waiting time, then the last that ended.
///
/// FOR is how long it has waited, or has run since. A waiting request says why it waits. COST is audio for speech and tokens
/// for texts. A wide terminal shows more, `-o wide` all. Request text and audio are never shown.
#[derive(Debug, Args)]
pub struct RequestsArgs {
    #[command(flatten)]
    of: ModelArgs,
    /// Leave out requests for which this does not hold, or is unknown: 'state==queued && queued_ms>5s'.
    ///
    /// See lanekeeper-conditions(7). A snapshot holds some hundred requests: those are looked at.
    #[arg(short, long, value_name = "CONDITION", value_parser = Predicate::of_requests)]
    filter: Option<Predicate>,
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
            .filter(|r| args.of.wants(&r.model))
            .filter(|r| !args.alive || r.state != RequestState::Done)
            .filter(|r| args.filter.as_ref().is_none_or(|filter| filter.wants(r)))
            .cloned()
            .collect(),
    };
    show_of(context, &args.watch, &args.of, section, |s, out, style| {
        let requests = section(s);
        if requests.shown.is_empty() {
            return writeln!(out, "no requests");
        }
        let table = table(&requests.shown);
        table.write(out, style)
    })
}

const COLUMNS: [Column; 13] = [
    Column::left("ID"),
    Column::left("MODEL"),
    Column::left("OP").wide(),
    Column::left("LANE"),
    Column::left("STATE"),
    Column::left("CLIENT").wide(),
    Column::right("FOR"),
    Column::right("COST").spare(1),
    Column::right("QUEUED").spare(4),
    Column::right("RAN").spare(5),
    Column::right("DONE").spare(2),
    Column::left("WHY"),
    Column::left("IN WORDS").spare(3),
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
            Some(wait) => wait.code.name().to_string(),
            None => r.ended_ago_ms.map(|ms| format!("{} ago", millis(ms))).unwrap_or_default(),
        };
        let words = r.wait.as_ref().map(|wait| {
            let estimate = wait.estimate_ms.map(|ms| format!(" (about {})", millis(ms))).unwrap_or_default();
            format!("{}{estimate}", wait.code.sentence())
        });
        let position = r.position.map(|p| format!(" #{p}")).unwrap_or_default();
        table.row([
            Cell::new(&r.id),
            Cell::new(&r.model),
            r.op.into(),
            r.lane_name().into(),
            Cell::new(format!("{state}{position}")).tone(tone),
            Cell::new(&r.client),
            millis(r.running_ms.unwrap_or(r.queued_ms)).into(),
            known(r.cost, |n| cost(r.op, n)).into(),
            millis(r.queued_ms).into(),
            known(r.running_ms, millis).into(),
            known(r.done_ratio, |d| format!("{:.0}%", d * 100.0)).into(),
            Cell::new(why),
            words.unwrap_or_default().into(),
        ]);
    }
    table
}
