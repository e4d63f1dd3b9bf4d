//! What can be done with one request: `DELETE /v1/requests/{id}` cancels, `PATCH /control/v1/requests/{id}` holds, lets go,
//! moves to the other lane and cancels, with a reason, for a time, or as a dry run.

use super::settings::blocking;
use crate::control::hands::{RequestPatch, Touch};
use crate::control::{ChangeAnswer, Fault};
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
use serde_json::{Value, json};

pub(crate) async fn cancel(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Failure> {
    let Path(id) = id?;
    let patch = RequestPatch { cancelled: true, ..RequestPatch::default() };
    let _ = hand(&app, &client, &id, patch).await?;
    Ok(Json(json!({"id": id, "object": "request", "cancelled": true})))
}

pub(crate) async fn patch(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<ChangeAnswer>, Failure> {
    let Path(id) = id?;
    // An engine that drains takes them still.
    let mut body = app.object_always(request).await?;
    body.retain(|_, value| !value.is_null());
    // What it says names fields, types and lanes, never values of ours.
    let patch: RequestPatch = serde_json::from_value(Value::Object(body)).map_err(|e| {
        Fault::invalid("body", format!("this is nothing to do with a request: {e}")).code("invalid_field")
    })?;
    hand(&app, &client, &id, patch).await
}

/// Does it where the request is: with the uploads that are being decoded, or in the engine.
async fn hand(app: &App, client: &Client, id: &str, patch: RequestPatch) -> Result<Json<ChangeAnswer>, Failure> {
    let (doors, actor, id) = (app.clone(), client.actor.clone(), id.to_string());
    blocking(app, move |engine| {
        let touch = |touch: Touch, dry| match doors.intake.touch(&id, touch, dry) {
            Some(done) => done,
            None => engine.touch(id.parse()?, touch, dry),
        };
        engine.hand(&patch, &actor, &touch)
    })
    .await
}
