//! What commands write: tables and texts for people, JSON, YAML and lines of JSON for programs.

pub mod table;
pub mod text;

pub use table::{Cell, Column, Table, TableStyle, Tone};

use super::args::OutputFormat;
use super::error::{CliError, CliResult};
use crate::control::ExitCode;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// The two ends of a command's output, and how they like it.
pub struct Out {
    pub format: OutputFormat,
    /// Escape codes may go to stdout.
    pub colour: bool,
    /// Escape codes may go to stderr.
    pub colour_err: bool,
    /// stdout is a terminal.
    pub terminal: bool,
    /// stderr is a terminal.
    pub terminal_err: bool,
    pub quiet: bool,
}

/// When escape codes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`.
    #[default]
    Auto,
    Always,
    Never,
}

impl ColourChoice {
    /// The decision for one stream. `no_color` is set when the variable is there and not empty.
    pub fn decide(self, terminal: bool, no_color: bool, dumb: bool) -> bool {
        match self {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => terminal && !no_color && !dumb,
        }
    }
}

impl Out {
    /// Looks at the process's streams and environment.
    pub fn of_process(format: OutputFormat, colour: ColourChoice, quiet: bool) -> Out {
        let terminal = std::io::stdout().is_terminal();
        let terminal_err = std::io::stderr().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Out {
            format,
            colour: colour.decide(terminal, no_color, dumb),
            colour_err: colour.decide(terminal_err, no_color, dumb),
            terminal,
            terminal_err,
            quiet,
        }
    }

    /// How tables go to stdout.
    pub fn style(&self) -> TableStyle {
        // Asked each time: a window may be resized during a watch.
        let size = || crossterm::terminal::size().ok().filter(|(columns, _)| *columns > 0);
        let room = if self.terminal { size().map(|(columns, _)| usize::from(columns)) } else { None };
        TableStyle { wide: self.format == OutputFormat::Wide, colour: self.colour, room }
    }

    /// Whether a program reads the result.
    pub fn is_data(&self) -> bool {
        !matches!(self.format, OutputFormat::Table | OutputFormat::Wide)
    }

    /// Writes a result: `people` for a table format, `value` for the others.
    pub fn result<T: Serialize>(
        &self,
        value: &T,
        people: impl FnOnce(&mut dyn Write, TableStyle) -> std::io::Result<()>,
    ) -> CliResult {
        let mut stdout = std::io::stdout().lock();
        if self.is_data() {
            self.data(&mut stdout, value, false)?;
        } else {
            people(&mut stdout, self.style())?;
        }
        stdout.flush()?;
        Ok(())
    }

    /// Writes `value` as data. In a stream every JSON document takes one line, every YAML one its own `---`.
    pub fn data<T: Serialize>(&self, out: &mut dyn Write, value: &T, stream: bool) -> CliResult {
        let failed =
            |e: &dyn std::fmt::Display| CliError::new(ExitCode::Internal, format!("cannot write the result: {e}"));
        match self.format {
            OutputFormat::Yaml => {
                let text = serde_yaml::to_string(value).map_err(|e| failed(&e))?;
                if stream {
                    writeln!(out, "---")?;
                }
                out.write_all(text.as_bytes())?;
                if !text.ends_with('\n') {
                    writeln!(out)?;
                }
            }
            OutputFormat::Ndjson => match serde_json::to_value(value).map_err(|e| failed(&e))? {
                // A list is a line per item; anything else is one line.
                serde_json::Value::Array(items) if !stream => {
                    for item in items {
                        writeln!(out, "{item}")?;
                    }
                }
                value => writeln!(out, "{value}")?,
            },
            _ if stream => writeln!(out, "{}", serde_json::to_string(value).map_err(|e| failed(&e))?)?,
            _ => writeln!(out, "{}", serde_json::to_string_pretty(value).map_err(|e| failed(&e))?)?,
        }
        Ok(())
    }

    /// A remark on stderr, left out with `--quiet`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.stderr(&text::neutral_lines(text));
        }
    }

    /// A warning on stderr, `--quiet` or not.
    pub fn warn(&self, message: &str) {
        self.stderr(&format!("{} {}", Tone::Warn.paint("warning:", self.colour_err), text::neutral_lines(message)));
    }

    /// An error and its hints on stderr.
    pub fn error(&self, error: &CliError) {
        if let CliError::Failed { message, hints, .. } = error {
            self.stderr(&format!("{} {}", Tone::Bad.paint("error:", self.colour_err), text::neutral_lines(message)));
            for hint in hints {
                self.stderr(&format!("  {} {}", Tone::Dim.paint("hint:", self.colour_err), text::neutral_lines(hint)));
            }
        }
    }

    fn stderr(&self, line: &str) {
        // Nobody reads stderr: there is no place left to say so.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(format: OutputFormat) -> Out {
        Out { format, colour: false, colour_err: false, terminal: false, terminal_err: false, quiet: false }
    }

    fn data(format: OutputFormat, stream: bool) -> String {
        let mut bytes = Vec::new();
        out(format).data(&mut bytes, &[1, 2], stream).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn data_formats() {
        assert_eq!(data(OutputFormat::Json, false), "[\n  1,\n  2\n]\n");
        assert_eq!(data(OutputFormat::Json, true), "[1,2]\n");
        assert_eq!(data(OutputFormat::Ndjson, false), "1\n2\n");
        assert_eq!(data(OutputFormat::Ndjson, true), "[1,2]\n");
        assert!(data(OutputFormat::Yaml, true).starts_with("---\n"));
    }

    #[test]
    fn escape_codes_only_where_they_are_wanted() {
        use ColourChoice::{Always, Auto, Never};
        let cases = [
            (Auto, true, false, false, true),
            (Auto, false, false, false, false),
            (Auto, true, true, false, false),
            (Auto, true, false, true, false),
            (Never, true, false, false, false),
            (Always, false, true, true, true),
        ];
        for (choice, terminal, no_color, dumb, expected) in cases {
            assert_eq!(choice.decide(terminal, no_color, dumb), expected, "{choice:?} {terminal} {no_color} {dumb}");
        }
    }
}
