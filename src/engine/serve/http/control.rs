//! `/control/v1`: the snapshot, once or as a stream.

use crate::control::snapshot::EngineState;
use crate::control::{ErrorKind, Fault, Predicate, Snapshot};
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use crate::engine::serve::fields::list;
use crate::engine::serve::sse;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Interval of `watch` when none is named, and what may be named.
const INTERVAL_MS: u64 = 250;
const INTERVAL_RANGE_MS: std::ops::RangeInclusive<u64> = 50..=5_000;

/// How long to wait for a newer snapshot than the one that is shared.
const SHARED: Duration = Duration::from_millis(5);

/// The query as it came, decoded: clients write `top%3A5` as often as `top:5`.
type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// Parameters that both routes take.
#[derive(Debug, Clone, PartialEq, Default)]
struct View {
    /// At most this many requests; absent = all that the engine shows.
    requests: Option<usize>,
    /// These models alone; empty = all.
    models: Vec<String>,
    /// Requests for which this holds alone.
    filter: Option<Predicate>,
    interval_ms: Option<u64>,
}

impl View {
    fn read(query: Pairs, known: &[&str], app: &App) -> Result<View, Fault> {
        let Query(pairs) = query.map_err(|_| Fault::invalid("query", "the query of the address cannot be read"))?;
        let view = View::parse(&pairs, known)?;
        let served: Vec<&str> = app.engine.models().iter().map(|model| model.profile.id.as_str()).collect();
        match view.models.iter().find(|id| !served.contains(&id.as_str())) {
            None => Ok(view),
            Some(stranger) => Err(Fault::new(ErrorKind::NotFound, format!("no model `{}`", clip(stranger, 64)))
                .param("models")
                .code("model_not_found")
                .hint(format!("served here: {}", list(served.into_iter())))),
        }
    }

    fn parse(pairs: &[(String, String)], known: &[&str]) -> Result<View, Fault> {
        let mut view = View::default();
        for (index, (name, value)) in pairs.iter().enumerate() {
            let (name, value) = (name.as_str(), value.as_str());
            if !known.contains(&name) {
                let shown = clip(name, 40);
                return Err(Fault::invalid(shown.clone(), format!("`{shown}` is not a parameter of this route"))
                    .code("unknown_field")
                    .hint(format!("it takes {}", list(known.iter().copied()))));
            }
            if pairs[..index].iter().any(|(before, _)| before == name) {
                return Err(Fault::invalid(name, format!("`{name}` stands twice in the query")).code("duplicate_field"));
            }
            let refuse =
                |wants: &str| Fault::invalid(name, format!("`{name}` is `{}`, it must be {wants}", clip(value, 40)));
            match name {
                "requests" if value == "all" => view.requests = None,
                "requests" => {
                    let number = value.strip_prefix("top:").unwrap_or(value);
                    view.requests = Some(number.parse().map_err(|_| refuse("`top:N`, a number or `all`"))?);
                }
                "filter" => {
                    let unread = |error| Fault::invalid("filter", format!("`filter` cannot be read: {error}"));
                    view.filter = Some(Predicate::of_requests(value).map_err(unread)?);
                }
                "models" => view.models = value.split(',').filter(|id| !id.is_empty()).map(String::from).collect(),
                _ => {
                    let ms = value.parse().ok().filter(|ms| INTERVAL_RANGE_MS.contains(ms));
                    let wants = format!("from {} to {}", INTERVAL_RANGE_MS.start(), INTERVAL_RANGE_MS.end());
                    view.interval_ms = Some(ms.ok_or_else(|| refuse(&wants))?);
                }
            }
        }
        Ok(view)
    }

    /// A snapshot as this view wants it: the engine's own, which all readers share, where nothing is left out or added.
    fn take(&self, app: &App) -> Arc<Snapshot> {
        let mut snapshot = app.engine.snapshot();
        app.intake.show(&mut snapshot);
        if !self.models.is_empty() {
            let wanted = |id: &String| self.models.contains(id);
            let snapshot = Arc::make_mut(&mut snapshot);
            snapshot.models.retain(|model| wanted(&model.id));
            snapshot.generation.retain(|generation| wanted(&generation.model));
            snapshot.requests.shown.retain(|request| wanted(&request.model));
        }
        if let Some(filter) = &self.filter {
            Arc::make_mut(&mut snapshot).requests.shown.retain(|request| filter.wants(request));
        }
        // What is left out by name or condition takes no place.
        if let Some(most) = self.requests {
            Arc::make_mut(&mut snapshot).requests.shown.truncate(most);
        }
        snapshot
    }
}

pub(crate) async fn snapshot(State(app): State<App>, query: Pairs) -> Result<Json<Arc<Snapshot>>, Failure> {
    let view = View::read(query, &["requests", "models", "filter"], &app)?;
    Ok(Json(view.take(&app)))
}

/// One snapshot per interval, until the engine drains. A snapshot is taken when the connection has room for it: a slow
/// reader gets the newest one, never a backlog, and sees the gap in `seq`.
pub(crate) async fn watch(State(app): State<App>, query: Pairs) -> Result<Response, Failure> {
    let view = View::read(query, &["requests", "models", "filter", "interval_ms"], &app)?;
    let mut ticks =
        tokio::time::interval_at(Instant::now(), Duration::from_millis(view.interval_ms.unwrap_or(INTERVAL_MS)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let draining = app.draining.clone();
    let state = Watch { app, view, ticks, draining, last: false };
    Ok(sse::respond(None, futures_util::stream::unfold(state, Watch::next)))
}

struct Watch {
    app: App,
    view: View,
    ticks: tokio::time::Interval,
    draining: tokio::sync::watch::Receiver<bool>,
    last: bool,
}

impl Watch {
    async fn next(mut self) -> Option<(Bytes, Watch)> {
        if self.last {
            return None;
        }
        tokio::select! {
            _ = self.ticks.tick() => {}
            // The last snapshot says that the engine drains, so that a watcher knows why its stream ends.
            _ = self.draining.wait_for(|draining| *draining) => self.last = true,
        }
        while self.last && self.app.engine.snapshot().state != EngineState::Draining {
            // A snapshot is shared by all who ask within some milliseconds: this one is from before the drain.
            tokio::time::sleep(SHARED).await;
        }
        let frame = sse::frame(&self.view.take(&self.app));
        Some((frame, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH: [&str; 4] = ["requests", "models", "filter", "interval_ms"];

    fn parse(query: &str, known: &[&str]) -> Result<View, Fault> {
        let uri: http::Uri = format!("/?{query}").parse().unwrap();
        View::parse(&Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap().0, known)
    }

    #[test]
    fn parameters_are_read() {
        let view = parse("requests=top:5&models=a,b&interval_ms=50", &WATCH).unwrap();
        let models = vec!["a".into(), "b".into()];
        assert_eq!(view, View { requests: Some(5), models, filter: None, interval_ms: Some(50) });
        assert_eq!(
            parse("requests=top%3A5&models=a%2Cb&interval_ms=50", &WATCH).unwrap(),
            view,
            "as encoders write it"
        );
        let view = parse("filter=state%3D%3Dqueued+%26%26+queued_ms%3E5s", &WATCH).unwrap();
        assert_eq!(view.filter.expect("read").text(), "state==queued && queued_ms>5s");
        assert_eq!(parse("requests=all", &WATCH).unwrap(), View::default());
        assert_eq!(parse("", &WATCH).unwrap(), View::default());
    }

    #[test]
    fn bad_parameters_are_named() {
        for (query, param) in [
            ("interval_ms=49", "interval_ms"),
            ("interval_ms=5001", "interval_ms"),
            ("interval_ms=x", "interval_ms"),
            ("filter=sate%3D%3Dqueued", "filter"),
            ("filter=state%3D", "filter"),
            ("requests=top:x", "requests"),
            ("request=1", "request"),
            ("requests=1&requests=2", "requests"),
        ] {
            let fault = parse(query, &WATCH).unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(param), "{fault}");
        }
        assert!(parse("interval_ms=100", &["requests"]).is_err());
    }
}
