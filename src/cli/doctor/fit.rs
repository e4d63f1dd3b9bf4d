//! Whether a profile's models fit into the memory that is left, before anything is loaded.

use super::Finding;
use super::checks::available_memory;
use crate::cli::print::text::bytes;
use crate::engine::models::ModelError;
use crate::engine::models::footprint::{Footprint, footprint};
use crate::profile::{BoxProfile, GenerationSettings, ModelProfile};
use crate::pull::{PullOptions, Verify, pull};
use std::path::Path;

/// Passes need scratch space, and requests their audio and text: so much of what models hold is kept free beside them.
const SPARE: f64 = 0.25;
/// What the program takes without a model.
const BASE: u64 = 60_000_000;

/// Memory that this process may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub bytes: u64,
    /// The limit is the control group's and not the machine's.
    pub group: bool,
}

/// What is left by the machine's count and, in a container, by its control group's limit: the smaller.
pub fn room() -> Option<Room> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_memory(&text));
    let group = Path::new("/sys/fs/cgroup");
    let number = |file: &str| std::fs::read_to_string(group.join(file)).ok().and_then(|text| text.trim().parse().ok());
    smaller(machine, number("memory.max"), number("memory.current"))
}

fn smaller(machine: Option<u64>, max: Option<u64>, current: Option<u64>) -> Option<Room> {
    let group = max.map(|max: u64| max.saturating_sub(current.unwrap_or(0)));
    match (machine, group) {
        (Some(machine), Some(group)) if group < machine => Some(Room { bytes: group, group: true }),
        (Some(bytes), _) => Some(Room { bytes, group: false }),
        (None, group) => group.map(|bytes| Room { bytes, group: true }),
    }
}

/// What each model needs, and whether all of them fit. Models whose files are not here yet are named and left out.
pub fn fit(profile: &BoxProfile, options: &PullOptions, room: Option<Room>, engine_runs: bool) -> Finding {
    let (mut parts, mut unknown, mut need) = (Vec::new(), Vec::new(), BASE);
    for (model, sized) in profile.models.iter().flat_map(sizes) {
        match measure(model, sized, options) {
            Some(Ok(footprint)) => {
                need += footprint.total();
                parts.push(words(&model.id, footprint));
            }
            Some(Err(error)) => {
                let way_out = format!("lanekeeper pull --verify {}", model.id);
                return Finding::fail("memory", format!("{}: {error}", model.id), way_out);
            }
            None => unknown.push(model.id.as_str()),
        }
    }
    let mut detail = parts.join("; ");
    if !unknown.is_empty() {
        let sep = if detail.is_empty() { "" } else { "; " };
        detail = format!("{detail}{sep}not known before they are pulled: {}", unknown.join(", "));
    }
    judge(need, detail, room, engine_runs)
}

/// A model and the one that drafts for it, each with the slots that it will have.
fn sizes(model: &ModelProfile) -> impl Iterator<Item = (&ModelProfile, Option<GenerationSettings>)> {
    model.with_draft().map(|part| (part, model.generation))
}

/// `None` when its files are not here.
fn measure(
    model: &ModelProfile,
    sized: Option<GenerationSettings>,
    options: &PullOptions,
) -> Option<Result<Footprint, ModelError>> {
    let mut options = options.clone();
    (options.offline, options.verify) = (true, Verify::Stamp);
    let files = pull(model, &options, &mut |_| {}).ok()?;
    Some(footprint(&ModelProfile { generation: sized, ..model.clone() }, &files))
}

fn words(id: &str, footprint: Footprint) -> String {
    let cut = match footprint.context_limit {
        Some(own) => format!(" (context {own}, the model's own: generation.context_tokens asks for more)"),
        None => String::new(),
    };
    match footprint.kv_bytes {
        0 => format!("{id} {}", bytes(footprint.weights_bytes)),
        kv => format!("{id} {} and {} of KV{cut}", bytes(footprint.weights_bytes), bytes(kv)),
    }
}

fn judge(need: u64, detail: String, room: Option<Room>, engine_runs: bool) -> Finding {
    let Some(room) = room else {
        return Finding::warn("memory", format!("{detail}; how much is free is unknown"), "is /proc mounted?");
    };
    let with_spare = need.saturating_add((need as f64 * SPARE) as u64);
    let whose = if room.group { "its control group leaves" } else { "are available" };
    let detail = format!("about {} with scratch space ({detail}); {} {whose}", bytes(with_spare), bytes(room.bytes));
    let less = "serve fewer models, or fewer slots or a shorter context (generation.slots, generation.context_tokens)";
    if engine_runs && with_spare > room.bytes {
        // What is taken may be its own.
        return Finding::ok("memory", format!("{detail}; an engine runs and has its own already"));
    }
    match room.bytes {
        room if room < need => Finding::fail("memory", detail, less),
        room if room < with_spare => Finding::warn("memory", detail, less),
        _ => Finding::ok("memory", detail),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    const GB: u64 = 1 << 30;

    #[test]
    fn a_groups_limit_counts_where_it_is_the_smaller() {
        assert_eq!(smaller(Some(8 * GB), Some(3 * GB), Some(GB)), Some(Room { bytes: 2 * GB, group: true }));
        assert_eq!(smaller(Some(GB), Some(3 * GB), Some(GB)), Some(Room { bytes: GB, group: false }));
        // "max" is no number: no limit.
        assert_eq!(smaller(Some(GB), None, Some(9)), Some(Room { bytes: GB, group: false }));
        assert_eq!(smaller(None, Some(GB), None), Some(Room { bytes: GB, group: true }));
        assert_eq!(smaller(None, None, None), None);
    }

    #[test]
    fn a_context_beyond_the_models_own_is_told() {
        let of = |context_limit| words("m", Footprint { weights_bytes: 1, kv_bytes: 2, context_limit });
        assert!(!of(None).contains("context_tokens") && of(Some(8_192)).contains("context 8192"));
    }

    #[test]
    fn what_does_not_fit_fails_and_what_hardly_fits_is_a_warning() {
        let of = |bytes, runs| judge(10 * GB, "m 10 GiB".into(), Some(Room { bytes, group: false }), runs).grade;
        assert_eq!(of(13 * GB, false), Grade::Ok);
        assert_eq!(of(11 * GB, false), Grade::Warn);
        assert_eq!(of(9 * GB, false), Grade::Fail);
        assert_eq!(of(9 * GB, true), Grade::Ok);
        assert_eq!(judge(GB, String::new(), None, false).grade, Grade::Warn);
    }
}
