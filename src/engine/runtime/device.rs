//! Which model may use a device next.

use super::clock::lock;
use crate::control::snapshot::DeviceWait;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// A device with a number of places, taken for one batch step or one iteration. A place that becomes free goes to the
/// model that has waited longest, so that one with much work cannot keep out one with little; the wait of a model with a
/// weight counts so many times.
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
    granted: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    holders: Vec<Arc<str>>,
    /// In order of arrival.
    waiting: Vec<Waiting>,
    /// Tickets that have been given a place and have not taken it yet.
    given: Vec<u64>,
    next_ticket: u64,
    /// Of the models whose weight is not 1.
    weights: BTreeMap<Arc<str>, u32>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    model: Arc<str>,
    since: Instant,
}

impl Queue {
    fn weight(&self, model: &str) -> u32 {
        self.weights.get(model).copied().unwrap_or(1)
    }

    /// The place in line of who is next: the greatest weighted wait, of equal ones the first.
    fn next(&self) -> Option<usize> {
        let now = Instant::now();
        let weighted =
            |w: &Waiting| now.saturating_duration_since(w.since).as_nanos() * u128::from(self.weight(&w.model));
        (0..self.waiting.len()).rev().max_by_key(|&index| weighted(&self.waiting[index]))
    }

    /// Gives free places to who is next. Decided here, once, under the lock: those who wait only look whether it is them.
    fn give(&mut self, places: usize) {
        while self.holders.len() < places
            && let Some(index) = self.next()
        {
            let next = self.waiting.remove(index);
            self.given.push(next.ticket);
            self.holders.push(next.model);
        }
    }
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
        DeviceSlot { id, description, places: places.max(1), queue: Mutex::default(), granted: Condvar::new() }
    }

    /// Says what it is, in words.
    pub fn described(self, description: String) -> DeviceSlot {
        DeviceSlot { description, ..self }
    }

    /// From now on the wait of `model` counts `weight` times (at least once).
    pub fn weigh(&self, model: &Arc<str>, weight: u32) {
        lock(&self.queue).weights.insert(model.clone(), weight.max(1));
    }

    /// Models that may use it at once.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Waits in line for a place.
    pub fn acquire(&self, model: &Arc<str>) -> DeviceGuard<'_> {
        let mut queue = lock(&self.queue);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push(Waiting { ticket, model: model.clone(), since: Instant::now() });
        queue.give(self.places);
        loop {
            if let Some(index) = queue.given.iter().position(|given| *given == ticket) {
                queue.given.swap_remove(index);
                break;
            }
            queue = self.granted.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        DeviceGuard { slot: self, model: model.clone() }
    }

    /// The models that have a place now, joined by commas; `None` when the device is free.
    pub fn holder(&self) -> Option<String> {
        let holders = &lock(&self.queue).holders;
        (!holders.is_empty()).then(|| holders.join(", "))
    }

    /// Whether `model` stands in line for a place.
    pub fn waits(&self, model: &str) -> bool {
        lock(&self.queue).waiting.iter().any(|waiting| &*waiting.model == model)
    }

    /// Who stands in line, in order of arrival.
    pub fn line(&self) -> Vec<DeviceWait> {
        let queue = lock(&self.queue);
        let shown = |w: &Waiting| DeviceWait {
            model: w.model.to_string(),
            waited_ms: w.since.elapsed().as_secs_f64() * 1_000.0,
            weight: u64::from(queue.weight(&w.model)),
        };
        queue.waiting.iter().map(shown).collect()
    }
}

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.slot.queue);
        if let Some(index) = queue.holders.iter().position(|holder| *holder == self.model) {
            queue.holders.remove(index);
        }
        queue.give(self.slot.places);
        self.slot.granted.notify_all();
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
    fn the_longest_weighted_wait_goes_first_and_equal_ones_as_they_came() {
        let slot = DeviceSlot::new("gpu");
        let names: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
        let now = Instant::now();
        let ago = |s: u64| now - std::time::Duration::from_secs(s);
        let mut queue = lock(&slot.queue);
        queue.waiting = [(0, 0, 50), (1, 1, 20), (2, 2, 50)]
            .map(|(ticket, name, s)| Waiting { ticket, model: names[name].clone(), since: ago(s) })
            .into();
        assert_eq!(queue.next(), Some(0));
        queue.weights.insert(names[1].clone(), 3);
        assert_eq!(queue.next(), Some(1), "20 s thrice are more than 50");
        drop(queue);
        let line = slot.line();
        assert_eq!((line[1].model.as_str(), line[1].weight, line[0].weight), ("b", 3, 1));
        assert!(line[1].waited_ms >= 20_000.0 && slot.waits("c"));
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
