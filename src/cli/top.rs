//! `lanekeeper top`.

use super::args::Globals;
use super::context::Context;
use super::error::{CliError, CliResult};
use super::palette::Palette;
use crate::client::{Client, Feed, FeedState};
use crate::control::ExitCode;
use crate::profile::{Env, load_box};
use crate::tui::{self, Acting, Actions, Asking, Exit, Facts, Interpreting, Keys, Options, Theme, ThemeName, TuiError};
use clap::Args;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Watch the engine live in the terminal: health, lanes, caps, speculation, requests.
///
/// Theme, colours, keys and interval come from the profile's `console` section where no option says otherwise. `?` shows the keys, `q` leaves; see lanekeeper-keys(7). With --plain, or where there is no terminal (or a `dumb` one),
/// one line per snapshot is written instead. An engine that goes away is waited for.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Box profile whose console section holds, by name or path [default: demo].
    #[arg(short, long, value_name = "PROFILE", env = "LANEKEEPER_PROFILE", hide_env_values = true)]
    profile: Option<String>,
    /// Time between snapshots, 50ms to 5s [default: the profile's, plain 2s].
    #[arg(long, value_name = "TIME", value_parser = super::duration::interval)]
    interval: Option<Duration>,
    /// One line of plain text per snapshot: for logs, pipes and screen readers.
    #[arg(long)]
    plain: bool,
    /// Refuse to change anything.
    #[arg(long)]
    read_only: bool,
    /// Colours: auto (by the terminal's background), dark, light, safe (for colour-blind eyes), ansi16, none
    /// [default: the profile's].
    #[arg(long, value_name = "THEME", value_parser = theme)]
    theme: Option<ThemeName>,
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

fn theme(text: &str) -> Result<ThemeName, String> {
    let names = ThemeName::ALL.map(ThemeName::name).join(", ");
    ThemeName::parse(text).ok_or_else(|| format!("there is no theme {text:?}; there are {names}"))
}

pub fn run(context: &Context, args: &TopArgs) -> CliResult {
    if context.out.is_data() {
        return Err(CliError::usage("`top` is for people: it has no data format")
            .hint("`lanekeeper status --watch -o ndjson` writes each snapshot as a line of JSON"));
    }
    let client = context.client()?;
    let facts = Facts::from_process();
    let plain = args.plain || !facts.interactive;
    let console = load_box(args.profile.as_deref().unwrap_or("demo"), &Env::from_process(), &[])?.value.console;
    let refused = |key: &str, why: String| {
        CliError::new(ExitCode::Refused, format!("the profile's {key} cannot be used: {why}"))
            .hint("lanekeeper-keys(7) names actions and keys, lanekeeper-profile(5) labels and colours")
    };
    let mut options = Options::new(facts);
    options.theme = args.theme.or_else(|| ThemeName::parse(&console.theme)).unwrap_or_default();
    options.colours = Theme::changes(&console.colours).map_err(|why| refused("console.colours", why))?;
    options.keys = Arc::new(Keys::remapped(&console.keys).map_err(|why| refused("console.keys", why))?);
    options.ascii = args.ascii.then_some(true);
    options.read_only = args.read_only;
    options.reduced_motion = args.reduced_motion;
    options.mouse = args.mouse;
    context.block_on(async {
        let usual = if plain { 2_000 } else { console.interval_ms };
        let interval = args.interval.unwrap_or(Duration::from_millis(usual));
        let feed = Feed::start(client.clone(), interval);
        if plain {
            return lines(context, feed).await;
        }
        match tui::run(feed, EngineActions::new(client, &context.globals), options).await? {
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
pub struct EngineActions {
    client: Client,
    palette: Palette,
}

impl EngineActions {
    pub fn new(client: Client, globals: &Globals) -> EngineActions {
        let palette = Palette::new(&client.target().to_string(), globals);
        EngineActions { client, palette }
    }
}

impl Actions for EngineActions {
    fn cancel(&self, request: &str) -> Acting {
        let (client, request) = (self.client.clone(), request.to_string());
        Box::pin(async move {
            match client.cancel(&request).await {
                Ok(()) => Ok(format!("{request} cancelled")),
                Err(e) => Err(e.to_string()),
            }
        })
    }

    fn knobs(&self) -> Asking {
        let client = self.client.clone();
        Box::pin(async move { client.knobs().await.map_err(|e| e.to_string()) })
    }

    fn words(&self) -> Vec<String> {
        Palette::words()
    }

    fn interpret(&self, line: &str) -> Interpreting {
        Box::pin(self.palette.clone().interpret(line.to_string()))
    }

    fn run(&self, line: &str) -> Acting {
        Box::pin(self.palette.clone().run(line.to_string()))
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
