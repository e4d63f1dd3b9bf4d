//! Snapshots for this room's tests.

use crate::control::Snapshot;

/// An empty snapshot of the engine with process id `pid`.
pub(crate) fn snapshot(pid: u32, seq: u64) -> Snapshot {
    let json = serde_json::json!({
        "schema": crate::control::snapshot::SCHEMA, "node": "test", "version": "0", "pid": pid, "seq": seq,
        "at_ms": 0, "uptime_ms": 0, "revision": 0, "state": "ready", "reasons": [],
        "host": { "cpu_threads": 1 }, "devices": [], "models": [], "generation": [],
        "requests": { "total": 0, "shown": [] }, "dropped": { "events": 0, "frames": 0 }
    });
    serde_json::from_value(json).expect("the literal above is a snapshot")
}
