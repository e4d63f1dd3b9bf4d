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

/// Libraries whose log lines are about a single upload (bytes skipped, lengths guessed). Whoever can send files could
/// fill the log with them; what they mean for a request is in its answer. A filter that names them shows them again.
const CHATTY: [&str; 1] = ["symphonia"];

/// The filter that `level` means: the levels that it names, with [`CHATTY`] silent unless it names them too.
fn filter(level: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let mut filter = EnvFilter::try_new(level)?;
    for library in CHATTY.iter().filter(|library| !level.contains(*library)) {
        filter = filter.add_directive(format!("{library}=off").parse()?);
    }
    Ok(filter)
}

/// Starts logging. Once per process: the first call wins.
pub fn start(out: &Out, args: &LogArgs) -> CliResult {
    let filter = filter(&args.level).map_err(|e| {
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

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn what_uploads_make_libraries_say_is_not_logged_unless_asked_for() {
        for level in ["info", "debug", "lanekeeper=trace"] {
            let directives = filter(level).unwrap().to_string();
            assert!(directives.contains("symphonia=off") && directives.contains(level), "{directives}");
        }
        assert!(!filter("info,symphonia_core=warn").unwrap().to_string().contains("off"));
        assert!(filter("nonsense=foo=bar").is_err());
    }
}
