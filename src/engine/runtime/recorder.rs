//! Arrivals and batch times of the recent past, for replay: when, what cost, which lane, how it ended. No content.
//!
//! Workers add, the control door reads; the lock is held for a push, or for copying out what a reader asked for. Memory
//! is bounded: the oldest are forgotten, and how many were is told.

use super::clock::lock;
use super::pace;
use super::registry::{NewRequest, Record};
use crate::control::arrivals::{Arrival, BatchRun};
use crate::control::snapshot::{Outcome, Pace};
use crate::control::{Lane, Op};
use crate::engine::scheduler::Micros;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Requests that are remembered until a profile says otherwise: some megabytes, and hours of a busy engine.
const REQUESTS: usize = 65_536;

/// Batches that are remembered.
const BATCHES: usize = 65_536;

/// What the model did for a request for speech.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Heard {
    pub windows: u64,
    /// Time that it computed: of each window of a batch, the request's equal part.
    pub model: Micros,
}

/// A request that ended.
#[derive(Debug, Clone)]
struct Ended {
    model: Arc<str>,
    op: Op,
    lane: Lane,
    cost: u64,
    submitted: Micros,
    started: Option<Micros>,
    heard: Option<Heard>,
    outcome: Outcome,
}

/// A batch that ran.
#[derive(Debug, Clone)]
pub struct Ran {
    pub model: Arc<str>,
    pub op: Op,
    pub lane: Lane,
    pub items: usize,
    /// Windows of speech that were run; absent for text.
    pub windows: Option<u64>,
    /// What was run of the items' costs, summed.
    pub cost: u64,
    /// Time that the model computed.
    pub run: Micros,
}

/// The newest entries, and until when others were forgotten.
#[derive(Debug)]
struct Ring<T> {
    entries: VecDeque<(Micros, T)>,
    most: usize,
    forgot_until: Option<Micros>,
}

impl<T> Ring<T> {
    fn new(most: usize) -> Ring<T> {
        Ring { entries: VecDeque::new(), most, forgot_until: None }
    }

    fn push(&mut self, ended: Micros, entry: T) {
        self.entries.push_back((ended, entry));
        self.forget();
    }

    fn remember(&mut self, most: usize) {
        self.most = most;
        self.forget();
        self.entries.shrink_to(most);
    }

    fn forget(&mut self) {
        let over = self.entries.len().saturating_sub(self.most);
        let forgot = self.entries.drain(..over).next_back();
        self.forgot_until = forgot.map(|(ended, _)| ended).max(self.forgot_until);
    }

    /// Whether everything that ended since `from` is still here.
    fn reaches_back_to(&self, from: Micros) -> bool {
        self.forgot_until.is_none_or(|until| until < from)
    }

    fn since(&self, from: Micros) -> impl Iterator<Item = (Micros, &T)> {
        self.entries.iter().filter(move |(ended, _)| *ended >= from).map(|(ended, entry)| (*ended, entry))
    }
}

/// What was recorded in a span that ends now. Times count from its beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub arrivals: Vec<Arrival>,
    pub batches: Vec<BatchRun>,
    /// Nothing of the span was forgotten.
    pub complete: bool,
}

/// A lane of an operation of a model.
pub type LaneKey = (Arc<str>, Op, Lane);

/// How a lane did in a span.
pub type LanePace = (LaneKey, Pace);

/// The recorder of an engine.
#[derive(Debug)]
pub struct Recorder {
    requests: Mutex<Ring<Ended>>,
    batches: Mutex<Ring<Ran>>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder { requests: Mutex::new(Ring::new(REQUESTS)), batches: Mutex::new(Ring::new(BATCHES)) }
    }
}

impl Recorder {
    /// A request has ended; `heard` where the model ran windows of speech for it.
    pub fn ended(
        &self,
        request: &NewRequest,
        submitted: Micros,
        started: Option<Micros>,
        heard: Option<Heard>,
        outcome: Outcome,
        now: Micros,
    ) {
        let NewRequest { model, op, lane, cost, .. } = request;
        let ended =
            Ended { model: model.clone(), op: *op, lane: *lane, cost: *cost, submitted, started, heard, outcome };
        lock(&self.requests).push(now, ended);
    }

    /// A batch has run.
    pub fn ran(&self, batch: Ran, now: Micros) {
        lock(&self.batches).push(now, batch);
    }

    /// Keeps so many requests, and so many batches, from now on.
    pub fn remember(&self, most: usize) {
        lock(&self.requests).remember(most);
        lock(&self.batches).remember(most);
    }

    /// How the lanes did from `from` to `to`: those in which something started or was served, `live` requests included.
    /// Where the memory does not reach back so far, the span begins later.
    pub fn paces(&self, from: Micros, to: Micros, live: &[Record]) -> Vec<LanePace> {
        let requests = lock(&self.requests);
        let from = requests.forgot_until.map_or(from, |until| until.max(from)).min(to);
        // Waits of what started, and times and costs of what was served.
        type Seen = (Vec<Micros>, Vec<(Micros, u64)>);
        let mut lanes: BTreeMap<LaneKey, Seen> = BTreeMap::new();
        let within = |at: Micros| from <= at && at < to;
        for (ended, request) in requests.since(from) {
            let key = || (request.model.clone(), request.op, request.lane);
            if let Some(started) = request.started.filter(|at| within(*at)) {
                lanes.entry(key()).or_default().0.push(started - request.submitted);
            }
            if within(ended) && request.outcome == Outcome::Served {
                lanes.entry(key()).or_default().1.push((ended - request.submitted, request.cost));
            }
        }
        for request in live {
            if let Some(started) = request.started.filter(|at| within(*at)) {
                let key = (request.model.clone(), request.op, request.lane);
                lanes.entry(key).or_default().0.push(started - request.submitted);
            }
        }
        let seconds = (to - from).as_secs();
        lanes.into_iter().map(|(key, (waits, ends))| (key, pace::of(waits, &ends, seconds))).collect()
    }

    /// What arrived since `from`, the requests in `live` included, of one model or of all.
    pub fn since(&self, from: Micros, now: Micros, model: Option<&str>, live: &[Record]) -> Recording {
        let wanted = |name: &str| model.is_none_or(|model| model == name);
        let (requests, batches) = (lock(&self.requests), lock(&self.batches));
        let ended = requests.since(from).filter(|(_, r)| r.submitted >= from && wanted(&r.model));
        let mut arrivals: Vec<(Micros, Arrival)> = ended.map(|(at, r)| (r.submitted, r.view(from, at))).collect();
        let live = live.iter().filter(|r| r.ended.is_none() && r.submitted >= from && wanted(&r.model));
        arrivals.extend(live.map(|r| (r.submitted, view_of_live(r, from, now))));
        arrivals.sort_by_key(|(submitted, _)| *submitted);
        let ran = batches.since(from).filter(|(_, b)| wanted(&b.model));
        Recording {
            arrivals: arrivals.into_iter().map(|(_, arrival)| arrival).collect(),
            batches: ran.map(|(at, b)| b.view(from, at)).collect(),
            complete: requests.reaches_back_to(from) && batches.reaches_back_to(from),
        }
    }
}

impl Ended {
    fn view(&self, from: Micros, ended: Micros) -> Arrival {
        Arrival {
            at_ms: (self.submitted - from).as_ms(),
            model: self.model.to_string(),
            op: self.op,
            lane: self.lane,
            cost: self.cost,
            outcome: Some(self.outcome),
            queue_ms: (self.started.unwrap_or(ended) - self.submitted).as_ms(),
            run_ms: self.started.map(|started| (ended - started).as_ms()),
            windows: self.heard.map(|heard| heard.windows),
            model_ms: self.heard.map(|heard| heard.model.as_ms()),
        }
    }
}

/// A request that has not ended: its times are those so far.
fn view_of_live(record: &Record, from: Micros, now: Micros) -> Arrival {
    Arrival {
        at_ms: (record.submitted - from).as_ms(),
        model: record.model.to_string(),
        op: record.op,
        lane: record.lane,
        cost: record.cost,
        outcome: None,
        queue_ms: (record.started.unwrap_or(now) - record.submitted).as_ms(),
        run_ms: record.started.map(|started| (now - started).as_ms()),
        windows: None,
        model_ms: None,
    }
}

impl Ran {
    fn view(&self, from: Micros, ended: Micros) -> BatchRun {
        BatchRun {
            ended_ms: (ended - from).as_ms(),
            model: self.model.to_string(),
            op: self.op,
            lane: self.lane,
            items: self.items as u64,
            windows: self.windows,
            cost: self.cost,
            run_ms: self.run.as_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(model: &str, cost: u64) -> NewRequest {
        NewRequest { model: model.into(), op: Op::Embed, lane: Lane::Clips, client: "nobody".into(), cost }
    }

    #[test]
    fn a_span_holds_what_arrived_in_it_in_the_order_of_arrival() {
        let recorder = Recorder::default();
        let s = Micros::from_secs;
        recorder.ended(&request("a", 1), s(1), Some(s(2)), None, Outcome::Served, s(20));
        let heard = Heard { windows: 3, model: s(4) };
        recorder.ended(&request("a", 2), s(12), Some(s(14)), Some(heard), Outcome::Served, s(21));
        recorder.ended(&request("b", 3), s(11), None, None, Outcome::Expired, s(22));
        let ran =
            Ran { model: "a".into(), op: Op::Embed, lane: Lane::Clips, items: 2, windows: None, cost: 3, run: s(6) };
        recorder.ran(ran, s(21));
        let all = recorder.since(s(10), s(30), None, &[]);
        let seen: Vec<_> = all.arrivals.iter().map(|a| (a.cost, a.at_ms, a.queue_ms, a.run_ms)).collect();
        assert_eq!(seen, [(3, 1_000.0, 11_000.0, None), (2, 2_000.0, 2_000.0, Some(7_000.0))]);
        let heard: Vec<_> = all.arrivals.iter().map(|a| (a.windows, a.model_ms)).collect();
        assert_eq!(heard, [(None, None), (Some(3), Some(4_000.0))]);
        assert_eq!((all.batches[0].ended_ms, all.batches[0].run_ms), (11_000.0, 6_000.0));
        assert!(all.complete);
        let b = recorder.since(s(0), s(30), Some("b"), &[]);
        assert_eq!((b.arrivals.len(), b.batches.len()), (1, 0));
    }

    #[test]
    fn the_pace_of_a_span_counts_what_started_and_what_was_served_in_it() {
        let recorder = Recorder::default();
        let s = Micros::from_secs;
        // Started before the span, served in it; started in it, ended after it; both in it, and one that failed.
        recorder.ended(&request("a", 10), s(1), Some(s(5)), None, Outcome::Served, s(12));
        recorder.ended(&request("a", 20), s(11), Some(s(14)), None, Outcome::Served, s(15));
        recorder.ended(&request("a", 70), s(12), Some(s(17)), None, Outcome::Failed, s(18));
        recorder.ended(&request("a", 40), s(16), Some(s(17)), None, Outcome::Served, s(25));
        let paces = recorder.paces(s(10), s(20), &[]);
        let [((model, op, lane), pace)] = paces.as_slice() else { panic!("one lane: {paces:?}") };
        assert_eq!((&**model, *op, *lane), ("a", Op::Embed, Lane::Clips));
        assert_eq!((pace.wait_p50_ms, pace.wait_p95_ms), (Some(3_000.0), Some(5_000.0)));
        assert_eq!((pace.p50_ms, pace.max_ms), (Some(4_000.0), Some(11_000.0)));
        assert_eq!((pace.served_per_s, pace.cost_per_s, pace.window_s), (0.2, 3.0, 10.0));
        assert_eq!(recorder.paces(s(30), s(40), &[]), []);
        recorder.remember(2);
        assert_eq!(recorder.paces(s(10), s(20), &[])[0].1.window_s, 5.0, "what is forgotten is not counted as quiet");
    }

    #[test]
    fn memory_is_bounded_and_says_when_it_does_not_reach_back() {
        let mut ring = Ring::new(2);
        for n in 1..=4 {
            ring.push(Micros(n), n);
        }
        assert_eq!(ring.since(Micros::ZERO).map(|(_, n)| *n).collect::<Vec<_>>(), [3, 4]);
        assert!(!ring.reaches_back_to(Micros(2)), "what ended at 2 is forgotten");
        assert!(ring.reaches_back_to(Micros(3)));
    }
}
