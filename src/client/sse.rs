//! Server-sent events: bytes in, events out. Pure.

/// One event: its `event:` name (absent = `message`), `id:` and joined `data:` lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    pub name: Option<String>,
    pub id: Option<String>,
    pub data: String,
}

/// Longest event taken: a snapshot is some tens of kilobytes, so this only stops a peer that never ends a line.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// An incremental parser: lines may be cut anywhere, and end in LF, CR LF or CR.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_cr: bool,
    bytes: usize,
}

/// An event grew past any sensible size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {MAX_EVENT_BYTES} bytes")]
pub struct SseTooLarge;

impl SseParser {
    /// Takes the next bytes and appends the events that they complete to `out`. Comments are dropped.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), SseTooLarge> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
                Some(end) => {
                    self.take(&rest[..end])?;
                    self.end_line(out);
                    self.after_cr = rest[end] == b'\r';
                    rest = &rest[end + 1..];
                }
                None => {
                    self.take(rest)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// A piece of a line.
    fn take(&mut self, piece: &[u8]) -> Result<(), SseTooLarge> {
        self.bytes += piece.len();
        if self.bytes > MAX_EVENT_BYTES {
            return Err(SseTooLarge);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.bytes = 0;
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                out.push(event);
            }
            return;
        }
        let line = String::from_utf8(line).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "event" => self.event.name = Some(value.to_string()),
            "id" => self.event.id = Some(value.to_string()),
            // An empty field is a comment (keep-alive); unknown fields are ignored as the standard says.
            _ => self.bytes = self.bytes.saturating_sub(line.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(parts: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        for p in parts {
            parser.push(p, &mut out).unwrap();
        }
        out
    }

    #[test]
    fn names_ids_comments_and_joined_data() {
        let events = all(&[b": hello\n\nevent: a\nid: 7\ndata: x\ndata:y\n\ndata: [DONE]\r\n\r\ndata: cut"]);
        assert_eq!(
            events,
            vec![
                SseEvent { name: Some("a".into()), id: Some("7".into()), data: "x\ny".into() },
                SseEvent { name: None, id: None, data: "[DONE]".into() },
            ]
        );
    }

    #[test]
    fn a_line_that_never_ends_is_refused() {
        let mut parser = SseParser::default();
        let chunk = vec![b'x'; 1 << 20];
        let mut out = Vec::new();
        let refused = (0..17).any(|_| parser.push(&chunk, &mut out).is_err());
        assert!(refused);
    }

    proptest! {
        #[test]
        fn cutting_anywhere_changes_nothing(
            text in "(data: [a-z]{0,6}(\r\n|\n|\r)|: c\n|\n|\r\n|event: e\n){0,12}",
            cut in 0usize..200,
        ) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let by_bytes: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(all(&[bytes]), all(&[&bytes[..cut], &bytes[cut..]]));
            prop_assert_eq!(all(&[bytes]), all(&by_bytes));
        }
    }
}
