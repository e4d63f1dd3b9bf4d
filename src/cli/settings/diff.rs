//! `lanekeeper diff`.

use super::super::context::Context;
use super::super::error::{CliError, CliResult};
use super::super::print::text::millis;
use super::super::print::{Cell, Column, Table, Tone};
use crate::control::ExitCode;
use crate::control::changes::Override;
use clap::Args;
use serde::Serialize;

/// Show what operators have set live, beside what would hold without it. Exits with 10 when there is anything.
#[derive(Debug, Args)]
pub struct DiffArgs {}

#[derive(Debug, Serialize)]
struct Difference {
    #[serde(flatten)]
    live: Override,
    /// What would hold without it; absent = none would be set.
    without: Option<String>,
    /// Where that stands.
    from: Option<String>,
}

pub fn run(context: &Context, _: &DiffArgs) -> CliResult {
    let client = context.client()?;
    let differences = context.block_on(async {
        let (snapshot, all) = (client.snapshot().await?, client.knobs().await?);
        let of = |live: &Override| {
            let knob = all.knobs.iter().find(|knob| knob.name == live.knob);
            let below = knob.and_then(|k| k.layers.iter().find(|l| l.layer != crate::control::knobs::Layer::Live));
            Difference {
                live: live.clone(),
                without: below.and_then(|layer| layer.value.clone()),
                from: below.map(|layer| layer.origin.clone()),
            }
        };
        Ok(snapshot.overrides.iter().map(of).collect::<Vec<_>>())
    })?;
    context.out.result(&differences, |out, style| {
        if differences.is_empty() {
            return writeln!(out, "no live setting");
        }
        let mut table = Table::new([
            Column::left("KNOB"),
            Column::left("LIVE"),
            Column::left("WITHOUT"),
            Column::right("ENDS IN"),
            Column::left("BY"),
            Column::right("REVISION"),
            Column::left("REASON"),
            Column::left("GUARD"),
            Column::left("FROM").wide(),
        ]);
        for Difference { live, without, from } in &differences {
            let ends = match (live.left_ms, live.persist) {
                (Some(left), _) => millis(left),
                (None, true) => "never".to_string(),
                (None, false) => "–".to_string(),
            };
            table.row([
                Cell::new(&live.knob).tone(Tone::Strong),
                Cell::new(&live.value).tone(Tone::Warn),
                Cell::new(without.as_deref().unwrap_or("–")),
                Cell::new(ends),
                Cell::new(&live.actor),
                live.revision.into(),
                Cell::new(live.reason.as_deref().unwrap_or("")),
                Cell::new(live.guard.as_deref().unwrap_or("")),
                Cell::new(from.as_deref().unwrap_or("")),
            ]);
        }
        table.write(out, style)
    })?;
    if differences.is_empty() { Ok(()) } else { Err(CliError::Silent(ExitCode::Differences)) }
}
