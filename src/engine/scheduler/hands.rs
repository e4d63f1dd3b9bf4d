//! An operator's hands on single items: hold one, let it go, move it to the other lane.
//!
//! A held item is out of the queue: no batch takes it, no turn counts it, no window waits for it, and nobody is owed
//! because of it. Its arrival, its deadline and its number stay its own, so that it comes back to the place of its age.
//! Where it comes back among clips that turns have passed over, it is owed with them: whoever is younger has one more
//! ahead, and their bounds say so from then on.

use super::former::Former;
use super::slab::Entry;
use super::{Item, ItemId};
use crate::control::Lane;

impl Former {
    /// Holds a pending item; false when it is not pending.
    pub fn hold(&mut self, id: ItemId) -> bool {
        let Some(entry) = self.take_entry(id) else { return false };
        self.held.insert(id, entry);
        true
    }

    /// Lets a held item go; false when it is not held.
    pub fn release(&mut self, id: ItemId) -> bool {
        let Some(entry) = self.held.remove(&id) else { return false };
        self.enter(entry)
    }

    /// Puts an item, pending or held, into another lane; false when it is neither. A held one stays held.
    ///
    /// A recording among the clips goes whole, as a clip does; one dearer than the cap goes alone. A clip among the
    /// recordings goes alone, in slices where they do.
    pub fn move_to(&mut self, id: ItemId, lane: Lane) -> bool {
        if let Some(entry) = self.held.get_mut(&id) {
            entry.item.lane = lane;
            return true;
        }
        if self.pending.key_of(id).and_then(|key| self.pending.get(key.age)).is_some_and(|item| item.lane == lane) {
            return true;
        }
        let Some(mut entry) = self.take_entry(id) else { return false };
        entry.item.lane = lane;
        self.enter(entry)
    }

    /// Whether somebody holds the item.
    pub fn is_held(&self, id: ItemId) -> bool {
        self.held.contains_key(&id)
    }

    /// What is held, in the order of submission.
    pub fn held(&self) -> impl Iterator<Item = &Item> {
        self.held.values().map(|entry| &entry.item)
    }

    fn take_entry(&mut self, id: ItemId) -> Option<Entry> {
        let key = self.pending.key_of(id)?;
        let entry = self.pending.take(key)?;
        self.lanes.forget(key);
        Some(entry)
    }

    fn enter(&mut self, entry: Entry) -> bool {
        self.bound_idle(entry.item.lane);
        self.lanes.joined(&entry.item, entry.seq);
        self.pending.add(entry)
    }
}
