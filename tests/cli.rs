//! The command line as scripts see it: exit codes, streams, formats. No engine runs here, apart from stand-ins that
//! answer on a socket; the environment is empty but for what a test sets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, in its helpers too")]

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of a test's own, removed with it.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Short: a socket's path has to fit into about a hundred bytes.
        let name = format!("lkc-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("lanekeeper")).unwrap();
        Home(path)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lanekeeper"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.0)
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("LANG", "C.UTF-8")
            .current_dir(&self.0);
        command
    }

    fn run(&self, args: &[&str]) -> Assert {
        self.command().args(args).assert()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// An engine named `name` that gives every request the answer `status` and `body`, and remembers nothing.
    fn stand_in(&self, name: &str, status: &'static str, body: String) {
        let listener = UnixListener::bind(self.0.join("lanekeeper").join(format!("{name}.sock"))).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                // Requests here have no body: the head ends them.
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    head.push(byte[0]);
                }
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

fn json(assert: &Assert) -> serde_json::Value {
    serde_json::from_str(&stdout(assert)).unwrap_or_else(|e| panic!("{e}: {}", stdout(assert)))
}

/// The commands that the help lists.
fn commands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What a command does may go on over more lines, which stand further in.
    let first = listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    first.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn help_and_version_are_results() {
    let home = Home::new();
    let version = home.run(&["--version"]).code(0);
    assert_eq!(stdout(&version), format!("lanekeeper {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.run(&["--help"]).code(0);
    let help_text = stdout(&help);
    let commands = commands(&help_text);
    assert!(commands.len() > 40 && commands.contains(&"serve"), "{commands:?}");
    for command in commands {
        let page = format!("{}/man/lanekeeper-{command}.1", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&page).exists(), "{command} has no page");
        let own = home.run(&[command, "--help"]).code(0);
        assert!(!stdout(&own).contains('\u{1b}') && !stderr(&own).contains('\u{1b}'), "{command}");
    }
    assert!(!stdout(&help).contains("generate"), "what is for the makers stays hidden");
}

#[test]
fn a_wrong_command_line_is_usage() {
    let home = Home::new();
    for args in [
        &["nonsense"][..],
        &[],
        &["status", "--nonsense"],
        &["status", "-o", "xml"],
        &["transcribe"],
        &["models", "--interval", "soon"],
        &["-E", "https://localhost:1", "status"],
        &["-E", "ftp://localhost", "status"],
        &["-E", "http://localhost:x", "status"],
        &["--key-file", "missing", "-E", "a", "status"],
        &["serve", "--log", "lanekeeper=loud"],
        &["man", "nonsense"],
        &["generate"],
    ] {
        let done = home.run(args).code(2);
        assert_eq!(stdout(&done), "", "{args:?}");
        assert!(!stderr(&done).is_empty() && !stderr(&done).contains('\u{1b}'), "{args:?}: {}", stderr(&done));
    }
    let empty = home.command().arg("chat").write_stdin("").assert().code(2);
    assert!(stderr(&empty).contains("no message"));
}

#[test]
fn an_engine_that_is_not_there_is_unreachable() {
    let home = Home::new();
    let clip = home.file("a.wav", b"RIFF");
    let clip = clip.to_str().unwrap();
    for args in [
        &["status"][..],
        &["status", "--ready"],
        &["models"],
        &["lanes"],
        &["speculation"],
        &["requests", "-o", "json"],
        &["models", "--watch"],
        &["cancel", "req-1"],
        &["transcribe", clip],
        &["embed", "x"],
        &["rerank", "q", "d"],
        &["chat", "x"],
        &["complete", "x"],
        &["top"],
        &["-E", "other", "status"],
        &["-E", "http://127.0.0.1:9", "status"],
    ] {
        let done = home.run(args).code(3);
        assert_eq!(stdout(&done), "", "{args:?}");
        assert!(stderr(&done).starts_with("error: "), "{args:?}: {}", stderr(&done));
    }
    let done = home.run(&["status"]);
    assert!(stderr(&done).contains("hint: start one with `lanekeeper serve"), "{}", stderr(&done));
}

/// A snapshot whose names try to steer the terminal.
fn snapshot() -> String {
    let counters = serde_json::json!({
        "submitted": 1, "served": 1, "cancelled": 0, "expired": 0, "failed": 0, "refused": 0, "batches": 1,
        "cost_served": 5, "run_ms": 3
    });
    let lane = |name: &str| {
        serde_json::json!({
            "lane": name, "paused": false, "pending": 2, "cost": 6000, "oldest_wait_ms": 12.5, "running": 1, "served": 7,
            "cancelled": 0, "expired": 0, "failed": 0
        })
    };
    serde_json::json!({
        "schema": "lanekeeper.snapshot/1", "node": "evil\u{1b}[2Jnode", "version": "9", "pid": 1, "seq": 1, "at_ms": 1,
        "uptime_ms": 61000, "revision": 4, "state": "degraded", "reasons": ["a reason\u{7}"],
        "host": { "cpu_threads": 2, "resident_bytes": 1048576 },
        "devices": [{ "id": "cpu", "description": "cpu, 2 threads" }],
        "models": [{
            "id": "speech\u{1b}]0;title\u{7}", "family": "whisper", "ops": ["transcribe"],
            "state": { "state": "failed", "why": "no\nfile" }, "device": "cpu",
            "queues": [{
                "op": "transcribe", "lanes": [lane("clips"), lane("recordings")],
                "caps": {
                    "max_batch_cost_effective": 16384, "max_batch_cost": 16384, "max_batch_cost_source": "default",
                    "max_batch_requests": 64, "wait_ms": 10.0, "coalesce_ms": 1.0, "depth": 1, "max_queue": 512
                },
                "inflight": [], "recent": [], "latency": { "p50_ms": 12.0, "p95_ms": 1234.0, "window": 7 },
                "counters": counters
            }]
        }],
        "generation": [],
        "requests": { "total": 1, "shown": [{
            "id": "req-1", "model": "m", "op": "transcribe", "lane": "clips", "state": "queued", "client": "c\u{9b}31m",
            "cost": 3000, "queued_ms": 5.0, "position": 1, "wait": { "code": "window_open", "estimate_ms": 40.0 }
        }] },
        "dropped": { "events": 0, "frames": 0 }, "of_a_newer_engine": true
    })
    .to_string()
}

#[test]
fn nouns_show_the_snapshot_in_every_format() {
    let home = Home::new();
    home.stand_in("one", "200 OK", snapshot());
    for noun in ["status", "models", "lanes", "turns", "caps", "requests"] {
        for format in ["table", "wide"] {
            let done = home.run(&[noun, "-o", format]).code(0);
            let text = stdout(&done);
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{noun} {format}: {text:?}");
            assert!(text.lines().all(|l| l == l.trim_end()), "{noun} {format}: {text:?}");
            assert_eq!(stderr(&done), "");
        }
        let whole = json(&home.run(&[noun, "-o", "json"]).code(0));
        assert!(whole.is_object() || whole.is_array(), "{noun}");
        let lines = stdout(&home.run(&[noun, "-o", "ndjson"]).code(0));
        assert!(lines.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()), "{noun}: {lines}");
        let yaml = stdout(&home.run(&[noun, "-o", "yaml"]).code(0));
        assert!(!yaml.contains('\u{1b}') && yaml.contains(':'), "{noun}: {yaml}");
    }
    assert_eq!(json(&home.run(&["speculation", "-o", "json"]).code(0)), serde_json::json!([]), "no model speculates");
    assert!(stdout(&home.run(&["speculation"]).code(0)).starts_with("MODEL"));
    let status = json(&home.run(&["status", "-o", "json"]));
    assert_eq!((&status["seq"], &status["of_a_newer_engine"]), (&1.into(), &true.into()), "nothing is lost");
    let models = json(&home.run(&["models", "-o", "json"]));
    assert_eq!(models[0]["state"]["state"], "failed");
    let lanes = json(&home.run(&["lanes", "-o", "json"]));
    assert_eq!(lanes["queues"][0]["lanes"][1]["pending"], 2);
    let requests = json(&home.run(&["requests", "-o", "json"]));
    assert_eq!(requests["shown"][0]["wait"]["code"], "window_open");
    let table = stdout(&home.run(&["requests"]));
    assert!(table.contains("queued #1") && table.contains("window_open"), "{table}");
    let table = stdout(&home.run(&["requests", "-o", "wide"]));
    assert!(table.contains("the batch window is still open") && table.contains("3.00 s"), "{table}");
}

#[test]
fn a_model_that_is_not_served_is_refused_with_the_nearest_name() {
    let home = Home::new();
    home.stand_in("one", "200 OK", busy());
    for noun in ["lanes", "turns", "caps", "requests", "speculation"] {
        let refused = home.run(&[noun, "-m", "whisper-tiny"]).code(5);
        assert!(stderr(&refused).contains("no model `whisper-tiny`"), "{noun}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("did you mean `whisper-tiny-en`?"), "{noun}: {}", stderr(&refused));
        assert_eq!(stdout(&refused), "");
        let refused = home.run(&[noun, "-m", "nosuch", "-o", "json"]).code(5);
        assert!(stderr(&refused).contains("its models are whisper-tiny-en, "), "{noun}: {}", stderr(&refused));
        home.run(&[noun, "-m", "whisper-tiny-en"]).code(0);
    }
    let one = json(&home.run(&["requests", "-m", "whisper-tiny-en", "-o", "json"]));
    let shown = one["shown"].as_array().unwrap();
    assert!(!shown.is_empty() && shown.iter().all(|r| r["model"] == "whisper-tiny-en"));
}

#[test]
fn tables_of_a_busy_engine_fit_into_eighty_columns_and_costs_have_units() {
    let home = Home::new();
    home.stand_in("one", "200 OK", busy());
    for noun in ["lanes", "models", "requests", "turns", "caps"] {
        let table = stdout(&home.run(&[noun]).code(0));
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{noun}: {widest} columns\n{table}");
        let wide = stdout(&home.run(&[noun, "-o", "wide"]).code(0));
        let heads = |text: &str| text.lines().next().unwrap().split("  ").filter(|h| !h.is_empty()).count();
        assert!(heads(&table) < heads(&wide), "{noun}: -o wide has more");
    }
    // The table of models; the lines about host and devices are sentences.
    let status = stdout(&home.run(&["status"]).code(0));
    let table = status.lines().skip_while(|line| !line.starts_with("MODEL"));
    assert!(table.clone().count() > 1 && table.clone().all(|line| line.chars().count() <= 80), "{status}");
    let requests = stdout(&home.run(&["requests", "-o", "wide"]).code(0));
    assert!(requests.contains(" tok ") && requests.contains("generate"), "{requests}");
    let lanes = stdout(&home.run(&["lanes"]).code(0));
    assert!(lanes.contains(" tok ") && lanes.lines().any(|line| line.contains("recordings")), "{lanes}");
}

#[test]
fn top_has_no_data_format_and_says_what_has() {
    let refused = Home::new().run(&["top", "-o", "json"]).code(2);
    assert!(stderr(&refused).contains("status --watch -o ndjson"), "{}", stderr(&refused));
}

fn busy() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/snapshots/busy.json")).unwrap()
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let home = Home::new();
    home.stand_in("one", "200 OK", snapshot());
    let painted = |args: &[&str]| stdout(&home.run(args).code(0)).contains('\u{1b}');
    assert!(!painted(&["models"]));
    assert!(painted(&["models", "--color", "always"]));
    assert!(!painted(&["models", "--color", "never"]));
    assert!(!painted(&["models", "--color", "always", "-o", "json"]), "data is never painted");
}

#[test]
fn a_busy_engine_says_whose_turn_it_is_and_why_somebody_waits() {
    let home = Home::new();
    home.stand_in("one", "200 OK", busy());
    let turns = stdout(&home.run(&["turns", "-o", "wide"]).code(0));
    assert!(turns.contains("clips 41") && turns.contains("1 window") && turns.contains("50%"), "{turns}");
    assert!(turns.contains("OWED") && turns.contains("2 turns"), "{turns}");
    let owed = json(&home.run(&["turns", "-o", "json"]))[0]["turn"]["owed"][0]["request"].clone();
    let why = stdout(&home.run(&["why", owed.as_str().unwrap()]).code(0));
    for line in [
        " waits: owed_next_turn\n  it was passed over and is owed a place in the next turn\n",
        "  for       turn 42 of clips\n",
        " of 11 in the clips of whisper-tiny-en (transcribe)\n",
        "  bound     taken within 1 turn from now, whatever arrives\n",
        "  estimate  about 4.10 s more (estimates of this lane were 14 % off in the median of 256 requests)\n",
        "  to do     nothing: it goes first in the next turn\n",
    ] {
        assert!(why.contains(line), "{line:?} is not in\n{why}");
    }
    let told = json(&home.run(&["why", owed.as_str().unwrap(), "-o", "json"]));
    assert_eq!((&told["wait"]["turns_left"], &told["reason"]["code"]), (&1.into(), &"owed_next_turn".into()));
    let aside = stdout(&home.run(&["why", "req-1770"]).code(0));
    assert!(aside.contains("put aside between two slices"), "{aside}");
    let runs = stdout(&home.run(&["why", "req-1801"]).code(0));
    assert!(runs.contains("does not wait: it has run for 1.21 s, 61 % done"), "{runs}");
    let missing = home.run(&["why", "req-1"]).code(5);
    assert!(stderr(&missing).contains("there is no request `req-1`"));
    let caps = stdout(&home.run(&["caps"]).code(0));
    assert!(caps.contains("EFFECTIVE") && caps.contains("120000") && caps.contains("off"), "{caps}");
    let lanes = stdout(&home.run(&["lanes", "-o", "wide"]).code(0));
    assert!(lanes.contains("ESTIMATES OFF") && lanes.contains("14% (256)"), "{lanes}");
}

#[test]
fn an_engine_is_found_by_name_path_and_variable() {
    let home = Home::new();
    home.stand_in("one", "200 OK", snapshot());
    let path = home.0.join("lanekeeper/one.sock");
    home.run(&["-E", "one", "status"]).code(0);
    home.run(&["status", "-E", path.to_str().unwrap()]).code(0);
    home.command().env("LANEKEEPER_ENGINE", "one").arg("status").assert().code(0);
    home.command().env("LANEKEEPER_ENGINE", "two").arg("status").assert().code(3);
}

#[test]
fn refusals_of_the_engine_have_codes_of_their_own() {
    let error =
        |kind: &str| format!(r#"{{"error":{{"message":"because of {kind}","type":"t","code":"c","param":null}}}}"#);
    for (status, code) in [
        ("401 Unauthorized", 4),
        ("403 Forbidden", 4),
        ("404 Not Found", 5),
        ("409 Conflict", 6),
        ("504 Gateway Timeout", 7),
        ("429 Too Many Requests", 8),
        ("503 Service Unavailable", 8),
        ("500 Internal Server Error", 1),
    ] {
        let home = Home::new();
        home.stand_in("one", status, error(status));
        let done = home.run(&["models"]).code(code);
        assert!(stderr(&done).contains(&format!("because of {status}")), "{}", stderr(&done));
        assert_eq!(stdout(&done), "");
    }
    let home = Home::new();
    home.stand_in("one", "503 Service Unavailable", error("loading"));
    let quiet = home.run(&["status", "--ready"]).code(8);
    assert_eq!((stdout(&quiet), stderr(&quiet)), (String::new(), String::new()));
    let home = Home::new();
    home.stand_in("one", "200 OK", "<html>hello</html>".into());
    let other = home.run(&["status"]).code(3);
    assert!(stderr(&other).contains("does not answer like a lanekeeper engine"), "{}", stderr(&other));
}

#[test]
fn keys_come_from_files_and_the_environment_and_are_never_shown() {
    let home = Home::new();
    home.stand_in("one", "401 Unauthorized", "{}".into());
    let key = home.file("key", "s3cret-marker\n");
    for done in [
        home.run(&["--key-file", key.to_str().unwrap(), "status"]).code(4),
        home.command().env("LANEKEEPER_KEY", "s3cret-marker").arg("status").assert().code(4),
    ] {
        assert!(!stderr(&done).contains("s3cret"), "{}", stderr(&done));
    }
    home.command().env("LANEKEEPER_KEY", "two words").arg("status").assert().code(2);
}

#[test]
fn check_says_what_a_file_is() {
    let home = Home::new();
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/clips/01.flac");
    // The name lies; the content counts.
    let lying = home.file("a.wav", std::fs::read(&clip).unwrap());
    let good = json(&home.run(&["check", lying.to_str().unwrap(), "-o", "json"]).code(0));
    assert_eq!(good[0]["accepted"], true);
    assert_eq!(good[0]["sample_rate"], 16_000);
    assert_eq!(good[0]["lane"], "clip");
    let text = stdout(&home.run(&["check", lying.to_str().unwrap()]).code(0));
    assert!(text.contains("a.wav: accepted\n") && text.contains("16000 Hz"), "{text}");
    for (name, content, says) in [
        ("empty.wav", &b""[..], "empty"),
        ("page.wav", b"<!DOCTYPE html><html></html>", "not audio"),
        ("data.wav", b"{\"a\": 1}", "not audio"),
    ] {
        let path = home.file(name, content);
        let done = home.run(&["check", path.to_str().unwrap()]).code(5);
        assert!(stdout(&done).contains("refused") && stdout(&done).contains(says), "{name}: {}", stdout(&done));
    }
    // The limits are those of the box that would serve it.
    for (limit, says) in
        [("audio: {max_seconds: 1s}", "longer than 1 s"), ("audio_bytes: 2k", "limits.audio_bytes (2.0 KiB)")]
    {
        let strict = home.file("strict.yaml", format!("extends: demo\nname: strict\nlimits:\n  {limit}\n"));
        let refused = home.run(&["check", "--profile", strict.to_str().unwrap(), lying.to_str().unwrap()]).code(5);
        assert!(stdout(&refused).contains(says), "{}", stdout(&refused));
    }
    let both = home.run(&["check", "missing.wav", lying.to_str().unwrap()]).code(5);
    assert!(stderr(&both).contains("missing.wav") && stdout(&both).contains("accepted"), "the rest is still checked");
    let stdin = home.command().args(["check", "-"]).write_stdin(std::fs::read(&clip).unwrap()).assert().code(0);
    assert!(stdout(&stdin).contains("accepted"));
}

#[test]
fn profiles_are_listed_shown_and_checked() {
    let home = Home::new();
    let listed = json(&home.run(&["profile", "list", "-o", "json"]).code(0));
    assert!(listed.as_array().unwrap().iter().any(|p| p["name"] == "demo" && p["shipped"] == true));
    let shown = json(&home.run(&["profile", "show", "demo", "--set", "limits.stall_s=7", "-o", "json"]).code(0));
    let values = shown["values"].as_array().unwrap();
    let stall = values.iter().find(|v| v["key"] == "limits.stall_s").unwrap();
    assert_eq!(stall["value"], "7");
    assert!(stall["origin"].as_str().unwrap().contains("--set"), "{stall}");
    home.run(&["profile", "check", "demo", "minilm-l6"]).code(0);
    let bad = home.file("bad.yaml", "name: bad\nmodels:\n  - minilm-l6\nlimits:\n  stal_s: 3\n");
    let refused = home.run(&["profile", "check", bad.to_str().unwrap()]).code(5);
    assert!(stderr(&refused).contains("bad.yaml:5:3") && stderr(&refused).contains("stall_s"), "{}", stderr(&refused));
    let refused = home.run(&["serve", "--offline", "--set", "limits.stall_s=never"]).code(5);
    assert!(stderr(&refused).contains("limits.stall_s"), "{}", stderr(&refused));
    let schema = json(&home.run(&["profile", "schema"]).code(0));
    assert!(schema["properties"]["models"].is_object());
}

#[test]
fn a_check_of_a_profile_looks_for_the_files_that_it_names() {
    let home = Home::new();
    let check = |name: &str, content: &str| {
        let path = home.file(name, content);
        home.run(&["profile", "check", path.to_str().unwrap()])
    };
    let box_of = |more: &str| format!("name: b\nmodels: [minilm-l6]\n{more}");
    let refused = check("keys.yaml", &box_of("keys: {file: keys.txt}\n")).code(5);
    let said = stderr(&refused);
    assert!(
        said.contains("keys.yaml:3:14: keys.file: cannot read") && said.contains("keys.txt: No such file"),
        "{said}"
    );
    home.file("keys.txt", "me serve short\n");
    let said = stderr(&check("keys.yaml", &box_of("keys: {file: keys.txt}\n")).code(5));
    assert!(said.contains("keys.file: ") && said.contains("keys.txt line 1: ") && !said.contains("short\n"), "{said}");
    home.file("keys.txt", "me serve,read 0123456789abcdef0123456789abcdef\n");
    check("keys.yaml", &box_of("keys: {file: keys.txt}\n")).code(0);

    let model = |sources: &str| {
        format!("extends: smollm2-135m\nid: own\nfiles:\n  weights:\n    sources: [{sources}]\n    sha256: unpinned\n")
    };
    let said = stderr(&check("own.yaml", &model("\"file:gone.gguf\"")).code(5));
    assert!(said.contains("own.yaml:5:") && said.contains("files.weights.sources: cannot read"), "{said}");
    assert!(said.contains("gone.gguf: No such file"), "{said}");
    let boxed = check("box.yaml", "name: b\nmodels: [own.yaml]\n").code(5);
    assert!(stderr(&boxed).contains("models.own.files.weights.sources: cannot read"), "{}", stderr(&boxed));
    let warned = check("own.yaml", &model("\"file:gone.gguf\", \"hf:a/b/c.gguf@main\"")).code(0);
    assert!(stderr(&warned).contains("gone.gguf") && stderr(&warned).contains("another source"), "{}", stderr(&warned));
    home.file("gone.gguf", "it is here");
    assert!(!stderr(&check("own.yaml", &model("\"file:gone.gguf\"")).code(0)).contains("gone"));
    std::fs::create_dir(home.0.join("folder")).unwrap();
    assert!(stderr(&check("own.yaml", &model("\"file:folder\"")).code(5)).contains("it is not a file"));
}

#[test]
fn the_runs_of_a_replay_are_named_after_what_they_try() {
    let home = Home::new();
    let (mut arrivals, mut batches) = (Vec::new(), Vec::new());
    for n in 0..8 {
        let (at, items) = (n as f64 * 1_000.0, 1 + n % 3);
        arrivals.push(serde_json::json!({
            "at_ms": at, "model": "m", "op": "transcribe", "lane": "clips", "cost": 5_000, "outcome": "served",
            "queue_ms": 1.0, "run_ms": 100.0
        }));
        batches.push(serde_json::json!({
            "ended_ms": at + 100.0, "model": "m", "op": "transcribe", "lane": "clips", "items": items,
            "cost": 5_000 * items, "run_ms": 40.0 + 60.0 * items as f64
        }));
    }
    let document = serde_json::json!({
        "schema": "lanekeeper.arrivals/1", "node": "n", "version": "0", "at_ms": 0, "span_ms": 10_000.0, "complete": true,
        "queues": [{ "model": "m", "op": "transcribe", "caps": {
            "max_batch_cost_effective": 16384, "max_batch_cost": 16384, "max_batch_cost_source": "default",
            "max_batch_requests": 12, "wait_ms": 0.0, "coalesce_ms": 0.0, "depth": 1, "max_queue": 256
        } }],
        "arrivals": arrivals, "batches": batches
    });
    let trace = home.file("a.json", document.to_string());
    let names = |more: &[&str]| -> Vec<String> {
        let done = home.run(&[&["simulate", "--trace", trace.to_str().unwrap(), "-o", "json"], more].concat()).code(0);
        json(&done)["runs"].as_array().unwrap().iter().map(|r| r["settings"]["name"].as_str().unwrap().into()).collect()
    };
    assert_eq!(names(&[]), ["as recorded"]);
    assert_eq!(names(&["--set", "depth=2", "--set", "wait_ms=5"]), ["as recorded", "depth=2, wait_ms=5"]);
    assert_eq!(
        names(&["--set", "depth=2", "--vary", "max_batch_requests=1,4"]),
        ["as recorded", "max_batch_requests=1, depth=2", "max_batch_requests=4, depth=2"]
    );
    // Another engine is that of every run, the first one too; alone it is nothing to try beside it.
    assert_eq!(names(&["--set", "service.clips.rate=50"]), ["as recorded, service.clips.rate=50"]);
    assert_eq!(
        names(&["--set", "service.clips.rate=50", "--set", "depth=2"]),
        ["as recorded, service.clips.rate=50", "depth=2, service.clips.rate=50"]
    );
    // A value that a setting names itself is not shown under its old name.
    let set = home.run(&["simulate", "--set", "long_form.slice_windows=4", "--duration", "1m", "-o", "json"]).code(0);
    let first = &json(&set)["runs"][0]["settings"];
    assert_eq!((&first["name"], &first["slice_windows"]), (&"long_form.slice_windows=4".into(), &4.into()));
}

#[test]
fn loads_are_listed_simulated_varied_and_exported() {
    let home = Home::new();
    let listed = json(&home.run(&["simulate", "--list", "-o", "json"]).code(0));
    let named = |name: &str| listed.as_array().unwrap().iter().any(|l| l["name"] == name && l["shipped"] == true);
    assert!(named("mixed") && named("published-closed-loop") && named("review"), "{listed}");
    home.run(&["profile", "check", "mixed", "published-closed-loop", "review"]).code(0);

    let csv = home.file("report.csv", "");
    let args = ["simulate", "--load", "mixed", "--duration", "2m", "--seed", "3", "--set", "depth=1"];
    let export = ["--vary", "max_batch_requests=6,12", "--export", csv.to_str().unwrap(), "-o", "json"];
    let report = json(&home.run(&[&args[..], &export[..]].concat()).code(0));
    assert_eq!((report["duration_s"].as_f64(), report["seed"].as_u64()), (Some(120.0), Some(3)));
    let runs = report["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["settings"]["depth"] == 1), "{report}");
    let names: Vec<&str> = runs.iter().map(|run| run["settings"]["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|name| name.ends_with("max_batch_requests=6")), "{names:?}");
    let lines: Vec<String> = std::fs::read_to_string(&csv).unwrap().lines().map(str::to_string).collect();
    assert_eq!(lines.len(), 1 + 2 * runs.len(), "a head, and a line per setting and lane");
    assert!(lines.iter().all(|line| line.matches(',').count() >= 20), "{lines:?}");

    let table = stdout(&home.run(&args).code(0));
    assert!(table.starts_with("SETTINGS") && table.contains("recordings"), "{table}");
    let own = ["--clients", "burst=3x2..4", "--clients", "talks=0.5/sx10", "--classes"];
    let table = stdout(&home.run(&[&args[..], &own[..]].concat()).code(0));
    assert!(table.contains("CLASS") && table.contains("burst") && table.contains("talks"), "{table}");
}

#[test]
fn what_is_wrong_with_a_load_is_told_with_its_place() {
    let home = Home::new();
    let text = "duration_s: 10m\nclients:\n  - name: a\n    cleints: 2\n    length: 15..5\n  - name: a\n    clients: 1\n    \
                rate: 2\n    length: 3\nservice:\n  clips:\n    rate: 0\nwait_ms: soon\n";
    let bad = home.file("bad.yaml", text);
    let said = stderr(&home.run(&["simulate", "--load", bad.to_str().unwrap()]).code(5));
    for wanted in [
        "bad.yaml:4:5: unknown key `cleints` (did you mean `clients`?)",
        "bad.yaml:5:13: `clients.a.length`: `15..5`",
        "bad.yaml:6:5: `clients` has `a` twice; the first is in line 3",
        "`clients` and `rate` exclude each other",
        "bad.yaml:12:11: `service.clips.rate`: 0 is outside",
        "bad.yaml:13:10: `settings.bad.wait_ms`: `soon`: unknown suffix",
    ] {
        assert!(said.contains(wanted), "{wanted}\n{said}");
    }
    for (args, wanted) in [
        (["--load", "mixd"], "did you mean `mixed`?"),
        (["--set", "dept=1"], "did you mean `depth`?"),
        (["--set", "clients.clip.length=3"], "the classes of clients are clips, recordings"),
        (["--set", "clients.clips.lenght=3"], "did you mean `length`?"),
        (["--vary", "length=1,2"], "these can be varied: max_batch_tokens"),
        (["--vary", "depth=1,x"], "`x` is not a whole number"),
        (["--clients", "clips=16"], "for example clips=16x5..15"),
    ] {
        let said = stderr(&home.run(&["simulate", args[0], args[1]]).code(5));
        assert!(said.contains(wanted), "{args:?}: {wanted}\n{said}");
    }
    home.run(&["simulate", "--duration", "1m", "--export", "report.txt"]).code(2);
}

#[test]
fn missing_files_offline_are_refused_at_once() {
    let home = Home::new();
    for args in [
        &["pull", "--offline", "minilm-l6"][..],
        &["pull", "--offline", "--profile", "demo"],
        &["serve", "--offline"],
        &["demo", "--offline"],
        &["bench", "--offline"],
    ] {
        let done = home.run(args).code(5);
        assert!(stderr(&done).contains("lanekeeper pull"), "{args:?}: {}", stderr(&done));
    }
}

#[test]
fn doctor_reports_without_an_engine() {
    let home = Home::new();
    let done = home.run(&["doctor", "-o", "json"]).code(0);
    let findings = json(&done);
    for check in ["machine", "kernels", "cache", "sockets", "profile", "files", "port", "engine"] {
        let found = findings.as_array().unwrap().iter().find(|f| f["check"] == check);
        assert!(found.is_some(), "{check}: {findings}");
    }
    home.run(&["-E", "nobody", "doctor"]).code(8);
}

#[test]
fn manual_pages_are_written_and_installed() {
    let home = Home::new();
    let main = stdout(&home.run(&["man"]).code(0));
    assert!(main.contains(".TH LANEKEEPER 1"), "{main}");
    let page = stdout(&home.run(&["man", "profile", "check"]).code(0));
    assert!(page.contains(".TH LANEKEEPER-PROFILE-CHECK 1"), "{page}");
    assert!(stdout(&home.run(&["man", "profile(5)"]).code(0)).contains(".TH LANEKEEPER-PROFILE 5"));
    home.run(&["man", "--install"]).code(0);
    assert!(home.0.join(".local/share/man/man7/lanekeeper-exit-codes.7").is_file());
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&home.run(&["completions", shell]).code(0)).contains("lanekeeper"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_success() {
    let home = Home::new();
    home.stand_in("one", "200 OK", snapshot());
    for args in [&["man"][..], &["completions", "bash"], &["profile", "schema"], &["status"], &["status", "-o", "json"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_lanekeeper"))
            .args(args)
            .env_clear()
            .env("XDG_RUNTIME_DIR", &home.0)
            .stdout(writer)
            .stderr(std::process::Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn times_that_no_engine_takes_are_refused_before_any_is_asked() {
    let home = Home::new();
    for args in [["lanes", "--watch", "--interval", "1ms"], ["top", "--plain", "--interval", "1h"]] {
        let refused = home.run(&args).code(2);
        assert!(stderr(&refused).contains("from 50ms to 5s"), "{}", stderr(&refused));
    }
}
