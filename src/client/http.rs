//! One HTTP/1 request over a fresh connection to a [`Target`]. Loopback connections are cheap, and a connection per
//! request means that dropping an answer closes its socket: that is how the engine learns that nobody waits any more.

use super::{ClientError, Key, Target};
use crate::control::error::{ErrorBody, ErrorDetail};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Largest error body read: enough for any message of ours, no gift to a stranger on that port.
const ERROR_BODY_BYTES: usize = 64 * 1024;

/// A running engine, as a caller sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    target: Target,
    key: Option<Key>,
}

/// A body to send.
pub(crate) struct Body {
    pub content_type: String,
    pub bytes: Bytes,
}

/// An answer whose body is still to be read. Dropping it closes the connection.
pub(crate) struct Answer {
    pub headers: HeaderMap,
    body: Incoming,
    target: Target,
    _connection: Connection,
}

/// Drives the socket; ends with its answer.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// A client of the engine at `target`. Nothing is sent yet.
    pub fn new(target: Target, key: Option<Key>) -> Client {
        Client { target, key }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one request and waits for the head of its answer; anything but a 2xx is an error.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Body>) -> Result<Answer, ClientError> {
        let request = self.request(method, path, body)?;
        let (response, connection) = match &self.target {
            Target::Unix(path) => {
                let stream = self.connected(UnixStream::connect(path)).await?;
                self.exchange(stream, request).await?
            }
            Target::Tcp { host, port } => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let stream = self.connected(TcpStream::connect((host, *port))).await?;
                // Small requests must not wait for company.
                stream.set_nodelay(true).map_err(|e| self.unreachable(e))?;
                self.exchange(stream, request).await?
            }
        };
        let (head, body) = response.into_parts();
        let answer = Answer { headers: head.headers, body, target: self.target.clone(), _connection: connection };
        if head.status.is_success() { Ok(answer) } else { Err(refusal(head.status, answer).await) }
    }

    /// [`send`](Self::send), with the whole call (body included) bounded by `limit`: for calls that do not wait for
    /// model work.
    pub(crate) async fn quick(&self, method: Method, path: &str, limit: Duration) -> Result<Bytes, ClientError> {
        let call = async { self.send(method, path, None).await?.bytes().await };
        tokio::time::timeout(limit, call)
            .await
            .map_err(|_| ClientError::TimedOut { target: self.target.to_string(), seconds: limit.as_secs() })?
    }

    fn request(&self, method: Method, path: &str, body: Option<Body>) -> Result<Request<Full<Bytes>>, ClientError> {
        let authority = match &self.target {
            Target::Unix(_) => "localhost".to_string(),
            Target::Tcp { host, port } => format!("{host}:{port}"),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, authority)
            .header(header::USER_AGENT, concat!("lanekeeper/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "*/*");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key.header());
        }
        let bytes = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, body.content_type);
                body.bytes
            }
            None => Bytes::new(),
        };
        request.body(Full::new(bytes)).map_err(|e| {
            ClientError::usage(format!("a request to {} cannot be built: {e}", self.target), "check the host name")
        })
    }

    async fn connected<S>(&self, connect: impl Future<Output = std::io::Result<S>>) -> Result<S, ClientError> {
        match tokio::time::timeout(CONNECT_LIMIT, connect).await {
            Ok(done) => done.map_err(|e| self.unreachable(e)),
            Err(_) => Err(self.unreachable(format!("no connection within {} s", CONNECT_LIMIT.as_secs()))),
        }
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(&e))?;
        let connection = Connection(tokio::spawn(async move {
            // A fault of the connection reaches the caller through its request or body.
            let _ = connection.await;
        }));
        let response = sender.send_request(request).await.map_err(|e| self.broken(&e))?;
        Ok((response, connection))
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> ClientError {
        ClientError::Unreachable {
            target: self.target.to_string(),
            why: why.to_string(),
            hint: Some("is it running? `lanekeeper serve` starts one; --engine names another".into()),
        }
    }

    fn broken(&self, error: &hyper::Error) -> ClientError {
        broken(&self.target, error)
    }
}

impl Answer {
    /// A header that is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The whole body.
    pub(crate) async fn bytes(self) -> Result<Bytes, ClientError> {
        let target = &self.target;
        Ok(self.body.collect().await.map_err(|e| broken(target, &e))?.to_bytes())
    }

    /// The next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|e| broken(&self.target, &e))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

/// What hyper says about a lost connection, down to its cause.
fn broken(target: &Target, error: &hyper::Error) -> ClientError {
    use std::error::Error;
    if error.is_parse() {
        return ClientError::Protocol {
            target: target.to_string(),
            what: format!("it does not speak HTTP/1 ({error})"),
        };
    }
    let cause = error.source().map(|c| format!("{error}: {c}")).unwrap_or_else(|| error.to_string());
    ClientError::Unreachable {
        target: target.to_string(),
        why: format!("the connection broke: {cause}"),
        hint: Some("did the engine stop? `lanekeeper status` tells".into()),
    }
}

/// The error in a non-2xx answer; a body that is not of our shape is quoted in short.
async fn refusal(status: StatusCode, answer: Answer) -> ClientError {
    let request_id = answer.header("x-request-id").map(str::to_string);
    let body = match Limited::new(answer.body, ERROR_BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let detail = match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => body.error,
        Err(_) => {
            let quoted: String = String::from_utf8_lossy(&body).trim().chars().take(200).collect();
            let quoted = if quoted.is_empty() { String::new() } else { format!(": {quoted}") };
            ErrorDetail {
                message: format!("{} answered {status}{quoted}", answer.target),
                kind: "unknown".into(),
                code: None,
                param: None,
            }
        }
    };
    ClientError::Api { status: status.as_u16(), detail, request_id }
}
