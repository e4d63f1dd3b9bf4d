//! Server-sent events: framing, comments while nothing comes, and the error frame.

use super::timing;
use crate::control::Fault;
use crate::engine::runtime::RequestId;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderValue, header};
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

/// Longest silence on a stream: proxies and clients close quiet connections.
pub(super) const COMMENT_EVERY: Duration = Duration::from_secs(10);

/// One `data:` frame.
pub(super) fn frame(value: &impl Serialize) -> Bytes {
    let mut frame = b"data: ".to_vec();
    match serde_json::to_writer(&mut frame, value) {
        Ok(()) => {
            frame.extend_from_slice(b"\n\n");
            frame.into()
        }
        // Our own types are string-keyed and finite; a failure here is a bug that the client should hear of.
        Err(e) => {
            error_frame(&Fault::new(crate::control::ErrorKind::Internal, format!("cannot write the answer: {e}")))
        }
    }
}

/// The end of a good stream.
pub(super) fn done() -> Bytes {
    Bytes::from_static(b"data: [DONE]\n\n")
}

/// A fault after the 200: the last frame, with no `[DONE]` behind it.
pub(super) fn error_frame(fault: &Fault) -> Bytes {
    let json = serde_json::to_string(&fault.body()).unwrap_or_else(|_| r#"{"error":{"message":"?"}}"#.to_string());
    format!("data: {json}\n\n").into()
}

/// What turns the events of a job into frames.
pub(super) trait Telling: Send + 'static {
    type Event: Send;
    /// The next event; `None` when the job ended without saying so.
    fn next(&mut self) -> impl Future<Output = Option<Self::Event>> + Send;
    /// The frames of an event, into `frames`. Nothing is asked for behind the end.
    fn take(&mut self, event: Option<Self::Event>, frames: &mut VecDeque<Bytes>) -> Told;
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    More,
    All,
}

/// The frames of a job, `opening` first. An event may have been taken from it already.
pub(super) fn tell<T: Telling>(
    teller: T,
    first: Option<Option<T::Event>>,
    opening: VecDeque<Bytes>,
) -> impl Stream<Item = Bytes> + Send + 'static
where
    T::Event: 'static,
{
    let state = (teller, first, opening, Told::More);
    futures_util::stream::unfold(state, |(mut teller, mut first, mut frames, mut told)| async move {
        while frames.is_empty() && told == Told::More {
            let event = match first.take() {
                Some(event) => event,
                None => teller.next().await,
            };
            told = teller.take(event, &mut frames);
        }
        frames.pop_front().map(|frame| (frame, (teller, first, frames, told)))
    })
}

/// An event stream as an answer. A comment goes out after each [`COMMENT_EVERY`] of silence.
pub(super) fn respond(id: Option<RequestId>, frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Body::from_stream(with_comments(frames, COMMENT_EVERY).map(Ok::<_, Infallible>)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx buffers answers otherwise, and tokens arrive in lumps.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if let Some(id) = id {
        timing::set_id(headers, &id.to_string());
    }
    response
}

fn with_comments(frames: impl Stream<Item = Bytes> + Send + 'static, every: Duration) -> impl Stream<Item = Bytes> {
    futures_util::stream::unfold(Box::pin(frames), move |mut frames| async move {
        let next = match tokio::time::timeout(every, frames.next()).await {
            Ok(next) => next?,
            Err(_) => Bytes::from_static(b": waiting\n\n"),
        };
        Some((next, frames))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ErrorKind;

    #[test]
    fn frames_are_one_line_of_json() {
        assert_eq!(frame(&serde_json::json!({"a": "x\ny"})), "data: {\"a\":\"x\\ny\"}\n\n");
        let error = error_frame(&Fault::new(ErrorKind::Internal, "broke"));
        assert!(error.starts_with(b"data: {\"error\":{") && error.ends_with(b"}}\n\n"));
    }

    #[tokio::test]
    async fn silence_is_filled_with_comments() {
        let quiet = with_comments(futures_util::stream::pending(), Duration::from_millis(1));
        let seen: Vec<Bytes> = quiet.take(2).collect().await;
        assert_eq!(seen, [": waiting\n\n", ": waiting\n\n"]);
        let busy = with_comments(futures_util::stream::iter([done()]), COMMENT_EVERY);
        assert_eq!(busy.collect::<Vec<_>>().await, [done()]);
    }
}
