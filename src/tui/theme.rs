//! Themes as data: a semantic label, and how it looks at each colour depth.

use super::facts::Depth;
use ratatui::style::{Color, Modifier, Style};

/// What a piece of text means. Drawing names labels, never colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Text,
    Dim,
    Strong,
    /// The product's name and the titles of panels.
    Title,
    /// Rules and borders.
    Rule,
    /// The heads of columns.
    Head,
    Good,
    Busy,
    Warn,
    Bad,
    /// The row or button that the next key acts on.
    Selected,
    /// The tab of the view that is shown.
    Tab,
    /// A key in a hint.
    Key,
    GaugeFull,
    GaugeEmpty,
    /// Bars of throughput.
    Flow,
    /// Bars of queues.
    Queue,
    /// Data that may no longer be true.
    Stale,
}

/// The look of one label: true colour, its ANSI-16 cousin, and modifiers that carry the meaning without colour.
struct Spec {
    label: Label,
    rgb: Option<(u8, u8, u8)>,
    ansi: Option<Color>,
    /// A background, at 256 colours and more; it then stands in for reversing.
    back: Option<(u8, u8, u8)>,
    modifier: Modifier,
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

const DARK: [Spec; 18] = [
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

const LIGHT: [Spec; 18] = [
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

/// Without colour the modifiers carry what they can; signs and words carry the rest.
const NONE: [Spec; 18] = [
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

/// Which theme a person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThemeName {
    /// `light` where the terminal says that its background is light, else `dark`.
    #[default]
    Auto,
    Dark,
    Light,
    /// The terminal's own sixteen colours, whatever its depth: follows the person's own palette.
    Ansi16,
    None,
}

impl ThemeName {
    /// Every name that can be chosen, in the order that help shows.
    pub const ALL: [ThemeName; 5] =
        [ThemeName::Auto, ThemeName::Dark, ThemeName::Light, ThemeName::Ansi16, ThemeName::None];

    pub fn name(self) -> &'static str {
        match self {
            ThemeName::Auto => "auto",
            ThemeName::Dark => "dark",
            ThemeName::Light => "light",
            ThemeName::Ansi16 => "ansi16",
            ThemeName::None => "none",
        }
    }

    /// The theme of this name, if there is one.
    pub fn parse(text: &str) -> Option<ThemeName> {
        ThemeName::ALL.into_iter().find(|theme| theme.name() == text)
    }
}

/// A theme resolved for one terminal: what style each label has there.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    styles: [Style; 18],
}

impl Theme {
    /// Resolves `name` for a terminal of `depth` colours; `light_background` decides what `auto` means.
    pub fn resolve(name: ThemeName, depth: Depth, light_background: bool) -> Theme {
        let depth = match name {
            ThemeName::None => Depth::None,
            ThemeName::Ansi16 => depth.min(Depth::Ansi16),
            _ => depth,
        };
        let light = name == ThemeName::Light || (name == ThemeName::Auto && light_background);
        let table = match (depth, light) {
            (Depth::None, _) => &NONE,
            (_, true) => &LIGHT,
            (_, false) => &DARK,
        };
        let mut styles = [Style::new(); 18];
        for spec in table {
            let resolve = |rgb: (u8, u8, u8)| match depth {
                Depth::None | Depth::Ansi16 => None,
                Depth::Ansi256 => Some(Color::Indexed(nearest_indexed(rgb))),
                Depth::True => Some(Color::Rgb(rgb.0, rgb.1, rgb.2)),
            };
            let fore = if depth == Depth::Ansi16 { spec.ansi } else { spec.rgb.and_then(resolve) };
            let back = spec.back.and_then(resolve);
            let modifier = if back.is_some() { spec.modifier.difference(REVERSED) } else { spec.modifier };
            styles[spec.label as usize] = Style { fg: fore, bg: back, ..Style::new().add_modifier(modifier) };
        }
        Theme { styles }
    }

    /// How `label` looks.
    pub fn style(&self, label: Label) -> Style {
        self.styles[label as usize]
    }
}

/// The colour of the 256-colour cube or grey ramp that is nearest to `rgb`.
fn nearest_indexed((r, g, b): (u8, u8, u8)) -> u8 {
    const STEPS: [i32; 6] = [0, 95, 135, 175, 215, 255];
    let rgb = [i32::from(r), i32::from(g), i32::from(b)];
    let distance = |other: [i32; 3]| rgb.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<i32>();
    let step = |value: i32| (0..6).min_by_key(|&i| (STEPS[i] - value).abs()).unwrap_or(0);
    let [ri, gi, bi] = rgb.map(step);
    let cube = [STEPS[ri], STEPS[gi], STEPS[bi]];
    let grey = ((rgb.iter().sum::<i32>() / 3 - 3) / 10).clamp(0, 23);
    if distance([8 + grey * 10; 3]) < distance(cube) { 232 + grey as u8 } else { (16 + 36 * ri + 6 * gi + bi) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_names_each_label_in_its_place() {
        for table in [&DARK, &LIGHT, &NONE] {
            for (index, spec) in table.iter().enumerate() {
                assert_eq!(spec.label as usize, index);
            }
        }
    }

    #[test]
    fn without_colour_no_style_has_one() {
        for name in ThemeName::ALL {
            let theme = Theme::resolve(name, Depth::None, true);
            assert!(theme.styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()), "{}", name.name());
        }
    }

    #[test]
    fn a_depth_only_uses_colours_that_it_has() {
        let of = |name, depth| Theme::resolve(name, depth, false).style(Label::Good).fg;
        assert_eq!(of(ThemeName::Dark, Depth::Ansi16), Some(Color::Green));
        assert!(matches!(of(ThemeName::Dark, Depth::Ansi256), Some(Color::Indexed(16..))));
        assert!(matches!(of(ThemeName::Light, Depth::True), Some(Color::Rgb(..))));
        assert_eq!(of(ThemeName::Ansi16, Depth::True), Some(Color::Green));
    }

    #[test]
    fn the_nearest_of_256_colours_is_exact_where_it_can_be() {
        assert_eq!(nearest_indexed((0, 0, 0)), 16);
        assert_eq!(nearest_indexed((255, 255, 255)), 231);
        assert_eq!(nearest_indexed((95, 135, 175)), 67);
        assert_eq!(nearest_indexed((128, 128, 128)), 244);
    }

    #[test]
    fn names_round_trip() {
        for name in ThemeName::ALL {
            assert_eq!(ThemeName::parse(name.name()), Some(name));
        }
        assert_eq!(ThemeName::parse("solarized"), None);
    }
}
