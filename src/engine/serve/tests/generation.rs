//! Chat and completions, whole and streamed.

use super::bed::{Bed, completion, within};
use crate::profile::BoxProfile;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn slots(profile: &mut BoxProfile, slots: usize, queue: usize) {
    for generation in profile.models.iter_mut().filter_map(|model| model.generation.as_mut()) {
        (generation.slots, generation.queue) = (slots, queue);
    }
}

fn text(value: &Value) -> &str {
    value["choices"][0]["text"].as_str().unwrap()
}

/// The frames of an event stream; the last one must be [DONE].
fn frames(body: &str) -> Vec<Value> {
    let data: Vec<&str> = body.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")).collect();
    let (last, frames) = data.split_last().unwrap();
    assert_eq!(*last, "[DONE]", "{body}");
    frames.iter().map(|json| serde_json::from_str(json).unwrap()).collect()
}

#[tokio::test]
async fn whole_and_streamed_answers_agree() {
    let bed = Bed::start().await;
    for (extra, wanted, finish) in [
        (json!({"max_tokens": 4}), "bcde", "length"),
        (json!({"max_tokens": 100}), "bcdefghijklmnopqrstuvwxyz", "stop"),
        (json!({"max_tokens": 20, "stop": "efg"}), "bcd", "stop"),
        (json!({"max_tokens": 5, "stop": ["fgh"]}), "bcdef", "length"),
        (json!({"max_tokens": 5, "stop": ["b"]}), "", "stop"),
        (json!({"max_tokens": null, "stop": "g"}), "bcdef", "stop"),
    ] {
        let reply = bed.complete(json!("a"), extra.clone()).await;
        let value = reply.json();
        assert_eq!((text(&value), &value["choices"][0]["finish_reason"]), (wanted, &json!(finish)), "{extra}");
        assert_eq!(value["usage"]["prompt_tokens"], 1);
        assert_eq!(value["timings"]["predicted_n"], value["usage"]["completion_tokens"]);
        assert!(reply.header("x-request-id").starts_with("req-") && reply.headers.contains_key("x-queue-ms"));
        let mut streamed = extra.clone();
        streamed["stream"] = json!(true);
        streamed["stream_options"] = json!({"include_usage": true});
        let reply = bed.complete(json!("a"), streamed).await;
        assert_eq!(reply.header("content-type"), "text/event-stream; charset=utf-8");
        let frames = frames(reply.text());
        let (usage, rest) = frames.split_last().unwrap();
        assert_eq!((&usage["choices"], &usage["usage"]), (&json!([]), &value["usage"]));
        assert_eq!(rest.iter().map(text).collect::<String>(), wanted, "{extra}");
        assert_eq!(rest.last().unwrap()["choices"][0]["finish_reason"], finish);
    }
}

#[tokio::test]
async fn chats_are_answered() {
    let bed = Bed::start().await;
    let body = json!({"model": "smollm2-135m", "temperature": 0, "max_tokens": 3, "logprobs": true, "top_logprobs": 2,
                      "messages": [{"role": "user", "content": "x"}]});
    let value = bed.post("/v1/chat/completions", body.clone()).await.json();
    assert_eq!(value["choices"][0]["message"], json!({"role": "assistant", "content": "abc", "refusal": null}));
    let content = value["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!((content.len(), &content[0]["token"], &content[0]["bytes"]), (3, &json!("a"), &json!([97])));
    assert_eq!(content[0]["top_logprobs"].as_array().unwrap().len(), 2);
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let frames = frames(bed.post("/v1/chat/completions", streamed).await.text());
    let delta = |frame: &Value| frame["choices"][0]["delta"]["content"].as_str().unwrap_or("").to_string();
    assert_eq!(frames[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(frames.iter().map(delta).collect::<String>(), "abc");
    assert!(frames.iter().all(|frame| frame.get("usage").is_none()), "usage only where it was asked for");
}

#[tokio::test]
async fn several_prompts_and_answers_are_one_request() {
    let bed = Bed::start().await;
    let value = bed.complete(json!(["a", "b", "y"]), json!({"max_tokens": 2, "n": 2})).await.json();
    let texts: Vec<&str> = value["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
    assert_eq!(texts[..2], ["bc", "bc"]);
    assert_eq!(texts[4..], ["z", "z"]);
    assert_eq!(value["usage"]["prompt_tokens"], 3, "each prompt once");
    assert_eq!(bed.complete(json!(["a", ""]), json!({})).await.error(400)["param"], "prompt[1]");
}

#[tokio::test]
async fn what_can_never_fit_is_refused_with_both_numbers() {
    let bed = Bed::start().await;
    for (prompt, extra, param) in [
        ("a".repeat(300), json!({"max_tokens": 57}), "prompt"),
        ("a".repeat(256), json!({}), "prompt"),
        ("a".repeat(200), json!({"max_tokens": 57}), "max_tokens"),
        ("a".repeat(200), json!({"max_completion_tokens": 57}), "max_completion_tokens"),
        ("a".repeat(200), json!({"min_tokens": 57}), "min_tokens"),
    ] {
        let error = bed.complete(json!(prompt), extra).await.error(400);
        assert_eq!((&error["code"], &error["param"]), (&json!("context_length_exceeded"), &json!(param)));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("256") && message.contains(&prompt.len().to_string()), "{message}");
    }
    assert_eq!(text(&bed.complete(json!("a".repeat(200)), json!({"max_tokens": 56})).await.json()).len(), 25);
    let messages = json!([{"role": "user", "content": "a".repeat(300)}]);
    let error =
        bed.post("/v1/chat/completions", json!({"model": "smollm2-135m", "messages": messages})).await.error(400);
    assert_eq!(error["param"], "messages");
    let error = bed.complete(json!([[1, 9_999]]), json!({})).await.error(400);
    assert_eq!(error["param"], "prompt[0][1]");
}

#[tokio::test]
async fn a_full_queue_is_told_at_once_and_probes_answer() {
    let bed = std::sync::Arc::new(Bed::with("", |profile| slots(profile, 1, 2)).await);
    bed.gate.shut();
    let ask = || {
        let bed = bed.clone();
        tokio::spawn(async move { bed.complete(json!("a"), json!({"max_tokens": 2})).await })
    };
    let running = ask();
    within(bed.gate.arrived(1)).await;
    let waiting = [ask(), ask()];
    bed.until("two wait", |s| s["generation"][0]["queued"] == 2).await;
    for stream in [false, true] {
        let refused = bed.complete(json!("a"), json!({"stream": stream})).await;
        refused.error(429);
        assert!(refused.header("retry-after").parse::<u32>().unwrap() >= 1);
    }
    assert_eq!(bed.get("/livez").await.status, 200);
    assert!(bed.get("/readyz").await.error(503)["message"].as_str().unwrap().contains("queue"));
    assert_eq!(bed.get("/progressz").await.status, 200);
    assert!(bed.get("/metrics").await.text().contains("lanekeeper_"));
    bed.gate.open();
    for answer in [running].into_iter().chain(waiting) {
        assert_eq!(text(&within(answer).await.unwrap().json()), "bc");
    }
    assert_eq!(bed.get("/readyz").await.status, 200);
}

/// Opens a streamed completion and leaves the answer to be read.
async fn open(bed: &Bed) -> TcpStream {
    let body = completion(json!("a"), json!({"stream": true, "max_tokens": 200, "ignore_eos": true})).to_string();
    let head = format!("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut stream = bed.connect().await;
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_slot_and_its_place() {
    let bed = Bed::with("", |profile| slots(profile, 1, 4)).await;
    bed.gate.shut();
    let running = open(&bed).await;
    within(bed.gate.arrived(1)).await;
    let waiting = open(&bed).await;
    bed.until("one waits", |s| s["generation"][0]["queued"] == 1).await;
    drop((running, waiting));
    // The closes came before this connection, and so are seen before its answer.
    assert_eq!(bed.get("/livez").await.status, 200);
    bed.gate.open();
    let snapshot = bed.until("both have left", |s| s["requests"]["total"] == 0).await;
    let outcomes: Vec<&Value> =
        snapshot["requests"]["shown"].as_array().unwrap().iter().map(|request| &request["outcome"]).collect();
    assert_eq!(outcomes, ["cancelled", "cancelled"]);
    assert!(bed.gate.steps() <= 2, "{} passes for nobody", bed.gate.steps());
    assert_eq!(text(&bed.complete(json!("a"), json!({"max_tokens": 1})).await.json()), "b");
}

#[tokio::test]
async fn a_cancelled_stream_ends_with_an_error_frame() {
    let bed = Bed::start().await;
    bed.gate.shut();
    let mut stream = open(&bed).await;
    within(bed.gate.arrived(1)).await;
    // Past the time in which a fault still has a status of its own.
    let mut seen = vec![0; 4096];
    let n = within(stream.read(&mut seen)).await.unwrap();
    seen.truncate(n);
    assert!(seen.starts_with(b"HTTP/1.1 200"));
    let shown = bed.until("it runs", |s| s["requests"]["total"] == 1).await;
    let id = shown["requests"]["shown"][0]["id"].as_str().unwrap();
    assert_eq!(bed.ask("DELETE", &format!("/v1/requests/{id}"), &[], "").await.json()["cancelled"], true);
    bed.gate.open();
    while !seen.ends_with(b"\r\n0\r\n\r\n") {
        let mut more = [0; 4096];
        let n = within(stream.read(&mut more)).await.unwrap();
        assert!(n > 0, "the stream ends as a chunked body does");
        seen.extend_from_slice(&more[..n]);
    }
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("\"error\"") && !seen.contains("[DONE]"), "{seen}");
    bed.ask("DELETE", &format!("/v1/requests/{id}"), &[], "").await.error(404);
}

#[tokio::test]
async fn bad_fields_harm_nobody() {
    let bed = Bed::start().await;
    for (extra, param) in [
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"echo": true, "max_tokens": 0, "logprobs": 1}), "echo"),
        (json!({"stop_token_ids": [97 + 5], "min_tokens": 4}), "stop_token_ids[0]"),
        (json!({"logit_bias": {"97": 1}}), "logit_bias.97"),
        (json!({"n": 0}), "n"),
        (json!({"stop": ""}), "stop"),
    ] {
        assert_eq!(bed.complete(json!("a"), extra).await.error(400)["param"], param);
        assert_eq!(text(&bed.complete(json!("a"), json!({"max_tokens": 1})).await.json()), "b");
    }
}

/// Reads until `seen` holds so many frames of a kind.
async fn frames_of(stream: &mut TcpStream, seen: &mut String, kind: &str, count: usize) {
    let wanted = format!("\"kind\":\"{kind}\"");
    while seen.matches(&wanted).count() < count {
        let mut more = [0; 4096];
        let n = within(stream.read(&mut more)).await.unwrap();
        assert!(n > 0, "the stream goes on: {seen}");
        seen.push_str(std::str::from_utf8(&more[..n]).unwrap());
    }
}

#[tokio::test]
async fn observers_get_the_tokens_of_an_answer_as_they_are_committed() {
    let mut bed = Bed::start().await;
    let mut observer = bed.connect().await;
    observer.write_all(b"GET /control/v1/commits HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\r\n\r\n") {
        let mut more = [0; 4096];
        let n = within(observer.read(&mut more)).await.unwrap();
        seen.push_str(std::str::from_utf8(&more[..n]).unwrap());
    }
    assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
    let value = bed.complete(json!("a"), json!({"max_tokens": 9, "n": 2})).await.json();
    frames_of(&mut observer, &mut seen, "finished", 2).await;
    let frames: Vec<Value> =
        seen.lines().filter_map(|l| l.strip_prefix("data: ")).map(|l| serde_json::from_str(l).unwrap()).collect();
    let told: usize = frames.iter().filter_map(|f| f["tokens"].as_array()).map(Vec::len).sum();
    assert_eq!(json!(told), value["usage"]["completion_tokens"]);
    assert_eq!(frames.iter().filter(|f| f["kind"] == "started").count(), 2);
    assert!(frames.iter().all(|f| f["model"] == "smollm2-135m" && f["request"].as_str().unwrap().starts_with("req-")));
    bed.get("/control/v1/commits?model=x").await.error(400);
    // The observer's stream ends with the engine, however quiet it is.
    let (_, server) = bed.ends().drain();
    within(server).await.unwrap();
    while within(observer.read(&mut [0; 4096])).await.unwrap() > 0 {}
}
