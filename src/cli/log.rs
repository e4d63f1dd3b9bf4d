//! The engine's log: to stderr, as text or JSON. Requests' texts, audio and keys never reach it.

mod writer;

use super::error::{CliError, CliResult};
use super::print::Out;
use crate::control::ExitCode;
use crate::engine::runtime::LogSwitch;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::os::fd::AsFd;
use tracing_subscriber::EnvFilter;
use writer::LogWriter;

/// How an engine logs.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// What is logged to stderr: off, error, warn, info, debug, trace, or a filter such as lanekeeper=debug [default:
    /// info]. While the profile or an operator sets log.level, that holds.
    #[arg(long = "log", value_name = "LEVEL", env = "LANEKEEPER_LOG", hide_env_values = true)]
    pub level: Option<String>,
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

/// What is logged where nobody says.
const USUAL: &str = "info";

/// A log that has begun.
pub struct Log {
    /// Changes what is logged: to a level, or back to what the arguments say.
    pub switch: LogSwitch,
    /// Dropped at the end of the process.
    pub rest: Rest,
}

/// Dropping it writes out what is still on its way, as long as that takes no second.
pub struct Rest(LogWriter);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.settle();
    }
}

/// Starts logging. Once per process: the first call wins.
pub fn start(out: &Out, args: &LogArgs) -> CliResult<Log> {
    let told = args.level.clone().unwrap_or_else(|| USUAL.to_string());
    let filter = filter(&told).map_err(|e| {
        CliError::usage(format!("`{told}` is not a log filter: {e}")).hint("use off, error, warn, info, debug or trace")
    })?;
    // A handle of its own: the process's is locked while somebody writes.
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let writer = stderr
        .and_then(LogWriter::start)
        .map_err(|e| CliError::new(ExitCode::Internal, format!("cannot start the log: {e}")))?;
    let rest = Rest(writer.clone());
    // A panic in a request is told like the rest: who panics does not wait for a stderr that takes nothing.
    let panics = writer.clone();
    std::panic::set_hook(Box::new(move |panic| panics.line(super::panic_line(panic).into_bytes())));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // A failure to start means that somebody logs already, in a test process: nothing is lost.
    let switch = match args.log_format {
        LogFormat::Text => {
            let builder = builder.with_ansi(out.colour_err).with_target(false).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init();
            switch(told, move |filter| drop(handle.reload(filter)))
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init();
            switch(told, move |filter| drop(handle.reload(filter)))
        }
    };
    Ok(Log { switch, rest })
}

fn switch(told: String, reload: impl Fn(EnvFilter) + Send + Sync + 'static) -> LogSwitch {
    let holds = std::sync::Mutex::new(told.clone());
    Box::new(move |level| {
        let level = level.unwrap_or(&told);
        let Ok(mut holds) = holds.lock() else { return };
        if *holds != level
            && let Ok(filter) = filter(level)
        {
            reload(filter);
            *holds = level.to_string();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{USUAL, filter};

    #[test]
    fn what_uploads_make_libraries_say_is_not_logged_unless_asked_for() {
        for level in [USUAL, "debug", "lanekeeper=trace"] {
            let directives = filter(level).unwrap().to_string();
            assert!(directives.contains("symphonia=off") && directives.contains(level), "{directives}");
        }
        assert!(!filter("info,symphonia_core=warn").unwrap().to_string().contains("off"));
        assert!(filter("nonsense=foo=bar").is_err());
    }
}
