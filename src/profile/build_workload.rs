//! A load from its files and the command line.

use super::adaptive;
use super::env::Env;
use super::error::{ProfileError, ProfileErrors};
use super::keys::{Key, Kind};
use super::layer::{self, Layer, Setting, Stack};
use super::library::{Library, ProfileKind};
use super::origin::{Origin, Place, Resolved, Row, SourceFile};
use super::reader::{Reader, render};
use super::spread::Spread;
use super::value;
use super::workload::{ArrivalPattern, ClientClass, LaneService, SchedulerSettings, Workload};
use super::workload_keys::{CLIENTS, LOAD, SETTINGS, is_scheduler_key};
use super::yaml::{Data, Node};
use crate::control::nearest;
use std::sync::Arc;

/// What the command line says about a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadOverrides {
    /// `KEY=VALUE`: a key of the load, `clients.NAME.KEY`, or a scheduler key, which then holds for every setting.
    pub set: Vec<String>,
    /// `KEY=VALUE,VALUE…`: a scheduler key; every setting is tried with every value.
    pub vary: Vec<String>,
    /// `NAME=COUNTxLENGTH` or `NAME=RATE/sxLENGTH`: these classes in place of the load's.
    pub clients: Vec<String>,
}

/// Batches in flight at once where a load says nothing: as on a GPU.
const DEPTH: usize = 2;
/// Requests in one batch of a load that does not say.
const BATCH_REQUESTS: usize = 12;

/// Most settings that one run tries: the product of what is varied grows fast.
const MOST_SETTINGS: usize = 64;

/// A layer of values with a name and a place for errors: a class of clients, or one of the settings.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    start: Place,
    layer: Layer,
    /// A value of its own was replaced by another one: its name may speak of what is not tried.
    replaced: bool,
}

/// Reads a load by name or path, with what the command line says.
pub fn load_workload(
    reference: &str,
    env: &Env,
    overrides: &WorkloadOverrides,
) -> Result<Resolved<Workload>, ProfileErrors> {
    let library = Library::new(env);
    let mut errors = Vec::new();
    let mut seen = Vec::new();
    let Stack { name, start, layer } =
        layer::load(&library, ProfileKind::Load, &LOAD, reference, None, &mut seen, &mut errors)?;
    let classes = if overrides.clients.is_empty() {
        parts(&layer, "clients", CLIENTS, &mut errors)
    } else {
        overrides.clients.iter().filter_map(|text| keep(class_of_flag(text, &start), &mut errors)).collect()
    };
    if classes.is_empty() && errors.is_empty() {
        errors.push(ProfileError::new("`clients` is required: who sends requests").place(&start));
    }
    let settings = parts(&layer, "settings", &SETTINGS, &mut errors);
    Draft { name, start, layer, classes, settings, errors }.finish(overrides)
}

/// A load without clients, of these values: what an engine is known to be set to, with what the command line says.
/// `name` is that of the values' source, for messages.
pub fn workload_of_values(
    name: &str,
    values: &[(&str, String)],
    overrides: &WorkloadOverrides,
) -> Result<Resolved<Workload>, ProfileErrors> {
    let file = SourceFile { display: name.to_string(), folder: None, shipped: false };
    let start = Place { file: Arc::new(file), line: 1, column: 1 };
    let setting = |value: &String| Setting::new(Data::Scalar(value.clone()), Origin::BuiltIn);
    let layer = values.iter().map(|(key, value)| (key.to_string(), setting(value))).collect();
    let (classes, settings, errors) = (Vec::new(), Vec::new(), Vec::new());
    Draft { name: name.to_string(), start, layer, classes, settings, errors }.finish(overrides)
}

/// A load on its way from layers to values.
struct Draft {
    name: String,
    start: Place,
    layer: Layer,
    classes: Vec<Part>,
    settings: Vec<Part>,
    errors: Vec<ProfileError>,
}

impl Draft {
    fn finish(mut self, overrides: &WorkloadOverrides) -> Result<Resolved<Workload>, ProfileErrors> {
        self.override_with(overrides);
        let Draft { name, start, layer, classes, settings, mut errors } = self;
        let mut warnings = Vec::new();
        let mut reader = Reader {
            table: &LOAD,
            layer: &layer,
            prefix: String::new(),
            start: &start,
            errors: &mut errors,
            warnings: &mut warnings,
        };
        let mut built = build(&mut reader, &name);
        let mut rows = reader.rows(None, |_| None);
        for part in &classes {
            let mut reader = part.reader(CLIENTS, "clients", &mut errors, &mut warnings);
            built.clients.extend(class(&mut reader));
            rows.extend(reader.rows(None, |_| None));
        }
        for part in &settings {
            // The setting's own values over those of the load.
            let mut merged = part.clone();
            for (path, value) in layer.iter().filter(|(path, _)| is_scheduler_key(path)) {
                merged.layer.entry(path.clone()).or_insert_with(|| value.clone());
            }
            let mut reader = merged.reader(&SETTINGS, "settings", &mut errors, &mut warnings);
            built.settings.extend(scheduler_settings(&mut reader));
            rows.extend(own_rows(part));
        }
        one_name_each(&classes, "clients", &mut errors);
        one_name_each(&settings, "settings", &mut errors);
        if errors.is_empty() { Ok(Resolved { value: built, rows, warnings }) } else { Err(ProfileErrors(errors)) }
    }

    fn override_with(&mut self, overrides: &WorkloadOverrides) {
        if self.settings.is_empty() {
            let (start, data) = (self.start.clone(), Data::Scalar(self.name.clone()));
            let layer = Layer::from([("name".to_string(), Setting::new(data, Origin::BuiltIn))]);
            self.settings.push(Part { name: self.name.clone(), start, layer, replaced: false });
        }
        for text in &overrides.set {
            keep(set(text, &mut self.layer, &mut self.classes, &mut self.settings), &mut self.errors);
        }
        for text in &overrides.vary {
            if let Some(varied) = keep(vary(text, &self.settings), &mut self.errors) {
                self.settings = varied;
            }
        }
        self.settings.iter_mut().filter(|part| part.replaced).for_each(Part::name_after_values);
        // Settings that differed in what was replaced alone are one now.
        let all = std::mem::take(&mut self.settings);
        let is_new = |(index, part): &(usize, &Part)| {
            let twin = |(at, other): (usize, &Part)| (at < *index || !other.replaced) && other.says_the_same(part);
            !part.replaced || !all.iter().enumerate().any(twin)
        };
        self.settings = all.iter().enumerate().filter(is_new).map(|(_, part)| part.clone()).collect();
    }
}

impl Part {
    /// Puts a value in place of its own, or beside its others.
    fn put(&mut self, key: &str, setting: Setting) {
        let (new, old) = (setting.data.clone(), self.layer.insert(key.to_string(), setting));
        self.replaced |= old.is_some_and(|old| old.data != new);
    }

    /// What it says itself, its name apart.
    fn own(&self) -> impl Iterator<Item = (&String, &Setting)> {
        self.layer.iter().filter(|(path, _)| *path != "name")
    }

    fn name_after_values(&mut self) {
        let values: Vec<String> = self.own().map(|(path, s)| format!("{path}={}", render(&s.data))).collect();
        self.name = values.join(", ");
        if let Some(name) = self.layer.get_mut("name") {
            name.data = Data::Scalar(self.name.clone());
        }
    }

    fn says_the_same(&self, other: &Part) -> bool {
        self.own().map(|(path, s)| (path, &s.data)).eq(other.own().map(|(path, s)| (path, &s.data)))
    }

    fn reader<'a>(
        &'a self,
        table: &'static [Key],
        list: &str,
        errors: &'a mut Vec<ProfileError>,
        warnings: &'a mut Vec<String>,
    ) -> Reader<'a> {
        let prefix = format!("{list}.{}.", self.name);
        Reader { table, layer: &self.layer, prefix, start: &self.start, errors, warnings }
    }
}

/// What one of the settings says itself, for people.
fn own_rows(part: &Part) -> Vec<Row> {
    let prefix = format!("settings.{}.", part.name);
    let row = |(path, setting): (&String, &Setting)| Row {
        path: format!("{prefix}{path}"),
        value: Some(render(&setting.data)),
        origin: setting.origin.clone(),
        beneath: Vec::new(),
    };
    part.own().map(row).collect()
}

fn keep<T>(result: Result<T, ProfileError>, errors: &mut Vec<ProfileError>) -> Option<T> {
    result.map_err(|error| errors.push(error)).ok()
}

/// The mappings of a list, each flattened to its own layer.
fn parts(layer: &Layer, list: &str, table: &'static [Key], errors: &mut Vec<ProfileError>) -> Vec<Part> {
    let Some(Setting { data: Data::List(nodes), .. }) = layer.get(list) else { return Vec::new() };
    nodes.iter().enumerate().filter_map(|(index, node)| part(list, index, node, table, errors)).collect()
}

fn part(list: &str, index: usize, node: &Node, table: &'static [Key], errors: &mut Vec<ProfileError>) -> Option<Part> {
    let Data::Map(_) = &node.data else {
        let message = format!("`{list}` is a list of mappings; this item is {}", node.data.kind());
        errors.push(ProfileError::new(message).place(&node.at));
        return None;
    };
    let mut layer = Layer::new();
    layer::flatten(node, table, "", &mut layer, errors);
    let Some(Setting { data: Data::Scalar(name), .. }) = layer.get("name") else {
        errors.push(ProfileError::new(format!("item {} of `{list}` has no `name`", index + 1)).place(&node.at));
        return None;
    };
    Some(Part { name: name.clone(), start: node.at.clone(), layer, replaced: false })
}

fn one_name_each(parts: &[Part], list: &str, errors: &mut Vec<ProfileError>) {
    for (index, part) in parts.iter().enumerate() {
        if let Some(first) = parts[..index].iter().find(|other| other.name == part.name) {
            let message = format!("`{list}` has `{}` twice; the first is in line {}", part.name, first.start.line);
            errors.push(ProfileError::new(message).place(&part.start));
        }
    }
}

/// `clips=16x5..15` or `clips=2.5/sx5..15`.
fn class_of_flag(text: &str, start: &Place) -> Result<Part, ProfileError> {
    let origin = Origin::CommandLine { setting: text.to_string() };
    let wrong = || {
        ProfileError::new(format!("--clients {text}: not NAME=COUNTxLENGTH or NAME=RATE/sxLENGTH"))
            .hint("for example clips=16x5..15, or clips=2.5/sx10")
    };
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (many, length) = rest.split_once('x').ok_or_else(wrong)?;
    let (key, many) = match many.trim().strip_suffix("/s") {
        Some(rate) => ("rate", rate),
        None => ("clients", many.trim()),
    };
    let values = [("name", name.trim()), (key, many), ("length", length.trim())];
    let setting = |value: &str| Setting::new(Data::Scalar(value.to_string()), origin.clone());
    let layer = values.iter().map(|(key, value)| (key.to_string(), setting(value))).collect();
    Ok(Part { name: name.trim().to_string(), start: start.clone(), layer, replaced: false })
}

/// `--set KEY=VALUE`.
fn set(text: &str, load: &mut Layer, classes: &mut [Part], settings: &mut [Part]) -> Result<(), ProfileError> {
    let (key, value) = text.split_once('=').ok_or_else(|| ProfileError::new(format!("--set {text}: not KEY=VALUE")))?;
    let (key, value) = (key.trim(), value.trim());
    let origin = Origin::CommandLine { setting: text.to_string() };
    let setting = Setting::new(Data::Scalar(value.to_string()), origin.clone());
    if let Some(rest) = key.strip_prefix("clients.") {
        return set_class(key, rest, setting, classes).map_err(|error| error.at(&origin));
    }
    let scalar = |row: &&Key| row.kind != Kind::Entries && row.path != "extends";
    let known: Vec<&str> = LOAD.iter().filter(scalar).map(|row| row.path).collect();
    if !known.contains(&key) {
        let error = ProfileError::new(format!("unknown key `{key}`")).at(&origin);
        return Err(match nearest(key, known) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("lanekeeper-load(5) lists the keys"),
        });
    }
    if is_scheduler_key(key) {
        // It holds for every setting, whatever the load's own settings say.
        settings.iter_mut().filter(|part| part.layer.contains_key(key)).for_each(|part| part.put(key, setting.clone()));
    }
    load.insert(key.to_string(), setting);
    Ok(())
}

fn set_class(key: &str, rest: &str, setting: Setting, classes: &mut [Part]) -> Result<(), ProfileError> {
    let names: Vec<String> = classes.iter().map(|part| part.name.clone()).collect();
    let found = classes.iter_mut().find_map(|part| {
        let inner = rest.strip_prefix(part.name.as_str())?.strip_prefix('.')?;
        Some((part, inner))
    });
    let Some((part, inner)) = found else {
        let error = ProfileError::new(format!("unknown key `{key}`"));
        return Err(error.hint(format!("the classes of clients are {}", names.join(", "))));
    };
    let known = CLIENTS.iter().map(|row| row.path).filter(|path| *path != "name");
    if !known.clone().any(|path| path == inner) {
        return Err(ProfileError::new(format!("unknown key `{key}`")).nearest(inner, known));
    }
    part.layer.insert(inner.to_string(), setting);
    Ok(())
}

/// `--vary KEY=VALUE,VALUE…`: every setting with every value.
fn vary(text: &str, settings: &[Part]) -> Result<Vec<Part>, ProfileError> {
    let origin = Origin::CommandLine { setting: text.to_string() };
    let (key, values) = text.split_once('=').ok_or_else(|| {
        ProfileError::new(format!("--vary {text}: not KEY=VALUE,VALUE…")).hint("for example depth=1,2")
    })?;
    let (key, values) = (key.trim(), values.split(',').map(str::trim));
    if !is_scheduler_key(key) {
        let known = SETTINGS.iter().map(|row| row.path).filter(|path| *path != "name");
        let message = format!("--vary {text}: `{key}` is not a key of the scheduler");
        let error = ProfileError::new(message);
        return Err(match nearest(key, known.clone()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("these can be varied: {}", known.collect::<Vec<_>>().join(", "))),
        });
    }
    let only_one = settings.len() == 1;
    let mut varied = Vec::new();
    for value in values {
        for part in settings {
            let mut part = part.clone();
            let label = format!("{key}={value}");
            part.name = if only_one { label } else { format!("{}, {label}", part.name) };
            let setting = |value: &str| Setting::new(Data::Scalar(value.to_string()), origin.clone());
            part.layer.insert("name".to_string(), setting(&part.name));
            part.put(key, setting(value));
            varied.push(part);
        }
    }
    if varied.len() > MOST_SETTINGS {
        let message = format!("--vary {text}: {} settings to try, at most {MOST_SETTINGS} at once", varied.len());
        return Err(ProfileError::new(message));
    }
    Ok(varied)
}

/// The load without its lists.
fn build(reader: &mut Reader<'_>, name: &str) -> Workload {
    let clips = LaneService {
        overhead_ms: reader.time("service.clips.overhead_ms").unwrap_or(0.0),
        item_ms: reader.time("service.clips.item_ms").unwrap_or(0.0),
        rate: reader.number("service.clips.rate").unwrap_or_else(|| {
            if reader.given("service.clips.rate").is_none() {
                reader.missing("service.clips.rate", "how fast clips are computed");
            }
            1.0
        }),
    };
    let recordings = LaneService {
        overhead_ms: reader.time("service.recordings.overhead_ms").unwrap_or(0.0),
        item_ms: 0.0,
        rate: reader.number("service.recordings.rate").unwrap_or(clips.rate),
    };
    let (duration_s, warm_up_s) = (reader.time("duration_s").unwrap_or(0.0), reader.time("warm_up_s").unwrap_or(0.0));
    if warm_up_s >= duration_s && duration_s > 0.0 {
        reader.fault("warm_up_s", format!("`warm_up_s` is {warm_up_s}, the whole duration of {duration_s} s"));
    }
    Workload {
        name: name.to_string(),
        description: reader.text("description").unwrap_or_default(),
        duration_s,
        warm_up_s,
        seed: reader.count("seed").unwrap_or(0),
        batches: reader.count("batches"),
        clips,
        recordings,
        clients: Vec::new(),
        settings: Vec::new(),
    }
}

fn class(reader: &mut Reader<'_>) -> Option<ClientClass> {
    if reader.given("length").is_none() {
        reader.missing("length", "seconds of audio or tokens of text");
    }
    let (clients, per_s) = (reader.count("clients"), reader.number("rate"));
    let arrivals = match (clients, per_s) {
        (Some(_), Some(_)) => {
            reader.fault("rate", "`clients` and `rate` exclude each other: clients wait for answers, a rate does not");
            None
        }
        (Some(clients), None) => {
            let think_s = reader.parsed("think_s", Spread::parse);
            think_s.map(|think_s| ArrivalPattern::Closed { clients, think_s })
        }
        (None, Some(per_s)) => {
            let poisson = reader.word("arrivals")? == "poisson";
            Some(ArrivalPattern::Open { per_s, poisson })
        }
        (None, None) => {
            if reader.given("clients").is_none() && reader.given("rate").is_none() {
                reader.missing("clients", "how many clients there are, or `rate`, how many requests come per second");
            }
            None
        }
    };
    Some(ClientClass {
        name: reader.name("name")?,
        op: reader.parsed("op", value::op)?,
        length: reader.parsed("length", Spread::parse)?,
        start_s: reader.time("start_s")?,
        requests: reader.count("requests"),
        timeout_s: reader.time("timeout_s"),
        retries: reader.count("retries")?,
        arrivals: arrivals?,
    })
}

fn scheduler_settings(reader: &mut Reader<'_>) -> Option<SchedulerSettings> {
    Some(SchedulerSettings {
        name: reader.text("name")?,
        max_batch_cost: reader.count("max_batch_tokens"),
        max_batch_requests: reader.count("max_batch_requests").map_or(BATCH_REQUESTS, |n| n as usize),
        wait_ms: reader.time("wait_ms")?,
        coalesce_ms: reader.time("coalesce_ms")?,
        coalesce_ratio: reader.number("coalesce_ratio")?,
        idle_bypass: reader.boolean("idle_bypass")?,
        depth: reader.count("depth").and_then(|n| usize::try_from(n).ok()).unwrap_or(DEPTH),
        slice_windows: reader.count_or("long_form.slice_windows"),
        recordings_share: reader.number("lanes.recordings.share")?,
        keep_owed: reader.boolean("lanes.keep_owed")?,
        owed: reader.boolean("lanes.owed")?,
        adaptive: adaptive::read(reader),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(set: &[&str], vary: &[&str]) -> Result<Workload, String> {
        let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let overrides = WorkloadOverrides { set: strings(set), vary: strings(vary), clients: Vec::new() };
        load_workload("mixed", &Env::empty(), &overrides).map(|r| r.value).map_err(|e| e.to_string())
    }

    #[test]
    fn a_setting_wins_over_the_load_and_the_command_line_over_both() {
        let windows = |load: &Workload| load.settings.iter().map(|s| s.slice_windows).collect::<Vec<_>>();
        let load = mixed(&[], &[]).unwrap();
        assert_eq!(windows(&load), [None, Some(1), Some(1)]);
        assert!(load.settings.iter().all(|s| s.depth == 2 && s.max_batch_cost == Some(720_000)));
        let load = mixed(&["long_form.slice_windows=3", "depth=1"], &[]).unwrap();
        assert_eq!(windows(&load), [Some(3); 3]);
        assert!(load.settings.iter().all(|s| s.depth == 1));
    }

    #[test]
    fn what_is_varied_is_multiplied_and_named() {
        let load = mixed(&[], &["depth=1,2", "wait_ms=5ms,10ms"]).unwrap();
        assert_eq!(load.settings.len(), 12);
        let last = load.settings.last().unwrap();
        assert_eq!((last.depth, last.wait_ms), (2, 10.0));
        assert_eq!(last.name, "slices, share 0.7, depth=2, wait_ms=10ms");
        let many = (1..=22).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert!(mixed(&[], &[&format!("max_batch_requests={many}")]).unwrap_err().contains("66 settings"));
    }

    #[test]
    fn a_name_never_speaks_of_a_value_that_was_replaced() {
        let names = |set: &[&str], vary: &[&str]| -> Vec<String> {
            mixed(set, vary).unwrap().settings.into_iter().map(|s| s.name).collect()
        };
        // The share was the only difference between two of the three.
        assert_eq!(
            names(&["lanes.recordings.share=0.9"], &[]),
            ["whole recordings", "lanes.recordings.share=0.9, long_form.slice_windows=1"]
        );
        assert_eq!(
            names(&["long_form.slice_windows=2"], &[]),
            [
                "long_form.slice_windows=2",
                "lanes.recordings.share=0.5, long_form.slice_windows=2",
                "lanes.recordings.share=0.7, long_form.slice_windows=2",
            ]
        );
        assert_eq!(
            names(&[], &["lanes.recordings.share=0.5,0.9"]),
            [
                "whole recordings, lanes.recordings.share=0.5",
                "slices, share 0.5, lanes.recordings.share=0.5",
                "whole recordings, lanes.recordings.share=0.9",
                "lanes.recordings.share=0.9, long_form.slice_windows=1",
            ]
        );
        // Neither a value that is its own already nor one that it says nothing of makes a name untrue.
        assert_eq!(names(&["depth=1"], &[]), names(&[], &[]));
        let load = mixed(&["long_form.slice_windows=whole"], &[]).unwrap();
        assert_eq!((load.settings[0].name.as_str(), load.settings[0].slice_windows), ("whole recordings", None));
        let shares: Vec<f64> =
            mixed(&[], &["lanes.recordings.share=0.3"]).unwrap().settings.iter().map(|s| s.recordings_share).collect();
        assert_eq!(shares, [0.3, 0.3]);
    }

    #[test]
    fn every_shipped_load_is_sound() {
        for (_, name, _) in super::super::SHIPPED.iter().filter(|(kind, ..)| *kind == ProfileKind::Load) {
            let load = load_workload(name, &Env::empty(), &WorkloadOverrides::default());
            let load = load.unwrap_or_else(|e| panic!("{name}: {e}")).value;
            assert!(!load.clients.is_empty() && !load.description.is_empty(), "{name}");
        }
    }
}
