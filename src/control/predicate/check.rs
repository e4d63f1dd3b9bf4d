//! Whether the names and values of a condition mean something: its paths are walked through the JSON schema of what it is
//! about, and through a document where members of lists are named.

use super::judge::{identity, member};
use super::syntax::{Comparison, Expression, Literal, Name, Path, Spot};
use super::{MEMBERS, Predicate, PredicateError, SILENT};
use crate::control::nearest;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What stands at the end of a path.
#[derive(Debug, Clone, PartialEq)]
enum Leaf {
    Number,
    Bool,
    /// With the words that it may be; empty = any text.
    Text(Vec<String>),
    List,
    Object,
    /// The schema does not say.
    Anything,
}

pub(super) fn check(predicate: &Predicate, root: &Value, document: &Value) -> Result<(), PredicateError> {
    let document = (!document.is_null()).then_some(document);
    Checker { text: predicate.text(), root, document }.expression(predicate.expression())
}

struct Checker<'c> {
    text: &'c str,
    root: &'c Value,
    document: Option<&'c Value>,
}

type Checked<T> = Result<T, PredicateError>;

impl<'c> Checker<'c> {
    fn wrong(&self, at: &Spot, message: impl Into<String>) -> PredicateError {
        PredicateError::new(self.text, at, message)
    }

    fn expression(&self, expression: &Expression) -> Checked<()> {
        match expression {
            Expression::All(terms) | Expression::Any(terms) => terms.iter().try_for_each(|term| self.expression(term)),
            Expression::Not(inner) => self.expression(inner),
            Expression::Holds(path) => match self.leaf(path)? {
                Leaf::Bool | Leaf::Anything => Ok(()),
                other => Err(self.misused(path, &other, "it is not true or false by itself")),
            },
            Expression::Compare(comparison) => self.comparison(comparison),
        }
    }

    fn comparison(&self, c: &Comparison) -> Checked<()> {
        let (leaf, field) = (self.leaf(&c.path)?, c.path.field());
        let ordered = |what: &str| {
            let operator = c.operator.sign();
            self.wrong(&c.at, format!("`{field}` is {what}: it has no order that `{operator}` could mean"))
                .hint(Some("use == or !=".to_string()))
        };
        match (&leaf, &c.value) {
            (Leaf::Anything, _) => Ok(()),
            (Leaf::Number, Literal::Number { unit: Some(unit), .. })
                if unit.seconds().is_some() && c.path.per_second().is_none() =>
            {
                Err(self.wrong(&c.at, format!("`{field}` counts no time")).hint(Some("leave the unit out".to_string())))
            }
            (Leaf::Number, Literal::Number { .. }) => Ok(()),
            (Leaf::Bool, Literal::Bool(_)) if c.operator.orders() => Err(ordered("true or false")),
            (Leaf::Bool, Literal::Bool(_)) => Ok(()),
            (Leaf::Text(_), Literal::Text(_)) if c.operator.orders() => Err(ordered("a text")),
            (Leaf::Text(words), Literal::Text(said)) if !words.is_empty() && !words.contains(said) => {
                let near =
                    nearest(said, words.iter().map(String::as_str)).map(|word| format!("did you mean `{word}`?"));
                let hint = near.unwrap_or_else(|| format!("it is one of {}", words.join(", ")));
                Err(self.wrong(&c.at, format!("`{field}` is never `{said}`")).hint(Some(hint)))
            }
            (Leaf::Text(_), Literal::Text(_)) => Ok(()),
            (Leaf::Text(_), _) => {
                Err(self.wrong(&c.at, format!("`{field}` is a text")).hint(Some("put it in quotes".to_string())))
            }
            (Leaf::Number, _) => Err(self.wrong(&c.at, format!("`{field}` is a number"))),
            (Leaf::Bool, _) => Err(self.wrong(&c.at, format!("`{field}` is true or false"))),
            (Leaf::List | Leaf::Object, _) => Err(self.misused(&c.path, &leaf, "it is no single value")),
        }
    }

    fn misused(&self, path: &Path, leaf: &Leaf, why: &str) -> PredicateError {
        let (what, hint) = match leaf {
            Leaf::Number => ("a number", "compare it: == != < <= > >="),
            Leaf::Text(_) => ("a text", "compare it: == !="),
            Leaf::List => ("a list", "name a member, or `count`"),
            _ => ("an object", "name one of its fields"),
        };
        self.wrong(&last(path).at, format!("`{}` is {what}, and {why}", path.field())).hint(Some(hint.to_string()))
    }

    fn leaf(&self, path: &Path) -> Checked<Leaf> {
        let root = self.alternatives(self.root);
        let found = self.walk(root, self.document, &path.names, "")?;
        let leaf = leaf(&found);
        if leaf == Leaf::Object
            && let Some(same) = self.fields(&found).remove(path.field())
        {
            return Ok(self::leaf(&same));
        }
        Ok(leaf)
    }

    /// Follows `names` from what one of `schemas` describes and `document` is, where there is one.
    fn walk(
        &self,
        schemas: Vec<&'c Value>,
        document: Option<&'c Value>,
        names: &[Name],
        of: &str,
    ) -> Checked<Vec<&'c Value>> {
        let Some((first, rest)) = names.split_first() else { return Ok(schemas) };
        if let Some(items) = self.items(&schemas) {
            return self.in_list(items, document, names, of);
        }
        let mut fields = self.fields(&schemas);
        if let Some(found) = fields.remove(first.text.as_str()) {
            return self.walk(found, document.and_then(|d| d.get(&first.text)), rest, &first.text);
        }
        if let Some(any) = schemas.iter().find_map(|s| s.get("additionalProperties")).filter(|any| any.is_object()) {
            let inner = self.alternatives(any);
            return self.walk(inner, document.and_then(|d| d.get(&first.text)), rest, &first.text);
        }
        if fields.is_empty() {
            let what = if schemas.iter().all(|s| kinds(s).is_empty()) { "is no object" } else { "is a single value" };
            return Err(self.wrong(&first.at, format!("`{of}` {what} and has no `{}`", first.text)));
        }
        // A list whose name may be left out: what is in it counts as known here.
        let silent = SILENT.iter().find(|name| fields.contains_key(**name));
        if let Some(name) = silent
            && let Some(items) = fields.get(*name).and_then(|list| self.items(list))
        {
            let list = document.and_then(|d| d.get(*name));
            let members = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let known = first.text == "count" || member(members, name, names).is_some();
            if known || list.is_none() {
                return self.in_list(items, list, names, name);
            }
            let inside = self.fields(&items);
            if inside.contains_key(first.text.as_str()) {
                return match members {
                    [one] => self.walk(items, Some(one), names, ""),
                    _ => Err(self
                        .wrong(
                            &first.at,
                            format!("there are {} {name} here, and each has `{}`", members.len(), first.text),
                        )
                        .hint(Some(format!("say which: {}", called(members, name).join(", "))))),
                };
            }
            // A member that may still come; but a member as a whole is no value, so a lone name is none.
            if !fixed(name) && !rest.is_empty() {
                return self.in_list(items, list, names, name);
            }
            if fixed(name) {
                fields.extend(inside);
            }
        }
        let known: Vec<&str> = fields.keys().copied().collect();
        let whose = if of.is_empty() { "there is no field".to_string() } else { format!("`{of}` has no") };
        Err(self.unknown(first, format!("{whose} `{}`", first.text), &known))
    }

    fn in_list(
        &self,
        items: Vec<&'c Value>,
        document: Option<&'c Value>,
        names: &[Name],
        of: &str,
    ) -> Checked<Vec<&'c Value>> {
        static NUMBER: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| serde_json::json!({"type": "integer"}));
        let Some((first, rest)) = names.split_first() else { return Ok(items) };
        if first.text == "count" && rest.is_empty() {
            return Ok(vec![&NUMBER]);
        }
        if !MEMBERS.iter().any(|(name, ..)| *name == of) {
            let hint = format!("say {of}.count");
            return Err(self.wrong(&first.at, format!("the members of `{of}` have no names")).hint(Some(hint)));
        }
        let members = document.and_then(Value::as_array);
        if let Some((found, taken)) = members.and_then(|members| member(members, of, names)) {
            return self.walk(items, Some(found), &names[taken..], last_of(names, taken));
        }
        match members {
            Some(members) if fixed(of) => {
                let known = called(members, of);
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Err(self.unknown(first, format!("there is no `{}` in `{of}`", first.text), &known))
            }
            // It is not there now, and how much of the path is its name is not known: whatever leaves a sound rest.
            _ => {
                let tries = (1..=names.len())
                    .map(|taken| self.walk(items.clone(), None, &names[taken..], last_of(names, taken)));
                let mut first_fault = None;
                for tried in tries {
                    match tried {
                        Ok(found) => return Ok(found),
                        Err(fault) => drop(first_fault.get_or_insert(fault)),
                    }
                }
                Err(first_fault.unwrap_or_else(|| self.wrong(&first.at, "there is no such member")))
            }
        }
    }

    fn unknown(&self, name: &Name, message: String, known: &[&str]) -> PredicateError {
        let near = nearest(&name.text, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        let hint = near.or_else(|| (!known.is_empty()).then(|| format!("it has {}", known.join(", "))));
        self.wrong(&name.at, message).hint(hint)
    }

    /// What a value may be, all references followed; `null` left out.
    fn alternatives(&self, schema: &'c Value) -> Vec<&'c Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or_else(Vec::new, |target| self.alternatives(target));
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(list) = schema.get(key).and_then(Value::as_array) {
                let mut all: Vec<&Value> = list.iter().flat_map(|one| self.alternatives(one)).collect();
                if schema.get("properties").is_some() {
                    all.push(schema);
                }
                return all;
            }
        }
        if schema.get("type").and_then(Value::as_str) == Some("null") { Vec::new() } else { vec![schema] }
    }

    /// The fields of objects, each with what it may be.
    fn fields(&self, schemas: &[&'c Value]) -> BTreeMap<&'c str, Vec<&'c Value>> {
        let mut fields: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        let objects = schemas.iter().filter_map(|schema| schema.get("properties")?.as_object());
        for (name, schema) in objects.flat_map(Map::iter) {
            fields.entry(name).or_default().extend(self.alternatives(schema));
        }
        fields
    }

    /// What the members of a list may be; `None` for what is no list.
    fn items(&self, schemas: &[&'c Value]) -> Option<Vec<&'c Value>> {
        let list = schemas.iter().find(|schema| kinds(schema).contains(&"array"))?;
        Some(list.get("items").map_or_else(Vec::new, |items| self.alternatives(items)))
    }
}

fn last(path: &Path) -> &Name {
    path.names.last().expect("a path has a name: the parser reads at least one")
}

fn last_of(names: &[Name], taken: usize) -> &str {
    names.get(taken - 1).map_or("", |name| name.text.as_str())
}

fn fixed(list: &str) -> bool {
    MEMBERS.iter().any(|(name, _, fixed)| *name == list && *fixed)
}

/// What the members of a list are called.
fn called(members: &[Value], of: &str) -> Vec<String> {
    let key = MEMBERS.iter().find(|(name, ..)| *name == of).map_or("", |(_, key, _)| key);
    members.iter().filter_map(|member| identity(member, key)).collect()
}

fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn leaf(schemas: &[&Value]) -> Leaf {
    let has = |kind: &str| schemas.iter().any(|schema| kinds(schema).contains(&kind));
    if has("array") {
        Leaf::List
    } else if schemas.iter().any(|schema| schema.get("properties").is_some()) || has("object") {
        Leaf::Object
    } else if has("number") || has("integer") {
        Leaf::Number
    } else if has("boolean") {
        Leaf::Bool
    } else {
        let listed = schemas.iter().filter_map(|schema| schema.get("enum")?.as_array()).flatten();
        let one = schemas.iter().filter_map(|schema| schema.get("const"));
        let words: Vec<String> = listed.chain(one).filter_map(|word| Some(word.as_str()?.to_string())).collect();
        if words.is_empty() && !has("string") { Leaf::Anything } else { Leaf::Text(words) }
    }
}
