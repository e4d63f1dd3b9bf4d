//! What can be done with one request: `DELETE /v1/requests/{id}` cancels, `PATCH /control/v1/requests/{id}` holds, lets go
//! and moves to the other lane.

use crate::control::{Fault, RequestPatch};
use crate::engine::runtime::{RequestId, not_alive};
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
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
        return Err(not_alive(clip(&id, 40)).into());
    }
    Ok(Json(json!({"id": id, "object": "request", "cancelled": true})))
}

pub(crate) async fn patch(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let Path(id) = id?;
    // An engine that drains takes them still.
    let mut body = app.object_always(request).await?;
    body.retain(|_, value| !value.is_null());
    // What it says names fields, types and lanes, never values of ours.
    let patch: RequestPatch = serde_json::from_value(Value::Object(body)).map_err(|e| {
        Fault::invalid("body", format!("this is nothing to do with a request: {e}")).code("invalid_field")
    })?;
    if patch.is_empty() {
        return Err(Fault::invalid("body", "nothing is asked for")
            .hint(r#"say {"held": true}, {"held": false} or {"lane": "clips"}"#)
            .into());
    }
    if app.intake.has(&id) {
        return Err(Fault::invalid("id", format!("{} is being decoded and waits in no lane yet", clip(&id, 40)))
            .hint("try again when it is a request")
            .into());
    }
    let number: RequestId = id.parse()?;
    app.engine.patch(number, patch).await?;
    tracing::info!(request = id, actor = %client.actor, held = patch.held, lane = patch.lane.map(|l| l.name()), "a request was taken in hand");
    Ok(Json(json!({"id": id, "object": "request", "held": patch.held, "lane": patch.lane})))
}
