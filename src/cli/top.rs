//! `lanekeeper top`.

use super::context::Context;
use super::error::{CliError, CliResult};
use crate::client::{Client, Feed, FeedState};
use crate::control::ExitCode;
use crate::tui::{self, Acting, Actions, Exit, Facts, Options, ThemeName, TuiError};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::time::Duration;

/// Watch the engine live in the terminal: health, lanes, requests.
///
/// `?` shows the keys, `q` leaves; see lanekeeper-keys(7). With --plain, or where there is no terminal (or a `dumb` one),
/// one line per snapshot is written instead. An engine that goes away is waited for.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Time between snapshots, 50ms to 5s [default: 250ms, plain 2s].
    #[arg(long, value_name = "TIME", value_parser = super::duration::interval)]
    interval: Option<Duration>,
    /// One line of plain text per snapshot: for logs, pipes and screen readers.
    #[arg(long)]
    plain: bool,
    /// Refuse to change anything.
    #[arg(long)]
    read_only: bool,
    /// Colours; auto looks at the terminal's background.
    #[arg(long, value_enum, value_name = "THEME", default_value_t)]
    theme: Theme,
    /// ASCII signs only [default: where the locale is not UTF-8].
    #[arg(long)]
    ascii: bool,
    /// Fewer frames and no moving parts.
    #[arg(long)]
    reduced_motion: bool,
    /// Let clicks select; this takes the terminal's own selection away.
    #[arg(long)]
    mouse: bool,
}

/// Sets of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Theme {
    /// By the terminal's background.
    #[default]
    Auto,
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
    /// The terminal's own sixteen colours.
    Ansi16,
    /// No colours.
    None,
}

pub fn run(context: &Context, args: &TopArgs) -> CliResult {
    let client = context.client()?;
    let facts = Facts::from_process();
    let plain = args.plain || !facts.interactive;
    context.block_on(async {
        let interval = args.interval.unwrap_or(Duration::from_millis(if plain { 2_000 } else { 250 }));
        let feed = Feed::start(client.clone(), interval);
        if plain {
            return lines(context, feed).await;
        }
        let mut options = Options::new(facts);
        options.theme = match args.theme {
            Theme::Auto => ThemeName::Auto,
            Theme::Dark => ThemeName::Dark,
            Theme::Light => ThemeName::Light,
            Theme::Ansi16 => ThemeName::Ansi16,
            Theme::None => ThemeName::None,
        };
        options.ascii = args.ascii.then_some(true);
        options.read_only = args.read_only;
        options.reduced_motion = args.reduced_motion;
        options.mouse = args.mouse;
        match tui::run(feed, EngineActions(client), options).await? {
            Exit::Quit | Exit::Done | Exit::InputClosed => Ok(()),
            Exit::Signal(_) => Err(CliError::Silent(ExitCode::Interrupted)),
        }
    })
}

impl From<TuiError> for CliError {
    fn from(error: TuiError) -> CliError {
        let code = match error {
            TuiError::NotATerminal => ExitCode::Usage,
            TuiError::Terminal { .. } => ExitCode::Internal,
        };
        CliError::new(code, error.to_string())
    }
}

/// What the console can ask of the engine.
pub struct EngineActions(pub Client);

impl Actions for EngineActions {
    fn cancel(&self, request: &str) -> Acting {
        let (client, request) = (self.0.clone(), request.to_string());
        Box::pin(async move {
            match client.cancel(&request).await {
                Ok(()) => Ok(format!("{request} cancelled")),
                Err(e) => Err(e.to_string()),
            }
        })
    }
}

async fn lines(context: &Context, mut feed: Feed) -> CliResult {
    let mut lost = false;
    while feed.states.changed().await.is_ok() {
        let state = feed.states.borrow_and_update().clone();
        match state {
            FeedState::Live { snapshot, .. } => {
                lost = false;
                let mut stdout = std::io::stdout().lock();
                writeln!(stdout, "{}", tui::plain_line(&snapshot))?;
                stdout.flush()?;
            }
            FeedState::Reconnecting { why, .. } => {
                if !std::mem::replace(&mut lost, true) {
                    context.out.note(&format!("{why}; trying again"));
                }
            }
        }
    }
    Ok(())
}
