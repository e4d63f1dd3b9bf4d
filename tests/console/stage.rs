//! The stage of the console's tests: a small stand-in for the engine, and a pseudo-terminal with a console in it.

use super::ENGINE;
use lanekeeper::control::hands::RequestPlace;
use lanekeeper::control::{ChangeAnswer, RequestChange, RequestPatch, Snapshot};
use portable_pty::{CommandBuilder, MasterPty, PtyPair, PtySize, native_pty_system};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take on a machine that is busy with other work.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct Shared {
    pub snapshot: Snapshot,
    pub version: u64,
    pub stopped: bool,
    pub cancelled: Vec<String>,
}

/// Serves snapshots as the engine does, each when it is published.
pub struct Engine {
    pub address: SocketAddr,
    pub shared: Arc<(Mutex<Shared>, Condvar)>,
    accepting: Option<std::thread::JoinHandle<()>>,
}

impl Engine {
    pub fn start(snapshot: Snapshot) -> Engine {
        Engine::start_at("127.0.0.1:0".parse().unwrap(), snapshot)
    }

    pub fn start_at(address: SocketAddr, snapshot: Snapshot) -> Engine {
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

    pub fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut shared = self.shared.0.lock().unwrap();
        shared.snapshot.seq += 1;
        change(&mut shared.snapshot);
        shared.version += 1;
        self.shared.1.notify_all();
    }

    pub fn wait_for_cancel(&self) -> String {
        self.wait_for_cancels(1)
    }

    /// The request that the engine is asked to cancel as the `nth`, from 1.
    pub fn wait_for_cancels(&self, nth: usize) -> String {
        let shared = self.shared.0.lock().unwrap();
        let (shared, _) =
            self.shared.1.wait_timeout_while(shared, LIMIT, |shared| shared.cancelled.len() < nth).unwrap();
        shared.cancelled.get(nth - 1).cloned().expect("the engine was asked to cancel")
    }

    /// Publishes what `change` makes, every `step`, for so long: a load with a pace, as an engine has one.
    pub fn publish_for(&self, time: Duration, step: Duration, mut change: impl FnMut(&mut Snapshot)) {
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

pub fn serve(mut stream: TcpStream, shared: &(Mutex<Shared>, Condvar)) {
    let mut head = Vec::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for line in reader.by_ref().lines() {
        match line {
            Ok(line) if !line.is_empty() => head.push(line),
            _ => break,
        }
    }
    let Some(first) = head.first() else { return };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut answer = |document: String| {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", document.len());
        let _ = stream.write_all(format!("{head}{document}").as_bytes());
    };
    if method == "PATCH" {
        let length =
            head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        let patch: RequestPatch = serde_json::from_slice(&body).unwrap();
        assert!(patch.cancelled, "the only thing that is done here: {patch:?}");
        let id = path.rsplit('/').next().unwrap_or("").to_string();
        let mut state = shared.0.lock().unwrap();
        let request = state.snapshot.requests.shown.iter().find(|request| request.id == id).unwrap();
        let from = RequestPlace { lane: request.lane, held: false, cancelled: false };
        let change = RequestChange {
            request: id.clone(),
            model: request.model.clone(),
            op: request.op,
            state: request.state,
            from,
            to: from.after(patch.touch()),
        };
        if !patch.dry_run {
            state.cancelled.push(id);
            shared.1.notify_all();
        }
        let done = ChangeAnswer { request: Some(change), ..ChangeAnswer::new(8, !patch.dry_run) };
        return answer(serde_json::to_string(&done).unwrap());
    }
    if let Some(document) = document(path, &shared.0.lock().unwrap().snapshot) {
        return answer(document);
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

/// What the other routes answer.
pub fn document(path: &str, snapshot: &Snapshot) -> Option<String> {
    match path.split('?').next()? {
        "/control/v1/snapshot" => serde_json::to_string(snapshot).ok(),
        "/control/v1/knobs" => {
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/knobs.json")).ok()
        }
        "/control/v1/journal" => {
            let journal = lanekeeper::control::changes::Journal {
                schema: lanekeeper::control::changes::JOURNAL_SCHEMA.to_string(),
                node: snapshot.node.clone(),
                revision: snapshot.revision,
                file: None,
                entries: snapshot.journal_tail.clone(),
            };
            serde_json::to_string(&journal).ok()
        }
        _ => None,
    }
}

pub fn recorded(name: &str) -> Snapshot {
    let path = format!("{}/tests/fixtures/snapshots/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

// The terminal's side

pub struct Seen {
    pub terminal: vt100::Parser,
    pub bytes: Vec<u8>,
    pub closed: bool,
    /// Nothing is read from the console, as by a terminal that is stopped.
    pub held: bool,
}

impl Seen {
    pub fn text(&self) -> String {
        self.terminal.screen().contents()
    }

    pub fn count(&self, sequence: &str) -> usize {
        self.bytes.windows(sequence.len()).filter(|window| *window == sequence.as_bytes()).count()
    }
}

pub const LEAVE: &str = "\x1b[?1049l";

/// A console in a pseudo-terminal of its own.
pub struct Terminal {
    pub master: Box<dyn MasterPty + Send>,
    pub keyboard: Box<dyn Write + Send>,
    pub child: Box<dyn portable_pty::Child + Send + Sync>,
    /// Kept open: the terminal and its modes must outlive the console to be looked at.
    _slave: Box<dyn portable_pty::SlavePty + Send>,
    pub seen: Arc<(Mutex<Seen>, Condvar)>,
}

pub fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

impl Terminal {
    /// Opens `lanekeeper top` on an engine.
    pub fn open(engine: &Engine, variables: &[(&str, &str)]) -> Terminal {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_lanekeeper"));
        command.args(["top", "--engine", &format!("http://{}", engine.address)]);
        Terminal::run(command, variables)
    }

    /// Opens a console whose actions panic.
    pub fn open_panicking(engine: &Engine) -> Terminal {
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        Terminal::run(command, &[(ENGINE, &format!("http://{}", engine.address))])
    }

    pub fn run(mut command: CommandBuilder, variables: &[(&str, &str)]) -> Terminal {
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
    pub fn ready(engine: &Engine, variables: &[(&str, &str)]) -> Terminal {
        let terminal = Terminal::open(engine, variables);
        terminal.wait_for("whisper-tiny-en");
        terminal
    }

    /// Waits until `holds`; says what was seen instead when it never does.
    pub fn wait(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let began = Instant::now();
        let seen = self.seen.0.lock().unwrap();
        let (seen, outcome) = self.seen.1.wait_timeout_while(seen, LIMIT, |seen| !holds(seen)).unwrap();
        assert!(!outcome.timed_out(), "no {what} after {:?}:\n{}", began.elapsed(), seen.text());
    }

    pub fn wait_for(&self, text: &str) {
        self.wait(text, |seen| seen.text().contains(text));
    }

    pub fn wait_until_gone(&self, text: &str) {
        self.wait(&format!("screen without {text}"), |seen| !seen.text().contains(text));
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    pub fn hold(&self, held: bool) {
        self.seen.0.lock().unwrap().held = held;
        self.seen.1.notify_all();
    }

    pub fn written(&self) -> usize {
        self.seen.0.lock().unwrap().bytes.len()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        let status = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(status.success());
    }

    pub fn resize(&self, cols: u16, rows: u16) {
        let rows_and_cols = (rows.try_into().unwrap(), cols.try_into().unwrap());
        let mut seen = self.seen.0.lock().unwrap();
        seen.terminal.screen_mut().set_size(rows_and_cols.0, rows_and_cols.1);
        drop(seen);
        self.master.resize(size(cols, rows)).unwrap();
    }

    /// Whether lines are read and echoed as a shell has it.
    pub fn cooked(&self) -> bool {
        let modes = format!("{:?}", self.master.get_termios().unwrap().local_flags);
        modes.contains("ICANON") && modes.contains("ECHO")
    }

    /// The console has ended or is about to: the terminal must be as it was. Returns the exit code.
    pub fn expect_restored(&mut self) -> u32 {
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
pub fn sgr_codes(bytes: &[u8]) -> Vec<u32> {
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
