//! `lanekeeper wait`.

use super::context::Context;
use super::error::{CliError, CliResult};
use crate::control::predicate::{Predicate, Reading, document};
use crate::control::{ExitCode, Snapshot};
use clap::Args;
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// Time between the snapshots that are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Wait until a condition on the engine's snapshot holds.
///
/// Exits with 0 as soon as it does, with 7 when the time is over, with 3 when the engine goes away first, and with 5 when
/// the condition names what the engine does not have. With --timeout 0 it is looked at once: 8 when it does not hold. A
/// condition is what lanekeeper-conditions(7) says, such as 'models.whisper.lanes.clips.pending==0'; what is unknown does
/// not hold yet. The engine sends a snapshot ten times a second: what comes and goes in between is not seen.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// What to wait for.
    #[arg(long = "for", value_name = "CONDITION", value_parser = Predicate::parse)]
    condition: Predicate,
    /// Wait at most so long: 90s, 10m, 2h.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::duration::parse)]
    timeout: Duration,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Met<'a> {
    condition: &'a str,
    after_ms: f64,
    readings: Vec<Reading>,
}

pub fn run(context: &Context, args: &WaitArgs) -> CliResult {
    let client = context.client()?;
    context.block_on(async {
        let began = Instant::now();
        // Whoever looks once waits for the first snapshot all the same.
        let end = (!args.timeout.is_zero()).then(|| began + args.timeout);
        let mut stream = client.watch(INTERVAL).await?;
        let mut last: Option<Vec<Reading>> = None;
        loop {
            let next = match end {
                Some(end) => tokio::time::timeout_at(end, stream.next()).await,
                None => Ok(stream.next().await),
            };
            let Ok(next) = next else { return Err(late(args, last.as_deref())) };
            let Some(snapshot) = next? else { return Err(gone(args, last.as_deref())) };
            let judged = document(&snapshot);
            if last.is_none() {
                args.condition.check::<Snapshot>(&judged).map_err(|error| {
                    CliError::new(ExitCode::Refused, format!("this means nothing to `{}`: {error}", snapshot.node))
                })?;
            }
            let readings = args.condition.readings(&judged);
            if args.condition.judge(&judged) == Some(true) {
                let after_ms = began.elapsed().as_secs_f64() * 1_000.0;
                let met = Met { condition: args.condition.text(), after_ms, readings };
                return match context.out.is_data() {
                    true => context.out.result(&met, |_, _| Ok(())),
                    false => {
                        context.out.note(&format!("{} after {:.1} s", said(&met.readings), after_ms / 1_000.0));
                        Ok(())
                    }
                };
            }
            if end.is_none() {
                let message = format!("it does not hold: {}", said(&readings));
                return Err(CliError::new(ExitCode::Unhealthy, message));
            }
            last = Some(readings);
        }
    })
}

fn late(args: &WaitArgs, last: Option<&[Reading]>) -> CliError {
    let seen = last.map_or("no snapshot came".to_string(), said);
    CliError::new(ExitCode::TimedOut, format!("`{}` not within {:?}: {seen}", args.condition.text(), args.timeout))
}

fn gone(args: &WaitArgs, last: Option<&[Reading]>) -> CliError {
    let seen = last.map(|last| format!(": at last {}", said(last))).unwrap_or_default();
    CliError::new(ExitCode::Unreachable, format!("the engine ended before `{}`{seen}", args.condition.text()))
}

/// The values in a sentence.
fn said(readings: &[Reading]) -> String {
    readings.iter().map(Reading::to_string).collect::<Vec<_>>().join(", ")
}
