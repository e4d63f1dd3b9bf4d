//! The live settings of a running engine: who may change what, what is written down, and when it ends by itself.
//!
//! [`Settings`] owns the ledger and the journal behind one lock, so changes come one after the other. A change is checked
//! as a whole against the rules that hold at a start and against what this engine was allocated for; then its entry is
//! written to the journal and flushed; then it is handed to the owners of the values, who take it between two batches;
//! then it is answered. Handing over cannot fail, so nothing is ever half applied. A journal that cannot be written
//! refuses further changes and leaves the engine serving.
//!
//! Threads: doors call in from blocking threads (a change waits for the disk); one thread of its own ends leases, asleep
//! until the next one is due. Readers (snapshots) take what was published last and wait for nobody.

mod envelope;
mod journal;
mod leases;
mod store;
#[cfg(test)]
mod tests;

pub(super) use leases::Leases;
pub use store::Settings;
