//! What people ask about profiles: which there are, what is in them, whether they are sound.

use super::build_workload::{WorkloadOverrides, load_workload};
use super::env::Env;
use super::error::{ProfileError, ProfileErrors};
use super::keys::{BOX, Key, MODEL, segments};
use super::library::{Library, ProfileKind, is_path};
use super::load::{load_box, load_model};
use super::origin::{Origin, Resolved, Row};
use super::types::{FileRole, ModelFile, ModelProfile, Source};
use super::workload_keys::LOAD;
use super::yaml::{Data, Node, parse};
use std::path::PathBuf;

/// A line of `profile list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub name: String,
    pub kind: ProfileKind,
    /// Empty where the profile has none or is broken.
    pub description: String,
    /// Whether it is compiled in; else it is the user's.
    pub shipped: bool,
    /// Why it cannot be used, where it cannot.
    pub problem: Option<ProfileErrors>,
}

/// Every profile that has a name: boxes first.
pub fn list(env: &Env) -> Vec<Listing> {
    let library = Library::new(env);
    // A variable about one profile must not make another look broken.
    let env = env.files_only();
    let mut listings = Vec::new();
    for kind in ProfileKind::ALL {
        for (name, own) in library.names(kind) {
            let description = match kind {
                ProfileKind::Box => load_box(&name, &env, &[]).map(|r| r.value.description),
                ProfileKind::Model => load_model(&name, &env, &[]).map(|r| r.value.description),
                ProfileKind::Load => {
                    load_workload(&name, &env, &WorkloadOverrides::default()).map(|r| r.value.description)
                }
            };
            let (description, problem) = match description {
                Ok(description) => (description, None),
                Err(errors) => (String::new(), Some(errors)),
            };
            listings.push(Listing { name, kind, description, shipped: !own, problem });
        }
    }
    listings
}

/// A resolved profile of any kind, for printing.
#[derive(Debug, Clone)]
pub struct Shown {
    pub kind: ProfileKind,
    pub name: String,
    /// Every value with its origin.
    pub rows: Vec<Row>,
    pub warnings: Vec<String>,
}

/// Resolves a profile of any kind; a name that several kinds have means the box before the model before the load.
pub fn show(reference: &str, env: &Env, overrides: &[String]) -> Result<Shown, ProfileErrors> {
    let shown = |kind, resolved: Resolved<String>| Shown {
        kind,
        name: resolved.value,
        rows: resolved.rows,
        warnings: resolved.warnings,
    };
    match kind_of(reference, env)? {
        kind @ ProfileKind::Box => load_box(reference, env, overrides).map(|r| shown(kind, r.map(|p| p.name))),
        kind @ ProfileKind::Model => load_model(reference, env, overrides).map(|r| shown(kind, r.map(|p| p.id))),
        kind @ ProfileKind::Load => {
            let overrides = WorkloadOverrides { set: overrides.to_vec(), ..WorkloadOverrides::default() };
            load_workload(reference, env, &overrides).map(|r| shown(kind, r.map(|load| load.name)))
        }
    }
}

/// What a check found in a sound profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub kind: ProfileKind,
    pub name: String,
    /// Values that are set by a file, a variable or a flag.
    pub set: usize,
    pub warnings: Vec<String>,
    /// Files on this machine that the profile needs. Whether they are there is not looked at here.
    pub needs: Vec<Needed>,
}

/// What a profile needs on this machine: one of `choices` whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// The key that says so: `keys.file`, `models.minilm-l6.files.weights.sources`.
    pub key: String,
    pub origin: Origin,
    /// The local files of each source, in the order in which they are tried; none for one that is fetched.
    pub choices: Vec<Vec<PathBuf>>,
}

impl Needed {
    /// The fault of a file of it that cannot be used.
    pub fn fault(&self, message: impl Into<String>) -> ProfileError {
        ProfileError::new(format!("{}: {}", self.key, message.into())).at(&self.origin)
    }
}

/// Checks a profile under this environment.
pub fn check(reference: &str, env: &Env) -> Result<Report, ProfileErrors> {
    let kind = kind_of(reference, env)?;
    let (shown, needs) = match kind {
        ProfileKind::Box => {
            let loaded = load_box(reference, env, &[])?;
            let origin = |key: &str| loaded.origin(key).cloned().unwrap_or(Origin::BuiltIn);
            let keys = loaded.value.keys_file.iter().map(|path| Needed {
                key: "keys.file".to_string(),
                origin: origin("keys.file"),
                choices: vec![vec![path.clone()]],
            });
            let models = loaded.value.models.iter();
            let files = models.flat_map(|model| files_of(model, &format!("models.{}.", model.id), &origin));
            let needs = keys.chain(files).collect();
            (loaded.map(|profile| profile.name), needs)
        }
        ProfileKind::Model => {
            let loaded = load_model(reference, env, &[])?;
            let origin = |key: &str| loaded.origin(key).cloned().unwrap_or(Origin::BuiltIn);
            let needs = files_of(&loaded.value, "", &origin);
            (loaded.map(|profile| profile.id), needs)
        }
        ProfileKind::Load => {
            let loaded = load_workload(reference, env, &WorkloadOverrides::default())?;
            (loaded.map(|load| load.name), Vec::new())
        }
    };
    let set = shown.rows.iter().filter(|row| row.origin != Origin::BuiltIn).count();
    Ok(Report { kind, name: shown.value, set, warnings: shown.warnings, needs })
}

/// The files of a model of which at least one source is on this machine.
fn files_of(model: &ModelProfile, prefix: &str, origin: &dyn Fn(&str) -> Origin) -> Vec<Needed> {
    let needed = |(role, file): (&FileRole, &ModelFile)| {
        let local = |part: &Source| if let Source::Local { path } = part { Some(path.clone()) } else { None };
        let choices: Vec<Vec<PathBuf>> =
            file.sources.iter().map(|parts| parts.iter().filter_map(local).collect()).collect();
        let key = format!("{prefix}files.{}.sources", role.name());
        choices.iter().any(|paths| !paths.is_empty()).then(|| Needed { origin: origin(&key), key, choices })
    };
    model.files.iter().filter_map(needed).collect()
}

/// What kind of profile `reference` is: by the list for names, by the keys for files.
pub fn kind_of(reference: &str, env: &Env) -> Result<ProfileKind, ProfileErrors> {
    let library = Library::new(env);
    if !is_path(reference) {
        for kind in ProfileKind::ALL {
            if library.names(kind).iter().any(|(name, _)| name == reference) {
                return Ok(kind);
            }
        }
        let names: Vec<_> = ProfileKind::ALL.iter().flat_map(|k| library.names(*k)).collect();
        let error = ProfileError::new(format!("there is no profile `{reference}`"));
        return Err(error.nearest(reference, names.iter().map(|(name, _)| name.as_str())).into());
    }
    let found = library.find(ProfileKind::Box, reference, None, &[])?;
    let root = parse(&found.text, &found.file)?;
    let has = |table: &[Key]| match &root.data {
        Data::Map(entries) => {
            entries.iter().filter(|e| e.key != "extends" && segments(table, "").contains(&e.key.as_str())).count()
        }
        _ => 0,
    };
    let counts = [(ProfileKind::Box, has(BOX)), (ProfileKind::Model, has(MODEL)), (ProfileKind::Load, has(&LOAD))];
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let mut likely = counts.iter().filter(|(_, count)| *count == most).map(|(kind, _)| *kind);
    match (likely.next(), likely.next()) {
        (Some(kind), None) => Ok(kind),
        _ => {
            if let Some(Node { data: Data::Scalar(base), .. }) =
                root.get("extends").map(|entry| &entry.value).filter(|_| most == 0)
            {
                return kind_of(&base.clone(), env);
            }
            let message = "neither a box profile (with `models`), a model profile (with `family`) nor a load (with \
                           `clients`)";
            Err(ProfileError::new(message).place(&root.at).into())
        }
    }
}
