"""`record` and `simulate --trace`: what arrived at a real engine, replayed in virtual time."""

import json
from concurrent.futures import ThreadPoolExecutor

from conftest import CLIPS, TEXT_MODEL, SPEECH_MODEL, wait_for


def test_recorded_arrivals_are_replayed(own_engine):
    engine = own_engine()
    clips = sorted(CLIPS.glob("*.flac"))[:3]
    engine.embed(["warm"])

    def speak(n):
        return engine.transcribe(clips[n % len(clips)].read_bytes(), "clip.flac").status_code

    def embed(n):
        return engine.embed([f"text {n} " * (1 + n % 40)]).status_code

    with ThreadPoolExecutor(6) as pool:
        # One after the other: a replay is of one model, as if it had the machine to itself.
        assert set(pool.map(speak, range(12))) == {200}
        assert set(pool.map(embed, range(60))) == {200}
    wait_for(engine.idle, "all requests ended")

    file = engine.folder / "arrivals.json"
    done = engine.cli("record", str(file), "--last", "10m")
    assert done.returncode == 0, done.stderr.decode()
    recorded = json.loads(file.read_text())
    assert recorded["schema"] == "lanekeeper.arrivals/1" and recorded["complete"]
    assert len([a for a in recorded["arrivals"] if a["op"] == "transcribe"]) == 12
    assert len([a for a in recorded["arrivals"] if a["op"] == "embed"]) == 61
    assert all(a["outcome"] == "served" and a["run_ms"] > 0 for a in recorded["arrivals"])
    assert sum(b["items"] for b in recorded["batches"]) == 73
    for a in recorded["arrivals"]:
        heard = (a.get("windows"), a.get("model_ms"))
        assert heard[0] >= 1 and 0 < heard[1] <= a["run_ms"] if a["op"] == "transcribe" else heard == (None, None), a
    spoken = [b for b in recorded["batches"] if b["op"] == "transcribe"]
    assert sum(b["windows"] for b in spoken) == sum(a.get("windows", 0) for a in recorded["arrivals"])
    times = [a["at_ms"] for a in recorded["arrivals"]]
    assert times == sorted(times) and times[-1] <= recorded["span_ms"]
    # Nothing of what was said or asked, nor who did.
    assert "text 3" not in file.read_text() and "client" not in file.read_text()

    both = engine.cli("simulate", "--trace", str(file))
    assert both.returncode == 5 and b"several models" in both.stderr, both.stderr
    for model, requests in ((SPEECH_MODEL, 12), (TEXT_MODEL, 61)):
        report = engine.cli_json("simulate", "--trace", str(file), "--model", model, "--set", "max_batch_requests=1")
        compared = report["recorded"]
        assert [lane["requests"] for lane in compared["lanes"]] == [requests]
        assert compared["fits"][0]["batches"] > 0 and compared["fits"][0]["median_error"] < 1.0
        as_recorded, one_by_one = report["runs"]
        assert as_recorded["settings"]["name"] == "as recorded"
        lanes = [run["lanes"][0] for run in report["runs"]]
        assert lanes[0]["served"] == requests
        # One by one it may not be done when the recording ends: what waits still is counted as such.
        assert lanes[1]["served"] + lanes[1]["pending"] == requests and lanes[1]["served"] > 0
        assert lanes[1]["served"] <= one_by_one["batches"] <= requests
        assert one_by_one["batches"] / lanes[1]["served"] >= as_recorded["batches"] / requests
        # As fast as the recorded engine, within what a shared machine does to single batches.
        assert abs(compared["lanes"][0]["error"]["done_p50"]) < 1.0, compared
    table = engine.cli("simulate", "--trace", str(file), "--model", SPEECH_MODEL).stdout.decode()
    assert "recorded" in table and "simulated" in table and "error" in table, table


def test_a_span_and_a_model_can_be_asked_for(engine):
    assert engine.embed(["one"]).status_code == 200
    wait_for(engine.idle, "the request ended")
    mine = engine.http.get("/control/v1/arrivals", params={"model": TEXT_MODEL, "last": "1h"}).json()
    assert {a["model"] for a in mine["arrivals"]} == {TEXT_MODEL}
    assert [q["model"] for q in mine["queues"]] == [TEXT_MODEL] * len(mine["queues"])
    assert engine.http.get("/control/v1/arrivals", params={"model": "nobody"}).status_code == 404
    for query in ({"last": "soon"}, {"last": "-1"}, {"first": "1"}):
        assert engine.http.get("/control/v1/arrivals", params=query).status_code == 400
    out = engine.cli("record", "-", "--for", "50ms", "--model", TEXT_MODEL)
    assert out.returncode == 0 and json.loads(out.stdout)["span_ms"] >= 50, out.stderr
