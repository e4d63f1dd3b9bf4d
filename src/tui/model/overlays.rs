//! What can be scrolled over a view: help, and the output of a command.

use super::help::{self, HelpPage};
use super::update::CHROME;
use super::{Overlay, State};

/// Lines of output that are kept; the rest is for a shell.
const LINES: usize = 5_000;

/// The window with what a command wrote.
pub fn output(title: String, text: &str) -> Overlay {
    let mut lines: Vec<String> = text.lines().take(LINES).map(str::to_string).collect();
    if text.lines().nth(LINES).is_some() {
        lines.push(format!("(cut after {LINES} lines)"));
    }
    if lines.is_empty() {
        lines.push("(nothing was written)".to_string());
    }
    Overlay::Output { title, lines: lines.into(), scroll: 0 }
}

/// Scrolls what lies over the view; says whether anything there can be scrolled.
pub fn scroll(state: &mut State, by: isize) -> bool {
    let (width, height) = state.size;
    let body = height.saturating_sub(CHROME);
    match &mut state.overlay {
        Some(Overlay::Help { query, scroll }) => {
            let last = help::last_scroll(&state.keys, query, HelpPage::of(width, body));
            *scroll = scroll.saturating_add_signed(by).min(last);
        }
        Some(Overlay::Output { lines, scroll, .. }) => {
            // The border takes two lines.
            let last = lines.len().saturating_sub(usize::from(body.saturating_sub(2)));
            *scroll = scroll.saturating_add_signed(by).min(last);
        }
        _ => return false,
    }
    true
}
