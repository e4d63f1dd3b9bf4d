//! Settings of the speculative path of a model that generates.

use crate::control::speculation::SpeculationPolicy;

/// Where proposals come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ProposerKind {
    /// The latest earlier occurrence of the last few tokens.
    NgramSimple,
    /// What most often followed the last few tokens.
    NgramCache,
    /// The passage with the longest shared stretch of text.
    #[default]
    Suffix,
}

impl ProposerKind {
    pub const ALL: [ProposerKind; 3] = [ProposerKind::NgramSimple, ProposerKind::NgramCache, ProposerKind::Suffix];

    pub fn name(self) -> &'static str {
        match self {
            ProposerKind::NgramSimple => "ngram-simple",
            ProposerKind::NgramCache => "ngram-cache",
            ProposerKind::Suffix => "suffix",
        }
    }
}

/// How a model speculates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeculationSettings {
    pub policy: SpeculationPolicy,
    pub proposer: ProposerKind,
    /// Narrowest window.
    pub width_min: usize,
    /// Widest window, at most [`SpeculationSettings::WIDEST`].
    pub width_max: usize,
    /// Tokens that must match before a copy is proposed.
    pub ngram_min: usize,
    /// Longest match that is looked for.
    pub ngram_max: usize,
    /// The part of the time that may be spent on measuring what windows cost.
    pub exploration_ratio: f64,
    /// Plain tokens after a rejection inside the model's own drafts.
    pub reject_cooldown_tokens: usize,
    /// The part of speculated answers that is computed again without windows, to compare.
    pub self_check_ratio: f64,
}

impl SpeculationSettings {
    /// Depths beyond this are not told apart by the survival counts.
    pub const WIDEST: usize = 8;

    /// What a profile that says nothing means.
    pub const DEFAULT: SpeculationSettings = SpeculationSettings {
        policy: SpeculationPolicy::Gain,
        proposer: ProposerKind::Suffix,
        width_min: 1,
        width_max: 8,
        ngram_min: 3,
        ngram_max: 64,
        exploration_ratio: 0.02,
        reject_cooldown_tokens: 0,
        self_check_ratio: 0.005,
    };
}

impl Default for SpeculationSettings {
    fn default() -> Self {
        SpeculationSettings::DEFAULT
    }
}
