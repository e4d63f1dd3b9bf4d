//! The floors of the house: a room imports rooms on lower floors only, and pure rooms touch no clock, thread, file,
//! network, runtime, tensor or log.
//!
//! Reads the source as text: comments and string literals are blanked, then every `crate::…` path is taken, whether in a
//! `use` tree or inline, and every `super::…` path is resolved against the file's own module.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The rooms and their floors. A file belongs to the longest prefix that fits.
const ROOMS: &[(&str, u8)] = &[
    ("control", 0),
    ("profile", 0),
    ("engine::scheduler", 1),
    ("engine::speculation", 1),
    ("simulate", 1),
    ("pull", 1),
    ("engine::models", 2),
    ("engine::audio", 2),
    ("engine::runtime", 3),
    ("engine::split", 3),
    ("engine::serve", 4),
    ("client", 4),
    ("cli", 5),
    ("tui", 5),
];

/// Rooms on one floor that may be imported all the same: (from, to).
const SAME_FLOOR: &[(&str, &str)] = &[
    // A profile is data of the contract's kind; control knows nothing of it.
    ("profile", "control"),
    ("engine::models", "engine::audio"),
    ("simulate", "engine::scheduler"),
    ("engine::speculation", "engine::scheduler"),
    ("cli", "tui"),
];

/// The files of `cli` that may reach into the engine: they start one, measure a part of it, or read a file as it would.
const CLI_WITH_ENGINE: &[&str] = &["serve", "demo", "bench", "check", "doctor", "log", "simulate", "profile"];

/// Rooms where time comes in as a parameter and reasons go out as values.
const PURE: &[&str] = &["control", "engine::scheduler", "engine::speculation", "simulate"];

/// What a pure room may not name, as a path or the beginning of one.
const IMPURE: &[&str] = &[
    "std::time::Instant",
    "std::time::SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "tokio",
    "candle_core",
    "candle_nn",
    "tracing",
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Blanks comments and string and character literals, keeping every line break, so that only code is left.
fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut i = 0;
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    while i < chars.len() {
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    out.push(' ');
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                while i < chars.len() {
                    let (open, close) = (at(i) == '/' && at(i + 1) == '*', at(i) == '*' && at(i + 1) == '/');
                    depth += i32::from(open) - i32::from(close);
                    let step = if open || close { 2 } else { 1 };
                    (i..i + step).for_each(|k| out.push(blank(at(k))));
                    i += step;
                    if depth == 0 {
                        break;
                    }
                }
            }
            'r' if matches!(at(i + 1), '"' | '#')
                && !prev_is_word(&chars, i)
                && raw_hashes(&chars, i + 1).is_some() =>
            {
                let hashes = raw_hashes(&chars, i + 1).unwrap_or(0);
                let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                let mut k = i + 2 + hashes;
                while k < chars.len() && !chars[k..].starts_with(&close) {
                    k += 1;
                }
                let end = (k + close.len()).min(chars.len());
                (i..end).for_each(|k| out.push(blank(at(k))));
                i = end;
            }
            '"' => {
                let mut k = i + 1;
                while k < chars.len() && at(k) != '"' {
                    k += if at(k) == '\\' { 2 } else { 1 };
                }
                let end = (k + 1).min(chars.len());
                (i..end).for_each(|k| out.push(blank(at(k))));
                i = end;
            }
            // A character literal, not a lifetime.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                let mut k = i + 1;
                while k < chars.len() && at(k) != '\'' {
                    k += if at(k) == '\\' { 2 } else { 1 };
                }
                let end = (k + 1).min(chars.len());
                (i..end).for_each(|k| out.push(blank(at(k))));
                i = end;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

fn prev_is_word(chars: &[char], i: usize) -> bool {
    i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_')
}

/// The number of `#` before the quote of a raw string that begins here.
fn raw_hashes(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|c| **c == '#').count();
    (chars.get(from + hashes) == Some(&'"')).then_some(hashes)
}

/// A path that code names, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    path: Vec<String>,
    line: usize,
}

/// Every path in the code, with the braces of `use` trees multiplied out. `::` joins, whatever the white space.
fn paths(code: &str) -> Vec<Named> {
    let mut tokens: Vec<(String, usize)> = Vec::new();
    let mut line = 1;
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\n' {
            line += 1;
        } else if c.is_alphabetic() || c == '_' {
            let mut word = String::from(c);
            while let Some(next) = chars.next_if(|n| n.is_alphanumeric() || *n == '_') {
                word.push(next);
            }
            tokens.push((word, line));
        } else if c == ':' && chars.next_if_eq(&':').is_some() {
            tokens.push(("::".to_string(), line));
        } else if !c.is_whitespace() {
            tokens.push((c.to_string(), line));
        }
    }
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if is_word(&tokens[i].0) && (i == 0 || tokens[i - 1].0 != "::") {
            i = read_path(&tokens, i, &[], &mut found);
        } else {
            i += 1;
        }
    }
    found
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Reads one path (and the tree behind it) that begins at `i`; returns where it ends.
fn read_path(tokens: &[(String, usize)], mut i: usize, prefix: &[String], found: &mut Vec<Named>) -> usize {
    let mut path = prefix.to_vec();
    let line = tokens[i].1;
    loop {
        path.push(tokens[i].0.clone());
        i += 1;
        if tokens.get(i).is_none_or(|t| t.0 != "::") {
            break;
        }
        match tokens.get(i + 1).map(|t| t.0.as_str()) {
            Some("{") => {
                i += 2;
                while let Some((token, _)) = tokens.get(i) {
                    match token.as_str() {
                        "}" => return i + 1,
                        word if is_word(word) && word != "as" => i = read_path(tokens, i, &path, found),
                        _ => i += 1,
                    }
                }
                return i;
            }
            Some(word) if is_word(word) => i += 1,
            // `::*`, `::<T>`
            _ => {
                i += 1;
                break;
            }
        }
    }
    found.push(Named { path, line });
    i
}

/// `src/engine/models/load.rs` → `engine::models::load`; `mod.rs` is its folder.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> = file.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if let Some(last) = parts.last_mut() {
        *last = last.trim_end_matches(".rs").to_string();
    }
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

fn room_of(module: &[String]) -> Option<(&'static str, u8)> {
    let name = module.join("::");
    let inside = |room: &str| name == room || name.starts_with(&format!("{room}::"));
    ROOMS.iter().copied().filter(|(room, _)| inside(room)).max_by_key(|(room, _)| room.len())
}

/// The path from the crate's root, for a path that begins with `crate`, `self` or `super`.
fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let mut base: Vec<String> = match path.first()?.as_str() {
        "crate" | "lanekeeper" => Vec::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    let mut rest = path;
    while let Some(first) = rest.first() {
        match first.as_str() {
            "super" => drop(base.pop()),
            "crate" | "self" | "lanekeeper" => {}
            _ => break,
        }
        rest = &rest[1..];
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// Whether code of `from` may import from `to`.
fn may_import(from: (&str, u8), to: (&str, u8), file: &[String]) -> bool {
    if from.0 == to.0 {
        return true;
    }
    match (from.0, to.0) {
        ("tui", room) if room.starts_with("engine") => return false,
        ("cli", room) if room.starts_with("engine") => {
            return file.get(1).is_some_and(|name| CLI_WITH_ENGINE.contains(&name.as_str()));
        }
        _ => {}
    }
    to.1 < from.1 || SAME_FLOOR.contains(&(from.0, to.0))
}

/// What is wrong in one file; `file` is relative to `src`.
fn check(file: &Path, source: &str) -> Vec<Violation> {
    let module = module_of(file);
    // Files outside every room (`lib.rs`, `main.rs`, `engine/mod.rs`) only put rooms together.
    let Some(from) = room_of(&module) else { return Vec::new() };
    let mut violations = BTreeSet::new();
    let mut report = |line: usize, what: String| {
        violations.insert(Violation { file: file.to_path_buf(), line, what });
    };
    for Named { path, line } in paths(&code_only(source)) {
        if let Some(to) = absolute(&path, &module).as_deref().and_then(room_of)
            && !may_import(from, to, &module)
        {
            let (from_name, from_floor) = from;
            let (to_name, to_floor) = to;
            report(line, format!("`{from_name}` (floor {from_floor}) imports `{to_name}` (floor {to_floor})"));
        }
        let name = path.join("::");
        let impure = IMPURE.iter().find(|bad| name == **bad || name.starts_with(&format!("{bad}::")));
        if PURE.contains(&from.0)
            && let Some(bad) = impure
        {
            report(line, format!("pure room `{}` touches `{bad}`", from.0));
        }
    }
    violations.into_iter().collect()
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn imports_run_down_the_floors_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 50, "the source was found: {} files", files.len());
    let violations: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let source = std::fs::read_to_string(path).expect("source is UTF-8");
            check(path.strip_prefix(&src).expect("it lies below src"), &source)
        })
        .map(|v| v.to_string())
        .collect();
    assert!(violations.is_empty(), "arrows run up a floor:\n{}", violations.join("\n"));
}

#[test]
fn every_room_of_the_source_is_on_the_map() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = |base: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(base).expect("src is there").map(|e| e.expect("a readable folder"));
        entries.filter(|e| e.path().is_dir()).map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    };
    let top = folders(&src).into_iter().filter(|name| name != "engine");
    let engine = folders(&src.join("engine")).into_iter().map(|name| format!("engine::{name}"));
    let strays: Vec<String> = top.chain(engine).filter(|room| ROOMS.iter().all(|(known, _)| known != room)).collect();
    assert!(strays.is_empty(), "rooms without a floor: {strays:?}");
}

// ---- the check checked ----

fn wrong(file: &str, source: &str) -> Vec<String> {
    check(Path::new(file), source).into_iter().map(|v| v.to_string()).collect()
}

#[test]
fn an_arrow_up_is_found_in_use_lines_trees_and_inline_paths() {
    let up = ["engine/models/load.rs:1: `engine::models` (floor 2) imports `engine::runtime` (floor 3)"];
    for source in [
        "use crate::engine::runtime::Engine;",
        "use crate::{control::Op, engine::{audio::Pcm, runtime::{Engine, Ticket as T}}};",
        "fn f() { crate::engine::runtime::start() }",
        "use super::super::runtime::Engine;",
        "type E = crate :: engine :: runtime :: Engine;",
    ] {
        assert_eq!(wrong("engine/models/load.rs", source), up, "{source}");
    }
    assert_eq!(wrong("engine/models/load.rs", "use crate::engine::audio::Pcm;\nuse crate::profile::Family;").len(), 0);
}

#[test]
fn neighbours_on_a_floor_keep_apart_where_the_map_says_so() {
    assert_eq!(wrong("engine/audio/pcm.rs", "use crate::engine::models::Segment;").len(), 1);
    assert_eq!(wrong("engine/models/whisper/mod.rs", "use crate::engine::audio::Pcm;").len(), 0);
    assert_eq!(wrong("client/mod.rs", "use crate::engine::serve::router;").len(), 1);
    assert_eq!(wrong("engine/serve/mod.rs", "use crate::client::Feed;").len(), 1);
    assert_eq!(wrong("control/op.rs", "use crate::profile::Family;").len(), 1);
    assert_eq!(wrong("profile/types.rs", "use crate::control::Op;").len(), 0);
}

#[test]
fn the_console_never_knows_the_engine_and_commands_only_where_they_start_one() {
    assert_eq!(wrong("tui/view/lanes.rs", "use crate::engine::scheduler::Micros;").len(), 1);
    assert_eq!(wrong("tui/model/mod.rs", "use crate::client::Feed;\nuse crate::control::Snapshot;").len(), 0);
    assert_eq!(wrong("cli/status.rs", "use crate::engine::runtime::Engine;").len(), 1);
    assert_eq!(wrong("cli/serve.rs", "use crate::engine::runtime::Engine;").len(), 0);
    assert_eq!(wrong("cli/demo/load.rs", "use crate::engine::serve::bind;").len(), 0);
    assert_eq!(wrong("cli/top.rs", "use crate::tui::run;").len(), 0);
    assert_eq!(wrong("tui/mod.rs", "use crate::cli::Args;").len(), 1);
}

#[test]
fn a_pure_room_names_no_clock_thread_file_or_tensor() {
    for source in [
        "use std::time::Instant;",
        "use std::{fmt, time::{Duration, SystemTime}};",
        "fn f() { std::thread::yield_now() }",
        "fn f() { tokio::spawn(g()); }",
        "use candle_core::Tensor;",
        "fn f() { tracing::info!(x); }",
        "use std::fs;",
        "use std::net::SocketAddr;",
    ] {
        assert_eq!(wrong("engine/scheduler/former.rs", source).len(), 1, "{source}");
        assert_eq!(wrong("control/op.rs", source).len(), 1, "{source}");
        assert_eq!(wrong("engine/runtime/engine.rs", source).len(), 0, "{source}");
    }
    assert_eq!(wrong("engine/scheduler/former.rs", "use std::time::Duration;").len(), 0);
}

#[test]
fn comments_and_strings_are_not_code() {
    let source = r##"
        //! [`crate::engine::runtime`]
        /* use tokio::sync; /* nested */ crate::tui::run */
        const A: &str = "crate::engine::serve \" tokio::spawn";
        const B: &str = r#"std::fs " crate::cli"#;
        const C: char = '"';
        fn f<'a>(x: &'a str) -> &'a str { x }
    "##;
    assert_eq!(wrong("engine/scheduler/former.rs", source), Vec::<String>::new());
    let after = format!("{source}\nuse crate::tui::run;");
    assert_eq!(wrong("engine/scheduler/former.rs", &after).len(), 1, "and what follows them is");
    assert!(wrong("engine/scheduler/former.rs", &after)[0].contains("former.rs:9:"), "lines are kept");
}
