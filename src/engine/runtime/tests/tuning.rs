//! What bounds batches, and how it changes while they run.

use super::*;
use crate::control::WaitCode;
use crate::engine::scheduler::{BatchCaps, ControllerMode, ControllerSettings, LaneRules, Paused};
use crate::profile::{AdaptiveMode, Bound, Origin};

fn ears(engine: &Engine) -> Queue {
    queue(engine, "ears", Op::Transcribe)
}

fn nothing() -> Retune {
    Retune { op: Op::Transcribe, max_cost: None, caps: None, controller: None, rules: None, depth: None }
}

#[tokio::test]
async fn a_batch_that_runs_out_of_memory_lowers_the_cap_and_says_so() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let blocker = transcribe(&engine, 1, "first");
    stage.await_arrivals(1);
    let tickets: Vec<_> = ["large", "large", "a", "b"].iter().map(|script| transcribe(&engine, 10, script)).collect();
    until("all wait", || ears(&engine).lanes[0].pending == 4);
    stage.open();
    for ticket in tickets.into_iter().chain([blocker]) {
        transcript(ticket).await.expect("served, in halves where needed");
    }
    until("the cap is lowered", || ears(&engine).caps.max_batch_cost == 10_000);
    let q = ears(&engine);
    assert_eq!((q.caps.max_batch_cost_effective, q.caps.max_batch_cost_source.as_str()), (10_000, "memory"));
    let moved = &q.controller.moves[0];
    assert_eq!((moved.knob.as_str(), moved.cause.as_str()), ("max_batch_cost", "out_of_memory"));
    assert_eq!((moved.from, moved.to, q.controller.moves.len()), (720_000.0, 10_000.0, 1));
    assert!(engine.metrics().contains("knob=\"max_batch_cost\",cause=\"out_of_memory\"} 1"));
    stage.close();
    let again: Vec<_> = ["x", "y"].iter().map(|script| transcribe(&engine, 10, script)).collect();
    stage.open();
    for ticket in again {
        transcript(ticket).await.expect("served");
    }
    assert_eq!(stage.steps()[6..], [1, 1], "no batch is as dear again");
}

#[tokio::test]
async fn nothing_is_tried_more_often_than_the_profile_allows() {
    let (engine, stage) = engine(|profile| profile.models[0].max_attempts = 2);
    stage.close();
    let blocker = transcribe(&engine, 1, "first");
    stage.await_arrivals(1);
    let tickets: Vec<_> = ["a", "b", "large", "large"].iter().map(|script| transcribe(&engine, 10, script)).collect();
    until("all wait", || ears(&engine).lanes[0].pending == 4);
    stage.open();
    let mut faults = Vec::new();
    for ticket in tickets.into_iter().chain([blocker]) {
        faults.extend(transcript(ticket).await.err());
    }
    assert_eq!(faults.iter().filter_map(|fault| fault.code).collect::<Vec<_>>(), ["too_many_attempts"; 2]);
    assert_eq!(stage.steps(), [1, 4, 2, 2]);
}

#[tokio::test]
async fn a_lower_cap_wakes_the_worker() {
    let (engine, _stage) = engine(|profile| {
        profile.models[0].wait_ms = 60_000.0;
        profile.models[0].coalesce_ms = 60_000.0;
        profile.models[0].coalesce_ratio = 1.0;
    });
    engine.loaded().await;
    let ticket = transcribe(&engine, 10, "a");
    until("it waits for company", || ears(&engine).lanes[0].pending == 1);
    assert_eq!(request(&engine, ticket.id).wait.expect("it waits").code, WaitCode::WindowOpen);
    engine.retune("ears", Retune { max_cost: Some(Some(9_000)), ..nothing() }).expect("taken");
    transcript(ticket).await.expect("the cap is filled now");
    until("it is shown", || ears(&engine).caps.max_batch_cost == 9_000);
    let q = ears(&engine);
    assert_eq!(q.caps.max_batch_cost_hard, Some(720_000));
    assert_eq!((q.caps.max_batch_cost_source.as_str(), q.caps.wait_ms), ("live", 60_000.0));
    engine.retune("ears", Retune { max_cost: Some(None), ..nothing() }).expect("let go");
    until("the profile binds again", || ears(&engine).caps.max_batch_cost == 720_000);
    let caps = BatchCaps { max_requests: 1, max_cost: 5, ..BatchCaps::default() };
    engine.retune("ears", Retune { caps: Some(caps), ..nothing() }).expect("taken");
    until("the count cap is another", || ears(&engine).caps.max_batch_requests == 1);
    assert_eq!(ears(&engine).caps.max_batch_cost, 720_000, "the cost cap has its own way in");
    let fault = engine.retune("vectors", nothing()).expect_err("it has no such operation");
    assert_eq!(fault.kind, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn a_lane_is_held_and_let_go() {
    let (engine, _stage) = engine(|_| {});
    engine.loaded().await;
    let held = LaneRules { paused: Paused { clips: true, recordings: false }, ..LaneRules::default() };
    engine.retune("ears", Retune { rules: Some(held), ..nothing() }).expect("taken");
    until("the lane is shown as held", || ears(&engine).lanes[0].paused);
    let clip = transcribe(&engine, 10, "c");
    transcript(transcribe(&engine, 60, "r")).await.expect("the other lane runs");
    until("it says why", || request(&engine, clip.id).wait.is_some_and(|wait| wait.code == WaitCode::LanePaused));
    engine.retune("ears", Retune { rules: Some(LaneRules::default()), ..nothing() }).expect("taken");
    transcript(clip).await.expect("served");
}

#[tokio::test]
async fn a_drain_lets_go_what_has_started_in_a_held_lane() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let recording = transcribe(&engine, 60, "r");
    stage.await_arrivals(1);
    let rules = LaneRules {
        slice_windows: crate::engine::scheduler::SliceWindows::windows(1).expect("one"),
        ..LaneRules::default()
    };
    let held = LaneRules { paused: Paused { clips: false, recordings: true }, ..rules };
    engine.retune("ears", Retune { rules: Some(held), ..nothing() }).expect("taken");
    stage.open();
    until("it is put aside", || ears(&engine).lanes[1].put_aside == 1);
    engine.drain().await;
    assert_eq!(transcript(recording).await.expect("it had started"), ["r 0", "r 1"]);
}

#[tokio::test]
async fn depth_is_by_the_profile_and_changes_while_it_runs() {
    let (engine, stage) = engine(|profile| {
        profile.models[0].depth = Some(2);
        profile.models[0].max_batch_requests = Some(1);
    });
    stage.close();
    let tickets: Vec<_> = (0..4).map(|_| transcribe(&engine, 10, "a")).collect();
    stage.await_arrivals(1);
    until("two batches are with the runner", || ears(&engine).inflight.len() == 2);
    engine.retune("ears", Retune { depth: Some(3), ..nothing() }).expect("taken");
    until("three are", || ears(&engine).inflight.len() == 3);
    assert_eq!((ears(&engine).caps.depth, ears(&engine).lanes[0].pending), (3, 1));
    stage.open();
    for ticket in tickets {
        transcript(ticket).await.expect("served");
    }
}

#[tokio::test]
async fn waits_are_estimated_bounded_and_scored() {
    let (engine, stage) = engine(|profile| profile.models[0].max_batch_requests = Some(1));
    transcript(transcribe(&engine, 10, "measure")).await.expect("served");
    transcript(transcribe(&engine, 60, "measure")).await.expect("served");
    until("both lanes are measured", || ears(&engine).lanes.iter().all(|lane| lane.service.is_some()));
    stage.close();
    let recording = transcribe(&engine, 90, "r");
    stage.await_arrivals(4);
    let clips = [transcribe(&engine, 10, "a"), transcribe(&engine, 10, "b")];
    until("both are estimated", || {
        clips.iter().all(|clip| request(&engine, clip.id).wait.is_some_and(|wait| wait.estimate_ms.is_some()))
    });
    let bounds: Vec<_> = clips.iter().map(|clip| request(&engine, clip.id).wait.expect("waits").turns_left).collect();
    assert!(bounds.iter().all(|bound| bound.is_some_and(|turns| (1..=3).contains(&turns))), "{bounds:?}");
    stage.open();
    for ticket in clips.into_iter().chain([recording]) {
        transcript(ticket).await.expect("served");
    }
    until("both are scored", || ears(&engine).lanes[0].estimate_error.is_some_and(|error| error.window >= 2));
    assert!(ears(&engine).lanes[0].estimate_error.expect("scored").median_ratio.is_finite());
    assert!(
        engine
            .metrics()
            .contains("lanekeeper_wait_estimate_error_ratio{model=\"ears\",op=\"transcribe\",lane=\"clips\"}")
    );
}

#[tokio::test]
async fn the_controller_moves_the_caps_of_a_running_engine_and_says_why() {
    let (engine, _stage) = engine(|profile| {
        profile.models[0].adaptive.mode = AdaptiveMode::Pi;
        profile.models[0].adaptive.target_ms = Some(3_600_000.0);
    });
    for _ in 0..40 {
        transcript(transcribe(&engine, 1, "a")).await.expect("served");
    }
    until("the window is at its longest", || ears(&engine).caps.wait_ms == 50.0);
    let q = ears(&engine);
    assert_eq!(
        (q.controller.mode.as_str(), q.controller.frozen, q.controller.target_ms),
        ("pi", false, Some(3_600_000.0))
    );
    let moved = q.controller.moves.iter().find(|m| m.knob == "wait_ms" && m.cause == "headroom").expect("it moved");
    assert!(moved.to > moved.from, "{moved:?}");
    assert!(q.controller.observed_p50_ms.is_some() && q.controller.fill_ratio.is_some_and(|fill| fill < 0.7));
    assert_eq!((q.caps.max_batch_cost_floor, q.caps.max_batch_cost_ceiling), (Some(180_000), Some(2_880_000)));
    assert!(engine.metrics().contains("knob=\"wait_ms\",cause=\"headroom\"}"));
    let frozen = ControllerSettings { mode: ControllerMode::Pi, freeze: true, ..ControllerSettings::default() };
    engine.retune("ears", Retune { controller: Some(frozen), ..nothing() }).expect("taken");
    until("it is frozen", || ears(&engine).controller.frozen);
}

#[test]
fn a_range_that_is_upside_down_is_refused_at_the_start() {
    let mut profile = box_profile(vec![model("ears", Family::Whisper, &[Op::Transcribe])]);
    let bound = |value| Some(Bound { value, origin: Origin::CommandLine { setting: format!("x={value}") } });
    (profile.models[0].adaptive.min_cost, profile.models[0].adaptive.max_cost) = (bound(900), bound(800));
    let fault = Engine::start_with(profile, ModelFiles::new(), fakes::loader(&Arc::new(Stage::default()))).err();
    let fault = fault.expect("refused");
    assert!(
        fault.message.contains("900") && fault.message.contains("800") && fault.message.contains("ears"),
        "{fault}"
    );
}
