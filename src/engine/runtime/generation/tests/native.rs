//! The loop with a model that has a draft head.

use super::{Bench, SETTINGS, collect, job};
use crate::control::speculation::{SpeculationPolicy, SpeculationTally};
use crate::engine::models::testing::{Probe, hashed, letter};
use crate::engine::runtime::generation::speculation::Speculation;
use crate::engine::runtime::job::{GenerateJob, GenerationEvent, Sampling};
use crate::engine::runtime::metrics::Metrics;
use crate::profile::{GenerationSettings, SpeculationSettings};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Right four times of five.
fn mostly_right(tokens: &[u32]) -> u32 {
    if tokens.len().is_multiple_of(5) { letter('A') } else { hashed(tokens) }
}

fn never_right(_: &[u32]) -> u32 {
    letter('A')
}

async fn bench(speculation: SpeculationSettings, probe: Probe) -> Bench {
    let settings = GenerationSettings { queue: 8, speculation, ..SETTINGS };
    let drafter = Speculation::new("fake", speculation, Metrics::default().speculation("fake"));
    Bench::probed(hashed, settings, Box::new(drafter), 60.0, probe).await
}

fn forced() -> SpeculationSettings {
    SpeculationSettings { policy: SpeculationPolicy::Force, self_check_ratio: 0.0, ..SpeculationSettings::DEFAULT }
}

/// What the model says after `prompt`, up to its end.
fn plainly(prompt: &[u32], n: usize) -> Vec<u32> {
    let mut all = prompt.to_vec();
    while all.len() < prompt.len() + n && all.last() != Some(&0) {
        all.push(hashed(&all));
    }
    all.split_off(prompt.len())
}

async fn answered(bench: &Bench, job: GenerateJob) -> (Vec<u32>, SpeculationTally) {
    let mut ticket = bench.submit(job).expect("admitted");
    let mut tokens = Vec::new();
    loop {
        match ticket.next().await.expect("an end").expect("no fault") {
            GenerationEvent::Delta { tokens: more, .. } => tokens.extend(more),
            GenerationEvent::Done { speculation, .. } => {
                return (tokens, speculation.expect("somebody speculates").tally);
            }
        }
    }
}

fn prompt(i: u32) -> Vec<u32> {
    (0..9).map(|k| letter('a') + (k * 7 + i) % 26).collect()
}

#[tokio::test]
async fn drafts_of_the_head_save_passes_and_change_nothing() {
    let bench = bench(forced(), Probe { head: Some(mostly_right), ..Probe::default() }).await;
    let (tokens, tally) = answered(&bench, job(&prompt(0), 60)).await;
    assert_eq!(tokens, plainly(&prompt(0), 60));
    let native = tally.survival.native;
    assert!(native.survived[0] > 15 && native.survived[0] < native.eligible[0], "{tally:?}");
    assert!(tally.width_max > 1 && bench.passes().len() < 50, "{tally:?}, {} passes", bench.passes().len());
    let shown = bench.shown(|g| g.slots_used == 0).await.speculation.expect("shown").draft.expect("it drafts");
    assert!(shown.on && shown.model == "mtp head" && shown.tokens >= native.eligible[0], "{shown:?}");
}

/// Two at once, greedy and sampled, with penalties: the words of each are its own.
#[tokio::test]
async fn neighbours_and_sampling_have_their_own_drafts() {
    let bench = bench(forced(), Probe { head: Some(mostly_right), ..Probe::default() }).await;
    let sampled = |i: u32| GenerateJob {
        sampling: Sampling { temperature: 0.9, repetition_penalty: 1.02, seed: u64::from(i), ..Sampling::default() },
        ..job(&prompt(i), 50)
    };
    let mut alone = Vec::new();
    for i in 0..4 {
        alone.push(answered(&bench, sampled(i)).await.0);
    }
    for pair in [[0, 1], [2, 3]] {
        let both = pair.map(|i| bench.submit(sampled(i)).expect("admitted"));
        for (i, ticket) in pair.into_iter().zip(both) {
            assert_eq!(collect(ticket).await.tokens, alone[i as usize]);
        }
    }
    assert!(bench.probe.drafted.lock().expect("not poisoned").iter().any(|(sequences, _)| *sequences == 2));
}

#[tokio::test]
async fn a_head_that_panics_fails_nobody_and_is_not_asked_again() {
    let probe = Probe { head: Some(mostly_right), panicking_drafts: AtomicUsize::new(1), ..Probe::default() };
    let bench = bench(forced(), probe).await;
    for i in 0..2 {
        assert_eq!(answered(&bench, job(&prompt(i), 40)).await.0, plainly(&prompt(i), 40));
    }
    assert_eq!(bench.probe.panicking_drafts.load(Ordering::Acquire), 0);
    assert_eq!(bench.probe.drafted.lock().expect("not poisoned").len(), 1);
    let shown = bench.shown(|g| g.slots_used == 0).await.speculation.expect("shown").draft.expect("still shown");
    assert!(!shown.on && shown.failures == 1 && shown.why.is_some_and(|why| why.contains("panicked")));
}

#[tokio::test]
async fn with_policy_off_the_head_never_runs() {
    let off = SpeculationSettings { policy: SpeculationPolicy::Off, ..SpeculationSettings::DEFAULT };
    let bench = bench(off, Probe { head: Some(never_right), ..Probe::default() }).await;
    assert_eq!(answered(&bench, job(&prompt(0), 40)).await.0, plainly(&prompt(0), 40));
    assert!(bench.probe.drafted.lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn a_head_that_is_never_right_costs_passes_nothing_but_rows() {
    let bench = bench(forced(), Probe { head: Some(never_right), ..Probe::default() }).await;
    let (tokens, tally) = answered(&bench, job(&prompt(5), 40)).await;
    assert_eq!(tokens, plainly(&prompt(5), 40));
    assert_eq!(tally.survival.native.survived[0], 0);
    assert!(tally.windows > 10);
}
