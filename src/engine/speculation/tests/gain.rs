//! The policy `gain`: never much slower than plain, much faster where text repeats, and quick to see which it is.

use super::bench::{Line, Ran, compute_bound, copying_text, memory_bound, prose, run, run_noisy};
use super::*;
use crate::control::speculation::{GateCode, SpeculationChoice};
use crate::engine::speculation::Gate;
use crate::profile::SpeculationSettings;
use proptest::prelude::*;

const SETTINGS: fn() -> SpeculationSettings = SpeculationSettings::default;

fn lines(texts: Vec<(Vec<u32>, Vec<u32>)>) -> Vec<Line> {
    texts.into_iter().map(|(p, t)| Line::new(&SETTINGS(), SpeculationChoice::Auto, &p, t)).collect()
}

fn ran(texts: Vec<(Vec<u32>, Vec<u32>)>, cost: bench::Cost<'_>) -> (Gate, Ran) {
    let mut gate = Gate::new(&SETTINGS());
    let r = run(&mut gate, &mut lines(texts), cost);
    (gate, r)
}

#[test]
fn copying_is_twice_as_fast_at_least() {
    let (gate, r) = ran(vec![copying_text(1, 400, 1_000)], &memory_bound);
    assert!(r.speed() >= 2.0, "{}", r.speed());
    assert_eq!((gate.verdict().on, gate.verdict().because), (true, GateCode::PredictedGain));
    assert!(gate.verdict().measured_gain.is_some_and(|g| g > 2.0), "{:?}", gate.verdict());
}

#[test]
fn prose_without_repeats_is_hardly_slower_and_says_why_it_is_off() {
    for seed in 0..6 {
        let (gate, r) = ran(vec![(prose(seed, 100), prose(seed + 77, 600))], &memory_bound);
        assert!(r.speed() >= 0.97, "seed {seed}: {}", r.speed());
        let v = gate.verdict();
        assert!(
            !v.on && matches!(v.because, GateCode::PredictedLoss | GateCode::NothingProposed | GateCode::Unmeasured),
            "{v:?}"
        );
    }
}

#[test]
fn where_rows_cost_as_much_as_tokens_it_stays_off_even_for_copies() {
    let (gate, r) = ran(vec![copying_text(3, 600, 12)], &compute_bound);
    assert!(r.speed() >= 0.97, "{}", r.speed());
    assert_eq!(gate.verdict().because, GateCode::PredictedLoss);
}

#[test]
fn it_turns_off_soon_after_the_text_stops_repeating() {
    let (prompt, mut answer) = copying_text(5, 300, 1_000);
    // From here on, runs of three that the text knows lead astray.
    let from = answer.len();
    for i in 0..300u32 {
        let at = (i as usize * 7_919) % 290;
        answer.extend_from_slice(&prompt[at..at + 3]);
        answer.push(40_000 + i);
    }
    let mut gate = Gate::new(&SETTINGS());
    let mut line = lines(vec![(prompt, answer)]);
    let r = run(&mut gate, &mut line, &memory_bound);
    let off = r.turns.iter().find(|(_, v)| !v.on).expect("it turned off");
    let on = r.turns.iter().find(|(_, v)| v.on).expect("it was on");
    assert!(on.0 < off.0 && matches!(off.1.because, GateCode::PredictedLoss | GateCode::MeasuredLoss), "{off:?}");
    // The copied part took about a fourth of its tokens in passes; then every fourth pass has a wrong proposal.
    assert!(off.0 < from / 4 + 96, "turned off in pass {} of a text of {from}", off.0);
}

#[test]
fn a_second_copying_request_is_fast_from_its_first_tokens() {
    let mut gate = Gate::new(&SETTINGS());
    run(&mut gate, &mut lines(vec![copying_text(1, 300, 1_000)]), &memory_bound);
    let r = run(&mut gate, &mut lines(vec![copying_text(2, 60, 1_000)]), &memory_bound);
    assert!(r.speed() > 2.0, "{}", r.speed());
}

#[test]
fn eight_together_are_never_much_slower_and_those_that_copy_gain() {
    let mixed =
        |copies: usize| -> Vec<_> {
            (0..8u64)
                .map(|i| {
                    if (i as usize) < copies { copying_text(i, 300, 1_000) } else { (prose(i, 80), prose(i + 50, 300)) }
                })
                .collect()
        };
    for copies in [0, 1, 4, 8] {
        let (_, r) = ran(mixed(copies), &memory_bound);
        assert!(r.speed() >= 0.97, "{copies} copies: {}", r.speed());
        if copies == 8 {
            assert!(r.speed() >= 1.25, "{}", r.speed());
        }
    }
}

#[test]
fn a_machine_that_pauses_does_not_turn_it() {
    let mut gate = Gate::new(&SETTINGS());
    let r = run_noisy(&mut gate, &mut lines(vec![copying_text(1, 400, 1_000)]), &memory_bound, |pass| {
        if pass % 9 == 4 { 400_000 } else { 0 }
    });
    assert!(r.speed() >= 2.0, "{}", r.speed());
    let mut gate = Gate::new(&SETTINGS());
    let text = vec![(prose(4, 100), prose(9, 600))];
    let r = run_noisy(&mut gate, &mut lines(text), &memory_bound, |pass| if pass % 7 == 3 { 100_000 } else { 0 });
    assert!(r.speed() >= 0.97, "{}", r.speed());
}

/// Two thirds of the machine are somebody else's: any pass may take three times as long.
#[test]
fn a_machine_that_is_mostly_taken_away_does_not_turn_it_either() {
    for seed in 0..6 {
        let taken = |pass: usize| u64::from(bench::Lcg(seed * 1_000 + pass as u64).next(40_000)).saturating_sub(10_000);
        let mut gate = Gate::new(&SETTINGS());
        let r = run_noisy(&mut gate, &mut lines(vec![copying_text(seed, 400, 1_000)]), &memory_bound, taken);
        assert!(r.speed() >= 1.9, "seed {seed}: {}", r.speed());
        let shut = r.turns.iter().filter(|(_, v)| v.because == GateCode::MeasuredLoss).count();
        assert_eq!(shut, 0, "seed {seed}: {:?}", r.turns);
        let mut gate = Gate::new(&SETTINGS());
        let text = vec![(prose(seed, 100), prose(seed + 9, 600))];
        let r = run_noisy(&mut gate, &mut lines(text), &memory_bound, taken);
        assert!(r.speed() >= 0.95, "seed {seed}: {}", r.speed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the text and the costs, a run of some length is hardly slower than without windows.
    #[test]
    fn it_is_never_much_slower_than_plain(
        seed: u64,
        words in 2u32..400,
        base in 500u64..20_000,
        row in 10u64..10_000,
        sequences in 1usize..9,
        every in 3usize..60,
        copy: bool,
    ) {
        let mut lcg = bench::Lcg(seed);
        let texts: Vec<_> = (0..sequences).map(|i| {
            if copy {
                copying_text(seed.wrapping_add(i as u64), 700, every)
            } else {
                (Vec::new(), (0..700).map(|_| lcg.next(words)).collect())
            }
        }).collect();
        let mut gate = Gate::new(&SETTINGS());
        let mut lines = lines(texts);
        let r = run(&mut gate, &mut lines, &|rows, _| base + row * rows as u64);
        prop_assert!(r.speed() >= 0.97, "{}", r.speed());
    }
}
