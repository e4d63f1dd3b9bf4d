//! Containers and codings that symphonia decodes: flac, mp3, aac, m4a/mp4, ogg, webm/mkv, ADPCM in wav.
//!
//! Panics of the library are contained here: one malformed upload is one refused request.

use super::decode::{AudioInfo, Source};
use super::error::AudioError;
use super::sink::Sink;
use super::sniff::{Container, mpeg_stream};
use super::{aac, matroska, ogg};
use std::io::{Cursor, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use symphonia::core::codecs::audio::well_known as id;
use symphonia::core::codecs::audio::{AudioCodecId, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions, ReadOnlySource};
use symphonia::core::meta::MetadataOptions;

/// Packets in a row that may yield nothing before the file is given up: a table of empty packets must not hold a
/// decoder for ever.
const BARREN: u32 = 10_000;
/// A file of which more than one packet in so many is damaged is not whole.
const MANY_DAMAGED: u64 = 10;
/// Seconds that may be missing at the end before a file counts as cut (encoder delay and padding are dropped).
const SLACK_S: f64 = 0.3;

/// Decodes `bytes` of a sniffed container into `sink`.
pub fn decode(container: Container, bytes: &[u8], sink: &mut Sink) -> Result<AudioInfo, AudioError> {
    let seconds_before = sink.seconds();
    catch_unwind(AssertUnwindSafe(|| run(container, bytes, sink))).unwrap_or_else(|_| {
        Err(AudioError::Damaged(format!(
            "the {} decoder failed on it after {:.2} s",
            container.name(),
            sink.seconds() - seconds_before
        )))
    })
}

fn run(container: Container, bytes: &[u8], sink: &mut Sink) -> Result<AudioInfo, AudioError> {
    if container == Container::Ogg
        && let Some(refusal) = ogg::refusal(bytes)
    {
        return Err(refusal);
    }
    let cut = cut_by_structure(container, bytes);
    // A cut Matroska file points past its end (segment size, index): read it as the stream that it has become.
    let file: Box<dyn MediaSource + '_> = if cut && container == Container::Matroska {
        Box::new(ReadOnlySource::new(bytes))
    } else {
        Box::new(Cursor::new(bytes))
    };
    let stream = MediaSourceStream::new(file, MediaSourceStreamOptions::default());
    let mut format = symphonia::default::get_probe()
        .probe(&Hint::new(), stream, FormatOptions::default(), MetadataOptions::default())
        .map_err(|e| open_error(container, bytes, &e))?;
    let unknown = (container == Container::Matroska).then(|| matroska::foreign_codec(bytes)).flatten();
    let (mut track, mut decoder, mut source) = open_track(container, format.as_ref(), unknown)?;
    let declared = declared_seconds(container, format.as_ref(), track);
    let mut info = AudioInfo { source: source.clone(), truncated: cut, warnings: Vec::new() };

    let mut samples: Vec<f32> = Vec::new();
    let (mut sound, mut damaged, mut barren) = (0u64, 0u64, 0u32);
    loop {
        let packet = match format.next_packet() {
            Ok(Some(p)) => p,
            Ok(None) => break,
            Err(Error::ResetRequired) => {
                (track, decoder, source) = open_track(container, format.as_ref(), unknown)?;
                continue;
            }
            // A stream's segment and clusters of unknown size end where the data do.
            Err(e) if container == Container::Matroska && !cut && is_eof(&e) => break,
            Err(e) => {
                // The bytes ran out, or what follows cannot be followed: keep what was heard, and say so.
                if sink.is_empty() {
                    return Err(AudioError::Damaged(format!("{}: {e}", container.name())));
                }
                info.truncated = true;
                if !is_eof(&e) {
                    info.warnings.push(format!("unreadable after {:.2} s: {e}", sink.seconds()));
                }
                break;
            }
        };
        barren += 1;
        if barren > BARREN {
            return Err(AudioError::Damaged(format!("{BARREN} packets in a row without sound")));
        }
        if packet.track_id != track {
            continue;
        }
        match decoder.decode(&packet) {
            Ok(buffer) if buffer.frames() > 0 => {
                barren = 0;
                sound += 1;
                buffer.copy_to_vec_interleaved(&mut samples);
                let (rate, channels) = (buffer.spec().rate(), buffer.spec().channels().count());
                source.rate = rate;
                source.channels = channels;
                sink.push(rate, channels, &samples)?;
            }
            Ok(_) => {}
            Err(Error::ResetRequired) => decoder.reset(),
            Err(_) => damaged += 1,
        }
    }
    if sink.is_empty() {
        return Err(if damaged > 0 {
            AudioError::Damaged(format!("none of its {damaged} {} packets could be decoded", source.codec))
        } else {
            AudioError::NoAudio(format!("a {} header without sound", container.name()))
        });
    }
    if damaged > sound {
        return Err(AudioError::Damaged(format!(
            "{damaged} of its {} {} packets could not be decoded",
            damaged + sound,
            source.codec
        )));
    }
    if damaged > 0 {
        info.truncated |= damaged > (damaged + sound) / MANY_DAMAGED;
        info.warnings.push(format!("{damaged} damaged packets were skipped"));
    }
    if let Some(declared) = declared
        && sink.seconds() + SLACK_S < declared
    {
        info.truncated = true;
    }
    if info.truncated && info.warnings.is_empty() {
        info.warnings.push(match declared {
            Some(d) => format!("the file was cut: {:.2} of {d:.2} s are there", sink.seconds()),
            None => format!("the file was cut after {:.2} s", sink.seconds()),
        });
    }
    info.source = source;
    Ok(info)
}

/// The track to decode, its decoder, and what it is; `unknown` is what codes a sound track that the reader left out.
fn open_track(
    container: Container,
    format: &dyn FormatReader,
    unknown: Option<&str>,
) -> Result<(u32, Box<dyn AudioDecoder>, Source), AudioError> {
    let track = format.default_track(TrackType::Audio).ok_or_else(|| match unknown {
        Some(codec) => AudioError::Unsupported(format!("{codec} in {}", container.name())),
        None => AudioError::NoAudio(format!("a {} file without a sound track that can be read", container.name())),
    })?;
    let params = track
        .codec_params
        .as_ref()
        .and_then(|p| p.audio())
        .ok_or_else(|| AudioError::NoAudio(format!("a {} file whose track is no sound", container.name())))?;
    let codec = codec_name(params.codec);
    let decoder = symphonia::default::get_codecs()
        .make_audio_decoder(params, &AudioDecoderOptions::default())
        .map_err(|e| match (e, (params.codec == id::CODEC_ID_AAC).then(|| aac::beyond(params)).flatten()) {
            (_, Some(kind)) => AudioError::Unsupported(format!("{kind} in {}", container.name())),
            (Error::Unsupported(_), None) => AudioError::Unsupported(format!("{codec} in {}", container.name())),
            (e, None) => AudioError::Damaged(format!("its {codec} header: {e}")),
        })?;
    let source = Source {
        container: container.name(),
        codec,
        rate: params.sample_rate.unwrap_or(0),
        channels: params.channels.as_ref().map_or(0, |c| c.count()),
        bits: params.bits_per_sample,
    };
    Ok((track.id, decoder, source))
}

/// Seconds that the container promises; only where it is a promise rather than an estimate from the file's size.
fn declared_seconds(container: Container, format: &dyn FormatReader, track: u32) -> Option<f64> {
    let track = format.tracks().iter().find(|t| t.id == track)?;
    match container {
        // Without a Xing header the length is guessed from the bytes at hand; with one it is exact, but the two cannot
        // be told apart here. Raw ADTS and Ogg promise nothing.
        Container::Mp3 | Container::Adts | Container::Ogg => None,
        Container::Wav | Container::Flac => {
            let rate = track.codec_params.as_ref()?.audio()?.sample_rate?;
            Some(track.num_frames? as f64 / f64::from(rate))
        }
        Container::Mp4 | Container::Matroska => {
            let of_track = track.time_base.zip(track.duration).and_then(|(tb, d)| tb.calc_duration(d));
            let media = format.media_info();
            let of_media = || media.time_base.zip(media.duration).and_then(|(tb, d)| tb.calc_duration(d));
            of_track.or_else(of_media).map(|t| t.as_secs_f64())
        }
    }
}

/// Whether the container's own structure shows that bytes are missing at the end.
fn cut_by_structure(container: Container, bytes: &[u8]) -> bool {
    match container {
        Container::Ogg => ogg::is_cut(bytes),
        Container::Matroska => matroska::is_cut(bytes),
        Container::Mp3 => mpeg_stream(bytes).is_some_and(|s| xing_bytes(s).is_some_and(|n| n > s.len() as u64)),
        _ => false,
    }
}

/// Bytes that the Xing/Info header of an MPEG stream promises: it stands in the first frame, after the side
/// information, whose size depends on the version and the channels (and on a checksum, for some writers).
fn xing_bytes(stream: &[u8]) -> Option<u64> {
    let be = |i: usize| stream.get(i..i + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let frame = be(0)?;
    let (version_1, mono, checked) = ((frame >> 19) & 3 == 3, (frame >> 6) & 3 == 3, (frame >> 16) & 1 == 0);
    let side = match (version_1, mono) {
        (true, false) => 32,
        (true, true) | (false, false) => 17,
        (false, true) => 9,
    };
    let named = |at: &usize| matches!(stream.get(*at..at + 4), Some(b"Xing" | b"Info"));
    let at = [4 + side, 6 + side].into_iter().take(1 + usize::from(checked)).find(named)?;
    let flags = be(at + 4)?;
    // Flag 1: a frame count is there; flag 2: a byte count follows it.
    (flags & 2 != 0).then(|| be(at + 8 + if flags & 1 != 0 { 4 } else { 0 }).map(u64::from))?
}

fn is_eof(e: &Error) -> bool {
    matches!(e, Error::IoError(io) if io.kind() == ErrorKind::UnexpectedEof)
}

fn open_error(container: Container, bytes: &[u8], e: &Error) -> AudioError {
    let name = container.name();
    // Cut before its index, or within it: the reader then calls the index missing, and the file no less cut.
    let no_index = matches!(e, Error::Unsupported(what) if what.contains("missing moov"));
    if container == Container::Mp4 && (no_index || !bytes.windows(4).any(|w| w == b"moov")) {
        return AudioError::Damaged("the m4a/mp4 file was cut: its index (`moov`) is missing".to_string());
    }
    // A header whose body never came: no cluster, so not one packet.
    if container == Container::Matroska && !bytes.windows(4).any(|w| w == [0x1f, 0x43, 0xb6, 0x75]) {
        return AudioError::NoAudio(format!("a {name} header without sound ({} bytes)", bytes.len()));
    }
    match e {
        Error::Unsupported(what) => AudioError::Unsupported(format!("this kind of {name} ({what})")),
        e if is_eof(e) => {
            AudioError::NoAudio(format!("a {name} header without sound (it ends after {} bytes)", bytes.len()))
        }
        e => AudioError::Damaged(format!("{name}: {e}")),
    }
}

fn codec_name(codec: AudioCodecId) -> String {
    let name = match codec {
        id::CODEC_ID_FLAC => "FLAC",
        id::CODEC_ID_MP3 => "mp3",
        id::CODEC_ID_AAC => "AAC",
        id::CODEC_ID_VORBIS => "Vorbis",
        id::CODEC_ID_OPUS => "Opus",
        id::CODEC_ID_ALAC => "Apple Lossless (ALAC)",
        id::CODEC_ID_SPEEX => "Speex",
        id::CODEC_ID_AC3 => "AC-3",
        id::CODEC_ID_EAC3 => "E-AC-3",
        id::CODEC_ID_MP2 => "MPEG audio layer II",
        id::CODEC_ID_WMA => "Windows Media Audio",
        id::CODEC_ID_ADPCM_MS => "Microsoft ADPCM",
        id::CODEC_ID_ADPCM_IMA_WAV => "IMA ADPCM",
        id::CODEC_ID_PCM_S16LE | id::CODEC_ID_PCM_S16BE => "PCM 16-bit",
        id::CODEC_ID_PCM_S24LE | id::CODEC_ID_PCM_S24BE => "PCM 24-bit",
        id::CODEC_ID_PCM_F32LE | id::CODEC_ID_PCM_F32BE => "PCM 32-bit float",
        other => return format!("a coding this build does not know ({other})"),
    };
    name.to_string()
}
