//! A box profile from its layer, with the checks that need more than one value.

use super::origin::Row;
use super::reader::Reader;
use super::types::{AudioLimits, BoxProfile, Console, Limits, Listen, ModelProfile, Retention};
use super::value;

/// Builds the profile around its models. Faults are in the reader.
pub(super) fn build(
    reader: &mut Reader<'_>,
    file_name: &str,
    models: Vec<ModelProfile>,
) -> Option<(BoxProfile, Vec<Row>)> {
    let derived_name = match reader.given("name") {
        Some(_) => None,
        None => Some(value::name(&file_name.to_lowercase()).unwrap_or_else(|_| "lanekeeper".to_string())),
    };
    let name = reader.name("name").or(derived_name.clone())?;
    let http = reader.parsed("listen.http", value::address)?;
    let profile = BoxProfile {
        name,
        description: reader.text("description").unwrap_or_default(),
        models,
        listen: Listen { http, control: reader.path("listen.control") },
        keys_file: reader.path("keys.file"),
        receipts_file: reader.path("receipts.file"),
        cpu_threads: reader.count("cpu.threads").and_then(|n| usize::try_from(n).ok()),
        limits: limits(reader),
        draining: reader.boolean("admission.draining").unwrap_or(false),
        read_only: reader.boolean("control.read_only").unwrap_or(false),
        effect_window_s: reader.time("control.effect_window_s").unwrap_or(60.0),
        retention: Retention {
            requests: reader.size("retention.requests"),
            arrivals: reader.size("retention.arrivals"),
        },
        log_level: reader.word("log.level").map(str::to_string),
        console: Console {
            interval_ms: reader.time("console.interval_ms").unwrap_or(500.0) as u64,
            theme: reader.word("console.theme").unwrap_or("auto").to_string(),
            colours: reader.text("console.colours").unwrap_or_default(),
            keys: reader.text("console.keys").unwrap_or_default(),
        },
    };
    if profile.open_without_keys() {
        reader.warnings.push(format!(
            "listen.http is {}, beyond loopback, and there is no keys.file: `serve` will refuse to start",
            profile.listen.http
        ));
    }
    let rows = reader.rows(None, |path| derived_name.clone().filter(|_| path == "name"));
    Some((profile, rows))
}

fn limits(reader: &mut Reader<'_>) -> Limits {
    Limits {
        json_bytes: reader.size("limits.json_bytes"),
        audio_bytes: reader.size("limits.audio_bytes"),
        max_items: reader.size("limits.max_items"),
        audio: AudioLimits {
            max_seconds: reader.time("limits.audio.max_seconds").unwrap_or(0.0),
            decoders: reader.size("limits.audio.decoders"),
        },
        default_deadline_s: reader.time("limits.default_deadline_s"),
        stall_s: reader.time("limits.stall_s").unwrap_or(0.0),
        drain_s: reader.time("limits.drain_s").unwrap_or(0.0),
        progress_s: reader.time("limits.progress_s").unwrap_or(30.0),
    }
}

impl BoxProfile {
    /// Whether it listens beyond loopback with no keys: `serve` refuses that.
    pub fn open_without_keys(&self) -> bool {
        !self.listen.http.ip().is_loopback() && self.keys_file.is_none()
    }
}
