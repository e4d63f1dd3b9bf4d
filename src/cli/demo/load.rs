//! The demo's load: closed-loop clients of every kind, through the HTTP door.

use super::assets::{CHATS, Clip, PAIRS, QUESTIONS, Recording};
use super::record::{CHECKS, Kind, Record, Sample};
use super::words::sentences_at_fault;
use crate::client::{ChatRequest, Client, ClientError, GenerationPiece, Transcription};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Models by what they do.
#[derive(Debug, Clone)]
pub struct Models {
    pub speech: String,
    pub text: String,
    pub rerank: String,
    pub language: String,
}

/// What every client of the load knows.
pub struct Load {
    pub client: Client,
    pub models: Models,
    pub clips: Vec<Clip>,
    pub recording: Recording,
    pub record: Arc<Record>,
    /// Set when the demo is to end early.
    pub stop: watch::Receiver<bool>,
    pub began: Instant,
    /// Until then clients go on; each kind does its least amount whatever the time.
    pub until: Instant,
    pub next_clip: AtomicUsize,
    pub next_chat: AtomicUsize,
}

/// Clips sent even if the time is over: enough to judge, few enough for a slow machine.
const CLIPS_AT_LEAST: usize = 10;
/// Answer tokens of a chat.
const CHAT_TOKENS: u32 = 32;
/// Every question is asked at least so often: the answers must agree.
const CHAT_ROUNDS: usize = 2;

impl Load {
    /// Runs everything to its end.
    pub async fn run(&self) {
        tokio::join!(
            self.recording(),
            self.clips(),
            self.clips(),
            self.clips(),
            self.clips(),
            self.embeddings(),
            self.reranks(),
            self.chats(),
            self.chats(),
        );
    }

    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Whether a client whose kind has done `done` of `least` goes on.
    fn goes_on(&self, done: usize, least: usize) -> bool {
        !self.stopped() && (done < least || Instant::now() < self.until)
    }

    /// A rest between requests, cut short by the end.
    async fn rest(&self, time: Duration) {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Waits for an answer unless the demo ends first; `None` then.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        tokio::select! {
            done = work => Some(done),
            _ = stop.wait_for(|stop| *stop) => None,
        }
    }

    fn note(&self, kind: Kind, began: Instant, queue_ms: Option<f64>, work: f64, error: Option<&ClientError>) {
        let error = error.map(ToString::to_string);
        let (latency, ended) = (began.elapsed(), self.began.elapsed());
        self.record.with(|seen| seen.samples.push(Sample { kind, latency, ended, queue_ms, work, error }));
    }

    fn speech(&self, name: &str, audio: &bytes::Bytes) -> Transcription {
        Transcription {
            model: self.models.speech.clone(),
            file_name: name.into(),
            audio: audio.clone(),
            format: "text".into(),
            ..Transcription::default()
        }
    }

    async fn recording(&self) {
        let ask = self.speech("recording.wav", &self.recording.audio);
        let began = Instant::now();
        let Some(answer) = self.unless_stopped(self.client.transcribe(&ask)).await else { return };
        match answer {
            Ok(answer) => {
                self.note(Kind::Recording, began, answer.queue_ms, self.recording.seconds, None);
                let sentences: Vec<&str> = self.recording.sentences.iter().map(String::as_str).collect();
                let faults = sentences_at_fault(&sentences, &answer.body);
                self.record.with(|seen| {
                    faults.into_iter().for_each(|fault| seen.fault(CHECKS[2], fault));
                    seen.recording = Some(answer.body);
                });
            }
            Err(e) => self.note(Kind::Recording, began, None, 0.0, Some(&e)),
        }
    }

    async fn clips(&self) {
        loop {
            let number = self.next_clip.fetch_add(1, Ordering::Relaxed);
            if !self.goes_on(number, CLIPS_AT_LEAST) {
                return;
            }
            let clip = &self.clips[number % self.clips.len()];
            let ask = self.speech("clip.flac", &clip.audio);
            let began = Instant::now();
            let Some(answer) = self.unless_stopped(self.client.transcribe(&ask)).await else { return };
            match answer {
                Ok(answer) => {
                    self.note(Kind::Clip, began, answer.queue_ms, clip.seconds, None);
                    self.record.with(|seen| seen.hear(&clip.text, &answer.body));
                }
                Err(e) => self.note(Kind::Clip, began, None, 0.0, Some(&e)),
            }
            self.rest(Duration::from_millis(100)).await;
        }
    }

    async fn embeddings(&self) {
        let texts: Vec<String> = PAIRS.iter().flat_map(|(a, b)| [a.to_string(), b.to_string()]).collect();
        let mut done = 0;
        while self.goes_on(done, 4) {
            let began = Instant::now();
            let call = self.client.embed(&self.models.text, &texts, None);
            let Some(answer) = self.unless_stopped(call).await else { return };
            match answer {
                Ok(answer) => {
                    self.note(Kind::Embedding, began, answer.queue_ms, texts.len() as f64, None);
                    self.record.with(|seen| {
                        seen.check_vectors(&answer.body.vectors);
                        seen.check_neighbours(&answer.body.vectors);
                    });
                }
                Err(e) => self.note(Kind::Embedding, began, None, 0.0, Some(&e)),
            }
            done += 1;
            self.rest(Duration::from_millis(250)).await;
        }
    }

    async fn reranks(&self) {
        let mut done = 0;
        while self.goes_on(done, QUESTIONS.len()) {
            let question = &QUESTIONS[done % QUESTIONS.len()];
            let documents: Vec<String> = question.documents.iter().map(ToString::to_string).collect();
            let began = Instant::now();
            let call = self.client.rerank(&self.models.rerank, question.query, &documents, None);
            let Some(answer) = self.unless_stopped(call).await else { return };
            match answer {
                Ok(answer) => {
                    self.note(Kind::Rerank, began, answer.queue_ms, documents.len() as f64, None);
                    if answer.body.results.first().map(|r| r.index) != Some(question.best) {
                        let ranked = format!("`{}`: {:?}", question.query, answer.body.results);
                        self.record.with(|seen| seen.fault(CHECKS[5], ranked));
                    }
                }
                Err(e) => self.note(Kind::Rerank, began, None, 0.0, Some(&e)),
            }
            done += 1;
            self.rest(Duration::from_secs(1)).await;
        }
    }

    async fn chats(&self) {
        loop {
            let number = self.next_chat.fetch_add(1, Ordering::Relaxed);
            if !self.goes_on(number, CHATS.len() * CHAT_ROUNDS) {
                return;
            }
            let question = number % CHATS.len();
            let began = Instant::now();
            let Some(answer) = self.unless_stopped(self.chat(CHATS[question], began)).await else { return };
            match answer {
                Ok((text, tokens)) => {
                    self.note(Kind::Chat, began, None, tokens, None);
                    self.record.with(|seen| seen.answered(question, text));
                }
                Err(e) => self.note(Kind::Chat, began, None, 0.0, Some(&e)),
            }
            self.rest(Duration::from_millis(200)).await;
        }
    }

    /// One streamed chat: its text and number of tokens.
    async fn chat(&self, question: &str, began: Instant) -> Result<(String, f64), ClientError> {
        let ask = ChatRequest {
            model: self.models.language.clone(),
            messages: vec![("user".into(), question.into())],
            max_tokens: Some(CHAT_TOKENS),
            temperature: Some(0.0),
            ..ChatRequest::default()
        };
        let mut stream = self.client.generate_stream(&ask).await?;
        let (mut text, mut tokens) = (String::new(), 0.0);
        while let Some(piece) = stream.next().await? {
            match piece {
                GenerationPiece::Text(delta) => {
                    if text.is_empty() {
                        self.record.with(|seen| seen.first_piece_ms.push(began.elapsed().as_secs_f64() * 1e3));
                    }
                    text.push_str(&delta);
                }
                GenerationPiece::Usage(usage) => tokens = usage.completion_tokens as f64,
                GenerationPiece::Finished(_) => {}
            }
        }
        Ok((text, tokens))
    }
}
