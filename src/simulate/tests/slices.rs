//! Plans of another slice, against an engine that takes its time by windows: the plan sees what was recorded, never the
//! engine's law.

use super::replay::{caps, settings};
use crate::control::arrivals::{Arrival, Arrivals, BatchRun, RecordedQueue, SCHEMA};
use crate::control::snapshot::Outcome;
use crate::control::{Lane, Op};
use crate::engine::scheduler::{Former, Item, ItemId, Micros, WINDOW_MS};
use crate::simulate::random::Random;
use crate::simulate::{Trace, Windows, run_each};

/// A request as it truly is.
#[derive(Clone, Copy)]
struct Spoken {
    at: Micros,
    cost: u64,
    windows: Windows,
    /// How much more there is to decode than in others.
    dense: f64,
}

const SPAN: Micros = Micros(7_200_000_000);

/// Two hours of clips, some with a remnant behind their last sentence, and of recordings whose windows move on by 26 to
/// 30 s: three quarters of the engine's time.
fn load() -> Vec<Spoken> {
    let mut random = Random::of(11, 0, 0);
    let mut load = Vec::new();
    let mut at = 0.0;
    while at < 7_100.0 {
        at += random.exponential(1.6);
        let cost = 2_000 + (6_000.0 * random.unit()) as u64;
        let windows = Windows::counted(cost, 1 + u64::from(random.unit() < 0.07), WINDOW_MS);
        load.push(Spoken { at: Micros::from_ms(at * 1_000.0), cost, windows, dense: 0.7 + 0.6 * random.unit() });
    }
    let mut at = 0.0;
    while at < 7_000.0 {
        at += random.exponential(12.0);
        let cost = 60_000 + (90_000.0 * random.unit()) as u64;
        let windows = Windows::expected(cost, 26_000 + (4_000.0 * random.unit()) as u64);
        load.push(Spoken { at: Micros::from_ms(at * 1_000.0), cost, windows, dense: 0.8 + 0.4 * random.unit() });
    }
    load.sort_by_key(|spoken| spoken.at);
    load
}

/// What the engine takes for the next `n` windows of a request: each is encoded whole, and what is in it is decoded.
fn takes(spoken: &Spoken, mut windows: Windows, mut left: u64, n: u64) -> Micros {
    let mut ms = 2.0;
    for _ in 0..n {
        ms += 450.0 + 0.022 * spoken.dense * left.min(WINDOW_MS) as f64;
        (windows, left) = windows.after(1, left);
    }
    Micros::from_ms(ms)
}

/// Runs the load, one batch at a time, and records it.
fn record(load: &[Spoken], set: &[&str], slice_windows: u64, share: f64) -> Arrivals {
    let mut former = settings(set).former(Op::Transcribe);
    let mut states: Vec<(Windows, u64, Option<Micros>, Micros)> =
        load.iter().map(|spoken| (spoken.windows, spoken.cost, None, Micros::ZERO)).collect();
    let arrive = |former: &mut Former, next: &mut usize, now: Micros| {
        while let Some(spoken) = load.get(*next).filter(|spoken| spoken.at <= now) {
            former.push(Item::transcribe(ItemId(*next as u64), spoken.cost * 16, spoken.at));
            *next += 1;
        }
    };
    let (mut now, mut next) = (Micros::ZERO, 0);
    let (mut arrivals, mut batches) = (Vec::new(), Vec::new());
    loop {
        let Some(formed) = former.due(now, true).and_then(|why| former.take(now, why, 1)) else {
            let Some(spoken) = load.get(next) else { break };
            now = now.max(spoken.at);
            arrive(&mut former, &mut next, now);
            continue;
        };
        let item = formed.items[0];
        let (spoken, state) = (&load[item.id.0 as usize], &mut states[item.id.0 as usize]);
        let start = *state.2.get_or_insert(now);
        let n = state.0.slice(formed.slice.map(|slice| u64::from(slice.windows.get())));
        let took = takes(spoken, state.0, state.1, n);
        now = now + took;
        // Before the former hears that the batch has run.
        arrive(&mut former, &mut next, now);
        state.3 = state.3 + took;
        (state.0, state.1) = state.0.after(n, state.1);
        let (model, op, lane) = ("m".to_string(), Op::Transcribe, formed.lane);
        batches.push(BatchRun {
            ended_ms: now.as_ms(),
            model: model.clone(),
            op,
            lane,
            items: 1,
            windows: Some(n),
            cost: formed.cost,
            run_ms: took.as_ms(),
        });
        match formed.slice.filter(|_| state.0.count > 0) {
            Some(slice) => {
                former.put_back(slice, state.1);
            }
            None => arrivals.push(Arrival {
                at_ms: spoken.at.as_ms(),
                model,
                op,
                lane,
                cost: spoken.cost,
                outcome: Some(Outcome::Served),
                queue_ms: (start - spoken.at).as_ms(),
                run_ms: Some((now - start).as_ms()),
                windows: Some(spoken.windows.count),
                model_ms: Some(state.3.as_ms()),
            }),
        }
        former.ran(formed.charge, took);
    }
    assert!(now < SPAN, "everything was answered");
    Arrivals {
        schema: SCHEMA.into(),
        node: "n".into(),
        version: "0".into(),
        at_ms: 0,
        span_ms: SPAN.as_ms(),
        complete: true,
        queues: vec![RecordedQueue {
            model: "m".into(),
            op: Op::Transcribe,
            caps: caps(),
            slice_windows: Some(slice_windows),
            recordings_share: Some(share),
        }],
        arrivals,
        batches,
    }
}

const ONE: [&str; 3] = ["max_batch_requests=1", "long_form.slice_windows=1", "lanes.recordings.share=0.3"];
const TWO: [&str; 3] = ["max_batch_requests=1", "long_form.slice_windows=2", "lanes.recordings.share=0.6"];

/// How far a plan from the one to the other is off, by lane: medians and p95 of the time to the answer.
fn off(planned: &Arrivals, set: &[&str], real: &Arrivals) -> Vec<[f64; 2]> {
    let trace = Trace::of(planned, None).expect("a sound document");
    let runs = run_each(&trace.scenario(), &[settings(set)]);
    let real = Trace::of(real, None).expect("a sound document").waits;
    let of = |lane: Lane| {
        let (planned, real) = (runs[0].lane(lane).expect("it has work").requests.done, real[&lane].done);
        let part = |planned: Option<f64>, real: Option<f64>| Some(planned? / real? - 1.0);
        [part(planned.p50_ms, real.p50_ms), part(planned.p95_ms, real.p95_ms)].map(|part| part.expect("it has waits"))
    };
    [Lane::Clips, Lane::Recordings].map(of).into()
}

fn near(off: Vec<[f64; 2]>, most: f64) {
    assert!(off.iter().flatten().all(|part| part.abs() <= most), "{off:?}");
}

#[test]
fn a_plan_of_longer_slices_and_one_of_shorter_ones_come_out() {
    let load = load();
    let (one, two) = (record(&load, &ONE, 1, 0.3), record(&load, &TWO, 2, 0.6));
    assert!(one.batches.iter().all(|batch| batch.lane == Lane::Clips || batch.windows == Some(1)));
    near(off(&one, &ONE, &one), 0.03);
    near(off(&two, &TWO, &two), 0.03);
    near(off(&one, &TWO, &two), 0.05);
    near(off(&two, &ONE, &one), 0.05);
}

#[test]
fn a_document_that_counted_no_windows_is_replayed_by_its_lengths() {
    let mut document = record(&load(), &ONE, 1, 0.3);
    let counted = Trace::of(&document, None).expect("a sound document");
    document.arrivals.iter_mut().for_each(|arrival| (arrival.windows, arrival.model_ms) = (None, None));
    document.batches.iter_mut().for_each(|batch| batch.windows = None);
    let text = serde_json::to_string(&document).expect("plain data");
    assert!(!text.contains("windows\":null") && !text.contains("model_ms"), "as older engines wrote it");
    let trace = Trace::of(&serde_json::from_str(&text).expect("as it was written"), None).expect("a sound document");
    assert!(trace.fits.iter().all(|fit| fit.window_ms == 0.0) && counted.fits.iter().all(|fit| fit.window_ms > 400.0));
    for (old, new) in trace.arrivals.iter().zip(&counted.arrivals) {
        assert_eq!((old.pace, old.windows), (1.0, Windows::expected(old.cost, WINDOW_MS)));
        assert!(new.windows.count >= old.windows.count && new.pace != 1.0);
    }
}

#[test]
fn an_engine_of_known_numbers_takes_by_them_alone() {
    let mut trace = Trace::of(&record(&load(), &ONE, 1, 0.3), None).expect("a sound document");
    trace.set_engine(trace.scenario().service);
    assert!(trace.arrivals.iter().all(|arrival| arrival.pace == 1.0));
}
