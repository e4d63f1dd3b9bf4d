//! The shipped prompt sets, and their prompts in a model's tokens.

use crate::cli::error::{CliError, CliResult};
use crate::control::ExitCode;
use crate::engine::models::{ChatMessage, LmFront};
use serde::Deserialize;

/// The sets, by name, as compiled in.
const SETS: [(&str, &str); 4] = [
    ("copying", include_str!("../prompts/copying.yaml")),
    ("code-edit", include_str!("../prompts/code-edit.yaml")),
    ("json", include_str!("../prompts/json.yaml")),
    ("prose", include_str!("../prompts/prose.yaml")),
];

/// Names of the shipped sets.
pub fn names() -> [&'static str; 4] {
    SETS.map(|(name, _)| name)
}

/// Prompts of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptSet {
    /// What an answer is like, after "the model".
    pub about: String,
    /// Tokens of an answer at most, where what is asked for is longer than what is usual.
    pub max_tokens: Option<u16>,
    /// A turn before each prompt that shows what is wanted.
    example: Example,
    prompts: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    user: String,
    assistant: String,
}

impl PromptSet {
    /// The set called `name`.
    pub fn load(name: &str) -> CliResult<PromptSet> {
        let Some((_, text)) = SETS.iter().find(|(known, _)| *known == name) else {
            return Err(CliError::usage(format!("there is no prompt set `{name}`"))
                .hint(format!("the sets are {}", names().join(", "))));
        };
        serde_yaml::from_str(text)
            .map_err(|e| CliError::new(ExitCode::Internal, format!("the shipped prompt set `{name}` is damaged: {e}")))
    }

    /// The prompts in the model's tokens: as a chat where it has a template, else as plain text.
    pub fn tokens(&self, front: &LmFront) -> CliResult<Vec<Vec<u32>>> {
        let message = |role: &str, content: &str| ChatMessage { role: role.into(), content: content.into() };
        let one = |prompt: &String| {
            if front.chat_template.is_some() {
                return front.encode_chat(&[
                    message("user", &self.example.user),
                    message("assistant", &self.example.assistant),
                    message("user", prompt),
                ]);
            }
            front.encode_prompt(&format!("{}\n\n{}\n\n{prompt}\n\n", self.example.user, self.example.assistant))
        };
        Ok(self.prompts.iter().map(one).collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_a_prompt_for_each_of_eight_sequences() {
        for name in names() {
            let set = PromptSet::load(name).unwrap();
            assert_eq!(set.prompts.len(), 8, "{name}");
            assert!(!set.about.is_empty() && !set.example.user.is_empty() && !set.example.assistant.is_empty());
            let mut distinct = set.prompts.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), 8, "{name} says something twice");
        }
    }

    #[test]
    fn an_unknown_set_names_the_known_ones() {
        let CliError::Failed { hints, message, .. } = PromptSet::load("poems").unwrap_err() else {
            panic!("no message")
        };
        assert!(message.contains("poems") && hints[0].contains("code-edit"), "{message} {hints:?}");
    }
}
