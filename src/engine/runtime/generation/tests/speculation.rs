//! The loop with the real proposers and the real gate.

use super::{Bench, SETTINGS, collect, job};
use crate::control::speculation::{SpeculationChoice, SpeculationPolicy, SpeculationView};
use crate::engine::models::testing::{hashed, letter};
use crate::engine::runtime::generation::speculation::Speculation;
use crate::engine::runtime::job::{GenerateJob, GenerationEvent, Sampling};
use crate::engine::runtime::metrics::Metrics;
use crate::profile::{GenerationSettings, SpeculationSettings};
use std::sync::atomic::Ordering;

/// Says again what stood seven tokens ago, and now and then something that depends on all tokens before.
fn quoting(tokens: &[u32]) -> u32 {
    let other = hashed(tokens);
    if tokens.len() > 7 && !other.is_multiple_of(5) { tokens[tokens.len() - 7] } else { other }
}

/// What it says after `prompt`.
fn quoted(prompt: &[u32], n: usize) -> Vec<u32> {
    let mut all = prompt.to_vec();
    for _ in 0..n {
        all.push(quoting(&all));
    }
    all.split_off(prompt.len())
}

fn settings(speculation: SpeculationSettings) -> GenerationSettings {
    GenerationSettings { slots: 2, queue: 8, speculation, ..SETTINGS }
}

fn forced() -> SpeculationSettings {
    SpeculationSettings { policy: SpeculationPolicy::Force, self_check_ratio: 1.0, ..SpeculationSettings::DEFAULT }
}

async fn bench(settings: GenerationSettings) -> Bench {
    let drafter = Speculation::new("fake", settings.speculation, Metrics::default().speculation("fake"));
    Bench::saying(quoting, settings, Box::new(drafter), 60.0).await
}

fn prompt(i: u32) -> Vec<u32> {
    (0..9).map(|k| letter('a') + (k * 5 + i) % 26).collect()
}

async fn view(bench: &Bench, is: impl Fn(&SpeculationView) -> bool) -> SpeculationView {
    let shown = bench.shown(|g| g.slots_used == 0 && g.speculation.as_ref().is_some_and(&is)).await;
    shown.speculation.expect("it was there")
}

/// Ends of answers: tokens, and what the report says.
async fn reported(bench: &Bench, job: GenerateJob) -> (Vec<u32>, crate::control::speculation::SpeculationReport) {
    let mut ticket = bench.submit(job).expect("admitted");
    let mut tokens = Vec::new();
    loop {
        match ticket.next().await.expect("an end").expect("no fault") {
            GenerationEvent::Delta { tokens: more, .. } => tokens.extend(more),
            GenerationEvent::Done { speculation, .. } => return (tokens, *speculation.expect("somebody speculates")),
        }
    }
}

#[tokio::test]
async fn copies_save_passes_and_the_answer_is_the_plain_one() {
    // Without the self-check, whose passes would count too.
    let bench = bench(settings(SpeculationSettings { self_check_ratio: 0.0, ..forced() })).await;
    let (tokens, report) = reported(&bench, job(&prompt(0), 60)).await;
    assert_eq!(tokens, quoted(&prompt(0), 60));
    let t = report.tally;
    assert!(t.draft_n_accepted > 10 && t.draft_n_accepted <= t.draft_n && t.width_max <= 8, "{t:?}");
    assert!(bench.passes().len() < 55, "{}", bench.passes().len());
    assert_eq!((report.policy, report.gate.on, t.in_flight_max), (SpeculationPolicy::Force, true, 1));
}

#[tokio::test]
async fn a_request_opts_out_and_in() {
    let bench = bench(settings(SpeculationSettings { exploration_ratio: 0.0, ..SpeculationSettings::DEFAULT })).await;
    for (choice, windows) in
        [(SpeculationChoice::Off, false), (SpeculationChoice::Force, true), (SpeculationChoice::Off, false)]
    {
        let (tokens, report) = reported(&bench, GenerateJob { speculation: choice, ..job(&prompt(3), 60) }).await;
        assert_eq!(tokens, quoted(&prompt(3), 60));
        assert_eq!(report.tally.windows > 0, windows, "{choice:?}: {report:?}");
    }
}

/// However many tokens are drafted, an answer has as many as were asked for, and the sums agree.
#[tokio::test]
async fn five_tokens_are_five_tokens_and_the_sums_agree() {
    let wide = SpeculationSettings { width_min: 8, width_max: 8, ..forced() };
    let bench = bench(settings(wide)).await;
    let (mut drafted, mut accepted, mut windows) = (0, 0, 0);
    for i in 0..20 {
        let (tokens, report) = reported(&bench, job(&prompt(i).repeat(2), 5)).await;
        assert_eq!(tokens, quoted(&prompt(i).repeat(2), 5));
        let t = report.tally;
        assert!(t.draft_n_accepted <= t.draft_n && t.draft_n_accepted <= 5);
        (drafted, accepted, windows) = (drafted + t.draft_n, accepted + t.draft_n_accepted, windows + t.windows);
    }
    let shown = view(&bench, |_| true).await.totals;
    assert_eq!((shown.drafted, shown.accepted, shown.windows), (drafted, accepted, windows));
    assert!(drafted > 0);
}

/// Two at once, twenty rounds; then one more.
#[tokio::test]
async fn rounds_of_two_end_and_leave_every_slot_idle() {
    let bench = bench(settings(SpeculationSettings { self_check_ratio: 0.0, ..forced() })).await;
    for round in 0..20 {
        let both = [round, round + 7].map(|i| bench.submit(job(&prompt(i), 100)).expect("admitted"));
        for (i, ticket) in [round, round + 7].into_iter().zip(both) {
            assert_eq!(collect(ticket).await.tokens, quoted(&prompt(i), 100));
        }
    }
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert_eq!((shown.queued, shown.kv_used_tokens, shown.counters.served), (0, 0, 40));
    assert_eq!(bench.run(job(&prompt(1), 100)).await.tokens, quoted(&prompt(1), 100));
}

/// A request, then one that shares half of its prompt, while rewinds fail: the second answers as from a cold start.
#[tokio::test]
async fn rewinds_that_fail_under_speculation_are_read_again_and_counted() {
    let bench = bench(settings(SpeculationSettings { self_check_ratio: 0.0, ..forced() })).await;
    bench.run(job(&prompt(4), 40)).await;
    bench.shown(|g| g.slots_used == 0).await;
    bench.probe.failing_rewinds.store(3, Ordering::Release);
    let mut half = prompt(4)[..5].to_vec();
    half.extend(prompt(9));
    let answer = bench.run(job(&half, 60)).await;
    assert_eq!(answer.tokens, quoted(&half, 60));
    assert_eq!(bench.shown(|g| g.slots_used == 0).await.failed_rewinds, 3);
}

#[tokio::test]
async fn sampled_answers_are_the_same_with_windows_and_without() {
    let bench = bench(settings(forced())).await;
    for seed in 0..6 {
        let asked = |speculation| GenerateJob {
            sampling: Sampling { temperature: 1.0, repetition_penalty: 1.05, seed, ..Sampling::default() },
            speculation,
            ..job(&prompt(seed as u32), 60)
        };
        let (plain, _) = reported(&bench, asked(SpeculationChoice::Off)).await;
        let (with, report) = reported(&bench, asked(SpeculationChoice::Force)).await;
        assert_eq!(plain, with);
        assert!(seed > 0 || report.tally.windows > 0);
    }
}

#[tokio::test]
async fn answers_made_with_windows_are_computed_again_and_found_the_same() {
    let bench = bench(settings(forced())).await;
    for i in 0..6 {
        let mut asked = job(&prompt(i), 40);
        asked.sampling = Sampling { temperature: 0.3 * i as f32, seed: 9, ..Sampling::default() };
        bench.run(asked).await;
    }
    let shown = view(&bench, |v| v.self_check.waiting == 0 && v.self_check.checked == 6).await.self_check;
    assert_eq!((shown.differed, shown.skipped), (0, 0));
    // Nothing of it is left in a slot's way.
    assert_eq!(bench.run(job(&prompt(2), 40)).await.tokens, quoted(&prompt(2), 40));
}

#[tokio::test]
async fn a_model_whose_rows_depend_on_their_neighbours_is_found_out() {
    let bench = bench(settings(forced())).await;
    bench.probe.rows_depend_on_neighbours.store(true, Ordering::Release);
    bench.run(job(&prompt(0), 60)).await;
    let shown = view(&bench, |v| v.self_check.checked == 1).await.self_check;
    assert_eq!(shown.differed, 1);
    let difference = &shown.differences[0];
    assert!(difference.at < 60 && difference.of == 60 && difference.request.starts_with("req-"));
}
