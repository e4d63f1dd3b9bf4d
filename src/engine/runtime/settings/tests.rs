//! The store and its journal on a disk; what the owners of values make of changes is tested beside them.

mod hands;

use super::Settings;
use super::journal::LIMIT;
use crate::control::changes::{Effect, EntryKind};
use crate::control::{ChangeAnswer, ChangeRequest, ErrorKind, Fault, Snapshot};
use crate::profile::{BoxBase, BoxProfile, Env};
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

const WAIT: &str = "models.minilm-l6.wait_ms";
const SHARE: &str = "models.whisper-tiny-en.lanes.recordings.share";
const SLOTS: &str = "models.smollm2-135m.generation.slots";

/// A state folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("lanekeeper-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    fn open(&self) -> Settings {
        self.open_with(&[], false, LIMIT)
    }

    fn open_with(&self, set: &[&str], fresh: bool, limit: u64) -> Settings {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        let base = BoxBase::read("demo", &Env::empty(), &set).expect("a shipped profile");
        let settings = Settings::open_with(base, Some(&self.0), fresh, limit).expect("sound");
        settings.begin();
        settings
    }

    fn file(&self) -> String {
        fs::read_to_string(self.0.join("journal.jsonl")).expect("a journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(pairs: &[(&str, &str)]) -> ChangeRequest {
    let set = pairs.iter().map(|(knob, value)| (knob.to_string(), value.to_string())).collect();
    ChangeRequest { set, ..ChangeRequest::default() }
}

fn kept(pairs: &[(&str, &str)]) -> ChangeRequest {
    ChangeRequest { persist: true, ..set(pairs) }
}

fn change(settings: &Settings, request: &ChangeRequest) -> Result<ChangeAnswer, Fault> {
    settings.change(request, "uid:7", &|_| {})
}

fn value(settings: &Settings, knob: &str) -> Option<String> {
    settings.knobs().knobs.into_iter().find(|k| k.name == knob).expect("known").value
}

#[test]
fn a_change_is_on_the_disk_and_with_its_owner_before_it_is_answered() {
    let folder = Folder::new("change");
    let settings = folder.open();
    let seen = RefCell::new(None);
    let apply = |profile: &BoxProfile| {
        assert!(folder.file().contains("\"reason\":\"evening\""), "written down first");
        *seen.borrow_mut() = profile.models.iter().find(|m| m.id == "minilm-l6").map(|m| m.wait_ms);
    };
    let request = ChangeRequest { reason: Some("evening".into()), ..set(&[(WAIT, "0.5s"), (SHARE, "0.3")]) };
    let answer = settings.change(&request, "uid:7", &apply).expect("taken");
    assert_eq!((answer.revision, answer.applied, answer.changes.len()), (2, true, 2));
    assert_eq!(*seen.borrow(), Some(500.0));
    let changed = answer.changes.iter().find(|c| c.knob == WAIT).expect("there");
    assert_eq!((changed.from.as_deref(), changed.to.as_deref()), (Some("5"), Some("0.5s")));
    let line = folder.file();
    assert_eq!(line.lines().count(), 2, "a start, and one line for both");
    let again = settings.change(&ChangeRequest { unset_all: true, ..ChangeRequest::default() }, "uid:7", &|_| {});
    assert_eq!(again.expect("taken").changes.len(), 2);
    assert_eq!(value(&settings, WAIT).as_deref(), Some("5"));
    assert!(!change(&settings, &ChangeRequest { unset_all: true, ..ChangeRequest::default() }).expect("fine").applied);
}

#[test]
fn a_dry_run_shows_and_changes_nothing() {
    let folder = Folder::new("dry");
    let settings = folder.open();
    let never = |_: &BoxProfile| panic!("nothing is handed over");
    let request = ChangeRequest { dry_run: true, ..set(&[(WAIT, "3")]) };
    let answer = settings.change(&request, "uid:7", &never).expect("sound");
    assert_eq!((answer.applied, answer.revision, answer.changes[0].to.as_deref()), (false, 1, Some("3")));
    assert_eq!(folder.file().lines().count(), 1);
}

#[test]
fn a_change_is_made_as_a_whole_or_not_at_all_and_every_fault_is_told() {
    let folder = Folder::new("whole");
    let settings = folder.open();
    let never = |_: &BoxProfile| panic!("nothing is handed over");
    let wrong = |request: &ChangeRequest| settings.change(request, "uid:7", &never).expect_err("refused");
    let fault = wrong(&set(&[(WAIT, "3"), ("models.minilm-l6.wait_sm", "3"), ("limits.max_itms", "2"), (SLOTS, "9")]));
    assert_eq!((fault.kind, fault.code), (ErrorKind::InvalidRequest, Some("invalid_setting")));
    let lines: Vec<&str> = fault.message.lines().collect();
    assert_eq!(lines.len(), 3, "{fault}");
    assert!(
        fault.message.contains("did you mean `wait_ms`?") && fault.message.contains("`limits.max_items`"),
        "{fault}"
    );
    assert!(fault.message.contains("9 is outside 1 to 4: key-value caches for 4 sequences were allocated"), "{fault}");
    for (request, says) in [
        (set(&[(WAIT, "soon")]), "unknown suffix"),
        (set(&[("limits.audio_bytes", "1GiB")]), "was set aside at the start"),
        (set(&[("models.minilm-l6.generation.slots", "1")]), "is of family bert"),
        (set(&[("models.minilm-l6.adaptive.min_wait_ms", "90")]), "nothing lies between them"),
        (
            set(&[
                ("models.minilm-l6.adaptive.min_cost", "2M"),
                ("models.minilm-l6.adaptive.max_cost", "1M"),
                (WAIT, "2"),
            ]),
            "floor",
        ),
        (set(&[("cpu.threads", "1")]), "when the engine is started again"),
        (set(&[("name", "x")]), "when the engine is started again"),
        (set(&[("models.minilm-l6.id", "x")]), "unknown key"),
        (set(&[]), "nothing is to be changed"),
        (ChangeRequest { ttl_s: Some(0.0), ..set(&[(WAIT, "2")]) }, "a lease lasts"),
        (ChangeRequest { ttl_s: Some(9.0), ..kept(&[(WAIT, "2")]) }, "cannot come back"),
        (ChangeRequest { unset: vec!["models.minilm-l6.wait_m".into()], ..set(&[]) }, "did you mean `wait_ms`?"),
        (ChangeRequest { unset: vec![WAIT.into()], ..set(&[(WAIT, "2")]) }, "to be set and to be let go"),
        (ChangeRequest { revert: Some(1), ..set(&[]) }, "is a start of the engine"),
    ] {
        let fault = wrong(&request);
        assert!(fault.message.contains(says), "{request:?}: {fault}");
    }
    let stale = wrong(&ChangeRequest { if_revision: Some(9), ..set(&[(WAIT, "2")]) });
    assert_eq!((stale.kind, stale.code), (ErrorKind::Conflict, Some("revision_moved")));
    assert_eq!(folder.file().lines().count(), 1);
}

#[test]
fn what_was_set_for_good_comes_back_and_what_does_not_fit_any_more_is_told() {
    let folder = Folder::new("kept");
    let settings = folder.open();
    change(&settings, &kept(&[(WAIT, "3"), ("cpu.threads", "1")])).expect("taken");
    change(&settings, &kept(&[(SLOTS, "3")])).expect("taken");
    change(&settings, &set(&[(SHARE, "0.4")])).expect("taken");
    let threads = settings.knobs().knobs.into_iter().find(|k| k.name == "cpu.threads").expect("known");
    assert_eq!((threads.value, threads.pending.as_deref()), (None, Some("1")), "it waits for a start");
    drop(settings);
    // The profile allows less than what was set.
    let settings = folder.open_with(
        &[
            "models.smollm2-135m.generation.iteration_tokens=2",
            "models.smollm2-135m.generation.prefill_chunk=1",
            "models.smollm2-135m.generation.slots=1",
        ],
        false,
        LIMIT,
    );
    assert!(settings.remarks().iter().any(|r| r.contains(SLOTS) && r.contains("does not fit any more")));
    assert_eq!(settings.profile().cpu_threads, Some(1));
    assert_eq!((value(&settings, WAIT).as_deref(), value(&settings, SLOTS).as_deref()), (Some("3"), Some("1")));
    assert_eq!(value(&settings, SHARE).as_deref(), Some("0.3"), "that was for one life");
    assert_eq!(settings.journal(9).entries.iter().map(|e| e.revision).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    drop(settings);
    assert_eq!(value(&folder.open_with(&[], true, LIMIT), WAIT).as_deref(), Some("5"), "a fresh start");
    assert_eq!(value(&folder.open(), WAIT).as_deref(), Some("5"), "and it has forgotten");
}

#[test]
fn a_torn_line_is_cut_off_and_told() {
    let folder = Folder::new("torn");
    let settings = folder.open();
    change(&settings, &kept(&[(WAIT, "3")])).expect("taken");
    change(&settings, &kept(&[(WAIT, "4"), (SHARE, "0.4")])).expect("taken");
    drop(settings);
    let whole = folder.file();
    for cut in [whole.len() - 1, whole.len() - 40, whole.rfind("\n{").expect("lines") + 2] {
        fs::write(folder.0.join("journal.jsonl"), &whole[..cut]).expect("writes");
        let settings = folder.open();
        assert!(settings.remarks().iter().any(|r| r.contains("torn")), "{:?}", settings.remarks());
        let holds = (value(&settings, WAIT), value(&settings, SHARE));
        assert_eq!(holds, (Some("3".into()), Some("0.3".into())), "none of it, not half");
        drop(settings);
        assert!(folder.file().ends_with('\n') && folder.file().lines().count() == 3);
    }
    fs::write(folder.0.join("journal.jsonl"), format!("nonsense\n{whole}")).expect("writes");
    let settings = folder.open();
    assert!(settings.remarks().iter().any(|r| r.contains("line 1 is no entry")));
    assert_eq!(value(&settings, SHARE).as_deref(), Some("0.4"));
}

#[test]
fn a_full_file_is_put_aside_and_the_newest_is_enough() {
    let folder = Folder::new("rotate");
    let settings = folder.open_with(&[], false, 2_000);
    change(&settings, &kept(&[(SHARE, "0.4")])).expect("taken");
    for n in 1..60 {
        change(&settings, &set(&[(WAIT, &n.to_string())])).expect("taken");
    }
    drop(settings);
    let mut names: Vec<_> =
        fs::read_dir(&folder.0).expect("there").map(|f| f.expect("an entry").file_name().into_string()).collect();
    names.sort();
    let wanted =
        ["journal.1.jsonl", "journal.2.jsonl", "journal.3.jsonl", "journal.4.jsonl", "journal.jsonl", "journal.lock"];
    assert_eq!(names.into_iter().map(Result::unwrap).collect::<Vec<_>>(), wanted);
    assert!(folder.file().starts_with("{\"revision\":") && folder.file().len() < 2_000);
    for n in 1..=4 {
        fs::remove_file(folder.0.join(format!("journal.{n}.jsonl"))).expect("there");
    }
    let settings = folder.open();
    assert_eq!(value(&settings, SHARE).as_deref(), Some("0.4"));
    assert_eq!(settings.knobs().revision, 62, "two starts and sixty changes");
    assert!(settings.journal(99).entries.iter().all(|e| e.kind != EntryKind::Head));
}

#[test]
fn a_journal_that_cannot_be_used_leaves_an_engine_that_refuses_changes() {
    let folder = Folder::new("unusable");
    fs::create_dir_all(&folder.0).expect("a folder");
    std::os::unix::fs::symlink("/dev/full", folder.0.join("journal.jsonl")).expect("a link");
    let settings = folder.open();
    assert!(settings.remarks()[0].contains("it is not a regular file"), "{:?}", settings.remarks());
    let never = |_: &BoxProfile| panic!("nothing is handed over");
    let fault = settings.change(&set(&[(WAIT, "3")]), "uid:7", &never).expect_err("refused");
    assert!(fault.message.contains("cannot open the journal"), "{fault}");
    assert_eq!((value(&settings, WAIT).as_deref(), settings.journal(9).file), (Some("5"), None));
}

#[test]
fn one_engine_keeps_a_journal() {
    let folder = Folder::new("lock");
    let first = folder.open();
    let second = folder.open();
    assert!(second.remarks()[0].contains("another engine of this name keeps it"), "{:?}", second.remarks());
    assert!(change(&second, &set(&[(WAIT, "3")])).is_err());
    change(&first, &set(&[(WAIT, "3")])).expect("the first one goes on");
}

#[test]
fn a_read_only_engine_refuses_and_still_checks() {
    let folder = Folder::new("read-only");
    let settings = folder.open_with(&["control.read_only=true"], false, LIMIT);
    let fault = change(&settings, &set(&[(WAIT, "3")])).expect_err("refused");
    assert_eq!((fault.kind, fault.code), (ErrorKind::Forbidden, Some("read_only")));
    assert!(change(&settings, &ChangeRequest { dry_run: true, ..set(&[(WAIT, "3")]) }).is_ok());
}

#[test]
fn every_knob_says_where_it_stands() {
    let folder = Folder::new("knobs");
    let settings = folder.open_with(&["models.minilm-l6.wait_ms=7"], false, LIMIT);
    change(&settings, &set(&[(WAIT, "3")])).expect("taken");
    let all = settings.knobs();
    let knob = all.knobs.iter().find(|k| k.name == WAIT).expect("known");
    let layers: Vec<_> = knob.layers.iter().map(|l| (l.layer.name(), l.value.as_deref())).collect();
    assert_eq!(layers[0], ("live", Some("3")));
    assert_eq!((layers[1], layers[layers.len() - 1]), (("command line", Some("7")), ("built-in", Some("15"))));
    assert!(knob.layers[0].origin.starts_with("uid:7 at 20") && knob.layers[1].origin.contains("--set"));
    assert_eq!((knob.unit.as_deref(), knob.envelope.text().as_str()), (Some("ms"), "0 to 60000"));
    assert!(all.knobs.iter().all(|k| !k.layers.is_empty() && k.doc.ends_with('.')));
}

fn idle() -> Snapshot {
    let text = include_str!("../../../../tests/fixtures/snapshots/idle.json");
    serde_json::from_str(text).expect("a snapshot")
}

fn with_requests(total: u64) -> impl Fn() -> Arc<Snapshot> {
    move || {
        let mut snapshot = idle();
        snapshot.requests.total = total;
        Arc::new(snapshot)
    }
}

#[test]
fn a_guard_that_breaks_undoes_its_change_and_says_why() {
    let folder = Folder::new("guard");
    let settings = folder.open();
    let guarded = ChangeRequest { guard: Some("requests.total<5".into()), ttl_s: Some(60.0), ..set(&[(WAIT, "3")]) };
    change(&settings, &guarded).expect("taken");
    change(&settings, &set(&[(SHARE, "0.4")])).expect("taken");
    let never = |_: &BoxProfile| panic!("nothing is handed over");
    assert!(settings.guard(&with_requests(4), &never).is_some(), "it is looked at again");
    let handed = RefCell::new(None);
    let apply = |profile: &BoxProfile| {
        assert!(folder.file().contains("\"kind\":\"breach\""), "written down first");
        *handed.borrow_mut() = profile.models.iter().find(|m| m.id == "minilm-l6").map(|m| m.wait_ms);
    };
    assert!(settings.guard(&with_requests(7), &apply).is_some());
    assert_eq!(*handed.borrow(), Some(5.0));
    assert_eq!(value(&settings, SHARE).as_deref(), Some("0.4"), "what another change set stays");
    let shown = settings.journal(1).entries.remove(0);
    assert_eq!((shown.kind, shown.reverts, shown.actor.as_str()), (EntryKind::Breach, Some(2), "engine"));
    assert_eq!(shown.reason.as_deref(), Some("the guard broke: requests.total is 7"));
    assert_eq!((shown.guard.as_deref(), shown.readings.len()), (Some("requests.total<5"), 1));
    assert_eq!(settings.guard(&with_requests(7), &never), None, "nothing is left to look at");
}

#[test]
fn a_guard_is_held_against_what_the_engine_shows_before_it_is_taken() {
    let sound = |guard: &str| super::guard_is_sound(guard, &idle());
    assert_eq!(sound("requests.total<5"), Ok(()));
    assert_eq!(sound("models.whisper-tiny-en.lanes.clips.p95_ms<1"), Ok(()), "unknown breaks nothing");
    for (guard, code, says) in [
        ("requests.total<", "invalid_guard", "column 16"),
        ("requests.totla<5", "invalid_guard", "did you mean `total`?"),
        ("requests.total>5", "guard_broken", "requests.total is 0"),
    ] {
        let fault = sound(guard).expect_err(guard);
        assert_eq!((fault.code, fault.param.as_deref()), (Some(code), Some("guard")));
        assert!(fault.message.contains(says), "{fault}");
    }
}

#[test]
fn what_a_change_did_is_a_line_of_its_own_and_part_of_the_change_when_shown() {
    let folder = Folder::new("effect");
    let settings = folder.open();
    change(&settings, &set(&[(WAIT, "3")])).expect("taken");
    change(&settings, &set(&[(WAIT, "4")])).expect("taken");
    assert!(settings.measurable().0.is_empty(), "the minute after is not over");
    let effect = Effect { of: 2, window_s: 60.0, beside: vec![3], lanes: Vec::new() };
    settings.measured(effect.clone());
    let effects = |settings: &Settings| {
        settings.journal(9).entries.into_iter().map(|e| (e.revision, e.effect)).collect::<Vec<_>>()
    };
    let shown = [(1, None), (2, Some(effect)), (3, None)];
    assert_eq!(effects(&settings), shown);
    assert_eq!(settings.published().tail.len(), 3);
    assert_eq!(folder.file().lines().count(), 4);
    drop(settings);
    let again = folder.open();
    assert_eq!(effects(&again)[..3], shown);
    assert_eq!(again.knobs().revision, 4, "it is no revision");
}
