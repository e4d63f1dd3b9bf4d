//! The console in a real pseudo-terminal, fed by a small stand-in for the engine.
//!
//! Each test waits for what it wants to see, with a generous limit; none counts on how long something takes. The
//! console is `lanekeeper top`; where a test needs an action that panics, it is this test binary itself, asked for
//! [`child`] alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use lanekeeper::client::{Client, Feed, Target};
use lanekeeper::control::Snapshot;
use lanekeeper::tui::{Acting, Actions, Asking, Facts, Interpreting, Options, run};
use portable_pty::{CommandBuilder, MasterPty, PtyPair, PtySize, native_pty_system};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take on a machine that is busy with other work.
const LIMIT: Duration = Duration::from_secs(60);
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

// The engine's side

struct Shared {
    snapshot: Snapshot,
    version: u64,
    stopped: bool,
    cancelled: Vec<String>,
}

/// Serves snapshots as the engine does, each when it is published.
struct Engine {
    address: SocketAddr,
    shared: Arc<(Mutex<Shared>, Condvar)>,
    accepting: Option<std::thread::JoinHandle<()>>,
}

impl Engine {
    fn start(snapshot: Snapshot) -> Engine {
        Engine::start_at("127.0.0.1:0".parse().unwrap(), snapshot)
    }

    fn start_at(address: SocketAddr, snapshot: Snapshot) -> Engine {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Shared { snapshot, version: 1, stopped: false, cancelled: Vec::new() };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let serving = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.0.lock().unwrap().stopped {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), Arc::clone(&serving));
                // Ends when the peer goes or the engine stops.
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Engine { address, shared, accepting: Some(accepting) }
    }

    fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut shared = self.shared.0.lock().unwrap();
        shared.snapshot.seq += 1;
        change(&mut shared.snapshot);
        shared.version += 1;
        self.shared.1.notify_all();
    }

    fn wait_for_cancel(&self) -> String {
        self.wait_for_cancels(1)
    }

    /// The request that the engine is asked to cancel as the `nth`, from 1.
    fn wait_for_cancels(&self, nth: usize) -> String {
        let shared = self.shared.0.lock().unwrap();
        let (shared, _) =
            self.shared.1.wait_timeout_while(shared, LIMIT, |shared| shared.cancelled.len() < nth).unwrap();
        shared.cancelled.get(nth - 1).cloned().expect("the engine was asked to cancel")
    }

    /// Publishes what `change` makes, every `step`, for so long: a load with a pace, as an engine has one.
    fn publish_for(&self, time: Duration, step: Duration, mut change: impl FnMut(&mut Snapshot)) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.publish(&mut change);
            let shared = self.shared.0.lock().unwrap();
            drop(self.shared.1.wait_timeout_while(shared, step, |shared| !shared.stopped));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap().stopped = true;
        self.shared.1.notify_all();
        // Wakes the accepting thread, so that the port is free again.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn serve(mut stream: TcpStream, shared: &(Mutex<Shared>, Condvar)) {
    let mut head = Vec::new();
    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
        match line {
            Ok(line) if !line.is_empty() => head.push(line),
            _ => break,
        }
    }
    let Some(first) = head.first() else { return };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    if method == "DELETE" {
        let id = path.rsplit('/').next().unwrap_or("").to_string();
        shared.0.lock().unwrap().cancelled.push(id);
        shared.1.notify_all();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
        return;
    }
    assert!(path.starts_with("/control/v1/watch"), "{first}");
    if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").is_err() {
        return;
    }
    let mut sent = 0;
    loop {
        let state = shared.0.lock().unwrap();
        let state = shared.1.wait_while(state, |state| state.version == sent && !state.stopped).unwrap();
        if state.stopped {
            return;
        }
        sent = state.version;
        let event = format!("event: snapshot\ndata: {}\n\n", serde_json::to_string(&state.snapshot).unwrap());
        drop(state);
        if stream.write_all(event.as_bytes()).is_err() {
            return;
        }
    }
}

fn recorded(name: &str) -> Snapshot {
    let path = format!("{}/tests/fixtures/snapshots/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

// The terminal's side

struct Seen {
    terminal: vt100::Parser,
    bytes: Vec<u8>,
    closed: bool,
    /// Nothing is read from the console, as by a terminal that is stopped.
    held: bool,
}

impl Seen {
    fn text(&self) -> String {
        self.terminal.screen().contents()
    }

    fn count(&self, sequence: &str) -> usize {
        self.bytes.windows(sequence.len()).filter(|window| *window == sequence.as_bytes()).count()
    }
}

const LEAVE: &str = "\x1b[?1049l";

/// A console in a pseudo-terminal of its own.
struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    /// Kept open: the terminal and its modes must outlive the console to be looked at.
    _slave: Box<dyn portable_pty::SlavePty + Send>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

impl Terminal {
    /// Opens `lanekeeper top` on an engine.
    fn open(engine: &Engine, variables: &[(&str, &str)]) -> Terminal {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_lanekeeper"));
        command.args(["top", "--engine", &format!("http://{}", engine.address)]);
        Terminal::run(command, variables)
    }

    /// Opens a console whose actions panic.
    fn open_panicking(engine: &Engine) -> Terminal {
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        Terminal::run(command, &[(ENGINE, &format!("http://{}", engine.address))])
    }

    fn run(mut command: CommandBuilder, variables: &[(&str, &str)]) -> Terminal {
        let PtyPair { slave, master } = native_pty_system().openpty(size(80, 24)).unwrap();
        for name in ["NO_COLOR", "COLORTERM", "COLORFGBG", "LC_ALL", "LC_CTYPE", "LANEKEEPER_KEY", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = slave.spawn_command(command).unwrap();
        let terminal = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
        let seen =
            Arc::new((Mutex::new(Seen { terminal, bytes: Vec::new(), closed: false, held: false }), Condvar::new()));
        let mut reader = master.try_clone_reader().unwrap();
        let reading = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let read = reader.read(&mut buffer).unwrap_or(0);
                let seen = reading.0.lock().unwrap();
                let mut seen = reading.1.wait_while(seen, |seen| seen.held).unwrap();
                seen.terminal.process(&buffer[..read]);
                seen.bytes.extend_from_slice(&buffer[..read]);
                seen.closed |= read == 0;
                reading.1.notify_all();
                if seen.closed {
                    return;
                }
            }
        });
        let keyboard = master.take_writer().unwrap();
        Terminal { master, keyboard, child, _slave: slave, seen }
    }

    /// Opens a console and waits until it shows the engine.
    fn ready(engine: &Engine, variables: &[(&str, &str)]) -> Terminal {
        let terminal = Terminal::open(engine, variables);
        terminal.wait_for("whisper-tiny-en");
        terminal
    }

    /// Waits until `holds`; says what was seen instead when it never does.
    fn wait(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let began = Instant::now();
        let seen = self.seen.0.lock().unwrap();
        let (seen, outcome) = self.seen.1.wait_timeout_while(seen, LIMIT, |seen| !holds(seen)).unwrap();
        assert!(!outcome.timed_out(), "no {what} after {:?}:\n{}", began.elapsed(), seen.text());
    }

    fn wait_for(&self, text: &str) {
        self.wait(text, |seen| seen.text().contains(text));
    }

    fn wait_until_gone(&self, text: &str) {
        self.wait(&format!("screen without {text}"), |seen| !seen.text().contains(text));
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn hold(&self, held: bool) {
        self.seen.0.lock().unwrap().held = held;
        self.seen.1.notify_all();
    }

    fn written(&self) -> usize {
        self.seen.0.lock().unwrap().bytes.len()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        let status = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(status.success());
    }

    fn resize(&self, cols: u16, rows: u16) {
        let rows_and_cols = (rows.try_into().unwrap(), cols.try_into().unwrap());
        let mut seen = self.seen.0.lock().unwrap();
        seen.terminal.screen_mut().set_size(rows_and_cols.0, rows_and_cols.1);
        drop(seen);
        self.master.resize(size(cols, rows)).unwrap();
    }

    /// Whether lines are read and echoed as a shell has it.
    fn cooked(&self) -> bool {
        let modes = format!("{:?}", self.master.get_termios().unwrap().local_flags);
        modes.contains("ICANON") && modes.contains("ECHO")
    }

    /// The console has ended or is about to: the terminal must be as it was. Returns the exit code.
    fn expect_restored(&mut self) -> u32 {
        self.wait("return to the main screen", |seen| !seen.terminal.screen().alternate_screen());
        let status = self.child.wait().unwrap();
        let seen = self.seen.0.lock().unwrap();
        let screen = seen.terminal.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is shown");
        assert!(!screen.bracketed_paste(), "pasting is as it was");
        assert!(self.cooked(), "lines are edited and echoed again");
        status.exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only this test's own child.
        // A failed assertion has poisoned it: the test is over either way.
        if let Ok(mut seen) = self.seen.0.lock() {
            seen.held = false;
        }
        self.seen.1.notify_all();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The numbers of every SGR sequence that was written.
fn sgr_codes(bytes: &[u8]) -> Vec<u32> {
    let text = String::from_utf8_lossy(bytes);
    let mut codes = Vec::new();
    for piece in text.split("\x1b[").skip(1) {
        let end = piece.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(piece.len());
        if piece[end..].starts_with('m') {
            codes.extend(piece[..end].split(';').map(|code| code.parse().unwrap_or(0)));
        }
    }
    codes
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
    for i in 0..100 {
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
    let before = begun(&terminal);
    terminal.hold(true);
    terminal.resize(200, 1_000);
    for nth in 1..=20 {
        engine.publish(|snapshot| snapshot.node = format!("node-{nth}"));
        terminal.press("jxy\r");
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
