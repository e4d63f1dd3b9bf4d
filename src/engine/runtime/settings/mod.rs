//! The live settings of a running engine: who may change what, what is written down, and when it ends by itself.
//!
//! [`Settings`] owns the ledger and the journal behind one lock, so changes come one after the other. A change is checked
//! as a whole against the rules that hold at a start and against what this engine was allocated for; then its entry is
//! written to the journal and flushed; then it is handed to the owners of the values, who take it between two batches;
//! then it is answered. Handing over cannot fail, so nothing is ever half applied. A journal that cannot be written
//! refuses further changes and leaves the engine serving.
//!
//! A lease may have a guard, which [`guards`] holds against the engine's own snapshot four times a second: the engine
//! undoes the change as soon as it does not hold. What a change did is measured ([`effects`]) when the time after it is over, and written
//! down as a line of its own.
//!
//! What operators do with single requests ([`hands`]) is no setting, and goes into the same journal under the same revisions.
//!
//! Threads: doors call in from blocking threads (a change waits for the disk); one thread of its own ends leases, judges
//! guards and measures effects, asleep until the next of these is due. Readers (snapshots) take what was published last and wait for nobody.

mod checks;
mod effects;
mod envelope;
mod faults;
mod guards;
mod hands;
mod journal;
mod leases;
mod resolve;
mod shown;
mod store;
#[cfg(test)]
mod tests;

pub(super) use guards::sound as guard_is_sound;
pub(super) use leases::Leases;
pub use store::Settings;
