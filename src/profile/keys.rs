//! The key tables: one row per key, from which come reading, defaults, environment names, the JSON Schema and the
//! manual page.

use super::types::Family;

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Free text.
    Text,
    /// A name: lower-case letters, digits, `-`, `_`, `.`.
    Name,
    /// A profile's name or path.
    Reference,
    /// One of a few words.
    OneOf(&'static [&'static str]),
    Bool,
    /// A whole number; `_` between digits, suffixes k, M, G (powers of 1000) and Ki, Mi, Gi (of 1024).
    Count {
        min: u64,
        max: u64,
    },
    /// A whole number as [`Kind::Count`], or one word that stands for no number.
    CountOr {
        word: &'static str,
        min: u64,
        max: u64,
    },
    /// A number, such as 0.5.
    Number {
        min: f64,
        max: f64,
    },
    /// A size in bytes; the same suffixes, with or without a final B.
    Bytes {
        min: u64,
        max: u64,
    },
    /// A time in milliseconds; suffixes us, ms, s, m, h.
    Millis {
        min: f64,
        max: f64,
    },
    /// A time in seconds; the same suffixes.
    Seconds {
        min: f64,
        max: f64,
    },
    /// `ADDRESS:PORT`.
    Address,
    /// A path, relative to the profile's folder.
    Path,
    /// `auto`, `cpu`, `cuda:N`, `metal:N`.
    Device,
    /// A list of operations.
    Ops,
    /// A list of sources, each a string or a list of strings to concatenate.
    Sources,
    /// 64 hex digits, or `unpinned`.
    Sha256,
    /// A list of models: names, or mappings of model keys.
    Models,
    /// A list of mappings.
    Entries,
    /// A number that is drawn anew for each request: see [`Spread`](super::Spread).
    Spread,
}

/// When a change of a key takes effect in a running engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// From the next batch, iteration or request on.
    Live,
    /// When the engine is started again.
    Restart,
}

/// A row: one key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted path inside the profile.
    pub path: &'static str,
    pub kind: Kind,
    /// The default as it would stand in a file; absent = not set.
    pub default: Option<&'static str>,
    /// Families that the key has a meaning for; empty = all.
    pub only: &'static [Family],
    /// When a change takes effect.
    pub takes: Takes,
    pub doc: &'static str,
}

impl Key {
    /// Whether the key means something for `family`.
    pub fn applies_to(&self, family: Family) -> bool {
        self.only.is_empty() || self.only.contains(&family)
    }

    /// The same, for a setting that a running engine takes.
    const fn live(self) -> Key {
        Key { takes: Takes::Live, ..self }
    }

    /// Whether it may be set by environment and command line: what identifies a profile may not.
    pub fn settable(&self) -> bool {
        !matches!(self.path, "extends" | "id" | "family")
    }
}

pub(super) const fn key(path: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { path, kind, default, only: &[], takes: Takes::Restart, doc }
}

const fn key_of(
    only: &'static [Family],
    path: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Key {
    let default = if default.is_empty() { None } else { Some(default) };
    Key { path, kind, default, only, takes: Takes::Restart, doc }
}

pub(super) const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

const WHISPER: &[Family] = &[Family::Whisper];
const LLAMA: &[Family] = &[Family::Llama];
const BERT: &[Family] = &[Family::Bert];
const BATCHED: &[Family] = &[Family::Whisper, Family::Bert];

/// Keys of a model profile.
pub const MODEL: &[Key] = &[
    key("extends", Kind::Reference, None, "Another model profile whose values this one starts from, by name or path."),
    key("id", Kind::Name, None, "The name that requests ask for. Required (may come from the extended profile)."),
    key("family", Kind::OneOf(&["whisper", "llama", "bert"]), None, "The forward pass the model needs. Required."),
    key(
        "ops",
        Kind::Ops,
        None,
        "Operations served. Default: all of the family's (whisper: transcribe; llama: generate; bert: embed, rerank).",
    ),
    key("description", Kind::Text, Some(""), "One line for people."),
    key("licence", Kind::Text, Some(""), "Licence of the weights, as an SPDX name where there is one."),
    key("files.weights.sources", Kind::Sources, None, "Where the weights can be had; tried in order. Required."),
    key("files.weights.sha256", Kind::Sha256, None, "sha256 of the whole file, or `unpinned`. Required with sources."),
    key("files.tokenizer.sources", Kind::Sources, None, "Where tokenizer.json can be had."),
    key("files.tokenizer.sha256", Kind::Sha256, None, "sha256 of the whole file, or `unpinned`."),
    key("files.config.sources", Kind::Sources, None, "Where config.json can be had."),
    key("files.config.sha256", Kind::Sha256, None, "sha256 of the whole file, or `unpinned`."),
    key("dtype", Kind::OneOf(&["auto", "f32", "f16", "bf16", "int8"]), Some("auto"), "Numeric form of the weights."),
    key("device", Kind::Device, Some("auto"), "Where the model runs: auto, cpu, cuda:N or metal:N."),
    key(
        "device_weight",
        count(1, 1_000),
        Some("1"),
        "On a device that models share, the one that has waited longest goes next; the wait of this one counts so often.",
    ).live(),
    key_of(
        BATCHED,
        "max_batch_tokens",
        count(1, 1 << 40),
        "",
        "Cost budget of one batch: tokens for text, milliseconds of audio for speech. Default: the model's own, else \
         16384.",
    )
    .live(),
    key_of(
        BATCHED,
        "max_batch_requests",
        count(1, 4096),
        "",
        "Most requests in one batch. Default: 12; for speech on a CPU 1, where a batch takes as long as its clips one by \
         one and all of them would wait for its end.",
    )
    .live(),
    key_of(
        BATCHED,
        "wait_ms",
        Kind::Millis { min: 0.0, max: 60_000.0 },
        "15",
        "The batch window: how long the first request may wait for company.",
    ).live(),
    key_of(
        BATCHED,
        "coalesce_ms",
        Kind::Millis { min: 0.0, max: 60_000.0 },
        "5",
        "A batch leaves once nothing has arrived for this long.",
    ).live(),
    key_of(
        BATCHED,
        "coalesce_ratio",
        Kind::Number { min: 0.0, max: 1.0 },
        "0.5",
        "Upper bound of coalesce_ms as a part of wait_ms.",
    ).live(),
    key_of(
        BATCHED,
        "idle_bypass",
        Kind::Bool,
        "false",
        "Whether a worker that was idle for a batch window takes what there is at once.",
    ).live(),
    key_of(
        BATCHED,
        "depth",
        count(1, 16),
        "",
        "Batches in flight at once. Default: 2 on a GPU, where the next batch is made ready while one runs; 1 on a CPU, \
         where nothing overlaps and a batch formed early only keeps later requests from joining it.",
    ).live(),
    key_of(
        BATCHED,
        "max_attempts",
        count(1, 16),
        "6",
        "Most times that one step of a request is tried: alone after a batch that failed, in halves of one that ran out \
         of memory.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.mode",
        Kind::OneOf(&["off", "pi"]),
        "off",
        "What adapts batch window and cost cap: `pi`, the published controller, or nothing. Off by default: its target is \
         made of model time while the latency it compares with contains the queue, and a step can fall to the floor.",
    ).live(),
    key_of(BATCHED, "adaptive.freeze", Kind::Bool, "false", "Holds both knobs where they are.").live(),
    key_of(
        BATCHED,
        "adaptive.initial_wait_ms",
        Kind::Millis { min: 0.0, max: 60_000.0 },
        "",
        "Batch window at the start. Default: wait_ms.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.min_wait_ms",
        Kind::Millis { min: 0.0, max: 60_000.0 },
        "15",
        "Shortest batch window under control.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.max_wait_ms",
        Kind::Millis { min: 0.0, max: 60_000.0 },
        "50",
        "Longest batch window under control.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.target_ms",
        Kind::Millis { min: 1.0, max: 3_600_000.0 },
        "",
        "Median latency to aim at. Default: calibrated from the first batches.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.calibration",
        Kind::Number { min: 0.1, max: 100.0 },
        "1.5",
        "Calibration: the target is so many times the median model time of a batch.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.min_target_ms",
        Kind::Millis { min: 0.1, max: 3_600_000.0 },
        "5",
        "Least target that calibration may find.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.max_target_ms",
        Kind::Millis { min: 0.1, max: 3_600_000.0 },
        "500",
        "Greatest target that calibration may find.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.gain",
        Kind::Number { min: 0.0, max: 100.0 },
        "0.3",
        "Milliseconds of window per millisecond of headroom (target minus latency).",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.integral_gain",
        Kind::Number { min: 0.0, max: 100.0 },
        "0.05",
        "Milliseconds of window per ms·s of accumulated headroom.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.integral_limit",
        Kind::Number { min: 0.0, max: 100_000.0 },
        "20",
        "Most headroom that accumulates, in ms·s, either way.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.cost_gain_ratio",
        Kind::Number { min: 0.0, max: 100.0 },
        "0.5",
        "Gain of the cost cap as a part of gain.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.fill_threshold",
        Kind::Number { min: 0.0, max: 1.0 },
        "0.7",
        "The cost cap moves only while batches are filled at least so far.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.starved_after",
        count(1, 1_000_000),
        "20",
        "Lone requests in a row, with both knobs at their floors, after which the knobs begin anew from higher up.",
    ).live(),
    key_of(
        BATCHED,
        "adaptive.min_cost",
        count(1, 1 << 40),
        "",
        "Least cost cap under control. Default: a quarter of the budget, at least 256, at most the budget.",
    ).live(),
    key_of(BATCHED, "adaptive.initial_cost", count(1, 1 << 40), "", "Cost cap at the start. Default: the budget.").live(),
    key_of(
        BATCHED,
        "adaptive.max_cost",
        count(1, 1 << 40),
        "",
        "Greatest cost cap under control. Default: four times the budget.",
    ).live(),
    key("max_queue", count(1, 1_000_000), Some("256"), "Requests that may wait per operation; beyond it: 429.").live(),
    key_of(
        BERT,
        "max_input_tokens",
        count(1, 1 << 20),
        "",
        "Longest text in tokens, special tokens included. Default: the model's own limit.",
    ).live(),
    key_of(
        WHISPER,
        "long_form.enabled",
        Kind::Bool,
        "true",
        "Whether audio beyond 30 s is served, by seeking over windows.",
    ),
    key_of(
        WHISPER,
        "long_form.slice_windows",
        Kind::CountOr { word: "whole", min: 1, max: 1024 },
        "1",
        "Windows of 30 s that a recording runs before it is put aside for the clips; `whole`: to its end. The \
         transcript is the same.",
    ).live(),
    key_of(
        BATCHED,
        "lanes.clips.paused",
        Kind::Bool,
        "false",
        "Holds the lane of clips (for text models, the only one): what is in it waits, what runs ends.",
    )
    .live(),
    key_of(
        WHISPER,
        "lanes.recordings.paused",
        Kind::Bool,
        "false",
        "Holds the lane of recordings: one that has begun stays where it is after its window.",
    )
    .live(),
    key_of(
        WHISPER,
        "lanes.recordings.share",
        Kind::Number { min: 0.01, max: 0.99 },
        "0.5",
        "The recordings' part of the engine's time while clips wait too; the clips have the rest. Without effect where \
         slice_windows is `whole`: the lanes then take turns one by one.",
    ).live(),
    key_of(
        WHISPER,
        "lanes.keep_owed",
        Kind::Bool,
        "false",
        "Whether clips that a turn passed over stay owed when no recording is left.",
    ).live(),
    key_of(
        WHISPER,
        "language",
        Kind::Name,
        "",
        "Language code assumed when the request names none. Default: detect, or the model's only one.",
    ).live(),
    key_of(LLAMA, "generation.slots", count(1, 1024), "4", "Sequences decoded at once.").live(),
    key_of(
        LLAMA,
        "generation.context_tokens",
        count(16, 1 << 24),
        "2048",
        "Longest sequence (prompt and answer) in tokens; at most the model's own context.",
    ),
    key_of(LLAMA, "generation.kv_tokens", count(16, 1 << 30), "8192", "Tokens of key-value cache over all slots."),
    key_of(
        LLAMA,
        "generation.kv_reserve",
        count(1, 1 << 24),
        "256",
        "Tokens of an answer that must fit the KV budget, beside its prompt, before a request starts. Longer answers grow \
         beyond it; when the budget runs out the youngest sequence waits and is read again.",
    ).live(),
    key_of(
        LLAMA,
        "generation.prefix_cache",
        Kind::Bool,
        "true",
        "Whether idle slots keep their tokens, so that a request that begins alike computes only the rest.",
    ).live(),
    key_of(
        LLAMA,
        "generation.paused",
        Kind::Bool,
        "false",
        "Lets no further request begin: what waits goes on waiting, what runs ends.",
    )
    .live(),
    key_of(LLAMA, "generation.queue", count(0, 1_000_000), "64", "Requests that may wait for a slot; beyond it: 429.").live(),
    key_of(LLAMA, "generation.iteration_tokens", count(1, 1 << 20), "2048", "Rows (tokens) in one forward pass.").live(),
    key_of(
        LLAMA,
        "generation.prefill_chunk",
        count(1, 1 << 20),
        "256",
        "Prompt tokens of one sequence in one forward pass, and of all together while anything decodes; at most \
         iteration_tokens.",
    ).live(),
    key_of(
        LLAMA,
        "generation.default_max_tokens",
        count(1, 1 << 24),
        "256",
        "Answer length when a request names none.",
    ).live(),
    key_of(
        LLAMA,
        "speculation.policy",
        Kind::OneOf(&["off", "published", "force", "gain"]),
        "gain",
        "When proposed tokens are verified: never (`off`), by the published rule, whenever something is proposed \
         (`force`), or while that is expected to be faster than not to (`gain`). The answer is the same.",
    ).live(),
    key_of(
        LLAMA,
        "speculation.proposer",
        Kind::OneOf(&["ngram-simple", "ngram-cache", "suffix"]),
        "suffix",
        "Where proposals come from: what followed the latest occurrence of the last tokens (`ngram-simple`), what \
         followed them most often (`ngram-cache`), or the passage that shares the longest stretch of text (`suffix`).",
    ).live(),
    key_of(
        LLAMA,
        "speculation.draft_model",
        Kind::Reference,
        "",
        "A smaller model that drafts what the text does not repeat: a model profile, by name or path. It must have the \
         same tokens. It is loaded beside the model, with a KV cache of its own. Default: none.",
    ),
    key_of(
        LLAMA,
        "speculation.mtp_head",
        Kind::Path,
        "none",
        "The model's own draft head: `none`, `shipped` for the one that this program carries for these weights, or the \
         path of a GGUF file made by scripts/mtp. One that was made for other weights is refused.",
    ),
    key_of(LLAMA, "speculation.width_min", count(1, 8), "1", "Narrowest window, in proposed tokens.").live(),
    key_of(LLAMA, "speculation.width_max", count(1, 8), "8", "Widest window, in proposed tokens.").live(),
    key_of(
        LLAMA,
        "speculation.ngram_min",
        count(1, 64),
        "3",
        "Tokens that must match before a copy is proposed; at most 4 for `ngram-cache`.",
    ).live(),
    key_of(
        LLAMA,
        "speculation.ngram_max",
        count(1, 64),
        "64",
        "Longest match that is looked for; `ngram-cache` counts runs of at most 4.",
    ).live(),
    key_of(
        LLAMA,
        "speculation.exploration_ratio",
        Kind::Number { min: 0.0, max: 0.5 },
        "0.02",
        "Policy `gain`: the part of the time that measuring what windows cost may lose.",
    ).live(),
    key_of(
        LLAMA,
        "speculation.reject_cooldown_tokens",
        count(0, 1 << 20),
        "0",
        "Plain tokens after a rejection inside drafts of the model's own.",
    ).live(),
    key_of(
        LLAMA,
        "speculation.self_check_ratio",
        Kind::Number { min: 0.0, max: 1.0 },
        "0.005",
        "The part of answers made with windows that is computed again without, when nobody waits; differences are \
         counted and shown.",
    ).live(),
];

/// Keys of a box profile.
pub const BOX: &[Key] = &[
    key("extends", Kind::Reference, None, "Another box profile whose values this one starts from, by name or path."),
    key("name", Kind::Name, None, "The node's name, also of its control socket. Default: the profile's."),
    key("description", Kind::Text, Some(""), "One line for people."),
    key(
        "models",
        Kind::Models,
        None,
        "What the box serves: names of model profiles, or mappings of model keys with `extends`. Replaces the list of an \
         extended profile.",
    ),
    key("listen.http", Kind::Address, Some("127.0.0.1:8741"), "OpenAI-style HTTP and probes."),
    key("listen.control", Kind::Path, None, "Control socket. Default: $XDG_RUNTIME_DIR/lanekeeper/NAME.sock."),
    key(
        "keys.file",
        Kind::Path,
        None,
        "File of keys, one per line: `LABEL RIGHT[,RIGHT] KEY` with rights serve, read, control. Needed beyond loopback.",
    ),
    key(
        "receipts.file",
        Kind::Path,
        None,
        "File that gets a JSON line per generation: counts, times and digests, never text. Default: none.",
    ),
    key("cpu.threads", count(1, 1024), None, "Threads for model work on the CPU. Default: the cores we may use."),
    key("limits.json_bytes", Kind::Bytes { min: 1024, max: 1 << 32 }, Some("4MiB"), "Largest JSON body.").live(),
    key("limits.audio_bytes", Kind::Bytes { min: 1024, max: 1 << 36 }, Some("256MiB"), "Largest audio upload.").live(),
    key("limits.max_items", count(1, 1_000_000), Some("2048"), "Most texts or documents in one request.").live(),
    key(
        "limits.audio.max_seconds",
        Kind::Seconds { min: 1.0, max: 604_800.0 },
        Some("7200"),
        "Longest accepted recording, in decoded audio.",
    )
    .live(),
    key("limits.audio.decoders", count(1, 256), Some("2"), "Audio files decoded at once."),
    key(
        "limits.default_deadline_s",
        Kind::Seconds { min: 0.001, max: 604_800.0 },
        None,
        "Deadline of a request that names none. Default: none.",
    )
    .live(),
    key(
        "limits.stall_s",
        Kind::Seconds { min: 0.1, max: 86_400.0 },
        Some("30"),
        "A stream whose reader takes nothing for this long is cancelled. A change holds for new connections.",
    )
    .live(),
    key(
        "limits.drain_s",
        Kind::Seconds { min: 0.0, max: 86_400.0 },
        Some("30"),
        "How long a drain waits for running work.",
    )
    .live(),
    key(
        "admission.draining",
        Kind::Bool,
        Some("false"),
        "Admits no new work: it is answered 503, and so is what waits; what runs ends.",
    )
    .live(),
    key(
        "limits.progress_s",
        Kind::Seconds { min: 1.0, max: 86_400.0 },
        Some("30"),
        "A lane that has work, is not held and has the engine to itself, and yet starts nothing for this long, is stuck: the \
         engine is degraded and /progressz says why.",
    )
    .live(),
    key(
        "control.effect_window_s",
        Kind::Seconds { min: 0.1, max: 3_600.0 },
        Some("60"),
        "Time before and after a change of settings over which its effect is measured, for the journal.",
    )
    .live(),
    key(
        "retention.requests",
        count(0, 1_024),
        Some("64"),
        "Requests that have ended and are still shown.",
    )
    .live(),
    key(
        "retention.arrivals",
        count(0, 1_000_000),
        Some("65536"),
        "Arrivals, and as many batches, that are remembered for replays, plans and what changes did.",
    )
    .live(),
    key("control.read_only", Kind::Bool, Some("false"), "Refuses every change of settings while the engine runs."),
    key(
        "log.level",
        Kind::OneOf(&["off", "error", "warn", "info", "debug", "trace"]),
        None,
        "What is logged, whatever `serve --log` says. Default: what that or LANEKEEPER_LOG says, else info.",
    )
    .live(),
    key("console.interval_ms", Kind::Millis { min: 50.0, max: 5_000.0 }, Some("500"), "Refresh interval of `top`."),
    key(
        "console.theme",
        Kind::OneOf(&["auto", "dark", "light", "safe", "ansi16", "none"]),
        Some("auto"),
        "Colours of `top`: `auto` by the terminal's background, `safe` for colour-blind eyes, `ansi16` the terminal's own.",
    ),
    key(
        "console.colours",
        Kind::Text,
        None,
        "Other looks for what `top` draws: `bad=#ff8800 bold, good=blue`. Labels are text, dim, strong, title, rule, head, \
         good, busy, warn, bad, selected, tab, key, gauge-full, gauge-empty, flow, queue and stale.",
    ),
    key(
        "console.keys",
        Kind::Text,
        None,
        "Other keys in `top`: `freeze=F, down=n / Down, first=g g`; lanekeeper-keys(7) names the actions.",
    ),
];

/// The distinct next segments of the keys that begin with `prefix` (empty, or ending in a dot).
pub(super) fn segments<'k>(table: &'k [Key], prefix: &str) -> Vec<&'k str> {
    let mut found: Vec<&str> = Vec::new();
    for key in table {
        if let Some(rest) = key.path.strip_prefix(prefix) {
            let segment = rest.split('.').next().unwrap_or(rest);
            if !found.contains(&segment) {
                found.push(segment);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_reads_as_its_own_kind() {
        for key in MODEL.iter().chain(BOX) {
            if let Some(text) = key.default {
                super::super::value::check_text(key.kind, text).unwrap_or_else(|why| panic!("{}: {why}", key.path));
            }
            assert!(key.doc.ends_with('.'), "{}: {}", key.path, key.doc);
            let listed = matches!(key.kind, Kind::Models | Kind::Entries | Kind::Ops | Kind::Sources);
            let one_value = key.settable() && !listed;
            assert!(one_value || key.takes == Takes::Restart, "{}: a change is one value", key.path);
        }
    }

    #[test]
    fn segments_follow_the_table() {
        assert_eq!(segments(BOX, "listen."), ["http", "control"]);
        assert_eq!(segments(BOX, "limits.audio."), ["max_seconds", "decoders"]);
        assert!(segments(MODEL, "").contains(&"files"));
    }
}
