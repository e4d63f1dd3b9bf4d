//! A server on free doors with fake models behind it, and a client that says exactly what it is told.

use super::fakes::{self, Gate};
use crate::engine::runtime::Engine;
use crate::engine::serve::{Ended, Keys, Options, Server};
use crate::profile::{BoxProfile, Env, load_box};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Long enough for a machine that pauses; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Bed {
    pub(super) engine: Engine,
    pub(super) gate: Arc<Gate>,
    pub(super) address: SocketAddr,
    pub(super) socket: PathBuf,
    ends: Option<Ends>,
}

/// What ends a bed's server, apart from the bed itself, which requests in the background may share.
pub(super) struct Ends {
    drain: oneshot::Sender<()>,
    abort: oneshot::Sender<()>,
    server: JoinHandle<Ended>,
}

impl Ends {
    /// The first signal.
    pub(super) fn drain(self) -> (oneshot::Sender<()>, JoinHandle<Ended>) {
        self.drain.send(()).unwrap();
        (self.abort, self.server)
    }
}

/// An engine of the demo's models, faked.
pub(super) async fn engine(gate: &Arc<Gate>, change: impl FnOnce(&mut BoxProfile)) -> Engine {
    let mut profile = load_box("demo", &Env::empty(), &[]).unwrap().value;
    profile.limits.audio_bytes = 32 << 20;
    change(&mut profile);
    let engine = Engine::start_with(profile, BTreeMap::new(), fakes::loader(gate.clone())).unwrap();
    engine.loaded().await;
    engine
}

/// Options with a free port and a socket of their own.
pub(super) fn options(keys: &str) -> Options {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("lk-serve-{}-{number}.sock", std::process::id());
    Options {
        http: "127.0.0.1:0".parse().unwrap(),
        control: std::env::temp_dir().join(name),
        keys: Keys::load(None, Some(keys)).unwrap(),
    }
}

impl Bed {
    pub(super) async fn start() -> Bed {
        Bed::with("", |_| {}).await
    }

    pub(super) async fn with(keys: &str, change: impl FnOnce(&mut BoxProfile)) -> Bed {
        Bed::of(keys, change, |server| server).await
    }

    /// With places for so many connections.
    pub(super) async fn with_places(most: usize) -> Bed {
        Bed::of("", |_| {}, |server| server.with_places(most)).await
    }

    async fn of(keys: &str, change: impl FnOnce(&mut BoxProfile), finish: impl FnOnce(Server) -> Server) -> Bed {
        let gate = Gate::new();
        let engine = engine(&gate, change).await;
        let server = finish(Server::bind(engine.clone(), options(keys)).await.unwrap());
        let (address, socket) = (server.address(), server.socket().to_path_buf());
        let (drain, drained) = oneshot::channel::<()>();
        let (abort, aborted) = oneshot::channel::<()>();
        let server = tokio::spawn(server.run(signal(drained), signal(aborted)));
        Bed { engine, gate, address, socket, ends: Some(Ends { drain, abort, server }) }
    }

    pub(super) fn ends(&mut self) -> Ends {
        self.ends.take().unwrap()
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request over TCP.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        exchange(self.connect().await, method, path, headers, body.into()).await
    }

    /// Sends a request over the control socket.
    pub(super) async fn ask_socket(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        exchange(UnixStream::connect(&self.socket).await.unwrap(), method, path, &[], body.into()).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "").await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// A greedy completion.
    pub(super) async fn complete(&self, prompt: Value, extra: Value) -> Reply {
        self.post("/v1/completions", completion(prompt, extra)).await
    }

    pub(super) async fn transcribe(&self, audio: &[u8], fields: &[(&str, &str)]) -> Reply {
        let mut fields = fields.to_vec();
        fields.push(("model", "whisper-tiny-en"));
        self.ask("POST", "/v1/audio/transcriptions", &[FORM], form(audio, &fields)).await
    }

    /// Sends bytes as they are and reads until the engine closes.
    pub(super) async fn raw(&self, bytes: &[u8], half_close: bool) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        if half_close {
            stream.shutdown().await.unwrap();
        }
        let mut answer = Vec::new();
        within(stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// Waits until the snapshot says so.
    pub(super) async fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let snapshot = serde_json::to_value(&*self.engine.snapshot()).unwrap();
            if is(&snapshot) {
                return snapshot;
            }
            assert!(tokio::time::Instant::now() < end, "not in time: {what}: {snapshot}");
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }
}

/// A signal, if it is sent: that a bed is dropped is none.
async fn signal(sent: oneshot::Receiver<()>) {
    if sent.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The body of a greedy completion.
pub(super) fn completion(prompt: Value, extra: Value) -> Value {
    let mut body = json!({"model": "smollm2-135m", "prompt": prompt, "temperature": 0});
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

pub(super) const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=b");

/// A transcription form.
pub(super) fn form(audio: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").into_bytes());
    }
    body.extend(b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n");
    body.extend(audio);
    body.extend(b"\r\n--b--\r\n");
    body
}

/// A whole transcription request, head and body.
pub(super) fn request(audio: &[u8]) -> Vec<u8> {
    let body = form(audio, &[("model", "whisper-tiny-en")]);
    let head = "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\n";
    let head = format!("{head}{}: {}\r\ncontent-length: {}\r\n\r\n", FORM.0, FORM.1, body.len());
    [head.into_bytes(), body].concat()
}

/// A WAV file of a square wave.
pub(super) fn wav(samples: usize, amplitude: i16) -> Vec<u8> {
    let data: Vec<u8> = (0..samples)
        .flat_map(|i| if i / 40 % 2 == 0 { amplitude.to_le_bytes() } else { (-amplitude).to_le_bytes() })
        .collect();
    let mut wav = Vec::with_capacity(44 + data.len());
    wav.extend(b"RIFF");
    wav.extend((36 + data.len() as u32).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(16_000u32.to_le_bytes());
    wav.extend(32_000u32.to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend((data.len() as u32).to_le_bytes());
    wav.extend(data);
    wav
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The inside of an error of this status, which must have the whole shape.
    pub(super) fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let value: Value = serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()));
        let error = &value["error"];
        for field in ["message", "type", "code"] {
            assert!(error[field].is_string(), "{field} in {value}");
        }
        assert!(error.get("param").is_some(), "{value}");
        assert!(self.headers.contains_key("x-request-id"));
        error.clone()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

async fn exchange<S>(stream: S, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Reply
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = http::Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let exchange = async {
        let response = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        Reply { status: head.status.as_u16(), headers: head.headers, body: body.collect().await.unwrap().to_bytes() }
    };
    let reply = within(exchange).await;
    connection.abort();
    reply
}

pub(super) async fn within<T>(work: impl std::future::Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}
