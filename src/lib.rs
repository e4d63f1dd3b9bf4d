//! lanekeeper: an operations console and control CLI for a local serving engine.
//!
//! The rooms, lowest floor first (a room imports from lower floors only; `tests/architecture.rs` holds that):
//!
//! - [`control`]: the contract between engine, console and scripts. Plain data.
//! - [`profile`]: YAML profiles: typed, layered, validated, each value with its origin.
//! - [`simulate`]: the scheduler in virtual time. Pure.
//! - [`pull`]: fetches model files into the cache.
//! - [`engine`]: scheduler (pure), models and audio, runtime, doors.
//! - [`client`]: speaks the contract to a running engine.
//! - [`cli`] and [`tui`]: what a person uses.

#![deny(unsafe_code)]

pub mod cli;
pub mod client;
pub mod control;
pub mod engine;
pub mod profile;
pub mod pull;
pub mod simulate;
pub mod tui;
