//! What can go wrong between a command and an engine, and how the command then exits.

use crate::control::ExitCode;
use crate::control::error::ErrorDetail;

/// A call to an engine failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The address or key cannot be meant.
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// Nobody answers there, or the connection broke.
    #[error("cannot reach {target}: {why}")]
    Unreachable { target: String, why: String, hint: Option<String> },
    /// The engine answered with an error.
    #[error("{}", .detail.message)]
    Api { status: u16, detail: ErrorDetail, request_id: Option<String> },
    /// What answered is not an engine of a version that this client understands.
    #[error("{target} does not answer like a lanekeeper engine: {what}")]
    Protocol { target: String, what: String },
    /// The engine took longer than this call allows.
    #[error("{target} did not answer within {seconds} s")]
    TimedOut { target: String, seconds: u64 },
    /// Something on this side, before any request was sent.
    #[error("{message}")]
    Local { message: String, code: ExitCode },
}

impl ClientError {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        ClientError::Usage { message: message.into(), hint: hint.into() }
    }

    /// How a command that met this error exits.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            ClientError::Usage { .. } => ExitCode::Usage,
            ClientError::Unreachable { .. } => ExitCode::Unreachable,
            ClientError::Protocol { .. } => ExitCode::Unreachable,
            ClientError::TimedOut { .. } => ExitCode::TimedOut,
            ClientError::Local { code, .. } => *code,
            ClientError::Api { status, .. } => match status {
                401 | 403 => ExitCode::Denied,
                409 | 412 => ExitCode::Conflict,
                408 | 504 => ExitCode::TimedOut,
                429 | 503 => ExitCode::Unhealthy,
                400..=498 => ExitCode::Refused,
                _ => ExitCode::Internal,
            },
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Usage { hint, .. } => Some(hint.clone()),
            ClientError::Unreachable { hint, .. } => hint.clone(),
            ClientError::Protocol { .. } => Some("check --engine; is another program listening there?".into()),
            ClientError::Api { status: 401, .. } => {
                Some("give the key with --key-file FILE or in LANEKEEPER_KEY, or use the engine's socket".into())
            }
            // A read-only engine says so itself; anything else is a key without the right.
            ClientError::Api { status: 403, detail, .. } if detail.code.as_deref() == Some("read_only") => None,
            ClientError::Api { status: 403, .. } => Some("this key lacks the right; ask for one that has it".into()),
            ClientError::Api { status: 429, .. } => Some("the queue is full: try again in a moment".into()),
            _ => None,
        }
    }

    /// Whether a later try may succeed without anyone changing anything here.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            ClientError::Unreachable { .. }
                | ClientError::TimedOut { .. }
                | ClientError::Api { status: 429 | 500..=599, .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ErrorKind;

    #[test]
    fn the_wire_and_the_engine_agree_on_exit_codes() {
        let kinds = [
            ErrorKind::InvalidRequest,
            ErrorKind::TooLong,
            ErrorKind::BodyTooLarge,
            ErrorKind::UnsupportedMedia,
            ErrorKind::Unauthenticated,
            ErrorKind::Forbidden,
            ErrorKind::NotFound,
            ErrorKind::MethodNotAllowed,
            ErrorKind::Conflict,
            ErrorKind::QueueFull,
            ErrorKind::NotReady,
            ErrorKind::Draining,
            ErrorKind::DeadlinePassed,
            ErrorKind::Cancelled,
            ErrorKind::Internal,
        ];
        for kind in kinds {
            let detail = ErrorDetail { message: "m".into(), kind: "t".into(), code: None, param: None };
            let wire = ClientError::Api { status: kind.status(), detail, request_id: None };
            assert_eq!(wire.exit_code(), kind.exit_code(), "{kind:?}");
        }
    }
}
