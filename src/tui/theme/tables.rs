//! The themes: for each label how it looks, at every colour depth.

use super::Label;
use ratatui::style::{Color, Modifier};

/// The look of one label: true colour, its ANSI-16 cousin, and modifiers that carry the meaning without colour.
pub(super) struct Spec {
    pub label: Label,
    pub rgb: Option<(u8, u8, u8)>,
    pub ansi: Option<Color>,
    /// A background, at 256 colours and more; it then stands in for reversing.
    pub back: Option<(u8, u8, u8)>,
    pub modifier: Modifier,
}

/// The selected row: a calm background where there are colours for it, reversed elsewhere.
const fn selected(back: (u8, u8, u8)) -> Spec {
    Spec { label: Label::Selected, rgb: None, ansi: None, back: Some(back), modifier: REVERSED }
}

const fn spec(label: Label, rgb: Option<(u8, u8, u8)>, ansi: Option<Color>, modifier: Modifier) -> Spec {
    Spec { label, rgb, ansi, back: None, modifier }
}

const PLAIN: Modifier = Modifier::empty();
const BOLD: Modifier = Modifier::BOLD;
const DIM: Modifier = Modifier::DIM;
const REVERSED: Modifier = Modifier::REVERSED;

pub(super) const DARK: [Spec; 18] = [
    spec(Label::Text, None, None, PLAIN),
    spec(Label::Dim, Some((128, 136, 148)), Some(Color::DarkGray), PLAIN),
    spec(Label::Strong, None, None, BOLD),
    spec(Label::Title, Some((134, 182, 214)), Some(Color::Cyan), BOLD),
    spec(Label::Rule, Some((72, 80, 92)), Some(Color::DarkGray), PLAIN),
    spec(Label::Head, Some((128, 136, 148)), Some(Color::DarkGray), PLAIN),
    spec(Label::Good, Some((142, 192, 124)), Some(Color::Green), PLAIN),
    spec(Label::Busy, Some((134, 182, 214)), Some(Color::Cyan), PLAIN),
    spec(Label::Warn, Some((224, 182, 102)), Some(Color::Yellow), PLAIN),
    spec(Label::Bad, Some((226, 116, 108)), Some(Color::LightRed), BOLD),
    selected((52, 60, 74)),
    spec(Label::Tab, Some((134, 182, 214)), Some(Color::Cyan), BOLD),
    spec(Label::Key, Some((224, 182, 102)), Some(Color::Yellow), PLAIN),
    spec(Label::GaugeFull, Some((134, 182, 214)), Some(Color::Cyan), PLAIN),
    spec(Label::GaugeEmpty, Some((72, 80, 92)), Some(Color::DarkGray), PLAIN),
    spec(Label::Flow, Some((142, 192, 124)), Some(Color::Green), PLAIN),
    spec(Label::Queue, Some((224, 182, 102)), Some(Color::Yellow), PLAIN),
    spec(Label::Stale, Some((96, 104, 116)), Some(Color::DarkGray), PLAIN),
];

pub(super) const LIGHT: [Spec; 18] = [
    spec(Label::Text, None, None, PLAIN),
    spec(Label::Dim, Some((104, 110, 120)), Some(Color::DarkGray), PLAIN),
    spec(Label::Strong, None, None, BOLD),
    spec(Label::Title, Some((24, 92, 140)), Some(Color::Blue), BOLD),
    spec(Label::Rule, Some((176, 182, 190)), Some(Color::DarkGray), PLAIN),
    spec(Label::Head, Some((104, 110, 120)), Some(Color::DarkGray), PLAIN),
    spec(Label::Good, Some((40, 112, 40)), Some(Color::Green), PLAIN),
    spec(Label::Busy, Some((24, 92, 140)), Some(Color::Blue), PLAIN),
    spec(Label::Warn, Some((148, 92, 0)), Some(Color::Magenta), PLAIN),
    spec(Label::Bad, Some((176, 32, 32)), Some(Color::Red), BOLD),
    selected((214, 222, 232)),
    spec(Label::Tab, Some((24, 92, 140)), Some(Color::Blue), BOLD),
    spec(Label::Key, Some((148, 92, 0)), Some(Color::Magenta), PLAIN),
    spec(Label::GaugeFull, Some((24, 92, 140)), Some(Color::Blue), PLAIN),
    spec(Label::GaugeEmpty, Some((176, 182, 190)), Some(Color::DarkGray), PLAIN),
    spec(Label::Flow, Some((40, 112, 40)), Some(Color::Green), PLAIN),
    spec(Label::Queue, Some((148, 92, 0)), Some(Color::Magenta), PLAIN),
    spec(Label::Stale, Some((140, 146, 154)), Some(Color::DarkGray), PLAIN),
];

/// Told apart by every common kind of colour vision (after Okabe and Ito): blue is good, yellow and orange are not, and
/// no meaning rests on red against green.
pub(super) const SAFE: [Spec; 18] = [
    spec(Label::Text, None, None, PLAIN),
    spec(Label::Dim, Some((128, 136, 148)), Some(Color::DarkGray), PLAIN),
    spec(Label::Strong, None, None, BOLD),
    spec(Label::Title, Some((134, 182, 214)), Some(Color::Cyan), BOLD),
    spec(Label::Rule, Some((72, 80, 92)), Some(Color::DarkGray), PLAIN),
    spec(Label::Head, Some((128, 136, 148)), Some(Color::DarkGray), PLAIN),
    spec(Label::Good, Some((86, 180, 233)), Some(Color::LightBlue), PLAIN),
    spec(Label::Busy, Some((204, 214, 224)), Some(Color::Gray), PLAIN),
    spec(Label::Warn, Some((240, 228, 66)), Some(Color::LightYellow), PLAIN),
    spec(Label::Bad, Some((240, 128, 60)), Some(Color::LightRed), BOLD.union(Modifier::UNDERLINED)),
    selected((52, 60, 74)),
    spec(Label::Tab, Some((134, 182, 214)), Some(Color::Cyan), BOLD),
    spec(Label::Key, Some((240, 228, 66)), Some(Color::LightYellow), PLAIN),
    spec(Label::GaugeFull, Some((134, 182, 214)), Some(Color::Cyan), PLAIN),
    spec(Label::GaugeEmpty, Some((72, 80, 92)), Some(Color::DarkGray), PLAIN),
    spec(Label::Flow, Some((86, 180, 233)), Some(Color::LightBlue), PLAIN),
    spec(Label::Queue, Some((230, 159, 0)), Some(Color::Yellow), PLAIN),
    spec(Label::Stale, Some((96, 104, 116)), Some(Color::DarkGray), PLAIN),
];

pub(super) const SAFE_LIGHT: [Spec; 18] = [
    spec(Label::Text, None, None, PLAIN),
    spec(Label::Dim, Some((104, 110, 120)), Some(Color::DarkGray), PLAIN),
    spec(Label::Strong, None, None, BOLD),
    spec(Label::Title, Some((24, 92, 140)), Some(Color::Blue), BOLD),
    spec(Label::Rule, Some((176, 182, 190)), Some(Color::DarkGray), PLAIN),
    spec(Label::Head, Some((104, 110, 120)), Some(Color::DarkGray), PLAIN),
    spec(Label::Good, Some((0, 92, 150)), Some(Color::Blue), PLAIN),
    spec(Label::Busy, Some((70, 78, 88)), Some(Color::DarkGray), PLAIN),
    spec(Label::Warn, Some((140, 96, 0)), Some(Color::Magenta), PLAIN),
    spec(Label::Bad, Some((176, 72, 0)), Some(Color::Red), BOLD.union(Modifier::UNDERLINED)),
    selected((214, 222, 232)),
    spec(Label::Tab, Some((24, 92, 140)), Some(Color::Blue), BOLD),
    spec(Label::Key, Some((148, 92, 0)), Some(Color::Magenta), PLAIN),
    spec(Label::GaugeFull, Some((24, 92, 140)), Some(Color::Blue), PLAIN),
    spec(Label::GaugeEmpty, Some((176, 182, 190)), Some(Color::DarkGray), PLAIN),
    spec(Label::Flow, Some((0, 92, 150)), Some(Color::Blue), PLAIN),
    spec(Label::Queue, Some((140, 96, 0)), Some(Color::Magenta), PLAIN),
    spec(Label::Stale, Some((140, 146, 154)), Some(Color::DarkGray), PLAIN),
];

/// Without colour the modifiers carry what they can; signs and words carry the rest.
pub(super) const NONE: [Spec; 18] = [
    spec(Label::Text, None, None, PLAIN),
    spec(Label::Dim, None, None, DIM),
    spec(Label::Strong, None, None, BOLD),
    spec(Label::Title, None, None, BOLD),
    spec(Label::Rule, None, None, DIM),
    spec(Label::Head, None, None, DIM),
    spec(Label::Good, None, None, PLAIN),
    spec(Label::Busy, None, None, PLAIN),
    spec(Label::Warn, None, None, BOLD),
    spec(Label::Bad, None, None, BOLD),
    spec(Label::Selected, None, None, REVERSED),
    spec(Label::Tab, None, None, BOLD.union(Modifier::UNDERLINED)),
    spec(Label::Key, None, None, BOLD),
    spec(Label::GaugeFull, None, None, PLAIN),
    spec(Label::GaugeEmpty, None, None, DIM),
    spec(Label::Flow, None, None, PLAIN),
    spec(Label::Queue, None, None, PLAIN),
    spec(Label::Stale, None, None, DIM),
];
