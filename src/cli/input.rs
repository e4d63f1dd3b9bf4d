//! What commands read: files, and text from the command line or stdin.

use super::error::{CliError, CliResult};
use bytes::Bytes;
use std::io::Read;
use std::path::Path;

/// The bytes of a file; `-` is stdin.
pub fn file(path: &Path) -> CliResult<Bytes> {
    let read = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map(Bytes::from).map_err(|e| CliError::file(path, "read", &e))
}

/// All of stdin as text.
pub fn stdin_text() -> CliResult<String> {
    let bytes = file(Path::new("-"))?;
    String::from_utf8(bytes.into())
        .map_err(|e| CliError::new(crate::control::ExitCode::Refused, format!("stdin is not UTF-8 text: {e}")))
}

/// Texts of the command line; a lone `-` stands for the lines of stdin.
pub fn texts(given: &[String]) -> CliResult<Vec<String>> {
    match given {
        [dash] if dash == "-" => Ok(stdin_text()?.lines().map(str::to_string).collect()),
        _ => Ok(given.to_vec()),
    }
}

/// One text: the words joined by blanks; a lone `-` stands for stdin.
pub fn text(given: &[String]) -> CliResult<String> {
    match given {
        [dash] if dash == "-" => stdin_text(),
        _ => Ok(given.join(" ")),
    }
}
