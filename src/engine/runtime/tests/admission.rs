//! What is let in, and what is told to the others.

use super::*;
use crate::control::snapshot::{EngineState, ModelState};

#[tokio::test]
async fn a_full_queue_refuses_with_a_time_to_come_back() {
    let (engine, stage) = engine(|profile| profile.models[0].max_queue = 2);
    stage.close();
    let running = transcribe(&engine, 10, "a");
    stage.await_arrivals(1);
    let waiting = [transcribe(&engine, 10, "b"), transcribe(&engine, 10, "c")];
    let fault = engine.transcribe("ears", speech(10, "d"), Caller::default()).err().expect("refused");
    assert_eq!(fault.kind, ErrorKind::QueueFull);
    assert!(fault.retry_after_s.is_some_and(|s| (1..=60).contains(&s)));
    let reasons = engine.readiness().expect_err("full");
    assert!(reasons[0].contains("queue of model `ears` is full"), "{reasons:?}");
    let [b, c] = waiting;
    drop(b);
    until("a place is free", || engine.readiness().is_ok());
    let again = transcribe(&engine, 10, "e");
    stage.open();
    for ticket in [running, c, again] {
        transcript(ticket).await.expect("served");
    }
    let counters = queue(&engine, "ears", Op::Transcribe).counters;
    assert_eq!((counters.submitted, counters.refused, counters.served, counters.cancelled), (4, 1, 3, 1));
    assert!(engine.metrics().contains("reason=\"queue_full\"} 1"));
}

#[tokio::test]
async fn requests_wait_for_a_model_that_loads() {
    let (engine, stage) = engine_on(Stage::closed(), |profile| profile.models[0].description = "waiting".to_string());
    let ticket = transcribe(&engine, 10, "early");
    until("it waits", || queue(&engine, "ears", Op::Transcribe).lanes[0].pending == 1);
    let wait = request(&engine, ticket.id).wait.expect("it waits");
    assert_eq!(wait.code.name(), "model_loading");
    assert_eq!(engine.snapshot().state, EngineState::Starting);
    until("it is shown how far loading is", || {
        engine.snapshot().models[0].state == ModelState::Loading { done_ratio: 0.25 }
    });
    assert_eq!(engine.models()[0].front().err().expect("loading").kind, ErrorKind::NotReady);
    assert!(engine.readiness().is_err());
    stage.open();
    assert_eq!(transcript(ticket).await.expect("served"), vec!["early 0"]);
    engine.loaded().await;
    until("a fresh snapshot says so", || engine.snapshot().state == EngineState::Ready);
    assert!(engine.readiness().is_ok() && engine.progress().is_ok());
    assert!(engine.models()[0].front().is_ok());
}

#[tokio::test]
async fn a_model_that_fails_to_load_says_why_and_the_others_serve() {
    let (engine, stage) = engine_on(Stage::closed(), |profile| {
        profile.models[0].description = "waiting".to_string();
        profile.models[1].description = "broken".to_string();
    });
    let job = || EmbedJob { sequences: vec![vec![1]] };
    // Admitted while it loads or refused right away: the answer is the same.
    let fault = match engine.embed("vectors", job(), Caller::default()) {
        Ok(ticket) => last(ticket).await.expect_err("it cannot be served"),
        Err(fault) => fault,
    };
    assert_eq!(fault.kind, ErrorKind::NotReady);
    assert!(fault.message.contains("tensor `a` is cut short"), "{}", fault.message);
    stage.open();
    engine.loaded().await;
    assert_eq!(engine.embed("vectors", job(), Caller::default()).err().expect("refused").kind, ErrorKind::NotReady);
    transcript(transcribe(&engine, 1, "a")).await.expect("the other model serves");
    until("a fresh snapshot says so", || engine.snapshot().state == EngineState::Degraded);
    let snapshot = engine.snapshot();
    assert!(snapshot.reasons[0].contains("cut short"), "{:?}", snapshot.reasons);
}

#[tokio::test]
async fn unknown_models_and_operations_name_what_there_is() {
    let (engine, _stage) = engine(|_| {});
    let fault = engine.model_for("eyes", Op::Transcribe).err().expect("unknown");
    assert_eq!(fault.kind, ErrorKind::NotFound);
    assert!(fault.message.contains("`ears`, `vectors`"), "{}", fault.message);
    let fault = engine.model_for("ears", Op::Embed).err().expect("unable");
    assert_eq!(fault.kind, ErrorKind::InvalidRequest);
    assert!(fault.message.contains("these do: `vectors`"), "{}", fault.message);
    assert!(!engine.cancel(RequestId(99)));
}
