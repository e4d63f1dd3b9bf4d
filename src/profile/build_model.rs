//! A model profile from its layer, with the checks that need more than one value.

use super::reader::Reader;
use super::speculation::{ProposerKind, SpeculationSettings};
use super::types::{DType, DeviceChoice, DraftHead, Family, FileRole, GenerationSettings, ModelFile, ModelProfile};
use super::{adaptive, origin::Row, value};
use crate::control::Op;
use crate::control::speculation::SpeculationPolicy;
use std::collections::BTreeMap;

/// Batch cost cap where neither the profile nor the model names one.
pub const DEFAULT_BATCH_COST: u64 = 16_384;

/// Builds the profile; `None` when so much is missing that nothing can be built. Faults are in the reader.
pub(super) fn build(reader: &mut Reader<'_>) -> Option<(ModelProfile, Vec<Row>)> {
    let id = reader.name("id");
    if reader.given("id").is_none() {
        reader.missing("id", "the name that requests ask for");
    }
    let family = reader.word("family").and_then(value::family);
    if reader.given("family").is_none() {
        reader.missing("family", "whisper, llama or bert");
    }
    let (id, family) = (id?, family?);
    reader.refuse_foreign(family);

    let ops = reader.ops("ops").unwrap_or_else(|| family_ops(family).to_vec());
    let files = files(reader, family);
    let profile = ModelProfile {
        id,
        family,
        ops,
        description: reader.text("description").unwrap_or_default(),
        licence: reader.text("licence").unwrap_or_default(),
        files,
        max_batch_tokens: reader.count("max_batch_tokens"),
        budget_origin: reader.origin("max_batch_tokens"),
        max_batch_requests: reader.count("max_batch_requests").and_then(|n| usize::try_from(n).ok()),
        wait_ms: reader.time("wait_ms").unwrap_or(0.0),
        coalesce_ms: reader.time("coalesce_ms").unwrap_or(0.0),
        coalesce_ratio: reader.number("coalesce_ratio").unwrap_or(0.5),
        idle_bypass: reader.boolean("idle_bypass").unwrap_or(false),
        depth: reader.count("depth").and_then(|n| usize::try_from(n).ok()),
        max_attempts: reader.size("max_attempts"),
        max_queue: reader.size("max_queue"),
        dtype: reader.word("dtype").map(value::dtype).unwrap_or(DType::Auto),
        device: reader.parsed("device", value::device).unwrap_or(DeviceChoice::Auto),
        adaptive: adaptive::read(reader),
        device_weight: reader.count("device_weight").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        max_input_tokens: reader.count("max_input_tokens").and_then(|n| usize::try_from(n).ok()),
        long_form: family == Family::Whisper && reader.boolean("long_form.enabled").unwrap_or(true),
        slice_windows: (family == Family::Whisper).then(|| reader.count_or("long_form.slice_windows")).flatten(),
        recordings_share: reader.number("lanes.recordings.share").unwrap_or(0.5),
        clips_paused: reader.boolean("lanes.clips.paused").unwrap_or(false),
        recordings_paused: reader.boolean("lanes.recordings.paused").unwrap_or(false),
        keep_owed: reader.boolean("lanes.keep_owed").unwrap_or(false),
        language: reader.name("language"),
        generation: (family == Family::Llama).then(|| generation(reader)),
        draft_head: (family == Family::Llama).then(|| draft_head(reader)).flatten(),
        draft: None,
    };
    check(reader, &profile);
    let ops: Vec<_> = profile.ops.iter().map(|op| op.name()).collect();
    let rows = reader.rows(Some(family), |path| (path == "ops").then(|| format!("[{}]", ops.join(", "))));
    Some((profile, rows))
}

/// What a family can do.
pub fn family_ops(family: Family) -> &'static [Op] {
    match family {
        Family::Whisper => &[Op::Transcribe],
        Family::Llama => &[Op::Generate],
        Family::Bert => &[Op::Embed, Op::Rerank],
    }
}

/// Files without which a family cannot load.
fn needed_files(family: Family) -> &'static [FileRole] {
    match family {
        Family::Whisper | Family::Bert => &[FileRole::Weights, FileRole::Tokenizer, FileRole::Config],
        // GGUF holds tokenizer and configuration.
        Family::Llama => &[FileRole::Weights],
    }
}

fn files(reader: &mut Reader<'_>, family: Family) -> BTreeMap<FileRole, ModelFile> {
    let mut files = BTreeMap::new();
    for role in [FileRole::Weights, FileRole::Tokenizer, FileRole::Config] {
        let name = role.name();
        let (sources_key, hash_key) = (format!("files.{name}.sources"), format!("files.{name}.sha256"));
        let sources = reader.sources(&sources_key);
        let hash = reader.parsed(&hash_key, value::sha256);
        match sources {
            None if needed_files(family).contains(&role) => {
                reader.missing(&sources_key, &format!("family {} cannot load without it", family.name()));
            }
            None => {}
            Some(sources) => {
                if reader.given(&hash_key).is_none() {
                    let why = "it says what the file must be; `unpinned` takes any file";
                    reader.missing(&hash_key, why);
                }
                if let (Some(None), true) = (&hash, reader.given(&hash_key).is_some()) {
                    let path = format!("{}files.{name}", reader.prefix);
                    reader.warnings.push(format!("{path} is unpinned: whatever the source serves is loaded"));
                }
                files.insert(role, ModelFile { sources, sha256: hash.flatten() });
            }
        }
    }
    files
}

fn generation(reader: &mut Reader<'_>) -> GenerationSettings {
    GenerationSettings {
        slots: reader.size("generation.slots"),
        context_tokens: reader.size("generation.context_tokens"),
        kv_tokens: reader.size("generation.kv_tokens"),
        kv_reserve: reader.size("generation.kv_reserve"),
        paused: reader.boolean("generation.paused").unwrap_or(false),
        prefix_cache: reader.boolean("generation.prefix_cache").unwrap_or(true),
        queue: reader.size("generation.queue"),
        iteration_tokens: reader.size("generation.iteration_tokens"),
        prefill_chunk: reader.size("generation.prefill_chunk"),
        default_max_tokens: reader.size("generation.default_max_tokens"),
        speculation: speculation(reader),
    }
}

fn speculation(reader: &mut Reader<'_>) -> SpeculationSettings {
    let policy = reader.word("speculation.policy");
    let proposer = reader.word("speculation.proposer");
    let defaults = SpeculationSettings::DEFAULT;
    SpeculationSettings {
        policy: SpeculationPolicy::ALL.into_iter().find(|p| Some(p.name()) == policy).unwrap_or(defaults.policy),
        proposer: ProposerKind::ALL.into_iter().find(|p| Some(p.name()) == proposer).unwrap_or(defaults.proposer),
        width_min: reader.size("speculation.width_min"),
        width_max: reader.size("speculation.width_max"),
        ngram_min: reader.size("speculation.ngram_min"),
        ngram_max: reader.size("speculation.ngram_max"),
        exploration_ratio: reader.number("speculation.exploration_ratio").unwrap_or(defaults.exploration_ratio),
        reject_cooldown_tokens: reader.size("speculation.reject_cooldown_tokens"),
        self_check_ratio: reader.number("speculation.self_check_ratio").unwrap_or(defaults.self_check_ratio),
    }
}

fn draft_head(reader: &mut Reader<'_>) -> Option<DraftHead> {
    const KEY: &str = "speculation.mtp_head";
    match reader.text(KEY)?.as_str() {
        "none" => None,
        "shipped" => Some(DraftHead::Shipped),
        _ => reader.path(KEY).map(DraftHead::File),
    }
}

/// Rules between values. Each names both numbers; the fault stands at the one that was set last.
fn check(reader: &mut Reader<'_>, profile: &ModelProfile) {
    let p = reader.prefix.clone();
    let foreign: Vec<_> = profile.ops.iter().filter(|op| !family_ops(profile.family).contains(op)).collect();
    if let Some(op) = foreign.first() {
        let can: Vec<_> = family_ops(profile.family).iter().map(|op| op.name()).collect();
        let message = format!("`{p}ops`: family {} cannot {op}; it can {}", profile.family.name(), can.join(" and "));
        reader.fault("ops", message);
    }
    if reader.given("ops").is_some() && profile.ops.is_empty() {
        reader.fault("ops", format!("`{p}ops` is empty: a model serves at least one operation"));
    }
    let cap = profile.max_batch_tokens.unwrap_or(DEFAULT_BATCH_COST);
    if let Some(input) = profile.max_input_tokens.filter(|input| *input as u64 > cap) {
        let at = if reader.given("max_batch_tokens").is_some() { "max_batch_tokens" } else { "max_input_tokens" };
        let message = format!(
            "`{p}max_input_tokens` is {input} but `{p}max_batch_tokens` is {cap}: the longest text would fit no batch"
        );
        reader.fault(at, message);
    }
    if profile.coalesce_ms > profile.wait_ms && reader.given("coalesce_ms").is_some() {
        reader.warnings.push(format!(
            "{p}coalesce_ms ({}) is above {p}wait_ms ({}) and has no effect",
            profile.coalesce_ms, profile.wait_ms
        ));
    }
    let Some(g) = profile.generation else { return };
    let (head, model) = ("speculation.mtp_head", "speculation.draft_model");
    if profile.draft_head.is_some() && reader.given(model).is_some() {
        let message = format!(
            "`{p}{head}` and `{p}{model}` are both set, but one of them drafts: set `{head}: none`, or take `{model}` out"
        );
        reader.fault(head, message);
    }
    let mut above = |small: &str, a: usize, large: &str, b: usize, why: &str| {
        if a > b && b > 0 {
            let at = if reader.given(small).is_some() { small } else { large };
            reader.fault(at, format!("`{p}{small}` is {a} but `{p}{large}` is {b}: {why}"));
        }
    };
    let rows = "generation.iteration_tokens";
    above("generation.prefill_chunk", g.prefill_chunk, rows, g.iteration_tokens, "a chunk would fit no pass");
    above("generation.slots", g.slots, rows, g.iteration_tokens, "not every slot could decode in a pass");
    let s = g.speculation;
    above("speculation.width_min", s.width_min, "speculation.width_max", s.width_max, "no window could be so narrow");
    above("speculation.ngram_min", s.ngram_min, "speculation.ngram_max", s.ngram_max, "no match could be so long");
    let context = "generation.context_tokens";
    above(
        "generation.default_max_tokens",
        g.default_max_tokens,
        context,
        g.context_tokens,
        "no answer could be so long",
    );
    if g.kv_tokens < g.context_tokens {
        reader.warnings.push(format!(
            "{p}generation.kv_tokens ({}) is below context_tokens ({}): longer requests are refused",
            g.kv_tokens, g.context_tokens
        ));
    }
}
