//! What chat and plain completions share: settings, submission, the answer whole or as a stream.
//!
//! A request may ask for several answers (`n`, or several prompts): each is a ticket of its own, and their events are
//! merged here. Dropping a [`Run`] drops its tickets, and with them the work.

mod answer;
mod run;
mod settings;
mod shape;
mod stream;
mod unsupported;

pub(super) use settings::Settings;
pub(super) use shape::Kind;

use crate::control::{ErrorKind, Fault, Op};
use crate::engine::models::{LmFront, ModelFront};
use crate::engine::runtime::ModelHandle;
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use crate::engine::serve::http::HEAD_HOLD;
use crate::engine::serve::sse;
use axum::response::Response;
use run::Run;
use std::sync::Arc;

/// A language model ready for requests.
pub(super) struct Lm {
    front: Arc<ModelFront>,
    model: String,
    /// Longest sequence, prompt and answer, in tokens, and what bounds it.
    room: usize,
    bound: &'static str,
    default_max_tokens: usize,
    /// Answers that can wait and run at once.
    at_once: usize,
}

impl Lm {
    pub(super) fn of(handle: &ModelHandle) -> Result<Lm, Fault> {
        let front = handle.front()?;
        let model = handle.profile.id.clone();
        let (ModelFront::Lm(lm), Some(generation)) = (&*front, handle.settings().generation) else {
            return Err(Fault::invalid("model", format!("model `{model}` does not generate text")));
        };
        let context = generation.context_tokens.min(lm.config.context);
        let pool = generation.kv_tokens;
        let (room, bound) =
            if pool < context { (pool, "KV pool (generation.kv_tokens)") } else { (context, "context") };
        let at_once = generation.queue.max(1) + generation.slots;
        Ok(Lm { model, room, bound, default_max_tokens: generation.default_max_tokens, at_once, front })
    }

    pub(super) fn front(&self) -> &LmFront {
        match &*self.front {
            ModelFront::Lm(lm) => lm,
            // `of` looked, and a front never changes.
            _ => unreachable!("made of a language model's front"),
        }
    }

    /// How many tokens may be generated after a prompt of `prompt` tokens: what was asked for, or what fits of the
    /// default. What cannot fit is refused with both numbers, by the name of what is too long: the prompt alone, or what
    /// is asked for behind it.
    fn budget(&self, prompt: usize, settings: &Settings, param: &str) -> Result<usize, Fault> {
        let Lm { model, room, bound, .. } = self;
        let too_long = |param: &str, message: String| Fault::new(ErrorKind::TooLong, message).param(param);
        if prompt == 0 {
            return Err(
                Fault::invalid(param, format!("`{param}` is empty: there is nothing to continue")).code("empty_input")
            );
        }
        if prompt >= *room {
            let message = format!("`{param}` has {prompt} tokens, the {bound} of `{model}` is {room} tokens");
            let hint = "shorten the prompt: at least one token must be left for the answer";
            return Err(too_long(param, message).hint(hint));
        }
        let left = room - prompt;
        let (asked, field) = match settings.max_tokens {
            Some(asked) => (asked, settings.length_field),
            None if settings.min_tokens > left => (settings.min_tokens, "min_tokens"),
            None => return Ok(self.default_max_tokens.max(settings.min_tokens).clamp(1, left)),
        };
        if asked > left {
            let message = format!(
                "`{field}` asks for {asked} tokens and `{param}` has {prompt}, the {bound} of `{model}` is {room} tokens"
            );
            return Err(too_long(field, message).hint(format!("ask for at most {left} tokens, or shorten the prompt")));
        }
        Ok(asked)
    }
}

/// The model of a request.
pub(super) fn model(app: &App, id: &str) -> Result<Lm, Fault> {
    Lm::of(&*app.engine.model_for(id, Op::Generate)?)
}

/// A prompt in tokens, and its name in refusals.
pub(super) type Prompt = (String, Vec<u32>);

/// Submits a request and answers it, whole or as a stream.
pub(super) async fn answer(
    app: &App,
    client: &Client,
    lm: &Lm,
    kind: Kind,
    settings: Settings,
    prompts: Vec<Prompt>,
) -> Result<Response, Failure> {
    settings.check_ids(lm.front().config.vocab)?;
    let caller = app.caller(client, settings.extensions.deadline_s);
    let mut run = Run::submit(&app.engine, lm, &settings, prompts, &caller)?;
    let head = shape::Head::new(kind, run.id, &lm.model);
    if !settings.stream {
        return answer::whole(head, run).await;
    }
    // The status is not sent before the first event, or a moment: a fault in that time is still a proper refusal.
    let first = tokio::time::timeout(HEAD_HOLD, run.next()).await.ok().flatten();
    if let Some((_, Err(fault))) = first {
        return Err(Failure::of(run.id, fault));
    }
    let id = run.id;
    Ok(sse::respond(Some(id), stream::frames(head, run, first, settings.include_usage)))
}
