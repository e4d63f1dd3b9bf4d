//! What the snapshot and the metrics show.

use super::*;
use crate::control::snapshot::RequestState;
use crate::control::{Lane, Snapshot};

#[tokio::test]
async fn the_snapshot_shows_what_runs_waits_and_has_ended() {
    let (engine, stage) = engine(|profile| profile.models[0].slice_windows = None);
    let done = transcribe(&engine, 2, "done");
    let done_id = done.id;
    transcript(done).await.expect("served");
    stage.close();
    let caller = Caller { client: "alice".to_string(), deadline_s: None };
    let recording = engine.transcribe("ears", speech(90, "r"), caller).expect("admitted");
    stage.await_arrivals(2);
    let clips = [transcribe(&engine, 20, "b"), transcribe(&engine, 10, "c")];
    let second = transcribe(&engine, 40, "s");
    until("all wait", || {
        let q = queue(&engine, "ears", Op::Transcribe);
        q.lanes[0].pending == 2 && q.lanes[1].pending == 1
    });
    let snapshot = engine.snapshot();
    assert_eq!((snapshot.node.as_str(), snapshot.requests.total), ("test", 4));
    assert_eq!(snapshot.devices[0].holder.as_deref(), Some("ears"));
    let q = queue(&engine, "ears", Op::Transcribe);
    assert_eq!((q.lanes[0].cost, q.lanes[1].cost, q.lanes[1].running), (30_000, 40_000, 1));
    assert_eq!((q.inflight.len(), q.inflight[0].lane, q.inflight[0].cost), (1, Lane::Recordings, 90_000));
    let next = q.next.expect("clips are next");
    assert_eq!((next.lane, next.items, next.cost), (Lane::Clips, 2, 30_000));
    assert_eq!(q.caps.max_batch_cost_source, "command_line");
    assert_eq!((q.caps.depth, q.caps.max_batch_cost_hard), (1, Some(720_000)));
    assert_eq!(q.recent.len(), 1);
    assert_eq!((q.recent[0].items, q.recent[0].outcome), (1, Outcome::Served));
    assert_eq!(q.latency.window, 1);

    let running = request(&engine, recording.id);
    assert_eq!((running.state, running.client.as_str()), (RequestState::Running, "alice"));
    assert!(running.wait.is_none() && running.position.is_none() && running.running_ms.is_some());
    let seen = |ticket: &Ticket<TranscriptEvent>| request(&engine, ticket.id);
    let place = |r: Request| (r.position.expect("it waits"), r.wait.expect("it waits").code.name());
    assert_eq!(place(seen(&clips[1])), (1, "slot_busy"), "the cheaper clip goes first");
    assert_eq!(place(seen(&clips[0])), (2, "slot_busy"));
    assert_eq!(place(seen(&second)), (1, "turn_of_other_lane"));
    let ended = request(&engine, done_id);
    assert_eq!((ended.state, ended.outcome), (RequestState::Done, Some(Outcome::Served)));
    assert!(ended.ended_ago_ms.is_some() && ended.position.is_none());

    stage.pass_one();
    stage.await_arrivals(3);
    until("its first window is seen", || request(&engine, recording.id).state == RequestState::Streaming);
    until("a third of it is done", || {
        request(&engine, recording.id).done_ratio.is_some_and(|ratio| (ratio - 1.0 / 3.0).abs() < 1e-9)
    });
    stage.open();
    for ticket in clips.into_iter().chain([recording, second]) {
        transcript(ticket).await.expect("served");
    }
    until("the lanes are empty", || engine.snapshot().requests.total == 0);
    assert_eq!(stage.steps(), vec![1, 1, 1, 1, 2, 1, 1], "a turn of two clips between the two recordings");
}

#[tokio::test]
async fn sequence_numbers_rise_and_the_snapshot_survives_json() {
    let (engine, _stage) = engine(|_| {});
    engine.loaded().await;
    let first = engine.snapshot();
    until("another one is taken", || engine.snapshot().seq > first.seq);
    let json = serde_json::to_string(&*first).expect("plain data");
    let back: Snapshot = serde_json::from_str(&json).expect("its own JSON");
    assert_eq!(back, *first);
}

#[tokio::test]
async fn another_model_on_the_device_is_a_reason_to_wait() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let speech = transcribe(&engine, 10, "a");
    stage.await_arrivals(1);
    let embed = || {
        let job = EmbedJob { sequences: vec![vec![1, 2, 3]] };
        engine.embed("vectors", job, Caller::default()).expect("admitted")
    };
    let (first, second) = (embed(), embed());
    until("the second waits for the device", || {
        let wait = request(&engine, second.id).wait.map(|w| w.code.name());
        let also = request(&engine, first.id).wait.map(|w| w.code.name());
        wait.or(also) == Some("device_busy") || request(&engine, second.id).state == RequestState::Running
    });
    stage.open();
    last(first).await.expect("served");
    last(second).await.expect("served");
    transcript(speech).await.expect("served");
}

#[tokio::test]
async fn metrics_have_units_labels_and_counts() {
    let (engine, _stage) = engine(|_| {});
    transcript(transcribe(&engine, 2, "a")).await.expect("served");
    last(engine.embed("vectors", EmbedJob { sequences: vec![vec![1; 9]] }, Caller::default()).expect("admitted"))
        .await
        .expect("served");
    until("batches are counted", || {
        queue(&engine, "vectors", Op::Embed).counters.batches == 1
            && queue(&engine, "ears", Op::Transcribe).counters.batches == 1
    });
    let text = engine.metrics();
    for line in [
        "lanekeeper_requests_total{model=\"ears\",op=\"transcribe\",lane=\"clips\",outcome=\"served\"} 1",
        "lanekeeper_requests_pending{model=\"ears\",op=\"transcribe\",lane=\"recordings\"} 0",
        "lanekeeper_queue_seconds_count{model=\"vectors\",op=\"embed\",lane=\"clips\"} 1",
        "lanekeeper_run_seconds_count{model=\"vectors\",op=\"embed\",lane=\"clips\"} 1",
        "lanekeeper_batch_cost_sum{model=\"vectors\",op=\"embed\"} 9.0",
        "lanekeeper_model_ready{model=\"vectors\"} 1",
        "lanekeeper_process_resident_memory_bytes ",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("lanekeeper_batches_total{model=\"ears\",op=\"transcribe\",reason=\"timeout\"} 1"), "{text}");
}
