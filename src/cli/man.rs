//! `lanekeeper man`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::pages::{self, Page};
use crate::control::ExitCode;
use crate::profile::nearest;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Read the manual pages, or install them.
///
/// On a terminal the page is shown by man(1); elsewhere its source is written. --install puts all pages into
/// $XDG_DATA_HOME/man (~/.local/share/man).
#[derive(Debug, Args)]
pub struct ManArgs {
    /// A command (`status`, `profile check`) or a topic (profile(5), exit-codes, keys) [default: the main page].
    #[arg(value_name = "PAGE")]
    page: Vec<String>,
    /// Write all pages into the user's manual.
    #[arg(long, conflicts_with = "page")]
    install: bool,
    /// List the pages.
    #[arg(long, conflicts_with_all = ["page", "install"])]
    list: bool,
}

pub fn run(context: &Context, args: &ManArgs) -> CliResult {
    let pages = pages::all();
    if args.install {
        let folder = manual_folder()?;
        for page in &pages {
            write_page(&folder.join(format!("man{}", page.section)), page)?;
        }
        let folder = folder.display();
        context.out.note(&format!("{} pages are in {folder}", pages.len()));
        context.out.note(&match found_by_man() {
            true => "try `man lanekeeper`".to_string(),
            false => format!("man does not look there yet: try `man -M {folder} lanekeeper`, or add it to MANPATH"),
        });
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    if args.list {
        for page in &pages {
            writeln!(stdout, "{}({})", page.name, page.section)?;
        }
        return Ok(());
    }
    let page = find(&pages, &args.page)?;
    if context.out.terminal && shown_by_man(page) {
        return Ok(());
    }
    stdout.write_all(page.roff.as_bytes())?;
    Ok(())
}

/// Writes a page into `folder`, which is made where it is missing.
pub fn write_page(folder: &Path, page: &Page) -> CliResult {
    let path = folder.join(page.file_name());
    std::fs::create_dir_all(folder).map_err(|e| CliError::file(folder, "make", &e))?;
    std::fs::write(&path, &page.roff).map_err(|e| CliError::file(&path, "write", &e))
}

/// Whether man(1) finds the pages by itself: that hangs on its configuration and on PATH.
fn found_by_man() -> bool {
    let asked = Command::new("man").args(["-w", "lanekeeper"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Whether man(1) took the page.
fn shown_by_man(page: &Page) -> bool {
    let child = Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that was left early closes its end: nothing is lost.
        let _ = stdin.write_all(page.roff.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

fn find<'p>(pages: &'p [Page], words: &[String]) -> CliResult<&'p Page> {
    let joined = words.join("-");
    let (asked, section) = match joined.strip_suffix(')').and_then(|j| j.rsplit_once('(')) {
        Some((name, section)) => (name.to_string(), section.parse::<u8>().ok()),
        None => (joined, None),
    };
    let short = asked.strip_prefix("lanekeeper").map(|s| s.trim_start_matches('-')).unwrap_or(&asked);
    let name = if short.is_empty() { "lanekeeper".to_string() } else { format!("lanekeeper-{short}") };
    let found = pages.iter().find(|p| p.name == name && section.is_none_or(|s| s == p.section));
    found.ok_or_else(|| {
        let known: Vec<&str> = pages.iter().map(|p| p.name.trim_start_matches("lanekeeper-")).collect();
        let error = CliError::new(ExitCode::Usage, format!("there is no page about `{short}`"));
        match nearest(short, known.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`lanekeeper man --list` lists them"),
        }
    })
}

/// `$XDG_DATA_HOME/man`.
fn manual_folder() -> CliResult<PathBuf> {
    use etcetera::BaseStrategy;
    let base = etcetera::choose_base_strategy().map_err(|e| {
        CliError::new(ExitCode::Refused, format!("there is no place for manual pages: {e}"))
            .hint("set HOME or XDG_DATA_HOME")
    })?;
    Ok(base.data_dir().join("man"))
}
