//! The engine on models made for the test: they do what their input tells them to, and stop where the test wants them.

mod accounts;
mod admission;
mod containment;
mod fakes;
mod hands;
mod leaving;
mod operated;
mod seen;
mod slices;
mod tuning;

use super::*;
use crate::control::snapshot::{Outcome, Queue, Request};
use crate::control::{ErrorKind, Fault, Op};
use crate::engine::audio::Pcm;
use crate::engine::models::TranscribeOptions;
use crate::profile::{
    AudioLimits, BoxProfile, Console, DType, DeviceChoice, Family, Limits, Listen, ModelProfile, Retention,
};
use fakes::Stage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn model(id: &str, family: Family, ops: &[Op]) -> ModelProfile {
    ModelProfile {
        id: id.to_string(),
        family,
        ops: ops.to_vec(),
        description: String::new(),
        licence: String::new(),
        files: BTreeMap::new(),
        max_batch_tokens: Some(720_000),
        budget_origin: crate::profile::Origin::CommandLine { setting: "the test".to_string() },
        adaptive: crate::profile::AdaptiveSettings::default(),
        max_batch_requests: Some(12),
        wait_ms: 0.0,
        coalesce_ms: 0.0,
        coalesce_ratio: 0.5,
        idle_bypass: false,
        depth: None,
        max_attempts: 6,
        max_queue: 8,
        dtype: DType::Auto,
        device: DeviceChoice::Cpu,
        device_weight: 1,
        max_input_tokens: None,
        long_form: true,
        slice_windows: Some(1),
        recordings_share: 0.5,
        keep_owed: false,
        clips_paused: false,
        recordings_paused: false,
        language: None,
        generation: None,
        draft_head: None,
        draft: None,
    }
}

fn box_profile(models: Vec<ModelProfile>) -> BoxProfile {
    BoxProfile {
        name: "test".to_string(),
        description: String::new(),
        models,
        listen: Listen { http: ([127, 0, 0, 1], 0).into(), control: None },
        keys_file: None,
        receipts_file: None,
        cpu_threads: Some(1),
        limits: Limits {
            json_bytes: 1 << 20,
            audio_bytes: 1 << 20,
            max_items: 64,
            audio: AudioLimits { max_seconds: 3_600.0, decoders: 1 },
            default_deadline_s: None,
            stall_s: 30.0,
            drain_s: 30.0,
            progress_s: 30.0,
        },
        draining: false,
        read_only: false,
        effect_window_s: 60.0,
        retention: Retention { requests: 64, arrivals: 65_536 },
        log_level: None,
        console: Console { interval_ms: 500, theme: "none".to_string(), colours: String::new(), keys: String::new() },
    }
}

/// An engine with a speech model `ears` and a text model `vectors`, and the stage that they play on.
fn engine(change: impl FnOnce(&mut BoxProfile)) -> (Engine, Arc<Stage>) {
    engine_on(Arc::new(Stage::default()), change)
}

fn engine_on(stage: Arc<Stage>, change: impl FnOnce(&mut BoxProfile)) -> (Engine, Arc<Stage>) {
    let mut profile = box_profile(vec![
        model("ears", Family::Whisper, &[Op::Transcribe]),
        model("vectors", Family::Bert, &[Op::Embed, Op::Rerank]),
    ]);
    change(&mut profile);
    let engine = Engine::start_with(profile, ModelFiles::new(), fakes::loader(&stage)).expect("threads start");
    (engine, stage)
}

/// Speech of so many seconds; `script` tells the model what to do with it.
fn speech(seconds: usize, script: &str) -> TranscribeJob {
    let audio = Pcm { samples: vec![0.0; seconds * 16_000].into(), truncated: false };
    TranscribeJob { audio, options: TranscribeOptions { prompt: Some(script.to_string()), ..Default::default() } }
}

fn transcribe(engine: &Engine, seconds: usize, script: &str) -> Ticket<TranscriptEvent> {
    engine.transcribe("ears", speech(seconds, script), Caller::default()).expect("admitted")
}

/// The texts of the segments, or the fault.
async fn transcript(mut ticket: Ticket<TranscriptEvent>) -> Result<Vec<String>, Fault> {
    let mut texts = Vec::new();
    loop {
        match ticket.next().await.expect("a stream ends with an end") {
            Ok(TranscriptEvent::Segment(segment)) => texts.push(segment.text),
            Ok(TranscriptEvent::Done { .. }) => return Ok(texts),
            Err(fault) => return Err(fault),
        }
    }
}

async fn last<E>(mut ticket: Ticket<E>) -> Result<E, Fault> {
    ticket.next().await.expect("a stream ends with an end")
}

/// Waits for what the engine's threads are about to do; gives up after ten seconds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
        std::thread::yield_now();
    }
}

fn queue(engine: &Engine, model: &str, op: Op) -> Queue {
    let snapshot = engine.snapshot();
    let model = snapshot.models.iter().find(|m| m.id == model).expect("served");
    model.queues.iter().find(|q| q.op == op).expect("has the operation").clone()
}

/// A request as it is shown. A snapshot may be a moment older than the request.
fn request(engine: &Engine, id: RequestId) -> Request {
    let name = id.to_string();
    let mut shown = None;
    until("the request is shown", || {
        shown = engine.snapshot().requests.shown.iter().find(|r| r.id == name).cloned();
        shown.is_some()
    });
    shown.expect("it was waited for")
}
