//! `lanekeeper demo`: an engine in this process, a mixed load through its real HTTP door, and a verdict.

pub(super) mod assets;
mod load;
mod record;
mod report;
mod words;

pub(super) use record::quantile;

use super::context::Context;
use super::error::{CliError, CliResult};
use super::fetch;
use super::print::text::millis;
use super::serve::{doors_runtime, failure_to_load};
use super::top::EngineActions;
use crate::client::{Client, Feed, Target, socket_folder};
use crate::control::{ExitCode, Op};
use crate::engine::runtime::{Engine, Settings};
use crate::engine::serve::{Keys, Options, Server};
use crate::profile::{BoxBase, BoxProfile, Env};
use crate::pull::Verify;
use crate::tui::{self, Exit, Facts};
use clap::Args;
use load::{Load, Models};
use record::{Kind, Record};
use report::{EngineFacts, Report};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Show everything at once: start an engine with three small models, load it for half a minute, and judge the answers.
///
/// Nothing else is needed: the models run on this machine's CPU, missing files are pulled first, and the engine ends
/// with the demo. Clips and a recording, embeddings, rerank and streamed chats go through the real HTTP door at once. In
/// a terminal the console shows it live (q ends early); elsewhere progress goes to stderr. At the end a table tells how
/// fast it went, and the exit code is 0 only if every answer was right.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How long the load goes on, in seconds; what must be shown is shown even if it takes longer.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    seconds: u64,
    /// Fetch nothing: fail when a model file is missing.
    #[arg(long)]
    offline: bool,
    /// Lines of progress instead of the console.
    #[arg(long)]
    plain: bool,
}

/// How much longer than asked the demo may take before it gives up: a machine this slow shows nothing.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time between lines of progress.
const PROGRESS: Duration = Duration::from_secs(5);

pub fn run(context: &Context, args: &DemoArgs) -> CliResult {
    let base = BoxBase::read("demo", &Env::from_process(), &[])?;
    // Without a journal: its settings can be looked at, and a change would outlive nobody.
    let settings = Settings::open(base, None, false)?;
    let profile = settings.profile().clone();
    let models = models(&profile)?;
    let clips = assets::clips()?;
    let recording = assets::recording(&clips)?;
    let (files, _) = fetch::models(&context.out, &profile.models, args.offline, Verify::Stamp)?;
    let facts = Facts::from_process();
    // `-o json` wants stdout for itself, and the console draws there.
    let console = facts.interactive && !args.plain && !context.out.is_data();
    doors_runtime()?.block_on(async {
        let engine = Engine::start(profile, files)?;
        let server = Server::bind(engine.clone(), doors()).await?;
        engine.operate(settings, Box::new(|_| {}))?;
        let address = server.address();
        let socket = server.socket().to_path_buf();
        let (end, mut ended) = watch::channel(false);
        let serving = tokio::spawn(server.run(
            async move {
                let _ = ended.wait_for(|end| *end).await;
            },
            std::future::pending(),
        ));
        context.out.note(&format!("serving http://{address} and {}", socket.display()));
        loaded(context, &engine).await?;
        let (stop, stopping) = watch::channel(false);
        let began = Instant::now();
        let record = Arc::new(Record::default());
        let load = Load {
            client: Client::new(Target::Tcp { host: address.ip().to_string(), port: address.port() }, None),
            models,
            clips,
            recording,
            record: Arc::clone(&record),
            stop: stopping,
            began,
            until: began + Duration::from_secs(args.seconds),
            next_clip: AtomicUsize::new(0),
            next_chat: AtomicUsize::new(0),
        };
        let show = async {
            match console {
                true => in_console(context, Client::new(Target::Unix(socket), None), facts, &load).await,
                false => with_lines(context, &load, began).await,
            }
        };
        let limit = Duration::from_secs(args.seconds) + PATIENCE;
        let end_of_load = tokio::time::timeout(limit, show).await.unwrap_or_else(|_| {
            let text = format!("the demo was not done after {}", millis(limit.as_secs_f64() * 1e3));
            Err(CliError::new(ExitCode::TimedOut, text))
        });
        let seconds = began.elapsed().as_secs_f64();
        stop.send_replace(true);
        let facts = engine_facts(&engine);
        end.send_replace(true);
        let _ = serving.await;
        let how = end_of_load?;
        let report = record.with(|seen| Report::new(seen, seconds, how != LoadEnd::Done, facts));
        context.out.result(&report, |out, style| report.write(out, style))?;
        match (how, report.right) {
            (LoadEnd::Interrupted, _) => Err(CliError::Silent(ExitCode::Interrupted)),
            (_, true) => Ok(()),
            (_, false) => Err(CliError::Silent(ExitCode::Unhealthy)),
        }
    })
}

/// How the load came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadEnd {
    Done,
    Quit,
    Interrupted,
}

/// Doors of the demo's own: a free port, a socket beside those of other engines, no keys.
fn doors() -> Options {
    let folder = socket_folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    Options {
        http: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        control: folder.join(format!("demo-{}.sock", std::process::id())),
        keys: Keys::default(),
    }
}

fn models(profile: &BoxProfile) -> CliResult<Models> {
    let first = |op: Op| {
        let found = profile.models.iter().find(|m| m.ops.contains(&op));
        found.map(|m| m.id.clone()).ok_or_else(|| {
            CliError::new(ExitCode::Refused, format!("no model of the profile `{}` can {op}", profile.name))
                .hint("the demo needs all four operations; is there a profile `demo` of your own?")
        })
    };
    Ok(Models {
        speech: first(Op::Transcribe)?,
        text: first(Op::Embed)?,
        rerank: first(Op::Rerank)?,
        language: first(Op::Generate)?,
    })
}

/// Waits until every model is ready.
async fn loaded(context: &Context, engine: &Engine) -> CliResult {
    let began = Instant::now();
    let (ready, mut is_ready) = watch::channel(false);
    tokio::select! {
        failure = failure_to_load(engine, || { ready.send_replace(true); }) => Err(failure),
        _ = is_ready.wait_for(|ready| *ready) => {
            context.out.note(&format!("models loaded in {}", millis(began.elapsed().as_secs_f64() * 1e3)));
            Ok(())
        }
    }
}

/// Runs the load under the console.
async fn in_console(context: &Context, local: Client, facts: Facts, load: &Load) -> CliResult<LoadEnd> {
    let feed = Feed::start(local.clone(), Duration::from_millis(250));
    let exit =
        tui::run_until(feed, EngineActions::new(local, &context.globals), tui::Options::new(facts), load.run()).await?;
    Ok(match exit {
        Exit::Done => LoadEnd::Done,
        Exit::Quit | Exit::InputClosed => LoadEnd::Quit,
        Exit::Signal(_) => LoadEnd::Interrupted,
    })
}

/// Runs the load with a line of progress now and then. SIGINT and SIGTERM end it early.
async fn with_lines(context: &Context, load: &Load, began: Instant) -> CliResult<LoadEnd> {
    use tokio::signal::unix::{SignalKind, signal};
    let hook =
        |kind| signal(kind).map_err(|e| CliError::new(ExitCode::Internal, format!("cannot listen for signals: {e}")));
    let (mut interrupt, mut terminate) = (hook(SignalKind::interrupt())?, hook(SignalKind::terminate())?);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS, PROGRESS);
    let work = load.run();
    tokio::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => return Ok(LoadEnd::Done),
            _ = interrupt.recv() => return Ok(LoadEnd::Interrupted),
            _ = terminate.recv() => return Ok(LoadEnd::Interrupted),
            _ = ticks.tick() => context.out.note(&progress(load, began)),
        }
    }
}

fn progress(load: &Load, began: Instant) -> String {
    let (counts, errors) = load.record.with(|seen| {
        let counts: Vec<String> = Kind::ALL.iter().map(|k| format!("{} {}", seen.count(*k), k.name())).collect();
        (counts.join(", "), seen.errors())
    });
    format!("{:.0} s: {counts}; {errors} errors", began.elapsed().as_secs_f64())
}

fn engine_facts(engine: &Engine) -> EngineFacts {
    let snapshot = engine.snapshot();
    EngineFacts {
        chat_queue_p50_ms: snapshot.generation.first().and_then(|g| g.latency.queue_p50_ms),
        resident_bytes: snapshot.host.resident_bytes,
    }
}
