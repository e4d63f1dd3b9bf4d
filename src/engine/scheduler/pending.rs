//! The pending items, indexed by age, by cost and by deadline, so that an extraction never scans the queue.

use super::{Item, ItemId, Micros};
use crate::control::Lane;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Arrival order. `seq` (the order of submission) breaks ties and names the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AgeKey {
    pub arrival: Micros,
    pub seq: u64,
}

/// Cost order, ties in arrival order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CostKey {
    pub cost: u64,
    pub age: AgeKey,
}

/// One lane's items.
#[derive(Debug, Default, Clone)]
pub(super) struct LaneIndex {
    pub by_age: BTreeSet<AgeKey>,
    pub by_cost: BTreeSet<CostKey>,
    /// Sum of costs. Wider than a cost, so that it comes back to exactly 0 whatever was in it.
    pub cost: u128,
}

/// All pending items of one former.
#[derive(Debug, Default, Clone)]
pub(super) struct Pending {
    items: BTreeMap<u64, Item>,
    ids: HashMap<ItemId, u64>,
    pub clips: LaneIndex,
    pub recordings: LaneIndex,
    deadlines: BTreeSet<(Micros, u64)>,
    next_seq: u64,
}

fn key(item: &Item, seq: u64) -> CostKey {
    CostKey { cost: item.cost, age: AgeKey { arrival: item.arrival, seq } }
}

impl Pending {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn cost(&self) -> u128 {
        self.clips.cost + self.recordings.cost
    }

    pub fn lane(&self, lane: Lane) -> &LaneIndex {
        match lane {
            Lane::Clips => &self.clips,
            Lane::Recordings => &self.recordings,
        }
    }

    fn lane_mut(&mut self, lane: Lane) -> &mut LaneIndex {
        match lane {
            Lane::Clips => &mut self.clips,
            Lane::Recordings => &mut self.recordings,
        }
    }

    /// The number that the next submission will get: everything pending now is below it.
    pub fn watermark(&self) -> u64 {
        self.next_seq
    }

    pub fn get(&self, seq: u64) -> Option<&Item> {
        self.items.get(&seq)
    }

    pub fn key_of(&self, id: ItemId) -> Option<CostKey> {
        let seq = *self.ids.get(&id)?;
        self.items.get(&seq).map(|item| key(item, seq))
    }

    /// False, and nothing changes, when an item of this id is pending already.
    pub fn insert(&mut self, item: Item) -> bool {
        if self.ids.contains_key(&item.id) {
            return false;
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let key = key(&item, seq);
        let lane = self.lane_mut(item.lane);
        lane.by_age.insert(key.age);
        lane.by_cost.insert(key);
        lane.cost += u128::from(item.cost);
        if let Some(deadline) = item.deadline {
            self.deadlines.insert((deadline, seq));
        }
        self.ids.insert(item.id, seq);
        self.items.insert(seq, item);
        true
    }

    pub fn remove(&mut self, seq: u64) -> Option<Item> {
        let item = self.items.remove(&seq)?;
        self.ids.remove(&item.id);
        let key = key(&item, seq);
        let lane = self.lane_mut(item.lane);
        lane.by_age.remove(&key.age);
        lane.by_cost.remove(&key);
        lane.cost -= u128::from(item.cost);
        if let Some(deadline) = item.deadline {
            self.deadlines.remove(&(deadline, seq));
        }
        Some(item)
    }

    /// Oldest item of either lane.
    pub fn oldest(&self) -> Option<AgeKey> {
        match (self.clips.by_age.first(), self.recordings.by_age.first()) {
            (Some(a), Some(b)) => Some(*a.min(b)),
            (a, b) => a.or(b).copied(),
        }
    }

    /// Newest item of either lane.
    pub fn newest(&self) -> Option<AgeKey> {
        self.clips.by_age.last().max(self.recordings.by_age.last()).copied()
    }

    /// The earliest deadline and whose it is.
    pub fn first_deadline(&self) -> Option<(Micros, u64)> {
        self.deadlines.first().copied()
    }
}
