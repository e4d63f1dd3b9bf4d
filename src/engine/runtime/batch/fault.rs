//! From a model's error, or its panic, to the fault of a request.

use crate::control::{ErrorKind, Fault};
use crate::engine::models::ModelError;
use std::any::Any;

/// The fault of the one request that the model failed on; `param` is the request field that holds its input.
pub(super) fn of_error(model: &str, param: &str, error: &ModelError) -> Fault {
    match error {
        ModelError::BadInput(why) => Fault::invalid(param, why.clone()),
        ModelError::OutOfMemory { device, what } => {
            let message = format!("model `{model}` ran out of memory on {device} with this request alone: {what}");
            Fault::new(ErrorKind::TooLong, message).param(param).code("out_of_memory")
        }
        ModelError::BadFile(_) | ModelError::Tensor(_) | ModelError::Other(_) => {
            tracing::error!(model, %error, "a model failed on a request");
            Fault::new(ErrorKind::Internal, format!("model `{model}` failed on this request: {error}"))
        }
    }
}

/// The fault of a request whose step has been tried as often as the profile allows.
pub(super) fn of_attempts(model: &str, tries: usize) -> Fault {
    let message = format!("model `{model}` did not get through a step of this request in {tries} tries");
    Fault::new(ErrorKind::Internal, message).code("too_many_attempts").hint("the engine's log says what failed")
}

/// The fault of the one request that the model panicked on. The panic's own text is for the log: it may quote input.
pub(super) fn of_panic(model: &str, panic: &(dyn Any + Send)) -> Fault {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(model, panic = text.unwrap_or("no text"), "a panic in a model was contained");
    Fault::new(ErrorKind::Internal, format!("model `{model}` panicked on this request; other requests go on"))
        .hint("the engine's log has the panic")
}
