//! The world around the scheduler: clients, the device, and what is counted.

use super::{load, of, run, slow};
use crate::control::Lane;
use crate::simulate::{LaneReport, Report, RunReport, Settings, simulate};
use proptest::prelude::*;

fn clips(run: &RunReport) -> &LaneReport {
    run.lane(Lane::Clips).expect("clips were sent")
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let set = |seed| run("mixed", &["duration_s=5m", seed]);
    assert_eq!(set("seed=4"), set("seed=4"));
    assert_ne!(set("seed=4").runs, set("seed=5").runs);
}

#[test]
fn settings_are_compared_on_the_same_requests() {
    let wide = run("mixed", &["duration_s=5m", "depth=1"]);
    let narrow = run("mixed", &["duration_s=5m", "depth=1", "max_batch_requests=1"]);
    let first = |report: &Report| report.runs[0].lane(Lane::Recordings).map(|l| l.requests.done.p50_ms);
    assert_ne!(first(&wide), first(&narrow), "the setting matters");
    // The clients' streams are their own: as many requests of the same lengths come, whatever is answered when.
    let mix = |set: &[&str]| of(&load("mixed", set, &["calls=3/sx5..15"])).runs.remove(0);
    let (one, other) = (mix(&["duration_s=5m"]), mix(&["duration_s=5m", "max_batch_requests=1"]));
    assert_eq!(clips(&one).requests.submitted, clips(&other).requests.submitted);
}

#[test]
fn a_fixed_rate_is_met_and_a_random_one_on_average() {
    let clients = ["calls=2/sx1"];
    let fixed = slow(&["duration_s=100s", "clients.calls.arrivals=fixed"], &clients);
    assert_eq!(clips(&fixed).requests.submitted, 201, "one at 0, then one each half second, the last at 100");
    let random = slow(&["duration_s=1000s"], &clients);
    let submitted = clips(&random).requests.submitted;
    assert!((1_850..2_150).contains(&submitted), "{submitted}");
}

#[test]
fn clients_start_stop_and_think() {
    let run =
        slow(&["duration_s=100s", "clients.a.start_s=10", "clients.a.requests=3", "clients.a.think_s=5"], &["a=2x1"]);
    let clips = clips(&run);
    assert_eq!((clips.requests.submitted, clips.requests.served, clips.requests.pending), (6, 6, 0));
    assert_eq!(clips.batches, 3, "both clients think alike and share their batches");
    assert!((run.busy_ratio - 0.03).abs() < 0.001, "{}", run.busy_ratio);
}

#[test]
fn who_waits_too_long_gives_up_and_may_try_again() {
    // 4 clients of one request at a time, one after the other on the device for a second each; patience of 2.6 s.
    let set = ["duration_s=10s", "max_batch_requests=1", "clients.a.timeout_s=2.6", "clients.a.requests=1"];
    let run = slow(&set, &["a=4x1"]);
    let report = &clips(&run).requests;
    // The third is on the device when its client goes: the work is done, the answer is not wanted.
    assert_eq!((report.submitted, report.served, report.timeouts, report.pending), (4, 2, 2, 0));
    assert_eq!(clips(&run).batches, 3, "what still waits when its client goes is never computed");
    assert_eq!(report.done.max_ms, Some(2_600.0), "those that were given up count with the time they waited");

    let retried = slow(&[&set[..], &["clients.a.retries=1"]].concat(), &["a=4x1"]);
    let report = &clips(&retried).requests;
    assert_eq!((report.submitted, report.timeouts), (6, 2));
    assert_eq!(report.served, 4);
}

#[test]
fn a_recording_whose_client_goes_stops_at_its_next_window() {
    let set = ["duration_s=100s", "service.recordings.rate=30", "clients.a.requests=1"];
    let patient = slow(&set, &["a=1x300"]);
    assert!((patient.busy_ratio - 0.11).abs() < 0.001, "10 windows of a second behind a second: {patient:?}");
    let hasty = slow(&[&set[..], &["clients.a.timeout_s=3.5"]].concat(), &["a=1x300"]);
    assert!((hasty.busy_ratio - 0.04).abs() < 0.001, "the third window is ended: {hasty:?}");
    assert_eq!(hasty.lane(Lane::Recordings).map(|l| l.requests.timeouts), Some(1));
}

#[test]
fn what_is_pending_at_the_end_counts_with_its_wait() {
    // A second of work per second for each of 4 clients: most of it never gets done.
    let run = slow(&["duration_s=100s", "max_batch_requests=1"], &["a=4/sx1"]);
    let report = &clips(&run).requests;
    assert!(report.pending > report.served, "{report:?}");
    assert_eq!(report.submitted, report.served + report.pending);
    assert!(report.done.max_ms.is_some_and(|max| max > 60_000.0), "{report:?}");
}

#[test]
fn the_warm_up_is_served_and_not_counted() {
    let set = ["duration_s=100s", "clients.a.arrivals=fixed"];
    let all = slow(&set, &["a=0.5/sx1"]);
    let half = slow(&[&set[..], &["warm_up_s=50"]].concat(), &["a=0.5/sx1"]);
    assert_eq!((clips(&all).requests.submitted, clips(&half).requests.submitted), (51, 26));
    assert!((all.busy_ratio - half.busy_ratio).abs() < 0.02, "{} {}", all.busy_ratio, half.busy_ratio);
}

#[test]
fn a_second_slot_takes_batches_out_of_the_queue_early_and_the_device_still_serves_one() {
    let set = ["duration_s=100s", "max_batch_requests=1"];
    let (one, two) = (slow(&set, &["a=3x1"]), slow(&[&set[..], &["depth=2"]].concat(), &["a=3x1"]));
    let (one, two) = (&clips(&one).requests, &clips(&two).requests);
    assert_eq!(one.done, two.done, "the device is as fast");
    assert!(two.queue.p50_ms < one.queue.p50_ms, "{two:?} {one:?}");
    assert_eq!((one.queue, two.start), (one.start, one.start));
}

#[test]
fn texts_are_batched_by_tokens() {
    let set = ["duration_s=10s", "service.clips.rate=1000", "clients.a.op=embed", "clients.a.requests=1"];
    let run = slow(&[&set[..], &["max_batch_tokens=250"]].concat(), &["a=5x100"]);
    assert_eq!(clips(&run).batches, 3, "two of 100 tokens fit into 250");
    assert_eq!(clips(&run).requests.rate.map(|rate| (rate.unit, rate.per_s)), Some(("tokens", 50.0)));
}

#[test]
fn the_controller_moves_the_caps_and_says_so() {
    let set = ["duration_s=10m", "adaptive.mode=pi", "max_batch_tokens=40000", "adaptive.target_ms=500"];
    let report = of(&load("mixed", &set, &["clips=16x5..15"]));
    let run = &report.runs[0];
    assert_eq!(run.settings.adaptive, "pi");
    let lowered =
        run.cap_moves.iter().find(|made| made.knob == "max_batch_cost").expect("full batches miss the target");
    assert!(lowered.to < lowered.from && lowered.cause == "headroom", "{lowered:?}");
    let off = of(&load("mixed", &set[..1], &["clips=16x5..15"]));
    assert!(off.runs[0].cap_moves.is_empty() && off.runs[0].settings.adaptive == "off");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let upside_down = load("mixed", &["adaptive.min_cost=9000", "adaptive.max_cost=8000"], &[]);
    let said = simulate(&upside_down).expect_err("no range").to_string();
    assert!(said.contains("9000") && said.contains("8000") && said.contains("whole recordings"), "{said}");
    assert!(Settings::of(&load("mixed", &[], &[]).settings[0]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Nobody is lost or served twice, the device is never busier than time allows, and lanes share all of it.
    #[test]
    fn books_balance(
        seed in 0u64..1_000,
        many in 1u32..20,
        long in 1u32..90,
        depth in 1usize..4,
        cap in 1_000u64..400_000,
        timeout in prop::option::of(1u32..60),
        retries in 0u32..3,
    ) {
        let mut set = vec![
            "duration_s=300s".to_string(),
            format!("seed={seed}"),
            format!("depth={depth}"),
            format!("max_batch_tokens={cap}"),
            format!("clients.a.retries={retries}"),
        ];
        set.extend(timeout.map(|s| format!("clients.a.timeout_s={s}")));
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let clients = [format!("a={many}x1..{long}"), format!("b=0.2/sxlognormal {long} 0.9")];
        let report = of(&load("mixed", &set, &clients.each_ref().map(String::as_str)));
        let run = &report.runs[0];
        for class in &run.classes {
            let r = &class.requests;
            prop_assert_eq!(r.submitted, r.served + r.timeouts + r.pending, "{:?}", class);
        }
        prop_assert_eq!(&run.classes[1].requests.timeouts, &0);
        prop_assert!(run.classes[0].requests.pending <= u64::from(many));
        prop_assert!(run.busy_ratio <= 1.0 + 1e-9, "{}", run.busy_ratio);
        let shares: f64 = run.lanes.iter().map(|lane| lane.share).sum();
        prop_assert!((shares - 1.0).abs() < 1e-9, "{}", shares);
        prop_assert_eq!(run.batches, run.lanes.iter().map(|lane| lane.batches).sum::<u64>());
        for lane in &run.lanes {
            let r = &lane.requests;
            prop_assert!(r.queue.max_ms <= r.start.max_ms && r.start.max_ms <= r.done.max_ms, "{:?}", r);
        }
    }
}
