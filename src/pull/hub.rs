//! Model hub files, through the machine's own curl.
//!
//! The answer's head and body arrive on one pipe (`--include`), so that the status decides what happens to the body: 206
//! continues the part that is there, 200 starts anew. The address and the token go in through the child's standard input:
//! arguments can be read by every user of the machine.

use super::options::Hub;
use super::wheel::tail;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Tries per pull. A try that gained bytes does not count.
const MAX_TRIES: usize = 3;

/// Longest accepted head of an answer.
const MAX_HEAD: u64 = 256 * 1024;

/// A failed try.
struct Failure {
    why: String,
    /// Whether another try could do better.
    passing: bool,
}

fn lasting(why: impl Into<String>) -> Failure {
    Failure { why: why.into(), passing: false }
}

fn passing(why: impl Into<String>) -> Failure {
    Failure { why: why.into(), passing: true }
}

/// Fetches a hub file to `to`. What an earlier try left there is continued where that is safe: the file is pinned (a wrong
/// join shows in its hash), or the server still has the same version of it.
pub(super) fn fetch(
    hub: &Hub,
    repo: &str,
    file: &str,
    revision: &str,
    pinned: bool,
    to: &Path,
    report: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), String> {
    let url = format!("{}/{repo}/resolve/{revision}/{file}", hub.endpoint);
    let note = Note::at(to);
    let mut failures = 0;
    loop {
        let before = length(to);
        match attempt(hub, &url, pinned, to, &note, report) {
            Ok(()) => {
                note.forget();
                return Ok(());
            }
            Err(failure) => {
                if length(to) <= before {
                    failures += 1;
                }
                if !failure.passing || failures >= MAX_TRIES {
                    return Err(format!("{url}: {}", failure.why));
                }
                std::thread::sleep(hub.rest * (1 << failures) / 2);
            }
        }
    }
}

fn attempt(
    hub: &Hub,
    url: &str,
    pinned: bool,
    to: &Path,
    note: &Note,
    report: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), Failure> {
    let there = length(to);
    let (noted_url, version) = note.read();
    let same = noted_url == url && (pinned || version.is_some());
    let start = if same { there } else { 0 };
    let mut child = spawn(hub, url, start, version.as_deref().filter(|_| start > 0 && !pinned))?;
    let stderr = child.stderr.take();
    let complaint = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let stdout = child.stdout.take().ok_or_else(|| lasting("curl has no output"))?;
    let copied = receive(BufReader::with_capacity(1 << 18, stdout), url, start, to, note, report);
    if copied.is_err() {
        // Nobody reads on: the child would wait for ever on a full pipe.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| lasting(format!("curl: {error}")))?;
    let complaint = complaint.join().unwrap_or_default();
    match copied {
        Err(failure) if failure.passing && !status.success() && !complaint.trim().is_empty() => {
            Err(passing(tail(&complaint)))
        }
        Err(failure) => Err(failure),
        Ok(()) if status.success() => Ok(()),
        Ok(()) => Err(passing(tail(&complaint))),
    }
}

fn spawn(hub: &Hub, url: &str, start: u64, if_version: Option<&str>) -> Result<Child, Failure> {
    let mut command = Command::new(&hub.curl);
    command.args(["--silent", "--show-error", "--location", "--include", "--suppress-connect-headers"]);
    command.args(["--proto", "=http,https", "--connect-timeout", "20", "--speed-limit", "1", "--speed-time", "60"]);
    command.args(["--config", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        lasting(format!("`{}` cannot be run: {error} (install curl, or use a `file:` source)", hub.curl.display()))
    })?;
    let mut lines = format!("url = \"{url}\"\n");
    if let Some(token) = hub.token.as_deref().filter(|token| token.chars().all(|c| c.is_ascii_graphic() && c != '"')) {
        lines.push_str(&format!("header = \"Authorization: Bearer {token}\"\n"));
    }
    if start > 0 {
        lines.push_str(&format!("header = \"Range: bytes={start}-\"\n"));
    }
    if let Some(version) = if_version {
        lines.push_str(&format!("header = \"If-Range: {}\"\n", version.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    let mut stdin = child.stdin.take().ok_or_else(|| lasting("curl has no input"))?;
    stdin.write_all(lines.as_bytes()).map_err(|error| lasting(format!("curl: {error}")))?;
    Ok(child)
}

/// The head of the last answer: those of redirects come before it.
#[derive(Debug, Default, PartialEq)]
struct Head {
    status: u16,
    length: Option<u64>,
    version: Option<String>,
}

fn read_head(from: &mut impl BufRead) -> Result<Head, Failure> {
    let mut limited = from.take(MAX_HEAD);
    loop {
        let mut head = Head::default();
        let mut line = String::new();
        loop {
            line.clear();
            let read = limited.read_line(&mut line).map_err(|_| lasting("the server's answer is not HTTP"))?;
            if read == 0 {
                return Err(passing("the server gave no answer"));
            }
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if text.starts_with("HTTP/") {
                head.status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
            } else if let Some((name, value)) = text.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => head.length = value.trim().parse().ok(),
                    // A weak tag cannot be used to continue a file.
                    "etag" => head.version = Some(value.trim().to_string()).filter(|tag| !tag.starts_with("W/")),
                    _ => {}
                }
            }
        }
        if !(100..200).contains(&head.status) && !(300..400).contains(&head.status) {
            return Ok(head);
        }
    }
}

/// Writes the body to `to`: after what is there for 206, from the start for 200.
fn receive(
    mut from: BufReader<ChildStdout>,
    url: &str,
    start: u64,
    to: &Path,
    note: &Note,
    report: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), Failure> {
    let head = read_head(&mut from)?;
    let at = match head.status {
        206 => start,
        200 => 0,
        // What is there is no beginning of the file: start anew.
        416 => {
            note.forget();
            let _ = std::fs::remove_file(to);
            return Err(passing("the server cannot continue the file"));
        }
        401 | 403 => return Err(lasting(format!("HTTP {}: not permitted (set HF_TOKEN?)", head.status))),
        404 => return Err(lasting("HTTP 404: there is no such file")),
        status @ (408 | 429 | 500..) => return Err(passing(format!("HTTP {status}"))),
        status => return Err(lasting(format!("HTTP {status}"))),
    };
    let disk = |error: std::io::Error| lasting(format!("{}: {error}", to.display()));
    let mut out = File::options().create(true).write(true).truncate(false).open(to).map_err(disk)?;
    out.set_len(at).map_err(disk)?;
    std::io::Seek::seek(&mut out, std::io::SeekFrom::Start(at)).map_err(disk)?;
    note.write(url, head.version.as_deref());
    let total = head.length.map(|length| at + length);
    let mut done = at;
    report(done, total);
    loop {
        let bytes = from.fill_buf().map_err(|error| passing(error.to_string()))?;
        let n = bytes.len();
        if n == 0 {
            break;
        }
        out.write_all(bytes).map_err(disk)?;
        from.consume(n);
        done += n as u64;
        report(done, total);
    }
    match total {
        Some(total) if done < total => Err(passing(format!("cut after {done} of {total} bytes"))),
        _ => Ok(()),
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map(|meta| meta.len()).unwrap_or(0)
}

/// What the part beside it is a part of: address and version.
struct Note(PathBuf);

impl Note {
    fn at(part: &Path) -> Self {
        Note(part.with_extension("from"))
    }

    fn read(&self) -> (String, Option<String>) {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let mut lines = text.lines();
        let url = lines.next().unwrap_or_default().to_string();
        (url, lines.next().filter(|version| !version.is_empty()).map(str::to_string))
    }

    fn write(&self, url: &str, version: Option<&str>) {
        // Without the note the next pull starts anew: no harm.
        let _ = std::fs::write(&self.0, format!("{url}\n{}\n", version.unwrap_or_default()));
    }

    fn forget(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
