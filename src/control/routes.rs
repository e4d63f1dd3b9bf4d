//! Where the work of each model goes: its route, stage by stage. Derived from the snapshot, for every reader alike.

use super::snapshot::{Model, ModelState, Snapshot};
use super::{Op, snapshot::Queue};
use schemars::JsonSchema;
use serde::Serialize;

/// The way that a model's work takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Route {
    pub model: String,
    pub ops: Vec<Op>,
    pub kind: RouteKind,
    /// Whether work can take it now.
    pub open: bool,
    /// In the order that work passes them.
    pub stages: Vec<Stage>,
    /// Requests under way on it.
    pub running: u64,
    /// Requests that wait for it.
    pub waiting: u64,
}

/// How far a route goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteKind {
    /// It does not leave this engine.
    Local,
}

impl RouteKind {
    pub fn name(self) -> &'static str {
        match self {
            RouteKind::Local => "local",
        }
    }
}

/// One stop of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stage {
    pub node: String,
    /// The device on the node: `cpu`, `cuda:0`.
    pub device: String,
    /// What the device is, in words; empty where the snapshot does not say.
    pub description: String,
}

/// The routes of all models, in the engine's order.
pub fn routes(snapshot: &Snapshot) -> Vec<Route> {
    snapshot.models.iter().map(|model| route(snapshot, model)).collect()
}

fn route(snapshot: &Snapshot, model: &Model) -> Route {
    let lanes = |queue: &Queue| {
        let (running, waiting) = (|l: &super::snapshot::LaneView| l.running, |l: &super::snapshot::LaneView| l.pending);
        (queue.lanes.iter().map(running).sum::<u64>(), queue.lanes.iter().map(waiting).sum::<u64>())
    };
    let generation = snapshot.generation.iter().filter(|g| g.model == model.id).map(|g| (g.slots_used, g.queued));
    let loads = model.queues.iter().map(lanes).chain(generation);
    let (running, waiting) = loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
    let device = snapshot.devices.iter().find(|device| device.id == model.device);
    let stage = Stage {
        node: snapshot.node.clone(),
        device: model.device.clone(),
        description: device.map(|device| device.description.clone()).unwrap_or_default(),
    };
    Route {
        model: model.id.clone(),
        ops: model.ops.clone(),
        kind: RouteKind::Local,
        open: model.state == ModelState::Ready,
        stages: vec![stage],
        running,
        waiting,
    }
}
