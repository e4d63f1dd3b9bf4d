//! What the console knows and how it changes: a pure reducer, `(State, Msg) -> (State, commands)`.
//!
//! The console task owns the one [`State`]; nothing else writes it. No clock and no I/O in here: time arrives as a
//! message, actions leave as values. It cannot fail: what a person does wrong becomes a message on the screen.

mod asks;
pub mod command;
pub mod cursor;
pub mod help;
pub mod history;
pub mod lines;
mod overlays;
mod past;
pub mod playback;
mod prompt;
pub mod requests;
pub mod ring;
pub mod settings;
mod tape;
#[cfg(test)]
mod tests;
mod update;

pub use cursor::Cursor;
pub use history::History;
pub use lines::{Line, LineKey, LineKind};
pub use playback::Playback;
pub use requests::{Sort, Table};
pub use ring::Ring;
pub use settings::Settings;
pub use update::update;

use super::keys::{Key, Keys, Places};
use crate::control::Snapshot;
use crate::control::knobs::Knobs;
use std::sync::Arc;

/// The views, in the order of their digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum View {
    #[default]
    Overview,
    Lanes,
    Caps,
    Speculation,
    Routes,
    Requests,
    Settings,
    Journal,
}

impl View {
    pub const ALL: [View; 8] = [
        View::Overview,
        View::Lanes,
        View::Caps,
        View::Speculation,
        View::Routes,
        View::Requests,
        View::Settings,
        View::Journal,
    ];

    pub fn title(self) -> &'static str {
        match self {
            View::Overview => "Overview",
            View::Lanes => "Lanes",
            View::Caps => "Caps",
            View::Speculation => "Speculation",
            View::Routes => "Routes",
            View::Requests => "Requests",
            View::Settings => "Settings",
            View::Journal => "Journal",
        }
    }

    /// The title as a word to type.
    pub fn word(self) -> &'static str {
        match self {
            View::Overview => "overview",
            View::Lanes => "lanes",
            View::Caps => "caps",
            View::Speculation => "speculation",
            View::Routes => "routes",
            View::Requests => "requests",
            View::Settings => "settings",
            View::Journal => "journal",
        }
    }

    /// The title where there is little room.
    pub fn short_title(self) -> &'static str {
        match self {
            View::Overview => "Over",
            View::Speculation => "Spec",
            View::Requests => "Reqs",
            View::Settings => "Set",
            View::Journal => "Log",
            other => other.title(),
        }
    }

    /// The view of this title, in any case.
    pub fn named(name: &str) -> Option<View> {
        View::ALL.into_iter().find(|view| view.title().eq_ignore_ascii_case(name))
    }

    fn step(self, by: usize) -> View {
        View::ALL[(self as usize + by) % View::ALL.len()]
    }
}

/// How the engine is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Connected. `missed` counts snapshots that were skipped since the console began.
    Live { missed: u64 },
    /// Not connected; the next try is at `retry_at_ms` of the console's clock.
    Away { attempt: u32, retry_at_ms: u64, why: String },
}

/// A snapshot, when it came, and the short past that the sparklines draw.
#[derive(Debug, Clone)]
pub struct Seen {
    pub snapshot: Arc<Snapshot>,
    pub received_ms: u64,
    pub history: Arc<History>,
}

/// What lies over the view.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    Help {
        query: String,
        scroll: usize,
    },
    /// One request, pinned by id: it stays open when the table moves.
    Detail {
        request: String,
    },
    Confirm(Confirm),
    /// What a command wrote, line by line.
    Output {
        title: String,
        lines: Arc<[String]>,
        scroll: usize,
    },
}

/// Destructive work as a value: it does nothing until it comes back confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirm {
    pub ask: Ask,
    /// The button that does it is marked; it never is at first.
    pub yes: bool,
}

/// What a [`Confirm`] asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    CancelRequest {
        request: String,
        about: String,
    },
    /// A command of the CLI that changes something, as it was typed; `about` says what it would do.
    Run {
        line: String,
        about: Vec<String>,
    },
}

/// What a typed command means to the engine's side.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// It was run and wrote this.
    Output { title: String, text: String },
    /// It would change something: that is to be confirmed.
    Change { line: String, about: Vec<String> },
    /// It cannot be run here; why, and what else to do.
    Refused(String),
}

/// A line being typed at the bottom.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub kind: PromptKind,
    pub text: String,
    /// What held before, restored by Esc.
    pub before: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKind {
    Command,
    /// Of the table of requests.
    Filter,
    /// Among the lines of another view.
    Search,
}

/// The longest line that can be typed or pasted: beyond it, input is ignored.
pub const PROMPT_LIMIT: usize = 256;

/// A message that goes away by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Toast {
    pub text: String,
    pub error: bool,
    pub until_ms: u64,
}

/// Whether changes are refused here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadOnly {
    pub on: bool,
    /// Set at start: `R` cannot lift it.
    pub locked: bool,
}

/// Everything the console knows.
#[derive(Debug, Clone)]
pub struct State {
    /// The console's own clock: milliseconds since it began.
    pub now_ms: u64,
    pub size: (u16, u16),
    pub view: View,
    pub link: Link,
    /// The newest snapshot.
    pub live: Option<Seen>,
    /// What is shown instead while the view is frozen.
    pub frozen: Option<Seen>,
    /// The last minutes, to look back.
    pub ring: Ring,
    /// The recording that plays, where no engine is watched.
    pub playback: Option<Playback>,
    pub table: Table,
    /// What `n` and `N` look for among lines.
    pub search: String,
    /// The selected line of Overview, and of the views with a card per line.
    pub line: Cursor<LineKey>,
    pub settings: Settings,
    pub overlay: Option<Overlay>,
    pub prompt: Option<Prompt>,
    pub toast: Option<Toast>,
    /// The first key of a chord that is not whole yet.
    pub begun: Option<Key>,
    pub read_only: ReadOnly,
    pub keys: Arc<Keys>,
    /// The CLI's commands that can be typed after `:`, beside the console's own.
    pub words: Arc<[String]>,
    /// Bytes per second written to this terminal, once measured.
    pub traffic: Option<u64>,
}

impl State {
    /// The state before anything has been heard.
    pub fn new(view: View, read_only: bool, size: (u16, u16)) -> State {
        State {
            now_ms: 0,
            size,
            view,
            link: Link::Away { attempt: 0, retry_at_ms: 0, why: String::new() },
            live: None,
            frozen: None,
            ring: Ring::default(),
            playback: None,
            table: Table::default(),
            search: String::new(),
            line: Cursor::default(),
            settings: Settings::default(),
            overlay: None,
            prompt: None,
            toast: None,
            begun: None,
            read_only: ReadOnly { on: read_only, locked: read_only },
            keys: Keys::usual(),
            words: Arc::new([]),
            traffic: None,
        }
    }

    /// What the view shows: the frozen snapshot, else the newest.
    pub fn shown(&self) -> Option<&Seen> {
        self.frozen.as_ref().or(self.live.as_ref())
    }

    /// How long ago what the frozen view shows came.
    pub fn looked_at_ms(&self) -> Option<u64> {
        Some(self.now_ms.saturating_sub(self.frozen.as_ref()?.received_ms))
    }

    /// Age of the newest data, by the console's clock; what is recorded has none.
    pub fn age_ms(&self) -> Option<u64> {
        if self.playback.is_some() {
            return None;
        }
        Some(self.now_ms.saturating_sub(self.live.as_ref()?.received_ms))
    }

    /// How long the lease that ends next still has.
    pub fn next_expiry_ms(&self) -> Option<f64> {
        let seen = self.live.as_ref()?;
        let left = seen.snapshot.overrides.iter().filter_map(|setting| setting.left_ms);
        let since = self.now_ms.saturating_sub(seen.received_ms) as f64;
        left.min_by(f64::total_cmp).map(|left| (left - since).max(0.0))
    }

    /// Whether what is shown may no longer be true: the engine is away, or has been silent for long.
    pub fn stale(&self) -> bool {
        matches!(self.link, Link::Away { .. }) || self.age_ms().is_some_and(|age| age > STALE_MS)
    }

    /// Where keys act now.
    pub fn place(&self) -> Places {
        match (&self.prompt, &self.overlay, self.view) {
            (Some(Prompt { kind: PromptKind::Command, .. }), _, _) => Places::PROMPT,
            (Some(Prompt { kind: PromptKind::Filter | PromptKind::Search, .. }), _, _) => Places::FILTER,
            (None, Some(Overlay::Output { .. }), _) => Places::OUTPUT,
            (None, Some(Overlay::Confirm(_)), _) => Places::CONFIRM,
            (None, Some(Overlay::Help { .. }), _) => Places::HELP,
            (None, Some(Overlay::Detail { .. }), _) => Places::DETAIL,
            (None, None, View::Overview) => Places::OVERVIEW,
            (None, None, View::Lanes) => Places::LANES,
            (None, None, View::Caps) => Places::CAPS,
            (None, None, View::Speculation) => Places::SPECULATION,
            (None, None, View::Routes) => Places::ROUTES,
            (None, None, View::Requests) => Places::REQUESTS,
            (None, None, View::Settings) => Places::SETTINGS,
            (None, None, View::Journal) => Places::JOURNAL,
        }
    }

    /// The request that `x` and `y` act on.
    pub fn chosen_request(&self) -> Option<&str> {
        match &self.overlay {
            Some(Overlay::Detail { request }) => Some(request),
            _ => self.table.cursor.key().map(String::as_str),
        }
    }
}

/// The watch sends four snapshots a second: silence for this long means that something is wrong.
pub const STALE_MS: u64 = 5_000;

/// What the console is told.
#[derive(Debug, Clone)]
pub enum Msg {
    /// The console's clock.
    Tick {
        now_ms: u64,
    },
    Key(Key),
    /// Text pasted into the terminal: only ever typed into a prompt, never read as keys.
    Paste(String),
    Click(Target),
    Resize {
        width: u16,
        height: u16,
    },
    /// A new snapshot came.
    Fresh {
        snapshot: Arc<Snapshot>,
        received_ms: u64,
        missed: u64,
    },
    /// The engine cannot be reached; the next try is in `retry_in_ms`.
    Away {
        attempt: u32,
        retry_in_ms: u64,
        why: String,
    },
    /// The table of settings came, or why it did not.
    Knobs(Result<Arc<Knobs>, String>),
    /// A typed command was looked at.
    Meant(Meaning),
    /// An action towards the engine has ended: what to tell.
    Acted(Result<String, String>),
    Traffic {
        bytes_per_s: u64,
    },
}

/// What the console wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cmd {
    /// Ask the engine to cancel this request.
    CancelRequest {
        request: String,
    },
    /// Get the table of settings.
    LoadKnobs,
    /// Find out what a typed command means, and run it if it changes nothing.
    Interpret {
        line: String,
    },
    /// Run a command that was confirmed.
    Run {
        line: String,
    },
    /// Put text into the terminal's clipboard.
    Copy(String),
    Repaint,
    Suspend,
    Quit,
}

/// What a place on the screen stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Tab(View),
    Line(LineKey),
    Request(String),
    Knob(String),
    Entry(u64),
}
