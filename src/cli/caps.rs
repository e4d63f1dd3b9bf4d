//! `lanekeeper caps`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{ModelArgs, WatchArgs, show_of};
use super::print::text::{figure, known, millis};
use super::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::Op;
use crate::control::snapshot::{Caps, Controller, Snapshot};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};

/// Show what bounds each model's batches: caps with their origin and range, and what moved them.
///
/// EFFECTIVE is what binds now: the smaller of the cost cap and the hard cap. The controller, where it is on, moves cap
/// and window within their range; every move has its cause.
#[derive(Debug, Args)]
pub struct CapsArgs {
    #[command(flatten)]
    of: ModelArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct NamedCaps {
    model: String,
    op: Op,
    caps: Caps,
    controller: Controller,
}

pub fn run(context: &Context, args: &CapsArgs) -> CliResult {
    let section = |s: &Snapshot| -> Vec<NamedCaps> {
        let queues =
            s.models.iter().filter(|m| args.of.wants(&m.id)).flat_map(|m| m.queues.iter().map(|q| (m.id.clone(), q)));
        let named = |(model, q): (String, &crate::control::snapshot::Queue)| NamedCaps {
            model,
            op: q.op,
            caps: q.caps.clone(),
            controller: q.controller.clone(),
        };
        queues.map(named).collect()
    };
    show_of(context, &args.watch, &args.of, section, |s, out, style| write(&section(s), out, style))
}

fn write(all: &[NamedCaps], out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "no model runs batches");
    }
    let mut table = Table::new([
        Column::left("MODEL"),
        Column::left("OP"),
        Column::right("EFFECTIVE"),
        Column::right("CAP").spare(1),
        Column::right("HARD").spare(2),
        Column::right("FLOOR").spare(3),
        Column::right("CEILING").spare(4),
        Column::left("SOURCE"),
        Column::right("ITEMS"),
        Column::right("WAIT"),
        Column::right("WAITS").wide(),
        Column::right("COALESCE").wide(),
        Column::right("DEPTH").spare(5),
        Column::right("QUEUE").wide(),
        Column::left("CONTROLLER"),
        Column::right("TARGET").wide(),
        Column::right("P50").wide(),
        Column::right("FILL").wide(),
        Column::right("RESETS").wide(),
    ]);
    for NamedCaps { model, op, caps, controller } in all {
        let bound = caps.max_batch_cost_effective < caps.max_batch_cost;
        let mode = match (controller.mode.as_str(), controller.frozen, controller.calibrated) {
            ("off", ..) => "off".to_string(),
            (mode, true, _) => format!("{mode}, frozen"),
            (mode, _, false) => format!("{mode}, calibrating"),
            (mode, ..) => mode.to_string(),
        };
        table.row([
            Cell::new(model).tone(Tone::Strong),
            (*op).into(),
            Cell::from(caps.max_batch_cost_effective).tone(if bound { Tone::Warn } else { Tone::Plain }),
            caps.max_batch_cost.into(),
            known(caps.max_batch_cost_hard, |n| n.to_string()).into(),
            known(caps.max_batch_cost_floor, |n| n.to_string()).into(),
            known(caps.max_batch_cost_ceiling, |n| n.to_string()).into(),
            Cell::new(&caps.max_batch_cost_source),
            caps.max_batch_requests.into(),
            millis(caps.wait_ms).into(),
            known(caps.wait_floor_ms.zip(caps.wait_ceiling_ms), |(floor, ceiling)| {
                format!("{} to {}", millis(floor), millis(ceiling))
            })
            .into(),
            millis(caps.coalesce_ms).into(),
            caps.depth.into(),
            caps.max_queue.into(),
            Cell::new(mode).tone(if controller.frozen { Tone::Warn } else { Tone::Plain }),
            known(controller.target_ms, millis).into(),
            known(controller.observed_p50_ms, millis).into(),
            known(controller.fill_ratio, |f| format!("{:.0}%", f * 100.0)).into(),
            controller.resets.into(),
        ]);
    }
    table.write(out, style)?;
    let mut moves = Table::new([
        Column::left("MOVED"),
        Column::left("MODEL"),
        Column::left("OP"),
        Column::right("FROM"),
        Column::right("TO"),
        Column::left("CAUSE"),
        Column::right("AGO"),
    ]);
    let mut any = false;
    for NamedCaps { model, op, controller, .. } in all {
        for moved in &controller.moves {
            any = true;
            moves.row([
                Cell::new(&moved.knob),
                Cell::new(model),
                (*op).into(),
                figure(moved.from).into(),
                figure(moved.to).into(),
                Cell::new(moved.cause.replace('_', " ")),
                millis(moved.ago_ms).into(),
            ]);
        }
    }
    if any {
        writeln!(out)?;
        moves.write(out, style)?;
    }
    Ok(())
}
