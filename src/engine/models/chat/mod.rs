//! From messages to prompt tokens: the model's own chat template, and the tokens of the result.
//!
//! A template is a program from a downloaded file, run on text from the network: it has a fuel limit, no access to
//! anything outside its inputs, and its errors are answers to the request and not faults of the engine.
//!
//! What a user types never becomes a control token in a chat. Control-token spellings in message contents are marked
//! before the template runs, so that only those that the template itself wrote are recognised afterwards. (Raw
//! completions do recognise them, as the format's reference server does: there the caller writes the whole prompt.)
//!
//! Everything here is read-only and runs on the caller's thread.

mod json;
mod prompt;
mod pycompat;
mod template;

pub use template::{ChatMessage, ChatTemplate};
