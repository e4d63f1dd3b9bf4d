//! The worker of a model that generates: continuous batching, one forward pass per iteration.
//!
//! One thread owns the weights, the KV slots, the queue and every running sequence. Each iteration it drops what nobody
//! wants any more, lets waiting requests into free slots (first come, first served), plans rows ([`plan`], pure), runs
//! one ragged forward pass with the device to itself, and commits tokens: one per sequence, or several where a verify
//! window was right ([`draft`]). Doors hold a [`GenerationWorker`].
//!
//! KV: a sequence is admitted when its prompt and a part of its answer (`generation.kv_reserve`) fit the budget. Answers
//! may grow beyond: when the budget runs out the youngest sequence loses its slot, waits first in line and reads its
//! tokens again; its text goes on where it was. Idle slots keep their tokens for requests that begin alike ([`slots`],
//! pure), as long as nobody needs the room; and what one sequence reads, others that begin alike take over ([`share`]).
//!
//! Channel: admitted requests to the thread. Admission (`generation.queue`) bounds it, so it never fills up; an idle
//! worker sleeps on it. Cancellation is a flag that each iteration looks at, so it needs no message: while anything is
//! queued, something runs. Event channels to readers are bounded too; a reader that stops is cancelled, never waited for.
//!
//! The model's own head may draft ([`native`]), under the same hold of the device as the pass that follows; or a second,
//! smaller model ([`draft_model`]), which is loaded and run on the same thread and takes the device for itself. A profile
//! names one of them at most.
//!
//! Failure: a forward pass that fails or panics is run again for each of its sequences alone; those that fail alone end
//! with a fault, the others go on as if nothing had happened. A slot is empty before it is used again.

mod admit;
mod commit;
mod door;
pub mod draft;
mod draft_model;
mod native;
mod pass;
pub mod plan;
mod rates;
mod self_check;
mod sequence;
mod share;
mod slots;
mod speculation;
mod step;
mod thread;
mod view;

#[cfg(test)]
mod tests;

pub(super) use door::{GenerationWorker, queue_room};
pub(super) use thread::Load;
pub(super) use view::GenerationView;
