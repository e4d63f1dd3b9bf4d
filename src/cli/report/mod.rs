//! `lanekeeper report`: what somebody who helps from afar asks for first, in one file.

mod redact;

use super::args::BoxArg;
use super::context::Context;
use super::doctor::{self, Finding};
use super::error::{CliError, CliResult};
use super::print::text::counted;
use crate::client::{Client, ClientError};
use crate::control::ExitCode;
use clap::Args;
use redact::Redaction;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The schema name that every report carries.
const SCHEMA: &str = "lanekeeper.report/1";
/// Entries of the journal that go with it.
const JOURNAL: usize = 200;
/// Arrivals of so long go with it.
const ARRIVALS: Duration = Duration::from_secs(600);

/// Put what a helper needs into one file: the machine, what `doctor` finds, the engine's snapshot, settings with their
/// layers, journal, last ten minutes of arrivals, and metrics.
///
/// It never holds text, audio or keys. With --redact it holds no names either: nodes, hosts, users, clients, actors and
/// reasons become numbered placeholders (the same name the same one), and paths, URLs and addresses are struck out. Model
/// ids and settings stay. Without an engine it has what can be found without one. Read it before you send it: it is JSON.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// File to write, as JSON; `-` is stdout.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Strike out names, paths and addresses.
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    profile: BoxArg,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    /// Unix time in milliseconds.
    at_ms: u64,
    /// Of the program that wrote it; the engine's is in its snapshot.
    version: &'static str,
    redacted: bool,
    machine: Machine,
    doctor: Vec<Finding>,
    /// What the engine told, part by part; `{"error": …}` where it did not.
    engine: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Machine {
    os: &'static str,
    arch: &'static str,
    /// The kernel's name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    cores: usize,
}

pub fn run(context: &Context, args: &ReportArgs) -> CliResult {
    let doctor = doctor::findings(context, args.profile.name(), false);
    let engine = match context.client() {
        Ok(client) => context.block_on(async { Ok(engine(&client).await) })?,
        Err(CliError::Failed { message, .. }) => Map::from_iter([("error".to_string(), Value::String(message))]),
        Err(error) => return Err(error),
    };
    let parts = engine.iter().filter(|(name, part)| *name != "error" && part.get("error").is_none()).count();
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let report = Report {
        schema: SCHEMA,
        at_ms,
        version: env!("CARGO_PKG_VERSION"),
        redacted: args.redact,
        machine: machine(),
        doctor,
        engine,
    };
    let failed = |e| CliError::new(ExitCode::Internal, format!("cannot write the report: {e}"));
    let mut report = serde_json::to_value(report).map_err(failed)?;
    if args.redact {
        let mut redaction = Redaction::of(&report);
        redaction.local(local_names());
        redaction.apply(&mut report);
    }
    write(&args.file, &serde_json::to_string_pretty(&report).map_err(failed)?)?;
    let told = match parts {
        0 => "no engine answered: it has what can be found without one".to_string(),
        n => format!("{} of the engine", counted(n as u64, "part", "parts")),
    };
    let names = if args.redact { "names struck out" } else { "with names; --redact strikes them out" };
    context.out.note(&format!("{}: {told}, {names}", args.file.display()));
    Ok(())
}

/// Asks for each part by itself: a key that may read one and not the other, or an engine that hangs, leaves a hole.
async fn engine(client: &Client) -> Map<String, Value> {
    fn part<T: Serialize>(answer: Result<T, ClientError>) -> Value {
        let told = answer.map_err(|e| e.to_string()).and_then(|v| serde_json::to_value(v).map_err(|e| e.to_string()));
        told.unwrap_or_else(|error| Value::Object(Map::from_iter([("error".to_string(), Value::String(error))])))
    }
    Map::from_iter([
        ("snapshot".to_string(), part(client.snapshot().await)),
        ("knobs".to_string(), part(client.knobs().await)),
        ("journal".to_string(), part(client.journal(JOURNAL).await)),
        ("arrivals".to_string(), part(client.arrivals(ARRIVALS, None).await)),
        ("metrics".to_string(), part(client.metrics().await.map(|text| lines(&text)))),
    ])
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.starts_with("# ")).map(str::to_string).collect()
}

fn machine() -> Machine {
    let file = |path| std::fs::read_to_string(path).ok();
    let kernel = file("/proc/sys/kernel/ostype").zip(file("/proc/sys/kernel/osrelease"));
    let processor = file("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':').map(|(_, name)| name.trim().to_string())
    });
    Machine {
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        kernel: kernel.map(|(name, version)| format!("{} {}", name.trim(), version.trim())),
        processor,
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    }
}

/// Names of this machine and of who sits at it, by what they are.
fn local_names() -> Vec<(&'static str, String)> {
    let variable = |name| std::env::var(name).ok();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_string());
    let user = variable("USER").or_else(|| variable("LOGNAME"));
    [("host", host), ("user", user), ("path", variable("HOME"))]
        .into_iter()
        .filter_map(|(kind, name)| name.map(|name| (kind, name)))
        .collect()
}

fn write(path: &Path, text: &str) -> CliResult {
    if path == Path::new("-") {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{text}")?;
        return Ok(());
    }
    std::fs::write(path, format!("{text}\n")).map_err(|e| CliError::file(path, "write", &e))
}
