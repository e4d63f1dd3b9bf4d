//! Which model may use a device next.

use super::clock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

/// A device that one model uses at a time, for one batch step or one iteration: first come, first served, so that a
/// model with much work cannot keep out one with little. Who holds it and who waits is part of the snapshot.
///
/// Worker threads only: [`acquire`](Self::acquire) blocks.
#[derive(Debug)]
pub struct DeviceSlot {
    pub id: String,
    queue: Mutex<Queue>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    holder: Option<Arc<str>>,
    /// Tickets in order of arrival; the front is next.
    waiting: VecDeque<(u64, Arc<str>)>,
    next_ticket: u64,
}

/// Possession of a device; dropping it hands the device on.
#[derive(Debug)]
pub struct DeviceGuard<'a> {
    slot: &'a DeviceSlot,
}

impl DeviceSlot {
    pub fn new(id: impl Into<String>) -> DeviceSlot {
        DeviceSlot { id: id.into(), queue: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits in line for the device.
    pub fn acquire(&self, model: &Arc<str>) -> DeviceGuard<'_> {
        let mut queue = lock(&self.queue);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push_back((ticket, model.clone()));
        while queue.holder.is_some() || queue.waiting.front().is_none_or(|(first, _)| *first != ticket) {
            queue = self.freed.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        queue.waiting.pop_front();
        queue.holder = Some(model.clone());
        DeviceGuard { slot: self }
    }

    /// The model that has the device now.
    pub fn holder(&self) -> Option<Arc<str>> {
        lock(&self.queue).holder.clone()
    }

    /// Whether `model` stands in line for the device.
    pub fn waits(&self, model: &str) -> bool {
        lock(&self.queue).waiting.iter().any(|(_, who)| &**who == model)
    }
}

impl Drop for DeviceGuard<'_> {
    fn drop(&mut self) {
        lock(&self.slot.queue).holder = None;
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
