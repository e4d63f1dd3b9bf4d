//! From a name or path to a resolved profile: files, then environment, then command line, then typed values.

use super::env::{self, Env, Outside, Target};
use super::error::{ProfileError, ProfileErrors};
use super::keys::{BOX, Key, MODEL};
use super::layer::{self, Layer, Setting, Stack};
use super::library::{Library, ProfileKind};
use super::origin::{Origin, Place, Resolved, Row};
use super::reader::Reader;
use super::types::{BoxProfile, Family, ModelProfile};
use super::yaml::{Data, Node};
use super::{build_box, build_model, value};
use crate::control::nearest;
use std::sync::Arc;

/// Resolves a box profile. `overrides` are `KEY=VALUE` settings of the command line, the last winning.
pub fn load_box(reference: &str, env: &Env, overrides: &[String]) -> Result<Resolved<BoxProfile>, ProfileErrors> {
    BoxBase::read(reference, env, overrides)?.resolve(&[])
}

/// A box profile with all that was said of it from outside, from which it is resolved, with live settings over it, as
/// often as those change. Files and environment are read once.
#[derive(Debug, Clone)]
pub struct BoxBase {
    stack: Stack,
    models: Vec<Model>,
    /// What drafts for each of them.
    drafts: Vec<Option<Box<ModelProfile>>>,
    faults: Faults,
}

/// A live setting: a dotted key and its value.
pub type Live<'a> = (&'a str, &'a str);

impl BoxBase {
    /// Reads files, environment and command line. What is wrong with the values shows when they are resolved.
    pub fn read(reference: &str, env: &Env, overrides: &[String]) -> Result<BoxBase, ProfileErrors> {
        let library = Library::new(env);
        let mut faults = Faults::default();
        let mut stack =
            layer::load(&library, ProfileKind::Box, BOX, reference, None, &mut Vec::new(), &mut faults.errors)?;
        let overrides = split_overrides(overrides, &mut faults.errors);
        override_model_list(&mut stack.layer, env, &overrides);
        let mut models = models(&library, &stack, &mut faults.errors);
        for setting in outside(env, &overrides, &models, true, &mut faults) {
            apply(setting, Some(&mut stack.layer), &mut models);
        }
        let drafts = models.iter().map(|m| draft(&library, m, &format!("models.{}.", m.id), &mut faults)).collect();
        Ok(BoxBase { stack, models, drafts, faults })
    }

    /// The typed profile, with `live` settings over all others. Every rule holds that holds at a start.
    pub fn resolve(&self, live: &[Live<'_>]) -> Result<Resolved<BoxProfile>, ProfileErrors> {
        let BoxBase { mut stack, mut models, drafts, mut faults } = self.clone();
        for (name, value) in live {
            match self.target(name) {
                Ok(target) => {
                    let setting = Setting::new(Data::Scalar(value.to_string()), Origin::Live);
                    apply(Aimed { target, setting }, Some(&mut stack.layer), &mut models);
                }
                Err(error) => faults.errors.push(error),
            }
        }
        let (profiles, model_rows) = build_models(&models, drafts, &mut faults);
        let mut reader = faults.reader(BOX, &stack.layer, String::new(), &stack.start);
        match build_box::build(&mut reader, &stack.name, profiles) {
            Some((value, mut rows)) if faults.errors.is_empty() => {
                rows.extend(model_rows);
                Ok(Resolved { value, rows, warnings: faults.warnings })
            }
            _ => Err(ProfileErrors(faults.errors)),
        }
    }

    /// The row of the key table that a dotted name means, if this box has it. An unknown one names the nearest.
    pub fn key(&self, name: &str) -> Result<&'static Key, ProfileError> {
        let (table, path) = match self.target(name)? {
            Target::Box(path) => (BOX, path),
            Target::Model(_, path) => (MODEL, path),
        };
        Ok(table.iter().find(|key| key.path == path).expect("a target is made of a row of the table"))
    }

    fn target(&self, name: &str) -> Result<Target, ProfileError> {
        let ids: Vec<&str> = self.models.iter().map(|model| model.id.as_str()).collect();
        let target = target(name, &ids)?;
        let (Target::Model(index, path), Some(family)) = (&target, self.families(&target)) else { return Ok(target) };
        let means = MODEL.iter().any(|key| key.path == *path && key.applies_to(family));
        if means {
            return Ok(target);
        }
        let message = format!("`{name}` means nothing: `{}` is of family {}", ids[*index], family.name());
        let known = MODEL.iter().filter(|key| key.settable() && key.applies_to(family));
        Err(ProfileError::new(message).nearest(path, known.map(|key| key.path)))
    }

    fn families(&self, target: &Target) -> Option<Family> {
        match target {
            Target::Box(_) => None,
            Target::Model(index, _) => self.models[*index].family,
        }
    }
}

/// Resolves a model profile alone, as `pull` wants it. Settings in `overrides` may name its keys with or without
/// `models.ID.`.
pub fn load_model(reference: &str, env: &Env, overrides: &[String]) -> Result<Resolved<ModelProfile>, ProfileErrors> {
    let library = Library::new(env);
    let mut faults = Faults::default();
    let stack = layer::load(&library, ProfileKind::Model, MODEL, reference, None, &mut Vec::new(), &mut faults.errors)?;
    let mut models = Vec::from([Model::new(stack.start.clone(), stack.layer)]);
    let prefix = format!("models.{}.", models[0].id);
    let overrides: Vec<(String, String)> = split_overrides(overrides, &mut faults.errors)
        .into_iter()
        .map(|(key, value)| if key.starts_with("models.") { (key, value) } else { (format!("{prefix}{key}"), value) })
        .collect();
    for setting in outside(env, &overrides, &models, false, &mut faults) {
        apply(setting, None, &mut models);
    }
    let model = &models[0];
    let mut reader = faults.reader(MODEL, &model.layer, String::new(), &model.start);
    let built = build_model::build(&mut reader);
    let draft = draft(&library, model, "", &mut faults);
    match built.map(|(value, rows)| (ModelProfile { draft, ..value }, rows)) {
        Some((value, rows)) if faults.errors.is_empty() => Ok(Resolved { value, rows, warnings: faults.warnings }),
        _ => Err(ProfileErrors(faults.errors)),
    }
}

/// What is gathered on the way.
#[derive(Debug, Clone, Default)]
struct Faults {
    errors: Vec<ProfileError>,
    warnings: Vec<String>,
}

impl Faults {
    fn reader<'a>(
        &'a mut self,
        table: &'static [Key],
        layer: &'a Layer,
        prefix: String,
        start: &'a Place,
    ) -> Reader<'a> {
        Reader { table, layer, prefix, start, errors: &mut self.errors, warnings: &mut self.warnings }
    }
}

/// A model of a box, before it is typed.
#[derive(Debug, Clone)]
struct Model {
    /// Empty when the profile has none (an error that building reports).
    id: String,
    family: Option<Family>,
    start: Place,
    layer: Layer,
}

impl Model {
    fn new(start: Place, layer: Layer) -> Self {
        let scalar = |key: &str| match layer.get(key) {
            Some(Setting { data: Data::Scalar(text), .. }) => text.clone(),
            _ => String::new(),
        };
        Model { id: scalar("id"), family: value::family(&scalar("family")), start, layer }
    }

    fn batched(&self) -> bool {
        self.family != Some(Family::Llama)
    }
}

/// The models that the box names, in order.
fn models(library: &Library, stack: &Stack, errors: &mut Vec<ProfileError>) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    let Some(Setting { data, origin, .. }) = stack.layer.get("models") else {
        errors.push(ProfileError::new("`models` is required: what the box serves").place(&stack.start));
        return models;
    };
    let nodes = match data {
        Data::List(nodes) => nodes.clone(),
        Data::Scalar(names) => names_as_nodes(names, &stack.start),
        _ => Vec::new(),
    };
    if nodes.is_empty() {
        errors.push(ProfileError::new("`models` is empty: a box serves at least one model").at(origin));
    }
    let mut places: Vec<Place> = Vec::new();
    for node in nodes {
        let model = match load_entry(library, &node, errors) {
            Ok(model) => model,
            Err(error) => {
                let outside = !matches!(origin, Origin::File(_));
                errors.push(match (&error.at, outside) {
                    (None, true) => error.at(origin),
                    (None, false) => error.place(&node.at),
                    _ => error,
                });
                continue;
            }
        };
        let same = |known: &&Model| env::variable(&known.id) == env::variable(&model.id) && !model.id.is_empty();
        if let Some(index) = models.iter().position(|known| same(&known)) {
            let message = format!(
                "models `{}` (line {}) and `{}` are told apart by nothing: give one another `id`",
                models[index].id, places[index].line, model.id
            );
            errors.push(ProfileError::new(message).place(&node.at));
        }
        places.push(node.at.clone());
        models.push(model);
    }
    models
}

fn load_entry(library: &Library, node: &Node, errors: &mut Vec<ProfileError>) -> Result<Model, ProfileError> {
    match &node.data {
        Data::Scalar(reference) => {
            let folder = node.at.file.folder.clone();
            let mut seen = Vec::new();
            let stack =
                layer::load(library, ProfileKind::Model, MODEL, reference, folder.as_deref(), &mut seen, errors)?;
            Ok(Model::new(stack.start, stack.layer))
        }
        Data::Map(_) => {
            let layer = layer::extend(library, ProfileKind::Model, MODEL, node, &mut Vec::new(), errors)?;
            Ok(Model::new(node.at.clone(), layer))
        }
        other => Err(ProfileError::new(format!("a model is a name or a mapping, not {}", other.kind()))),
    }
}

/// `a,b` from the environment or the command line, as the list it stands for. Paths in it start from the working
/// folder, as on any command line.
fn names_as_nodes(names: &str, start: &Place) -> Vec<Node> {
    let file = super::origin::SourceFile { display: start.file.display.clone(), folder: None, shipped: false };
    let at = Place { file: Arc::new(file), line: 1, column: 1 };
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| Node { at: at.clone(), data: Data::Scalar(name.to_string()) }).collect()
}

fn split_overrides(overrides: &[String], errors: &mut Vec<ProfileError>) -> Vec<(String, String)> {
    let mut split = Vec::new();
    for text in overrides {
        match text.split_once('=') {
            Some((key, value)) => split.push((key.trim().to_string(), value.trim().to_string())),
            None => errors.push(ProfileError::new(format!("--set {text}: not KEY=VALUE"))),
        }
    }
    split
}

/// The list of models decides which other settings exist, so it is settled first.
fn override_model_list(layer: &mut Layer, env: &Env, overrides: &[(String, String)]) {
    let variable = env::variable("models");
    if let Some(names) = env.get(&variable) {
        let origin = Origin::Env { variable, alias: false };
        layer::put(layer, "models", Setting::new(Data::Scalar(names.to_string()), origin));
    }
    if let Some((key, names)) = overrides.iter().rev().find(|(key, _)| key == "models") {
        let origin = Origin::CommandLine { setting: format!("{key}={names}") };
        layer::put(layer, key.as_str(), Setting::new(Data::Scalar(names.clone()), origin));
    }
}

/// A setting with the layer that it is meant for.
struct Aimed {
    target: Target,
    setting: Setting,
}

/// Environment and command line, weakest first.
fn outside(
    env: &Env,
    overrides: &[(String, String)],
    models: &[Model],
    strict: bool,
    faults: &mut Faults,
) -> Vec<Aimed> {
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    let batched = |index: usize| models[index].batched();
    let found = env::settings(env, &ids, batched, strict, &mut faults.errors, &mut faults.warnings);
    let mut aimed: Vec<Aimed> = found
        .into_iter()
        .map(|Outside { target, name, value, alias }| {
            let origin = Origin::Env { variable: name, alias };
            Aimed { target, setting: Setting::new(Data::Scalar(value), origin) }
        })
        .collect();
    for (key, value) in overrides {
        let origin = Origin::CommandLine { setting: format!("{key}={value}") };
        match target(key, &ids) {
            Ok(target) => aimed.push(Aimed { target, setting: Setting::new(Data::Scalar(value.clone()), origin) }),
            Err(error) => faults.errors.push(error.at(&origin)),
        }
    }
    aimed
}

/// What a dotted key of `--set` is about.
fn target(key: &str, ids: &[&str]) -> Result<Target, ProfileError> {
    if let Some(known) = BOX.iter().find(|row| row.path == key && row.settable()) {
        return Ok(Target::Box(known.path));
    }
    let rest = key.strip_prefix("models.").unwrap_or_default();
    for (index, id) in ids.iter().enumerate() {
        if let Some(inner) = rest.strip_prefix(id).and_then(|inner| inner.strip_prefix('.')) {
            let known = MODEL.iter().filter(|row| row.settable());
            return match known.clone().find(|row| row.path == inner) {
                Some(row) => Ok(Target::Model(index, row.path)),
                None => {
                    Err(ProfileError::new(format!("unknown key `{key}`")).nearest(inner, known.map(|row| row.path)))
                }
            };
        }
    }
    let error = ProfileError::new(format!("unknown key `{key}`"));
    if !rest.is_empty() {
        return Err(error.hint(format!("the models served are {}", ids.join(", "))));
    }
    if ids.iter().any(|id| key.strip_prefix(id).is_some_and(|inner| inner.starts_with('.'))) {
        return Err(error.hint(format!("did you mean `models.{key}`?")));
    }
    Err(match nearest(key, BOX.iter().map(|row| row.path)) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`lanekeeper profile show` lists the keys"),
    })
}

fn apply(aimed: Aimed, layer: Option<&mut Layer>, models: &mut [Model]) {
    match aimed.target {
        // Settled before the models were loaded.
        Target::Box("models") => {}
        Target::Box(key) => {
            if let Some(layer) = layer {
                layer::put(layer, key, aimed.setting);
            }
        }
        Target::Model(index, key) => {
            layer::put(&mut models[index].layer, key, aimed.setting);
        }
    }
}

fn build_models(
    models: &[Model],
    drafts: Vec<Option<Box<ModelProfile>>>,
    faults: &mut Faults,
) -> (Vec<ModelProfile>, Vec<Row>) {
    let (mut profiles, mut rows) = (Vec::new(), Vec::new());
    for (model, draft) in models.iter().zip(drafts) {
        let prefix = format!("models.{}.", model.id);
        let mut reader = faults.reader(MODEL, &model.layer, prefix, &model.start);
        if let Some((profile, own_rows)) = build_model::build(&mut reader) {
            profiles.push(ModelProfile { draft, ..profile });
            rows.extend(own_rows);
        }
    }
    (profiles, rows)
}

/// The model that drafts for `model`, if its profile names one. Its settings come from its own profile alone.
fn draft(library: &Library, model: &Model, prefix: &str, faults: &mut Faults) -> Option<Box<ModelProfile>> {
    const KEY: &str = "speculation.draft_model";
    let Setting { data: Data::Scalar(reference), origin, .. } = model.layer.get(KEY)? else { return None };
    // As in `extends`: a path in a file starts from that file's folder, on the command line from the working folder.
    let folder = match origin {
        Origin::File(place) => place.file.folder.clone(),
        _ => None,
    };
    let (table, kind, mut seen) = (MODEL, ProfileKind::Model, Vec::new());
    let stack = match layer::load(library, kind, table, reference, folder.as_deref(), &mut seen, &mut faults.errors) {
        Ok(stack) => stack,
        Err(error) => {
            let error = if error.at.is_none() { error.at(origin) } else { error };
            faults.errors.push(error);
            return None;
        }
    };
    let mut reader = faults.reader(MODEL, &stack.layer, String::new(), &stack.start);
    let (profile, _) = build_model::build(&mut reader)?;
    if profile.generation.is_none() {
        let message = format!("`{prefix}{KEY}` is `{}`, which does not generate", profile.id);
        faults.errors.push(ProfileError::new(message).at(origin).hint("it must be a model of the family llama"));
        return None;
    }
    Some(Box::new(profile))
}
