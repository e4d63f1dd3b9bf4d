//! A request with its work.

use super::transcribe::Transcription;
use crate::control::{Fault, Lane, Op};
use crate::engine::runtime::Live;
use crate::engine::runtime::job::{EmbedJob, Embedded, RerankJob, Reranked};
use crate::engine::scheduler::{Item, Micros};

/// A request and what it asks for.
pub(super) struct Job {
    pub item: Item,
    pub work: Work,
}

pub(super) enum Work {
    Transcribe(Box<Transcription>),
    Embed(Live<Embedded>, EmbedJob),
    Rerank(Live<Reranked>, RerankJob),
}

/// Work for the runner. All jobs are of one operation.
pub(super) struct Batch {
    pub number: u64,
    pub op: Op,
    pub lane: Lane,
    /// Windows that a recording may run in it; absent = to its end.
    pub windows: Option<usize>,
    pub jobs: Vec<Job>,
}

impl Job {
    pub fn wanted(&mut self, now: Micros) -> Result<(), Fault> {
        match &mut self.work {
            Work::Transcribe(t) => t.live.wanted(now),
            Work::Embed(live, _) => live.wanted(now),
            Work::Rerank(live, _) => live.wanted(now),
        }
    }

    /// Notes how long it is expected to wait in all; the first word counts.
    pub fn expect_wait(&mut self, estimate: Micros) {
        match &mut self.work {
            Work::Transcribe(t) => t.live.expect_wait(estimate),
            Work::Embed(live, _) => live.expect_wait(estimate),
            Work::Rerank(live, _) => live.expect_wait(estimate),
        }
    }

    /// An operator held it or let it go.
    pub fn handled(&mut self) {
        match &mut self.work {
            Work::Transcribe(t) => t.live.handled(),
            Work::Embed(live, _) => live.handled(),
            Work::Rerank(live, _) => live.handled(),
        }
    }

    /// An operator moved it to another lane.
    pub fn move_to(&mut self, lane: Lane) {
        self.item.lane = lane;
        match &mut self.work {
            Work::Transcribe(t) => t.live.move_to(lane),
            Work::Embed(live, _) => live.move_to(lane),
            Work::Rerank(live, _) => live.move_to(lane),
        }
    }

    pub fn start(&mut self, now: Micros) {
        match &mut self.work {
            Work::Transcribe(t) => t.live.start(now),
            Work::Embed(live, _) => live.start(now),
            Work::Rerank(live, _) => live.start(now),
        }
    }

    /// Whether it has run before: a recording between two slices.
    pub fn has_started(&self) -> bool {
        match &self.work {
            Work::Transcribe(t) => t.live.has_started(),
            Work::Embed(live, _) => live.has_started(),
            Work::Rerank(live, _) => live.has_started(),
        }
    }

    pub fn fail(self, fault: Fault, now: Micros) {
        match self.work {
            Work::Transcribe(t) => t.live.fail(fault, now),
            Work::Embed(live, _) => live.fail(fault, now),
            Work::Rerank(live, _) => live.fail(fault, now),
        }
    }
}
