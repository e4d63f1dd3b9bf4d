//! The console as a process in a terminal: how soon its first frame is there with ten thousand requests, how soon a key is
//! answered, how much it writes, and what watching costs an engine.
//!
//! `cargo bench --bench watch`. The last part needs the demo's models: `LANEKEEPER_TEST_MODELS` names their cache folder.
//! Times are of this machine and of what else runs on it: compare two programs in one sitting, round by round.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on fails")]

#[path = "../tests/console/stage.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod stage;

use lanekeeper::client::{Client, Target};
use lanekeeper::control::{Op, Snapshot};
use portable_pty::CommandBuilder;
use stage::{Engine, Terminal, recorded};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What the stage's panicking console is found by; none is opened here.
const ENGINE: &str = "LANEKEEPER_CONSOLE_TEST_ENGINE";
const BINARY: &str = env!("CARGO_BIN_EXE_lanekeeper");
const REQUESTS: usize = 10_000;
/// Of so many an engine's snapshot tells more than their number.
const SHOWN: usize = 256;
const FIRST_FRAMES: usize = 15;
const KEYS: usize = 300;
const WINDOW: Duration = Duration::from_secs(5);
const ROUNDS: usize = 4;
const PAIRS: usize = 60;
/// Watching is so cheap that the noise of a machine hides it: so many consoles at once cost so many times as much.
const CONSOLES: usize = 8;

fn main() {
    first_frame(SHOWN);
    first_frame(REQUESTS);
    keys();
    bytes();
    match std::env::var("LANEKEEPER_TEST_MODELS") {
        Ok(models) => cost(&models),
        Err(_) => println!("cost of watching: skipped, LANEKEEPER_TEST_MODELS names no models"),
    }
}

/// An engine with ten thousand requests, the first `shown` of them in its snapshot.
fn crowd(shown: usize) -> Snapshot {
    let mut snapshot = recorded("busy");
    let some = std::mem::take(&mut snapshot.requests.shown);
    snapshot.requests.shown = some.iter().cycle().take(shown).cloned().collect();
    snapshot.requests.total = REQUESTS as u64;
    for (i, request) in snapshot.requests.shown.iter_mut().enumerate() {
        request.id = format!("req-{i:05}");
    }
    snapshot
}

fn quantiles(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{name}: best {:.1} ms, p50 {:.1}, p99 {:.1}, worst {:.1} of {}",
        at(0.0),
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}

/// From the start of the process until the first frame of any kind, and until the one that shows the engine.
fn first_frame(shown: usize) {
    let engine = Engine::start(crowd(shown));
    let (mut any, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..FIRST_FRAMES {
        let began = Instant::now();
        let terminal = Terminal::open(&engine, &[("COLORTERM", "truecolor")]);
        terminal.wait("frame", |seen| seen.count("\x1b[?2026l") > 0);
        any.push(began.elapsed());
        terminal.wait_for("whisper-tiny-en");
        whole.push(began.elapsed());
    }
    quantiles("first frame, from the start of the process", any);
    quantiles(&format!("first frame with an engine of {REQUESTS} requests, {shown} in its snapshot"), whole);
}

/// From a key to the end of the frame that answers it, while new data arrive four times a second.
fn keys() {
    let engine = std::sync::Arc::new(Engine::start(crowd(REQUESTS)));
    let mut terminal = Terminal::ready(&engine, &[("COLORTERM", "truecolor")]);
    terminal.press("6");
    terminal.wait_for("REQUEST");
    let feeding = std::sync::Arc::clone(&engine);
    let pause = Duration::from_millis(250);
    std::thread::spawn(move || {
        feeding.publish_for(Duration::from_secs(600), pause, |snapshot| snapshot.uptime_ms += 250)
    });
    let times = (0..KEYS).map(|nth| {
        // A person's pace, at odds with that of the data.
        std::thread::park_timeout(Duration::from_millis(90 + (nth as u64 * 37) % 120));
        let wanted = format!("req-{nth:05}");
        let began = Instant::now();
        terminal.press(if nth == 0 { "gg" } else { "j" });
        // The selected row has the pointer before it.
        terminal.wait("answer", |seen| seen.text().contains(&format!("▸ {wanted}")));
        began.elapsed()
    });
    quantiles("a key answered", times.collect());
}

fn bytes() {
    let rate = |name: &str, step: u64, change: fn(&mut Snapshot)| {
        let engine = Engine::start(recorded(name));
        let mut terminal = Terminal::ready(&engine, &[("COLORTERM", "truecolor")]);
        terminal.press("6");
        terminal.wait_for("REQUEST");
        let (before, began) = (terminal.written(), Instant::now());
        engine.publish_for(WINDOW, Duration::from_millis(step), change);
        println!("{name}: {:.0} B/s", (terminal.written() - before) as f64 / began.elapsed().as_secs_f64());
    };
    rate("idle", 250, |snapshot| snapshot.uptime_ms += 250);
    rate("busy", 50, |snapshot| {
        snapshot.uptime_ms += 50;
        snapshot.requests.shown.rotate_left(7);
    });
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a process so far.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // utime and stime, in hundredths of a second.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// An engine of the demo's models with two hundred clients that embed, each sending again when it has its answer.
struct Loaded {
    engine: Running,
    _load: Running,
    home: PathBuf,
    models: String,
    tokio: tokio::runtime::Runtime,
}

impl Loaded {
    fn start(models: &str) -> Loaded {
        let home = std::env::temp_dir().join(format!("lk-watch-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let serve = ["serve", "--profile", "demo", "--offline", "--listen", "127.0.0.1:0"];
        let engine = Running(command(&home, models, &serve).spawn().unwrap());
        while !command(&home, models, &["status", "--ready"]).status().unwrap().success() {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        let load = [
            "bench",
            "mixed",
            "--clips",
            "0",
            "--recordings",
            "0",
            "--chats",
            "0",
            "--embeddings",
            "200",
            "--for",
            "30m",
        ];
        let load = Running(command(&home, models, &load).spawn().unwrap());
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let loaded = Loaded { engine, _load: load, home, models: models.to_string(), tokio };
        std::thread::park_timeout(Duration::from_secs(3));
        loaded
    }

    fn run(&self, args: &[&str]) -> Command {
        command(&self.home, &self.models, args)
    }

    /// A console that shows it.
    fn watch(&self) -> Terminal {
        let mut command = CommandBuilder::new(BINARY);
        command.args(["top"]);
        let home = self.home.to_str().unwrap();
        let terminal = Terminal::run(command, &[("XDG_RUNTIME_DIR", home), ("XDG_STATE_HOME", home)]);
        terminal.wait_for("whisper-tiny-en");
        terminal
    }

    /// Tokens embedded so far, and the engine's clock, in seconds, when the last batch of them ended.
    fn embedded(&self) -> (f64, f64) {
        let target = Target::discover(&self.home.join("lanekeeper")).unwrap();
        let client = Client::new(target, None);
        let snapshot = self.tokio.block_on(client.snapshot()).unwrap();
        let queue = snapshot.models.iter().flat_map(|model| &model.queues).find(|queue| queue.op == Op::Embed).unwrap();
        let ended = snapshot.uptime_ms as f64 - queue.recent.last().unwrap().ended_ago_ms;
        (queue.counters.cost_served as f64, ended / 1e3)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn command(home: &Path, models: &str, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home).env("LANEKEEPER_CACHE", models);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// What watching costs: the tokens that a busy engine embeds in a second with consoles over those without, pair by pair; then the CPU time of both where the two hundred requests only wait, which that alone moves.
fn cost(models: &str) {
    let loaded = Loaded::start(models);
    // From the end of a batch to the end of another: a window that cut one would count it whole or not at all.
    let speed = || {
        let before = loaded.embedded();
        std::thread::park_timeout(WINDOW);
        let after = loaded.embedded();
        (after.0 - before.0) / (after.1 - before.1)
    };
    let ratios: Vec<f64> = (0..PAIRS)
        .map(|pair| {
            // Whoever goes first in one pair goes last in the next.
            let first = (pair % 2 == 1).then(&speed);
            let watched = {
                let _consoles: Vec<Terminal> = (0..CONSOLES).map(|_| loaded.watch()).collect();
                speed()
            };
            (watched / first.unwrap_or_else(&speed)).ln()
        })
        .collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let error = (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    println!(
        "watched by {CONSOLES} consoles, an engine embeds {:.2} % of what it does alone, give or take {:.2} (standard error of {PAIRS} pairs): {:.2} % for each, give or take {:.2}",
        mean.exp() * 100.0,
        error * 100.0,
        (1.0 - mean.exp()) * 100.0 / CONSOLES as f64,
        error * 100.0 / CONSOLES as f64
    );

    assert!(loaded.run(&["pause", "minilm-l6"]).status().unwrap().success());
    std::thread::park_timeout(Duration::from_secs(3));
    let pid = loaded.engine.0.id();
    let window = |also: Option<u32>| {
        let both = || [Some(pid), also].map(|pid| pid.map_or(0.0, cpu));
        let (before, began) = (both(), Instant::now());
        std::thread::park_timeout(WINDOW);
        let (after, seconds) = (both(), began.elapsed().as_secs_f64());
        [0, 1].map(|i| (after[i] - before[i]) * 1e3 / seconds)
    };
    let (mut alone, mut watched, mut consoles) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(window(None)[0]);
        let console = loaded.watch();
        let [engine, own] = window(console.child.process_id());
        watched.push(engine);
        consoles.push(own);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (more, own) = (mean(&watched) - mean(&alone), mean(&consoles));
    println!(
        "watching costs {more:.1} ms of the engine's CPU a second and {own:.1} of the console's, {:.2} % of {cores} cores; engine alone {alone:.1?}, watched {watched:.1?}",
        (more + own) / (cores * 10.0)
    );
}
