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

    /// The live requests by id, and the ended ones, newest first.
    pub fn list(&self) -> (Vec<Record>, Vec<Record>) {
        let inner = lock(&self.inner);
        (inner.live.values().cloned().collect(), inner.ended.iter().rev().cloned().collect())
    }

    /// How many are live, to wait on.
    pub fn live(&self) -> watch::Receiver<usize> {
        self.live.subscribe()
    }
}
