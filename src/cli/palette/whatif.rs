//! The what-if beside a question: what `plan` says of a change, in a few lines.

use crate::tui::text::duration;
use serde_json::Value;

/// The words of `plan` for the settings that `words` (a `set` or `unset` as it was typed) name; absent where they name none.
pub fn plan_of(settings: &[String], unset: &[String]) -> Option<Vec<String>> {
    if settings.is_empty() && unset.is_empty() {
        return None;
    }
    let mut words = vec!["plan".to_string()];
    words.extend(settings.iter().cloned());
    words.extend(unset.iter().flat_map(|knob| ["--unset".to_string(), knob.clone()]));
    words.extend(["-o", "json"].map(str::to_string));
    Some(words)
}

/// A plan's document in lines for people: per model and lane the times to the answer as they were and as they would have
/// been, and how far the replay is from what was measured.
pub fn lines(plan: &str) -> Vec<String> {
    let Ok(plan) = serde_json::from_str::<Value>(plan) else { return Vec::new() };
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for replay in list(&plan, "replays") {
        let span = duration(replay["duration_s"].as_f64().unwrap_or(0.0) * 1000.0);
        lines.push(format!("{}, the last {span} replayed with it:", replay["load"].as_str().unwrap_or_default()));
        let runs = list(&replay, "runs");
        let [now, planned] = runs.as_slice() else { continue };
        for (now, planned) in list(now, "lanes").iter().zip(list(planned, "lanes")) {
            let time = |field: &str| format!("{} -> {}", ms(&now["done"][field]), ms(&planned["done"][field]));
            let lane = now["lane"].as_str().unwrap_or_default();
            let late = |run: &Value| run["timeouts"].as_u64().unwrap_or(0);
            lines.push(format!(
                "  {lane:<10}  p50 {}, p95 {}, timed out {} -> {}",
                time("p50_ms"),
                time("p95_ms"),
                late(now),
                late(&planned)
            ));
        }
        let off = |lane: &Value| {
            let part = lane["error"]["done_p50"].as_f64()?;
            Some(format!("{} {:+.0}%", lane["lane"].as_str().unwrap_or_default(), part * 100.0))
        };
        let off: Vec<String> = list(&replay["recorded"], "lanes").iter().filter_map(off).collect();
        if !off.is_empty() {
            lines.push(format!("  the replay of what is set now is off at p50 by: {}", off.join(", ")));
        }
    }
    lines.extend(list(&plan, "remarks").iter().filter_map(|remark| remark.as_str().map(str::to_string)));
    lines
}

fn ms(value: &Value) -> String {
    value.as_f64().map_or_else(|| "?".to_string(), duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_told_in_lines() {
        let lane =
            |p50: f64| serde_json::json!({ "lane": "clips", "timeouts": 0, "done": { "p50_ms": p50, "p95_ms": null } });
        let plan = serde_json::json!({
            "replays": [{
                "load": "whisper", "duration_s": 600.0,
                "runs": [{ "lanes": [lane(6400.0)] }, { "lanes": [lane(3200.0)] }],
                "recorded": { "lanes": [{ "lane": "clips", "error": { "done_p50": 0.12 } }] }
            }],
            "remarks": ["log.level: a replay cannot tell what it does"]
        });
        assert_eq!(
            lines(&plan.to_string()),
            [
                "whisper, the last 10m00 replayed with it:",
                "  clips       p50 6.4s -> 3.2s, p95 ? -> ?, timed out 0 -> 0",
                "  the replay of what is set now is off at p50 by: clips +12%",
                "log.level: a replay cannot tell what it does",
            ]
        );
        assert_eq!(lines("no json"), Vec::<String>::new());
    }
}
