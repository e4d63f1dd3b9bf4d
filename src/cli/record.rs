//! `lanekeeper record`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::text::{counted, millis};
use crate::control::{Arrivals, ExitCode};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Record what arrives at an engine, for `simulate --trace`: times, costs, lanes, outcomes, batch times. No content.
///
/// The engine remembers its last arrivals by itself (some ten thousand): --last writes those of the past at once, --for
/// waits for that long first. An interrupt ends the wait early and writes what has come.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// File to write, as JSON; `-` is stdout.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Record for so long from now on.
    #[arg(long = "for", value_name = "TIME", value_parser = super::duration::parse)]
    span: Option<Duration>,
    /// Record the last minutes at once.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10m",
        conflicts_with = "span",
        value_parser = super::duration::parse
    )]
    last: Duration,
    /// Record this model alone.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
}

pub fn run(context: &Context, args: &RecordArgs) -> CliResult {
    let client = context.client()?;
    let arrivals = context.block_on(async {
        let Some(span) = args.span else { return Ok(client.arrivals(args.last, args.model.as_deref()).await?) };
        // Asked once before the wait: a wrong engine, key or model is told now and not in ten minutes.
        client.arrivals(Duration::from_secs(1), args.model.as_deref()).await?;
        let began = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            interrupt = tokio::signal::ctrl_c() => {
                let failed = |e| CliError::new(ExitCode::Internal, format!("cannot wait for an interrupt: {e}"));
                interrupt.map_err(failed)?;
                context.out.note("interrupted: what has come so far is written");
            }
        }
        Ok(client.arrivals(began.elapsed(), args.model.as_deref()).await?)
    })?;
    write(&args.file, &arrivals)?;
    if !arrivals.complete {
        context.out.warn("the engine's memory does not reach back over the whole span: early arrivals are missing");
    }
    let (requests, batches) = (arrivals.arrivals.len() as u64, arrivals.batches.len() as u64);
    context.out.note(&format!(
        "{} and {} of {}",
        counted(requests, "request", "requests"),
        counted(batches, "batch", "batches"),
        millis(arrivals.span_ms)
    ));
    Ok(())
}

fn write(path: &Path, arrivals: &Arrivals) -> CliResult {
    let failed = |e| CliError::new(ExitCode::Internal, format!("cannot write the arrivals: {e}"));
    let text = serde_json::to_string(arrivals).map_err(failed)?;
    if path == Path::new("-") {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{text}")?;
        return Ok(());
    }
    std::fs::write(path, text + "\n").map_err(|e| CliError::file(path, "write", &e))
}
