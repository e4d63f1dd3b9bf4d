//! The commands that can be typed in the console, read by the CLI's own grammar.
//!
//! A command that only shows is run as a child of this very program, its output captured: it can write where it likes
//! without tearing the screen, and a slow one holds nothing up. One that changes something is first asked about, with what
//! its dry run says. All others belong into a shell.

mod whatif;

use super::args::{Cli, Command, Globals};
use crate::tui::Meaning;
use clap::Parser;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::process;

/// How long a command may take before it is given up: a plan of a long recording takes longest.
const LIMIT: Duration = Duration::from_secs(60);
/// Lines of a dry run that a question shows.
const ABOUT: usize = 16;
/// How long a question waits for its what-if.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a command does, as far as the console must know.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// It shows something and ends.
    Shows,
    /// It changes something; the command that tells what it would have made of the last minutes.
    Changes { plan: Option<Vec<String>> },
    /// It belongs into a shell.
    Shell,
}

fn kind(command: &Command, words: &[String]) -> Kind {
    let says = |word: &str| words.iter().any(|said| said == word);
    let changes = |plan| if says("--dry-run") { Kind::Shows } else { Kind::Changes { plan } };
    match command {
        Command::Try(_) if says("--follow") => Kind::Shell,
        Command::Set(args) => changes(whatif::plan_of(args.settings(), &[])),
        Command::Try(args) => changes(whatif::plan_of(args.settings(), &[])),
        Command::Unset(args) => changes(whatif::plan_of(&[], args.knobs())),
        Command::Apply(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Freeze(_)
        | Command::Thaw(_)
        | Command::Drain(_)
        | Command::Undrain(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::Move(_)
        | Command::Cancel(_) => changes(None),
        Command::Journal(_) if says("revert") => changes(None),
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

    /// The commands that can be typed: those that show or change something. A list, since the grammar takes longer to
    /// build than the first screen may take.
    pub fn words() -> Vec<String> {
        OFFERED.iter().chain(&["help"]).map(ToString::to_string).collect()
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
            Ok(Kind::Shows) => match self.child(&words, LIMIT).await {
                Ok(said) => Meaning::Output { title: line, text: said.text() },
                Err(why) => Meaning::Refused(why),
            },
            Ok(Kind::Changes { plan }) => {
                let mut trial = words.clone();
                trial.push("--dry-run".to_string());
                let (trial, plan) = tokio::join!(self.child(&trial, LIMIT), self.what_if(plan));
                match trial {
                    Ok(said) => {
                        let about = said.text().lines().map(str::to_string).chain(plan).take(ABOUT).collect();
                        Meaning::Change { line, about }
                    }
                    Err(why) => Meaning::Refused(why),
                }
            }
        }
    }

    /// What a change would have made of the last minutes, in lines; nothing where that cannot be told in time.
    async fn what_if(&self, plan: Option<Vec<String>>) -> Vec<String> {
        let Some(words) = plan else { return Vec::new() };
        match self.child(&words, PATIENCE).await {
            Ok(said) => std::iter::once(String::new()).chain(whatif::lines(&said.out)).collect(),
            // The dry run tells what is wrong with the change; a plan that is late or denied is only missing.
            Err(_) => Vec::new(),
        }
    }

    /// Runs a line that was confirmed; says its last line.
    pub async fn run(self, line: String) -> Result<String, String> {
        let mut words = split(&line)?;
        if words.first().is_some_and(|word| word == "drain") && !words.iter().any(|word| word == "--no-wait") {
            // The console shows how far a drain is: nothing has to wait for it.
            words.push("--no-wait".to_string());
        }
        let said = self.child(&words, LIMIT).await?;
        // What is remarked upon (the revision, the lease) says more than the table above it.
        let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_string);
        Ok(last(&said.remarks).or_else(|| last(&said.out)).unwrap_or_else(|| format!("done: {line}")))
    }

    /// What a command that succeeds says, or its error.
    async fn child(&self, words: &[String], limit: Duration) -> Result<Said, String> {
        let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
        let mut command = process::Command::new(program);
        command.args(words).args(&self.engine);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = match tokio::time::timeout(limit, command.output()).await {
            Ok(output) => output.map_err(|e| format!("{} could not be run: {e}", words.join(" ")))?,
            Err(_) => return Err(format!("{} was given up after {} s", words.join(" "), limit.as_secs())),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, remarks) = (text(&output.stdout), text(&output.stderr));
        match output.status.success() {
            true => Ok(Said { out, remarks }),
            false => Err(first_error(&remarks)),
        }
    }
}

/// What a command wrote.
struct Said {
    out: String,
    remarks: String,
}

impl Said {
    /// The result; the remarks where there is nothing else.
    fn text(self) -> String {
        if self.out.trim().is_empty() { self.remarks } else { self.out }
    }
}

const OFFERED: [&str; 28] = [
    "status",
    "models",
    "lanes",
    "turns",
    "caps",
    "speculation",
    "routes",
    "requests",
    "why",
    "cancel",
    "hold",
    "release",
    "move",
    "knobs",
    "get",
    "set",
    "try",
    "unset",
    "diff",
    "plan",
    "apply",
    "journal",
    "pause",
    "resume",
    "freeze",
    "thaw",
    "drain",
    "undrain",
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
    use clap::CommandFactory;

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
        assert_eq!(of("cancel req-1 req-2"), Ok(Kind::Changes { plan: None }));
        assert_eq!(of("hold req-1 --ttl 5m --dry-run"), Ok(Kind::Shows));
        let planned = "plan minilm-l6.wait_ms=5 -o json".split(' ').map(str::to_string).collect();
        assert_eq!(of("set minilm-l6.wait_ms=5 --ttl 10m --reason a=b"), Ok(Kind::Changes { plan: Some(planned) }));
        assert_eq!(of("set minilm-l6.wait_ms=5 --dry-run"), Ok(Kind::Shows));
        assert_eq!(of("journal revert 7"), Ok(Kind::Changes { plan: None }));
        assert_eq!(of("journal -n 5"), Ok(Kind::Shows));
        assert_eq!(of("unset --all"), Ok(Kind::Changes { plan: None }));
        let tried = of("try a.b=5 --for 1m --guard state==ready");
        assert!(matches!(tried, Ok(Kind::Changes { plan: Some(plan) }) if plan[1] == "a.b=5"));
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
    fn what_is_offered_is_what_shows_or_changes_something() {
        let command = Cli::command();
        for name in command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name) {
            let offered = OFFERED.contains(&name);
            // Some arguments are required by some commands, and taken by others.
            let line = [vec![name], vec![name, "a=1"], vec![name, "a", "b"], vec![name, "-f", "x"]];
            let parsed = line.iter().find_map(|line| Cli::try_parse_from(["lanekeeper"].iter().chain(line)).ok());
            if let Some(cli) = parsed {
                assert_eq!(kind(&cli.command, &[]) != Kind::Shell, offered, "{name}");
            }
        }
        for name in OFFERED {
            assert!(command.find_subcommand(name).is_some(), "there is no command {name}");
        }
    }
}
