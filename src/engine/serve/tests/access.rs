//! Keys, rights, strangers, and what may be seen.

use super::bed::Bed;
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex};

const KEYS: &str = "app serve marker-serve-key;board read marker-read-key;admin control,read,serve marker-admin-key";

/// Method, path and right of every route, as the router has them: a route that is added is tried, too.
fn routes() -> Vec<(String, String, &'static str)> {
    let (mut routes, mut section) = (Vec::new(), Vec::new());
    for line in include_str!("../router.rs").lines().map(str::trim) {
        if let Some(route) = line.strip_prefix(".route(\"") {
            let (path, handler) = route.split_once("\", ").expect("a path and a handler");
            let method = handler.split('(').next().expect("a method").to_uppercase();
            section.push((method, path.replace("{id}", "req-1")));
        }
        for right in ["serve_or_read", "serve", "read", "control"] {
            if line == format!(".route_layer(from_fn(access::require_{right}));") {
                routes.extend(section.drain(..).map(|(method, path)| (method, path, right)));
            }
        }
    }
    assert_eq!(section, [("GET".to_string(), "/livez".to_string())], "the one that is open");
    assert!(routes.len() > 18, "{routes:?}");
    routes
}

fn bearer(name: &str) -> String {
    format!("Bearer marker-{name}-key")
}

#[tokio::test]
async fn with_keys_only_the_alive_probe_is_open() {
    let bed = Bed::with(KEYS, |_| {}).await;
    assert_eq!(bed.get("/livez").await.status, 200);
    let unknown = [("GET", "/no/such/route"), ("PUT", "/livez2")].map(|(m, p)| (m.to_string(), p.to_string(), ""));
    for (method, path, _) in routes().iter().chain(&unknown) {
        let reply = bed.ask(method, path, &[], "").await;
        assert_eq!(reply.error(401)["code"], "invalid_api_key", "{path}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        for wrong in ["Bearer marker-wrong-key", "Bearer ", "Basic marker", "marker-serve-key"] {
            let reply = bed.ask(method, path, &[("authorization", wrong)], "").await;
            reply.error(401);
            assert!(!reply.text().contains("marker"), "{path}");
        }
    }
}

#[tokio::test]
async fn rights_are_kept_apart() {
    let bed = Bed::with(KEYS, |_| {}).await;
    for (method, path, right) in &routes() {
        for name in ["serve", "read"].iter().filter(|name| right.split("_or_").all(|right| right != **name)) {
            let reply = bed.ask(method, path, &[("authorization", &bearer(name))], "").await;
            assert_eq!(reply.error(403)["code"], "missing_right", "{name} {path}");
        }
    }
    for (name, path, status) in [
        ("serve", "/v1/models", 200),
        ("read", "/v1/models", 200),
        ("read", "/control/v1/snapshot", 200),
        ("admin", "/control/v1/snapshot", 200),
        ("serve", "/no/such/route", 404),
    ] {
        let reply = bed.ask("GET", path, &[("authorization", &bearer(name))], "").await;
        assert_eq!(reply.status, status, "{name} {path}");
    }
    let reply = bed.ask("DELETE", "/v1/requests/req-1", &[("authorization", &bearer("admin"))], "").await;
    reply.error(404);
}

#[tokio::test]
async fn the_socket_needs_no_key() {
    let bed = Bed::with(KEYS, |_| {}).await;
    assert_eq!(bed.ask_socket("GET", "/control/v1/snapshot", "").await.status, 200);
    let body = json!({"model": "minilm-l6", "input": "a"}).to_string();
    assert_eq!(bed.ask_socket("POST", "/v1/embeddings", body).await.status, 200);
    bed.ask_socket("DELETE", "/v1/requests/req-99", "").await.error(404);
}

#[tokio::test]
async fn without_keys_a_foreign_page_is_kept_out() {
    let bed = Bed::start().await;
    let body = json!({"model": "minilm-l6", "input": "a"}).to_string();
    let reply = bed.ask("POST", "/v1/embeddings", &[("origin", "https://evil.example")], body.clone()).await;
    reply.error(403);
    assert_eq!(bed.ask("POST", "/v1/embeddings", &[("origin", "http://localhost:3000")], body).await.status, 200);
    let rebound = bed.raw(b"GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n", false).await;
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn keys_and_texts_appear_nowhere() {
    let log = Log::default();
    // Set for the whole process: with a subscriber for this thread only, a place that another thread's test reaches
    // first would be remembered as one that nobody listens to.
    let (writer, here) = (log.clone(), std::thread::current().id());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || if std::thread::current().id() == here { writer.clone() } else { Log::default() })
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test installs one");
    let bed = Bed::with(KEYS, |_| {}).await;
    let auth = ("authorization", bearer("admin"));
    let auth = [(auth.0, auth.1.as_str())];
    let body = json!({"model": "minilm-l6", "input": "marker text"}).to_string();
    assert_eq!(bed.ask("POST", "/v1/embeddings", &auth, body).await.status, 200);
    for bad in
        [&b"{\"input\": \"marker\xc4\xe3\"}"[..], b"{\"marker\": [[[", b"\"marker\"", b"{\"input\":\"marker\0\"}"]
    {
        bed.ask("POST", "/v1/embeddings", &auth, bad).await.error(400);
    }
    bed.ask("GET", "/marker/route?key=marker", &auth, "").await.error(404);
    bed.ask("GET", "/v1/models", &[("authorization", "Bearer marker-wrong-key")], "").await.error(401);
    bed.ask("POST", "/v1/embeddings", &auth, json!({"model": "minilm-l6", "input": {"marker": 1}}).to_string()).await;
    let seen = bed.ask("GET", "/control/v1/snapshot", &auth, "").await.text().to_string()
        + bed.ask("GET", "/metrics", &auth, "").await.text();
    assert!(seen.contains("admin"), "the label is shown");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("answered") && log.contains("/v1/embeddings"), "{log}");
    assert!(!log.contains("marker"), "{log}");
    assert!(!seen.contains("marker"), "{seen}");
}
