//! `DELETE /v1/requests/{id}`: cancel.

use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::RequestId;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

pub(crate) async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let id: RequestId = id.parse()?;
    if !app.engine.cancel(id) {
        return Err(Fault::new(ErrorKind::NotFound, format!("no request {id} is waiting or running"))
            .param("id")
            .hint("it may have ended: `lanekeeper requests` shows the last ones")
            .into());
    }
    Ok(Json(json!({"id": id.to_string(), "object": "request", "cancelled": true})))
}
