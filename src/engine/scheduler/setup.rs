//! From a profile's values to the scheduler's: the engine and the simulator are set up by the same hand.

use super::{ControllerMode, ControllerSettings, CostLayers, Layered, SliceWindows};
use crate::profile::{AdaptiveMode, AdaptiveSettings, Bound};

/// The controller's constants. `wait_ms` is the window that is set beside them.
pub fn controller_settings(adaptive: &AdaptiveSettings, wait_ms: f64) -> ControllerSettings {
    let a = adaptive;
    ControllerSettings {
        mode: match a.mode {
            AdaptiveMode::Off => ControllerMode::Off,
            AdaptiveMode::Pi => ControllerMode::Pi,
        },
        freeze: a.freeze,
        initial_wait_ms: a.initial_wait_ms.unwrap_or(wait_ms),
        min_wait_ms: a.min_wait_ms,
        max_wait_ms: a.max_wait_ms,
        target_ms: a.target_ms,
        calibration: a.calibration,
        min_target_ms: a.min_target_ms,
        max_target_ms: a.max_target_ms,
        gain: a.gain,
        integral_gain: a.integral_gain,
        integral_limit: a.integral_limit,
        cost_gain_ratio: a.cost_gain_ratio,
        fill_threshold: a.fill_threshold,
        starved_after: a.starved_after,
        ..ControllerSettings::default()
    }
}

/// The layers of the cost cap: what is set, and the bounds that `adaptive` gives it.
pub fn cost_layers(set: Option<Layered>, adaptive: &AdaptiveSettings) -> CostLayers {
    let bound = |bound: &Option<Bound>| bound.as_ref().map(|b| Layered::set(b.value, b.origin.clone()));
    let a = adaptive;
    CostLayers::new(set).within(bound(&a.min_cost), bound(&a.initial_cost), bound(&a.max_cost))
}

/// What a recording's turn is: so many windows, or all of it.
pub fn slice_windows(windows: Option<usize>) -> SliceWindows {
    let windows = windows.and_then(|n| SliceWindows::windows(u32::try_from(n).unwrap_or(u32::MAX)));
    windows.unwrap_or(SliceWindows::Whole)
}
