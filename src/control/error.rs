//! Faults that cross a door: one kind list, one wire shape.
//!
//! The engine reports a [`Fault`]; the HTTP door maps its [`ErrorKind`] to a status and the OpenAI error shape
//! ([`ErrorBody`]); the CLI maps the kind to an exit code.

use super::ExitCode;
use serde::{Deserialize, Serialize};

/// What kind of fault a request met. The mapping to HTTP status and exit code is total and lives here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A field or body that cannot be served as given.
    InvalidRequest,
    /// The prompt, text or audio is longer than the model or its memory can ever hold.
    TooLong,
    /// The body is larger than the box accepts.
    BodyTooLarge,
    /// The audio coding or media type is one we do not decode.
    UnsupportedMedia,
    /// No key, or a wrong one.
    Unauthenticated,
    /// A key without the right that this route needs.
    Forbidden,
    /// No such model, route or request.
    NotFound,
    /// The route exists, the method does not.
    MethodNotAllowed,
    /// What was to be changed has moved since it was read.
    Conflict,
    /// The queue is full: try again later.
    QueueFull,
    /// The model is loading or failed to load.
    NotReady,
    /// The engine is draining.
    Draining,
    /// The request's deadline passed before it was served.
    DeadlinePassed,
    /// The request was cancelled, or its client went away.
    Cancelled,
    /// The model failed on this request.
    Internal,
}

impl ErrorKind {
    /// The HTTP status of this kind.
    pub fn status(self) -> u16 {
        match self {
            ErrorKind::InvalidRequest | ErrorKind::TooLong => 400,
            ErrorKind::Unauthenticated => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::MethodNotAllowed => 405,
            ErrorKind::Conflict => 409,
            ErrorKind::BodyTooLarge => 413,
            ErrorKind::UnsupportedMedia => 415,
            ErrorKind::QueueFull => 429,
            ErrorKind::Cancelled => 499,
            ErrorKind::Internal => 500,
            ErrorKind::NotReady | ErrorKind::Draining => 503,
            ErrorKind::DeadlinePassed => 504,
        }
    }

    /// The `type` field of the OpenAI error shape.
    pub fn error_type(self) -> &'static str {
        match self {
            ErrorKind::Unauthenticated => "authentication_error",
            ErrorKind::Forbidden => "permission_error",
            ErrorKind::NotFound => "not_found_error",
            ErrorKind::Conflict => "conflict_error",
            ErrorKind::QueueFull => "rate_limit_error",
            ErrorKind::Internal => "server_error",
            ErrorKind::NotReady | ErrorKind::Draining | ErrorKind::DeadlinePassed | ErrorKind::Cancelled => {
                "unavailable_error"
            }
            _ => "invalid_request_error",
        }
    }

    /// The default `code` field; a [`Fault`] may carry a finer one.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::InvalidRequest => "invalid_value",
            ErrorKind::TooLong => "context_length_exceeded",
            ErrorKind::BodyTooLarge => "body_too_large",
            ErrorKind::UnsupportedMedia => "unsupported_media",
            ErrorKind::Unauthenticated => "invalid_api_key",
            ErrorKind::Forbidden => "missing_right",
            ErrorKind::NotFound => "not_found",
            ErrorKind::MethodNotAllowed => "method_not_allowed",
            ErrorKind::Conflict => "conflict",
            ErrorKind::QueueFull => "queue_full",
            ErrorKind::NotReady => "model_not_ready",
            ErrorKind::Draining => "draining",
            ErrorKind::DeadlinePassed => "deadline_passed",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Internal => "internal_error",
        }
    }

    /// How a CLI command that met this kind exits.
    pub fn exit_code(self) -> ExitCode {
        match self {
            ErrorKind::Unauthenticated | ErrorKind::Forbidden => ExitCode::Denied,
            ErrorKind::Internal | ErrorKind::Cancelled => ExitCode::Internal,
            ErrorKind::NotReady | ErrorKind::Draining | ErrorKind::QueueFull => ExitCode::Unhealthy,
            ErrorKind::DeadlinePassed => ExitCode::TimedOut,
            ErrorKind::Conflict => ExitCode::Conflict,
            _ => ExitCode::Refused,
        }
    }
}

/// A fault with its text: what failed, on what, with the value; and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub kind: ErrorKind,
    /// What failed, on what, with the value. Never carries request text, audio or keys.
    pub message: String,
    /// The request field at fault, if one is.
    pub param: Option<String>,
    /// A finer code than the kind's own.
    pub code: Option<&'static str>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Seconds after which a retry makes sense (429 and 503).
    pub retry_after_s: Option<u32>,
}

impl Fault {
    /// A fault of `kind` saying `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Fault { kind, message: message.into(), param: None, code: None, hint: None, retry_after_s: None }
    }

    /// An [`ErrorKind::InvalidRequest`] that names the field at fault.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Fault::new(ErrorKind::InvalidRequest, message).param(param)
    }

    /// Names the request field at fault.
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets a finer code than the kind's.
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says when a retry makes sense.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The wire form.
    pub fn body(&self) -> ErrorBody {
        let message = match &self.hint {
            Some(hint) => format!("{} ({hint})", self.message),
            None => self.message.clone(),
        };
        ErrorBody {
            error: ErrorDetail {
                message,
                kind: self.kind.error_type().to_string(),
                code: Some(self.code.unwrap_or_else(|| self.kind.code()).to_string()),
                param: self.param.clone(),
            },
        }
    }
}

/// The body of every non-2xx answer: `{"error":{"message","type","code","param"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

/// The inside of an [`ErrorBody`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    pub message: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub code: Option<String>,
    pub param: Option<String>,
}
