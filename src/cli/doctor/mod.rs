//! `lanekeeper doctor`: what stands in the way here, and what to do about it.

mod checks;
mod device;
mod fit;

use super::args::BoxArg;
use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::text::neutral;
use super::print::{TableStyle, Tone};
use crate::client::socket_folder;
use crate::control::snapshot::EngineState;
use crate::control::{ExitCode, Snapshot};
use crate::profile::{Env, load_box};
use crate::pull::{PullOptions, Verify};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Check this machine: kernels and devices with their driver, whether the models fit into memory, Python for pulls, cache,
/// socket and state folders, open files, clock, terminal and locale, profile, model files, port, engine.
///
/// Each finding is ok, a warning or a failure, with a way out; the exit code is 8 if something failed.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    profile: BoxArg,
    /// Hash the model files instead of trusting their size and time.
    #[arg(long)]
    verify: bool,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Ok,
    Warn,
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub grade: Grade,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, detail: impl Into<String>) -> Finding {
        Finding { check, grade: Grade::Ok, detail: detail.into(), way_out: None }
    }

    pub fn warn(check: &'static str, detail: impl Into<String>, way_out: impl Into<String>) -> Finding {
        Finding { check, grade: Grade::Warn, detail: detail.into(), way_out: Some(way_out.into()) }
    }

    pub fn fail(check: &'static str, detail: impl Into<String>, way_out: impl Into<String>) -> Finding {
        Finding { check, grade: Grade::Fail, detail: detail.into(), way_out: Some(way_out.into()) }
    }
}

pub fn run(context: &Context, args: &DoctorArgs) -> CliResult {
    let findings = findings(context, args.profile.name(), args.verify);
    context.out.result(&findings, |out, style| findings.iter().try_for_each(|f| line(f, out, style)))?;
    if findings.iter().any(|f| f.grade == Grade::Fail) {
        return Err(CliError::Silent(ExitCode::Unhealthy));
    }
    Ok(())
}

/// All findings; `verify` hashes the model files.
pub fn findings(context: &Context, profile: &str, verify: bool) -> Vec<Finding> {
    let env = Env::from_process();
    let options = PullOptions::from_env(&env);
    let folder = socket_folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    let mut findings = vec![checks::machine(), checks::kernels(), checks::clock(), checks::open_files()];
    findings.push(checks::cache(&options.cache_dir));
    findings.extend(checks::python(&options.python));
    findings.push(checks::sockets(&folder));
    findings.extend(checks::terminal(&env, context.out.terminal));
    let (engine, runs) = engine(context);
    match load_box(profile, &env, &[]) {
        Ok(resolved) => {
            findings.push(checks::profile(profile, &resolved.value, &resolved.warnings));
            findings.extend(device::devices(&resolved.value));
            findings.push(checks::state(env.state_folder(&resolved.value.name).as_deref()));
            let verify = if verify { Verify::Full } else { Verify::Stamp };
            findings.extend(checks::files(&resolved.value, &options, verify));
            findings.push(fit::fit(&resolved.value, &options, fit::room(), runs));
            findings.push(checks::port(resolved.value.listen.http, runs));
        }
        Err(errors) => findings.push(Finding::fail("profile", errors.to_string(), "mend the profile")),
    }
    findings.push(engine);
    findings
}

/// Whether an engine answers, and whether one is there. None at all is fine unless one was named.
fn engine(context: &Context) -> (Finding, bool) {
    let asked = context.client().and_then(|client| {
        context.block_on(async {
            let snapshot = client.snapshot().await?;
            Ok(answers(&snapshot, &client.target().to_string()))
        })
    });
    match asked {
        Ok(finding) => (finding, true),
        Err(CliError::Failed { message, .. }) if context.globals.engine.is_some() => {
            (Finding::fail("engine", message, "is it running, and is --engine right?"), false)
        }
        Err(CliError::Failed { code: ExitCode::Denied, message, .. }) => {
            (Finding::warn("engine", message, "give its key with --key-file or LANEKEEPER_KEY"), true)
        }
        Err(_) => (Finding::ok("engine", "none is running (`lanekeeper serve` starts one)"), false),
    }
}

/// An engine that answers: it may be unwell.
fn answers(snapshot: &Snapshot, target: &str) -> Finding {
    let mut detail = format!("`{}` is {} at {target}", snapshot.node, snapshot.state.name());
    let well = !matches!(snapshot.state, EngineState::Degraded | EngineState::Stopped);
    snapshot.reasons.iter().for_each(|reason| detail.push_str(&format!("; {reason}")));
    match (well, snapshot.progress.iter().any(|lane| lane.stuck_ms.is_some())) {
        (true, _) => Finding::ok("engine", detail),
        (false, true) => Finding::fail(
            "engine",
            detail,
            "`lanekeeper report` keeps what is known of it; a lane that stays stuck wants the engine started anew",
        ),
        (false, false) => Finding::fail("engine", detail, "`lanekeeper status` and its log say more"),
    }
}

fn line(finding: &Finding, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let (word, tone) = match finding.grade {
        Grade::Ok => ("ok", Tone::Good),
        Grade::Warn => ("warn", Tone::Warn),
        Grade::Fail => ("FAIL", Tone::Bad),
    };
    let word = tone.paint(&format!("{word:<4}"), style.colour);
    writeln!(out, "{word}  {}: {}", finding.check, neutral(&finding.detail))?;
    match &finding.way_out {
        Some(way_out) => writeln!(out, "      {}", neutral(way_out)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_is_unwell_fails_and_says_what_is_stuck() {
        let text = include_str!("../../../tests/fixtures/snapshots/idle.json");
        let mut snapshot: Snapshot = serde_json::from_str(text).unwrap();
        let finding = answers(&snapshot, "here");
        assert!(finding.grade == Grade::Ok && finding.detail.ends_with("is ready at here"), "{finding:?}");
        snapshot.state = EngineState::Degraded;
        snapshot.reasons = vec!["lane clips of `ears` is stuck since then".to_string()];
        let finding = answers(&snapshot, "here");
        assert!(finding.grade == Grade::Fail && finding.detail.ends_with("is stuck since then"), "{finding:?}");
        assert!(finding.way_out.is_some_and(|way| way.contains("status")), "no lane of it says so");
        snapshot.progress = vec![crate::control::snapshot::LaneProgress {
            name: "ears.transcribe.clips".to_string(),
            model: "ears".to_string(),
            op: crate::control::Op::Transcribe,
            lane: Some(crate::control::Lane::Clips),
            waiting: 1,
            last_start_ago_ms: None,
            stuck_ms: Some(31_000.0),
            request: None,
            why: None,
        }];
        assert!(answers(&snapshot, "here").way_out.is_some_and(|way| way.contains("report")));
    }
}
