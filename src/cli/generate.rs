//! `lanekeeper generate`, hidden: writes the files that are made from definitions and committed.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::{man, pages};
use crate::control::commits::CommitFrame;
use crate::control::recording;
use crate::control::routes::Route;
use crate::control::snapshot::{Model, Requests};
use crate::control::{Arrivals, ChangeAnswer, ChangeRequest, Journal, Knobs, RequestPatch, Snapshot};
use crate::profile::{ProfileKind, schema};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Write manual pages and schemas into folders.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Folder for the manual pages (man/ of the source tree).
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
    /// Folder for the JSON schemas (docs/schema/ of the source tree).
    #[arg(long, value_name = "DIR")]
    schema: Option<PathBuf>,
}

pub fn run(context: &Context, args: &GenerateArgs) -> CliResult {
    if args.man.is_none() && args.schema.is_none() {
        return Err(CliError::usage("nothing to write").hint("give --man DIR, --schema DIR, or both"));
    }
    if let Some(folder) = &args.man {
        let pages = pages::all();
        pages.iter().try_for_each(|page| man::write_page(folder, page))?;
        context.out.note(&format!("{} pages in {}", pages.len(), folder.display()));
    }
    if let Some(folder) = &args.schema {
        std::fs::create_dir_all(folder).map_err(|e| CliError::file(folder, "make", &e))?;
        for (name, schema) in schemas() {
            write(&folder.join(name), &schema)?;
        }
    }
    Ok(())
}

/// Every published schema with its file name.
fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("snapshot.json", schemars::schema_for!(Snapshot).to_value()),
        ("commits.json", schemars::schema_for!(CommitFrame).to_value()),
        ("knobs.json", schemars::schema_for!(Knobs).to_value()),
        ("change.json", schemars::schema_for!(ChangeRequest).to_value()),
        ("change-answer.json", schemars::schema_for!(ChangeAnswer).to_value()),
        ("request-patch.json", schemars::schema_for!(RequestPatch).to_value()),
        ("journal.json", schemars::schema_for!(Journal).to_value()),
        ("arrivals.json", schemars::schema_for!(Arrivals).to_value()),
        ("recording-header.json", schemars::schema_for!(recording::Header).to_value()),
        ("recording-event.json", schemars::schema_for!(recording::Event).to_value()),
        ("view-models.json", schemars::schema_for!(Vec<Model>).to_value()),
        ("view-lanes.json", schemars::schema_for!(super::lanes::Lanes).to_value()),
        ("view-turns.json", schemars::schema_for!(Vec<super::turns::Turns>).to_value()),
        ("view-caps.json", schemars::schema_for!(Vec<super::caps::NamedCaps>).to_value()),
        ("view-speculation.json", schemars::schema_for!(Vec<super::speculation::Named>).to_value()),
        ("view-routes.json", schemars::schema_for!(Vec<Route>).to_value()),
        ("view-requests.json", schemars::schema_for!(Requests).to_value()),
        ("view-why.json", schemars::schema_for!(super::why::Why).to_value()),
        ("profile-box.json", schema(ProfileKind::Box)),
        ("profile-model.json", schema(ProfileKind::Model)),
        ("profile-load.json", schema(ProfileKind::Load)),
    ]
}

fn write(path: &Path, schema: &Value) -> CliResult {
    std::fs::write(path, format!("{schema:#}\n")).map_err(|e| CliError::file(path, "write", &e))
}
