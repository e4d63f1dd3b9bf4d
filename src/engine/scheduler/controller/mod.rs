//! What adapts the caps of one (model, operation): a PI controller on the batch window and a P controller on the cost
//! cap, from measured latency. Pure: time and samples come in, moves with their causes go out as [`CapMove`].
//!
//! [`Adaptive`] is what a former's owner holds: the layers of the cost cap ([`CostLayers`](super::CostLayers)), the
//! trackers and the controller. `settings` has every constant, `trackers` the windows of samples, `pi` one step,
//! `moves` what came of it. The published controller is rebuilt exactly, its faults with it: observed latency contains
//! the time in the queue while the target is made of model time alone; short clips never fill a large cap, so the cost
//! cap rests; one step can fall to the floor. The moves show all three. A second controller would be another
//! [`ControllerMode`] and another file beside `pi`.

mod adaptive;
mod moves;
mod pi;
pub mod settings;
#[cfg(test)]
mod tests;
mod trackers;

pub use adaptive::{Adaptive, ControllerView};
pub use moves::{CapMove, Knob, MoveCause};
pub use settings::{ControllerMode, ControllerSettings, SettingsError};
