//! Bodies that are broken, too large, false about their length, or nested without end.

use super::bed::{Bed, FORM, form, wav};
use serde_json::json;

const PATHS: [&str; 4] = ["/v1/embeddings", "/v1/rerank", "/v1/chat/completions", "/v1/completions"];

#[tokio::test]
async fn broken_json_is_refused_and_the_engine_lives() {
    let bed = Bed::start().await;
    let deep = "[".repeat(10_000);
    let bodies: [Vec<u8>; 7] = [
        b"{\"model\": \"minilm-l6\", \"input\": \"\xc4\xe3\xba\xc3\"}".to_vec(),
        br#"{"model": "minilm-l6", "input": "\ud800"}"#.to_vec(),
        b"{\"model\": \"minilm-l6\", \"input\": \"\0\"}".to_vec(),
        deep.clone().into_bytes(),
        format!("{{\"model\": \"minilm-l6\", \"input\": {deep}}}").into_bytes(),
        vec![],
        b"null".to_vec(),
    ];
    for path in PATHS {
        for body in &bodies {
            assert_eq!(bed.ask("POST", path, &[], body.clone()).await.error(400)["code"], "invalid_json");
        }
    }
    let escaped = br#"{"model": "minilm-l6", "input": "a \u0000 b"}"#;
    assert_eq!(bed.ask("POST", "/v1/embeddings", &[], &escaped[..]).await.status, 200);
}

#[tokio::test]
async fn routes_and_methods_that_are_not_there_have_the_error_shape() {
    let bed = Bed::start().await;
    assert_eq!(bed.get("/v1/nothing").await.error(404)["code"], "unknown_route");
    assert_eq!(bed.get("/v1/embeddings").await.error(405)["code"], "method_not_allowed");
    bed.post("/livez", json!({})).await.error(405);
    bed.ask("DELETE", "/v1/requests/what", &[], "").await.error(400);
    for (method, path) in [("GET", "/v1/models/%ff"), ("DELETE", "/v1/requests/%ff")] {
        assert_eq!(bed.ask(method, path, &[], "").await.error(400)["param"], "id", "{path}");
    }
    assert_eq!(bed.get("/control/v1/snapshot?models=nobody").await.error(404)["code"], "model_not_found");
    assert_eq!(bed.get("/control/v1/snapshot?requests=top%3A5").await.status, 200);
    bed.get("/control/v1/watch?interval_ms=1").await.error(400);
}

#[tokio::test]
async fn a_body_over_the_limit_is_heard_out_and_refused() {
    let bed = Bed::with("", |profile| profile.limits.json_bytes = 1000).await;
    let body = json!({"model": "minilm-l6", "input": "x".repeat(3_000_000)}).to_string();
    for path in PATHS {
        let error = bed.ask("POST", path, &[], body.clone()).await.error(413);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("limits.json_bytes is 1000") && message.contains("3000"), "{message}");
    }
    // Chunked: the length is not known before.
    let chunked = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    assert!(bed.raw(chunked.as_bytes(), false).await.starts_with("HTTP/1.1 413"));
    assert_eq!(bed.post("/v1/embeddings", json!({"model": "minilm-l6", "input": "a"})).await.status, 200);
}

#[tokio::test]
async fn a_client_that_waits_for_leave_is_refused_unread() {
    let bed = Bed::with("", |profile| profile.limits.json_bytes = 1000).await;
    let head = "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\nexpect: 100-continue\r\n\r\n";
    let answer = bed.raw(head.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn a_false_length_is_never_a_success() {
    let bed = Bed::start().await;
    let body = json!({"model": "minilm-l6", "input": "a"}).to_string();
    for length in [body.len() - 5, body.len() + 50] {
        let request = format!("POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
        let answer = bed.raw(request.as_bytes(), true).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(bed.post("/v1/embeddings", json!({"model": "minilm-l6", "input": "a"})).await.status, 200);
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused() {
    let bed = Bed::with("", |profile| profile.limits.audio_bytes = 100_000).await;
    for samples in [50_000, 2_000_000] {
        let body = form(&wav(samples, 9000), &[("model", "whisper-tiny-en")]);
        let error = bed.ask("POST", "/v1/audio/transcriptions", &[FORM], body).await.error(413);
        assert!(error["message"].as_str().unwrap().contains("limits.audio_bytes is 100000"), "{error}");
    }
    assert_eq!(bed.transcribe(&wav(40_000, 9000), &[]).await.status, 200);
}
