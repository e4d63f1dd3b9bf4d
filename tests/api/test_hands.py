"""Hands on single requests: `hold`, `release` and `move` on the real engine."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LANGUAGE_MODEL, SPEECH_MODEL, pcm, wait_for, wav

LANE = f"{SPEECH_MODEL}/recordings"


@pytest.fixture(scope="module")
def recording(clips) -> bytes:
    speech = b"".join(pcm(audio) + bytes(16_000) for audio, _ in clips[:13])
    return wav((speech * 3)[: 70 * 32_000])


def waiting(engine, lane: str) -> list[dict]:
    return [r for r in engine.cli_json("requests")["shown"] if r["state"] == "queued" and r.get("lane") == lane]


def test_a_held_recording_is_passed_by_and_says_so(engine, recording):
    assert engine.cli("pause", LANE).returncode == 0
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.text, recording)
        wait_for(lambda: len(waiting(engine, "recordings")) == 1, "the first waits")
        held = waiting(engine, "recordings")[0]["id"]
        second = pool.submit(engine.text, recording)
        wait_for(lambda: len(waiting(engine, "recordings")) == 2, "the second waits")
        assert engine.cli("hold", held).returncode == 0
        assert engine.cli("resume", LANE).returncode == 0
        text = second.result()
        assert not first.done()
        why = engine.cli("why", held)
        assert why.returncode == 0 and b"an operator holds this request" in why.stdout and b"release" in why.stdout
        assert engine.lanes(SPEECH_MODEL)["recordings"]["held"] == 1
        assert engine.cli("release", held).returncode == 0
        assert first.result() == text
    assert engine.lanes(SPEECH_MODEL)["recordings"]["held"] == 0


def test_a_recording_moved_among_the_clips_has_the_same_text(engine, recording):
    alone = engine.text(recording)
    assert engine.cli("pause", LANE).returncode == 0
    with ThreadPoolExecutor(1) as pool:
        moved = pool.submit(engine.text, recording)
        wait_for(lambda: len(waiting(engine, "recordings")) == 1, "it waits")
        assert engine.cli("move", waiting(engine, "recordings")[0]["id"], "--to", "clips").returncode == 0
        # The lane that it came from is paused still.
        assert moved.result() == alone
    assert engine.cli("resume", LANE).returncode == 0


def test_a_held_generation_is_passed_by(own_engine):
    engine = own_engine(f"models.{LANGUAGE_MODEL}.generation.slots=1", f"models.{LANGUAGE_MODEL}.generation.paused=true")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.complete, "Once", max_tokens=4)
        wait_for(lambda: engine.generation()["queued"] == 1, "the first waits")
        held = engine.cli_json("requests")["shown"][0]["id"]
        second = pool.submit(engine.complete, "Twice", max_tokens=4)
        wait_for(lambda: engine.generation()["queued"] == 2, "the second waits")
        assert engine.cli("hold", held).returncode == 0
        assert engine.cli("resume", LANGUAGE_MODEL).returncode == 0
        assert second.result().status_code == 200 and not first.done()
        assert engine.cli("release", held).returncode == 0
        assert first.result().status_code == 200


def test_what_cannot_be_done_is_refused(engine):
    assert engine.cli("hold", "req-999999").returncode == 5
    assert engine.cli("hold", "../x").returncode == 2
    assert engine.cli("move", "req-1", "--to", "left").returncode == 2
    for body in [{}, {"held": "yes"}, {"lane": "left"}, {"hold": True}]:
        answer = engine.http.patch("/control/v1/requests/req-1", json=body)
        assert answer.status_code == 400, body
