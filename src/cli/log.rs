//! The engine's log: to stderr, as text or JSON. Requests' texts, audio and keys never reach it.

use super::error::{CliError, CliResult};
use super::print::Out;
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// How an engine logs.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// What is logged to stderr: off, error, warn, info, debug, trace, or a filter such as lanekeeper=debug.
    #[arg(long = "log", value_name = "LEVEL", env = "LANEKEEPER_LOG", hide_env_values = true, default_value = "info")]
    pub level: String,
    /// Form of the log.
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    pub log_format: LogFormat,
}

/// Forms of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

/// Starts logging. Once per process: the first call wins.
pub fn start(out: &Out, args: &LogArgs) -> CliResult {
    let filter = EnvFilter::try_new(&args.level).map_err(|e| {
        CliError::usage(format!("`{}` is not a log filter: {e}", args.level))
            .hint("use off, error, warn, info, debug or trace")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that somebody logs already, in a test process: nothing is lost.
    let _ = match args.log_format {
        LogFormat::Text => builder.with_ansi(out.colour_err).with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
