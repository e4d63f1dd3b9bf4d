//! One step of the published controller.

use super::moves::{Knob, MoveCause};
use super::settings::ControllerSettings;
use crate::engine::scheduler::Micros;
use crate::engine::scheduler::budget::CostRange;

/// What the trackers say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Observed {
    /// Median model time of a batch, in ms.
    pub inference: Option<f64>,
    /// Median latency of a request, in ms.
    pub latency: Option<f64>,
    /// Mean fill.
    pub fill: Option<f64>,
}

/// A knob's new value with its cause. `from` is known to the caller.
pub(super) type Decision = (Knob, f64, MoveCause);

/// The controller's memory. Everything is f64 as published; the cost cap is kept whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Pi {
    pub wait_ms: f64,
    pub cost: u64,
    /// In ms; absent until calibrated.
    pub target: Option<f64>,
    /// In ms·s.
    pub integral: f64,
    /// When the last step with a headroom was.
    clock: Option<Micros>,
    /// Batches in a row of one item or none.
    pub streak: u32,
    pub resets: u64,
    /// Completed primary batches since the last step.
    calls: u32,
}

impl Pi {
    /// A fresh controller at the start of both ranges.
    pub fn new(settings: &ControllerSettings, range: &CostRange) -> Pi {
        Pi {
            wait_ms: settings.clamp_wait(settings.initial_wait_ms),
            cost: range.start,
            target: settings.target_ms,
            ..Pi::default()
        }
    }

    /// A primary batch of `size` items is complete; `None` where its size is not known. Empty between two steps, else
    /// what became of each knob.
    pub fn completed(
        &mut self,
        now: Micros,
        size: Option<usize>,
        seen: &Observed,
        settings: &ControllerSettings,
        range: &CostRange,
    ) -> Vec<Decision> {
        match size {
            Some(2..) => self.streak = 0,
            Some(_) => self.streak = self.streak.saturating_add(1),
            None => {}
        }
        self.calls += 1;
        if self.calls < settings.every {
            return Vec::new();
        }
        self.calls = 0;
        let Some(target) = self.target else {
            let Some(inference) = seen.inference else { return self.hold(MoveCause::Uncalibrated) };
            let target = (settings.calibration * inference).max(settings.min_target_ms).min(settings.max_target_ms);
            self.target = Some(target);
            self.integral = 0.0;
            return self.hold(MoveCause::Calibrated);
        };
        if settings.freeze {
            // Time that passes while it is held is no part of the next step.
            self.clock = None;
            return self.hold(MoveCause::Frozen);
        }
        let Some(observed) = seen.latency else { return self.hold(MoveCause::NoLatency) };
        let at_floors = self.wait_ms <= settings.min_wait_ms && self.cost <= range.floor;
        if self.streak >= settings.starved_after && at_floors {
            return self.reset(settings, range);
        }
        self.step(now, target, target - observed, seen.fill, settings, range)
    }

    /// Both knobs have nothing left to lower and requests still come one by one: begins anew from higher up.
    fn reset(&mut self, settings: &ControllerSettings, range: &CostRange) -> Vec<Decision> {
        self.wait_ms = settings.clamp_wait((settings.min_wait_ms + settings.initial_wait_ms) / 2.0);
        self.cost = range.clamp((range.start / 2).max(range.floor.saturating_mul(4)));
        self.integral = 0.0;
        self.clock = None;
        self.streak = 0;
        self.resets += 1;
        self.hold(MoveCause::Starvation)
    }

    fn step(
        &mut self,
        now: Micros,
        target: f64,
        headroom: f64,
        fill: Option<f64>,
        settings: &ControllerSettings,
        range: &CostRange,
    ) -> Vec<Decision> {
        let dt = self.clock.map_or(0.0, |last| (now - last).as_secs().min(settings.max_step_s));
        self.clock = Some(now);
        if dt > settings.decay_from_s {
            self.integral *= 0.5f64.powf(dt - settings.decay_from_s);
        }
        // At a bound there is nothing to integrate towards it: the way back would be longer by all of it.
        let at_bound = |at_floor: bool, at_ceiling: bool| {
            if headroom < 0.0 { at_floor } else { at_ceiling && headroom > 0.0 }
        };
        let wait_bound = at_bound(self.wait_ms <= settings.min_wait_ms, self.wait_ms >= settings.max_wait_ms);
        if !wait_bound {
            let limit = settings.integral_limit;
            self.integral = (self.integral + headroom * dt).max(-limit).min(limit);
        }
        let wait_from = self.wait_ms;
        let change = settings.gain * headroom + settings.integral_gain * self.integral;
        self.wait_ms = settings.clamp_wait(self.wait_ms + change);
        let wait_cause = if wait_bound && self.wait_ms == wait_from { MoveCause::AtBound } else { MoveCause::Headroom };

        let cost_bound = at_bound(self.cost <= range.floor, self.cost >= range.ceiling);
        let cost_cause = match fill {
            Some(fill) if fill >= settings.fill_threshold && cost_bound => MoveCause::AtBound,
            Some(fill) if fill >= settings.fill_threshold => {
                let gain = settings.gain * settings.cost_gain_ratio;
                // `as` truncates, saturates and maps NaN to zero: the range then holds it.
                self.cost = range.clamp((self.cost as f64 * (1.0 + headroom / target * gain)) as u64);
                MoveCause::Headroom
            }
            _ => MoveCause::LowFill,
        };
        vec![(Knob::Wait, self.wait_ms, wait_cause), (Knob::Cost, self.cost as f64, cost_cause)]
    }

    /// Both knobs as they are.
    fn hold(&self, cause: MoveCause) -> Vec<Decision> {
        vec![(Knob::Wait, self.wait_ms, cause), (Knob::Cost, self.cost as f64, cause)]
    }
}
