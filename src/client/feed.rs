//! Snapshots as they come, newest wins: what the console and `--watch` are fed from.

use super::{Client, ClientError};
use crate::control::Snapshot;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// First pause before a new try; doubles with each failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
/// Longest pause between tries.
const LAST_BACKOFF: Duration = Duration::from_secs(5);
/// A connection on which nothing came for this long is given up: its peer may be gone without a word.
const SILENCE: Duration = Duration::from_secs(15);

/// What is known of the engine now.
#[derive(Debug, Clone)]
pub enum FeedState {
    /// Not yet connected, or lost: the last snapshot, if one was seen, and when the next try is.
    Reconnecting { attempt: u32, retry_in: Duration, why: String, last: Option<(Arc<Snapshot>, Instant)> },
    /// Connected; `missed` counts the sequence numbers skipped since the feed began.
    Live { snapshot: Arc<Snapshot>, received: Instant, missed: u64 },
}

impl FeedState {
    /// The newest snapshot seen, live or not.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match self {
            FeedState::Live { snapshot, .. } => Some(snapshot),
            FeedState::Reconnecting { last, .. } => last.as_ref().map(|(s, _)| s),
        }
    }
}

/// A live feed of snapshots. Dropping it ends its task.
pub struct Feed {
    /// Newest wins: a slow reader skips, it never holds up the feed.
    pub states: watch::Receiver<FeedState>,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

impl Feed {
    /// Starts to follow the engine behind `client`, asking for a snapshot every `interval`. Must be called within a
    /// tokio runtime. It reconnects for ever; the caller decides when to give up.
    pub fn start(client: Client, interval: Duration) -> Feed {
        let first = FeedState::Reconnecting {
            attempt: 0,
            retry_in: Duration::ZERO,
            why: format!("connecting to {}", client.target()),
            last: None,
        };
        let (sender, states) = watch::channel(first);
        let task = tokio::spawn(follow(client, interval, sender));
        Feed { states, task }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was received so far, across connections.
#[derive(Default)]
struct Seen {
    last: Option<(Arc<Snapshot>, Instant)>,
    missed: u64,
}

impl Seen {
    /// Counts the gap before `snapshot`. Another process id is another engine: its numbers start afresh.
    fn take(&mut self, snapshot: Snapshot) -> FeedState {
        if let Some((before, _)) = &self.last
            && before.pid == snapshot.pid
        {
            self.missed += snapshot.seq.saturating_sub(before.seq).saturating_sub(1);
        }
        let (snapshot, received) = (Arc::new(snapshot), Instant::now());
        self.last = Some((snapshot.clone(), received));
        FeedState::Live { snapshot, received, missed: self.missed }
    }
}

async fn follow(client: Client, interval: Duration, sender: watch::Sender<FeedState>) {
    let mut seen = Seen::default();
    let mut attempt: u32 = 0;
    while !sender.is_closed() {
        let (why, came) = match once(&client, interval, &sender, &mut seen).await {
            Err((error, came)) => (error.to_string(), came),
            Ok(came) => ("the engine ended the stream".to_string(), came),
        };
        attempt = if came { 1 } else { attempt.saturating_add(1) };
        let retry_in = backoff(attempt, RandomUnit.draw());
        sender.send_replace(FeedState::Reconnecting { attempt, retry_in, why, last: seen.last.clone() });
        tokio::time::sleep(retry_in).await;
    }
}

/// One connection, until it ends. The flag says whether a snapshot came over it.
async fn once(
    client: &Client,
    interval: Duration,
    sender: &watch::Sender<FeedState>,
    seen: &mut Seen,
) -> Result<bool, (ClientError, bool)> {
    let mut came = false;
    let mut watch = client.watch(interval).await.map_err(|e| (e, came))?;
    loop {
        let next = tokio::time::timeout(SILENCE, watch.next()).await.map_err(|_| {
            (ClientError::TimedOut { target: client.target().to_string(), seconds: SILENCE.as_secs() }, came)
        })?;
        match next.map_err(|e| (e, came))? {
            Some(snapshot) => {
                came = true;
                sender.send_replace(seen.take(snapshot));
            }
            None => return Ok(came),
        }
    }
}

/// The pause before try `attempt` (1 = the first after a failure): doubling, capped, and up to a quarter longer by
/// `jitter` (0..1), so that many consoles do not knock at once.
fn backoff(attempt: u32, jitter: f64) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(1 << attempt.saturating_sub(1).min(10));
    doubled.min(LAST_BACKOFF).mul_f64(1.0 + 0.25 * jitter.clamp(0.0, 1.0))
}

/// Randomness for jitter from the standard library's hash seeds: no generator to carry about.
struct RandomUnit;

impl RandomUnit {
    fn draw(&self) -> f64 {
        let bits = std::hash::RandomState::new().build_hasher().finish();
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_its_limit() {
        let ms: Vec<u128> = (1..=7).map(|a| backoff(a, 0.0).as_millis()).collect();
        assert_eq!(ms, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert!(backoff(u32::MAX, 1.0) <= LAST_BACKOFF.mul_f64(1.25));
        let drawn = RandomUnit.draw();
        assert!((0.0..1.0).contains(&drawn));
    }

    #[test]
    fn gaps_are_counted_within_one_engine_only() {
        let mut seen = Seen::default();
        let missed = |state: FeedState| match state {
            FeedState::Live { missed, .. } => missed,
            FeedState::Reconnecting { .. } => panic!("a snapshot makes the feed live"),
        };
        let at = |pid, seq| crate::client::testing::snapshot(pid, seq);
        assert_eq!(missed(seen.take(at(1, 5))), 0);
        assert_eq!(missed(seen.take(at(1, 6))), 0);
        assert_eq!(missed(seen.take(at(1, 9))), 2);
        assert_eq!(missed(seen.take(at(2, 1))), 2, "a restarted engine counts from its own start");
        assert_eq!(missed(seen.take(at(2, 3))), 3);
    }
}
