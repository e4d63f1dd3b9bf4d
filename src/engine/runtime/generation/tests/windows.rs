//! Verify windows: text never depends on what was drafted.

use super::{Bench, Dice, SETTINGS, collect, expected, job};
use crate::engine::models::testing::{END, hashed, letter};
use crate::engine::runtime::RequestId;
use crate::engine::runtime::generation::draft::{DraftFor, DraftSource, NoDrafts, StepCost, Verified};
use crate::engine::runtime::job::{FinishReason, GenerateJob, Sampling, TokenLogprob};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Knows what the model will say, and gets it wrong now and then.
pub(super) struct Oracle {
    pub dice: Dice,
    /// One draft in so many is wrong; 0 = none.
    pub wrong: usize,
    pub width: usize,
    pub seen: Arc<Mutex<Vec<Verified>>>,
}

impl Oracle {
    pub(super) fn new(width: usize, wrong: usize) -> Oracle {
        Oracle { dice: Dice(7), wrong, width, seen: Arc::default() }
    }
}

impl DraftSource for Oracle {
    fn draft(&mut self, of: &[DraftFor<'_>], room: usize) -> Vec<Vec<u32>> {
        let mut left = room;
        let mut all = Vec::new();
        for of in of {
            // One more than asked, and more than there is room for: the loop cuts what it cannot use.
            let width = self.width.min(of.most + 1).min(left + 1);
            let mut tokens = of.history.to_vec();
            for _ in 0..width {
                let right = hashed(&tokens);
                let wrong = self.wrong > 0 && self.dice.one_in(self.wrong);
                tokens.push(if wrong { letter('A') } else { right });
            }
            left = left.saturating_sub(width);
            all.push(tokens.split_off(of.history.len()));
        }
        all
    }

    fn verified(&mut self, _: RequestId, outcome: Verified, tokens: &[u32]) {
        assert_eq!(outcome.committed, tokens.len());
        self.seen.lock().expect("not poisoned").push(outcome);
    }

    fn stepped(&mut self, cost: StepCost) {
        assert!(cost.committed <= cost.decode_rows + cost.draft_rows);
    }

    fn ended(&mut self, _: RequestId) {}
}

#[tokio::test]
async fn right_drafts_save_passes_and_change_nothing() {
    let oracle = Oracle::new(4, 0);
    let seen = oracle.seen.clone();
    let bench = Bench::drafting(SETTINGS, oracle).await;
    let answer = bench.run(job(&[2, 3], 40)).await;
    assert_eq!(answer.tokens, expected(&[2, 3], 40).0);
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 2, 40))));
    // One from the prompt, then five a pass until 39 more are there.
    assert_eq!(bench.passes().len(), 1 + 8);
    let seen = seen.lock().expect("not poisoned").clone();
    let sum = |of: fn(&Verified) -> usize| seen.iter().map(of).sum::<usize>();
    assert_eq!((sum(|v| v.committed), sum(|v| v.accepted)), (39, sum(|v| v.drafted)));
    assert!(seen.last().expect("some").stopped);
}

#[tokio::test]
async fn an_answer_has_as_many_tokens_as_asked_however_many_are_drafted() {
    for max_tokens in 1..8 {
        let oracle = Oracle::new(8, 3);
        let seen = oracle.seen.clone();
        let bench = Bench::drafting(SETTINGS, oracle).await;
        let answer = bench.run(job(&[2, 3], max_tokens)).await;
        assert_eq!(answer.end, Some(Ok((FinishReason::Length, 2, max_tokens))));
        let seen = seen.lock().expect("not poisoned").clone();
        let (drafted, accepted) = seen.iter().fold((0, 0), |(d, a), v| (d + v.drafted, a + v.accepted));
        assert!(accepted <= drafted && accepted <= max_tokens, "{seen:?}");
    }
}

/// The answer to the same jobs, all at once.
async fn all(bench: &Bench, jobs: impl Iterator<Item = GenerateJob>) -> Vec<(String, Vec<u32>, Vec<TokenLogprob>)> {
    let tickets: Vec<_> = jobs.map(|j| bench.submit(j).expect("admitted")).collect();
    let mut answers = Vec::new();
    for ticket in tickets {
        let answer = collect(ticket).await;
        assert!(matches!(answer.end, Some(Ok(_))), "{answer:?}");
        answers.push((answer.text, answer.tokens, answer.logprobs));
    }
    answers
}

/// Jobs of every kind: greedy, sampled, penalised, with stop strings, with log-probabilities, that end by themselves.
fn mixed() -> impl Iterator<Item = GenerateJob> {
    (0..4u32).map(|i| {
        let mut j = job(&[2 + i, 3, 9 - i, 5], 30);
        j.sampling = match i {
            0 => Sampling { presence_penalty: 1.5, frequency_penalty: 0.5, ..Sampling::greedy() },
            1 => Sampling { temperature: 2.0, seed: 5, ..Sampling::default() },
            2 => Sampling { temperature: 1.0, top_p: 0.9, repetition_penalty: 1.3, seed: 6, ..Sampling::default() },
            _ => Sampling::greedy(),
        };
        j.logprobs = (i == 1).then_some(2);
        if i == 3 {
            let (_, text) = expected(&j.prompt, 30);
            j.stop = vec![text[11..13].to_string()];
        }
        j
    })
}

#[tokio::test]
async fn sampled_penalised_and_stopped_answers_are_those_without_drafts() {
    let plain = all(&Bench::drafting(SETTINGS, NoDrafts).await, mixed()).await;
    assert_eq!(plain[1].2.len(), 30);
    for wrong in [0, 2, 5, 20] {
        let bench = Bench::drafting(SETTINGS, Oracle::new(5, wrong)).await;
        assert_eq!(all(&bench, mixed()).await, plain, "one in {wrong} wrong");
    }
}

#[tokio::test]
async fn an_end_token_among_the_drafts_ends_the_answer() {
    struct Ends;
    impl DraftSource for Ends {
        fn draft(&mut self, of: &[DraftFor<'_>], _: usize) -> Vec<Vec<u32>> {
            vec![vec![END, END]; of.len()]
        }
        fn verified(&mut self, _: RequestId, v: Verified, _: &[u32]) {
            assert_eq!(v.committed, 1);
        }
        fn stepped(&mut self, _: StepCost) {}
        fn ended(&mut self, _: RequestId) {}
    }
    let bench = Bench::drafting(SETTINGS, Ends).await;
    let mut asked = job(&[9], 5);
    asked.ignore_eos = false;
    assert_eq!(bench.run(asked).await.end, Some(Ok((FinishReason::Stop, 1, 1))));
    assert_eq!(bench.run(job(&[2, 3], 9)).await.tokens, expected(&[2, 3], 9).0);
}

#[tokio::test]
async fn a_rewind_that_fails_means_reading_again_and_nothing_else() {
    let bench = Bench::drafting(SETTINGS, Oracle::new(4, 2)).await;
    // The first fails where the slot is taken, which holds nothing anyway.
    bench.probe.failing_rewinds.store(3, Ordering::Release);
    let answer = bench.run(job(&[2, 3], 40)).await;
    assert_eq!(answer.tokens, expected(&[2, 3], 40).0);
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert_eq!(shown.failed_rewinds, 3);
    let again = bench.passes().iter().skip(1).flatten().filter(|(_, start, _)| *start == 0).count();
    assert_eq!(again, 2, "read again from the start, twice");
}

#[tokio::test]
async fn penalties_see_what_was_committed_and_nothing_that_was_drafted() {
    let bench = Bench::drafting(SETTINGS, Oracle::new(4, 2)).await;
    let mut asked = job(&[2, 3], 40);
    asked.sampling.presence_penalty = 100.0;
    let mut tokens = bench.run(asked).await.tokens;
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 40, "no token comes twice");
}
