//! One forward pass: its spans, and who is at fault when it fails.

use super::plan::Rows;
use super::sequence::Sequence;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::{CausalLm, LmSpan, LogitsFor, ModelError};
use crate::engine::runtime::handle::WorkerContext;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The logits of one sequence's rows, or why there are none.
pub(super) type Outcome = Result<Vec<f32>, Fault>;

/// The rows of a sequence as the model takes them.
pub(super) fn span<'a>(active: &'a [Sequence], rows: &Rows) -> LmSpan<'a> {
    let (index, tokens, logits) = match *rows {
        Rows::Decode { index, drafts: 1.. } => (index, &active[index].window[..], LogitsFor::All),
        Rows::Decode { index, .. } => (index, &active[index].tokens[active[index].computed..], LogitsFor::Last),
        Rows::Prefill { index, tokens, last } => {
            let s = &active[index];
            let logits = if last { LogitsFor::Last } else { LogitsFor::None };
            (index, &s.tokens[s.computed..s.computed + tokens], logits)
        }
    };
    LmSpan { slot: active[index].slot, start: active[index].computed, tokens, logits }
}

/// The pass over all spans; when it fails, over each span alone, so that only those at fault fail.
pub(super) fn forward(model: &mut dyn CausalLm, spans: &[LmSpan<'_>], context: &WorkerContext) -> Vec<Outcome> {
    match attempt(model, spans, context) {
        Ok(logits) => logits.into_iter().map(Ok).collect(),
        Err(fault) if spans.len() == 1 => vec![Err(fault)],
        Err(_) => spans
            .iter()
            .map(|span| {
                // What a broken pass left beyond the span's start is forgotten by starting there again.
                let one = std::slice::from_ref(span);
                attempt(model, one, context).map(|mut logits| logits.pop().unwrap_or_default())
            })
            .collect(),
    }
}

pub(super) fn attempt(
    model: &mut dyn CausalLm,
    spans: &[LmSpan<'_>],
    context: &WorkerContext,
) -> Result<Vec<Vec<f32>>, Fault> {
    let name = &context.handle.name;
    // A model's own promise: after a failed or panicked pass its slots are at most as long as where the pass began.
    match catch_unwind(AssertUnwindSafe(|| model.forward(spans))) {
        Ok(Ok(logits)) if logits.len() == spans.len() => Ok(logits),
        Ok(Ok(_)) => Err(Fault::new(ErrorKind::Internal, format!("model `{name}` answered for other rows than asked"))),
        Ok(Err(error)) => Err(of_error(name, &error)),
        Err(panic) => Err(of_panic(context, &*panic)),
    }
}

fn of_error(model: &str, error: &ModelError) -> Fault {
    match error {
        ModelError::BadInput(why) => Fault::invalid("prompt", why.clone()),
        _ => {
            tracing::error!(model, %error, "a model failed on a request");
            Fault::new(ErrorKind::Internal, format!("model `{model}` failed on this request: {error}"))
        }
    }
}

/// The panic's own text is for the log: it may quote input.
pub(super) fn of_panic(context: &WorkerContext, panic: &(dyn Any + Send)) -> Fault {
    let model = &context.handle.name;
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(%model, panic = text.unwrap_or("no text"), "a panic in a model was contained");
    context.shared.metrics.panicked(model);
    Fault::new(ErrorKind::Internal, format!("model `{model}` panicked on this request; other requests go on"))
        .hint("the engine's log has the panic")
}
