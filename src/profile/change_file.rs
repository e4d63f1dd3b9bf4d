//! A file of changes for a running engine (`lanekeeper apply`): read like a profile, each value with its place.

use super::error::{ProfileError, ProfileErrors};
use super::origin::{Place, SourceFile};
use super::value;
use super::yaml::{Data, Node, parse, unknown_key};
use crate::control::Predicate;
use std::sync::Arc;

/// What such a file may say.
const KEYS: [&str; 6] = ["set", "unset", "reason", "ttl", "guard", "persist"];

/// The changes that a file asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangeFile {
    /// Knob, value, and where it stands.
    pub set: Vec<(String, String, Place)>,
    /// Knobs to let go.
    pub unset: Vec<(String, Place)>,
    pub reason: Option<String>,
    pub ttl_s: Option<f64>,
    /// A condition that the engine holds the change to, while its time lasts.
    pub guard: Option<String>,
    pub persist: Option<bool>,
}

impl ChangeFile {
    /// Where the file says something of a knob.
    pub fn place(&self, knob: &str) -> Option<&Place> {
        let set = self.set.iter().find(|(name, ..)| name == knob).map(|(.., at)| at);
        set.or_else(|| self.unset.iter().find(|(name, _)| name == knob).map(|(_, at)| at))
    }
}

/// Reads a file of changes; `name` is what messages call it.
pub fn read_changes(text: &str, name: &str) -> Result<ChangeFile, ProfileErrors> {
    let file = Arc::new(SourceFile { display: name.to_string(), folder: None, shipped: false });
    let root = parse(text, &file)?;
    let (mut changes, mut errors) = (ChangeFile::default(), Vec::new());
    let Data::Map(entries) = &root.data else { return Ok(changes) };
    for entry in entries {
        let wrong = |errors: &mut Vec<ProfileError>, wants: &str| {
            let message = format!("`{}` takes {wants}, not {}", entry.key, entry.value.data.kind());
            errors.push(ProfileError::new(message).place(&entry.value.at));
        };
        match (entry.key.as_str(), &entry.value.data) {
            ("set" | "unset", Data::Null) => {}
            ("set", Data::Map(_)) => flatten("", &entry.value, &mut changes.set, &mut errors),
            ("set", _) => wrong(&mut errors, "a mapping of knobs to values"),
            ("unset", Data::List(nodes)) => {
                for node in nodes {
                    match &node.data {
                        Data::Scalar(knob) => changes.unset.push((knob.clone(), node.at.clone())),
                        _ => wrong(&mut errors, "a list of knobs"),
                    }
                }
            }
            ("unset", _) => wrong(&mut errors, "a list of knobs"),
            ("reason", Data::Scalar(text)) => changes.reason = Some(text.clone()),
            ("ttl", Data::Scalar(text)) => match value::seconds(text, 0.1, 2_592_000.0) {
                Ok(s) => changes.ttl_s = Some(s),
                Err(why) => errors.push(ProfileError::new(format!("`ttl`: {why}")).place(&entry.value.at)),
            },
            ("guard", Data::Scalar(text)) => match Predicate::parse(text) {
                Ok(_) => changes.guard = Some(text.clone()),
                Err(why) => errors.push(ProfileError::new(format!("`guard`: {why}")).place(&entry.value.at)),
            },
            ("persist", Data::Scalar(text)) => match value::boolean(text) {
                Ok(yes) => changes.persist = Some(yes),
                Err(why) => errors.push(ProfileError::new(format!("`persist`: {why}")).place(&entry.value.at)),
            },
            (key, _) if KEYS.contains(&key) => wrong(&mut errors, "a single value"),
            (key, _) => errors.push(unknown_key(key, key, &entry.at, KEYS.to_vec())),
        }
    }
    if errors.is_empty() { Ok(changes) } else { Err(ProfileErrors(errors)) }
}

/// Nested mappings and dotted names mean the same.
fn flatten(prefix: &str, node: &Node, set: &mut Vec<(String, String, Place)>, errors: &mut Vec<ProfileError>) {
    let Data::Map(entries) = &node.data else { return };
    for entry in entries {
        let name = if prefix.is_empty() { entry.key.clone() } else { format!("{prefix}.{}", entry.key) };
        match &entry.value.data {
            Data::Map(_) => flatten(&name, &entry.value, set, errors),
            Data::Scalar(_) if set.iter().any(|(known, ..)| *known == name) => {
                errors.push(ProfileError::new(format!("`{name}` is set twice")).place(&entry.at));
            }
            Data::Scalar(text) => set.push((name, text.clone(), entry.at.clone())),
            other => {
                let message = format!("`{name}` takes a single value, not {}", other.kind());
                let error = ProfileError::new(message).hint("list it under `unset` to let it go");
                errors.push(error.place(&entry.value.at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_and_dotted_names_mean_the_same() {
        let text = "reason: evening\nttl: 2h\nguard: requests.total<9\nset:\n  models.a.wait_ms: 3\n  models:\n    a:\n      lanes: {recordings: {share: 0.3}}\nunset: [models.a.depth]\n";
        let changes = read_changes(text, "x.yaml").unwrap();
        let set: Vec<_> = changes.set.iter().map(|(n, v, at)| (n.as_str(), v.as_str(), at.line)).collect();
        assert_eq!(set, [("models.a.wait_ms", "3", 5), ("models.a.lanes.recordings.share", "0.3", 8)]);
        assert_eq!((changes.ttl_s, changes.reason.as_deref()), (Some(7_200.0), Some("evening")));
        assert_eq!(changes.place("models.a.depth").map(|at| (at.line, at.column)), Some((9, 9)));
        assert_eq!(changes.guard.as_deref(), Some("requests.total<9"));
    }

    #[test]
    fn every_fault_has_its_place() {
        let text = "sett: {}\nset: {a: [1], b: 2, b.c: 3}\nunset: a\nttl: soon\npersist: {}\n";
        let errors = read_changes(text, "x.yaml").unwrap_err().to_string();
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 5, "{errors}");
        assert!(lines[0].starts_with("x.yaml:1:1: ") && lines[0].contains("did you mean `set`"), "{errors}");
        assert!(lines[1].starts_with("x.yaml:2:10: `a` takes a single value"), "{errors}");
        assert!(
            read_changes("set: {a: {b: 1}, a.b: 2}", "x.yaml").unwrap_err().to_string().contains("`a.b` is set twice")
        );
        let guard = read_changes("ttl: 1m\nguard: requests.total<", "x.yaml").unwrap_err().to_string();
        assert!(guard.starts_with("x.yaml:2:8: `guard`: column 16: expected a value"), "{guard}");
        assert_eq!(read_changes("", "x.yaml").unwrap(), ChangeFile::default());
    }
}
