//! Sequence and gate together, against a simulated target whose passes have a price.

mod bench;
mod gain;
mod policies;
