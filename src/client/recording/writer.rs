//! Writing a session, line by line, up to a limit.

use crate::control::recording::{Event, Header};
use std::io::{self, Write};

/// Writes lines until a limit is reached. Every line is flushed: what has come is in the file, whatever ends the recording.
pub struct SessionWriter<W> {
    out: W,
    written: u64,
    limit: u64,
}

impl<W: Write> SessionWriter<W> {
    /// Begins with the header. At most `limit` bytes are written (the header always is).
    pub fn begin(out: W, header: &Header, limit: u64) -> io::Result<SessionWriter<W>> {
        let mut writer = SessionWriter { out, written: 0, limit: u64::MAX };
        writer.line(header)?;
        writer.limit = limit;
        Ok(writer)
    }

    /// Writes an event, or says that there is no room for it: the recording is over.
    pub fn write(&mut self, event: &Event) -> io::Result<bool> {
        self.line(event)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn line(&mut self, value: &impl serde::Serialize) -> io::Result<bool> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        if self.written + line.len() as u64 > self.limit {
            return Ok(false);
        }
        self.out.write_all(&line)?;
        self.out.flush()?;
        self.written += line.len() as u64;
        Ok(true)
    }
}
