//! The controller, clause by clause, with numbers that can be checked by hand.

use super::*;
use crate::engine::scheduler::{Adoption, BatchCaps, CostLayers, Layered, Micros};
use crate::profile::Origin;
use MoveCause::{AtBound, Calibrated, Frozen, Headroom, LowFill, NoLatency, Starvation, Uncalibrated};

fn set(value: u64) -> Layered {
    Layered::set(value, Origin::BuiltIn)
}

fn pi() -> ControllerSettings {
    ControllerSettings { mode: ControllerMode::Pi, ..ControllerSettings::default() }
}

/// A target that is known from the start, so that a step moves the knobs.
fn aimed(target: f64) -> ControllerSettings {
    ControllerSettings { target_ms: Some(target), ..pi() }
}

fn adaptive(settings: ControllerSettings, budget: u64) -> Adaptive {
    Adaptive::new(settings, CostLayers::new(Some(set(budget)))).expect("a derived range is sound")
}

fn secs(s: f64) -> Micros {
    Micros((s * 1e6) as u64)
}

/// Requests answered in `ms`, as many as the window holds, so that the median is `ms`.
fn answered(adaptive: &mut Adaptive, ms: f64) {
    (0..200).for_each(|_| adaptive.answered(Micros::from_ms(ms)));
}

/// Ten batches of `size`: one step. What became of the window and the cost cap.
fn step(adaptive: &mut Adaptive, at: f64, size: usize) -> [CapMove; 2] {
    for n in 1..=9 {
        assert_eq!(adaptive.completed(secs(at), Some(size)), vec![], "batch {n} of ten");
    }
    let moves = adaptive.completed(secs(at), Some(size));
    moves.try_into().expect("a step says what became of both knobs")
}

fn caps(adaptive: &Adaptive) -> (f64, u64) {
    let caps = adaptive.caps(BatchCaps::default());
    (caps.wait.as_ms(), caps.max_cost)
}

#[test]
fn off_it_moves_nothing_and_the_caps_are_what_they_are_set_to() {
    let off = ControllerSettings { initial_wait_ms: 3.0, ..ControllerSettings::default() };
    let mut adaptive = adaptive(off, 1_000);
    answered(&mut adaptive, 9_999.0);
    (0..100).for_each(|_| assert_eq!(adaptive.completed(secs(1.0), Some(1)), vec![]));
    assert_eq!(caps(&adaptive), (3.0, 1_000), "neither range binds");
    assert_eq!(adaptive.view().streak, 0);
}

#[test]
fn calibration_waits_for_samples_and_for_a_tenth_batch() {
    let mut adaptive = adaptive(pi(), 16_384);
    (0..9).for_each(|_| adaptive.inferred(Micros::from_ms(100.0)));
    assert_eq!(step(&mut adaptive, 1.0, 4).map(|m| m.cause), [Uncalibrated; 2]);
    adaptive.inferred(Micros::from_ms(100.0));
    for _ in 0..9 {
        adaptive.completed(secs(2.0), Some(4));
        assert!(!adaptive.view().calibrated, "enough samples, and not the tenth batch");
    }
    let moves = adaptive.completed(secs(2.0), Some(4));
    assert_eq!(moves.iter().map(|m| m.cause).collect::<Vec<_>>(), vec![Calibrated; 2]);
    assert_eq!(adaptive.view().target_ms, Some(150.0), "1.5 times the median");
    assert_eq!(caps(&adaptive), (15.0, 16_384), "the step that calibrates moves nothing");
}

#[test]
fn a_calibrated_target_is_clamped() {
    for (inference, target) in [(1.0, 5.0), (10.0, 15.0), (4_000.0, 500.0)] {
        let mut adaptive = adaptive(pi(), 16_384);
        (0..10).for_each(|_| adaptive.inferred(Micros::from_ms(inference)));
        step(&mut adaptive, 1.0, 4);
        assert_eq!(adaptive.view().target_ms, Some(target));
    }
}

#[test]
fn without_latency_it_holds() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    (0..9).for_each(|_| adaptive.answered(Micros::from_ms(50.0)));
    let [wait, cost] = step(&mut adaptive, 1.0, 4);
    assert_eq!((wait.cause, cost.cause), (NoLatency, NoLatency));
    assert_eq!((wait.from, wait.to, wait.observed), (15.0, 15.0, None));
}

#[test]
fn the_first_step_has_no_time_and_so_no_integral() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 90.0);
    let [wait, _] = step(&mut adaptive, 50.0, 4);
    assert_eq!((wait.cause, wait.to), (Headroom, 18.0), "15 + 0.3 × 10 + 0.05 × 0");
    assert_eq!(adaptive.view().integral, 0.0);
    assert_eq!((wait.observed, wait.target), (Some(90.0), Some(100.0)));
    // One second later: integral 10 × 1.
    let [wait, _] = step(&mut adaptive, 51.0, 4);
    assert_eq!(adaptive.view().integral, 10.0);
    assert_eq!(wait.to, 18.0 + 3.0 + 0.5);
}

#[test]
fn the_integral_is_clamped() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 99.0);
    step(&mut adaptive, 0.0, 4);
    for n in 1..=30 {
        step(&mut adaptive, f64::from(n) * 2.0, 4);
    }
    assert_eq!(adaptive.view().integral, 20.0, "30 steps of 2 s at 1 ms would be 60");
}

#[test]
fn a_long_step_counts_five_seconds_and_decays_by_them() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 99.0);
    step(&mut adaptive, 0.0, 4);
    step(&mut adaptive, 2.0, 4);
    assert_eq!(adaptive.view().integral, 2.0, "two seconds do not decay");
    step(&mut adaptive, 4.5, 4);
    let after = 2.0 * 0.5f64.powf(0.5) + 2.5;
    assert!((adaptive.view().integral - after).abs() < 1e-12);
    // An hour of silence is five seconds: 0.5³ of what there was is left, and 5 × 1 are added.
    step(&mut adaptive, 3_600.0, 4);
    assert!((adaptive.view().integral - (after * 0.125 + 5.0)).abs() < 1e-12, "{}", adaptive.view().integral);
}

#[test]
fn nothing_is_integrated_against_a_bound() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 120.0);
    // The window is at its floor and would have to fall.
    for n in 0..5 {
        let [wait, _] = step(&mut adaptive, f64::from(n), 4);
        assert_eq!((wait.cause, wait.to), (AtBound, 15.0));
    }
    assert_eq!(adaptive.view().integral, 0.0);
    // Headroom in the other direction counts at once.
    answered(&mut adaptive, 90.0);
    let [wait, _] = step(&mut adaptive, 5.0, 4);
    assert_eq!((adaptive.view().integral, wait.to), (10.0, 15.0 + 3.0 + 0.5));
}

#[test]
fn the_window_stays_in_its_range() {
    let mut adaptive = adaptive(aimed(400.0), 16_384);
    answered(&mut adaptive, 1.0);
    let [wait, _] = step(&mut adaptive, 0.0, 4);
    assert_eq!(wait.to, 50.0);
    let [wait, _] = step(&mut adaptive, 1.0, 4);
    assert_eq!((wait.cause, wait.to), (AtBound, 50.0));
    assert_eq!(adaptive.view().integral, 0.0);
    answered(&mut adaptive, 2_000.0);
    let [wait, _] = step(&mut adaptive, 2.0, 4);
    assert_eq!((wait.cause, wait.to), (Headroom, 15.0), "one step can fall to the floor");
}

#[test]
fn the_cost_cap_moves_only_while_batches_are_filled() {
    let mut adaptive = adaptive(aimed(100.0), 10_000);
    answered(&mut adaptive, 80.0);
    let [_, cost] = step(&mut adaptive, 0.0, 4);
    assert_eq!((cost.cause, cost.fill), (LowFill, None), "no batch yet");
    adaptive.filled(6_900, 10_000);
    assert_eq!(step(&mut adaptive, 0.0, 4)[1].cause, LowFill);
    (0..50).for_each(|_| adaptive.filled(7_500, 10_000));
    let [_, cost] = step(&mut adaptive, 0.0, 4);
    // 20 ms of 100 ms, times 0.3 × 0.5.
    assert_eq!((cost.cause, cost.from, cost.to), (Headroom, 10_000.0, 10_300.0));
    answered(&mut adaptive, 137.0);
    let [_, cost] = step(&mut adaptive, 0.0, 4);
    assert_eq!(cost.to, (10_300.0f64 * (1.0 - 0.37 * 0.15)).trunc(), "truncated");
}

#[test]
fn the_cost_cap_stays_in_its_range() {
    let mut adaptive = adaptive(aimed(100.0), 1_000);
    (0..50).for_each(|_| adaptive.filled(1, 1));
    answered(&mut adaptive, 100_000.0);
    assert_eq!(step(&mut adaptive, 0.0, 4)[1].to, 256.0, "the floor of 1 000");
    assert_eq!(step(&mut adaptive, 1.0, 4)[1].cause, AtBound);
    answered(&mut adaptive, 0.0);
    for n in 0..40 {
        step(&mut adaptive, f64::from(n), 4);
    }
    assert_eq!(caps(&adaptive).1, 4_000);
    assert_eq!(step(&mut adaptive, 99.0, 4)[1].cause, AtBound);
}

#[test]
fn lone_requests_for_long_at_both_floors_begin_anew() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 10_000.0);
    (0..50).for_each(|_| adaptive.filled(1, 1));
    step(&mut adaptive, 0.0, 2);
    assert_eq!(caps(&adaptive), (15.0, 4_096), "both at their floors");
    step(&mut adaptive, 1.0, 1);
    assert_eq!(adaptive.view().resets, 0, "ten of one are not twenty");
    let [wait, cost] = step(&mut adaptive, 2.0, 0);
    assert_eq!((wait.cause, wait.to), (Starvation, 15.0), "the middle of 15 and 15");
    assert_eq!((cost.cause, cost.to), (Starvation, 16_384.0), "four floors are more than half the start");
    let view = adaptive.view();
    assert_eq!((view.resets, view.streak, view.integral), (1, 0, 0.0));
    // The clock was cleared: the next step has no time.
    answered(&mut adaptive, 99.0);
    step(&mut adaptive, 3.0, 2);
    assert_eq!(adaptive.view().integral, 0.0);
}

#[test]
fn starvation_needs_both_floors() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 10_000.0);
    for n in 0..5 {
        assert_eq!(step(&mut adaptive, f64::from(n), 1)[1].cause, LowFill, "the cost cap is at its start");
    }
    assert_eq!(adaptive.view().resets, 0);
}

#[test]
fn a_batch_of_unknown_size_leaves_the_streak_and_still_counts() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    (0..7).for_each(|_| drop(adaptive.completed(secs(0.0), Some(1))));
    adaptive.completed(secs(0.0), None);
    assert_eq!(adaptive.view().streak, 7);
    adaptive.completed(secs(0.0), Some(0));
    assert_eq!(adaptive.view().streak, 8, "none is no more than one");
    assert_eq!(adaptive.completed(secs(0.0), Some(2)).len(), 2, "the tenth");
    assert_eq!(adaptive.view().streak, 0);
}

#[test]
fn frozen_it_takes_samples_and_moves_nothing() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 99.0);
    step(&mut adaptive, 0.0, 4);
    let before = caps(&adaptive);
    adaptive.set_settings(secs(1.0), ControllerSettings { freeze: true, ..aimed(100.0) });
    let [wait, cost] = step(&mut adaptive, 2.0, 4);
    assert_eq!((wait.cause, cost.cause, caps(&adaptive)), (Frozen, Frozen, before));
    assert_eq!((wait.observed, adaptive.view().frozen), (Some(99.0), true));
    adaptive.set_settings(secs(60.0), aimed(100.0));
    step(&mut adaptive, 61.0, 4);
    assert_eq!(adaptive.view().integral, 0.0, "the time it was held is no part of the next step");
}

#[test]
fn the_start_is_within_both_ranges() {
    let settings = ControllerSettings { initial_wait_ms: 2.0, ..pi() };
    let layers = CostLayers::new(Some(set(16_384))).within(None, Some(set(1)), None);
    let adaptive = Adaptive::new(settings, layers).expect("sound");
    assert_eq!(caps(&adaptive), (15.0, 4_096));
    let settings = ControllerSettings { initial_wait_ms: 900.0, ..pi() };
    let layers = CostLayers::new(Some(set(16_384))).within(None, None, Some(set(9_000)));
    let adaptive = Adaptive::new(settings, layers).expect("sound");
    assert_eq!(caps(&adaptive), (50.0, 9_000), "a range binds from the first batch");
}

#[test]
fn another_budget_begins_anew_and_keeps_the_latencies() {
    let mut adaptive = Adaptive::new(aimed(100.0), CostLayers::default()).expect("sound");
    answered(&mut adaptive, 90.0);
    (0..50).for_each(|_| adaptive.filled(1, 1));
    step(&mut adaptive, 0.0, 1);
    step(&mut adaptive, 1.0, 1);
    assert!(adaptive.view().integral > 0.0 && caps(&adaptive).1 > 16_384);
    let before = caps(&adaptive);
    assert_eq!(adaptive.report_budget(secs(2.0), Some(0)), Ok((Adoption::NotReported, vec![])));
    assert_eq!(adaptive.report_budget(secs(2.0), Some(16_384)), Ok((Adoption::Unchanged, vec![])));
    assert_eq!(caps(&adaptive), before, "equal is no change: the controller goes on");
    let (adoption, moves) = adaptive.report_budget(secs(2.0), Some(720_000)).expect("sound");
    assert_eq!(adoption, Adoption::Adopted { from: 16_384, to: 720_000 });
    assert_eq!(
        moves.iter().map(|m| (m.knob, m.to, m.cause)).collect::<Vec<_>>(),
        vec![(Knob::Wait, 15.0, MoveCause::Budget), (Knob::Cost, 720_000.0, MoveCause::Budget),]
    );
    let view = adaptive.view();
    assert_eq!((view.integral, view.streak, view.fill_ratio), (0.0, 0, None));
    assert_eq!(view.observed_p50_ms, Some(90.0));
    assert_eq!((adaptive.range().floor, adaptive.range().ceiling), (180_000, 2_880_000));
}

#[test]
fn a_budget_that_breaks_the_range_is_refused_and_changes_nothing() {
    let layers = CostLayers::new(None).within(None, None, Some(set(8_000)));
    let mut adaptive = Adaptive::new(pi(), layers).expect("4 096 to 8 000");
    let before = caps(&adaptive);
    assert!(adaptive.report_budget(secs(1.0), Some(720_000)).is_err(), "its floor would be 180 000");
    assert_eq!((caps(&adaptive), adaptive.layers().budget().value), (before, 16_384));
}

#[test]
fn an_override_wins_and_can_be_let_go() {
    let mut adaptive = adaptive(pi(), 16_384);
    let (adoption, moves) = adaptive.override_cost(secs(1.0), Some(4_000)).expect("sound");
    assert_eq!((adoption, moves.len()), (Adoption::Adopted { from: 16_384, to: 4_000 }, 1));
    assert_eq!((moves[0].cause, caps(&adaptive).1), (MoveCause::Override, 4_000));
    assert_eq!(adaptive.layers().budget().origin.name(), "live");
    adaptive.override_cost(secs(2.0), None).expect("sound");
    assert_eq!(caps(&adaptive).1, 16_384);
}

#[test]
fn what_did_not_fit_into_memory_is_not_tried_again() {
    for mode in [ControllerMode::Off, ControllerMode::Pi] {
        let mut adaptive = adaptive(ControllerSettings { mode, ..aimed(100.0) }, 16_384);
        let moves = adaptive.out_of_memory(secs(1.0), 3_000);
        assert_eq!((moves[0].cause, moves[0].from, moves[0].to), (MoveCause::OutOfMemory, 16_384.0, 3_000.0));
        assert_eq!(adaptive.out_of_memory(secs(1.0), 9_000), vec![], "less fits already");
        answered(&mut adaptive, 1.0);
        (0..50).for_each(|_| adaptive.filled(1, 1));
        (0..50).for_each(|n| drop(adaptive.completed(secs(f64::from(n)), Some(4))));
        assert_eq!(caps(&adaptive).1, 3_000, "headroom does not raise it above what fits");
        adaptive.report_budget(secs(9.0), Some(1_000)).expect("pinned");
        adaptive.override_cost(secs(9.0), Some(20_000)).expect("sound");
        assert_eq!(caps(&adaptive).1, 20_000, "an operator may try again");
    }
}

#[test]
fn settings_change_while_it_runs() {
    let mut adaptive = adaptive(aimed(100.0), 16_384);
    answered(&mut adaptive, 1.0);
    step(&mut adaptive, 0.0, 4);
    assert_eq!(caps(&adaptive).0, 44.7);
    let moves = adaptive.set_settings(secs(1.0), ControllerSettings { max_wait_ms: 20.0, ..aimed(100.0) });
    assert_eq!((moves[0].knob, moves[0].to, moves[0].cause), (Knob::Wait, 20.0, MoveCause::Settings));
    adaptive.set_settings(secs(1.0), aimed(7.0));
    assert_eq!(adaptive.view().target_ms, Some(7.0));
    adaptive.set_settings(secs(1.0), pi());
    assert_eq!(adaptive.view().target_ms, None, "found anew");
    adaptive.set_settings(secs(1.0), ControllerSettings { every: 1, gain: 0.0, ..aimed(100.0) });
    assert_eq!(adaptive.completed(secs(2.0), Some(4)).len(), 2, "every batch");
    adaptive.set_settings(secs(3.0), ControllerSettings::default());
    assert_eq!(caps(&adaptive), (15.0, 16_384), "off: as they are set");
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_both_names() {
    let bad = |change: fn(&mut ControllerSettings)| {
        let mut settings = ControllerSettings::default();
        change(&mut settings);
        settings.check().expect_err("bad").to_string()
    };
    assert_eq!(ControllerSettings::default().check(), Ok(()));
    assert_eq!(bad(|s| s.min_wait_ms = 60.0), "min_wait_ms is 60 but max_wait_ms is 50: nothing lies between them");
    assert_eq!(bad(|s| s.max_target_ms = 1.0), "min_target_ms is 5 but max_target_ms is 1: nothing lies between them");
    assert_eq!(bad(|s| s.every = 0), "every is 0: it must be at least 1");
    assert_eq!(bad(|s| s.gain = f64::NAN), "gain is NaN: it must be a number that is not negative");
    assert_eq!(bad(|s| s.target_ms = Some(0.0)), "target_ms is 0: it must be above 0");
    assert!(bad(|s| s.min_samples = 51).contains("inference_window"));
}

#[test]
fn the_last_moves_are_remembered_and_a_long_hold_is_one_line() {
    let mut adaptive = adaptive(pi(), 16_384);
    for n in 0..20 {
        step(&mut adaptive, f64::from(n), 4);
    }
    let moves = adaptive.view().moves;
    assert_eq!(
        moves.iter().map(|m| (m.knob, m.cause, m.at)).collect::<Vec<_>>(),
        vec![(Knob::Wait, Uncalibrated, secs(19.0)), (Knob::Cost, Uncalibrated, secs(19.0)),]
    );
    adaptive.set_settings(secs(20.0), aimed(100.0));
    answered(&mut adaptive, 99.9);
    for n in 0..20 {
        step(&mut adaptive, f64::from(n), 4);
    }
    assert_eq!(adaptive.view().moves.len(), 10);
    assert!(MoveCause::ALL.iter().all(|cause| cause.holds() == cause.name().starts_with("hold")));
}

#[test]
fn an_endless_window_is_not_adapted() {
    let adaptive = adaptive(pi(), 16_384);
    let endless = BatchCaps { wait: Micros::MAX, ..BatchCaps::default() };
    assert_eq!(adaptive.caps(endless).wait, Micros::MAX);
}
