//! YAML text → a tree in which every key and value knows its line and column.
//!
//! Profiles use the plain core of YAML: one document of mappings, lists and scalars. Anchors, aliases, merge keys and
//! tags are refused (`extends` does their job, with an origin that can be shown), and so are repeated keys. Scalars
//! keep their text, so that `720_000`, `16k` or a version like `1.10` mean what they say.

use super::error::ProfileError;
use super::origin::{Place, SourceFile};
use crate::control::nearest;
use serde_yaml::granit_parser::{Event, Parser, ScalarStyle, Span};
use std::sync::Arc;

/// No profile needs more; it bounds the recursion.
const MAX_DEPTH: usize = 16;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub at: Place,
    pub data: Data,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Data {
    Null,
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: String,
    pub at: Place,
    pub value: Node,
}

impl Data {
    /// What this is, in words for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Data::Null => "nothing",
            Data::Scalar(_) => "a single value",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The entry of `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// Reads one document. An empty file is an empty mapping.
pub(super) fn parse(text: &str, file: &Arc<SourceFile>) -> Result<Node, ProfileError> {
    let mut reader = Reader { parser: Parser::new_from_str(text), file };
    let start = reader.place(&Span::default());
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            _ if root.is_some() => {
                return Err(ProfileError::new("a profile is one document; a second one starts here")
                    .place(&reader.place(&span)));
            }
            event => root = Some(reader.node(event, span, 0)?),
        }
    }
    match root {
        Some(node @ Node { data: Data::Map(_), .. }) => Ok(node),
        None | Some(Node { data: Data::Null, .. }) => Ok(Node { at: start, data: Data::Map(Vec::new()) }),
        Some(node) => {
            Err(ProfileError::new(format!("a profile is a mapping of keys to values, not {}", node.data.kind()))
                .place(&node.at))
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, serde_yaml::granit_parser::StrInput<'t>>,
    file: &'t Arc<SourceFile>,
}

impl<'t> Reader<'t> {
    fn place(&self, span: &Span) -> Place {
        Place { file: Arc::clone(self.file), line: span.start.line().max(1), column: span.start.col() + 1 }
    }

    /// The next event that is not a comment.
    fn next(&mut self) -> Result<(Event<'t>, Span), ProfileError> {
        loop {
            match self.parser.next() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(next)) => return Ok(next),
                Some(Err(error)) => {
                    let mark = error.marker();
                    let at = Place { file: Arc::clone(self.file), line: mark.line().max(1), column: mark.col() + 1 };
                    return Err(ProfileError::new(format!("not valid YAML: {}", error.info())).place(&at));
                }
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, ProfileError> {
        let at = self.place(&span);
        let fault = |message: &str| Err(ProfileError::new(message).place(&at));
        if depth > MAX_DEPTH {
            return fault("nested deeper than any profile");
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 || matches!(event, Event::Alias(_)) {
            return fault("anchors and aliases are not used in profiles; `extends` takes another profile's values");
        }
        if tag {
            return fault("tags (`!…`) are not used in profiles");
        }
        let data = match event {
            Event::Scalar(text, style, ..) => match (style, text.as_ref()) {
                (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Data::Null,
                (_, text) => Data::Scalar(text.to_string()),
            },
            Event::SequenceStart(..) => Data::List(self.list(depth)?),
            Event::MappingStart(..) => Data::Map(self.map(depth)?),
            other => return fault(&format!("unexpected {other:?}")),
        };
        Ok(Node { at, data })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, ProfileError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(items);
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, ProfileError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(entries);
            }
            let node = self.node(event, span, depth + 1)?;
            let Data::Scalar(key) = node.data else {
                return Err(ProfileError::new(format!("a key is a word, not {}", node.data.kind())).place(&node.at));
            };
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let message = format!("`{key}` is given twice; the first is in line {}", first.at.line);
                return Err(ProfileError::new(message).place(&node.at));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            entries.push(Entry { key, at: node.at, value });
        }
    }
}

/// An unknown key's error, with the nearest of its siblings.
pub(super) fn unknown_key<'a>(
    path: &str,
    key: &str,
    at: &Place,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> ProfileError {
    let error = ProfileError::new(format!("unknown key `{path}`")).place(at);
    match nearest(key, known.clone()) {
        Some(name) => error.hint(format!("did you mean `{name}`?")),
        None => error.hint(format!("known here: {}", known.into_iter().collect::<Vec<_>>().join(", "))),
    }
}
