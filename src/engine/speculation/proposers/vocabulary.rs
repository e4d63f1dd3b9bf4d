//! Whether two models speak of the same tokens.

use std::fmt;

/// The first place where two vocabularies differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Both have the token, with different text.
    Token { id: usize, main: Vec<u8>, draft: Vec<u8> },
    /// One ends before the other.
    Length { main: usize, draft: usize },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Token { id, main, draft } => write!(
                f,
                "token {id} is {:?} in the main model and {:?} in the draft model",
                String::from_utf8_lossy(main),
                String::from_utf8_lossy(draft)
            ),
            Difference::Length { main, draft } => {
                write!(f, "the main model has {main} tokens and the draft model {draft}")
            }
        }
    }
}

/// Compares token by token; the first difference, or `None` when they are the same.
pub fn difference<'a>(
    main: impl IntoIterator<Item = &'a [u8]>,
    draft: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Difference> {
    let (mut main, mut draft) = (main.into_iter(), draft.into_iter());
    let mut id = 0;
    loop {
        match (main.next(), draft.next()) {
            (None, None) => return None,
            (Some(a), Some(b)) if a == b => id += 1,
            (Some(a), Some(b)) => return Some(Difference::Token { id, main: a.to_vec(), draft: b.to_vec() }),
            (Some(_), None) => return Some(Difference::Length { main: id + 1 + main.count(), draft: id }),
            (None, Some(_)) => return Some(Difference::Length { main: id, draft: id + 1 + draft.count() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(main: &[&str], draft: &[&str]) -> Option<String> {
        difference(main.iter().map(|w| w.as_bytes()), draft.iter().map(|w| w.as_bytes())).map(|d| d.to_string())
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(of(&["a", "b"], &["a", "b"]), None);
        let said = of(&["a", "b", "c"], &["a", "x", "y"]).expect("they differ");
        assert_eq!(said, "token 1 is \"b\" in the main model and \"x\" in the draft model");
        assert_eq!(of(&["a", "b", "c"], &["a"]).as_deref(), Some("the main model has 3 tokens and the draft model 1"));
        assert_eq!(of(&["a"], &["a", "b"]).as_deref(), Some("the main model has 1 tokens and the draft model 2"));
    }
}
