//! A second model drafts: never text, and never an end, depends on it.

use super::{Bench, SETTINGS, collect, expected, job};
use crate::control::speculation::{SpeculationPolicy, SpeculationView};
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::gguf::vocabulary::Scheme;
use crate::engine::models::testing::{FakeLm, Gate, Probe, alphabet, hashed};
use crate::engine::models::{LoadedModel, ModelFront};
use crate::engine::runtime::generation::speculation::Speculation;
use crate::engine::runtime::generation::thread::Load;
use crate::engine::runtime::handle::LoadState;
use crate::engine::runtime::metrics::Metrics;
use crate::profile::{GenerationSettings, SpeculationSettings};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The letters that a hash of all tokens gives repeat nothing that could be copied: what is proposed was drafted.
async fn drafted_by(settings: GenerationSettings, load: impl FnOnce(usize) -> LoadedModel + Send + 'static) -> Bench {
    let drafter = Speculation::new("fake", settings.speculation, Metrics::default().speculation("fake"));
    let load: Load = Box::new(move || Ok(load(settings.slots)));
    Bench::assisted(hashed, settings, Box::new(drafter), Some(("small".to_string(), load)), 60.0).await
}

fn forced() -> SpeculationSettings {
    SpeculationSettings { policy: SpeculationPolicy::Force, self_check_ratio: 0.0, ..SpeculationSettings::DEFAULT }
}

fn settings() -> GenerationSettings {
    GenerationSettings { queue: 16, speculation: forced(), ..SETTINGS }
}

/// A draft model that says what `next` says, and what is to be known of it.
async fn bench(settings: GenerationSettings, next: fn(&[u32]) -> u32) -> (Bench, Arc<Probe>) {
    let probe = Arc::new(Probe::default());
    let own = probe.clone();
    (drafted_by(settings, move |slots| FakeLm::load(slots, 8_192, next, Gate::new(), own)).await, probe)
}

fn prompt(i: u32) -> Vec<u32> {
    (0..9).map(|k| 1 + (k * 5 + i) % 60).collect()
}

async fn view(bench: &Bench) -> SpeculationView {
    let shown = bench.shown(|g| g.slots_used == 0 && g.speculation.is_some()).await;
    shown.speculation.expect("it was there")
}

#[tokio::test]
async fn drafts_of_the_same_model_all_hold() {
    let (bench, draft) = bench(settings(), hashed).await;
    for i in 0..4 {
        assert_eq!(bench.run(job(&prompt(i), 60)).await.tokens, expected(&prompt(i), 60).0);
    }
    let view = view(&bench).await;
    let native = view.recent.survival.native;
    assert!(native.eligible[0] > 10 && native.eligible == native.survived, "{native:?}");
    assert!(bench.passes().len() < 120, "{} passes for 240 tokens", bench.passes().len());
    let shown = view.draft.expect("a model drafts");
    assert_eq!((shown.model.as_str(), shown.on, shown.failures), ("small", true, 0));
    assert_eq!(shown.passes, draft.passes().len() as u64);
    assert!(shown.tokens >= native.eligible[0] && shown.pass_ms.is_some());
}

#[tokio::test]
async fn drafts_that_never_hold_change_nothing() {
    let (bench, _) = bench(settings(), alphabet).await;
    let tickets: Vec<_> = (0..6).map(|i| bench.submit(job(&prompt(i), 50)).expect("admitted")).collect();
    for (i, ticket) in (0..6).zip(tickets) {
        assert_eq!(collect(ticket).await.tokens, expected(&prompt(i), 50).0);
    }
    let native = view(&bench).await.recent.survival.native;
    assert!(native.eligible[0] > 20 && native.survived[0] * 5 < native.eligible[0], "{native:?}");
}

/// Sequences lose their slots and are read again, and rewinds of the draft model fail.
#[tokio::test]
async fn preemptions_and_failed_rewinds_leave_no_trace() {
    let tight = GenerationSettings { slots: 3, kv_tokens: 70, kv_reserve: 4, ..settings() };
    let (bench, draft) = bench(tight, hashed).await;
    draft.failing_rewinds.store(5, Ordering::Release);
    let tickets: Vec<_> = (0..8).map(|i| bench.submit(job(&prompt(i), 45)).expect("admitted")).collect();
    for (i, ticket) in (0..8).zip(tickets) {
        assert_eq!(collect(ticket).await.tokens, expected(&prompt(i), 45).0);
    }
    let shown = bench.shown(|g| g.slots_used == 0).await;
    assert!(shown.preemptions > 0 && shown.kv_used_tokens == 0, "{shown:?}");
    let draft = shown.speculation.and_then(|s| s.draft).expect("a model drafts");
    assert!(draft.on && draft.tokens > 0, "{draft:?}");
}

#[tokio::test]
async fn a_draft_model_that_fails_is_turned_off_and_answers_go_on() {
    for panics in [true, false] {
        let (bench, draft) = bench(settings(), hashed).await;
        bench.run(job(&prompt(0), 20)).await;
        let count = if panics { &draft.panicking_passes } else { &draft.failing_passes };
        count.store(1, Ordering::Release);
        for i in 1..4 {
            assert_eq!(bench.run(job(&prompt(i), 40)).await.tokens, expected(&prompt(i), 40).0);
        }
        let shown = view(&bench).await.draft.expect("it is still shown");
        let why = shown.why.expect("it says why");
        assert!(
            !shown.on && shown.failures == 1 && why.contains(if panics { "panicked" } else { "told to fail" }),
            "{why}"
        );
    }
}

#[tokio::test]
async fn under_the_gain_policy_drafts_that_cost_as_much_as_they_save_are_hardly_made() {
    let eager = SpeculationSettings { exploration_ratio: 0.5, ..SpeculationSettings::DEFAULT };
    let gain = GenerationSettings { speculation: eager, ..settings() };
    let (bench, draft) = bench(gain, hashed).await;
    assert_eq!(bench.run(job(&prompt(0), 100)).await.tokens, expected(&prompt(0), 100).0);
    // Both fakes take about no time: whatever the gate finds, text is the same and the draft was tried.
    assert!(!draft.passes().is_empty());
}

#[tokio::test]
async fn a_model_with_other_tokens_is_refused_with_the_first_difference() {
    let bench = drafted_by(settings(), |slots| {
        let mut loaded = FakeLm::load(slots, 8_192, hashed, Gate::new(), Arc::default());
        if let ModelFront::Lm(front) = &mut loaded.front {
            let of = &front.vocabulary;
            let mut written: Vec<String> = (0..of.len() as u32).map(|id| of.written(id).to_string()).collect();
            written[7] = "seven".to_string();
            let kinds = (0..of.len() as u32).map(|id| of.kind(id)).collect();
            front.vocabulary = Arc::new(Vocabulary::new(Scheme::ByteLevel, written, kinds));
        }
        loaded
    })
    .await;
    let LoadState::Failed { why } = &*bench.context.handle.load_state() else { panic!("it loaded") };
    let said = "the draft model `small` has other tokens than `fake`: token 7 is \"'\" in the main model and \"seven\"";
    assert!(why.starts_with(said), "{why}");
    assert!(bench.submit(job(&prompt(0), 5)).is_err());
}
