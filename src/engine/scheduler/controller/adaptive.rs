//! The layers of the cost cap, the samples and the controller of one (model, operation).

use super::moves::{CapMove, Knob, MoveCause};
use super::pi::{Decision, Observed, Pi};
use super::settings::{ControllerMode, ControllerSettings};
use super::trackers::Window;
use crate::engine::scheduler::budget::{Adoption, CostLayers, CostRange, RangeError};
use crate::engine::scheduler::{BatchCaps, Micros};
use std::collections::VecDeque;

/// Moves that are remembered.
const MOVES: usize = 10;

/// The controller, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerView {
    pub mode: ControllerMode,
    pub frozen: bool,
    pub calibrated: bool,
    pub target_ms: Option<f64>,
    pub observed_p50_ms: Option<f64>,
    /// Target minus observed.
    pub headroom_ms: Option<f64>,
    pub fill_ratio: Option<f64>,
    /// In ms·s.
    pub integral: f64,
    pub streak: u64,
    pub resets: u64,
    /// Floor, start and ceiling of the window, in ms.
    pub wait_range_ms: [f64; 3],
    /// The last moves, newest last. Of holds with one cause in a row only the last is kept.
    pub moves: Vec<CapMove>,
}

/// What decides the window and the cost cap of one former. Its owner feeds it samples and puts its [`caps`](Self::caps)
/// into the former after each call that returns moves.
#[derive(Debug, Clone)]
pub struct Adaptive {
    settings: ControllerSettings,
    layers: CostLayers,
    range: CostRange,
    /// No batch above this: a dearer one did not fit into memory.
    fits: Option<u64>,
    pi: Pi,
    inference: Window,
    latency: Window,
    fill: Window,
    moves: VecDeque<CapMove>,
}

impl Adaptive {
    /// Refuses a range of the cost cap whose floor is above its ceiling.
    pub fn new(settings: ControllerSettings, layers: CostLayers) -> Result<Adaptive, RangeError> {
        let range = layers.range()?;
        Ok(Adaptive {
            pi: start(&settings, &range),
            inference: Window::new(settings.inference_window),
            latency: Window::new(settings.latency_window),
            fill: Window::new(settings.fill_window),
            moves: VecDeque::new(),
            fits: None,
            settings,
            layers,
            range,
        })
    }

    pub fn settings(&self) -> &ControllerSettings {
        &self.settings
    }

    pub fn layers(&self) -> &CostLayers {
        &self.layers
    }

    /// What the cost cap may be: floor, start and ceiling.
    pub fn range(&self) -> &CostRange {
        &self.range
    }

    /// `caps` with the window and the cost cap that hold now.
    pub fn caps(&self, caps: BatchCaps) -> BatchCaps {
        // An endless window is nothing to adapt.
        let wait = if caps.wait == Micros::MAX { caps.wait } else { Micros::from_ms(self.pi.wait_ms) };
        BatchCaps { max_cost: self.pi.cost, wait, ..caps }
    }

    /// A batch ran in the model for so long.
    pub fn inferred(&mut self, model_time: Micros) {
        self.inference.push(model_time.as_ms());
    }

    /// A request was answered so long after it was submitted.
    pub fn answered(&mut self, latency: Micros) {
        self.latency.push(latency.as_ms());
    }

    /// A batch of this cost was formed under this cap.
    pub fn filled(&mut self, cost: u64, cap: u64) {
        self.fill.push(cost as f64 / cap.max(1) as f64);
    }

    /// A primary batch is complete (not one of a drain); `size` where it is known. On every tenth, what became of each
    /// knob: a move, or why it was held.
    pub fn completed(&mut self, now: Micros, size: Option<usize>) -> Vec<CapMove> {
        if self.settings.mode == ControllerMode::Off {
            return Vec::new();
        }
        let (range, before) = (self.bounded_range(), (self.pi.wait_ms, self.pi.cost));
        let seen = self.observed();
        let decisions = self.pi.completed(now, size, &seen, &self.settings, &range);
        self.record(now, before, decisions)
    }

    /// The model reports its budget; 0 and absent mean that it reports none.
    pub fn report_budget(&mut self, now: Micros, budget: Option<u64>) -> Result<(Adoption, Vec<CapMove>), RangeError> {
        self.relayer(now, MoveCause::Budget, |layers| layers.report(budget))
    }

    /// An operator sets the cost cap, or lets it go.
    pub fn override_cost(&mut self, now: Micros, cost: Option<u64>) -> Result<(Adoption, Vec<CapMove>), RangeError> {
        self.relayer(now, MoveCause::Override, |layers| layers.set_live(cost))
    }

    /// The layers of profile, environment, command line and operator are others now. What the model reported and a cap set
    /// by [`override_cost`](Self::override_cost) stay. A budget that is the same keeps the knobs where they are, within
    /// the new range.
    pub fn set_layers(&mut self, now: Micros, layers: &CostLayers) -> Result<Vec<CapMove>, RangeError> {
        let (_, moves) = self.relayer(now, MoveCause::Override, |own| own.adopt(layers))?;
        let range = self.layers.range()?;
        if range == self.range {
            return Ok(moves);
        }
        self.range = range;
        let before = (self.pi.wait_ms, self.pi.cost);
        if self.settings.mode == ControllerMode::Pi {
            let cost = range.clamp(self.pi.cost);
            self.pi.cost = self.fits.map_or(cost, |fits| cost.min(fits));
        }
        Ok(self.moved(now, before, MoveCause::Override))
    }

    /// What binds changes only if the outcome is a range; else nothing changes.
    fn relayer(
        &mut self,
        now: Micros,
        cause: MoveCause,
        change: impl FnOnce(&mut CostLayers) -> Adoption,
    ) -> Result<(Adoption, Vec<CapMove>), RangeError> {
        let mut layers = self.layers.clone();
        let adoption = change(&mut layers);
        let range = layers.range()?;
        self.layers = layers;
        if !matches!(adoption, Adoption::Adopted { .. }) {
            return Ok((adoption, Vec::new()));
        }
        // A fresh controller on the new range: what filled the old cap says nothing of the new one. Latencies stay.
        self.range = range;
        self.fits = None;
        self.fill.clear();
        let before = (self.pi.wait_ms, self.pi.cost);
        self.pi = start(&self.settings, &self.range);
        Ok((adoption, self.moved(now, before, cause)))
    }

    /// A batch did not fit into memory, one of `cost` did, or is to be tried: no batch is dearer from now on, until the
    /// budget changes.
    pub fn out_of_memory(&mut self, now: Micros, cost: u64) -> Vec<CapMove> {
        let fits = cost.max(1);
        self.fits = Some(self.fits.map_or(fits, |other| other.min(fits)));
        let before = (self.pi.wait_ms, self.pi.cost);
        self.pi.cost = self.pi.cost.min(fits);
        self.moved(now, before, MoveCause::OutOfMemory)
    }

    /// New settings, after [`ControllerSettings::check`]: they hold from the next batch. A change of mode begins anew
    /// from what is set; else the knobs stay where they are, within the new ranges.
    pub fn set_settings(&mut self, now: Micros, settings: ControllerSettings) -> Vec<CapMove> {
        let old = std::mem::replace(&mut self.settings, settings);
        self.inference.resize(settings.inference_window);
        self.latency.resize(settings.latency_window);
        self.fill.resize(settings.fill_window);
        let before = (self.pi.wait_ms, self.pi.cost);
        if old.mode != settings.mode {
            self.pi = start(&settings, &self.range);
            self.pi.cost = self.fits.map_or(self.pi.cost, |fits| self.pi.cost.min(fits));
            return self.moved(now, before, MoveCause::Settings);
        }
        match settings.mode {
            ControllerMode::Off => self.pi.wait_ms = settings.initial_wait_ms,
            ControllerMode::Pi => self.pi.wait_ms = settings.clamp_wait(self.pi.wait_ms),
        }
        let limit = settings.integral_limit;
        self.pi.integral = self.pi.integral.max(-limit).min(limit);
        if old.target_ms != settings.target_ms {
            // Set: aimed at from now on. Let go: found anew.
            self.pi.target = settings.target_ms;
            self.pi.integral = 0.0;
        } else if settings.target_ms.is_none() {
            self.pi.target = self.pi.target.map(|ms| ms.max(settings.min_target_ms).min(settings.max_target_ms));
        }
        self.moved(now, before, MoveCause::Settings)
    }

    pub fn view(&self) -> ControllerView {
        let seen = self.observed();
        ControllerView {
            mode: self.settings.mode,
            frozen: self.settings.freeze,
            calibrated: self.pi.target.is_some(),
            target_ms: self.pi.target,
            observed_p50_ms: seen.latency,
            headroom_ms: self.pi.target.zip(seen.latency).map(|(target, observed)| target - observed),
            fill_ratio: seen.fill,
            integral: self.pi.integral,
            streak: u64::from(self.pi.streak),
            resets: self.pi.resets,
            wait_range_ms: {
                let ControllerSettings { min_wait_ms, initial_wait_ms, max_wait_ms, .. } = self.settings;
                [min_wait_ms, initial_wait_ms, max_wait_ms]
            },
            moves: self.moves.iter().copied().collect(),
        }
    }

    fn observed(&self) -> Observed {
        let least = self.settings.min_samples;
        Observed {
            inference: self.inference.percentile(50.0, least),
            latency: self.latency.percentile(50.0, least),
            fill: self.fill.mean(),
        }
    }

    /// The range, with nothing above what fits into memory.
    fn bounded_range(&self) -> CostRange {
        match self.fits {
            None => self.range,
            Some(fits) => CostRange {
                budget: self.range.budget.min(fits),
                floor: self.range.floor.min(fits),
                start: self.range.start.min(fits),
                ceiling: self.range.ceiling.min(fits),
            },
        }
    }

    /// The knobs that are not where they were.
    fn moved(&mut self, now: Micros, before: (f64, u64), cause: MoveCause) -> Vec<CapMove> {
        let mut decisions: Vec<Decision> = Vec::new();
        if before.0 != self.pi.wait_ms {
            decisions.push((Knob::Wait, self.pi.wait_ms, cause));
        }
        if before.1 != self.pi.cost {
            decisions.push((Knob::Cost, self.pi.cost as f64, cause));
        }
        self.record(now, before, decisions)
    }

    fn record(&mut self, now: Micros, before: (f64, u64), decisions: Vec<Decision>) -> Vec<CapMove> {
        let seen = self.observed();
        let (wait, cost) = (before.0, before.1 as f64);
        let told = |(knob, to, cause): Decision| CapMove {
            at: now,
            knob,
            from: if knob == Knob::Wait { wait } else { cost },
            to,
            cause,
            observed: seen.latency,
            target: self.pi.target,
            fill: seen.fill,
        };
        let moves: Vec<CapMove> = decisions.into_iter().map(told).collect();
        for made in &moves {
            // A knob that is still held for the same reason has one line, not ten.
            let last = self.moves.iter().rposition(|old| old.knob == made.knob);
            let again =
                last.filter(|at| made.cause.holds() && self.moves.get(*at).is_some_and(|m| m.cause == made.cause));
            match again {
                Some(at) => drop(self.moves.remove(at)),
                None if self.moves.len() == MOVES => drop(self.moves.pop_front()),
                None => {}
            }
            self.moves.push_back(*made);
        }
        moves
    }
}

/// Where the knobs begin: under control within both ranges, else as they are set.
fn start(settings: &ControllerSettings, range: &CostRange) -> Pi {
    let mut pi = Pi::new(settings, range);
    if settings.mode == ControllerMode::Off {
        (pi.wait_ms, pi.cost) = (settings.initial_wait_ms, range.budget);
    }
    pi
}
