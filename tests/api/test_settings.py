"""Settings of a running engine: what may be set, what becomes of it, and what is left of it after a kill."""

import json
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from conftest import CLIPS, LANGUAGE_MODEL, SPEECH_MODEL, TEXT_MODEL, Engine, assert_error, pcm, short_folder, wait_for, wav

WAIT, DEPTH = f"models.{TEXT_MODEL}.wait_ms", f"models.{TEXT_MODEL}.depth"
ONE_MODEL = f"models={TEXT_MODEL}"
# Points at which the engine is killed: twelve seconds of the suite.
KILLS = 50


@pytest.fixture(scope="module")
def small():
    """An engine with the text model alone, for tests that leave no setting behind."""
    e = Engine(short_folder(), settings=(ONE_MODEL,))
    yield e
    assert e.stop() == 0, e.log()


@pytest.fixture
def clean(small):
    """It, with no live setting before and after."""
    assert small.snapshot()["overrides"] == []
    yield small
    small.cli("unset", "--all")
    assert small.snapshot()["overrides"] == []


def change(engine, **fields):
    return engine.http.post("/control/v1/changes", json=fields)


def caps(engine, model=TEXT_MODEL):
    return engine.model(model)["queues"][0]["caps"]


def test_knobs_and_get(clean):
    knobs = clean.cli_json("knobs")
    assert knobs["schema"] == "lanekeeper.knobs/1" and not knobs["read_only"]
    wait = next(k for k in knobs["knobs"] if k["name"] == WAIT)
    assert (wait["value"], wait["unit"], wait["takes"], wait["layer"]) == ("5", "ms", "live", "profile")
    assert (wait["envelope"]["min"], wait["envelope"]["max"]) == (0, 60000)
    threads = next(k for k in knobs["knobs"] if k["name"] == "cpu.threads")
    assert threads["takes"] == "restart"
    shown = clean.cli("get", "models")
    assert shown.returncode == 5 and b"knobs" in shown.stderr
    shown = clean.cli("get", WAIT + "s")
    assert shown.returncode == 5 and WAIT.encode() in shown.stderr, "the nearest name"
    assert clean.cli("set", f"{WAIT}=40", "--reason", "a test").returncode == 0
    layers = clean.cli_json("get", WAIT)[0]["layers"]
    assert [(la["layer"], la["value"]) for la in layers] == [("live", "40"), ("profile", "5"), ("built_in", "15")]
    assert f"uid:{os.getuid()}" in layers[0]["origin"]
    listed = clean.cli("knobs", "--changed", "minilm").stdout.decode()
    assert WAIT in listed and "live" in listed


def test_a_change_takes_effect_and_is_undone(clean):
    revision = clean.snapshot()["revision"]
    assert clean.cli("diff").returncode == 0
    done = clean.cli("set", f"{WAIT}=40ms", f"{DEPTH}=3", "--reason", "a test", "-o", "json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["applied"] and answer["revision"] == revision + 1
    wait_for(lambda: (caps(clean)["wait_ms"], caps(clean)["depth"]) == (40, 3), "the worker has taken both")
    assert clean.embed("a text").status_code == 200
    shown = clean.snapshot()
    assert {o["knob"]: o["value"] for o in shown["overrides"]} == {WAIT: "40ms", DEPTH: "3"}
    last = shown["journal_tail"][-1]
    assert (last["kind"], last["reason"], last["actor"]) == ("change", "a test", f"uid:{os.getuid()}")
    diff = clean.cli("diff", "-o", "json")
    assert diff.returncode == 10 and {d["knob"] for d in json.loads(diff.stdout)} == {WAIT, DEPTH}
    assert clean.cli("journal", "revert", str(answer["revision"])).returncode == 0
    wait_for(lambda: caps(clean)["wait_ms"] == 5, "the change is undone")
    assert clean.cli("diff").returncode == 0
    entries = clean.cli_json("journal")["entries"]
    assert (entries[-1]["kind"], entries[-1]["reverts"]) == ("revert", answer["revision"])


def test_refusals_and_their_exit_codes(clean):
    before = clean.snapshot()["revision"]
    for arguments, code, says in [
        ((f"{WAIT}=soon",), 5, "unknown suffix"),
        ((f"{WAIT}=3", f"{DEPTH}=99"), 5, "outside 1"),
        ((f"models.{TEXT_MODEL}.wait_sm=3",), 5, "wait_ms"),
        ((f"models.{TEXT_MODEL}.max_queue=900000",), 5, "was made for"),
        (("cpu.threads=1",), 5, "persist"),
        ((WAIT,), 2, "KNOB=VALUE"),
        ((f"{WAIT}=3", "--ttl", "1s", "--persist"), 2, "cannot be used with"),
        ((f"{WAIT}=3", "--if-revision", "0"), 6, f"revision {before}, not 0: .* at 20.*Z"),
    ]:
        done = clean.cli("set", *arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert re.search(says, done.stderr.decode()), (arguments, done.stderr)
    assert clean.snapshot()["revision"] == before and caps(clean)["depth"] == 1
    dry = clean.cli("set", f"{WAIT}=3", "--dry-run")
    assert dry.returncode == 0 and b"dry run" in dry.stderr and clean.snapshot()["revision"] == before
    assert_error(change(clean, sett={}), 400, says="sett")
    assert_error(change(clean, set={WAIT: None}), 400, param=WAIT)
    assert_error(change(clean, set={WAIT: 3}, if_revision=0), 409, param="if_revision")
    assert change(clean, set={WAIT: 16, f"models.{TEXT_MODEL}.idle_bypass": True}).status_code == 200


def test_apply_says_where_a_fault_stands(clean):
    path = clean.folder / "evening.yaml"
    path.write_text(f"reason: evening\nset:\n  models:\n    {TEXT_MODEL}:\n      wait_ms: 30\n      dpeth: 2\n")
    done = clean.cli("apply", "-f", str(path))
    assert done.returncode == 5 and f"{path}:6:7: ".encode() in done.stderr and b"depth" in done.stderr, done.stderr
    path.write_text(path.read_text().replace("dpeth", "depth") + "ttl: 1h\n")
    assert clean.cli("apply", "-f", str(path)).returncode == 0
    override = next(o for o in clean.snapshot()["overrides"] if o["knob"] == DEPTH)
    assert override["reason"] == "evening" and 3_500_000 < override["left_ms"] <= 3_600_000
    path.write_text("sett: {}\n")
    done = clean.cli("apply", "-f", str(path))
    assert done.returncode == 5 and b":1:1:" in done.stderr and b"`set`" in done.stderr


def test_a_lease_ends_although_its_client_is_gone(clean):
    assert clean.cli("set", f"{WAIT}=20").returncode == 0
    assert clean.cli("set", f"{WAIT}=50", "--ttl", "1s").returncode == 0
    wait_for(lambda: caps(clean)["wait_ms"] == 50, "it holds")
    assert 0 < clean.snapshot()["overrides"][0]["left_ms"] <= 1_000
    wait_for(lambda: caps(clean)["wait_ms"] == 20, "it has ended, and what it hid holds again", 10)
    last = clean.snapshot()["journal_tail"][-1]
    assert (last["kind"], last["actor"]) == ("expiry", "engine")


def test_a_plan_replays_what_arrived_and_changes_nothing(clean):
    for n in range(6):
        assert clean.embed([f"text {n}", "another"]).status_code == 200
    before = clean.snapshot()["revision"]
    plan = clean.cli_json("plan", f"models.{TEXT_MODEL}.max_batch_requests=1", f"models.{TEXT_MODEL}.max_queue=9")
    assert {c["knob"].split(".")[-1] for c in plan["change"]["changes"]} == {"max_batch_requests", "max_queue"}
    report = plan["replays"][0]
    assert [run["settings"]["name"] for run in report["runs"]] == ["now", "planned"]
    assert [run["settings"]["max_batch_requests"] for run in report["runs"]] == [caps(clean)["max_batch_requests"], 1]
    assert report["recorded"]["lanes"][0]["served"] >= 6
    assert len(plan["remarks"]) == 1 and "max_queue" in plan["remarks"][0]
    shown = clean.cli("plan", f"models.{TEXT_MODEL}.wait_ms=40")
    assert shown.returncode == 0 and b"planned" in shown.stdout and b"recorded" in shown.stdout
    assert clean.cli("plan", f"models.{TEXT_MODEL}.wait_sm=40").returncode == 5
    assert clean.snapshot()["revision"] == before


def test_hands_on_work(clean):
    assert clean.cli("pause", TEXT_MODEL, "--reason", "look").returncode == 0
    wait_for(lambda: clean.lanes(TEXT_MODEL)["clips"]["paused"], "the lane is held")
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(clean.embed, "held")
        wait_for(lambda: clean.lanes(TEXT_MODEL)["clips"]["pending"] == 1, "it waits")
        assert clean.cli("resume", f"{TEXT_MODEL}/clips").returncode == 0
        assert waits.result().status_code == 200
    assert clean.cli("diff").returncode == 0, "a resumed lane leaves nothing behind"
    assert clean.cli("pause", "recordings").returncode == 5
    assert clean.cli("freeze", TEXT_MODEL).returncode == 0
    wait_for(lambda: clean.model(TEXT_MODEL)["queues"][0]["controller"]["frozen"], "the controller is frozen")
    assert clean.cli("thaw", TEXT_MODEL).returncode == 0
    drained = clean.cli("drain", "--timeout", "20s")
    assert drained.returncode == 0 and b"nothing runs" in drained.stderr
    assert_error(clean.embed("a text"), 503, says="draining")
    assert clean.http.get("/readyz").status_code == 503
    assert clean.cli("undrain").returncode == 0
    assert clean.embed("a text").status_code == 200
    assert clean.cli("diff").returncode == 0


def test_read_only(own_engine):
    engine = own_engine(ONE_MODEL, "control.read_only=true", wait_ready=False)
    wait_for(lambda: engine.cli("knobs").returncode == 0, "it answers")
    done = engine.cli("set", f"{WAIT}=3")
    assert done.returncode == 4 and b"read-only" in done.stderr
    assert engine.cli_json("knobs")["read_only"]


def test_the_key_is_who_changed_it(own_engine):
    engine = own_engine(ONE_MODEL, environment={"LANEKEEPER_KEYS": "ops read,control 0123456789;board read 9876543210"}, wait_ready=False)
    wait_for(lambda: engine.cli("knobs").returncode == 0, "it answers")
    body = {"set": {WAIT: 3}, "reason": "a key"}
    assert engine.http.post("/control/v1/changes", json=body).status_code == 401
    board = engine.http.post("/control/v1/changes", json=body, headers={"authorization": "Bearer 9876543210"})
    assert board.status_code == 403
    ops = engine.http.post("/control/v1/changes", json=body, headers={"authorization": "Bearer 0123456789"})
    assert ops.status_code == 200
    entry = engine.cli_json("journal")["entries"][-1]
    assert (entry["actor"], entry["reason"]) == ("key:ops", "a key") and "0123456789" not in json.dumps(entry)


def start_in(folder, *settings):
    engine = Engine(folder, settings=(ONE_MODEL, *settings), wait_ready=False)
    wait_for(lambda: alive(engine), "it answers")
    return engine


def alive(engine):
    try:
        return engine.http.get("/livez").status_code == 200 and engine.http.get("/control/v1/knobs").status_code == 200
    except Exception:
        assert engine.process.poll() is None, engine.log()
        return False


def values(engine):
    knobs = engine.http.get("/control/v1/knobs").json()["knobs"]
    return {k["name"]: k.get("value") for k in knobs}


def test_a_kill_at_any_point_loses_nothing_that_was_answered():
    """Changes of two knobs at once, one after the other, until the engine is killed; then it is started again."""
    folder, rng = short_folder(), random.Random(5)
    accepted = sent = 0
    # Effects of changes are written between them: no change is lost for those either.
    measured = "control.effect_window_s=0.1"
    engine = start_in(folder, measured)
    try:
        for _ in range(KILLS):
            stop = threading.Event()

            def keep_changing():
                nonlocal accepted, sent
                while not stop.is_set():
                    sent += 1
                    share = 1 + sent % 900_000
                    try:
                        answer = change(engine, set={WAIT: sent, f"models.{TEXT_MODEL}.adaptive.starved_after": share}, persist=True)
                    except Exception:
                        return
                    assert answer.status_code == 200, answer.text
                    accepted = sent

            writer = threading.Thread(target=keep_changing)
            before = accepted
            writer.start()
            wait_for(lambda: accepted > before, "changes are accepted")
            time.sleep(rng.uniform(0, 0.12))
            engine.process.send_signal(signal.SIGKILL)
            engine.process.wait()
            stop.set()
            writer.join()
            engine = start_in(folder, measured)
            held = values(engine)
            window, starved = int(held[WAIT]), int(held[f"models.{TEXT_MODEL}.adaptive.starved_after"])
            assert starved == window + 1, "never half a change"
            assert accepted <= window <= sent, (accepted, window, sent)
            accepted = sent = window
            entries = engine.http.get("/control/v1/journal?last=400").json()["entries"]
            revisions = [e["revision"] for e in entries]
            assert revisions == list(range(revisions[0], revisions[0] + len(revisions))), "no hole in the journal"
            assert all(len(e["changes"]) == 2 for e in entries if e["kind"] == "change")
        engine.stop()
        engine = Engine(folder, settings=(ONE_MODEL,), wait_ready=False, fresh=True)
        wait_for(lambda: alive(engine), "it answers")
        assert values(engine)[WAIT] == "5", "a fresh start forgets what was set for good"
    finally:
        engine.process.kill()
        engine.process.wait()


class Load:
    """Four streams, two clips a second and one recording at a time, until it is stopped; and what became of them."""

    def __init__(self, engine):
        self.engine, self.stop, self.failures, self.served = engine, threading.Event(), [], Counter()
        self.clip = (CLIPS / "01.flac").read_bytes()
        speech = pcm(self.clip)
        self.recording = wav(speech * (1 + 70 * 32_000 // len(speech)))
        self.threads = [threading.Thread(target=self.streams, args=(i,)) for i in range(4)]
        self.threads += [threading.Thread(target=self.recordings), threading.Thread(target=self.clips)]
        for thread in self.threads:
            thread.start()

    def done(self, kind: str, why: str | None):
        self.served[kind] += 1
        if why is not None:
            self.failures.append((kind, why))

    def streams(self, number: int):
        body = {"model": LANGUAGE_MODEL, "max_tokens": 48, "ignore_eos": True, "temperature": 0, "stream": True}
        body["prompt"] = ["The sun rises in the", "one two three one two three one two"][number % 2]
        with httpx.Client(base_url=self.engine.url, timeout=120) as http:
            while not self.stop.is_set():
                with http.stream("POST", "/v1/completions", json=body) as answer:
                    lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
                whole = answer.status_code == 200 and lines[-1] == "data: [DONE]" and "error" not in "".join(lines)
                self.done("streams", None if whole else f"{answer.status_code}: {lines[-2:]}")

    def transcribe(self, kind: str, audio: bytes, name: str):
        answer = self.engine.transcribe(audio, name)
        self.done(kind, None if answer.status_code == 200 and answer.json()["text"] else answer.text)

    def recordings(self):
        while not self.stop.is_set():
            self.transcribe("recordings", self.recording, "recording.wav")

    def clips(self):
        began, sent = time.monotonic(), 0
        with ThreadPoolExecutor(64) as pool:
            while not self.stop.wait(max(0.0, began + sent / 2 - time.monotonic())):
                pool.submit(self.transcribe, "clips", self.clip, "01.flac")
                sent += 1

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return self.failures


def test_under_load_no_request_notices(engine):
    """C55: caps, shares, speculation, lanes and controllers are changed and changed back while everything is in use. Each
    change is seen within one batch, each is an entry of the journal, and none is left at the end."""
    prefix, language = f"models.{SPEECH_MODEL}", f"models.{LANGUAGE_MODEL}"
    queue = lambda s: next(m for m in s["models"] if m["id"] == SPEECH_MODEL)["queues"][0]
    lane = lambda s, name: next(la for la in queue(s)["lanes"] if la["lane"] == name)
    words = lambda s: s["generation"][0]
    # Batches of speech that have begun, and passes over running answers: what a change may be behind by one.
    batches = lambda s: max([b["batch"] for b in queue(s)["inflight"] + queue(s)["recent"]], default=0)
    passes = lambda s: words(s)["iterations"]
    cap = lambda n: (f"{prefix}.max_batch_tokens", n, batches, lambda s: queue(s)["caps"]["max_batch_cost"] == int(n))
    policy = lambda p: (f"{language}.speculation.policy", p, passes, lambda s: words(s)["speculation"]["policy"] == p)
    sets = [
        cap("20000"),
        cap("60000"),
        (f"{prefix}.lanes.recordings.share", "0.25", batches, lambda s: lane(s, "recordings")["share"] == 0.25),
        policy("off"),
        policy("force"),
        (f"{language}.generation.slots", "2", passes, lambda s: words(s)["slots"] == 2),
    ]
    paused = f"{prefix}.lanes.recordings.paused"
    named = [
        (["pause", f"{SPEECH_MODEL}/recordings"], paused, "true", batches, lambda s: lane(s, "recordings")["paused"]),
        (["resume", f"{SPEECH_MODEL}/recordings"], paused, None, batches, lambda s: not lane(s, "recordings")["paused"]),
        (["pause", LANGUAGE_MODEL], f"{language}.generation.paused", "true", passes, lambda s: words(s)["slots_used"] == 0),
        (["resume", LANGUAGE_MODEL], f"{language}.generation.paused", None, passes, lambda s: words(s)["slots_used"] > 0),
        (["freeze", SPEECH_MODEL], f"{prefix}.adaptive.freeze", "true", batches, lambda s: queue(s)["controller"]["frozen"]),
        (["try", f"{prefix}.wait_ms=30", "--for", "10m", "--guard", f"{prefix}.lanes.clips.pending<200 && state==ready"],
         f"{prefix}.wait_ms", "30", batches, lambda s: queue(s)["caps"]["wait_ms"] == 30),
    ]  # fmt: skip
    steps = [(["set", f"{knob}={value}"], knob, value, count, seen) for knob, value, count, seen in sets] + named
    # What runs goes on to its end when a lane is held or slots are fewer: that has no bound in passes.
    drains = {f"{language}.generation.paused", f"{language}.generation.slots"}

    def settings_of(s):
        caps, language = queue(s)["caps"], words(s)
        of_batches = (caps["max_batch_cost"], caps["wait_ms"], queue(s)["controller"]["frozen"], lane(s, "recordings")["share"])
        return (*of_batches, language["slots"], language["speculation"]["policy"])

    load = Load(engine)
    try:
        wait_for(lambda: min(load.served[kind] for kind in ("streams", "clips")) > 0, "answers come")
        wait_for(lambda: lane(engine.snapshot(), "recordings")["running"] > 0, "and a recording runs")
        before = engine.snapshot()
        for number, (arguments, knob, _, count, seen) in enumerate(steps):
            done = engine.cli(*arguments, "--reason", f"step {number}")
            assert done.returncode == 0, (arguments, done.stderr)
            answered, end = count(shown := engine.snapshot()), time.monotonic() + 120
            while not seen(shown):
                assert time.monotonic() < end, f"{arguments} is not seen"
                # The batch that ran at that moment, and the next one, which may have been formed already.
                assert knob in drains or count(shown) <= answered + 1, f"{arguments} is not seen after {count(shown) - answered}"
                shown = engine.snapshot()
            if arguments[0] == "set" and knob not in drains:
                # Work is done with the new value before the next one comes.
                wait_for(lambda count=count, answered=answered: count(engine.snapshot()) > answered, "work goes on")
        shown = engine.snapshot()
        for invalid in (f"{prefix}.depth=0", f"{prefix}.max_batch_tokens=a lot", f"{language}.generation.slots=99", "nothing=1"):
            assert engine.cli("set", invalid).returncode == 5
        after = engine.snapshot()
        assert (after["revision"], len(after["overrides"])) == (shown["revision"], len(shown["overrides"])), "nothing of it"
        diff = engine.cli("diff", "-o", "json")
        held = {step[1] for step in steps} - {paused, f"{language}.generation.paused"}
        assert diff.returncode == 10 and {d["knob"] for d in json.loads(diff.stdout)} == held
        layers = {la["layer"]: la.get("value") for la in engine.cli_json("get", f"{prefix}.max_batch_tokens")[0]["layers"]}
        assert layers["live"] == "60000" and len(layers) > 1, "what runs and what the file says, side by side"

        # The last two are taken back one by one, the rest at once.
        last = before["revision"] + len(steps)
        for revision in (last, last - 1):
            assert engine.cli("journal", "revert", str(revision)).returncode == 0
        assert engine.cli("unset", "--all", "--reason", "as it was").returncode == 0
        wait_for(lambda: settings_of(engine.snapshot()) == settings_of(before), "all is as it was")
        assert engine.cli("diff").returncode == 0 and engine.snapshot()["overrides"] == []

        entries = [e for e in engine.cli_json("journal", "-n", "100")["entries"] if e["revision"] > before["revision"]]
        assert [e["revision"] for e in entries] == list(range(before["revision"] + 1, last + 4)), "one after the other"
        assert {e["actor"] for e in entries} == {f"uid:{os.getuid()}"}
        for number, ((_, knob, value, *_), entry) in enumerate(zip(steps, entries)):
            (one,) = entry["changes"]
            live = one["now"]["value"] if one.get("now") else None
            assert (entry["kind"], entry.get("reason"), one["knob"], live) == ("change", f"step {number}", knob, value)
        assert [(e["kind"], e.get("reverts")) for e in entries[len(steps) :]] == [("revert", last), ("revert", last - 1), ("change", None)]
        assert {c["knob"] for c in entries[-1]["changes"]} == held - {step[1] for step in steps[-2:]}
    finally:
        engine.cli("unset", "--all")
        failures = load.end()
    assert not failures, failures
    assert min(load.served[kind] for kind in ("streams", "clips", "recordings")) > 0, load.served
