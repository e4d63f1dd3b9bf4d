//! Probes and metrics. They read what the engine last said and wait for nothing, so that they answer under full load.

use crate::control::{ErrorKind, Fault};
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::json;

/// The process is alive. The only route that is open without a key.
pub(crate) async fn livez() -> Response {
    Json(json!({"status": "alive"})).into_response()
}

/// Whether new work can be admitted now.
pub(crate) async fn readyz(State(app): State<App>) -> Result<Response, Failure> {
    app.admitting()?;
    verdict(app.engine.readiness(), "ready", "the engine cannot take new work")
}

/// Whether every lane has advanced within its limit, or has nothing to do.
pub(crate) async fn progressz(State(app): State<App>) -> Result<Response, Failure> {
    verdict(app.engine.progress(), "advancing", "work is stuck")
}

fn verdict(found: Result<(), Vec<String>>, good: &str, bad: &str) -> Result<Response, Failure> {
    match found {
        Ok(()) => Ok(Json(json!({"status": good, "reasons": []})).into_response()),
        Err(reasons) => {
            let fault = Fault::new(ErrorKind::NotReady, format!("{bad}: {}", reasons.join("; "))).code("not_ready");
            Err(fault.retry_after(1).into())
        }
    }
}

/// Prometheus text.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.engine.metrics()).into_response()
}
