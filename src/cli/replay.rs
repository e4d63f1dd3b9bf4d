//! `lanekeeper replay`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::palette::Palette;
use super::print::text::millis;
use super::top::{LookArgs, ended};
use crate::client::{Moment, Tape, TapeError};
use crate::tui::{self, Acting, Actions, Asking, Interpreting, Meaning};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Play a recorded session in the console, as `lanekeeper record --snapshots` wrote it. No engine is needed.
///
/// Everything can be looked at, nothing changed. Space stops and goes on, Left and Right walk by seconds, [ and ] by
/// minutes, { and } go to the beginning and the end, < and > play slower and faster. With --plain, or where there is no
/// terminal, one line per snapshot is written, all at once. See lanekeeper-keys(7).
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Begin so far into it.
    #[arg(long, value_name = "TIME", value_parser = super::duration::parse)]
    from: Option<Duration>,
    /// One line of plain text per snapshot.
    #[arg(long, conflicts_with = "inline")]
    plain: bool,
    #[command(flatten)]
    look: LookArgs,
}

pub fn run(context: &Context, args: &ReplayArgs) -> CliResult {
    if context.out.is_data() {
        return Err(CliError::usage("`replay` is for people: it has no data format")
            .hint("the recording is lines of JSON already; lanekeeper-record(1) says which"));
    }
    let tape = Tape::open(&args.file)?;
    if tape.cut {
        context.out.note("the recording was cut off within its last line: what came before is played");
    }
    let from_ms = args.from.map_or(0, |from| from.as_millis() as u64);
    if from_ms > tape.length_ms() {
        let length = millis(tape.length_ms() as f64);
        return Err(CliError::usage(format!("the recording is {length} long: --from is behind its end")));
    }
    let (mut options, _) = args.look.options()?;
    options.read_only = true;
    if args.plain || (!options.facts.interactive && options.inline.is_none()) {
        return lines(context, &tape, from_ms);
    }
    let tape = Arc::new(tape);
    if !options.facts.interactive {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(tui::still_of_tape(tape, from_ms, &options).as_bytes())?;
        stdout.flush()?;
        return Ok(());
    }
    context.block_on(async { ended(tui::replay(tape, from_ms, TapeActions, options).await?) })
}

/// A line per snapshot; that the engine was away is a remark.
fn lines(context: &Context, tape: &Tape, from_ms: u64) -> CliResult {
    let mut stdout = std::io::stdout().lock();
    for (_, moment) in tape.moments.iter().filter(|(t_ms, _)| *t_ms >= from_ms) {
        match moment {
            Moment::Snapshot(snapshot) => writeln!(stdout, "{}", tui::plain_line(snapshot))?,
            Moment::Away(why) => context.out.note(&format!("away: {why}")),
            Moment::Knobs(_) => {}
        }
    }
    stdout.flush()?;
    Ok(())
}

/// What can be asked of an engine that was: nothing.
struct TapeActions;

const NO_ENGINE: &str = "a recording plays: there is no engine to ask";

impl Actions for TapeActions {
    fn cancel(&self, _request: &str) -> Acting {
        Box::pin(async { Err(NO_ENGINE.to_string()) })
    }

    fn knobs(&self) -> Asking {
        Box::pin(async { Err(NO_ENGINE.to_string()) })
    }

    fn words(&self) -> Vec<String> {
        Palette::words()
    }

    fn interpret(&self, line: &str) -> Interpreting {
        let refused = Meaning::Refused(format!("{line}: {NO_ENGINE}"));
        Box::pin(async { refused })
    }

    fn run(&self, _line: &str) -> Acting {
        Box::pin(async { Err(NO_ENGINE.to_string()) })
    }
}

impl From<TapeError> for CliError {
    fn from(error: TapeError) -> CliError {
        CliError::new(error.exit_code(), error.to_string()).hint(error.hint())
    }
}
