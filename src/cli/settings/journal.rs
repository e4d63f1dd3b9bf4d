//! `lanekeeper journal`.

use super::super::context::Context;
use super::super::error::CliResult;
use super::super::print::text::millis;
use super::super::print::{Cell, Column, Table, TableStyle, Tone};
use super::change;
use super::set::TakeBackArgs;
use crate::control::ChangeRequest;
use crate::control::changes::{Effect, Entry, EntryKind, LaneEffect};
use crate::control::{Journal, Lane, RequestChange, utc};
use clap::{Args, Subcommand};
use std::io::{self, Write};

/// Show who changed which settings when and who had a hand in which requests, and why; or undo one of these.
///
/// `-o wide` and the data formats also tell what each change did: how the lanes waited and what they served in the time
/// before it and after it (control.effect_window_s, a minute unless set). That is known when the time after it is over.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct JournalArgs {
    /// Show the last N entries.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    last: usize,
    #[command(subcommand)]
    command: Option<JournalCommand>,
}

#[derive(Debug, Subcommand)]
enum JournalCommand {
    /// Undo a change: each of its knobs gets the live setting it had before, unless somebody moved it since. A request that
    /// was held is released, one that was moved goes back if it waits still; what was cancelled is gone.
    Revert {
        /// The change's revision.
        #[arg(value_name = "REVISION")]
        revision: u64,
        #[command(flatten)]
        options: TakeBackArgs,
    },
}

pub fn run(context: &Context, args: &JournalArgs) -> CliResult {
    if let Some(JournalCommand::Revert { revision, options }) = &args.command {
        let request = ChangeRequest { revert: Some(*revision), ..options.request() };
        return change(context, &request);
    }
    let client = context.client()?;
    let journal = context.block_on(async { Ok(client.journal(args.last).await?) })?;
    context.out.result(&journal, |out, style| write(&journal, out, style))
}

fn write(journal: &Journal, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let mut table = Table::new([
        Column::right("REVISION"),
        Column::left("AT"),
        Column::left("WHAT"),
        Column::left("BY"),
        Column::left("ABOUT"),
        Column::left("FROM"),
        Column::left("TO"),
        Column::left("ENDS"),
        Column::left("REASON"),
        Column::left("EFFECT").wide(),
    ]);
    for entry in &journal.entries {
        rows(entry, style.wide, &mut table);
    }
    table.write(out, style)?;
    match &journal.file {
        Some(file) => writeln!(out, "{file}"),
        None => writeln!(out, "this engine keeps no journal"),
    }
}

/// A row per knob or request, and per lane of the effect where that is shown; what concerns the whole entry stands in the first.
fn rows(entry: &Entry, wide: bool, table: &mut Table) {
    let first = [
        Cell::from(entry.revision).tone(Tone::Strong),
        Cell::new(utc(entry.at_ms)),
        Cell::new(match entry.reverts {
            Some(revision) if entry.kind == EntryKind::Breach => format!("breach of {revision}"),
            Some(revision) => format!("revert of {revision}"),
            None if entry.kind == EntryKind::Hand => {
                entry.request.as_ref().map_or(entry.kind.name(), RequestChange::what).to_string()
            }
            None => entry.kind.name().to_string(),
        }),
        Cell::new(&entry.actor),
    ];
    let ends = match (entry.expires_at_ms, entry.persist) {
        (Some(at), _) => utc(at),
        (None, true) => "never".to_string(),
        (None, false) => String::new(),
    };
    let reason = match (&entry.reason, &entry.guard) {
        (Some(reason), Some(guard)) => format!("{reason} (guard: {guard})"),
        (None, Some(guard)) => format!("(guard: {guard})"),
        (reason, None) => reason.clone().unwrap_or_default(),
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_string());
    let changed = entry.changes.iter().map(|c| [c.knob.clone(), value(&c.from), value(&c.to)]);
    let held = entry.overrides.iter().map(|held| [held.knob.clone(), String::new(), held.value.clone()]);
    let request =
        entry.request.iter().map(|r| [format!("{} of {}", r.request, r.model), r.from.to_string(), r.to.to_string()]);
    let mut knobs: Vec<[String; 3]> = changed.chain(held).chain(request).collect();
    let effects = entry.effect.as_ref().filter(|_| wide).map_or_else(Vec::new, effects);
    knobs.resize_with(knobs.len().max(effects.len()).max(1), || std::array::from_fn(|_| String::new()));
    let (mut first, mut last, mut effects) = (Some(first), Some([ends, reason]), effects.into_iter());
    for [knob, from, to] in knobs {
        let [revision, at, what, by] = first.take().unwrap_or_else(|| std::array::from_fn(|_| Cell::new("")));
        let [ends, reason] = last.take().unwrap_or_default();
        let effect = effects.next().unwrap_or_default();
        let rest = [knob, from, to, ends, reason, effect].map(Cell::new);
        table.row([revision, at, what, by].into_iter().chain(rest).collect::<Vec<_>>());
    }
}

/// What a change did, a line per lane.
fn effects(effect: &Effect) -> Vec<String> {
    let beside = match effect.beside.as_slice() {
        [] => String::new(),
        others => format!(" (with {})", others.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    if effect.lanes.is_empty() {
        return vec![format!("nothing was asked for in {} s{beside}", effect.window_s)];
    }
    let ms = |value: Option<f64>| value.map_or("–".to_string(), millis);
    let line = |lane: &LaneEffect| {
        let (before, after) = (&lane.before, &lane.after);
        format!(
            "{}/{}: wait p50 {} to {}, p95 {} to {}, {:.2} to {:.2}/s{beside}",
            lane.model,
            lane.lane.map_or(lane.op.name(), Lane::name),
            ms(before.wait_p50_ms),
            ms(after.wait_p50_ms),
            ms(before.wait_p95_ms),
            ms(after.wait_p95_ms),
            before.served_per_s,
            after.served_per_s,
        )
    };
    effect.lanes.iter().map(line).collect()
}
