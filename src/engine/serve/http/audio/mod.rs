//! `/v1/audio/transcriptions` and `/v1/audio/translations`.

mod form;
mod languages;
mod shape;
mod stream;
mod subtitles;

use crate::control::{ErrorKind, Fault, Op};
use crate::engine::audio::DecodeLimits;
use crate::engine::models::ModelFront;
use crate::engine::runtime::{TranscribeJob, TranscriptEvent};
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use crate::engine::serve::http::HEAD_HOLD;
use crate::engine::serve::{body, sse, timing};
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use form::Form;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use shape::Transcript;

/// Seconds of audio that were decoded.
const AUDIO_SECONDS: HeaderName = HeaderName::from_static("x-audio-seconds");
/// Present when the file ended before its container said it would.
const AUDIO_TRUNCATED: HeaderName = HeaderName::from_static("x-audio-truncated");

pub(crate) async fn transcriptions(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Failure> {
    serve(app, client, request, false).await
}

pub(crate) async fn translations(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Failure> {
    serve(app, client, request, true).await
}

async fn serve(app: App, client: Client, request: Request, translate: bool) -> Result<Response, Failure> {
    let request = app.admit(request).await?;
    let limit = app.engine.limits().audio_bytes;
    let place = match app.upload_place(body::declared(request.headers()).map(|bytes| bytes.min(limit))) {
        Ok(place) => place,
        Err(fault) => {
            body::discard_unless_waiting(request).await;
            return Err(fault.into());
        }
    };
    let mut ask = Form::collect(request, limit).await?.read(translate)?;
    let handle = app.engine.model_for(&ask.model, Op::Transcribe)?;
    let front = handle.front()?;
    let ModelFront::Speech(speech) = &*front else {
        let message = format!("model `{}` does not take audio", ask.model);
        return Err(Fault::invalid("model", message).into());
    };
    let options = ask.options(speech, translate, handle.settings().language.as_deref())?;

    let file = std::mem::take(&mut ask.file);
    let limits = DecodeLimits { max_seconds: app.engine.limits().audio.max_seconds };
    let upload = app.intake.enter(&ask.model, &client);
    let audio = upload.during(app.decoders.decode(file, limits)).await?;
    drop(upload);
    // The encoded bytes are gone now; what the samples take is the engine's to bound.
    drop(place);
    let (seconds, truncated) = (audio.seconds(), audio.truncated);
    let caller = app.caller(&client, ask.extensions.deadline_s);
    let mut ticket = app.engine.transcribe(&ask.model, TranscribeJob { audio, options }, caller)?;
    let id = ticket.id;

    if ask.stream {
        let first = tokio::time::timeout(HEAD_HOLD, ticket.next()).await.ok();
        if let Some(Some(Err(fault))) = first {
            return Err(Failure::of(id, fault));
        }
        let mut response = sse::respond(Some(id), stream::frames(ticket, first, seconds, truncated));
        note_audio(response.headers_mut(), seconds, truncated);
        return Ok(response);
    }

    let mut segments = Vec::new();
    let (language, times) = loop {
        match ticket.next().await {
            Some(Ok(TranscriptEvent::Segment(segment))) => segments.push(segment),
            Some(Ok(TranscriptEvent::Done { language, times })) => break (language, times),
            Some(Err(fault)) => return Err(Failure::of(id, fault)),
            None => return Err(Failure::of(id, Fault::new(ErrorKind::Internal, "the model's worker ended"))),
        }
    };
    let transcript = Transcript { segments, language, seconds, truncated, translate };
    let body = transcript
        .body(ask.format, ask.granularities)
        .map_err(|e| Failure::of(id, Fault::new(ErrorKind::Internal, format!("cannot write the transcript: {e}"))))?;
    let mut response = ([(header::CONTENT_TYPE, ask.format.content_type())], body).into_response();
    timing::set_times(response.headers_mut(), id, times);
    note_audio(response.headers_mut(), seconds, truncated);
    Ok(response)
}

/// For the formats that have no place for it: how much was heard, and whether that was all.
fn note_audio(headers: &mut HeaderMap, seconds: f64, truncated: bool) {
    if let Ok(value) = HeaderValue::from_str(&format!("{seconds:.3}")) {
        headers.insert(AUDIO_SECONDS, value);
    }
    if truncated {
        headers.insert(AUDIO_TRUNCATED, HeaderValue::from_static("true"));
    }
}
