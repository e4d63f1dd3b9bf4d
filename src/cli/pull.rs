//! `lanekeeper pull`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::fetch::{self, word};
use super::print::text::{bytes, known};
use super::print::{Cell, Column, Table, Tone};
use crate::profile::{Env, ModelProfile, ProfileKind, kind_of, load_box, load_model};
use crate::pull::Verify;
use clap::Args;

/// Get the files of models, so that an engine can start without a network.
///
/// What is there already is not fetched again; every pinned file is checked against its sha256. A pull that was cut is
/// taken up again. Files come through this machine's own pip and curl, so that its mirrors, proxies and credentials
/// apply.
#[derive(Debug, Args)]
pub struct PullArgs {
    /// Box or model profiles, by name or path.
    #[arg(value_name = "PROFILE", required_unless_present = "profile")]
    profiles: Vec<String>,
    /// The same as the argument.
    #[arg(long, value_name = "PROFILE")]
    profile: Vec<String>,
    /// Fetch nothing: only say whether everything is there.
    #[arg(long)]
    offline: bool,
    /// Hash files that are there again instead of trusting their size and time.
    #[arg(long)]
    verify: bool,
}

pub fn run(context: &Context, args: &PullArgs) -> CliResult {
    let env = Env::from_process();
    let mut models: Vec<ModelProfile> = Vec::new();
    for reference in args.profiles.iter().chain(&args.profile) {
        let found = match kind_of(reference, &env)? {
            ProfileKind::Box => load_box(reference, &env, &[])?.value.models,
            ProfileKind::Model => vec![load_model(reference, &env, &[])?.value],
            ProfileKind::Load => {
                let message = format!("`{reference}` is a load for the simulator: it has no files");
                return Err(CliError::usage(message).hint("`lanekeeper profile list` names boxes and models"));
            }
        };
        for model in found {
            if !models.contains(&model) {
                models.push(model);
            }
        }
    }
    let verify = if args.verify { Verify::Full } else { Verify::Stamp };
    let (_, pulled) = fetch::models(&context.out, &models, args.offline, verify)?;
    context.out.result(&pulled, |out, style| {
        let mut table = Table::new([
            Column::left("MODEL"),
            Column::left("FILE"),
            Column::right("SIZE"),
            Column::left("STATE"),
            Column::left("SHA256").wide(),
            Column::left("PATH").wide(),
        ]);
        for file in &pulled {
            table.row([
                Cell::new(&file.model).tone(Tone::Strong),
                word(file.role).into(),
                known(file.bytes, bytes).into(),
                Cell::new(if file.fetched { "fetched" } else { "there" }).tone(Tone::Good),
                Cell::new(&file.sha256),
                Cell::new(file.path.display().to_string()),
            ]);
        }
        table.write(out, style)
    })
}
