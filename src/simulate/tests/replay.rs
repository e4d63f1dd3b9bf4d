//! Recorded arrivals, replayed.

use crate::control::arrivals::{Arrival, Arrivals, BatchRun, RecordedQueue, SCHEMA};
use crate::control::snapshot::{Caps, Outcome};
use crate::control::{Lane, Op};
use crate::engine::scheduler::Micros;
use crate::simulate::{Settings, Trace, TraceError, replay, run_each};

pub(super) fn caps() -> Caps {
    serde_json::from_value(serde_json::json!({
        "max_batch_cost_effective": 16_384, "max_batch_cost": 16_384, "max_batch_cost_source": "default",
        "max_batch_requests": 12, "wait_ms": 0.0, "coalesce_ms": 0.0, "depth": 1, "max_queue": 256,
    }))
    .expect("the fields that every snapshot has")
}

fn arrival(at_s: f64, queue_s: f64, run_s: f64) -> Arrival {
    Arrival {
        at_ms: at_s * 1_000.0,
        model: "m".into(),
        op: Op::Transcribe,
        lane: Lane::Clips,
        cost: 10_000,
        outcome: Some(Outcome::Served),
        queue_ms: queue_s * 1_000.0,
        run_ms: Some(run_s * 1_000.0),
        windows: None,
        model_ms: None,
    }
}

fn batch(ended_s: f64, items: u64, run_s: f64) -> BatchRun {
    BatchRun {
        ended_ms: ended_s * 1_000.0,
        model: "m".into(),
        op: Op::Transcribe,
        lane: Lane::Clips,
        items,
        windows: None,
        cost: 10_000 * items,
        run_ms: run_s * 1_000.0,
    }
}

/// One clip at 0 s that runs for 2 s, two at 1 s that run together for 3 s behind it: a second, and a second per clip.
fn document() -> Arrivals {
    Arrivals {
        schema: SCHEMA.into(),
        node: "n".into(),
        version: "0".into(),
        at_ms: 0,
        span_ms: 20_000.0,
        complete: true,
        queues: vec![RecordedQueue {
            model: "m".into(),
            op: Op::Transcribe,
            caps: caps(),
            slice_windows: None,
            recordings_share: None,
        }],
        arrivals: vec![arrival(1.0, 1.0, 3.0), arrival(0.0, 0.0, 2.0), arrival(1.0, 1.0, 3.0)],
        // Seven batches, so that two numbers can be fitted.
        batches: [(2.0, 1), (5.0, 2), (2.0, 1), (5.0, 2), (2.0, 1), (5.0, 2), (6.0, 3)]
            .map(|(at, items)| batch(at, items, 1.0 + items as f64))
            .into(),
    }
}

pub(super) fn settings(set: &[&str]) -> Settings {
    let all = [&["wait_ms=0", "coalesce_ms=0", "depth=1"], set].concat();
    Settings::of(&super::load("mixed", &all, &[]).settings[0]).expect("sound settings")
}

#[test]
fn a_replay_under_the_recorded_settings_repeats_what_was_recorded() {
    let trace = Trace::of(&document(), None).expect("a sound document");
    assert_eq!((trace.model.as_str(), trace.span), ("m", Micros::from_secs(20)));
    let fit = &trace.fits[0];
    assert!(fit.median_error < 1e-6 && fit.batches == 7, "{fit:?}");
    let report = replay(&trace, &[settings(&[])]);
    let run = report.runs[0].lane(Lane::Clips).expect("clips came");
    assert_eq!((run.requests.served, run.batches), (3, 2));
    let compared = report.recorded.expect("a replay compares");
    let lane = &compared.lanes[0];
    assert_eq!((lane.requests, lane.served, lane.done.max_ms), (3, 3, Some(4_000.0)));
    for error in [lane.error.queue_p50, lane.error.done_p50, lane.error.done_max] {
        // The middle of several replays, each with a little chance in its times.
        assert!(error.is_some_and(|error| error.abs() < 0.02), "{lane:?}");
    }
    assert_eq!((compared.repeats, replay(&trace, &[settings(&[])]).runs), (21, report.runs), "the same chance again");
    let [plain] = run_each(&trace.scenario(), &[settings(&[])]).try_into().expect("one setting");
    let plain = plain.lane(Lane::Clips).expect("clips came");
    assert_eq!(plain.requests.done.max_ms, Some(4_000.0), "a single run is to the microsecond");
}

#[test]
fn another_setting_and_another_engine_can_be_asked_about() {
    let mut trace = Trace::of(&document(), Some("m")).expect("a sound document");
    let report = replay(&trace, &[settings(&[]), settings(&["max_batch_requests=1"])]);
    assert_eq!([report.runs[0].batches, report.runs[1].batches], [2, 3]);
    trace.set_engine(crate::simulate::Service::default());
    let faster = replay(&trace, &[settings(&[])]);
    let error = faster.recorded.expect("a replay compares").lanes[0].error.done_p50;
    assert!(error.is_some_and(|error| error < -0.99), "an engine that needs no time: {error:?}");
}

#[test]
fn a_queue_that_is_next_to_nothing_is_no_great_error() {
    let mut document = document();
    // Each alone, long after the other: the engine takes 3 ms to see that its slot is free, and the replay takes none.
    document.arrivals = [0.0, 5.0, 10.0].map(|at| arrival(at, 0.003, 2.0)).into();
    let error = |document: &Arrivals| {
        let trace = Trace::of(document, None).expect("a sound document");
        replay(&trace, &[settings(&[])]).recorded.expect("a replay compares").lanes[0].error
    };
    let near = |got: Option<f64>, wanted: f64| assert!(got.is_some_and(|got| (got - wanted).abs() < 0.02), "{got:?}");
    near(error(&document).queue_p50, -0.003 / 2.003);
    near(error(&document).done_p50, -0.003 / 2.003);
    // Half of the time to the answer was queue, and the replay has none of it.
    document.arrivals = [0.0, 5.0, 10.0].map(|at| arrival(at, 2.0, 2.0)).into();
    near(error(&document).queue_p50, -0.5);
    // No time to the answer: nothing to compare with.
    document.arrivals = [0.0, 5.0, 10.0].map(|at| arrival(at, 0.0, 0.0)).into();
    assert_eq!((error(&document).queue_p50, error(&document).done_p50), (None, None));
}

#[test]
fn who_went_away_goes_away_again_and_who_still_waits_counts() {
    let mut document = document();
    document.arrivals[0].outcome = Some(Outcome::Cancelled);
    document.arrivals[0].run_ms = None;
    document.arrivals[0].queue_ms = 500.0;
    document.arrivals.push(Arrival { outcome: None, run_ms: None, queue_ms: 1_000.0, ..arrival(19.0, 0.0, 0.0) });
    let trace = Trace::of(&document, None).expect("a sound document");
    let report = replay(&trace, &[settings(&[])]);
    let requests = &report.runs[0].lane(Lane::Clips).expect("clips came").requests;
    assert_eq!((requests.served, requests.timeouts, requests.pending), (2, 1, 1));
    assert_eq!(report.recorded.map(|r| (r.lanes[0].requests, r.lanes[0].served)), Some((4, 2)));
}

#[test]
fn a_replay_is_of_one_model_and_of_what_is_batched() {
    let mut document = document();
    let fits = Trace::of(&document, None).expect("a sound document").fits;
    // Other work on the same engine, slow and with settings of its own, and a batch that was not measured.
    document.batches.extend([
        BatchRun { model: "other".into(), ..batch(9.0, 1, 90.0) },
        BatchRun { op: Op::Generate, ..batch(9.0, 1, 90.0) },
        batch(9.0, 40, 0.0),
    ]);
    let strange = RecordedQueue { model: "other".into(), slice_windows: Some(7), ..document.queues[0].clone() };
    document.queues.insert(0, strange);
    document.arrivals.push(Arrival { op: Op::Generate, ..arrival(2.0, 0.0, 1.0) });
    let trace = Trace::of(&document, Some("m")).expect("a sound document");
    assert_eq!((trace.fits, trace.arrivals.len()), (fits, 3));
    assert_eq!(trace.queue.and_then(|queue| queue.slice_windows), None, "its own settings");
}

#[test]
fn a_deadline_that_passed_passes_again_and_nobody_asks_twice() {
    let mut document = document();
    document.arrivals[0].outcome = Some(Outcome::Expired);
    document.arrivals[0].run_ms = None;
    document.arrivals[0].queue_ms = 500.0;
    let report = replay(&Trace::of(&document, None).expect("a sound document"), &[settings(&[])]);
    let requests = &report.runs[0].lane(Lane::Clips).expect("clips came").requests;
    assert_eq!((requests.submitted, requests.served, requests.timeouts), (3, 2, 1));
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let of = |change: fn(&mut Arrivals), model| {
        let mut document = document();
        change(&mut document);
        Trace::of(&document, model).expect_err("it lacks something")
    };
    let schema = of(|d| d.schema = "lanekeeper.arrivals/2".into(), None);
    assert!(matches!(schema, TraceError::Schema { .. }), "{schema}");
    assert_eq!(of(|d| d.batches.clear(), None), TraceError::NoBatches);
    assert_eq!(of(|_| {}, Some("x")), TraceError::Empty { whom: "model `x`".into() });
    let generation = of(|d| d.arrivals.iter_mut().for_each(|a| a.op = Op::Generate), None);
    assert_eq!(generation, TraceError::Empty { whom: "any model".into() });
    let several = of(|d| d.arrivals[0].model = "other".into(), None);
    assert_eq!(several.to_string(), "arrivals of several models were recorded: m, other");
}
