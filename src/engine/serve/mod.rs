//! Doors: OpenAI-style HTTP, probes, metrics, and the control socket. They check, ask the runtime and shape answers;
//! they decide nothing.
//!
//! [`Server`] owns two listeners that serve the same routes: TCP (loopback unless there are keys) and a unix socket for
//! the engine's own user. Handlers run as futures on the tokio threads, inside their connection's task: a client that
//! goes away drops the handler, the handler's drop drops the engine's ticket, and that cancels the work. What takes CPU
//! time goes elsewhere: audio to the decoding threads, long texts to blocking threads, both bounded.
//!
//! Every failure leaves as a [`Fault`](crate::control::Fault) in the OpenAI error shape; a panic in a handler becomes a
//! 500 and the engine goes on. Nothing here logs what a request or a key contains.

mod access;
mod app;
mod body;
mod decoding;
mod failure;
mod fields;
mod http;
mod intake;
mod json;
pub mod keys;
mod places;
mod router;
pub mod server;
mod socket;
mod sse;
mod stall;
#[cfg(test)]
mod tests;
mod timing;

pub use keys::{KEYS_VARIABLE, Keys};
pub use server::{Ended, Options, Server};
pub use socket::default_path;
