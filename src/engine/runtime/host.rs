//! Facts about the machine, from `/proc`; where that does not exist they stay unknown.

use super::clock::lock;
use crate::control::snapshot::Host;
use crate::engine::scheduler::Micros;
use std::sync::Mutex;

/// The facts are read at most this often.
const REFRESH: Micros = Micros(1_000_000);

/// The last facts read.
#[derive(Debug, Default)]
pub(super) struct HostFacts {
    last: Mutex<Option<(Micros, Host)>>,
}

impl HostFacts {
    /// The facts, not older than a second. `threads` is what model work may use.
    pub fn get(&self, threads: u32, now: Micros) -> Host {
        let mut last = lock(&self.last);
        if let Some((at, host)) = &*last
            && now - *at < REFRESH
        {
            return host.clone();
        }
        let host = read(threads);
        *last = Some((now, host.clone()));
        host
    }
}

fn read(threads: u32) -> Host {
    let file = |path| std::fs::read_to_string(path).ok();
    let status = file("/proc/self/status");
    let memory = file("/proc/meminfo");
    Host {
        cpu_threads: threads,
        resident_bytes: status.as_deref().and_then(|text| kib(text, "VmRSS:")),
        memory_total_bytes: memory.as_deref().and_then(|text| kib(text, "MemTotal:")),
        memory_available_bytes: memory.as_deref().and_then(|text| kib(text, "MemAvailable:")),
        load_1m: file("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok()),
    }
}

/// The value of a line `NAME   1234 kB`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read_by_name() {
        let text = "Name:\tx\nVmRSS:\t  123 kB\nVmRSSx: 9 kB\n";
        assert_eq!(kib(text, "VmRSS:"), Some(123 * 1_024));
        assert_eq!(kib(text, "MemTotal:"), None);
        assert_eq!(kib("MemTotal: many kB", "MemTotal:"), None);
    }

    #[test]
    fn facts_are_kept_for_a_second() {
        let facts = HostFacts::default();
        let first = facts.get(2, Micros(5));
        assert_eq!(first.cpu_threads, 2);
        assert_eq!(facts.get(3, Micros(1_000_004)), first, "still the facts of the first look");
        assert_eq!(facts.get(3, Micros(1_000_005)).cpu_threads, 3);
    }
}
