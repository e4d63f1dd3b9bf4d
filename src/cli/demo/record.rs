//! What happened to the demo's requests.

use super::words::{align, words};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A kind of request. Its unit of work is what its rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Clip,
    Recording,
    Embedding,
    Rerank,
    Chat,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Clip, Kind::Recording, Kind::Embedding, Kind::Rerank, Kind::Chat];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Clip => "clips",
            Kind::Recording => "recording",
            Kind::Embedding => "embeddings",
            Kind::Rerank => "rerank",
            Kind::Chat => "chats",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Kind::Clip | Kind::Recording => "audio-s/s",
            Kind::Embedding | Kind::Rerank => "texts/s",
            Kind::Chat => "tokens/s",
        }
    }
}

/// One answered (or failed) request.
#[derive(Debug, Clone)]
pub struct Sample {
    pub kind: Kind,
    pub latency: Duration,
    /// When it was answered, since the load began.
    pub ended: Duration,
    pub queue_ms: Option<f64>,
    /// Seconds of audio, texts, or tokens.
    pub work: f64,
    pub error: Option<String>,
}

/// Everything that was seen. Shared by the load's tasks; each takes the lock for a moment, never across an await.
#[derive(Debug, Default)]
pub struct Record(Mutex<Seen>);

/// The inside of a [`Record`].
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub samples: Vec<Sample>,
    /// Words said in clips, and errors in what was heard.
    pub words_said: usize,
    pub word_errors: usize,
    /// The recording's transcript, once there is one.
    pub recording: Option<String>,
    /// What was wrong with answers, by check.
    pub faults: BTreeMap<&'static str, Vec<String>>,
    /// The first answer to each question, to compare later ones with.
    pub answers: BTreeMap<usize, String>,
    /// Times to the first piece of a chat's answer.
    pub first_piece_ms: Vec<f64>,
}

/// Checks by name, in the order in which they are shown.
pub const CHECKS: [&str; 7] = [
    "every request was answered",
    "words right in clips",
    "the recording's sentences, in order, once each",
    "embeddings are unit vectors",
    "the nearest text is the one that means the same",
    "rerank puts the answer first",
    "chats answer, and the same each time",
];

impl Record {
    /// Runs `change` on what was seen.
    pub fn with<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        // A panic elsewhere leaves plain counters behind: still good to read.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seen {
    pub fn count(&self, kind: Kind) -> usize {
        self.samples.iter().filter(|s| s.kind == kind).count()
    }

    pub fn errors(&self) -> usize {
        self.samples.iter().filter(|s| s.error.is_some()).count()
    }

    pub fn fault(&mut self, check: &'static str, what: String) {
        self.faults.entry(check).or_default().push(what);
    }

    /// Compares a clip's transcript with its words.
    pub fn hear(&mut self, said: &str, heard: &str) {
        let said = words(said);
        self.words_said += said.len();
        self.word_errors += align(&said, &words(heard)).errors().min(said.len());
    }

    /// Share of the clips' words that were right; absent before the first clip.
    pub fn words_right(&self) -> Option<f64> {
        (self.words_said > 0).then(|| 1.0 - self.word_errors as f64 / self.words_said as f64)
    }

    /// Checks the shape of vectors.
    pub fn check_vectors(&mut self, vectors: &[Vec<f32>]) {
        for (i, v) in vectors.iter().enumerate() {
            let norm = v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            if !norm.is_finite() || (norm - 1.0).abs() > 1e-3 {
                self.fault(CHECKS[3], format!("vector {i} has length {norm}"));
            }
        }
    }

    /// Texts 2i and 2i+1 are partners: each must be the other's nearest.
    pub fn check_neighbours(&mut self, vectors: &[Vec<f32>]) {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        for (i, v) in vectors.iter().enumerate() {
            let others = (0..vectors.len()).filter(|j| *j != i);
            let nearest = others.max_by(|a, b| dot(v, &vectors[*a]).total_cmp(&dot(v, &vectors[*b])));
            if nearest != Some(i ^ 1) {
                self.fault(CHECKS[4], format!("text {i} is nearest to {nearest:?}"));
            }
        }
    }

    /// An answer to question `number`: not empty, and the same as before.
    pub fn answered(&mut self, number: usize, text: String) {
        if text.trim().is_empty() {
            return self.fault(CHECKS[6], format!("question {number} got an empty answer"));
        }
        match self.answers.get(&number) {
            Some(first) if *first != text => self.fault(CHECKS[6], format!("question {number} got two answers")),
            Some(_) => {}
            None => drop(self.answers.insert(number, text)),
        }
    }
}

/// The value below which a share `q` of the values lies; absent without values.
pub fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * q).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.95), Some(3.0));
    }

    #[test]
    fn vectors_and_neighbours_are_judged() {
        let mut seen = Seen::default();
        let good = [vec![1.0, 0.0], vec![0.8, 0.6], vec![-1.0, 0.0], vec![-0.8, -0.6]];
        seen.check_vectors(&good);
        seen.check_neighbours(&good);
        assert!(seen.faults.is_empty(), "{:?}", seen.faults);
        seen.check_vectors(&[vec![f32::NAN, 0.0], vec![0.5, 0.0]]);
        assert_eq!(seen.faults[CHECKS[3]].len(), 2);
        seen.check_neighbours(&[good[0].clone(), good[2].clone(), good[1].clone(), good[3].clone()]);
        assert_eq!(seen.faults[CHECKS[4]].len(), 4);
    }

    #[test]
    fn answers_must_be_there_and_repeat() {
        let mut seen = Seen::default();
        seen.answered(0, "a".into());
        seen.answered(0, "a".into());
        assert!(seen.faults.is_empty());
        seen.answered(0, "b".into());
        seen.answered(1, "  ".into());
        assert_eq!(seen.faults[CHECKS[6]].len(), 2);
    }

    #[test]
    fn words_right_is_a_share() {
        let mut seen = Seen::default();
        assert_eq!(seen.words_right(), None);
        seen.hear("one two three four.", "one two three for");
        assert_eq!(seen.words_right(), Some(0.75));
        seen.hear("a", "x y z w v");
        assert_eq!(seen.words_right(), Some(0.6), "a clip counts no worse than all wrong");
    }
}
