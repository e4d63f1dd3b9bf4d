//! A model with a draft head: asked where its drafts pay, left alone where they do not.

use super::super::proposers::drafting;
use super::super::{Draft, Gate, Speculator, accept};
use super::bench::{Cost, Line, Ran, compute_bound, copying_text, memory_bound, prose, run};
use crate::control::speculation::{GateCode, SpeculationChoice};
use crate::profile::SpeculationSettings;

fn ran(texts: Vec<(Vec<u32>, Vec<u32>)>, right: u32, cost: Cost<'_>) -> (Gate, Ran) {
    let settings = SpeculationSettings::default();
    let mut gate = Gate::new(&settings);
    let line = |(p, t): (Vec<u32>, Vec<u32>)| Line::with_head(&settings, SpeculationChoice::Auto, &p, t, right);
    let mut lines: Vec<Line> = texts.into_iter().map(line).collect();
    let ran = run(&mut gate, &mut lines, cost);
    (gate, ran)
}

fn fresh(seed: u64, n: usize) -> (Vec<u32>, Vec<u32>) {
    (prose(seed, 100), prose(seed + 77, n))
}

#[test]
fn prose_gains_where_drafts_hold_often() {
    // Three of five hold: 1.6 tokens for 12.6 ms instead of one for 10.
    let (gate, r) = ran(vec![fresh(1, 800)], 60, &memory_bound);
    assert!(r.speed() >= 1.15, "{}", r.speed());
    assert_eq!((gate.verdict().on, gate.verdict().because), (true, GateCode::PredictedGain));
}

#[test]
fn several_sequences_gain_together() {
    let (_, r) = ran((0..3).map(|i| fresh(i, 400)).collect(), 70, &memory_bound);
    assert!(r.speed() >= 1.15, "{}", r.speed());
}

#[test]
fn drafts_that_seldom_hold_are_soon_left_and_the_gate_says_why() {
    // Nothing repeats, so that nothing but drafts can be proposed.
    let (gate, r) = ran(vec![(vec![1], (1_000..2_200).collect())], 5, &memory_bound);
    assert!(r.speed() >= 0.98, "{}", r.speed());
    assert_eq!((gate.verdict().on, gate.verdict().because), (false, GateCode::PredictedLoss));
    assert!(r.drafting > 0 && r.drafting < r.plainly / 100, "{} of {}", r.drafting, r.plainly);
}

#[test]
fn where_rows_cost_as_much_as_tokens_the_head_is_left_alone() {
    let (gate, r) = ran(vec![fresh(3, 1_000)], 60, &compute_bound);
    assert!(r.speed() >= 0.97, "{}", r.speed());
    assert!(!gate.verdict().on);
}

#[test]
fn copies_that_are_likelier_than_drafts_are_not_replaced() {
    let settings = SpeculationSettings::default();
    let (prompt, target) = copying_text(1, 400, 1_000);
    let mut gate = Gate::new(&settings);
    let mut line = [Line::new(&settings, SpeculationChoice::Auto, &prompt, target.clone())];
    let without = run(&mut gate, &mut line, &memory_bound).speed();
    let (_, with) = ran(vec![(prompt, target)], 30, &memory_bound);
    assert!(with.speed() >= 0.97 * without, "{} against {without}", with.speed());
}

#[test]
fn a_sequence_wants_drafts_unless_it_may_copy() {
    let settings = SpeculationSettings::default();
    let model = Gate::new(&settings);
    let speculator = |choice| Speculator::new(&settings, choice, drafting(&settings));
    let mut s = speculator(SpeculationChoice::Auto);
    let repeating = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4];
    assert!(s.wants_draft(&repeating, 9, model.survival()).is_none(), "a copy is as likely to hold");
    assert!(s.wants_draft(&repeating[..5], 9, model.survival()).is_some());
    assert!(
        s.wants_draft(&repeating[..5], 1, model.survival()).is_none(),
        "the target's own token is all there is room for"
    );
    assert!(s.wants_draft(&[], 9, model.survival()).is_none());
    assert!(speculator(SpeculationChoice::Off).wants_draft(&repeating[..5], 9, model.survival()).is_none());
}

/// A draft counts as native, and where it came from follows from the step before.
#[test]
fn drafts_are_told_apart_from_copies() {
    let settings = SpeculationSettings::default();
    let model = Gate::new(&settings);
    let mut s = Speculator::new(&settings, SpeculationChoice::Force, drafting(&settings));
    let mut history = vec![1, 2];
    for (draft, target) in [(vec![3], [3, 4]), (vec![5], [6, 6]), (vec![7], [7, 8])] {
        s.feed(Draft::new(history.len(), draft, s.origin(history.len())));
        let offer = s.offer(&history, 9, model.survival()).expect("a draft");
        let window = s.open(&history, offer.width).expect("a history");
        let accepted = accept(window.proposals(), &target[..=window.width()], 9, |_| false);
        history.extend(&accepted.commit);
        s.settle(&accepted);
    }
    let survival = s.tally().survival;
    assert_eq!((survival.native.eligible[0], survival.native.survived[0], survival.tail.eligible[0]), (3, 2, 0));
}
