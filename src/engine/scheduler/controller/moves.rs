//! What the controller did, and why.

use crate::engine::scheduler::Micros;

/// What can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Knob {
    /// The batch window, in milliseconds.
    Wait,
    /// The cost cap, in the operation's unit.
    Cost,
}

impl Knob {
    /// The name used in snapshots and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Knob::Wait => "wait_ms",
            Knob::Cost => "max_batch_cost",
        }
    }
}

/// Why a knob was moved, or held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveCause {
    /// Latency is above or below its target.
    Headroom,
    /// Lone requests for long with both knobs at their floors: tried again from higher up.
    Starvation,
    /// The model's budget changed.
    Budget,
    /// An operator set it, or let it go.
    Override,
    /// An operator changed the controller's settings.
    Settings,
    /// A batch did not fit into memory.
    OutOfMemory,
    /// Held: the target has just been found.
    Calibrated,
    /// Held: too few batches have run to find a target.
    Uncalibrated,
    /// Held: too few requests have been answered to know the latency.
    NoLatency,
    /// Held by an operator.
    Frozen,
    /// Held: it is at the end of its range already.
    AtBound,
    /// Held: batches are not filled, so the cost cap is not what latency depends on.
    LowFill,
}

impl MoveCause {
    /// Every cause.
    pub const ALL: [MoveCause; 12] = [
        MoveCause::Headroom,
        MoveCause::Starvation,
        MoveCause::Budget,
        MoveCause::Override,
        MoveCause::Settings,
        MoveCause::OutOfMemory,
        MoveCause::Calibrated,
        MoveCause::Uncalibrated,
        MoveCause::NoLatency,
        MoveCause::Frozen,
        MoveCause::AtBound,
        MoveCause::LowFill,
    ];

    /// The name used in snapshots and metrics.
    pub fn name(self) -> &'static str {
        match self {
            MoveCause::Headroom => "headroom",
            MoveCause::Starvation => "starvation",
            MoveCause::Budget => "budget",
            MoveCause::Override => "override",
            MoveCause::Settings => "settings",
            MoveCause::OutOfMemory => "out_of_memory",
            MoveCause::Calibrated => "hold_calibrated",
            MoveCause::Uncalibrated => "hold_uncalibrated",
            MoveCause::NoLatency => "hold_no_latency",
            MoveCause::Frozen => "hold_frozen",
            MoveCause::AtBound => "hold_at_bound",
            MoveCause::LowFill => "hold_low_fill",
        }
    }

    /// Whether it says why a knob was left alone.
    pub fn holds(self) -> bool {
        self.name().starts_with("hold_")
    }
}

/// A knob moved, or was held and why. `from` and `to` are milliseconds or cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapMove {
    pub at: Micros,
    pub knob: Knob,
    pub from: f64,
    pub to: f64,
    pub cause: MoveCause,
    /// Median latency of requests, in ms.
    pub observed: Option<f64>,
    /// In ms.
    pub target: Option<f64>,
    /// Mean fill of the last batches.
    pub fill: Option<f64>,
}
