//! The console in a real pseudo-terminal, fed by a small stand-in for the engine.
//!
//! Each test waits for what it wants to see, with a generous limit; none counts on how long something takes. The
//! console is `lanekeeper top`; where a test needs an action that panics, it is this test binary itself, asked for
//! [`child`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

mod schema;
mod sessions;
mod stage;
mod tour;
mod twins;

use lanekeeper::client::{Client, Feed, Target};
use lanekeeper::control::Snapshot;
use lanekeeper::tui::{Acting, Actions, Asking, Facts, Interpreting, Options, run};
use stage::{Engine, LEAVE, LIMIT, Seen, Terminal, recorded, sgr_codes};
use std::path::Path;
use std::time::{Duration, Instant};

const ENGINE: &str = "LANEKEEPER_CONSOLE_TEST_ENGINE";

// The child's side

struct PanickingActions;

impl Actions for PanickingActions {
    fn cancel(&self, request: &str) -> Acting {
        panic!("the console was asked to panic over {request}");
    }

    fn knobs(&self) -> Asking {
        panic!("the console was asked to panic over its settings");
    }

    fn words(&self) -> Vec<String> {
        vec!["status".to_string()]
    }

    fn interpret(&self, line: &str) -> Interpreting {
        panic!("the console was asked to panic over {line}");
    }

    fn run(&self, line: &str) -> Acting {
        panic!("the console was asked to panic over {line}");
    }
}

/// Not a test: a console whose actions panic, when a test asks for it through the environment.
#[test]
fn child() {
    let Ok(engine) = std::env::var(ENGINE) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let exit = runtime.block_on(async {
        let client = Client::new(Target::parse(&engine, Path::new("/nonexistent")).unwrap(), None);
        let feed = Feed::start(client, Duration::from_millis(50));
        run(feed, PanickingActions, Options::new(Facts::from_process())).await.unwrap()
    });
    println!("the console ended: {exit:?}");
}

// The tests

#[test]
fn the_first_screen_comes_keys_answer_and_q_restores_the_terminal() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[]);
    assert!(!terminal.cooked(), "the console reads keys, not lines");
    terminal.wait_for("Waiting longest");
    terminal.press("6");
    terminal.wait_for("REQUEST");
    terminal.press("?");
    terminal.wait_for("search:");
    terminal.press("\x1b");
    terminal.wait_until_gone("search:");
    terminal.press("q");
    assert_eq!(terminal.expect_restored(), 0);
}

#[test]
fn a_confirmed_cancel_reaches_the_engine() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[]);
    terminal.press("6");
    terminal.wait_for("REQUEST");
    terminal.press("jx");
    terminal.wait_for("Cancel req-1802?");
    terminal.press("y\r");
    assert_eq!(engine.wait_for_cancel(), "req-1802");
    terminal.wait_for("req-1802 cancelled");
}

#[test]
fn signals_end_the_console_and_restore_the_terminal() {
    for name in ["TERM", "HUP", "INT"] {
        let engine = Engine::start(recorded("busy"));
        let mut terminal = Terminal::ready(&engine, &[]);
        terminal.signal(name);
        assert_eq!(terminal.expect_restored(), 130, "{name}");
    }
}

#[test]
fn a_panic_restores_the_terminal_before_it_is_told() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::open_panicking(&engine);
    terminal.wait_for("whisper-tiny-en");
    terminal.press(":status\r");
    const TOLD: &str = "asked to panic over status";
    terminal.wait("word of the panic", |seen| seen.count(TOLD) > 0);
    assert_ne!(terminal.expect_restored(), 0);
    let seen = terminal.seen.0.lock().unwrap();
    let text = String::from_utf8_lossy(&seen.bytes);
    let (left, told) = (text.rfind(LEAVE).unwrap(), text.find(TOLD).unwrap());
    assert!(left < told, "the message is on the main screen, where it stays");
}

#[test]
fn it_can_be_suspended_and_continued_by_key_and_by_signal() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[]);
    for by_key in [true, false] {
        if by_key {
            terminal.press("\x1a")
        } else {
            terminal.signal("TSTP")
        }
        terminal.wait("way back to the main screen", |seen| !seen.terminal.screen().alternate_screen());
        // A continue that comes before the stop is lost: it is sent until it works.
        let began = Instant::now();
        loop {
            terminal.signal("CONT");
            let seen = terminal.seen.0.lock().unwrap();
            let away = |seen: &mut Seen| !seen.terminal.screen().alternate_screen();
            let (seen, waited) = terminal.seen.1.wait_timeout_while(seen, Duration::from_millis(100), away).unwrap();
            drop(seen);
            if !waited.timed_out() {
                break;
            }
            assert!(began.elapsed() < LIMIT, "the console did not come back");
        }
        terminal.wait_for("whisper-tiny-en");
        assert!(!terminal.cooked());
    }
    terminal.press("q");
    assert_eq!(terminal.expect_restored(), 0);
}

#[test]
fn a_storm_of_resizes_ends_in_one_whole_screen_of_the_last_size() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[]);
    let frames = |terminal: &Terminal| terminal.seen.0.lock().unwrap().count("\x1b[?2026h");
    let before = frames(&terminal);
    let began = Instant::now();
    for i in 0..500 {
        terminal.resize(40 + (i * 37) % 200, 8 + (i * 13) % 60);
    }
    terminal.resize(100, 30);
    terminal.wait("a whole screen of 100 by 30", |seen| {
        let text = seen.text();
        let lines: Vec<&str> = text.lines().collect();
        lines.len() == 30
            && lines[0].contains("lanekeeper")
            && lines[29].contains("? help")
            && lines[1].chars().count() == 100
    });
    // Ten a second, and one at each end; however long the storm took.
    let most = began.elapsed().as_millis() as usize / 100 + 2;
    assert!(frames(&terminal) - before <= most, "{} frames, at most {most}", frames(&terminal) - before);
    terminal.press("q");
    terminal.expect_restored();
}

#[test]
fn the_engine_may_go_and_come_back() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[]);
    let address = engine.address;
    drop(engine);
    terminal.wait_for("RECONNECTING");
    terminal.press("2");
    terminal.wait_for("queue p50");
    let mut snapshot = recorded("busy");
    (snapshot.pid, snapshot.seq, snapshot.node) = (4343, 1, "reborn".to_string());
    let engine = Engine::start_at(address, snapshot);
    terminal.wait_for("reborn");
    terminal.wait_until_gone("RECONNECTING");
    engine.publish(|snapshot| snapshot.node = "living".to_string());
    terminal.wait_for("living");
}

#[test]
fn an_engine_that_is_not_there_is_waited_for() {
    let engine = Engine::start(recorded("busy"));
    let address = engine.address;
    let mut terminal = {
        let terminal = Terminal::open(&engine, &[]);
        drop(engine);
        terminal
    };
    terminal.wait("word that it is not reached", |seen| {
        seen.text().contains("failed") || seen.text().contains("RECONNECTING")
    });
    let _engine = Engine::start_at(address, recorded("busy"));
    terminal.wait_for("whisper-tiny-en");
    terminal.press("q");
    terminal.expect_restored();
}

#[test]
fn without_colours_no_colour_code_is_written() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[("NO_COLOR", "1"), ("COLORTERM", "truecolor")]);
    for key in ["2", "3", "4", "6", "?", "\x1b"] {
        terminal.press(key);
    }
    terminal.wait_for("REQUEST");
    terminal.press("q");
    terminal.expect_restored();
    let seen = terminal.seen.0.lock().unwrap();
    let codes = sgr_codes(&seen.bytes);
    assert!(codes.contains(&1) && codes.iter().all(|code| [0, 1, 2, 4, 7].contains(code)), "{codes:?}");
}

#[test]
fn with_colours_they_are_used_in_the_depth_that_the_terminal_has() {
    let engine = Engine::start(recorded("busy"));
    for (variables, wanted) in [(&[("COLORTERM", "truecolor")], "38;2;"), (&[("TERM", "screen-256color")], "38;5;")] {
        let terminal = Terminal::ready(&engine, variables);
        let seen = terminal.seen.0.lock().unwrap();
        assert!(seen.count(wanted) > 0, "{variables:?}");
    }
}

#[test]
fn in_the_c_locale_every_byte_is_ascii() {
    let engine = Engine::start(recorded("degraded"));
    let mut terminal = Terminal::ready(&engine, &[("LANG", "C")]);
    for (key, text) in
        [("2", "LANE"), ("3", "range"), ("4", "generates text"), ("5", "ROUTE"), ("6", "REQUEST"), ("?", "search:")]
    {
        terminal.press(key);
        terminal.wait_for(text);
    }
    terminal.press("\x1b");
    terminal.wait_until_gone("search:");
    terminal.press("q");
    terminal.expect_restored();
    assert!(terminal.seen.0.lock().unwrap().bytes.is_ascii());
}

/// The terminal is stopped in the middle of a frame that is larger than all buffers between. Keys still reach the engine,
/// nothing piles up, and what is seen in the end is the newest.
#[test]
fn a_terminal_that_takes_nothing_holds_up_neither_keys_nor_data() {
    let mut snapshot = recorded("busy");
    let some = snapshot.requests.shown.clone();
    let many = some.iter().cycle().take(2_000).enumerate();
    snapshot.requests.shown = many
        .map(|(i, request)| {
            let mut request = request.clone();
            request.id = format!("req-{i:05}");
            request
        })
        .collect();
    let engine = Engine::start(snapshot);
    let mut terminal = Terminal::ready(&engine, &[("COLORTERM", "truecolor")]);
    terminal.press("6/!state:served !state:failed !state:expired !state:cancelled\r");
    terminal.wait_for("req-00000");
    let begun = |terminal: &Terminal| terminal.seen.0.lock().unwrap().count("\x1b[?2026h");
    terminal.resize(200, 1_000);
    terminal.wait_for("req-00900");
    let before = begun(&terminal);
    terminal.hold(true);
    for nth in 1..=20 {
        engine.publish(|snapshot| snapshot.node = format!("node-{nth}"));
        // A repaint each time: every frame would be larger than the buffers.
        terminal.press("jx\x0cy\r");
        engine.wait_for_cancels(nth);
    }
    engine.publish(|snapshot| snapshot.node = "the-newest".to_string());
    terminal.hold(false);
    terminal.wait_for("the-newest");
    let frames = begun(&terminal) - before;
    assert!(frames < 20, "{frames} frames: those that nobody could see were not written");
    terminal.press("q");
    assert_eq!(terminal.expect_restored(), 0);
}

/// What reaches the terminal at 80 by 24, by the second: idle, and while every row of the table moves all the time.
#[test]
fn an_idle_console_is_quiet_and_a_busy_one_keeps_to_its_rate() {
    const TIME: Duration = Duration::from_secs(5);
    let rate = |name: &str, step: u64, change: fn(&mut Snapshot)| {
        let engine = Engine::start(recorded(name));
        let mut terminal = Terminal::ready(&engine, &[("COLORTERM", "truecolor")]);
        terminal.press("6");
        terminal.wait_for("REQUEST");
        let (before, began) = (terminal.written(), Instant::now());
        engine.publish_for(TIME, Duration::from_millis(step), change);
        let rate = (terminal.written() - before) as f64 / began.elapsed().as_secs_f64();
        terminal.press("q");
        terminal.expect_restored();
        rate
    };
    fn pass(snapshot: &mut Snapshot, ms: u64) {
        snapshot.uptime_ms += ms;
        snapshot.at_ms += ms;
    }
    let idle = rate("idle", 250, |snapshot| pass(snapshot, 250));
    assert!(idle < 200.0, "{idle} bytes a second while idle");
    let busy = rate("busy", 50, |snapshot| {
        pass(snapshot, 50);
        let shown = &mut snapshot.requests.shown;
        shown.rotate_left(7);
        for request in shown {
            request.queued_ms += 50.0;
        }
    });
    assert!(busy < 20.0 * 1024.0, "{busy} bytes a second while busy");
    println!("idle {idle:.0} B/s, busy {busy:.0} B/s");
}

#[test]
fn commands_of_the_cli_are_shown_and_asked_about_in_the_console() {
    let engine = Engine::start(recorded("busy"));
    let mut terminal = Terminal::ready(&engine, &[]);
    terminal.press(":caps -o wide\r");
    terminal.wait_for("EFFECTIVE");
    terminal.press("q");
    terminal.wait_until_gone("EFFECTIVE");
    terminal.press(":cap --frob\r");
    terminal.wait_for("unexpected argument '--frob'");
    terminal.press(":cpas\r");
    terminal.wait_for("did you mean caps?");
    terminal.press(":chat hello\r");
    terminal.wait_for("no command");
    terminal.press(":cancel req-1802 req-1803\r");
    terminal.wait_for("Run cancel req-1802 req-1803?");
    // What its dry run says.
    terminal.wait_for("REQUEST");
    terminal.press("y\r");
    assert_eq!((engine.wait_for_cancels(1), engine.wait_for_cancels(2)), ("req-1802".into(), "req-1803".into()));
    terminal.wait_for("req-1803 cancelled: revision 8");
    terminal.press("q");
    assert_eq!(terminal.expect_restored(), 0);
}
