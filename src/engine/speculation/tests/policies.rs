//! The other policies, what a request asks, and shadows.

use super::bench::{Line, copying_text, memory_bound, prose, run};
use crate::control::speculation::{GateCode, SpeculationChoice, SpeculationPolicy};
use crate::engine::speculation::Gate;
use crate::profile::SpeculationSettings;

fn settings(policy: SpeculationPolicy) -> SpeculationSettings {
    SpeculationSettings { policy, ..SpeculationSettings::default() }
}

/// Windows of a copying sequence that asks `choice` of a model with `policy`.
fn windows(policy: SpeculationPolicy, choice: SpeculationChoice) -> (u64, GateCode) {
    let s = settings(policy);
    let (prompt, answer) = copying_text(1, 200, 1_000);
    let mut gate = Gate::new(&s);
    let mut lines = [Line::new(&s, choice, &prompt, answer)];
    run(&mut gate, &mut lines, &memory_bound);
    (lines[0].speculator.tally().windows, gate.verdict_for(choice).because)
}

#[test]
fn off_is_off_whatever_a_request_asks() {
    for choice in SpeculationChoice::ALL {
        assert_eq!(windows(SpeculationPolicy::Off, choice).0, 0, "{choice:?}");
    }
    assert_eq!(windows(SpeculationPolicy::Off, SpeculationChoice::Force).1, GateCode::PolicyOff);
}

#[test]
fn a_request_may_opt_out_of_any_policy_and_into_any_but_off() {
    for policy in [SpeculationPolicy::Force, SpeculationPolicy::Published, SpeculationPolicy::Gain] {
        assert_eq!(windows(policy, SpeculationChoice::Off), (0, GateCode::RequestOff));
        let (forced, because) = windows(policy, SpeculationChoice::Force);
        assert!(forced >= 20, "{policy:?}: {forced}");
        assert_eq!(because, GateCode::RequestForce);
    }
}

#[test]
fn force_verifies_whatever_is_proposed() {
    let (n, because) = windows(SpeculationPolicy::Force, SpeculationChoice::Auto);
    assert!((20..100).contains(&n) && because == GateCode::PolicyForce, "{n}");
}

#[test]
fn the_published_rule_opens_on_what_plain_steps_show() {
    let (n, because) = windows(SpeculationPolicy::Published, SpeculationChoice::Auto);
    assert!(n >= 10 && because == GateCode::AcceptanceHigh, "{n} {because:?}");
    let s = settings(SpeculationPolicy::Published);
    let mut gate = Gate::new(&s);
    let mut lines = [Line::new(&s, SpeculationChoice::Auto, &prose(1, 100), prose(2, 800))];
    run(&mut gate, &mut lines, &memory_bound);
    assert!(!gate.verdict().on);
    assert_eq!(lines[0].speculator.tally().windows, 0);
}

#[test]
fn a_turn_is_told_once() {
    let s = settings(SpeculationPolicy::Gain);
    let mut gate = Gate::new(&s);
    assert_eq!(gate.take_turn(), None);
    gate.set_policy(SpeculationPolicy::Force);
    let turn = gate.take_turn().expect("it turned");
    assert!(turn.on && turn.because == GateCode::PolicyForce);
    assert_eq!(gate.take_turn(), None);
    gate.set_policy(SpeculationPolicy::Force);
    assert_eq!(gate.take_turn(), None);
}

#[test]
fn accepted_is_at_most_drafted_and_what_was_emitted() {
    for policy in SpeculationPolicy::ALL {
        let s = settings(policy);
        let (prompt, answer) = copying_text(8, 300, 9);
        let n = answer.len() as u64;
        let mut gate = Gate::new(&s);
        let mut lines = [Line::new(&s, SpeculationChoice::Auto, &prompt, answer)];
        run(&mut gate, &mut lines, &memory_bound);
        let t = lines[0].speculator.tally();
        assert!(t.draft_n_accepted <= t.draft_n && t.draft_n_accepted <= n);
        assert!(t.width_max <= s.width_max as u64 && t.width_sum == t.draft_n);
        assert_eq!(t.survival.tail.eligible[0] + t.survival.native.eligible[0] > 0, t.windows > 0);
    }
}

#[test]
fn where_rows_depend_on_their_neighbours_nothing_is_verified() {
    for policy in SpeculationPolicy::ALL {
        let s = settings(policy);
        let (prompt, answer) = copying_text(1, 200, 1_000);
        let mut gate = Gate::new(&s);
        gate.rows_depend();
        let mut lines = [Line::new(&s, SpeculationChoice::Force, &prompt, answer)];
        run(&mut gate, &mut lines, &memory_bound);
        assert_eq!(lines[0].speculator.tally().windows, 0);
        assert_eq!(gate.verdict_for(SpeculationChoice::Force).because, GateCode::RowsDepend);
        gate.set_policy(SpeculationPolicy::Force);
        assert!(!gate.verdict().on);
    }
}
