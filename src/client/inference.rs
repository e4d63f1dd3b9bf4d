//! Calls that wait for model work: no time limit but the engine's own. Dropping a call's future or stream closes the
//! connection, which cancels the request in the engine.

use super::control::{EventStream, read_json};
use super::http::{Answer, Body};
use super::multipart::Form;
use super::{Client, ClientError};
use crate::control::error::{ErrorBody, ErrorDetail};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An answer and what its headers say about the way it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered<T> {
    pub body: T,
    pub request_id: Option<String>,
    pub queue_ms: Option<f64>,
    pub run_ms: Option<f64>,
}

impl<T> Answered<T> {
    fn new(answer: &Answer, body: T) -> Self {
        let number = |name: &str| answer.header(name).and_then(|v| v.trim_end_matches("ms").trim().parse().ok());
        Answered {
            body,
            request_id: answer.header("x-request-id").map(str::to_string),
            queue_ms: number("x-queue-ms"),
            run_ms: number("x-run-ms"),
        }
    }

    fn map<U>(self, f: impl FnOnce(T) -> Result<U, ClientError>) -> Result<Answered<U>, ClientError> {
        let Answered { body, request_id, queue_ms, run_ms } = self;
        Ok(Answered { body: f(body)?, request_id, queue_ms, run_ms })
    }
}

/// What to transcribe, and how to answer.
#[derive(Debug, Clone, Default)]
pub struct Transcription {
    pub model: String,
    pub file_name: String,
    pub audio: Bytes,
    /// `json`, `text`, `srt`, `vtt`, `verbose_json`.
    pub format: String,
    pub language: Option<String>,
    pub prompt: Option<String>,
    pub word_times: bool,
    pub translate: bool,
}

/// Token counts of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub prompt_tokens: u64,
    #[serde(default)]
    pub completion_tokens: u64,
    #[serde(default)]
    pub total_tokens: u64,
}

/// Vectors in the order of their texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    pub vectors: Vec<Vec<f32>>,
    pub usage: Usage,
}

/// One ranked document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedDocument {
    pub index: usize,
    #[serde(alias = "score")]
    pub relevance_score: f64,
}

/// Documents by falling relevance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reranking {
    pub results: Vec<RankedDocument>,
}

/// A chat or a plain completion.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    pub model: String,
    /// `(role, content)` pairs; empty for a plain completion.
    pub messages: Vec<(String, String)>,
    /// The prompt of a plain completion.
    pub prompt: Option<String>,
    pub max_tokens: Option<u32>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub seed: Option<u64>,
    pub stop: Vec<String>,
}

impl ChatRequest {
    fn path(&self) -> &'static str {
        if self.prompt.is_some() { "/v1/completions" } else { "/v1/chat/completions" }
    }

    fn json(&self, stream: bool) -> Value {
        let mut body = json!({ "model": self.model, "stream": stream });
        if stream {
            body["stream_options"] = json!({ "include_usage": true });
        }
        match &self.prompt {
            Some(prompt) => body["prompt"] = json!(prompt),
            None => {
                let turns = self.messages.iter().map(|(role, content)| json!({ "role": role, "content": content }));
                body["messages"] = turns.collect();
            }
        }
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body[name] = value;
            }
        };
        set("max_tokens", self.max_tokens.map(|v| json!(v)));
        set("temperature", self.temperature.map(|v| json!(v)));
        set("top_p", self.top_p.map(|v| json!(v)));
        set("seed", self.seed.map(|v| json!(v)));
        set("stop", (!self.stop.is_empty()).then(|| json!(self.stop)));
        body
    }
}

/// A piece of a streamed generation.
#[derive(Debug, Clone, PartialEq)]
pub enum GenerationPiece {
    Text(String),
    Finished(String),
    Usage(Usage),
}

impl Client {
    /// Transcribes and returns the body in the asked format.
    pub async fn transcribe(&self, ask: &Transcription) -> Result<Answered<String>, ClientError> {
        let answer = self.send_audio(ask, false).await?;
        let head = Answered::new(&answer, ());
        let bytes = answer.bytes().await?;
        head.map(|()| Ok(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Transcribes and hands out text as windows end.
    pub async fn transcribe_stream(&self, ask: &Transcription) -> Result<TranscriptionStream, ClientError> {
        let answer = self.send_audio(ask, true).await?;
        Ok(TranscriptionStream { events: EventStream::new(answer), done: false })
    }

    async fn send_audio(&self, ask: &Transcription, stream: bool) -> Result<Answer, ClientError> {
        let mut form = Form::around(&ask.audio).field("model", &ask.model).field("response_format", &ask.format);
        if let Some(language) = &ask.language {
            form = form.field("language", language);
        }
        if let Some(prompt) = &ask.prompt {
            form = form.field("prompt", prompt);
        }
        if ask.word_times {
            form = form.field("timestamp_granularities[]", "word").field("timestamp_granularities[]", "segment");
        }
        if stream {
            form = form.field("stream", "true");
        }
        let body = form.file("file", &ask.file_name, &ask.audio).finish();
        let path = if ask.translate { "/v1/audio/translations" } else { "/v1/audio/transcriptions" };
        self.send(Method::POST, path, Some(body)).await
    }

    /// One vector per text.
    pub async fn embed(
        &self,
        model: &str,
        texts: &[String],
        dimensions: Option<usize>,
    ) -> Result<Answered<Embeddings>, ClientError> {
        #[derive(Deserialize)]
        struct Wire {
            data: Vec<WireVector>,
            #[serde(default)]
            usage: Usage,
        }
        #[derive(Deserialize)]
        struct WireVector {
            index: usize,
            embedding: Vec<f32>,
        }
        let mut ask = json!({ "model": model, "input": texts, "encoding_format": "float" });
        if let Some(dimensions) = dimensions {
            ask["dimensions"] = json!(dimensions);
        }
        self.post("/v1/embeddings", ask).await?.map(|bytes| {
            let mut wire: Wire = read_json(self, &bytes)?;
            wire.data.sort_by_key(|v| v.index);
            if wire.data.len() != texts.len() || wire.data.iter().enumerate().any(|(i, v)| v.index != i) {
                let what = format!("{} vectors for {} texts, or with wrong indices", wire.data.len(), texts.len());
                return Err(ClientError::Protocol { target: self.target().to_string(), what });
            }
            Ok(Embeddings { vectors: wire.data.into_iter().map(|v| v.embedding).collect(), usage: wire.usage })
        })
    }

    /// Documents by falling relevance to `query`.
    pub async fn rerank(
        &self,
        model: &str,
        query: &str,
        documents: &[String],
        top: Option<usize>,
    ) -> Result<Answered<Reranking>, ClientError> {
        let mut ask = json!({ "model": model, "query": query, "documents": documents });
        if let Some(top) = top {
            ask["top_n"] = json!(top);
        }
        self.post("/v1/rerank", ask).await?.map(|bytes| read_json(self, &bytes))
    }

    /// The whole answer of a chat or completion, as the engine words it.
    pub async fn generate(&self, ask: &ChatRequest) -> Result<Answered<Value>, ClientError> {
        self.post(ask.path(), ask.json(false)).await?.map(|bytes| read_json(self, &bytes))
    }

    /// A chat or completion, piece by piece.
    pub async fn generate_stream(&self, ask: &ChatRequest) -> Result<GenerationStream, ClientError> {
        let answer = self.send(Method::POST, ask.path(), Some(json_body(&ask.json(true)))).await?;
        Ok(GenerationStream { client: self.clone(), events: EventStream::new(answer), ready: Vec::new(), done: false })
    }

    async fn post(&self, path: &str, ask: Value) -> Result<Answered<Bytes>, ClientError> {
        let answer = self.send(Method::POST, path, Some(json_body(&ask))).await?;
        let head = Answered::new(&answer, ());
        let bytes = answer.bytes().await?;
        head.map(|()| Ok(bytes))
    }
}

fn json_body(value: &Value) -> Body {
    Body { content_type: "application/json".into(), bytes: Bytes::from(value.to_string()) }
}

/// A running transcription. Dropping it cancels the request.
pub struct TranscriptionStream {
    events: EventStream,
    done: bool,
}

impl TranscriptionStream {
    /// The next piece of text; `None` at the end. A stream cut before its end is an error.
    pub async fn next(&mut self) -> Result<Option<String>, ClientError> {
        while let Some(event) = self.events.next().await? {
            if event.data == "[DONE]" {
                return Ok(None);
            }
            let value = frame(&self.events, &event.data)?;
            match value["type"].as_str() {
                Some("transcript.text.delta") => {
                    return Ok(Some(value["delta"].as_str().unwrap_or_default().to_string()));
                }
                Some("transcript.text.done") => self.done = true,
                _ => {}
            }
        }
        if self.done { Ok(None) } else { Err(cut(&self.events)) }
    }
}

/// A running generation. Dropping it cancels the request.
pub struct GenerationStream {
    client: Client,
    events: EventStream,
    /// Pieces of the last frame, in reverse order.
    ready: Vec<GenerationPiece>,
    done: bool,
}

impl GenerationStream {
    /// The engine's id for this request.
    pub fn request_id(&self) -> Option<&str> {
        self.events.answer().header("x-request-id")
    }

    /// The next piece; `None` at the end. A stream cut before its end is an error.
    pub async fn next(&mut self) -> Result<Option<GenerationPiece>, ClientError> {
        loop {
            if let Some(piece) = self.ready.pop() {
                return Ok(Some(piece));
            }
            if self.done {
                return Ok(None);
            }
            let Some(event) = self.events.next().await? else { return Err(cut(&self.events)) };
            if event.data == "[DONE]" {
                self.done = true;
                continue;
            }
            let value = frame(&self.events, &event.data)?;
            self.ready = pieces(&self.client, &value)?;
            self.ready.reverse();
        }
    }
}

/// The pieces of one frame, in order.
fn pieces(client: &Client, value: &Value) -> Result<Vec<GenerationPiece>, ClientError> {
    let mut found = Vec::new();
    let choice = &value["choices"][0];
    let text = choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default();
    if !text.is_empty() {
        found.push(GenerationPiece::Text(text.to_string()));
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        found.push(GenerationPiece::Finished(reason.to_string()));
    }
    if value["usage"].is_object() {
        let usage = serde_json::from_value(value["usage"].clone()).map_err(|e| ClientError::Protocol {
            target: client.target().to_string(),
            what: format!("its usage is {}: {e}", value["usage"]),
        })?;
        found.push(GenerationPiece::Usage(usage));
    }
    Ok(found)
}

/// One JSON frame of a stream; an `error` frame is the engine's fault after its 200.
fn frame(events: &EventStream, data: &str) -> Result<Value, ClientError> {
    let value: Value = serde_json::from_str(data).map_err(|e| ClientError::Protocol {
        target: events.answer().target().to_string(),
        what: format!("a frame of its stream is not JSON: {e}"),
    })?;
    if value.get("error").is_some_and(Value::is_object) {
        let detail = serde_json::from_value::<ErrorBody>(value).map(|b| b.error).unwrap_or_else(|_| ErrorDetail {
            message: "the engine failed in the middle of its answer".into(),
            kind: "server_error".into(),
            code: None,
            param: None,
        });
        let request_id = events.answer().header("x-request-id").map(str::to_string);
        return Err(ClientError::Api { status: 500, detail, request_id });
    }
    Ok(value)
}

fn cut(events: &EventStream) -> ClientError {
    ClientError::Unreachable {
        target: events.answer().target().to_string(),
        why: "the stream was cut before its end".into(),
        hint: Some("did the engine stop? `lanekeeper status` tells".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Target;

    #[test]
    fn requests_carry_only_what_was_set() {
        let chat = ChatRequest {
            model: "m".into(),
            messages: vec![("user".into(), "hi".into())],
            max_tokens: Some(4),
            ..ChatRequest::default()
        };
        assert_eq!(chat.path(), "/v1/chat/completions");
        assert_eq!(
            chat.json(false),
            json!({ "model": "m", "stream": false, "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 4 })
        );
        let plain = ChatRequest { model: "m".into(), prompt: Some("p".into()), ..ChatRequest::default() };
        assert_eq!(plain.path(), "/v1/completions");
        assert_eq!(plain.json(true)["stream_options"], json!({ "include_usage": true }));
    }

    #[test]
    fn frames_fall_into_pieces() {
        let client = Client::new(Target::Unix("x".into()), None);
        let read = |v: Value| pieces(&client, &v).unwrap();
        assert_eq!(
            read(json!({ "choices": [{ "delta": { "content": "a" }, "finish_reason": null }] })),
            vec![GenerationPiece::Text("a".into())]
        );
        assert_eq!(
            read(json!({ "choices": [{ "text": "", "finish_reason": "stop" }] })),
            vec![GenerationPiece::Finished("stop".into())]
        );
        let usage = Usage { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
        assert_eq!(read(json!({ "choices": [], "usage": usage })), vec![GenerationPiece::Usage(usage)]);
    }
}
