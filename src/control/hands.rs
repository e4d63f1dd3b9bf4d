//! What an operator does with one request: hold it, let it go, move it to the other lane, cancel it; and what is written
//! down of it.

use super::snapshot::RequestState;
use super::{Lane, Op};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The body of `PATCH /control/v1/requests/{id}`: what is named is brought about, what is absent stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestPatch {
    /// Whether it is held: not taken into a batch until it is let go. A recording that runs in slices is held from its
    /// next slice on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// The lane that it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// Ends it, which cannot be undone. Not with the two above.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Why, for those who read the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `held`: let go by the engine itself after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<f64>,
    /// Looked at and told, not done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl RequestPatch {
    /// What is to be done to the request itself.
    pub fn touch(&self) -> Touch {
        Touch { held: self.held, lane: self.lane, cancelled: self.cancelled }
    }
}

/// What is to be done to a request: what is absent stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touch {
    pub held: Option<bool>,
    pub lane: Option<Lane>,
    pub cancelled: bool,
}

impl Touch {
    pub const HOLD: Touch = Touch { held: Some(true), lane: None, cancelled: false };
    pub const RELEASE: Touch = Touch { held: Some(false), lane: None, cancelled: false };
    pub const CANCEL: Touch = Touch { held: None, lane: None, cancelled: true };

    /// Whether it asks for nothing.
    pub fn is_empty(self) -> bool {
        self == Touch::default()
    }
}

/// Where a request stands, as far as an operator has a hand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestPlace {
    /// Absent for generations, and while its audio is being decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    pub held: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

impl RequestPlace {
    /// Where it is once `touch` has been done.
    pub fn after(self, touch: Touch) -> RequestPlace {
        RequestPlace {
            lane: touch.lane.or(self.lane),
            held: touch.held.unwrap_or(self.held),
            cancelled: self.cancelled || touch.cancelled,
        }
    }
}

impl std::fmt::Display for RequestPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.cancelled, self.lane, self.held) {
            (true, _, _) => write!(f, "cancelled"),
            (false, Some(lane), true) => write!(f, "{}, held", lane.name()),
            (false, Some(lane), false) => write!(f, "{}", lane.name()),
            (false, None, true) => write!(f, "held"),
            (false, None, false) => write!(f, "not held"),
        }
    }
}

/// One request before and after an operator's hand. Never its text or audio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestChange {
    /// Its id (`req-17`). Ids begin anew with every start of an engine.
    pub request: String,
    pub model: String,
    pub op: Op,
    /// How far it was.
    pub state: RequestState,
    pub from: RequestPlace,
    pub to: RequestPlace,
}

impl RequestChange {
    /// What was done, in a word or two: `hold`, `release`, `move`, `cancel`.
    pub fn what(&self) -> &'static str {
        let (from, to) = (self.from, self.to);
        match (to.cancelled, from.lane != to.lane, from.held, to.held) {
            (true, ..) => "cancel",
            (false, true, false, true) => "move and hold",
            (false, true, true, false) => "move and release",
            (false, true, ..) => "move",
            // What is held already was held anew, for another time.
            (false, false, _, true) => "hold",
            (false, false, _, false) => "release",
        }
    }

    /// The same, of somebody who has done it.
    pub fn did(&self) -> &'static str {
        match self.what() {
            "cancel" => "cancelled",
            "move and hold" => "moved and held",
            "move and release" => "moved and released",
            "move" => "moved",
            "hold" => "held",
            _ => "released",
        }
    }

    /// What brings it back to where it was.
    pub fn back(&self) -> Touch {
        Touch {
            held: (self.from.held != self.to.held).then_some(self.from.held),
            lane: self.from.lane.filter(|_| self.from.lane != self.to.lane),
            cancelled: false,
        }
    }
}

/// Requests that are held for a time only: each with its end, in Unix milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds(BTreeMap<String, u64>);

impl Holds {
    /// Takes in what was done with a request, and when the engine is to undo it.
    pub fn take(&mut self, change: &RequestChange, expires_at_ms: Option<u64>) {
        let stays = change.to.held && !change.to.cancelled;
        match expires_at_ms {
            Some(at) if stays => drop(self.0.insert(change.request.clone(), at)),
            // A held request that is moved is held for as long as before.
            None if stays && change.from.lane != change.to.lane && change.from.held => {}
            _ => drop(self.0.remove(&change.request)),
        }
    }

    /// When the hold of a request ends by itself.
    pub fn end_of(&self, request: &str) -> Option<u64> {
        self.0.get(request).copied()
    }

    /// Those that are over at `now_ms`.
    pub fn due(&self, now_ms: u64) -> Vec<String> {
        self.0.iter().filter(|(_, at)| **at <= now_ms).map(|(request, _)| request.clone()).collect()
    }

    /// When the next one ends.
    pub fn next(&self) -> Option<u64> {
        self.0.values().copied().min()
    }

    /// Keeps those of requests that live.
    pub fn retain(&mut self, lives: impl Fn(&str) -> bool) {
        self.0.retain(|request, _| lives(request));
    }

    /// Forgets a hold: its request is gone.
    pub fn forget(&mut self, request: &str) {
        self.0.remove(request);
    }

    /// All of them, as a snapshot shows them.
    pub fn all(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: (Lane, bool), touch: Touch) -> RequestChange {
        let from = RequestPlace { lane: Some(from.0), held: from.1, cancelled: false };
        RequestChange {
            request: "req-1".to_string(),
            model: "ears".to_string(),
            op: Op::Transcribe,
            state: RequestState::Queued,
            from,
            to: from.after(touch),
        }
    }

    #[test]
    fn what_was_done_has_a_name_and_a_way_back() {
        let to_clips = Touch { lane: Some(Lane::Clips), ..Touch::default() };
        let recordings = Lane::Recordings;
        let cases = [
            ((recordings, false), Touch::HOLD, "hold", Touch::RELEASE),
            ((recordings, true), Touch::HOLD, "hold", Touch::default()),
            ((recordings, true), Touch::RELEASE, "release", Touch::HOLD),
            ((recordings, true), to_clips, "move", Touch { lane: Some(recordings), ..Touch::default() }),
            (
                (recordings, true),
                Touch { held: Some(false), ..to_clips },
                "move and release",
                Touch { lane: Some(recordings), ..Touch::HOLD },
            ),
            ((recordings, false), Touch::CANCEL, "cancel", Touch::default()),
        ];
        for (from, touch, what, back) in cases {
            let change = change(from, touch);
            assert_eq!((change.what(), change.back()), (what, back), "{change:?}");
            if !touch.cancelled {
                assert_eq!(change.to.after(change.back()), change.from);
            }
        }
    }

    #[test]
    fn a_hold_for_a_time_ends_is_renewed_and_goes_with_what_ends_it() {
        let (clip, held) = ((Lane::Clips, false), (Lane::Clips, true));
        let mut holds = Holds::default();
        holds.take(&change(clip, Touch::HOLD), Some(500));
        assert_eq!((holds.next(), holds.due(499), holds.due(500)), (Some(500), Vec::new(), vec!["req-1".to_string()]));
        holds.take(&change(held, Touch::HOLD), Some(900));
        assert_eq!(holds.end_of("req-1"), Some(900), "renewed");
        holds.take(&change(held, Touch { lane: Some(Lane::Recordings), ..Touch::default() }), None);
        assert_eq!(holds.end_of("req-1"), Some(900), "moved, and held for as long");
        let ends: [fn(&mut Holds); 4] = [
            |holds| holds.take(&change((Lane::Clips, true), Touch::HOLD), None),
            |holds| holds.take(&change((Lane::Clips, true), Touch::RELEASE), None),
            |holds| holds.take(&change((Lane::Clips, true), Touch::CANCEL), None),
            |holds| holds.retain(|_| false),
        ];
        for end in ends {
            let mut holds = holds.clone();
            end(&mut holds);
            assert_eq!(holds, Holds::default());
        }
    }
}
