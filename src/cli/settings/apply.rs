//! `lanekeeper apply`.

use super::super::context::Context;
use super::super::error::{CliError, CliResult};
use super::{ChangeArgs, PersistArgs, change};
use crate::profile::{ChangeFile, read_changes};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Change settings as a YAML file says: all of it, or nothing.
///
/// The file has `set` (knobs and values, nested or dotted), `unset` (a list of knobs), and optionally `reason`, `ttl`,
/// `guard` (a condition as for `try`, with `ttl`) and `persist`. Options of the command line win over the file. Faults are told with line and column.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The file; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    options: ChangeArgs,
    #[command(flatten)]
    persist: PersistArgs,
}

pub fn run(context: &Context, args: &ApplyArgs) -> CliResult {
    let name = if args.file == Path::new("-") { "stdin".to_string() } else { args.file.display().to_string() };
    let file = read_changes(&text(&args.file)?, &name)?;
    let mut request = args.options.request();
    request.set = file.set.iter().map(|(knob, value, _)| (knob.clone(), value.clone())).collect();
    request.unset = file.unset.iter().map(|(knob, _)| knob.clone()).collect();
    request.reason = request.reason.or_else(|| file.reason.clone());
    request.guard = file.guard.clone();
    request.persist = args.persist.persist || (args.options.ttl.is_none() && file.persist.unwrap_or(false));
    request.ttl_s = request.ttl_s.or(file.ttl_s.filter(|_| !args.persist.persist));
    change(context, &request).map_err(|error| placed(error, &file))
}

fn text(path: &Path) -> CliResult<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|e| CliError::file(path, "read", &e))?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(|e| CliError::file(path, "read", &e))
}

/// Puts before each line of a refusal where the file says what it is about.
fn placed(error: CliError, file: &ChangeFile) -> CliError {
    let CliError::Failed { code, message, hints } = error else { return error };
    let place = |line: &str| {
        let named = line.split('`').skip(1).step_by(2).find_map(|name| file.place(name));
        named.map_or(line.to_string(), |at| format!("{at}: {line}"))
    };
    let message = message.lines().map(place).collect::<Vec<_>>().join("\n");
    CliError::Failed { code, message, hints }
}
