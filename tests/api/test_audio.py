"""Speech: what goes in by content, what comes out by format, and what is refused."""

import json
import math
import random
import re
import struct

import pytest
from conftest import assert_error, convert, pcm, wav, word_errors, words

SILENCE = wav(bytes(2 * 160_000))


def noise(seconds: float, dbfs: float) -> bytes:
    amplitude = 10 ** (dbfs / 20) * 32768 * math.sqrt(3)
    source = random.Random(7)
    samples = (int(source.uniform(-amplitude, amplitude)) for _ in range(int(seconds * 16_000)))
    return wav(b"".join(struct.pack("<h", s) for s in samples))


def test_short_clip(engine, clip):
    audio, text = clip
    answer = engine.transcribe(audio)
    assert answer.status_code == 200
    assert word_errors(text, answer.json()["text"]) <= 1
    assert answer.headers["x-request-id"].startswith("req-")
    assert float(answer.headers["x-queue-ms"]) >= 0 and float(answer.headers["x-run-ms"]) > 0


def test_human_speech(engine, human):
    errors = total = 0
    for audio, text in human:
        errors += word_errors(text, engine.text(audio))
        total += len(words(text))
    assert errors / total <= 0.10, f"{errors} of {total} words wrong"


@pytest.fixture(scope="module")
def sentences(clips):
    """A recording of 13 sentences, over 65 s, with gaps that never fall on a window's edge; and its sentences."""
    pieces, heard, seconds = [], [], 0.0
    gap = 1.3
    for audio, text in clips:
        samples = pcm(audio)
        pieces += [samples, bytes(2 * int(gap * 16_000))]
        heard.append(text)
        seconds += len(samples) / 32_000 + gap
        if len(heard) == 13:
            break
    assert len(heard) == 13
    if seconds < 65:
        padding = bytes(2 * int((65 - seconds) / 13 * 16_000) + 2)
        pieces = [p + padding if i % 2 else p for i, p in enumerate(pieces)]
    return wav(b"".join(pieces)), heard


def test_thirteen_sentences_in_order_once_each(engine, sentences):
    audio, wanted = sentences
    text = engine.text(audio)
    heard = words(text)
    position = 0
    for sentence in wanted:
        target = words(sentence)
        # The best place for the sentence at or after the end of the one before.
        places = range(position, max(position, len(heard) - len(target)) + 1)
        best = min(places, key=lambda i: word_errors(" ".join(target), " ".join(heard[i : i + len(target)])))
        errors = word_errors(" ".join(target), " ".join(heard[best : best + len(target)]))
        assert errors <= max(2, len(target) // 3), f"{sentence!r} not found after word {position} of {text!r}"
        position = best + len(target) - errors
    assert abs(len(heard) - sum(len(words(s)) for s in wanted)) <= 8, f"words lost or said twice: {text!r}"


def test_recording_streams_its_segments(engine, sentences):
    audio, _ = sentences
    request = engine.http.build_request(
        "POST",
        "/v1/audio/transcriptions",
        files={"file": ("a.wav", audio)},
        data={"model": "whisper-tiny-en", "stream": "true"},
    )
    answer = engine.http.send(request, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
    deltas = [e for e in events if e["type"] == "transcript.text.delta"]
    done = [e for e in events if e["type"] == "transcript.text.done"]
    assert len(deltas) > 1 and len(done) == 1 and events[-1] == done[0]
    assert "".join(d["delta"] for d in deltas).strip() == done[0]["text"].strip()


@pytest.mark.parametrize(
    "name, options",
    [
        ("stereo.wav", ["-ac", "2", "-ar", "44100", "-c:a", "pcm_s24le"]),
        ("wide.wav", ["-ar", "48000", "-c:a", "pcm_s32le"]),
        ("float.wav", ["-ar", "22050", "-c:a", "pcm_f32le"]),
        ("adpcm.wav", ["-c:a", "adpcm_ms"]),
        ("a.flac", []),
        ("a.mp3", ["-b:a", "64k"]),
        ("a.m4a", ["-c:a", "aac", "-b:a", "64k"]),
        ("index-first.m4a", ["-c:a", "aac", "-b:a", "64k", "-movflags", "+faststart"]),
        ("a.ogg", ["-c:a", "libvorbis"]),
        ("a.webm", ["-c:a", "libvorbis"]),
    ],
)
def test_codings(engine, clip, name, options):
    """A lossy coding may cost one word more than the clear recording."""
    audio, text = clip
    assert word_errors(text, engine.text(convert(audio, name, *options), name)) <= 2


@pytest.mark.parametrize("number, times", [(0, 4), (9, 7)])
def test_what_is_said_again_is_heard_again(engine, clips, number, times):
    """Text that repeats itself is no loop of the model where a speaker repeats it."""
    audio, text = clips[number]
    answer = engine.transcribe(wav((pcm(audio) + bytes(19_200)) * times), response_format="verbose_json").json()
    assert word_errors(" ".join([text] * times), answer["text"]) <= 3 * times, answer["text"]
    assert all(segment["temperature"] == 0 for segment in answer["segments"])


def test_channels_in_antiphase(engine, clip):
    """One channel is the other turned upside down: mixed, they would be silence."""
    audio, text = clip
    samples = struct.unpack(f"<{len(pcm(audio)) // 2}h", pcm(audio))
    both = b"".join(struct.pack("<hh", s, max(-32767, min(32767, -s))) for s in samples)
    assert word_errors(text, engine.text(wav(both, channels=2))) <= 2


@pytest.mark.parametrize("coding", ["pcm_mulaw", "pcm_alaw"])
def test_telephone_codings(engine, clip, coding):
    """C29: 8 kHz mu-law and A-law give the words of the clear recording, within tolerance."""
    audio, text = clip
    heard = engine.text(convert(audio, "phone.wav", "-ar", "8000", "-c:a", coding))
    assert word_errors(text, heard) <= max(2, len(words(text)) // 3)


@pytest.mark.parametrize(
    "name, options, says",
    [
        ("a.webm", ["-c:a", "libopus"], "opus"),
        ("a.ts", ["-c:a", "aac"], "MPEG-TS"),
        ("a.m2ts", ["-c:a", "aac", "-f", "mpegts", "-mpegts_m2ts_mode", "1"], "MPEG-TS"),
        ("a.ogg", ["-c:a", "libspeex"], "Speex"),
        ("a.m4a", ["-c:a", "aac", "-ac", "6", "-ar", "48000"], "AAC with 6 channels"),
    ],
)
def test_what_is_not_decoded_is_refused_by_name(engine, clip, name, options, says):
    """Neither words from pieces of it, nor an empty file; and the hint names something else."""
    error = assert_error(engine.transcribe(convert(clip[0], name, *options), name), 415, "file", says)
    assert "m4a (AAC)" not in error["message"] or "AAC" not in says


@pytest.mark.parametrize("form, name", [("x.flac", "a.wav"), ("x.mp3", "a.wav"), ("x.wav", "a.mp3"), ("x.wav", "a")])
def test_content_decides_not_the_name(engine, clip, form, name):
    """C31."""
    audio, text = clip
    assert word_errors(text, engine.text(convert(audio, form), name)) <= 2


def test_chunk_after_the_data(engine, clip):
    """C28: a 40-kB LIST chunk behind the samples changes nothing."""
    audio, _ = clip
    tail = b"LIST" + (40_000).to_bytes(4, "little") + b"INFO" + bytes(39_996)
    longer = audio[:4] + (len(audio) - 8 + len(tail)).to_bytes(4, "little") + audio[8:] + tail
    plain, chunk = (engine.transcribe(a, response_format="verbose_json").json() for a in (audio, longer))
    assert plain["text"] == chunk["text"] and plain["duration"] == chunk["duration"]


def test_header_that_contradicts_itself(engine, clip):
    """C28: 8 bits claimed, 16-bit frames."""
    audio = bytearray(clip[0])
    audio[34:36] = (8).to_bytes(2, "little")
    answer = engine.transcribe(bytes(audio))
    assert_error(answer, 400, "file", "8")


def test_whole_files_that_look_cut(engine, clip):
    """A webm written as a stream, without sizes, and an mp3 whose title is the name of a header."""
    audio, text = clip
    for name, options in [
        ("a.webm", ["-c:a", "libvorbis", "-live", "1"]),
        ("a.mp3", ["-b:a", "64k", "-metadata", "title=Info about the meeting"]),
    ]:
        answer = engine.transcribe(convert(audio, name, *options), name, response_format="verbose_json").json()
        assert not answer.get("truncated"), answer
        assert word_errors(text, answer["text"]) <= 2
        assert abs(answer["duration"] - len(pcm(audio)) / 32_000) < 0.2


def test_a_data_size_that_is_too_small_loses_no_words(engine, clip):
    audio, text = bytearray(clip[0]), clip[1]
    audio[40:44] = (32_000).to_bytes(4, "little")
    assert word_errors(text, engine.text(bytes(audio))) <= 1


@pytest.mark.parametrize("stray", [1e30, 1000.0])
def test_one_wild_sample_of_a_float_file(engine, clip, stray):
    audio, text = clip
    samples = [s / 32768 for (s,) in struct.iter_unpack("<h", pcm(audio))]
    samples[len(samples) // 2] = stray
    wild = wav(struct.pack(f"<{len(samples)}f", *samples), bits=32, coding=3)
    assert word_errors(text, engine.text(wild)) <= 1


def test_streamed_wav_header(engine, clip):
    """Sizes of 0xFFFFFFFF, as recorders write that never seek back."""
    audio, text = bytearray(clip[0]), clip[1]
    audio[4:8] = audio[40:44] = b"\xff\xff\xff\xff"
    assert word_errors(text, engine.text(bytes(audio))) <= 1


def test_silence_and_noise_after_speech(engine, clip):
    """C25: nothing is heard where nothing was said, and nothing of the clip before."""
    engine.text(clip[0])
    for audio in (SILENCE, noise(10, -40)):
        answer = engine.transcribe(audio, response_format="verbose_json")
        assert answer.status_code == 200
        assert answer.json()["text"] == "" and answer.json()["segments"] == []


@pytest.mark.parametrize(
    "audio, says",
    [
        (b"", "empty"),
        (wav(b""), "no audio|empty"),
        (bytes.fromhex("1a45dfa3") + b"\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm" + bytes(80), "audio|empty"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "HTML"),
        (b'{"error": "expired"}', "JSON"),
        (random.Random(1).randbytes(5_000), "audio"),
    ],
    ids=["nothing", "header only", "webm header only", "html", "json", "random bytes"],
)
def test_not_audio(engine, audio, says):
    """C26, C32: 400 that says what the bytes look like."""
    assert_error(engine.transcribe(audio), (400, 415), "file", says)


def test_file_field_that_is_a_path(engine):
    """C32: a form whose file field holds only a path string."""
    fields = {"model": (None, "whisper-tiny-en"), "file": (None, "/tmp/a.wav")}
    answer = engine.http.post("/v1/audio/transcriptions", files=fields)
    assert_error(answer, 400, "file")


@pytest.mark.parametrize("samples", [1, 800, 6_400])
def test_very_short_audio(engine, clip, samples):
    """C34: text or empty text, and the true duration."""
    answer = engine.transcribe(wav(pcm(clip[0])[: 2 * samples]), response_format="verbose_json")
    assert answer.status_code == 200, answer.text
    assert answer.json()["duration"] == pytest.approx(samples / 16_000, abs=0.011)


def clock(match: re.Match) -> float:
    hours, minutes, seconds, millis = (int(g) for g in match.groups())
    assert minutes < 60 and seconds < 60
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def subtitle_blocks(text: str, separator: str, numbered: bool) -> list[tuple[float, float, str]]:
    """A strict reading of srt and vtt cues."""
    stamp = rf"(\d\d):(\d\d):(\d\d){separator}(\d{{3}})"
    cues = []
    for number, block in enumerate(text.strip("\n").split("\n\n"), 1):
        lines = block.split("\n")
        if numbered:
            assert lines.pop(0) == str(number)
        first, arrow, second = lines[0].partition(" --> ")
        assert arrow
        start, end = clock(re.fullmatch(stamp, first)), clock(re.fullmatch(stamp, second))
        assert start <= end and len(lines) > 1
        cues.append((start, end, " ".join(lines[1:])))
    assert all(a[0] <= b[0] for a, b in zip(cues, cues[1:]))
    return cues


def test_response_formats(engine, sentences):
    """C37: one recording, five formats, strictly parsed."""
    audio, _ = sentences
    answers = {f: engine.transcribe(audio, response_format=f) for f in ("json", "text", "srt", "vtt", "verbose_json")}
    assert all(a.status_code == 200 for a in answers.values())
    kinds = {f: a.headers["content-type"].split(";")[0] for f, a in answers.items()}
    assert kinds["json"] == kinds["verbose_json"] == "application/json"
    assert kinds["text"] == "text/plain" and kinds["vtt"] == "text/vtt"
    assert kinds["srt"] in ("application/x-subrip", "text/plain")
    text = answers["json"].json()["text"]
    assert answers["text"].text.strip() == text.strip()
    verbose = answers["verbose_json"].json()
    assert verbose["text"] == text and verbose["task"] == "transcribe"
    assert verbose["language"] in ("en", "english") and verbose["duration"] > 60
    for i, segment in enumerate(verbose["segments"]):
        assert segment["id"] == i and segment["start"] <= segment["end"] <= verbose["duration"] + 0.02
        for field in ("seek", "tokens", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob", "text"):
            assert field in segment
    srt = subtitle_blocks(answers["srt"].text, ",", numbered=True)
    head, _, rest = answers["vtt"].text.partition("\n\n")
    assert head == "WEBVTT"
    vtt = subtitle_blocks(rest, r"\.", numbered=False)
    assert srt == vtt and len(srt) == len(verbose["segments"])
    assert words(" ".join(c[2] for c in srt)) == words(text)


@pytest.mark.parametrize(
    "field, value, param",
    [
        ("response_format", "xml", "response_format"),
        ("language", "fr", "language"),
        ("language", "zz", "language"),
        ("temperature", "warm", "temperature"),
        ("temperature", "7", "temperature"),
        ("model", "no-such-model", "model"),
        ("model", "minilm-l6", "model"),
    ],
)
def test_bad_fields(engine, clip, field, value, param):
    """C37."""
    answer = engine.transcribe(clip[0], **{field: value})
    assert_error(answer, (400, 404), param)


def test_cut_files(engine, clip):
    """C38: never plain success, never 500."""
    audio, text = clip
    whole = convert(audio, "a.m4a", "-c:a", "aac")
    assert word_errors(text, engine.text(whole, "a.m4a")) <= 1
    webm = convert(audio, "a.webm", "-c:a", "libvorbis")
    for cut in (whole[: len(whole) // 2], webm[: len(webm) // 2]):
        answer = engine.transcribe(cut, response_format="verbose_json")
        if answer.status_code == 200:
            assert answer.json()["truncated"] is True
            assert 0 < answer.json()["duration"] < len(pcm(audio)) / 32_000
        else:
            assert_error(answer, (400, 422), "file")


def test_same_answer_alone_and_together(engine, clips):
    """Batching changes no word."""
    from concurrent.futures import ThreadPoolExecutor

    audio = [a for a, _ in clips[:6]]
    alone = [engine.text(a) for a in audio]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(engine.text, audio))
    assert alone == together
