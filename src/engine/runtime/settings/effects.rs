//! What changes did: how the lanes were before each and after it, told when the time after it is over.

use super::Settings;
use crate::control::Op;
use crate::control::changes::{Effect, LaneEffect};
use crate::control::snapshot::Pace;
use crate::engine::runtime::recorder::{LaneKey, LanePace, Recorder};
use crate::engine::runtime::registry::Registry;
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
        let live = registry.all();
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
                lanes: beside(
                    (before, recorder.paces(before.from, before.to, &live)),
                    (after, recorder.paces(after.from, after.to, &live)),
                ),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Lane;

    #[test]
    fn lanes_stand_side_by_side_and_a_quiet_span_is_a_quiet_span() {
        let pace = |served_per_s| Pace { served_per_s, window_s: 10.0, ..Pace::default() };
        let key = |model: &str, lane| (model.into(), Op::Transcribe, lane);
        let s = Micros::from_secs;
        let before = vec![(key("a", Lane::Clips), pace(1.0)), (key("a", Lane::Recordings), pace(2.0))];
        let after = vec![(key("b", Lane::Clips), pace(4.0)), (key("a", Lane::Clips), pace(3.0))];
        // The engine was four seconds old when it was changed.
        let lanes = beside((Span { from: s(0), to: s(4) }, before), (Span { from: s(4), to: s(14) }, after));
        let seen: Vec<_> =
            lanes.iter().map(|l| (l.model.as_str(), l.before.served_per_s, l.after.served_per_s)).collect();
        assert_eq!(seen, [("a", 1.0, 3.0), ("a", 2.0, 0.0), ("b", 0.0, 4.0)]);
        assert_eq!((lanes[1].after.window_s, lanes[2].before.window_s), (10.0, 4.0));
    }
}
