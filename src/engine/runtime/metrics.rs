//! Metrics beside the code they count, in Prometheus text.
//!
//! Counters and histograms are updated as things happen; gauges are set from the snapshot when somebody scrapes.

mod speculation;

pub use speculation::SpeculationMetrics;

use super::clock::lock;
use super::commits::CommitCounts;
use super::registry::NewRequest;
use crate::control::snapshot::{LaneProgress, ModelState, Outcome};
use crate::control::{Op, Snapshot};
use crate::engine::scheduler::{FlushReason, Formed, Micros, Order, TurnKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    model: String,
    op: &'static str,
    lane: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    model: String,
    op: &'static str,
    lane: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    model: String,
    op: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpLabels {
    model: String,
    op: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    model: String,
    op: &'static str,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MoveLabels {
    model: String,
    op: &'static str,
    knob: &'static str,
    cause: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
type FloatGauge = Gauge<f64, AtomicU64>;

/// 1 ms to about 17 min.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 21))
}

/// 1 to about 4 million: costs in tokens or milliseconds of audio.
fn costs() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 4.0, 12))
}

fn items() -> Histogram {
    Histogram::new([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0])
}

fn ratios() -> Histogram {
    Histogram::new((1..=10).map(|tenth| f64::from(tenth) / 10.0))
}

/// What one generation model counts as it goes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GenerationMetrics {
    pub prompt_tokens: Counter,
    pub generated_tokens: Counter,
    pub cached_tokens: Counter,
    pub preempted: Counter,
    pub failed_rewinds: Counter,
    /// Seconds of one forward pass over all sequences.
    pub iteration_seconds: Histogram,
    pub speculation: SpeculationMetrics,
}

/// All metrics of one engine.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<OutcomeLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    queue_seconds: Histograms<LaneLabels>,
    run_seconds: Histograms<LaneLabels>,
    estimate_error: Histograms<LaneLabels>,
    batches: Family<ReasonLabels, Counter>,
    batch_seconds: Histograms<LaneLabels>,
    batch_cost: Histograms<OpLabels>,
    batch_items: Histograms<OpLabels>,
    batch_fill: Histograms<OpLabels>,
    turns: Family<TurnLabels, Counter>,
    promotions: Family<OpLabels, Counter>,
    cap_moves: Family<MoveLabels, Counter>,
    engine_seconds: Family<LaneLabels, Counter<f64, AtomicU64>>,
    stalls: Family<LaneLabels, Counter>,
    stuck: Family<LaneLabels, FloatGauge>,
    panics: Family<ModelLabels, Counter>,
    prompt_tokens: Family<ModelLabels, Counter>,
    generated_tokens: Family<ModelLabels, Counter>,
    cached_tokens: Family<ModelLabels, Counter>,
    preempted: Family<ModelLabels, Counter>,
    failed_rewinds: Family<ModelLabels, Counter>,
    iteration_seconds: Histograms<ModelLabels>,
    speculation: speculation::SpeculationFamilies,
    commits: CommitCounts,
    pending: Family<LaneLabels, Gauge>,
    pending_cost: Family<LaneLabels, Gauge>,
    running: Family<LaneLabels, Gauge>,
    put_aside: Family<LaneLabels, Gauge>,
    estimate_off: Family<LaneLabels, FloatGauge>,
    owed: Family<OpLabels, Gauge>,
    turn_left: Family<OpLabels, Gauge>,
    cap: Family<OpLabels, Gauge>,
    wait_window: Family<OpLabels, FloatGauge>,
    slots_used: Family<ModelLabels, Gauge>,
    slots: Family<ModelLabels, Gauge>,
    kv_used: Family<ModelLabels, Gauge>,
    kv_cached: Family<ModelLabels, Gauge>,
    kv_capacity: Family<ModelLabels, Gauge>,
    generation_queued: Family<ModelLabels, Gauge>,
    ready: Family<ModelLabels, Gauge>,
    resident: Gauge,
    uptime: FloatGauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut r = Registry::with_prefix("lanekeeper");
        let mut metrics = Metrics {
            registry: Mutex::default(),
            requests: Family::default(),
            refused: Family::default(),
            queue_seconds: Family::new_with_constructor(seconds),
            run_seconds: Family::new_with_constructor(seconds),
            estimate_error: Family::new_with_constructor(seconds),
            batches: Family::default(),
            batch_seconds: Family::new_with_constructor(seconds),
            batch_cost: Family::new_with_constructor(costs),
            batch_items: Family::new_with_constructor(items),
            batch_fill: Family::new_with_constructor(ratios),
            turns: Family::default(),
            promotions: Family::default(),
            cap_moves: Family::default(),
            engine_seconds: Family::default(),
            stalls: Family::default(),
            stuck: Family::default(),
            panics: Family::default(),
            prompt_tokens: Family::default(),
            generated_tokens: Family::default(),
            cached_tokens: Family::default(),
            preempted: Family::default(),
            failed_rewinds: Family::default(),
            iteration_seconds: Family::new_with_constructor(seconds),
            speculation: speculation::SpeculationFamilies::default(),
            commits: CommitCounts::default(),
            pending: Family::default(),
            pending_cost: Family::default(),
            running: Family::default(),
            put_aside: Family::default(),
            estimate_off: Family::default(),
            owed: Family::default(),
            turn_left: Family::default(),
            cap: Family::default(),
            wait_window: Family::default(),
            slots_used: Family::default(),
            slots: Family::default(),
            kv_used: Family::default(),
            kv_cached: Family::default(),
            kv_capacity: Family::default(),
            generation_queued: Family::default(),
            ready: Family::default(),
            resident: Gauge::default(),
            uptime: FloatGauge::default(),
        };
        let m = &metrics;
        let s = Unit::Seconds;
        r.register("requests", "Requests that ended, by outcome", m.requests.clone());
        r.register("requests_refused", "Requests that were not admitted, by reason", m.refused.clone());
        r.register_with_unit("queue", "Time from admission to start", s.clone(), m.queue_seconds.clone());
        r.register_with_unit("run", "Time from start to end", s.clone(), m.run_seconds.clone());
        let help = "Difference between the wait that was estimated at admission and the wait that was";
        r.register_with_unit("wait_estimate_error", help, s.clone(), m.estimate_error.clone());
        r.register("batches", "Batches formed, by flush reason", m.batches.clone());
        r.register_with_unit("batch_run", "Time that batches ran", s.clone(), m.batch_seconds.clone());
        r.register("batch_cost", "Cost of batches: ms of audio, or tokens", m.batch_cost.clone());
        r.register("batch_items", "Requests in a batch", m.batch_items.clone());
        r.register("batch_fill_ratio", "Cost of a batch over the cost cap at that time", m.batch_fill.clone());
        r.register("turns", "Turns begun: of clips, of a recording, of a slice of one", m.turns.clone());
        r.register("promotions", "Batches that their oldest request led because of its age", m.promotions.clone());
        r.register("cap_moves", "Moves of caps, by knob and cause", m.cap_moves.clone());
        r.register_with_unit("engine", "Model time spent, by lane", s.clone(), m.engine_seconds.clone());
        r.register("lane_stalls", "Times that a lane was found stuck", m.stalls.clone());
        let help = "For how long a lane has been stuck: work waits that could be started, and is not; 0 = it gets on";
        r.register_with_unit("lane_stuck", help, s.clone(), m.stuck.clone());
        r.register("worker_panics", "Panics contained by workers", m.panics.clone());
        r.register("prompt_tokens", "Prompt tokens computed", m.prompt_tokens.clone());
        r.register("generated_tokens", "Tokens generated", m.generated_tokens.clone());
        r.register("prompt_cached_tokens", "Prompt tokens found in the KV cache", m.cached_tokens.clone());
        r.register("preemptions", "Sequences that lost their slot to older ones", m.preempted.clone());
        r.register("kv_rewind_failures", "KV rewinds that failed; the slot was read again", m.failed_rewinds.clone());
        let help = "Time of one forward pass over all sequences";
        r.register_with_unit("iteration", help, s.clone(), m.iteration_seconds.clone());
        m.speculation.register(&mut r);
        let c = &m.commits;
        r.register("commit_frames", "Frames of progress sent to observers of generations", c.sent.clone());
        r.register("commit_frames_missed", "Frames that observers were too slow for", c.dropped.clone());
        r.register("commit_settled", "Progress told of a request after its end, and refused", c.settled.clone());
        r.register("requests_pending", "Requests that wait", m.pending.clone());
        r.register("pending_cost", "Cost of what waits: ms of audio, or tokens", m.pending_cost.clone());
        r.register("requests_running", "Requests that run", m.running.clone());
        r.register("requests_put_aside", "Recordings between two slices", m.put_aside.clone());
        let help = "Median error of estimated waits over a window of requests, as a part of the wait";
        r.register("wait_estimate_error_ratio", help, m.estimate_off.clone());
        r.register("owed", "Clips that a turn passed over and that the next turns take first", m.owed.clone());
        r.register("turn_members_left", "Clips of the turn under way that are not taken yet", m.turn_left.clone());
        r.register("cost_cap", "The cost cap that binds: ms of audio, or tokens", m.cap.clone());
        r.register_with_unit("wait_window", "The batch window", s.clone(), m.wait_window.clone());
        r.register("slots_used", "Generation slots in use", m.slots_used.clone());
        r.register("slots", "Generation slots", m.slots.clone());
        r.register("kv_used_tokens", "Tokens of running sequences in the KV cache", m.kv_used.clone());
        r.register("kv_cached_tokens", "Tokens that idle slots keep in the KV cache", m.kv_cached.clone());
        r.register("kv_capacity_tokens", "Tokens that the KV cache may hold", m.kv_capacity.clone());
        r.register("generation_queued", "Requests that wait for a generation slot", m.generation_queued.clone());
        r.register("model_ready", "1 when the model is loaded and serves", m.ready.clone());
        let help = "Memory of the process that is resident";
        r.register_with_unit("process_resident_memory", help, Unit::Bytes, m.resident.clone());
        r.register_with_unit("uptime", "Time since the engine started", s, m.uptime.clone());
        metrics.registry = Mutex::new(r);
        metrics
    }
}

fn lane_labels(request: &NewRequest) -> LaneLabels {
    LaneLabels { model: request.model.to_string(), op: request.op.name(), lane: request.lane.name() }
}

fn progress_labels(lane: &LaneProgress) -> LaneLabels {
    LaneLabels {
        model: lane.model.clone(),
        op: lane.op.name(),
        lane: lane.lane.map_or(lane.op.name(), |lane| lane.name()),
    }
}

impl Metrics {
    /// A request started after it waited for `queued`; `estimate` is what it had been told.
    pub fn started(&self, request: &NewRequest, queued: Micros, estimate: Option<Micros>) {
        let labels = lane_labels(request);
        self.queue_seconds.get_or_create(&labels).observe(queued.as_secs());
        if let Some(estimate) = estimate {
            let error = Micros(estimate.0.abs_diff(queued.0));
            self.estimate_error.get_or_create(&labels).observe(error.as_secs());
        }
    }

    /// A request ran for so long, whatever its outcome.
    pub fn ran(&self, request: &NewRequest, run: Micros) {
        self.run_seconds.get_or_create(&lane_labels(request)).observe(run.as_secs());
    }

    pub fn ended(&self, request: &NewRequest, outcome: Outcome) {
        let LaneLabels { model, op, lane } = lane_labels(request);
        self.requests.get_or_create(&OutcomeLabels { model, op, lane, outcome: outcome.name() }).inc();
    }

    /// A request was not admitted: `queue_full`, `draining`, `not_ready`.
    pub fn refused(&self, model: &str, op: Op, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { model: model.to_string(), op: op.name(), reason }).inc();
    }

    /// A batch was formed; `begins`: a turn of clips begins with it.
    pub fn batch_formed(&self, model: &str, op: Op, batch: &Formed, begins: bool) {
        let (model, op, reason) = (model.to_string(), op.name(), FlushReason::name(batch.why));
        self.batches.get_or_create(&ReasonLabels { model: model.clone(), op, reason }).inc();
        if let Some(kind) = batch.kind.filter(|kind| begins || *kind != TurnKind::Clips) {
            self.turns.get_or_create(&TurnLabels { model: model.clone(), op, kind: kind.name() }).inc();
        }
        let labels = OpLabels { model, op };
        if batch.order == Order::Aged {
            self.promotions.get_or_create(&labels).inc();
        }
        self.batch_cost.get_or_create(&labels).observe(batch.cost as f64);
        self.batch_items.get_or_create(&labels).observe(batch.items.len() as f64);
        self.batch_fill.get_or_create(&labels).observe(batch.cost as f64 / batch.cap.max(1) as f64);
    }

    pub fn batch_ran(&self, model: &str, op: Op, lane: crate::control::Lane, run: Micros) {
        let labels = LaneLabels { model: model.to_string(), op: op.name(), lane: lane.name() };
        self.batch_seconds.get_or_create(&labels).observe(run.as_secs());
        self.engine_seconds.get_or_create(&labels).inc_by(run.as_secs());
    }

    /// A cap was moved.
    pub fn cap_moved(&self, model: &str, op: Op, knob: &'static str, cause: &'static str) {
        self.cap_moves.get_or_create(&MoveLabels { model: model.to_string(), op: op.name(), knob, cause }).inc();
    }

    /// A lane was found stuck.
    pub fn stalled(&self, lane: &LaneProgress) {
        self.stalls.get_or_create(&progress_labels(lane)).inc();
    }

    pub fn panicked(&self, model: &str) {
        self.panics.get_or_create(&ModelLabels { model: model.to_string() }).inc();
    }

    /// The counters of a generation model.
    pub fn generation(&self, model: &str) -> GenerationMetrics {
        let labels = ModelLabels { model: model.to_string() };
        GenerationMetrics {
            prompt_tokens: self.prompt_tokens.get_or_create_owned(&labels),
            generated_tokens: self.generated_tokens.get_or_create_owned(&labels),
            cached_tokens: self.cached_tokens.get_or_create_owned(&labels),
            preempted: self.preempted.get_or_create_owned(&labels),
            failed_rewinds: self.failed_rewinds.get_or_create_owned(&labels),
            iteration_seconds: self.iteration_seconds.get_or_create_owned(&labels),
            speculation: self.speculation(model),
        }
    }

    /// The counters of the stream of commits.
    pub fn commits(&self) -> CommitCounts {
        self.commits.clone()
    }

    /// The counters of its speculative path.
    pub fn speculation(&self, model: &str) -> SpeculationMetrics {
        self.speculation.of(model)
    }

    /// Prometheus text, with the gauges as `snapshot` has them.
    pub fn text(&self, snapshot: &Snapshot) -> String {
        // One scrape at a time: two would mix their gauges.
        let registry = lock(&self.registry);
        self.set_gauges(snapshot);
        let mut text = String::new();
        match encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to a string does not fail; a metric that cannot be encoded would be a mistake of ours.
            Err(_) => String::from("# metrics could not be encoded\n"),
        }
    }

    fn set_gauges(&self, snapshot: &Snapshot) {
        self.uptime.set(snapshot.uptime_ms as f64 / 1_000.0);
        for lane in &snapshot.progress {
            self.stuck.get_or_create(&progress_labels(lane)).set(lane.stuck_ms.unwrap_or(0.0) / 1_000.0);
        }
        self.resident.set(gauge(snapshot.host.resident_bytes.unwrap_or(0)));
        for model in &snapshot.models {
            let labels = ModelLabels { model: model.id.clone() };
            self.ready.get_or_create(&labels).set(i64::from(model.state == ModelState::Ready));
            for queue in &model.queues {
                let labels = OpLabels { model: model.id.clone(), op: queue.op.name() };
                let turn = queue.turn.as_ref();
                self.owed.get_or_create(&labels).set(gauge(turn.map_or(0, |turn| turn.owed_total)));
                self.turn_left.get_or_create(&labels).set(gauge(turn.map_or(0, |turn| turn.members_left)));
                self.cap.get_or_create(&labels).set(gauge(queue.caps.max_batch_cost_effective));
                self.wait_window.get_or_create(&labels).set(queue.caps.wait_ms / 1_000.0);
                for lane in &queue.lanes {
                    let labels = LaneLabels { model: model.id.clone(), op: queue.op.name(), lane: lane.lane.name() };
                    self.pending.get_or_create(&labels).set(gauge(lane.pending));
                    self.pending_cost.get_or_create(&labels).set(gauge(lane.cost));
                    self.running.get_or_create(&labels).set(gauge(lane.running));
                    self.put_aside.get_or_create(&labels).set(gauge(lane.put_aside));
                    if let Some(error) = lane.estimate_error {
                        self.estimate_off.get_or_create(&labels).set(error.median_ratio);
                    }
                }
            }
        }
        self.speculation.set(snapshot);
        for generation in &snapshot.generation {
            let labels = ModelLabels { model: generation.model.clone() };
            self.slots_used.get_or_create(&labels).set(gauge(generation.slots_used));
            self.slots.get_or_create(&labels).set(gauge(generation.slots));
            self.kv_used.get_or_create(&labels).set(gauge(generation.kv_used_tokens));
            self.kv_cached.get_or_create(&labels).set(gauge(generation.kv_cached_tokens));
            self.kv_capacity.get_or_create(&labels).set(gauge(generation.kv_capacity_tokens));
            self.generation_queued.get_or_create(&labels).set(gauge(generation.queued));
        }
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
