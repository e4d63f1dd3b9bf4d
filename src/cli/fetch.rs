//! Getting model files before an engine starts, with progress on stderr: bars on a terminal, plain lines elsewhere.

use super::error::{CliError, CliResult};
use super::print::Out;
use super::print::text::{bytes, neutral};
use crate::control::ExitCode;
use crate::profile::{Env, FileRole, ModelProfile};
use crate::pull::{PullError, PullEvent, PullOptions, Verify, pull};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The files of each model, by id.
pub type ModelFiles = BTreeMap<String, BTreeMap<FileRole, PathBuf>>;

/// A file that is there now.
#[derive(Debug, Clone, Serialize)]
pub struct Pulled {
    pub model: String,
    pub role: FileRole,
    pub path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    pub sha256: String,
    /// Whether it was fetched now; else it was there.
    pub fetched: bool,
}

impl From<PullError> for CliError {
    fn from(error: PullError) -> CliError {
        match &error {
            PullError::Offline { .. } => CliError::new(ExitCode::Refused, error.to_string()),
            // Sources on this machine alone: the profile names a file that is not there.
            PullError::NoSource { attempts, .. } if attempts.iter().all(|a| a.source.starts_with("file:")) => {
                CliError::new(ExitCode::Refused, error.to_string())
                    .hint("a `file:` path is relative to the profile that names it")
            }
            PullError::NoSource { .. } => CliError::new(ExitCode::Internal, error.to_string())
                .hint("is there a network, and does pip work? `lanekeeper doctor` tells; what arrived is kept"),
            PullError::Io { .. } => CliError::new(ExitCode::Internal, error.to_string()),
        }
    }
}

/// Makes the files of `models` available; says what came of each.
pub fn models(
    out: &Out,
    models: &[ModelProfile],
    offline: bool,
    verify: Verify,
) -> CliResult<(ModelFiles, Vec<Pulled>)> {
    let mut options = PullOptions::from_env(&Env::from_process());
    (options.offline, options.verify) = (offline, verify);
    let (mut files, mut all) = (ModelFiles::new(), Vec::new());
    for (name, model) in models.iter().flat_map(named) {
        let mut progress = Progress::new(out, &model.id);
        let paths = pull(model, &options, &mut |event| progress.take(event))?;
        all.append(&mut progress.pulled);
        files.insert(name, paths);
    }
    Ok((files, all))
}

/// A model and the one that drafts for it, with the names that their files go by.
fn named(model: &ModelProfile) -> impl Iterator<Item = (String, &ModelProfile)> {
    let draft = model.draft.as_deref().map(|draft| (model.draft_files(), draft));
    std::iter::once((model.id.clone(), model)).chain(draft)
}

/// Shows the events of one model's pull.
struct Progress<'a> {
    out: &'a Out,
    model: &'a str,
    bar: Option<ProgressBar>,
    /// Tenth of the part that the last plain line told.
    tenth: u64,
    pulled: Vec<Pulled>,
}

impl<'a> Progress<'a> {
    fn new(out: &'a Out, model: &'a str) -> Self {
        Progress { out, model, bar: None, tenth: 0, pulled: Vec::new() }
    }

    fn take(&mut self, event: PullEvent<'_>) {
        let model = self.model;
        match event {
            PullEvent::Present { role, path, sha256 } => {
                let size = std::fs::metadata(path).map(|m| m.len()).ok();
                self.add(role, path, size, sha256, false);
            }
            PullEvent::Waiting { .. } => self.line(&format!("{model}: waiting for another pull to end")),
            PullEvent::Progress { role, source, part, parts, done, total } => {
                let of = if parts > 1 { format!(" (part {} of {parts})", part + 1) } else { String::new() };
                let what = format!("{model}: {}{of}", word(role));
                if done == 0 {
                    self.begin(&what, source, total);
                }
                self.advance(&what, done, total);
            }
            PullEvent::SourceFailed { role, source, why } => {
                self.end_bar();
                self.out.warn(&format!("{model}: {} not from {source}: {why}", word(role)));
            }
            PullEvent::Done { role, path, bytes: size, sha256 } => {
                self.end_bar();
                self.line(&format!("{model}: {} done ({}, checked)", word(role), bytes(size)));
                self.add(role, path, Some(size), sha256, true);
            }
        }
    }

    fn add(&mut self, role: FileRole, path: &std::path::Path, size: Option<u64>, sha256: &str, fetched: bool) {
        let model = self.model.to_string();
        self.pulled.push(Pulled { model, role, path: path.into(), bytes: size, sha256: sha256.into(), fetched });
    }

    fn begin(&mut self, what: &str, source: &str, total: Option<u64>) {
        self.end_bar();
        self.tenth = 0;
        if !self.out.terminal_err || self.out.quiet {
            return self.line(&format!("{what}: getting {source}"));
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let shape = "{msg} {bytes} of {total_bytes} {bar:24} {bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(shape) {
            bar.set_style(style);
        }
        bar.set_message(neutral(what).into_owned());
        self.bar = Some(bar);
    }

    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(done);
        } else if let Some(total) = total.filter(|t| *t > 0) {
            let tenth = done * 10 / total;
            // A line per half is enough in a log.
            if tenth / 5 > self.tenth / 5 && tenth < 10 {
                self.line(&format!("{what}: {} of {}", bytes(done), bytes(total)));
            }
            self.tenth = tenth;
        }
    }

    fn end_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        self.out.note(text);
    }
}

/// The word for a role.
pub fn word(role: FileRole) -> &'static str {
    match role {
        FileRole::Weights => "weights",
        FileRole::Tokenizer => "tokenizer",
        FileRole::Config => "config",
    }
}
