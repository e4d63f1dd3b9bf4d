//! Conditions that changes are held to. The engine judges them, whatever has become of whoever asked.

use super::Settings;
use crate::control::predicate::{Predicate, Reading, document};
use crate::control::{Fault, Snapshot};
use crate::profile::BoxProfile;
use std::time::Duration;

/// Time between two looks: a change is undone well within a second of the breach.
pub(super) const EVERY: Duration = Duration::from_millis(250);

/// Refuses a guard that cannot be read, that names nothing here, or that does not hold now.
pub(in crate::engine::runtime) fn sound(guard: &str, snapshot: &Snapshot) -> Result<(), Fault> {
    let unread = |error| Fault::invalid("guard", format!("`guard` cannot be used: {error}")).code("invalid_guard");
    let predicate = Predicate::of_snapshot(guard, snapshot).map_err(unread)?;
    match broken(&predicate, &document(snapshot)) {
        None => Ok(()),
        Some(readings) => {
            let seen: Vec<String> = readings.iter().map(Reading::to_string).collect();
            Err(Fault::invalid("guard", format!("the guard does not hold now: {}", seen.join(", ")))
                .code("guard_broken")
                .hint("it would end the change at once: wait, or allow more"))
        }
    }
}

/// What the fields of a condition are, if it does not hold. What is unknown breaks no guard.
fn broken(predicate: &Predicate, document: &serde_json::Value) -> Option<Vec<Reading>> {
    (predicate.judge(document) == Some(false)).then(|| predicate.readings(document))
}

impl Settings {
    /// Looks at all guards and undoes what is not to hold any more. Gives the time until the next look; `None` = there is
    /// no guard.
    pub(in crate::engine::runtime) fn guard(
        &self,
        snapshot: &dyn Fn() -> std::sync::Arc<Snapshot>,
        apply: &dyn Fn(&BoxProfile),
    ) -> Option<Duration> {
        let published = self.published();
        if published.guards.is_empty() {
            return None;
        }
        let judged = document(&*snapshot());
        for (revision, guard) in &published.guards {
            // It was read when it was taken.
            let Ok(predicate) = Predicate::parse(guard) else { continue };
            if let Some(readings) = broken(&predicate, &judged) {
                self.breach(*revision, readings, apply);
            }
        }
        Some(EVERY)
    }
}
