//! A plain model of the extraction rules: vectors, sets of ids, a scan and a sort per step. It shares nothing with the
//! former but the item type, and is written from the rules, not from the former.

use super::super::{Item, Order};
use crate::control::Lane;
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Model {
    pub cap: u64,
    count: usize,
    wait: u64,
    ageing: bool,
    keep_owed: bool,
    pub pending: Vec<Item>,
    turn: Option<(BTreeSet<u64>, BTreeSet<u64>)>,
    left: BTreeSet<u64>,
    last: Option<Lane>,
}

impl Model {
    pub fn new(cap: u64, ageing: bool, keep_owed: bool) -> Model {
        Model { cap, count: 12, wait: 15_000, ageing, keep_owed, ..Model::default() }
    }

    fn clips(&self) -> Vec<Item> {
        self.pending.iter().copied().filter(|i| i.lane == Lane::Clips).collect()
    }

    fn end_turn_if_empty(&mut self) {
        let Some((members, snapshot)) = &self.turn else { return };
        if members.is_empty() {
            let pending: BTreeSet<u64> = self.clips().iter().map(|i| i.id.0).collect();
            let seen: BTreeSet<u64> = self.left.union(snapshot).copied().collect();
            self.left = seen.intersection(&pending).copied().collect();
            self.turn = None;
            self.last = Some(Lane::Clips);
        }
    }

    pub fn cancel(&mut self, id: u64) {
        self.pending.retain(|i| i.id.0 != id);
        if let Some((members, _)) = &mut self.turn {
            members.remove(&id);
        }
        self.end_turn_if_empty();
    }

    fn begin_turn(&mut self) {
        let clips = self.clips();
        let (mut total, mut members) = (0, BTreeSet::new());
        let mut owed: Vec<Item> = clips.iter().copied().filter(|i| self.left.contains(&i.id.0)).collect();
        owed.sort_by_key(|i| (i.arrival, i.id));
        for item in owed {
            if !members.is_empty() && total + item.cost > self.cap {
                break;
            }
            members.insert(item.id.0);
            total += item.cost;
        }
        let mut rest: Vec<Item> = clips.iter().copied().filter(|i| !members.contains(&i.id.0)).collect();
        rest.sort_by_key(|i| (i.cost, i.arrival, i.id));
        for item in rest {
            if members.is_empty() || total + item.cost <= self.cap {
                members.insert(item.id.0);
                total += item.cost;
            } else {
                break;
            }
        }
        self.turn = Some((members, clips.iter().map(|i| i.id.0).collect()));
    }

    pub fn extract(&mut self, now: u64, max_items: usize) -> Option<(Vec<u64>, Order)> {
        if self.pending.is_empty() || max_items == 0 {
            return None;
        }
        let recordings: Vec<Item> = self.pending.iter().copied().filter(|i| i.lane == Lane::Recordings).collect();
        let clips = self.clips();
        if self.turn.is_none() {
            let by_age = |i: &&Item| (i.arrival, i.id);
            let oldest = self.pending.iter().min_by_key(by_age).copied()?;
            let recording_first = match self.last {
                None => oldest.lane == Lane::Recordings,
                Some(last) => last == Lane::Clips,
            };
            if let Some(first) = recordings.iter().min_by_key(by_age)
                && (clips.is_empty() || recording_first)
            {
                let id = first.id.0;
                self.pending.retain(|i| i.id.0 != id);
                self.last = Some(Lane::Recordings);
                return Some((vec![id], Order::Recording));
            }
            if !clips.is_empty() && (!recordings.is_empty() || self.last == Some(Lane::Recordings)) {
                self.begin_turn();
            }
        }
        let mut order = Order::Turn;
        let mut candidates = clips;
        candidates.sort_by_key(|i| (i.cost, i.arrival, i.id));
        if let Some((members, _)) = &self.turn {
            candidates.retain(|i| members.contains(&i.id.0));
        } else {
            order = Order::Cost;
            if !self.keep_owed {
                self.left.clear();
            }
            let oldest = candidates.iter().copied().min_by_key(|i| (i.arrival, i.id))?;
            if self.ageing && now.saturating_sub(oldest.arrival.0) >= self.wait {
                candidates.retain(|i| i.id != oldest.id);
                candidates.insert(0, oldest);
                order = Order::Aged;
            }
        }
        let (mut batch, mut total) = (Vec::new(), 0);
        for item in candidates {
            if batch.len() >= self.count.min(max_items) {
                break;
            }
            if batch.is_empty() || total + item.cost <= self.cap {
                batch.push(item.id.0);
                total += item.cost;
            }
        }
        self.pending.retain(|i| !batch.contains(&i.id.0));
        self.last = Some(Lane::Clips);
        if let Some((members, _)) = &mut self.turn {
            members.retain(|id| !batch.contains(id));
        }
        self.end_turn_if_empty();
        Some((batch, order))
    }
}
