//! `lanekeeper journal`.

use super::super::context::Context;
use super::super::error::CliResult;
use super::super::print::{Cell, Column, Table, TableStyle, Tone};
use super::change;
use super::set::TakeBackArgs;
use crate::control::ChangeRequest;
use crate::control::Journal;
use crate::control::changes::Entry;
use crate::control::ledger::utc;
use clap::{Args, Subcommand};
use std::io::{self, Write};

/// Show who changed which settings when, and why; or undo one of the changes.
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
    /// Undo a change: each of its knobs gets the live setting it had before, unless somebody moved it since.
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
        Column::left("KNOB"),
        Column::left("FROM"),
        Column::left("TO"),
        Column::left("ENDS"),
        Column::left("REASON"),
    ]);
    for entry in &journal.entries {
        rows(entry, &mut table);
    }
    table.write(out, style)?;
    match &journal.file {
        Some(file) => writeln!(out, "{file}"),
        None => writeln!(out, "this engine keeps no journal"),
    }
}

/// A row per knob; what concerns the whole entry stands in the first.
fn rows(entry: &Entry, table: &mut Table) {
    let first = [
        Cell::from(entry.revision).tone(Tone::Strong),
        Cell::new(utc(entry.at_ms)),
        Cell::new(match entry.reverts {
            Some(revision) => format!("revert of {revision}"),
            None => entry.kind.name().to_string(),
        }),
        Cell::new(&entry.actor),
    ];
    let ends = match (entry.expires_at_ms, entry.persist) {
        (Some(at), _) => utc(at),
        (None, true) => "never".to_string(),
        (None, false) => String::new(),
    };
    let last = [Cell::new(ends), Cell::new(entry.reason.as_deref().unwrap_or(""))];
    let (mut first, mut last) = (Some(first), Some(last));
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_string());
    let mut row = |knob: String, from: String, to: String| {
        let [a, b, c, d] = first.take().unwrap_or_else(|| std::array::from_fn(|_| Cell::new("")));
        let [g, h] = last.take().unwrap_or_else(|| std::array::from_fn(|_| Cell::new("")));
        table.row([a, b, c, d, Cell::new(knob), Cell::new(from), Cell::new(to), g, h]);
    };
    for change in &entry.changes {
        row(change.knob.clone(), value(&change.from), value(&change.to));
    }
    for held in &entry.overrides {
        row(held.knob.clone(), String::new(), held.value.clone());
    }
    if entry.changes.is_empty() && entry.overrides.is_empty() {
        row(String::new(), String::new(), String::new());
    }
}
