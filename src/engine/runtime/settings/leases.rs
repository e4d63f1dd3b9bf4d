//! The thread that ends leases, judges guards and measures effects: asleep until the next of these is due, woken by every
//! change.

use crate::control::{ErrorKind, Fault};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Ends when it is dropped.
#[derive(Debug)]
pub(in crate::engine::runtime) struct Leases {
    wake: SyncSender<()>,
}

impl Leases {
    /// `end` does what is due and says how long it is until the next; `None` = the engine is gone.
    pub fn start(end: impl FnMut() -> Option<Option<Duration>> + Send + 'static) -> Result<Leases, Fault> {
        // One place: somebody who finds it taken knows that the thread is about to look.
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new().name("leases".to_string()).spawn(move || run(&woken, end));
        thread.map_err(|e| Fault::new(ErrorKind::Internal, format!("could not start the thread of leases: {e}")))?;
        Ok(Leases { wake })
    }

    /// The settings have changed.
    pub fn wake(&self) {
        let _ = self.wake.try_send(());
    }
}

fn run(woken: &Receiver<()>, mut end: impl FnMut() -> Option<Option<Duration>>) {
    loop {
        let Some(next) = end() else { return };
        let ended = match next {
            None => woken.recv().is_err(),
            Some(time) => matches!(woken.recv_timeout(time), Err(RecvTimeoutError::Disconnected)),
        };
        if ended {
            return;
        }
    }
}
