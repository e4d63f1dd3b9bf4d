//! Sends the load: one task, every request a future of its own.

use super::Kind;
use super::pace::{Moments, Pace};
use super::tally::{Answer, Tally};
use crate::cli::demo::assets::{CHATS, Clip, PAIRS};
use crate::client::{ChatRequest, Client, ClientError, GenerationPiece, Transcription};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// Requests of a kind that may be open at once. What comes beyond is counted and not sent: an engine that falls behind
/// must not make this process grow.
const OPEN: usize = 256;

/// One kind of request of the load.
pub struct Stream {
    pub kind: Kind,
    pub pace: Pace,
    pub model: String,
}

/// The load and what became of it.
pub struct Drive<'a> {
    pub client: &'a Client,
    pub clips: Vec<Clip>,
    pub recording: Bytes,
    pub max_tokens: u32,
    pub seed: u64,
    pub began: Instant,
    pub until: Instant,
    /// By kind. Borrowed for a moment, never across an await.
    pub tallies: RefCell<BTreeMap<Kind, Tally>>,
    /// Requests sent so far: which clip or text is next.
    pub next: Cell<usize>,
}

impl Drive<'_> {
    /// Sends requests of one kind until the time is over, and waits for their answers.
    pub async fn run(&self, stream: &Stream) {
        match stream.pace {
            Pace::Clients(n) => {
                let clients: FuturesUnordered<_> = (0..n).map(|_| self.client_loop(stream)).collect();
                clients.collect::<()>().await;
            }
            Pace::PerSecond(rate) => self.open_loop(stream, rate).await,
        }
    }

    async fn client_loop(&self, stream: &Stream) {
        while Instant::now() < self.until {
            self.tally(stream.kind, |t| t.sent += 1);
            if self.request(stream).await.is_err() {
                // A refusal comes at once: a client that did not wait would knock without end.
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    }

    async fn open_loop(&self, stream: &Stream, rate: f64) {
        let mut open = FuturesUnordered::new();
        for moment in Moments::new(rate, self.seed ^ stream.kind as u64) {
            let at = self.began + moment;
            if at >= self.until {
                break;
            }
            let wait = sleep_until(at.into());
            tokio::pin!(wait);
            loop {
                tokio::select! {
                    () = &mut wait => break,
                    Some(_) = open.next(), if !open.is_empty() => {}
                }
            }
            if open.len() < OPEN {
                self.tally(stream.kind, |t| t.sent += 1);
                open.push(self.request(stream));
            } else {
                self.tally(stream.kind, |t| t.unsent += 1);
            }
        }
        while open.next().await.is_some() {}
    }

    fn tally(&self, kind: Kind, change: impl FnOnce(&mut Tally)) {
        change(self.tallies.borrow_mut().entry(kind).or_default());
    }

    /// Sends one request and notes its end.
    async fn request(&self, stream: &Stream) -> Result<(), ()> {
        let began = Instant::now();
        let number = self.next.get();
        self.next.set(number + 1);
        let answer = match stream.kind {
            Kind::Clips => self.transcribe(stream, &self.clips[number % self.clips.len()].audio, "clip.flac").await,
            Kind::Recordings => self.transcribe(stream, &self.recording, "recording.wav").await,
            Kind::Embeddings => self.embed(stream, number).await,
            Kind::Chats => self.chat(stream, number, began).await,
        };
        let latency_ms = began.elapsed().as_secs_f64() * 1e3;
        match answer {
            Ok((queue_ms, first_ms)) => {
                self.tally(stream.kind, |t| t.answered(Answer { latency_ms, queue_ms, first_ms }));
                Ok(())
            }
            Err(e) => {
                self.tally(stream.kind, |t| t.failed(e.to_string()));
                Err(())
            }
        }
    }

    async fn transcribe(&self, stream: &Stream, audio: &Bytes, name: &str) -> Result<Times, ClientError> {
        let ask = Transcription {
            model: stream.model.clone(),
            file_name: name.into(),
            audio: audio.clone(),
            format: "text".into(),
            ..Transcription::default()
        };
        Ok((self.client.transcribe(&ask).await?.queue_ms, None))
    }

    async fn embed(&self, stream: &Stream, number: usize) -> Result<Times, ClientError> {
        let (a, b) = PAIRS[number % PAIRS.len()];
        let texts = [a.to_string(), b.to_string()];
        Ok((self.client.embed(&stream.model, &texts, None).await?.queue_ms, None))
    }

    async fn chat(&self, stream: &Stream, number: usize, began: Instant) -> Result<Times, ClientError> {
        let ask = ChatRequest {
            model: stream.model.clone(),
            messages: vec![("user".into(), CHATS[number % CHATS.len()].into())],
            max_tokens: Some(self.max_tokens),
            temperature: Some(0.0),
            ..ChatRequest::default()
        };
        let mut pieces = self.client.generate_stream(&ask).await?;
        let mut first_ms = None;
        while let Some(piece) = pieces.next().await? {
            if matches!(piece, GenerationPiece::Text(_)) {
                first_ms.get_or_insert_with(|| began.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok((None, first_ms))
    }
}

/// Queue time and time to the first piece, in milliseconds.
type Times = (Option<f64>, Option<f64>);
