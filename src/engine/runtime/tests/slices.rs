//! Recordings in slices: other work runs between them, and nothing of a recording is lost while it is put aside.

use super::fakes::WINDOW_S;
use super::*;
use crate::control::snapshot::RequestState;
use crate::control::{Lane, WaitCode};
use crate::engine::scheduler::Micros;

/// A recording whose first window stands at the stage.
fn on_stage(change: impl FnOnce(&mut ModelProfile)) -> (Engine, Arc<Stage>, Ticket<TranscriptEvent>) {
    let (engine, stage) = engine(|profile| change(&mut profile.models[0]));
    stage.close();
    let recording = transcribe(&engine, 3 * WINDOW_S, "r");
    stage.await_arrivals(1);
    (engine, stage, recording)
}

/// A clip on the stage, with the recording put aside behind it.
fn put_aside() -> (Engine, Arc<Stage>, Ticket<TranscriptEvent>, Ticket<TranscriptEvent>) {
    let (engine, stage, recording) = on_stage(|_| {});
    let clip = transcribe(&engine, 10, "c");
    until("the clip waits", || ears(&engine).lanes[0].pending == 1);
    stage.pass_one();
    stage.await_arrivals(2);
    until("the recording is shown as put aside", || ears(&engine).lanes[1].put_aside == 1);
    (engine, stage, recording, clip)
}

fn ears(engine: &Engine) -> Queue {
    queue(engine, "ears", Op::Transcribe)
}

#[tokio::test]
async fn a_clip_runs_between_two_windows_of_a_recording() {
    let (engine, stage, recording, clip) = put_aside();
    let q = ears(&engine);
    assert_eq!((q.inflight[0].lane, q.lanes[1].pending, q.lanes[1].running), (Lane::Clips, 0, 1));
    assert_eq!(q.lanes[1].cost, 60_000, "two windows are left of it");
    let turn = q.turn.expect("a recording is about");
    assert_eq!(q.slice_windows, Some(1));
    assert_eq!((turn.number, turn.owed_total), (1, 0));
    assert!(q.recent.last().is_some_and(|batch| batch.put_aside && batch.lane == Lane::Recordings));
    let seen = request(&engine, recording.id);
    assert_eq!((seen.state, seen.position), (RequestState::Streaming, Some(1)));
    let wait = seen.wait.expect("it waits for its next slice");
    assert!(matches!(wait.code, WaitCode::SlotBusy | WaitCode::TurnOfOtherLane), "{wait:?}");
    assert!(wait.on.is_some_and(|on| on.contains("clips")), "says what runs");
    stage.open();
    assert_eq!(transcript(clip).await.expect("served"), ["c 0"]);
    assert_eq!(transcript(recording).await.expect("served"), ["r 0", "r 1", "r 2"], "as if it had run whole");
    until("nothing is left", || ears(&engine).lanes[1].put_aside == 0 && engine.snapshot().requests.total == 0);
}

#[tokio::test]
async fn a_whole_recording_lets_nobody_in() {
    let (engine, stage, recording) = on_stage(|profile| profile.slice_windows = None);
    let clip = transcribe(&engine, 10, "c");
    until("the clip waits", || ears(&engine).lanes[0].pending == 1);
    for window in 2..=3 {
        stage.pass_one();
        stage.await_arrivals(window);
        assert_eq!(ears(&engine).inflight[0].lane, Lane::Recordings);
    }
    let wait = request(&engine, clip.id).wait.expect("it waits");
    assert!(wait.on.is_some_and(|on| on.contains("whole recording")));
    assert_eq!(ears(&engine).slice_windows, None);
    stage.open();
    assert_eq!(transcript(recording).await.expect("served").len(), 3);
    transcript(clip).await.expect("served");
    until("both batches are counted", || ears(&engine).counters.batches == 2);
}

#[tokio::test]
async fn a_slice_may_have_several_windows() {
    let (engine, stage, recording) = on_stage(|profile| profile.slice_windows = Some(2));
    let clip = transcribe(&engine, 10, "c");
    until("the clip waits", || ears(&engine).lanes[0].pending == 1);
    stage.pass_one();
    stage.await_arrivals(2);
    assert_eq!(ears(&engine).inflight[0].lane, Lane::Recordings);
    stage.pass_one();
    stage.await_arrivals(3);
    until("the clip runs", || ears(&engine).inflight.first().is_some_and(|batch| batch.lane == Lane::Clips));
    stage.open();
    transcript(clip).await.expect("served");
    assert_eq!(transcript(recording).await.expect("served"), ["r 0", "r 1", "r 2"]);
    until("all batches are recorded", || engine.arrivals(Micros::from_secs(600), None).1.batches.len() == 3);
    let (_, recorded) = engine.arrivals(Micros::from_secs(600), None);
    let windows: Vec<_> = recorded.batches.iter().map(|batch| batch.windows).collect();
    assert_eq!(windows, [Some(2), Some(1), Some(1)]);
    let heard: Vec<_> = recorded.arrivals.iter().map(|a| (a.lane, a.windows)).collect();
    assert_eq!(heard, [(Lane::Recordings, Some(3)), (Lane::Clips, Some(1))]);
    for arrival in recorded.arrivals {
        assert!(arrival.model_ms.is_some_and(|ms| ms <= arrival.run_ms.unwrap_or(0.0) + 0.001), "{arrival:?}");
    }
}

#[tokio::test]
async fn recordings_keep_their_order_although_they_are_put_aside() {
    let (engine, stage, first) = on_stage(|_| {});
    let second = transcribe(&engine, 2 * WINDOW_S, "s");
    let clip = transcribe(&engine, 10, "c");
    until("both wait", || ears(&engine).lanes[0].pending == 1 && ears(&engine).lanes[1].pending == 1);
    for arrived in 2..=4 {
        stage.pass_one();
        stage.await_arrivals(arrived);
    }
    assert_eq!(request(&engine, second.id).state, RequestState::Queued, "the first one goes on before it begins");
    stage.open();
    transcript(clip).await.expect("served");
    assert_eq!(transcript(first).await.expect("served").len(), 3);
    assert_eq!(transcript(second).await.expect("served"), ["s 0", "s 1"]);
}

#[tokio::test]
async fn a_recording_that_was_put_aside_is_cancelled_at_once() {
    let (engine, stage, recording, clip) = put_aside();
    let id = recording.id;
    assert!(engine.cancel(id));
    // The clip still stands at the stage: nothing has moved.
    until("it has ended", || request(&engine, id).outcome == Some(Outcome::Cancelled));
    let q = ears(&engine);
    assert_eq!((q.lanes[1].cancelled, q.lanes[1].running, q.inflight.len()), (1, 0, 1));
    until("it has left the lane", || ears(&engine).lanes[1].put_aside == 0 && ears(&engine).lanes[1].cost == 0);
    stage.open();
    transcript(clip).await.expect("served");
    assert_eq!(stage.steps().len(), 2, "no further window of it was computed");
}

#[tokio::test]
async fn a_client_that_leaves_during_a_slice_ends_it_there() {
    let (engine, stage, recording) = on_stage(|_| {});
    drop(recording);
    stage.open();
    until("it is counted", || ears(&engine).lanes[1].cancelled == 1);
    until("the engine is idle", || engine.snapshot().requests.total == 0);
    assert_eq!(stage.steps().len(), 1);
}

#[tokio::test]
async fn a_deadline_counts_while_it_is_put_aside_too() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let caller = Caller { deadline_s: Some(1.5), ..Caller::default() };
    let recording = engine.transcribe("ears", speech(3 * WINDOW_S, "r"), caller).expect("admitted");
    let id = recording.id;
    stage.await_arrivals(1);
    let clip = transcribe(&engine, 10, "c");
    until("the clip waits", || ears(&engine).lanes[0].pending == 1);
    assert!(request(&engine, id).deadline_ms.is_some());
    stage.pass_one();
    stage.await_arrivals(2);
    // The clip stands at the stage, and the deadline comes all the same.
    until("its deadline has passed", || request(&engine, id).outcome == Some(Outcome::Expired));
    assert!(request(&engine, id).deadline_ms.is_none());
    stage.open();
    assert_eq!(ended(recording).await.expect_err("too late").kind, ErrorKind::DeadlinePassed);
    transcript(clip).await.expect("served");
    until("it is counted", || ears(&engine).lanes[1].expired == 1);
    assert_eq!(stage.steps().len(), 2, "no window of it was computed after its deadline");
}

/// The end, segments passed over.
async fn ended(mut ticket: Ticket<TranscriptEvent>) -> Result<(), Fault> {
    loop {
        match ticket.next().await.expect("a stream ends with an end") {
            Ok(TranscriptEvent::Segment(_)) => {}
            Ok(TranscriptEvent::Done { .. }) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
}

#[tokio::test]
async fn a_drain_lets_a_recording_that_has_started_end() {
    let (engine, stage, recording, clip) = put_aside();
    let queued = [transcribe(&engine, 10, "late"), transcribe(&engine, 2 * WINDOW_S, "later")];
    until("they wait", || ears(&engine).lanes[0].pending == 1 && ears(&engine).lanes[1].pending == 1);
    let drain = tokio::spawn({
        let engine = engine.clone();
        async move { engine.drain().await }
    });
    for ticket in queued {
        assert_eq!(last(ticket).await.expect_err("answered at once").kind, ErrorKind::Draining);
    }
    let wait = request(&engine, recording.id).wait.expect("it is put aside");
    assert_ne!(wait.code, WaitCode::Draining, "running work is not drained away");
    assert!(!drain.is_finished());
    stage.open();
    transcript(clip).await.expect("it ran");
    assert_eq!(transcript(recording).await.expect("it had started"), ["r 0", "r 1", "r 2"]);
    drain.await.expect("resolves when idle");
}

#[tokio::test]
async fn a_panic_in_a_later_slice_fails_that_recording_alone() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let first = transcribe(&engine, 3 * WINDOW_S, "panics later");
    stage.await_arrivals(1);
    let (second, clip) = (transcribe(&engine, 2 * WINDOW_S, "s"), transcribe(&engine, 10, "c"));
    until("both wait", || ears(&engine).lanes[0].pending == 1 && ears(&engine).lanes[1].pending == 1);
    stage.open();
    assert_eq!(ended(first).await.expect_err("it panicked").kind, ErrorKind::Internal);
    assert_eq!(transcript(second).await.expect("served"), ["s 0", "s 1"]);
    transcript(clip).await.expect("served");
}

#[tokio::test]
async fn a_recording_in_a_slice_ends_with_the_engine() {
    let (engine, stage, recording) = on_stage(|_| {});
    drop(engine);
    stage.open();
    assert_eq!(ended(recording).await.expect_err("stopped").kind, ErrorKind::Draining);
}
