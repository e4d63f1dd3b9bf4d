//! `lanekeeper profile`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::{Cell, Column, Table, Tone};
use crate::control::ExitCode;
use crate::engine::serve::Keys;
use crate::profile::{self, Env, Origin, ProfileErrors, ProfileKind, Report};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// List, show and check profiles: what a box serves and how, and loads for the simulator.
///
/// Profiles are YAML: see lanekeeper-profile(5) and lanekeeper-load(5). A name means the user's own profile
/// (~/.config/lanekeeper/profiles/boxes, models or loads) before a shipped one; anything with a / or ending in .yaml is a path.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// List the profiles that have a name: the user's own and the shipped ones.
    List,
    /// Show every value of a profile and where it comes from: default, file and line, variable, or --set.
    Show {
        /// A box or model profile or a load, by name or path.
        profile: String,
        /// Set a value as `serve` would.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Leave out values that nothing sets.
        #[arg(long)]
        changed: bool,
    },
    /// Check profiles; each fault is named with file, line and column.
    ///
    /// Key files are read, and files that a `file:` source names have to be there: an error where no other source has the
    /// file, else a warning.
    Check {
        /// Box or model profiles or loads, by name or path.
        #[arg(required = true)]
        profiles: Vec<String>,
    },
    /// Write the JSON Schema of a profile file, for editors.
    Schema {
        /// Which kind of profile.
        #[arg(value_enum, default_value_t)]
        kind: SchemaKind,
    },
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum SchemaKind {
    /// What a machine serves.
    #[default]
    Box,
    /// One model.
    Model,
    /// A load for the simulator.
    Load,
}

/// Every fault of a profile, on a line each.
impl From<ProfileErrors> for CliError {
    fn from(errors: ProfileErrors) -> CliError {
        CliError::new(ExitCode::Refused, errors.to_string())
    }
}

pub fn run(context: &Context, args: &ProfileArgs) -> CliResult {
    match &args.command {
        ProfileCommand::List => list(context),
        ProfileCommand::Show { profile, set, changed } => show(context, profile, set, *changed),
        ProfileCommand::Check { profiles } => check(context, profiles),
        ProfileCommand::Schema { kind } => {
            let kind = match kind {
                SchemaKind::Box => ProfileKind::Box,
                SchemaKind::Model => ProfileKind::Model,
                SchemaKind::Load => ProfileKind::Load,
            };
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "{:#}", profile::schema(kind))?;
            Ok(())
        }
    }
}

fn list(context: &Context) -> CliResult {
    let listings = profile::list(&Env::from_process());
    let values: Vec<Value> = listings
        .iter()
        .map(|l| {
            json!({
                "name": l.name, "kind": l.kind.name(), "shipped": l.shipped, "description": l.description,
                "problem": l.problem.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    context.out.result(&values, |out, style| {
        let columns = [Column::left("NAME"), Column::left("KIND"), Column::left("FROM"), Column::left("DESCRIPTION")];
        let mut table = Table::new(columns);
        for l in &listings {
            let words = match &l.problem {
                Some(problem) => Cell::new(format!("broken: {problem}")).tone(Tone::Bad),
                None => Cell::new(&l.description),
            };
            let from = if l.shipped { "shipped" } else { "own" };
            table.row([Cell::new(&l.name).tone(Tone::Strong), l.kind.name().into(), from.into(), words]);
        }
        table.write(out, style)
    })
}

fn show(context: &Context, reference: &str, set: &[String], changed: bool) -> CliResult {
    let shown = profile::show(reference, &Env::from_process(), set)?;
    let rows: Vec<_> = shown.rows.iter().filter(|r| !changed || r.origin != Origin::BuiltIn).collect();
    let value = json!({
        "kind": shown.kind.name(),
        "name": shown.name,
        "values": rows
            .iter()
            .map(|r| json!({ "key": r.path, "value": r.value, "origin": r.origin.to_string() }))
            .collect::<Vec<_>>(),
        "warnings": shown.warnings,
    });
    for warning in &shown.warnings {
        context.out.warn(warning);
    }
    context.out.result(&value, |out, style| {
        // Sources and descriptions are far longer than the other values.
        let mut table = Table::new([Column::left("KEY"), Column::left("VALUE").at_most(24), Column::left("ORIGIN")]);
        for row in rows {
            let default = row.origin == Origin::BuiltIn;
            let value = row.value.as_deref().unwrap_or("-");
            table.row([
                Cell::new(&row.path),
                Cell::new(value).tone(if default { Tone::Plain } else { Tone::Strong }),
                Cell::new(row.origin.to_string()).tone(Tone::Dim),
            ]);
        }
        table.write(out, style)
    })
}

fn check(context: &Context, references: &[String]) -> CliResult {
    let env = Env::from_process();
    let (mut reports, mut lines, mut bad) = (Vec::new(), Vec::new(), false);
    for reference in references {
        match profile::check(reference, &env).and_then(with_files) {
            Ok(report) => {
                lines.push(format!(
                    "{reference}: sound ({} profile `{}`, {} values set)",
                    report.kind.name(),
                    report.name,
                    report.set
                ));
                for warning in &report.warnings {
                    context.out.warn(&format!("{reference}: {warning}"));
                }
                reports.push(json!({
                    "profile": reference, "sound": true, "kind": report.kind.name(), "name": report.name,
                    "set": report.set, "warnings": report.warnings, "errors": [],
                }));
            }
            Err(errors) => {
                bad = true;
                let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
                reports.push(json!({ "profile": reference, "sound": false, "errors": texts }));
                context.out.error(&errors.into());
            }
        }
    }
    context.out.result(&reports, |out, _| {
        lines.iter().try_for_each(|line| writeln!(out, "{}", super::print::text::neutral(line)))
    })?;
    if bad { Err(CliError::Silent(ExitCode::Refused)) } else { Ok(()) }
}

/// Looks for the files that a sound profile needs on this machine.
fn with_files(mut report: Report) -> Result<Report, ProfileErrors> {
    let mut errors = Vec::new();
    for needed in &report.needs {
        let problems: Vec<Option<String>> =
            needed.choices.iter().map(|paths| paths.iter().find_map(|path| unusable(path))).collect();
        let whole = problems.iter().any(Option::is_none);
        let faults = problems.into_iter().flatten().map(|problem| needed.fault(problem));
        if whole {
            report.warnings.extend(faults.map(|fault| format!("{fault}; another source is tried")));
        } else {
            errors.extend(faults);
        }
        if needed.key == "keys.file" && whole {
            let keys = needed.choices.iter().flatten().map(|path| Keys::load(Some(path), None));
            errors.extend(keys.filter_map(Result::err).map(|fault| needed.fault(fault.message)));
        }
    }
    if errors.is_empty() { Ok(report) } else { Err(ProfileErrors(errors)) }
}

/// Why the file at `path` cannot be used, if it cannot.
fn unusable(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => std::fs::File::open(path).err().map(|e| e.to_string()),
        Ok(_) => Some("it is not a file".to_string()),
        Err(e) => Some(e.to_string()),
    }
    .map(|why| format!("cannot read {}: {why}", path.display()))
}
