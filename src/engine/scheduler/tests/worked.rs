//! The worked example of `docs/scheduler.md`: the tables there are what the former does.

use super::super::{BatchCaps, FlushReason, Formed, Former, LaneRules, Micros, SliceWindows, WINDOW_MS};
use super::{clip, recording};
use crate::control::Lane;

const DOC: &str = include_str!("../../../../docs/scheduler.md");

/// A to H are clips, Q and R recordings.
fn name(id: u64) -> String {
    u8::try_from(id).map_or_else(|_| id.to_string(), |letter| char::from(letter).to_string())
}

fn seconds(former: &mut Former, who: char, seconds: u64, arrival: u64) {
    let (id, cost) = (u64::from(u32::from(who)), seconds * 1_000);
    let item = if seconds > 30 { recording(id, cost, arrival) } else { clip(id, cost, arrival) };
    assert!(former.push(item));
}

fn batch(formed: &Formed) -> String {
    formed.items.iter().map(|item| name(item.id.0)).collect::<Vec<_>>().join(" ")
}

fn next(former: &mut Former) -> Formed {
    former.take(Micros(1_000), FlushReason::Timeout, usize::MAX).expect("something is pending")
}

fn assert_in_doc(rows: &[String]) {
    let rows = rows.join("\n");
    assert!(DOC.contains(&rows), "docs/scheduler.md lacks these lines:\n{rows}");
}

fn example() -> Former {
    let mut former = Former::new(BatchCaps { max_cost: 60_000, aged_promotion: false, ..BatchCaps::default() });
    for (arrival, (who, length)) in (0..).zip([('R', 90), ('A', 30), ('B', 20), ('C', 25), ('D', 10), ('Q', 60)]) {
        seconds(&mut former, who, length, arrival);
    }
    former
}

#[test]
fn whole_recordings() {
    let mut former = example();
    let mut rows = Vec::new();
    for step in 1..=5 {
        if step == 3 {
            for (arrival, (who, length)) in (10..).zip([('E', 5), ('F', 5), ('G', 20), ('H', 25)]) {
                seconds(&mut former, who, length, arrival);
            }
        }
        let formed = next(&mut former);
        former.ran(formed.charge, Micros(1));
        let turn = formed.turn.map_or("–".to_string(), |turn| turn.to_string());
        let owed: Vec<String> = former.owed(9).iter().map(|o| format!("{} ({})", name(o.id.0), o.turns_left)).collect();
        let owed = if owed.is_empty() { "–".to_string() } else { owed.join(", ") };
        let (batch, because, cost) = (batch(&formed), formed.because.name(), formed.cost / 1_000);
        rows.push(format!("| {step} | {batch} | `{because}` | {turn} | {cost} s | {owed} |"));
    }
    assert_in_doc(&rows);
    assert!(former.is_empty());
}

#[test]
fn slices() {
    let mut former = example();
    former.set_rules(LaneRules { slice_windows: SliceWindows::windows(1).expect("one"), ..LaneRules::default() });
    let mut rows = Vec::new();
    for step in 1..=6 {
        let formed = next(&mut former);
        // A window takes a second, clips a hundredth of their length.
        let took = if formed.lane == Lane::Recordings { 1_000 } else { formed.cost / 100 };
        former.ran(formed.charge, Micros(took * 1_000));
        if let Some(slice) = formed.slice.filter(|slice| slice.item.cost > WINDOW_MS) {
            former.put_back(slice, slice.item.cost - WINDOW_MS);
        }
        let behind =
            former.share().behind.map_or("level".to_string(), |(lane, by)| format!("{lane}, {:.2} s", by.as_secs()));
        let (batch, because, cost) = (batch(&formed), formed.because.name(), formed.cost / 1_000);
        rows.push(format!("| {step} | {batch} | `{because}` | {cost} s | {:.2} s | {behind} |", took as f64 / 1e3));
    }
    assert_in_doc(&rows);
}

#[test]
fn bounds_before_the_first_batch() {
    let former = example();
    let mut all = former.explain_all(Micros(1_000));
    all.retain(|e| e.lane == Lane::Clips);
    all.sort_by_key(|e| e.arrival);
    let bounds: Vec<String> =
        all.iter().map(|e| format!("{} {}", name(e.id.0), e.turns_left.expect("a recording is about"))).collect();
    assert_in_doc(&[format!("({})", bounds.join(", "))]);
}
