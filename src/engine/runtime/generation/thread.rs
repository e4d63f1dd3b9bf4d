//! The thread of a generation worker.

use super::door::Message;
use super::draft::DraftSource;
use super::draft_model::DraftModel;
use super::step::Generator;
use super::view::GenerationView;
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::{CausalLm, LoadedModel, ModelBack, ModelError, ModelFront};
use crate::engine::runtime::handle::{LoadState, WorkerContext};
use crate::engine::runtime::stats::OpStats;
use crate::profile::GenerationSettings;
use arc_swap::ArcSwap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// How often a queue that an operator holds is looked at for requests that leave.
const HELD: Duration = Duration::from_millis(20);

/// Loads a model, on the thread that will run it.
pub(in crate::engine::runtime) type Load = Box<dyn FnOnce() -> Result<LoadedModel, ModelError> + Send>;

/// What a thread loads: its model, and the one that drafts for it, by name.
pub(super) struct Loads {
    pub model: Load,
    pub draft: Option<(String, Load)>,
}

/// Loads; a panic is a failure like any other.
fn attempt(load: Load) -> Result<LoadedModel, String> {
    let panicked = |_| Err(ModelError::Other("the loader panicked; the engine's log has the panic".into()));
    catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(panicked).map_err(|e| e.to_string())
}

/// Loads the model and the one that drafts for it, then runs iterations until the door is gone and nothing is left to do.
pub(super) fn run(
    context: WorkerContext,
    settings: GenerationSettings,
    stats: &Arc<OpStats>,
    view: &ArcSwap<GenerationView>,
    inbox: &Receiver<Message>,
    mut drafter: Box<dyn DraftSource>,
    loads: Loads,
) {
    let Loaded { model, front, vocabulary, end_ids } = match attempt(loads.model).and_then(halves) {
        Ok(halves) => halves,
        Err(why) => return context.loaded(LoadState::Failed { why }),
    };
    tell_context(&context.handle.name, settings.context_tokens, model.config().context);
    let (mut weights_bytes, mut kv_bytes) = (model.weights_bytes(), model.kv_bytes());
    if let Some((name, load)) = loads.draft {
        let loaded = attempt(load).map_err(|why| format!("its draft model `{name}` could not be loaded: {why}"));
        let chunk = settings.prefill_chunk;
        match loaded.and_then(|loaded| DraftModel::new(&name, loaded, &vocabulary, chunk, context.clone())) {
            Ok(draft) => {
                let (weights, kv) = draft.bytes();
                (weights_bytes, kv_bytes) = (weights_bytes + weights, kv_bytes + kv);
                drafter.assisted(draft);
            }
            Err(why) => return context.loaded(LoadState::Failed { why }),
        }
    }
    let ready = LoadState::Ready { front, weights_bytes, kv_bytes: Some(kv_bytes) };
    drafter.loaded(model.rows_are_independent(), model.drafts());
    let mut generator = Generator::new(context.clone(), settings, stats.clone(), model, drafter, vocabulary, end_ids);
    view.store(Arc::new(generator.view()));
    context.loaded(ready);
    // Iterations contain the model's panics; this contains our own. Requests that it drops end with a fault, and the
    // model is shown as failed instead of silently never answering.
    if catch_unwind(AssertUnwindSafe(|| serve(&mut generator, view, inbox))).is_err() {
        drop(generator);
        let why = "its generation worker panicked; the engine's log has the panic".to_string();
        tracing::error!(model = %context.handle.name, why, "model failed");
        context.handle.set_state(LoadState::Failed { why });
    }
}

/// Says when a model cannot have the context that its profile asks for.
fn tell_context(model: &str, asked: usize, own: usize) {
    if asked > own {
        tracing::warn!(
            model,
            "generation.context_tokens is {asked}, but the model was trained for {own}: its sequences get {own} tokens"
        );
    }
}

fn serve(generator: &mut Generator, view: &ArcSwap<GenerationView>, inbox: &Receiver<Message>) {
    loop {
        if generator.idle() && generator.check.has_work() {
            // Nobody waits: go on checking, and look for requests after each pass.
            match inbox.try_recv() {
                Ok(message) => generator.take(message),
                Err(TryRecvError::Empty) => {
                    generator.check_step();
                    view.store(Arc::new(generator.view()));
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
            }
        } else if generator.idle() {
            // Nothing to do: sleep until a request comes; an error means that the door is gone.
            let Ok(message) = inbox.recv() else { return };
            generator.take(message);
        }
        if generator.held() {
            // Nothing is computed, but requests may leave: cancelled, or past their deadline.
            match inbox.recv_timeout(HELD) {
                Ok(message) => generator.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        while let Ok(message) = inbox.try_recv() {
            generator.take(message);
        }
        generator.arrange();
        // Who waits, and for what, is seen before the pass: that may take long.
        if std::mem::take(&mut generator.moved) {
            view.store(Arc::new(generator.view()));
        }
        generator.iterate();
        view.store(Arc::new(generator.view()));
    }
}

/// The halves of a language model, and what the worker itself needs of the front.
struct Loaded {
    model: Box<dyn CausalLm>,
    front: Arc<ModelFront>,
    vocabulary: Arc<Vocabulary>,
    end_ids: Vec<u32>,
}

fn halves(loaded: LoadedModel) -> Result<Loaded, String> {
    match loaded {
        LoadedModel { front: ModelFront::Lm(front), back: ModelBack::Lm(model) } => {
            let (vocabulary, end_ids) = (front.vocabulary.clone(), front.end_ids.clone());
            Ok(Loaded { model, front: Arc::new(ModelFront::Lm(front)), vocabulary, end_ids })
        }
        _ => Err("a model that does not generate was loaded where generation was to run".to_string()),
    }
}
