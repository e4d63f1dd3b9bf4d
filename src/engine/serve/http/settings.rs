//! `/control/v1/knobs`, `/control/v1/journal` and `/control/v1/changes`: what may be set, what was, and setting it.

use crate::control::{ChangeAnswer, ChangeRequest, ErrorKind, Fault, Journal, Knobs};
use crate::engine::runtime::Engine;
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use crate::engine::serve::fields::kind;
use axum::Json;
use axum::extract::{Extension, RawQuery, Request, State};
use serde_json::{Map, Value};

/// Entries of the journal when no number is asked for.
const LAST: usize = 50;

pub(crate) async fn knobs(State(app): State<App>) -> Result<Json<Knobs>, Failure> {
    blocking(&app, |engine| Ok(engine.settings()?.knobs())).await
}

pub(crate) async fn journal(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Json<Journal>, Failure> {
    let last = last(query.as_deref().unwrap_or(""))?;
    blocking(&app, move |engine| Ok(engine.settings()?.journal(last))).await
}

pub(crate) async fn change(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Json<ChangeAnswer>, Failure> {
    // An engine that drains takes changes still: one of them calls the drain off.
    let body = app.object_always(request).await?;
    let asked = read(body)?;
    blocking(&app, move |engine| engine.change(&asked, &client.actor)).await
}

/// Runs what may wait for another change, and that for the disk, where nobody else is held up.
pub(super) async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Engine) -> Result<T, Fault> + Send + 'static,
) -> Result<Json<T>, Failure> {
    let engine = app.engine.clone();
    let done = tokio::task::spawn_blocking(move || work(&engine)).await;
    Ok(Json(done.unwrap_or_else(|_| Err(Fault::new(ErrorKind::Internal, "the settings could not be worked on")))?))
}

fn last(query: &str) -> Result<usize, Fault> {
    let mut last = LAST;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("last", text) => {
                let refuse = || Fault::invalid("last", format!("`last` is `{}`, it must be a number", clip(text, 40)));
                last = text.parse().map_err(|_| refuse())?;
            }
            (name, _) => {
                let shown = clip(name, 40);
                return Err(Fault::invalid(shown.clone(), format!("`{shown}` is not a parameter of this route"))
                    .code("unknown_field")
                    .hint("it takes `last=N`"));
            }
        }
    }
    Ok(last)
}

/// A change from its JSON. Values may be text, numbers or booleans: they mean what they would in a profile.
fn read(mut body: Map<String, Value>) -> Result<ChangeRequest, Fault> {
    if let Some(Value::Object(set)) = body.get_mut("set") {
        for (name, value) in set.iter_mut() {
            let text = match &*value {
                Value::String(_) => continue,
                Value::Number(n) => n.to_string(),
                Value::Bool(b) => b.to_string(),
                other => {
                    let message = format!("`{}` is {}; a setting is one value", clip(name, 80), kind(other));
                    return Err(Fault::invalid(clip(name, 80), message)
                        .code("invalid_type")
                        .hint("name the knob in `unset` to let its live setting go"));
                }
            };
            *value = Value::String(text);
        }
    }
    body.retain(|_, value| !value.is_null());
    // What it says names fields and types, never values of ours.
    serde_json::from_value(Value::Object(body))
        .map_err(|e| Fault::invalid("body", format!("this is no change of settings: {e}")).code("invalid_field"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(value: Value) -> Result<ChangeRequest, Fault> {
        let Value::Object(map) = value else { panic!("an object") };
        read(map)
    }

    #[test]
    fn values_are_what_profiles_say() {
        let change =
            asked(json!({"set": {"a": 3, "b": true, "c": "10m", "d": 0.5}, "ttl_s": 5, "reason": null})).unwrap();
        assert_eq!(change.set.values().collect::<Vec<_>>(), ["3", "true", "10m", "0.5"]);
        assert_eq!((change.ttl_s, change.reason), (Some(5.0), None));
    }

    #[test]
    fn what_is_no_change_is_named() {
        for (body, named) in [
            (json!({"set": {"a": [1]}}), "an array"),
            (json!({"set": {"a": null}}), "null"),
            (json!({"sett": {}}), "sett"),
            (json!({"ttl_s": "soon"}), "invalid type"),
            (json!({"set": 3}), "invalid type"),
        ] {
            let fault = asked(body).unwrap_err();
            assert!(fault.message.contains(named), "{fault}");
        }
        assert_eq!(last("last=7").unwrap(), 7);
        assert!(last("last=x").is_err() && last("lst=1").is_err());
    }
}
