//! `/control/v1/commits`: the tokens of all generations as they are committed, for observers.
//!
//! It carries what is generated, so it needs the right to control.

use crate::control::Fault;
use crate::control::commits::CommitFrame;
use crate::engine::runtime::{CommitFeed, Engine};
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use crate::engine::serve::sse;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use tokio::sync::watch;

/// The models that an observer asks for; empty = all.
fn models(query: &str) -> Result<Vec<String>, Fault> {
    let mut models = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("models", ids)) => models.extend(ids.split(',').filter(|id| !id.is_empty()).map(String::from)),
            _ => {
                let shown = clip(pair.split('=').next().unwrap_or(pair), 40);
                let message = format!("`{shown}` is not a parameter of this route");
                return Err(Fault::invalid(shown, message).code("unknown_field").hint("it takes `models=ID,ID`"));
            }
        }
    }
    Ok(models)
}

/// Frames from now on. The stream ends when the engine drains and its last request has ended.
pub(crate) async fn commits(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response, Failure> {
    let models = models(query.as_deref().unwrap_or(""))?;
    let feed = app.engine.observe_commits();
    let state = Observer { feed, models, engine: app.engine.clone(), draining: app.draining.clone(), last: false };
    Ok(sse::respond(None, futures_util::stream::unfold(state, Observer::next)))
}

struct Observer {
    feed: CommitFeed,
    models: Vec<String>,
    engine: Engine,
    draining: watch::Receiver<bool>,
    /// Nothing lives any more: what is there already is the rest.
    last: bool,
}

impl Observer {
    async fn next(mut self) -> Option<(Bytes, Observer)> {
        loop {
            let frame = if self.last {
                self.feed.try_next()?
            } else {
                tokio::select! {
                    frame = self.feed.next() => frame,
                    () = over(&self.engine, &mut self.draining) => {
                        self.last = true;
                        continue;
                    }
                }
            };
            if let Some(frame) = frame_for(&self.models, &frame) {
                return Some((frame, self));
            }
        }
    }
}

async fn over(engine: &Engine, draining: &mut watch::Receiver<bool>) {
    // Without a sender the doors are gone, and so is this stream.
    let _ = draining.wait_for(|draining| *draining).await;
    engine.idle().await;
}

/// A frame, unless the observer did not ask for it.
fn frame_for(models: &[String], frame: &CommitFrame) -> Option<Bytes> {
    let wanted = match frame {
        CommitFrame::Started { of }
        | CommitFrame::Committed { of, .. }
        | CommitFrame::Finished { of, .. }
        | CommitFrame::Aborted { of, .. } => models.is_empty() || models.contains(&of.model),
        CommitFrame::Gap { .. } => true,
    };
    wanted.then(|| sse::frame(frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::commits::CommitKey;

    #[test]
    fn models_are_read_and_strangers_named() {
        assert_eq!(models("").unwrap(), Vec::<String>::new());
        assert_eq!(models("models=a,b").unwrap(), ["a", "b"]);
        assert_eq!(models("model=a").unwrap_err().param.as_deref(), Some("model"));
    }

    #[test]
    fn other_models_are_left_out_and_gaps_never() {
        let of = CommitKey { session: "s".into(), request: "req-1".into(), model: "a".into() };
        let started = CommitFrame::Started { of };
        assert!(frame_for(&[], &started).is_some() && frame_for(&["a".to_string()], &started).is_some());
        assert!(frame_for(&["b".to_string()], &started).is_none());
        assert!(frame_for(&["b".to_string()], &CommitFrame::Gap { frames: 1 }).is_some());
    }
}
