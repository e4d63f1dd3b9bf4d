//! `lanekeeper routes`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{WatchArgs, show};
use super::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::routes::{Route, routes};
use crate::control::snapshot::Snapshot;
use clap::Args;
use std::io::{self, Write};

/// Show where each model's work goes: its stages, and what is under way on them.
///
/// A local route has one stage: this engine's device. Its answers return the way they came.
#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// Show only this model.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    watch: WatchArgs,
}

pub fn run(context: &Context, args: &RoutesArgs) -> CliResult {
    let wanted = |route: &Route| args.model.as_deref().is_none_or(|model| model == route.model);
    let section = |s: &Snapshot| -> Vec<Route> { routes(s).into_iter().filter(wanted).collect() };
    show(context, &args.watch, section, |s, out, style| people(&section(s), out, style))
}

fn people(all: &[Route], out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let mut table = Table::new([
        Column::left("MODEL"),
        Column::left("OPS"),
        Column::left("ROUTE"),
        Column::left("OPEN"),
        Column::right("STAGES"),
        Column::left("STAGE"),
        Column::right("RUNNING"),
        Column::right("WAITING"),
        Column::left("DEVICE").wide(),
    ]);
    for route in all {
        let ops: Vec<&str> = route.ops.iter().map(|op| op.name()).collect();
        for (i, stage) in route.stages.iter().enumerate() {
            let (open, tone) = if route.open { ("yes", Tone::Good) } else { ("no", Tone::Warn) };
            table.row([
                Cell::new(&route.model).tone(Tone::Strong),
                Cell::new(ops.join(",")),
                route.kind.name().into(),
                Cell::new(open).tone(tone),
                Cell::new(format!("{} of {}", i + 1, route.stages.len())),
                Cell::new(format!("{} {}", stage.node, stage.device)),
                route.running.into(),
                route.waiting.into(),
                Cell::new(&stage.description),
            ]);
        }
    }
    table.write(out, style)
}
