//! Environment variables → settings. The environment is a value, so that tests feed one.

use super::error::ProfileError;
use super::keys::{BOX, Key, MODEL};
use crate::control::nearest;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Prefix of this program's variables.
pub const PREFIX: &str = "LANEKEEPER_";

/// Variables with our prefix that are not settings of a profile.
pub const RESERVED: &[&str] = &[
    "LANEKEEPER_LOG",
    "LANEKEEPER_PROFILE",
    "LANEKEEPER_CACHE",
    "LANEKEEPER_ENGINE",
    "LANEKEEPER_KEY",
    "LANEKEEPER_KEY_FILE",
    "LANEKEEPER_KEYS",
    "LANEKEEPER_PYTHON",
];

/// Prefix reserved for tests.
const TEST_PREFIX: &str = "LANEKEEPER_TEST_";

/// Published names of the system that people move over from, read as aliases for every model that batches.
pub const ALIASES: &[(&str, &str)] = &[
    ("SIE_BATCHER_MAX_BATCH_WAIT_MS", "wait_ms"),
    ("SIE_BATCHER_MAX_BATCH_COST", "max_batch_tokens"),
    ("SIE_BATCHER_MAX_BATCH_REQUESTS", "max_batch_requests"),
    ("SIE_BATCHER_COALESCE_MS", "coalesce_ms"),
    ("SIE_BATCHER_COALESCE_RATIO", "coalesce_ratio"),
    ("SIE_BATCHER_IDLE_BYPASS_ENABLED", "idle_bypass"),
    ("SIE_ADAPTIVE_BATCH_MAX_WAIT_MS", "adaptive.max_wait_ms"),
    ("SIE_ADAPTIVE_BATCH_MIN_WAIT_MS", "adaptive.min_wait_ms"),
    ("SIE_ADAPTIVE_BATCH_INITIAL_WAIT_MS", "adaptive.initial_wait_ms"),
    ("SIE_ADAPTIVE_BATCH_TARGET_P50_MS", "adaptive.target_ms"),
    ("SIE_ADAPTIVE_BATCH_MIN_TARGET_P50_MS", "adaptive.min_target_ms"),
    ("SIE_ADAPTIVE_BATCH_MAX_TARGET_P50_MS", "adaptive.max_target_ms"),
    ("SIE_ADAPTIVE_BATCH_CALIBRATION_MULT", "adaptive.calibration"),
    ("SIE_ADAPTIVE_BATCH_MAX_COST", "adaptive.max_cost"),
    ("SIE_ADAPTIVE_BATCH_MIN_COST", "adaptive.min_cost"),
    ("SIE_ADAPTIVE_BATCH_INITIAL_COST", "adaptive.initial_cost"),
];

/// Published names whose settings do not exist here yet: said aloud rather than ignored.
const WITHOUT_EFFECT: [&str; 2] = ["SIE_BATCHER_", "SIE_ADAPTIVE_BATCH_"];

/// An environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// No variables at all.
    pub fn empty() -> Self {
        Env::default()
    }

    /// The variables of this process. A value that is not UTF-8 is kept with replacement characters: it then fails to
    /// parse, and the error names it.
    pub fn from_process() -> Self {
        let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        Env(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Env(pairs.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The folder of the user's own profiles: `$XDG_CONFIG_HOME/lanekeeper/profiles`, or under `~/.config`.
    pub fn user_profiles(&self) -> Option<PathBuf> {
        let absolute = |text: &str| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let config = self.get("XDG_CONFIG_HOME").and_then(absolute);
        let config = config.or_else(|| self.get("HOME").and_then(absolute).map(|home| home.join(".config")));
        config.map(|config| config.join("lanekeeper").join("profiles"))
    }

    /// The folder in which the engine `name` keeps state: `$XDG_STATE_HOME/lanekeeper/NAME`, or under `~/.local/state`.
    pub fn state_folder(&self, name: &str) -> Option<PathBuf> {
        let absolute = |text: &str| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let state = self.get("XDG_STATE_HOME").and_then(absolute);
        let state = state.or_else(|| self.get("HOME").and_then(absolute).map(|home| home.join(".local").join("state")));
        state.map(|state| state.join("lanekeeper").join(name))
    }

    /// The same environment without settings: it still says where the user's profiles lie.
    pub(super) fn files_only(&self) -> Env {
        let kept = ["HOME", "XDG_CONFIG_HOME"];
        Env(self
            .0
            .iter()
            .filter(|(name, _)| kept.contains(&name.as_str()))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect())
    }

    fn ours(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .filter(|(name, _)| !RESERVED.contains(&name.as_str()) && !name.starts_with(TEST_PREFIX))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The variable that sets a dotted key.
pub fn variable(path: &str) -> String {
    let mut name = String::from(PREFIX);
    name.extend(path.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }));
    name
}

/// A variable's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Box(&'static str),
    /// Index into the models of the box, and the key.
    Model(usize, &'static str),
}

/// A setting from outside the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    pub target: Target,
    /// Variable or `KEY=VALUE`, for the origin.
    pub name: String,
    pub value: String,
    pub alias: bool,
}

/// What the environment sets, weakest first. `strict`: a variable about a model that is not in `ids` is an error (it is
/// when a box is resolved; a lone model shares its environment with boxes).
pub(super) fn settings(
    env: &Env,
    ids: &[&str],
    batched: impl Fn(usize) -> bool,
    strict: bool,
    errors: &mut Vec<ProfileError>,
    warnings: &mut Vec<String>,
) -> Vec<Outside> {
    let mut known: BTreeMap<String, Target> = BTreeMap::new();
    for key in BOX.iter().filter(|key| key.settable()) {
        known.insert(variable(key.path), Target::Box(key.path));
    }
    for (index, id) in ids.iter().enumerate() {
        for key in MODEL.iter().filter(|key| key.settable()) {
            known.insert(variable(&format!("models.{id}.{}", key.path)), Target::Model(index, key.path));
        }
    }
    let mut found = aliases(env, ids.len(), batched, warnings);
    for (name, value) in env.ours() {
        match known.get(name) {
            Some(target) => found.push(Outside {
                target: target.clone(),
                name: name.to_string(),
                value: value.to_string(),
                alias: false,
            }),
            None if !strict && about_some_model(name) => {}
            None => errors.push(unknown(name, &known, ids)),
        }
    }
    found
}

fn aliases(env: &Env, models: usize, batched: impl Fn(usize) -> bool, warnings: &mut Vec<String>) -> Vec<Outside> {
    let mut found = Vec::new();
    for (name, value) in &env.0 {
        match ALIASES.iter().find(|(alias, _)| alias == name) {
            Some((_, key)) => found.extend((0..models).filter(|index| batched(*index)).map(|index| Outside {
                target: Target::Model(index, key),
                name: name.clone(),
                value: value.clone(),
                alias: true,
            })),
            None if WITHOUT_EFFECT.iter().any(|prefix| name.starts_with(prefix)) => {
                warnings.push(format!("environment variable {name} has no effect: the setting does not exist here"));
            }
            None => {}
        }
    }
    found
}

/// `LANEKEEPER_MODELS_<something>_<a model key>`.
fn about_some_model(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("LANEKEEPER_MODELS_") else { return false };
    let tail = |key: &Key| format!("_{}", &variable(key.path)[PREFIX.len()..]);
    MODEL.iter().filter(|key| key.settable()).any(|key| rest.ends_with(&tail(key)))
}

fn unknown(name: &str, known: &BTreeMap<String, Target>, ids: &[&str]) -> ProfileError {
    let error = ProfileError::new(format!("{name} is not a variable of this program"));
    let reserved = RESERVED.iter().copied();
    match nearest(name, known.keys().map(String::as_str).chain(reserved)) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if about_some_model(name) => error.hint(format!("the models served are {}", ids.join(", "))),
        None => error.hint("`lanekeeper profile schema` lists the keys; a variable is a key in capitals"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_derive_from_keys_and_are_unique() {
        assert_eq!(variable("listen.http"), "LANEKEEPER_LISTEN_HTTP");
        assert_eq!(
            variable("models.whisper-tiny-en.max_batch_tokens"),
            "LANEKEEPER_MODELS_WHISPER_TINY_EN_MAX_BATCH_TOKENS"
        );
        let names: Vec<_> = BOX.iter().map(|key| variable(key.path)).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(RESERVED.iter().all(|name| !names.contains(&name.to_string())));
        let names: Vec<_> = MODEL.iter().map(|key| variable(key.path)).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn an_unknown_variable_names_the_nearest() {
        let env = Env::from_pairs([("LANEKEEPER_LISTEN_HTPP", "x"), ("LANEKEEPER_LOG", "info"), ("PATH", "/bin")]);
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        assert!(settings(&env, &["m"], |_| true, true, &mut errors, &mut warnings).is_empty());
        assert_eq!(
            errors[0].to_string(),
            "LANEKEEPER_LISTEN_HTPP is not a variable of this program (did you mean `LANEKEEPER_LISTEN_HTTP`?)"
        );
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn a_lone_model_tolerates_variables_of_other_models() {
        let env = Env::from_pairs([("LANEKEEPER_MODELS_OTHER_WAIT_MS", "1")]);
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        settings(&env, &["m"], |_| true, false, &mut errors, &mut warnings);
        assert_eq!(errors, []);
        settings(&env, &["m"], |_| true, true, &mut errors, &mut warnings);
        assert_eq!(errors.len(), 1);
    }
}
