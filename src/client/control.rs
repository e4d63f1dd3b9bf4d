//! Calls to the control door and the probes.

use super::sse::{SseEvent, SseParser};
use super::{Client, ClientError};
use crate::client::http::{Answer, Body};
use crate::control::arrivals::{Arrivals, SCHEMA as ARRIVALS};
use crate::control::snapshot::SCHEMA;
use crate::control::{ChangeAnswer, ChangeRequest, ExitCode, Journal, Knobs, RequestPatch, Snapshot};
use http::Method;
use std::collections::VecDeque;
use std::time::Duration;

/// Control calls wait for no model work: an engine that needs longer is stuck or gone.
const CONTROL_LIMIT: Duration = Duration::from_secs(10);

impl Client {
    /// The engine's newest snapshot.
    pub async fn snapshot(&self) -> Result<Snapshot, ClientError> {
        let bytes = self.quick(Method::GET, "/control/v1/snapshot", CONTROL_LIMIT).await?;
        read_snapshot(self, &String::from_utf8_lossy(&bytes))
    }

    /// Snapshots as they come, one per `interval` (the engine bounds it to 50 ms–5 s).
    pub async fn watch(&self, interval: Duration) -> Result<SnapshotStream, ClientError> {
        let path = format!("/control/v1/watch?interval_ms={}", interval.as_millis());
        let head = self.send(Method::GET, &path, None);
        let answer = tokio::time::timeout(CONTROL_LIMIT, head).await.map_err(|_| ClientError::TimedOut {
            target: self.target().to_string(),
            seconds: CONTROL_LIMIT.as_secs(),
        })??;
        Ok(SnapshotStream { client: self.clone(), events: EventStream::new(answer) })
    }

    /// What arrived in the last `span`, of one model or of all.
    pub async fn arrivals(&self, span: Duration, model: Option<&str>) -> Result<Arrivals, ClientError> {
        let mut path = format!("/control/v1/arrivals?last={}", span.as_secs_f64());
        if let Some(model) = model {
            if model.is_empty() || !model.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
                return Err(ClientError::usage(
                    format!("`{}` is not a model's name", model.escape_debug()),
                    "`lanekeeper models` lists what is served",
                ));
            }
            path.push_str(&format!("&model={model}"));
        }
        let bytes = self.quick(Method::GET, &path, CONTROL_LIMIT).await?;
        let arrivals: Arrivals = read_json(self, &bytes)?;
        if arrivals.schema != ARRIVALS {
            return Err(ClientError::Protocol {
                target: self.target().to_string(),
                what: format!("its arrivals are `{}`, this client reads `{ARRIVALS}`", arrivals.schema),
            });
        }
        Ok(arrivals)
    }

    /// Every setting with its layers.
    pub async fn knobs(&self) -> Result<Knobs, ClientError> {
        let bytes = self.quick(Method::GET, "/control/v1/knobs", CONTROL_LIMIT).await?;
        read_json(self, &bytes)
    }

    /// The last `n` entries of the journal of changes.
    pub async fn journal(&self, n: usize) -> Result<Journal, ClientError> {
        let bytes = self.quick(Method::GET, &format!("/control/v1/journal?last={n}"), CONTROL_LIMIT).await?;
        read_json(self, &bytes)
    }

    /// Changes settings: all that is asked for, or nothing.
    pub async fn change(&self, request: &ChangeRequest) -> Result<ChangeAnswer, ClientError> {
        let bytes = self.say(Method::POST, "/control/v1/changes", request).await?;
        read_json(self, &bytes)
    }

    /// Sends a document and gives the body of the answer.
    async fn say(&self, method: Method, path: &str, body: &impl serde::Serialize) -> Result<bytes::Bytes, ClientError> {
        let bytes = serde_json::to_vec(body)
            .map_err(|e| ClientError::Local { message: e.to_string(), code: ExitCode::Internal })?;
        let body = Body { content_type: "application/json".to_string(), bytes: bytes.into() };
        let call = async { self.send(method, path, Some(body)).await?.bytes().await };
        tokio::time::timeout(CONTROL_LIMIT, call).await.map_err(|_| ClientError::TimedOut {
            target: self.target().to_string(),
            seconds: CONTROL_LIMIT.as_secs(),
        })?
    }

    /// Holds the request `id` (`req-17`), lets it go, moves it to another lane, or cancels it.
    pub async fn patch(&self, id: &str, patch: &RequestPatch) -> Result<ChangeAnswer, ClientError> {
        is_id(id)?;
        let bytes = self.say(Method::PATCH, &format!("/control/v1/requests/{id}"), patch).await?;
        read_json(self, &bytes)
    }

    /// Whether the engine can admit work now; an error with its reasons when not.
    pub async fn readyz(&self) -> Result<(), ClientError> {
        self.quick(Method::GET, "/readyz", CONTROL_LIMIT).await.map(drop)
    }

    /// The metrics, as the engine's monitoring reads them.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let bytes = self.quick(Method::GET, "/metrics", CONTROL_LIMIT).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Served models as the OpenAI-style list has them.
    pub async fn models(&self) -> Result<serde_json::Value, ClientError> {
        let bytes = self.quick(Method::GET, "/v1/models", CONTROL_LIMIT).await?;
        read_json(self, &bytes)
    }
}

/// What cannot be an id is not put into a path.
fn is_id(id: &str) -> Result<(), ClientError> {
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
        return Err(ClientError::usage(
            format!("`{}` is not a request id", id.escape_debug()),
            "ids look like req-17; `lanekeeper requests` lists them",
        ));
    }
    Ok(())
}

/// A running `watch`. Dropping it closes its connection.
pub struct SnapshotStream {
    client: Client,
    events: EventStream,
}

impl SnapshotStream {
    /// The next snapshot; `None` when the engine ended the stream (it stops).
    pub async fn next(&mut self) -> Result<Option<Snapshot>, ClientError> {
        while let Some(event) = self.events.next().await? {
            if event.name.as_deref().is_none_or(|n| n == "snapshot" || n == "message") {
                return read_snapshot(&self.client, &event.data).map(Some);
            }
        }
        Ok(None)
    }
}

/// Server-sent events of one answer.
pub(crate) struct EventStream {
    answer: Answer,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
}

impl EventStream {
    pub(crate) fn new(answer: Answer) -> EventStream {
        EventStream { answer, parser: SseParser::default(), ready: VecDeque::new() }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.answer.chunk().await? else { return Ok(None) };
            let mut events = Vec::new();
            self.parser
                .push(&chunk, &mut events)
                .map_err(|e| ClientError::Protocol { target: self.answer.target().to_string(), what: e.to_string() })?;
            self.ready.extend(events);
        }
    }

    pub(crate) fn answer(&self) -> &Answer {
        &self.answer
    }
}

pub(crate) fn read_json<T: serde::de::DeserializeOwned>(client: &Client, bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes)
        .map_err(|e| ClientError::Protocol { target: client.target().to_string(), what: e.to_string() })
}

fn read_snapshot(client: &Client, text: &str) -> Result<Snapshot, ClientError> {
    /// Of another schema, whose fields may be others: it is named instead of failing on one of them.
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let unread =
        |e: serde_json::Error| ClientError::Protocol { target: client.target().to_string(), what: e.to_string() };
    // As text: bytes would be checked once more, string by string.
    let read = serde_json::from_str::<Snapshot>(text);
    let schema = match &read {
        Ok(snapshot) => snapshot.schema.clone(),
        Err(_) => serde_json::from_str::<Head>(text).map_err(unread)?.schema,
    };
    if schema != SCHEMA {
        return Err(ClientError::Protocol {
            target: client.target().to_string(),
            what: format!("its snapshots are `{schema}`, this client reads `{SCHEMA}`"),
        });
    }
    read.map_err(unread)
}
