//! Files → layers: a profile's tree flattened to dotted keys, laid over the profiles it extends.

use super::error::ProfileError;
use super::keys::{Key, Kind, segments};
use super::library::{Found, Library, ProfileKind};
use super::origin::{Origin, Place, SourceFile};
use super::yaml::{Data, Entry, Node, parse, unknown_key};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest chain of `extends`.
const MAX_CHAIN: usize = 8;

/// A value as given, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub data: Data,
    pub origin: Origin,
    /// The setting that this one hides, of a weaker layer.
    pub beneath: Option<Box<Setting>>,
}

impl Setting {
    pub fn new(data: Data, origin: Origin) -> Setting {
        Setting { data, origin, beneath: None }
    }
}

/// Sets a key; what it was set to before stays known as the layer beneath.
pub(super) fn put(layer: &mut Layer, path: impl Into<String>, setting: Setting) {
    let path = path.into();
    let beneath = layer.remove(&path).map(Box::new);
    layer.insert(path, Setting { beneath, ..setting });
}

/// Dotted keys with their values.
pub(super) type Layer = BTreeMap<String, Setting>;

/// A profile's files, merged.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    /// Name of the outermost file.
    pub name: String,
    /// Where the outermost profile begins, for errors about what is missing.
    pub start: Place,
    pub layer: Layer,
}

/// Loads `reference` and what it extends.
pub(super) fn load(
    library: &Library,
    kind: ProfileKind,
    table: &'static [Key],
    reference: &str,
    from: Option<&std::path::Path>,
    seen: &mut Vec<Arc<SourceFile>>,
    errors: &mut Vec<ProfileError>,
) -> Result<Stack, ProfileError> {
    let Found { name, text, file } = library.find(kind, reference, from, seen)?;
    if seen.contains(&file) || seen.len() >= MAX_CHAIN {
        let chain: Vec<_> = seen.iter().map(|file| file.display.as_str()).collect();
        return Err(ProfileError::new(format!("profiles extend each other in a circle: {}", chain.join(" → "))));
    }
    let root = parse(&text, &file)?;
    seen.push(file);
    let layer = extend(library, kind, table, &root, seen, errors)?;
    Ok(Stack { name, start: root.at, layer })
}

/// Flattens `root` over what its `extends` names.
pub(super) fn extend(
    library: &Library,
    kind: ProfileKind,
    table: &'static [Key],
    root: &Node,
    seen: &mut Vec<Arc<SourceFile>>,
    errors: &mut Vec<ProfileError>,
) -> Result<Layer, ProfileError> {
    let mut layer = match root.get("extends") {
        None => Layer::new(),
        Some(Entry { value: Node { data: Data::Scalar(base), at }, .. }) => {
            let folder = at.file.folder.clone();
            let at_extends = |error: ProfileError| if error.at.is_none() { error.place(at) } else { error };
            load(library, kind, table, base, folder.as_deref(), seen, errors).map_err(at_extends)?.layer
        }
        Some(entry) => {
            return Err(ProfileError::new(format!("`extends` takes one name, not {}", entry.value.data.kind()))
                .place(&entry.value.at));
        }
    };
    flatten(root, table, "", &mut layer, errors);
    Ok(layer)
}

/// Writes the leaves of `node` over `layer`.
pub(super) fn flatten(
    node: &Node,
    table: &'static [Key],
    prefix: &str,
    layer: &mut Layer,
    errors: &mut Vec<ProfileError>,
) {
    let Data::Map(entries) = &node.data else { return };
    for entry in entries {
        let path = format!("{prefix}{}", entry.key);
        if let Some(key) = table.iter().find(|key| key.path == path) {
            if shape_fits(key.kind, &entry.value, &path, errors) {
                let origin = Origin::File(entry.value.at.clone());
                put(layer, path, Setting::new(entry.value.data.clone(), origin));
            }
            continue;
        }
        let inner = format!("{path}.");
        if !table.iter().any(|key| key.path.starts_with(&inner)) {
            errors.push(unknown_key(&path, &entry.key, &entry.at, segments(table, prefix)));
            continue;
        }
        match &entry.value.data {
            Data::Map(_) => flatten(&entry.value, table, &inner, layer, errors),
            Data::Null => {}
            other => errors.push(
                ProfileError::new(format!("`{path}` is a mapping, not {}", other.kind()))
                    .hint(format!("known in it: {}", segments(table, &inner).join(", ")))
                    .place(&entry.value.at),
            ),
        }
    }
}

/// Whether a value has the shape that its key wants: a list for list keys, a scalar for all others; null for any.
fn shape_fits(kind: Kind, value: &Node, path: &str, errors: &mut Vec<ProfileError>) -> bool {
    let list = matches!(kind, Kind::Ops | Kind::Sources | Kind::Models | Kind::Entries);
    let fits = match &value.data {
        Data::Null => true,
        Data::Scalar(_) => !list,
        Data::List(_) => list,
        Data::Map(_) => false,
    };
    if !fits {
        let wanted = if list { "a list" } else { "a single value" };
        let message = format!("`{path}` takes {wanted}, not {}", value.data.kind());
        errors.push(ProfileError::new(message).place(&value.at));
    }
    fits
}
