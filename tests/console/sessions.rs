//! Recorded sessions, and the console in the lines under the prompt.

use super::stage::{Engine, Terminal, recorded};
use portable_pty::CommandBuilder;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_lanekeeper");
const SESSION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/session.jsonl");

/// A file of this test's own, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("lanekeeper-{name}-{}.jsonl", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs to the end, without a terminal.
fn run(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).stdin(Stdio::null()).env("LANG", "C.UTF-8").env_remove("COLUMNS").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_recorded_session_plays_in_the_console_without_an_engine() {
    let mut command = CommandBuilder::new(BINARY);
    command.args(["replay", SESSION, "--view", "lanes"]);
    let mut terminal = Terminal::run(command, &[]);
    terminal.wait_for("REPLAY x1");
    terminal.wait_for("whisper-tiny-en transcribe");
    terminal.press(">>>");
    terminal.wait_for("REPLAY x8");
    terminal.press(" ");
    terminal.wait_for("REPLAY paused");
    terminal.press("{");
    terminal.wait_for("paused 0:00/0:25");
    terminal.press("ll");
    terminal.wait_for("paused 0:02/0:25");
    terminal.press(":set log.level=debug\r");
    terminal.wait_for("there is no engine to ask");
    terminal.press("6x");
    terminal.wait_for("a recording plays");
    terminal.press("}");
    terminal.wait_for("REPLAY ended");
    terminal.wait_for("ENGINE AWAY");
    terminal.press("q");
    assert_eq!(terminal.expect_restored(), 0);
}

#[test]
fn what_is_recorded_is_what_was_seen() {
    let engine = Engine::start(recorded("busy"));
    let file = Scratch::new("recorded");
    let address = format!("http://{}", engine.address);
    let mut recording = Command::new(BINARY)
        .args(["record", "--snapshots", file.path(), "--interval", "50ms", "--engine", &address])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = || std::fs::read_to_string(&file.0).unwrap_or_default().lines().count();
    // A header, the settings, and a snapshot: then the next one.
    for (wanted, node) in [(3, "second"), (4, "third")] {
        wait_until(|| lines() >= wanted);
        engine.publish(|snapshot| snapshot.node = node.to_string());
    }
    wait_until(|| lines() >= 5);
    drop(engine);
    wait_until(|| lines() >= 6);
    // SIGINT, as C-c.
    let status = Command::new("kill").args(["-INT", &recording.id().to_string()]).status().unwrap();
    assert!(status.success() && recording.wait().unwrap().success());
    let played = run(&["replay", file.path(), "--plain"]);
    assert!(played.status.success());
    let nodes: Vec<String> =
        text(&played.stdout).lines().filter_map(|line| line.split(' ').nth(1).map(str::to_string)).collect();
    assert_eq!(nodes, ["demo", "second", "third"]);
    assert!(text(&played.stderr).contains("away: "), "{}", text(&played.stderr));
}

/// Looks again and again, with a pause, until it holds.
fn wait_until(holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < super::stage::LIMIT, "it has not come about");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_recording_keeps_to_its_limit() {
    let engine = Engine::start(recorded("busy"));
    let file = Scratch::new("limited");
    let address = format!("http://{}", engine.address);
    let mut recording = Command::new(BINARY)
        .args(["record", "--snapshots", file.path(), "--limit", "150k", "--interval", "50ms", "--engine", &address])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while recording.try_wait().unwrap().is_none() {
        engine.publish(|_| {});
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let output = recording.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("the limit is reached"), "{}", text(&output.stderr));
    let bytes = std::fs::metadata(&file.0).unwrap().len();
    assert!((100_000..150_000).contains(&bytes), "{bytes}");
    assert!(run(&["replay", file.path(), "--plain"]).status.success());
}

#[test]
fn what_cannot_be_played_says_why() {
    let file = Scratch::new("broken");
    for (content, wanted) in [
        (None, "cannot read"),
        (Some(""), "it is empty"),
        (Some("{\"schema\":\"lanekeeper.arrivals/1\"}\n"), "`lanekeeper.arrivals/1`"),
    ] {
        match content {
            Some(content) => std::fs::write(&file.0, content).unwrap(),
            None => drop(std::fs::remove_file(&file.0)),
        }
        let refused = run(&["replay", file.path()]);
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(5), "{told}");
        assert!(told.contains(wanted) && told.contains("record --snapshots"), "{told}");
    }
    let behind = run(&["replay", SESSION, "--from", "1h"]);
    assert_eq!(behind.status.code(), Some(2), "{}", text(&behind.stderr));
}

#[test]
fn inline_leaves_what_scrolled_by_where_it_was() {
    let engine = Engine::start(recorded("busy"));
    let mut command = CommandBuilder::new("sh");
    command.args([
        "-c",
        "for n in 1 2 3 4 5 6; do echo before $n; done; \"$0\" top --inline=12 --engine \"$1\"; echo after",
    ]);
    command.args([BINARY, &format!("http://{}", engine.address)]);
    let mut terminal = Terminal::run(command, &[]);
    terminal.wait_for("whisper-tiny-en");
    terminal.press("2");
    terminal.wait_for("PENDING");
    terminal.press(":caps -o wide\r");
    terminal.wait_for("EFFECTIVE");
    terminal.press("q");
    terminal.wait_until_gone("EFFECTIVE");
    terminal.press("6/nobody");
    terminal.wait_for("/nobody");
    {
        let seen = terminal.seen.0.lock().unwrap();
        assert!(!seen.terminal.screen().alternate_screen() && seen.text().contains("before 6"), "{}", seen.text());
        assert_eq!(seen.count("\x1b[2J"), 0, "the screen is never cleared");
    }
    // Every line of it is taken away and drawn again in another size, and the lines above stay.
    terminal.press("\x1b");
    terminal.wait_until_gone("/nobody");
    terminal.resize(100, 30);
    terminal.press("5");
    terminal.wait_for("nothing leaves");
    terminal.press("q");
    terminal.wait_for("after");
    assert_eq!(terminal.expect_restored(), 0);
    let shown = terminal.seen.0.lock().unwrap().text();
    let at = |wanted: &str| shown.find(wanted).unwrap_or_else(|| panic!("no {wanted:?} in\n{shown}"));
    assert!(
        at("before 1") < at("before 6") && at("before 6") < at("nothing leaves") && at("nothing leaves") < at("after")
    );
    assert_eq!(shown.matches("lanekeeper").count(), 1, "one frame is left, the last:\n{shown}");
}

#[test]
fn inline_without_a_terminal_is_one_frame_of_text() {
    let engine = Engine::start(recorded("busy"));
    let address = format!("http://{}", engine.address);
    for view in ["overview", "2", "settings"] {
        let still = run(&["top", "--inline=30", "--view", view, "--engine", &address]);
        let told = text(&still.stdout);
        assert!(still.status.success() && !told.contains('\x1b'), "{}", text(&still.stderr));
        assert!(told.contains("whisper-tiny-en") && told.lines().count() <= 30, "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()));
    }
    let of_tape = run(&["replay", SESSION, "--inline", "--from", "13s", "--view", "journal"]);
    assert!(text(&of_tape.stdout).contains("lanes.recordings.share"), "{}", text(&of_tape.stdout));
    let nobody = run(&["top", "--inline", "--engine", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(3));
}

#[test]
fn a_reader_that_goes_away_ends_a_plain_console_quietly() {
    let engine = Engine::start(recorded("busy"));
    let line = "\"$0\" top --plain --interval 50ms --engine \"$1\" | head -n 1";
    let mut child = Command::new("sh")
        .args(["-c", line, BINARY, &format!("http://{}", engine.address)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        engine.publish(|_| {});
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout).lines().count(), 1);
    assert_eq!(text(&output.stderr), "");
}
