//! A thousand rounds of everything at once.

use super::windows::Oracle;
use super::{Bench, Dice, SETTINGS, collect, expected, job};
use crate::control::ErrorKind;
use crate::control::commits::CommitFrame;
use crate::engine::models::testing::PANIC;
use crate::engine::runtime::job::{Caller, GenerateJob};
use crate::profile::GenerationSettings;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// What happens to a request of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    /// Its ticket is dropped after so many events.
    Dropped(usize),
    /// Its deadline has passed before it can start.
    Late,
    /// The model panics on it.
    Panics,
}

fn any_job(dice: &mut Dice, fate: Fate) -> GenerateJob {
    // Few beginnings, so that many prompts share one.
    let mut prompt = vec![10 + dice.below(3) as u32; 1 + dice.below(12)];
    prompt.extend((0..dice.below(12)).map(|_| 2 + dice.below(40) as u32));
    if fate == Fate::Panics {
        let at = dice.below(prompt.len());
        prompt[at] = PANIC;
    }
    job(&prompt, 1 + dice.below(24))
}

#[tokio::test]
async fn a_thousand_rounds_leave_every_slot_idle_and_the_cache_free() {
    let tight = GenerationSettings { slots: 3, kv_tokens: 56, kv_reserve: 4, queue: 8, context_tokens: 64, ..SETTINGS };
    let bench = Bench::drafting(tight, Oracle::new(4, 3)).await;
    let mut dice = Dice(1);
    let mut answered = 0;
    for round in 0..1_000 {
        if dice.one_in(8) {
            bench.probe.failing_rewinds.store(dice.below(3), Ordering::Release);
        }
        let mut round_of = Vec::new();
        for _ in 0..1 + dice.below(5) {
            let fate = match dice.below(8) {
                0 => Fate::Dropped(dice.below(4)),
                1 => Fate::Dropped(0),
                2 => Fate::Late,
                3 => Fate::Panics,
                _ => Fate::Answered,
            };
            let asked = any_job(&mut dice, fate);
            let (prompt, max) = (asked.prompt.clone(), asked.max_tokens);
            let deadline_s = (fate == Fate::Late).then_some(0.0);
            let ticket = bench.worker.generate(asked, Caller { client: String::new(), deadline_s });
            round_of.push((fate, prompt, max, ticket.expect("the queue has room")));
        }
        for (fate, prompt, max, mut ticket) in round_of {
            match fate {
                Fate::Dropped(events) => {
                    for _ in 0..events {
                        if !matches!(ticket.next().await, Some(Ok(_))) {
                            break;
                        }
                    }
                    drop(ticket);
                }
                _ => {
                    let answer = collect(ticket).await;
                    match (fate, answer.end.expect("one end")) {
                        (Fate::Answered, Ok(_)) => {
                            answered += 1;
                            assert_eq!(answer.tokens, expected(&prompt, max).0, "round {round}");
                        }
                        (Fate::Late, Err(fault)) => assert_eq!(fault.kind, ErrorKind::DeadlinePassed),
                        (Fate::Panics, Err(fault)) => assert_eq!(fault.kind, ErrorKind::Internal),
                        (fate, end) => panic!("round {round}: {fate:?} ended with {end:?}"),
                    }
                }
            }
        }
        // A later round must not meet what this one set to fail.
        bench.quiet().await;
        bench.probe.failing_rewinds.store(0, Ordering::Release);
    }
    let shown = bench.shown(|g| g.slots_used == 0 && g.queued == 0).await;
    assert_eq!((shown.kv_used_tokens, shown.active.len()), (0, 0));
    assert!(shown.kv_cached_tokens <= 56, "{shown:?}");
    assert!(answered > 800 && shown.cached_tokens > 500, "{answered} answered, {shown:?}");
    assert!(shown.preemptions > 0 && shown.failed_rewinds > 0, "{shown:?}");
    let counters = bench.worker.stats().counters();
    assert_eq!(counters.submitted, counters.served + counters.cancelled + counters.expired + counters.failed);
}

/// What observers were told of a request.
#[derive(Debug, Default)]
struct Told {
    started: usize,
    tokens: Vec<u32>,
    finished: usize,
    aborted: usize,
}

impl Told {
    fn take(&mut self, frame: &CommitFrame) {
        match frame {
            CommitFrame::Started { .. } => self.started += 1,
            CommitFrame::Committed { total, missed, tokens, .. } => {
                assert_eq!((self.finished + self.aborted, *missed), (0, 0), "a commit behind the end");
                self.tokens.extend(tokens);
                assert_eq!(*total, self.tokens.len() as u64);
            }
            CommitFrame::Finished { total, .. } | CommitFrame::Aborted { total, .. } => {
                assert_eq!(*total, self.tokens.len() as u64, "nothing is left untold");
                let ends =
                    if matches!(frame, CommitFrame::Finished { .. }) { &mut self.finished } else { &mut self.aborted };
                *ends += 1;
            }
            CommitFrame::Gap { .. } => panic!("the observer keeps up"),
        }
    }
}

#[tokio::test]
async fn commits_put_together_are_the_answers_and_everything_ends_once() {
    let tight = GenerationSettings { slots: 3, kv_tokens: 56, kv_reserve: 4, queue: 8, context_tokens: 64, ..SETTINGS };
    let bench = Bench::drafting(tight, Oracle::new(4, 3)).await;
    let mut feed = bench.context.shared.commits.observe();
    let mut dice = Dice(2);
    let (mut answered, mut aborted) = (0, 0);
    for run in 0..200 {
        if dice.one_in(5) {
            // The pass over all is broken; each alone goes well.
            bench.probe.panicking_passes.store(1, Ordering::Release);
        }
        let mut asked = Vec::new();
        for _ in 0..1 + dice.below(4) {
            let fate = match dice.below(6) {
                0 => Fate::Dropped(dice.below(4)),
                1 => Fate::Panics,
                _ => Fate::Answered,
            };
            let job = any_job(&mut dice, fate);
            let (prompt, max) = (job.prompt.clone(), job.max_tokens);
            asked.push((fate, prompt, max, bench.submit(job).expect("the queue has room")));
        }
        let mut ids = Vec::new();
        for (fate, prompt, max, mut ticket) in asked {
            let id = ticket.id.to_string();
            if let Fate::Dropped(events) = fate {
                for _ in 0..events {
                    let _ = ticket.next().await;
                }
                drop(ticket);
                ids.push((id, expected(&prompt, max).0, None));
            } else {
                let answer = collect(ticket).await;
                let done = answer.end.expect("one end").is_ok();
                ids.push((id, expected(&prompt, max).0, Some((done, answer.tokens))));
            }
        }
        bench.quiet().await;
        let mut told: HashMap<String, Told> = HashMap::new();
        while let Some(frame) = feed.try_next() {
            let of = match &*frame {
                CommitFrame::Started { of }
                | CommitFrame::Committed { of, .. }
                | CommitFrame::Finished { of, .. }
                | CommitFrame::Aborted { of, .. } => of.request.clone(),
                CommitFrame::Gap { frames } => panic!("{frames} frames lost"),
            };
            told.entry(of).or_default().take(&frame);
        }
        for (id, says, got) in ids {
            // A request that left the queue without a slot is not told of.
            let Some(told) = told.remove(&id) else {
                assert!(got.is_none(), "run {run}: {id} was answered and not told of");
                continue;
            };
            assert_eq!((told.started, told.finished + told.aborted), (1, 1), "run {run}: {id}");
            assert!(says.starts_with(&told.tokens), "run {run}: {id}");
            match got {
                Some((true, tokens)) => {
                    answered += 1;
                    assert_eq!((told.finished, &told.tokens), (1, &tokens), "run {run}: {id}");
                }
                Some((false, tokens)) => {
                    aborted += 1;
                    assert!(told.aborted == 1 && told.tokens.starts_with(&tokens), "run {run}: {id}");
                }
                None => {}
            }
        }
        assert!(told.is_empty(), "run {run}: {told:?}");
    }
    assert!(answered > 150 && aborted > 10, "{answered} answered, {aborted} aborted");
    assert_eq!((bench.context.shared.commits.settled(), bench.context.shared.commits.dropped()), (0, 0));
}
