//! The console: `model` (pure reducer), `view` (pure draw), `term` (terminal guard, input, frames).
//!
//! The task that runs [`run`] owns the state and the terminal; snapshots reach it through a watch (the newest wins),
//! actions towards the engine leave through [`Actions`], so that no network code is in here. Beside that task there is
//! only crossterm's thread that reads the keyboard. When the engine is away, keys still answer and the header says so;
//! whatever ends the console (return, error, panic, signal) restores the terminal. In place of an engine a recorded session
//! can be watched ([`replay`]).

pub mod facts;
pub mod glyphs;
pub mod keys;
pub mod model;
mod plain;
pub mod term;
#[cfg(test)]
mod testing;
pub mod text;
pub mod theme;
pub mod view;

pub use facts::{Depth, Facts};
pub use keys::{KeyDoc, Keys, key_docs};
pub use model::{Meaning, View};
pub use plain::plain_line;
pub use term::{
    Acting, Actions, Asking, Exit, Interpreting, Options, TuiError, replay, run, run_until, still, still_of_tape,
};
pub use theme::{Theme, ThemeName};
