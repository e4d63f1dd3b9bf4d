//! What the help overlay shows: the key table, searched and wrapped to the screen.

use super::super::keys::{KeyDoc, Keys};
use super::super::text::columns;

/// The widest that help gets: longer lines read badly.
const WIDEST: u16 = 104;
/// The widest that the keys' own column gets, as a part of the page.
const KEYS: usize = 4;

/// A line of help: the keys, on the first line of an entry, and a piece of the explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpLine {
    pub keys: String,
    pub text: String,
}

/// What fits on a screen of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelpPage {
    /// Of the window, border included.
    pub width: u16,
    /// Lines of help that show at once.
    pub rows: usize,
}

impl HelpPage {
    /// The page in a view of `width` by `height`: the border and the search line come off.
    pub fn of(width: u16, height: u16) -> HelpPage {
        HelpPage { width: width.min(WIDEST), rows: usize::from(height.saturating_sub(3)) }
    }
}

/// The entries that match a search: every word of it somewhere in the keys, the place or the text.
pub fn help_rows(keys: &Keys, query: &str) -> Vec<KeyDoc> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let matches = |doc: &KeyDoc| {
        let text = format!("{} {} {}", doc.keys, doc.places, doc.doc).to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    keys.docs().into_iter().filter(matches).collect()
}

/// The matching entries as lines, and the columns that the keys take.
pub fn help_lines(keys: &Keys, query: &str, page: HelpPage) -> (Vec<HelpLine>, u16) {
    let rows = help_rows(keys, query);
    let inside = usize::from(page.width.saturating_sub(4));
    let keys = rows.iter().map(|row| columns(&row.keys)).max().unwrap_or(0).min((inside / KEYS).max(6));
    let room = inside.saturating_sub(keys + 2).max(8);
    let mut lines = Vec::new();
    for row in rows {
        let left = wrap(&row.keys, keys);
        let right = wrap(&format!("{} [{}]", row.doc, row.places), room);
        for i in 0..left.len().max(right.len()) {
            let line = |lines: &[String]| lines.get(i).cloned().unwrap_or_default();
            lines.push(HelpLine { keys: line(&left), text: line(&right) });
        }
    }
    (lines, keys as u16)
}

/// The furthest that help can be scrolled.
pub fn last_scroll(keys: &Keys, query: &str, page: HelpPage) -> usize {
    help_lines(keys, query, page).0.len().saturating_sub(page.rows)
}

/// `text` broken between words into lines of at most `room` columns; a longer word stands alone.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if columns(line) + 1 + columns(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn usual() -> Arc<Keys> {
        Keys::usual()
    }

    #[test]
    fn help_can_be_searched_by_key_place_and_text() {
        assert!(help_rows(&usual(), "").len() > 20);
        assert!(help_rows(&usual(), "osc").iter().all(|row| row.keys == "y"));
        assert!(!help_rows(&usual(), "confirmation").is_empty());
        assert!(help_rows(&usual(), "no such key anywhere").is_empty());
    }

    #[test]
    fn every_line_of_help_can_be_reached_on_every_screen() {
        for (width, height) in [(40, 9), (80, 21), (250, 67)] {
            let page = HelpPage::of(width, height);
            let lines = help_lines(&usual(), "", page).0.len();
            assert!(last_scroll(&usual(), "", page) + page.rows >= lines);
        }
    }
}
