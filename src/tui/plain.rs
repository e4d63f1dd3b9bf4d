//! One line per snapshot, for `top --plain`: logs, pipes and screen readers.

use super::glyphs;
use super::model::lines::{LineKind, lines};
use super::text::{coarse, duration, neutral};
use crate::control::Snapshot;

/// A snapshot as one line of plain text: no escape codes, ASCII signs only, fields in a fixed order.
pub fn plain_line(snapshot: &Snapshot) -> String {
    let seconds = snapshot.at_ms / 1000 % 86_400;
    let time = format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut parts = vec![format!(
        "{time} {} {} up {} requests {}",
        snapshot.node,
        snapshot.state.name(),
        coarse(snapshot.uptime_ms as f64),
        snapshot.requests.total
    )];
    for line in lines(snapshot) {
        let op = line.op().map(|op| format!(" {op}")).unwrap_or_default();
        let name = format!("{}{op}", line.model.id);
        let (waiting, running, served, latency) = match line.kind {
            LineKind::Queue(queue) => (
                queue.lanes.iter().map(|lane| lane.pending).sum::<u64>(),
                queue.lanes.iter().map(|lane| lane.running).sum::<u64>(),
                queue.counters.served,
                &queue.latency,
            ),
            LineKind::Generation(generation) => {
                (generation.queued, generation.slots_used, generation.counters.served, &generation.latency)
            }
            LineKind::Bare => {
                parts.push(format!("{name}: {}", line.model.state.name()));
                continue;
            }
        };
        let p95 = latency.p95_ms.map(|ms| format!(" p95 {}", duration(ms))).unwrap_or_default();
        parts.push(format!("{name}: {waiting} waiting, {running} running, {served} served{p95}"));
    }
    if !snapshot.reasons.is_empty() {
        parts.push(format!("because: {}", snapshot.reasons.join("; ")));
    }
    neutral(&parts.join(" | "), &glyphs::ASCII).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::recorded;
    use super::plain_line;

    #[test]
    fn a_snapshot_is_one_line_of_ascii() {
        for name in ["busy", "idle", "loading", "degraded"] {
            let line = plain_line(&recorded(name));
            assert!(line.is_ascii() && !line.contains(char::is_control), "{line:?}");
        }
        let line = plain_line(&recorded("busy"));
        assert!(line.contains("demo ready up 12m requests 28"), "{line}");
        assert!(line.contains("whisper-tiny-en transcribe: 12 waiting, 7 running, 821 served p95 2.3s"), "{line}");
        assert!(plain_line(&recorded("loading")).contains("because: whisper-tiny-en is loading (43%)"));
    }
}
