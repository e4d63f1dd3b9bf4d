"""`lanekeeper report`: all that a helper needs, and with --redact nobody's name."""

import json

REASON = "because quetzalcoatl complained"


def test_a_report_has_every_part_and_redacts_names(own_engine, tmp_path):
    engine = own_engine()
    assert engine.cli("set", "models.minilm-l6.wait_ms=9", "--reason", REASON).returncode == 0
    plain = engine.cli("report", "-")
    assert plain.returncode == 0, plain.stderr.decode()
    report = json.loads(plain.stdout)
    assert report["schema"] == "lanekeeper.report/1" and not report["redacted"]
    assert {"snapshot", "knobs", "journal", "arrivals", "metrics"} == set(report["engine"])
    assert all("error" not in part for part in report["engine"].values())
    assert REASON in plain.stdout.decode() and report["doctor"]
    file = tmp_path / "report.json"
    assert engine.cli("report", "--redact", str(file)).returncode == 0
    redacted = file.read_text()
    node, home = engine.snapshot()["node"], engine.environment["HOME"]
    told = json.loads(redacted)
    assert told["redacted"] and told["engine"]["snapshot"]["node"] == "<node 1>"
    assert "quetzalcoatl" not in redacted and home not in redacted and f'"{node}"' not in redacted
    assert told["engine"]["snapshot"]["models"][0]["id"] == report["engine"]["snapshot"]["models"][0]["id"]


def test_without_an_engine_it_has_what_can_be_found(engine):
    done = engine.cli("--engine", "127.0.0.1:1", "report", "-")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert "error" in report["engine"]["snapshot"] and report["doctor"]
