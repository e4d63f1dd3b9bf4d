//! The answer as a stream of pieces.

use super::run::{Event, Run};
use super::shape::{Head, Totals};
use crate::engine::runtime::GenerationEvent;
use crate::engine::serve::sse::{self, Telling, Told};
use bytes::Bytes;
use futures_util::Stream;
use serde_json::Value;
use std::collections::VecDeque;

/// The frames of a generation. `first` was taken from the run already, if anything was.
pub(super) fn frames(
    head: Head,
    run: Run,
    first: Option<Event>,
    include_usage: bool,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let state = State { totals: Totals::new(run.prompt_tokens), left: run.choices, head, run, include_usage };
    let opening = (0..state.run.choices).filter_map(|index| state.head.opening(index));
    let opening = opening.map(|opening| state.frame(vec![opening], None)).collect();
    sse::tell(state, first.map(Some), opening)
}

struct State {
    head: Head,
    run: Run,
    include_usage: bool,
    totals: Totals,
    /// Choices that have not ended.
    left: usize,
}

impl Telling for State {
    type Event = Event;

    async fn next(&mut self) -> Option<Event> {
        self.run.next().await
    }

    fn take(&mut self, event: Option<Event>, frames: &mut VecDeque<Bytes>) -> Told {
        match event {
            Some((choice, Ok(event))) => self.tell(choice, event, frames),
            Some((_, Err(fault))) => {
                frames.push_back(sse::error_frame(&fault));
                Told::All
            }
            // Every choice sends its end first; this is only so that a stream cannot hang.
            None => Told::All,
        }
    }
}

impl State {
    fn tell(&mut self, choice: usize, event: GenerationEvent, frames: &mut VecDeque<Bytes>) -> Told {
        match event {
            GenerationEvent::Delta { text, logprobs, .. } => {
                let logprobs = self.head.logprobs(&logprobs);
                if !text.is_empty() || logprobs.is_some() {
                    frames.push_back(self.frame(vec![self.head.piece(choice, &text, logprobs)], None));
                }
                Told::More
            }
            GenerationEvent::Done { finish, cached_tokens, completion_tokens, times, speculation, .. } => {
                let cached = self.run.accounts(choice).then_some(cached_tokens);
                self.totals.add(cached, completion_tokens, times, speculation.map(|report| *report));
                self.left -= 1;
                let timings = (self.left == 0).then(|| self.totals.timings());
                frames.push_back(self.frame(vec![self.head.closing(choice, finish)], timings));
                if self.left > 0 {
                    return Told::More;
                }
                if self.include_usage {
                    let mut frame = self.head.around(true, Vec::new());
                    frame.insert("usage".into(), self.totals.usage());
                    frames.push_back(sse::frame(&frame));
                }
                frames.push_back(sse::done());
                Told::All
            }
        }
    }

    fn frame(&self, choices: Vec<Value>, timings: Option<Value>) -> Bytes {
        let mut frame = self.head.around(true, choices);
        if self.include_usage {
            // The clients' types want the field on every frame once it was asked for.
            frame.insert("usage".into(), Value::Null);
        }
        if let Some(timings) = timings {
            frame.insert("timings".into(), timings);
        }
        sse::frame(&frame)
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::{delta, done, run};
    use super::super::shape::Kind;
    use super::*;
    use crate::control::{ErrorKind, Fault};
    use crate::engine::runtime::{FinishReason, RequestId};
    use futures_util::StreamExt;
    use serde_json::json;

    type Events = Vec<Vec<Result<GenerationEvent, Fault>>>;

    async fn stream(kind: Kind, events: Events, include_usage: bool) -> (Vec<Value>, bool) {
        let frames: Vec<Bytes> =
            frames(Head::new(kind, RequestId(7), "m"), run(events).0, None, include_usage).collect().await;
        let mut values = Vec::new();
        let mut done = false;
        for frame in frames {
            assert!(!done, "nothing follows [DONE]");
            let text = std::str::from_utf8(&frame).unwrap().strip_prefix("data: ").unwrap().trim_end().to_string();
            if text == "[DONE]" {
                done = true;
            } else {
                values.push(serde_json::from_str(&text).unwrap());
            }
        }
        (values, done)
    }

    fn hello() -> Events {
        vec![vec![delta("Hel"), delta(""), delta("lo"), done(FinishReason::Length, 3)]]
    }

    #[tokio::test]
    async fn a_chat_stream_has_role_pieces_and_an_end() {
        let (frames, done) = stream(Kind::Chat, hello(), false).await;
        assert!(done);
        assert_eq!(frames.len(), 4);
        assert_eq!(frames[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        let text: String = frames[1..3].iter().map(|f| f["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
        assert_eq!(text, "Hello");
        assert_eq!(frames[3]["choices"][0]["finish_reason"], "length");
        assert_eq!(frames[3]["timings"]["predicted_n"], 3);
        assert!(frames.iter().all(|f| f.get("usage").is_none() && f["id"] == "chatcmpl-req-7"));
    }

    #[tokio::test]
    async fn usage_is_one_last_frame_without_choices() {
        let (frames, done) = stream(Kind::Text, hello(), true).await;
        assert!(done);
        let last = frames.last().unwrap();
        assert_eq!(last["choices"], json!([]));
        assert_eq!(
            last["usage"],
            json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8,
                   "prompt_tokens_details": {"cached_tokens": 2}})
        );
        assert_eq!(frames.iter().filter(|f| f["usage"].is_object()).count(), 1);
        assert_eq!(frames[0]["choices"][0]["text"], "Hel", "a plain completion has no role");
    }

    #[tokio::test]
    async fn several_choices_share_one_end() {
        let events = vec![vec![delta("a"), done(FinishReason::Stop, 1)], vec![delta("b"), done(FinishReason::Stop, 1)]];
        let (frames, done) = stream(Kind::Chat, events, true).await;
        assert!(done);
        assert_eq!(frames.iter().filter(|f| f["choices"][0]["finish_reason"] == "stop").count(), 2);
        assert_eq!(frames.iter().filter(|f| f.get("timings").is_some()).count(), 1);
        assert_eq!(frames.last().unwrap()["usage"]["completion_tokens"], 2);
    }

    #[tokio::test]
    async fn a_fault_ends_the_stream_without_done() {
        let events = vec![vec![delta("a"), Err(Fault::new(ErrorKind::Internal, "broke"))]];
        let (frames, done) = stream(Kind::Chat, events, true).await;
        assert!(!done);
        assert_eq!(frames.last().unwrap()["error"]["message"], "broke");
        assert_eq!(frames.iter().filter(|f| f.get("error").is_some()).count(), 1);
    }
}
