//! Words right and wrong. Pure.

/// A text as words: lower case, letters and apostrophes.
pub fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let split = lower.split(|c: char| !(c.is_alphabetic() || c == '\''));
    split.map(|w| w.trim_matches('\'').to_string()).filter(|w| !w.is_empty()).collect()
}

/// How a heard text differs from what was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alignment {
    /// For each word that was said, whether it was heard.
    pub matched: Vec<bool>,
    /// Words put in the place of others.
    pub substituted: usize,
    /// Words heard that nobody said.
    pub inserted: usize,
    /// Words said that were not heard.
    pub deleted: usize,
}

impl Alignment {
    pub fn errors(&self) -> usize {
        self.substituted + self.inserted + self.deleted
    }
}

/// The alignment with the fewest errors.
pub fn align(said: &[String], heard: &[String]) -> Alignment {
    let (rows, columns) = (said.len() + 1, heard.len() + 1);
    let mut cost = vec![0usize; rows * columns];
    for r in 0..rows {
        for c in 0..columns {
            cost[r * columns + c] = match (r, c) {
                (0, c) => c,
                (r, 0) => r,
                _ => {
                    let diagonal = cost[(r - 1) * columns + c - 1] + usize::from(said[r - 1] != heard[c - 1]);
                    let up = cost[(r - 1) * columns + c] + 1;
                    let left = cost[r * columns + c - 1] + 1;
                    diagonal.min(up).min(left)
                }
            };
        }
    }
    let mut found = Alignment { matched: vec![false; said.len()], ..Alignment::default() };
    let (mut r, mut c) = (said.len(), heard.len());
    while r > 0 || c > 0 {
        let here = cost[r * columns + c];
        let same = r > 0 && c > 0 && said[r - 1] == heard[c - 1];
        if r > 0 && c > 0 && here == cost[(r - 1) * columns + c - 1] + usize::from(!same) {
            (r, c) = (r - 1, c - 1);
            found.matched[r] = same;
            found.substituted += usize::from(!same);
        } else if r > 0 && here == cost[(r - 1) * columns + c] + 1 {
            r -= 1;
            found.deleted += 1;
        } else {
            c -= 1;
            found.inserted += 1;
        }
    }
    found
}

/// What is wrong with a transcript of `sentences` spoken one after the other: sentences missing, or so many words too
/// many that one could be there twice. Empty = all are there, in order, once.
pub fn sentences_at_fault(sentences: &[&str], heard: &str) -> Vec<String> {
    let said: Vec<Vec<String>> = sentences.iter().map(|s| words(s)).collect();
    let alignment = align(&said.concat(), &words(heard));
    let mut faults = Vec::new();
    let mut from = 0;
    for (sentence, words) in sentences.iter().zip(&said) {
        let right = alignment.matched[from..from + words.len()].iter().filter(|m| **m).count();
        from += words.len();
        // A sentence that is there has most of its words right; one that is not has them by chance.
        if right * 10 < words.len() * 6 {
            faults.push(format!("only {right} of {} words of `{sentence}`", words.len()));
        }
    }
    let shortest = said.iter().map(Vec::len).min().unwrap_or(0);
    if alignment.inserted >= shortest.max(1) {
        faults.push(format!("{} words that nobody said", alignment.inserted));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<String> {
        words(text)
    }

    #[test]
    fn words_are_letters_and_apostrophes() {
        assert_eq!(words("It\u{2019}s 'quite' — A well-known fact."), ["it's", "quite", "a", "well", "known", "fact"]);
        assert!(words(" 12 ... ").is_empty());
    }

    #[test]
    fn each_kind_of_error_is_counted() {
        let a = align(&split("the cat sat on the mat"), &split("the bat sat the mat today"));
        assert_eq!((a.substituted, a.deleted, a.inserted, a.errors()), (1, 1, 1, 3));
        assert_eq!(a.matched, [true, false, true, false, true, true]);
        assert_eq!(align(&[], &split("a b")).inserted, 2);
        assert_eq!(align(&split("a b"), &[]).deleted, 2);
    }

    #[test]
    fn a_missing_a_doubled_and_a_swapped_sentence_are_found() {
        let s = ["one red apple fell down", "two green frogs sang loudly", "we went home very late"];
        let all = s.join(". ");
        assert!(sentences_at_fault(&s, &all).is_empty());
        assert!(sentences_at_fault(&s, &all.replace("apple", "app")).is_empty(), "one word wrong is no fault");
        assert_eq!(sentences_at_fault(&s, &format!("{} {}", s[0], s[2])).len(), 1);
        assert!(!sentences_at_fault(&s, &format!("{all} {}", s[1])).is_empty());
        assert!(!sentences_at_fault(&s, &format!("{} {} {}", s[1], s[0], s[2])).is_empty());
        assert_eq!(sentences_at_fault(&s, "").len(), 3);
    }

    proptest! {
        #[test]
        fn errors_are_a_distance(a in "([ab] ){0,8}", b in "([ab] ){0,8}") {
            let (a, b) = (split(&a), split(&b));
            let (there, back) = (align(&a, &b), align(&b, &a));
            prop_assert_eq!(there.errors(), back.errors());
            prop_assert_eq!(there.errors() == 0, a == b);
            prop_assert!(there.errors() <= a.len().max(b.len()));
            let matched = there.matched.iter().filter(|m| **m).count();
            prop_assert_eq!(matched + there.substituted + there.deleted, a.len());
            prop_assert_eq!(matched + there.substituted + there.inserted, b.len());
        }
    }
}
