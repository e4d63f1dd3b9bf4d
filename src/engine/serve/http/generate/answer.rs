//! The answer as one JSON document.

use super::run::Run;
use super::shape::{Head, Totals};
use crate::engine::runtime::{FinishReason, GenerationEvent, JobTimes, TokenLogprob};
use crate::engine::serve::failure::Failure;
use crate::engine::serve::timing;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

#[derive(Default)]
struct Choice {
    text: String,
    logprobs: Vec<TokenLogprob>,
    finish: Option<FinishReason>,
}

/// Waits for every choice and answers. A fault of one choice is the request's: the others are cancelled.
pub(super) async fn whole(head: Head, mut run: Run) -> Result<Response, Failure> {
    let mut choices: Vec<Choice> = std::iter::repeat_with(Choice::default).take(run.choices).collect();
    let mut totals = Totals::new(run.prompt_tokens);
    while let Some((index, event)) = run.next().await {
        let choice = &mut choices[index];
        match event.map_err(|fault| Failure::of(run.id, fault))? {
            GenerationEvent::Delta { text, logprobs, .. } => {
                choice.text.push_str(&text);
                choice.logprobs.extend(logprobs);
            }
            GenerationEvent::Done { finish, cached_tokens, completion_tokens, times, speculation, .. } => {
                choice.finish = Some(finish);
                totals.add(
                    run.accounts(index).then_some(cached_tokens),
                    completion_tokens,
                    times,
                    speculation.map(|report| *report),
                );
            }
        }
    }
    let shape = |(i, choice): (usize, Choice)| -> Value {
        let logprobs = head.logprobs(&choice.logprobs);
        head.choice(i, &choice.text, logprobs, choice.finish.unwrap_or(FinishReason::Stop))
    };
    let mut answer = head.around(false, choices.into_iter().enumerate().map(shape).collect());
    answer.insert("usage".into(), totals.usage());
    answer.insert("timings".into(), totals.timings());
    let mut response = axum::Json(answer).into_response();
    let times =
        JobTimes { queue_ms: totals.times.queue_ms, run_ms: totals.times.prompt_ms + totals.times.predicted_ms };
    timing::set_times(response.headers_mut(), run.id, times);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::{delta, delta_with, done, run};
    use super::super::shape::Kind;
    use super::*;
    use crate::control::{ErrorKind, Fault};
    use crate::engine::runtime::RequestId;
    use http_body_util::BodyExt;
    use serde_json::json;

    async fn answer(kind: Kind, events: Vec<Vec<Result<GenerationEvent, Fault>>>) -> (Response, Value) {
        let response = whole(Head::new(kind, RequestId(7), "m"), run(events).0).await.into_response();
        let (head, body) = response.into_parts();
        let value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        (Response::from_parts(head, axum::body::Body::empty()), value)
    }

    #[tokio::test]
    async fn a_chat_is_the_openai_shape() {
        let events = vec![vec![delta("Hel"), delta("lo"), done(FinishReason::Stop, 2)]];
        let (response, value) = answer(Kind::Chat, events).await;
        assert_eq!(response.headers()["x-request-id"], "req-7");
        assert_eq!(
            (&response.headers()["x-queue-ms"], &response.headers()["x-run-ms"]),
            (&"1.5".parse().unwrap(), &"60.0".parse().unwrap())
        );
        assert_eq!(value["object"], "chat.completion");
        assert_eq!(value["choices"][0]["message"], json!({"role": "assistant", "content": "Hello", "refusal": null}));
        assert_eq!(value["choices"][0]["finish_reason"], "stop");
        assert_eq!(
            value["usage"],
            json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7,
                   "prompt_tokens_details": {"cached_tokens": 2}})
        );
        assert_eq!(value["timings"]["predicted_per_second"], 50.0);
    }

    #[tokio::test]
    async fn several_choices_keep_their_order() {
        let events = vec![
            vec![delta_with("a", -0.5), done(FinishReason::Length, 1)],
            vec![delta_with("b", -1.5), done(FinishReason::Stop, 3)],
        ];
        let (_, value) = answer(Kind::Text, events).await;
        assert_eq!(value["choices"][1]["text"], "b");
        assert_eq!(value["choices"][0]["logprobs"]["token_logprobs"], json!([-0.5]));
        assert_eq!(value["usage"]["completion_tokens"], 4);
    }

    #[tokio::test]
    async fn a_fault_is_the_answer() {
        let events = vec![vec![delta("a"), Err(Fault::new(ErrorKind::Draining, "going"))]];
        let (response, value) = answer(Kind::Chat, events).await;
        assert_eq!((response.status().as_u16(), &value["error"]["code"]), (503, &json!("draining")));
    }
}
