//! What the next extraction would take: decided before anything changes.

use super::Micros;
use super::former::{Former, Order};
use super::rules::{Policy, WINDOW_MS};
use super::slab::CostKey;
use super::turns::{Choice, LaneWhy, Turn};
use crate::control::Lane;
use std::num::NonZeroU32;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Never empty.
    pub batch: Vec<CostKey>,
    /// What the batch is to compute.
    pub cost: u64,
    pub order: Order,
    pub because: LaneWhy,
    /// The windows that a recording may run; `None` = all.
    pub windows: Option<NonZeroU32>,
    /// The turn that this extraction begins.
    pub begins: Option<Turn>,
}

impl Plan {
    pub fn lane(&self) -> Lane {
        if self.order == Order::Recording { Lane::Recordings } else { Lane::Clips }
    }
}

impl Former {
    /// What [`take`](Self::take) would take now.
    pub(super) fn plan(&self, now: Micros, max_items: usize) -> Option<Plan> {
        if max_items == 0 {
            return None;
        }
        let cap = self.caps.effective_cost();
        let count = self.caps.count().min(max_items);
        let (choice, because) = self.lanes.choose(&self.pending, &self.rules, &self.share, cap, now)?;
        let mut windows = None;
        let (batch, order, begins) = match choice {
            Choice::Recording => {
                let oldest = self.pending.oldest(Lane::Recordings)?;
                windows = match self.rules.policy() {
                    Policy::Whole => None,
                    Policy::Slices { windows, .. } => Some(windows),
                };
                (vec![oldest], Order::Recording, None)
            }
            Choice::Turn => {
                let rest = self.lanes.turn.as_ref()?.rest(&self.pending);
                (pack(rest, count, cap), Order::Turn, None)
            }
            Choice::Begin(turn) => (pack(turn.rest(&self.pending), count, cap), Order::Turn, Some(turn)),
            Choice::Plain => {
                let by_cost = &self.pending.clips.by_cost;
                match self.aged(now) {
                    Some(aged) => {
                        let rest = by_cost.iter().filter(|key| **key != aged);
                        (pack(std::iter::once(&aged).chain(rest), count, cap), Order::Aged, None)
                    }
                    None => (pack(by_cost.iter(), count, cap), Order::Cost, None),
                }
            }
        };
        let all = batch.iter().fold(0u64, |sum, key| sum.saturating_add(key.cost));
        let cost = windows.map_or(all, |n| all.min(u64::from(n.get()).saturating_mul(WINDOW_MS)));
        Some(Plan { batch, cost, order, because, windows, begins })
    }

    /// The oldest clip, when it has waited for the whole window.
    fn aged(&self, now: Micros) -> Option<CostKey> {
        let oldest = self.pending.oldest(Lane::Clips)?;
        let waited = self.caps.wait != Micros::MAX && now - oldest.age.arrival >= self.caps.wait;
        (self.caps.aged_promotion && waited).then_some(oldest)
    }
}

/// Takes from the front while there is room: the first always, then each while the sum stays within the cap. Behind its
/// first key the order is by cost, so what comes after one that does not fit does not fit either.
fn pack<'a>(keys: impl Iterator<Item = &'a CostKey>, count: usize, cap: u64) -> Vec<CostKey> {
    let mut batch = Vec::new();
    let mut sum = 0u64;
    for key in keys.take(count) {
        let with = sum.saturating_add(key.cost);
        if !batch.is_empty() && with > cap {
            break;
        }
        batch.push(*key);
        sum = with;
    }
    batch
}
