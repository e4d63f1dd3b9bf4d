//! `/v1/models`: what is served, in the OpenAI shape, with what each can do.

use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::ModelHandle;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use crate::engine::serve::fields;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

pub(crate) async fn list(State(app): State<App>) -> Json<Value> {
    let data: Vec<Value> = app.engine.models().iter().map(|model| shape(model)).collect();
    Json(json!({"object": "list", "data": data}))
}

pub(crate) async fn one(
    State(app): State<App>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Failure> {
    let Path(id) = id?;
    let models = app.engine.models();
    match models.iter().find(|model| model.profile.id == id) {
        Some(model) => Ok(Json(shape(model))),
        None => {
            let served = fields::list(models.iter().map(|model| model.profile.id.as_str()));
            Err(Fault::new(ErrorKind::NotFound, format!("no model `{}`", clip(&id, 64)))
                .param("model")
                .code("model_not_found")
                .hint(format!("served here: {served}"))
                .into())
        }
    }
}

fn shape(model: &ModelHandle) -> Value {
    let profile = &model.profile;
    json!({
        "id": profile.id,
        "object": "model",
        "created": model.created,
        "owned_by": "lanekeeper",
        "lanekeeper": {
            "family": profile.family,
            "ops": profile.ops,
            "ready": model.front().is_ok(),
        },
    })
}
