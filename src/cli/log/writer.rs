//! The thread that writes the log, so that a stderr which takes nothing (a pipe that nobody reads, a stopped terminal) holds
//! up neither answers nor signals. A stderr that fails (a full disk, a reader that has gone) loses lines and nothing else.

use std::io::{self, Write};
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written. When so many do, further ones are lost, and counted.
const WAITING: usize = 1024;
/// How long the end of the process waits for lines that are still to be written.
const SETTLING: Duration = Duration::from_secs(1);

/// Pause before the end of the process tries again to find a place behind the last line.
const FULL_PAUSE: Duration = Duration::from_millis(5);

enum Work {
    Line(Vec<u8>),
    /// Everything before this is out: told by dropping the sender.
    Settle {
        _done: SyncSender<()>,
    },
}

/// Hands lines to the thread. Cheap to clone.
#[derive(Clone)]
pub struct LogWriter {
    work: SyncSender<Work>,
    lost: Arc<AtomicU64>,
}

impl LogWriter {
    /// Starts the thread; it writes to `to`, and ends with the last clone.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<LogWriter> {
        let (work, given) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let its = Arc::clone(&lost);
        std::thread::Builder::new().name("log".to_string()).spawn(move || write_on(&given, &its, to))?;
        Ok(LogWriter { work, lost })
    }

    /// Gives a whole line, its end included.
    pub fn line(&self, line: Vec<u8>) {
        if self.work.try_send(Work::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was given is out, but not for long.
    pub fn settle(&self) {
        let until = Instant::now() + SETTLING;
        let (done, settled) = sync_channel(0);
        let mut work = Work::Settle { _done: done };
        loop {
            match self.work.try_send(work) {
                // Nothing is ever sent: the wait ends when the other end is dropped.
                Ok(()) => {
                    let _ = settled.recv_timeout(until.saturating_duration_since(Instant::now()));
                    return;
                }
                Err(TrySendError::Full(again)) if Instant::now() < until => work = again,
                Err(_) => return,
            }
            std::thread::sleep(FULL_PAUSE);
        }
    }
}

fn write_on(given: &Receiver<Work>, lost: &AtomicU64, mut to: impl Write) {
    while let Ok(work) = given.recv() {
        let before = lost.swap(0, Ordering::Relaxed);
        let told = match before {
            0 => Ok(()),
            _ => to.write_all(format!("({before} lines of the log were lost: they could not be written)\n").as_bytes()),
        };
        if told.is_err() {
            lost.fetch_add(before, Ordering::Relaxed);
        }
        if let Work::Line(line) = work
            && told.and_then(|()| to.write_all(&line)).is_err()
        {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One event, on its way.
pub struct Line<'a> {
    bytes: Vec<u8>,
    writer: &'a LogWriter,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.writer.line(take(&mut self.bytes));
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { bytes: Vec::new(), writer: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// Takes a write when the gate opens; fails where it is told to.
    struct Slow {
        gate: Receiver<Result<(), ()>>,
        out: Arc<Mutex<Vec<u8>>>,
        /// Dropped with the thread.
        _ends: SyncSender<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.gate.recv() {
                Ok(Ok(())) => {}
                _ => return Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            }
            self.out.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(writer: &LogWriter, text: &str) {
        writer.make_writer().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_lost_and_counted_and_holds_nobody_up() {
        let (open, gate) = sync_channel(4 * WAITING);
        let out = Arc::new(Mutex::new(Vec::new()));
        let (ends, ended) = sync_channel(0);
        let writer = LogWriter::start(Slow { gate, out: out.clone(), _ends: ends }).unwrap();
        // One is in the thread's hands, or will be: at least two of these find no room, and the first one fails.
        for n in 0..WAITING + 3 {
            write(&writer, &format!("{n}\n"));
        }
        open.send(Err(())).unwrap();
        (0..2 * WAITING).for_each(|_| open.send(Ok(())).unwrap());
        // The thread writes what it was given, however long that takes, and ends with the last writer.
        drop(writer);
        assert!(ended.recv().is_err());
        let out = String::from_utf8(out.lock().unwrap().clone()).unwrap();
        let (told, rest) = out.split_once('\n').unwrap();
        let lost: usize = told.strip_prefix('(').unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((3..=4).contains(&lost) && rest.starts_with("1\n2\n"), "{out}");
        assert_eq!(rest.lines().count() + lost, WAITING + 3, "each is written or counted");
    }
}
