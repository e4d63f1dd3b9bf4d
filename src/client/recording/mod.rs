//! Recorded sessions: written while an engine is watched, and read again as a tape to play.

mod tape;
mod writer;

pub use tape::{Moment, Tape, TapeError};
pub use writer::SessionWriter;
