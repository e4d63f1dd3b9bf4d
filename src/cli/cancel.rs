//! `lanekeeper cancel`.

use super::context::Context;
use super::error::CliResult;
use super::hold::{HandArgs, hand};
use crate::control::RequestPatch;
use clap::Args;

/// Cancel requests: queued work leaves its queue at once, running work stops at its next window or token.
///
/// That cannot be undone. Every cancellation is a line of the journal.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    hand: HandArgs,
}

pub fn run(context: &Context, args: &CancelArgs) -> CliResult {
    hand(context, &args.ids, &RequestPatch { cancelled: true, ..args.hand.patch() })
}
