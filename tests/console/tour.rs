//! The tour of docs/tour.md, as it stands there: its commands on a real engine with real models, its keys in a terminal.

use super::stage::Terminal;
use portable_pty::CommandBuilder;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lanekeeper");

/// The program that serves and loads: another than the console may be named, one that computes faster.
fn engine() -> String {
    std::env::var("LANEKEEPER_TEST_BINARY").unwrap_or_else(|_| BINARY.to_string())
}

/// A step: what is pressed, and what is seen then.
struct Step {
    keys: Vec<String>,
    seen: Option<String>,
}

/// The pieces of a line that stand in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// The commands and steps of the page.
fn page() -> (Vec<Vec<String>>, Vec<Step>) {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tour.md")).unwrap();
    let command =
        |line: &str| line.strip_prefix("lanekeeper ").map(|args| args.split(' ').map(str::to_string).collect());
    let commands = text.lines().filter_map(command).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix('|')?.trim_end_matches('|').split('|').collect();
        let [press, see] = cells.as_slice() else { panic!("a step has two cells: {line}") };
        let (keys, seen) = (quoted(press), quoted(see).pop());
        (!keys.is_empty() || seen.is_some()).then_some(Step { keys, seen })
    };
    (commands, text.lines().filter_map(row).collect())
}

/// What a terminal sends for a key as the page writes it.
fn bytes(key: &str) -> String {
    match key {
        "Enter" => "\r".to_string(),
        "Esc" => "\x1b".to_string(),
        "C-u" => "\x15".to_string(),
        typed => typed.to_string(),
    }
}

/// A child of this test, ended with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of this test's own: sockets, state.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        let path = std::env::temp_dir().join(format!("lk-tour-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Home(path)
    }

    fn variables(&self) -> [(&'static str, String); 3] {
        let models = std::env::var("LANEKEEPER_TEST_MODELS")
            .expect("LANEKEEPER_TEST_MODELS must name a cache folder with the demo models (scripts/test fills one)");
        let path = |name: &str| self.0.join(name).to_str().unwrap().to_string();
        [("XDG_RUNTIME_DIR", path("")), ("XDG_STATE_HOME", path("state")), ("LANEKEEPER_CACHE", models)]
    }

    fn run(&self, args: &[String]) -> Running {
        let mut command = Command::new(engine());
        command.args(args).envs(self.variables()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    fn succeeds(&self, args: &[&str]) -> bool {
        let mut command = Command::new(BINARY);
        command.args(args).envs(self.variables()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_tour_goes_as_it_is_written() {
    let (commands, steps) = page();
    let [serve, bench, top] = commands.as_slice() else { panic!("three terminals: {commands:?}") };
    assert!(steps.len() > 20, "the page has its tables");
    let home = Home::new();
    let more = ["--listen", "127.0.0.1:0", "--offline"].map(str::to_string);
    let _engine = home.run(&[serve.as_slice(), &more].concat());
    let began = Instant::now();
    while !home.succeeds(&["status", "--ready"]) {
        assert!(began.elapsed() < Duration::from_secs(120), "the engine is ready");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let _load = home.run(bench);
    let mut command = CommandBuilder::new(BINARY);
    command.args(top);
    let variables = home.variables();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut terminal = Terminal::run(command, &variables);
    terminal.resize(100, 40);
    for step in &steps {
        for key in &step.keys {
            terminal.press(&bytes(key));
        }
        if let Some(seen) = &step.seen {
            terminal.wait_for(seen);
        }
    }
    assert_eq!(terminal.expect_restored(), 0, "the last step leaves the console");
    assert!(home.succeeds(&["diff"]), "nothing is left of it");
}
