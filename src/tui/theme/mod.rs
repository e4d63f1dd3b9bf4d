//! Themes as data: a semantic label, and how it looks at each colour depth.

mod changes;
mod tables;

pub use changes::Change;

use super::facts::Depth;
use ratatui::style::{Color, Modifier, Style};
use tables::{DARK, LIGHT, NONE, SAFE, SAFE_LIGHT};

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

impl Label {
    pub const ALL: [Label; 18] = [
        Label::Text,
        Label::Dim,
        Label::Strong,
        Label::Title,
        Label::Rule,
        Label::Head,
        Label::Good,
        Label::Busy,
        Label::Warn,
        Label::Bad,
        Label::Selected,
        Label::Tab,
        Label::Key,
        Label::GaugeFull,
        Label::GaugeEmpty,
        Label::Flow,
        Label::Queue,
        Label::Stale,
    ];

    /// The name that the profile's `console.colours` uses.
    pub fn name(self) -> &'static str {
        match self {
            Label::Text => "text",
            Label::Dim => "dim",
            Label::Strong => "strong",
            Label::Title => "title",
            Label::Rule => "rule",
            Label::Head => "head",
            Label::Good => "good",
            Label::Busy => "busy",
            Label::Warn => "warn",
            Label::Bad => "bad",
            Label::Selected => "selected",
            Label::Tab => "tab",
            Label::Key => "key",
            Label::GaugeFull => "gauge-full",
            Label::GaugeEmpty => "gauge-empty",
            Label::Flow => "flow",
            Label::Queue => "queue",
            Label::Stale => "stale",
        }
    }
}

/// Which theme a person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThemeName {
    /// `light` where the terminal says that its background is light, else `dark`.
    #[default]
    Auto,
    Dark,
    Light,
    /// For eyes that tell red from green badly.
    Safe,
    /// The terminal's own sixteen colours, whatever its depth: follows the person's own palette.
    Ansi16,
    None,
}

impl ThemeName {
    /// Every name that can be chosen, in the order that help shows.
    pub const ALL: [ThemeName; 6] =
        [ThemeName::Auto, ThemeName::Dark, ThemeName::Light, ThemeName::Safe, ThemeName::Ansi16, ThemeName::None];

    pub fn name(self) -> &'static str {
        match self {
            ThemeName::Auto => "auto",
            ThemeName::Dark => "dark",
            ThemeName::Light => "light",
            ThemeName::Safe => "safe",
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
        let table = match (depth, name, light_background) {
            (Depth::None, ..) => &NONE,
            (_, ThemeName::Safe, true) => &SAFE_LIGHT,
            (_, ThemeName::Safe, false) => &SAFE,
            (_, ThemeName::Light, _) | (_, ThemeName::Auto, true) => &LIGHT,
            _ => &DARK,
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
            let modifier = if back.is_some() { spec.modifier.difference(Modifier::REVERSED) } else { spec.modifier };
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
        for table in [&DARK, &LIGHT, &SAFE, &SAFE_LIGHT, &NONE] {
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
