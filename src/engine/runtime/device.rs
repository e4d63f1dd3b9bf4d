//! Which model may use a device next.

use super::clock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

/// A device with a number of places, taken for one batch step or one iteration: first come, first served, so that a
/// model with much work cannot keep out one with little. Who holds it and who waits is part of the snapshot.
///
/// A GPU has one place. A CPU has one for each core that model work may use: a window of speech takes seconds there, and
/// a stream of tokens must not stand still for so long when there is a core to go on with.
///
/// Worker threads only: [`acquire`](Self::acquire) blocks.
#[derive(Debug)]
pub struct DeviceSlot {
    pub id: String,
    /// What it is, in words.
    pub description: String,
    places: usize,
    queue: Mutex<Queue>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    holders: Vec<Arc<str>>,
    /// Tickets in order of arrival; the front is next.
    waiting: VecDeque<(u64, Arc<str>)>,
    next_ticket: u64,
}

/// Possession of a place on a device; dropping it hands the place on.
#[derive(Debug)]
pub struct DeviceGuard<'a> {
    slot: &'a DeviceSlot,
    model: Arc<str>,
}

impl DeviceSlot {
    /// A device that one model uses at a time.
    pub fn new(id: impl Into<String>) -> DeviceSlot {
        DeviceSlot::with_places(id, 1)
    }

    /// A device that up to `places` models use at a time (at least one).
    pub fn with_places(id: impl Into<String>, places: usize) -> DeviceSlot {
        let id = id.into();
        let description = id.clone();
        DeviceSlot { id, description, places: places.max(1), queue: Mutex::default(), freed: Condvar::new() }
    }

    /// Says what it is, in words.
    pub fn described(self, description: String) -> DeviceSlot {
        DeviceSlot { description, ..self }
    }

    /// Waits in line for a place.
    pub fn acquire(&self, model: &Arc<str>) -> DeviceGuard<'_> {
        let mut queue = lock(&self.queue);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push_back((ticket, model.clone()));
        let is_next = |queue: &Queue| queue.waiting.front().is_some_and(|(first, _)| *first == ticket);
        while queue.holders.len() >= self.places || !is_next(&queue) {
            queue = self.freed.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        queue.waiting.pop_front();
        queue.holders.push(model.clone());
        // The next in line may have a place too.
        self.freed.notify_all();
        DeviceGuard { slot: self, model: model.clone() }
    }

    /// The models that have a place now, joined by commas; `None` when the device is free.
    pub fn holder(&self) -> Option<String> {
        let holders = &lock(&self.queue).holders;
        (!holders.is_empty()).then(|| holders.join(", "))
    }

    /// Whether `model` stands in line for a place.
    pub fn waits(&self, model: &str) -> bool {
        lock(&self.queue).waiting.iter().any(|(_, who)| &**who == model)
    }
}

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.slot.queue);
        if let Some(index) = queue.holders.iter().position(|holder| *holder == self.model) {
            queue.holders.remove(index);
        }
        self.slot.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn the_device_goes_round_in_order_of_arrival() {
        let slot = Arc::new(DeviceSlot::new("cpu"));
        let names: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
        let held = slot.acquire(&names[0]);
        assert_eq!(slot.holder().as_deref(), Some("a"));
        let (tx, rx) = sync_channel(2);
        let mut threads = Vec::new();
        for name in &names[1..] {
            let (slot2, name2, tx2) = (slot.clone(), name.clone(), tx.clone());
            threads.push(std::thread::spawn(move || {
                let _held = slot2.acquire(&name2);
                tx2.send(slot2.holder()).expect("the test is listening");
            }));
            while !slot.waits(name) {
                std::thread::yield_now();
            }
        }
        drop(held);
        assert_eq!(rx.recv().expect("sent").as_deref(), Some("b"));
        assert_eq!(rx.recv().expect("sent").as_deref(), Some("c"));
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(slot.holder(), None);
    }

    #[test]
    fn a_device_has_as_many_users_as_places() {
        let slot = DeviceSlot::with_places("cpu", 2);
        let names: Vec<Arc<str>> = ["a", "b"].map(Arc::from).to_vec();
        let a = slot.acquire(&names[0]);
        let b = slot.acquire(&names[1]);
        assert_eq!(slot.holder().as_deref(), Some("a, b"));
        drop(a);
        assert_eq!(slot.holder().as_deref(), Some("b"));
        drop(b);
        assert_eq!(slot.holder(), None);
    }

    #[test]
    fn a_panic_hands_the_device_on() {
        let slot = DeviceSlot::new("cpu");
        let name: Arc<str> = Arc::from("a");
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = slot.acquire(&name);
            panic!("a model went wrong");
        }));
        assert!(result.is_err());
        drop(slot.acquire(&name));
        assert_eq!(slot.holder(), None);
    }
}
