//! What all commands that show something share: once or `--watch`, for people or as data.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::TableStyle;
use crate::client::{Feed, FeedState};
use crate::control::{ExitCode, Snapshot};
use crate::profile::nearest;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// Options of commands that show a part of the snapshot.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    /// Show again with every new snapshot until interrupted.
    #[arg(short, long)]
    pub watch: bool,
    /// Time between snapshots with --watch (50ms to 5s).
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::duration::interval)]
    pub interval: Duration,
}

/// The option of commands that can show one model alone.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// Show only this model.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
}

impl ModelArgs {
    pub fn wants(&self, id: &str) -> bool {
        self.model.as_deref().is_none_or(|model| model == id)
    }

    /// Refuses a model that the engine does not have: an empty table would look as if it had nothing to do.
    pub fn check(&self, s: &Snapshot) -> CliResult {
        let Some(model) = self.model.as_deref().filter(|model| s.models.iter().all(|m| m.id != *model)) else {
            return Ok(());
        };
        let known: Vec<&str> = s.models.iter().map(|m| m.id.as_str()).collect();
        let refused = CliError::new(ExitCode::Refused, format!("`{}` has no model `{model}`", s.node));
        Err(refused.hint(match nearest(model, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its models are {}", known.join(", ")),
        }))
    }
}

/// As [`try_show`], of one model or of all.
pub fn show_of<T: Serialize>(
    context: &Context,
    watch: &WatchArgs,
    of: &ModelArgs,
    section: impl Fn(&Snapshot) -> T,
    people: impl Fn(&Snapshot, &mut dyn Write, TableStyle) -> std::io::Result<()>,
) -> CliResult {
    try_show(context, watch, |s| of.check(s).map(|()| section(s)), people)
}

/// Shows a part of the snapshot: `section` picks the data, `people` writes the table.
pub fn show<T: Serialize>(
    context: &Context,
    watch: &WatchArgs,
    section: impl Fn(&Snapshot) -> T,
    people: impl Fn(&Snapshot, &mut dyn Write, TableStyle) -> std::io::Result<()>,
) -> CliResult {
    try_show(context, watch, |snapshot| Ok(section(snapshot)), people)
}

/// As [`show`], for a part that may not be there; the error ends a watch too.
pub fn try_show<T: Serialize>(
    context: &Context,
    watch: &WatchArgs,
    section: impl Fn(&Snapshot) -> CliResult<T>,
    people: impl Fn(&Snapshot, &mut dyn Write, TableStyle) -> std::io::Result<()>,
) -> CliResult {
    let client = context.client()?;
    context.block_on(async {
        let first = client.snapshot().await?;
        if !watch.watch {
            return context.out.result(&section(&first)?, |out, style| people(&first, out, style));
        }
        // An engine that is not there now is an error above; one that goes away later is waited for.
        let mut feed = Feed::start(client, watch.interval);
        let mut lost = false;
        while feed.states.changed().await.is_ok() {
            let state = feed.states.borrow_and_update().clone();
            match state {
                FeedState::Live { snapshot, .. } => {
                    lost = false;
                    again(context, &snapshot, &section, &people)?;
                }
                FeedState::Reconnecting { why, .. } => {
                    if !std::mem::replace(&mut lost, true) {
                        context.out.note(&format!("{why}; trying again"));
                    }
                }
            }
        }
        Ok(())
    })
}

fn again<T: Serialize>(
    context: &Context,
    snapshot: &Snapshot,
    section: &impl Fn(&Snapshot) -> CliResult<T>,
    people: &impl Fn(&Snapshot, &mut dyn Write, TableStyle) -> std::io::Result<()>,
) -> CliResult {
    let part = section(snapshot)?;
    let mut stdout = std::io::stdout().lock();
    if context.out.is_data() {
        context.out.data(&mut stdout, &part, true)?;
    } else {
        let mut page = Vec::new();
        people(snapshot, &mut page, context.out.style())?;
        if context.out.terminal && context.out.colour {
            // In place: home, write, and clear what the last page left below.
            stdout.write_all(b"\x1b[H\x1b[2J")?;
        } else {
            page.push(b'\n');
        }
        stdout.write_all(&page)?;
    }
    stdout.flush()?;
    Ok(())
}
