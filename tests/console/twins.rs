//! Each view's twin: what the command tells as data is as the committed schema has it, and stands on the screen.

use super::schema::faults;
use super::stage::{Engine, Terminal, recorded};
use lanekeeper::control::Snapshot;
use lanekeeper::tui::text;
use serde_json::Value;

/// How a figure is shown.
type Shown = fn(&Value) -> String;

const TEXT: Shown = |value| value.as_str().unwrap().to_string();
const COUNT: Shown = |value| text::count(value.as_u64().unwrap());
const TIME: Shown = |value| text::duration(value.as_f64().unwrap());
const SPEED: Shown = |value| text::short(value.as_f64().unwrap());
const GAIN: Shown = |value| format!("x{:.2}", value.as_f64().unwrap());
const PERCENT: Shown = |value| text::percent(value.as_f64().unwrap());
const BYTES: Shown = |value| text::bytes(value.as_u64().unwrap());
/// Where a word stands in a sentence.
const WORDS: Shown = |value| value.as_str().unwrap().replace('_', " ");
/// A knob's name without what all models' knobs begin with.
const KNOB: Shown = |value| TEXT(value).trim_start_matches("models.").to_string();

/// A key, its command, the schema of what that tells, and the figures that both must have: dotted paths, `*` for each
/// item of a list.
struct Twin {
    key: &'static str,
    command: &'static [&'static str],
    schema: &'static str,
    figures: &'static [(&'static str, Shown)],
}

const fn twin(
    key: &'static str,
    command: &'static [&'static str],
    schema: &'static str,
    figures: &'static [(&'static str, Shown)],
) -> Twin {
    Twin { key, command, schema, figures }
}

const TWINS: [Twin; 12] = [
    twin(
        "1",
        &["status"],
        "snapshot",
        &[
            ("node", TEXT),
            ("state", TEXT),
            ("host.resident_bytes", BYTES),
            ("devices.*.description", TEXT),
            ("requests.total", COUNT),
            ("generation.*.latency.p95_ms", TIME),
        ],
    ),
    twin(
        "1",
        &["models"],
        "view-models",
        &[
            ("*.id", TEXT),
            ("*.queues.*.latency.p50_ms", TIME),
            ("*.queues.*.latency.p95_ms", TIME),
            ("*.queues.*.counters.served", COUNT),
        ],
    ),
    twin(
        "2",
        &["lanes"],
        "view-lanes",
        &[
            ("queues.*.model", TEXT),
            ("queues.*.lanes.*.pending", COUNT),
            ("queues.*.lanes.*.served", COUNT),
            ("queues.*.lanes.*.cancelled", COUNT),
            ("queues.*.lanes.*.oldest_wait_ms", TIME),
            ("queues.*.next.why", WORDS),
            ("queues.*.inflight.*.running_ms", TIME),
            ("queues.*.latency.max_ms", TIME),
            ("generation.*.kv_capacity_tokens", COUNT),
            ("generation.*.active.*.request", TEXT),
            ("generation.*.decode_tokens_per_s", SPEED),
        ],
    ),
    twin(
        "2",
        &["turns"],
        "view-turns",
        &[
            ("*.turn.kind", TEXT),
            ("*.turn.number", COUNT),
            ("*.turn.members_left", COUNT),
            ("*.turn.owed.*.request", TEXT),
            ("*.turn.owed.*.waited_ms", TIME),
            ("*.recordings_share", PERCENT),
            ("*.next.lane_why", WORDS),
        ],
    ),
    twin(
        "3",
        &["caps"],
        "view-caps",
        &[
            ("*.model", TEXT),
            ("*.caps.coalesce_ms", TIME),
            ("*.caps.wait_ms", TIME),
            ("*.caps.max_queue", COUNT),
            ("*.caps.max_batch_cost_source", TEXT),
            ("*.controller.mode", TEXT),
            ("*.controller.target_ms", TIME),
            ("*.controller.observed_p50_ms", TIME),
            ("*.controller.fill_ratio", PERCENT),
        ],
    ),
    twin(
        "4",
        &["speculation"],
        "view-speculation",
        &[
            ("*.model", TEXT),
            ("*.policy", TEXT),
            ("*.predicted_gain", GAIN),
            ("*.measured_gain", GAIN),
            ("*.accept_ratio", PERCENT),
            ("*.totals.drafted", COUNT),
            ("*.totals.accepted", COUNT),
            ("*.totals.stale", COUNT),
            ("*.turns", COUNT),
        ],
    ),
    twin(
        "5",
        &["routes"],
        "view-routes",
        &[
            ("*.model", TEXT),
            ("*.kind", TEXT),
            ("*.running", COUNT),
            ("*.waiting", COUNT),
            ("*.stages.*.description", TEXT),
        ],
    ),
    twin(
        "6",
        &["requests"],
        "view-requests",
        &[("shown.*.id", TEXT), ("shown.*.client", TEXT), ("shown.*.queued_ms", TIME), ("shown.*.running_ms", TIME)],
    ),
    twin("7", &["knobs"], "knobs", &[("knobs.*.name", TEXT), ("knobs.*.value", TEXT)]),
    twin("7", &["status"], "snapshot", &[("overrides.*.knob", TEXT), ("overrides.*.value", TEXT)]),
    twin(
        "8",
        &["journal"],
        "journal",
        &[
            ("entries.*.revision", COUNT),
            ("entries.*.actor", TEXT),
            ("entries.*.reason", TEXT),
            ("entries.*.changes.0.knob", KNOB),
        ],
    ),
    twin("6", &["why", "req-1810"], "view-why", &[("id", TEXT), ("queued_ms", TIME)]),
];

/// The values that a path leads to; what is not known is left out.
fn found<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut all = vec![value];
    for step in path.split('.') {
        all = match step {
            "*" => all.into_iter().filter_map(Value::as_array).flatten().collect(),
            step => all
                .into_iter()
                .filter_map(|value| match step.parse::<usize>() {
                    Ok(index) => value.get(index),
                    Err(_) => value.get(step),
                })
                .collect(),
        };
    }
    all.retain(|value| !value.is_null());
    all
}

/// Gives every counter a figure of its own, so that none can be taken for another.
fn distinct(snapshot: &Snapshot) -> Snapshot {
    fn walk(value: &mut Value, next: &mut u64) {
        const COUNTERS: [&str; 10] = [
            "pending",
            "served",
            "cancelled",
            "members_left",
            "max_queue",
            "drafted",
            "accepted",
            "stale",
            "turns",
            "kv_capacity_tokens",
        ];
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    if COUNTERS.contains(&name.as_str()) && value.is_u64() {
                        *next += 13;
                        *value = (*next).into();
                    } else {
                        walk(value, next);
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| walk(value, next)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(snapshot).unwrap();
    walk(&mut value, &mut 5_000);
    serde_json::from_value(value).unwrap()
}

/// Nothing is published meanwhile: screen and command are of one snapshot, by its sequence number.
#[test]
fn every_view_shows_what_its_command_tells() {
    let snapshot = distinct(&recorded("busy"));
    let engine = Engine::start(snapshot.clone());
    let mut terminal = Terminal::ready(&engine, &[]);
    terminal.resize(250, 100);
    for Twin { key, command, schema, figures } in TWINS {
        let address = format!("http://{}", engine.address);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_lanekeeper"))
            .args(command)
            .args(["-o", "json", "--engine", &address])
            .output()
            .unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(faults(schema, &told), Vec::<String>::new(), "{command:?} and docs/schema/{schema}.json");
        if let Some(seq) = told.get("seq") {
            assert_eq!(seq, snapshot.seq);
        }
        terminal.press(key);
        for (path, shown) in figures {
            let values: Vec<String> = found(&told, path).into_iter().map(shown).collect();
            assert!(!values.is_empty(), "{command:?} tells no {path}: {told}");
            for value in values {
                terminal.wait(&format!("{path} {value} of {command:?}"), |seen| seen.text().contains(&value));
            }
        }
    }
}
