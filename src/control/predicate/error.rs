//! What is wrong with a condition, and where.

use super::syntax::Spot;
use std::fmt;

/// A condition that cannot be meant. Shown with the text and a mark below the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredicateError {
    text: String,
    /// In characters from the beginning, 1 = the first.
    pub column: usize,
    /// Characters that are marked, at least one.
    pub width: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl PredicateError {
    pub(super) fn new(text: &str, at: &Spot, message: impl Into<String>) -> PredicateError {
        let chars = |to: usize| text.char_indices().take_while(|(i, _)| *i < to).count();
        let (from, to) = (chars(at.0.start), chars(at.0.end));
        PredicateError {
            text: text.to_string(),
            column: from + 1,
            width: to.saturating_sub(from).max(1),
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: Option<String>) -> PredicateError {
        self.hint = hint;
        self
    }
}

impl fmt::Display for PredicateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, ": {hint}")?;
        }
        // A line break in the text would tear the mark from what it points at.
        let shown: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        write!(f, "\n  {shown}\n  {}{}", " ".repeat(self.column - 1), "^".repeat(self.width))
    }
}

impl std::error::Error for PredicateError {}
