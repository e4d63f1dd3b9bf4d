//! The commands that can be typed in the console, read by the CLI's own grammar.
//!
//! A command that only shows is run as a child of this very program, its output captured: it can write where it likes
//! without tearing the screen, and a slow one holds nothing up. One that changes something is first asked about: where it
//! has a dry run, with what that says. All others belong into a shell.

use super::args::{Cli, Command, Globals};
use crate::tui::Meaning;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::process;

/// How long a command may take before it is given up: a plan of a long recording takes longest.
const LIMIT: Duration = Duration::from_secs(60);
/// Lines of a dry run that a question shows.
const ABOUT: usize = 12;

/// What a command does, as far as the console must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It shows something and ends.
    Shows,
    /// It changes something; whether it has a dry run.
    Changes { dry_run: bool },
    /// It belongs into a shell.
    Shell,
}

fn kind(command: &Command, words: &[String]) -> Kind {
    let says = |word: &str| words.iter().any(|said| said == word);
    let changes = if says("--dry-run") { Kind::Shows } else { Kind::Changes { dry_run: true } };
    match command {
        Command::Try(_) if says("--follow") => Kind::Shell,
        Command::Set(_)
        | Command::Try(_)
        | Command::Unset(_)
        | Command::Apply(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Freeze(_)
        | Command::Thaw(_)
        | Command::Drain(_)
        | Command::Undrain(_) => changes,
        Command::Journal(_) if says("revert") => changes,
        Command::Journal(_) | Command::Knobs(_) | Command::Get(_) | Command::Diff(_) | Command::Plan(_) => Kind::Shows,
        Command::Status(_)
        | Command::Models(_)
        | Command::Lanes(_)
        | Command::Turns(_)
        | Command::Caps(_)
        | Command::Speculation(_)
        | Command::Routes(_)
        | Command::Requests(_)
        | Command::Why(_) => Kind::Shows,
        Command::Cancel(_) | Command::Hold(_) | Command::Release(_) | Command::Move(_) => {
            Kind::Changes { dry_run: false }
        }
        _ => Kind::Shell,
    }
}

/// Runs commands against the engine that the console watches.
#[derive(Debug, Clone)]
pub struct Palette {
    /// Options that name the engine and the key.
    engine: Vec<OsString>,
}

impl Palette {
    /// For the engine at `target`, with the key that `globals` name.
    pub fn new(target: &str, globals: &Globals) -> Palette {
        let mut engine: Vec<OsString> = vec!["--engine".into(), target.into()];
        if let Some(file) = &globals.key_file {
            engine.extend(["--key-file".into(), file.into()]);
        }
        engine.extend(["--color".into(), "never".into()]);
        Palette { engine }
    }

    /// The commands that can be typed: those that show or change something.
    pub fn words() -> Vec<String> {
        let offered = |name: &str| match Cli::try_parse_from(["lanekeeper", name]) {
            Ok(cli) => kind(&cli.command, &[]) != Kind::Shell,
            // It wants arguments: whether it is offered is seen with them.
            Err(_) => OFFERED.contains(&name),
        };
        let command = Cli::command();
        let names =
            command.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name());
        names.filter(|name| offered(name)).chain(["help"]).map(str::to_string).collect()
    }

    /// What `line` means; what only shows is run.
    pub async fn interpret(self, line: String) -> Meaning {
        let words = match split(&line) {
            Ok(words) => words,
            Err(why) => return Meaning::Refused(why),
        };
        match read(&words) {
            Err(meaning) => meaning(line),
            Ok(Kind::Shell) => {
                Meaning::Refused(format!("{line}: that is for a shell; C-z leaves to one, fg comes back"))
            }
            Ok(Kind::Shows) => match self.child(&words).await {
                Ok(text) => Meaning::Output { title: line, text },
                Err(why) => Meaning::Refused(why),
            },
            Ok(Kind::Changes { dry_run: false }) => Meaning::Change { line, about: Vec::new() },
            Ok(Kind::Changes { dry_run: true }) => {
                let mut trial = words.clone();
                trial.push("--dry-run".to_string());
                match self.child(&trial).await {
                    Ok(text) => Meaning::Change { line, about: text.lines().take(ABOUT).map(str::to_string).collect() },
                    Err(why) => Meaning::Refused(why),
                }
            }
        }
    }

    /// Runs a line that was confirmed; says its last line.
    pub async fn run(self, line: String) -> Result<String, String> {
        let mut words = split(&line)?;
        if words.first().is_some_and(|word| word == "drain") && !words.iter().any(|word| word == "--no-wait") {
            // The console shows how far a drain is: nothing has to wait for it.
            words.push("--no-wait".to_string());
        }
        let text = self.child(&words).await?;
        Ok(text.lines().rfind(|line| !line.trim().is_empty()).map_or(format!("done: {line}"), str::to_string))
    }

    /// The whole output of a command that succeeds (its remarks where it writes nothing else), or its error.
    async fn child(&self, words: &[String]) -> Result<String, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let mut command = process::Command::new(program);
        command.args(words).args(&self.engine);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = match tokio::time::timeout(LIMIT, command.output()).await {
            Ok(output) => output.map_err(|e| format!("{} could not be run: {e}", words.join(" ")))?,
            Err(_) => return Err(format!("{} was given up after {} s", words.join(" "), LIMIT.as_secs())),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, remarks) = (text(&output.stdout), text(&output.stderr));
        match output.status.success() {
            true if out.trim().is_empty() => Ok(remarks),
            true => Ok(out),
            false => Err(first_error(&remarks)),
        }
    }
}

/// Commands that cannot be read without arguments, and can be typed with them.
const OFFERED: [&str; 15] = [
    "why", "cancel", "hold", "release", "move", "get", "set", "try", "unset", "plan", "apply", "pause", "resume",
    "freeze", "thaw",
];

/// What the words are, by the CLI's grammar; else what they mean instead (help, an error).
fn read(words: &[String]) -> Result<Kind, Box<dyn FnOnce(String) -> Meaning + Send>> {
    match Cli::try_parse_from(std::iter::once("lanekeeper").chain(words.iter().map(String::as_str))) {
        Ok(_) if words.iter().any(|word| word == "--watch" || word == "-w") => {
            Err(Box::new(|line| Meaning::Refused(format!("{line}: the views watch already, without --watch"))))
        }
        Ok(cli) => Ok(kind(&cli.command, words)),
        Err(error) if error.use_stderr() => {
            let why = first_error(&error.to_string());
            Err(Box::new(move |_| Meaning::Refused(why)))
        }
        Err(help) => {
            let text = help.to_string();
            Err(Box::new(move |title| Meaning::Output { title, text }))
        }
    }
}

/// An error and its tips in one line, without the usage.
fn first_error(text: &str) -> String {
    let kept = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let kept: Vec<&str> = kept.filter(|line| !line.is_empty()).collect();
    let line = kept.join("; ");
    line.strip_prefix("error: ").unwrap_or(&line).to_string()
}

/// Splits a line into words as a shell would: blanks part, quotes and backslashes keep.
fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut open) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (open, c) {
            (Some(quote), c) if c == quote => open = None,
            (None, '\'' | '"') => {
                open = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = chars.next().ok_or("a backslash at the end keeps nothing")?;
                word.get_or_insert_default().push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    match open {
        Some(quote) => Err(format!("the quote {quote} is not closed")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap()
    }

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        assert_eq!(
            words("set a.b=1  --reason 'too slow' \"it's\" x\\ y ''"),
            ["set", "a.b=1", "--reason", "too slow", "it's", "x y", ""]
        );
        assert!(split("set 'a").unwrap_err().contains("not closed"));
        assert!(split("a\\").is_err());
        assert_eq!(words("  "), Vec::<String>::new());
    }

    #[test]
    fn the_clis_grammar_says_what_a_line_does() {
        let of = |line: &str| read(&words(line)).map_err(|meaning| meaning(line.to_string()));
        assert_eq!(of("caps -o wide"), Ok(Kind::Shows));
        assert_eq!(of("cancel req-1 req-2"), Ok(Kind::Changes { dry_run: false }));
        assert_eq!(of("set minilm-l6.wait_ms=5 --ttl 10m"), Ok(Kind::Changes { dry_run: true }));
        assert_eq!(of("set minilm-l6.wait_ms=5 --dry-run"), Ok(Kind::Shows));
        assert_eq!(of("journal revert 7"), Ok(Kind::Changes { dry_run: true }));
        assert_eq!(of("journal -n 5"), Ok(Kind::Shows));
        assert_eq!(of("unset --all"), Ok(Kind::Changes { dry_run: true }));
        assert_eq!(of("try a.b=5 --for 1m --guard state==ready"), Ok(Kind::Changes { dry_run: true }));
        assert_eq!(of("try a.b=5 --for 1m --follow"), Ok(Kind::Shell));
        assert_eq!(of("serve"), Ok(Kind::Shell));
        assert_eq!(of("top"), Ok(Kind::Shell));
        assert!(matches!(of("lanes --watch"), Err(Meaning::Refused(why)) if why.contains("already")));
        assert!(matches!(of("caps --help"), Err(Meaning::Output { text, .. }) if text.contains("--model")));
        assert!(
            matches!(of("caps --frob"), Err(Meaning::Refused(why)) if why.contains("--frob") && !why.contains("Usage"))
        );
    }

    #[test]
    fn what_is_offered_shows_or_changes_something() {
        let words = Palette::words();
        for offered in ["status", "caps", "why", "cancel", "routes", "set", "journal", "drain", "plan", "help"] {
            assert!(words.iter().any(|word| word == offered), "{offered} in {words:?}");
        }
        for shell in ["serve", "top", "chat", "generate", "completions"] {
            assert!(!words.iter().any(|word| word == shell), "{shell} in {words:?}");
        }
    }
}
