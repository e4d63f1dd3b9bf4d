"""Verify windows: the same answers, told truly."""

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LANGUAGE_MODEL, Engine, assert_error, short_folder, wait_for

TOKENS = 10

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
    """An engine with the language model alone, that checks every answer made with windows."""
    folder = short_folder()
    profile = folder / "box.yaml"
    profile.write_text(f"name: windows\nmodels: [{LANGUAGE_MODEL}]\n")
    model = f"models.{LANGUAGE_MODEL}"
    settings = [
        f"{model}.generation.context_tokens=256",
        f"{model}.generation.slots=8",
        f"{model}.speculation.self_check_ratio=0.1",
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
    plain = all_said(lm, 1, "off", asked)
    drafted = 0
    for parallel in (1, 4, 8):
        with_windows = all_said(lm, parallel, "force", asked)
        for prompt, a, b in zip(asked, plain, with_windows):
            assert a[:4] == b[:4], f"{prompt!r} at {parallel}"
        drafted += sum(answer[4] for answer in with_windows)
    assert drafted > 300, "windows were verified"
    sampled = dict(temperature=0.9, top_p=0.95, seed=42)
    some = asked[::2]
    for prompt, a, b in zip(some, all_said(lm, 8, "off", some, **sampled), all_said(lm, 8, "force", some, **sampled)):
        assert a[:4] == b[:4], f"{prompt!r}, sampled"


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
    table = lm.cli("speculation", "-o", "wide")
    assert table.returncode == 0 and "DIFFERED" in table.stdout.decode() and "GATE" in table.stdout.decode()
