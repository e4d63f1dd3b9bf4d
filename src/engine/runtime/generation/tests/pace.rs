//! Prompts beside streams: who waits for whom, counted in passes.

use super::{Bench, SETTINGS, collect, expected, job};
use crate::control::WaitCode;
use crate::profile::GenerationSettings;

#[tokio::test]
async fn a_long_prompt_takes_every_other_iteration_at_most() {
    let bench = Bench::gated(SETTINGS).await;
    let mut short = bench.submit(job(&[2], 60)).expect("admitted");
    bench.gate.let_pass(1);
    assert!(matches!(short.next().await, Some(Ok(_))));
    let long = bench.submit(job(&[3; 64], 2)).expect("admitted");
    bench.gate.open();
    assert!(matches!(collect(long).await.end, Some(Ok(_))));
    collect(short).await;
    let passes = bench.passes();
    let prefills: Vec<bool> = passes[1..].iter().map(|p| p.len() == 2 && p.iter().any(|(.., n)| *n > 1)).collect();
    assert_eq!(prefills.iter().filter(|p| **p).count(), 8);
    assert!(prefills.windows(2).all(|w| !(w[0] && w[1])), "{prefills:?}");
}

#[tokio::test]
async fn who_waits_is_told_why_before_the_first_pass_has_ended() {
    let bench = Bench::gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let first = bench.submit(job(&[2; 20], 4)).expect("admitted");
    bench.gate.arrived(1).await;
    // The pass stands at the gate, and who holds the slot is seen.
    assert_eq!(bench.shown(|g| g.slots_used == 1).await.iterations, 0);
    let second = bench.submit(job(&[3; 20], 4)).expect("admitted");
    assert_eq!(bench.worker.arriving(24, false), WaitCode::SlotsFull);
    bench.gate.open();
    collect(first).await;
    collect(second).await;

    let tight = GenerationSettings { kv_tokens: 60, kv_reserve: 30, ..SETTINGS };
    let bench = Bench::gated(tight).await;
    let first = bench.submit(job(&[2; 20], 30)).expect("admitted");
    bench.gate.arrived(1).await;
    bench.shown(|g| g.slots_used == 1).await;
    assert_eq!(bench.worker.arriving(50, false), WaitCode::KvFull);
    assert_eq!(bench.worker.arriving(5, true), WaitCode::DeviceBusy);
    assert_eq!(bench.worker.arriving(5, false), WaitCode::SlotBusy);
    bench.gate.open();
    collect(first).await;
}

/// Passes of a size that the shipped settings have.
const LARGE: GenerationSettings = GenerationSettings {
    slots: 12,
    context_tokens: 6_200,
    kv_tokens: 20_000,
    queue: 16,
    iteration_tokens: 2_048,
    prefill_chunk: 256,
    ..SETTINGS
};

#[tokio::test]
async fn a_stream_goes_on_beside_a_long_prompt_and_short_ones_start_within_two_chunks() {
    let bench = Bench::gated(LARGE).await;
    let stream = bench.submit(job(&[2, 3], 300)).expect("admitted");
    bench.gate.let_pass(4);
    bench.gate.arrived(5).await;
    // The fifth pass stands at the gate; what comes now is in the sixth.
    let long = bench.submit(job(&[4; 6_000], 2)).expect("admitted");
    bench.gate.let_pass(6);
    bench.gate.arrived(11).await;
    let short: Vec<_> = (0..10).map(|i| bench.submit(job(&[5 + i; 25], 4)).expect("admitted")).collect();
    bench.gate.open();
    for (i, ticket) in short.into_iter().enumerate() {
        assert_eq!(collect(ticket).await.tokens, expected(&[5 + i as u32; 25], 4).0);
    }
    assert!(matches!(collect(long).await.end, Some(Ok(_))));
    assert_eq!(collect(stream).await.tokens, expected(&[2, 3], 300).0);

    let passes = bench.passes();
    // The stream, in the first slot, has a row in every pass until it ends: its worst gap is the longest pass, and that
    // is its own row, those of the others that answer, and a chunk.
    let reads = |p: &Vec<(usize, usize, usize)>| -> usize { p.iter().map(|r| r.2).filter(|n| *n > 1).sum() };
    let live: Vec<_> = passes.iter().take_while(|p| p.iter().any(|r| r.0 == 0)).collect();
    assert!(live.len() >= 300, "{}", live.len());
    assert!(live[1..].iter().all(|p| reads(p) <= LARGE.prefill_chunk));
    assert!(live[1..].windows(2).all(|w| reads(w[0]) == 0 || reads(w[1]) == 0), "two chunks in a row");
    let chunks: Vec<_> = passes[11..].iter().filter(|p| reads(p) > 0).take(2).collect();
    let begun = chunks.iter().flat_map(|p| p.iter()).filter(|(_, start, n)| (*start, *n) == (0, 25)).count();
    assert_eq!(begun, 10, "{chunks:?}");
    let first = chunks[0].iter().map(|r| r.2).filter(|n| *n == 25).count();
    assert!(first >= 8, "a chunk has room for ten of them: {chunks:?}");
}
