//! Where models wait until the test lets them go on.

use std::sync::{Arc, Condvar, Mutex};
use tokio::sync::watch;

/// Each step of a model passes here. Open at first.
pub(crate) struct Gate {
    /// Steps that may still pass; `None` = any number.
    permits: Mutex<Option<usize>>,
    changed: Condvar,
    arrived: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn new() -> Arc<Gate> {
        Arc::new(Gate { permits: Mutex::new(None), changed: Condvar::new(), arrived: watch::Sender::new(0) })
    }

    /// Nothing passes any more.
    pub(crate) fn shut(&self) {
        self.set(|_| Some(0));
    }

    /// Everything passes.
    pub(crate) fn open(&self) {
        self.set(|_| None);
    }

    /// So many more steps pass than before; of an open gate, so many and no more.
    pub(crate) fn let_pass(&self, steps: usize) {
        self.set(|permits| Some(permits.unwrap_or(0) + steps));
    }

    /// Steps that came here so far.
    pub(crate) fn steps(&self) -> usize {
        *self.arrived.borrow()
    }

    /// Waits until that many steps have come.
    pub(crate) async fn arrived(&self, steps: usize) {
        self.arrived.subscribe().wait_for(|n| *n >= steps).await.expect("the gate lives");
    }

    /// A step comes and waits until it may pass.
    pub(crate) fn pass(&self) {
        self.arrived.send_modify(|n| *n += 1);
        let permits = self.permits.lock().expect("not poisoned");
        let mut permits = self.changed.wait_while(permits, |p| *p == Some(0)).expect("not poisoned");
        if let Some(left) = permits.as_mut() {
            *left -= 1;
        }
    }

    fn set(&self, change: impl FnOnce(Option<usize>) -> Option<usize>) {
        let mut permits = self.permits.lock().expect("not poisoned");
        *permits = change(*permits);
        self.changed.notify_all();
    }
}
