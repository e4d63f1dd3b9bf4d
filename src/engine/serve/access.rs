//! Who is asking, and whether they may: the outermost checks of every request, and its access log line.

use super::app::App;
use super::body;
use super::failure::respond;
use super::fields::list;
use super::keys::{Right, Rights, bearer};
use super::places::Room;
use super::timing;
use crate::control::{ErrorKind, Fault};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use std::sync::Arc;
use std::time::Instant;

/// Which listener a connection came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Tcp,
    /// The control socket, with its peer's user if that is the engine's own (or root).
    Socket {
        uid: Option<u32>,
    },
}

/// Who is asking.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// Label of the key, or `local`.
    pub(super) label: Arc<str>,
    pub(super) rights: Rights,
    /// Who it is in the journal: `uid:1000`, `key:LABEL`, `local`.
    pub(super) actor: Arc<str>,
}

/// Routes that are answered although all places are taken by others.
const PROBES: [&str; 4] = ["/livez", "/readyz", "/progressz", "/metrics"];

/// Finds out who asks, and logs the request without anything of its content.
pub(super) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("-", |p| p.as_str()).to_string();
    let open = route == "/livez";
    let crowded = request.extensions().get() == Some(&Room::Probes) && !PROBES.contains(&route.as_str());
    let asking = if crowded { Err(too_many_connections()) } else { who(&app, &request) };
    let (client, mut response) = match asking {
        Ok(client) => {
            let label = client.label.clone();
            request.extensions_mut().insert(client);
            (label, next.run(request).await)
        }
        Err(_) if open => (Arc::from("-"), next.run(request).await),
        Err(fault) => {
            body::discard_unless_waiting(request).await;
            (Arc::from("-"), respond(&fault))
        }
    };
    if crowded {
        // The client comes back by another one, which may have a place by then.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if !response.headers().contains_key(timing::REQUEST_ID) {
        timing::set_id(response.headers_mut(), &format!("http-{}", app.next_number()));
    }
    tracing::debug!(
        %method,
        route,
        status = response.status().as_u16(),
        ms = began.elapsed().as_millis() as u64,
        client = &*client,
        id = response.headers().get(timing::REQUEST_ID).and_then(|v| v.to_str().ok()).unwrap_or("-"),
        "answered"
    );
    response
}

/// Every connection is at work, and this one is there for the probes alone.
fn too_many_connections() -> Fault {
    let message = "every connection of this engine is at work: this one may only ask the probes";
    Fault::new(ErrorKind::NotReady, message).code("too_many_connections").retry_after(1)
}

fn who(app: &App, request: &Request) -> Result<Client, Fault> {
    let door = request.extensions().get::<Door>().copied().unwrap_or(Door::Tcp);
    let local = |actor: &str| Client { label: Arc::from("local"), rights: Rights::ALL, actor: Arc::from(actor) };
    match door {
        Door::Socket { uid: Some(uid) } => Ok(local(&format!("uid:{uid}"))),
        Door::Socket { uid: None } => {
            Err(Fault::new(ErrorKind::Forbidden, "the control socket serves the engine's own user")
                .hint("use the TCP address with a key"))
        }
        Door::Tcp if app.keys.is_empty() => {
            // Anyone on this machine may ask, but a web page that a browser on it shows may not.
            refuse_foreign_pages(request.uri(), request.headers())?;
            Ok(local("local"))
        }
        Door::Tcp => match bearer(request.headers())? {
            None => Err(Fault::new(ErrorKind::Unauthenticated, "this engine needs a key and none was sent")
                .hint("send `Authorization: Bearer KEY`")),
            Some(key) => match app.keys.find(key) {
                Some((label, rights)) => {
                    Ok(Client { label: Arc::from(label), rights, actor: Arc::from(format!("key:{label}")) })
                }
                None => {
                    Err(Fault::new(ErrorKind::Unauthenticated, "the key that was sent is not one of this engine's"))
                }
            },
        },
    }
}

/// Without keys the door is open to this machine: a page from elsewhere must not get in through the user's browser,
/// neither by a cross-origin form nor by a name that it rebound to a loopback address.
fn refuse_foreign_pages(uri: &http::Uri, headers: &HeaderMap) -> Result<(), Fault> {
    let refuse = |what: &str| {
        Err(Fault::new(ErrorKind::Forbidden, format!("the {what} names another machine"))
            .hint("without keys the engine answers to localhost alone; set keys to serve others"))
    };
    // A request line with a whole address: its host counts, whatever the header says.
    if uri.authority().is_some_and(|authority| !is_local(authority.as_str())) {
        return refuse("request line");
    }
    for name in [header::HOST, header::ORIGIN] {
        for value in headers.get_all(&name) {
            let value = value.to_str().unwrap_or("null");
            // `null` is the origin of a page without one.
            if value == "null" || !is_local(value.split_once("://").map_or(value, |(_, rest)| rest)) {
                return refuse(&format!("{name} header"));
            }
        }
    }
    Ok(())
}

/// Whether `host[:port]` is this machine: a loopback address, or a name without a dot, which nobody can register and
/// rebind.
fn is_local(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => !host.is_empty() && !host.contains(['.', ':']),
    }
}

/// Refuses a client that has none of `rights`.
async fn require(rights: &[Right], request: Request, next: Next) -> Response {
    match request.extensions().get::<Client>() {
        Some(client) if rights.iter().any(|&right| client.rights.has(right)) => next.run(request).await,
        _ => {
            body::discard_unless_waiting(request).await;
            let right = list(rights.iter().map(|right| right.name()));
            respond(
                &Fault::new(ErrorKind::Forbidden, format!("this route needs the right {right}"))
                    .hint("the second word of a line in the keys file lists the key's rights"),
            )
        }
    }
}

pub(super) async fn require_serve(request: Request, next: Next) -> Response {
    require(&[Right::Serve], request, next).await
}

pub(super) async fn require_serve_or_read(request: Request, next: Next) -> Response {
    require(&[Right::Serve, Right::Read], request, next).await
}

pub(super) async fn require_read(request: Request, next: Next) -> Response {
    require(&[Right::Read], request, next).await
}

pub(super) async fn require_control(request: Request, next: Next) -> Response {
    require(&[Right::Control], request, next).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names_and_addresses() {
        for host in ["localhost", "LOCALHOST:8741", "127.0.0.1:1", "127.8.8.8", "[::1]:8741", "[::1]", "engine:80"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:80", "10.0.0.1:8741", "[fe80::1]:80", "", "a.b"] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn pages_from_elsewhere_are_refused() {
        let check = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            refuse_foreign_pages(&"/readyz".parse().unwrap(), &headers).is_ok()
        };
        assert!(check("host", "localhost:8741") && check("origin", "http://127.0.0.1:3000"));
        assert!(!check("host", "evil.example:8741") && !check("origin", "https://evil.example"));
        assert!(!check("origin", "null"), "a sandboxed frame");
        let mut two = HeaderMap::new();
        two.append("host", "localhost".parse().unwrap());
        assert!(refuse_foreign_pages(&"http://127.0.0.1:8741/readyz".parse().unwrap(), &two).is_ok());
        assert!(refuse_foreign_pages(&"http://evil.example/readyz".parse().unwrap(), &two).is_err());
        two.append("host", "evil.example".parse().unwrap());
        assert!(refuse_foreign_pages(&"/readyz".parse().unwrap(), &two).is_err(), "the second of two");
    }
}
