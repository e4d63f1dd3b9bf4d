//! The pending items, indexed by age, by cost, by identity and by deadline, so that an extraction never scans the queue.

use super::slab::{AgeKey, CostKey, Ends, Entry, Slab};
use super::{Item, ItemId, Micros, Paused};
use crate::control::Lane;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes the number that an id is. Ids are counted up by the engine: nobody outside can choose them to collide.
#[derive(Debug, Default, Clone)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        // Fibonacci hashing; the table looks at both ends of the hash.
        let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// One lane's items.
#[derive(Debug, Default, Clone)]
pub(super) struct LaneIndex {
    ends: Ends,
    pub by_cost: BTreeSet<CostKey>,
    /// Sum of costs. Wider than a cost, so that it comes back to exactly 0 whatever was in it.
    pub cost: u128,
    /// How many of them were put back after a slice.
    resumed: usize,
}

impl LaneIndex {
    pub fn len(&self) -> usize {
        self.by_cost.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_cost.is_empty()
    }
}

/// All pending items of one former.
#[derive(Debug, Default, Clone)]
pub(super) struct Pending {
    slab: Slab,
    ids: HashMap<ItemId, u32, BuildHasherDefault<IdHasher>>,
    pub clips: LaneIndex,
    pub recordings: LaneIndex,
    /// The first on top. Items that have left stay in it until they come to the top, or are most of it; the top is
    /// always pending.
    deadlines: BinaryHeap<Reverse<(Micros, AgeKey)>>,
    /// How many pending items have a deadline.
    with_deadline: usize,
    next_seq: u64,
}

impl Pending {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn lane(&self, lane: Lane) -> &LaneIndex {
        match lane {
            Lane::Clips => &self.clips,
            Lane::Recordings => &self.recordings,
        }
    }

    /// The number that the next submission will get: everything pending now is below it.
    pub fn watermark(&self) -> u64 {
        self.next_seq
    }

    /// The item of this key; `None` when it has left.
    pub fn get(&self, age: AgeKey) -> Option<&Item> {
        self.slab.get(age)
    }

    pub fn key_of(&self, id: ItemId) -> Option<CostKey> {
        self.slab.key(*self.ids.get(&id)?)
    }

    /// The oldest item of a lane.
    pub fn oldest(&self, lane: Lane) -> Option<CostKey> {
        self.slab.oldest(&self.lane(lane).ends).and_then(|age| self.slab.key(age.slot))
    }

    /// When the newest item of a lane was submitted.
    pub fn newest(&self, lane: Lane) -> Option<AgeKey> {
        self.slab.newest(&self.lane(lane).ends)
    }

    /// A lane's items from the oldest on.
    pub fn by_age(&self, lane: Lane) -> impl Iterator<Item = (CostKey, &Item)> {
        self.slab.by_age(&self.lane(lane).ends)
    }

    /// False, and nothing changes, when an item of this id is pending already.
    pub fn insert(&mut self, item: Item) -> bool {
        let new = self.add(Entry { item, seq: self.next_seq, resumed: false });
        self.next_seq += u64::from(new);
        new
    }

    /// Puts back an item that was taken: with its old number it has its old place. False as for [`insert`](Self::insert).
    pub fn put_back(&mut self, item: Item, seq: u64) -> bool {
        self.add(Entry { item, seq, resumed: true })
    }

    /// Adds what was [taken](Self::take), in its old place or, where its lane was changed, in the place of its age there.
    pub fn add(&mut self, entry: Entry) -> bool {
        let item = entry.item;
        let std::collections::hash_map::Entry::Vacant(place) = self.ids.entry(item.id) else { return false };
        let lane = match item.lane {
            Lane::Clips => &mut self.clips,
            Lane::Recordings => &mut self.recordings,
        };
        let key = self.slab.insert(&mut lane.ends, entry);
        place.insert(key.age.slot);
        lane.by_cost.insert(key);
        lane.cost += u128::from(item.cost);
        lane.resumed += usize::from(entry.resumed);
        if let Some(deadline) = item.deadline {
            self.deadlines.push(Reverse((deadline, key.age)));
            self.with_deadline += 1;
        }
        true
    }

    pub fn remove(&mut self, key: CostKey) -> Option<Item> {
        self.take(key).map(|entry| entry.item)
    }

    /// Takes an item out with its number, by which it finds its place again.
    pub fn take(&mut self, key: CostKey) -> Option<Entry> {
        let lane = match self.slab.get(key.age)?.lane {
            Lane::Clips => &mut self.clips,
            Lane::Recordings => &mut self.recordings,
        };
        let entry = self.slab.remove(&mut lane.ends, key.age)?;
        let Entry { item, resumed, .. } = entry;
        lane.by_cost.remove(&key);
        lane.cost -= u128::from(item.cost);
        lane.resumed -= usize::from(resumed);
        self.ids.remove(&item.id);
        if item.deadline.is_some() {
            self.with_deadline -= 1;
            self.tidy_deadlines();
        }
        Some(entry)
    }

    fn tidy_deadlines(&mut self) {
        while self.deadlines.peek().is_some_and(|Reverse((_, age))| self.slab.get(*age).is_none()) {
            self.deadlines.pop();
        }
        // Each rebuild is paid for by as many removals as it drops.
        if self.deadlines.len() > 2 * self.with_deadline + 64 {
            let slab = &self.slab;
            self.deadlines.retain(|Reverse((_, age))| slab.get(*age).is_some());
        }
    }

    /// The earliest deadline and whose it is.
    pub fn first_deadline(&self) -> Option<(Micros, AgeKey)> {
        self.deadlines.peek().map(|Reverse(first)| *first)
    }

    /// What may run now: the items of the lanes that are not paused.
    pub fn runnable(&self, paused: Paused) -> Runnable {
        let mut runnable = Runnable::default();
        for lane in [Lane::Clips, Lane::Recordings].into_iter().filter(|lane| !paused.lane(*lane)) {
            let index = self.lane(lane);
            runnable.len += index.len();
            runnable.cost += index.cost;
            runnable.resumed |= index.resumed > 0;
            runnable.oldest = match (runnable.oldest, self.slab.oldest(&index.ends)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            runnable.newest = runnable.newest.max(self.newest(lane));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn due(id: u64, deadline: u64) -> Item {
        Item::transcribe(ItemId(id), 16, Micros(id)).until(Some(Micros(deadline)))
    }

    #[test]
    fn the_first_deadline_is_that_of_a_pending_item_and_gone_ones_do_not_pile_up() {
        let mut pending = Pending::default();
        pending.insert(due(0, 5));
        // Behind one that stays, a thousand come and go.
        for id in 1..=1_000 {
            pending.insert(due(id, 10 + id));
            let key = pending.key_of(ItemId(id)).expect("pending");
            assert!(pending.remove(key).is_some());
            assert!(pending.deadlines.len() < 70);
        }
        assert_eq!(pending.first_deadline().map(|(at, _)| at), Some(Micros(5)));
        pending.insert(due(2_000, 900));
        let first = pending.key_of(ItemId(0)).expect("pending");
        pending.remove(first);
        assert_eq!(pending.first_deadline().map(|(at, _)| at), Some(Micros(900)));
    }
}
