//! The worker of a model that generates: continuous batching, one forward pass per iteration.
//!
//! One thread owns the weights, the KV slots, the queue and every running sequence. Each iteration it drops what nobody
//! wants any more, lets waiting requests into free slots (first come, first served), plans rows ([`plan`], pure), runs
//! one ragged forward pass with the device to itself, and commits tokens. Doors hold a [`GenerationWorker`].
//!
//! Channel: admitted requests to the thread. Admission (`generation.queue`) bounds it, so it never fills up; an idle
//! worker sleeps on it. Cancellation is a flag that each iteration looks at, so it needs no message: while anything is
//! queued, something runs. Event channels to readers are bounded too; a reader that stops is cancelled, never waited for.
//!
//! Failure: a forward pass that fails or panics is run again for each of its sequences alone; those that fail alone end
//! with a fault, the others go on as if nothing had happened. A slot is empty before it is used again.

mod commit;
mod door;
pub mod plan;
mod rates;
mod sequence;
mod step;
mod thread;
mod view;

#[cfg(test)]
mod tests;

pub(super) use door::GenerationWorker;
