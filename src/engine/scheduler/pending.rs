//! The pending items, indexed by age, by cost and by deadline, so that an extraction never scans the queue.

use super::{Item, ItemId, Micros, Paused};
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

/// A pending item.
#[derive(Debug, Clone, Copy)]
struct Entry {
    item: Item,
    /// A recording that was put back after a slice.
    resumed: bool,
}

/// One lane's items.
#[derive(Debug, Default, Clone)]
pub(super) struct LaneIndex {
    pub by_age: BTreeSet<AgeKey>,
    pub by_cost: BTreeSet<CostKey>,
    /// Sum of costs. Wider than a cost, so that it comes back to exactly 0 whatever was in it.
    pub cost: u128,
    /// How many of them were put back after a slice.
    pub resumed: usize,
}

/// All pending items of one former.
#[derive(Debug, Default, Clone)]
pub(super) struct Pending {
    items: BTreeMap<u64, Entry>,
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
        self.items.get(&seq).map(|entry| &entry.item)
    }

    pub fn key_of(&self, id: ItemId) -> Option<CostKey> {
        let seq = *self.ids.get(&id)?;
        self.items.get(&seq).map(|entry| key(&entry.item, seq))
    }

    /// False, and nothing changes, when an item of this id is pending already.
    pub fn insert(&mut self, item: Item) -> bool {
        let seq = self.next_seq;
        let new = self.add(seq, Entry { item, resumed: false });
        self.next_seq += u64::from(new);
        new
    }

    /// Puts back an item that was taken: with its old number it has its old place. False as for [`insert`](Self::insert).
    pub fn put_back(&mut self, item: Item, seq: u64) -> bool {
        self.add(seq, Entry { item, resumed: true })
    }

    fn add(&mut self, seq: u64, entry: Entry) -> bool {
        let item = entry.item;
        if self.ids.contains_key(&item.id) || self.items.contains_key(&seq) {
            return false;
        }
        let key = key(&item, seq);
        let lane = self.lane_mut(item.lane);
        lane.by_age.insert(key.age);
        lane.by_cost.insert(key);
        lane.cost += u128::from(item.cost);
        lane.resumed += usize::from(entry.resumed);
        if let Some(deadline) = item.deadline {
            self.deadlines.insert((deadline, seq));
        }
        self.ids.insert(item.id, seq);
        self.items.insert(seq, entry);
        true
    }

    pub fn remove(&mut self, seq: u64) -> Option<Item> {
        let Entry { item, resumed } = self.items.remove(&seq)?;
        self.ids.remove(&item.id);
        let key = key(&item, seq);
        let lane = self.lane_mut(item.lane);
        lane.by_age.remove(&key.age);
        lane.by_cost.remove(&key);
        lane.cost -= u128::from(item.cost);
        lane.resumed -= usize::from(resumed);
        if let Some(deadline) = item.deadline {
            self.deadlines.remove(&(deadline, seq));
        }
        Some(item)
    }

    /// The earliest deadline and whose it is.
    pub fn first_deadline(&self) -> Option<(Micros, u64)> {
        self.deadlines.first().copied()
    }

    /// What may run now: the items of the lanes that are not paused.
    pub fn runnable(&self, paused: Paused) -> Runnable {
        let mut runnable = Runnable::default();
        for lane in [Lane::Clips, Lane::Recordings].into_iter().filter(|lane| !paused.lane(*lane)) {
            let index = self.lane(lane);
            runnable.len += index.by_age.len();
            runnable.cost += index.cost;
            runnable.resumed |= index.resumed > 0;
            let (first, last) = (index.by_age.first().copied(), index.by_age.last().copied());
            runnable.oldest = match (runnable.oldest, first) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            runnable.newest = runnable.newest.max(last);
        }
        runnable
    }
}

/// What of the queue may run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runnable {
    pub len: usize,
    pub cost: u128,
    pub oldest: Option<AgeKey>,
    pub newest: Option<AgeKey>,
    /// Whether a recording that was put back is among it.
    pub resumed: bool,
}
