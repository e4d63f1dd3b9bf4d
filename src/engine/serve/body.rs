//! Reading request bodies: bounded, with an end to waiting, and refused so that the client can hear why.

use crate::control::{ErrorKind, Fault};
use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::future::Future;
use std::time::Duration;

/// A body of which nothing comes for this long is given up.
const STALL: Duration = Duration::from_secs(30);
/// How much of a refused body is read and thrown away, and for how long: a client that is still sending would otherwise
/// see a reset connection instead of the answer.
const DISCARD_BYTES: usize = 64 * 1024 * 1024;
pub(super) const DISCARD_TIME: Duration = Duration::from_secs(5);

/// The length that the request declares.
pub(super) fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the client waits for leave before it sends its body: it can be refused without reading.
fn waits_for_leave(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The fault of a body beyond `limit` bytes; `name` is the limit's name in the profile.
pub(super) fn too_large(name: &str, limit: usize, declared: Option<usize>) -> Fault {
    let size = declared.map_or("more".to_string(), |n| format!("{n} bytes"));
    Fault::new(ErrorKind::BodyTooLarge, format!("the body is {size}, the limit {name} is {limit} bytes"))
        .hint("send less at once, or raise the limit in the box profile")
}

/// Reads the whole body, at most `limit` bytes.
pub(super) async fn read(request: Request, name: &str, limit: usize) -> Result<Bytes, Fault> {
    let (head, mut body) = request.into_parts();
    let declared = declared(&head.headers);
    if declared.is_some_and(|n| n > limit) {
        discard_unless_waiting(Request::from_parts(head, body)).await;
        return Err(too_large(name, limit, declared));
    }
    let mut bytes = BytesMut::with_capacity(declared.unwrap_or(0));
    while let Some(chunk) = unstalled(body.frame()).await? {
        let chunk = chunk.map_err(|_| cut_short(bytes.len(), declared))?;
        let Ok(data) = chunk.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            discard(body).await;
            return Err(too_large(name, limit, declared));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// The fault of a body that ended before it was whole.
pub(super) fn cut_short(got: usize, declared: Option<usize>) -> Fault {
    let of = declared.map_or(String::new(), |n| format!(" of the {n} that its content-length declares"));
    Fault::new(ErrorKind::InvalidRequest, format!("the body ended after {got} bytes{of}")).code("body_cut_short")
}

/// Waits for the next piece of a body, but not for ever.
pub(super) async fn unstalled<T>(next: impl Future<Output = T>) -> Result<T, Fault> {
    tokio::time::timeout(STALL, next).await.map_err(|_| {
        Fault::new(ErrorKind::InvalidRequest, format!("no more of the body came for {} s", STALL.as_secs()))
            .code("body_stalled")
    })
}

/// Before a request is refused unread: takes what its client is sending, unless it waits for leave to send it.
pub(super) async fn discard_unless_waiting(request: Request) {
    if !waits_for_leave(request.headers()) {
        discard(request.into_body()).await;
    }
}

/// Reads and forgets what the client still sends, within limits.
async fn discard(mut body: Body) {
    let reading = async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > DISCARD_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &'static str, length: Option<&str>) -> Request {
        let mut builder = http::Request::post("/");
        if let Some(length) = length {
            builder = builder.header("content-length", length);
        }
        builder.body(Body::from(body)).unwrap()
    }

    #[tokio::test]
    async fn the_limit_is_the_last_size_taken() {
        assert_eq!(read(request("12345", Some("5")), "limits.json_bytes", 5).await.unwrap(), "12345");
        for length in [Some("5"), None] {
            let fault = read(request("12345", length), "limits.json_bytes", 4).await.unwrap_err();
            assert_eq!(fault.kind, ErrorKind::BodyTooLarge);
            assert!(fault.message.contains("limits.json_bytes is 4 bytes"), "{fault}");
        }
    }

    #[test]
    fn a_cut_body_says_both_lengths() {
        assert!(cut_short(3, Some(9)).message.contains("after 3 bytes of the 9"));
    }
}
