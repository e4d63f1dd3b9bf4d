//! A transcription as it comes: `transcript.text.delta` per segment, `transcript.text.done` at the end.

use super::shape::Usage;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::Segment;
use crate::engine::runtime::{Ticket, TranscriptEvent};
use crate::engine::serve::sse::{self, Telling, Told};
use crate::engine::serve::timing::round_ms;
use bytes::Bytes;
use futures_util::Stream;
use serde_json::json;
use std::collections::VecDeque;

type Event = Result<TranscriptEvent, Fault>;

/// The frames of a transcription. `first` was taken from the ticket already, if anything was. `cut` gives the seconds
/// that were decoded of a file that ended early.
pub(super) fn frames(
    ticket: Ticket<TranscriptEvent>,
    first: Option<Option<Event>>,
    seconds: f64,
    cut: bool,
) -> impl Stream<Item = Bytes> + Send + 'static {
    sse::tell(State { ticket, text: String::new(), seconds, cut }, first, VecDeque::new())
}

struct State {
    ticket: Ticket<TranscriptEvent>,
    text: String,
    seconds: f64,
    cut: bool,
}

impl Telling for State {
    type Event = Event;

    async fn next(&mut self) -> Option<Event> {
        self.ticket.next().await
    }

    fn take(&mut self, event: Option<Event>, frames: &mut VecDeque<Bytes>) -> Told {
        match event {
            Some(Ok(TranscriptEvent::Segment(segment))) => {
                if let Some(delta) = self.delta(&segment) {
                    frames.push_back(sse::frame(&json!({"type": "transcript.text.delta", "delta": delta})));
                }
                return Told::More;
            }
            Some(Ok(TranscriptEvent::Done { language, times })) => {
                let mut end = json!({
                    "type": "transcript.text.done",
                    "text": self.text,
                    "language": language,
                    "duration": self.seconds,
                    "usage": Usage::of(self.seconds),
                    "timings": {"queue_ms": round_ms(times.queue_ms), "run_ms": round_ms(times.run_ms)},
                });
                if self.cut {
                    end["truncated"] = json!(true);
                }
                frames.extend([sse::frame(&end), sse::done()]);
            }
            Some(Err(fault)) => frames.push_back(sse::error_frame(&fault)),
            None => {
                frames.push_back(sse::error_frame(&Fault::new(ErrorKind::Internal, "the model's worker ended")));
            }
        }
        Told::All
    }
}

impl State {
    /// What a segment adds to the text, so that the deltas joined are the text of the end.
    fn delta(&mut self, segment: &Segment) -> Option<String> {
        let text = if self.text.is_empty() { segment.text.trim_start() } else { &segment.text };
        self.text.push_str(text);
        (!text.is_empty()).then(|| text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::segment;
    use super::*;
    use crate::engine::runtime::{JobTimes, RequestId};
    use futures_util::StreamExt;
    use serde_json::Value;

    async fn run(events: Vec<Result<TranscriptEvent, Fault>>) -> Vec<String> {
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        for event in events {
            sender.send(event).await.unwrap();
        }
        drop(sender);
        let ticket = Ticket::new(RequestId(1), receiver, || {});
        let frames: Vec<Bytes> = frames(ticket, None, 2.5, true).collect().await;
        frames.iter().map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect()
    }

    fn value(frame: &str) -> Value {
        serde_json::from_str(frame.strip_prefix("data: ").unwrap().trim()).unwrap()
    }

    #[tokio::test]
    async fn deltas_joined_are_the_text() {
        let part = |text| Ok(TranscriptEvent::Segment(segment(0, 0.0, 1.0, text)));
        let end = Ok(TranscriptEvent::Done { language: Some("en".into()), times: JobTimes::default() });
        let frames = run(vec![part(" One"), part(" two."), end]).await;
        assert_eq!(frames.len(), 4);
        let joined: String = frames[..2].iter().map(|f| value(f)["delta"].as_str().unwrap().to_string()).collect();
        let done = value(&frames[2]);
        assert_eq!(done["type"], "transcript.text.done");
        assert_eq!((joined.as_str(), &done["truncated"]), (done["text"].as_str().unwrap(), &json!(true)));
        assert_eq!(frames[3], "data: [DONE]\n\n");
    }

    #[tokio::test]
    async fn a_fault_is_the_last_frame() {
        for events in [vec![Err(Fault::new(ErrorKind::Internal, "broke"))], vec![]] {
            let frames = run(events).await;
            assert_eq!(frames.len(), 1);
            assert_eq!(value(&frames[0])["error"]["type"], "server_error");
        }
    }
}
