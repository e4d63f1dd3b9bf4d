//! Embeddings and rerank.

use super::bed::Bed;
use serde_json::{Value, json};

fn embed(input: Value) -> Value {
    json!({"model": "minilm-l6", "input": input})
}

#[tokio::test]
async fn vectors_come_in_order_with_usage_and_times() {
    let bed = Bed::start().await;
    let letter = |i: u32| char::from_u32(u32::from('a') + i % 26).unwrap();
    let texts: Vec<String> = (0..257).map(|i| format!("{} {}", letter(i), letter(i / 26))).collect();
    let reply = bed.post("/v1/embeddings", embed(json!(texts))).await;
    let value = reply.json();
    assert!(reply.header("x-request-id").starts_with("req-"));
    assert!(reply.header("x-queue-ms").parse::<f64>().unwrap() >= 0.0);
    assert!(reply.header("x-run-ms").parse::<f64>().unwrap() >= 0.0);
    assert_eq!(value["data"].as_array().unwrap().len(), 257);
    assert_eq!(value["usage"]["prompt_tokens"], 257 * 4);
    for i in [0usize, 100, 256] {
        assert_eq!(value["data"][i]["index"], i);
        let alone = bed.post("/v1/embeddings", embed(json!(texts[i]))).await.json();
        assert_eq!(alone["data"][0]["embedding"], value["data"][i]["embedding"]);
    }
}

#[tokio::test]
async fn bad_inputs_are_refused_by_name_and_the_next_is_served() {
    let bed = Bed::start().await;
    let long = "a ".repeat(16_000);
    for (body, param) in [
        (embed(json!("")), "input"),
        (embed(json!([])), "input"),
        (embed(json!(["a", ""])), "input[1]"),
        (embed(json!([[]])), "input[0]"),
        (embed(json!([[3, 99_999]])), "input[0][1]"),
        (embed(json!(long)), "input"),
        (json!({"model": "minilm-l6", "input": "a", "encoding_format": "hex"}), "encoding_format"),
        (json!({"model": "minilm-l6", "input": "a", "dimensions": 5}), "dimensions"),
        (json!({"model": "minilm-l6", "input": "a", "normalize": false}), "normalize"),
        (json!({"model": "minilm-l6", "input": "a", "output_dimension": 64}), "output_dimension"),
        (json!({"model": "minilm-l6", "input": "a", "truncation_direction": "Left"}), "truncation_direction"),
        (json!({"model": "whisper-tiny-en", "input": "a"}), "model"),
        (json!({"input": "a"}), "model"),
    ] {
        let error = bed.post("/v1/embeddings", body).await.error(400);
        assert_eq!(error["param"], param, "{error}");
    }
    assert_eq!(bed.post("/v1/embeddings", json!({"model": "x", "input": "a"})).await.error(404)["param"], "model");
    let too_long = bed.post("/v1/embeddings", embed(json!(long))).await.error(400);
    assert_eq!(too_long["code"], "context_length_exceeded");
    let message = too_long["message"].as_str().unwrap();
    assert!(message.contains("16002") && message.contains("16 "), "{message}");
    let usual =
        json!({"normalize": true, "truncation_direction": "Right", "output_dtype": "float", "input_type": "query"});
    let mut body = embed(json!("a"));
    body.as_object_mut().unwrap().extend(usual.as_object().unwrap().clone());
    bed.post("/v1/embeddings", body).await.json();
    let cut = json!({"model": "minilm-l6", "input": ["a", long], "truncate": true});
    let cut = bed.post("/v1/embeddings", cut).await.json();
    assert_eq!((cut["data"][0].get("truncated"), &cut["data"][1]["truncated"]), (None, &json!(true)));
}

#[tokio::test]
async fn too_many_texts_name_limit_and_value() {
    let bed = Bed::with("", |profile| profile.limits.max_items = 3).await;
    let error = bed.post("/v1/embeddings", embed(json!(["a", "b", "c", "d"]))).await.error(400);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("4 items") && message.contains("limits.max_items is 3"), "{message}");
    bed.post("/v1/embeddings", embed(json!(["a", "b", "c"]))).await.json();
}

#[tokio::test]
async fn documents_are_ranked() {
    let bed = Bed::start().await;
    let ask = |extra: Value| {
        let mut body =
            json!({"model": "minilm-l6", "query": "a b c", "documents": ["a x", {"text": "a b"}, "z", "b a", "a b c"]});
        for (key, value) in extra.as_object().unwrap() {
            body[key] = value.clone();
        }
        bed.post("/v1/rerank", body)
    };
    let order = |value: &Value| -> Vec<u64> {
        value["results"].as_array().unwrap().iter().map(|r| r["index"].as_u64().unwrap()).collect()
    };
    let value = ask(json!({"top_n": 2, "return_documents": true})).await.json();
    assert_eq!(order(&value), [4, 1], "equal scores in input order");
    assert_eq!(value["results"][1]["document"]["text"], "a b");
    assert_eq!(value["method"], "cosine");
    assert_eq!(order(&ask(json!({"top_n": 99})).await.json()), [4, 1, 3, 0, 2]);
    for (extra, param) in [
        (json!({"top_n": 0}), "top_n"),
        (json!({"top_k": 2}), "top_k"),
        (json!({"rank_fields": ["title"]}), "rank_fields"),
        (json!({"documents": []}), "documents"),
        (json!({"query": ""}), "query"),
        (json!({"documents": ["a", ""]}), "documents[1]"),
    ] {
        assert_eq!(ask(extra).await.error(400)["param"], param);
    }
}

#[tokio::test]
async fn models_are_listed_and_found() {
    let bed = Bed::start().await;
    let list = bed.get("/v1/models").await.json();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["whisper-tiny-en", "smollm2-135m", "minilm-l6"]);
    assert_eq!(bed.get("/v1/models/minilm-l6").await.json()["lanekeeper"]["ready"], true);
    let error = bed.get("/v1/models/nothing").await.error(404);
    assert_eq!(error["code"], "model_not_found");
}
