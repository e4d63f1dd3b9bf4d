//! The coordinator against a simulated target.

use super::super::coordinator::{Action, Coordinator, Limits, drive};
use super::super::proposers::{NgramSimple, Proposer, Suffix};
use super::super::target::{Route, Target, TargetError};
use super::super::width::WidthLimits;
use super::simulated::{Faults, Simulated, sequence};
use proptest::prelude::*;

const END: u32 = 39;

fn limits(depth: usize, budget: usize) -> Limits {
    Limits { width: WidthLimits { min: 1, max: 4 }, depth, budget, end_ids: vec![END] }
}

fn suffix() -> Box<dyn Proposer> {
    Box::new(Suffix::new(3, 64))
}

fn prompt(n: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 5 + i / 11) % 37).collect()
}

/// Runs to the end; gives what was emitted.
fn run(coordinator: &mut Coordinator, target: &mut Simulated) -> (Vec<u32>, Result<(), TargetError>) {
    let mut emitted = Vec::new();
    let end = drive(coordinator, target, |tokens| emitted.extend_from_slice(tokens));
    assert_eq!(target.violations, Vec::<String>::new());
    assert_eq!(coordinator.answer(), emitted);
    (emitted, end)
}

#[test]
fn in_this_process_one_window_at_a_time_gives_the_targets_own_text() {
    let p = prompt(60);
    let mut target = Simulated::new(Route::Local, 0, 0, Faults::default());
    let mut c = Coordinator::new(limits(8, 200), suffix(), &p);
    let (emitted, end) = run(&mut c, &mut target);
    assert_eq!((emitted, end), (sequence(&p, 200, 40, END), Ok(())));
    let t = c.tally();
    assert!(t.draft_n_accepted > 20 && t.draft_n_accepted <= t.draft_n, "{t:?}");
    assert_eq!((t.in_flight_max, target.most_under_way), (1, 1));
}

#[test]
fn a_confirmed_route_keeps_windows_under_way_and_is_faster() {
    let p = prompt(60);
    let time = |depth: usize, route: Route| {
        let mut target = Simulated::new(route, 50, 0, Faults::default());
        let mut c = Coordinator::new(limits(depth, 120), suffix(), &p);
        let (emitted, _) = run(&mut c, &mut target);
        assert_eq!(emitted, sequence(&p, 120, 40, END));
        (target.now, c.tally().in_flight_max)
    };
    let (serial, one) = time(1, Route::Unconfirmed);
    let (deep, most) = time(4, Route::Unconfirmed);
    assert_eq!(one, 1);
    assert!((3..=4).contains(&most), "{most} under way");
    assert!(deep < serial, "{deep} is not below {serial}");
    // Without a direct way back, depth changes nothing.
    assert_eq!(time(4, Route::None), time(1, Route::None));
}

#[test]
fn the_first_window_of_an_unconfirmed_route_goes_alone() {
    let p = prompt(60);
    let mut target = Simulated::new(Route::Unconfirmed, 50, 0, Faults::default());
    let mut c = Coordinator::new(limits(4, 60), suffix(), &p);
    let Action::Open { id, window } = c.next_action(target.route()) else { panic!("a window goes first") };
    // The prompt goes with it: the cache holds nothing yet.
    assert_eq!((window.start(), &window.inputs()[..p.len()]), (0, p.as_slice()));
    target.open(id, &window).expect("sent");
    assert_eq!((c.next_action(target.route()), c.in_flight()), (Action::Wait, 1));
    let mut emitted = Vec::new();
    drive(&mut c, &mut target, |tokens| emitted.extend_from_slice(tokens)).expect("it lives");
    assert_eq!(emitted, sequence(&p, 60, 40, END));
    assert!(target.most_under_way > 1 && target.violations.is_empty(), "{target:?}");
}

#[test]
fn a_failed_rewind_is_followed_by_the_whole_text_and_counted() {
    let p = prompt(60);
    let faults = Faults { rewinds_that_fail: vec![0, 2], ..Faults::default() };
    let mut target = Simulated::new(Route::Local, 0, 0, faults);
    let mut c = Coordinator::new(limits(1, 120), suffix(), &p);
    let (emitted, end) = run(&mut c, &mut target);
    assert_eq!((emitted, end), (sequence(&p, 120, 40, END), Ok(())));
    assert_eq!(c.repairs().reprefills, 2);
}

#[test]
fn the_budget_is_kept_exactly_whatever_the_width() {
    let p = prompt(60);
    for budget in 0..12 {
        for depth in [1, 4] {
            let mut target = Simulated::new(Route::Confirmed, 9, 3, Faults::default());
            let mut c = Coordinator::new(limits(depth, budget), suffix(), &p);
            let (emitted, _) = run(&mut c, &mut target);
            assert_eq!(emitted, sequence(&p, budget, 40, END));
        }
    }
}

#[test]
fn with_speculation_off_every_window_is_a_decode_row() {
    let p = prompt(60);
    let mut target = Simulated::new(Route::Confirmed, 5, 0, Faults::default());
    let mut c = Coordinator::new(limits(4, 50), suffix(), &p);
    c.set_speculating(false);
    let (emitted, _) = run(&mut c, &mut target);
    assert_eq!(emitted, sequence(&p, 50, 40, END));
    assert_eq!((c.tally().windows, c.tally().draft_n), (0, 0));
}

#[test]
fn an_empty_prompt_has_no_answer() {
    let mut target = Simulated::new(Route::Local, 0, 0, Faults::default());
    let mut c = Coordinator::new(limits(1, 50), suffix(), &[]);
    assert_eq!(run(&mut c, &mut target), (vec![], Ok(())));
}

/// A proposer that is always sure and mostly wrong.
struct Guess(u32);

impl Proposer for Guess {
    fn sync(&mut self, committed: &[u32]) {
        self.0 = committed.iter().fold(self.0, |h, t| h.wrapping_mul(31).wrapping_add(*t));
    }

    fn propose(&self, continuation: &[u32], budget: usize) -> super::super::Proposal {
        let tokens = (0..budget as u32).map(|i| (self.0 ^ ((i + continuation.len() as u32) * 7)) % 40).collect();
        super::super::Proposal { tokens, span_available: true, ..Default::default() }
    }
}

fn proposers() -> impl Strategy<Value = u8> {
    0u8..3
}

fn proposer(kind: u8) -> Box<dyn Proposer> {
    match kind {
        0 => suffix(),
        1 => Box::new(NgramSimple::new(2)),
        _ => Box::new(Guess(17)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever is slow, lost, swapped, cut short or refused: what is emitted is the target's own text, to its end unless
    /// the target itself is gone, and then a beginning of it.
    #[test]
    fn what_is_emitted_is_always_the_targets_own_text(
        prompt_len in 1u32..80,
        budget in 0usize..90,
        depth in 1usize..6,
        delay in 0u64..40,
        jitter in 0u64..20,
        kind in proposers(),
        route in prop::sample::select(vec![Route::Local, Route::None, Route::Opened, Route::Unconfirmed, Route::Confirmed]),
        eof_at in prop::option::of(0usize..40),
        reorder_at in prop::option::of(0usize..40),
        short_at in prop::option::of(0usize..40),
        gone_at in prop::option::weighted(0.2, 0usize..60),
        rewinds_that_fail in prop::collection::vec(0usize..12, 0..4),
    ) {
        let p = prompt(prompt_len);
        let faults = Faults { eof_at, reorder_at, short_at, rewinds_that_fail, gone_at };
        let mut target = Simulated::new(route, delay, jitter, faults);
        let mut c = Coordinator::new(limits(depth, budget), proposer(kind), &p);
        let (emitted, end) = run(&mut c, &mut target);
        let whole = sequence(&p, budget, 40, END);
        match end {
            Ok(()) => prop_assert_eq!(emitted, whole),
            Err(TargetError::Gone(_)) => prop_assert!(gone_at.is_some() && whole.starts_with(&emitted)),
            Err(other) => prop_assert!(false, "{other}"),
        }
        let t = c.tally();
        prop_assert!(t.draft_n_accepted <= t.draft_n && t.width_max <= 4);
        prop_assert!(t.in_flight_max as usize <= depth);
        for counts in [&t.survival.native, &t.survival.tail] {
            prop_assert!(counts.eligible.iter().zip(&counts.survived).all(|(e, s)| s <= e));
        }
    }
}
