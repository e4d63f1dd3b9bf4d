//! The commands that show and change settings of a running engine. What they share: the options of a change, and how its
//! outcome is told.

pub mod apply;
pub mod diff;
pub mod drain;
pub mod get;
pub mod hands;
pub mod journal;
pub mod knobs;
pub mod set;
pub mod trial;

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::text::counted;
use super::print::{Cell, Column, Table, Tone};
use crate::client::ClientError;
use crate::control::changes::KnobChange;
use crate::control::knobs::{Knob, TakesEffect};
use crate::control::{ChangeAnswer, ChangeRequest, ExitCode};
use crate::profile::nearest;
use clap::Args;
use std::time::Duration;

/// Options of every change.
#[derive(Debug, Clone, Default, Args)]
pub struct ChangeArgs {
    /// Check it and show before and after; change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Why, for those who read the journal.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Let the engine undo it by itself after so long: 90s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = super::duration::parse)]
    pub ttl: Option<Duration>,
    /// Do it only while the settings have this revision, as `knobs` and `status` tell.
    #[arg(long, value_name = "N")]
    pub if_revision: Option<u64>,
}

/// Whether a change outlives the engine.
#[derive(Debug, Clone, Default, Args)]
pub struct PersistArgs {
    /// Bring it back whenever the engine is started again.
    #[arg(long, conflicts_with = "ttl")]
    pub persist: bool,
}

impl ChangeArgs {
    /// A change with these options that changes nothing yet.
    pub fn request(&self) -> ChangeRequest {
        ChangeRequest {
            dry_run: self.dry_run,
            reason: self.reason.clone(),
            ttl_s: self.ttl.map(|ttl| ttl.as_secs_f64()),
            if_revision: self.if_revision,
            ..ChangeRequest::default()
        }
    }
}

/// Asks for a change and tells what came of it.
pub fn change(context: &Context, request: &ChangeRequest) -> CliResult {
    let client = context.client()?;
    let answer = context.block_on(async { client.change(request).await.map_err(refused) })?;
    tell(context, request, &answer)
}

/// A refusal may name several faults, each on a line of its own: the first is the message, the rest stand below.
pub fn refused(error: ClientError) -> CliError {
    error.into()
}

pub fn tell(context: &Context, request: &ChangeRequest, answer: &ChangeAnswer) -> CliResult {
    for warning in &answer.warnings {
        context.out.warn(warning);
    }
    context.out.result(answer, |out, style| {
        if let Some(change) = &answer.request {
            return super::hold::table([change]).write(out, style);
        }
        if answer.changes.is_empty() {
            return writeln!(out, "nothing to change: revision {} has it already", answer.revision);
        }
        table(&answer.changes).write(out, style)
    })?;
    if request.dry_run {
        context.out.note("a dry run: nothing was changed");
    } else if answer.applied {
        let restart = answer.changes.iter().filter(|c| c.takes == TakesEffect::Restart).count() as u64;
        let guard = request.guard.as_ref().map(|guard| format!(", or as soon as this does not hold: {guard}"));
        let guard = guard.unwrap_or_default();
        let lease = request.ttl_s.map(|s| format!(", undone by the engine in {s} s{guard}")).unwrap_or_default();
        context.out.note(&format!("revision {}{lease}", answer.revision));
        if restart > 0 {
            let what = counted(restart, "setting takes", "settings take");
            context.out.note(&format!("{what} effect when the engine is started again"));
        }
    }
    Ok(())
}

pub fn table(changes: &[KnobChange]) -> Table {
    let mut table = Table::new([Column::left("KNOB"), Column::left("FROM"), Column::left("TO"), Column::left("TAKES")]);
    for change in changes {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_string());
        table.row([
            Cell::new(&change.knob).tone(Tone::Strong),
            Cell::new(value(&change.from)),
            Cell::new(value(&change.to)),
            Cell::new(change.takes.name()),
        ]);
    }
    table
}

/// The knob of a name; an unknown one names the nearest.
pub fn find<'k>(all: &'k [Knob], name: &str) -> CliResult<&'k Knob> {
    all.iter().find(|knob| knob.name == name).ok_or_else(|| {
        let error = CliError::new(ExitCode::Refused, format!("there is no knob `{name}` here"));
        let near = nearest(name, all.iter().map(|knob| knob.name.as_str()));
        let ends = || all.iter().find(|knob| knob.name.ends_with(&format!(".{name}"))).map(|knob| knob.name.as_str());
        match near.or_else(ends) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`lanekeeper knobs` lists them"),
        }
    })
}
