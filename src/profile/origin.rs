//! Where a value came from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A profile file, as messages name it.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the user gave it or as we found it; `profiles/…` for shipped ones.
    pub display: String,
    /// The folder that relative paths in it start from; absent for shipped profiles.
    pub folder: Option<PathBuf>,
    /// Whether it is compiled into the binary.
    pub shipped: bool,
}

/// A spot in a profile file. Line and column count from 1; the column counts characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<SourceFile>,
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display, self.line, self.column)
    }
}

/// The layer that a value came from. Later variants win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default in the key table.
    BuiltIn,
    /// A profile file, or one that it extends.
    File(Place),
    /// An environment variable; `alias` when it is one of the published names of another system.
    Env { variable: String, alias: bool },
    /// `--set KEY=VALUE`.
    CommandLine { setting: String },
    /// An operator, while the engine runs.
    Live,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built-in"),
            Origin::File(place) if place.file.shipped => write!(f, "{place} (shipped)"),
            Origin::File(place) => write!(f, "{place}"),
            Origin::Env { variable, alias: false } => write!(f, "environment {variable}"),
            Origin::Env { variable, alias: true } => write!(f, "environment {variable} (published alias)"),
            Origin::CommandLine { setting } => write!(f, "--set {setting}"),
            Origin::Live => f.write_str("live override"),
        }
    }
}

/// One value of a resolved profile, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Dotted key: `listen.http`, `models.minilm-l6.wait_ms`.
    pub path: String,
    /// The value as it would stand in a file; absent = not set.
    pub value: Option<String>,
    pub origin: Origin,
    /// What weaker layers say of it, the strongest first. A value that stands in none is there by the built-in default.
    pub beneath: Vec<(Option<String>, Origin)>,
}

/// A typed value with the origin of each of its parts.
#[derive(Debug, Clone)]
pub struct Resolved<T> {
    pub value: T,
    /// Every key with its value and origin, in the order of the key tables.
    pub rows: Vec<Row>,
    /// Things that are allowed but look wrong.
    pub warnings: Vec<String>,
}

impl<T> Resolved<T> {
    /// Where the value of `path` came from.
    pub fn origin(&self, path: &str) -> Option<&Origin> {
        self.rows.iter().find(|row| row.path == path).map(|row| &row.origin)
    }

    /// The same rows around another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Resolved<U> {
        Resolved { value: f(self.value), rows: self.rows, warnings: self.warnings }
    }
}
