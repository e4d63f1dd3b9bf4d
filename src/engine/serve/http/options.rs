//! What every JSON route takes besides its own fields.

use crate::control::Fault;
use crate::control::speculation::SpeculationChoice;
use crate::engine::serve::fields::Fields;

/// Longest deadline that a request may name: a day.
const MAX_DEADLINE_S: f64 = 86_400.0;

/// The body's `lanekeeper` object: our own extensions. It is closed, so that a typing error does not pass unseen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Extensions {
    /// Seconds from now after which the answer is of no use.
    pub(super) deadline_s: Option<f64>,
    /// Cut inputs that are too long instead of refusing them.
    pub(super) truncate: Option<bool>,
    /// Whether the answer may, must or must not be made with verify windows. It never changes the answer.
    pub(super) speculation: Option<SpeculationChoice>,
}

impl Extensions {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Extensions, Fault> {
        match fields.opt_object("lanekeeper")? {
            Some(ours) => Extensions::of(&ours),
            None => Ok(Extensions::default()),
        }
    }

    pub(super) fn of(ours: &Fields<'_>) -> Result<Extensions, Fault> {
        ours.only(&["deadline_s", "truncate", "speculation"])?;
        Ok(Extensions {
            deadline_s: ours.opt_num("deadline_s", 0.001..=MAX_DEADLINE_S)?,
            truncate: ours.opt_bool("truncate")?,
            speculation: ours.opt_choice("speculation", &SpeculationChoice::ALL.map(|c| (c.name(), c)))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_object_is_read_and_closed() {
        let read = |value: serde_json::Value| {
            let map = value.as_object().unwrap().clone();
            Extensions::read(&Fields::root(&map))
        };
        assert_eq!(read(json!({})).unwrap(), Extensions::default());
        assert_eq!(
            read(json!({"lanekeeper": {"deadline_s": 2, "truncate": true}})).unwrap(),
            Extensions { deadline_s: Some(2.0), truncate: Some(true), speculation: None }
        );
        for choice in SpeculationChoice::ALL {
            let read = read(json!({"lanekeeper": {"speculation": choice.name()}})).unwrap();
            assert_eq!(read.speculation, Some(choice));
        }
        for (body, param) in [
            (json!({"lanekeeper": {"deadline_s": 0}}), "lanekeeper.deadline_s"),
            (json!({"lanekeeper": {"deadlines": 1}}), "lanekeeper.deadlines"),
            (json!({"lanekeeper": {"speculation": "on"}}), "lanekeeper.speculation"),
            (json!({"lanekeeper": {"speculation": true}}), "lanekeeper.speculation"),
            (json!({"lanekeeper": 3}), "lanekeeper"),
        ] {
            assert_eq!(read(body).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
