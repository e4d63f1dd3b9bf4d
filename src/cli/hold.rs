//! `lanekeeper hold`, `release` and `move`: hands on single requests; and what they share with `cancel`.

use super::context::Context;
use super::error::CliResult;
use super::print::{Cell, Column, Table, Tone};
use crate::control::{ChangeAnswer, Lane, RequestChange, RequestPatch};
use clap::Args;
use std::time::Duration;

/// Hold requests back: they keep their age and their place by it, and are not taken until they are released.
///
/// A recording that runs in slices is held from its next slice on; what else runs can be cancelled, not held. A deadline
/// goes on, and a drain lets held work that has started go on to its end. With --ttl the engine lets go by itself, whatever
/// becomes of this command. Every hold is a line of the journal, and `journal revert` releases.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    hand: HandArgs,
    /// Let the engine release them by itself after so long: 90s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = super::duration::parse)]
    ttl: Option<Duration>,
}

/// Let held requests go: each comes back to the place of its age.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    hand: HandArgs,
}

/// Move waiting requests to the other lane of their model.
///
/// A recording among the clips waits for turns of clips and then runs whole; a clip among the recordings goes alone.
/// Each keeps its age. What runs cannot be moved. Every move is a line of the journal, and `journal revert` moves back what
/// waits still.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The lane to wait in: clips or recordings.
    #[arg(long, value_name = "LANE", value_parser = lane)]
    to: Lane,
    #[command(flatten)]
    hand: HandArgs,
}

/// Options of whatever is done with single requests.
#[derive(Debug, Args)]
pub struct HandArgs {
    /// Look for them and show before and after; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Why, for those who read the journal.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl HandArgs {
    /// What is asked for with these options: nothing yet.
    pub(super) fn patch(&self) -> RequestPatch {
        RequestPatch { dry_run: self.dry_run, reason: self.reason.clone(), ..RequestPatch::default() }
    }
}

pub fn hold(context: &Context, args: &HoldArgs) -> CliResult {
    let ttl_s = args.ttl.map(|ttl| ttl.as_secs_f64());
    hand(context, &args.ids, &RequestPatch { held: Some(true), ttl_s, ..args.hand.patch() })
}

pub fn release(context: &Context, args: &ReleaseArgs) -> CliResult {
    hand(context, &args.ids, &RequestPatch { held: Some(false), ..args.hand.patch() })
}

pub fn move_to(context: &Context, args: &MoveArgs) -> CliResult {
    hand(context, &args.ids, &RequestPatch { lane: Some(args.to), ..args.hand.patch() })
}

/// Does it to one after the other; the first error decides how the command ends, the others are told.
pub(super) fn hand(context: &Context, ids: &[String], patch: &RequestPatch) -> CliResult {
    let client = context.client()?;
    let (answers, first_error) = context.block_on(async {
        let (mut answers, mut first_error) = (Vec::new(), None);
        for id in ids {
            match client.patch(id, patch).await {
                Ok(answer) => answers.push(answer),
                Err(e) if first_error.is_none() => first_error = Some(e.into()),
                Err(e) => context.out.error(&e.into()),
            }
        }
        Ok((answers, first_error))
    })?;
    if !answers.is_empty() {
        let changes = || answers.iter().filter_map(|answer| answer.request.as_ref());
        context.out.result(&answers, |out, style| table(changes()).write(out, style))?;
        answers.iter().for_each(|answer| tell(context, patch, answer));
        if patch.dry_run {
            context.out.note("a dry run: nothing was changed");
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// What came of it for one request.
fn tell(context: &Context, patch: &RequestPatch, answer: &ChangeAnswer) {
    answer.warnings.iter().for_each(|warning| context.out.warn(warning));
    let Some(change) = &answer.request else { return };
    if answer.applied {
        let lease = patch.ttl_s.map(|s| format!(", released by the engine in {s} s")).unwrap_or_default();
        context.out.note(&format!("{} {}: revision {}{lease}", change.request, change.did(), answer.revision));
    } else if !patch.dry_run {
        context.out.note(&format!("{} has it already: {}", change.request, change.to));
    }
}

/// Requests before and after.
pub(super) fn table<'a>(changes: impl IntoIterator<Item = &'a RequestChange>) -> Table {
    let columns = ["REQUEST", "MODEL", "STATE", "WHAT", "FROM", "TO"];
    let mut table = Table::new(columns.map(Column::left));
    for change in changes {
        table.row([
            Cell::new(&change.request).tone(Tone::Strong),
            Cell::new(&change.model),
            Cell::new(change.state.name()),
            Cell::new(change.what()),
            Cell::new(change.from.to_string()),
            Cell::new(change.to.to_string()),
        ]);
    }
    table
}

fn lane(text: &str) -> Result<Lane, String> {
    let lanes = [Lane::Clips, Lane::Recordings];
    lanes.into_iter().find(|lane| lane.name() == text).ok_or_else(|| "lanes are clips and recordings".to_string())
}
