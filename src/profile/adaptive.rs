//! What adapts a model's caps, as its profile sets it.

use super::origin::Origin;
use super::reader::Reader;

/// What moves the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdaptiveMode {
    /// Nothing.
    #[default]
    Off,
    /// The published controller: proportional and integral on the batch window, proportional on the cost cap.
    Pi,
}

/// A bound with the place that sets it: two that contradict each other are both named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub value: u64,
    pub origin: Origin,
}

/// The constants of the controller; the key table says what each does. Times in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveSettings {
    pub mode: AdaptiveMode,
    pub freeze: bool,
    /// Absent = the model's `wait_ms`.
    pub initial_wait_ms: Option<f64>,
    pub min_wait_ms: f64,
    pub max_wait_ms: f64,
    /// Absent = found by calibration.
    pub target_ms: Option<f64>,
    pub calibration: f64,
    pub min_target_ms: f64,
    pub max_target_ms: f64,
    pub gain: f64,
    pub integral_gain: f64,
    pub integral_limit: f64,
    pub cost_gain_ratio: f64,
    pub fill_threshold: f64,
    pub starved_after: u32,
    /// The range of the cost cap; what is absent follows from the budget.
    pub min_cost: Option<Bound>,
    pub initial_cost: Option<Bound>,
    pub max_cost: Option<Bound>,
}

impl Default for AdaptiveSettings {
    /// The defaults of the key table.
    fn default() -> Self {
        AdaptiveSettings {
            mode: AdaptiveMode::Off,
            freeze: false,
            initial_wait_ms: None,
            min_wait_ms: 15.0,
            max_wait_ms: 50.0,
            target_ms: None,
            calibration: 1.5,
            min_target_ms: 5.0,
            max_target_ms: 500.0,
            gain: 0.3,
            integral_gain: 0.05,
            integral_limit: 20.0,
            cost_gain_ratio: 0.5,
            fill_threshold: 0.7,
            starved_after: 20,
            min_cost: None,
            initial_cost: None,
            max_cost: None,
        }
    }
}

/// Reads `adaptive.*`.
pub(super) fn read(reader: &mut Reader<'_>) -> AdaptiveSettings {
    let usual = AdaptiveSettings::default();
    let mode = match reader.word("adaptive.mode") {
        Some("pi") => AdaptiveMode::Pi,
        _ => AdaptiveMode::Off,
    };
    let mut ms = |path: &str, usual: f64| reader.time(path).unwrap_or(usual);
    let (min_wait_ms, max_wait_ms) =
        (ms("adaptive.min_wait_ms", usual.min_wait_ms), ms("adaptive.max_wait_ms", usual.max_wait_ms));
    let (min_target_ms, max_target_ms) =
        (ms("adaptive.min_target_ms", usual.min_target_ms), ms("adaptive.max_target_ms", usual.max_target_ms));
    let mut number = |path: &str, usual: f64| reader.number(path).unwrap_or(usual);
    let settings = AdaptiveSettings {
        mode,
        min_wait_ms,
        max_wait_ms,
        min_target_ms,
        max_target_ms,
        calibration: number("adaptive.calibration", usual.calibration),
        gain: number("adaptive.gain", usual.gain),
        integral_gain: number("adaptive.integral_gain", usual.integral_gain),
        integral_limit: number("adaptive.integral_limit", usual.integral_limit),
        cost_gain_ratio: number("adaptive.cost_gain_ratio", usual.cost_gain_ratio),
        fill_threshold: number("adaptive.fill_threshold", usual.fill_threshold),
        ..usual
    };
    let settings = AdaptiveSettings {
        freeze: reader.boolean("adaptive.freeze").unwrap_or(false),
        initial_wait_ms: reader.time("adaptive.initial_wait_ms"),
        target_ms: reader.time("adaptive.target_ms"),
        starved_after: reader.count("adaptive.starved_after").and_then(|n| u32::try_from(n).ok()).unwrap_or(20),
        min_cost: bound(reader, "adaptive.min_cost"),
        initial_cost: bound(reader, "adaptive.initial_cost"),
        max_cost: bound(reader, "adaptive.max_cost"),
        ..settings
    };
    ordered(reader, ("adaptive.min_wait_ms", settings.min_wait_ms), ("adaptive.max_wait_ms", settings.max_wait_ms));
    let (low, high) = (settings.min_target_ms, settings.max_target_ms);
    ordered(reader, ("adaptive.min_target_ms", low), ("adaptive.max_target_ms", high));
    settings
}

fn bound(reader: &mut Reader<'_>, path: &str) -> Option<Bound> {
    let value = reader.count(path)?;
    Some(Bound { value, origin: reader.origin(path) })
}

/// Refuses a range that is upside down, naming both; the fault stands at the one that was set.
fn ordered(reader: &mut Reader<'_>, (low, a): (&str, f64), (high, b): (&str, f64)) {
    if a > b {
        let p = reader.prefix.clone();
        let at = if reader.given(low).is_some() { low } else { high };
        reader.fault(at, format!("`{p}{low}` is {a} but `{p}{high}` is {b}: nothing lies between them"));
    }
}
