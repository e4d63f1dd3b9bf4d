//! The one key table. From it come handling, the hint bar, the `?` overlay and `lanekeeper-keys(7)`.

use super::model::View;

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

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Help,
    Back,
    Quit,
    QuitNow,
    Command,
    Filter,
    Show(View),
    NextView,
    PreviousView,
    Down,
    Up,
    HalfDown,
    HalfUp,
    First,
    Last,
    Open,
    Sort,
    Reverse,
    Freeze,
    CancelRequest,
    Copy,
    ReadOnly,
    Repaint,
    Suspend,
    Accept,
    Erase,
    EraseWord,
    EraseLine,
    Complete,
    OtherButton,
    Yes,
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
    pub const DETAIL: Places = Places(1 << 8);
    pub const HELP: Places = Places(1 << 9);
    pub const PROMPT: Places = Places(1 << 10);
    pub const CONFIRM: Places = Places(1 << 11);
    pub const FILTER: Places = Places(1 << 12);
    pub const OUTPUT: Places = Places(1 << 13);
    pub const VIEWS: Places = Places(0x00ff);
    pub const ALL: Places = Places(0x3fff);

    const fn and(self, other: Places) -> Places {
        Places(self.0 | other.0)
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

/// One row of the table.
pub struct Binding {
    /// Each of these alone; a chord of several keys is pressed one after the other.
    pub chords: &'static [&'static [Key]],
    pub action: Action,
    pub places: Places,
    /// What the hint bar says, if the key deserves a place there: the keys as shown, and a verb.
    pub hint: Option<(&'static str, &'static str)>,
    /// What help and the man page say.
    pub doc: &'static str,
}

const MOVING: Places = Places::VIEWS.and(Places::DETAIL).and(Places::HELP);
const VIEWS_AND_DETAIL: Places = Places::VIEWS.and(Places::DETAIL);
const PROMPTS: Places = Places::PROMPT.and(Places::FILTER);

/// A row of the table.
const fn row(
    chords: &'static [&'static [Key]],
    action: Action,
    places: Places,
    hint: Option<(&'static str, &'static str)>,
    doc: &'static str,
) -> Binding {
    Binding { chords, action, places, hint, doc }
}

/// Every key, in the order that help shows and hints are dropped from (last first).
pub const TABLE: &[Binding] = &[
    row(
        &[&[Key::Char('?')]],
        Action::Help,
        VIEWS_AND_DETAIL,
        Some(("?", "help")),
        "show every key; type to search, Esc closes",
    ),
    row(&[&[Key::Char('q')]], Action::Quit, Places::VIEWS, Some(("q", "quit")), "leave the console"),
    row(&[&[Key::Enter]], Action::Accept, Places::PROMPT, Some(("Enter", "run")), "run the command"),
    row(&[&[Key::Enter]], Action::Accept, Places::FILTER, Some(("Enter", "keep")), "keep the filter"),
    row(&[&[Key::Enter]], Action::Accept, Places::CONFIRM, Some(("Enter", "press")), "press the marked button"),
    row(
        &[&[Key::Char('y')]],
        Action::Yes,
        Places::CONFIRM,
        Some(("y", "mark yes")),
        "mark the button that does it; Enter then presses it",
    ),
    row(
        &[&[Key::Tab], &[Key::BackTab], &[Key::Left], &[Key::Right], &[Key::Char('h')], &[Key::Char('l')]],
        Action::OtherButton,
        Places::CONFIRM,
        Some(("Tab", "other button")),
        "mark the other button",
    ),
    row(
        &[&[Key::Esc]],
        Action::Back,
        PROMPTS.and(Places::HELP).and(Places::CONFIRM),
        Some(("Esc", "close")),
        "close it; nothing else happens, and a filter is as it was before",
    ),
    row(&[&[Key::Esc], &[Key::Char('q')]], Action::Back, Places::DETAIL, Some(("Esc", "close")), "close the detail"),
    row(&[&[Key::Esc]], Action::Back, Places::VIEWS, None, "take away the message, else the filter, else the freeze"),
    row(
        &[&[Key::Enter]],
        Action::Open,
        Places::VIEWS,
        Some(("Enter", "open")),
        "Overview: show this model's lanes; Requests: show one request with why it waits; elsewhere: show the model's requests",
    ),
    row(
        &[&[Key::Char('x')]],
        Action::CancelRequest,
        Places::REQUESTS.and(Places::DETAIL),
        Some(("x", "cancel")),
        "ask whether to cancel the selected request (nothing happens before you confirm)",
    ),
    row(
        &[&[Key::Char('/')]],
        Action::Filter,
        Places::VIEWS,
        Some(("/", "filter")),
        "filter requests as you type: words, or model: op: lane: state: client: id: wait: followed by text; ! negates",
    ),
    row(&[&[Key::Char('s')]], Action::Sort, Places::REQUESTS, Some(("s", "sort")), "sort by the next column"),
    row(&[&[Key::Char('S')]], Action::Reverse, Places::REQUESTS, Some(("S", "reverse")), "reverse the order"),
    row(
        &[&[Key::Char(' ')]],
        Action::Freeze,
        VIEWS_AND_DETAIL,
        Some(("Space", "freeze")),
        "freeze what is shown, or let it go on; the data go on arriving meanwhile",
    ),
    row(
        &[&[Key::Char(':')]],
        Action::Command,
        VIEWS_AND_DETAIL,
        Some((":", "command")),
        "command line: a view's name, cancel ID, filter TEXT, sort COLUMN, freeze, read-only, help, quit; Tab completes",
    ),
    row(&[&[Key::Tab]], Action::NextView, Places::VIEWS, Some(("Tab", "next view")), "next view"),
    row(&[&[Key::BackTab]], Action::PreviousView, Places::VIEWS, None, "previous view"),
    row(
        &[&[Key::Char('1')]],
        Action::Show(View::Overview),
        VIEWS_AND_DETAIL,
        None,
        "Overview: health, models, who waits",
    ),
    row(
        &[&[Key::Char('2')]],
        Action::Show(View::Lanes),
        VIEWS_AND_DETAIL,
        None,
        "Lanes: queues, whose turn it is, who is owed, what goes next, batches",
    ),
    row(
        &[&[Key::Char('3')]],
        Action::Show(View::Caps),
        VIEWS_AND_DETAIL,
        None,
        "Caps: what bounds a batch, its range, and what moved it",
    ),
    row(
        &[&[Key::Char('4')]],
        Action::Show(View::Speculation),
        VIEWS_AND_DETAIL,
        None,
        "Speculation: whether the gate is open and why, gains, how deep proposals hold",
    ),
    row(
        &[&[Key::Char('5')]],
        Action::Show(View::Routes),
        VIEWS_AND_DETAIL,
        None,
        "Routes: where each model's work goes",
    ),
    row(
        &[&[Key::Char('6')]],
        Action::Show(View::Requests),
        VIEWS_AND_DETAIL,
        None,
        "Requests: each one, and why it waits",
    ),
    row(&[&[Key::Char('j')], &[Key::Down]], Action::Down, VIEWS_AND_DETAIL, None, "next row"),
    row(&[&[Key::Char('k')], &[Key::Up]], Action::Up, VIEWS_AND_DETAIL, None, "previous row"),
    row(&[&[Key::Down]], Action::Down, Places::HELP, None, "scroll down"),
    row(&[&[Key::Up]], Action::Up, Places::HELP, None, "scroll up"),
    row(&[&[Key::Ctrl('d')], &[Key::PageDown]], Action::HalfDown, MOVING, None, "half a screen down"),
    row(&[&[Key::Ctrl('u')], &[Key::PageUp]], Action::HalfUp, MOVING, None, "half a screen up"),
    row(&[&[Key::Char('g'), Key::Char('g')], &[Key::Home]], Action::First, Places::VIEWS, None, "first row"),
    row(&[&[Key::Char('G')], &[Key::End]], Action::Last, Places::VIEWS, None, "last row"),
    row(
        &[&[Key::Char('y')]],
        Action::Copy,
        Places::REQUESTS.and(Places::DETAIL),
        None,
        "copy the selected request's id to the clipboard (OSC 52)",
    ),
    row(
        &[&[Key::Char('R')]],
        Action::ReadOnly,
        Places::VIEWS,
        None,
        "read-only on or off: while on, nothing can be changed (--read-only locks it on)",
    ),
    row(&[&[Key::Tab]], Action::Complete, Places::PROMPT, Some(("Tab", "complete")), "complete the command"),
    row(&[&[Key::Backspace], &[Key::Ctrl('h')]], Action::Erase, PROMPTS.and(Places::HELP), None, "erase a character"),
    row(&[&[Key::Ctrl('w')]], Action::EraseWord, PROMPTS, None, "erase a word"),
    row(&[&[Key::Ctrl('u')]], Action::EraseLine, PROMPTS, None, "erase the line"),
    row(&[&[Key::Ctrl('l')]], Action::Repaint, Places::ALL, None, "repaint the screen"),
    row(&[&[Key::Ctrl('z')]], Action::Suspend, Places::ALL, None, "suspend to the shell; fg comes back"),
    row(&[&[Key::Ctrl('c')]], Action::QuitNow, Places::ALL, None, "leave at once, whatever is open"),
];

/// What a sequence of keys means in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Action(Action),
    /// The beginning of a longer chord.
    Prefix,
    Nothing,
}

/// Looks `sequence` up where `place` is.
pub fn find(place: Places, sequence: &[Key]) -> Found {
    let here = || TABLE.iter().filter(|binding| binding.places.meets(place));
    if let Some(binding) = here().find(|binding| binding.chords.contains(&sequence)) {
        return Found::Action(binding.action);
    }
    let begun = here().flat_map(|binding| binding.chords).any(|chord| chord.starts_with(sequence));
    if begun { Found::Prefix } else { Found::Nothing }
}

/// The hints that hold in a place, the most useful first.
pub fn hints(place: Places) -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().filter(move |binding| binding.places.meets(place)).filter_map(|binding| binding.hint)
}

/// One key for people: what help shows and `lanekeeper-keys(7)` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDoc {
    /// The chords, `j, Down`.
    pub keys: String,
    /// Where they work.
    pub places: String,
    pub doc: &'static str,
}

/// Every key of the console, in the order of the table.
pub fn key_docs() -> Vec<KeyDoc> {
    let chord = |keys: &&[Key]| keys.iter().map(|key| key.label()).collect::<Vec<_>>().join(" ");
    TABLE
        .iter()
        .map(|binding| KeyDoc {
            keys: binding.chords.iter().map(chord).collect::<Vec<_>>().join(", "),
            places: binding.places.describe(),
            doc: binding.doc,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chord_means_two_things_in_one_place_nor_hides_another() {
        for (i, first) in TABLE.iter().enumerate() {
            for second in TABLE.iter().skip(i + 1).filter(|second| second.places.meets(first.places)) {
                for a in first.chords {
                    for b in second.chords {
                        assert!(!a.starts_with(b) && !b.starts_with(a), "{a:?} and {b:?} collide");
                    }
                }
            }
        }
    }

    #[test]
    fn chords_are_found_where_they_work_only() {
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
