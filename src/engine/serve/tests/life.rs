//! Binding, watching, draining, ending.

use super::bed::{Bed, engine, options, request, wav, within};
use super::fakes::Gate;
use crate::engine::serve::{Ended, Server};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn doors_that_cannot_be_opened_say_why() {
    let bed = Bed::start().await;
    let other = engine(&Gate::new(), |_| {}).await;
    let refused = |change: fn(&mut crate::engine::serve::Options, &Bed)| {
        let mut options = options("");
        change(&mut options, &bed);
        let other = other.clone();
        async move { Server::bind(other, options).await.err().unwrap() }
    };
    let wide = refused(|options, _| options.http = "0.0.0.0:0".parse().unwrap()).await;
    assert!(wide.message.contains("no keys"), "{wide}");
    let taken = refused(|options, bed| options.http = bed.address).await;
    assert!(taken.hint.unwrap().contains("another process"));
    let live = refused(|options, bed| options.control = bed.socket.clone()).await;
    assert!(live.message.contains("another engine"), "{live}");
    assert_eq!(bed.get("/livez").await.status, 200, "the first one is unharmed");
}

#[tokio::test]
async fn wide_listening_is_allowed_with_keys() {
    let mut options = options("app serve a-long-key");
    options.http = "0.0.0.0:0".parse().unwrap();
    assert!(Server::bind(engine(&Gate::new(), |_| {}).await, options).await.is_ok());
}

/// Opens a watch stream and reads frames from it.
struct Watch {
    stream: TcpStream,
    seen: String,
}

impl Watch {
    async fn open(bed: &Bed) -> Watch {
        let mut stream = bed.connect().await;
        stream
            .write_all(b"GET /control/v1/watch?interval_ms=50 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        Watch { stream, seen: String::new() }
    }

    /// Reads until the text holds `frames` snapshots, or to the end.
    async fn read(&mut self, frames: usize) -> Vec<Value> {
        let mut buffer = [0u8; 65_536];
        while self.snapshots().len() < frames {
            let n = within(self.stream.read(&mut buffer)).await.unwrap();
            if n == 0 {
                break;
            }
            self.seen += std::str::from_utf8(&buffer[..n]).unwrap();
        }
        self.snapshots()
    }

    fn snapshots(&self) -> Vec<Value> {
        let lines = self.seen.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.filter_map(|json| serde_json::from_str(json).ok()).collect()
    }
}

#[tokio::test]
async fn a_watch_brings_new_snapshots() {
    let bed = Bed::start().await;
    let mut watch = Watch::open(&bed).await;
    let snapshots = watch.read(3).await;
    let numbers: Vec<u64> = snapshots.iter().map(|s| s["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(snapshots[0]["schema"], "lanekeeper.snapshot/1");
    let view = bed.get("/control/v1/snapshot?models=minilm-l6&requests=top:0").await.json();
    assert_eq!((view["models"].as_array().unwrap().len(), &view["requests"]["shown"]), (1, &json!([])));
}

#[tokio::test]
async fn open_connections_shut_nobody_out() {
    let bed = Bed::with_places(3).await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(bed.connect().await);
        assert_eq!(bed.get("/livez").await.status, 200);
    }
    // Those that came first were closed for those that came later.
    let mut byte = [0u8; 1];
    assert_eq!(within(idle[0].read(&mut byte)).await.unwrap(), 0);
    let mut watches = [Watch::open(&bed).await, Watch::open(&bed).await, Watch::open(&bed).await];
    for watch in &mut watches {
        watch.read(1).await;
    }
    assert_eq!(bed.get("/livez").await.status, 200, "the probes still answer when all are at work");
    assert_eq!(bed.get("/metrics").await.status, 200);
    let refused = bed.get("/v1/models").await;
    assert_eq!(refused.error(503)["code"], "too_many_connections");
    assert!(refused.headers.contains_key("retry-after") && refused.headers["connection"] == "close");
    assert!(watches[0].read(4).await.len() >= 4, "who is served goes on being served");
    drop(watches);
    within(async {
        while bed.get("/v1/models").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A request that runs in the background.
fn spawn(bed: &Arc<Bed>, seconds: usize) -> tokio::task::JoinHandle<super::bed::Reply> {
    let bed = bed.clone();
    tokio::spawn(async move { bed.transcribe(&wav(seconds * 16_000, 9000), &[]).await })
}

#[tokio::test]
async fn draining_ends_running_work_and_refuses_the_rest() {
    let mut bed = Bed::with("", |profile| {
        for model in &mut profile.models {
            (model.depth, model.max_batch_requests) = (Some(1), Some(1));
        }
    })
    .await;
    let ends = bed.ends();
    let bed = Arc::new(bed);
    let mut watch = Watch::open(&bed).await;
    watch.read(1).await;
    bed.gate.shut();
    let running = spawn(&bed, 1);
    within(bed.gate.arrived(1)).await;
    let waiting = [spawn(&bed, 1), spawn(&bed, 2)];
    bed.until("two wait", |s| s["requests"]["total"] == 3).await;
    let (_abort, server) = ends.drain();
    for reply in waiting {
        let reply = within(reply).await.unwrap();
        assert_eq!(reply.error(503)["code"], "draining");
        assert!(reply.headers.contains_key("retry-after"));
    }
    let new = bed.transcribe(&wav(16_000, 9000), &[]).await;
    assert_eq!(new.error(503)["code"], "draining");
    bed.get("/readyz").await.error(503);
    assert_eq!(bed.get("/livez").await.status, 200);
    let last = watch.read(usize::MAX).await;
    assert_eq!(last.last().unwrap()["state"], "draining", "the stream says why it ends");
    bed.gate.open();
    assert_eq!(within(running).await.unwrap().json()["text"], "Window 0.");
    assert_eq!(within(server).await.unwrap(), Ended::Drained);
    assert!(TcpStream::connect(bed.address).await.is_err());
    assert!(!bed.socket.exists());
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let mut bed = Bed::start().await;
    bed.gate.shut();
    let mut stream = bed.connect().await;
    stream.write_all(&request(&wav(16_000, 9000))).await.unwrap();
    within(bed.gate.arrived(1)).await;
    let (abort, server) = bed.ends().drain();
    abort.send(()).unwrap();
    assert_eq!(within(server).await.unwrap(), Ended::Aborted);
    bed.gate.open();
}
