//! `lanekeeper chat`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::generation::{GenerationArgs, answer};
use super::input;
use crate::control::Op;
use clap::Args;
use std::io::{BufRead, IsTerminal, Write};

/// Ask a language model something, once or in turns.
///
/// With a message (`-` reads it from stdin) the answer is written and the command ends. Without one, and on a terminal,
/// each line you type is a turn and the conversation goes on until an empty line or Ctrl-D; elsewhere stdin is the
/// message.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// The message; `-` reads stdin.
    #[arg(value_name = "MESSAGE")]
    message: Vec<String>,
    /// What the model is told first.
    #[arg(short, long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    generation: GenerationArgs,
}

pub fn run(context: &Context, args: &ChatArgs) -> CliResult {
    let interactive = args.message.is_empty() && std::io::stdin().is_terminal();
    let message = match (interactive, args.message.is_empty()) {
        (true, _) => String::new(),
        (false, true) => input::stdin_text()?,
        (false, false) => input::text(&args.message)?,
    };
    if !interactive && message.trim().is_empty() {
        return Err(CliError::usage("there is no message").hint("give one as an argument or on stdin"));
    }
    let client = context.client()?;
    context.block_on(async {
        let model = context.model(&client, args.generation.model.as_deref(), Op::Generate).await?;
        let mut ask = args.generation.request(model);
        if let Some(system) = &args.system {
            ask.messages.push(("system".into(), system.clone()));
        }
        if !interactive {
            ask.messages.push(("user".into(), message));
            return answer(context, &client, &ask, args.generation.no_stream).await.map(drop);
        }
        context.out.note(&format!("talking to {}; an empty line or Ctrl-D ends", ask.model));
        while let Some(line) = turn()? {
            ask.messages.push(("user".into(), line));
            match answer(context, &client, &ask, args.generation.no_stream).await {
                Ok(text) => ask.messages.push(("assistant".into(), text)),
                Err(e @ CliError::Failed { .. }) => {
                    // The turn is taken back: the conversation can go on.
                    ask.messages.pop();
                    context.out.error(&e);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    })
}

/// One typed line; `None` at the end. Blocking is fine here: nothing else runs between turns.
fn turn() -> CliResult<Option<String>> {
    let mut stderr = std::io::stderr().lock();
    // The prompt is no result, so it goes where remarks go.
    let _ = write!(stderr, "> ").and_then(|()| stderr.flush());
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let read = read.map_err(|e| CliError::file(std::path::Path::new("stdin"), "read", &e))?;
    let line = line.trim();
    Ok((read > 0 && !line.is_empty()).then(|| line.to_string()))
}
