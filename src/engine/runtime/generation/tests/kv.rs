//! The KV budget: what is kept between requests, who gives way when it runs out, and that nobody can tell.

use super::{Bench, SETTINGS, collect, expected, job};
use crate::engine::runtime::job::FinishReason;
use crate::profile::GenerationSettings;
use std::sync::atomic::Ordering;

fn prompt(n: u32) -> Vec<u32> {
    (0..n).map(|i| 10 + i % 7).collect()
}

#[tokio::test]
async fn a_common_start_is_computed_once() {
    let bench = Bench::start(SETTINGS).await;
    let first = prompt(20);
    assert_eq!(bench.run(job(&first, 5)).await.cached, 0);
    // The same again: all but the last token, which has to be computed for its logits.
    let answer = bench.run(job(&first, 5)).await;
    assert_eq!((answer.cached, answer.tokens), (19, expected(&first, 5).0));
    // A conversation that goes on from the answer. The answer's last token was never computed.
    let mut next = first.clone();
    next.extend(expected(&first, 5).0);
    next.extend([30, 31]);
    let answer = bench.run(job(&next, 5)).await;
    assert_eq!((answer.cached, answer.tokens), (24, expected(&next, 5).0));
    // Half of it is common.
    let mut half = first[..10].to_vec();
    half.extend([40; 8]);
    let answer = bench.run(job(&half, 5)).await;
    assert_eq!((answer.cached, answer.tokens), (10, expected(&half, 5).0));
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert_eq!((shown.cached_tokens, shown.prompt_tokens), (53, 20 + 1 + 3 + 8));
    assert_eq!(shown.kv_used_tokens, 0);
}

/// Three answers to one prompt, and one to a prompt that shares three quarters of it, all sent at once.
async fn together(settings: GenerationSettings, failing_forks: usize) -> (Vec<usize>, u64) {
    let bench = Bench::gated(GenerationSettings { slots: 4, kv_tokens: 400, ..settings }).await;
    bench.probe.failing_forks.store(failing_forks, Ordering::Release);
    let mut other = prompt(40);
    other[30..].fill(50);
    let prompts = [prompt(40), prompt(40), prompt(40), other];
    let tickets: Vec<_> = prompts.iter().map(|p| bench.submit(job(p, 5)).expect("admitted")).collect();
    bench.gate.open();
    let mut cached = Vec::new();
    for (prompt, ticket) in prompts.iter().zip(tickets) {
        let answer = collect(ticket).await;
        assert_eq!(answer.tokens, expected(prompt, 5).0);
        cached.push(answer.cached);
    }
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert_eq!(shown.cached_tokens, cached.iter().sum::<usize>() as u64);
    (cached, shown.prompt_tokens)
}

#[tokio::test]
async fn prompts_that_begin_alike_and_come_together_are_read_once() {
    assert_eq!(together(SETTINGS, 0).await, (vec![0, 39, 39, 30], 40 + 1 + 1 + 10));
}

#[tokio::test]
async fn a_copy_that_fails_is_read_instead() {
    let (cached, read) = together(SETTINGS, 1).await;
    assert_eq!(cached.iter().sum::<usize>() as u64 + read, 160);
    assert_eq!(cached.iter().filter(|n| **n == 0).count(), 2, "{cached:?}");
}

#[tokio::test]
async fn prompts_are_not_shared_where_nothing_is_kept() {
    let private = GenerationSettings { prefix_cache: false, ..SETTINGS };
    assert_eq!(together(private, 0).await, (vec![0; 4], 160));
}

#[tokio::test]
async fn nothing_is_kept_where_the_profile_says_so() {
    let bench = Bench::start(GenerationSettings { prefix_cache: false, ..SETTINGS }).await;
    for _ in 0..2 {
        let answer = bench.run(job(&prompt(20), 5)).await;
        assert_eq!((answer.cached, answer.tokens), (0, expected(&prompt(20), 5).0));
    }
    assert_eq!(bench.shown(|g| g.slots_used == 0).await.kv_cached_tokens, 0);
}

#[tokio::test]
async fn a_failed_rewind_of_a_kept_slot_is_a_cold_start() {
    let bench = Bench::start(SETTINGS).await;
    bench.run(job(&prompt(20), 5)).await;
    bench.shown(|g| g.slots_used == 0).await;
    bench.probe.failing_rewinds.store(1, Ordering::Release);
    let mut half = prompt(10);
    half.extend([40; 8]);
    let answer = bench.run(job(&half, 5)).await;
    assert_eq!((answer.cached, answer.tokens), (0, expected(&half, 5).0));
    assert_eq!(bench.shown(|g| g.slots_used == 0).await.failed_rewinds, 1);
}

#[tokio::test]
async fn the_youngest_gives_way_and_its_text_has_no_seam() {
    let tight = GenerationSettings { slots: 3, kv_tokens: 60, kv_reserve: 4, ..SETTINGS };
    let bench = Bench::gated(tight).await;
    let prompts: Vec<Vec<u32>> = (0..3u32).map(|i| vec![20 + i; 8]).collect();
    let tickets: Vec<_> = prompts.iter().map(|p| bench.submit(job(p, 40)).expect("admitted")).collect();
    bench.gate.open();
    for (prompt, ticket) in prompts.iter().zip(tickets) {
        let answer = collect(ticket).await;
        let (tokens, text) = expected(prompt, 40);
        assert_eq!((answer.tokens, answer.text), (tokens, text));
        assert_eq!(answer.end, Some(Ok((FinishReason::Length, 8, 40))));
    }
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert!(shown.preemptions >= 2, "{shown:?}");
    assert_eq!((shown.kv_used_tokens, shown.queued), (0, 0));
    let oldest = bench.passes().iter().flatten().filter(|(slot, start, _)| (*slot, *start) == (0, 0)).count();
    assert_eq!(oldest, 1, "the oldest is never read again");
}

#[tokio::test]
async fn kept_tokens_go_when_somebody_needs_the_room() {
    let bench = Bench::start(GenerationSettings { kv_tokens: 60, kv_reserve: 4, ..SETTINGS }).await;
    for first in [50, 60] {
        bench.run(job(&[first; 20], 8)).await;
    }
    assert_eq!(bench.shown(|g| g.slots_used == 0).await.kv_cached_tokens, 54);
    assert_eq!(bench.run(job(&[70; 40], 4)).await.tokens, expected(&[70; 40], 4).0);
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert!(shown.kv_cached_tokens <= 60, "{shown:?}");
    // The one used last is still there, whole or in part.
    let answer = bench.run(job(&[60; 20], 2)).await;
    assert!(answer.cached >= 10, "{}", answer.cached);
}

#[tokio::test]
async fn who_lost_a_slot_is_first_in_line_for_the_next() {
    let tight = GenerationSettings { kv_tokens: 40, kv_reserve: 4, prefix_cache: false, ..SETTINGS };
    let bench = Bench::gated(tight).await;
    let [oldest, loser, last] = [(8, 28), (7, 28), (6, 4)]
        .map(|(n, max)| bench.submit(job(&[20 + n; 8][..n as usize], max)).expect("admitted"));
    bench.gate.open();
    for (ticket, (n, max)) in [(oldest, (8, 28)), (loser, (7, 28)), (last, (6, 4))] {
        assert_eq!(collect(ticket).await.tokens, expected(&vec![20 + n; n as usize], max).0);
    }
    let passes = bench.passes();
    // Passes in which the first so many tokens of a sequence are read.
    let begins = |n: usize| {
        let read = move |pass: &&Vec<(usize, usize, usize)>| pass.iter().any(|row| (row.1, row.2) == (0, n));
        passes.iter().enumerate().filter(move |(_, pass)| read(pass)).map(|(i, _)| i)
    };
    // Its prompt and answer are longer than a chunk by now, as the oldest's prompt was.
    let again = begins(8).nth(1).expect("the loser is read again");
    assert!(begins(6).all(|last| last >= again), "the last one overtook it: {passes:?}");
}

#[tokio::test]
async fn what_is_reserved_keeps_the_next_one_waiting_instead_of_giving_way() {
    let careful = GenerationSettings { kv_tokens: 40, kv_reserve: 20, ..SETTINGS };
    let bench = Bench::gated(careful).await;
    let tickets: Vec<_> = (0..2).map(|i| bench.submit(job(&[30 + i; 8], 30)).expect("admitted")).collect();
    bench.gate.open();
    for ticket in tickets {
        assert_eq!(collect(ticket).await.tokens.len(), 30);
    }
    assert!(bench.passes().iter().all(|p| p.len() == 1), "one after the other");
    assert_eq!(bench.shown(|g| g.slots_used == 0).await.preemptions, 0);
}
