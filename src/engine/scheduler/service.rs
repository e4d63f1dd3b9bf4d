//! How long a batch takes, fitted to the batches that ran: `base + items × item + cost × rate`.
//!
//! Speech pads every window to 30 s, so a clip costs by being one as well as by its length; text costs by its tokens and
//! by the call. Which of the three parts tells, the measurements say: the fit is a least-squares one over the last
//! batches, newer ones weighing more, with no part below zero (a batch never gets quicker by growing).

use super::Micros;
use super::fit::{Candidate, Measured, candidates};
use std::collections::VecDeque;

/// Batches that the fit is made of.
const WINDOW: usize = 64;

/// What each batch weighs against the one after it.
const FADE: f64 = 0.95;

/// How much the measurements must gain in certainty before one of the three parts is set apart from the others.
const RIDGE: f64 = 1e-4;

/// Time of a batch of `items` items and cost `cost`, in µs: `base + items × item + cost × rate`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Service {
    pub base_us: f64,
    pub item_us: f64,
    pub cost_us: f64,
}

impl Service {
    pub fn of(&self, items: usize, cost: u64) -> Micros {
        Micros((self.base_us + self.item_us * items as f64 + self.cost_us * cost as f64).max(0.0) as u64)
    }
}

/// The measured batches of one lane, and the fit to them.
#[derive(Debug, Clone, Default)]
pub struct ServiceFit {
    measured: VecDeque<(usize, u64, Micros)>,
    fit: Option<Service>,
}

impl ServiceFit {
    /// Notes that a batch of `items` items and cost `cost` took so long.
    pub fn observe(&mut self, items: usize, cost: u64, took: Micros) {
        if self.measured.len() == WINDOW {
            self.measured.pop_front();
        }
        self.measured.push_back((items, cost, took));
        self.fit = Some(self.solve());
    }

    /// The fit; `None` until a batch was measured.
    pub fn service(&self) -> Option<Service> {
        self.fit
    }

    /// The expected time of a batch; `None` until one was measured.
    pub fn estimate(&self, items: usize, cost: u64) -> Option<Micros> {
        self.fit.map(|service| service.of(items, cost))
    }

    /// Batches measured, of the last [`WINDOW`].
    pub fn window(&self) -> usize {
        self.measured.len()
    }

    /// Newer batches weigh more. Among lines that are as good the one of fewer parts stays: it comes first, or explains as
    /// much.
    fn solve(&self) -> Service {
        let newest = self.measured.len();
        let weigh = |(i, (items, cost, took)): (usize, &(usize, u64, Micros))| {
            let weight = FADE.powi((newest - 1 - i) as i32);
            Measured { items: *items, cost: *cost, took_us: took.0 as f64, weight }
        };
        let batches: Vec<Measured> = self.measured.iter().enumerate().map(weigh).collect();
        let mut best: Option<Candidate> = None;
        for candidate in candidates(&batches, RIDGE) {
            if best.is_none_or(|best| candidate.squares < best.squares * 0.999) {
                best = Some(candidate);
            }
        }
        let [base_us, item_us, cost_us] = best.map_or([0.0; 3], |best| best.line);
        Service { base_us, item_us, cost_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(service: Service, items: usize, cost: u64, wanted: f64) -> bool {
        (service.of(items, cost).0 as f64 - wanted).abs() <= wanted * 0.02 + 1.0
    }

    #[test]
    fn nothing_is_known_until_a_batch_ran_and_one_batch_is_believed() {
        let mut fit = ServiceFit::default();
        assert_eq!((fit.estimate(1, 1), fit.service()), (None, None));
        fit.observe(2, 8_000, Micros(1_000_000));
        assert!(near(fit.service().expect("measured"), 2, 8_000, 1_000_000.0), "{fit:?}");
    }

    #[test]
    fn a_clip_that_costs_by_being_one_is_told_from_one_that_costs_by_its_length() {
        let (mut by_item, mut by_cost) = (ServiceFit::default(), ServiceFit::default());
        for (items, cost) in [(1, 3_000), (4, 13_000), (2, 28_000), (3, 9_000), (1, 29_000), (4, 50_000)] {
            by_item.observe(items, cost, Micros(600_000 * items as u64));
            by_cost.observe(items, cost, Micros(40 * cost));
        }
        assert!(near(by_item.service().expect("measured"), 8, 5_000, 4_800_000.0), "{by_item:?}");
        assert!(near(by_cost.service().expect("measured"), 8, 5_000, 200_000.0), "{by_cost:?}");
    }

    #[test]
    fn what_is_measured_last_counts_most() {
        let mut fit = ServiceFit::default();
        (0..64).for_each(|_| fit.observe(1, 30_000, Micros(1_000_000)));
        (0..64).for_each(|_| fit.observe(1, 30_000, Micros(3_000_000)));
        assert!(near(fit.service().expect("measured"), 1, 30_000, 3_000_000.0));
    }

    proptest! {
        #[test]
        fn no_fit_is_negative_and_more_work_never_takes_less(
            batches in proptest::collection::vec((1usize..13, 1u64..700_000, 1u64..90_000_000), 1..80),
        ) {
            let mut fit = ServiceFit::default();
            for (items, cost, took) in batches {
                fit.observe(items, cost, Micros(took));
            }
            let s = fit.service().expect("measured");
            prop_assert!(s.base_us >= 0.0 && s.item_us >= 0.0 && s.cost_us >= 0.0);
            prop_assert!(s.of(2, 2_000) <= s.of(3, 2_000) && s.of(2, 2_000) <= s.of(2, 3_000));
        }

        #[test]
        fn a_law_is_found_from_few_batches(
            base in 0.0f64..1e6, item in 0.0f64..1e6, rate in 0.1f64..100.0,
            batches in proptest::collection::vec((1usize..13, 1_000u64..300_000), 8..40),
        ) {
            let law = Service { base_us: base, item_us: item, cost_us: rate };
            let mut fit = ServiceFit::default();
            for &(items, cost) in &batches {
                fit.observe(items, cost, law.of(items, cost));
            }
            let s = fit.service().expect("measured");
            for (items, cost) in batches {
                let (wanted, got) = (law.of(items, cost).0 as f64, s.of(items, cost).0 as f64);
                prop_assert!((wanted - got).abs() <= wanted * 0.1 + 1_000.0, "{} for {}", got, wanted);
            }
        }
    }
}
