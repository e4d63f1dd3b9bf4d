//! The key tables of loads for the simulator. The scheduler's keys are the rows of the model profile: what a load tries
//! out is set in a profile by the same name.

use super::keys::{Key, Kind, MODEL, count, key};
use std::sync::LazyLock;

/// Longest simulated time and longest wait that may be asked for: a week.
const WEEK_S: f64 = 604_800.0;

const SECONDS: Kind = Kind::Seconds { min: 0.0, max: WEEK_S };
const RATE: Kind = Kind::Number { min: 0.001, max: 1e9 };
const OVERHEAD: Kind = Kind::Millis { min: 0.0, max: 3_600_000.0 };

/// Keys of a load that are not the scheduler's.
const LOAD_OWN: &[Key] = &[
    key("extends", Kind::Reference, None, "Another load whose values this one starts from, by name or path."),
    key("description", Kind::Text, Some(""), "One line for people."),
    key("duration_s", Kind::Seconds { min: 0.001, max: WEEK_S }, Some("3600"), "Time to simulate."),
    key(
        "warm_up_s",
        SECONDS,
        Some("0"),
        "Requests sent before this time are served but not counted; engine time and throughput count from it on.",
    ),
    key("seed", count(0, u64::MAX), Some("1"), "Seed of everything drawn at random: the same seed, the same run."),
    key("batches", count(1, 1 << 40), None, "Ends the run after this many batches, if that comes first."),
    key("clients", Kind::Entries, None, "Who sends requests: a list of classes of clients. Required."),
    key("service.clips.overhead_ms", OVERHEAD, Some("0"), "Time of a batch of clips, whatever is in it."),
    key("service.clips.item_ms", OVERHEAD, Some("0"), "Time of each item of a batch, whatever its cost."),
    key("service.clips.rate", RATE, None, "Seconds of audio (or tokens of text) computed per second. Required."),
    key("service.recordings.overhead_ms", OVERHEAD, Some("0"), "Time of a turn of a recording, whatever is in it."),
    key("service.recordings.rate", RATE, None, "Seconds of audio computed per second. Default: that of the clips."),
    key(
        "settings",
        Kind::Entries,
        None,
        "What to try side by side: a list of mappings of a `name` and scheduler keys, which win over the load's own.",
    ),
];

/// Keys of a class of clients.
pub const CLIENTS: &[Key] = &[
    key("name", Kind::Name, None, "Name of the class. Required."),
    key("op", Kind::OneOf(&["transcribe", "embed", "rerank"]), Some("transcribe"), "What they ask for."),
    key("length", Kind::Spread, None, "Seconds of audio (or tokens of text) of each request. Required."),
    key(
        "clients",
        count(1, 1_000_000),
        None,
        "So many clients, each of which waits for its answer before it sends again.",
    ),
    key("think_s", Kind::Spread, Some("0"), "Time between an answer and the client's next request."),
    key("rate", RATE, None, "Requests per second that come whatever happens to those before; in place of `clients`."),
    key("arrivals", Kind::OneOf(&["poisson", "fixed"]), Some("poisson"), "How the requests of `rate` are spaced."),
    key("start_s", SECONDS, Some("0"), "When the first request comes."),
    key("requests", count(1, 1 << 40), None, "Ends each client (or the stream of `rate`) after so many requests."),
    key("timeout_s", Kind::Seconds { min: 0.001, max: WEEK_S }, None, "A client gives a request up after this long."),
    key("retries", count(0, 1_000), Some("0"), "How often a client sends a request again that it gave up."),
];

/// The scheduler's keys that a load may set, as the model profile has them; and all of `adaptive`.
const SCHEDULER: &[&str] = &[
    "max_batch_tokens",
    "max_batch_requests",
    "wait_ms",
    "coalesce_ms",
    "coalesce_ratio",
    "idle_bypass",
    "depth",
    "long_form.slice_windows",
    "lanes.recordings.share",
    "lanes.keep_owed",
];

/// Keys that no engine has: what they take away is there for a reason, and the simulator shows which.
const EXPERIMENTS: &[Key] = &[key(
    "lanes.owed",
    Kind::Bool,
    Some("true"),
    "Whether a clip that a turn passed over goes first in the next. Off, dear clips may wait for ever.",
)];

fn scheduler() -> impl Iterator<Item = Key> {
    let rows = MODEL.iter().filter(|row| SCHEDULER.contains(&row.path) || row.path.starts_with("adaptive."));
    // What the simulator sets has a meaning for every operation: the families of the model profile do not bind here.
    rows.map(|row| Key { only: &[], ..*row }).chain(EXPERIMENTS.iter().copied())
}

/// Keys of a load.
pub static LOAD: LazyLock<Vec<Key>> = LazyLock::new(|| LOAD_OWN.iter().copied().chain(scheduler()).collect());

/// Keys of one of its settings.
pub static SETTINGS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let name = key("name", Kind::Text, None, "What the report calls it. Required.");
    std::iter::once(name).chain(scheduler()).collect()
});

/// Whether the simulator's settings may set the key.
pub(super) fn is_scheduler_key(path: &str) -> bool {
    SETTINGS.iter().any(|row| row.path == path && path != "name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_scheduler_is_one_of_the_model_profile() {
        for path in SCHEDULER {
            assert!(LOAD.iter().any(|row| row.path == *path), "{path}");
        }
        assert!(LOAD.iter().any(|row| row.path == "adaptive.mode"));
    }
}
