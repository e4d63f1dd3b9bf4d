"""Clips and recordings on one model: slices, turns, bounds and estimates, on the real engine.

Times are compared with times of the same run, never with a clock: the machine may be shared. Two forms are longer than
what runs by default, for a quiet machine:

LANEKEEPER_TEST_RECORDING_S  length of the recording (65; 600 with LANEKEEPER_TEST_CLIPS=20 is the full form, which then
                             also compares with the times that each has alone)
LANEKEEPER_TEST_CLIPS        clips sent after it (5)
LANEKEEPER_TEST_CLIP_EVERY_S seconds between them (1)
LANEKEEPER_TEST_MIXED_S      seconds of random mixed load (120; 1800 for the record)
LANEKEEPER_TEST_REPORT       file that gets the figures, as JSON
"""

import json
import os
import random
import re
import signal
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from conftest import LANGUAGE_MODEL, SPEECH_MODEL, TEXT_MODEL, assert_error, pcm, wait_for, wav
from test_cancel import open_transcription

RECORDING_S = int(os.environ.get("LANEKEEPER_TEST_RECORDING_S", "65"))
CLIPS = int(os.environ.get("LANEKEEPER_TEST_CLIPS", "5"))
CLIP_EVERY_S = float(os.environ.get("LANEKEEPER_TEST_CLIP_EVERY_S", "1"))
MIXED_S = int(os.environ.get("LANEKEEPER_TEST_MIXED_S", "120"))
FULL = RECORDING_S >= 600
SECOND = 32_000
WHOLE = f"models.{SPEECH_MODEL}.long_form.slice_windows=whole"


def report(**figures):
    path = os.environ.get("LANEKEEPER_TEST_REPORT")
    print(json.dumps(figures))
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(figures) + "\n")


@pytest.fixture(scope="module")
def speech(clips) -> bytes:
    """Samples of continuous reading, as long as the longest recording here."""
    once = b"".join(pcm(audio) + bytes(SECOND // 4) for audio, _ in clips[:13])
    length = max(RECORDING_S, 120) * SECOND
    return (once * (length // len(once) + 1))[:length]


@pytest.fixture(scope="module")
def recording(speech) -> bytes:
    return wav(speech[: RECORDING_S * SECOND])


@pytest.fixture(scope="module")
def short(speech) -> list[bytes]:
    """Clips of 3 s, none like another."""
    starts = range(0, 60 * SECOND, 5 * SECOND // 4)
    return [wav(speech[start : start + 3 * SECOND]) for start in starts]


def queue(engine) -> dict:
    return engine.model(SPEECH_MODEL)["queues"][0]


def last_turn(q: dict) -> int:
    """Number of the last turn of clips that has begun."""
    turns = [batch["turn"] for batch in q["inflight"] + q["recent"] if "turn" in batch]
    if q.get("turn", {}).get("kind") == "clips":
        turns.append(q["turn"]["number"])
    return max(turns, default=0)


class Watch:
    """Looks at every snapshot: no clip may wait for more turns than it was told, whatever came after it."""

    def __init__(self, engine):
        self.engine, self.bounds, self.broken = engine, {}, []
        self.batches, self.waits, self.resident = {}, [], []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        with httpx.Client(base_url=self.engine.url, timeout=30) as http:
            while not self.over.wait(0.05):
                self.look(http.get("/control/v1/snapshot").json())

    def look(self, snapshot: dict):
        self.resident.append(snapshot["host"].get("resident_bytes", 0))
        q = next(m for m in snapshot["models"] if m["id"] == SPEECH_MODEL)["queues"][0]
        turn = last_turn(q)
        for batch in q["recent"]:
            self.batches[batch["batch"]] = batch
        for request in snapshot["requests"]["shown"]:
            wait = request.get("wait")
            if request["model"] != SPEECH_MODEL or request.get("lane") != "clips" or not wait:
                continue
            self.waits.append(wait)
            if "turns_left" not in wait:
                # Without turns there is no bound, and what was owed is forgotten.
                self.bounds.pop(request["id"], None)
                continue
            bound = min(turn + wait["turns_left"], self.bounds.get(request["id"], 1 << 62))
            self.bounds[request["id"]] = bound
            if turn > bound:
                self.broken.append((request["id"], turn, bound))


def send_clips(engine, short, n: int, every_s: float, pool) -> list:
    """Sends a clip each so many seconds; gives (latency, queue time) of each, in seconds."""

    def one(audio):
        began = time.monotonic()
        answer = engine.transcribe(audio)
        assert answer.status_code == 200, answer.text
        return time.monotonic() - began, float(answer.headers["x-queue-ms"]) / 1000, time.monotonic()

    sent = []
    for index in range(n):
        sent.append(pool.submit(one, short[index % len(short)]))
        time.sleep(every_s)
    return sent


def timed(call):
    began = time.monotonic()
    answer = call()
    assert answer.status_code == 200, answer.text
    return time.monotonic() - began, answer


def own_time(answer) -> float:
    """Queue and run of a request, in seconds: without its sending, which others' sending delays."""
    return (float(answer.headers["x-queue-ms"]) + float(answer.headers["x-run-ms"])) / 1000


def test_clips_do_not_wait_for_a_recording(own_engine, recording, short):
    """C01, and its whole kind: clips go between the windows of a recording, whose transcript stays what it was."""
    verbose = {"response_format": "verbose_json"}
    engine = own_engine(WHOLE)
    with ThreadPoolExecutor(4) as pool:
        # As it was: the clip has to wait until the recording has ended.
        long = pool.submit(engine.transcribe, recording, **verbose)
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["running"] == 1, "the recording runs")
        clip = pool.submit(engine.transcribe, short[0])
        whole, late = long.result(), clip.result()
        assert late.status_code == 200
        wait_for(lambda: len(queue(engine)["recent"]) == 2, "both batches are shown")
        ran = [b["lane"] for b in queue(engine)["recent"]]
        assert ran == ["recordings", "clips"], ran
        # The clip came while the recording ran: it waited for nearly all of it.
        assert float(late.headers["x-queue-ms"]) > 0.5 * float(whole.headers["x-run-ms"])
    engine.stop()

    engine = own_engine()
    solo_clip = min(timed(lambda: engine.transcribe(short[1]))[0] for _ in range(3))
    solo_long = own_time(timed(lambda: engine.transcribe(recording))[1]) if FULL else None
    with ThreadPoolExecutor(CLIPS + 2) as pool, Watch(engine) as watch:
        began = time.monotonic()
        long = pool.submit(engine.transcribe, recording, **verbose)
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["running"] == 1, "the recording runs")
        sent = send_clips(engine, short, CLIPS, CLIP_EVERY_S, pool)
        answers = [clip.result() for clip in sent]
        sliced = long.result()
    took = own_time(sliced)
    assert sliced.status_code == 200 and sliced.content == whole.content, "slices change nothing"
    assert not watch.broken, watch.broken

    slices = [b for b in watch.batches.values() if b["lane"] == "recordings"]
    turns = [b for b in watch.batches.values() if b["lane"] == "clips"]
    # Each recording ends with a slice of its own; the full form has sent one alone before.
    assert len(slices) >= RECORDING_S // 30 and sum(not b["put_aside"] for b in slices) <= (2 if FULL else 1)
    assert answers[0][2] < began + took, "the first clip is answered long before the recording"
    window = max(b["run_ms"] for b in slices) / 1000
    batch = max(b["run_ms"] for b in turns) / 1000
    queues = sorted(queue_s for _, queue_s, _ in answers)
    # What may go first: the window that runs and the turn of clips under way, then a window, as often as clips are more
    # than their share. A window of the whole kind would be every window there is.
    assert queues[0] < window + 0.5, "the first waits for one window at most"
    assert statistics.median(queues) < 3 * (window + batch)

    wide = engine.cli("lanes", "-o", "wide").stdout.decode()
    error = engine.lanes(SPEECH_MODEL)["clips"]["estimate_error"]
    assert "ESTIMATES OFF" in wide and f"{error['median_ratio']:.0%}" in wide
    report(
        test="clips beside a recording", recording_s=RECORDING_S, clips=CLIPS, solo_clip_s=solo_clip, solo_recording_s=solo_long,
        latency_s=[round(latency, 3) for latency, _, _ in answers], recording_took_s=took, window_s=window,
        estimate_error=error, service=[lane["service"] for lane in queue(engine)["lanes"]],
    )  # fmt: skip
    if FULL:
        # The same load, in virtual time, with the times that batches took.
        file = engine.folder / "arrivals.json"
        assert engine.cli("record", str(file), "--last", f"{took + 2:.0f}s").returncode == 0
        replay = engine.cli_json("simulate", "--trace", str(file))["recorded"]
        report(test="replay", fits=replay["fits"], lanes=replay["lanes"])
        limit = 2 * solo_clip + window
        within = sum(latency <= limit for latency, _, _ in answers) / len(answers)
        assert within >= 0.95, (within, limit, answers)
        assert took <= 1.5 * solo_long, (took, solo_long)
        assert error["median_ratio"] <= 0.30, error
        for lane in replay["lanes"]:
            assert abs(lane["error"]["done_p50"]) <= 0.15, lane


def test_why_a_clip_waits(own_engine, recording, short):
    """`why` gives reason, place, bound and estimate while a clip waits; turns, caps and lanes show the same moment."""
    engine = own_engine(f"models.{SPEECH_MODEL}.lanes.recordings.share=0.9")
    engine.text(short[0])
    held = open_transcription(engine, recording)
    wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"].get("service"), "a window has been measured")
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(engine.text, audio) for audio in short[:3]]

        def asked():
            clips = [r for r in engine.snapshot()["requests"]["shown"] if r.get("lane") == "clips" and r.get("wait")]
            if not clips:
                return None
            done = engine.cli("why", clips[-1]["id"])
            text = done.stdout.decode()
            return (clips[-1]["id"], text) if "waits:" in text and "about" in text else None

        request, text = wait_for(asked, "a clip is seen waiting")
        for line in ("for", "place", "bound", "estimate", "so far", "to do"):
            assert re.search(rf"^  {line} +\S", text, re.MULTILINE), text
        told = engine.cli_json("why", request)
        assert told["id"] == request and told["lane"] == "clips"
        turns = engine.cli_json("turns")
        assert turns[0]["slice_windows"] == 1 and turns[0]["recordings_share"] == 0.9
        assert "clips" in engine.cli("turns").stdout.decode()
        for answer in waiting:
            assert answer.result()
    held.close()
    caps = {(c["model"], c["op"]): c for c in engine.cli_json("caps")}
    assert caps[(SPEECH_MODEL, "transcribe")]["caps"]["max_batch_cost_hard"] == 720_000
    assert "EFFECTIVE" in engine.cli("caps", "-o", "wide").stdout.decode()
    missing = engine.cli("why", "req-999999")
    assert missing.returncode == 5 and b"no request" in missing.stderr
    wait_for(engine.idle, "the engine is idle")
    assert "does not wait" in engine.cli("why", request).stdout.decode()
    metrics = engine.http.get("/metrics").text
    assert re.search(r'lanekeeper_turns_total\{.*kind="slice"\} [1-9]', metrics)
    assert "lanekeeper_owed{" in metrics and "lanekeeper_engine_seconds_total{" in metrics


def test_drain_lets_a_recording_that_has_started_end(own_engine, speech, short):
    """C56 for recordings in slices: the one that has begun streams to its end, what waits gets 503."""
    engine = own_engine()
    audio = wav(speech[: 50 * SECOND])
    alone = engine.text(audio)

    def stream():
        with engine.http.stream(
            "POST", "/v1/audio/transcriptions", files={"file": ("a.wav", audio)}, data={"model": SPEECH_MODEL, "stream": "true"}
        ) as answer:
            frames = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
        return answer.status_code, frames

    with ThreadPoolExecutor(4) as pool:
        started = pool.submit(stream)
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["running"] == 1, "the recording runs")
        clip = pool.submit(engine.transcribe, short[0])
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["put_aside"] == 1, "it is put aside for the clip")
        late = pool.submit(engine.transcribe, audio)
        wait_for(lambda: engine.lanes(SPEECH_MODEL)["recordings"]["pending"] == 1, "a second recording waits")
        engine.process.send_signal(signal.SIGTERM)
        assert_error(late.result(), 503, says="drain")
        assert clip.result().status_code == 200
        status, frames = started.result()
    assert status == 200 and frames[-1]["type"] == "transcript.text.done"
    deltas = "".join(frame["delta"] for frame in frames if frame["type"] == "transcript.text.delta")
    assert frames[-1]["text"].strip() == alone.strip() == deltas.strip()
    assert engine.process.wait(120) == 0, engine.log()


def test_random_mixed_load(own_engine, speech):
    """Everything at once, at random: nobody fails, every clip is taken within its bound, memory stays where it was."""
    engine = own_engine()
    # How long is of no interest here: on a busy machine a recording beside four clients with clips takes minutes.
    engine.http.timeout = 15 * 60
    # What every model allocates once, it has now.
    engine.text(wav(speech[: 40 * SECOND]))
    engine.embed(["warm"] * 8)
    engine.complete("Warm", max_tokens=4)
    seed = int(os.environ.get("LANEKEEPER_TEST_SEED", "1"))
    end = time.monotonic() + MIXED_S
    counts, failures = {}, []

    def audio(rng, low: float, high: float) -> bytes:
        start = rng.randrange(0, len(speech) // 4, 2)
        return wav(speech[start : start + int(rng.uniform(low, high) * 16_000) * 2])

    def clip(rng):
        return engine.transcribe(audio(rng, 1, 12))

    def recording(rng):
        return engine.transcribe(audio(rng, 31, 60))

    def leave(rng):
        s = open_transcription(engine, audio(rng, 2, 50))
        time.sleep(rng.uniform(0, 1.5))
        s.close()

    def embed(rng):
        return engine.embed([f"text {rng.randint(0, 99)} " * rng.randint(1, 40) for _ in range(rng.randint(1, 6))])

    def rerank(rng):
        documents = [f"document {rng.random()}" for _ in range(rng.randint(1, 6))]
        return engine.http.post("/v1/rerank", json={"model": TEXT_MODEL, "query": "a document", "documents": documents})

    def chat(rng):
        message = [{"role": "user", "content": f"Count to {rng.randint(2, 20)}."}]
        body = {"model": LANGUAGE_MODEL, "messages": message, "max_tokens": rng.randint(1, 12)}
        return engine.http.post("/v1/chat/completions", json=body)

    def client(number: int, kinds: list):
        rng = random.Random(seed * 1000 + number)
        while time.monotonic() < end:
            kind = rng.choice(kinds)
            answer = kind(rng)
            counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
            if answer is not None and answer.status_code != 200:
                failures.append((kind.__name__, answer.status_code, answer.text[:200]))
            time.sleep(rng.uniform(0, 0.3))

    clients = [[clip], [clip], [clip], [recording], [leave, clip], [embed, rerank], [chat]]
    with Watch(engine) as watch, ThreadPoolExecutor(len(clients)) as pool:
        for done in [pool.submit(client, number, kinds) for number, kinds in enumerate(clients)]:
            done.result()
    wait_for(engine.idle, "the engine is idle")
    assert not failures, failures
    assert not watch.broken, watch.broken
    assert all(counts.get(kind) for kind in ("clip", "recording", "embed", "chat")), counts
    for model in engine.snapshot()["models"]:
        for q in model["queues"]:
            assert q["counters"]["failed"] == q["counters"]["expired"] == 0, (model["id"], q["counters"])
            assert sum(lane["pending"] + lane["running"] for lane in q["lanes"]) == 0
    half = watch.resident[len(watch.resident) // 2 :]
    lanes = queue(engine)["lanes"]
    report(
        test="random mixed load", seconds=MIXED_S, counts=counts, failures=len(failures), resident_mb=[
            round(statistics.mean(part) / 1e6) for part in (watch.resident[: len(half)] or half, half)
        ], peak_mb=round(max(watch.resident) / 1e6), bounded_waits=len(watch.bounds),
        estimate_error={lane["lane"]: lane.get("estimate_error") for lane in lanes}, latency=queue(engine)["latency"],
    )  # fmt: skip
    if MIXED_S >= 120:
        quarter = len(watch.resident) // 4
        first, last = (statistics.mean(part) for part in (watch.resident[quarter : 2 * quarter], watch.resident[-quarter:]))
        assert last < first * 1.1 + 50e6, (first, last)
