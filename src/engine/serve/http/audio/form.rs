//! The multipart form of a transcription: collected within limits, then checked field by field.

use super::languages;
use super::shape::{Format, Granularities};
use crate::control::{ErrorKind, Fault};
use crate::engine::models::{SpeechFront, TranscribeOptions};
use crate::engine::serve::body::{self, Pace};
use crate::engine::serve::failure::clip;
use crate::engine::serve::fields::{self, Fields};
use crate::engine::serve::http::options::Extensions;
use axum::extract::multipart::{Field, MultipartError, MultipartRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use bytes::{Bytes, BytesMut};

/// Longest text field: prompts are cut to some hundred tokens by the model anyway.
const TEXT_BYTES: usize = 64 * 1024;
/// What the form may have beside the file: its text fields and the frames around them.
const FRAME_BYTES: usize = 256 * 1024;
/// Most fields in a form.
const MAX_FIELDS: usize = 64;
/// A file field without a file name that is shorter than this and reads as text is a path, not audio.
const PATH_BYTES: usize = 4096;

/// The text fields: what stands in one of these is its text, also when it came as a file.
const TEXTS: [&str; 12] = [
    "model",
    "language",
    "prompt",
    "response_format",
    "temperature",
    "timestamp_granularities",
    "timestamp_granularities[]",
    "stream",
    "lanekeeper",
    "task",
    "include",
    "include[]",
];
/// Ways to say whether to stream; Python's form libraries send its own words.
const STREAM: [(&str, bool); 6] =
    [("true", true), ("false", false), ("1", true), ("0", false), ("True", true), ("False", false)];

/// The form as sent: the file, and the text fields in order.
#[derive(Debug, Default)]
pub(super) struct Form {
    file: Option<Bytes>,
    /// A file that came in another field.
    stray: Option<String>,
    texts: Vec<(String, String)>,
}

impl Form {
    /// Collects the form. `limit` bounds the file in bytes.
    pub(super) async fn collect(mut request: Request, limit: usize) -> Result<Form, Fault> {
        let most = limit.saturating_add(FRAME_BYTES);
        let declared = body::declared(request.headers());
        if declared.is_some_and(|n| n > most) {
            body::discard_unless_waiting(request).await;
            return Err(body::too_large("limits.audio_bytes", limit, declared));
        }
        if let Err(fault) = body::uncompressed(request.headers()) {
            body::discard_unless_waiting(request).await;
            return Err(fault);
        }
        DefaultBodyLimit::max(most).apply(&mut request);
        let mut multipart = Multipart::from_request(request, &()).await.map_err(not_a_form)?;
        let mut form = Form::default();
        let mut pace = Pace::start();
        for _ in 0..MAX_FIELDS {
            let next = pace.next(multipart.next_field()).await?.map_err(|e| broken(e, limit, declared))?;
            let Some(field) = next else { return Ok(form) };
            if let Err(fault) = form.take(field, limit, declared, &mut pace).await {
                skip(multipart).await;
                return Err(fault);
            }
        }
        Err(invalid(format!("the form has more than {MAX_FIELDS} fields")))
    }

    async fn take(
        &mut self,
        mut field: Field<'_>,
        limit: usize,
        declared: Option<usize>,
        pace: &mut Pace,
    ) -> Result<(), Fault> {
        let name = field.name().unwrap_or("").to_string();
        let is_file = name == "file";
        let named = field.file_name().is_some();
        if named && !is_file && !TEXTS.contains(&name.as_str()) {
            // Read over, for the rest of the form: that `file` is missing is told when all of it is there.
            while let Some(chunk) = pace.next(field.chunk()).await?.map_err(|e| broken(e, limit, declared))? {
                pace.took(chunk.len());
            }
            self.stray = Some(name);
            return Ok(());
        }
        let most = if is_file { limit } else { TEXT_BYTES };
        let mut bytes = BytesMut::new();
        while let Some(chunk) = pace.next(field.chunk()).await?.map_err(|e| broken(e, limit, declared))? {
            pace.took(chunk.len());
            if bytes.len() + chunk.len() > most {
                return Err(match is_file {
                    true => body::too_large("limits.audio_bytes", limit, declared).param("file"),
                    false => Fault::invalid(clip(&name, 40), format!("the field is longer than {TEXT_BYTES} bytes")),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        if is_file {
            if self.file.is_some() {
                return Err(twice("file"));
            }
            if !named && looks_like_a_path(&bytes) {
                return Err(Fault::invalid(
                    "file",
                    format!("`file` is a text of {} bytes with no file name, not a file", bytes.len()),
                )
                .hint("send the bytes of the recording: curl -F file=@PATH, with the @"));
            }
            self.file = Some(bytes.freeze());
        } else {
            let text = String::from_utf8(bytes.to_vec())
                .map_err(|_| Fault::invalid(clip(&name, 40), "the field is not UTF-8 text".to_string()))?;
            self.texts.push((name, text));
        }
        Ok(())
    }

    /// Checks the collected form, of the route that transcribes or of the one that translates.
    pub(super) fn read(self, translate: bool) -> Result<Ask, Fault> {
        let file = self.file.clone().ok_or_else(|| {
            let other = match &self.stray {
                Some(name) => format!("the form has a file in `{}`", clip(name, 40)),
                None => "the form has no field of that name".to_string(),
            };
            Fault::invalid("file", format!("`file` is missing: {other}")).code("missing_field")
        })?;
        let (task, other) = if translate { ("translate", "transcriptions") } else { ("transcribe", "translations") };
        if let Some(text) = self.one("task")?.filter(|text| *text != task) {
            let fault = refuse("task", text, &format!("this route's is `{task}`")).code("unsupported_field");
            return Err(fault.hint(format!("/v1/audio/{other} is the other route")));
        }
        if let Some((name, _)) = self.texts.iter().find(|(name, text)| name.starts_with("include") && !text.is_empty())
        {
            let fault = Fault::invalid(clip(name, 40), "`include` is not supported by this engine");
            return Err(fault.code("unsupported_field"));
        }
        let model =
            self.one("model")?.ok_or_else(|| Fault::invalid("model", "`model` is missing").code("missing_field"))?;
        let format = match self.one("response_format")? {
            None => Format::Json,
            Some(text) => choose("response_format", text, &Format::NAMES)?,
        };
        let temperature = match self.one("temperature")? {
            None => 0.0,
            Some(text) => match text.trim().parse::<f32>() {
                Ok(t) if (0.0..=1.0).contains(&t) => t,
                _ => return Err(refuse("temperature", text, "it must be a number from 0 to 1")),
            },
        };
        let stream = match self.one("stream")? {
            None => false,
            Some(text) => choose("stream", text, &STREAM)?,
        };
        if stream && !matches!(format, Format::Json | Format::Text) {
            return Err(Fault::invalid("response_format", "a streamed transcription is `json` or `text`")
                .hint("leave `stream` out for subtitles and verbose_json"));
        }
        let granularities = self.granularities(format)?;
        let extensions = match self.one("lanekeeper")? {
            None => Extensions::default(),
            Some(text) => {
                let map = fields::parse(text.as_bytes()).map_err(|fault| fault.param("lanekeeper"))?;
                Extensions::of(&Fields::at(&map, "lanekeeper"))?
            }
        };
        Ok(Ask {
            file,
            model: model.to_string(),
            language: self.one("language")?.filter(|name| !name.eq_ignore_ascii_case("auto")).map(languages::code),
            prompt: self.one("prompt")?.map(str::to_string),
            temperature,
            format,
            granularities,
            stream,
            extensions,
        })
    }

    /// The value of a field that may stand once; an empty one counts as absent, as browsers send it.
    fn one(&self, name: &str) -> Result<Option<&str>, Fault> {
        let mut found = self.texts.iter().filter(|(n, _)| n == name).map(|(_, text)| text.as_str());
        let first = found.next();
        if found.next().is_some() {
            return Err(twice(name));
        }
        Ok(first.filter(|text| !text.is_empty()))
    }

    /// Both spellings of the field, each of which may stand several times.
    fn granularities(&self, format: Format) -> Result<Granularities, Fault> {
        let mut wanted = Granularities { segment: false, word: false };
        for (name, text) in &self.texts {
            if name != "timestamp_granularities" && name != "timestamp_granularities[]" {
                continue;
            }
            // Clients without arrays send a list in one field.
            for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                match item {
                    "segment" => wanted.segment = true,
                    "word" => wanted.word = true,
                    other => return Err(refuse("timestamp_granularities", other, "it takes `segment` and `word`")),
                }
            }
        }
        if !wanted.segment && !wanted.word {
            return Ok(Granularities::default());
        }
        if format != Format::VerboseJson {
            return Err(Fault::invalid("timestamp_granularities", "timestamps need `response_format` verbose_json"));
        }
        Ok(wanted)
    }
}

/// A checked request.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) file: Bytes,
    pub(super) model: String,
    pub(super) language: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) temperature: f32,
    pub(super) format: Format,
    pub(super) granularities: Granularities,
    pub(super) stream: bool,
    pub(super) extensions: Extensions,
}

impl Ask {
    /// What the model is asked, checked against what it knows. `default_language` is the profile's.
    pub(super) fn options(
        &self,
        front: &SpeechFront,
        translate: bool,
        default_language: Option<&str>,
    ) -> Result<TranscribeOptions, Fault> {
        if let Some(language) = &self.language
            && !front.languages.contains(language)
        {
            let shown = clip(language, 24);
            let known = if front.multilingual {
                format!("one of the {} languages of `{}`", front.languages.len(), self.model)
            } else {
                format!("known to `{}`, which is English-only", self.model)
            };
            return Err(Fault::invalid("language", format!("`language` is `{shown}`, not {known}"))
                .code("unsupported_language")
                .hint("give an ISO-639-1 code, or leave it out"));
        }
        if translate && !front.multilingual {
            let message = format!("`{}` is English-only and cannot translate", self.model);
            return Err(Fault::invalid("model", message).hint("use a multilingual model"));
        }
        Ok(TranscribeOptions {
            language: self.language.clone().or_else(|| default_language.map(str::to_string)),
            translate,
            prompt: self.prompt.clone(),
            temperature: self.temperature,
            word_timestamps: self.granularities.word,
            seed: 0,
        })
    }
}

/// Reads and forgets the rest of a refused form, so that its sender hears the refusal.
async fn skip(mut multipart: Multipart) {
    let rest = async { while let Ok(Some(_)) = multipart.next_field().await {} };
    let _ = tokio::time::timeout(body::DISCARD_TIME, rest).await;
}

fn choose<T: Copy>(name: &str, text: &str, choices: &[(&str, T)]) -> Result<T, Fault> {
    match choices.iter().find(|(choice, _)| *choice == text) {
        Some((_, value)) => Ok(*value),
        None => {
            Err(refuse(name, text, &format!("it must be one of {}", fields::list(choices.iter().map(|(n, _)| *n)))))
        }
    }
}

fn refuse(name: &str, text: &str, wants: &str) -> Fault {
    Fault::invalid(name, format!("`{name}` is `{}`, {wants}", clip(text, 24)))
}

fn twice(name: &str) -> Fault {
    Fault::invalid(name, format!("`{name}` stands twice in the form")).code("duplicate_field")
}

fn invalid(message: String) -> Fault {
    Fault::new(ErrorKind::InvalidRequest, message).code("invalid_form")
}

fn not_a_form(_: MultipartRejection) -> Fault {
    invalid("the body is not a multipart form with a boundary".to_string())
        .hint("send content-type multipart/form-data with fields file and model: curl -F file=@a.wav -F model=…")
}

/// A form that broke off, or went over the limit.
fn broken(error: MultipartError, limit: usize, declared: Option<usize>) -> Fault {
    if error.status() == http::StatusCode::PAYLOAD_TOO_LARGE {
        return body::too_large("limits.audio_bytes", limit, declared).param("file");
    }
    // The library's text names the part that was expected, nothing of the content.
    invalid(format!("the multipart form is damaged or was cut short: {}", error.body_text()))
}

fn looks_like_a_path(bytes: &[u8]) -> bool {
    bytes.len() < PATH_BYTES
        && !bytes.is_empty()
        && std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    /// A form with boundary `b`, from (head, content) parts.
    fn request(parts: &[(&str, &str)], end: &str) -> Request {
        let mut body = String::new();
        for (head, content) in parts {
            body += &format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n");
        }
        body += end;
        http::Request::post("/")
            .header("content-type", "multipart/form-data; boundary=b")
            .header("content-length", body.len())
            .body(Body::from(body))
            .unwrap()
    }

    const FILE: (&str, &str) = ("name=\"file\"; filename=\"a.wav\"", "RIFF\u{1}");
    const MODEL: (&str, &str) = ("name=\"model\"", "m");
    /// A file in another field.
    const STRAY: (&str, &str) = ("name=\"audio_file\"; filename=\"a.wav\"", "RIFF\u{1}");

    async fn ask(parts: &[(&str, &str)]) -> Result<Ask, Fault> {
        Form::collect(request(parts, "--b--\r\n"), 1000).await?.read(false)
    }

    #[tokio::test]
    async fn a_whole_form_is_read() {
        let ask = ask(&[
            FILE,
            MODEL,
            ("name=\"language\"", "English"),
            ("name=\"response_format\"", "verbose_json"),
            ("name=\"temperature\"", "0.2"),
            ("name=\"timestamp_granularities[]\"", "word"),
            ("name=\"timestamp_granularities\"", "segment"),
            ("name=\"prompt\"", ""),
            ("name=\"chunking_strategy\"", "auto"),
        ])
        .await
        .unwrap();
        assert_eq!(&ask.file[..], b"RIFF\x01");
        assert_eq!((ask.model.as_str(), ask.language.as_deref(), ask.format), ("m", Some("en"), Format::VerboseJson));
        assert_eq!(ask.granularities, Granularities { segment: true, word: true });
        assert_eq!((ask.prompt, ask.stream, ask.temperature), (None, false, 0.2));
    }

    #[tokio::test]
    async fn other_programs_ways_of_saying_the_usual_are_understood() {
        let usual = [("name=\"language\"", "auto"), ("name=\"stream\"", "False"), ("name=\"task\"", "transcribe")];
        let ask = ask(&[&[FILE, MODEL, STRAY], &usual[..]].concat()).await.unwrap();
        assert_eq!((ask.language, ask.stream), (None, false));
        let stray = super::tests::ask(&[STRAY, MODEL]).await.unwrap_err();
        assert_eq!(stray.message, "`file` is missing: the form has a file in `audio_file`");
        let translate = ("name=\"task\"", "translate");
        let form = Form::collect(request(&[FILE, MODEL, translate], "--b--\r\n"), 1000).await.unwrap();
        assert!(form.read(true).is_ok());
        let file = ("name=\"prompt\"; filename=\"prompt.txt\"", "Lanes and caps.");
        assert_eq!(super::tests::ask(&[FILE, MODEL, file]).await.unwrap().prompt.as_deref(), Some("Lanes and caps."));
    }

    #[tokio::test]
    async fn bad_fields_are_named() {
        let cases: [(&[(&str, &str)], &str); 14] = [
            (&[MODEL], "file"),
            (&[STRAY, MODEL], "file"),
            (&[FILE, MODEL, ("name=\"task\"", "translate")], "task"),
            (&[FILE, MODEL, ("name=\"include[]\"", "logprobs")], "include[]"),
            (&[FILE], "model"),
            (&[FILE, FILE, MODEL], "file"),
            (&[FILE, MODEL, MODEL], "model"),
            (&[FILE, MODEL, ("name=\"response_format\"", "xml")], "response_format"),
            (&[FILE, MODEL, ("name=\"temperature\"", "2")], "temperature"),
            (&[FILE, MODEL, ("name=\"temperature\"", "NaN")], "temperature"),
            (&[FILE, MODEL, ("name=\"stream\"", "yes")], "stream"),
            (&[FILE, MODEL, ("name=\"timestamp_granularities\"", "word")], "timestamp_granularities"),
            (&[("name=\"file\"", "/tmp/a.wav"), MODEL], "file"),
            (&[FILE, MODEL, ("name=\"lanekeeper\"", "{\"deadline\":1}")], "lanekeeper.deadline"),
        ];
        for (parts, param) in cases {
            let fault = ask(parts).await.unwrap_err();
            assert_eq!((fault.kind.status(), fault.param.as_deref()), (400, Some(param)), "{fault}");
        }
        let streamed = [FILE, MODEL, ("name=\"stream\"", "true"), ("name=\"response_format\"", "srt")];
        assert_eq!(ask(&streamed).await.unwrap_err().param.as_deref(), Some("response_format"));
    }

    #[tokio::test]
    async fn a_form_that_was_cut_is_refused() {
        for end in ["", "--b\r\nContent-Disposition: form"] {
            let fault = Form::collect(request(&[FILE, MODEL], end), 1000).await.unwrap_err();
            assert_eq!(fault.code, Some("invalid_form"), "{fault}");
        }
        let plain = http::Request::post("/").body(Body::from("x")).unwrap();
        assert!(Form::collect(plain, 1000).await.unwrap_err().hint.unwrap().contains("multipart"));
    }

    #[tokio::test]
    async fn the_file_is_bounded() {
        let long = "x".repeat(1001);
        let fault = ask(&[("name=\"file\"; filename=\"a\"", &long), MODEL]).await.unwrap_err();
        assert_eq!(fault.kind, ErrorKind::BodyTooLarge);
        assert!(fault.message.contains("limits.audio_bytes is 1000"), "{fault}");
        assert!(ask(&[("name=\"file\"; filename=\"a\"", &long[1..]), MODEL]).await.is_ok());
        let huge = "x".repeat(1000 + FRAME_BYTES);
        let fault = ask(&[("name=\"file\"; filename=\"a\"", &huge), MODEL]).await.unwrap_err();
        assert_eq!(fault.kind, ErrorKind::BodyTooLarge);
    }

    #[tokio::test]
    async fn languages_are_checked_against_the_model() {
        let english = SpeechFront { languages: vec!["en".into()], multilingual: false };
        let many = SpeechFront { languages: vec!["en".into(), "fr".into()], multilingual: true };
        let options = |language: &'static str, front: SpeechFront, translate| async move {
            ask(&[FILE, MODEL, ("name=\"language\"", language)]).await.unwrap().options(&front, translate, None)
        };
        for language in ["fr", "zz"] {
            let fault = options(language, english.clone(), false).await.unwrap_err();
            assert_eq!(fault.param.as_deref(), Some("language"));
            assert!(fault.message.contains("English-only"), "{fault}");
        }
        assert_eq!(options("fr", many.clone(), false).await.unwrap().language.as_deref(), Some("fr"));
        assert!(options("zz", many.clone(), false).await.is_err());
        assert!(options("en", english, true).await.is_err(), "an English-only model does not translate");
        assert!(options("fr", many, true).await.unwrap().translate);
    }
}
