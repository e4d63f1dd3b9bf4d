"""Prompts beside streams, on real weights: nobody stands still behind a long prompt."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from conftest import LANGUAGE_MODEL, short_folder, wait_for

CHUNK = 128
MODEL = f"models.{LANGUAGE_MODEL}"
PLAIN = {"lanekeeper": {"speculation": "off"}}


def stream(engine, arrivals: list[float], begun: threading.Event, enough: threading.Event):
    """Notes when each token comes, until there is enough."""
    body = {"model": LANGUAGE_MODEL, "prompt": "Once upon a time", "max_tokens": 900, "ignore_eos": True, "temperature": 0, "stream": True, **PLAIN}
    with engine.http.stream("POST", "/v1/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                arrivals.append(time.monotonic())
                if len(arrivals) == 20:
                    begun.set()
            if enough.is_set():
                return


def round_of(engine, number: int) -> tuple[float, list[float], dict, list[dict]]:
    """The gaps of a stream while the longest prompt is read and ten short ones come behind it; and their timings."""
    arrivals, begun, enough = [], threading.Event(), threading.Event()
    words = [f"{w}{number}" for w in ("alpha", "beta", "gamma", "delta")]
    # A token at a time from the model's own side: it is as long as it can be, and nothing of it was read before.
    long = [100 + number] + [(i * 7919 + 11 + number) % 40_000 + 200 for i in range(1_900)]
    with ThreadPoolExecutor(13) as pool:
        streaming = pool.submit(stream, engine, arrivals, begun, enough)
        assert begun.wait(60)
        since = time.monotonic()
        reading = pool.submit(engine.complete, long, max_tokens=2, **PLAIN)
        wait_for(lambda: any(a["prompt_tokens"] > 1_000 and a["prefilled_tokens"] > 0 for a in engine.generation()["active"]), "it is read")
        short = [pool.submit(engine.complete, f"{words[i % 4]} {i}: a question?", max_tokens=2, **PLAIN) for i in range(10)]
        short = [answer.result().json()["timings"] for answer in short]
        reading = reading.result().json()["timings"]
        until = time.monotonic()
        enough.set()
        streaming.result()
    gaps = [(b, b - a) for a, b in zip(arrivals, arrivals[1:])]
    # Alone, a token comes every so often; the first gaps are the engine's warming up.
    usual = median(gap for at, gap in gaps[4:] if at < since)
    return usual, [gap for at, gap in gaps if since <= at <= until], reading, short


def test_a_stream_and_short_prompts_go_on_beside_the_longest_prompt(own_engine):
    folder = short_folder()
    (folder / "box.yaml").write_text(f"name: pace\nmodels: [{LANGUAGE_MODEL}]\n")
    settings = [f"{MODEL}.generation.slots=12", f"{MODEL}.generation.context_tokens=2048", f"{MODEL}.generation.kv_tokens=8192"]
    engine = own_engine(*settings, f"{MODEL}.generation.prefill_chunk={CHUNK}", profile=str(folder / "box.yaml"))
    told = []
    # The machine may stand still for a moment: a property of the engine shows in one round of three.
    for number in range(3):
        usual, gaps, reading, short = round_of(engine, number)
        chunks = -(-reading["prompt_n"] // CHUNK)
        assert chunks > 10 and len(gaps) > 2 * chunks, (chunks, len(gaps))
        # What reading took, by the engine's own clock, less the passes in between that read nothing.
        chunk = reading["prompt_ms"] / 1_000 / chunks - usual
        waits = [(s["queue_ms"] + s["prompt_ms"]) / 1_000 for s in short]
        # The last chunks attend to more than the first, so they take longer than the mean.
        # One pass is under way when they come; then there are two chunks, each with a pass of answers behind it.
        bounds = (3 * usual + 1.5 * chunk, 3 * (chunk + usual) + 2 * usual)
        told.append({"worst": max(gaps), "usual": usual, "chunk": chunk, "waits": max(waits), "bounds": bounds})
        if max(gaps) <= bounds[0] and max(waits) <= bounds[1]:
            break
    else:
        raise AssertionError(json.dumps(told, indent=1))
    assert engine.stop() == 0, engine.log()
