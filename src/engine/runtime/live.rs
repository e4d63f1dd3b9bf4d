//! A request inside the engine: from admission to its one end.
//!
//! Whoever holds a [`Live`] owns the request (the dispatcher while it waits, the runner while it runs). It ends once, by
//! [`done`](Live::done) or [`fail`](Live::fail); one that is dropped, say by a panic, ends with an internal fault, so
//! that no caller waits for ever and no count drifts.

use super::events::{EventSink, Lost};
use super::job::JobTimes;
use super::recorder::Heard;
use super::registry::NewRequest;
use super::shared::{Shared, draining_fault};
use super::stats::OpStats;
use super::ticket::{CancelFlag, HoldFlag, RequestId};
use crate::control::snapshot::Outcome;
use crate::control::{ErrorKind, Fault, Lane};
use crate::engine::scheduler::Micros;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What follows a request about, whatever its answer is made of.
#[derive(Debug)]
struct Tracker {
    shared: Arc<Shared>,
    stats: Arc<OpStats>,
    request: NewRequest,
    submitted: Micros,
    started: Option<Micros>,
    /// What the model did for it, where that is counted in windows of speech.
    heard: Option<Heard>,
    /// The wait that was estimated at admission, to be scored when it starts.
    estimate: Option<Micros>,
    /// An operator held or moved it: its wait says nothing of estimates.
    handled: bool,
}

/// A live request whose answer is made of events `E`.
#[derive(Debug)]
pub struct Live<E> {
    pub id: RequestId,
    pub cancel: CancelFlag,
    pub hold: HoldFlag,
    pub deadline: Option<Micros>,
    tracker: Tracker,
    /// Taken at the end.
    sink: Option<EventSink<E>>,
}

impl<E> Live<E> {
    /// Enters an admitted request ([`OpStats::admit`]).
    pub fn open(
        shared: &Arc<Shared>,
        stats: &Arc<OpStats>,
        request: NewRequest,
        deadline: Option<Micros>,
        sink: EventSink<E>,
        now: Micros,
    ) -> Live<E> {
        let (id, cancel, hold) = shared.registry.open(request.clone(), deadline, now);
        let (shared, stats) = (shared.clone(), stats.clone());
        let tracker = Tracker {
            shared,
            stats,
            request,
            submitted: now,
            started: None,
            heard: None,
            estimate: None,
            handled: false,
        };
        Live { id, cancel, hold, deadline, tracker, sink: Some(sink) }
    }

    /// Label of the key that sent it.
    pub fn client(&self) -> &str {
        &self.tracker.request.client
    }

    pub fn cost(&self) -> u64 {
        self.tracker.request.cost
    }

    /// Notes how long it is expected to wait in all. The first word counts: that is what its caller could have been told.
    pub fn expect_wait(&mut self, estimate: Micros) {
        if !self.has_started() && !self.tracker.handled {
            self.tracker.estimate.get_or_insert(estimate);
        }
    }

    /// An operator held it or let it go.
    pub fn handled(&mut self) {
        self.tracker.handled = true;
        self.tracker.estimate = None;
    }

    /// An operator moved it to another lane, where it counts from now on.
    pub fn move_to(&mut self, lane: Lane) {
        self.handled();
        let t = &mut self.tracker;
        if t.started.is_some() {
            t.stats.lane(t.request.lane).running.fetch_sub(1, Ordering::Relaxed);
            t.stats.lane(lane).running.fetch_add(1, Ordering::Relaxed);
        }
        t.request.lane = lane;
        t.shared.registry.moved(self.id, lane);
    }

    /// It leaves the queue and runs.
    pub fn start(&mut self, now: Micros) {
        let t = &mut self.tracker;
        if t.started.is_some() {
            return;
        }
        t.started = Some(now);
        t.stats.leave_queue();
        t.stats.began(t.request.lane, now - t.submitted, now);
        t.shared.registry.started(self.id, now);
        t.shared.metrics.started(&t.request, now - t.submitted, t.estimate);
        if let Some(estimate) = t.estimate {
            t.stats.estimated(t.request.lane, estimate, now - t.submitted);
        }
    }

    /// Whether it has left the queue.
    pub fn has_started(&self) -> bool {
        self.tracker.started.is_some()
    }

    /// The model computed so long for it; `window`: on a window of its speech that it came to the end of.
    pub fn heard(&mut self, took: Micros, window: bool) {
        let heard = self.tracker.heard.get_or_insert_default();
        heard.model = heard.model + took;
        heard.windows += u64::from(window);
    }

    /// How much of it is done, 0..=1.
    pub fn progress(&self, ratio: f64) {
        self.tracker.shared.registry.progress(self.id, ratio);
    }

    /// Sends an event that is not the last.
    pub fn send(&mut self, event: E) -> Result<(), Fault> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        sink.send(event).map_err(|lost| lost_fault(lost, self.tracker.shared.stall()))?;
        self.tracker.shared.registry.streaming(self.id);
        Ok(())
    }

    /// Whether its answer is still of use; the fault to end it with when not. Ask between two steps of work.
    pub fn wanted(&mut self, now: Micros) -> Result<(), Fault> {
        if self.cancel.is_cancelled() {
            return Err(Fault::new(ErrorKind::Cancelled, format!("request {} was cancelled", self.id)));
        }
        if self.tracker.shared.is_stopped() {
            return Err(draining_fault());
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            let after = (now - self.tracker.submitted).as_secs();
            let running = if self.tracker.started.is_some() { "while it ran" } else { "before it started" };
            let message =
                format!("the deadline of request {} passed {running}, {after:.1} s after submission", self.id);
            return Err(Fault::new(ErrorKind::DeadlinePassed, message));
        }
        let stall = self.tracker.shared.stall();
        match self.sink.as_mut().and_then(|sink| sink.lost(now, stall)) {
            Some(lost) => Err(lost_fault(lost, stall)),
            None => Ok(()),
        }
    }

    /// Time in the queue and time running, so far.
    pub fn times(&self, now: Micros) -> JobTimes {
        let t = &self.tracker;
        let started = t.started.unwrap_or(now);
        JobTimes { queue_ms: (started - t.submitted).as_ms(), run_ms: (now - started).as_ms() }
    }

    /// Ends it with its last event.
    pub fn done(mut self, last: E, now: Micros) {
        self.end(Ok(last), now);
    }

    /// Ends it with a fault.
    pub fn fail(mut self, fault: Fault, now: Micros) {
        self.end(Err(fault), now);
    }

    fn end(&mut self, last: Result<E, Fault>, now: Micros) {
        let Some(sink) = self.sink.take() else { return };
        let outcome = last.as_ref().map_or_else(outcome_of, |_| Outcome::Served);
        let t = &self.tracker;
        let lane = t.stats.lane(t.request.lane);
        match t.started {
            Some(started) => {
                lane.running.fetch_sub(1, Ordering::Relaxed);
                t.shared.metrics.ran(&t.request, now - started);
            }
            None => t.stats.leave_queue(),
        }
        lane.ended(outcome, t.request.cost);
        t.shared.metrics.ended(&t.request, outcome);
        t.shared.recorder.ended(&t.request, t.submitted, t.started, t.heard, outcome, now);
        if outcome == Outcome::Served {
            let queued = t.started.unwrap_or(now) - t.submitted;
            t.stats.served(t.request.lane, queued, now - t.submitted, t.request.cost, now);
        }
        // Counts first: who sees the last event may look at them.
        t.shared.registry.end(self.id, outcome, now);
        sink.finish(last);
    }
}

impl<E> Drop for Live<E> {
    fn drop(&mut self) {
        if self.sink.is_some() {
            let now = self.tracker.shared.clock.now();
            let model = &self.tracker.request.model;
            let message = format!("request {} was lost inside the worker of `{model}`", self.id);
            self.end(Err(Fault::new(ErrorKind::Internal, message)), now);
        }
    }
}

/// How a request that ended with this fault is counted.
pub(in crate::engine::runtime) fn outcome_of(fault: &Fault) -> Outcome {
    match fault.kind {
        ErrorKind::Cancelled | ErrorKind::Draining => Outcome::Cancelled,
        ErrorKind::DeadlinePassed => Outcome::Expired,
        _ => Outcome::Failed,
    }
}

fn lost_fault(lost: Lost, stall: Micros) -> Fault {
    let message = match lost {
        Lost::Gone => "the client went away".to_string(),
        Lost::Stalled => format!("the client took nothing for {:.0} s", stall.as_secs()),
    };
    Fault::new(ErrorKind::Cancelled, message)
}
