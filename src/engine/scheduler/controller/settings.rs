//! The constants of the controller, each with its published value, each changeable while it runs.

use thiserror::Error;

/// What moves the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ControllerMode {
    /// Nothing: the caps are what they are set to.
    #[default]
    Off,
    /// The published controller.
    Pi,
}

impl ControllerMode {
    /// The name used in profiles and snapshots.
    pub fn name(self) -> &'static str {
        match self {
            ControllerMode::Off => "off",
            ControllerMode::Pi => "pi",
        }
    }
}

/// See the names; times are in milliseconds unless they say seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ControllerSettings {
    pub mode: ControllerMode,
    /// Holds both knobs where they are; samples are still taken.
    pub freeze: bool,
    /// The batch window at the start; within the range below once the controller is on.
    pub initial_wait_ms: f64,
    pub min_wait_ms: f64,
    pub max_wait_ms: f64,
    /// The median latency to aim at; absent = found by calibration.
    pub target_ms: Option<f64>,
    /// Calibration: the target is this many times the median model time of a batch.
    pub calibration: f64,
    /// What calibration may find.
    pub min_target_ms: f64,
    pub max_target_ms: f64,
    /// ms of window per ms of headroom.
    pub gain: f64,
    /// ms of window per ms·s of integral.
    pub integral_gain: f64,
    /// The integral stays within ± this, in ms·s.
    pub integral_limit: f64,
    /// The gain of the cost cap as a part of `gain`.
    pub cost_gain_ratio: f64,
    /// The cost cap moves only while batches are filled at least so far.
    pub fill_threshold: f64,
    /// Batches of one item or none in a row, with both knobs at their floors, after which the knobs are reset.
    pub starved_after: u32,
    /// A step is made on every so-many-th completed primary batch.
    pub every: u32,
    /// A step counts for at most so long.
    pub max_step_s: f64,
    /// The integral halves for each second that a step is longer than this.
    pub decay_from_s: f64,
    /// Model times kept for calibration.
    pub inference_window: usize,
    /// Latencies of requests kept.
    pub latency_window: usize,
    /// Fills of batches kept.
    pub fill_window: usize,
    /// Fewer samples than this tell nothing.
    pub min_samples: usize,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        ControllerSettings {
            mode: ControllerMode::Off,
            freeze: false,
            initial_wait_ms: 15.0,
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
            every: 10,
            max_step_s: 5.0,
            decay_from_s: 2.0,
            inference_window: 50,
            latency_window: 200,
            fill_window: 50,
            min_samples: 10,
        }
    }
}

/// Settings that contradict each other or are no numbers.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SettingsError {
    #[error("{low_name} is {low} but {high_name} is {high}: nothing lies between them")]
    Range { low_name: &'static str, low: f64, high_name: &'static str, high: f64 },
    #[error("{name} is {value}: it must be {wanted}")]
    Value { name: &'static str, value: f64, wanted: &'static str },
}

impl ControllerSettings {
    /// Refuses what no controller can work with.
    pub fn check(&self) -> Result<(), SettingsError> {
        let not_negative = [
            ("initial_wait_ms", self.initial_wait_ms),
            ("min_wait_ms", self.min_wait_ms),
            ("max_wait_ms", self.max_wait_ms),
            ("calibration", self.calibration),
            ("min_target_ms", self.min_target_ms),
            ("max_target_ms", self.max_target_ms),
            ("gain", self.gain),
            ("integral_gain", self.integral_gain),
            ("integral_limit", self.integral_limit),
            ("cost_gain_ratio", self.cost_gain_ratio),
            ("fill_threshold", self.fill_threshold),
            ("max_step_s", self.max_step_s),
            ("decay_from_s", self.decay_from_s),
        ];
        for (name, value) in not_negative {
            if !value.is_finite() || value < 0.0 {
                return Err(SettingsError::Value { name, value, wanted: "a number that is not negative" });
            }
        }
        let target = self.target_ms.unwrap_or(1.0);
        if !target.is_finite() || target <= 0.0 {
            return Err(SettingsError::Value { name: "target_ms", value: target, wanted: "above 0" });
        }
        let at_least_one = [
            ("every", u64::from(self.every)),
            ("inference_window", self.inference_window as u64),
            ("latency_window", self.latency_window as u64),
            ("fill_window", self.fill_window as u64),
            ("min_samples", self.min_samples as u64),
        ];
        for (name, value) in at_least_one {
            if value == 0 {
                return Err(SettingsError::Value { name, value: 0.0, wanted: "at least 1" });
            }
        }
        let ranges = [
            (("min_wait_ms", self.min_wait_ms), ("max_wait_ms", self.max_wait_ms)),
            (("min_target_ms", self.min_target_ms), ("max_target_ms", self.max_target_ms)),
            // A window that never holds enough samples would leave the controller uncalibrated for ever.
            (("min_samples", self.min_samples as f64), ("inference_window", self.inference_window as f64)),
            (("min_samples", self.min_samples as f64), ("latency_window", self.latency_window as f64)),
        ];
        for ((low_name, low), (high_name, high)) in ranges {
            if low > high {
                return Err(SettingsError::Range { low_name, low, high_name, high });
            }
        }
        Ok(())
    }

    /// Within the range of the batch window.
    pub(super) fn clamp_wait(&self, ms: f64) -> f64 {
        // Not `f64::clamp`, which panics on an inverted range: `check` refuses one, but nothing forces a caller to ask.
        ms.max(self.min_wait_ms).min(self.max_wait_ms)
    }
}
