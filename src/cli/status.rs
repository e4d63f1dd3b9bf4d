//! `lanekeeper status`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::noun::{WatchArgs, show};
use super::print::text::{bytes, counted, known, millis};
use super::print::{TableStyle, Tone};
use crate::control::ExitCode;
use crate::control::snapshot::{EngineState, ModelState, Snapshot};
use clap::Args;
use std::io::{self, Write};

/// Show whether the engine is well, in a few lines.
///
/// The data formats (-o json, yaml, ndjson) give the whole snapshot. With --ready the command says nothing and exits
/// with 0 when the engine can admit work now, and with 8 when it cannot.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    watch: WatchArgs,
    /// Only answer, by the exit code, whether the engine can admit work now.
    #[arg(long, conflicts_with = "watch")]
    ready: bool,
}

pub fn run(context: &Context, args: &StatusArgs) -> CliResult {
    if args.ready {
        let client = context.client()?;
        return context.block_on(async {
            client.readyz().await.map_err(|e| match e.exit_code() {
                ExitCode::Unhealthy => CliError::Silent(ExitCode::Unhealthy),
                _ => e.into(),
            })
        });
    }
    show(context, &args.watch, Snapshot::clone, page)
}

fn page(s: &Snapshot, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let tone = match s.state {
        EngineState::Ready => Tone::Good,
        EngineState::Degraded | EngineState::Stopped => Tone::Bad,
        EngineState::Starting | EngineState::Draining => Tone::Warn,
    };
    let name = super::print::text::neutral(&s.node);
    writeln!(
        out,
        "{} is {}, up {} (lanekeeper {}, pid {}, revision {})",
        Tone::Strong.paint(&name, style.colour),
        tone.paint(s.state.name(), style.colour),
        millis(s.uptime_ms as f64),
        super::print::text::neutral(&s.version),
        s.pid,
        s.revision
    )?;
    for reason in &s.reasons {
        writeln!(out, "  because {}", super::print::text::neutral(reason))?;
    }
    writeln!(
        out,
        "memory {} resident, {} of {} free; load {}; {}",
        known(s.host.resident_bytes, bytes),
        known(s.host.memory_available_bytes, bytes),
        known(s.host.memory_total_bytes, bytes),
        known(s.host.load_1m, |l| format!("{l:.2}")),
        counted(s.host.cpu_threads.into(), "thread", "threads"),
    )?;
    for device in &s.devices {
        let holder = device.holder.as_deref().map(|h| format!(", held by {h}")).unwrap_or_default();
        let memory = match (device.memory_used_bytes, device.memory_total_bytes) {
            (Some(used), Some(total)) => format!(", {} of {} used", bytes(used), bytes(total)),
            _ => String::new(),
        };
        let line = format!("device {}: {}{memory}{holder}", device.id, device.description);
        writeln!(out, "{}", super::print::text::neutral(&line))?;
    }
    let ready = s.models.iter().filter(|m| m.state == ModelState::Ready).count();
    writeln!(
        out,
        "{ready} of {} ready; {} alive",
        counted(s.models.len() as u64, "model", "models"),
        counted(s.requests.total, "request", "requests")
    )?;
    writeln!(out)?;
    super::models::table(s).write(out, style)
}
