//! `lanekeeper top`.

use super::args::Globals;
use super::context::Context;
use super::error::{CliError, CliResult};
use super::palette::Palette;
use crate::client::{Client, Feed, FeedState};
use crate::control::{ExitCode, RequestPatch};
use crate::profile::{Env, load_box};
use crate::tui::{
    self, Acting, Actions, Asking, Exit, Facts, Interpreting, Keys, Options, Theme, ThemeName, TuiError, View,
};
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
    #[command(flatten)]
    look: LookArgs,
    /// Time between snapshots, 50ms to 5s [default: the profile's, plain 2s].
    #[arg(long, value_name = "TIME", value_parser = super::duration::interval)]
    interval: Option<Duration>,
    /// One line of plain text per snapshot: for logs, pipes and screen readers.
    #[arg(long, conflicts_with = "inline")]
    plain: bool,
    /// Refuse to change anything.
    #[arg(long)]
    read_only: bool,
}

/// How the console looks: the options that `top` and `replay` share.
#[derive(Debug, Args)]
pub struct LookArgs {
    /// Box profile whose console section holds, by name or path [default: demo].
    #[arg(short, long, value_name = "PROFILE", env = "LANEKEEPER_PROFILE", hide_env_values = true)]
    profile: Option<String>,
    /// View to begin with, by name or digit.
    #[arg(long, value_name = "VIEW", default_value = "overview", value_parser = view)]
    view: View,
    /// Stay in the lines under the prompt, so many of them, and leave all that scrolled by where it is. The keys are the
    /// same; the last frame stays when the console is left. Where there is no terminal, one frame is written, as text.
    #[arg(long, value_name = "LINES", num_args = 0..=1, default_missing_value = "16", conflicts_with = "mouse", value_parser = clap::value_parser!(u16).range(4..=200))]
    inline: Option<u16>,
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

fn view(text: &str) -> Result<View, String> {
    let numbered = text.parse::<usize>().ok().and_then(|digit| View::ALL.get(digit.checked_sub(1)?).copied());
    let names = || View::ALL.map(View::word).join(", ");
    numbered.or_else(|| View::named(text)).ok_or_else(|| format!("there is no view {text:?}; there are {}", names()))
}

impl LookArgs {
    /// The options that follow, and the profile's time between snapshots.
    pub fn options(&self) -> CliResult<(Options, u64)> {
        let console = load_box(self.profile.as_deref().unwrap_or("demo"), &Env::from_process(), &[])?.value.console;
        let refused = |key: &str, why: String| {
            CliError::new(ExitCode::Refused, format!("the profile's {key} cannot be used: {why}"))
                .hint("lanekeeper-keys(7) names actions and keys, lanekeeper-profile(5) labels and colours")
        };
        let mut options = Options::new(Facts::from_process());
        options.theme = self.theme.or_else(|| ThemeName::parse(&console.theme)).unwrap_or_default();
        options.colours = Theme::changes(&console.colours).map_err(|why| refused("console.colours", why))?;
        options.keys = Arc::new(Keys::remapped(&console.keys).map_err(|why| refused("console.keys", why))?);
        options.ascii = self.ascii.then_some(true);
        options.reduced_motion = self.reduced_motion;
        options.mouse = self.mouse;
        options.view = self.view;
        options.inline = self.inline;
        Ok((options, console.interval_ms))
    }
}

/// What is left to say when the console has ended.
pub fn ended(exit: Exit) -> CliResult {
    match exit {
        Exit::Quit | Exit::Done | Exit::InputClosed => Ok(()),
        Exit::Signal(_) => Err(CliError::Silent(ExitCode::Interrupted)),
    }
}

pub fn run(context: &Context, args: &TopArgs) -> CliResult {
    if context.out.is_data() {
        return Err(CliError::usage("`top` is for people: it has no data format")
            .hint("`lanekeeper status --watch -o ndjson` writes each snapshot as a line of JSON"));
    }
    let client = context.client()?;
    let (mut options, usual_ms) = args.look.options()?;
    options.read_only = args.read_only;
    context.block_on(async {
        if options.inline.is_some() && !options.facts.interactive {
            return still(&client, &options).await;
        }
        let plain = args.plain || !options.facts.interactive;
        let interval = args.interval.unwrap_or(Duration::from_millis(if plain { 2_000 } else { usual_ms }));
        let feed = Feed::start(client.clone(), interval);
        if plain {
            return lines(context, feed).await;
        }
        ended(tui::run(feed, EngineActions::new(client, &context.globals), options).await?)
    })
}

/// One frame of what is now, as text.
async fn still(client: &Client, options: &Options) -> CliResult {
    let snapshot = Arc::new(client.snapshot().await?);
    let knobs = match options.view {
        View::Settings => Some(Arc::new(client.knobs().await?)),
        _ => None,
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(tui::still(snapshot, knobs, options).as_bytes())?;
    stdout.flush()?;
    Ok(())
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
            let patch = RequestPatch { cancelled: true, ..RequestPatch::default() };
            match client.patch(&request, &patch).await {
                Ok(done) => Ok(format!("{request} cancelled: revision {}", done.revision)),
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
