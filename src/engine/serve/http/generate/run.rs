//! The tickets of one request, merged.

use super::{Lm, Prompt, Settings};
use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::Caller;
use crate::engine::runtime::{Engine, GenerateJob, GenerationEvent, RequestId, Ticket};
use futures_util::stream::{BoxStream, SelectAll, StreamExt, select_all, unfold};

/// An event of one choice.
pub(super) type Event = (usize, Result<GenerationEvent, Fault>);

/// A submitted request. Choice `i` answers prompt `i / n`.
pub(super) struct Run {
    /// Of the first ticket: the name that the caller sees.
    pub(super) id: RequestId,
    pub(super) choices: usize,
    /// Tokens of all prompts, each counted once however many answers it gets.
    pub(super) prompt_tokens: usize,
    /// Answers per prompt.
    n: usize,
    events: SelectAll<BoxStream<'static, Event>>,
}

impl Run {
    /// Submits one job per choice. When one is refused, those before it are cancelled by the drop of their tickets.
    pub(super) fn submit(
        engine: &Engine,
        lm: &Lm,
        settings: &Settings,
        prompts: Vec<Prompt>,
        caller: &Caller,
    ) -> Result<Run, Fault> {
        let wanted = prompts.len() * settings.n;
        if wanted > lm.at_once {
            let (param, of) = if prompts.len() > lm.at_once { ("prompt", "prompts") } else { ("n", "answers") };
            let message = format!(
                "{wanted} answers are asked for at once, model `{}` has room for {} (generation.slots and generation.queue)",
                lm.model, lm.at_once
            );
            return Err(Fault::invalid(param, message).hint(format!("ask for fewer {of} in one request")));
        }
        let prompt_tokens = prompts.iter().map(|(_, tokens)| tokens.len()).sum();
        let mut budgets = Vec::with_capacity(prompts.len());
        for (param, tokens) in &prompts {
            budgets.push(lm.budget(tokens.len(), settings, param)?);
        }
        let mut tickets = Vec::with_capacity(prompts.len() * settings.n);
        for ((_, tokens), max_tokens) in prompts.into_iter().zip(budgets) {
            for k in 0..settings.n {
                let mut sampling = settings.sampling.clone();
                // Answers to one prompt are to differ; the first is what `n` = 1 would give.
                sampling.seed = sampling.seed.wrapping_add(k as u64);
                let job = GenerateJob {
                    prompt: tokens.clone(),
                    max_tokens,
                    sampling,
                    stop: settings.stop.clone(),
                    stop_ids: settings.stop_ids.clone(),
                    min_tokens: settings.min_tokens,
                    ignore_eos: settings.ignore_eos,
                    logprobs: settings.logprobs,
                    speculation: settings.extensions.speculation.unwrap_or_default(),
                };
                tickets.push(engine.generate(&lm.model, job, caller.clone())?);
            }
        }
        Run::merge(tickets, prompt_tokens, settings.n)
            .ok_or_else(|| Fault::invalid("prompt", "`prompt` is empty: there is nothing to continue"))
    }

    /// Merges tickets in the order of their choices; `None` when there are none.
    pub(super) fn merge(tickets: Vec<Ticket<GenerationEvent>>, prompt_tokens: usize, n: usize) -> Option<Run> {
        let id = tickets.first()?.id;
        let choices = tickets.len();
        let events = select_all(tickets.into_iter().enumerate().map(|(choice, ticket)| events(choice, ticket)));
        Some(Run { id, choices, prompt_tokens, n, events })
    }

    /// Whether a choice is the one that its prompt is accounted to.
    pub(super) fn accounts(&self, choice: usize) -> bool {
        choice.is_multiple_of(self.n)
    }

    /// The next event of any choice; `None` once all have ended.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.next().await
    }
}

/// The events of one ticket up to its end. A ticket that just stops is a fault: the worker behind it is gone.
fn events(choice: usize, ticket: Ticket<GenerationEvent>) -> BoxStream<'static, Event> {
    unfold(Some(ticket), move |ticket| async move {
        let mut ticket = ticket?;
        let event =
            ticket.next().await.unwrap_or_else(|| Err(Fault::new(ErrorKind::Internal, "the model's worker ended")));
        let more = matches!(event, Ok(GenerationEvent::Delta { .. }));
        Some(((choice, event), more.then_some(ticket)))
    })
    .boxed()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::runtime::GenerationTimes;
    use crate::engine::runtime::{FinishReason, TokenLogprob};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(crate) fn delta(text: &str) -> Result<GenerationEvent, Fault> {
        Ok(GenerationEvent::Delta { text: text.to_string(), tokens: vec![7], logprobs: vec![] })
    }

    pub(crate) fn delta_with(text: &str, logprob: f32) -> Result<GenerationEvent, Fault> {
        let top = vec![(7, text.into(), logprob), (8, "other".into(), -3.0)];
        let logprobs = vec![TokenLogprob { id: 7, bytes: text.into(), logprob, offset: 0, top }];
        Ok(GenerationEvent::Delta { text: text.to_string(), tokens: vec![7], logprobs })
    }

    pub(crate) fn done(finish: FinishReason, completion_tokens: usize) -> Result<GenerationEvent, Fault> {
        let times = GenerationTimes { queue_ms: 1.5, prompt_ms: 20.0, predicted_ms: 40.0 };
        Ok(GenerationEvent::Done {
            finish,
            prompt_tokens: 5,
            cached_tokens: 2,
            completion_tokens,
            times,
            speculation: None,
        })
    }

    /// A run of finished tickets with these events; the counter tells how many tickets were dropped.
    pub(crate) fn run(choices: Vec<Vec<Result<GenerationEvent, Fault>>>) -> (Run, Arc<AtomicUsize>) {
        let dropped = Arc::new(AtomicUsize::new(0));
        let ticket = |(i, events): (usize, Vec<_>)| {
            let (sender, receiver) = tokio::sync::mpsc::channel(16);
            for event in events {
                sender.try_send(event).unwrap();
            }
            let dropped = dropped.clone();
            Ticket::new(RequestId(7 + i as u64), receiver, move || {
                dropped.fetch_add(1, Ordering::Relaxed);
            })
        };
        let tickets = choices.into_iter().enumerate().map(ticket).collect();
        (Run::merge(tickets, 5, 1).unwrap(), dropped)
    }

    #[tokio::test]
    async fn every_choice_ends_once() {
        let (mut run, dropped) = run(vec![
            vec![delta("a"), done(FinishReason::Stop, 1)],
            vec![delta("b"), delta("c"), done(FinishReason::Length, 2)],
            vec![delta("d")],
        ]);
        let mut texts = vec![String::new(); 3];
        let mut ends = vec![0; 3];
        while let Some((choice, event)) = run.next().await {
            match event {
                Ok(GenerationEvent::Delta { text, .. }) => texts[choice] += &text,
                Ok(GenerationEvent::Done { .. }) => ends[choice] += 1,
                Err(fault) => {
                    assert_eq!((choice, fault.kind), (2, ErrorKind::Internal));
                    ends[choice] += 1;
                }
            }
        }
        assert_eq!((texts, ends), (vec!["a".into(), "bc".into(), "d".into()], vec![1, 1, 1]));
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn dropping_a_run_drops_its_tickets() {
        let (run, dropped) = run(vec![vec![delta("a")], vec![]]);
        drop(run);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }
}
