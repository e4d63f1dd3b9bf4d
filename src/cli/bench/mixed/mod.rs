//! `lanekeeper bench mixed`: a steady load of every kind on a running engine, for whoever tunes it.

mod drive;
mod pace;
mod report;
mod tally;

use crate::cli::context::Context;
use crate::cli::demo::assets;
use crate::cli::error::{CliError, CliResult};
use crate::cli::print::text::{known, millis};
use crate::control::{ExitCode, Op, Snapshot};
use clap::Args;
use drive::{Drive, Stream};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use pace::Pace;
use report::Report;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tally::{Run, SCHEMA, Tally};

/// Load a running engine with clips, recordings, embeddings and chats, and tell what each kind saw.
///
/// A pace is 2/s, 30/m or 5/h for requests at random moments, whatever becomes of those before; or a number of clients,
/// each of which sends again when it has its answer; 0 is none. A kind that no model serves is left out. While it runs,
/// stderr shows the times of the last answers. An interrupt ends it early, and what has come is told. With --export the
/// figures are kept, and --compare holds a later run against them: change a knob between the two and see what it did. The
/// exit code is 8 when a request failed.
#[derive(Debug, Args)]
pub struct MixedBenchArgs {
    /// Short clips of speech [default: 1/s].
    #[arg(long, value_name = "PACE")]
    clips: Option<Pace>,
    /// Recordings [default: 1, so that one is always there].
    #[arg(long, value_name = "PACE")]
    recordings: Option<Pace>,
    /// Pairs of texts to embed [default: 2/s].
    #[arg(long, value_name = "PACE")]
    embeddings: Option<Pace>,
    /// Streamed chats [default: 1].
    #[arg(long, value_name = "PACE")]
    chats: Option<Pace>,
    /// Length of a recording in seconds.
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(31..=7200))]
    recording_s: u32,
    /// Tokens of a chat's answer at most.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_tokens: u32,
    /// How long requests are sent; their answers are waited for.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = crate::cli::duration::parse)]
    span: Duration,
    /// Seed of the random moments.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures as JSON to this file too.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Compare with the figures that an earlier run exported.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Clips,
    Recordings,
    Embeddings,
    Chats,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Clips => "clips",
            Kind::Recordings => "recordings",
            Kind::Embeddings => "embeddings",
            Kind::Chats => "chats",
        }
    }

    fn op(self) -> Op {
        match self {
            Kind::Clips | Kind::Recordings => Op::Transcribe,
            Kind::Embeddings => Op::Embed,
            Kind::Chats => Op::Generate,
        }
    }
}

/// Time between looks at the figures of the moment, on a terminal and elsewhere.
const LOOK: Duration = Duration::from_secs(1);
const LINE: Duration = Duration::from_secs(10);

pub fn run(context: &Context, args: &MixedBenchArgs) -> CliResult {
    let before = args.compare.as_deref().map(read).transpose()?;
    let client = context.client()?;
    let clips = assets::clips()?;
    let recording = assets::reading(&clips, f64::from(args.recording_s))?;
    let report = context.block_on(async {
        let snapshot = client.snapshot().await?;
        let streams = streams(args, &snapshot)?;
        let began = Instant::now();
        let drive = Drive {
            client: &client,
            clips,
            recording,
            max_tokens: args.max_tokens,
            seed: args.seed,
            began,
            until: began + args.span,
            tallies: RefCell::new(streams.iter().map(|s| (s.kind, Tally::default())).collect()),
            next: Cell::new(0),
        };
        load(context, &drive, &streams).await?;
        let seconds = began.elapsed().as_secs_f64();
        let tallies = drive.tallies.borrow();
        let kinds = streams.iter().map(|s| tallies[&s.kind].figures(s.kind, s.pace.to_string(), seconds));
        let run = Run {
            schema: SCHEMA.into(),
            engine: snapshot.node.clone(),
            version: snapshot.version.clone(),
            seconds,
            seed: args.seed,
            kinds: kinds.collect(),
        };
        Ok(Report { run, before })
    })?;
    if let Some(path) = &args.export {
        let text = serde_json::to_string_pretty(&report.run)
            .map_err(|e| CliError::new(ExitCode::Internal, format!("the figures cannot be written as JSON: {e}")))?;
        std::fs::write(path, text + "\n").map_err(|e| CliError::file(path, "write", &e))?;
    }
    context.out.result(&report, |out, style| report.write(out, style))?;
    if report.run.failures() > 0 { Err(CliError::Silent(ExitCode::Unhealthy)) } else { Ok(()) }
}

/// An earlier run's export.
fn read(path: &Path) -> CliResult<Run> {
    let text = std::fs::read_to_string(path).map_err(|e| CliError::file(path, "read", &e))?;
    let run: Run = serde_json::from_str(&text).map_err(|e| {
        CliError::new(ExitCode::Refused, format!("{} is no export of `bench mixed`: {e}", path.display()))
            .hint("make one with `lanekeeper bench mixed --export FILE`")
    })?;
    if run.schema == SCHEMA {
        return Ok(run);
    }
    Err(CliError::new(ExitCode::Refused, format!("{} has the form `{}`, not `{SCHEMA}`", path.display(), run.schema)))
}

/// What is sent to whom.
fn streams(args: &MixedBenchArgs, engine: &Snapshot) -> CliResult<Vec<Stream>> {
    let asked = [
        (Kind::Clips, args.clips, Pace::PerSecond(1.0)),
        (Kind::Recordings, args.recordings, Pace::Clients(1)),
        (Kind::Embeddings, args.embeddings, Pace::PerSecond(2.0)),
        (Kind::Chats, args.chats, Pace::Clients(1)),
    ];
    let mut streams = Vec::new();
    for (kind, pace, default) in asked {
        let (named, pace) = (pace.is_some(), pace.unwrap_or(default));
        if pace.is_none() {
            continue;
        }
        match engine.models.iter().find(|m| m.ops.contains(&kind.op())) {
            Some(model) => streams.push(Stream { kind, pace, model: model.id.clone() }),
            None if named => {
                let what =
                    format!("no model of `{}` serves {}, so it takes no {}", engine.node, kind.op(), kind.name());
                return Err(
                    CliError::new(ExitCode::Refused, what).hint("`lanekeeper models` lists what each one serves")
                );
            }
            None => {}
        }
    }
    if streams.is_empty() {
        return Err(CliError::usage("every pace is 0 or of a kind that no model serves: nothing would be sent"));
    }
    Ok(streams)
}

/// Runs the load to its end or to an interrupt, and shows it meanwhile.
async fn load(context: &Context, drive: &Drive<'_>, streams: &[Stream]) -> CliResult {
    let sending = futures_util::future::join_all(streams.iter().map(|s| drive.run(s)));
    let mut shown = Shown::new(context, streams);
    let mut look = tokio::time::interval(if shown.live() { LOOK } else { LINE });
    look.tick().await;
    tokio::pin!(sending);
    loop {
        tokio::select! {
            _ = &mut sending => return Ok(()),
            interrupt = tokio::signal::ctrl_c() => {
                let failed = |e| CliError::new(ExitCode::Internal, format!("cannot wait for an interrupt: {e}"));
                interrupt.map_err(failed)?;
                shown.end();
                context.out.note("interrupted: what has come so far is told");
                return Ok(());
            }
            _ = look.tick() => shown.show(drive),
        }
    }
}

/// The figures of the moment on stderr: a line for each kind that stays in its place, or a line now and then.
struct Shown<'a> {
    context: &'a Context,
    bars: Option<(MultiProgress, BTreeMap<Kind, ProgressBar>)>,
}

impl Shown<'_> {
    fn new<'a>(context: &'a Context, streams: &[Stream]) -> Shown<'a> {
        let live = context.out.terminal_err && !context.out.quiet;
        let bars = live.then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
            let bar = |s: &Stream| {
                let bar = all.add(ProgressBar::no_length());
                bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
                (s.kind, bar)
            };
            let bars = streams.iter().map(bar).collect();
            (all, bars)
        });
        Shown { context, bars }
    }

    fn live(&self) -> bool {
        self.bars.is_some()
    }

    fn show(&self, drive: &Drive<'_>) {
        let line = |kind: Kind, t: &Tally| {
            let recent = t.recent();
            let (p50, p95) = (known(recent, |q| millis(q.p50)), known(recent, |q| millis(q.p95)));
            format!(
                "{:<10} {:>6} answered, {} open, {} failed; the last ones: p50 {p50}, p95 {p95}",
                kind.name(),
                t.answers(),
                t.open(),
                t.failed
            )
        };
        let tallies = drive.tallies.borrow();
        match &self.bars {
            Some((_, bars)) => {
                for (kind, bar) in bars {
                    bar.set_message(line(*kind, &tallies[kind]));
                }
            }
            None => {
                self.context.out.note(&format!("after {}:", millis(drive.began.elapsed().as_secs_f64() * 1e3)));
                tallies.iter().for_each(|(kind, t)| self.context.out.note(&line(*kind, t)));
            }
        }
    }

    fn end(&mut self) {
        if let Some((all, _)) = self.bars.take() {
            // What cannot be drawn any more is not missed.
            let _ = all.clear();
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> MixedBenchArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: MixedBenchArgs,
        }
        clap::Parser::try_parse_from(std::iter::once("mixed").chain(text.split_whitespace()))
            .map(|l: Line| l.args)
            .unwrap()
    }

    fn engine(ops: &[Op]) -> Snapshot {
        let text = include_str!("../../../../tests/fixtures/snapshots/idle.json");
        let mut snapshot: Snapshot = serde_json::from_str(text).unwrap();
        for model in &mut snapshot.models {
            model.ops.retain(|op| ops.contains(op));
        }
        snapshot
    }

    fn kinds(text: &str, ops: &[Op]) -> CliResult<Vec<(Kind, String)>> {
        Ok(streams(&args(text), &engine(ops))?.into_iter().map(|s| (s.kind, s.pace.to_string())).collect())
    }

    #[test]
    fn kinds_that_no_model_serves_are_left_out_unless_asked_for() {
        let all = kinds("", &[Op::Transcribe, Op::Embed, Op::Generate]).unwrap();
        assert_eq!(all.len(), 4);
        let speech = kinds("--recordings 0", &[Op::Transcribe]).unwrap();
        assert_eq!(speech, [(Kind::Clips, "1/s".to_string())]);
        let refused = kinds("--chats 4", &[Op::Transcribe]).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Refused);
        let nothing = kinds("--clips 0 --recordings 0/s", &[Op::Transcribe]).unwrap_err();
        assert_eq!(nothing.exit_code(), ExitCode::Usage);
    }

    #[test]
    fn only_an_export_of_this_form_is_compared_with() {
        let folder = std::env::temp_dir().join(format!("lanekeeper-mixed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("run.json");
        for text in ["", "{}", r#"{"schema":"x/1","engine":"e","version":"1","seconds":1.0,"seed":1,"kinds":[]}"#] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&file).unwrap_err().exit_code(), ExitCode::Refused, "{text}");
        }
        std::fs::write(&file, text_of_a_run()).unwrap();
        assert_eq!(read(&file).unwrap().seed, 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn text_of_a_run() -> String {
        format!(r#"{{"schema":"{SCHEMA}","engine":"e","version":"1","seconds":1.0,"seed":1,"kinds":[]}}"#)
    }
}
