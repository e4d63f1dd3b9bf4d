//! `lanekeeper cancel`.

use super::context::Context;
use super::error::CliResult;
use clap::Args;

/// Cancel requests: queued work leaves its queue at once, running work stops at its next window or token.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Request ids, as `lanekeeper requests` lists them (req-17).
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(context: &Context, args: &CancelArgs) -> CliResult {
    let client = context.client()?;
    context.block_on(async {
        let mut first_error = None;
        for id in &args.ids {
            match client.cancel(id).await {
                Ok(()) => context.out.note(&format!("{id} cancelled")),
                Err(e) => {
                    let e = e.into();
                    match first_error {
                        None => first_error = Some(e),
                        Some(_) => context.out.error(&e),
                    }
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    })
}
