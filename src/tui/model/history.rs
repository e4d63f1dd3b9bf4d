//! The short past of each line, for rates and sparklines: one sample a second of the engine's own clock.

use super::lines::{LineKey, LineKind, lines};
use crate::control::Snapshot;
use std::collections::VecDeque;

/// Samples kept: four minutes, as wide as the widest sparkline.
pub const SAMPLES: usize = 240;
/// A rate is taken over this many samples, so that whole batches do not make it jump.
const RATE_SAMPLES: usize = 10;
const SAMPLE_MS: u64 = 1_000;

/// Totals of one line at one instant of the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Total {
    uptime_ms: u64,
    served: u64,
}

/// One line's past.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    /// Cost units served per second, one sample a second, newest last.
    pub flow: VecDeque<f64>,
    /// Requests waiting, one sample a second, newest last.
    pub queue: VecDeque<f64>,
    /// Totals at the sample points that the rate still needs, newest last.
    totals: VecDeque<Total>,
    latest: Option<Total>,
}

impl Past {
    /// Cost units per second over the last ten seconds; unknown until a second has passed.
    pub fn rate(&self) -> Option<f64> {
        let (from, to) = (self.totals.front()?, self.latest?);
        let ms = to.uptime_ms.checked_sub(from.uptime_ms).filter(|&ms| ms >= SAMPLE_MS / 2)?;
        Some(to.served.saturating_sub(from.served) as f64 * 1000.0 / ms as f64)
    }

    fn record(&mut self, now: Total, waiting: u64) {
        self.latest = Some(now);
        let Some(&last) = self.totals.back() else {
            self.totals.push_back(now);
            return;
        };
        let ms = now.uptime_ms - last.uptime_ms;
        if ms < SAMPLE_MS {
            return;
        }
        push(&mut self.flow, (now.served.saturating_sub(last.served)) as f64 * 1000.0 / ms as f64, SAMPLES);
        push(&mut self.queue, waiting as f64, SAMPLES);
        push(&mut self.totals, now, RATE_SAMPLES);
    }
}

fn push<T>(ring: &mut VecDeque<T>, value: T, limit: usize) {
    if ring.len() == limit {
        ring.pop_front();
    }
    ring.push_back(value);
}

/// Every line's past.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    pid: u32,
    uptime_ms: u64,
    pasts: Vec<(LineKey, Past)>,
}

impl History {
    /// The past of a line, if it has one.
    pub fn past(&self, key: &LineKey) -> Option<&Past> {
        self.pasts.iter().find(|(known, _)| known == key).map(|(_, past)| past)
    }

    /// Takes a snapshot in. An engine that started anew begins a new past; a snapshot older than the last is ignored.
    pub fn record(&mut self, snapshot: &Snapshot) {
        if snapshot.pid != self.pid {
            *self = History { pid: snapshot.pid, ..History::default() };
        } else if snapshot.uptime_ms < self.uptime_ms {
            return;
        }
        self.uptime_ms = snapshot.uptime_ms;
        let lines = lines(snapshot);
        self.pasts.retain(|(key, _)| lines.iter().any(|line| &line.key() == key));
        for line in lines {
            let (served, waiting) = match line.kind {
                LineKind::Queue(queue) => {
                    (queue.counters.cost_served, queue.lanes.iter().map(|lane| lane.pending).sum())
                }
                LineKind::Generation(generation) => (generation.generated_tokens, generation.queued),
                LineKind::Bare => continue,
            };
            let key = line.key();
            let index = self.pasts.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                self.pasts.push((key, Past::default()));
                self.pasts.len() - 1
            });
            self.pasts[index].1.record(Total { uptime_ms: snapshot.uptime_ms, served }, waiting);
        }
    }
}
