//! A line per generation in a file: who, how much, how it ended, and digests of what was read and said. Never text.
//!
//! Generation threads hand receipts over a bounded channel to one thread that writes them. When the channel is full, or
//! the file cannot be written, receipts are lost and counted; requests never wait for them and never fail by them.

use super::clock::unix_ms;
use crate::engine::runtime::job::GenerationTimes;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Receipts that may wait to be written.
const WAITING: usize = 1_024;

/// One generation that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Receipt {
    /// When it ended, in milliseconds of the Unix epoch.
    pub at_ms: u64,
    pub request: String,
    pub model: String,
    /// Label of the key that sent it, or `local`.
    pub client: String,
    /// `served`, `cancelled`, `expired` or `failed`.
    pub outcome: &'static str,
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
    pub completion_tokens: usize,
    /// sha256 over the token ids as little-endian u32.
    pub prompt_sha256: String,
    pub completion_sha256: String,
    pub queue_ms: f64,
    pub prompt_ms: f64,
    pub predicted_ms: f64,
    /// Times that it lost its slot to older requests.
    pub preempted: u64,
}

impl Receipt {
    /// A receipt of what was read and said, for the rest to be filled in.
    pub fn of(prompt: &[u32], completion: &[u32], times: GenerationTimes) -> Receipt {
        Receipt {
            at_ms: unix_ms(),
            request: String::new(),
            model: String::new(),
            client: String::new(),
            outcome: "",
            prompt_tokens: prompt.len(),
            cached_tokens: 0,
            completion_tokens: completion.len(),
            prompt_sha256: digest(prompt),
            completion_sha256: digest(completion),
            queue_ms: times.queue_ms,
            prompt_ms: times.prompt_ms,
            predicted_ms: times.predicted_ms,
            preempted: 0,
        }
    }
}

fn digest(tokens: &[u32]) -> String {
    let mut sha = Sha256::new();
    for token in tokens {
        sha.update(token.to_le_bytes());
    }
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The way to the file.
#[derive(Debug)]
pub struct Receipts {
    waiting: SyncSender<Receipt>,
    lost: Arc<AtomicU64>,
}

impl Receipts {
    /// Opens the file, to append to it, and starts the thread that writes it; its folder is made where it is missing.
    pub fn open(path: &Path) -> io::Result<Receipts> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (waiting, inbox) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let count = lost.clone();
        std::thread::Builder::new().name("receipts".into()).spawn(move || write(file, &inbox, &count))?;
        Ok(Receipts { waiting, lost })
    }

    /// Hands a receipt over; it is lost where there is no room.
    pub fn send(&self, receipt: Receipt) {
        if self.waiting.try_send(receipt).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Receipts that were never written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Writes until the last sender is gone. The file is whole after each receipt that nothing waits behind.
fn write(file: File, inbox: &Receiver<Receipt>, lost: &AtomicU64) {
    let mut file = BufWriter::new(file);
    while let Ok(first) = inbox.recv() {
        let mut next = Some(first);
        while let Some(receipt) = next {
            if let Err(error) = line(&mut file, &receipt) {
                // The first only: a full disk would fill the log as well.
                if lost.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(%error, "a receipt was not written");
                }
            }
            next = inbox.try_recv().ok();
        }
        if file.flush().is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn line(file: &mut impl Write, receipt: &Receipt) -> io::Result<()> {
    serde_json::to_writer(&mut *file, receipt)?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_lines_of_counts_and_digests() {
        let path = std::env::temp_dir().join(format!("lanekeeper-receipts-{}", std::process::id())).join("r.jsonl");
        let receipts = Receipts::open(&path).expect("opens");
        let times = GenerationTimes { queue_ms: 1.0, prompt_ms: 2.0, predicted_ms: 3.0 };
        for n in 0..3 {
            receipts.send(Receipt { outcome: "served", ..Receipt::of(&[1, 2], &vec![5; n], times) });
        }
        // The thread ends with the last sender; what it had is written by then, sooner or later.
        let mut lines = Vec::new();
        for _ in 0..30_000 {
            let text = std::fs::read_to_string(&path).expect("reads");
            lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON")).collect();
            if lines.len() == 3 && text.ends_with('\n') {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(lines.len(), 3);
        assert_eq!((&lines[2]["completion_tokens"], &lines[2]["outcome"]), (&2.into(), &"served".into()));
        assert_eq!(lines[0]["prompt_sha256"], lines[1]["prompt_sha256"]);
        assert_ne!(lines[0]["completion_sha256"], lines[1]["completion_sha256"]);
        assert_eq!(receipts.lost(), 0);
        std::fs::remove_dir_all(path.parent().expect("a folder")).expect("removed");
    }
}
