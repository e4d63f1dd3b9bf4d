//! Strikes names out of a report: who uses the box, what it is called, where things lie.
//!
//! Names are collected from the fields that hold them, and then struck wherever they stand as a word: a fault may quote a
//! client, a finding a path. Pure.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Fields that hold names, and what such a name is.
const FIELDS: [(&str, &str); 3] = [("node", "node"), ("client", "client"), ("actor", "actor")];
/// Names of no one: the door's and the engine's own words.
const OURS: [&str; 4] = ["local", "engine", "cpu", ""];
/// Fields of what people wrote; nothing of it stays.
const WRITTEN: [&str; 1] = ["reason"];
/// Shorter names are struck in their own fields alone: as words they stand for much else.
const WORD: usize = 3;

/// The names of a report and what stands for each.
#[derive(Debug, Default)]
pub struct Redaction {
    /// Longest first, so that a name inside another does not spoil it.
    names: Vec<(String, String)>,
    counts: BTreeMap<&'static str, usize>,
}

impl Redaction {
    /// Collects the names that a report holds.
    pub fn of(report: &Value) -> Redaction {
        let mut redaction = Redaction::default();
        redaction.collect(report);
        redaction
    }

    /// Names of the machine and its user, by what they are.
    pub fn local(&mut self, names: impl IntoIterator<Item = (&'static str, String)>) {
        names.into_iter().for_each(|(kind, name)| self.name(kind, &name));
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    match (FIELDS.iter().find(|(field, _)| field == key), value) {
                        (Some((_, kind)), Value::String(name)) => self.name(kind, name),
                        _ => self.collect(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    fn name(&mut self, kind: &'static str, name: &str) {
        if OURS.contains(&name) || self.names.iter().any(|(known, _)| known == name) {
            return;
        }
        let count = self.counts.entry(kind).or_insert(0);
        *count += 1;
        let stands = format!("<{kind} {count}>");
        // `key:LABEL`: the label alone is a client's name too.
        let label = name.split_once(':').filter(|(kind, _)| *kind == "key").map(|(_, label)| label.to_string());
        self.names.push((name.to_string(), stands.clone()));
        if let Some(label) = label.filter(|label| !self.names.iter().any(|(known, _)| known == label)) {
            self.names.push((label, stands));
        }
        self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }

    /// Strikes them, and paths, URLs and addresses.
    pub fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(fields) => {
                let struck = std::mem::take(fields).into_iter().map(|(key, mut value)| {
                    self.field(&key, &mut value);
                    (self.text(&key), value)
                });
                *fields = struck.collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn field(&self, key: &str, value: &mut Value) {
        let Value::String(text) = value else { return self.apply(value) };
        if WRITTEN.contains(&key) {
            *text = format!("<{key}>");
        } else if FIELDS.iter().any(|(field, _)| *field == key) {
            *text = self.names.iter().find(|(name, _)| name == text).map_or(text.clone(), |(_, stands)| stands.clone());
        } else {
            *text = self.text(text);
        }
    }

    fn text(&self, text: &str) -> String {
        let mut struck = text.to_string();
        for (name, stands) in self.names.iter().filter(|(name, _)| name.len() >= WORD) {
            struck = replace_word(&struck, name, stands);
        }
        let mut whole = String::with_capacity(struck.len());
        let mut rest = struck.as_str();
        while !rest.is_empty() {
            let end = rest.find(|c| !in_token(c)).unwrap_or(rest.len());
            let (token, after) = rest.split_at(end);
            // A full stop or a colon behind it belongs to the sentence.
            let bare = token.trim_end_matches([':', '.']);
            whole.push_str(shown(bare));
            whole.push_str(&token[bare.len()..]);
            let gap = after.find(in_token).unwrap_or(after.len());
            whole.push_str(&after[..gap]);
            rest = &after[gap..];
        }
        whole
    }
}

/// Replaces a name where no letter, digit or dash joins it to a longer word.
fn replace_word(text: &str, name: &str, stands: &str) -> String {
    let joins = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let alone = !before.chars().next_back().is_some_and(joins) && !after.chars().next().is_some_and(joins);
        out.push_str(before);
        out.push_str(if alone { stands } else { name });
        rest = after;
    }
    out + rest
}

/// What a path, a URL or an address is made of.
fn in_token(c: char) -> bool {
    c.is_alphanumeric() || "/.~:@+-_%[]".contains(c)
}

/// What stands for a word that may tell where something is.
fn shown(token: &str) -> &str {
    let path = token.strip_prefix("file:").unwrap_or(token);
    let address = token.parse::<SocketAddr>().map(|a| a.ip()).or_else(|_| token.parse::<IpAddr>());
    match address {
        Ok(ip) if ip.is_loopback() || ip.is_unspecified() => token,
        Ok(_) => "<address>",
        Err(_) if token.contains("://") => "<url>",
        Err(_) if token.starts_with("file:") => "<path>",
        // One slash is a route or a unit; a path of a machine has a name behind it.
        Err(_) if (path.starts_with('/') && path.len() > 1 && !is_route(path)) || path.starts_with("~/") => "<path>",
        Err(_) => token,
    }
}

/// The engine's own routes are no paths of a machine.
fn is_route(path: &str) -> bool {
    ["/v1/", "/control/v1/"].iter().any(|root| path.starts_with(root))
        || ["/livez", "/readyz", "/progressz", "/metrics"].contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redacted(mut report: Value) -> Value {
        let mut redaction = Redaction::of(&report);
        redaction.local([("host", "gpu-box-7".to_string()), ("path", "/home/ada".to_string())]);
        redaction.apply(&mut report);
        report
    }

    #[test]
    fn names_are_struck_wherever_they_stand_and_stay_told_apart() {
        let report = redacted(json!({
            "snapshot": {
                "node": "atelier",
                "requests": {"shown": [{"client": "acme", "model": "whisper-tiny-en"}, {"client": "local"}, {"client": "zeta"}]},
                "reasons": ["client acme took nothing", "acme-like stays", "on gpu-box-7"],
            },
            "journal": [{"actor": "key:acme", "reason": "acme complained", "knob": "models.w.wait_ms"}],
        }));
        let shown = &report["snapshot"]["requests"]["shown"];
        assert_ne!(shown[0]["client"], shown[2]["client"]);
        assert_eq!((&shown[1]["client"], &shown[0]["model"]), (&json!("local"), &json!("whisper-tiny-en")));
        assert_eq!(report["snapshot"]["reasons"][1], "acme-like stays");
        assert_eq!(report["journal"][0]["knob"], "models.w.wait_ms");
        assert_eq!(report["journal"][0]["reason"], "<reason>");
        let text = report.to_string();
        for name in ["atelier", "\"acme\"", "zeta", "gpu-box-7", "complained", "acme took"] {
            assert!(!text.contains(name), "{name} in {text}");
        }
    }

    #[test]
    fn paths_urls_and_addresses_are_struck_and_routes_and_loopback_stay() {
        let of = |text: &str| redacted(json!([text]))[0].as_str().unwrap_or_default().to_string();
        assert_eq!(of("/srv/models/w.gguf: cannot open"), "<path>: cannot open");
        assert_eq!(of("under /home/ada now"), "under <path 1> now");
        assert_eq!(of("file:w.gguf or ~/x"), "<path> or <path>");
        assert_eq!(of("from https://host.example/x?y"), "from <url>?y");
        assert_eq!(of("10.1.2.3:8741 is free"), "<address> is free");
        assert_eq!(of("127.0.0.1:8741 and 0.0.0.0"), "127.0.0.1:8741 and 0.0.0.0");
        assert_eq!(
            of("POST /v1/embeddings at 3.5 tokens/s, lanes/clips"),
            "POST /v1/embeddings at 3.5 tokens/s, lanes/clips"
        );
        assert_eq!(of("[fe80::1]:80"), "<address>");
    }

    proptest! {
        /// Whatever a client is called, its name is gone as a word, and nothing panics.
        #[test]
        fn no_name_stays(client in "[a-z][a-z0-9.]{3,12}", text in "\\PC{0,40}") {
            let quoted = format!("{text} {client} {text}");
            let report = redacted(json!({"client": client, "why": quoted}));
            prop_assert!(report["client"].as_str().unwrap_or_default().starts_with('<') || OURS.contains(&client.as_str()));
            let why = report["why"].as_str().unwrap_or_default().to_string();
            prop_assert!(OURS.contains(&client.as_str()) || why.split(' ').all(|word| word != client), "{why}");
        }
    }
}
