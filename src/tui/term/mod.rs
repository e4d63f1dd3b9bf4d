//! The terminal: guard, keyboard, signals, frames.
//!
//! One task owns all of it, but for the writing, which has a thread: a terminal that takes nothing holds nobody up. A
//! frame is written only when a cell has changed, at most ten a second, and fewer when they are large (`pace`); whole
//! frames are bracketed in synchronized updates, so that a terminal that knows them never shows half of one.

mod console;
mod guard;
mod inline;
mod input;
mod pace;
mod panics;
mod screen;
mod signals;
mod still;
mod surface;
mod writer;

pub use console::{replay, run, run_until};
pub use screen::Screen;
pub use still::{still, still_of_tape};

use super::facts::{Depth, Facts};
use super::glyphs::Glyphs;
use super::keys::Keys as KeyTable;
use super::model::{Meaning, View};
use super::theme::{Change, Theme, ThemeName};
use super::view::Look;
use crate::control::knobs::Knobs;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// How the console is asked to look and behave.
#[derive(Debug, Clone)]
pub struct Options {
    pub theme: ThemeName,
    /// Other looks for labels of the theme.
    pub colours: Vec<Change>,
    /// The palette, when a flag names one; else NO_COLOR, COLORTERM and TERM decide.
    pub depth: Option<Depth>,
    /// ASCII only, when a flag says so; else the locale decides.
    pub ascii: Option<bool>,
    /// Refuse every change, for as long as the console runs.
    pub read_only: bool,
    /// Fewer frames, coarser progress.
    pub reduced_motion: bool,
    /// Mouse clicks select; off by default, since it takes the terminal's own selection away.
    pub mouse: bool,
    /// The view to begin with.
    pub view: View,
    /// Stay in so many lines under the prompt instead of opening another screen.
    pub inline: Option<u16>,
    pub keys: Arc<KeyTable>,
    pub facts: Facts,
}

impl Options {
    /// The defaults in these surroundings.
    pub fn new(facts: Facts) -> Options {
        Options {
            theme: ThemeName::Auto,
            colours: Vec::new(),
            depth: None,
            ascii: None,
            read_only: false,
            reduced_motion: false,
            mouse: false,
            view: View::Overview,
            inline: None,
            keys: KeyTable::usual(),
            facts,
        }
    }

    /// The look that follows from flags and surroundings.
    pub fn look(&self) -> Look {
        let ascii = self.ascii.unwrap_or_else(|| self.facts.ascii_only());
        let depth = self.facts.depth(self.depth);
        Look {
            theme: Theme::resolve(self.theme, depth, self.facts.light_background()).with(&self.colours, depth),
            glyphs: Glyphs::for_ascii(ascii),
            reduced_motion: self.reduced_motion,
        }
    }
}

/// How the console ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// A person left it.
    Quit,
    /// What it was to wait for has ended ([`run_until`]).
    Done,
    /// SIGINT, SIGTERM or SIGHUP, by number.
    Signal(i32),
    /// The terminal has no more input: it is gone.
    InputClosed,
}

/// Why the console could not run.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    #[error("the console needs a terminal on standard input and output (use --plain elsewhere)")]
    NotATerminal,
    #[error("{doing} the terminal failed: {source}")]
    Terminal { doing: &'static str, source: std::io::Error },
}

/// An action under way towards the engine: what to tell when it has ended, well or not.
pub type Acting = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// The table of settings on its way, or why there is none.
pub type Asking = Pin<Box<dyn Future<Output = Result<Knobs, String>> + Send>>;

/// A typed command that is being looked at.
pub type Interpreting = Pin<Box<dyn Future<Output = Meaning> + Send>>;

/// What the console can ask of the engine. The caller brings the network, and the CLI's grammar.
pub trait Actions: Send {
    /// Cancels a request.
    fn cancel(&self, request: &str) -> Acting;

    /// The engine's table of settings.
    fn knobs(&self) -> Asking;

    /// The commands that can be typed beside the console's own.
    fn words(&self) -> Vec<String>;

    /// What a typed command means; one that changes nothing is run at once.
    fn interpret(&self, line: &str) -> Interpreting;

    /// Runs a command that was confirmed.
    fn run(&self, line: &str) -> Acting;
}
