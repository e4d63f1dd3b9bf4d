//! Requests that leave before their end: cancelled, expired, stalled, drained.

use super::*;
use crate::control::Lane;
use crate::engine::scheduler::Micros;

#[tokio::test]
async fn a_dropped_ticket_leaves_the_queue_at_once_uncomputed() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let first = transcribe(&engine, 10, "a");
    stage.await_arrivals(1);
    let waiting = transcribe(&engine, 10, "b");
    let id = waiting.id;
    until("it waits", || queue(&engine, "ears", Op::Transcribe).lanes[0].pending == 1);
    drop(waiting);
    // The model still stands in its first window.
    until("it has left", || queue(&engine, "ears", Op::Transcribe).lanes[0].pending == 0);
    assert_eq!(request(&engine, id).outcome, Some(Outcome::Cancelled));
    until("it is counted", || queue(&engine, "ears", Op::Transcribe).lanes[0].cancelled == 1);
    stage.open();
    assert_eq!(transcript(first).await.expect("served"), vec!["a 0"]);
    assert_eq!(stage.steps(), vec![1], "the cancelled one was never computed");
}

#[tokio::test]
async fn a_recording_stops_at_the_next_window() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let mut ticket = transcribe(&engine, 600, "long");
    stage.await_arrivals(1);
    stage.pass_one();
    assert!(matches!(ticket.next().await, Some(Ok(TranscriptEvent::Segment(_)))));
    stage.await_arrivals(2);
    let id = ticket.id;
    assert!(engine.cancel(id));
    assert!(!engine.cancel(id), "once");
    stage.open();
    // The window that was running may still send its segment.
    let fault = loop {
        match ticket.next().await.expect("a fault ends it") {
            Ok(TranscriptEvent::Segment(_)) => {}
            Ok(TranscriptEvent::Done { .. }) => panic!("it was cancelled"),
            Err(fault) => break fault,
        }
    };
    assert_eq!(fault.kind, ErrorKind::Cancelled);
    assert_eq!(stage.steps().len(), 2, "of twenty windows");
    assert_eq!(request(&engine, id).outcome, Some(Outcome::Cancelled));
    assert!(!engine.cancel(id), "it has ended");
    until("the slot is free", || queue(&engine, "ears", Op::Transcribe).inflight.is_empty());
}

#[tokio::test]
async fn a_batch_drops_a_cancelled_member_between_windows() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let blocker = transcribe(&engine, 1, "x");
    stage.await_arrivals(1);
    // Two windows each, in one batch: clips for the lane, long for the fake.
    let a = transcribe(&engine, 30, "a");
    let b = transcribe(&engine, 30, "b");
    until("both wait", || queue(&engine, "ears", Op::Transcribe).lanes[0].pending == 2);
    stage.pass_one();
    stage.await_arrivals(2);
    drop(b);
    stage.open();
    assert_eq!(transcript(a).await.expect("served"), vec!["a 0"]);
    assert_eq!(transcript(blocker).await.expect("served"), vec!["x 0"]);
    until("both ended", || {
        let lane = &queue(&engine, "ears", Op::Transcribe).lanes[0];
        lane.served == 2 && lane.cancelled + lane.served == 3
    });
}

#[tokio::test]
async fn a_deadline_in_the_queue_is_answered_on_time_and_uncomputed() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let running = transcribe(&engine, 10, "a");
    stage.await_arrivals(1);
    let caller = Caller { client: "tests".to_string(), deadline_s: Some(0.05) };
    let ticket = engine.transcribe("ears", speech(10, "b"), caller).expect("admitted");
    let id = ticket.id;
    // The model has not moved: the dispatcher answers.
    let fault = last(ticket).await.expect_err("the deadline passes");
    assert_eq!(fault.kind, ErrorKind::DeadlinePassed);
    assert!(fault.message.contains("before it started"), "{}", fault.message);
    stage.open();
    transcript(running).await.expect("served");
    assert_eq!(stage.steps(), vec![1]);
    let seen = request(&engine, id);
    assert_eq!((seen.outcome, seen.client.as_str()), (Some(Outcome::Expired), "tests"));
    until("it is counted", || queue(&engine, "ears", Op::Transcribe).counters.expired == 1);
}

#[test]
fn a_deadline_is_looked_at_between_two_windows_too() {
    let shared = Arc::new(Shared::new(box_profile(Vec::new()).limits));
    let stats = Arc::new(stats::OpStats::new(Op::Transcribe));
    assert!(stats.admit(1));
    let (sink, mut events) = events::<TranscriptEvent>(4);
    let request = registry::NewRequest {
        model: Arc::from("ears"),
        op: Op::Transcribe,
        lane: Lane::Clips,
        client: String::new(),
        cost: 5,
    };
    let mut live = Live::open(&shared, &stats, request, Some(Micros(500)), sink, Micros(100));
    live.start(Micros(200));
    assert_eq!(live.wanted(Micros(499)), Ok(()));
    let fault = live.wanted(Micros(500)).expect_err("the deadline has come");
    assert_eq!(fault.kind, ErrorKind::DeadlinePassed);
    assert!(fault.message.contains("while it ran"), "{}", fault.message);
    live.fail(fault, Micros(500));
    assert!(matches!(events.try_recv(), Ok(Err(_))));
    assert_eq!((stats.counters().expired, stats.waiting()), (1, 0));
}

#[test]
fn a_request_that_is_lost_by_a_panic_still_ends() {
    let shared = Arc::new(Shared::new(box_profile(Vec::new()).limits));
    let stats = Arc::new(stats::OpStats::new(Op::Embed));
    assert!(stats.admit(1));
    let (sink, mut events) = events::<Embedded>(0);
    let request = registry::NewRequest {
        model: Arc::from("vectors"),
        op: Op::Embed,
        lane: Lane::Clips,
        client: String::new(),
        cost: 5,
    };
    drop(Live::open(&shared, &stats, request, None, sink, Micros::ZERO));
    let fault = events.try_recv().expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::Internal);
    assert_eq!((stats.counters().failed, stats.waiting(), *shared.registry.live().borrow()), (1, 0, 0));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_given_up() {
    let (engine, stage) = engine(|profile| profile.limits.stall_s = 0.0);
    let mut ticket = transcribe(&engine, 600, "long");
    until("it is given up", || queue(&engine, "ears", Op::Transcribe).lanes[1].cancelled == 1);
    assert!(stage.steps().len() < 20, "the recording was not computed to its end");
    let mut end = None;
    while let Some(event) = ticket.next().await {
        end = Some(event);
    }
    let fault = end.expect("it ends").expect_err("with a fault");
    assert!(fault.message.contains("took nothing"), "{}", fault.message);
}

#[tokio::test]
async fn draining_ends_what_runs_and_answers_what_waits() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let running = transcribe(&engine, 60, "a");
    stage.await_arrivals(1);
    let waiting = [transcribe(&engine, 10, "b"), transcribe(&engine, 60, "c")];
    let drain = tokio::spawn({
        let engine = engine.clone();
        async move { engine.drain().await }
    });
    for ticket in waiting {
        assert_eq!(last(ticket).await.expect_err("answered at once").kind, ErrorKind::Draining);
    }
    let refused = engine.transcribe("ears", speech(1, "d"), Caller::default()).err().expect("refused");
    assert_eq!(refused.kind, ErrorKind::Draining);
    assert!(refused.retry_after_s.is_some());
    assert!(engine.readiness().is_err());
    assert!(!drain.is_finished());
    stage.open();
    assert_eq!(transcript(running).await.expect("running work ends normally"), vec!["a 0", "a 1"]);
    drain.await.expect("resolves when idle");
    assert_eq!(engine.snapshot().requests.total, 0);
    assert_eq!(engine.snapshot().state.name(), "draining");
}

#[tokio::test]
async fn a_drain_gives_up_at_its_limit() {
    let (engine, stage) = engine(|profile| profile.limits.drain_s = 0.02);
    stage.close();
    let running = transcribe(&engine, 10, "a");
    stage.await_arrivals(1);
    engine.drain().await;
    assert_eq!(engine.snapshot().requests.total, 1);
    stage.open();
    transcript(running).await.expect("served all the same");
}

#[tokio::test]
async fn the_last_engine_that_goes_ends_what_runs() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let running = transcribe(&engine, 600, "a");
    stage.await_arrivals(1);
    let waiting = transcribe(&engine, 10, "b");
    drop(engine);
    assert_eq!(last(waiting).await.expect_err("ended").kind, ErrorKind::Draining);
    stage.open();
    let fault = transcript(running).await.expect_err("it was stopped");
    assert_eq!(fault.kind, ErrorKind::Draining);
    assert!(stage.steps().len() <= 2);
}
