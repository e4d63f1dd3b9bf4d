//! Transcriptions.

use super::bed::{Bed, FORM, form, request, wav, within};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

const SECOND: usize = 16_000;

#[tokio::test]
async fn every_format_is_answered_in_its_own_type() {
    let bed = Bed::start().await;
    let audio = wav(65 * SECOND, 9000);
    for (format, kind, starts) in [
        ("json", "application/json", "{\"text\":\"Window 0. Window 1. Window 2.\""),
        ("text", "text/plain; charset=utf-8", "Window 0. Window 1. Window 2.\n"),
        ("srt", "application/x-subrip; charset=utf-8", "1\n00:00:00,000 --> 00:00:30,000\nWindow 0.\n\n2\n"),
        ("vtt", "text/vtt; charset=utf-8", "WEBVTT\n\n00:00:00.000 --> 00:00:30.000\nWindow 0.\n\n"),
        ("verbose_json", "application/json", "{\"task\":\"transcribe\",\"language\":\"english\",\"duration\":65.0"),
    ] {
        let reply = bed.transcribe(&audio, &[("response_format", format)]).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, kind));
        assert!(reply.text().starts_with(starts), "{format}: {}", reply.text());
        assert_eq!(reply.header("x-audio-seconds"), "65.000");
        assert!(reply.header("x-run-ms").parse::<f64>().unwrap() >= 0.0);
    }
}

#[tokio::test]
async fn bad_fields_and_bad_audio_are_refused() {
    let bed = Bed::start().await;
    let audio = wav(SECOND, 9000);
    for (name, value) in [("response_format", "xml"), ("language", "fr"), ("language", "zz"), ("stream", "maybe")] {
        assert_eq!(bed.transcribe(&audio, &[(name, value)]).await.error(400)["param"], name);
    }
    let translation = form(&audio, &[("model", "whisper-tiny-en")]);
    let error = bed.ask("POST", "/v1/audio/translations", &[FORM], translation).await.error(400);
    assert_eq!(error["param"], "model", "an English-only model does not translate");
    for bytes in [&b""[..], &audio[..44], b"<!DOCTYPE html><html><body>no</body></html>", b"{\"a\": 1}", b"/tmp/a.wav"]
    {
        let error = bed.transcribe(bytes, &[]).await.error(400);
        assert_eq!(error["param"], "file", "{error}");
    }
    let plain = bed.post("/v1/audio/transcriptions", json!({"file": "a"})).await.error(400);
    assert!(plain["message"].as_str().unwrap().contains("multipart"), "{plain}");
    assert_eq!(bed.transcribe(&audio, &[]).await.json()["text"], "Window 0.", "the engine goes on");
}

#[tokio::test]
async fn short_and_silent_audio_is_answered() {
    let bed = Bed::start().await;
    for samples in [1, 800, 6_400] {
        let value = bed.transcribe(&wav(samples, 9000), &[("response_format", "verbose_json")]).await.json();
        assert_eq!(value["duration"], samples as f64 / 16_000.0);
    }
    let value = bed.transcribe(&wav(10 * SECOND, 0), &[("response_format", "verbose_json")]).await.json();
    assert_eq!((&value["text"], &value["segments"]), (&json!(""), &json!([])));
}

#[tokio::test]
async fn a_stream_gives_segments_as_they_come() {
    let bed = Bed::start().await;
    let reply = bed.transcribe(&wav(65 * SECOND, 9000), &[("stream", "true")]).await;
    assert_eq!(reply.header("content-type"), "text/event-stream; charset=utf-8");
    let frames: Vec<&str> = reply.text().split("\n\n").filter(|f| !f.is_empty() && !f.starts_with(':')).collect();
    assert_eq!(*frames.last().unwrap(), "data: [DONE]");
    let values: Vec<Value> =
        frames[..frames.len() - 1].iter().map(|f| serde_json::from_str(&f["data: ".len()..]).unwrap()).collect();
    let (end, deltas) = values.split_last().unwrap();
    assert!(deltas.iter().all(|d| d["type"] == "transcript.text.delta") && deltas.len() == 3);
    let joined: String = deltas.iter().map(|d| d["delta"].as_str().unwrap()).collect();
    assert_eq!((end["type"].as_str().unwrap(), &end["text"]), ("transcript.text.done", &json!(joined)));
    assert!(end["timings"]["run_ms"].as_f64().is_some());
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_transcription() {
    let bed = Bed::start().await;
    bed.gate.shut();
    let mut stream = bed.connect().await;
    stream.write_all(&request(&wav(150 * SECOND, 9000))).await.unwrap();
    within(bed.gate.arrived(1)).await;
    drop(stream);
    // The close came before this connection, and so is seen before its answer.
    assert_eq!(bed.get("/livez").await.status, 200);
    bed.gate.open();
    let snapshot = bed.until("it has ended", |s| s["requests"]["total"] == 0).await;
    assert_eq!(snapshot["requests"]["shown"][0]["outcome"], "cancelled");
    assert_eq!(bed.gate.steps(), 1, "stopped within the window it was in");
    assert_eq!(bed.transcribe(&wav(SECOND, 9000), &[]).await.json()["text"], "Window 0.");
}

#[tokio::test]
async fn a_cut_upload_leaves_nothing_behind() {
    let bed = Bed::start().await;
    for _ in 0..20 {
        let mut stream = bed.connect().await;
        let head = "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\ncontent-length: 33000000\r\n";
        stream.write_all(format!("{head}{}: {}\r\n\r\n--b\r\n", FORM.0, FORM.1).as_bytes()).await.unwrap();
        drop(stream);
    }
    // Twenty of these would hold more than all uploads may: their places must come back.
    let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let reply = bed.transcribe(&wav(SECOND, 9000), &[]).await;
        if reply.status == 200 {
            break;
        }
        reply.error(429);
        assert!(tokio::time::Instant::now() < limit, "the places did not come back");
        tokio::task::yield_now().await;
    }
    assert_eq!(bed.gate.steps(), 1);
}
