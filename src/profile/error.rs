//! What can be wrong with a profile, and where.

use super::origin::{Origin, Place};
use crate::control::nearest;
use std::fmt;

/// One fault: where, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// The file position, variable or flag at fault, where one is.
    pub at: Option<Origin>,
    pub message: String,
    pub hint: Option<String>,
}

impl ProfileError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        ProfileError { at: None, message: message.into(), hint: None }
    }

    pub(super) fn at(mut self, origin: &Origin) -> Self {
        self.at = Some(origin.clone());
        self
    }

    pub(super) fn place(self, place: &Place) -> Self {
        self.at(&Origin::File(place.clone()))
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds "did you mean …?" when one of `known` is near `given`.
    pub(super) fn nearest<'a>(self, given: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(given, known) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            None | Some(Origin::BuiltIn) => {}
            Some(Origin::File(place)) => write!(f, "{place}: ")?,
            Some(Origin::Env { variable, .. }) => write!(f, "environment variable {variable}: ")?,
            Some(Origin::CommandLine { setting }) => write!(f, "--set {setting}: ")?,
            // The one who set it just now knows.
            Some(Origin::Live) => {}
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Every fault that was found; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileErrors(pub Vec<ProfileError>);

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProfileErrors {}

impl From<ProfileError> for ProfileErrors {
    fn from(error: ProfileError) -> Self {
        ProfileErrors(vec![error])
    }
}
