"""A lane that is really stuck: one thread of a running engine is stopped from outside, and the engine tells.

The thread is stopped as a debugger stops it (`ptrace`), which a process may do to its own child: nothing in the engine
knows of the test.
"""

import ctypes
import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from conftest import LANGUAGE_MODEL, TEXT_MODEL, wait_for

SEIZE, INTERRUPT, DETACH, ANY_THREAD = 0x4206, 0x4207, 17, 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(what: int, thread: int):
    if libc.ptrace(what, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"this machine lets nobody trace a child of its own: {os.strerror(ctypes.get_errno())}")


def thread_of(engine, name: str) -> int:
    """The thread whose name begins so: the kernel keeps fifteen characters of it."""
    tasks = f"/proc/{engine.process.pid}/task"
    found = [int(t) for t in os.listdir(tasks) if open(f"{tasks}/{t}/comm").read().strip() == name[:15]]
    assert len(found) == 1, (name, found)
    return found[0]


@contextmanager
def stopped(engine, name: str):
    thread = thread_of(engine, name)
    ptrace(SEIZE, thread)
    try:
        ptrace(INTERRUPT, thread)
        os.waitpid(thread, ANY_THREAD)
        yield
    finally:
        ptrace(DETACH, thread)


def gauge(engine, name: str, labels: str) -> float:
    found = re.search(rf"^lanekeeper_{name}\{{{labels}[^}}]*\}} (\S+)$", engine.http.get("/metrics").text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def lane(engine, name: str) -> dict:
    return next(p for p in engine.snapshot()["progress"] if p["name"] == name)


def tells(engine, name: str, labels: str, table: str):
    """Everyone who can be asked says what is stuck, since when, and how."""
    for path in ("/livez", "/readyz"):
        assert engine.http.get(path).status_code == 200, "it takes requests still"
    model = name.split(".")[0]
    told = engine.http.get("/progressz")
    assert told.status_code == 503
    reason = "nothing runs and nothing was started"
    assert all(part in told.text for part in (model, "is stuck since 20", "1 waiting", reason)), told.text
    shown = engine.snapshot()
    assert shown["state"] == "degraded" and any(model in r and reason in r for r in shown["reasons"])
    stuck = lane(engine, name)
    assert stuck["waiting"] == 1 and stuck["stuck_ms"] >= 1_000 and reason in stuck["why"]
    status = engine.cli("status").stdout.decode()
    assert "degraded" in status and reason in status
    rows = [line for line in engine.cli("lanes").stdout.decode().splitlines() if "stuck for" in line]
    assert len(rows) == 1 and all(part in rows[0] for part in (model, table)), rows
    assert engine.cli("wait", "--for", f"progress.{name}.stuck_ms>=1s", "--timeout", "0").returncode == 0
    doctor = engine.cli("doctor", "--engine", engine.url)
    assert doctor.returncode == 8 and re.search(rf"FAIL\s+engine: .*{model}.*is stuck", doctor.stdout.decode()), doctor.stdout
    assert gauge(engine, "lane_stuck_seconds", labels) >= 1 and gauge(engine, "lane_stalls_total", labels) == 1
    assert "a lane is stuck" in engine.log()


def gets_on(engine, name: str, labels: str):
    wait_for(lambda: engine.http.get("/progressz").status_code == 200, "it gets on")
    wait_for(lambda: engine.snapshot()["state"] == "ready", "the engine is well")
    assert "stuck_ms" not in lane(engine, name) and "stuck for" not in engine.cli("lanes").stdout.decode()
    assert gauge(engine, "lane_stuck_seconds", labels) == 0 and gauge(engine, "lane_stalls_total", labels) == 1
    wait_for(lambda: "gets on" in engine.log(), "the log says so")


def test_a_lane_that_is_stuck_is_told_by_everyone_and_gets_on(own_engine):
    engine = own_engine("limits.progress_s=1")
    wait_for(lambda: engine.http.get("/progressz").status_code == 200, "all is well")
    cases = [
        ("dispatcher", f"{TEXT_MODEL}.embed.clips", f'model="{TEXT_MODEL}",op="embed"', "embed", lambda: engine.embed("a text")),
        ("generation", f"{LANGUAGE_MODEL}.generate", f'model="{LANGUAGE_MODEL}",op="generate"', "generate",
         lambda: engine.complete("Once", max_tokens=2)),
    ]  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        for thread, name, labels, table, ask in cases:
            with stopped(engine, f"{name.split('.')[0]}: {thread}"):
                asked = pool.submit(ask)
                wait_for(lambda name=name: "stuck_ms" in lane(engine, name), f"{name} is found stuck")
                tells(engine, name, labels, table)
                # What is stuck keeps nobody else from being served.
                other = engine.complete("Twice", max_tokens=1) if thread == "dispatcher" else engine.embed("another text")
                assert other.status_code == 200 and not asked.done()
            assert asked.result().status_code == 200, "as if nothing had been"
            gets_on(engine, name, labels)
    assert engine.stop() == 0, engine.log()
