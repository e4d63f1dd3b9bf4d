//! What is counted while a run goes on, and at its end.

use super::run::{End, Request};
use crate::control::{Lane, Op};
use crate::engine::scheduler::{CapMove, Formed, Micros};
use std::collections::{BTreeMap, BTreeSet};

/// Times that requests waited, with those that still wait: without them starvation is invisible.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// Submission → out of the queue.
    pub queue: Vec<Micros>,
    /// Submission → the device began with it.
    pub start: Vec<Micros>,
    /// Submission → answer.
    pub done: Vec<Micros>,
}

/// What became of requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Fates {
    pub times: Times,
    pub submitted: u64,
    pub served: u64,
    pub timeouts: u64,
    /// Neither answered nor given up at the end.
    pub pending: u64,
    /// Cost served since the warm-up, whenever it was submitted.
    pub cost: u64,
    /// What was asked for: costs of one unit can be added up, others cannot.
    pub ops: BTreeSet<Op>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneWork {
    pub batches: u64,
    /// Engine time since the warm-up.
    pub busy: Micros,
}

/// Everything that one run shows.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    warm_up: Micros,
    pub now: Micros,
    pub turns: u64,
    /// What the controllers moved; not what they held.
    pub moves: Vec<CapMove>,
    pub work: BTreeMap<Lane, LaneWork>,
    pub lanes: BTreeMap<Lane, Fates>,
    /// By source.
    pub sources: BTreeMap<usize, Fates>,
    batches: u64,
}

impl Tally {
    pub fn new(warm_up: Micros) -> Tally {
        let (work, lanes, sources) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Tally { warm_up, now: Micros::ZERO, turns: 0, moves: Vec::new(), work, lanes, sources, batches: 0 }
    }

    pub fn batches_run(&self) -> u64 {
        self.batches
    }

    pub fn formed(&mut self, formed: &Formed) {
        self.turns = self.turns.max(formed.turn.unwrap_or(0));
    }

    pub fn moved(&mut self, moves: &[CapMove]) {
        self.moves.extend(moves.iter().filter(|made| !made.cause.holds()));
    }

    pub fn ran(&mut self, lane: Lane, since: Micros, now: Micros) {
        self.batches += 1;
        let work = self.work.entry(lane).or_default();
        work.batches += 1;
        work.busy = work.busy + (now - since.max(self.warm_up));
    }

    /// Time that was counted.
    pub fn counted(&self) -> Micros {
        self.now - self.warm_up
    }

    /// Counts every request at the end of the run.
    pub fn finish(&mut self, now: Micros, requests: &[Request]) {
        self.now = now;
        for request in requests {
            count(self.lanes.entry(request.lane).or_default(), request, self.warm_up, now);
            count(self.sources.entry(request.source).or_default(), request, self.warm_up, now);
        }
    }
}

fn count(fates: &mut Fates, request: &Request, warm_up: Micros, now: Micros) {
    fates.ops.insert(request.op);
    if let Some((at, End::Served)) = request.ended
        && at >= warm_up
    {
        fates.cost = fates.cost.saturating_add(request.cost);
    }
    if request.submitted < warm_up {
        return;
    }
    fates.submitted += 1;
    match request.ended {
        Some((_, End::Served)) => fates.served += 1,
        Some((_, End::GivenUp)) => fates.timeouts += 1,
        None => fates.pending += 1,
    }
    // What has not come about by the end, or by the time the client went, has taken at least so long.
    let last = request.ended.map_or(now, |(at, _)| at);
    let since = |time: Option<Micros>| time.unwrap_or(last) - request.submitted;
    fates.times.queue.push(since(request.taken));
    fates.times.start.push(since(request.started));
    fates.times.done.push(last - request.submitted);
}
