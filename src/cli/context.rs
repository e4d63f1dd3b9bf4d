//! What every command is given: its output, the engine meant, and a place to run async code.

use super::args::Globals;
use super::error::{CliError, CliResult};
use super::print::Out;
use crate::client::{Client, ClientError, Key, Target, socket_folder};
use crate::control::{ExitCode, Op};
use std::path::PathBuf;

/// The surroundings of one command.
pub struct Context {
    pub globals: Globals,
    pub out: Out,
}

impl Context {
    pub fn new(globals: Globals) -> Context {
        let out = Out::of_process(globals.output, globals.color, globals.quiet);
        Context { globals, out }
    }

    /// The engine that `--engine` names, or the one found running here.
    pub fn client(&self) -> CliResult<Client> {
        let folder = socket_folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
        let target = match &self.globals.engine {
            Some(spec) => Target::parse(spec, &folder)?,
            None => Target::discover(&folder)?,
        };
        Ok(Client::new(target, self.key()?))
    }

    fn key(&self) -> CliResult<Option<Key>> {
        if let Some(path) = &self.globals.key_file {
            return Ok(Some(Key::from_file(path)?));
        }
        match std::env::var("LANEKEEPER_KEY") {
            Ok(key) if !key.is_empty() => Ok(Some(Key::new(&key)?)),
            _ => Ok(None),
        }
    }

    /// Runs a command's async part on this thread.
    pub fn block_on<T>(&self, work: impl Future<Output = CliResult<T>>) -> CliResult<T> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| CliError::new(ExitCode::Internal, format!("cannot start the async runtime: {e}")))?
            .block_on(work)
    }

    /// The model to ask: the one named, else the first that serves `op`.
    pub async fn model(&self, client: &Client, named: Option<&str>, op: Op) -> CliResult<String> {
        if let Some(id) = named {
            return Ok(id.to_string());
        }
        let snapshot = match client.snapshot().await {
            Ok(snapshot) => snapshot,
            Err(ClientError::Api { status: 401 | 403, .. }) => {
                return Err(CliError::usage("this key may not read which models are served")
                    .hint("name the model with --model"));
            }
            Err(e) => return Err(e.into()),
        };
        let found = snapshot.models.iter().find(|m| m.ops.contains(&op));
        found.map(|m| m.id.clone()).ok_or_else(|| {
            CliError::new(ExitCode::Refused, format!("no model of `{}` serves {op}", snapshot.node))
                .hint("`lanekeeper models` lists what each one serves")
        })
    }
}
