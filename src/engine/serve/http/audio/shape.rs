//! A finished transcript in the formats of the API.

use super::languages;
use super::subtitles;
use crate::engine::models::{Segment, Word};
use serde::Serialize;

/// `response_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Text,
    Srt,
    Vtt,
    VerboseJson,
}

impl Format {
    pub(super) const NAMES: [(&'static str, Format); 5] = [
        ("json", Format::Json),
        ("text", Format::Text),
        ("srt", Format::Srt),
        ("vtt", Format::Vtt),
        ("verbose_json", Format::VerboseJson),
    ];

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Json | Format::VerboseJson => "application/json",
            Format::Text => "text/plain; charset=utf-8",
            Format::Srt => "application/x-subrip; charset=utf-8",
            Format::Vtt => "text/vtt; charset=utf-8",
        }
    }
}

/// `timestamp_granularities`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granularities {
    pub(super) segment: bool,
    pub(super) word: bool,
}

impl Default for Granularities {
    fn default() -> Self {
        Granularities { segment: true, word: false }
    }
}

/// A finished transcription.
pub(super) struct Transcript {
    pub(super) segments: Vec<Segment>,
    pub(super) language: Option<String>,
    /// Seconds of audio decoded.
    pub(super) seconds: f64,
    /// The file ended before its container said it would.
    pub(super) truncated: bool,
    pub(super) translate: bool,
}

impl Transcript {
    /// The whole text.
    pub(super) fn text(&self) -> String {
        self.segments.iter().map(|segment| segment.text.as_str()).collect::<String>().trim().to_string()
    }

    /// The answer's body in `format`.
    pub(super) fn body(&self, format: Format, granularities: Granularities) -> serde_json::Result<String> {
        Ok(match format {
            Format::Json => serde_json::to_string(&Json {
                text: self.text(),
                usage: Usage::of(self.seconds),
                duration: self.truncated.then_some(self.seconds),
                truncated: self.truncated,
            })?,
            Format::VerboseJson => serde_json::to_string(&self.verbose(granularities))?,
            Format::Text => self.text() + "\n",
            Format::Srt => subtitles::srt(&self.segments),
            Format::Vtt => subtitles::vtt(&self.segments),
        })
    }

    fn verbose(&self, granularities: Granularities) -> Verbose<'_> {
        let words = || self.segments.iter().flat_map(|segment| &segment.words);
        Verbose {
            task: if self.translate { "translate" } else { "transcribe" },
            language: self.language.as_deref().map(languages::name),
            duration: self.seconds,
            text: self.text(),
            segments: granularities.segment.then(|| self.segments.iter().map(VerboseSegment::of).collect()),
            words: granularities.word.then(|| words().map(VerboseWord::of).collect()),
            usage: Usage::of(self.seconds),
            truncated: self.truncated,
        }
    }
}

/// What was used, as the OpenAI API says it: whole seconds, begun ones counted.
#[derive(Debug, Serialize)]
pub(super) struct Usage {
    #[serde(rename = "type")]
    kind: &'static str,
    seconds: u64,
}

impl Usage {
    pub(super) fn of(seconds: f64) -> Usage {
        Usage { kind: "duration", seconds: seconds.ceil() as u64 }
    }
}

#[derive(Serialize)]
struct Json {
    text: String,
    usage: Usage,
    /// Said beside `truncated`: how much of the file was heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
struct Verbose<'a> {
    task: &'static str,
    language: Option<&'a str>,
    duration: f64,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<Vec<VerboseSegment<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Vec<VerboseWord<'a>>>,
    usage: Usage,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
struct VerboseSegment<'a> {
    id: usize,
    seek: usize,
    start: f64,
    end: f64,
    text: &'a str,
    tokens: &'a [u32],
    temperature: f32,
    avg_logprob: f64,
    compression_ratio: f64,
    no_speech_prob: f64,
}

impl<'a> VerboseSegment<'a> {
    fn of(segment: &'a Segment) -> Self {
        VerboseSegment {
            id: segment.id,
            seek: segment.seek,
            start: milliseconds(segment.start),
            end: milliseconds(segment.end),
            text: &segment.text,
            tokens: &segment.tokens,
            temperature: segment.temperature,
            avg_logprob: segment.avg_logprob,
            compression_ratio: segment.compression_ratio,
            no_speech_prob: segment.no_speech_prob,
        }
    }
}

#[derive(Serialize)]
struct VerboseWord<'a> {
    word: &'a str,
    start: f64,
    end: f64,
}

impl<'a> VerboseWord<'a> {
    fn of(word: &'a Word) -> Self {
        VerboseWord { word: word.text.trim(), start: milliseconds(word.start), end: milliseconds(word.end) }
    }
}

/// Times are sums of fiftieths of a second: without the dust of their binary fractions.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) fn segment(id: usize, start: f64, end: f64, text: &str) -> Segment {
        Segment {
            id,
            start,
            end,
            text: text.to_string(),
            tokens: vec![1, 2],
            temperature: 0.0,
            avg_logprob: -0.25,
            compression_ratio: 1.5,
            no_speech_prob: 0.125,
            seek: 0,
            words: vec![Word { text: text.to_string(), start, end, probability: 0.5 }],
        }
    }

    fn transcript(truncated: bool) -> Transcript {
        Transcript {
            segments: vec![segment(0, 0.0, 1.0, " One"), segment(1, 1.0, 2.0, " two.")],
            language: Some("en".into()),
            seconds: 2.25,
            truncated,
            translate: false,
        }
    }

    fn parsed(format: Format, granularities: Granularities, truncated: bool) -> Value {
        serde_json::from_str(&transcript(truncated).body(format, granularities).unwrap()).unwrap()
    }

    #[test]
    fn json_is_the_openai_shape() {
        let value = parsed(Format::Json, Granularities::default(), false);
        assert_eq!(value, json!({"text": "One two.", "usage": {"type": "duration", "seconds": 3}}));
    }

    #[test]
    fn a_cut_file_is_said_to_be_cut() {
        for format in [Format::Json, Format::VerboseJson] {
            let value = parsed(format, Granularities::default(), true);
            assert_eq!((&value["truncated"], &value["duration"]), (&json!(true), &json!(2.25)));
        }
    }

    #[test]
    fn verbose_json_has_what_was_asked_for() {
        let value = parsed(Format::VerboseJson, Granularities::default(), false);
        assert_eq!(value["language"], "english");
        assert_eq!(value["task"], "transcribe");
        assert_eq!(value["duration"], 2.25);
        assert_eq!(value["segments"][1]["text"], " two.");
        assert!(value.get("words").is_none() && value.get("truncated").is_none());
        let value = parsed(Format::VerboseJson, Granularities { segment: false, word: true }, false);
        assert_eq!(value["words"][1], json!({"word": "two.", "start": 1.0, "end": 2.0}));
        assert!(value.get("segments").is_none());
    }

    #[test]
    fn no_speech_is_empty_text_everywhere() {
        let silent = Transcript { segments: vec![], language: None, seconds: 10.0, truncated: false, translate: false };
        let body = |format| silent.body(format, Granularities::default()).unwrap();
        assert_eq!(body(Format::Text), "\n");
        assert_eq!(body(Format::Srt), "");
        assert_eq!(body(Format::Vtt), "WEBVTT\n\n");
        let value: Value = serde_json::from_str(&body(Format::VerboseJson)).unwrap();
        assert_eq!((&value["text"], &value["segments"], &value["language"]), (&json!(""), &json!([]), &Value::Null));
    }
}
