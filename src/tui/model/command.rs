//! The command line `:`: the CLI's words, for what the console can do.

use super::View;
use super::requests::Sort;

/// A command that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Show(View),
    Help(String),
    Quit,
    Cancel(String),
    Filter(String),
    Sort(Sort),
    Freeze,
    ReadOnly,
}

/// Every command word, in the order that an error lists them.
const WORDS: [&str; 13] = [
    "overview",
    "lanes",
    "caps",
    "speculation",
    "routes",
    "requests",
    "cancel",
    "filter",
    "sort",
    "freeze",
    "read-only",
    "help",
    "quit",
];

/// Understands a line; `Ok(None)` for an empty one. A word may be cut short while only one command begins with it.
pub fn parse(line: &str) -> Result<Option<Command>, String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    if word.is_empty() {
        return Ok(None);
    }
    let full = full_word(word)?;
    let takes_nothing = || match rest {
        "" => Ok(()),
        _ => Err(format!("{full} takes no argument, and {rest:?} is one")),
    };
    if let Some(view) = View::named(full) {
        takes_nothing()?;
        return Ok(Some(Command::Show(view)));
    }
    let command = match full {
        "freeze" | "read-only" | "quit" => {
            takes_nothing()?;
            match full {
                "freeze" => Command::Freeze,
                "read-only" => Command::ReadOnly,
                _ => Command::Quit,
            }
        }
        "cancel" if rest.is_empty() => return Err("cancel needs a request's id: cancel ID".to_string()),
        "cancel" if rest.contains(char::is_whitespace) => {
            return Err(format!("cancel takes one request's id, and {rest:?} is more"));
        }
        "cancel" => Command::Cancel(rest.to_string()),
        "filter" => Command::Filter(rest.to_string()),
        "sort" => {
            let names = || Sort::ALL.map(Sort::name).join(", ");
            let sort = Sort::ALL.into_iter().find(|sort| sort.name() == rest);
            Command::Sort(sort.ok_or_else(|| format!("sort by what? {}", names()))?)
        }
        _ => Command::Help(rest.to_string()),
    };
    Ok(Some(command))
}

/// What Tab makes of a line: the command word in full, when only one begins so.
pub fn complete(line: &str) -> Option<String> {
    if line.is_empty() || line.contains(char::is_whitespace) {
        return None;
    }
    let full = full_word(line).ok()?;
    let wants_more = matches!(full, "cancel" | "filter" | "sort");
    Some(if wants_more { format!("{full} ") } else { full.to_string() })
}

fn full_word(word: &str) -> Result<&'static str, String> {
    let mut begun = WORDS.iter().copied().filter(|full| full.starts_with(word));
    match (begun.next(), begun.next()) {
        (Some(only), None) => Ok(only),
        (Some(first), Some(second)) => Err(format!("{word:?} could be {first} or {second}")),
        (None, _) => Err(format!("no command {word:?}; there are {}", WORDS.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood_in_full_and_cut_short() {
        let ok = |line| parse(line).unwrap().unwrap();
        assert_eq!(ok("lanes"), Command::Show(View::Lanes));
        assert_eq!(ok(" req "), Command::Show(View::Requests));
        assert_eq!(ok("speculation"), Command::Show(View::Speculation));
        assert_eq!(ok("q"), Command::Quit);
        assert_eq!(ok("cancel req-7"), Command::Cancel("req-7".to_string()));
        assert_eq!(ok("filter model:whisper !done"), Command::Filter("model:whisper !done".to_string()));
        assert_eq!(ok("sort cost"), Command::Sort(Sort::Cost));
        assert_eq!(ok("help cancel"), Command::Help("cancel".to_string()));
        assert_eq!(parse("  "), Ok(None));
    }

    #[test]
    fn what_is_not_understood_says_why() {
        let error = |line| parse(line).unwrap_err();
        assert!(error("frobnicate").contains("overview"));
        assert!(error("re").contains("requests or read-only"));
        assert!(error("cancel").contains("cancel ID"));
        assert!(error("cancel a b").contains("\"a b\""));
        assert!(error("lanes now").contains("\"now\""));
        assert!(error("sort height").contains("waited"));
    }

    #[test]
    fn tab_completes_what_is_unique() {
        assert_eq!(complete("ov"), Some("overview".to_string()));
        assert_eq!(complete("can"), Some("cancel ".to_string()));
        assert_eq!(complete("ca"), None);
        assert_eq!(complete("re"), None);
        assert_eq!(complete("cancel r"), None);
    }
}
