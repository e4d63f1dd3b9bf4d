//! Decoding uploads: a few threads of their own, short files first.
//!
//! Decoding is CPU work of up to seconds, and nobody on the tokio threads may do it. A queue ordered by size keeps a
//! clip from waiting behind recordings; one thread takes short files only, so that a clip does not wait for a running
//! decode either; and every fourth pick of the others is the oldest file, so that recordings move on under a load of
//! clips.

use crate::control::{ErrorKind, Fault};
use crate::engine::audio::{self, AudioError, DecodeLimits, Pcm};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Files that may wait to be decoded; a further one is refused with 429.
const MAX_WAITING: usize = 256;
/// Files up to this size are short: about 10 s of CD-quality sound, some minutes of compressed speech.
const SHORT_BYTES: usize = 2 * 1024 * 1024;
/// Every how many picks the oldest goes first.
const OLDEST_EVERY: u32 = 4;

/// The decoding threads. They end when this is dropped.
pub(super) struct DecodePool {
    shared: Arc<Shared>,
}

struct Shared {
    line: Mutex<Line<Job>>,
    arrived: Condvar,
    decode: Decoder,
}

/// Turns bytes into samples. Tests pass their own.
type Decoder = fn(&[u8], DecodeLimits) -> Result<Pcm, AudioError>;

struct Job {
    bytes: Bytes,
    limits: DecodeLimits,
    /// Dropped by a client that goes away: the job is then skipped.
    answer: oneshot::Sender<Result<Pcm, Fault>>,
}

impl DecodePool {
    /// Starts `decoders` threads for any file and one for short files.
    pub(super) fn start(decoders: usize) -> DecodePool {
        DecodePool::start_with(decoders, audio::decode)
    }

    fn start_with(decoders: usize, decode: Decoder) -> DecodePool {
        let shared = Arc::new(Shared { line: Mutex::new(Line::default()), arrived: Condvar::new(), decode });
        for number in 0..=decoders.max(1) {
            let shared = shared.clone();
            let short_only = number == 0;
            let name = if short_only { "decode-short".to_string() } else { format!("decode-{number}") };
            // Without a thread the pool is only narrower; without any, decoding is refused below as closed.
            if let Err(error) = std::thread::Builder::new().name(name).spawn(move || shared.work(short_only)) {
                tracing::error!(%error, "a decoding thread could not be started");
            }
        }
        DecodePool { shared }
    }

    /// Decodes a file. Dropping the future takes the file out of the queue.
    pub(super) async fn decode(&self, bytes: Bytes, limits: DecodeLimits) -> Result<Pcm, Fault> {
        let (answer, decoded) = oneshot::channel();
        {
            let mut line = self.shared.lock();
            line.retain(|job| !job.answer.is_closed());
            if line.len() >= MAX_WAITING {
                return Err(Fault::new(
                    ErrorKind::QueueFull,
                    format!("{MAX_WAITING} files are already waiting to be decoded"),
                )
                .retry_after(1));
            }
            line.push(bytes.len(), Job { bytes, limits, answer });
        }
        self.shared.arrived.notify_all();
        decoded
            .await
            .unwrap_or_else(|_| Err(Fault::new(ErrorKind::Internal, "decoding the audio failed").param("file")))
    }
}

impl Drop for DecodePool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line<Job>> {
        // Nothing that can panic runs under this lock.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, short_only: bool) {
        while let Some(job) = self.next(short_only) {
            if job.answer.is_closed() {
                continue;
            }
            let decoded = catch_unwind(AssertUnwindSafe(|| (self.decode)(&job.bytes, job.limits)));
            let _ = job.answer.send(match decoded {
                Ok(decoded) => decoded.map_err(Fault::from),
                Err(_) => {
                    tracing::error!(bytes = job.bytes.len(), "the audio decoder panicked");
                    Err(Fault::new(ErrorKind::Internal, "the audio decoder failed on this file").param("file"))
                }
            });
        }
    }

    fn next(&self, short_only: bool) -> Option<Job> {
        let mut line = self.lock();
        loop {
            if line.closed {
                return None;
            }
            if let Some(job) = line.take(short_only) {
                return Some(job);
            }
            line = self.arrived.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What waits, by size and then by arrival.
struct Line<T> {
    waiting: BTreeMap<(usize, u64), T>,
    arrivals: u64,
    picks: u32,
    closed: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { waiting: BTreeMap::new(), arrivals: 0, picks: 0, closed: false }
    }
}

impl<T> Line<T> {
    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn push(&mut self, bytes: usize, job: T) {
        self.arrivals += 1;
        self.waiting.insert((bytes, self.arrivals), job);
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.waiting.retain(|_, job| keep(job));
    }

    /// The smallest file, or in every fourth pick of a general thread the oldest.
    fn take(&mut self, short_only: bool) -> Option<T> {
        let smallest = *self.waiting.keys().next()?;
        if short_only {
            return if smallest.0 <= SHORT_BYTES { self.waiting.remove(&smallest) } else { None };
        }
        self.picks = (self.picks + 1) % OLDEST_EVERY;
        let key = match self.picks {
            0 => *self.waiting.keys().min_by_key(|(_, arrival)| *arrival)?,
            _ => smallest,
        };
        self.waiting.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sizes: &[usize]) -> Line<usize> {
        let mut line = Line::default();
        for &size in sizes {
            line.push(size, size);
        }
        line
    }

    #[test]
    fn short_files_go_first_and_the_oldest_is_not_forgotten() {
        let mut line = line(&[90, 5, 7, 6, 8, 4]);
        let picked: Vec<usize> = std::iter::from_fn(|| line.take(false)).collect();
        assert_eq!(picked, [4, 5, 6, 90, 7, 8]);
    }

    #[test]
    fn equal_sizes_keep_their_order() {
        let mut line = Line::default();
        for name in ["a", "b", "c"] {
            line.push(1, name);
        }
        assert_eq!(std::iter::from_fn(|| line.take(true)).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn the_reserved_thread_leaves_long_files() {
        let mut line = line(&[SHORT_BYTES + 1, SHORT_BYTES]);
        assert_eq!(line.take(true), Some(SHORT_BYTES));
        assert_eq!(line.take(true), None);
        assert_eq!(line.take(false), Some(SHORT_BYTES + 1));
    }

    #[test]
    fn those_whose_client_left_are_dropped() {
        let mut line = line(&[1, 2, 3]);
        line.retain(|&n| n != 2);
        assert_eq!(line.len(), 2);
    }

    /// What the fake decoder has taken, by first byte; it holds long files until it is told to go on.
    static TAKEN: Mutex<(Vec<u8>, bool)> = Mutex::new((Vec::new(), false));
    static MOVED: Condvar = Condvar::new();

    fn held(bytes: &[u8], _: DecodeLimits) -> Result<Pcm, AudioError> {
        let mut taken = TAKEN.lock().unwrap();
        taken.0.push(bytes[0]);
        MOVED.notify_all();
        while bytes.len() > SHORT_BYTES && !taken.1 {
            taken = MOVED.wait(taken).unwrap();
        }
        Ok(Pcm { samples: vec![0.0; 16].into(), truncated: false })
    }

    #[tokio::test]
    async fn a_long_decode_holds_no_clip_back_and_short_files_go_first() {
        let pool = Arc::new(DecodePool::start_with(1, held));
        let decode = |name: u8, bytes: usize| {
            let pool = pool.clone();
            let limits = DecodeLimits { max_seconds: 60.0 };
            tokio::spawn(async move { pool.decode(vec![name; bytes].into(), limits).await })
        };
        let long = decode(b'L', SHORT_BYTES + 1);
        tokio::task::spawn_blocking(|| drop(MOVED.wait_while(TAKEN.lock().unwrap(), |t| t.0.is_empty()).unwrap()))
            .await
            .unwrap();
        let second = decode(b'M', SHORT_BYTES + 2);
        // The only thread for any file stands in a long one, and another long one waits.
        for name in *b"abc" {
            assert!(decode(name, 100).await.unwrap().is_ok());
        }
        assert!(!long.is_finished() && !second.is_finished());
        TAKEN.lock().unwrap().1 = true;
        MOVED.notify_all();
        assert!(long.await.unwrap().is_ok() && second.await.unwrap().is_ok());
        assert_eq!(TAKEN.lock().unwrap().0, b"LabcM");
    }
}
