//! `lanekeeper knobs`.

use super::super::context::Context;
use super::super::error::CliResult;
use super::super::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::Knobs;
use crate::control::knobs::{Knob, Layer, TakesEffect};
use clap::Args;
use std::io::{self, Write};

/// List every setting of a running engine: value, where it comes from, what it may be, and when a change takes effect.
///
/// A PATTERN is a part of a name: `knobs recordings` lists what concerns recordings, `knobs models.minilm-l6.` one model.
/// lanekeeper-knobs(7) says what each one does.
#[derive(Debug, Args)]
pub struct KnobsArgs {
    /// List knobs whose names contain this.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    /// List only what can be changed while the engine runs.
    #[arg(long)]
    live: bool,
    /// List only what somebody set: profile, environment, command line or live.
    #[arg(long)]
    changed: bool,
}

pub fn run(context: &Context, args: &KnobsArgs) -> CliResult {
    let client = context.client()?;
    let mut all = context.block_on(async { Ok(client.knobs().await?) })?;
    all.knobs.retain(|knob| {
        args.pattern.as_deref().is_none_or(|part| knob.name.contains(part))
            && (!args.live || knob.takes == TakesEffect::Live)
            && (!args.changed || knob.layer != Layer::BuiltIn || knob.pending.is_some())
    });
    context.out.result(&all, |out, style| write(&all, out, style))
}

fn write(all: &Knobs, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let mut table = Table::new([
        Column::left("KNOB"),
        Column::left("VALUE"),
        Column::left("UNIT"),
        Column::left("LAYER"),
        Column::left("TAKES"),
        Column::left("MAY BE").wide(),
        Column::left("FROM").wide(),
    ]);
    for knob in &all.knobs {
        table.row([
            Cell::new(&knob.name).tone(Tone::Strong),
            Cell::new(value(knob)),
            Cell::new(knob.unit.as_deref().unwrap_or("")),
            Cell::new(knob.layer.name()).tone(if knob.layer == Layer::Live { Tone::Warn } else { Tone::Plain }),
            Cell::new(knob.takes.name()),
            Cell::new(knob.envelope.text()),
            Cell::new(knob.layers.first().map_or("", |layer| layer.origin.as_str())),
        ]);
    }
    table.write(out, style)?;
    writeln!(out, "revision {}{}", all.revision, if all.read_only { ", read-only" } else { "" })
}

/// The value, with the one that waits for a start.
pub fn value(knob: &Knob) -> String {
    let holds = knob.value.clone().unwrap_or_else(|| "–".to_string());
    match &knob.pending {
        Some(pending) => format!("{holds} (then {pending})"),
        None => holds,
    }
}
