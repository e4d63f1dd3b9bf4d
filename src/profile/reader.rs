//! Reads typed values out of a layer, gathering every fault instead of stopping at the first.

use super::error::ProfileError;
use super::keys::{Key, Kind};
use super::layer::{Layer, Setting};
use super::origin::{Origin, Place, Row};
use super::types::{Family, Source};
use super::value;
use super::yaml::{Data, Node};
use crate::control::Op;
use std::path::{Path, PathBuf};

/// A view of one profile's layer.
pub(super) struct Reader<'a> {
    pub table: &'static [Key],
    pub layer: &'a Layer,
    /// What stands before the keys in messages and rows: empty, or `models.ID.`.
    pub prefix: String,
    /// Where the profile begins, for errors about what is missing.
    pub start: &'a Place,
    pub errors: &'a mut Vec<ProfileError>,
    pub warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn key(&self, path: &str) -> &'static Key {
        self.table.iter().find(|key| key.path == path).expect("every path read here stands in the key table")
    }

    /// The value given for `path`; null counts as not given.
    pub fn given(&self, path: &str) -> Option<&Setting> {
        self.layer.get(path).filter(|setting| setting.data != Data::Null)
    }

    pub fn origin(&self, path: &str) -> Origin {
        self.given(path).map(|setting| setting.origin.clone()).unwrap_or(Origin::BuiltIn)
    }

    pub fn fault(&mut self, path: &str, message: impl Into<String>) {
        let origin = self.origin(path);
        let message = message.into();
        self.errors.push(ProfileError::new(message).at(&origin));
    }

    pub fn missing(&mut self, path: &str, why: &str) {
        let message = format!("`{}{path}` is required: {why}", self.prefix);
        self.errors.push(ProfileError::new(message).place(self.start));
    }

    /// The given text or the default, read by `read`. `None` when neither is there or the text is bad (recorded).
    fn scalar<T>(&mut self, path: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = match self.given(path) {
            Some(Setting { data: Data::Scalar(text), .. }) => text.clone(),
            Some(_) => return None, // refused by shape before
            None => self.key(path).default?.to_string(),
        };
        match read(&text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.fault(path, format!("`{}{path}`: {why}", self.prefix));
                None
            }
        }
    }

    pub fn text(&mut self, path: &str) -> Option<String> {
        self.scalar(path, |text| Ok(text.to_string()))
    }

    pub fn name(&mut self, path: &str) -> Option<String> {
        self.scalar(path, value::name)
    }

    pub fn word(&mut self, path: &str) -> Option<&'static str> {
        let Kind::OneOf(words) = self.key(path).kind else { return None };
        self.scalar(path, |text| value::one_of(text, words))
    }

    pub fn boolean(&mut self, path: &str) -> Option<bool> {
        self.scalar(path, value::boolean)
    }

    pub fn count(&mut self, path: &str) -> Option<u64> {
        match self.key(path).kind {
            Kind::Count { min, max } => self.scalar(path, |text| value::count(text, min, max)),
            Kind::Bytes { min, max } => self.scalar(path, |text| value::bytes(text, min, max)),
            _ => None,
        }
    }

    /// A count with a default; 0 stands in for a bad value, whose error is recorded.
    pub fn size(&mut self, path: &str) -> usize {
        self.count(path).and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }

    /// `None` where the word stands that is no number, and for a bad value, whose error is recorded.
    pub fn count_or(&mut self, path: &str) -> Option<usize> {
        let Kind::CountOr { word, min, max } = self.key(path).kind else { return None };
        self.scalar(path, |text| value::count_or(text, word, min, max)).flatten().and_then(|n| usize::try_from(n).ok())
    }

    pub fn time(&mut self, path: &str) -> Option<f64> {
        match self.key(path).kind {
            Kind::Millis { min, max } => self.scalar(path, |text| value::time(text, 1.0, min, max)),
            Kind::Seconds { min, max } => self.scalar(path, |text| value::time(text, 1000.0, min, max)),
            _ => None,
        }
    }

    /// A number, whole or not.
    pub fn number(&mut self, path: &str) -> Option<f64> {
        let Kind::Number { min, max } = self.key(path).kind else { return None };
        self.scalar(path, |text| value::number(text, min, max))
    }

    pub fn parsed<T>(&mut self, path: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.scalar(path, read)
    }

    pub fn path(&mut self, path: &str) -> Option<PathBuf> {
        let folder = folder(&self.origin(path));
        self.scalar(path, |text| Ok(value::path(text, folder.as_deref())))
    }

    /// A list of operations; a comma-separated text from outside the files.
    pub fn ops(&mut self, path: &str) -> Option<Vec<Op>> {
        let mut ops = Vec::new();
        for (text, origin) in self.items(path)? {
            match value::op(&text) {
                Ok(op) if ops.contains(&op) => self
                    .errors
                    .push(ProfileError::new(format!("`{}{path}`: {op} stands there twice", self.prefix)).at(&origin)),
                Ok(op) => ops.push(op),
                Err(why) => {
                    self.errors.push(ProfileError::new(format!("`{}{path}`: {why}", self.prefix)).at(&origin));
                }
            }
        }
        Some(ops)
    }

    /// Scalars of a list with their origins.
    fn items(&mut self, path: &str) -> Option<Vec<(String, Origin)>> {
        let Setting { data, origin, .. } = self.given(path)?.clone();
        match data {
            Data::Scalar(text) => Some(text.split(',').map(|item| (item.trim().to_string(), origin.clone())).collect()),
            Data::List(nodes) => {
                let items: Vec<_> = nodes.iter().filter_map(|node| self.item(path, node)).collect();
                Some(items)
            }
            _ => None,
        }
    }

    fn item(&mut self, path: &str, node: &Node) -> Option<(String, Origin)> {
        let Data::Scalar(text) = &node.data else {
            let message = format!("`{}{path}`: an item is a single value, not {}", self.prefix, node.data.kind());
            self.errors.push(ProfileError::new(message).place(&node.at));
            return None;
        };
        Some((text.clone(), Origin::File(node.at.clone())))
    }

    /// A list of sources, each a list of parts to concatenate.
    pub fn sources(&mut self, path: &str) -> Option<Vec<Vec<Source>>> {
        let Setting { data, origin, .. } = self.given(path)?.clone();
        let alternatives: Vec<Vec<(String, Origin)>> = match &data {
            Data::Scalar(_) => self.items(path)?.into_iter().map(|item| vec![item]).collect(),
            Data::List(nodes) => nodes
                .iter()
                .map(|node| match &node.data {
                    Data::List(parts) => parts.iter().filter_map(|part| self.item(path, part)).collect(),
                    _ => self.item(path, node).into_iter().collect(),
                })
                .collect(),
            _ => return None,
        };
        let mut sources = Vec::new();
        for parts in alternatives {
            let mut read = Vec::new();
            for (text, origin) in parts {
                match value::source(&text, folder(&origin).as_deref()) {
                    Ok(source) => read.push(source),
                    Err(why) => {
                        let message = format!("`{}{path}`: {why}", self.prefix);
                        self.errors.push(ProfileError::new(message).at(&origin));
                    }
                }
            }
            sources.push(read);
        }
        if sources.iter().any(Vec::is_empty) || sources.is_empty() {
            let message = format!("`{}{path}`: a list without any source", self.prefix);
            self.errors.push(ProfileError::new(message).at(&origin));
        }
        Some(sources)
    }

    /// Refuses what is set but means nothing for `family`.
    pub fn refuse_foreign(&mut self, family: Family) {
        let table = self.table;
        for key in table.iter().filter(|key| !key.applies_to(family)) {
            if self.given(key.path).is_some() {
                let families: Vec<_> = key.only.iter().map(|family| family.name()).collect();
                let message = format!(
                    "`{}{}` means nothing for family {}; it is for {}",
                    self.prefix,
                    key.path,
                    family.name(),
                    families.join(" and ")
                );
                self.fault(key.path, message);
            }
        }
    }

    /// What weaker layers say of a key, the strongest first; the default of the table last.
    fn beneath(&self, key: &Key) -> Vec<(Option<String>, Origin)> {
        let Some(setting) = self.given(key.path) else { return Vec::new() };
        let mut found = Vec::new();
        let mut under = setting.beneath.as_deref();
        while let Some(setting) = under {
            found.push((Some(render(&setting.data)), setting.origin.clone()));
            under = setting.beneath.as_deref();
        }
        if key.path != "extends" {
            found.push((key.default.map(str::to_string), Origin::BuiltIn));
        }
        found
    }

    /// Every key with its value and origin. `derived` gives values that follow from others.
    pub fn rows(&self, family: Option<Family>, derived: impl Fn(&str) -> Option<String>) -> Vec<Row> {
        let applies = |key: &&Key| {
            family.is_none_or(|family| key.applies_to(family)) && !matches!(key.kind, Kind::Models | Kind::Entries)
        };
        let mut rows = Vec::new();
        for key in self.table.iter().filter(applies) {
            let value = match self.given(key.path) {
                Some(setting) => Some(render(&setting.data)),
                None if key.path == "extends" => continue,
                None => derived(key.path).or(key.default.map(str::to_string)),
            };
            let beneath = self.beneath(key);
            let path = format!("{}{}", self.prefix, key.path);
            rows.push(Row { path, value, origin: self.origin(key.path), beneath });
        }
        rows
    }
}

/// The folder that relative paths of an origin start from.
fn folder(origin: &Origin) -> Option<PathBuf> {
    match origin {
        Origin::File(place) => place.file.folder.as_deref().map(Path::to_path_buf),
        _ => None,
    }
}

/// A value as it would stand in a file.
pub(super) fn render(data: &Data) -> String {
    match data {
        Data::Null => "null".to_string(),
        Data::Scalar(text) => text.clone(),
        Data::List(items) => {
            let items: Vec<_> = items.iter().map(|item| render(&item.data)).collect();
            format!("[{}]", items.join(", "))
        }
        Data::Map(entries) => {
            let entries: Vec<_> = entries.iter().map(|e| format!("{}: {}", e.key, render(&e.value.data))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}
