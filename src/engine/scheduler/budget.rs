//! The cost cap's layers: which value binds, where it comes from, and the range that a controller may move it in.
//!
//! Later wins: built-in < the budget that the model reports < profile < environment < command line < live override. The
//! three in the middle come as one value with its [`Origin`]: profiles are layered where they are read.

use super::DEFAULT_MAX_BATCH_COST;
use crate::profile::Origin;
use std::fmt;
use thiserror::Error;

/// The layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapOrigin {
    BuiltIn,
    /// The model's own budget.
    Model,
    /// Profile, environment or command line.
    Set(Origin),
    /// An operator, while the engine runs.
    Live,
    /// It follows from the budget, which comes from there.
    Derived(Box<CapOrigin>),
}

impl CapOrigin {
    /// The name used in snapshots.
    pub fn name(&self) -> &'static str {
        match self {
            CapOrigin::BuiltIn | CapOrigin::Set(Origin::BuiltIn) => "default",
            CapOrigin::Model => "model",
            CapOrigin::Set(Origin::File(_)) => "profile",
            CapOrigin::Set(Origin::Env { .. }) => "environment",
            CapOrigin::Set(Origin::CommandLine { .. }) => "command_line",
            CapOrigin::Live | CapOrigin::Set(Origin::Live) => "live",
            CapOrigin::Derived(from) => from.name(),
        }
    }
}

impl fmt::Display for CapOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapOrigin::BuiltIn => f.write_str("built-in"),
            CapOrigin::Model => f.write_str("the model's own budget"),
            CapOrigin::Set(origin) => write!(f, "{origin}"),
            CapOrigin::Live => f.write_str("live override"),
            CapOrigin::Derived(from) => write!(f, "from the budget, {from}"),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layered {
    pub value: u64,
    pub origin: CapOrigin,
}

impl Layered {
    /// Set by profile, environment or command line.
    pub fn set(value: u64, origin: Origin) -> Layered {
        Layered { value, origin: CapOrigin::Set(origin) }
    }

    fn derived(value: u64, from: &Layered) -> Layered {
        Layered { value, origin: CapOrigin::Derived(Box::new(from.origin.clone())) }
    }
}

/// What the cost cap is made of. One per (model, operation): operations count in different units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostLayers {
    reported: Option<u64>,
    set: Option<Layered>,
    live: Option<u64>,
    /// `adaptive.min_cost`, `adaptive.initial_cost`, `adaptive.max_cost`, where they are set.
    floor: Option<Layered>,
    start: Option<Layered>,
    ceiling: Option<Layered>,
}

/// What came of a reported budget or an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adoption {
    /// Another budget binds.
    Adopted { from: u64, to: u64 },
    /// It is known, and a stronger layer binds.
    Pinned { by: CapOrigin },
    /// It is what binds already.
    Unchanged,
    /// Nothing was reported.
    NotReported,
}

/// Where a controller may move the cost cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostRange {
    /// The cap without a controller.
    pub budget: u64,
    pub floor: u64,
    pub start: u64,
    pub ceiling: u64,
}

impl CostRange {
    pub(super) fn clamp(&self, cost: u64) -> u64 {
        cost.max(self.floor).min(self.ceiling)
    }
}

/// The floor of the cost cap is above its ceiling.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the cost cap's floor `adaptive.min_cost` is {} ({}) but its ceiling `adaptive.max_cost` is {} ({})",
    floor.value, floor.origin, ceiling.value, ceiling.origin
)]
pub struct RangeError {
    pub floor: Layered,
    pub ceiling: Layered,
}

/// A budget of 0 is none.
fn some(budget: Option<u64>) -> Option<u64> {
    budget.filter(|value| *value > 0)
}

impl CostLayers {
    /// `set`: the budget of profile, environment or command line.
    pub fn new(set: Option<Layered>) -> CostLayers {
        CostLayers { set: set.filter(|set| set.value > 0), ..CostLayers::default() }
    }

    /// Bounds that profile, environment or command line give the controller; those that are absent follow from the
    /// budget.
    pub fn within(mut self, floor: Option<Layered>, start: Option<Layered>, ceiling: Option<Layered>) -> CostLayers {
        (self.floor, self.start, self.ceiling) = (floor, start, ceiling);
        self
    }

    /// The budget that binds.
    pub fn budget(&self) -> Layered {
        match (self.live, &self.set, self.reported) {
            (Some(value), _, _) => Layered { value, origin: CapOrigin::Live },
            (None, Some(set), _) => set.clone(),
            (None, None, Some(value)) => Layered { value, origin: CapOrigin::Model },
            (None, None, None) => Layered { value: DEFAULT_MAX_BATCH_COST, origin: CapOrigin::BuiltIn },
        }
    }

    /// Floor and ceiling with their origins. Where they are not set: a quarter of the budget (at least 256, at most the
    /// budget), and four times it (at least the floor).
    pub fn bounds(&self) -> (Layered, Layered) {
        let budget = self.budget();
        let b = budget.value;
        let floor = self.floor.clone().unwrap_or_else(|| Layered::derived((b / 4).max(256).min(b.max(1)), &budget));
        let derived = || Layered::derived(b.saturating_mul(4).max(floor.value), &budget);
        let ceiling = self.ceiling.clone().unwrap_or_else(derived);
        (floor, ceiling)
    }

    /// Refuses a floor above the ceiling, naming both.
    pub fn range(&self) -> Result<CostRange, RangeError> {
        let (floor, ceiling) = self.bounds();
        if floor.value > ceiling.value {
            return Err(RangeError { floor, ceiling });
        }
        let budget = self.budget().value;
        let start = self.start.as_ref().map_or(budget, |start| start.value);
        let start = start.max(floor.value).min(ceiling.value);
        Ok(CostRange { budget, floor: floor.value, start, ceiling: ceiling.value })
    }

    /// The model reports its budget.
    pub fn report(&mut self, budget: Option<u64>) -> Adoption {
        let Some(budget) = some(budget) else { return Adoption::NotReported };
        let before = self.budget();
        self.reported = Some(budget);
        let after = self.budget();
        match after.origin {
            CapOrigin::Model => changed(before.value, after.value),
            pinned => Adoption::Pinned { by: pinned },
        }
    }

    /// What is set, and the bounds, are those of `other`; what was reported and the operator's own cap stay.
    pub(super) fn adopt(&mut self, other: &CostLayers) -> Adoption {
        let before = self.budget();
        (self.set, self.floor) = (other.set.clone(), other.floor.clone());
        (self.start, self.ceiling) = (other.start.clone(), other.ceiling.clone());
        changed(before.value, self.budget().value)
    }

    /// An operator sets the budget, or lets it go: then the next layer binds again.
    pub fn set_live(&mut self, budget: Option<u64>) -> Adoption {
        let before = self.budget();
        self.live = some(budget);
        changed(before.value, self.budget().value)
    }
}

fn changed(from: u64, to: u64) -> Adoption {
    if from == to { Adoption::Unchanged } else { Adoption::Adopted { from, to } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(value: u64, variable: &str) -> Layered {
        Layered::set(value, Origin::Env { variable: variable.to_string(), alias: false })
    }

    fn range_of(budget: u64) -> (u64, u64, u64) {
        let mut layers = CostLayers::default();
        layers.report(Some(budget));
        let range = layers.range().expect("a derived range is sound");
        (range.floor, range.start, range.ceiling)
    }

    #[test]
    fn the_range_follows_from_the_budget() {
        assert_eq!(range_of(720_000), (180_000, 720_000, 2_880_000));
        assert_eq!(range_of(16_384), (4_096, 16_384, 65_536));
        assert_eq!(range_of(512), (256, 512, 2_048));
        assert_eq!(range_of(128), (128, 128, 512));
        assert_eq!(range_of(1), (1, 1, 4));
        assert_eq!(range_of(u64::MAX), (u64::MAX / 4, u64::MAX, u64::MAX), "four times saturates");
    }

    #[test]
    fn later_layers_win_and_say_where_they_come_from() {
        let mut layers = CostLayers::default();
        assert_eq!((layers.budget().value, layers.budget().origin.name()), (16_384, "default"));
        assert_eq!(layers.report(Some(720_000)), Adoption::Adopted { from: 16_384, to: 720_000 });
        assert_eq!(layers.budget().origin.name(), "model");
        let mut layers = CostLayers::new(Some(env(9_000, "LANEKEEPER_MODELS_M_MAX_BATCH_TOKENS")));
        let Adoption::Pinned { by } = layers.report(Some(720_000)) else { panic!("the environment is stronger") };
        assert_eq!(by.to_string(), "environment LANEKEEPER_MODELS_M_MAX_BATCH_TOKENS");
        assert_eq!((layers.budget().value, by.name()), (9_000, "environment"));
        assert_eq!(layers.set_live(Some(5_000)), Adoption::Adopted { from: 9_000, to: 5_000 });
        assert_eq!(layers.budget(), Layered { value: 5_000, origin: CapOrigin::Live });
        assert_eq!(layers.set_live(None), Adoption::Adopted { from: 5_000, to: 9_000 });
        assert_eq!(layers.set_live(Some(0)), Adoption::Unchanged, "0 is no budget");
    }

    #[test]
    fn a_reported_budget_that_is_none_or_the_same_changes_nothing() {
        let mut layers = CostLayers::default();
        assert_eq!(layers.report(None), Adoption::NotReported);
        assert_eq!(layers.report(Some(0)), Adoption::NotReported);
        layers.report(Some(512));
        assert_eq!(layers.report(Some(0)), Adoption::NotReported);
        assert_eq!(layers.budget().value, 512, "0 never resets what was reported");
        assert_eq!(layers.report(Some(512)), Adoption::Unchanged);
    }

    #[test]
    fn a_range_that_is_set_binds_the_start() {
        let range = |budget, floor: Option<u64>, start: Option<u64>, ceiling: Option<u64>| {
            let set = |value: Option<u64>| value.map(|value| env(value, "X"));
            let layers = CostLayers::new(Some(env(budget, "B"))).within(set(floor), set(start), set(ceiling));
            layers.range().map(|range| (range.floor, range.start, range.ceiling))
        };
        assert_eq!(range(16_384, None, None, Some(8_000)), Ok((4_096, 8_000, 8_000)));
        assert_eq!(range(16_384, Some(20_000), None, None), Ok((20_000, 20_000, 65_536)));
        assert_eq!(range(16_384, None, Some(1), None), Ok((4_096, 4_096, 65_536)), "a start is clamped too");
        assert_eq!(range(16_384, Some(10), Some(99), Some(100)), Ok((10, 99, 100)));
    }

    #[test]
    fn a_floor_above_the_ceiling_is_refused_naming_both() {
        let set = |floor, ceiling| CostLayers::new(Some(env(1_000, "B"))).within(floor, None, ceiling);
        assert_eq!(
            set(Some(env(900, "MIN")), Some(env(800, "MAX"))).range().expect_err("800 is below 900").to_string(),
            "the cost cap's floor `adaptive.min_cost` is 900 (environment MIN) but its ceiling `adaptive.max_cost` is 800 \
             (environment MAX)"
        );
        assert_eq!(
            set(None, Some(env(200, "MAX"))).range().expect_err("a quarter is at least 256").to_string(),
            "the cost cap's floor `adaptive.min_cost` is 256 (from the budget, environment B) but its ceiling \
             `adaptive.max_cost` is 200 (environment MAX)"
        );
        assert!(set(Some(env(5_000, "MIN")), None).range().is_ok(), "a ceiling that nobody set gives way");
        let layers = CostLayers::new(Some(env(720_000, "B"))).within(None, None, Some(env(9_000, "MAX")));
        let error = layers.range().expect_err("180 000 is above 9 000");
        assert_eq!((error.floor.value, error.ceiling.value), (180_000, 9_000));
    }
}
