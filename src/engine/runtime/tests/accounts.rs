//! What is counted of batches and slices, and where it is shown.

use super::fakes::WINDOW_S;
use super::*;
use crate::control::Lane;
use crate::engine::scheduler::Micros;

fn ears(engine: &Engine) -> Queue {
    queue(engine, "ears", Op::Transcribe)
}

#[tokio::test]
async fn engine_time_and_the_measure_of_batches_are_their_lanes_own() {
    let (engine, _stage) = engine(|_| {});
    transcript(transcribe(&engine, 3 * WINDOW_S, "r")).await.expect("served");
    until("its slices are measured", || ears(&engine).lanes[1].service.is_some_and(|service| service.window == 3));
    assert!(ears(&engine).recent.iter().all(|batch| batch.outcome == Outcome::Served), "put aside is not given up");
    let [clips, recordings] = &ears(&engine).lanes[..] else { panic!("speech has two lanes") };
    assert_eq!((clips.engine_ms, clips.service), (0.0, None));
    assert!(recordings.engine_ms > 0.0, "what its slices took");
    let (_, recorded) = engine.arrivals(Micros::from_secs(3_600), None);
    let batches: Vec<_> = recorded.batches.iter().map(|batch| (batch.lane, batch.items, batch.cost)).collect();
    assert_eq!(batches, [(Lane::Recordings, 1, 30_000); 3], "each slice at its own cost");
}

#[tokio::test]
async fn a_turn_counts_all_its_batches() {
    let (engine, stage) = engine(|profile| profile.models[0].max_batch_requests = Some(1));
    stage.close();
    let recording = transcribe(&engine, 3 * WINDOW_S, "r");
    stage.await_arrivals(1);
    let clips = [transcribe(&engine, 10, "a"), transcribe(&engine, 12, "b")];
    until("both wait", || ears(&engine).lanes[0].pending == 2);
    for (arrived, served) in [(2, 10_000), (3, 22_000)] {
        stage.pass_one();
        stage.await_arrivals(arrived);
        until("the turn is shown", || ears(&engine).turn.is_some_and(|turn| turn.served_cost == served));
    }
    stage.open();
    for ticket in clips.into_iter().chain([recording]) {
        transcript(ticket).await.expect("served");
    }
}

#[tokio::test]
async fn every_window_has_its_own_tries() {
    let (engine, _stage) = engine(|profile| profile.models[0].max_attempts = 1);
    let heard = transcript(transcribe(&engine, 4 * WINDOW_S, "r")).await.expect("no window was tried twice");
    assert_eq!(heard.len(), 4);
}

#[tokio::test]
async fn a_batch_whose_deadline_passed_while_it_ran_is_shown_as_expired() {
    let (engine, stage) = engine(|profile| profile.models[0].slice_windows = None);
    stage.close();
    let caller = Caller { deadline_s: Some(1.5), ..Caller::default() };
    let recording = engine.transcribe("ears", speech(2 * WINDOW_S, "r"), caller).expect("admitted");
    stage.await_arrivals(1);
    until("its deadline has passed", || request(&engine, recording.id).deadline_ms.is_some_and(|ms| ms <= 0.0));
    stage.open();
    until("its batch is over", || ears(&engine).recent.last().is_some_and(|b| b.outcome == Outcome::Expired));
    until("it is counted", || ears(&engine).lanes[1].expired == 1);
    assert_eq!(stage.steps().len(), 1, "it stopped after its window");
}

#[tokio::test]
async fn waiting_for_the_device_is_no_time_of_a_batch() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let holds = engine.embed("vectors", EmbedJob { sequences: vec![vec![1]] }, Caller::default()).expect("admitted");
    stage.await_arrivals(1);
    let waits = transcribe(&engine, 10, "a");
    until("it waits for the device", || ears(&engine).inflight.first().is_some_and(|b| b.running_ms >= 1_000.0));
    stage.open();
    last(holds).await.expect("served");
    transcript(waits).await.expect("served");
    until("it is counted", || !ears(&engine).recent.is_empty());
    let batch = ears(&engine).recent[0].clone();
    assert!(batch.run_ms < 1_000.0, "{batch:?}");
}

#[tokio::test]
async fn the_least_that_did_not_fit_is_what_lowers_the_cap() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let blocker = transcribe(&engine, 1, "first");
    stage.await_arrivals(1);
    // Cheapest first: two of 10 s, found to fit one by one, and then two of 29 s.
    let asked = [(10, "large"), (10, "large"), (29, "a"), (29, "large")];
    let tickets: Vec<_> = asked.iter().map(|(seconds, script)| transcribe(&engine, *seconds, script)).collect();
    until("all wait", || ears(&engine).lanes[0].pending == 4);
    stage.open();
    for ticket in tickets.into_iter().chain([blocker]) {
        transcript(ticket).await.expect("served, one by one");
    }
    until("the cap is lowered", || ears(&engine).caps.max_batch_cost_source == "memory");
    assert_eq!(ears(&engine).caps.max_batch_cost, 10_000);
}
