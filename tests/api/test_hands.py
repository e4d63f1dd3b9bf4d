"""Hands on single requests: `hold`, `release` and `move` on the real engine."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LANGUAGE_MODEL, SPEECH_MODEL, TEXT_MODEL, Engine, pcm, short_folder, wait_for, wav

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


def entries(engine, after: int) -> list[dict]:
    return [e for e in engine.cli_json("journal", "-n", "100")["entries"] if e["revision"] > after]


def test_hands_are_looked_at_written_down_and_taken_back(engine, clip):
    """Every hand on a request is a line of the journal: who, which, from where to where, why; and what can be undone is."""
    assert engine.cli("pause", SPEECH_MODEL).returncode == 0
    before = engine.snapshot()["revision"]
    with ThreadPoolExecutor(2) as pool:
        kept, cancelled = (pool.submit(engine.transcribe, clip[0]) for _ in range(2))
        wait_for(lambda: len(waiting(engine, "clips")) == 2, "both wait")
        one, other = sorted((r["id"] for r in waiting(engine, "clips")), key=lambda i: int(i[4:]))

        for dry in (["hold", one], ["move", one, "--to", "recordings"], ["cancel", one, other]):
            done = engine.cli(*dry, "--dry-run", "-o", "json")
            answers = json.loads(done.stdout)
            assert done.returncode == 0 and b"dry run" in done.stderr, done.stderr
            assert [a["request"]["request"] for a in answers] == dry[1:2] + ([other] if dry[0] == "cancel" else [])
            assert all(a["request"]["state"] == "queued" and not a["applied"] for a in answers)
        shown = engine.cli("hold", one, "--dry-run").stdout.decode()
        assert one in shown and "clips, held" in shown
        assert engine.cli("hold", "req-999999", "--dry-run").returncode == 5
        assert engine.snapshot()["revision"] == before and len(waiting(engine, "clips")) == 2

        assert engine.cli("hold", one, "--reason", "looks odd").returncode == 0
        held = engine.snapshot()["revision"]
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["clips"]["held"] == 1, "it is held")
        assert b"has it already" in engine.cli("hold", one).stderr
        assert engine.cli("journal", "revert", str(held), "--dry-run").returncode == 0
        assert engine.cli("journal", "revert", str(held), "--reason", "it is not").returncode == 0
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["clips"]["held"] == 0, "it is let go")
        again = engine.cli("journal", "revert", str(held))
        assert again.returncode == 6 and f"released {one}".encode() in again.stderr, again.stderr

        assert engine.cli("move", one, "--to", "recordings").returncode == 0
        moved = engine.snapshot()["revision"]
        assert [r["id"] for r in waiting(engine, "recordings")] == [one]
        assert engine.cli("journal", "revert", str(moved)).returncode == 0
        assert len(waiting(engine, "clips")) == 2

        assert engine.cli("cancel", other, "--reason", "nobody wants it").returncode == 0
        assert cancelled.result().status_code == 499
        gone = engine.cli("journal", "revert", str(moved + 2))
        assert gone.returncode == 5 and b"cannot be undone" in gone.stderr
        deleted = pool.submit(engine.transcribe, clip[0])
        wait_for(lambda: len(waiting(engine, "clips")) == 2, "one more waits")
        last = max((r["id"] for r in waiting(engine, "clips")), key=lambda i: int(i[4:]))
        assert engine.http.delete(f"/v1/requests/{last}").status_code == 200
        assert deleted.result().status_code == 499

        mine = f"uid:{os.getuid()}"
        told = [(e["kind"], e["actor"], e["request"]["request"], e.get("reason"), e.get("reverts")) for e in entries(engine, before)]
        assert told == [
            ("hand", mine, one, "looks odd", None), ("revert", mine, one, "it is not", held),
            ("hand", mine, one, None, None), ("revert", mine, one, None, moved),
            ("hand", mine, other, "nobody wants it", None), ("hand", "local", last, None, None),
        ]  # fmt: skip
        places = [(e["request"]["from"]["lane"], e["request"]["to"]["lane"]) for e in entries(engine, before)][2:4]
        assert places == [("clips", "recordings"), ("recordings", "clips")]
        table = engine.cli("journal").stdout.decode()
        assert f"{one} of {SPEECH_MODEL}" in table and "looks odd" in table and "cancel" in table
        assert engine.cli("resume", SPEECH_MODEL).returncode == 0
        assert kept.result().status_code == 200
    ended = engine.cli("journal", "revert", str(moved + 1))
    assert ended.returncode == 5 and b"waiting or running" in ended.stderr, ended.stderr


def test_a_hold_for_a_time_ends_although_its_client_is_gone(engine, clip):
    assert engine.cli("pause", f"{SPEECH_MODEL}/clips").returncode == 0
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(engine.transcribe, clip[0])
        wait_for(lambda: len(waiting(engine, "clips")) == 1, "it waits")
        held = waiting(engine, "clips")[0]["id"]
        assert b"released by the engine in 5 s" in engine.cli("hold", held, "--ttl", "5s").stderr
        assert b"then the engine lets it go" in engine.cli("why", held).stdout
        assert engine.cli("resume", f"{SPEECH_MODEL}/clips").returncode == 0
        assert asked.result().status_code == 200, "let go by the engine"
    last = engine.snapshot()["journal_tail"][-1]
    if last["kind"] != "expiry":  # The lane was let go after the hold.
        last = engine.snapshot()["journal_tail"][-2]
    assert (last["kind"], last["actor"], last["request"]["request"]) == ("expiry", "engine", held)


def test_a_restart_leaves_nothing_to_hold_and_a_read_only_engine_refuses():
    """Entries of requests are read again at a start, where their ids mean nothing any more."""
    folder = short_folder()
    settings = (f"models={TEXT_MODEL}", f"models.{TEXT_MODEL}.lanes.clips.paused=true")

    def one_waits(engine, pool):
        asked = pool.submit(engine.embed, "a text")
        wait_for(lambda: engine.snapshot()["requests"]["total"] == 1, "it waits")
        return asked, engine.snapshot()["requests"]["shown"][0]["id"]

    with ThreadPoolExecutor(1) as pool:
        first = Engine(folder, settings=settings)
        try:
            asked, held = one_waits(first, pool)
            assert first.cli("hold", held, "--ttl", "10m", "--reason", "for ever").returncode == 0
            revision = first.snapshot()["revision"]
        finally:
            first.process.kill()
            first.process.wait()
        assert asked.exception() is not None
        second = Engine(folder, settings=(*settings, "control.read_only=true"))
        try:
            asked, same = one_waits(second, pool)
            assert same == held, "ids begin anew"
            assert second.lanes(TEXT_MODEL)["clips"]["held"] == 0
            assert [e["reason"] for e in second.cli_json("journal")["entries"] if e["kind"] == "hand"] == ["for ever"]
            back = second.cli("journal", "revert", str(revision), "--dry-run")
            assert back.returncode == 5 and b"last start" in back.stderr, back.stderr
            for command in (["hold", same], ["release", same], ["cancel", same], ["journal", "revert", str(revision)]):
                refused = second.cli(*command)
                assert refused.returncode in (4, 5) and (refused.returncode == 4 or command[0] == "journal"), refused.stderr
            assert second.http.delete(f"/v1/requests/{same}").status_code == 403
            assert second.cli("cancel", same, "--dry-run").returncode == 0
        finally:
            second.stop()
        assert asked.result().status_code == 503, "drained, not cancelled"


def test_what_cannot_be_done_is_refused(engine):
    assert engine.cli("hold", "req-999999").returncode == 5
    assert engine.cli("hold", "../x").returncode == 2
    assert engine.cli("move", "req-1", "--to", "left").returncode == 2
    for body in [{}, {"held": "yes"}, {"lane": "left"}, {"hold": True}, {"held": True, "cancelled": True}, {"lane": "clips", "ttl_s": 5}]:
        answer = engine.http.patch("/control/v1/requests/req-1", json=body)
        assert answer.status_code == 400, body
