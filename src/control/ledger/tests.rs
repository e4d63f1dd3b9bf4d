use super::*;
use crate::control::changes::{Effect, KnobChange};
use crate::control::hands::{RequestPlace, Touch};
use crate::control::knobs::TakesEffect;
use crate::control::snapshot::RequestState;
use crate::control::{Lane, Op};
use proptest::prelude::*;

fn set(knob: &str, value: &str) -> ChangeRequest {
    ChangeRequest { set: BTreeMap::from([(knob.to_string(), value.to_string())]), ..ChangeRequest::default() }
}

fn lease(knob: &str, value: &str, ttl_s: f64) -> ChangeRequest {
    ChangeRequest { ttl_s: Some(ttl_s), ..set(knob, value) }
}

/// Writes down what `next` changes, as an engine does.
fn entry(ledger: &Ledger, kind: EntryKind, next: &Overrides, now_ms: u64) -> Entry {
    let text = |o: Option<&Override>| o.map(|o| o.value.clone());
    let change = |knob: String| KnobChange {
        from: text(ledger.overrides().get(&knob)),
        to: text(next.get(&knob)),
        takes: TakesEffect::Live,
        was: ledger.overrides().get(&knob).cloned().map(Box::new),
        now: next.get(&knob).cloned().map(Box::new),
        knob,
    };
    Entry {
        changes: ledger.moved(next).into_iter().map(change).collect(),
        ..Entry::new(kind, ledger.revision() + 1, now_ms, "uid:7")
    }
}

fn make(ledger: &mut Ledger, request: &ChangeRequest, now_ms: u64) -> Result<(), Moved> {
    let next = ledger.changed(request, "uid:7", now_ms)?;
    let entry = entry(ledger, EntryKind::Change, &next, now_ms);
    ledger.commit(entry);
    assert_eq!(ledger.overrides(), &next, "the entry says all of it");
    Ok(())
}

fn expire(ledger: &mut Ledger, now_ms: u64) -> bool {
    let Some(next) = ledger.expired(now_ms) else { return false };
    let entry = entry(ledger, EntryKind::Expiry, &next, now_ms);
    ledger.commit(entry);
    true
}

fn value<'l>(ledger: &'l Ledger, knob: &str) -> Option<&'l str> {
    ledger.overrides().get(knob).map(|o| o.value.as_str())
}

#[test]
fn a_lease_gives_back_what_it_hid() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("a", "1"), 0).unwrap();
    make(&mut ledger, &lease("a", "2", 10.0), 100).unwrap();
    make(&mut ledger, &lease("a", "3", 5.0), 200).unwrap();
    assert_eq!(ledger.next_expiry(), Some(5_200));
    assert!(!expire(&mut ledger, 5_199));
    assert!(expire(&mut ledger, 5_200));
    assert_eq!((value(&ledger, "a"), ledger.next_expiry()), (Some("2"), Some(10_100)));
    assert!(expire(&mut ledger, 99_000));
    assert_eq!((value(&ledger, "a"), ledger.next_expiry(), ledger.revision()), (Some("1"), None, 5));
}

#[test]
fn leases_that_end_together_give_way_together() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &lease("a", "1", 1.0), 0).unwrap();
    make(&mut ledger, &lease("a", "2", 1.0), 0).unwrap();
    make(&mut ledger, &lease("b", "3", 2.0), 0).unwrap();
    assert!(expire(&mut ledger, 1_000));
    assert_eq!((value(&ledger, "a"), value(&ledger, "b")), (None, Some("3")));
}

#[test]
fn a_moved_revision_is_refused_with_who_and_when() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("models.m.wait_ms", "5"), 1_795_000_000_000).unwrap();
    let stale = ChangeRequest { if_revision: Some(0), ..set("a", "1") };
    let moved = ledger.changed(&stale, "uid:8", 0).unwrap_err().to_string();
    assert_eq!(
        moved,
        "the settings have revision 1, not 0: uid:7 set models.m.wait_ms to 5 at 2026-11-18T11:06:40Z (revision 1)"
    );
    assert!(ledger.changed(&ChangeRequest { if_revision: Some(1), ..set("a", "1") }, "uid:8", 0).is_ok());
}

#[test]
fn a_revert_undoes_one_change_and_nothing_that_came_later() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("a", "1"), 0).unwrap();
    make(&mut ledger, &set("a", "2"), 0).unwrap();
    make(&mut ledger, &set("b", "9"), 0).unwrap();
    let undo = |revision| ChangeRequest { revert: Some(revision), ..ChangeRequest::default() };
    let moved = ledger.changed(&undo(1), "uid:7", 0).unwrap_err();
    assert!(matches!(&moved, Moved::Knob { knob, by, .. } if knob == "a" && by.contains("revision 2")), "{moved}");
    make(&mut ledger, &undo(2), 0).unwrap();
    assert_eq!((value(&ledger, "a"), value(&ledger, "b")), (Some("1"), Some("9")));
    assert!(matches!(ledger.changed(&undo(77), "uid:7", 0), Err(Moved::Unknown { revision: 77, oldest: 1 })));
}

#[test]
fn what_was_set_for_good_comes_back_after_a_restart_and_nothing_else() {
    let mut ledger = Ledger::default();
    let keep = |knob, value| ChangeRequest { persist: true, ..set(knob, value) };
    make(&mut ledger, &keep("a", "1"), 0).unwrap();
    make(&mut ledger, &lease("a", "2", 60.0), 0).unwrap();
    make(&mut ledger, &keep("b", "3"), 0).unwrap();
    make(&mut ledger, &set("b", "4"), 0).unwrap();
    make(&mut ledger, &set("c", "5"), 0).unwrap();
    let back = Ledger::restored(ledger.tail(99).cloned());
    assert_eq!(back.revision(), 5);
    assert_eq!(value(&back, "a"), Some("1"), "a lease only hides it");
    assert_eq!(value(&back, "b"), Some("3"), "what is said for this life of the engine hides it, too");
    assert_eq!(value(&back, "c"), None);
    make(&mut ledger, &ChangeRequest { unset: vec!["b".into()], ..ChangeRequest::default() }, 0).unwrap();
    let back = Ledger::restored(ledger.tail(99).cloned());
    assert_eq!((value(&ledger, "b"), value(&back, "b")), (None, None), "let go is let go");
}

#[test]
fn a_lease_that_is_renewed_again_and_again_does_not_pile_up() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("a", "1"), 0).unwrap();
    for second in 0..50 {
        make(&mut ledger, &lease("a", "2", 60.0), second * 1_000).unwrap();
    }
    let beneath = ledger.overrides()["a"].beneath.as_ref().expect("what was set before");
    assert_eq!((beneath.value.as_str(), &beneath.beneath), ("1", &None));
}

#[test]
fn a_guard_takes_back_what_its_own_change_set_and_nothing_else() {
    let mut ledger = Ledger::default();
    let guarded = |knob, value| ChangeRequest { guard: Some("state==ready".into()), ..lease(knob, value, 60.0) };
    make(&mut ledger, &set("a", "1"), 0).unwrap();
    let mut both = guarded("a", "2");
    both.set.insert("b".into(), "2".into());
    make(&mut ledger, &both, 0).unwrap();
    make(&mut ledger, &lease("a", "3", 10.0), 0).unwrap();
    assert_eq!(ledger.guards(), BTreeMap::from([(2, "state==ready".to_string())]), "one guard, although covered");
    assert_eq!(ledger.broken(3, 0).unwrap()["a"].value, "2");
    assert_eq!(ledger.broken(9, 0), None);
    let next = ledger.broken(2, 500).expect("it holds");
    let line = Entry { reverts: Some(2), ..entry(&ledger, EntryKind::Breach, &next, 500) };
    ledger.commit(line);
    assert_eq!((value(&ledger, "a"), value(&ledger, "b")), (Some("3"), None));
    assert!(ledger.guards().is_empty());
    assert!(expire(&mut ledger, 10_000));
    assert_eq!(value(&ledger, "a"), Some("1"), "what the guarded lease hid");
}

#[test]
fn an_effect_becomes_part_of_its_change() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("a", "1"), 10_000).unwrap();
    make(&mut ledger, &set("b", "1"), 12_000).unwrap();
    let effect = Effect { of: 1, window_s: 2.0, beside: ledger.beside(1, 8_000, 12_000), lanes: Vec::new() };
    let line = Entry { effect: Some(effect.clone()), ..entry(&ledger, EntryKind::Effect, &Overrides::new(), 12_000) };
    let (before, revision) = (ledger.overrides().clone(), ledger.revision());
    ledger.commit(Entry { revision, ..line });
    assert_eq!((ledger.overrides(), ledger.revision()), (&before, revision), "it changes nothing");
    let shown: Vec<_> = ledger.tail(9).map(|e| (e.revision, e.effect.clone())).collect();
    assert_eq!(shown, [(1, Some(Effect { beside: vec![2], ..effect })), (2, None)]);
}

#[test]
fn many_cancellations_do_not_push_out_what_can_be_undone() {
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("a", "1"), 0).unwrap();
    let place = |cancelled| RequestPlace { lane: Some(Lane::Clips), held: false, cancelled };
    for n in 0..3 * REMEMBERED {
        let request = RequestChange {
            request: format!("req-{n}"),
            model: "ears".to_string(),
            op: Op::Transcribe,
            state: RequestState::Queued,
            from: place(false),
            to: place(true),
        };
        let line = entry(&ledger, EntryKind::Hand, &ledger.overrides().clone(), 0);
        ledger.commit(Entry { request: Some(request), ..line });
    }
    assert_eq!(ledger.tail(usize::MAX).count(), REMEMBERED);
    make(&mut ledger, &ChangeRequest { revert: Some(1), ..ChangeRequest::default() }, 0).unwrap();
    assert_eq!(value(&ledger, "a"), None);
    for _ in 0..REMEMBERED {
        make(&mut ledger, &set("b", "2"), 0).unwrap();
    }
    let undo = ChangeRequest { revert: Some(1), ..ChangeRequest::default() };
    assert!(matches!(ledger.changed(&undo, "uid:7", 0), Err(Moved::Unknown { .. })), "it is bounded");
}

#[test]
fn a_hand_on_a_request_is_undone_by_its_own_entry_and_by_no_other_life_of_the_engine() {
    let place = |held| RequestPlace { lane: Some(Lane::Clips), held, cancelled: false };
    let hand = |ledger: &mut Ledger, request: &str, from, to, expires_at_ms| {
        let request = RequestChange {
            request: request.to_string(),
            model: "ears".to_string(),
            op: Op::Transcribe,
            state: RequestState::Queued,
            from,
            to,
        };
        let line = entry(ledger, EntryKind::Hand, &ledger.overrides().clone(), 0);
        ledger.commit(Entry { request: Some(request), expires_at_ms, ..line });
    };
    let mut ledger = Ledger::default();
    make(&mut ledger, &set("a", "1"), 0).unwrap();
    hand(&mut ledger, "req-1", place(false), place(true), Some(900));
    hand(&mut ledger, "req-2", place(false), place(true), None);
    assert_eq!((ledger.undoable(1), value(&ledger, "a")), (Ok(None), Some("1")), "settings are no request's");
    assert_eq!(ledger.undoable(2).unwrap().map(RequestChange::back), Some(Touch::RELEASE));
    assert_eq!(ledger.holds().next(), Some(900));
    hand(&mut ledger, "req-1", place(true), place(false), None);
    let moved = ledger.undoable(2).unwrap_err().to_string();
    assert!(moved.starts_with("req-1 has moved since revision 2: uid:7 released req-1 at "), "{moved}");
    assert!(ledger.undoable(3).is_ok() && ledger.holds().next().is_none());
    hand(&mut ledger, "req-2", place(true), RequestPlace { cancelled: true, ..place(true) }, None);
    assert!(matches!(ledger.undoable(5), Err(Moved::Cancelled { revision: 5, .. })));
    hand(&mut ledger, "req-3", place(false), place(true), Some(900));
    let start = entry(&ledger, EntryKind::Start, &Overrides::new(), 0);
    ledger.commit(start);
    assert_eq!(ledger.undoable(6), Err(Moved::Gone { revision: 6 }), "another req-3 may live now");
    assert_eq!(ledger.holds(), &Holds::default(), "and nothing is held");
}

proptest! {
    /// Whatever is set, leased, let go, expired and broken: replaying the entries gives the same settings, and no lease
    /// outlives its end.
    #[test]
    fn the_entries_are_the_settings(steps in prop::collection::vec((0usize..6, 0usize..3, 0u32..5, 0u64..4_000), 1..60)) {
        let mut ledger = Ledger::default();
        let mut now = 0;
        for (what, knob, value, wait) in steps {
            now += wait;
            expire(&mut ledger, now);
            let knob = ["a", "b", "c"][knob];
            let request = match what {
                0 => set(knob, &value.to_string()),
                1 => lease(knob, &value.to_string(), f64::from(value) + 0.5),
                2 => ChangeRequest { unset: vec![knob.to_string()], ..ChangeRequest::default() },
                3 => ChangeRequest {
                    guard: Some("state==ready".into()),
                    ..lease(knob, &value.to_string(), f64::from(value) + 0.5)
                },
                // The oldest guard breaks.
                4 => {
                    let Some((revision, _)) = ledger.guards().pop_first() else { continue };
                    let next = ledger.broken(revision, now).expect("it holds");
                    let line = entry(&ledger, EntryKind::Breach, &next, now);
                    ledger.commit(line);
                    prop_assert!(!ledger.guards().contains_key(&revision));
                    prop_assert!(ledger.overrides() == &next && ledger.next_expiry().is_none_or(|at| at > now));
                    continue;
                }
                _ => ChangeRequest { persist: true, ..set(knob, &value.to_string()) },
            };
            make(&mut ledger, &request, now).unwrap();
            prop_assert!(ledger.next_expiry().is_none_or(|at| at > now));
            let mut again = Ledger::default();
            ledger.tail(999).cloned().for_each(|entry| again.commit(entry));
            prop_assert_eq!(again.overrides(), ledger.overrides());
            prop_assert_eq!(again.revision(), ledger.revision());
        }
    }
}
