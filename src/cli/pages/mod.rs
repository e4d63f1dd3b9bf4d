//! Manual pages, made from the definitions they document: the command line, the profile's keys, the exit codes and the
//! console's keys. `lanekeeper man` shows them, the hidden `generate` writes them to files, and a test compares those
//! with the committed ones.

mod commands;
mod conditions;
mod topics;

/// The date in every page: that of the release, so that pages made again are the same.
const DATE: &str = "2026-11-29";
/// Name of the manual, in the middle of each page's head.
const MANUAL: &str = "Lanekeeper Manual";

/// A manual page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// `lanekeeper-status`.
    pub name: String,
    /// 1 commands, 5 file formats, 7 topics.
    pub section: u8,
    /// The page in roff.
    pub roff: String,
}

impl Page {
    /// `lanekeeper-status.1`.
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }
}

/// All pages, the main one first.
pub fn all() -> Vec<Page> {
    let mut pages = commands::pages();
    pages.extend(topics::pages());
    pages
}

/// `LANEKEEPER 0.1.0`-style source field of the pages' heads.
fn source() -> String {
    format!("lanekeeper {}", env!("CARGO_PKG_VERSION"))
}

/// Longest line of text in a page's source.
const LINE: usize = 78;

/// Roff as people would write it: no vertical space beside vertical space, no blanks at line ends, filled text in short
/// lines. What is shown stays the same.
fn tidy(roff: &str) -> String {
    let lines: Vec<&str> = roff.lines().map(str::trim_end).collect();
    let mut out = String::new();
    let mut filled = true;
    for (i, line) in lines.iter().enumerate() {
        let blank = |j: Option<usize>| j.and_then(|j| lines.get(j)).is_some_and(|l| l.is_empty() || *l == ".sp");
        if *line == ".br" && (blank(i.checked_sub(1)) || blank(Some(i + 1))) {
            continue;
        }
        match *line {
            ".nf" => filled = false,
            ".fi" => filled = true,
            _ => {}
        }
        if filled && line.is_empty() {
            out.push_str(".sp\n");
        } else if filled && !line.starts_with(['.', '\'']) {
            wrap(line, &mut out);
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Breaks a line of filled text at blanks; no new line may begin like a request.
fn wrap(line: &str, out: &mut String) {
    let mut width = 0;
    for word in line.split(' ').filter(|w| !w.is_empty()) {
        let fits = width + 1 + word.len() <= LINE;
        if width > 0 && (fits || word.starts_with(['.', '\''])) {
            out.push(' ');
            width += 1;
        } else if width > 0 {
            out.push('\n');
            width = 0;
        }
        out.push_str(word);
        width += word.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tidying_keeps_words_and_requests() {
        let long = "word ".repeat(30);
        let tidied = tidy(&format!(".TP\n{long}\n.br\n\n.br\n.nf\n  kept   as it is\n.fi\n"));
        assert_eq!(tidied.matches("word").count(), 30);
        assert!(tidied.lines().all(|l| l.len() <= LINE && l == l.trim_end()));
        assert!(tidied.contains("\n.sp\n") && !tidied.contains(".br"));
        assert!(tidied.contains("\n  kept   as it is\n"));
    }

    #[test]
    fn pages_have_names_of_their_own_and_the_parts_that_readers_expect() {
        let pages = all();
        let mut names: Vec<String> = pages.iter().map(Page::file_name).collect();
        assert_eq!(names[0], "lanekeeper.1");
        for wanted in
            ["lanekeeper-status.1", "lanekeeper-profile-check.1", "lanekeeper-profile.5", "lanekeeper-exit-codes.7"]
        {
            assert!(names.iter().any(|n| n == wanted), "{wanted}");
        }
        assert!(!names.iter().any(|n| n == "lanekeeper-generate.1"), "hidden commands have no page");
        for page in &pages {
            assert!(page.roff.contains(".SH NAME"), "{}", page.file_name());
            assert!(!page.roff.contains('\u{1b}'), "{}", page.file_name());
        }
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
