//! What changes did: how the lanes were before each and after it, told when the time after it is over.

use super::Settings;
use crate::control::Op;
use crate::control::changes::{Effect, LaneEffect};
use crate::control::snapshot::Pace;
use crate::engine::runtime::registry::Registry;
use crate::engine::runtime::recorder::{LaneKey, LanePace, Recorder};
use crate::engine::scheduler::Micros;
use std::collections::BTreeMap;
use std::time::Duration;

impl Settings {
    /// Measures what can be measured at `now`, engine time. Gives the time until the next change can be.
    pub(in crate::engine::runtime) fn measure(
        &self,
        recorder: &Recorder,
        registry: &Registry,
        now: Micros,
    ) -> Option<Duration> {
        let (due, next) = self.measurable();
        if due.is_empty() {
            return next;
        }
        let (live, _) = registry.list();
        for change in due {
            let window = Micros(change.window_ms * 1_000);
            let at = now - Micros(change.age_ms * 1_000);
            // An engine is no older than it is: what came before its start was no quiet time.
            let before = Span { from: at - window, to: at };
            let after = Span { from: at, to: at + window };
            self.measured(Effect {
                of: change.revision,
                window_s: window.as_secs(),
                beside: change.beside,
                lanes: beside((before, recorder.paces(before.from, before.to, &live)), (after, recorder.paces(after.from, after.to, &live))),
            });
        }
        next
    }
}

/// A span of engine time.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Micros,
    to: Micros,
}

impl Span {
    /// Nothing happened in it.
    fn idle(self) -> Pace {
        Pace { window_s: (self.to - self.from).as_secs(), ..Pace::default() }
    }
}

/// Two spans lane by lane.
fn beside(before: (Span, Vec<LanePace>), after: (Span, Vec<LanePace>)) -> Vec<LaneEffect> {
    let mut lanes: BTreeMap<LaneKey, (Pace, Pace)> = BTreeMap::new();
    let idle = (before.0.idle(), after.0.idle());
    for (key, pace) in before.1 {
        lanes.entry(key).or_insert(idle).0 = pace;
    }
    for (key, pace) in after.1 {
        lanes.entry(key).or_insert(idle).1 = pace;
    }
    let effect = |((model, op, lane), (before, after)): (LaneKey, (Pace, Pace))| LaneEffect {
        model: model.to_string(),
        op,
        lane: (op != Op::Generate).then_some(lane),
        before,
        after,
    };
    lanes.into_iter().map(effect).collect()
}
