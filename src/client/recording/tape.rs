//! A session read into memory, checked, in the order of its time.

use crate::control::knobs::Knobs;
use crate::control::recording::{Event, Header, SCHEMA};
use crate::control::{ExitCode, Snapshot, snapshot};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest file that is read: it is held in memory.
const MOST_BYTES: u64 = 1 << 30;

/// Something on the tape, and when.
#[derive(Debug, Clone)]
pub enum Moment {
    Snapshot(Arc<Snapshot>),
    Knobs(Arc<Knobs>),
    /// The engine was away; why.
    Away(String),
}

/// A recorded session. Holds at least one snapshot.
#[derive(Debug, Clone)]
pub struct Tape {
    pub header: Header,
    /// Milliseconds since the recording began, and what was seen; times never decrease.
    pub moments: Vec<(u64, Moment)>,
    /// The file ended within a line: the recording was cut off there.
    pub cut: bool,
}

/// Why a file cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {bytes} bytes are more than can be played ({MOST_BYTES})", path.display())]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("{}: not a recorded session: {why}", path.display())]
    NotASession { path: PathBuf, why: String },
    #[error("{}:{line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: String },
    #[error("{}: it holds no snapshot", path.display())]
    Empty { path: PathBuf },
}

impl TapeError {
    /// How a command that met this error exits.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::Refused
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            TapeError::Read { .. } => "`lanekeeper record --snapshots FILE` writes one",
            TapeError::TooLarge { .. } => "record with a longer --interval, or a lower --limit",
            TapeError::NotASession { .. } => {
                "`lanekeeper record --snapshots FILE` writes one; without --snapshots it writes arrivals, for `simulate --trace`"
            }
            TapeError::Line { .. } => "the lines before it are good: a copy that ends there can be played",
            TapeError::Empty { .. } => "was the engine away all the time?",
        }
    }
}

impl Tape {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Tape, TapeError> {
        let failed = |source| TapeError::Read { path: path.to_path_buf(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > MOST_BYTES {
            return Err(TapeError::TooLarge { path: path.to_path_buf(), bytes });
        }
        Tape::read(path, &std::fs::read(path).map_err(failed)?)
    }

    /// Reads what a file at `path` holds.
    pub fn read(path: &Path, text: &[u8]) -> Result<Tape, TapeError> {
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').enumerate();
        let header = header(lines.next().map_or(&[], |(_, line)| line))
            .map_err(|why| TapeError::NotASession { path: path.to_path_buf(), why })?;
        let mut tape = Tape { header, moments: Vec::new(), cut: false };
        for (index, line) in lines {
            let at = |why| TapeError::Line { path: path.to_path_buf(), line: index + 1, why };
            match serde_json::from_slice::<Event>(line) {
                Ok(event) => tape.take(event).map_err(at)?,
                // The last line of a recording that was killed: its end was never written.
                Err(_) if !line.ends_with(b"\n") => tape.cut = true,
                Err(error) => return Err(at(format!("not an event: {error}"))),
            }
        }
        if tape.snapshots().next().is_none() {
            return Err(TapeError::Empty { path: path.to_path_buf() });
        }
        Ok(tape)
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        let before = self.length_ms();
        if event.t_ms < before {
            return Err(format!("time runs backwards here, from {before} ms to {} ms", event.t_ms));
        }
        let away = event.away.map(Moment::Away);
        let knobs = event.knobs.map(|knobs| Moment::Knobs(Arc::new(*knobs)));
        let snapshot = event.snapshot.map(|snapshot| Moment::Snapshot(Arc::new(*snapshot)));
        self.moments.extend(away.into_iter().chain(knobs).chain(snapshot).map(|moment| (event.t_ms, moment)));
        Ok(())
    }

    /// When the last thing was seen.
    pub fn length_ms(&self) -> u64 {
        self.moments.last().map_or(0, |(t_ms, _)| *t_ms)
    }

    /// The snapshots, oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.moments.iter().filter_map(|(_, moment)| match moment {
            Moment::Snapshot(snapshot) => Some(snapshot),
            Moment::Knobs(_) | Moment::Away(_) => None,
        })
    }
}

fn header(line: &[u8]) -> Result<Header, String> {
    #[derive(serde::Deserialize)]
    struct Named {
        schema: String,
    }
    if line.is_empty() {
        return Err("it is empty".to_string());
    }
    let named: Named = serde_json::from_slice(line).map_err(|_| "its first line is no header".to_string())?;
    if named.schema != SCHEMA {
        return Err(format!("it is `{}`, and this version plays `{SCHEMA}`", named.schema));
    }
    let header: Header = serde_json::from_slice(line).map_err(|error| format!("its header: {error}"))?;
    if header.snapshots != snapshot::SCHEMA {
        return Err(format!("its snapshots are `{}`, and this version reads `{}`", header.snapshots, snapshot::SCHEMA));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::super::SessionWriter;
    use super::*;
    use proptest::prelude::*;

    fn head() -> Header {
        Header {
            schema: SCHEMA.into(),
            snapshots: snapshot::SCHEMA.into(),
            node: "test".into(),
            version: "0".into(),
            at_ms: 0,
            interval_ms: 1000,
        }
    }

    /// Five seconds with a snapshot each; the engine is away in the third.
    fn session(limit: u64) -> (Vec<u8>, Vec<bool>) {
        let mut bytes = Vec::new();
        let mut writer = SessionWriter::begin(&mut bytes, &head(), limit).unwrap();
        let taken = (0..5u64).map(|second| {
            let event = match second {
                2 => Event::away(second * 1000, "gone"),
                _ => Event::snapshot(second * 1000, crate::client::testing::snapshot(1, second)),
            };
            writer.write(&event).unwrap()
        });
        let taken = taken.collect();
        assert_eq!(writer.written(), bytes.len() as u64);
        (bytes, taken)
    }

    fn read(bytes: &[u8]) -> Result<Tape, TapeError> {
        Tape::read(Path::new("s.jsonl"), bytes)
    }

    #[test]
    fn what_was_written_is_read() {
        let (bytes, taken) = session(u64::MAX);
        assert_eq!(taken, [true; 5]);
        let tape = read(&bytes).unwrap();
        assert_eq!((tape.header.clone(), tape.cut, tape.length_ms()), (head(), false, 4000));
        assert_eq!(tape.snapshots().map(|s| s.seq).collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert!(matches!(&tape.moments[2], (2000, Moment::Away(why)) if why == "gone"));
    }

    #[test]
    fn a_limit_is_kept_to_and_what_fits_can_be_played() {
        let (whole, _) = session(u64::MAX);
        let (bytes, taken) = session(whole.len() as u64 - 1);
        assert_eq!(taken, [true, true, true, true, false]);
        assert!(bytes.len() < whole.len() && read(&bytes).unwrap().snapshots().count() == 3);
    }

    #[test]
    fn what_cannot_be_played_says_where_and_why() {
        let (bytes, _) = session(u64::MAX);
        let text = String::from_utf8(bytes).unwrap();
        let why = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(why(""), "s.jsonl: not a recorded session: it is empty");
        assert!(why("{\"schema\":\"lanekeeper.arrivals/1\"}\n").contains("it is `lanekeeper.arrivals/1`"));
        assert!(why("hello\n").contains("no header"));
        assert!(
            why(&text.replace("snapshot/1\",\"node\":\"test\"", "snapshot/9\",\"node\":\"test\""))
                .contains("snapshot/9")
        );
        let head_only = text.lines().next().unwrap();
        assert!(why(&format!("{head_only}\n")).contains("no snapshot"));
        let broken = text.replacen("\"t_ms\":1000", "\"t_ms\":oops", 1);
        assert!(why(&broken).starts_with("s.jsonl:3: not an event"), "{}", why(&broken));
        let backwards = text.replacen("\"t_ms\":3000", "\"t_ms\":5", 1);
        assert!(why(&backwards).starts_with("s.jsonl:5: time runs backwards"), "{}", why(&backwards));
        assert!(Tape::open(Path::new("/nonexistent/x")).unwrap_err().to_string().starts_with("cannot read"));
    }

    #[test]
    fn a_later_version_may_say_more() {
        let (bytes, _) = session(u64::MAX);
        let text = String::from_utf8(bytes).unwrap() + "{\"t_ms\":9000,\"weather\":\"fine\"}\n";
        assert_eq!(read(text.as_bytes()).unwrap().snapshots().count(), 4);
    }

    proptest! {
        /// A recording that was killed at any byte is played as far as it goes, or says why not; it is never refused for
        /// its end.
        #[test]
        fn a_recording_may_be_cut_anywhere(at in any::<prop::sample::Index>()) {
            let (bytes, _) = session(u64::MAX);
            let cut = &bytes[..at.index(bytes.len())];
            match read(cut) {
                Ok(tape) => prop_assert!(!(tape.cut && cut.last() == Some(&b'\n'))),
                Err(error) => prop_assert!(!matches!(error, TapeError::Line { .. }), "{error}"),
            }
        }
    }
}
