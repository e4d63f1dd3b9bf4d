//! A [`Fault`] on its way out of the HTTP door: status, error shape, `retry-after`.

use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::RequestId;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

/// What a handler fails with. The engine's fault, and the request it befell if one had been admitted.
#[derive(Debug)]
pub(super) struct Failure {
    fault: Fault,
    id: Option<RequestId>,
}

impl Failure {
    /// Names the admitted request at fault.
    pub(super) fn of(id: RequestId, fault: Fault) -> Self {
        Failure { fault, id: Some(id) }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure { fault, id: None }
    }
}

/// A path whose parameter cannot be read: percent-encoded bytes that are not UTF-8.
impl From<axum::extract::rejection::PathRejection> for Failure {
    fn from(_: axum::extract::rejection::PathRejection) -> Self {
        Fault::invalid("id", "the id in the path is not UTF-8 text").into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = respond(&self.fault);
        if let Some(id) = self.id {
            super::timing::set_id(response.headers_mut(), &id.to_string());
        }
        response
    }
}

/// The answer to a fault.
pub(super) fn respond(fault: &Fault) -> Response {
    let status = StatusCode::from_u16(fault.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(fault.body())).into_response();
    // Both kinds of "not now" carry a time: a client without one would retry at once and make it worse.
    let retry = match fault.kind {
        ErrorKind::QueueFull => Some(fault.retry_after_s.unwrap_or(1)),
        ErrorKind::NotReady | ErrorKind::Draining => Some(fault.retry_after_s.unwrap_or(5)),
        _ => fault.retry_after_s,
    };
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if fault.kind == ErrorKind::Unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if fault.kind == ErrorKind::BodyTooLarge || fault.kind == ErrorKind::Draining {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What a panic in a handler becomes. The payload may quote the request, so it is neither shown nor logged.
pub(super) fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> http::Response<axum::body::Body> {
    tracing::error!("a request handler panicked");
    respond(&Fault::new(ErrorKind::Internal, "the request hit an internal error; the engine goes on"))
}

/// No such route.
pub(super) async fn no_route(uri: http::Uri) -> Response {
    respond(
        &Fault::new(ErrorKind::NotFound, format!("no route `{}`", clip(uri.path(), 100)))
            .code("unknown_route")
            .hint("see docs/api.md for the routes"),
    )
}

/// The route exists, the method does not.
pub(super) async fn no_method(method: http::Method, uri: http::Uri) -> Response {
    respond(&Fault::new(
        ErrorKind::MethodNotAllowed,
        format!("`{}` does not take {}", clip(uri.path(), 100), clip(method.as_str(), 20)),
    ))
}

/// At most `max` characters of `text`, for error messages that quote a short value.
pub(super) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn every_fault_is_the_openai_shape() {
        let response = respond(&Fault::invalid("n", "n is 0").hint("use 1"));
        assert_eq!(response.status(), 400);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"error": {
                "message": "n is 0 (use 1)", "type": "invalid_request_error", "code": "invalid_value", "param": "n"
            }})
        );
    }

    #[test]
    fn not_now_says_when() {
        for kind in [ErrorKind::QueueFull, ErrorKind::NotReady, ErrorKind::Draining] {
            assert!(respond(&Fault::new(kind, "x")).headers().contains_key(header::RETRY_AFTER), "{kind:?}");
        }
        assert_eq!(respond(&Fault::new(ErrorKind::QueueFull, "x").retry_after(7)).headers()[header::RETRY_AFTER], "7");
    }

    #[test]
    fn clip_counts_characters() {
        assert_eq!(clip("äöü", 2), "äö…");
        assert_eq!(clip("äöü", 3), "äöü");
    }
}
