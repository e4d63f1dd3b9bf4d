"""Conditions: waits, guards and filters, and what a change did. The engine judges, whoever has gone."""

import json
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BINARY, TEXT_MODEL, Engine, assert_error, short_folder, wait_for

ONE_MODEL = f"models={TEXT_MODEL}"
LANE = f"models.{TEXT_MODEL}.queues.embed.lanes.clips"
HOLD = f"models.{TEXT_MODEL}.lanes.clips.paused"


@pytest.fixture(scope="module")
def small():
    """An engine with the text model alone, whose changes are measured over two seconds."""
    e = Engine(short_folder(), settings=(ONE_MODEL, "control.effect_window_s=2"))
    yield e
    assert e.cli("diff").returncode == 0, "nothing is left behind"
    assert e.stop() == 0, e.log()


def started(engine, *arguments):
    return subprocess.Popen([BINARY, *arguments], env=engine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def entries(engine, kind):
    return [e for e in engine.cli_json("journal", "-n", "100")["entries"] if e["kind"] == kind]


def test_wait(small):
    """0 when it holds, 7 when the time is over, 8 when looked at once, 5 and 2 for what means nothing."""
    done = small.cli("wait", "--for", f"{LANE}.pending==0 && state==ready", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["readings"][0] == {"path": f"{LANE}.pending", "value": 0}
    late = small.cli("wait", "--for", f"{LANE}.pending>3", "--timeout", "300ms")
    assert late.returncode == 7 and f"{LANE}.pending is 0".encode() in late.stderr, late.stderr
    assert small.cli("wait", "--for", f"{LANE}.pending>3", "--timeout", "0").returncode == 8
    # Nothing has been measured: unknown, whichever way it is asked.
    for asked in (f"models.{TEXT_MODEL}.queues.rerank.lanes.clips.p95_ms>0", f"!(models.{TEXT_MODEL}.queues.rerank.lanes.clips.p95_ms>0)"):
        unknown = small.cli("wait", "--for", asked, "--timeout", "0")
        assert unknown.returncode == 8 and b"is unknown" in unknown.stderr, unknown.stderr
    strange = small.cli("wait", "--for", f"{LANE}.pendign==0")
    assert strange.returncode == 5 and b"did you mean `pending`?" in strange.stderr, strange.stderr
    lines = strange.stderr.decode().splitlines()
    caret = next(line for line in lines if line.strip(" ^") == "")
    assert lines[lines.index(caret) - 1][caret.index("^") :].startswith("pendign"), "the mark is below the name"
    several = small.cli("wait", "--for", f"models.{TEXT_MODEL}.lanes.clips.pending==0")
    assert several.returncode == 5 and b"embed, rerank" in several.stderr
    broken = small.cli("wait", "--for", f"{LANE}.pending=0")
    assert broken.returncode == 2 and b"column" in broken.stderr and b"^" in broken.stderr


def test_a_wait_sees_it_come(small):
    assert small.cli("pause", TEXT_MODEL).returncode == 0
    waits = started(small, "wait", "--for", f"{LANE}.pending==1 && requests.total==1", "--timeout", "60s")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(small.embed, "held")
        assert waits.wait(60) == 0, waits.stderr.read()
        shown = small.http.get("/control/v1/snapshot", params={"filter": "state==queued && wait.code==lane_paused"}).json()
        assert [r["state"] for r in shown["requests"]["shown"]] == ["queued"]
        none = small.cli_json("requests", "--filter", "state==queued && queued_ms>1h")
        assert none["shown"] == [] and none["total"] == 1
        assert len(small.cli_json("requests", "--filter", "state==queued && queued_ms>0ms")["shown"]) == 1
        assert small.cli("requests", "--filter", "sate==queued").returncode == 2
        assert_error(small.http.get("/control/v1/snapshot", params={"filter": "sate==queued"}), 400, param="filter", says="did you mean")
        assert small.cli("resume", TEXT_MODEL).returncode == 0
        assert held.result().status_code == 200


def test_a_wait_ends_with_its_engine(own_engine):
    engine = own_engine(ONE_MODEL)
    waits = started(engine, "wait", "--for", "requests.total>99", "--timeout", "60s")
    time.sleep(0.5)
    assert waits.poll() is None, waits.stderr.read()
    engine.process.send_signal(signal.SIGKILL)
    assert waits.wait(30) == 3


def test_a_guard_is_refused_when_it_means_nothing_here(small):
    before = small.snapshot()["revision"]
    for guard, code, says in [
        (f"{LANE}.pendign<5", 5, b"did you mean `pending`?"),
        (f"{LANE}.pending<", 2, b"expected a value"),
        ("requests.total<0", 5, b"does not hold now: requests.total is 0"),
    ]:
        done = small.cli("try", f"{HOLD}=true", "--for", "10s", "--guard", guard)
        assert done.returncode == code and says in done.stderr, (guard, done.stderr)
    body = {"set": {HOLD: True}, "guard": f"{LANE}.pending<5"}
    assert_error(small.http.post("/control/v1/changes", json=body), 400, param="guard", says="lease")
    assert_error(small.http.post("/control/v1/changes", json={**body, "ttl_s": 5, "guard": "("}), 400, param="guard", says="column")
    assert small.snapshot()["revision"] == before


def test_the_engine_undoes_what_a_guard_forbids(small):
    """A lane is held for a minute, as long as nobody waits for half a second. Somebody does, and nobody watches."""
    guard = f"{LANE}.oldest_wait_ms<500"
    done = small.cli("try", f"{HOLD}=true", "--for", "60s", "--guard", guard, "--reason", "a trial")
    assert done.returncode == 0 and guard.encode() in done.stderr, done.stderr
    (override,) = small.snapshot()["overrides"]
    assert override["guard"] == guard and override["left_ms"] > 30_000
    assert guard in small.cli("diff").stdout.decode()
    wait_for(lambda: small.lanes(TEXT_MODEL)["clips"]["paused"], "the lane is held")
    began = time.time()
    assert small.embed("held until the guard breaks").status_code == 200
    took = time.time() - began
    assert took >= 0.45, "it was held"
    (breach,) = entries(small, "breach")[-1:]
    assert breach["reverts"] == override["revision"] and breach["guard"] == guard and breach["actor"] == "engine"
    (reading,) = breach["readings"]
    assert reading["path"] == f"{LANE}.oldest_wait_ms" and reading["value"] >= 500
    # The wait that was read says how long after the breach the engine looked: well within a second.
    assert reading["value"] < 1_500, reading
    assert "the guard broke" in breach["reason"] and [(c["from"], c["to"]) for c in breach["changes"]] == [("true", "false")]
    assert small.snapshot()["overrides"] == [] and small.cli("diff").returncode == 0


def test_whoever_follows_a_trial_is_told_and_is_not_needed(small):
    guard = f"{LANE}.oldest_wait_ms<500"
    for killed in (False, True):
        follows = started(small, "try", f"{HOLD}=true", "--for", "60s", "--guard", guard, "--follow")
        wait_for(lambda: small.lanes(TEXT_MODEL)["clips"]["paused"], "the lane is held")
        if killed:
            follows.kill()
            follows.wait()
        assert small.embed("held").status_code == 200
        if not killed:
            assert follows.wait(30) == 8 and b"oldest_wait_ms is" in follows.stderr.read()
    ended = small.cli("try", f"{HOLD}=true", "--for", "300ms", "--guard", guard, "--follow")
    assert ended.returncode == 0 and b"the time is over" in ended.stderr
    assert small.embed("free again").status_code == 200


def test_what_a_change_did_is_measured_and_written_down(small):
    """Somebody asks all the time, and the batch window becomes a second: waits before, and waits after."""
    ask_until = time.time() + 6
    model = f"models.{TEXT_MODEL}"
    with ThreadPoolExecutor(2) as pool:

        def ask(_):
            while time.time() < ask_until:
                assert small.embed("a text").status_code == 200

        asking = [pool.submit(ask, n) for n in range(2)]
        # What was held in other tests is out of the window then.
        time.sleep(2.5)
        wider = [f"{model}.wait_ms=1s", f"{model}.coalesce_ms=1s", f"{model}.coalesce_ratio=1"]
        answer = json.loads(small.cli("set", *wider, "-o", "json").stdout)
        for a in asking:
            a.result()
    small.cli("unset", "--all")

    def measured():
        found = [e for e in small.cli_json("journal", "-n", "100")["entries"] if e["revision"] == answer["revision"]]
        return found[0].get("effect")

    effect = wait_for(measured, "the effect is told", 20)
    (lane,) = [la for la in effect["lanes"] if la["op"] == "embed"]
    assert effect["window_s"] == 2 and lane["lane"] == "clips"
    assert lane["after"]["wait_p95_ms"] >= 900 > lane["before"]["wait_p50_ms"], lane
    assert lane["after"]["served_per_s"] > 0 and lane["before"]["served_per_s"] > 0
    wide = small.cli("journal", "-o", "wide").stdout.decode()
    assert f"{TEXT_MODEL}/clips: wait p50" in wide
    lines = (small.folder / "state/lanekeeper/demo/journal.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert "effect" in kinds, kinds
    revisions = [e["revision"] for e in small.cli_json("journal", "-n", "400")["entries"]]
    assert revisions == sorted(set(revisions)), "a line of its own in the file, part of its change when shown"
