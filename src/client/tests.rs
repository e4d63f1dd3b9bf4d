//! The client against a small peer on a real socket.

use super::*;
use crate::control::{ExitCode, RequestPatch};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{any, get, post};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A peer that lives as long as this value.
struct Peer {
    client: Client,
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Peer {
    async fn start(router: Router) -> Peer {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("lk-client-{}-{}.sock", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Peer { client: Client::new(Target::Unix(path.clone()), Some(Key::new("k").unwrap())), path, task }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn status(code: u16, body: &'static str) -> Response {
    Response::builder().status(code).header("x-request-id", "req-7").body(Body::from(body)).unwrap()
}

fn events(text: String) -> Response {
    Response::builder().header("content-type", "text/event-stream").body(Body::from(text)).unwrap()
}

fn snapshot_event(pid: u32, seq: u64) -> String {
    format!("event: snapshot\ndata: {}\n\n", serde_json::to_string(&testing::snapshot(pid, seq)).unwrap())
}

#[tokio::test]
async fn errors_keep_the_words_of_the_engine_and_map_to_exit_codes() {
    let peer = Peer::start(
        Router::new()
            .route(
                "/readyz",
                get(|| async {
                    status(
                        503,
                        r#"{"error":{"message":"still loading","type":"unavailable_error","code":"x","param":null}}"#,
                    )
                }),
            )
            .route("/v1/models", get(|| async { status(403, "<html>no</html>") }))
            .route("/control/v1/snapshot", get(|| async { r#"{"schema":"lanekeeper.snapshot/9"}"# })),
    )
    .await;
    let e = peer.client.readyz().await.unwrap_err();
    assert_eq!((e.to_string().as_str(), e.exit_code()), ("still loading", ExitCode::Unhealthy));
    let e = peer.client.models().await.unwrap_err();
    assert!(e.to_string().contains("403 Forbidden: <html>no</html>"), "{e}");
    assert_eq!(e.exit_code(), ExitCode::Denied);
    let e = peer.client.snapshot().await.unwrap_err();
    assert!(e.to_string().contains("lanekeeper.snapshot/9"), "{e}");
    let e = peer.client.patch("../x", &RequestPatch::default()).await.unwrap_err();
    assert_eq!(e.exit_code(), ExitCode::Usage);
    let e = peer.client.patch("req-1", &RequestPatch::default()).await.unwrap_err();
    assert_eq!(e.exit_code(), ExitCode::Refused, "an unknown route is a 404");
}

#[tokio::test]
async fn a_peer_that_is_not_http_or_not_there_is_unreachable() {
    let path = std::env::temp_dir().join(format!("lk-client-none-{}.sock", std::process::id()));
    let e = Client::new(Target::Unix(path.clone()), None).snapshot().await.unwrap_err();
    assert_eq!(e.exit_code(), ExitCode::Unreachable);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let task = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 64]).await;
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await;
    });
    let e = Client::new(Target::Unix(path.clone()), None).snapshot().await.unwrap_err();
    assert_eq!(e.exit_code(), ExitCode::Unreachable, "{e}");
    assert!(e.to_string().contains("does not speak HTTP"), "{e}");
    task.await.unwrap();
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn requests_carry_key_form_and_body() {
    let echo = |request: Request| async move {
        let key = request.headers()["authorization"].to_str().unwrap().to_string();
        let kind = request.headers()["content-type"].to_str().unwrap().to_string();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        Response::builder()
            .header("x-request-id", "req-3")
            .header("x-queue-ms", "1.5")
            .body(Body::from(format!("{key}|{kind}|{}", String::from_utf8_lossy(&body))))
            .unwrap()
    };
    let peer = Peer::start(Router::new().route("/v1/audio/transcriptions", post(echo))).await;
    let ask = Transcription {
        model: "w".into(),
        file_name: "a.wav".into(),
        audio: Bytes::from_static(b"RIFFxxxx"),
        format: "text".into(),
        ..Transcription::default()
    };
    let answer = peer.client.transcribe(&ask).await.unwrap();
    assert_eq!((answer.request_id.as_deref(), answer.queue_ms, answer.run_ms), (Some("req-3"), Some(1.5), None));
    assert!(answer.body.starts_with("Bearer k|multipart/form-data; boundary="), "{}", answer.body);
    for piece in ["name=\"model\"\r\n\r\nw\r\n", "filename=\"a.wav\"", "RIFFxxxx"] {
        assert!(answer.body.contains(piece), "{piece} in {}", answer.body);
    }
}

#[tokio::test]
async fn vectors_come_back_in_order_or_not_at_all() {
    let good = r#"{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
    let peer = Peer::start(Router::new().route("/v1/embeddings", post(move || async move { status(200, good) }))).await;
    let texts = ["a".to_string(), "b".to_string()];
    let answer = peer.client.embed("m", &texts, None).await.unwrap();
    assert_eq!(answer.body.vectors, [[1.0, 0.0], [0.0, 1.0]]);
    assert_eq!(answer.body.usage.prompt_tokens, 3);
    let e = peer.client.embed("m", &texts[..1], None).await.unwrap_err();
    assert!(e.to_string().contains("2 vectors for 1 texts"), "{e}");
}

#[tokio::test]
async fn a_stream_ends_with_done_an_error_frame_or_an_error() {
    let chat = |request: Request| async move {
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let ask: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n: ping\n\n";
        let end = match ask["model"].as_str().unwrap() {
            "whole" => "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
            "fault" => {
                "data: {\"error\":{\"message\":\"it broke\",\"type\":\"server_error\",\"code\":null,\"param\":null}}\n\n"
            }
            _ => "",
        };
        events(format!("{delta}{end}"))
    };
    let peer = Peer::start(Router::new().route("/v1/chat/completions", post(chat))).await;
    let run = async |model: &str| {
        let ask =
            ChatRequest { model: model.into(), messages: vec![("user".into(), "x".into())], ..ChatRequest::default() };
        let mut stream = peer.client.generate_stream(&ask).await.unwrap();
        let mut pieces = Vec::new();
        loop {
            match stream.next().await {
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => return (pieces, None),
                Err(e) => return (pieces, Some(e)),
            }
        }
    };
    let hi = GenerationPiece::Text("hi".into());
    let (pieces, e) = run("whole").await;
    assert_eq!((pieces, e), (vec![hi.clone(), GenerationPiece::Finished("stop".into())], None));
    let (pieces, e) = run("fault").await;
    assert_eq!(pieces, std::slice::from_ref(&hi));
    assert_eq!(e.unwrap().to_string(), "it broke");
    let (pieces, e) = run("cut").await;
    assert_eq!(pieces, [hi]);
    assert_eq!(e.unwrap().exit_code(), ExitCode::Unreachable);
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    let (gone, mut seen) = tokio::sync::mpsc::channel::<()>(1);
    let hang = move |request: Request| {
        let gone = gone.clone();
        async move {
            drop(request);
            gone.send(()).await.unwrap();
            std::future::pending::<&'static str>().await
        }
    };
    let peer = Peer::start(Router::new().route("/v1/completions", any(hang))).await;
    let ask = ChatRequest { model: "m".into(), prompt: Some("p".into()), ..ChatRequest::default() };
    tokio::select! {
        answer = peer.client.generate(&ask) => panic!("the peer never answers, but: {answer:?}"),
        started = seen.recv() => started.unwrap(),
    }
    // The handler's sender goes when the server drops the handler; the router keeps one, so one is left.
    tokio::time::timeout(Duration::from_secs(20), async {
        while seen.sender_strong_count() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the server dropped the request");
    seen.close();
}

#[tokio::test]
async fn the_feed_goes_live_reports_loss_and_comes_back() {
    let connections = std::sync::Arc::new(AtomicU32::new(0));
    let count = connections.clone();
    let watch = move || {
        let n = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match n {
                0 => status(503, ""),
                1 => events(snapshot_event(1, 4) + &snapshot_event(1, 7)),
                _ => {
                    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(snapshot_event(2, 1)))]);
                    Response::new(Body::from_stream(first.chain(stream::pending())))
                }
            }
        }
    };
    let peer = Peer::start(Router::new().route("/control/v1/watch", get(watch))).await;
    let mut feed = Feed::start(peer.client.clone(), Duration::from_millis(50));
    let wait = Duration::from_secs(20);
    let live = tokio::time::timeout(wait, feed.states.wait_for(|s| s.snapshot().is_some_and(|s| s.pid == 2)));
    let state = live.await.expect("the third connection brings the second engine").unwrap().clone();
    match state {
        FeedState::Live { missed, snapshot, .. } => assert_eq!((missed, snapshot.seq), (2, 1)),
        FeedState::Reconnecting { why, .. } => panic!("{why}"),
    }
    drop(peer);
    drop(feed);
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}
