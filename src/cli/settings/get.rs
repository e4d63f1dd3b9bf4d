//! `lanekeeper get`.

use super::super::context::Context;
use super::super::error::CliResult;
use super::super::print::{Cell, Column, Table, TableStyle, Tone};
use super::find;
use super::knobs::value;
use crate::control::knobs::Knob;
use clap::Args;
use std::io::{self, Write};

/// Show settings: the value, every layer that says something, what it may be, and what it does.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Knobs, as `lanekeeper knobs` lists them.
    #[arg(required = true, value_name = "KNOB")]
    names: Vec<String>,
}

pub fn run(context: &Context, args: &GetArgs) -> CliResult {
    let client = context.client()?;
    let all = context.block_on(async { Ok(client.knobs().await?) })?;
    let found: Vec<&Knob> = args.names.iter().map(|name| find(&all.knobs, name)).collect::<CliResult<_>>()?;
    context.out.result(&found, |out, style| {
        for (i, knob) in found.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            write(knob, out, style)?;
        }
        Ok(())
    })
}

fn write(knob: &Knob, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let unit = knob.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
    writeln!(out, "{} = {}{unit}", Tone::Strong.paint(&knob.name, style.colour), value(knob))?;
    writeln!(out, "  {}", knob.doc)?;
    let may = knob.envelope.text();
    if !may.is_empty() {
        let reason = knob.envelope.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        writeln!(out, "  may be: {may}{reason}")?;
    }
    writeln!(
        out,
        "  a change takes effect: {}",
        match knob.takes.name() {
            "live" => "at once",
            _ => "when the engine is started again",
        }
    )?;
    let mut table = Table::new([Column::left("  LAYER"), Column::left("VALUE"), Column::left("FROM")]);
    for (i, layer) in knob.layers.iter().enumerate() {
        table.row([
            Cell::new(format!("  {}", layer.layer.name())).tone(if i == 0 { Tone::Strong } else { Tone::Dim }),
            Cell::new(layer.value.as_deref().unwrap_or("–")),
            Cell::new(&layer.origin),
        ]);
    }
    table.write(out, style)
}
