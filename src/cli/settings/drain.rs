//! `lanekeeper drain` and `lanekeeper undrain`.

use super::super::context::Context;
use super::super::error::{CliError, CliResult};
use super::super::print::text::counted;
use super::{ChangeArgs, change, refused, tell};
use crate::control::{ChangeRequest, ExitCode};
use clap::Args;
use std::time::Duration;
use tokio::time::Instant;

/// The knob that it is.
const KNOB: &str = "admission.draining";

/// Have the engine take no new work, and wait until what runs has ended.
///
/// New work and what waits is answered 503; the engine stays up, and `undrain` opens it again.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Return at once instead of waiting for running work.
    #[arg(long)]
    no_wait: bool,
    /// Wait at most so long; exits with 7 when work still runs then.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = super::super::duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    options: ChangeArgs,
}

/// Take new work again after a drain.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    #[command(flatten)]
    options: ChangeArgs,
}

pub fn drain(context: &Context, args: &DrainArgs) -> CliResult {
    let client = context.client()?;
    let mut request = args.options.request();
    request.set.insert(KNOB.to_string(), "true".to_string());
    context.block_on(async {
        let answer = client.change(&request).await.map_err(refused)?;
        tell(context, &request, &answer)?;
        if args.no_wait || request.dry_run {
            return Ok(());
        }
        let end = Instant::now() + args.timeout;
        let mut stream = client.watch(Duration::from_millis(250)).await?;
        let mut said = None;
        loop {
            let next = tokio::time::timeout_at(end, stream.next()).await;
            let left = match next {
                Ok(snapshot) => snapshot?.map(|snapshot| snapshot.requests.total),
                Err(_) => {
                    let left = counted(said.unwrap_or(0), "request runs", "requests run");
                    return Err(CliError::new(ExitCode::TimedOut, format!("{left} still, after {:?}", args.timeout))
                        .hint("the drain goes on: `lanekeeper status` tells, `lanekeeper undrain` calls it off"));
                }
            };
            match left {
                // The stream ends with the engine.
                None | Some(0) => {
                    context.out.note("drained: nothing runs");
                    return Ok(());
                }
                Some(left) if said != Some(left) => {
                    context.out.note(&format!("{} to end", counted(left, "request", "requests")));
                    said = Some(left);
                }
                Some(_) => {}
            }
        }
    })
}

pub fn undrain(context: &Context, args: &UndrainArgs) -> CliResult {
    let mut request = args.options.request();
    match request.ttl_s {
        None => request = ChangeRequest { unset: vec![KNOB.to_string()], ..request },
        Some(_) => drop(request.set.insert(KNOB.to_string(), "false".to_string())),
    }
    change(context, &request)
}
