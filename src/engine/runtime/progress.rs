//! Does what waits get on? Tells a lane that is stuck from one that waits for good reason. Pure: the time comes in.
//!
//! Three ways to be stuck, each judged by what is seen from outside and not by the scheduler's own reasons, which might be
//! what is wrong:
//!
//! - something waits, nothing runs, and nothing is started for `limits.progress_s`;
//! - something waits and is passed over again and again: by [`BATCHES`] batches of other work (and more than a queue holds),
//!   in twice the engine time that the other lane may have by its share before it is this one's turn; or by [`ITERATIONS`]
//!   iterations in which a slot and room for it were free;
//! - what runs has not ended a window, a chunk or an iteration for [`HANGS`].
//!
//! A lane that is held, a model that loads, a drain, a device that another model has, a pool that is full and a batch that
//! takes its time are none of these.

use crate::control::snapshot::LaneProgress;
use crate::control::{Lane, Op};
use crate::engine::runtime::RequestId;
use crate::engine::scheduler::Micros;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Batches that may be run while a lane waits, if that takes twenty times the limit besides. A turn of the other lane can be
/// many: as many as wait when it begins.
const BATCHES: u64 = 2_000;

/// Passes over running sequences that may go by while a slot and room are free for what waits. One is enough for a sound
/// scheduler.
const ITERATIONS: u64 = 64;

/// A step of the models served here is one 30-s window, or one pass: seconds.
const HANGS: Micros = Micros(120_000_000);

/// A lane, or a model's generations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneName {
    pub model: Arc<str>,
    pub op: Op,
    /// Absent for generations.
    pub lane: Option<Lane>,
}

/// What is seen of a lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Requests that could be started: none that an operator holds.
    pub waiting: u64,
    /// The first of them, and when it came.
    pub first: Option<RequestId>,
    /// It may start nothing: held, loading, draining.
    pub held: bool,
    /// Nothing of the model runs, and no other model has the device.
    pub idle: bool,
    /// Of generations: a slot and room for what waits are free, and no other model has the device.
    pub open: bool,
    /// Requests that a turn of the other lane may consist of: those that its queue can hold.
    pub queue: u64,
    /// Engine time that the other lane has had so far.
    pub others: Micros,
    /// What it may have of that between two turns of this one, by its share; zero where no share is in effect.
    pub between: Micros,
    /// The batch window: so long a lane may wait for company.
    pub window: Micros,
    /// Starts of this lane's work so far, and when the last one was.
    pub started: u64,
    pub last_start: Option<Micros>,
    /// Steps of the model so far: batches, or iterations.
    pub steps: u64,
    /// How long what runs has not ended a step; absent while nothing runs.
    pub hangs: Option<Micros>,
}

/// Since when a lane is stuck, and in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stuck {
    pub since: Micros,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Nothing runs.
    Idle,
    /// So many steps went by.
    PassedOver(u64),
    /// What runs does not get on.
    Hangs,
}

/// What is remembered of a lane between two looks.
#[derive(Debug, Clone, Copy)]
struct Memory {
    started: u64,
    steps: u64,
    /// Since when it waits with nothing running.
    idle: Option<Micros>,
    /// Since when it is passed over.
    passed: Option<Passed>,
    stuck: Option<Stuck>,
}

/// When a lane began to be passed over, and how many steps and how much of the other lane's time had gone by.
#[derive(Debug, Clone, Copy)]
struct Passed {
    since: Micros,
    step: u64,
    others: Micros,
}

impl Passed {
    /// Whether so much has gone by that it should have been this lane's turn long ago.
    fn is_too_long(&self, seen: &Seen, generates: bool, limit: Micros, now: Micros) -> bool {
        let (steps, lasts) = (seen.steps - self.step, now - self.since);
        match generates {
            true => steps >= ITERATIONS && lasts >= Micros(limit.0 / 3),
            false => {
                steps >= BATCHES.max(seen.queue.saturating_mul(2))
                    && lasts >= Micros(limit.0.saturating_mul(20))
                    && seen.others - self.others >= seen.between + seen.between
            }
        }
    }
}

impl Memory {
    fn look(&mut self, seen: &Seen, generates: bool, limit: Micros, now: Micros) -> Option<Stuck> {
        let got_on = seen.started != self.started;
        let stepped = seen.steps != self.steps;
        (self.started, self.steps) = (seen.started, seen.steps);
        if seen.waiting == 0 || seen.held || got_on {
            (self.idle, self.passed) = (None, None);
        }
        if seen.waiting > 0 && !seen.held {
            // A batch that came and went between two looks: it was not idle.
            match seen.idle && (generates || !stepped) {
                true => drop(self.idle.get_or_insert(now)),
                false => self.idle = None,
            }
            match !generates || seen.open {
                true => drop(self.passed.get_or_insert(Passed { since: now, step: seen.steps, others: seen.others })),
                false => self.passed = None,
            }
        }
        let patience = limit.max(seen.window + seen.window);
        let idle = self.idle.filter(|since| now - *since >= patience);
        let passed = self.passed.filter(|passed| passed.is_too_long(seen, generates, limit, now));
        self.stuck = if let Some(since) = idle {
            Some(Stuck { since, how: How::Idle })
        } else if let Some(Passed { since, step, .. }) = passed {
            Some(Stuck { since, how: How::PassedOver(seen.steps - step) })
        } else {
            let hangs = seen.hangs.filter(|time| *time >= HANGS);
            hangs.map(|time| Stuck { since: now - time, how: How::Hangs })
        };
        self.stuck
    }
}

/// All lanes of an engine.
#[derive(Debug, Default)]
pub(super) struct Progress {
    lanes: BTreeMap<LaneName, Memory>,
}

/// A lane and what became of it at a look.
pub(super) struct Looked {
    pub shown: LaneProgress,
    /// It was found stuck just now.
    pub begins: bool,
    /// It was stuck at the last look and gets on.
    pub ends: bool,
}

impl Progress {
    /// Looks at a lane. `unix_ms` is the time of `now`.
    pub fn look(&mut self, name: LaneName, seen: &Seen, limit: Micros, now: Micros, unix_ms: u64) -> Looked {
        let fresh = Memory { started: seen.started, steps: seen.steps, idle: None, passed: None, stuck: None };
        let memory = self.lanes.entry(name.clone()).or_insert(fresh);
        let before = memory.stuck;
        let stuck = memory.look(seen, name.op == Op::Generate, limit, now);
        let shown = LaneProgress {
            name: name.to_string(),
            model: name.model.to_string(),
            op: name.op,
            lane: name.lane,
            waiting: seen.waiting,
            last_start_ago_ms: seen.last_start.map(|at| (now - at).as_ms()),
            stuck_ms: stuck.map(|stuck| (now - stuck.since).as_ms()),
            request: stuck.and(seen.first).map(|id| id.to_string()),
            why: stuck.map(|stuck| name.why(&stuck, seen, now, unix_ms)),
        };
        Looked { shown, begins: stuck.is_some() && before.is_none(), ends: stuck.is_none() && before.is_some() }
    }
}

impl LaneName {
    fn why(&self, stuck: &Stuck, seen: &Seen, now: Micros, unix_ms: u64) -> String {
        let LaneName { model, op, lane } = self;
        let lane = lane.map_or_else(String::new, |lane| format!("lane {lane} of "));
        let lasts = now - stuck.since;
        let since = crate::control::utc(unix_ms.saturating_sub(lasts.0 / 1_000));
        let first = seen.first.map(|id| format!(", the first is {id}")).unwrap_or_default();
        let waiting = format!("{} waiting{first}", seen.waiting);
        let what = match stuck.how {
            How::Idle => format!("{waiting}; nothing runs and nothing was started"),
            How::PassedOver(steps) => format!("{waiting}; passed over by {steps} steps"),
            How::Hangs => format!("what runs has not ended a step; {waiting}"),
        };
        format!("{lane}`{model}` ({op}) is stuck since {since}, for {:.0} s: {what}", lasts.as_secs())
    }
}

impl std::fmt::Display for LaneName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.model, self.op)?;
        self.lane.map_or(Ok(()), |lane| write!(f, ".{lane}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Micros = Micros(30_000_000);

    fn clips() -> LaneName {
        LaneName { model: "ears".into(), op: Op::Transcribe, lane: Some(Lane::Clips) }
    }

    fn generations() -> LaneName {
        LaneName { model: "words".into(), op: Op::Generate, lane: None }
    }

    fn s(seconds: u64) -> Micros {
        Micros::from_secs(seconds)
    }

    /// Looks every second from `from` on; when it was first found stuck.
    fn found(name: &LaneName, from: u64, to: u64, seen: impl Fn(u64) -> Seen) -> Option<u64> {
        let mut progress = Progress::default();
        (from..=to).find(|t| progress.look(name.clone(), &seen(*t), LIMIT, s(*t), 0).shown.why.is_some())
    }

    fn waits() -> Seen {
        Seen { waiting: 3, first: Some(RequestId(17)), idle: true, open: true, ..Seen::default() }
    }

    #[test]
    fn what_waits_beside_an_idle_model_is_stuck_after_the_limit() {
        for name in [clips(), generations()] {
            assert_eq!(found(&name, 100, 200, |_| waits()), Some(130), "{name}");
            // It got on at 120: the time counts from there.
            let starts = |t| Seen { started: u64::from(t >= 120), ..waits() };
            assert_eq!(found(&name, 100, 200, starts), Some(150), "{name}");
        }
        let long_window = Seen { window: s(40), ..waits() };
        assert_eq!(found(&clips(), 100, 300, |_| long_window.clone()), Some(180), "company may take a while");
    }

    #[test]
    fn who_waits_for_good_reason_is_not_stuck() {
        type At = fn(u64) -> Seen;
        let seen: [(&str, At); 6] = [
            ("nothing waits", |_| Seen { waiting: 0, ..waits() }),
            ("held, loading, draining", |_| Seen { held: true, ..waits() }),
            ("a long batch", |_| Seen { idle: false, open: false, hangs: Some(s(100)), ..waits() }),
            ("another model has the device", |_| Seen { idle: false, open: false, ..waits() }),
            ("the other lane's batches, one after the other", |t| Seen { steps: t, ..waits() }),
            ("it is started from now and then", |t| Seen { started: t / 25, ..waits() }),
        ];
        for (why, seen) in seen {
            assert_eq!(found(&clips(), 100, 900, seen), None, "{why}");
        }
        // The pool is full, whatever else runs; and one long pass over running sequences.
        let full = |t| Seen { idle: false, open: false, steps: t * 50, ..waits() };
        assert_eq!(found(&generations(), 100, 900, full), None);
        let pass = |t| Seen { idle: false, open: true, steps: t / 60, ..waits() };
        assert_eq!(found(&generations(), 100, 900, pass), None);
    }

    #[test]
    fn what_is_passed_over_again_and_again_is_stuck() {
        let batches = |t| Seen { idle: false, steps: t * 10, ..waits() };
        assert_eq!(found(&clips(), 100, 900, batches), Some(700), "thousands of batches");
        let iterations = |t| Seen { idle: false, open: true, steps: t * 20, ..waits() };
        assert_eq!(found(&generations(), 100, 900, iterations), Some(110), "a slot was free all the time");
    }

    #[test]
    fn a_lane_is_passed_over_for_as_long_as_its_share_says() {
        let recordings = LaneName { lane: Some(Lane::Recordings), ..clips() };
        // Ten batches a second of clips, all day; a recording's turn takes ten seconds of engine time.
        let between = |share: f64| Micros((10e6 * (1.0 - share) / share) as u64);
        let rare =
            |share| move |t: u64| Seen { idle: false, steps: t * 10, others: s(t), between: between(share), ..waits() };
        assert_eq!(found(&recordings, 100, 900, rare(0.5)), Some(700), "its turn is long over");
        assert_eq!(found(&recordings, 100, 2_079, rare(0.01)), None, "a hundredth is a turn in a thousand seconds");
        assert_eq!(found(&recordings, 100, 3_000, rare(0.01)), Some(2_080), "twice that is too long for a hundredth");
        let served = |t: u64| Seen { started: t / 1_000, ..rare(0.01)(t) };
        assert_eq!(found(&recordings, 100, 9_000, served), None, "it is served in its turn, rarely");
        // A turn of the other lane is as long as what its queue holds.
        let queue = |t| Seen { queue: 20_000, ..rare(0.5)(t) };
        assert_eq!(found(&recordings, 100, 5_000, queue), Some(4_100));
    }

    #[test]
    fn a_step_that_does_not_end_is_told_although_nothing_waits() {
        let hangs = |t: u64| Seen { idle: false, hangs: Some(s(t - 100)), ..Seen::default() };
        assert_eq!(found(&clips(), 100, 400, hangs), Some(220));
    }

    #[test]
    fn the_reason_names_model_lane_request_and_since_when() {
        let mut progress = Progress::default();
        let unix_ms = |t: u64| 1_735_689_600_000 + t * 1_000;
        assert!(progress.look(clips(), &waits(), LIMIT, s(0), unix_ms(0)).shown.why.is_none());
        let looked = progress.look(clips(), &waits(), LIMIT, s(42), unix_ms(42));
        assert_eq!(
            looked.shown.why.as_deref(),
            Some(
                "lane clips of `ears` (transcribe) is stuck since 2025-01-01T00:00:00Z, for 42 s: 3 waiting, the first is \
                 req-17; nothing runs and nothing was started"
            )
        );
        assert!(looked.begins);
        assert_eq!((looked.shown.name.as_str(), looked.shown.stuck_ms), ("ears.transcribe.clips", Some(42_000.0)));
        assert_eq!(looked.shown.request.as_deref(), Some("req-17"));
        assert!(!progress.look(clips(), &waits(), LIMIT, s(43), unix_ms(43)).begins, "it is told once");
        let after = progress.look(clips(), &Seen { started: 1, ..waits() }, LIMIT, s(44), unix_ms(44));
        assert!(after.ends);
        assert_eq!((after.shown.why, after.shown.stuck_ms), (None, None), "and is over when it gets on");
    }
}
