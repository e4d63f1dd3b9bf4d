//! Settings that an operator changes while sequences run and wait.

use super::{Bench, SETTINGS, collect, expected, job};
use crate::control::WaitCode;
use crate::control::hands::Touch;
use crate::control::speculation::SpeculationPolicy;
use crate::engine::runtime::generation::speculation::Speculation;
use crate::profile::{GenerationSettings, SpeculationSettings};

impl Bench {
    /// What a change of settings does: the worker finds the new ones, and is woken.
    fn adopt(&self, settings: GenerationSettings) {
        let mut profile = self.context.handle.profile.clone();
        profile.generation = Some(settings);
        self.context.handle.adopt(&profile);
        self.worker.wake();
    }
}

#[tokio::test]
async fn fewer_slots_let_running_sequences_end_and_more_are_taken_again() {
    let bench = Bench::gated(SETTINGS).await;
    let running = [bench.submit(job(&[5, 6], 9)).expect("admitted"), bench.submit(job(&[7], 9)).expect("admitted")];
    bench.gate.let_pass(2);
    bench.shown(|g| g.slots_used == 2).await;
    bench.adopt(GenerationSettings { slots: 1, queue: 1, ..SETTINGS });
    let third = bench.submit(job(&[8], 3)).expect("admitted");
    assert!(bench.submit(job(&[9], 3)).is_err(), "the queue is one long now");
    bench.gate.open();
    for (ticket, prompt) in running.into_iter().zip([&[5, 6][..], &[7]]) {
        assert_eq!(collect(ticket).await.tokens, expected(prompt, 9).0, "none was cut");
    }
    assert_eq!(collect(third).await.tokens, expected(&[8], 3).0);
    bench.quiet().await;
    bench.gate.shut();
    bench.adopt(GenerationSettings { slots: 1, ..SETTINGS });
    let two = [bench.submit(job(&[5], 9)).expect("admitted"), bench.submit(job(&[6], 9)).expect("admitted")];
    bench.gate.let_pass(2);
    let shown = bench.shown(|g| g.slots_used == 1 && g.queued == 1).await;
    assert_eq!((shown.slots, shown.max_queue), (1, 4));
    bench.adopt(SETTINGS);
    bench.gate.let_pass(2);
    bench.shown(|g| g.slots_used == 2).await;
    bench.gate.open();
    for ticket in two {
        collect(ticket).await.end.expect("an end").expect("served");
    }
}

#[tokio::test]
async fn a_held_queue_waits_says_why_and_lets_those_go_who_leave() {
    let bench = Bench::start(GenerationSettings { paused: true, ..SETTINGS }).await;
    let gone = bench.submit(job(&[5], 3)).expect("admitted");
    let stays = bench.submit(job(&[6], 3)).expect("admitted");
    bench.shown(|g| g.queued == 2 && g.slots_used == 0).await;
    let codes: Vec<_> = bench.worker.view().places().map(|(_, _, wait)| wait.code).collect();
    assert!(codes.iter().all(|code| *code == WaitCode::LanePaused), "{codes:?}");
    drop(gone);
    bench.shown(|g| g.queued == 1).await;
    bench.adopt(SETTINGS);
    assert_eq!(collect(stays).await.tokens, expected(&[6], 3).0);
}

#[tokio::test]
async fn a_held_request_lets_others_pass_and_is_served_when_it_is_let_go() {
    let bench = Bench::gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let runs = bench.submit(job(&[5], 3)).expect("admitted");
    let held = bench.submit(job(&[6], 3)).expect("admitted");
    let next = bench.submit(job(&[7], 3)).expect("admitted");
    let hold = |id, held| {
        let record = bench.context.shared.registry.get(id).expect("alive");
        bench.worker.touch(&record, Touch { held: Some(held), ..Touch::default() }, false)
    };
    bench.gate.let_pass(1);
    bench.shown(|g| g.slots_used == 1 && g.queued == 2).await;
    assert!(hold(runs.id, true).is_err(), "it runs");
    hold(held.id, true).expect("it waits");
    bench.gate.open();
    assert_eq!(collect(runs).await.tokens, expected(&[5], 3).0);
    assert_eq!(collect(next).await.tokens, expected(&[7], 3).0, "it was passed by");
    bench.shown(|g| g.slots_used == 0 && g.queued == 1).await;
    let places: Vec<_> = bench.worker.view().places().map(|(_, place, wait)| (place, wait.code)).collect();
    assert_eq!(places, [(None, WaitCode::Held)]);
    hold(held.id, false).expect("it waits");
    assert_eq!(collect(held).await.tokens, expected(&[6], 3).0);
}

#[tokio::test]
async fn what_an_idle_worker_is_told_is_shown() {
    let bench = Bench::start(SETTINGS).await;
    bench.adopt(GenerationSettings { slots: 1, ..SETTINGS });
    bench.shown(|g| g.slots == 1).await;
}

#[tokio::test]
async fn policy_and_widths_change_between_two_passes() {
    let forced = SpeculationSettings { policy: SpeculationPolicy::Force, width_max: 2, ..SpeculationSettings::DEFAULT };
    let metrics = crate::engine::runtime::metrics::Metrics::default().speculation("fake");
    let bench = Bench::drafting(
        GenerationSettings { speculation: forced, ..SETTINGS },
        Speculation::new("fake", forced, metrics),
    )
    .await;
    let prompt: Vec<u32> = (0..40).map(|i| 10 + i % 5).collect();
    let answer = expected(&prompt, 12).0;
    assert_eq!(bench.run(job(&prompt, 12)).await.tokens, answer);
    let off = SpeculationSettings { policy: SpeculationPolicy::Off, width_max: 7, ..forced };
    bench.adopt(GenerationSettings { speculation: off, ..SETTINGS });
    let seen = bench.shown(|g| g.speculation.as_ref().is_some_and(|s| s.policy == SpeculationPolicy::Off)).await;
    let seen = seen.speculation.expect("there");
    assert_eq!((seen.width_max, seen.gate.on), (7, false));
    let windows = seen.totals.windows;
    assert_eq!(bench.run(job(&prompt, 12)).await.tokens, answer);
    let after = bench.shown(|g| g.slots_used == 0).await.speculation.expect("there");
    assert_eq!(after.totals.windows, windows, "none was verified while it was off");
    bench.adopt(GenerationSettings { speculation: forced, ..SETTINGS });
    bench.shown(|g| g.speculation.as_ref().is_some_and(|s| s.gate.on)).await;
}
