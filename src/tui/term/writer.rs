//! The thread that writes to the terminal, so that a terminal that takes nothing (a stopped tmux, a stalled ssh) holds up
//! neither keys nor data.
//!
//! One write is under way at most. The console draws its next frame only when the last one is out: what changed
//! meanwhile is one frame, the newest, and nothing piles up. The channel holds one write and is never full, since a write
//! is only given while the thread is idle.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Default)]
struct Progress {
    busy: bool,
    failed: Option<io::Error>,
}

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    ended: Condvar,
    notify: Notify,
}

impl Shared {
    fn with<T>(&self, look: impl FnOnce(&mut Progress) -> T) -> T {
        look(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Hands writes to the thread.
pub struct Writer {
    writes: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread; `write` puts bytes on the terminal, however long that takes.
    pub fn start(write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) -> io::Result<Writer> {
        let (writes, given) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        std::thread::Builder::new().name("terminal".to_string()).spawn(move || work(&given, &its, write))?;
        Ok(Writer { writes, shared })
    }

    /// Whether everything given so far is out.
    pub fn idle(&self) -> bool {
        self.shared.with(|progress| !progress.busy)
    }

    /// Gives the next write; only while idle. Fails when an earlier one did.
    pub fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        self.check()?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.shared.with(|progress| progress.busy = true);
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the thread that writes to it has ended");
        self.writes.try_send(bytes).map_err(|_| gone())
    }

    /// Waits until a write has ended; may return early.
    pub async fn done(&self) {
        self.shared.notify.notified().await;
    }

    /// The failure of a write, once.
    pub fn check(&self) -> io::Result<()> {
        self.shared.with(|progress| progress.failed.take()).map_or(Ok(()), Err)
    }

    /// Waits until everything is out, so long at most.
    pub fn settle(&self, most: Duration) {
        let progress = self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.ended.wait_timeout_while(progress, most, |progress| progress.busy));
    }
}

fn work(given: &Receiver<Vec<u8>>, shared: &Shared, mut write: impl FnMut(&[u8]) -> io::Result<()>) {
    // Ends with the console, which drops the other end.
    while let Ok(bytes) = given.recv() {
        let failed = write(&bytes).err();
        shared.with(|progress| *progress = Progress { busy: false, failed });
        shared.ended.notify_all();
        shared.notify.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_write_that_hangs_holds_nobody_up() {
        let (release, gate) = sync_channel::<()>(1);
        let (tell, written) = sync_channel(1);
        let writer = Writer::start(move |bytes| {
            gate.recv().map_err(io::Error::other)?;
            tell.send(bytes.to_vec()).map_err(io::Error::other)
        })
        .unwrap();
        assert!(writer.idle());
        writer.write(b"one".to_vec()).unwrap();
        assert!(!writer.idle(), "given, and not out");
        writer.settle(Duration::from_millis(1));
        assert!(!writer.idle(), "waiting has an end");
        release.send(()).unwrap();
        writer.settle(Duration::from_secs(60));
        assert!(writer.idle());
        assert_eq!(written.recv().unwrap(), b"one");
    }

    #[test]
    fn a_failed_write_is_told_with_the_next_one() {
        let writer = Writer::start(|_| Err(io::Error::other("gone"))).unwrap();
        writer.write(b"one".to_vec()).unwrap();
        writer.settle(Duration::from_secs(60));
        assert_eq!(writer.write(b"two".to_vec()).unwrap_err().to_string(), "gone");
    }
}
