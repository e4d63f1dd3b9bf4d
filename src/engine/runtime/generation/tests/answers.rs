//! What requests are answered, whoever shares the passes, and what the queue does.

use super::{Bench, SETTINGS, VOCAB, collect, expected, job};
use crate::control::ErrorKind;
use crate::engine::models::testing::{END, PANIC, Probe, alphabet, letter};
use crate::engine::runtime::generation::draft::NoDrafts;
use crate::engine::runtime::job::{Caller, FinishReason, GenerateJob, GenerationEvent, Sampling};
use crate::engine::scheduler::Micros;
use crate::profile::GenerationSettings;

#[tokio::test]
async fn answers_are_the_models_whoever_shares_the_passes() {
    let bench = Bench::start(SETTINGS).await;
    let prompts: Vec<Vec<u32>> = (0..4u32).map(|i| (0..(5 + 9 * i)).map(|j| 2 + (i + j) % 7).collect()).collect();
    let tickets: Vec<_> = prompts.iter().map(|p| bench.submit(job(p, 12)).expect("admitted")).collect();
    for (prompt, ticket) in prompts.iter().zip(tickets) {
        let answer = collect(ticket).await;
        let (tokens, text) = expected(prompt, 12);
        assert_eq!((answer.tokens, answer.text), (tokens, text));
        assert_eq!(answer.end, Some(Ok((FinishReason::Length, prompt.len(), 12))));
    }
    for pass in bench.passes() {
        assert!(pass.iter().map(|(.., n)| n).sum::<usize>() <= SETTINGS.iteration_tokens, "{pass:?}");
        assert!(pass.iter().all(|(.., n)| *n <= SETTINGS.prefill_chunk), "{pass:?}");
    }
    let counters = bench.worker.stats().counters();
    assert_eq!((counters.submitted, counters.served), (4, 4));
}

#[tokio::test]
async fn an_end_token_stops_unless_ignored_and_is_not_text() {
    let bench = Bench::start(SETTINGS).await;
    let mut asked = job(&[9], 5);
    asked.ignore_eos = false;
    let answer = bench.run(asked).await;
    assert_eq!((answer.text.as_str(), answer.end), ("", Some(Ok((FinishReason::Stop, 1, 1)))));
    let answer = bench.run(job(&[9], 3)).await;
    assert_eq!(answer.tokens[0], END);
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 1, 3))));
}

#[tokio::test]
async fn stop_tokens_end_an_answer_but_not_before_its_least_length() {
    let bench = Bench::start(SETTINGS).await;
    let (tokens, _) = expected(&[2, 3], 10);
    let first = tokens.iter().position(|t| *t == tokens[4]).expect("it is there");
    let mut asked = job(&[2, 3], 10);
    asked.stop_ids = vec![tokens[4]];
    let answer = bench.run(asked).await;
    assert_eq!(answer.tokens, tokens[..first]);
    assert_eq!(answer.end, Some(Ok((FinishReason::Stop, 2, first + 1))));
    // The model wants to end at once, and its own end is no text.
    let mut asked = job(&[9], 8);
    (asked.ignore_eos, asked.min_tokens) = (false, 4);
    let answer = bench.run(asked).await;
    assert!(matches!(answer.end, Some(Ok((_, 1, 4..)))), "{answer:?}");
    assert!(!answer.tokens[..4].contains(&END));
    // Nor does a stop string end it early.
    let mut asked = job(&[2, 3], 10);
    (asked.min_tokens, asked.stop) = (6, ('a'..='z').map(String::from).collect());
    let answer = bench.run(asked).await;
    assert_eq!((answer.text.len(), answer.end), (6, Some(Ok((FinishReason::Stop, 2, 7)))));
}

#[tokio::test]
async fn stop_strings_cut_and_held_text_comes_out_at_the_end() {
    let bench = Bench::start(SETTINGS).await;
    let prompt = [2, 3, 4];
    let (tokens, text) = expected(&prompt, 10);
    assert!(!tokens.contains(&END), "the case needs ten letters");
    let with_stop = |stop: &str, max_tokens: usize| {
        let mut j = job(&prompt, max_tokens);
        j.stop = vec![stop.to_string()];
        j
    };
    let answer = bench.run(with_stop(&text[4..7], 10)).await;
    let cut = text.find(&text[4..7]).expect("it is in the text");
    assert_eq!(answer.text, text[..cut]);
    assert_eq!(answer.tokens, tokens[..cut]);
    assert!(matches!(answer.end, Some(Ok((FinishReason::Stop, 3, _)))));
    let answer = bench.run(with_stop(&format!("{}#", &text[4..6]), 6)).await;
    assert_eq!((answer.text.as_str(), answer.tokens.len()), (&text[..6], 6));
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 3, 6))));
    let answer = bench.run(with_stop(&text[..1], 10)).await;
    assert_eq!((answer.text.as_str(), answer.deltas), ("", 0));
    assert_eq!(answer.end, Some(Ok((FinishReason::Stop, 3, 1))));
}

#[tokio::test]
async fn log_probabilities_come_with_their_tokens() {
    let bench = Bench::start(SETTINGS).await;
    let mut asked = job(&[2], 6);
    asked.logprobs = Some(2);
    let answer = bench.run(asked).await;
    assert_eq!(answer.logprobs.iter().map(|l| l.id).collect::<Vec<_>>(), answer.tokens);
    assert_eq!(answer.logprobs.iter().map(|l| l.offset).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

/// Three tokens make a face, so that an answer of any length may end inside one.
#[tokio::test]
async fn parts_of_characters_are_told_as_they_are_and_never_shown() {
    let written = |id: u32| ["ðŁ", "ĺ", "Ģ"][(id + 3 * 99 - letter('a')) as usize % 3];
    let probe = Probe { written: Some(written), ..Probe::default() };
    let bench = Bench::probed(alphabet, SETTINGS, Box::new(NoDrafts), 60.0, probe).await;
    for n in 1..8 {
        let mut asked = job(&[2], n);
        asked.logprobs = Some(1);
        let answer = bench.run(asked).await;
        assert_eq!(answer.text, "😀".repeat(n / 3), "{n} tokens");
        assert_eq!(answer.end, Some(Ok((FinishReason::Length, 1, n))));
        let bytes: Vec<u8> = answer.logprobs.iter().flat_map(|l| l.bytes.clone()).collect();
        assert_eq!(bytes, "😀".repeat(3).as_bytes()[..n + n.div_ceil(3)]);
        assert!(answer.logprobs.iter().enumerate().all(|(i, l)| l.offset == i / 3 && l.top[0].1 == l.bytes));
        assert_eq!(answer.tokens.len(), n);
    }
    // A stop text cuts before the second face; the parts of the third are not begun.
    let mut asked = job(&[2], 8);
    (asked.stop, asked.logprobs) = (vec!["😀😀".into()], Some(0));
    let answer = bench.run(asked).await;
    assert_eq!((answer.text.as_str(), answer.logprobs.len()), ("", 0));
    // A stop token inside one.
    let mut asked = job(&[2], 8);
    asked.stop_ids = vec![letter('e')];
    assert_eq!(bench.run(asked).await.text, "😀");
}

#[tokio::test]
async fn what_can_never_fit_is_refused_at_the_door_with_both_numbers() {
    let bench = Bench::start(SETTINGS).await;
    let refused = |j: GenerateJob| bench.submit(j).err().expect("refused");
    let fault = refused(job(&[2; 300], 1));
    assert_eq!(fault.kind, ErrorKind::TooLong);
    assert!(fault.message.contains("300") && fault.message.contains("128"), "{}", fault.message);
    assert_eq!(refused(job(&[], 1)).kind, ErrorKind::InvalidRequest);
    assert_eq!(refused(job(&[VOCAB as u32], 1)).kind, ErrorKind::InvalidRequest);
    let small = Bench::start(GenerationSettings { kv_tokens: 50, ..SETTINGS }).await;
    let fault = small.submit(job(&[2; 60], 1)).err().expect("refused");
    assert!(fault.message.contains("60") && fault.message.contains("50") && fault.message.contains("pool"));
    // What it needs to start is a part of its answer too; beyond that, an answer is as long as the pool allows.
    let fault = small.submit(job(&[2; 40], 100)).err().expect("refused");
    assert!(fault.message.contains("needs 104") && fault.message.contains("50"), "{}", fault.message);
    let thrifty = Bench::start(GenerationSettings { kv_tokens: 50, kv_reserve: 8, ..SETTINGS }).await;
    let answer = thrifty.run(job(&[2; 40], 100)).await;
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 40, 10))));
    assert_eq!(bench.run(job(&[2], 0)).await.end, Some(Ok((FinishReason::Length, 1, 0))));
}

#[tokio::test]
async fn the_queue_is_bounded_and_says_when_to_come_again() {
    let bench = Bench::gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let mut admitted = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..10 {
        match bench.submit(job(&[2], 4)) {
            Ok(ticket) => admitted.push(ticket),
            Err(fault) => refused.push(fault),
        }
    }
    assert!((4..=5).contains(&admitted.len()), "{} admitted", admitted.len());
    assert!(refused.iter().all(|f| f.kind == ErrorKind::QueueFull && f.retry_after_s.is_some()));
    bench.gate.open();
    for ticket in admitted {
        assert!(matches!(collect(ticket).await.end, Some(Ok(_))));
    }
}

#[tokio::test]
async fn the_kv_budget_lets_nobody_overtake() {
    let bench = Bench::gated(SETTINGS).await;
    // 100 + 100 > 160: the second waits although a slot is free, and the small third waits behind it.
    let first = bench.submit(job(&[2; 90], 10)).expect("admitted");
    let second = bench.submit(job(&[3; 90], 10)).expect("admitted");
    let third = bench.submit(job(&[4; 2], 2)).expect("admitted");
    bench.gate.open();
    for ticket in [first, second, third] {
        assert!(matches!(collect(ticket).await.end, Some(Ok(_))));
    }
    let passes = bench.passes();
    let done = passes.iter().position(|p| p.iter().any(|&(_, start, n)| (start, n) == (98, 1))).expect("it decoded");
    assert!(passes[..=done].iter().all(|p| p.len() == 1), "somebody ran beside the first: {passes:?}");
    let (second, third) = (start_of(&passes[done..], 8), start_of(&passes[done..], 2));
    assert!(second <= third, "the third overtook the second: {passes:?}");
}

/// The first pass that begins a prompt with a chunk of `n` tokens.
fn start_of(passes: &[Vec<(usize, usize, usize)>], n: usize) -> usize {
    passes.iter().position(|p| p.iter().any(|row| (row.1, row.2) == (0, n))).expect("it began")
}

#[tokio::test]
async fn a_dropped_ticket_frees_its_slot_and_changes_no_neighbour() {
    let bench = Bench::gated(SETTINGS).await;
    let keeper = bench.submit(job(&[2, 3], 20)).expect("admitted");
    let leaver = bench.submit(job(&[4, 5], 100)).expect("admitted");
    let mut leaver = leaver;
    bench.gate.let_pass(8);
    assert!(matches!(leaver.next().await, Some(Ok(GenerationEvent::Delta { .. }))));
    drop(leaver);
    let left_after = bench.passes().len();
    bench.gate.open();
    let answer = collect(keeper).await;
    assert_eq!(answer.tokens, expected(&[2, 3], 20).0);
    bench.quiet().await;
    // The pass that had begun when it left; the next iteration looks first.
    let late = bench.passes()[left_after..].iter().filter(|p| p.len() == 2).count();
    assert!(late <= 1, "{late} passes carried a request that nobody wanted");
    assert_eq!(bench.worker.stats().counters().cancelled, 1);
    // Both slots are there for the next two.
    bench.gate.shut();
    let next = [bench.submit(job(&[6], 3)).expect("admitted"), bench.submit(job(&[7], 3)).expect("admitted")];
    bench.gate.let_pass(1);
    bench.shown(|g| g.slots_used == 2).await;
    bench.gate.open();
    for ticket in next {
        collect(ticket).await.end.expect("an end").expect("served");
    }
}

#[tokio::test]
async fn a_queued_request_that_is_dropped_never_runs() {
    let bench = Bench::gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let running = bench.submit(job(&[2, 3], 5)).expect("admitted");
    let queued = bench.submit(job(&[4; 7], 5)).expect("admitted");
    drop(queued);
    bench.gate.open();
    assert_eq!(collect(running).await.tokens, expected(&[2, 3], 5).0);
    bench.quiet().await;
    assert!(bench.passes().iter().flatten().all(|(.., n)| *n != 7), "it was computed");
    assert_eq!(bench.worker.stats().waiting(), 0);
}

#[tokio::test]
async fn a_panic_ends_its_own_request_and_no_other() {
    let bench = Bench::gated(SETTINGS).await;
    let good = bench.submit(job(&[2, 3, 4], 12)).expect("admitted");
    let bad = bench.submit(job(&[2, PANIC, 4], 12)).expect("admitted");
    bench.gate.open();
    let fault = collect(bad).await.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::Internal);
    assert_eq!(collect(good).await.tokens, expected(&[2, 3, 4], 12).0);
    // The slot of the one that failed is as good as new.
    let again: Vec<_> = (0..2).map(|_| bench.submit(job(&[5, 6], 6)).expect("admitted")).collect();
    for ticket in again {
        assert_eq!(collect(ticket).await.tokens, expected(&[5, 6], 6).0);
    }
}

#[tokio::test]
async fn a_drain_ends_what_waits_and_lets_finish_what_runs() {
    let bench = Bench::gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let mut running = bench.submit(job(&[2, 3], 6)).expect("admitted");
    let queued = bench.submit(job(&[4, 5], 6)).expect("admitted");
    bench.gate.let_pass(2);
    assert!(matches!(running.next().await, Some(Ok(_))));
    bench.context.shared.drain();
    bench.gate.open();
    let fault = collect(queued).await.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::Draining);
    assert!(matches!(collect(running).await.end, Some(Ok((FinishReason::Length, 2, 6)))));
    assert_eq!(bench.submit(job(&[2], 1)).err().expect("refused").kind, ErrorKind::Draining);
}

#[tokio::test]
async fn a_deadline_ends_a_request() {
    let bench = Bench::gated(SETTINGS).await;
    let caller = Caller { client: "test".into(), deadline_s: Some(0.0) };
    let ticket = bench.worker.generate(job(&[2], 5), caller).expect("admitted");
    bench.gate.let_pass(1);
    let fault = collect(ticket).await.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::DeadlinePassed);
}

#[tokio::test]
async fn a_deadline_ends_a_generation_that_runs_after_its_token() {
    let bench = Bench::gated(SETTINGS).await;
    let caller = Caller { client: "test".into(), deadline_s: Some(1.5) };
    let mut ticket = bench.worker.generate(job(&[2], 30), caller).expect("admitted");
    bench.gate.let_pass(1);
    assert!(matches!(ticket.next().await, Some(Ok(GenerationEvent::Delta { .. }))), "it runs");
    let clock = bench.context.shared.clock;
    let deadline = clock.now() + Micros::from_ms(1_500.0);
    while clock.now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    bench.gate.open();
    let answer = collect(ticket).await;
    let fault = answer.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::DeadlinePassed);
    assert!(fault.message.contains("while it ran"), "{}", fault.message);
    assert!(answer.tokens.len() <= 1, "the pass under way is the last: {:?}", answer.tokens);
    bench.quiet().await;
}

#[tokio::test]
async fn sampled_text_does_not_depend_on_the_batch() {
    let bench = Bench::start(SETTINGS).await;
    let sampled = || {
        let mut j = job(&[2, 3], 16);
        j.sampling = Sampling { temperature: 2.0, seed: 11, ..Sampling::default() };
        j
    };
    let alone = bench.run(sampled()).await.tokens;
    let tickets = [bench.submit(job(&[7; 20], 30)), bench.submit(sampled())].map(|t| t.expect("admitted"));
    let [_, together] = tickets;
    assert_eq!(collect(together).await.tokens, alone);
}

#[tokio::test]
async fn the_view_shows_slots_and_counts() {
    let bench = Bench::start(SETTINGS).await;
    bench.run(job(&[2; 9], 4)).await;
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert_eq!((shown.slots, shown.kv_capacity_tokens, shown.max_queue), (2, 160, 4));
    assert_eq!((shown.kv_used_tokens, shown.kv_cached_tokens), (0, 12), "nine of the prompt, three of the answer");
    assert_eq!((shown.counters.served, shown.prompt_tokens, shown.generated_tokens), (1, 9, 4));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_given_up_and_still_told() {
    let bench = Bench::with(SETTINGS, Box::new(NoDrafts), 0.0).await;
    let ticket = bench.submit(job(&[2], 100)).expect("admitted");
    bench.quiet().await;
    let answer = collect(ticket).await;
    let fault = answer.end.expect("a last event").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::Cancelled);
    assert!(fault.message.contains("took nothing"), "{fault}");
    assert!(answer.tokens.len() < 100);
}
