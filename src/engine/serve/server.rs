//! The listeners and their life: bind, serve, drain, end.

use super::access::Door;
use super::app::{App, Doors};
use super::keys::{KEYS_VARIABLE, Keys};
use super::places::{Place, Places};
use super::socket::{self, ControlSocket};
use super::stall::Stalling;
use crate::control::Fault;
use crate::engine::runtime::Engine;
use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::ServiceExt;

/// Connections open at once, per listener: a limit of one door must not close the other.
const MAX_CONNECTIONS: usize = 512;
/// So many more for probes, when all of these are at work.
const SPARE_CONNECTIONS: usize = 32;
/// A client that has not sent its request's head by then is closed.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Bytes buffered per connection: small, so that a slow reader of snapshots gets newer ones instead of a backlog.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long connections may take to write out what they have once the engine is idle.
const CLOSING: Duration = Duration::from_secs(1);
/// How long a connection that is asked for its place may take to go, unless a request is under way on it.
const LEAVING: Duration = Duration::from_secs(2);
/// How long one that has just come may take to send its request before it can be asked.
const GRACE: Duration = Duration::from_secs(1);
/// Pause after a failed accept (out of file descriptors, mostly): the listener stays ready and would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where to listen and who may come in.
#[derive(Debug, Clone)]
pub struct Options {
    /// TCP address; port 0 takes a free one.
    pub http: SocketAddr,
    /// Path of the control socket.
    pub control: PathBuf,
    pub keys: Keys,
}

impl Options {
    /// What the engine's box profile asks for, with the keys of its file and of [`KEYS_VARIABLE`].
    pub fn from_profile(profile: &crate::profile::BoxProfile) -> Result<Options, Fault> {
        let environment = std::env::var(KEYS_VARIABLE).ok();
        Ok(Options {
            http: profile.listen.http,
            control: profile.listen.control.clone().unwrap_or_else(|| {
                socket::default_path(&profile.name, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))
            }),
            keys: Keys::load(profile.keys_file.as_deref(), environment.as_deref())?,
        })
    }
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Running work was answered, or the drain limit passed.
    Drained,
    /// The second signal came: running work was cut.
    Aborted,
}

/// Bound listeners, not yet serving.
pub struct Server {
    app: App,
    router: Router,
    draining: watch::Sender<bool>,
    tcp: TcpListener,
    address: SocketAddr,
    socket: ControlSocket,
    most: usize,
    grace: Duration,
}

impl Server {
    /// Binds both doors. Refused: an address beyond loopback without keys, a port or socket in use.
    pub async fn bind(engine: Engine, options: Options) -> Result<Server, Fault> {
        if !options.http.ip().is_loopback() && options.keys.is_empty() {
            return Err(Fault::invalid(
                "listen.http",
                format!("`{}` is reachable from other machines and no keys are set", options.http),
            )
            .hint(format!("set keys.file or {KEYS_VARIABLE}, or listen on 127.0.0.1")));
        }
        let tcp = TcpListener::bind(options.http).await.map_err(|e| {
            let hint = match e.kind() {
                std::io::ErrorKind::AddrInUse => "another process has it: choose another port, or 0 for a free one",
                _ => "set listen.http to an address of this machine",
            };
            Fault::invalid("listen.http", format!("cannot listen on {}: {e}", options.http)).hint(hint)
        })?;
        let address = tcp
            .local_addr()
            .map_err(|e| Fault::invalid("listen.http", format!("cannot read back the bound address: {e}")))?;
        let socket = ControlSocket::bind(&options.control)?;
        let (draining, seen) = watch::channel(false);
        let app: App = Arc::new(Doors::new(engine, options.keys, seen));
        Ok(Server {
            router: super::router::router(app.clone()),
            app,
            draining,
            tcp,
            address,
            socket,
            most: MAX_CONNECTIONS,
            grace: GRACE,
        })
    }

    /// With places for so many connections at each door, all of which can be asked for theirs at once.
    #[cfg(test)]
    pub(super) fn with_places(self, most: usize) -> Server {
        Server { most, grace: Duration::ZERO, ..self }
    }

    /// The bound TCP address (with the port that was chosen).
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound control socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// Serves until the process is told to end: the first SIGTERM or SIGINT drains, a second one ends at once.
    pub async fn run_until_signalled(self) -> Result<Ended, Fault> {
        use tokio::signal::unix::{SignalKind, signal};
        let hook = |kind| {
            signal(kind)
                .map_err(|e| Fault::new(crate::control::ErrorKind::Internal, format!("cannot listen for signals: {e}")))
        };
        let (mut term, mut interrupt) = (hook(SignalKind::terminate())?, hook(SignalKind::interrupt())?);
        let (sender, mut first) = watch::channel(0u8);
        let mut second = first.clone();
        let watcher = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = interrupt.recv() => {}
                }
                sender.send_modify(|n| *n = n.saturating_add(1));
            }
        });
        let ended = self
            .run(
                async move {
                    let _ = first.wait_for(|n| *n >= 1).await;
                },
                async move {
                    let _ = second.wait_for(|n| *n >= 2).await;
                },
            )
            .await;
        watcher.abort();
        Ok(ended)
    }

    /// Serves until `drain` resolves, then answers 503 to new work while running work ends (at most the profile's drain
    /// limit), then closes. `abort` ends at once at any time.
    pub async fn run(self, drain: impl Future<Output = ()>, abort: impl Future<Output = ()>) -> Ended {
        let Server { app, router, draining, tcp, socket, address, most, grace } = self;
        tracing::info!(http = %address, control = %socket.path().display(), "listening");
        let (closing, close) = watch::channel(false);
        let shared = Shared { router, close, engine: app.engine.clone(), open: Arc::new(()) };
        let open = Arc::downgrade(&shared.open);
        let doors = async move {
            let places = || Places::new(most, SPARE_CONNECTIONS, grace);
            tokio::join!(accept_tcp(&tcp, &shared, places()), accept_socket(&socket, &shared, places()));
        };
        let life = async {
            drain.await;
            tracing::info!("draining: running work ends, new work is refused");
            // The engine first: whoever hears of the drain must find it draining.
            tokio::join!(app.engine.drain(), async { draining.send_replace(true) });
        };
        let drained = async {
            // The doors stay open while the engine drains, so that new work is told 503 instead of finding no one. They
            // close with the end of this select.
            tokio::select! {
                () = doors => {}
                () = life => {}
            }
            closing.send_replace(true);
            // Every connection holds a receiver of `closing`; the last one that goes ends the wait.
            let _ = tokio::time::timeout(CLOSING, closing.closed()).await;
            let left = open.strong_count();
            if left > 0 {
                tracing::warn!(connections = left, "closed connections that had not taken their answers");
            }
        };
        tokio::select! {
            biased;
            () = abort => Ended::Aborted,
            () = drained => Ended::Drained,
        }
    }
}

/// What each connection holds.
#[derive(Clone)]
struct Shared {
    router: Router,
    /// True once connections are to end.
    close: watch::Receiver<bool>,
    /// Whose limits hold for each new connection.
    engine: Engine,
    /// Counts the open connections.
    open: Arc<()>,
}

async fn accept_tcp(listener: &TcpListener, shared: &Shared, places: Arc<Places>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Tokens and snapshots are small and must not wait for company.
                let _ = stream.set_nodelay(true);
                // Without a place it is closed at once.
                let Some(place) = places.take() else { continue };
                tokio::spawn(connection(stream, Door::Tcp, shared.clone(), place));
            }
            Err(e) => accept_failed("tcp", e).await,
        }
    }
}

async fn accept_socket(socket: &ControlSocket, shared: &Shared, places: Arc<Places>) {
    loop {
        match socket.accept().await {
            Ok((stream, uid)) => {
                let Some(place) = places.take() else { continue };
                tokio::spawn(connection(stream, Door::Socket { uid }, shared.clone(), place));
            }
            Err(e) => accept_failed("control", e).await,
        }
    }
}

async fn accept_failed(door: &str, error: std::io::Error) {
    tracing::warn!(door, %error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves one connection. A handler runs inside this task: when the peer goes, hyper drops the handler's future, and
/// with it the engine's ticket.
async fn connection<S>(stream: S, door: Door, shared: Shared, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Shared { router, mut close, engine, open } = shared;
    let stall = Duration::try_from_secs_f64(engine.limits().stall_s).unwrap_or(Duration::MAX);
    drop(engine);
    let place = Arc::new(place);
    let its = Arc::clone(&place);
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let working = its.work();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(door);
        request.extensions_mut().insert(its.room);
        let answer = router.clone().oneshot(request);
        async move {
            let response = answer.await?;
            // Under way until the last of its body is on its way.
            let until_told = move |frame| {
                let _working = &working;
                frame
            };
            Ok::<_, Infallible>(response.map(|body| body.map_frame(until_told)))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(Stalling::new(stream, stall)), service);
    let mut connection = std::pin::pin!(connection);
    let asked_to_end = async {
        tokio::select! {
            // Also when the sender is gone: then the server is.
            _ = close.wait_for(|closing| *closing) => {}
            () = place.leave.cancelled() => {}
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = asked_to_end => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(LEAVING, connection.as_mut()).await {
                Ok(ended) => ended,
                // Asked for its place, and it has sent half a head, or does not take what was written.
                Err(_) if place.leave.is_cancelled() && place.is_idle() => Ok(()),
                Err(_) => connection.as_mut().await,
            }
        }
    };
    if let Err(error) = ended {
        // The peer went, or sent what is not HTTP. Its text is not ours to log.
        tracing::debug!(%error, "a connection ended early");
    }
    // Kept to the end, so that the server can wait for this connection.
    drop((open, close, place));
}
