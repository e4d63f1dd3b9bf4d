//! Settings that an operator changes while the engine runs: who takes them, and when.

use super::*;
use crate::control::snapshot::EngineState;
use crate::control::{ChangeRequest, Lane, RequestPatch, WaitCode};
use crate::engine::runtime::Settings;
use crate::engine::scheduler::Micros;
use crate::profile::{BoxBase, Env};

/// An engine that can be operated, on a box of its own, with its state in a folder of its own.
struct Operated {
    engine: Engine,
    stage: Arc<Stage>,
    folder: std::path::PathBuf,
}

const BOX: &str = "name: test
models:
  - {id: ears, family: whisper, long_form: {slice_windows: whole}, files: {weights: {sources: ['file:w'], sha256: unpinned}, tokenizer: {sources: ['file:t'], sha256: unpinned}, config: {sources: ['file:c'], sha256: unpinned}}}
  - {id: vectors, family: bert, files: {weights: {sources: ['file:w'], sha256: unpinned}, tokenizer: {sources: ['file:t'], sha256: unpinned}, config: {sources: ['file:c'], sha256: unpinned}}}
";

impl Operated {
    async fn start(name: &str) -> Operated {
        let folder = std::env::temp_dir().join(format!("lanekeeper-operated-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("box.yaml");
        std::fs::write(&path, BOX).expect("written");
        let base = BoxBase::read(path.to_str().expect("text"), &Env::empty(), &[]).expect("sound");
        let settings = Settings::open(base, Some(&folder.join("state")), false).expect("sound");
        let stage = Arc::new(Stage::default());
        let loader = fakes::loader(&stage);
        let engine = Engine::start_with(settings.profile().clone(), ModelFiles::new(), loader).expect("it starts");
        engine.operate(settings, Box::new(|_| {})).expect("once");
        engine.loaded().await;
        Operated { engine, stage, folder }
    }

    fn set(&self, knob: &str, value: &str) {
        self.change(&ChangeRequest { set: [(knob.to_string(), value.to_string())].into(), ..ChangeRequest::default() });
    }

    fn change(&self, request: &ChangeRequest) {
        self.engine.change(request, "uid:7").expect("taken");
    }

    fn unset_all(&self) {
        self.change(&ChangeRequest { unset_all: true, ..ChangeRequest::default() });
    }

    fn ears(&self) -> Queue {
        queue(&self.engine, "ears", Op::Transcribe)
    }
}

impl Drop for Operated {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn every_live_setting_of_batches_is_taken_and_let_go() {
    let it = Operated::start("taken").await;
    type Look = fn(&Queue) -> String;
    let cases: [(&str, &str, Look); 14] = [
        ("max_batch_tokens", "9000", |q| q.caps.max_batch_cost.to_string()),
        ("max_batch_requests", "3", |q| q.caps.max_batch_requests.to_string()),
        ("wait_ms", "40", |q| q.caps.wait_ms.to_string()),
        ("coalesce_ms", "2", |q| q.caps.coalesce_ms.to_string()),
        ("depth", "3", |q| q.caps.depth.to_string()),
        ("max_queue", "7", |q| q.caps.max_queue.to_string()),
        ("adaptive.mode", "pi", |q| q.controller.mode.clone()),
        ("adaptive.freeze", "true", |q| q.controller.frozen.to_string()),
        ("adaptive.target_ms", "90", |q| format!("{:.0}", q.controller.target_ms.unwrap_or(0.0))),
        ("adaptive.min_cost", "8000", |q| q.caps.max_batch_cost_floor.unwrap_or(0).to_string()),
        ("adaptive.max_cost", "10k", |q| format!("{}k", q.caps.max_batch_cost_ceiling.unwrap_or(0) / 1_000)),
        ("long_form.slice_windows", "2", |q| q.slice_windows.map_or("whole".to_string(), |n| n.to_string())),
        ("lanes.recordings.paused", "true", |q| q.lanes[1].paused.to_string()),
        ("lanes.clips.paused", "true", |q| q.lanes[0].paused.to_string()),
    ];
    let before = it.ears();
    for (key, value, look) in cases {
        it.set(&format!("models.ears.{key}"), value);
        until(&format!("{key} is {value}"), || look(&it.ears()) == value);
    }
    assert_eq!(it.ears().caps.max_batch_cost_source, "live");
    it.set("models.ears.lanes.recordings.share", "0.3");
    until("the share is another", || it.ears().lanes[1].share == Some(0.3));
    let shown = it.engine.snapshot();
    assert_eq!((shown.revision, shown.overrides.len()), (16, 15));
    assert_eq!(shown.journal_tail.len(), 10);
    it.unset_all();
    let same = |q: Queue| (q.caps.clone(), q.slice_windows, q.lanes.iter().map(|l| l.paused).collect::<Vec<_>>());
    until("all is as it was", || same(it.ears()) == same(before.clone()));
    assert!(it.engine.snapshot().overrides.is_empty());
}

#[tokio::test]
async fn a_lower_cap_lets_running_work_end_and_bounds_the_next_batch() {
    let it = Operated::start("lower").await;
    it.stage.close();
    let running: Vec<_> = ["a", "b", "c"].iter().map(|script| transcribe(&it.engine, 10, script)).collect();
    it.stage.await_arrivals(1);
    it.set("models.ears.max_batch_requests", "1");
    let next: Vec<_> = ["d", "e"].iter().map(|script| transcribe(&it.engine, 10, script)).collect();
    it.stage.open();
    for ticket in running.into_iter().chain(next) {
        transcript(ticket).await.expect("served");
    }
    let steps = it.stage.steps();
    assert_eq!(steps[steps.len() - 2..], [1, 1], "{steps:?}");
    assert_eq!(steps.iter().sum::<usize>(), 5);
}

#[tokio::test]
async fn a_lease_ends_by_itself() {
    let it = Operated::start("lease").await;
    it.set("models.vectors.wait_ms", "20");
    let set = [("models.vectors.wait_ms".to_string(), "60".to_string())].into();
    // Long enough to be seen on a machine that pauses.
    it.change(&ChangeRequest { set, ttl_s: Some(2.0), ..ChangeRequest::default() });
    let window = || queue(&it.engine, "vectors", Op::Embed).caps.wait_ms;
    assert!(it.engine.snapshot().overrides[0].left_ms.is_some_and(|left| left <= 2_000.0));
    until("the lease holds", || window() == 60.0);
    until("it has ended, and what it hid holds again", || window() == 20.0);
    until("the journal tells", || it.engine.snapshot().journal_tail.last().is_some_and(|e| e.kind.name() == "expiry"));
    let shown = it.engine.snapshot();
    let last = shown.journal_tail.last().expect("an entry");
    assert_eq!((last.kind.name(), last.actor.as_str(), shown.revision), ("expiry", "engine", 4));
    assert_eq!((shown.overrides.len(), shown.overrides[0].left_ms), (1, None));
}

#[tokio::test]
async fn a_drain_is_called_off_and_held_lanes_are_held_again() {
    let it = Operated::start("drain").await;
    it.set("models.ears.lanes.recordings.paused", "true");
    until("the lane is held", || it.ears().lanes[1].paused);
    let waits = transcribe(&it.engine, 60, "r");
    it.set("admission.draining", "true");
    assert_eq!(transcript(waits).await.expect_err("it had not begun").kind, ErrorKind::Draining);
    assert_eq!(it.engine.snapshot().state, EngineState::Draining);
    assert!(it.engine.transcribe("ears", speech(10, "x"), Caller::default()).is_err(), "nothing new");
    it.change(&ChangeRequest { unset: vec!["admission.draining".into()], ..ChangeRequest::default() });
    transcript(transcribe(&it.engine, 10, "c")).await.expect("served again");
    until("the lane is held still", || it.ears().lanes[1].paused);
    let held = transcribe(&it.engine, 60, "r");
    until("and says so", || request(&it.engine, held.id).wait.is_some_and(|w| w.code == WaitCode::LanePaused));
}

#[tokio::test]
async fn limits_and_weights_are_taken() {
    let it = Operated::start("limits").await;
    it.set("limits.max_items", "3");
    it.set("limits.default_deadline_s", "0.05");
    it.set("models.ears.device_weight", "5");
    assert_eq!((it.engine.limits().max_items, it.engine.limits().default_deadline_s), (3, Some(0.05)));
    it.set("models.ears.lanes.clips.paused", "true");
    until("the lane is held", || it.ears().lanes[0].paused);
    let late = transcript(transcribe(&it.engine, 10, "c")).await.expect_err("its deadline passes");
    assert_eq!(late.kind, ErrorKind::DeadlinePassed);
}

#[tokio::test]
async fn a_guard_that_breaks_ends_its_lease_and_nobody_has_to_watch() {
    let it = Operated::start("guard").await;
    let set = [("models.ears.lanes.clips.paused".to_string(), "true".to_string())].into();
    let guard = Some("models.ears.lanes.clips.oldest_wait_ms<100".to_string());
    it.change(&ChangeRequest { set, guard, ttl_s: Some(600.0), ..ChangeRequest::default() });
    until("the lane is held", || it.ears().lanes[0].paused);
    assert!(it.engine.snapshot().overrides[0].guard.is_some());
    transcript(transcribe(&it.engine, 10, "c")).await.expect("let go by the engine");
    until("the journal tells", || it.engine.snapshot().journal_tail.last().is_some_and(|e| e.kind.name() == "breach"));
    let shown = it.engine.snapshot();
    let breach = shown.journal_tail.last().expect("an entry");
    let waited = breach.readings[0].value.as_ref().and_then(serde_json::Value::as_f64).expect("a time");
    assert!(waited >= 100.0 && breach.reverts == Some(2), "{breach:?}");
    assert!(shown.overrides.is_empty());
}

#[tokio::test]
async fn what_waits_for_good_reason_is_shown_and_is_not_stuck() {
    let it = Operated::start("progress").await;
    it.set("limits.progress_s", "1");
    let lane = |n: usize| it.engine.snapshot().progress[n].clone();
    assert_eq!(lane(0).name, "ears.transcribe.clips");
    assert_eq!(lane(3).name, "vectors.rerank.clips");
    it.set("models.ears.lanes.clips.paused", "true");
    until("the lane is held", || it.ears().lanes[0].paused);
    let held = transcribe(&it.engine, 10, "c");
    until("it waits", || it.ears().lanes[0].pending == 1);
    assert_eq!(
        (lane(0).waiting, lane(0).stuck_ms, lane(0).last_start_ago_ms),
        (0, None, None),
        "held work is not waiting"
    );
    it.stage.close();
    it.set("models.ears.lanes.clips.paused", "false");
    it.stage.await_arrivals(1);
    let behind = transcribe(&it.engine, 10, "d");
    until("one waits behind a batch that takes its time", || lane(0).waiting == 1);
    let began = Instant::now();
    until("longer than the limit", || {
        assert_eq!((it.engine.progress(), it.engine.snapshot().state), (Ok(()), EngineState::Ready));
        began.elapsed() > Duration::from_millis(1_500)
    });
    it.stage.open();
    for ticket in [held, behind] {
        transcript(ticket).await.expect("served");
    }
    until("nothing waits", || lane(0).waiting == 0);
    assert!(lane(0).last_start_ago_ms.is_some());
    assert!(
        it.engine
            .metrics()
            .contains("lanekeeper_lane_stuck_seconds{model=\"ears\",op=\"transcribe\",lane=\"clips\"} 0.0")
    );
}

#[tokio::test]
async fn the_past_is_remembered_as_long_as_is_set() {
    let it = Operated::start("retention").await;
    for _ in 0..3 {
        transcript(transcribe(&it.engine, 1, "c")).await.expect("served");
    }
    let shown = || it.engine.snapshot().requests.shown.len();
    until("all have ended", || it.engine.snapshot().requests.total == 0);
    assert_eq!(shown(), 3);
    it.set("retention.requests", "1");
    it.set("retention.arrivals", "2");
    assert_eq!(shown(), 1);
    let (_, recording) = it.engine.arrivals(Micros::from_secs(600), None);
    assert_eq!((recording.arrivals.len(), recording.complete), (2, false));
    it.unset_all();
    transcript(transcribe(&it.engine, 1, "c")).await.expect("served");
    until("it has ended", || shown() == 2);
}

#[tokio::test]
async fn a_hold_with_an_end_is_let_go_by_the_engine_and_a_move_is_taken_back() {
    let it = Operated::start("hold").await;
    it.stage.close();
    let runs = transcribe(&it.engine, 10, "runs");
    it.stage.await_arrivals(1);
    let waits = transcribe(&it.engine, 10, "waits");
    let hand = |patch: &RequestPatch| {
        it.engine.hand(patch, "uid:7", &|touch, dry| it.engine.touch(waits.id, touch, dry)).expect("done").revision
    };
    // Long enough to be seen on a machine that pauses.
    hand(&RequestPatch { held: Some(true), ttl_s: Some(2.0), ..RequestPatch::default() });
    let left = || request(&it.engine, waits.id).held_left_ms;
    until("it is shown how long", || left().is_some_and(|left| left <= 2_000.0));
    until("it is let go", || (it.ears().lanes[0].held, left()) == (0, None));
    until("the journal tells", || it.engine.snapshot().journal_tail.last().is_some_and(|e| e.kind.name() == "expiry"));
    let moved = hand(&RequestPatch { lane: Some(Lane::Recordings), ..RequestPatch::default() });
    until("it is with the recordings", || it.ears().lanes[1].pending == 1);
    it.change(&ChangeRequest { revert: Some(moved), ..ChangeRequest::default() });
    until("it is back", || it.ears().lanes[0].pending == 1);
    it.stage.open();
    for ticket in [runs, waits] {
        transcript(ticket).await.expect("served");
    }
    let gone = it.engine.change(&ChangeRequest { revert: Some(moved + 1), ..ChangeRequest::default() }, "uid:7");
    assert_eq!(gone.expect_err("it has ended").kind, ErrorKind::NotFound);
}
