//! Hands on requests: what is written down of them, and what happens when it cannot be.

use super::*;
use crate::control::hands::{RequestChange, RequestPatch, RequestPlace, Touch};
use crate::control::snapshot::RequestState;
use crate::control::{Lane, Op};
use std::time::Duration;

/// A request that does what it is told, while it lives.
struct Fake {
    place: RefCell<Option<RequestPlace>>,
}

impl Fake {
    fn new() -> Fake {
        Fake { place: RefCell::new(Some(RequestPlace { lane: Some(Lane::Clips), held: false, cancelled: false })) }
    }

    fn touch(&self, touch: Touch, dry: bool) -> Result<RequestChange, Fault> {
        let from = self.place.borrow().ok_or_else(|| Fault::new(ErrorKind::NotFound, "it has ended"))?;
        let to = from.after(touch);
        if !dry {
            self.place.replace(Some(to));
        }
        let (request, model) = ("req-7".to_string(), "ears".to_string());
        Ok(RequestChange { request, model, op: Op::Transcribe, state: RequestState::Queued, from, to })
    }

    fn held(&self) -> bool {
        self.place.borrow().expect("alive").held
    }

    fn hand(&self, settings: &Settings, patch: &RequestPatch) -> Result<ChangeAnswer, Fault> {
        settings.hand(patch, "uid:7", &|touch, dry| self.touch(touch, dry))
    }

    fn revert(&self, settings: &Settings, request: &ChangeRequest) -> Result<ChangeAnswer, Fault> {
        let reach = |id: &str, touch, dry| {
            assert_eq!(id, "req-7");
            self.touch(touch, dry)
        };
        settings.take_back(request, "uid:8", &reach).map(|answer| answer.expect("it is about a request"))
    }

    fn due(&self, settings: &Settings) -> Option<Duration> {
        settings.let_go_due(&|_, touch, dry| self.touch(touch, dry))
    }
}

fn hold() -> RequestPatch {
    RequestPatch { held: Some(true), ..RequestPatch::default() }
}

fn cancel() -> RequestPatch {
    RequestPatch { cancelled: true, ..RequestPatch::default() }
}

fn to(lane: Lane) -> RequestPatch {
    RequestPatch { lane: Some(lane), ..RequestPatch::default() }
}

fn revert(revision: u64) -> ChangeRequest {
    ChangeRequest { revert: Some(revision), ..ChangeRequest::default() }
}

#[test]
fn a_hand_is_a_line_of_the_journal_and_a_dry_run_is_none() {
    let folder = Folder::new("hand");
    let (settings, fake) = (folder.open(), Fake::new());
    let dry = fake.hand(&settings, &RequestPatch { dry_run: true, ..hold() }).expect("it could be held");
    assert!(!dry.applied && dry.request.is_some_and(|r| r.to.held) && !fake.held());
    assert_eq!(folder.file().lines().count(), 1, "the start");
    let answer = fake.hand(&settings, &RequestPatch { reason: Some("noisy".into()), ..hold() }).expect("held");
    assert_eq!((answer.applied, answer.revision, fake.held()), (true, 2, true));
    let line = folder.file().lines().last().expect("a line").to_string();
    for part in [r#""kind":"hand""#, r#""request":"req-7""#, r#""actor":"uid:7""#, r#""reason":"noisy""#] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!fake.hand(&settings, &hold()).expect("fine").applied, "it has it already");
    fake.hand(&settings, &to(Lane::Recordings)).expect("moved");
    fake.hand(&settings, &cancel()).expect("cancelled");
    let did: Vec<_> = settings.journal(99).entries.iter().filter_map(|e| Some(e.request.as_ref()?.what())).collect();
    assert_eq!(did, ["hold", "move", "cancel"]);
}

#[test]
fn what_makes_no_sense_is_refused_before_the_request_is_touched() {
    let folder = Folder::new("hand-sense");
    let settings = folder.open();
    let never = |_, _| panic!("it is left alone");
    for (patch, param) in [
        (RequestPatch::default(), "body"),
        (RequestPatch { held: Some(true), ..cancel() }, "cancelled"),
        (RequestPatch { ttl_s: Some(5.0), ..to(Lane::Clips) }, "ttl_s"),
        (RequestPatch { ttl_s: Some(0.0), ..hold() }, "ttl_s"),
        (RequestPatch { reason: Some("x".repeat(501)), ..hold() }, "reason"),
    ] {
        let fault = settings.hand(&patch, "uid:7", &never).expect_err("refused");
        assert_eq!(fault.param.as_deref(), Some(param), "{fault}");
    }
    let shut = folder_read_only(&folder, settings);
    let fault = shut.hand(&cancel(), "uid:7", &never).expect_err("read-only");
    assert_eq!(fault.code, Some("read_only"));
    let fake = Fake::new();
    assert!(fake.hand(&shut, &RequestPatch { dry_run: true, ..hold() }).is_ok());
}

/// The same folder, opened by an engine that is read-only.
fn folder_read_only(folder: &Folder, settings: Settings) -> Settings {
    drop(settings);
    folder.open_with(&["control.read_only=true"], false, LIMIT)
}

#[test]
fn what_cannot_be_written_down_is_undone_and_a_cancellation_is_not() {
    let folder = Folder::new("hand-full");
    let (settings, fake) = (folder.open(), Fake::new());
    settings.fill_disk();
    let fault = fake.hand(&settings, &hold()).expect_err("refused");
    assert!(fault.message.contains("cannot be written") && !fake.held(), "{fault}");
    let answer = fake.hand(&settings, &cancel()).expect("it ends all the same");
    assert!(answer.applied && answer.warnings[0].contains("the journal does not tell of it"), "{answer:?}");
    let base = BoxBase::read("demo", &Env::empty(), &[]).expect("a shipped profile");
    let nowhere = Settings::open_with(base, None, false, LIMIT).expect("sound");
    let never = |_, _| panic!("it is left alone");
    assert!(nowhere.hand(&hold(), "uid:7", &never).is_err(), "no journal, no hold");
    assert!(Fake::new().hand(&nowhere, &cancel()).expect("no journal is no reason").applied);
}

#[test]
fn a_hold_for_a_time_ends_by_itself() {
    let folder = Folder::new("hand-ttl");
    let (settings, fake) = (folder.open(), Fake::new());
    fake.hand(&settings, &RequestPatch { ttl_s: Some(600.0), ..hold() }).expect("held");
    let left = fake.due(&settings).expect("it will end");
    assert!(fake.held() && left <= Duration::from_secs(600) && left > Duration::from_secs(500), "{left:?}");
    fake.hand(&settings, &RequestPatch { ttl_s: Some(0.1), ..hold() }).expect("held anew");
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while let Some(left) = fake.due(&settings) {
        assert!(std::time::Instant::now() < end && left <= Duration::from_millis(100));
        std::thread::park_timeout(left);
    }
    assert!(!fake.held());
    let journal = settings.journal(1).entries;
    let last = journal.last().expect("an entry");
    assert_eq!((last.kind, last.actor.as_str()), (EntryKind::Expiry, "engine"));
    assert_eq!(last.request.as_ref().map(RequestChange::what), Some("release"));
    // One that ends while it is held leaves nothing behind.
    fake.hand(&settings, &RequestPatch { ttl_s: Some(0.1), ..hold() }).expect("held");
    fake.place.replace(None);
    while let Some(left) = fake.due(&settings) {
        assert!(std::time::Instant::now() < end);
        std::thread::park_timeout(left);
    }
    assert_eq!(settings.journal(1).entries[0].kind, EntryKind::Hand);
}

#[test]
fn a_hand_is_taken_back_while_nobody_else_has_had_one() {
    let folder = Folder::new("hand-back");
    let (settings, fake) = (folder.open(), Fake::new());
    fake.hand(&settings, &hold()).expect("held");
    assert!(!fake.revert(&settings, &ChangeRequest { dry_run: true, ..revert(2) }).expect("possible").applied);
    assert!(fake.held());
    fake.revert(&settings, &ChangeRequest { reason: Some("enough".into()), ..revert(2) }).expect("released");
    assert!(!fake.held());
    let shown = settings.journal(1).entries;
    assert_eq!((shown[0].kind, shown[0].reverts, shown[0].actor.as_str()), (EntryKind::Revert, Some(2), "uid:8"));
    let fault = fake.revert(&settings, &revert(2)).expect_err("it was taken back");
    assert_eq!((fault.kind, fault.code), (ErrorKind::Conflict, Some("request_moved")));
    let stale = ChangeRequest { if_revision: Some(1), ..revert(3) };
    assert_eq!(fake.revert(&settings, &stale).expect_err("moved").code, Some("revision_moved"));
    fake.revert(&settings, &revert(3)).expect("and held again");
    assert!(fake.held());
    // Held for another time: neither a release nor the old time would undo that.
    fake.hand(&settings, &RequestPatch { ttl_s: Some(600.0), ..hold() }).expect("for a time");
    assert!(fake.revert(&settings, &revert(5)).expect_err("no way back").message.contains("another time"));
    fake.hand(&settings, &cancel()).expect("cancelled");
    assert!(fake.revert(&settings, &revert(6)).expect_err("for good").message.contains("cannot be undone"));
    // Settings are not this one's business.
    change(&settings, &set(&[(WAIT, "3")])).expect("taken");
    assert!(settings.take_back(&revert(7), "uid:8", &|_, _, _| panic!("no request")).expect("no fault").is_none());
    drop(settings);
    let settings = folder.open();
    let fault = fake.revert(&settings, &revert(2)).expect_err("another req-7 may live now");
    assert!(fault.message.contains("before the engine's last start"), "{fault}");
    assert!(fake.due(&settings).is_none(), "and nothing is held for a time");
    assert_eq!(value(&settings, WAIT).as_deref(), Some("5"));
}
