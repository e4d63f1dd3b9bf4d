//! How a command fails: an exit code, a message, and hints, each on its own line.

use crate::client::ClientError;
use crate::control::{ExitCode, Fault};

/// A command ended before its work was done.
#[derive(Debug)]
pub enum CliError {
    /// The reader of our output went away (`| head`): success, and nothing to say.
    BrokenPipe,
    /// Everything was said already; only the exit code is left.
    Silent(ExitCode),
    /// A message for stderr.
    Failed { code: ExitCode, message: String, hints: Vec<String> },
}

/// The outcome of a command.
pub type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    /// A failure with exit code `code`.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        CliError::Failed { code, message: message.into(), hints: Vec::new() }
    }

    /// A command line that cannot be meant.
    pub fn usage(message: impl Into<String>) -> Self {
        CliError::new(ExitCode::Usage, message)
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let CliError::Failed { hints, .. } = &mut self {
            hints.push(hint.into());
        }
        self
    }

    /// A file on this side that could not be used.
    pub fn file(path: &std::path::Path, doing: &str, error: &std::io::Error) -> Self {
        CliError::new(ExitCode::Refused, format!("cannot {doing} {}: {error}", path.display()))
    }

    /// What the shell will see.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            CliError::BrokenPipe => ExitCode::Ok,
            CliError::Silent(code) | CliError::Failed { code, .. } => *code,
        }
    }
}

/// Writing results is the only I/O whose error is passed up with `?`: files are named by [`CliError::file`].
impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => CliError::BrokenPipe,
            _ => CliError::new(ExitCode::Internal, format!("cannot write the result: {error}")),
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let mut message = error.to_string();
        if let ClientError::Api { request_id: Some(id), status, .. } = &error
            && *status >= 500
        {
            message = format!("{message} [{id}]");
        }
        let mapped = CliError::new(error.exit_code(), message);
        match error.hint() {
            Some(hint) => mapped.hint(hint),
            None => mapped,
        }
    }
}

impl From<Fault> for CliError {
    fn from(fault: Fault) -> Self {
        let mapped = CliError::new(fault.kind.exit_code(), fault.message);
        match fault.hint {
            Some(hint) => mapped.hint(hint),
            None => mapped,
        }
    }
}
