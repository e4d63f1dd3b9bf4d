"""Verify windows: the same answers, told truly."""

import json
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import BINARY, LANGUAGE_MODEL, PATIENCE_S, Engine, assert_error, short_folder, wait_for

TOKENS = 8

WORDS = "river stone lantern copper window orchard signal harbour thread marble ember violet canyon ladder".split()


def prompts() -> list[str]:
    """Fifty prompts: repetitive, random, code, other scripts, single tokens, shorter than a match, the context's edge."""
    rng = random.Random(7)
    repetitive = ["serving " * 48, "a b c " * 20, "0, 1, 0, 1, " * 12, "ha" * 30, "the the the the the the"]
    repetitive += [f"{' '.join(WORDS[i:i + 5])}. " * 6 for i in range(7)]
    scrambled = [" ".join(rng.choices(WORDS, k=24)) for _ in range(8)]
    scrambled += ["".join(chr(rng.randrange(33, 127)) for _ in range(60)) for _ in range(2)]
    code = [
        "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n",
        "for (int i = 0; i < n; i++) {\n    sum += a[i];\n}\nfor (int i = 0; i < n; i++) {\n",
        '{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name":',
        "SELECT id, name FROM users WHERE id = 1;\nSELECT id, name FROM users WHERE id = 2;\nSELECT",
        "<li>one</li>\n<li>two</li>\n<li>three</li>\n<li>",
        "x = 1\ny = 2\nz = 3\nprint(x)\nprint(y)\n",
        "let a = vec![1, 2, 3];\nlet b = vec![1, 2, 3];\nlet c = vec![",
        "# Title\n\n- item one\n- item two\n- item three\n- item",
    ]
    scripts = ["héllo wörld " * 6, "日本語のテキスト、日本語の", "Привет, мир. Привет,", "🙂🙃🙂🙃🙂", "العربية العربية", "naïve café naïve", "ñandú ñandú ñ"]
    short = ["a", "The", "\n", " ", "7", "one two", "Hi!", "x y"]
    edge = ["red green blue " * n for n in (64, 65, 66)] + [" ".join(WORDS) * 12, "word " * 180]
    found = repetitive + scrambled + code + scripts + short + edge
    assert len(found) == 50
    return found


@pytest.fixture(scope="module")
def lm():
    """An engine with the language model alone and its draft head, that checks answers made with windows."""
    folder = short_folder()
    profile = folder / "box.yaml"
    profile.write_text(f"name: windows\nmodels: [{LANGUAGE_MODEL}]\n")
    model = f"models.{LANGUAGE_MODEL}"
    settings = [
        f"{model}.generation.context_tokens=256",
        f"{model}.generation.slots=8",
        f"{model}.speculation.self_check_ratio=0.1",
        f"{model}.speculation.mtp_head=shipped",
    ]
    engine = Engine(folder, profile=str(profile), settings=settings)
    yield engine
    wait_for(engine.idle, "the engine is idle")
    assert engine.stop() == 0, engine.log()


def said(engine: Engine, prompt: str, speculation: str, **fields) -> tuple:
    """What must not depend on windows: text, tokens, the bits of their log-probabilities, and how it ended."""
    body = {"logprobs": 0, "max_tokens": TOKENS, "lanekeeper": {"speculation": speculation}, **fields}
    answer = engine.complete(prompt, **body)
    assert answer.status_code == 200, answer.text
    answer = answer.json()
    choice, timings = answer["choices"][0], answer["timings"]
    assert timings["draft_n_accepted"] <= min(timings["draft_n"], answer["usage"]["completion_tokens"])
    assert speculation == "force" or timings["draft_n"] == 0
    logprobs = choice["logprobs"]
    return choice["text"], logprobs["tokens"], logprobs["token_logprobs"], choice["finish_reason"], timings["draft_n"]


def all_said(engine: Engine, parallel: int, speculation: str, asked: list[str], **fields) -> list[tuple]:
    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(lambda p: said(engine, p, speculation, **fields), asked))


def test_answers_are_the_same_with_windows_and_without_alone_and_together(lm):
    asked = prompts()
    sampled = dict(temperature=0.9, top_p=0.95, seed=42)
    plain, drafted = [], 0
    # As many at a time as there are slots: what one run has read is there for the next, and most of the time goes into
    # what is shown.
    for group in (asked[i : i + 8] for i in range(0, len(asked), 8)):
        plain += all_said(lm, 1, "off", group)
        for parallel in (1, 4, 8):
            with_windows = all_said(lm, parallel, "force", group)
            for prompt, a, b in zip(group, plain[-len(group) :], with_windows):
                assert a[:4] == b[:4], f"{prompt!r} at {parallel}"
            drafted += sum(answer[4] for answer in with_windows)
        some = group[::2]
        for prompt, a, b in zip(some, all_said(lm, 4, "off", some, **sampled), all_said(lm, 4, "force", some, **sampled)):
            assert a[:4] == b[:4], f"{prompt!r}, sampled"
    assert drafted > 300, "windows were verified"
    # And once with prompts that no slot holds, read beside the windows of others.
    some = asked[:40:4]
    for prompt, a, b in zip(some, plain[:40:4], all_said(lm, 8, "force", some)):
        assert a[:4] == b[:4], f"{prompt!r}, read beside windows"


def test_a_repeated_word_is_continued_the_same_either_way(lm):
    fields = dict(seed=42, max_tokens=32)
    with_windows = said(lm, "serving " * 48, "force", **fields)
    assert with_windows[:4] == said(lm, "serving " * 48, "off", **fields)[:4]
    assert with_windows[4] > 0


def metric(engine: Engine, name: str) -> float:
    found = re.findall(rf"^lanekeeper_{name}_total\{{[^}}]*\}} ([0-9.]+)$", engine.http.get("/metrics").text, re.MULTILINE)
    return sum(map(float, found))


def test_five_tokens_are_five_tokens_and_the_metrics_tell_the_same(lm):
    wait_for(lm.idle, "the engine is idle")
    before = [metric(lm, f"speculation_{n}") for n in ("drafted_tokens", "accepted_tokens", "windows")]
    sums = [0, 0, 0]
    body = dict(max_tokens=5, lanekeeper={"speculation": "force"})
    for prompt in (" ".join(["serving"] * 40), " ".join(["red green blue"] * 15), "0, 1, 0, 1, 0, 1, 0, 1, 0,"):
        whole = lm.complete(prompt, **body).json()
        streamed = lm.complete(prompt, stream=True, stream_options={"include_usage": True}, **body).text
        frames = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
        usage = next(f["usage"] for f in frames if f.get("usage"))
        ends = [f for f in frames if f.get("timings")]
        assert len(ends) == 1 and ends[0]["choices"][0]["finish_reason"] == "length"
        assert whole["choices"][0]["finish_reason"] == "length"
        assert usage["completion_tokens"] == whole["usage"]["completion_tokens"] == 5
        for timings in (whole["timings"], ends[0]["timings"]):
            assert timings["draft_n_accepted"] <= min(timings["draft_n"], 5), timings
            assert timings["gate"] == {"policy": "gain", "state": "on", "because": "request_force"}
            for i, name in enumerate(("draft_n", "draft_n_accepted", "windows")):
                sums[i] += timings[name]
    after = [metric(lm, f"speculation_{n}") for n in ("drafted_tokens", "accepted_tokens", "windows")]
    assert sums == [b - a for a, b in zip(before, after)] and sums[0] > 0


def test_a_misspelt_wish_is_refused_by_name(lm):
    assert_error(lm.complete("a", lanekeeper={"speculation": "on"}), 400, "lanekeeper.speculation")


def test_the_command_shows_the_gate_and_checked_answers(lm):
    wait_for(lambda: lm.generation()["speculation"]["self_check"]["waiting"] == 0, "the self-check has caught up")
    shown = lm.cli_json("speculation", "--model", LANGUAGE_MODEL)
    assert len(shown) == 1
    view = shown[0]
    assert view["model"] == LANGUAGE_MODEL and view["policy"] == "gain" and view["because"]
    assert view["self_check"]["checked"] > 0 and view["self_check"]["differed"] == 0, view["self_check"]
    assert view["totals"]["windows"] > 0 and view["recent"]["survival"]["tail"]["eligible"][0] > 0
    assert view["recent"]["survival"]["native"]["eligible"][0] > 20
    assert view["draft"]["on"] and view["draft"]["model"] == "mtp head" and view["draft"]["failures"] == 0
    table = lm.cli("speculation", "-o", "wide")
    assert table.returncode == 0 and "DIFFERED" in table.stdout.decode() and "GATE" in table.stdout.decode()


def test_a_head_beside_a_draft_model_is_refused(own_engine):
    model = f"models.{LANGUAGE_MODEL}.speculation"
    engine = own_engine(f"{model}.mtp_head=shipped", f"{model}.draft_model={LANGUAGE_MODEL}", wait_ready=False)
    assert engine.process.wait(PATIENCE_S) == 5
    assert "are both set, but one of them drafts" in engine.log(), engine.log()


DRAFTED = "The old lighthouse keeper opened the door, looked at the sea and said that"


def test_the_model_as_its_own_draft_model_is_always_right(own_engine):
    """Drafts of the same weights hold, all of them; and the answer is that of no drafts."""
    model = f"models.{LANGUAGE_MODEL}"
    folder = short_folder()
    (folder / "box.yaml").write_text(f"name: drafted\nmodels: [{LANGUAGE_MODEL}]\n")
    engine = own_engine(
        f"{model}.speculation.draft_model={LANGUAGE_MODEL}",
        f"{model}.speculation.ngram_min=64",
        f"{model}.speculation.width_max=4",
        profile=str(folder / "box.yaml"),
    )
    for prompt in (DRAFTED, "def fibonacci(n):\n", "naïve café, 日本語:"):
        plain = said(engine, prompt, "off", max_tokens=24)
        drafted = said(engine, prompt, "force", max_tokens=24)
        assert plain[:4] == drafted[:4] and drafted[4] > 0, prompt
    view = engine.generation()["speculation"]
    native = view["recent"]["survival"]["native"]
    assert native["eligible"][0] > 8 and native["eligible"] == native["survived"], native
    assert view["draft"]["on"] and view["draft"]["model"] == LANGUAGE_MODEL and view["draft"]["pass_ms"] > 0
    assert "drafted" in engine.cli("speculation").stdout.decode()
    assert engine.stop() == 0, engine.log()


def test_a_draft_model_with_other_tokens_is_refused(own_engine):
    """C17: the first difference is named, and the engine does not start."""
    folder = short_folder()
    source = json.loads(subprocess.run([BINARY, "pull", LANGUAGE_MODEL, "--offline", "-o", "json"], capture_output=True, check=True).stdout)
    weights = Path(next(file["path"] for file in source if file["role"] == "weights")).read_bytes()
    # A token that no merge makes: the file stays sound.
    token = b"<gh_stars>"
    named = len(token).to_bytes(8, "little") + token
    assert weights.count(named) >= 1
    (folder / "other.gguf").write_bytes(weights.replace(named, named[:-2] + b"X>", 1))
    (folder / "other.yaml").write_text(
        "id: other\nfamily: llama\nfiles:\n  weights:\n    sources: ['file:other.gguf']\n    sha256: unpinned\n"
    )
    (folder / "box.yaml").write_text(f"name: odd\nmodels: [{LANGUAGE_MODEL}]\n")
    setting = f"models.{LANGUAGE_MODEL}.speculation.draft_model={folder / 'other.yaml'}"
    engine = own_engine(setting, profile=str(folder / "box.yaml"), wait_ready=False)
    assert engine.process.wait(PATIENCE_S) != 0
    assert re.search(r"draft model `other` has other tokens than `%s`: token \d+ is .*gh_star" % LANGUAGE_MODEL, engine.log()), engine.log()
