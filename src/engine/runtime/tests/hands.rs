//! An operator's hands on single requests of a running engine.

use super::fakes::WINDOW_S;
use super::*;
use crate::control::hands::Touch;
use crate::control::{Lane, WaitCode};

const HOLD: Touch = Touch::HOLD;
const RELEASE: Touch = Touch::RELEASE;

fn ears(engine: &Engine) -> Queue {
    queue(engine, "ears", Op::Transcribe)
}

/// A clip that runs, and behind it one that waits.
fn one_runs_one_waits() -> (Engine, Arc<Stage>, [Ticket<TranscriptEvent>; 2]) {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let runs = transcribe(&engine, 10, "runs");
    stage.await_arrivals(1);
    let waits = transcribe(&engine, 10, "waits");
    until("it waits", || ears(&engine).lanes[0].pending == 1);
    (engine, stage, [runs, waits])
}

#[tokio::test]
async fn a_held_clip_waits_says_so_and_is_served_when_it_is_let_go() {
    let (engine, stage, [runs, held]) = one_runs_one_waits();
    engine.touch(held.id, HOLD, false).expect("it waits");
    engine.touch(held.id, HOLD, false).expect("twice is once");
    let next = transcribe(&engine, 10, "next");
    stage.open();
    transcript(runs).await.expect("served");
    transcript(next).await.expect("served before it");
    until("it is shown as held", || (ears(&engine).lanes[0].pending, ears(&engine).lanes[0].held) == (0, 1));
    let shown = request(&engine, held.id);
    let wait = shown.wait.expect("it waits");
    assert_eq!((wait.code, wait.estimate_ms, shown.position), (WaitCode::Held, None, None));
    engine.touch(held.id, RELEASE, false).expect("let go");
    assert_eq!(transcript(held).await.expect("served"), ["waits 0"]);
    until("nothing is held", || ears(&engine).lanes[0].held == 0);
}

#[tokio::test]
async fn a_recording_is_held_from_its_next_slice_on_and_moves_among_the_clips_to_run_whole() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let recording = transcribe(&engine, 3 * WINDOW_S, "r");
    stage.await_arrivals(1);
    engine.touch(recording.id, HOLD, false).expect("from the next slice on");
    stage.pass_one();
    until("it is held between two slices", || ears(&engine).lanes[1].held == 1);
    let lane = &ears(&engine).lanes[1];
    assert_eq!((lane.put_aside, lane.running, lane.pending), (0, 1, 0));
    engine.touch(recording.id, Touch { lane: Some(Lane::Clips), ..RELEASE }, false).expect("moved");
    stage.await_arrivals(2);
    assert_eq!((ears(&engine).lanes[0].running, ears(&engine).lanes[1].running), (1, 0));
    assert_eq!(request(&engine, recording.id).lane, Some(Lane::Clips));
    let clip = transcribe(&engine, 10, "c");
    until("the clip waits", || ears(&engine).lanes[0].pending == 1);
    stage.pass_one();
    stage.await_arrivals(3);
    let shown = ears(&engine);
    let whole = (shown.inflight[0].items, shown.lanes[0].pending, shown.lanes[0].put_aside);
    assert_eq!(whole, (1, 1, 0), "nobody gets in between its windows any more");
    stage.open();
    assert_eq!(transcript(recording).await.expect("served"), ["r 0", "r 1", "r 2"]);
    transcript(clip).await.expect("served");
    until("counts are level", || ears(&engine).lanes.iter().all(|l| (l.running, l.pending, l.held) == (0, 0, 0)));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_name() {
    let (engine, stage, [runs, waits]) = one_runs_one_waits();
    let move_to = |lane| Touch { lane: Some(lane), ..Touch::default() };
    let refused = engine.touch(runs.id, HOLD, false).expect_err("it runs");
    assert!(refused.message.contains("runs") && refused.param.as_deref() == Some("held"), "{refused}");
    assert!(engine.touch(runs.id, move_to(Lane::Recordings), false).is_err());
    engine.touch(runs.id, move_to(Lane::Clips), false).expect("it is there");
    assert_eq!(engine.touch(RequestId(99), HOLD, false).expect_err("nobody").kind, ErrorKind::NotFound);
    engine.touch(waits.id, move_to(Lane::Recordings), false).expect("it waits");
    stage.open();
    transcript(waits).await.expect("served alone");
    transcript(runs).await.expect("served");
}

#[tokio::test]
async fn a_held_request_can_be_cancelled_expires_and_is_answered_by_a_drain() {
    let (engine, stage, [runs, cancelled]) = one_runs_one_waits();
    let late = engine.transcribe("ears", speech(10, "late"), Caller { deadline_s: Some(2.0), ..Caller::default() });
    let late = late.expect("admitted");
    // First of all: a machine that pauses must not let it expire before it is held.
    engine.touch(late.id, HOLD, false).expect("it waits");
    let drained = transcribe(&engine, 10, "drained");
    for ticket in [&cancelled, &drained] {
        engine.touch(ticket.id, HOLD, false).expect("it waits");
    }
    assert_eq!(transcript(late).await.expect_err("its deadline passes").kind, ErrorKind::DeadlinePassed);
    assert!(engine.cancel(cancelled.id));
    assert_eq!(transcript(cancelled).await.expect_err("cancelled").kind, ErrorKind::Cancelled);
    let drain = tokio::spawn({
        let engine = engine.clone();
        async move { engine.drain().await }
    });
    assert_eq!(transcript(drained).await.expect_err("it had not begun").kind, ErrorKind::Draining);
    stage.open();
    transcript(runs).await.expect("served");
    drain.await.expect("it ends");
}

#[tokio::test]
async fn a_drain_lets_a_held_recording_that_has_begun_go_to_its_end() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let recording = transcribe(&engine, 3 * WINDOW_S, "r");
    stage.await_arrivals(1);
    engine.touch(recording.id, HOLD, false).expect("from the next slice on");
    stage.pass_one();
    until("it is held", || ears(&engine).lanes[1].held == 1);
    stage.open();
    engine.drain().await;
    assert_eq!(transcript(recording).await.expect("served").len(), 3);
}

#[tokio::test]
async fn a_look_changes_nothing_and_says_what_would_be() {
    let (engine, stage, [runs, waits]) = one_runs_one_waits();
    let to_recordings = Touch { lane: Some(Lane::Recordings), ..HOLD };
    let change = engine.touch(waits.id, to_recordings, true).expect("it could be");
    assert_eq!((change.from.to_string(), change.to.to_string()), ("clips".into(), "recordings, held".into()));
    assert_eq!((ears(&engine).lanes[0].pending, ears(&engine).lanes[0].held), (1, 0));
    assert!(engine.touch(runs.id, HOLD, true).is_err(), "refused as if it were meant");
    assert!(engine.touch(RequestId(99), Touch::CANCEL, true).is_err());
    assert!(engine.touch(runs.id, Touch::CANCEL, true).expect("it could be").to.cancelled);
    stage.open();
    transcript(runs).await.expect("nobody cancelled it");
    transcript(waits).await.expect("nor this one");
}
