//! The one key table. From it come handling, the hint bar, the `?` overlay and `lanekeeper-keys(7)`; a profile may give
//! actions other keys.

mod remap;
mod table;

pub use table::{Action, Binding, TABLE};

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// A key press, as the console understands it: terminals differ in what else they can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Key {
    /// The name that hints, help and the man page use.
    pub fn label(self) -> String {
        match self {
            Key::Char(' ') => "Space".to_string(),
            Key::Char(c) => c.to_string(),
            Key::Ctrl(c) => format!("C-{c}"),
            Key::BackTab => "S-Tab".to_string(),
            Key::PageUp => "PgUp".to_string(),
            Key::PageDown => "PgDn".to_string(),
            other => format!("{other:?}"),
        }
    }
}

/// The places a key can work in: the views, and what lies over them. A set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places(u16);

impl Places {
    pub const OVERVIEW: Places = Places(1);
    pub const LANES: Places = Places(1 << 1);
    pub const CAPS: Places = Places(1 << 2);
    pub const SPECULATION: Places = Places(1 << 3);
    pub const ROUTES: Places = Places(1 << 4);
    pub const REQUESTS: Places = Places(1 << 5);
    pub const SETTINGS: Places = Places(1 << 6);
    pub const JOURNAL: Places = Places(1 << 7);
    pub const DETAIL: Places = Places(1 << 8);
    pub const HELP: Places = Places(1 << 9);
    pub const PROMPT: Places = Places(1 << 10);
    pub const CONFIRM: Places = Places(1 << 11);
    pub const FILTER: Places = Places(1 << 12);
    pub const OUTPUT: Places = Places(1 << 13);
    pub const VIEWS: Places = Places(0x00ff);
    pub const ALL: Places = Places(0x3fff);

    pub(super) const fn and(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    /// Whether letters are text in one of the places.
    pub(super) fn typing(self) -> bool {
        self.meets(Places::HELP.and(Places::PROMPT).and(Places::FILTER))
    }

    /// Whether the two sets meet.
    pub fn meets(self, other: Places) -> bool {
        self.0 & other.0 != 0
    }

    /// For people: where a key works.
    pub fn describe(self) -> String {
        if self == Places::ALL {
            return "everywhere".to_string();
        }
        let names = [
            (Places::VIEWS, "every view"),
            (Places::OVERVIEW, "Overview"),
            (Places::LANES, "Lanes"),
            (Places::CAPS, "Caps"),
            (Places::SPECULATION, "Speculation"),
            (Places::ROUTES, "Routes"),
            (Places::REQUESTS, "Requests"),
            (Places::SETTINGS, "Settings"),
            (Places::JOURNAL, "Journal"),
            (Places::DETAIL, "request detail"),
            (Places::HELP, "help"),
            (Places::OUTPUT, "command's output"),
            (Places::PROMPT, "command line"),
            (Places::FILTER, "filter line"),
            (Places::CONFIRM, "confirmation"),
        ];
        let mut left = self.0;
        let mut found = Vec::new();
        for (place, name) in names {
            if left & place.0 == place.0 {
                left &= !place.0;
                found.push(name);
            }
        }
        found.join(", ")
    }
}

/// The keys as they are in this console.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    rows: Vec<Row>,
}

/// A row of the table with the keys that it has here.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    chords: Vec<Vec<Key>>,
    action: Action,
    places: Places,
    /// The keys as a hint shows them, and a verb.
    hint: Option<(Cow<'static, str>, &'static str)>,
    doc: &'static str,
}

/// What a sequence of keys means in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Action(Action),
    /// The beginning of a longer chord.
    Prefix,
    Nothing,
}

/// One key for people: what help shows and `lanekeeper-keys(7)` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDoc {
    /// The chords, `j, Down`.
    pub keys: String,
    /// Where they work.
    pub places: String,
    pub doc: &'static str,
    /// What `console.keys` calls the action, where it can have other keys.
    pub name: Option<&'static str>,
}

impl Keys {
    /// The keys of the table.
    pub fn usual() -> Arc<Keys> {
        static USUAL: LazyLock<Arc<Keys>> = LazyLock::new(|| {
            let row = |binding: &Binding| Row {
                chords: binding.chords.iter().map(|chord| chord.to_vec()).collect(),
                action: binding.action,
                places: binding.places,
                hint: binding.hint.map(|(keys, verb)| (keys.into(), verb)),
                doc: binding.doc,
            };
            Arc::new(Keys { rows: TABLE.iter().map(row).collect() })
        });
        Arc::clone(&USUAL)
    }

    /// Looks `sequence` up where `place` is.
    pub fn find(&self, place: Places, sequence: &[Key]) -> Found {
        let here = || self.rows.iter().filter(|row| row.places.meets(place));
        if let Some(row) = here().find(|row| row.chords.iter().any(|chord| chord == sequence)) {
            return Found::Action(row.action);
        }
        let begun = here().flat_map(|row| &row.chords).any(|chord| chord.starts_with(sequence));
        if begun { Found::Prefix } else { Found::Nothing }
    }

    /// The hints that hold in a place, the most useful first.
    pub fn hints(&self, place: Places) -> impl Iterator<Item = (&str, &'static str)> {
        let here = self.rows.iter().filter(move |row| row.places.meets(place));
        here.filter_map(|row| row.hint.as_ref()).map(|(keys, verb)| (keys.as_ref(), *verb))
    }

    /// Every key, in the order of the table.
    pub fn docs(&self) -> Vec<KeyDoc> {
        let doc = |row: &Row| KeyDoc {
            keys: row.chords.iter().map(|chord| label(chord)).collect::<Vec<_>>().join(", "),
            places: row.places.describe(),
            doc: row.doc,
            name: row.action.name(),
        };
        self.rows.iter().map(doc).collect()
    }
}

/// A chord for people.
fn label(chord: &[Key]) -> String {
    chord.iter().map(|key| key.label()).collect::<Vec<_>>().join(" ")
}

/// Every key of the console as it is without a profile.
pub fn key_docs() -> Vec<KeyDoc> {
    Keys::usual().docs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chord_means_two_things_in_one_place_nor_hides_another() {
        assert_eq!(Keys::usual().collision(), None);
    }

    #[test]
    fn chords_are_found_where_they_work_only() {
        let find = |place, sequence: &[Key]| Keys::usual().find(place, sequence);
        assert_eq!(find(Places::REQUESTS, &[Key::Char('x')]), Found::Action(Action::CancelRequest));
        assert_eq!(find(Places::OVERVIEW, &[Key::Char('x')]), Found::Nothing);
        assert_eq!(find(Places::LANES, &[Key::Char('g')]), Found::Prefix);
        assert_eq!(find(Places::LANES, &[Key::Char('g'), Key::Char('g')]), Found::Action(Action::First));
        assert_eq!(find(Places::PROMPT, &[Key::Char('g')]), Found::Nothing);
    }

    #[test]
    fn every_key_is_documented_and_says_where_it_works() {
        for doc in key_docs() {
            assert!(!doc.keys.is_empty() && !doc.places.is_empty() && !doc.doc.is_empty(), "{doc:?}");
            assert!(doc.doc.is_ascii(), "{doc:?} must be drawable in LANG=C");
        }
    }
}
