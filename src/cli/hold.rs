//! `lanekeeper hold`, `release` and `move`: hands on single requests.

use super::context::Context;
use super::error::CliResult;
use super::print::text::neutral;
use crate::control::{Lane, RequestPatch};
use clap::Args;

/// Hold requests back: they keep their age and their place by it, and are not taken until they are released.
///
/// A recording that runs in slices is held from its next slice on; what else runs can be cancelled, not held. A deadline
/// goes on, and a drain lets held work that has started go on to its end.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// Let held requests go: each comes back to the place of its age.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// Move waiting requests to the other lane of their model.
///
/// A recording among the clips waits for turns of clips and then runs whole; a clip among the recordings goes alone.
/// Each keeps its age. What runs cannot be moved.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The lane to wait in: clips or recordings.
    #[arg(long, value_name = "LANE", value_parser = lane)]
    to: Lane,
}

pub fn hold(context: &Context, args: &HoldArgs) -> CliResult {
    patch(context, &args.ids, RequestPatch { held: Some(true), lane: None }, "held")
}

pub fn release(context: &Context, args: &ReleaseArgs) -> CliResult {
    patch(context, &args.ids, RequestPatch { held: Some(false), lane: None }, "released")
}

pub fn move_to(context: &Context, args: &MoveArgs) -> CliResult {
    let done = format!("moved to {}", args.to.name());
    patch(context, &args.ids, RequestPatch { held: None, lane: Some(args.to) }, &done)
}

/// Does it to one after the other; the first error decides how the command ends, the others are told.
fn patch(context: &Context, ids: &[String], patch: RequestPatch, done: &str) -> CliResult {
    let client = context.client()?;
    context.block_on(async {
        let mut first_error = None;
        for id in ids {
            match client.patch(id, &patch).await {
                Ok(()) => context.out.note(&format!("{} {done}", neutral(id))),
                Err(e) if first_error.is_none() => first_error = Some(e.into()),
                Err(e) => context.out.error(&e.into()),
            }
        }
        first_error.map_or(Ok(()), Err)
    })
}

fn lane(text: &str) -> Result<Lane, String> {
    let lanes = [Lane::Clips, Lane::Recordings];
    lanes.into_iter().find(|lane| lane.name() == text).ok_or_else(|| "lanes are clips and recordings".to_string())
}
