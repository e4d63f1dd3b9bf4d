//! The contract between engine, console and scripts: plain data and pure checks.
//!
//! Nobody owns state here and nothing here does I/O: engine owners write a [`snapshot::Snapshot`], doors serve it,
//! the client reads it. Everything that a script may depend on (exit codes, error codes, wait reasons, snapshot
//! fields) is a public type in this room.

pub mod arrivals;
pub mod changes;
pub mod commits;
pub mod error;
pub mod exit;
pub mod hands;
pub mod knobs;
pub mod ledger;
mod moment;
mod names;
pub mod op;
pub mod predicate;
pub mod recording;
pub mod routes;
pub mod snapshot;
pub mod speculation;
pub mod wait;

pub use arrivals::Arrivals;
pub use changes::{ChangeAnswer, ChangeRequest, Journal};
pub use error::{ErrorBody, ErrorKind, Fault};
pub use exit::ExitCode;
pub use hands::{RequestChange, RequestPatch, Touch};
pub use knobs::Knobs;
pub use moment::utc;
pub use names::nearest;
pub use op::{Lane, Op};
pub use predicate::Predicate;
pub use snapshot::Snapshot;
pub use wait::WaitCode;
