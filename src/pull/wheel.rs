//! Wheels, through the machine's own pip.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// First pip that prints progress as lines (`--progress-bar raw`).
const RAW_PROGRESS: (u32, u32) = (24, 1);

/// Last part of a child's complaint that a message carries.
const MAX_COMPLAINT: usize = 600;

/// Wheels downloaded in this pull: several files of one wheel cost one download. The folder goes away at the end.
pub(super) struct Wheels {
    folder: PathBuf,
    python: PathBuf,
    raw_progress: Option<bool>,
    fetched: BTreeMap<(String, String), PathBuf>,
}

impl Drop for Wheels {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Wheels {
    pub fn new(folder: PathBuf, python: &Path) -> Self {
        Wheels { folder, python: python.to_path_buf(), raw_progress: None, fetched: BTreeMap::new() }
    }

    /// Writes the file at `path` in the wheel to `to`, downloading the wheel if this pull has not yet.
    pub fn extract(
        &mut self,
        name: &str,
        version: &str,
        path: &str,
        to: &Path,
        report: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), String> {
        let wheel = self.wheel(name, version, report)?;
        let file = File::open(&wheel).map_err(|error| format!("{}: {error}", wheel.display()))?;
        let mut archive = zip::ZipArchive::new(BufReader::new(file))
            .map_err(|error| format!("{name}=={version} is not a readable wheel: {error}"))?;
        let mut entry = archive
            .by_name(path)
            .map_err(|error| format!("{name}=={version} holds no `{path}` that can be read: {error}"))?;
        let total = entry.size();
        let mut out = File::create(to).map_err(|error| format!("{}: {error}", to.display()))?;
        let mut buffer = vec![0u8; 1 << 18];
        let mut done = 0u64;
        loop {
            let n = entry.read(&mut buffer).map_err(|error| format!("`{path}` in {name}=={version}: {error}"))?;
            if n == 0 {
                break;
            }
            out.write_all(&buffer[..n]).map_err(|error| format!("{}: {error}", to.display()))?;
            done += n as u64;
            report(done, Some(total));
        }
        Ok(())
    }

    fn wheel(
        &mut self,
        name: &str,
        version: &str,
        report: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<PathBuf, String> {
        let key = (name.to_string(), version.to_string());
        if let Some(path) = self.fetched.get(&key) {
            return Ok(path.clone());
        }
        let folder = self.folder.join(self.fetched.len().to_string());
        let raw = self.raw_progress()?;
        let requirement = format!("{name}=={version}");
        download(&self.python, raw, &folder, &requirement, report)?;
        let wheel = std::fs::read_dir(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
            .ok_or_else(|| format!("pip downloaded no wheel for {requirement}"))?;
        self.fetched.insert(key, wheel.clone());
        Ok(wheel)
    }

    /// Whether this pip can print progress as lines. Asked once; also finds out whether there is a pip at all.
    fn raw_progress(&mut self) -> Result<bool, String> {
        if let Some(known) = self.raw_progress {
            return Ok(known);
        }
        let python = self.python.display();
        let output =
            Command::new(&self.python).args(["-m", "pip", "--version"]).stdin(Stdio::null()).output().map_err(
                |error| format!("`{python}` cannot be run: {error} (install python3, or set LANEKEEPER_PYTHON)"),
            )?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{python} -m pip` does not work: {} (install python3-pip)", tail(&complaint)));
        }
        let known = version(&String::from_utf8_lossy(&output.stdout)) >= Some(RAW_PROGRESS);
        self.raw_progress = Some(known);
        Ok(known)
    }
}

/// `pip 24.1 from …` → (24, 1).
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("pip ")?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn download(
    python: &Path,
    raw_progress: bool,
    folder: &Path,
    requirement: &str,
    report: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), String> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]);
    command.args(["--disable-pip-version-check", "--progress-bar", if raw_progress { "raw" } else { "off" }]);
    command.arg("--dest").arg(folder).arg("--").arg(requirement);
    command.env("PYTHONUNBUFFERED", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("`{}` cannot be run: {error}", python.display()))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // The complaint is read beside the progress: a full pipe would stop the child.
    let complaint = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    for line in stdout.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok) {
        if let Some((done, total)) = progress_line(&line) {
            report(done, total);
        }
    }
    let status = child.wait().map_err(|error| format!("pip: {error}"))?;
    let complaint = complaint.join().unwrap_or_default();
    if status.success() { Ok(()) } else { Err(format!("pip download {requirement} failed: {}", tail(&complaint))) }
}

/// `Progress 123 of 456`; 0 = unknown.
fn progress_line(line: &str) -> Option<(u64, Option<u64>)> {
    let (done, total) = line.trim().strip_prefix("Progress ")?.split_once(" of ")?;
    Some((done.parse().ok()?, total.parse().ok().filter(|total| *total > 0)))
}

/// The end of a child's complaint, on one line.
pub(super) fn tail(text: &str) -> String {
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let cut = line.chars().count().saturating_sub(MAX_COMPLAINT);
    let line: String = line.chars().skip(cut).collect();
    if line.is_empty() { "it said nothing".to_string() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_lines() {
        assert_eq!(version("pip 24.1.2 from /usr/lib (python 3.12)"), Some((24, 1)));
        assert_eq!(version("pip 25.0"), Some((25, 0)));
        assert_eq!(version("nothing"), None);
        assert_eq!(progress_line("Progress 5 of 10"), Some((5, Some(10))));
        assert_eq!(progress_line("Progress 5 of 0"), Some((5, None)));
        assert_eq!(progress_line("Downloading x"), None);
    }
}
