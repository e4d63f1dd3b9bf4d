//! A thousand rounds of everything at once.

use super::windows::Oracle;
use super::{Bench, Dice, SETTINGS, collect, expected, job};
use crate::control::ErrorKind;
use crate::engine::models::testing::PANIC;
use crate::engine::runtime::job::{Caller, GenerateJob};
use crate::profile::GenerationSettings;
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
    let tight =
        GenerationSettings { slots: 3, kv_tokens: 100, kv_reserve: 4, queue: 8, context_tokens: 64, ..SETTINGS };
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
    assert!(shown.kv_cached_tokens <= 100, "{shown:?}");
    assert!(answered > 800 && shown.cached_tokens > 1_000, "{answered} answered, {shown:?}");
    assert!(shown.preemptions > 0 && shown.failed_rewinds > 0, "{shown:?}");
    let counters = bench.worker.stats().counters();
    assert_eq!(counters.submitted, counters.served + counters.cancelled + counters.expired + counters.failed);
}
