//! Other keys for actions, as a profile's `console.keys` gives them: `freeze=F, help=? C-h, first=g g / Home`.

use super::{Action, Key, Keys, Row, label};

impl Keys {
    /// The usual keys with the changes of `text`: `ACTION=CHORD`, parted by commas; several chords by ` / `, the keys of
    /// one chord by blanks. Fails on an action or a key that there is not, and where two actions would share a chord.
    pub fn remapped(text: &str) -> Result<Keys, String> {
        let mut keys = (*Keys::usual()).clone();
        for change in text.split(',').map(str::trim).filter(|change| !change.is_empty()) {
            let (name, chords) = change
                .split_once('=')
                .ok_or_else(|| format!("{change:?} names no keys: an action and its keys are given as freeze=F"))?;
            let (name, mut found) = (name.trim(), false);
            let chords = chords.split(" / ").map(chord).collect::<Result<Vec<_>, _>>()?;
            for row in keys.rows.iter_mut().filter(|row| row.action.name() == Some(name)) {
                found = true;
                give(row, &chords);
            }
            if !found {
                return Err(unknown_action(&keys, name));
            }
        }
        match keys.collision() {
            Some(why) => Err(why),
            None => Ok(keys),
        }
    }

    /// Two actions that a chord, or the beginning of one, would mean in one place.
    pub(super) fn collision(&self) -> Option<String> {
        let name = |action: Action| action.name().map_or_else(|| format!("{action:?}").to_lowercase(), str::to_string);
        for (i, first) in self.rows.iter().enumerate() {
            for second in self.rows.iter().skip(i + 1).filter(|second| second.places.meets(first.places)) {
                for a in &first.chords {
                    if let Some(b) = second.chords.iter().find(|b| a.starts_with(b) || b.starts_with(a)) {
                        let (one, two) = (name(first.action), name(second.action));
                        return Some(format!(
                            "{} ({one}) and {} ({two}) collide: give one other keys",
                            label(a),
                            label(b)
                        ));
                    }
                }
            }
        }
        None
    }
}

/// Gives a row these chords. Where letters are text they stay text: a row there takes only keys that type nothing, and
/// keeps its own if there are none.
fn give(row: &mut Row, chords: &[Vec<Key>]) {
    let types = |chord: &Vec<Key>| matches!(chord.first(), Some(Key::Char(_)));
    let chords: Vec<Vec<Key>> = chords.iter().filter(|chord| !(row.places.typing() && types(chord))).cloned().collect();
    if let Some(first) = chords.first() {
        let shown = label(first);
        row.hint = row.hint.take().map(|(_, verb)| (shown.into(), verb));
        row.chords = chords;
    }
}

fn unknown_action(keys: &Keys, name: &str) -> String {
    let mut names: Vec<&str> = keys.rows.iter().filter_map(|row| row.action.name()).collect();
    names.dedup();
    let near = names.iter().max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
    match near {
        Some(near) if strsim::jaro_winkler(name, near) > 0.8 => format!("no action {name:?}: did you mean {near}?"),
        _ => format!("no action {name:?}; there are {}", names.join(", ")),
    }
}

fn chord(text: &str) -> Result<Vec<Key>, String> {
    let keys = text.split_whitespace().map(key).collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() { Err("no key is given: freeze=F would be one".to_string()) } else { Ok(keys) }
}

/// A key by the name that help shows: `F`, `C-d`, `Space`, `S-Tab`, `PgUp`; `Comma` and `Slash` for the signs that part
/// names here.
fn key(name: &str) -> Result<Key, String> {
    const NAMED: [Key; 13] = [
        Key::Enter,
        Key::Esc,
        Key::Tab,
        Key::BackTab,
        Key::Backspace,
        Key::Up,
        Key::Down,
        Key::Left,
        Key::Right,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
    ];
    let mut chars = name.chars();
    match (chars.next(), chars.next(), chars.next(), chars.next()) {
        (Some(only), None, ..) => return Ok(Key::Char(only)),
        (Some('C' | 'c'), Some('-'), Some(letter), None) => return Ok(Key::Ctrl(letter.to_ascii_lowercase())),
        _ => {}
    }
    match name.to_lowercase().as_str() {
        "space" => Ok(Key::Char(' ')),
        "comma" => Ok(Key::Char(',')),
        "slash" => Ok(Key::Char('/')),
        lower => NAMED
            .into_iter()
            .find(|key| key.label().to_lowercase() == lower)
            .ok_or_else(|| format!("no key {name:?}: a letter, C-d, Space, Enter, Tab, S-Tab, PgUp, Home and so on")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Found, Places};
    use super::*;

    #[test]
    fn an_action_gets_other_keys_and_loses_its_own() {
        let keys = Keys::remapped("freeze=F, down = n / Down / C-n, next-match=M,first=z z").unwrap();
        let find = |place, sequence: &[Key]| keys.find(place, sequence);
        assert_eq!(find(Places::LANES, &[Key::Char('F')]), Found::Action(Action::Freeze));
        assert_eq!(find(Places::LANES, &[Key::Char(' ')]), Found::Nothing);
        assert_eq!(find(Places::LANES, &[Key::Ctrl('n')]), Found::Action(Action::Down));
        assert_eq!(find(Places::LANES, &[Key::Char('z')]), Found::Prefix);
        assert_eq!(find(Places::HELP, &[Key::Char('n')]), Found::Nothing, "it is searched with letters");
        assert_eq!(find(Places::HELP, &[Key::Down]), Found::Action(Action::Down));
        assert!(keys.hints(Places::LANES).any(|hint| hint == ("F", "freeze")));
        assert!(keys.docs().iter().any(|doc| doc.keys == "z z"));
    }

    #[test]
    fn what_cannot_be_says_why() {
        let why = |text| Keys::remapped(text).unwrap_err();
        assert!(why("freze=F").contains("did you mean freeze?"));
        assert!(why("freeze=Hyper").contains("no key \"Hyper\""));
        assert!(why("freeze").contains("freeze=F"));
        assert!(why("freeze=").contains("no key is given"));
        assert!(why("freeze=g").contains("g (freeze) and g g (first) collide"), "{}", why("freeze=g"));
        assert!(why("accept=F").contains("no action"));
    }

    #[test]
    fn every_key_can_be_named_as_help_shows_it() {
        for row in &Keys::usual().rows {
            for chord in &row.chords {
                for pressed in chord {
                    assert_eq!(key(&pressed.label()), Ok(*pressed));
                }
            }
        }
    }
}
