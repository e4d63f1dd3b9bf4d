//! Why a request waits: a closed list, each with a sentence and a way out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason a pending request has not been taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitCode {
    WindowOpen,
    TurnOfOtherLane,
    NotInThisTurn,
    OwedNextTurn,
    CapReached,
    SlotBusy,
    DeviceBusy,
    ModelLoading,
    LanePaused,
    Held,
    Draining,
    KvFull,
    SlotsFull,
    PeerLost,
}

impl WaitCode {
    /// The name used in snapshots and scripts.
    pub fn name(self) -> &'static str {
        match self {
            WaitCode::WindowOpen => "window_open",
            WaitCode::TurnOfOtherLane => "turn_of_other_lane",
            WaitCode::NotInThisTurn => "not_in_this_turn",
            WaitCode::OwedNextTurn => "owed_next_turn",
            WaitCode::CapReached => "cap_reached",
            WaitCode::SlotBusy => "slot_busy",
            WaitCode::DeviceBusy => "device_busy",
            WaitCode::ModelLoading => "model_loading",
            WaitCode::LanePaused => "lane_paused",
            WaitCode::Held => "held",
            WaitCode::Draining => "draining",
            WaitCode::KvFull => "kv_full",
            WaitCode::SlotsFull => "slots_full",
            WaitCode::PeerLost => "peer_lost",
        }
    }

    /// What is going on, in one sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            WaitCode::WindowOpen => "the batch window is still open: more work may join this batch",
            WaitCode::TurnOfOtherLane => "the other lane has its turn",
            WaitCode::NotInThisTurn => "it arrived after this turn began, or did not fit into it",
            WaitCode::OwedNextTurn => "it was passed over and is owed a place in the next turn",
            WaitCode::CapReached => "the batch being formed is full: it goes in a later one",
            WaitCode::SlotBusy => "every pipeline slot of this model is running a batch",
            WaitCode::DeviceBusy => "another model has the device",
            WaitCode::ModelLoading => "the model is still loading",
            WaitCode::LanePaused => "an operator paused this lane",
            WaitCode::Held => "an operator holds this request",
            WaitCode::Draining => "the engine is draining and starts no queued work",
            WaitCode::KvFull => "the KV budget is taken by running sequences",
            WaitCode::SlotsFull => "every generation slot is taken",
            WaitCode::PeerLost => "a peer that holds part of this model is gone",
        }
    }

    /// What an operator can do about it.
    pub fn way_out(self) -> &'static str {
        match self {
            WaitCode::WindowOpen => "lower the wait window, or wait some milliseconds",
            WaitCode::TurnOfOtherLane => "wait for the turn to end, or change the lane's share",
            WaitCode::NotInThisTurn => "it joins the next turn",
            WaitCode::OwedNextTurn => "nothing: it goes first in the next turn",
            WaitCode::CapReached => "raise the cost or count cap, or wait one batch",
            WaitCode::SlotBusy => "wait for a running batch, or raise the depth",
            WaitCode::DeviceBusy => "wait for the other model's batch",
            WaitCode::ModelLoading => "wait for loading to end; `lanekeeper models` shows its progress",
            WaitCode::LanePaused => "resume the lane",
            WaitCode::Held => "`lanekeeper release` lets it go",
            WaitCode::Draining => "send it to another engine",
            WaitCode::KvFull => "wait for a sequence to end, or raise the KV budget",
            WaitCode::SlotsFull => "wait for a sequence to end, or raise the slots",
            WaitCode::PeerLost => "restart the peer",
        }
    }
}
