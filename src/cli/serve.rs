//! `lanekeeper serve`.

use super::args::BoxArg;
use super::context::Context;
use super::error::{CliError, CliResult};
use super::fetch;
use super::log::{self, Log, LogArgs};
use crate::control::ExitCode;
use crate::control::snapshot::ModelState;
use crate::engine::runtime::{Engine, Settings};
use crate::engine::serve::{Ended, Options, Server};
use crate::profile::{BoxBase, Env};
use crate::pull::Verify;
use clap::Args;

/// Serve the models of a profile until told to stop.
///
/// Missing model files are pulled first. The doors are an OpenAI-style HTTP API and a control socket for this user. The
/// first SIGTERM or SIGINT drains: running work ends, queued and new work is answered 503, and the exit code is 0; a
/// second signal ends at once.
///
/// Settings that operators changed with --persist come back: they and the journal of all changes are kept in
/// $XDG_STATE_HOME/lanekeeper/NAME (else under ~/.local/state).
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    profile: BoxArg,
    /// Listen here instead of where the profile says; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Set a value of the profile; see lanekeeper-profile(5) for the keys.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Fetch nothing: fail when a model file is missing.
    #[arg(long)]
    offline: bool,
    /// Forget what operators have set for good: start with the profile alone.
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub fn run(context: &Context, args: &ServeArgs) -> CliResult {
    let Log { switch: log, rest: _rest } = log::start(&context.out, &args.log)?;
    let mut set = args.set.clone();
    if let Some(address) = &args.listen {
        set.push(format!("listen.http={address}"));
    }
    let env = Env::from_process();
    let base = BoxBase::read(args.profile.name(), &env, &set)?;
    let state = env.state_folder(&base.resolve(&[])?.value.name);
    let settings = Settings::open(base, state.as_deref(), args.fresh)?;
    for remark in settings.remarks() {
        context.out.warn(remark);
    }
    let profile = settings.profile().clone();
    log(profile.log_level.as_deref());
    let (files, _) = fetch::models(&context.out, &profile.models, args.offline, Verify::Stamp)?;
    doors_runtime()?.block_on(async {
        let options = Options::from_profile(&profile)?;
        let engine = Engine::start(profile, files)?;
        let server = Server::bind(engine.clone(), options).await?;
        engine.operate(settings, log)?;
        let ready = format!("ready: http://{} and {}", server.address(), server.socket().display());
        tokio::select! {
            ended = server.run_until_signalled() => match ended? {
                Ended::Drained => Ok(()),
                Ended::Aborted => Err(CliError::Silent(ExitCode::Interrupted)),
            },
            failure = failure_to_load(&engine, || context.out.note(&ready)) => Err(failure),
        }
    })
}

/// Threads for doors, control and timers; models have threads of their own.
pub fn doors_runtime() -> CliResult<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("doors")
        .enable_all()
        .build()
        .map_err(|e| CliError::new(ExitCode::Internal, format!("cannot start the async runtime: {e}")))
}

/// Resolves when a model fails to load: an engine that cannot serve what its profile says does not pretend to. When all
/// have loaded it calls `ready` and never resolves.
pub async fn failure_to_load(engine: &Engine, ready: impl FnOnce()) -> CliError {
    engine.loaded().await;
    let snapshot = engine.snapshot();
    let failed = snapshot.models.iter().find_map(|m| match &m.state {
        ModelState::Failed { why } => Some((m.id.clone(), why.clone())),
        _ => None,
    });
    match failed {
        Some((id, why)) => CliError::new(ExitCode::Refused, format!("{id} cannot be served: {why}")).hint(format!(
            "`lanekeeper pull --verify {id}` checks its files; `lanekeeper profile show {id}` its settings"
        )),
        None => {
            ready();
            std::future::pending().await
        }
    }
}
