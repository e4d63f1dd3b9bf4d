//! Sequence and gate together, against a simulated target whose passes have a price.

mod bench;
mod commits;
mod coordinator;
mod drafting;
mod gain;
mod policies;
mod simulated;
