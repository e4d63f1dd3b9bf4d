//! Reading request bodies: bounded, with an end to waiting, and refused so that the client can hear why.

use super::failure::clip;
use crate::control::{ErrorKind, Fault};
use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// A body of which nothing comes for this long is given up.
const STALL: Duration = Duration::from_secs(30);
/// A body may take this long, and a second more for every [`SLOWEST`] bytes of it: one that only drips would otherwise
/// hold its connection, one of a limited number, for ever.
const GRACE: Duration = Duration::from_secs(60);
const SLOWEST: u64 = 1024;
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
    if let Err(fault) = uncompressed(&head.headers) {
        discard_unless_waiting(Request::from_parts(head, body)).await;
        return Err(fault);
    }
    let mut bytes = BytesMut::with_capacity(declared.unwrap_or(0));
    let mut pace = Pace::start();
    while let Some(chunk) = pace.next(body.frame()).await? {
        let chunk = chunk
            .map_err(|e| if is_misframed(&e) { misframed(bytes.len()) } else { cut_short(bytes.len(), declared) })?;
        let Ok(data) = chunk.into_data() else { continue };
        pace.took(data.len());
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

/// Whether reading a body failed on its transfer coding rather than on its end.
fn is_misframed(error: &axum::Error) -> bool {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return matches!(io.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData);
        }
        at = error.source();
    }
    false
}

/// The fault of a body whose chunks are not what their sizes say.
fn misframed(got: usize) -> Fault {
    Fault::new(ErrorKind::InvalidRequest, format!("the body's chunked coding is damaged after {got} bytes"))
        .code("body_cut_short")
}

/// Refuses a compressed body: its bytes would be taken for text that is damaged.
pub(super) fn uncompressed(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let coding = clip(coding.to_str().unwrap_or("…"), 24);
            Err(Fault::new(ErrorKind::UnsupportedMedia, format!("the content-encoding `{coding}` is not supported"))
                .hint("send the body as it is, uncompressed"))
        }
        _ => Ok(()),
    }
}

/// How fast a body comes.
pub(super) struct Pace {
    began: Instant,
    bytes: u64,
}

impl Pace {
    pub(super) fn start() -> Pace {
        Pace { began: Instant::now(), bytes: 0 }
    }

    /// Counts what has come.
    pub(super) fn took(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Waits for the next piece of a body: neither for ever, nor for drop after drop.
    pub(super) async fn next<T>(&self, next: impl Future<Output = T>) -> Result<T, Fault> {
        let now = Instant::now();
        let (until, why) = self.until(now);
        tokio::time::timeout_at(until, next).await.map_err(|_| {
            let message = match why {
                Late::Stalled => format!("no more of the body came for {} s", STALL.as_secs()),
                Late::Drips => {
                    format!("the body came too slowly: {} bytes in {} s", self.bytes, (until - self.began).as_secs())
                }
            };
            Fault::new(ErrorKind::InvalidRequest, message).code("body_stalled")
        })
    }

    /// Until when the next piece must have come, and what is said if it has not.
    fn until(&self, now: Instant) -> (Instant, Late) {
        let stalled = now + STALL;
        let drips = self.began + GRACE + Duration::from_secs(self.bytes / SLOWEST);
        if drips < stalled { (drips, Late::Drips) } else { (stalled, Late::Stalled) }
    }
}

/// How a body is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    Stalled,
    Drips,
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
    fn a_body_may_be_slow_but_neither_stall_nor_drip() {
        let s = Duration::from_secs;
        let mut pace = Pace::start();
        let began = pace.began;
        assert_eq!(pace.until(began), (began + s(30), Late::Stalled));
        assert_eq!(pace.until(began + s(20)), (began + s(50), Late::Stalled));
        pace.took(59);
        assert_eq!(pace.until(began + s(59)), (began + s(60), Late::Drips), "a byte a second");
        pace.took(3600 * 1024);
        assert_eq!(pace.until(began + s(3600)), (began + s(3630), Late::Stalled), "a KiB a second is fast enough");
    }

    #[tokio::test]
    async fn what_never_comes_is_given_up() {
        let mut pace = Pace::start();
        pace.began -= GRACE;
        let fault = pace.next(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.message.as_str()),
            (Some("body_stalled"), "the body came too slowly: 0 bytes in 60 s")
        );
        assert_eq!(pace.next(async { 7 }).await.unwrap(), 7, "what is there already is taken");
    }

    #[tokio::test]
    async fn a_compressed_body_is_refused_by_name() {
        let mut gzip = request("\u{1f}x", None);
        gzip.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        let fault = read(gzip, "limits.json_bytes", 9).await.unwrap_err();
        assert_eq!(fault.kind.status(), 415);
        assert!(fault.message.contains("`gzip`"), "{fault}");
        let mut plain = request("x", None);
        plain.headers_mut().insert("content-encoding", "identity".parse().unwrap());
        assert_eq!(read(plain, "limits.json_bytes", 9).await.unwrap(), "x");
    }

    #[test]
    fn a_cut_body_says_both_lengths() {
        assert!(cut_short(3, Some(9)).message.contains("after 3 bytes of the 9"));
    }
}
