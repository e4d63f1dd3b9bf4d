//! One page per command, from the command line's own definition.

use super::{DATE, MANUAL, Page, source};
use crate::cli::Cli;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

/// `lanekeeper(1)`, then one page for each command and its subcommands.
pub fn pages() -> Vec<Page> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add(&root, &mut pages);
    pages
}

fn add(command: &Command, pages: &mut Vec<Page>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_string();
    let mut bytes = Vec::new();
    let man = Man::new(command.clone()).title(name.to_uppercase()).date(DATE).source(source()).manual(MANUAL);
    man.render(&mut bytes).expect("writing to memory does not fail");
    let mut roff = String::from_utf8(bytes).expect("the generator writes the text it was given");
    roff.push_str(&see_also(&name));
    pages.push(Page { name, section: 1, roff: super::tidy(&roff) });
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        add(sub, pages);
    }
}

fn see_also(name: &str) -> String {
    let related =
        [("lanekeeper", "1"), ("lanekeeper-profile", "5"), ("lanekeeper-exit-codes", "7"), ("lanekeeper-keys", "7")];
    let conditions = matches!(name, "lanekeeper-wait" | "lanekeeper-try" | "lanekeeper-requests");
    let others: Vec<String> = related
        .iter()
        .chain(conditions.then_some(&("lanekeeper-conditions", "7")))
        .filter(|(other, _)| *other != name)
        .map(|(other, section)| format!("\\fB{}\\fR({section})", other.replace('-', "\\-")))
        .collect();
    format!(".SH \"SEE ALSO\"\n{}\n", others.join(",\n"))
}
