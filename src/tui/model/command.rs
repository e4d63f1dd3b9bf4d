//! The command line `:`: the console's own words, and the CLI's commands.

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
    /// A command of the CLI, whole, for its own grammar to read.
    Cli(String),
}

/// Every command word, in the order that an error lists them.
const WORDS: [&str; 15] = [
    "overview",
    "lanes",
    "caps",
    "speculation",
    "routes",
    "requests",
    "settings",
    "journal",
    "cancel",
    "filter",
    "sort",
    "freeze",
    "read-only",
    "help",
    "quit",
];

/// Understands a line; `Ok(None)` for an empty one. An own word may be cut short while only one begins with it; what is
/// one of the CLI's `words`, or says more than the console's own word takes, is left to the CLI (in full: it cuts none short).
pub fn parse(line: &str, words: &[String]) -> Result<Option<Command>, String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    if word.is_empty() {
        return Ok(None);
    }
    let is_cli = |word: &str| words.iter().any(|known| known == word);
    // The console's own word by itself is the console's: `freeze` the view, `freeze MODEL` a controller.
    let own = WORDS.contains(&word) && rest.is_empty();
    let one_cancel = word == "cancel" && !rest.contains(char::is_whitespace) && !rest.starts_with('-');
    if is_cli(word) && !own && !one_cancel {
        return Ok(Some(Command::Cli(line.to_string())));
    }
    let full = full_word(word, words)?;
    if is_cli(full) && !rest.is_empty() && !matches!(full, "cancel" | "help") {
        return Ok(Some(Command::Cli(format!("{full} {rest}"))));
    }
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
pub fn complete(line: &str, words: &[String]) -> Option<String> {
    if line.is_empty() || line.contains(char::is_whitespace) {
        return None;
    }
    let mut begun: Vec<&str> =
        WORDS.iter().copied().chain(words.iter().map(String::as_str)).filter(|word| word.starts_with(line)).collect();
    begun.sort_unstable();
    begun.dedup();
    let &[full] = begun.as_slice() else { return longest_start(&begun).filter(|start| start.len() > line.len()) };
    let wants_more =
        matches!(full, "cancel" | "filter" | "sort") || View::named(full).is_none() && !WORDS.contains(&full);
    Some(if wants_more { format!("{full} ") } else { full.to_string() })
}

/// What all of these begin with.
fn longest_start(words: &[&str]) -> Option<String> {
    let (first, last) = (words.first()?, words.last()?);
    // Sorted: what the first and the last share, all share.
    Some(first.chars().zip(last.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect())
}

fn full_word(word: &str, words: &[String]) -> Result<&'static str, String> {
    let mut begun = WORDS.iter().copied().filter(|full| full.starts_with(word));
    match (begun.next(), begun.next()) {
        (Some(only), None) => Ok(only),
        (Some(first), Some(second)) => Err(format!("{word:?} could be {first} or {second}")),
        (None, _) => {
            let all = WORDS.iter().copied().chain(words.iter().map(String::as_str));
            let near = all.map(|known| (strsim::jaro_winkler(word, known), known)).max_by(|a, b| a.0.total_cmp(&b.0));
            match near {
                Some((likeness, known)) if likeness > 0.8 => Err(format!("no command {word:?}: did you mean {known}?")),
                _ => Err(format!("no command {word:?}; there are {}", WORDS.join(", "))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<String> {
        ["status", "lanes", "requests", "cancel", "help", "set", "freeze", "transcribe", "transmit"]
            .map(str::to_string)
            .into()
    }

    #[test]
    fn commands_are_understood_in_full_and_cut_short() {
        let ok = |line| parse(line, &words()).unwrap().unwrap();
        assert_eq!(ok("lanes"), Command::Show(View::Lanes));
        assert_eq!(ok(" req "), Command::Show(View::Requests));
        assert_eq!(ok("speculation"), Command::Show(View::Speculation));
        assert_eq!(ok("q"), Command::Quit);
        assert_eq!(ok("cancel req-7"), Command::Cancel("req-7".to_string()));
        assert_eq!(ok("filter model:whisper !done"), Command::Filter("model:whisper !done".to_string()));
        assert_eq!(ok("sort cost"), Command::Sort(Sort::Cost));
        assert_eq!(ok("freeze"), Command::Freeze);
        assert_eq!(ok("help"), Command::Help(String::new()));
        assert_eq!(parse("  ", &words()), Ok(None));
    }

    #[test]
    fn what_the_cli_knows_is_left_to_it() {
        let cli = |line: &str| assert_eq!(parse(line, &words()), Ok(Some(Command::Cli(line.to_string()))));
        [
            "status",
            "lanes -m whisper",
            "requests -o wide",
            "cancel a b",
            "cancel --help",
            "set a=1",
            "help set",
            "freeze m",
        ]
        .into_iter()
        .for_each(cli);
        assert_eq!(parse("lan -m x", &words()), Ok(Some(Command::Cli("lanes -m x".to_string()))));
    }

    #[test]
    fn what_is_not_understood_says_why() {
        let error = |line| parse(line, &words()).unwrap_err();
        assert!(error("frobnicate").contains("overview"));
        assert!(error("lans").contains("did you mean lanes?"));
        assert!(error("re").contains("requests or read-only"));
        assert!(error("cancel").contains("cancel ID"));
        assert!(error("read-only now").contains("\"now\""));
        assert!(error("sort height").contains("waited"));
    }

    #[test]
    fn tab_completes_what_is_unique_and_as_far_as_all_agree() {
        let complete = |line| complete(line, &words());
        assert_eq!(complete("ov"), Some("overview".to_string()));
        assert_eq!(complete("can"), Some("cancel ".to_string()));
        assert_eq!(complete("st"), Some("status ".to_string()));
        assert_eq!(complete("tr"), Some("trans".to_string()));
        assert_eq!(complete("re"), None);
        assert_eq!(complete("cancel r"), None);
    }
}
