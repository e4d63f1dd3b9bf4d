//! What the console is told about its surroundings: environment variables and the terminal.
//!
//! Read once, through a struct, so that tests feed a map and never touch the process environment.

use std::collections::BTreeMap;
use std::io::IsTerminal;

/// The variables that decide how the console looks, and how wide it is where there is no terminal.
const VARIABLES: [&str; 8] = ["NO_COLOR", "COLORTERM", "TERM", "COLORFGBG", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"];

/// The surroundings of the console.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub variables: BTreeMap<String, String>,
    /// Both standard input and standard output are terminals, and not `dumb` ones, which can place no cursor.
    pub interactive: bool,
}

impl Facts {
    /// Reads the process environment and asks whether input and output are terminals.
    pub fn from_process() -> Facts {
        let variables = VARIABLES
            .iter()
            .filter_map(|name| Some((name.to_string(), std::env::var_os(name)?.to_string_lossy().into_owned())))
            .collect();
        Facts::new(variables, std::io::stdin().is_terminal() && std::io::stdout().is_terminal())
    }

    fn new(variables: BTreeMap<String, String>, terminal: bool) -> Facts {
        let dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
        Facts { variables, interactive: terminal && !dumb }
    }

    /// Facts of a terminal with these variables: for tests and for callers that resolve them elsewhere.
    pub fn of(variables: &[(&str, &str)]) -> Facts {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Facts { variables, interactive: true }
    }

    /// A variable that is set and not empty: POSIX and no-color.org both treat an empty one as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether the locale cannot show more than ASCII: its character set is not UTF-8.
    pub fn ascii_only(&self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| self.get(name)).unwrap_or("C");
        let locale = locale.to_ascii_lowercase();
        !(locale.contains("utf-8") || locale.contains("utf8"))
    }

    /// Whether the terminal says that its background is light (`COLORFGBG=fg;bg`).
    pub fn light_background(&self) -> bool {
        let background = self.get("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
        matches!(background, Some(7 | 9..=15))
    }

    /// How many colours to use: the flag, else NO_COLOR, else COLORTERM, else TERM.
    pub fn depth(&self, flag: Option<Depth>) -> Depth {
        if let Some(depth) = flag {
            return depth;
        }
        if self.get("NO_COLOR").is_some() {
            return Depth::None;
        }
        if matches!(self.get("COLORTERM"), Some("truecolor" | "24bit")) {
            return Depth::True;
        }
        match self.get("TERM") {
            None | Some("dumb") => Depth::None,
            Some(term) if term.starts_with("vt") || term.ends_with("-mono") || term.ends_with("-m") => Depth::None,
            Some(term) if term.ends_with("-direct") => Depth::True,
            Some(term) if term.contains("256color") => Depth::Ansi256,
            Some(_) => Depth::Ansi16,
        }
    }
}

/// How many colours the terminal is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Bold, dim, underline and reverse only.
    None,
    Ansi16,
    Ansi256,
    True,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_gets_lines_not_screens() {
        let on =
            |term: &str, terminal| Facts::new([("TERM".to_string(), term.to_string())].into(), terminal).interactive;
        assert!(on("xterm", true) && !on("xterm", false) && !on("dumb", true));
        assert!(Facts::new(BTreeMap::new(), true).interactive);
    }

    #[test]
    fn the_palette_ladder_goes_from_flag_to_no_color_to_colorterm_to_term() {
        type Case = (&'static [(&'static str, &'static str)], Option<Depth>, Depth);
        let cases: [Case; 10] = [
            (&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")], Some(Depth::Ansi256), Depth::Ansi256),
            (&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")], None, Depth::None),
            (&[("NO_COLOR", ""), ("COLORTERM", "truecolor")], None, Depth::True),
            (&[("COLORTERM", "24bit"), ("TERM", "xterm")], None, Depth::True),
            (&[("TERM", "tmux-256color")], None, Depth::Ansi256),
            (&[("TERM", "xterm-direct")], None, Depth::True),
            (&[("TERM", "linux")], None, Depth::Ansi16),
            (&[("TERM", "dumb")], None, Depth::None),
            (&[("TERM", "vt100")], None, Depth::None),
            (&[], None, Depth::None),
        ];
        for (variables, flag, expected) in cases {
            assert_eq!(Facts::of(variables).depth(flag), expected, "{variables:?} with {flag:?}");
        }
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides_about_ascii() {
        let cases: [(&[(&str, &str)], bool); 7] = [
            (&[], true),
            (&[("LANG", "C")], true),
            (&[("LANG", "en_GB.UTF-8")], false),
            (&[("LANG", "C.utf8")], false),
            (&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")], true),
            (&[("LC_ALL", ""), ("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")], false),
            (&[("LANG", "de_DE.ISO-8859-1")], true),
        ];
        for (variables, expected) in cases {
            assert_eq!(Facts::of(variables).ascii_only(), expected, "{variables:?}");
        }
    }

    #[test]
    fn a_light_background_is_believed_when_the_terminal_says_so() {
        assert!(Facts::of(&[("COLORFGBG", "0;15")]).light_background());
        assert!(Facts::of(&[("COLORFGBG", "0;default;15")]).light_background());
        assert!(!Facts::of(&[("COLORFGBG", "15;0")]).light_background());
        assert!(!Facts::of(&[]).light_background());
    }
}
