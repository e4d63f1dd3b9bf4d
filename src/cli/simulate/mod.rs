//! `lanekeeper simulate`.

mod export;
pub mod plan;
mod table;
mod trace;

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::{Cell, Column, Table, Tone};
use crate::control::ExitCode;
use crate::profile::{self, Env, ProfileKind, WorkloadOverrides, load_workload};
use crate::simulate::{self, SettingsFault};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Simulate the scheduler on a load in virtual time: waits, throughput and shares, several settings side by side.
///
/// The rules that decide are the engine's own; clients and the engine's speed are numbers of the load. An hour takes a
/// fraction of a second, and the same seed gives the same figures everywhere. Requests that still wait at the end, and
/// those given up, count with the time they waited. See lanekeeper-load(5) for the keys of a load.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The load, by name or path.
    #[arg(short, long, value_name = "LOAD", default_value = "mixed")]
    load: String,
    /// List the loads that have a name.
    #[arg(long)]
    list: bool,
    /// Replay arrivals that `lanekeeper record` wrote, on an engine as fast as the recorded one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load", "clients", "duration", "seed"])]
    trace: Option<PathBuf>,
    /// The model whose arrivals are replayed, where several were recorded.
    #[arg(short, long, value_name = "MODEL", requires = "trace")]
    model: Option<String>,
    /// Set a key of the load, `clients.NAME.KEY`, or a scheduler key for every setting.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Try every setting with each value of a scheduler key.
    #[arg(long, value_name = "KEY=VALUE,VALUE...")]
    vary: Vec<String>,
    /// A class of clients in place of the load's: so many at once (16x5..15) or per second (2.5/sx10).
    #[arg(long, value_name = "NAME=COUNTxLENGTH")]
    clients: Vec<String>,
    /// Time to simulate.
    #[arg(long, value_name = "TIME", value_parser = super::duration::parse)]
    duration: Option<Duration>,
    /// Seed of everything drawn at random.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Show each class of clients instead of each lane.
    #[arg(long)]
    classes: bool,
    /// Also write the report to a file: .json, .yaml or .csv.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
}

pub fn run(context: &Context, args: &SimulateArgs) -> CliResult {
    if args.list {
        return list(context);
    }
    let report = match &args.trace {
        Some(path) => trace::replay(path, args, &context.out)?,
        None => {
            let loaded = load_workload(&args.load, &Env::from_process(), &args.overrides())?;
            loaded.warnings.iter().for_each(|warning| context.out.warn(warning));
            simulate::simulate(&loaded.value)?
        }
    };
    if let Some(path) = &args.export {
        export::write(path, &report)?;
        context.out.note(&format!("the report is in {}", path.display()));
    }
    context.out.result(&report, |out, style| {
        if let Some(compared) = &report.recorded {
            trace::fits(compared).write(out, style)?;
            writeln!(out)?;
            trace::compared(compared, &report).write(out, style)?;
            writeln!(out)?;
        }
        let table = if args.classes { table::classes(&report.runs) } else { table::lanes(&report.runs) };
        table.write(out, style)
    })
}

impl SimulateArgs {
    /// Options of their own come after `--set`, so that they win.
    fn overrides(&self) -> WorkloadOverrides {
        let mut set = self.set.clone();
        set.extend(self.duration.map(|duration| format!("duration_s={}", duration.as_secs_f64())));
        set.extend(self.seed.map(|seed| format!("seed={seed}")));
        WorkloadOverrides { set, vary: self.vary.clone(), clients: self.clients.clone() }
    }
}

fn list(context: &Context) -> CliResult {
    let mut loads = profile::list(&Env::from_process());
    loads.retain(|listing| listing.kind == ProfileKind::Load);
    let values: Vec<_> = loads
        .iter()
        .map(|l| {
            let problem = l.problem.as_ref().map(ToString::to_string);
            json!({ "name": l.name, "shipped": l.shipped, "description": l.description, "problem": problem })
        })
        .collect();
    context.out.result(&values, |out, style| {
        let mut table = Table::new([Column::left("NAME"), Column::left("FROM"), Column::left("DESCRIPTION")]);
        for load in &loads {
            let words = match &load.problem {
                Some(problem) => Cell::new(format!("broken: {problem}")).tone(Tone::Bad),
                None => Cell::new(&load.description),
            };
            let from = if load.shipped { "shipped" } else { "own" };
            table.row([Cell::new(&load.name).tone(Tone::Strong), from.into(), words]);
        }
        table.write(out, style)
    })
}

/// Settings that contradict each other are refused like any bad value of a load.
impl From<SettingsFault> for CliError {
    fn from(fault: SettingsFault) -> CliError {
        CliError::new(ExitCode::Refused, fault.to_string())
    }
}

/// A report's file could not be written because of what it is.
fn refuse_ending(path: &std::path::Path) -> CliError {
    CliError::usage(format!("cannot tell what to write into {}", path.display()))
        .hint("give it an ending: .json, .yaml or .csv")
}
