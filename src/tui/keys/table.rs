//! The table itself: what can be done, with which keys, where.

use super::super::model::View;
use super::{Key, Places};

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Help,
    Back,
    Quit,
    QuitNow,
    Command,
    Filter,
    NextMatch,
    PreviousMatch,
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
    Older,
    Newer,
    MinuteOlder,
    MinuteNewer,
    Oldest,
    Newest,
    Slower,
    Faster,
    CancelRequest,
    Edit,
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

impl Action {
    /// The name that the profile's `console.keys` uses; absent for what always keeps its key.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Action::Help => "help",
            Action::Quit => "quit",
            Action::Command => "command",
            Action::Filter => "filter",
            Action::NextMatch => "next-match",
            Action::PreviousMatch => "previous-match",
            Action::Show(view) => view.word(),
            Action::NextView => "next-view",
            Action::PreviousView => "previous-view",
            Action::Down => "down",
            Action::Up => "up",
            Action::HalfDown => "half-down",
            Action::HalfUp => "half-up",
            Action::First => "first",
            Action::Last => "last",
            Action::Open => "open",
            Action::Sort => "sort",
            Action::Reverse => "reverse",
            Action::Freeze => "freeze",
            Action::Older => "older",
            Action::Newer => "newer",
            Action::MinuteOlder => "minute-older",
            Action::MinuteNewer => "minute-newer",
            Action::Oldest => "oldest",
            Action::Newest => "newest",
            Action::Slower => "slower",
            Action::Faster => "faster",
            Action::CancelRequest => "cancel",
            Action::Edit => "edit",
            Action::Copy => "copy",
            Action::ReadOnly => "read-only",
            Action::Repaint => "repaint",
            Action::Suspend => "suspend",
            // The ways out, and the keys of a line that is typed, are the same for everybody.
            Action::Back
            | Action::QuitNow
            | Action::Accept
            | Action::Erase
            | Action::EraseWord
            | Action::EraseLine
            | Action::Complete
            | Action::OtherButton
            | Action::Yes => return None,
        })
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

const MOVING: Places = Places::VIEWS.and(Places::DETAIL).and(Places::HELP).and(Places::OUTPUT);
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
    row(
        &[&[Key::Esc], &[Key::Char('q')]],
        Action::Back,
        Places::DETAIL.and(Places::OUTPUT),
        Some(("Esc", "close")),
        "close the detail, or a command's output",
    ),
    row(&[&[Key::Esc]], Action::Back, Places::VIEWS, None, "take away the message, else the filter, else the freeze"),
    row(
        &[&[Key::Enter]],
        Action::Open,
        Places::VIEWS,
        Some(("Enter", "open")),
        "Overview: show this model's lanes; Requests, Settings, Journal: show all about one; elsewhere: the model's requests",
    ),
    row(
        &[&[Key::Char('x')]],
        Action::CancelRequest,
        Places::REQUESTS.and(Places::DETAIL),
        Some(("x", "cancel")),
        "ask whether to cancel the selected request (nothing happens before you confirm)",
    ),
    row(
        &[&[Key::Char('e')]],
        Action::Edit,
        Places::SETTINGS.and(Places::JOURNAL).and(Places::REQUESTS),
        Some(("e", "edit")),
        "Settings: type another value for the selected knob; Journal: undo the selected change; Requests: hold the selected \
         one, or let it go (what it would do is shown, and nothing happens before you confirm)",
    ),
    row(
        &[&[Key::Char('/')]],
        Action::Filter,
        Places::VIEWS,
        Some(("/", "filter")),
        "Requests: filter as you type (words, or model: op: lane: state: client: id: wait: and text; ! negates); \
         elsewhere: find a line",
    ),
    row(&[&[Key::Char('n')]], Action::NextMatch, Places::VIEWS, None, "next line found, or next request of the filter"),
    row(&[&[Key::Char('N')]], Action::PreviousMatch, Places::VIEWS, None, "the one before"),
    row(&[&[Key::Char('s')]], Action::Sort, Places::REQUESTS, Some(("s", "sort")), "sort by the next column"),
    row(&[&[Key::Char('S')]], Action::Reverse, Places::REQUESTS, Some(("S", "reverse")), "reverse the order"),
    row(
        &[&[Key::Char(' ')]],
        Action::Freeze,
        VIEWS_AND_DETAIL,
        Some(("Space", "freeze")),
        "freeze what is shown, or let it go on; the data go on arriving meanwhile (a recording stops, and plays on)",
    ),
    row(
        &[&[Key::Left], &[Key::Char('h')]],
        Action::Older,
        VIEWS_AND_DETAIL,
        None,
        "freeze, and look a second back; the last ten minutes are kept (the header says how long ago it was)",
    ),
    row(
        &[&[Key::Right], &[Key::Char('l')]],
        Action::Newer,
        VIEWS_AND_DETAIL,
        None,
        "while frozen: a second on; behind the newest the view goes on by itself",
    ),
    row(&[&[Key::Char('[')]], Action::MinuteOlder, VIEWS_AND_DETAIL, None, "look a minute back"),
    row(&[&[Key::Char(']')]], Action::MinuteNewer, VIEWS_AND_DETAIL, None, "while frozen: a minute on"),
    row(
        &[&[Key::Char('{')]],
        Action::Oldest,
        VIEWS_AND_DETAIL,
        None,
        "look at the oldest that is kept; of a recording: its beginning",
    ),
    row(
        &[&[Key::Char('}')]],
        Action::Newest,
        VIEWS_AND_DETAIL,
        None,
        "while frozen: on to the newest; of a recording: its end",
    ),
    row(&[&[Key::Char('<')]], Action::Slower, VIEWS_AND_DETAIL, None, "play a recording slower, down to x0.25"),
    row(&[&[Key::Char('>')]], Action::Faster, VIEWS_AND_DETAIL, None, "play a recording faster, up to x16"),
    row(
        &[&[Key::Char(':')]],
        Action::Command,
        VIEWS_AND_DETAIL,
        Some((":", "command")),
        "command line: a view's name, filter TEXT, sort COLUMN, freeze, read-only, help, quit, or a command of the CLI \
         (what only shows opens here; what changes something asks first); Tab completes",
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
    row(
        &[&[Key::Char('7')]],
        Action::Show(View::Settings),
        VIEWS_AND_DETAIL,
        None,
        "Settings: every knob, where its value comes from, what is allowed",
    ),
    row(
        &[&[Key::Char('8')]],
        Action::Show(View::Journal),
        VIEWS_AND_DETAIL,
        None,
        "Journal: who changed what, when and why",
    ),
    row(&[&[Key::Char('j')], &[Key::Down]], Action::Down, VIEWS_AND_DETAIL, None, "next row"),
    row(&[&[Key::Char('k')], &[Key::Up]], Action::Up, VIEWS_AND_DETAIL, None, "previous row"),
    row(&[&[Key::Down]], Action::Down, Places::HELP, None, "scroll down"),
    row(&[&[Key::Up]], Action::Up, Places::HELP, None, "scroll up"),
    row(&[&[Key::Down], &[Key::Char('j')]], Action::Down, Places::OUTPUT, Some(("j", "down")), "scroll down"),
    row(&[&[Key::Up], &[Key::Char('k')]], Action::Up, Places::OUTPUT, Some(("k", "up")), "scroll up"),
    row(&[&[Key::Ctrl('d')], &[Key::PageDown]], Action::HalfDown, MOVING, None, "half a screen down"),
    row(&[&[Key::Ctrl('u')], &[Key::PageUp]], Action::HalfUp, MOVING, None, "half a screen up"),
    row(
        &[&[Key::Char('g'), Key::Char('g')], &[Key::Home]],
        Action::First,
        Places::VIEWS.and(Places::OUTPUT),
        None,
        "first row",
    ),
    row(&[&[Key::Char('G')], &[Key::End]], Action::Last, Places::VIEWS.and(Places::OUTPUT), None, "last row"),
    row(
        &[&[Key::Char('y')]],
        Action::Copy,
        VIEWS_AND_DETAIL.and(Places::OUTPUT),
        None,
        "copy to the clipboard (OSC 52): the request's or model's id, or what a command wrote",
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
