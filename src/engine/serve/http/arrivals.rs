//! `/control/v1/arrivals`: what arrived lately, for `record` and for whoever wants to replay it.

use crate::control::arrivals::{Arrivals, RecordedQueue, SCHEMA};
use crate::control::{ErrorKind, Fault, Lane};
use crate::engine::scheduler::Micros;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use crate::engine::serve::fields::list;
use crate::profile::seconds;
use axum::Json;
use axum::extract::{RawQuery, State};

/// The span when none is asked for, and the longest: the recorder's memory rarely reaches back further.
const DEFAULT_S: f64 = 600.0;
const LONGEST_S: f64 = 604_800.0;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    /// This model alone; absent = all.
    model: Option<String>,
    last: Micros,
}

impl Wanted {
    fn parse(query: &str) -> Result<Wanted, Fault> {
        let mut wanted = Wanted { model: None, last: Micros::from_ms(DEFAULT_S * 1_000.0) };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("model", "") => wanted.model = None,
                ("model", name) => wanted.model = Some(name.to_string()),
                ("last", text) => {
                    let read = seconds(text, 0.001, LONGEST_S);
                    let s = read.map_err(|why| Fault::invalid("last", format!("`last`: {}", clip(&why, 120))))?;
                    wanted.last = Micros::from_ms(s * 1_000.0);
                }
                (name, _) => {
                    let shown = clip(name, 40);
                    return Err(Fault::invalid(shown.clone(), format!("`{shown}` is not a parameter of this route"))
                        .code("unknown_field")
                        .hint(format!("it takes {}", list(["model", "last"].into_iter()))));
                }
            }
        }
        Ok(wanted)
    }
}

pub(crate) async fn arrivals(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Json<Arrivals>, Failure> {
    let wanted = Wanted::parse(query.as_deref().unwrap_or(""))?;
    // Up to some ten thousand entries are copied and sorted: not on a thread that serves others.
    let made = tokio::task::spawn_blocking(move || take(&app, &wanted)).await;
    let made = made.map_err(|_| Fault::new(ErrorKind::Internal, "the recorded arrivals could not be collected"))?;
    Ok(Json(made?))
}

fn take(app: &App, wanted: &Wanted) -> Result<Arrivals, Fault> {
    let model = wanted.model.as_deref();
    let snapshot = app.engine.snapshot();
    if let Some(name) = model
        && !snapshot.models.iter().any(|known| known.id == name)
    {
        let served = list(snapshot.models.iter().map(|known| known.id.as_str()));
        let message = format!("there is no model `{}` here; served: {served}", clip(name, 40));
        return Err(Fault::new(ErrorKind::NotFound, message).param("model").code("model_not_found"));
    }
    let (span, recording) = app.engine.arrivals(wanted.last, model);
    let queues = snapshot.models.iter().filter(|m| model.is_none_or(|name| m.id == name)).flat_map(|m| {
        m.queues.iter().map(|queue| RecordedQueue {
            model: m.id.clone(),
            op: queue.op,
            caps: queue.caps.clone(),
            slice_windows: queue.slice_windows,
            recordings_share: queue.lanes.iter().find(|l| l.lane == Lane::Recordings).and_then(|l| l.share),
        })
    });
    Ok(Arrivals {
        schema: SCHEMA.to_string(),
        node: snapshot.node.clone(),
        version: snapshot.version.clone(),
        at_ms: snapshot.at_ms,
        span_ms: span.as_ms(),
        complete: recording.complete,
        queues: queues.collect(),
        arrivals: recording.arrivals,
        batches: recording.batches,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        assert_eq!(
            Wanted::parse("model=whisper-tiny-en&last=90s").unwrap(),
            Wanted { model: Some("whisper-tiny-en".into()), last: Micros::from_secs(90) }
        );
        assert_eq!(Wanted::parse("").unwrap(), Wanted { model: None, last: Micros::from_secs(600) });
        assert_eq!(Wanted::parse("last=2").unwrap().last, Micros::from_secs(2));
    }

    #[test]
    fn bad_parameters_are_named() {
        for (query, param) in [("last=soon", "last"), ("last=0", "last"), ("last=-3", "last"), ("lst=1m", "lst")] {
            assert_eq!(Wanted::parse(query).unwrap_err().param.as_deref(), Some(param), "{query}");
        }
    }
}
