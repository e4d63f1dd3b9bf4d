//! The reducer: what keys and snapshots do, and what no sequence of them can break.

use super::super::keys::Key;
use super::super::testing::{crowd, knobs, playing, press, recorded, take, type_text, watching};
use super::requests::arrange;
use super::*;
use crate::control::snapshot::RequestState;
use proptest::prelude::*;

fn requests_view() -> State {
    watching(&recorded("busy"), View::Requests, (80, 24))
}

fn fresh(snapshot: Snapshot, at: u64) -> Msg {
    Msg::Fresh { snapshot: Arc::new(snapshot), received_ms: at, missed: 0 }
}

fn keys(keys: &[Key]) -> Vec<Msg> {
    keys.iter().map(|&key| Msg::Key(key)).collect()
}

/// What must hold whatever happened.
fn holds(state: &State) -> Result<(), String> {
    let Some(seen) = state.shown() else { return Ok(()) };
    let requests = &seen.snapshot.requests.shown;
    let table = &state.table;
    let selected = table.rows.get(table.cursor.index()).and_then(|&row| requests.get(row));
    if selected.map(|request| &request.id) != table.cursor.key() {
        return Err(format!("the selection is {:?}, its row {:?}", table.cursor.key(), selected.map(|r| &r.id)));
    }
    if table.rows != arrange(requests, &table.filter, table.sort, table.reverse) {
        return Err("the rows are not those of what is shown".to_string());
    }
    let entries = settings::entries(&seen.snapshot);
    if entries.get(state.settings.entry.index()).map(|entry| &entry.revision) != state.settings.entry.key() {
        return Err(format!("the selected entry is {:?}", state.settings.entry));
    }
    if let (Some(knobs), Some(name)) = (&state.settings.knobs, state.settings.knob.key())
        && knobs.knobs.get(state.settings.knob.index()).map(|knob| &knob.name) != Some(name)
    {
        return Err(format!("the selected knob is {:?}", state.settings.knob));
    }
    let lines = lines::lines_of(state.view, &seen.snapshot);
    if lines.get(state.line.index()).map(Line::key).as_ref() != state.line.key() {
        return Err(format!("the selected line is {:?} at {}", state.line.key(), state.line.index()));
    }
    Ok(())
}

#[test]
fn a_request_is_cancelled_after_two_steps_and_never_after_one() {
    let state = press(requests_view(), &[Key::Char('j')]);
    let chosen = state.table.cursor.key().cloned().unwrap();
    let cancels = |sequence: &[Key]| take(state.clone(), keys(sequence)).1;
    assert_eq!(cancels(&[Key::Char('x')]), []);
    assert_eq!(cancels(&[Key::Char('x'), Key::Enter]), [], "the button that does nothing is marked first");
    assert_eq!(cancels(&[Key::Char('x'), Key::Char('y'), Key::Esc, Key::Enter]), []);
    assert_eq!(cancels(&[Key::Char('x'), Key::Tab, Key::Tab, Key::Enter]), []);
    let asked = [Cmd::CancelRequest { request: chosen }];
    assert_eq!(cancels(&[Key::Char('x'), Key::Char('y'), Key::Enter]), asked);
    assert_eq!(cancels(&[Key::Char('x'), Key::Tab, Key::Enter]), asked);
    assert_eq!(cancels(&[Key::Enter, Key::Char('x'), Key::Char('y'), Key::Enter]), asked, "from the detail too");
}

#[test]
fn read_only_refuses_changes_and_a_lock_holds() {
    let mut state = requests_view();
    state.read_only = ReadOnly { on: true, locked: true };
    for sequence in [vec![Key::Char('x')], vec![Key::Char('R'), Key::Char('x'), Key::Char('y'), Key::Enter]] {
        let (after, asked) = take(state.clone(), keys(&sequence));
        assert!(!asked.iter().any(|cmd| matches!(cmd, Cmd::CancelRequest { .. })), "{asked:?}");
        assert!(after.overlay.as_ref().is_none_or(|over| matches!(over, Overlay::Detail { .. })));
    }
    let typed = type_text(press(state.clone(), &[Key::Char(':')]), "cancel req-1801");
    let asked = take(typed, keys(&[Key::Enter, Key::Char('y'), Key::Enter])).1;
    assert!(!asked.iter().any(|cmd| matches!(cmd, Cmd::CancelRequest { .. })), "{asked:?}");
    let change = Msg::Meant(Meaning::Change { line: "set a=1".to_string(), about: Vec::new() });
    let asked = take(state.clone(), [change, Msg::Key(Key::Char('y')), Msg::Key(Key::Enter)]).1;
    assert!(!asked.iter().any(|cmd| matches!(cmd, Cmd::Run { .. })), "{asked:?}");
    state.read_only.locked = false;
    let (after, asked) = take(state, keys(&[Key::Char('R'), Key::Char('x'), Key::Char('y'), Key::Enter]));
    assert_eq!(asked.len(), 1);
    assert!(!after.read_only.on);
}

#[test]
fn a_question_about_a_request_that_ended_is_withdrawn() {
    let state = press(requests_view(), &[Key::Char('x'), Key::Char('y')]);
    let mut snapshot = recorded("busy");
    snapshot.requests.shown[0].state = RequestState::Done;
    let (state, asked) = take(state, [fresh(snapshot, 40_000), Msg::Key(Key::Enter)]);
    assert_eq!(asked, []);
    assert!(!matches!(state.overlay, Some(Overlay::Confirm(_))));
}

#[test]
fn a_frozen_view_stays_while_data_go_on() {
    let state = press(requests_view(), &[Key::Char(' ')]);
    let (state, _) = take(state, [Msg::Tick { now_ms: 60_000 }, fresh(recorded("idle"), 60_000)]);
    assert_eq!(state.shown().unwrap().snapshot.requests.shown.len(), 34);
    assert_eq!(state.age_ms(), Some(0), "the header still tells the age of the newest data");
    holds(&state).unwrap();
    let state = press(state, &[Key::Char(' ')]);
    assert_eq!(state.shown().unwrap().snapshot.requests.shown.len(), 6);
    holds(&state).unwrap();
}

#[test]
fn one_can_look_back_second_by_second_and_minute_by_minute() {
    let looked_at = |state: &State| state.shown().unwrap().received_ms;
    let state = requests_view();
    assert_eq!(looked_at(&state), 30_000);
    let back = press(state, &[Key::Left, Key::Char('h'), Key::Left]);
    assert_eq!((looked_at(&back), back.looked_at_ms()), (27_000, Some(3_200)));
    assert_eq!(looked_at(&press(back.clone(), &[Key::Right])), 28_000);
    let first = press(back.clone(), &[Key::Char('['), Key::Char('[')]);
    assert_eq!(looked_at(&first), 1_000, "further back than anything kept is the oldest");
    assert!(press(first.clone(), &[Key::Left]).toast.is_some_and(|toast| toast.text.contains("nothing older")));
    let on = press(first, &[Key::Char(']')]);
    assert!(on.frozen.is_none(), "behind the newest the view goes on by itself");
    let (later, _) = take(back, [Msg::Tick { now_ms: 60_000 }, fresh(recorded("idle"), 60_000)]);
    assert_eq!(
        (looked_at(&later), later.looked_at_ms()),
        (27_000, Some(33_000)),
        "new data do not move what is looked at"
    );
    holds(&later).unwrap();
}

#[test]
fn a_search_finds_lines_round_and_round_and_in_the_table_goes_through_the_filtered() {
    let line = |state: &State| state.line.key().unwrap().model.clone();
    let state = watching(&recorded("busy"), View::Lanes, (80, 24));
    let typed = type_text(press(state.clone(), &[Key::Char('/')]), "minilm");
    assert_eq!(line(&typed), "minilm-l6");
    let kept = press(typed, &[Key::Enter]);
    let ops = |state: &State| state.line.key().unwrap().op.unwrap().name();
    assert_eq!(ops(&kept), "embed");
    let next = press(kept, &[Key::Char('n')]);
    assert_eq!(ops(&next), "rerank");
    assert_eq!(ops(&press(next.clone(), &[Key::Char('n')])), "embed");
    assert_eq!(ops(&press(next, &[Key::Char('N'), Key::Char('N')])), "rerank");
    let none = press(type_text(press(state.clone(), &[Key::Char('/')]), "nothing"), &[Key::Enter]);
    assert!(none.toast.is_some_and(|toast| toast.error && toast.text.contains("nothing")));
    assert!(press(state, &[Key::Char('n')]).toast.is_some_and(|toast| toast.error));
    let table = press(type_text(press(requests_view(), &[Key::Char('/')]), "state:queued"), &[Key::Enter]);
    let first = table.table.cursor.key().cloned();
    let last = press(table.clone(), &[Key::Char('N')]);
    assert_eq!(last.table.cursor.index(), 16);
    assert_eq!(press(last, &[Key::Char('n')]).table.cursor.key().cloned(), first);
}

#[test]
fn what_a_command_means_is_shown_asked_or_refused() {
    let mut state = requests_view();
    state.words = ["status".to_string(), "set".to_string()].into();
    let (state, asked) = take(type_text(press(state, &[Key::Char(':')]), "set a=1"), keys(&[Key::Enter]));
    assert_eq!(asked, [Cmd::Interpret { line: "set a=1".to_string() }]);
    let change = Msg::Meant(Meaning::Change { line: "set a=1".to_string(), about: vec!["a 0 -> 1".to_string()] });
    let (asking, _) = take(state.clone(), [change]);
    assert_eq!(take(asking.clone(), keys(&[Key::Enter])).1, [], "the button that does nothing is marked first");
    let run = [Cmd::Run { line: "set a=1".to_string() }];
    assert_eq!(take(asking, keys(&[Key::Char('y'), Key::Enter])).1, run);
    let text = (0..100).map(|n| format!("line {n}\n")).collect::<String>();
    let (shown, _) = take(state.clone(), [Msg::Meant(Meaning::Output { title: "status".to_string(), text })]);
    let (shown, copied) = take(shown, keys(&[Key::Char('G'), Key::Char('k'), Key::Char('y')]));
    assert!(matches!(shown.overlay, Some(Overlay::Output { scroll: 80, .. })), "{:?}", shown.overlay);
    assert!(matches!(&copied[..], [Cmd::Copy(text)] if text.ends_with("line 99")));
    assert!(press(shown, &[Key::Char('q')]).overlay.is_none());
    let (refused, _) = take(state, [Msg::Meant(Meaning::Refused("not here".to_string()))]);
    assert!(refused.toast.is_some_and(|toast| toast.error));
}

#[test]
fn the_selection_follows_its_request() {
    let state = press(requests_view(), &[Key::Char('G'), Key::Char('k')]);
    let chosen = state.table.cursor.key().cloned();
    let mut snapshot = recorded("busy");
    snapshot.requests.shown.rotate_left(20);
    let (state, _) = take(state, [fresh(snapshot, 31_000)]);
    assert_eq!(state.table.cursor.key().cloned(), chosen);
    let sorted = press(state, &[Key::Char('s'), Key::Char('S')]);
    assert_eq!(sorted.table.cursor.key().cloned(), chosen);
}

#[test]
fn a_filter_filters_while_it_is_typed_and_escape_takes_it_back() {
    let count = |filter: &str| {
        let state = type_text(press(requests_view(), &[Key::Char('/')]), filter);
        holds(&state).unwrap();
        state.table.rows.len()
    };
    assert_eq!(count("model:smollm2"), 7);
    assert_eq!(count("state:queued lane:recordings"), 1);
    assert_eq!(count("!model:whisper state:queued"), 5);
    assert_eq!(count("会議"), 1);
    assert_eq!(count("wait:kv"), 1);
    assert_eq!(count("OP:embed"), 34 - 34, "field names are lower case; this is a word that nothing has");
    assert_eq!(count("op:EMBED"), 6);
    let typed = type_text(press(requests_view(), &[Key::Char('/')]), "nothing-like-it");
    assert_eq!(typed.table.cursor.key(), None);
    assert_eq!(press(typed, &[Key::Esc]).table.rows.len(), 34);
    let kept = press(type_text(press(requests_view(), &[Key::Char('/')]), "state:queued"), &[Key::Enter]);
    assert_eq!(kept.table.rows.len(), 17);
    assert_eq!(press(kept, &[Key::Esc]).table.rows.len(), 34);
}

#[test]
fn pasted_text_is_typed_and_never_read_as_keys() {
    let (state, asked) = take(requests_view(), [Msg::Paste("xy\rq:quit\n".to_string())]);
    assert!(asked.is_empty() && state.overlay.is_none() && state.prompt.is_none());
    let prompt = press(state, &[Key::Char(':')]);
    let (prompt, asked) = take(prompt, [Msg::Paste("lanes\n\u{1b}[A".to_string())]);
    assert_eq!((prompt.prompt.unwrap().text.as_str(), asked.len()), ("lanes[A", 0));
}

#[test]
fn words_are_erased_whole_whatever_their_alphabet() {
    let erased = |text: &str| {
        let prompt = press(requests_view(), &[Key::Char(':')]);
        let (state, _) = take(prompt, [Msg::Paste(text.to_string()), Msg::Key(Key::Ctrl('w'))]);
        state.prompt.unwrap().text
    };
    assert_eq!(
        ["cancel req-7", "cancel req-7  ", "одно\u{a0}слово", ""].map(erased),
        ["cancel ", "cancel ", "одно\u{a0}", ""]
    );
}

#[test]
fn commands_are_obeyed_and_errors_are_shown_for_a_while() {
    let run = |line: &str| take(type_text(press(requests_view(), &[Key::Char(':')]), line), keys(&[Key::Enter]));
    assert_eq!(run("lanes").0.view, View::Lanes);
    assert_eq!(run("quit").1, [Cmd::Quit]);
    assert_eq!(run("cancel req-1801").1, [], "it asks first");
    let asked = take(run("cancel req-1801").0, keys(&[Key::Char('y'), Key::Enter])).1;
    assert_eq!(asked, [Cmd::CancelRequest { request: "req-1801".to_string() }]);
    assert!(run("cancel req-9").0.toast.is_some_and(|toast| toast.text.contains("no longer in the engine")));
    assert_eq!(run("sort cost").0.table.sort, Sort::Cost);
    let (state, _) = run("lans");
    assert!(state.toast.as_ref().is_some_and(|toast| toast.error && toast.text.contains("lans")));
    let later = state.now_ms + 20_000;
    assert!(take(state, [Msg::Tick { now_ms: later }]).0.toast.is_none());
}

#[test]
fn one_can_walk_from_a_model_to_its_lanes_to_its_requests() {
    let state = watching(&recorded("busy"), View::Overview, (80, 24));
    let state = press(state, &[Key::Down, Key::Enter]);
    assert_eq!((state.view, state.line.key().unwrap().model.as_str()), (View::Lanes, "minilm-l6"));
    let state = press(state, &[Key::Enter]);
    assert_eq!((state.view, state.table.filter.as_str()), (View::Requests, "model:minilm-l6 op:embed"));
    assert_eq!(state.table.rows.len(), 6);
}

#[test]
fn chords_that_are_broken_off_do_not_swallow_the_next_key() {
    let state = press(requests_view(), &[Key::Char('G'), Key::Char('g'), Key::Char('g')]);
    assert_eq!(state.table.cursor.index(), 0);
    let state = press(state, &[Key::Char('g'), Key::Char('j')]);
    assert_eq!(state.table.cursor.index(), 1);
}

#[test]
fn a_rate_is_measured_over_time_and_begins_anew_with_the_engine() {
    let state = watching(&recorded("busy"), View::Overview, (80, 24));
    let key = LineKey { model: "whisper-tiny-en".to_string(), op: Some(crate::control::Op::Transcribe) };
    let past = |state: &State| state.live.as_ref().unwrap().history.past(&key).cloned();
    assert!(past(&state).unwrap().rate().is_some_and(|rate| rate > 1000.0));
    let mut restarted = recorded("busy");
    restarted.pid += 1;
    restarted.uptime_ms = 100;
    let (state, _) = take(state, [fresh(restarted, 31_000)]);
    assert_eq!(past(&state).unwrap().rate(), None);
}

#[test]
fn silence_makes_data_stale_before_the_link_is_known_to_be_down() {
    let state = requests_view();
    assert!(!state.stale());
    let (state, _) = take(state, [Msg::Tick { now_ms: 40_000 }]);
    assert!(state.stale());
}

#[test]
fn the_table_of_settings_is_asked_for_once_where_it_is_looked_at_and_when_it_moved() {
    let state = watching(&recorded("busy"), View::Overview, (80, 24));
    let (state, asked) = take(state, keys(&[Key::Char('7'), Key::Char('8'), Key::Char('7')]));
    assert_eq!(asked, [Cmd::LoadKnobs], "once, while nothing has come");
    let (state, asked) = take(state, [Msg::Knobs(Ok(Arc::new(knobs()))), fresh(recorded("busy"), 31_000)]);
    assert_eq!(asked, []);
    holds(&state).unwrap();
    let mut moved = recorded("busy");
    moved.revision += 1;
    let (state, asked) = take(state, [fresh(moved.clone(), 32_000), fresh(moved, 33_000)]);
    assert_eq!(asked, [Cmd::LoadKnobs]);
    let (state, asked) = take(state, [Msg::Knobs(Err("gone".to_string())), fresh(recorded("busy"), 34_000)]);
    assert!(asked.is_empty() && state.settings.knobs.is_some(), "the old table stays");
}

#[test]
fn a_setting_is_edited_as_a_command_and_a_change_is_undone_as_one() {
    let state = watching(&recorded("busy"), View::Settings, (80, 24));
    let found = press(type_text(press(state, &[Key::Char('/')]), "deadline"), &[Key::Enter]);
    assert_eq!(found.settings.knob.key().map(String::as_str), Some("limits.default_deadline_s"));
    let top = press(found, &[Key::Char('g'), Key::Char('g'), Key::Char('e')]);
    assert_eq!(top.prompt.unwrap().text, "set models.whisper-tiny-en.max_batch_cost=90s");
    let journal = watching(&recorded("busy"), View::Journal, (80, 24));
    assert_eq!(journal.settings.entry.key(), Some(&9), "the newest first");
    let undo = press(journal, &[Key::Char('j'), Key::Char('e')]);
    assert_eq!(undo.prompt.unwrap().text, "journal revert 8");
}

#[test]
fn the_lease_that_ends_next_counts_down_between_snapshots() {
    let state = requests_view();
    assert_eq!(state.next_expiry_ms(), Some(538_800.0));
    let (state, _) = take(state, [Msg::Tick { now_ms: 35_000 }]);
    assert_eq!(state.next_expiry_ms(), Some(534_000.0));
}

fn any_key() -> impl Strategy<Value = Key> {
    let named = vec![
        Key::Enter,
        Key::Esc,
        Key::Tab,
        Key::BackTab,
        Key::Backspace,
        Key::Up,
        Key::Down,
        Key::Left,
        Key::Right,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Ctrl('d'),
        Key::Ctrl('u'),
        Key::Ctrl('w'),
        Key::Ctrl('l'),
    ];
    let letters: Vec<Key> = "ghjklGnNsSxyR12345678/:? qetaw![]".chars().map(Key::Char).collect();
    prop_oneof![
        2 => prop::sample::select(named),
        5 => prop::sample::select(letters),
        1 => any::<char>().prop_map(Key::Char),
    ]
}

fn any_snapshot() -> impl Strategy<Value = Msg> {
    let name = prop::sample::select(vec!["busy", "idle", "loading", "degraded", "crowd"]);
    (name, 0usize..40, 0usize..40, 0u64..90_000).prop_map(|(name, rotate, keep, at)| {
        let mut snapshot = if name == "crowd" { crowd(60) } else { recorded(name) };
        let shown = &mut snapshot.requests.shown;
        let turn = rotate % shown.len().max(1);
        shown.rotate_left(turn);
        shown.truncate(keep);
        snapshot.models.truncate(keep % 4);
        snapshot.uptime_ms = at;
        fresh(snapshot, at)
    })
}

fn any_message() -> impl Strategy<Value = Msg> {
    prop_oneof![
        12 => any_key().prop_map(Msg::Key),
        3 => any_snapshot(),
        1 => any::<String>().prop_map(Msg::Paste),
        1 => (0u16..300, 0u16..100).prop_map(|(width, height)| Msg::Resize { width, height }),
        1 => any::<u64>().prop_map(|now_ms| Msg::Tick { now_ms: now_ms % 200_000 }),
        1 => (any::<u32>(), any::<u64>()).prop_map(|(attempt, retry_in_ms)| {
            Msg::Away { attempt, retry_in_ms, why: "gone".to_string() }
        }),
        1 => prop::sample::select(vec![
            Meaning::Output { title: "status".to_string(), text: "a\nb\n".repeat(40) },
            Meaning::Change { line: "set a=1".to_string(), about: vec!["a".to_string()] },
            Meaning::Refused("no".to_string()),
        ]).prop_map(Msg::Meant),
        1 => any::<bool>().prop_map(|ok| Msg::Acted(if ok { Ok("done".into()) } else { Err("no".into()) })),
        1 => Just(Msg::Click(Target::Request("req-1810".to_string()))),
        1 => Just(Msg::Click(Target::Tab(View::Lanes))),
        1 => Just(Msg::Click(Target::Knob("log.level".to_string()))),
        1 => Just(Msg::Click(Target::Entry(7))),
        1 => any::<bool>().prop_map(|ok| Msg::Knobs(if ok { Ok(Arc::new(knobs())) } else { Err("no".into()) })),
    ]
}

#[test]
fn one_comes_to_the_newest_entry_of_the_journal() {
    let entry = |state: &State| state.settings.entry.key().copied();
    let state = watching(&recorded("busy"), View::Journal, (80, 24));
    assert_eq!(entry(&press(state.clone(), &[Key::Char('j')])), Some(8));
    let mut snapshot = recorded("busy");
    snapshot.seq += 1;
    let mut newest = snapshot.journal_tail.last().cloned().unwrap();
    newest.revision = 10;
    snapshot.journal_tail.push(newest);
    let away = press(state.clone(), &[Key::Char('j'), Key::Char('2')]);
    let (away, _) = take(away, [fresh(snapshot.clone(), 31_000)]);
    assert_eq!(entry(&press(away, &[Key::Char('8')])), Some(10));
    let (stayed, _) = take(press(state, &[Key::Char('j')]), [fresh(snapshot, 31_000)]);
    assert_eq!(entry(&stayed), Some(8), "what is being looked at does not move");
}

#[test]
fn a_recording_plays_stops_and_is_walked_on() {
    let at = |state: &State| state.playback.as_ref().unwrap().at_ms();
    let seq = |state: &State| state.live.as_ref().unwrap().snapshot.seq;
    let state = playing(View::Settings, (80, 24));
    let (first, begin) = (seq(&state), at(&state));
    assert!(state.settings.knobs.is_some() && begin < 1000);
    let state = take(state, [Msg::Tick { now_ms: 5_000 }]).0;
    assert!(at(&state) >= 5_000 && seq(&state) > first);
    let stopped = press(state.clone(), &[Key::Char(' ')]);
    let later = take(stopped.clone(), [Msg::Tick { now_ms: 50_000 }]).0;
    assert_eq!((at(&later), seq(&later)), (at(&stopped), seq(&stopped)), "stopped, time does nothing");
    let back = press(later, &[Key::Char('{'), Key::Right, Key::Right]);
    assert_eq!(at(&back), begin + 2_000);
    let fast = take(press(back, &[Key::Char(' '), Key::Char('>'), Key::Char('>')]), [Msg::Tick { now_ms: 52_000 }]).0;
    assert_eq!(at(&fast), begin + 10_000, "four seconds each");
    let ended = take(fast, [Msg::Tick { now_ms: 90_000 }]).0;
    assert!(ended.playback.as_ref().unwrap().paused && ended.stale(), "the engine was gone at its end");
    assert_eq!(at(&press(ended, &[Key::Char(' ')])), begin, "from the end it plays from the beginning");
}

#[test]
fn nothing_can_be_changed_in_a_recording() {
    let state = playing(View::Requests, (80, 24));
    for keys in [&[Key::Char('x')][..], &[Key::Char('R')]] {
        let told = press(state.clone(), keys);
        assert!(told.overlay.is_none() && told.toast.unwrap().text.contains("a recording plays"));
    }
    let change = Msg::Meant(Meaning::Change { line: "set a=1".into(), about: Vec::new() });
    let (told, commands) = take(state, [change]);
    assert!(commands.is_empty() && told.overlay.is_none() && told.toast.unwrap().error);
    let live = press(requests_view(), &[Key::Char('>')]);
    assert!(live.toast.unwrap().text.contains("only a recording"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_messages_breaks_the_state(
        messages in prop::collection::vec(any_message(), 1..60), recorded in any::<bool>()
    ) {
        // A recording is not fed: what comes from a feed then comes from nowhere.
        let from_feed = |msg: &Msg| matches!(msg, Msg::Fresh { .. } | Msg::Away { .. } | Msg::Knobs(_));
        let messages: Vec<Msg> = messages.into_iter().filter(|msg| !recorded || !from_feed(msg)).collect();
        let mut state =
            if recorded { playing(View::Requests, (80, 24)) } else { State::new(View::Requests, false, (80, 24)) };
        for msg in messages {
            let (next, commands) = update(state, msg.clone());
            state = next;
            holds(&state).map_err(|why| TestCaseError::fail(format!("{why} after {msg:?}")))?;
            prop_assert!(commands.len() <= 1);
            if let Some(prompt) = &state.prompt {
                prop_assert!(prompt.text.chars().count() <= PROMPT_LIMIT);
                prop_assert!(!prompt.text.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn sorting_keeps_every_row_once_and_equal_rows_in_the_engines_order(
        costs in prop::collection::vec(0u64..5, 0..60),
        sort in prop::sample::select(Sort::ALL.to_vec()),
        reverse in any::<bool>(),
    ) {
        let mut requests = crowd(costs.len()).requests.shown;
        for (request, cost) in requests.iter_mut().zip(&costs) {
            request.cost = Some(*cost);
        }
        let rows = arrange(&requests, "", sort, reverse);
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..requests.len()).collect::<Vec<_>>());
        if sort == Sort::Cost {
            for pair in rows.windows(2) {
                let (a, b) = (requests[pair[0]].cost, requests[pair[1]].cost);
                let in_order = if reverse { a <= b } else { a >= b };
                prop_assert!(in_order);
                prop_assert!(a != b || pair[0] < pair[1], "equal costs keep their order");
            }
        }
    }
}
