//! A target far away, in virtual time: delay, jitter, and faults where a test wants them.

use super::super::pipeline::WindowId;
use super::super::target::{Reply, Route, Target, TargetError};
use super::super::window::Window;
use std::collections::VecDeque;

/// What the target emits after a text; a function of the whole text, so that a wrong cache gives wrong tokens.
pub(super) fn emits(text: &[u32], vocabulary: u32) -> u32 {
    let n = text.len();
    // Mostly a repetition of what stood 11 tokens ago, as in text that quotes itself; now and then something else.
    let mixed = text.iter().fold(7u64, |h, t| (h ^ u64::from(*t)).wrapping_mul(0x0000_0100_0000_01b3));
    if n > 11 && !(mixed >> 20).is_multiple_of(9) {
        text[n - 11]
    } else {
        ((mixed >> 33) % u64::from(vocabulary)) as u32
    }
}

/// The first `n` tokens that the target emits behind `prompt`, or fewer where `end` comes.
pub(super) fn sequence(prompt: &[u32], n: usize, vocabulary: u32, end: u32) -> Vec<u32> {
    let mut text = prompt.to_vec();
    while text.len() < prompt.len() + n {
        let next = emits(&text, vocabulary);
        text.push(next);
        if next == end {
            break;
        }
    }
    text.split_off(prompt.len())
}

/// Faults, each at the given count of its occasion (from 0).
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// The return route ends when this reply is taken.
    pub eof_at: Option<usize>,
    /// This reply and the next swap places.
    pub reorder_at: Option<usize>,
    /// This reply lacks a prediction.
    pub short_at: Option<usize>,
    pub rewinds_that_fail: Vec<usize>,
    /// The target is gone when this window is opened.
    pub gone_at: Option<usize>,
}

#[derive(Debug)]
struct Pending {
    ready: u64,
    reply: Reply,
}

/// The target.
#[derive(Debug)]
pub(super) struct Simulated {
    pub vocabulary: u32,
    pub delay: u64,
    pub jitter: u64,
    pub faults: Faults,
    pub now: u64,
    pub most_under_way: usize,
    route: Route,
    cache: Vec<u32>,
    pending: VecDeque<Pending>,
    opened: usize,
    replies: usize,
    rewinds: usize,
    /// Windows that broke a rule of the seam.
    pub violations: Vec<String>,
}

impl Simulated {
    pub(super) fn new(route: Route, delay: u64, jitter: u64, faults: Faults) -> Simulated {
        Simulated {
            vocabulary: 40,
            delay,
            jitter,
            faults,
            now: 0,
            most_under_way: 0,
            route,
            cache: Vec::new(),
            pending: VecDeque::new(),
            opened: 0,
            replies: 0,
            rewinds: 0,
            violations: Vec::new(),
        }
    }
}

impl Target for Simulated {
    fn open(&mut self, id: WindowId, window: &Window) -> Result<(), TargetError> {
        let nth = self.opened;
        self.opened += 1;
        if self.faults.gone_at == Some(nth) {
            return Err(TargetError::Gone("killed".into()));
        }
        if window.start() > self.cache.len() {
            self.violations.push(format!("a window at {} behind a cache of {}", window.start(), self.cache.len()));
            return Err(TargetError::Gone("a hole in the cache".into()));
        }
        self.cache.truncate(window.start());
        let mut predictions = Vec::new();
        for (i, token) in window.inputs().iter().enumerate() {
            self.cache.push(*token);
            if i >= window.unpredicted() {
                predictions.push(emits(&self.cache, self.vocabulary));
            }
        }
        // One step of the clock to send; replies come in order, each at its own time or later.
        self.now += 1;
        let wobble = if self.jitter > 0 { (id.0 * 7_919) % (self.jitter + 1) } else { 0 };
        let before = self.pending.back().map_or(0, |p| p.ready);
        let ready = (self.now + self.delay + wobble).max(before);
        self.pending.push_back(Pending { ready, reply: Reply { id, predictions } });
        self.most_under_way = self.most_under_way.max(self.pending.len());
        if self.route.depth(2) == 1 && self.pending.len() > 1 {
            self.violations.push(format!("{} windows under way on a route {}", self.pending.len(), self.route.name()));
        }
        Ok(())
    }

    fn next_reply(&mut self) -> Result<Reply, TargetError> {
        let nth = self.replies;
        self.replies += 1;
        if self.faults.eof_at == Some(nth) {
            self.route = Route::Lost;
            self.pending.clear();
            return Err(TargetError::RouteLost("end of file".into()));
        }
        if self.faults.reorder_at == Some(nth) && self.pending.len() > 1 {
            self.pending.swap(0, 1);
        }
        let Some(Pending { ready, mut reply }) = self.pending.pop_front() else {
            self.violations.push("waits for a reply that nobody will send".into());
            return Err(TargetError::Gone("nothing is under way".into()));
        };
        self.now = self.now.max(ready);
        if self.faults.short_at == Some(nth) {
            reply.predictions.pop();
        }
        if self.route == Route::Unconfirmed {
            self.route = Route::Confirmed;
        }
        Ok(reply)
    }

    fn rewind(&mut self, to: usize) -> Result<(), TargetError> {
        let nth = self.rewinds;
        self.rewinds += 1;
        if self.faults.rewinds_that_fail.contains(&nth) {
            // What it holds now is of no use.
            self.cache.clear();
            return Err(TargetError::Rewind { to, why: "forced".into() });
        }
        if to > self.cache.len() {
            self.violations.push(format!("a rewind to {to} of a cache of {}", self.cache.len()));
        }
        self.cache.truncate(to);
        Ok(())
    }

    fn route(&self) -> Route {
        self.route
    }
}
