//! One request at fault fails alone.

use super::fakes::{BAD, LARGE, PANIC};
use super::*;

/// Holds the model in a first batch, so that the scripts that follow share the next one.
async fn together(scripts: &[&str]) -> (Vec<Result<Vec<String>, Fault>>, Vec<usize>, Engine) {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let blocker = transcribe(&engine, 1, "first");
    stage.await_arrivals(1);
    let tickets: Vec<_> = scripts.iter().map(|script| transcribe(&engine, 10, script)).collect();
    until("all wait", || queue(&engine, "ears", Op::Transcribe).lanes[0].pending == scripts.len() as u64);
    stage.open();
    transcript(blocker).await.expect("served");
    let mut results = Vec::new();
    for ticket in tickets {
        results.push(transcript(ticket).await);
    }
    (results, stage.steps(), engine)
}

#[tokio::test]
async fn a_panic_fails_its_request_and_the_others_are_run_again_without_it() {
    let (results, steps, engine) = together(&["a", "panic", "b"]).await;
    assert_eq!(results[0].as_ref().expect("served"), &["a 0"], "once, although its first window was undone");
    assert_eq!(results[2].as_ref().expect("served"), &["b 0"]);
    let fault = results[1].as_ref().expect_err("it panicked");
    assert_eq!(fault.kind, ErrorKind::Internal);
    assert!(!fault.message.contains("script"), "the panic's text stays in the log");
    assert_eq!(steps, vec![1, 3, 1, 1, 1]);
    assert_eq!(transcript(transcribe(&engine, 10, "after")).await.expect("the worker lives"), vec!["after 0"]);
    until("four are counted as served, one as failed", || {
        let counters = queue(&engine, "ears", Op::Transcribe).counters;
        (counters.served, counters.failed) == (4, 1)
    });
    assert!(engine.metrics().contains("lanekeeper_worker_panics_total{model=\"ears\"} 2"), "together and alone");
}

#[tokio::test]
async fn what_a_window_taught_is_forgotten_when_it_is_undone() {
    let (results, steps, _engine) = together(&["memory", "panic", "b"]).await;
    assert_eq!(results[0].as_ref().expect("served"), &["0 at 0 behind 0 in None, false"]);
    assert_eq!(steps, vec![1, 3, 1, 1, 1]);
}

#[tokio::test]
async fn a_bad_item_fails_alone() {
    let (results, steps, _engine) = together(&["a", "bad"]).await;
    assert_eq!(results[0].as_ref().expect("served"), &["a 0"]);
    let fault = results[1].as_ref().expect_err("bad");
    assert_eq!((fault.kind, fault.param.as_deref()), (ErrorKind::InvalidRequest, Some("file")));
    assert_eq!(steps, vec![1, 2]);
}

#[tokio::test]
async fn a_model_that_does_not_move_on_is_stopped() {
    let (results, _, _engine) = together(&["stuck", "a"]).await;
    assert!(results[0].as_ref().expect_err("stuck").message.contains("no progress"));
    assert!(results[1].is_ok());
}

#[tokio::test]
async fn what_does_not_fit_into_memory_is_tried_in_halves() {
    let (results, steps, _engine) = together(&["large", "large", "a", "b"]).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(steps, vec![1, 4, 2, 1, 1, 2]);
}

#[tokio::test]
async fn embeddings_at_fault_fail_alone_and_the_others_keep_their_order() {
    let (engine, stage) = engine(|_| {});
    stage.close();
    let embed = |sequences: Vec<Vec<u32>>| {
        engine.embed("vectors", EmbedJob { sequences }, Caller::default()).expect("admitted")
    };
    let blocker = embed(vec![vec![1]]);
    stage.await_arrivals(1);
    let good = embed(vec![vec![7, 1], vec![8], vec![9, 9, 9]]);
    let bad = embed(vec![vec![4], vec![5, BAD]]);
    let panics = embed(vec![vec![PANIC]]);
    let large = embed(vec![vec![LARGE]; 5]);
    until("all wait", || queue(&engine, "vectors", Op::Embed).lanes[0].pending == 4);
    stage.open();
    assert_eq!(last(blocker).await.expect("served").vectors, vec![vec![1.0, 1.0]]);
    assert_eq!(last(good).await.expect("served").vectors, vec![vec![7.0, 2.0], vec![8.0, 1.0], vec![9.0, 3.0]]);
    let fault = last(bad).await.expect_err("bad");
    assert_eq!((fault.kind, fault.param.as_deref()), (ErrorKind::InvalidRequest, Some("input")));
    assert_eq!(last(panics).await.expect_err("panics").kind, ErrorKind::Internal);
    assert_eq!(last(large).await.expect("served in halves").vectors.len(), 5);
}

#[tokio::test]
async fn reranks_score_in_order_and_a_panic_is_contained() {
    let (engine, _stage) = engine(|_| {});
    let rerank = |query: Vec<u32>, n: u32| {
        let documents = (0..n).map(|i| vec![i; 20]).collect();
        engine.rerank("vectors", RerankJob { query, documents }, Caller::default()).expect("admitted")
    };
    let scores = last(rerank(vec![1, 2], 300)).await.expect("served").scores;
    assert_eq!(scores, (0..300).map(|i| i as f32).collect::<Vec<_>>(), "in chunks, in order");
    assert_eq!(last(rerank(vec![PANIC], 2)).await.expect_err("panics").kind, ErrorKind::Internal);
    assert_eq!(last(rerank(vec![1], 1)).await.expect("the worker lives").scores, vec![0.0]);
}
