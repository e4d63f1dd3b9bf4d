//! What single settings and single counts do, on loads so small that every time can be told beforehand.

use super::{load, of, slow};
use crate::control::Lane;
use crate::simulate::{LaneReport, Requests, RunReport};

fn lane(run: &RunReport, lane: Lane) -> &LaneReport {
    run.lane(lane).expect("it had requests")
}

fn class<'a>(run: &'a RunReport, name: &str) -> &'a Requests {
    &run.classes.iter().find(|class| class.class == name).expect("a class of the load").requests
}

/// How long a single clip waits until the device begins with it, in milliseconds.
fn window(set: &[&str]) -> f64 {
    let run = slow(&[&["duration_s=10s", "clients.a.requests=1", "clients.a.start_s=5"], set].concat(), &["a=1x1"]);
    class(&run, "a").start.max_ms.expect("one request")
}

#[test]
fn the_window_is_that_of_its_keys() {
    assert_eq!(
        window(&["wait_ms=1s", "coalesce_ms=200ms", "coalesce_ratio=0.5"]),
        200.0,
        "nothing has come for so long"
    );
    assert_eq!(window(&["wait_ms=100ms", "coalesce_ms=200ms", "coalesce_ratio=0.25"]), 25.0, "a part of the window");
    assert_eq!(window(&["wait_ms=100ms", "coalesce_ms=200ms", "coalesce_ratio=1"]), 100.0, "the window");
    assert_eq!(window(&["wait_ms=1s", "coalesce_ms=200ms", "idle_bypass=true"]), 0.0, "nobody is about");
    // The second comes 0.2 s after the first has ended: the worker has not rested for a window.
    let set = ["duration_s=10s", "wait_ms=1s", "coalesce_ms=300ms", "coalesce_ratio=1", "idle_bypass=true"];
    let more = ["clients.a.start_s=5", "clients.b.start_s=6.2", "clients.a.requests=1", "clients.b.requests=1"];
    let run = slow(&[set.as_slice(), &more].concat(), &["a=1x1", "b=1x1"]);
    assert_eq!(["a", "b"].map(|name| class(&run, name).start.max_ms), [Some(0.0), Some(300.0)]);
}

#[test]
fn no_batch_of_audio_is_dearer_than_the_hard_cap() {
    let set = ["duration_s=100s", "max_batch_tokens=2000000", "max_batch_requests=100", "clients.a.requests=1"];
    let run = slow(&set, &["a=30x30"]);
    assert_eq!(lane(&run, Lane::Clips).batches, 2, "24 clips of 30 s are 720 s");
    let texts = slow(&[&set[..], &["clients.a.op=embed", "service.clips.rate=100000"]].concat(), &["a=30x30000"]);
    assert_eq!(lane(&texts, Lane::Clips).batches, 1, "texts have no such cap");
}

#[test]
fn the_rules_of_a_setting_are_those_that_run() {
    let run = slow(&["duration_s=1s", "lanes.keep_owed=true", "lanes.recordings.share=0.3"], &["a=1x1"]);
    assert!(run.settings.keep_owed && run.settings.owed);
    assert_eq!(run.settings.recordings_share, None, "whole recordings: it has no effect");
}

#[test]
fn turns_are_counted() {
    let run = slow(&["duration_s=100s"], &["a=1x1", "r=1x60"]);
    let (clips, recordings) = (lane(&run, Lane::Clips).batches, lane(&run, Lane::Recordings).batches);
    assert!(recordings > 40 && clips.abs_diff(recordings) <= 1, "they alternate: {clips} and {recordings}");
    // The first clip went before any recording was about.
    assert!(run.turns > 40 && clips.abs_diff(run.turns) <= 1, "{} turns in {clips} batches of clips", run.turns);
}

#[test]
fn what_is_served_is_counted_from_the_warm_up_on_in_one_unit() {
    let set = ["duration_s=100s", "warm_up_s=50", "clients.a.arrivals=fixed"];
    let rate = class(&slow(&set, &["a=0.5/sx2"]), "a").rate.expect("one operation");
    assert!(rate.unit == "audio_s" && (rate.per_s - 1.0).abs() < 0.05, "{rate:?}");
    let both = slow(&["duration_s=100s", "clients.t.op=embed"], &["a=1x1", "t=1x100"]);
    assert_eq!(lane(&both, Lane::Clips).requests.rate, None, "audio and tokens do not add up");
    assert!(class(&both, "a").rate.is_some() && class(&both, "t").rate.is_some());
}

#[test]
fn a_recording_in_slices_has_left_the_queue_with_its_first() {
    let set = ["duration_s=100s", "service.recordings.rate=30", "clients.a.requests=1", "long_form.slice_windows=1"];
    let run = slow(&set, &["a=1x300"]);
    let recording = class(&run, "a");
    assert_eq!((recording.queue.max_ms, recording.start.max_ms), (Some(0.0), Some(0.0)));
    assert_eq!((recording.done.max_ms, lane(&run, Lane::Recordings).batches), (Some(20_000.0), 10));
}

#[test]
fn a_recording_that_nobody_waits_for_is_not_taken_up_again() {
    let set = ["duration_s=100s", "service.recordings.rate=30", "clients.a.requests=1", "long_form.slice_windows=1"];
    let run = slow(&[&set[..], &["clients.a.timeout_s=3.5"]].concat(), &["a=1x300"]);
    assert_eq!((lane(&run, Lane::Recordings).batches, class(&run, "a").timeouts), (2, 1));
}

#[test]
fn who_leaves_a_batch_that_waits_for_the_device_makes_it_shorter() {
    // A second, and a second for 10 s of audio. The first batch runs from 0 to 2 s; `gone` leaves at 1.5 s.
    let set = [
        "duration_s=20s",
        "service.clips.rate=10",
        "depth=2",
        "clients.gone.start_s=0.5",
        "clients.gone.timeout_s=1",
        "clients.first.requests=1",
        "clients.gone.requests=1",
        "clients.stays.requests=1",
    ];
    let clients = ["first=1x10", "gone=1x10", "stays=1x10"];
    let shared = slow(&[&set[..], &["clients.stays.start_s=0.5"]].concat(), &clients);
    assert_eq!(class(&shared, "stays").done.max_ms, Some(3_500.0), "2 s for itself, as the other one is not computed");
    assert_eq!((class(&shared, "gone").timeouts, shared.batches), (1, 2));
    let alone = slow(&[&set[..], &["clients.stays.start_s=0.6", "max_batch_requests=1"]].concat(), &clients);
    assert_eq!(class(&alone, "stays").done.max_ms, Some(3_400.0), "a batch that all have left takes no time");
}

#[test]
fn a_stream_ends_with_its_last_request_and_begins_at_random() {
    let fixed = slow(&["duration_s=100s", "clients.a.arrivals=fixed", "clients.a.requests=3"], &["a=1/sx1"]);
    assert_eq!(class(&fixed, "a").submitted, 3);
    let random = slow(&["duration_s=1s"], &["a=0.001/sx1"]);
    assert_eq!(class(&random, "a").submitted, 0, "one in a quarter of an hour");
}

/// Each step is a number that follows from what the controller was told of every batch before it.
#[test]
fn the_controller_is_told_what_the_engine_tells_it() {
    let set = ["duration_s=10m", "adaptive.mode=pi", "max_batch_tokens=40000", "adaptive.target_ms=500", "wait_ms=15"];
    let run = of(&load("mixed", &set, &["clips=6x5..15", "late=0.2/sx5..15"])).runs.remove(0);
    let moves: Vec<String> =
        run.cap_moves.iter().take(4).map(|m| format!("{} s {} {:.0}", m.at_s.round(), m.knob, m.to)).collect();
    let steps = ["5 s", "9 s", "14 s", "19 s"].into_iter().zip([37_564, 35_111, 32_766, 30_662]);
    assert_eq!(moves, steps.map(|(at, to)| format!("{at} max_batch_cost {to}")).collect::<Vec<_>>());
}
