//! `lanekeeper record`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::text::{bytes, counted, millis};
use crate::client::{Client, Feed, FeedState, SessionWriter};
use crate::control::recording::{Event, Header, SCHEMA};
use crate::control::{Arrivals, ExitCode, Snapshot, snapshot};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Record what arrives at an engine, or with --snapshots all that the console shows of it.
///
/// Arrivals are for `simulate --trace`: times, costs, lanes, outcomes, batch times. The engine remembers its last arrivals by
/// itself (some ten thousand): --last writes those of the past at once, --for waits for that long first. Snapshots are for
/// `replay`: lines of JSON, a header and then each snapshot with its time, the settings whenever they have changed, and when
/// the engine was away. A line is in the file as soon as it has come. No content is in either, only what requests are
/// called. An interrupt ends it early, and what has come is kept.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// File to write; `-` is stdout.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Record for so long from now on [default with --snapshots: until interrupted].
    #[arg(long = "for", value_name = "TIME", value_parser = super::duration::parse)]
    span: Option<Duration>,
    /// Record the last minutes at once.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10m",
        conflicts_with = "span",
        value_parser = super::duration::parse
    )]
    last: Duration,
    /// Record this model alone.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Record snapshots instead, for `replay`.
    #[arg(long, conflicts_with_all = ["last", "model"])]
    snapshots: bool,
    /// Time between two snapshots, 50ms to 5s.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "snapshots", value_parser = super::duration::interval)]
    interval: Duration,
    /// End when the file would be larger than this.
    #[arg(long, value_name = "SIZE", default_value = "64M", requires = "snapshots", value_parser = limit)]
    limit: u64,
}

fn limit(text: &str) -> Result<u64, String> {
    crate::profile::bytes(text, 1 << 10, 1 << 30)
}

pub fn run(context: &Context, args: &RecordArgs) -> CliResult {
    let client = context.client()?;
    if args.snapshots {
        return context.block_on(session(context, client, args));
    }
    let arrivals = context.block_on(async {
        let Some(span) = args.span else { return Ok(client.arrivals(args.last, args.model.as_deref()).await?) };
        // Asked once before the wait: a wrong engine, key or model is told now and not in ten minutes.
        client.arrivals(Duration::from_secs(1), args.model.as_deref()).await?;
        let began = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            interrupt = tokio::signal::ctrl_c() => {
                let failed = |e| CliError::new(ExitCode::Internal, format!("cannot wait for an interrupt: {e}"));
                interrupt.map_err(failed)?;
                context.out.note("interrupted: what has come so far is written");
            }
        }
        Ok(client.arrivals(began.elapsed(), args.model.as_deref()).await?)
    })?;
    write(&args.file, &arrivals)?;
    if !arrivals.complete {
        context.out.warn("the engine's memory does not reach back over the whole span: early arrivals are missing");
    }
    let (requests, batches) = (arrivals.arrivals.len() as u64, arrivals.batches.len() as u64);
    context.out.note(&format!(
        "{} and {} of {}",
        counted(requests, "request", "requests"),
        counted(batches, "batch", "batches"),
        millis(arrivals.span_ms)
    ));
    Ok(())
}

fn write(path: &Path, arrivals: &Arrivals) -> CliResult {
    let failed = |e| CliError::new(ExitCode::Internal, format!("cannot write the arrivals: {e}"));
    let text = serde_json::to_string(arrivals).map_err(failed)?;
    if path == Path::new("-") {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{text}")?;
        return Ok(());
    }
    std::fs::write(path, text + "\n").map_err(|e| CliError::file(path, "write", &e))
}

/// Records snapshots until the time is over, the limit reached or somebody interrupts.
async fn session(context: &Context, client: Client, args: &RecordArgs) -> CliResult {
    // An engine that is not there now is an error; one that goes away later is waited for.
    let first = client.snapshot().await?;
    let out: Box<dyn Write> = match args.file == Path::new("-") {
        true => Box::new(std::io::stdout()),
        false => Box::new(std::fs::File::create(&args.file).map_err(|e| CliError::file(&args.file, "write", &e))?),
    };
    let header = Header {
        schema: SCHEMA.to_string(),
        snapshots: snapshot::SCHEMA.to_string(),
        node: first.node.clone(),
        version: first.version.clone(),
        at_ms: first.at_ms,
        interval_ms: args.interval.as_millis() as u64,
    };
    let writer = SessionWriter::begin(out, &header, args.limit).map_err(|e| failed(args, e))?;
    let mut session = Session { client, writer, began: Instant::now(), snapshots: 0, revision: None };
    let mut feed = Feed::start(session.client.clone(), args.interval);
    let over = async {
        match args.span {
            Some(span) => tokio::time::sleep(span).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    let mut live = false;
    let why = loop {
        let news = tokio::select! {
            () = &mut over => break "",
            _ = tokio::signal::ctrl_c() => break ", interrupted",
            changed = feed.states.changed() => match changed {
                Ok(()) => feed.states.borrow_and_update().clone(),
                Err(_) => break ", the feed has ended",
            },
        };
        let room = match news {
            FeedState::Live { snapshot, .. } => {
                live = true;
                session.take(&snapshot).await.map_err(|e| failed(args, e))?
            }
            FeedState::Reconnecting { why, .. } if std::mem::replace(&mut live, false) => {
                context.out.note(&format!("{why}; trying again"));
                session.write(Event::away(session.now_ms(), why)).map_err(|e| failed(args, e))?
            }
            FeedState::Reconnecting { .. } => true,
        };
        if !room {
            break ", the limit is reached";
        }
    };
    let span = millis(session.began.elapsed().as_secs_f64() * 1e3);
    let snapshots = counted(session.snapshots, "snapshot", "snapshots");
    context.out.note(&format!("{snapshots} of {span}, {}{why}", bytes(session.writer.written())));
    Ok(())
}

/// A failure to write: a reader that goes away is success, a file that cannot be written is not.
fn failed(args: &RecordArgs, error: std::io::Error) -> CliError {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => CliError::BrokenPipe,
        _ => CliError::file(&args.file, "write", &error),
    }
}

/// A recording under way.
struct Session {
    client: Client,
    writer: SessionWriter<Box<dyn Write>>,
    began: Instant,
    snapshots: u64,
    /// Of the settings that were written last.
    revision: Option<(u32, u64)>,
}

impl Session {
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Writes a snapshot, after the settings if they have changed. Says whether there was room.
    async fn take(&mut self, snapshot: &Snapshot) -> std::io::Result<bool> {
        let t_ms = self.now_ms();
        let revision = Some((snapshot.pid, snapshot.revision));
        // Settings that cannot be had are left out: the snapshot is what counts.
        if self.revision != revision
            && let Ok(knobs) = self.client.knobs().await
        {
            self.revision = revision;
            if !self.write(Event::knobs(t_ms, knobs))? {
                return Ok(false);
            }
        }
        let room = self.write(Event::snapshot(t_ms, snapshot.clone()))?;
        self.snapshots += u64::from(room);
        Ok(room)
    }

    fn write(&mut self, event: Event) -> std::io::Result<bool> {
        self.writer.write(&event)
    }
}
