"""A client that goes away frees what it held: in the queue, in prefill, in decode, in a transcription."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from conftest import LANGUAGE_MODEL, SPEECH_MODEL, pcm, wait_for, wav

LONG_PROMPT = "The history of the parrot is long and full of colour. " * 110


def open_request(engine, path: str, body: bytes, kind: str) -> socket.socket:
    """Sends a whole request and leaves the answer unread, so that the test can close the socket."""
    s = socket.create_connection(("127.0.0.1", engine.port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    s.sendall(head.encode() + body)
    return s


def open_completion(engine, prompt: str | list[int], max_tokens: int) -> socket.socket:
    body = {"model": LANGUAGE_MODEL, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True, "ignore_eos": True}
    return open_request(engine, "/v1/completions", json.dumps(body).encode(), "application/json")


def open_transcription(engine, audio: bytes) -> socket.socket:
    request = httpx.Request(
        "POST", "http://x/v1/audio/transcriptions", files={"file": ("a.wav", audio)}, data={"model": SPEECH_MODEL}
    )
    return open_request(engine, "/v1/audio/transcriptions", request.read(), request.headers["content-type"])


def requests(engine, state: str) -> list[dict]:
    """What `lanekeeper requests -o json` shows in a state."""
    shown = engine.cli_json("requests")
    return [r for r in shown["shown"] if r["state"] == state]


@pytest.fixture
def one_slot(own_engine):
    return own_engine(f"models.{LANGUAGE_MODEL}.generation.slots=1")


@pytest.fixture(scope="module")
def ten_minutes(clips) -> bytes:
    speech = b"".join(pcm(a) + bytes(16_000) for a, _ in clips[:13])
    return wav((speech * (600 * 32_000 // len(speech) + 1))[: 600 * 32_000])


def test_in_the_queue(one_slot):
    """C10: the waiting one is never run, and its neighbour's text is unchanged."""
    alone = one_slot.complete("Once upon a time", max_tokens=120).json()["choices"][0]["text"]
    before = one_slot.generation()["counters"]
    with ThreadPoolExecutor(1) as pool:
        neighbour = pool.submit(one_slot.complete, "Once upon a time", max_tokens=120)
        wait_for(lambda: one_slot.generation()["slots_used"] == 1, "the first request has the slot")
        waiting = open_completion(one_slot, "Never computed", 50)
        wait_for(lambda: one_slot.generation()["queued"] == 1, "the second request waits")
        waiting.close()
        wait_for(lambda: one_slot.generation()["queued"] == 0, "the closed request left the queue")
        assert neighbour.result().json()["choices"][0]["text"] == alone
    wait_for(one_slot.idle, "the engine is idle")
    after = one_slot.generation()["counters"]
    assert after["cancelled"] == before["cancelled"] + 1 and after["served"] == before["served"] + 1
    ended = [r for r in requests(one_slot, "done") if r["outcome"] == "cancelled"]
    assert len(ended) == 1 and not ended[0].get("running_ms")


def test_in_prefill(own_engine):
    engine = own_engine(f"models.{LANGUAGE_MODEL}.generation.prefill_chunk=32")
    s = open_completion(engine, LONG_PROMPT, 20)
    active = wait_for(lambda: engine.generation()["active"], "the prompt is being read")
    s.close()
    wait_for(lambda: engine.generation()["slots_used"] == 0, "the slot is free again")
    generation = engine.generation()
    assert generation["kv_used_tokens"] == 0 and generation["counters"]["cancelled"] == 1
    # It stopped while reading, or right after: never all 20 tokens.
    assert generation["generated_tokens"] < 20 and active[0]["prompt_tokens"] > 500


def test_in_decode(engine):
    before = engine.generation()["counters"]["cancelled"]
    s = open_completion(engine, "Count: one two three", 1000)
    s.recv(4096)
    wait_for(lambda: any(a["generated_tokens"] > 2 for a in engine.generation()["active"]), "tokens are coming")
    s.close()
    wait_for(lambda: engine.generation()["slots_used"] == 0, "the slot is free again")
    assert engine.generation()["counters"]["cancelled"] == before + 1


def test_in_a_transcription(own_engine, ten_minutes, clip):
    """C11: work stops within one window, the next clip is answered, memory comes back."""
    engine = own_engine()
    engine.text(clip[0])
    s = open_transcription(engine, ten_minutes)
    wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["running"] == 1, "the recording runs")
    shown = wait_for(lambda: requests(engine, "running"), "requests shows it")
    assert shown[0]["lane"] == "recordings" and shown[0]["op"] == "transcribe"
    s.close()
    wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["cancelled"] == 1, "the recording is cancelled")
    ended = wait_for(lambda: [r for r in requests(engine, "done") if r.get("lane") == "recordings"], "it has ended")
    assert ended[0]["outcome"] == "cancelled" and ended[0].get("done_ratio", 0) < 0.9
    assert engine.text(clip[0])
    wait_for(engine.idle, "the engine is idle")


def test_impatient_clients(own_engine, clip):
    """C08: computations never exceed live connections plus one; what was left in the queue is dropped uncomputed."""
    engine = own_engine()
    audio = wav(pcm(clip[0]) * 6)
    for _ in range(6):
        waiting = [open_transcription(engine, audio) for _ in range(5)]
        wait_for(lambda: engine.snapshot()["requests"]["total"] > 0, "the engine took the requests")
        for s in waiting:
            s.close()
    wait_for(engine.idle, "idle within one job")
    lanes = engine.lanes(SPEECH_MODEL)
    assert sum(lane["pending"] + lane["running"] for lane in lanes.values()) == 0
    assert engine.text(clip[0])


def test_by_id(engine):
    s = open_completion(engine, "Count: one two three", 1000)
    active = wait_for(lambda: engine.generation()["active"], "it runs")
    done = engine.cli("cancel", active[0]["request"])
    assert done.returncode == 0, done.stderr
    wait_for(lambda: engine.generation()["slots_used"] == 0, "the slot is free again")
    s.settimeout(30)
    rest = b""
    while piece := s.recv(65_536):
        rest += piece
        if rest.endswith(b"0\r\n\r\n"):
            break
    assert b"[DONE]" not in rest and b'"error"' in rest
    assert engine.http.delete("/v1/requests/req-999999").status_code == 404
    assert engine.http.delete("/v1/requests/what").status_code in (400, 404)
