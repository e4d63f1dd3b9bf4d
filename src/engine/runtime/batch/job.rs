//! A request with its work.

use crate::control::{Fault, Lane, Op};
use crate::engine::runtime::Live;
use crate::engine::runtime::job::{EmbedJob, Embedded, RerankJob, Reranked, TranscribeJob, TranscriptEvent};
use crate::engine::scheduler::{Item, Micros};

/// A request and what it asks for.
pub(super) struct Job {
    pub item: Item,
    pub work: Work,
}

pub(super) enum Work {
    Transcribe(Live<TranscriptEvent>, TranscribeJob),
    Embed(Live<Embedded>, EmbedJob),
    Rerank(Live<Reranked>, RerankJob),
}

/// Work for the runner. All jobs are of one operation.
pub(super) struct Batch {
    pub number: u64,
    pub op: Op,
    pub lane: Lane,
    pub jobs: Vec<Job>,
}

impl Job {
    pub fn wanted(&mut self, now: Micros) -> Result<(), Fault> {
        match &mut self.work {
            Work::Transcribe(live, _) => live.wanted(now),
            Work::Embed(live, _) => live.wanted(now),
            Work::Rerank(live, _) => live.wanted(now),
        }
    }

    pub fn expect_wait(&mut self, estimate: Option<Micros>) {
        match &mut self.work {
            Work::Transcribe(live, _) => live.expect_wait(estimate),
            Work::Embed(live, _) => live.expect_wait(estimate),
            Work::Rerank(live, _) => live.expect_wait(estimate),
        }
    }

    pub fn start(&mut self, now: Micros) {
        match &mut self.work {
            Work::Transcribe(live, _) => live.start(now),
            Work::Embed(live, _) => live.start(now),
            Work::Rerank(live, _) => live.start(now),
        }
    }

    pub fn fail(self, fault: Fault, now: Micros) {
        match self.work {
            Work::Transcribe(live, _) => live.fail(fault, now),
            Work::Embed(live, _) => live.fail(fault, now),
            Work::Rerank(live, _) => live.fail(fault, now),
        }
    }
}
