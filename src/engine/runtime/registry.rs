//! Every request of the engine: the live ones and the last that ended. What `lanekeeper requests` shows.
//!
//! Doors add, whoever holds the request updates; the lock is held for a map operation, never across work.

use super::clock::lock;
use super::ticket::{CancelFlag, HoldFlag, RequestId};
use crate::control::snapshot::{Outcome, RequestState};
use crate::control::{Lane, Op};
use crate::engine::scheduler::Micros;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Ended requests that are remembered until a profile says otherwise.
const REMEMBERED: usize = 64;

/// What is known of a request. Never its text or audio.
#[derive(Debug, Clone)]
pub struct Record {
    pub id: RequestId,
    pub model: Arc<str>,
    pub op: Op,
    pub lane: Lane,
    pub client: String,
    pub cost: u64,
    pub state: RequestState,
    pub submitted: Micros,
    /// When its answer stops being of use.
    pub deadline: Option<Micros>,
    pub started: Option<Micros>,
    pub done_ratio: Option<f64>,
    /// When and how it ended.
    pub ended: Option<(Micros, Outcome)>,
    pub cancel: CancelFlag,
    /// Looked at where requests wait for a slot of their own.
    pub hold: HoldFlag,
}

/// A request that asks to be let in.
#[derive(Debug, Clone)]
pub struct NewRequest {
    pub model: Arc<str>,
    pub op: Op,
    pub lane: Lane,
    pub client: String,
    pub cost: u64,
}

/// What a snapshot tells of the requests.
#[derive(Debug)]
pub struct Shown {
    /// How many live.
    pub total: u64,
    /// Those that run, then the oldest that wait.
    pub live: Vec<Record>,
    /// The last one first.
    pub ended: Vec<Record>,
}

#[derive(Debug)]
struct Inner {
    next: u64,
    live: BTreeMap<RequestId, Record>,
    ended: VecDeque<Record>,
    /// How many ended ones are kept.
    most: usize,
}

/// The requests of one engine.
#[derive(Debug)]
pub struct Registry {
    inner: Mutex<Inner>,
    /// How many are live: a drain waits for zero.
    live: watch::Sender<usize>,
}

impl Default for Registry {
    fn default() -> Self {
        let inner = Inner { next: 0, live: BTreeMap::new(), ended: VecDeque::new(), most: REMEMBERED };
        Registry { inner: Mutex::new(inner), live: watch::Sender::new(0) }
    }
}

impl Registry {
    /// Enters a request as queued and names it.
    pub fn open(&self, new: NewRequest, deadline: Option<Micros>, now: Micros) -> (RequestId, CancelFlag, HoldFlag) {
        let mut inner = lock(&self.inner);
        inner.next += 1;
        let (id, cancel, hold) = (RequestId(inner.next), CancelFlag::default(), HoldFlag::default());
        let NewRequest { model, op, lane, client, cost } = new;
        let record = Record {
            id,
            model,
            op,
            lane,
            client,
            cost,
            state: RequestState::Queued,
            submitted: now,
            deadline,
            started: None,
            done_ratio: None,
            ended: None,
            cancel: cancel.clone(),
            hold: hold.clone(),
        };
        inner.live.insert(id, record);
        let live = inner.live.len();
        self.live.send_replace(live);
        (id, cancel, hold)
    }

    /// Keeps so many ended requests from now on.
    pub fn remember(&self, most: usize) {
        let mut inner = lock(&self.inner);
        inner.most = most;
        let over = inner.ended.len().saturating_sub(most);
        inner.ended.drain(..over);
    }

    /// Notes that it runs since `now`.
    pub fn started(&self, id: RequestId, now: Micros) {
        self.update(id, |record| {
            record.started = Some(now);
            record.state = RequestState::Running;
        });
    }

    /// Notes that it waits in another lane now.
    pub fn moved(&self, id: RequestId, lane: Lane) {
        self.update(id, |record| record.lane = lane);
    }

    /// Notes that part of its answer is out.
    pub fn streaming(&self, id: RequestId) {
        self.update(id, |record| record.state = RequestState::Streaming);
    }

    /// Notes how much of it is done, 0..=1.
    pub fn progress(&self, id: RequestId, ratio: f64) {
        self.update(id, |record| record.done_ratio = Some(ratio));
    }

    /// Moves it to the ended ones; nothing when it has ended before.
    pub fn end(&self, id: RequestId, outcome: Outcome, now: Micros) {
        let mut inner = lock(&self.inner);
        let Some(mut record) = inner.live.remove(&id) else { return };
        record.ended = Some((now, outcome));
        record.state = RequestState::Done;
        // A generation that found its end before its limit is as done as one that ran into it.
        if outcome == Outcome::Served && record.done_ratio.is_some() {
            record.done_ratio = Some(1.0);
        }
        record.cancel.end();
        inner.ended.push_back(record);
        let over = inner.ended.len().saturating_sub(inner.most);
        inner.ended.drain(..over);
        let live = inner.live.len();
        self.live.send_replace(live);
    }

    fn update(&self, id: RequestId, change: impl FnOnce(&mut Record)) {
        if let Some(record) = lock(&self.inner).live.get_mut(&id) {
            change(record);
        }
    }

    /// A live request.
    pub fn get(&self, id: RequestId) -> Option<Record> {
        lock(&self.inner).live.get(&id).cloned()
    }

    /// The live requests by id.
    pub fn all(&self) -> Vec<Record> {
        lock(&self.inner).live.values().cloned().collect()
    }

    /// What is shown of them: at most so many of the live ones, and all that ended.
    pub fn shown(&self, most: usize) -> Shown {
        let inner = lock(&self.inner);
        let queued = |record: &&Record| record.state == RequestState::Queued;
        let running = inner.live.values().filter(|record| !queued(record));
        let live = running.chain(inner.live.values().filter(queued)).take(most).cloned().collect();
        Shown { total: inner.live.len() as u64, live, ended: inner.ended.iter().rev().cloned().collect() }
    }

    /// How many are live, to wait on.
    pub fn live(&self) -> watch::Receiver<usize> {
        self.live.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_those_that_run_are_shown_and_then_the_oldest_that_wait() {
        let registry = Registry::default();
        let new = || NewRequest {
            model: "ears".into(),
            op: Op::Transcribe,
            lane: Lane::Clips,
            client: "local".to_string(),
            cost: 1,
        };
        let ids: Vec<RequestId> = (0..9).map(|_| registry.open(new(), None, Micros::ZERO).0).collect();
        registry.started(ids[5], Micros(1));
        registry.streaming(ids[7]);
        registry.end(ids[0], Outcome::Served, Micros(2));
        registry.end(ids[1], Outcome::Served, Micros(3));
        let shown = registry.shown(4);
        let of = |records: &[Record]| records.iter().map(|record| record.id).collect::<Vec<_>>();
        assert_eq!((shown.total, of(&shown.live)), (7, vec![ids[5], ids[7], ids[2], ids[3]]));
        assert_eq!(of(&shown.ended), [ids[1], ids[0]], "the last one first");
        assert_eq!(registry.all().len(), 7);
    }
}
