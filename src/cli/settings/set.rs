//! `lanekeeper set` and `lanekeeper unset`.

use super::super::context::Context;
use super::super::error::{CliError, CliResult};
use super::{ChangeArgs, PersistArgs, change};
use crate::control::ChangeRequest;
use clap::Args;
use std::collections::BTreeMap;

/// Change settings of a running engine: all that are named, or none.
///
/// They hold from the next batch or iteration on and until they are unset or the engine ends; with --ttl the engine undoes
/// them by itself, whatever becomes of this command; with --persist they come back when it is started again. A lower cap
/// never ends running work. Every change is a line of the journal.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Knobs and their values, as they would stand in a profile.
    #[arg(required = true, value_name = "KNOB=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    options: ChangeArgs,
    #[command(flatten)]
    persist: PersistArgs,
}

impl SetArgs {
    /// The `KNOB=VALUE` pairs as they were typed.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }
}

/// Let live settings go: what the profile, the environment or the command line says holds again.
#[derive(Debug, Args)]
pub struct UnsetArgs {
    /// Knobs to let go.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "KNOB")]
    knobs: Vec<String>,
    /// Let every live setting go.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    options: TakeBackArgs,
}

impl UnsetArgs {
    /// The knobs that are named.
    pub fn knobs(&self) -> &[String] {
        &self.knobs
    }
}

/// Options of a change that takes something back.
#[derive(Debug, Args)]
pub struct TakeBackArgs {
    /// Check it and show before and after; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Why, for those who read the journal.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do it only while the settings have this revision.
    #[arg(long, value_name = "N")]
    if_revision: Option<u64>,
}

impl TakeBackArgs {
    /// A change with these options that names nothing yet.
    pub fn request(&self) -> ChangeRequest {
        let TakeBackArgs { dry_run, reason, if_revision } = self;
        ChangeRequest {
            dry_run: *dry_run,
            reason: reason.clone(),
            if_revision: *if_revision,
            ..ChangeRequest::default()
        }
    }
}

pub fn run(context: &Context, args: &SetArgs) -> CliResult {
    let mut request = args.options.request();
    request.persist = args.persist.persist;
    request.set = pairs(&args.settings)?;
    change(context, &request)
}

/// `KNOB=VALUE` settings, each knob once.
pub fn pairs(settings: &[String]) -> CliResult<BTreeMap<String, String>> {
    let mut set = BTreeMap::new();
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(CliError::usage(format!("`{setting}` is not KNOB=VALUE"))
                .hint(format!("`lanekeeper get {setting}` shows it; to change it say {setting}=VALUE")));
        };
        let (name, value) = (name.trim().to_string(), value.trim().to_string());
        if set.insert(name.clone(), value).is_some() {
            return Err(CliError::usage(format!("`{name}` is set twice")));
        }
    }
    Ok(set)
}

pub fn unset(context: &Context, args: &UnsetArgs) -> CliResult {
    let request = ChangeRequest { unset: args.knobs.clone(), unset_all: args.all, ..args.options.request() };
    change(context, &request)
}
