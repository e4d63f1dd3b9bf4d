//! Where pending items lie: slots that are used again, each lane's strung together in the order of arrival.

use super::{Item, Micros};

/// No slot.
const NONE: u32 = u32::MAX;

/// Arrival order. `seq` (the order of submission) breaks ties and names the item; `slot` is where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AgeKey {
    pub arrival: Micros,
    pub seq: u64,
    pub slot: u32,
}

/// Cost order, ties in arrival order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CostKey {
    pub cost: u64,
    pub age: AgeKey,
}

/// A pending item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub item: Item,
    pub seq: u64,
    /// A recording that was put back after a slice.
    pub resumed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Empty while the slot is free.
    entry: Option<Entry>,
    /// The next older and the next younger of the lane.
    older: u32,
    younger: u32,
}

/// The ends of one lane's string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    oldest: u32,
    newest: u32,
}

impl Default for Ends {
    fn default() -> Self {
        Ends { oldest: NONE, newest: NONE }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slab {
    /// The item of this key, while it is pending: a slot that was given to another item has another `seq`.
    pub fn get(&self, age: AgeKey) -> Option<&Item> {
        self.entry(age.slot).filter(|entry| entry.seq == age.seq).map(|entry| &entry.item)
    }

    fn entry(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)?.entry.as_ref()
    }

    /// The key of the item in this slot.
    pub fn key(&self, slot: u32) -> Option<CostKey> {
        let entry = self.entry(slot)?;
        let age = AgeKey { arrival: entry.item.arrival, seq: entry.seq, slot };
        Some(CostKey { cost: entry.item.cost, age })
    }

    fn age(&self, slot: u32) -> Option<AgeKey> {
        self.key(slot).map(|key| key.age)
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)
    }

    /// Items come nearly in the order of their arrival, and those that are put back are nearly the oldest: the place is
    /// sought from both ends.
    pub fn insert(&mut self, ends: &mut Ends, entry: Entry) -> CostKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { entry: None, older: NONE, younger: NONE });
            // 2³² pending items would need 300 GiB: memory ends first.
            u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
        });
        let age = AgeKey { arrival: entry.item.arrival, seq: entry.seq, slot };
        let (mut older, mut younger) = (ends.newest, ends.oldest);
        loop {
            // From the newest back to one that is older; from the oldest on to one that is younger.
            match self.age(older) {
                Some(other) if other > age => older = self.slots.get(older as usize).map_or(NONE, |slot| slot.older),
                _ => break younger = self.slots.get(older as usize).map_or(ends.oldest, |slot| slot.younger),
            }
            match self.age(younger) {
                Some(other) if other < age => {
                    younger = self.slots.get(younger as usize).map_or(NONE, |slot| slot.younger);
                }
                _ => break older = self.slots.get(younger as usize).map_or(ends.newest, |slot| slot.older),
            }
        }
        match self.slot_mut(older) {
            Some(other) => other.younger = slot,
            None => ends.oldest = slot,
        }
        match self.slot_mut(younger) {
            Some(other) => other.older = slot,
            None => ends.newest = slot,
        }
        let cost = entry.item.cost;
        if let Some(own) = self.slot_mut(slot) {
            *own = Slot { entry: Some(entry), older, younger };
        }
        CostKey { cost, age }
    }

    pub fn remove(&mut self, ends: &mut Ends, age: AgeKey) -> Option<Entry> {
        self.get(age)?;
        let own = self.slot_mut(age.slot)?;
        let (entry, older, younger) = (own.entry.take()?, own.older, own.younger);
        match self.slot_mut(older) {
            Some(other) => other.younger = younger,
            None => ends.oldest = younger,
        }
        match self.slot_mut(younger) {
            Some(other) => other.older = older,
            None => ends.newest = older,
        }
        self.free.push(age.slot);
        Some(entry)
    }

    pub fn oldest(&self, ends: &Ends) -> Option<AgeKey> {
        self.age(ends.oldest)
    }

    pub fn newest(&self, ends: &Ends) -> Option<AgeKey> {
        self.age(ends.newest)
    }

    /// A lane's items from the oldest on.
    pub fn by_age(&self, ends: &Ends) -> impl Iterator<Item = (CostKey, &Item)> {
        let mut next = ends.oldest;
        std::iter::from_fn(move || {
            let slot = self.slots.get(next as usize)?;
            let entry = slot.entry.as_ref()?;
            let age = AgeKey { arrival: entry.item.arrival, seq: entry.seq, slot: next };
            next = slot.younger;
            Some((CostKey { cost: entry.item.cost, age }, &entry.item))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scheduler::ItemId;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_string_is_in_arrival_order_whatever_comes_and_goes(
            steps in prop::collection::vec((0u64..20, any::<prop::sample::Index>(), any::<bool>()), 1..200),
        ) {
            let (mut slab, mut ends, mut model) = (Slab::default(), Ends::default(), Vec::<AgeKey>::new());
            for (seq, (arrival, which, remove)) in steps.into_iter().enumerate() {
                if remove && !model.is_empty() {
                    let age = model.remove(which.index(model.len()));
                    prop_assert_eq!(slab.remove(&mut ends, age).map(|entry| entry.seq), Some(age.seq));
                    prop_assert!(slab.remove(&mut ends, age).is_none() && slab.get(age).is_none());
                } else {
                    let item = Item::transcribe(ItemId(seq as u64), 16, Micros(arrival));
                    let key = slab.insert(&mut ends, Entry { item, seq: seq as u64, resumed: false });
                    model.push(key.age);
                    model.sort();
                }
                let ages: Vec<AgeKey> = slab.by_age(&ends).map(|(key, _)| key.age).collect();
                prop_assert_eq!(&ages, &model);
                prop_assert_eq!(slab.oldest(&ends), model.first().copied());
                prop_assert_eq!(slab.newest(&ends), model.last().copied());
            }
        }
    }
}
