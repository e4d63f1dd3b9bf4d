//! Other looks for labels, as a profile's `console.colours` gives them: `bad=#ff8800 bold, good=blue`.

use super::{Label, Theme, nearest_indexed};
use crate::tui::facts::Depth;
use ratatui::style::{Color, Modifier, Style};

/// Another look for one label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    label: Label,
    colour: Option<Color>,
    modifier: Modifier,
}

impl Theme {
    /// Reads changes: `LABEL=LOOK`, parted by commas; a look is a colour (`#rrggbb`, a name such as `blue` or
    /// `bright-red`, or a number of the 256 colours), or any of `bold`, `dim`, `underline` and `reverse`, or both.
    pub fn changes(text: &str) -> Result<Vec<Change>, String> {
        text.split(',').map(str::trim).filter(|change| !change.is_empty()).map(change).collect()
    }

    /// The theme with these changes, on a terminal of `depth` colours: where there are none, modifiers alone count.
    pub fn with(mut self, changes: &[Change], depth: Depth) -> Theme {
        for change in changes {
            let fg = change.colour.and_then(|colour| at_depth(colour, depth));
            let before = self.styles[change.label as usize];
            let style = Style { fg: fg.or(before.fg), ..before };
            self.styles[change.label as usize] = style.add_modifier(change.modifier);
        }
        self
    }
}

fn change(text: &str) -> Result<Change, String> {
    let (name, look) =
        text.split_once('=').ok_or_else(|| format!("{text:?} names no look: it is given as good=blue"))?;
    let name = name.trim();
    let label = Label::ALL
        .into_iter()
        .find(|label| label.name() == name)
        .ok_or_else(|| format!("no label {name:?}; there are {}", Label::ALL.map(Label::name).join(", ")))?;
    let mut change = Change { label, colour: None, modifier: Modifier::empty() };
    for word in look.split_whitespace() {
        match word {
            "bold" => change.modifier |= Modifier::BOLD,
            "dim" => change.modifier |= Modifier::DIM,
            "underline" => change.modifier |= Modifier::UNDERLINED,
            "reverse" => change.modifier |= Modifier::REVERSED,
            colour => change.colour = Some(parse(colour)?),
        }
    }
    Ok(change)
}

const NAMES: [(&str, Color); 16] = [
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("bright-black", Color::DarkGray),
    ("bright-red", Color::LightRed),
    ("bright-green", Color::LightGreen),
    ("bright-yellow", Color::LightYellow),
    ("bright-blue", Color::LightBlue),
    ("bright-magenta", Color::LightMagenta),
    ("bright-cyan", Color::LightCyan),
    ("bright-white", Color::White),
];

fn parse(text: &str) -> Result<Color, String> {
    let unknown = || {
        let names = NAMES.map(|(name, _)| name).join(", ");
        format!("no colour {text:?}: #rrggbb, 0 to 255, or one of {names}")
    };
    if let Some(hex) = text.strip_prefix('#') {
        let whole = hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let rgb = u32::from_str_radix(hex, 16).ok().filter(|_| whole).ok_or_else(unknown)?;
        return Ok(Color::Rgb((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8));
    }
    if let Ok(index) = text.parse() {
        return Ok(Color::Indexed(index));
    }
    NAMES.iter().find(|(name, _)| *name == text).map(|(_, colour)| *colour).ok_or_else(unknown)
}

/// The colour as near as the terminal can show it.
fn at_depth(colour: Color, depth: Depth) -> Option<Color> {
    match (colour, depth) {
        (_, Depth::None) => None,
        (Color::Rgb(r, g, b), Depth::Ansi256) => Some(Color::Indexed(nearest_indexed((r, g, b)))),
        (Color::Rgb(r, g, b), Depth::Ansi16) => Some(nearest_named((r, g, b))),
        // The first sixteen have the terminal's own names; of the others it has none.
        (Color::Indexed(index), Depth::Ansi16) => NAMES.get(usize::from(index)).map(|(_, colour)| *colour),
        (colour, _) => Some(colour),
    }
}

/// The nearest of the sixteen, as most terminals show them.
fn nearest_named((r, g, b): (u8, u8, u8)) -> Color {
    let bright = u32::from(r.max(g).max(b)) > 190;
    let level = |channel: u8| u8::from(channel > r.max(g).max(b) / 2 && channel > 50);
    let index = level(r) | level(g) << 1 | level(b) << 2 | u8::from(bright) << 3;
    NAMES[usize::from(index)].1
}

#[cfg(test)]
mod tests {
    use super::super::ThemeName;
    use super::*;

    fn with(text: &str, depth: Depth) -> Theme {
        Theme::resolve(ThemeName::Dark, depth, false).with(&Theme::changes(text).unwrap(), depth)
    }

    #[test]
    fn a_label_gets_another_look_as_near_as_the_terminal_can_show_it() {
        let of = |text: &str, depth| with(text, depth).style(Label::Bad);
        assert_eq!(of("bad=#ff8800 underline, good=blue", Depth::True).fg, Some(Color::Rgb(255, 136, 0)));
        assert!(of("bad=#ff8800 underline", Depth::None).add_modifier.contains(Modifier::UNDERLINED));
        assert_eq!(of("bad=#ff8800", Depth::None).fg, None);
        assert_eq!(of("bad=#ff8800", Depth::Ansi256).fg, Some(Color::Indexed(208)));
        assert_eq!(of("bad=#ff8800", Depth::Ansi16).fg, Some(Color::LightYellow));
        assert_eq!(of("bad=#800000", Depth::Ansi16).fg, Some(Color::Red));
        assert_eq!(of("bad=33", Depth::Ansi256).fg, Some(Color::Indexed(33)));
        assert_eq!(of("bad=12", Depth::Ansi16).fg, Some(Color::LightBlue));
        assert_eq!(of("", Depth::True), Theme::resolve(ThemeName::Dark, Depth::True, false).style(Label::Bad));
    }

    #[test]
    fn what_cannot_be_says_why() {
        let why = |text| Theme::changes(text).unwrap_err();
        assert!(why("terrible=red").contains("no label \"terrible\"; there are text, dim"));
        assert!(why("bad=#ff88").contains("#rrggbb") && why("bad=#+f8800").contains("#rrggbb"));
        assert!(why("bad=300").contains("no colour") && why("bad=pink").contains("bright-red"));
        assert!(why("bad").contains("good=blue"));
    }

    #[test]
    fn every_label_has_a_name_and_its_place() {
        for (index, label) in Label::ALL.into_iter().enumerate() {
            assert_eq!(label as usize, index);
            assert!(Theme::changes(&format!("{}=red", label.name())).is_ok());
        }
    }
}
