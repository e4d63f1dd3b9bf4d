//! `DELETE /v1/requests/{id}`: cancel.

use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::RequestId;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

pub(crate) async fn cancel(
    State(app): State<App>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Failure> {
    let Path(id) = id?;
    let live = match app.intake.cancel(&id) {
        Some(live) => live,
        None => app.engine.cancel(id.parse::<RequestId>()?),
    };
    if !live {
        let shown = clip(&id, 40);
        return Err(Fault::new(ErrorKind::NotFound, format!("no request {shown} is waiting or running"))
            .param("id")
            .hint("it may have ended: `lanekeeper requests` shows the last ones")
            .into());
    }
    Ok(Json(json!({"id": id, "object": "request", "cancelled": true})))
}
