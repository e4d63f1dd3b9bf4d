"""The log, where it cannot be written: an engine serves on, changes its settings, and ends when it is told to."""

import fcntl
import os

from conftest import TEXT_MODEL

ONE = f"models={TEXT_MODEL}"


def serves_and_ends(engine):
    assert engine.cli("set", f"models.{TEXT_MODEL}.wait_ms=8").returncode == 0
    assert engine.embed(["a", "b"]).status_code == 200
    assert engine.stop() == 0


def test_a_full_disk(own_engine):
    with open("/dev/full", "w") as full:
        serves_and_ends(own_engine(ONE, stderr=full))


def test_a_reader_that_has_gone(own_engine):
    read, write = os.pipe()
    engine = own_engine(ONE, stderr=write)
    os.close(write)
    os.close(read)
    serves_and_ends(engine)


def test_a_reader_that_does_not_read(own_engine):
    read, write = os.pipe()
    room = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    engine = own_engine(ONE, stderr=write, environment={"LANEKEEPER_LOG": "trace"})
    os.close(write)
    # Each is more than one line.
    for _ in range(40):
        assert engine.http.get("/v1/models").status_code == 200
    serves_and_ends(engine)
    assert len(os.read(read, 1 << 20)) > room / 2, "the pipe was full, so the engine had to do without"
    os.close(read)


def test_the_last_lines_are_written(own_engine):
    engine = own_engine(ONE)
    assert engine.stop() == 0
    assert "draining" in engine.log()
