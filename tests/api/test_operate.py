"""Probes, limits, keys, draining: what an operator counts on."""

import json
import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from conftest import BINARY, LANGUAGE_MODEL, SPEECH_MODEL, TEXT_MODEL, assert_error, wait_for
from test_cancel import open_completion


def test_unknown_routes_and_methods(engine):
    assert_error(engine.http.get("/v1/nothing"), 404)
    assert_error(engine.http.get("/v1/embeddings"), 405)
    assert_error(engine.http.post("/v1/embeddings", content=b"{}", headers={"content-type": "text/plain"}), (400, 415))


def test_probes_and_metrics(engine):
    assert engine.http.get("/livez").status_code == 200
    assert engine.http.get("/readyz").status_code == 200
    assert engine.http.get("/progressz").status_code == 200
    metrics = engine.http.get("/metrics")
    assert metrics.status_code == 200 and "# TYPE lanekeeper_" in metrics.text


def test_full_queue(own_engine):
    """C02: no more than slot + queue admitted; the rest 429 at once with Retry-After, never 500."""
    engine = own_engine(f"models.{LANGUAGE_MODEL}.generation.slots=1", f"models.{LANGUAGE_MODEL}.generation.queue=4")
    engine.complete("warm", max_tokens=1)

    def ask(_):
        began = time.monotonic()
        return engine.complete("Tell a long story.", max_tokens=64, ignore_eos=True), time.monotonic() - began

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(ask, range(10)))
    refused = [(a, t) for a, t in answers if a.status_code != 200]
    # A slot may be free again before the last of the ten arrives.
    assert 4 <= len(refused) <= 5
    for answer, _ in refused:
        assert_error(answer, 429)
        assert int(answer.headers["retry-after"]) >= 1
    # Refusals do not wait for a computation.
    assert max(t for _, t in refused) < min(t for a, t in answers if a.status_code == 200)


def test_prompt_that_can_never_fit(own_engine):
    """C05: 400 at once naming the pool; the next prompt is answered."""
    engine = own_engine(f"models.{LANGUAGE_MODEL}.generation.kv_tokens=512")
    error = assert_error(engine.complete("word " * 1_500), 400, says="512")
    assert error["code"] == "context_length_exceeded"
    assert engine.complete("A short prompt", max_tokens=4).status_code == 200
    assert engine.generation()["queued"] == 0


def test_batch_budget_below_the_input_limit(own_engine):
    """C04: refused at start with both numbers."""
    from conftest import Engine, short_folder

    engine = Engine(short_folder(), settings=[f"models.{TEXT_MODEL}.max_batch_tokens=64"], wait_ready=False)
    assert engine.process.wait(60) == 5
    assert "64" in engine.log() and "256" in engine.log()


def test_probes_while_busy(own_engine):
    """C07: every probe answers while 6,000 tokens are read and the queue is full; ready says why it is not."""
    prefix = f"models.{LANGUAGE_MODEL}.generation"
    engine = own_engine(f"models={LANGUAGE_MODEL}", f"{prefix}.slots=1", f"{prefix}.queue=1", f"{prefix}.context_tokens=8192")
    prompt = [100 + i * 7919 % 40_000 for i in range(6_000)]
    held = [open_completion(engine, prompt, 200)]
    wait_for(lambda: engine.generation()["slots_used"] == 1, "the long prompt runs")
    held.append(open_completion(engine, "Waits", 200))
    wait_for(lambda: engine.generation()["queued"] == 1, "the queue is full")

    def reading():
        return [a["prefilled_tokens"] for a in engine.generation()["active"] if 0 < a["prefilled_tokens"] < len(prompt)]

    wait_for(reading, "it is read")
    times, rounds, began = [], 0, time.monotonic()
    while (before := reading()) and rounds < 50:
        answers = {}
        for path in ("/livez", "/readyz", "/metrics", "/control/v1/snapshot", "/progressz"):
            asked = time.monotonic()
            answers[path] = engine.http.get(path)
            times.append(time.monotonic() - asked)
        if not reading():
            break
        rounds += 1
        ready = answers.pop("/readyz")
        assert ready.status_code == 503 and "queue" in ready.text and LANGUAGE_MODEL in ready.text, ready.text
        assert [a.status_code for a in answers.values()] == [200] * 4, answers
        assert answers["/control/v1/snapshot"].json()["generation"][0]["queued"] == 1
        time.sleep(max(0.0, began + rounds * 0.2 - time.monotonic()))
    assert rounds >= 10, (rounds, before)
    # All of them at once is more than a machine that others use can promise.
    assert sorted(times)[len(times) * 9 // 10] < 0.5, sorted(times)
    for s in held:
        s.close()
    wait_for(engine.idle, "idle again")
    assert engine.http.get("/readyz").status_code == 200


def test_what_waits_for_good_reason_is_not_stuck(own_engine, clip):
    """No false alarm: a held lane, a full pool, and prompts that are read, each for longer than the limit."""
    engine = own_engine("limits.progress_s=5", f"models.{LANGUAGE_MODEL}.generation.slots=1")
    assert engine.cli("pause", f"{SPEECH_MODEL}/clips").returncode == 0
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(engine.transcribe, clip[0])
        stream = open_completion(engine, "The parrot. " * 150, 1200)
        wait_for(lambda: engine.generation()["slots_used"] == 1, "the stream has the slot")
        waiting = pool.submit(engine.complete, "Waits for the slot", max_tokens=1)
        wait_for(lambda: engine.generation()["queued"] == 1 and engine.lanes(SPEECH_MODEL)["clips"]["pending"] == 1, "both wait")
        end = time.monotonic() + 7
        while time.monotonic() < end:
            assert engine.http.get("/progressz").status_code == 200
            shown = engine.snapshot()
            assert shown["state"] == "ready" and not any("stuck_ms" in lane for lane in shown["progress"]), shown["progress"]
            time.sleep(0.1)
        stream.close()
        assert engine.cli("resume", f"{SPEECH_MODEL}/clips").returncode == 0
        assert held.result().status_code == 200 and waiting.result().status_code == 200


class Burst:
    """Three requests that run, five that wait, and a stream of events on which hardly anything comes."""

    def __init__(self, engine, max_tokens: int):
        self.engine = engine
        self.events = httpx.Client(base_url=engine.url, timeout=120).stream("GET", "/control/v1/watch?interval_ms=5000")
        self.events_answer = self.events.__enter__()
        assert self.events_answer.status_code == 200
        self.pool = ThreadPoolExecutor(8)
        ask = lambda i: engine.complete(f"Tell story {i}.", max_tokens=max_tokens, ignore_eos=True)  # noqa: E731
        self.answers = [self.pool.submit(ask, i) for i in range(8)]
        shape = lambda g: (g["slots_used"], g["queued"])  # noqa: E731
        wait_for(lambda: shape(engine.generation()) == (3, 5), "three run, five wait")

    def told(self) -> list[httpx.Response | Exception]:
        """What each client got, none of them for ever; and the idle stream is closed."""
        self.pool.shutdown()
        try:
            for _ in self.events_answer.iter_raw():
                pass
        except httpx.TransportError:
            pass  # A second signal ends connections as they are.
        self.events.__exit__(None, None, None)
        return [a.exception() or a.result() for a in self.answers]


def drains(own_engine, limit_s: int):
    slots = f"models.{LANGUAGE_MODEL}.generation.slots=3"
    return own_engine(f"models={LANGUAGE_MODEL}", slots, f"limits.drain_s={limit_s}")


def test_drain(own_engine):
    """C56: running ends normally, queued and new get 503, the idle stream is closed, exit 0 within the limit + 2 s."""
    engine = drains(own_engine, 60)
    burst = Burst(engine, 120)
    began = time.monotonic()
    engine.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "drain" in engine.log().lower(), "the drain is announced")
    try:
        assert_error(engine.complete("Comes too late"), 503, says="drain")
    except httpx.TransportError:
        pass  # The door is closed already.
    done = burst.told()
    assert sorted(a.status_code for a in done) == [200] * 3 + [503] * 5
    for answer in done:
        if answer.status_code == 200:
            assert answer.json()["usage"]["completion_tokens"] == 120
        else:
            assert_error(answer, 503, says="drain")
    assert engine.process.wait(120) == 0, engine.log()
    assert time.monotonic() - began < 62


def test_a_drain_ends_at_its_limit(own_engine):
    """C56: what would run beyond the limit is cut, and told."""
    engine = drains(own_engine, 1)
    burst = Burst(engine, 2_000)
    began = time.monotonic()
    engine.process.send_signal(signal.SIGTERM)
    done = burst.told()
    assert engine.process.wait(120) == 0, engine.log()
    # A machine that others use may stand still for a moment beside the two seconds.
    assert 1 <= time.monotonic() - began < 8
    assert sum(isinstance(a, httpx.Response) and a.status_code == 503 for a in done) >= 5, done
    assert not any(isinstance(a, httpx.Response) and a.status_code == 200 for a in done), done


def test_second_signal_ends_at_once(own_engine):
    """C56: of the same load, whatever runs."""
    engine = drains(own_engine, 120)
    burst = Burst(engine, 2_000)
    engine.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "drain" in engine.log().lower(), "the drain is announced")
    began = time.monotonic()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(60) == 130
    assert time.monotonic() - began < 8
    done = burst.told()
    assert not any(isinstance(a, httpx.Response) and a.status_code == 200 for a in done), done


MARKER = "zanzibarmarker"


def test_keys(own_engine, tmp_path, clip):
    """C59: only the alive probe is open; rights are kept apart; keys and prompts appear nowhere."""
    keys = tmp_path / "keys"
    keys.write_text(f"app serve {MARKER}-serve\nboard read {MARKER}-read\nadmin control,read,serve {MARKER}-all\n")
    keys.chmod(0o600)
    engine = own_engine(f"keys.file={keys}", wait_ready=False)
    wait_for(lambda: alive(engine), "alive")
    routes = [
        ("GET", "/readyz"), ("GET", "/progressz"), ("GET", "/metrics"), ("GET", "/v1/models"), ("POST", "/v1/embeddings"),
        ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/rerank"),
        ("POST", "/v1/audio/transcriptions"), ("GET", "/control/v1/snapshot"), ("GET", "/control/v1/watch"),
        ("DELETE", "/v1/requests/req-1"), ("GET", "/control/v1/arrivals"), ("GET", "/control/v1/knobs"),
        ("GET", "/control/v1/journal"), ("GET", "/control/v1/commits"), ("POST", "/control/v1/changes"),
        ("POST", "/v1/audio/translations"), ("GET", "/no/such/route"),
    ]  # fmt: skip
    for method, path in routes:
        assert_error(engine.http.request(method, path), 401)
        wrong = engine.http.request(method, path, headers={"authorization": f"Bearer {MARKER}-wrong"})
        assert_error(wrong, 401)
        assert MARKER not in wrong.text
    assert engine.http.get("/livez").status_code == 200

    serve, read, everything = ({"authorization": f"Bearer {MARKER}-{name}"} for name in ("serve", "read", "all"))
    control = [(method, path) for method, path in routes if "control" in path or method == "DELETE"]
    assert len(control) == 8
    for method, path in control:
        assert_error(engine.http.request(method, path, headers=serve), 403)
    assert_error(engine.http.post("/v1/embeddings", json={"model": TEXT_MODEL, "input": "x"}, headers=read), 403)
    wait_for(lambda: engine.http.get("/readyz", headers=read).status_code == 200, "ready")
    embedded = engine.http.post("/v1/embeddings", json={"model": TEXT_MODEL, "input": MARKER}, headers=serve)
    assert embedded.status_code == 200
    body = {"model": LANGUAGE_MODEL, "prompt": MARKER, "max_tokens": 2}
    assert engine.http.post("/v1/completions", json=body, headers=everything).status_code == 200
    change = {"set": {f"models.{TEXT_MODEL}.wait_ms": 6}, "reason": "a reason"}
    assert_error(engine.http.post("/control/v1/changes", json=change, headers=read), 403)
    assert engine.http.post("/control/v1/changes", json=change, headers=everything).status_code == 200
    refused = {"set": {f"models.{TEXT_MODEL}.wait_sm": MARKER}}
    assert_error(engine.http.post("/control/v1/changes", json=refused, headers=everything), 400)
    pages = [path for method, path in routes if method == "GET" and path not in ("/no/such/route", "/control/v1/watch", "/control/v1/commits")]
    seen = "".join(engine.http.get(path, headers=everything).text for path in pages)
    seen += (engine.folder / "state/lanekeeper/demo/journal.jsonl").read_text()
    assert "app" in seen and "key:admin" in seen
    assert MARKER not in seen and MARKER not in engine.log()


def alive(engine) -> bool:
    try:
        return engine.http.get("/livez").status_code == 200
    except httpx.TransportError:
        return False


def test_listening_wide_without_keys_is_refused(tmp_path):
    done = subprocess.run(
        [BINARY, "serve", "--profile", "demo", "--listen", "0.0.0.0:0", "--offline"],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 5 and b"key" in done.stderr


def test_socket_speaks_the_same_language(engine):
    status = engine.cli_json("status")
    assert status["state"] == "ready"
    assert {m["id"] for m in engine.cli_json("models")} >= {SPEECH_MODEL, LANGUAGE_MODEL, TEXT_MODEL}
    lanes = engine.cli_json("lanes")
    assert lanes


def test_slow_upload_holds_nobody_back(engine, clip):
    """A client that sends half its body and stops costs one connection, no more."""
    s = socket.create_connection(("127.0.0.1", engine.port), timeout=30)
    s.sendall(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n")
    s.sendall(b"Content-Length: 100000\r\n\r\n--b\r\n")
    assert engine.text(clip[0])
    s.close()


def test_bench_mixed_loads_an_engine_and_compares_two_runs(engine):
    """What every kind saw, kept as JSON; a later run is held against it."""
    kept = engine.folder / "mixed.json"
    paces = ["--clips", "1", "--recordings", "0", "--embeddings", "10/s", "--chats", "1", "--max-tokens", "4", "--for", "2s"]
    done = engine.cli("bench", "mixed", *paces, "--export", str(kept))
    assert done.returncode == 0, done.stderr.decode()
    run = json.loads(kept.read_text())
    kinds = {k["kind"]: k for k in run["kinds"]}
    assert set(kinds) == {"clips", "embeddings", "chats"}
    for kind in kinds.values():
        assert kind["failed"] == kind["open"] == kind["unsent"] == 0, kind
        assert kind["answered"] == kind["sent"] > 0 and kind["latency_ms"]["p50"] <= kind["latency_ms"]["max"], kind
    assert "first_ms" in kinds["chats"] and "queue_ms" in kinds["clips"]
    # The random moments are those of the seed: the second run sends what the first sent.
    again = engine.cli_json("bench", "mixed", *paces, "--compare", str(kept))
    assert [(k["kind"], k["sent"]) for k in again["before"]["kinds"]] == [(k["kind"], k["sent"]) for k in run["kinds"]]
    assert [k["sent"] for k in again["kinds"] if k["kind"] == "embeddings"] == [kinds["embeddings"]["sent"]]
    refused = engine.cli("bench", "mixed", "--compare", "/dev/null")
    assert refused.returncode == 5 and b"no export" in refused.stderr
    wrong = engine.cli("bench", "mixed", "--clips", "often")
    assert wrong.returncode == 2 and b"2/s" in wrong.stderr
