"""Generation: chat and completions, streamed and not."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LANGUAGE_MODEL, assert_error, wait_for

PROMPT = "The capital of France is"


def chat(engine, content="Say hello.", **fields):
    body = {"model": LANGUAGE_MODEL, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 12, **fields}
    return engine.http.post("/v1/chat/completions", json=body)


def text_of(answer) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def stream(engine, path, **body):
    """The chunks of a stream, which must end with [DONE]."""
    with engine.http.stream("POST", path, json={"model": LANGUAGE_MODEL, "stream": True, "temperature": 0, **body}) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def streamed_text(chunks) -> str:
    return "".join(c["choices"][0]["text"] for c in chunks if c["choices"])


def test_completion(engine):
    answer = engine.complete(PROMPT, max_tokens=8).json()
    assert "Paris" in answer["choices"][0]["text"]
    assert answer["usage"]["completion_tokens"] == 8 and answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 8
    assert answer["timings"]["predicted_n"] == 8


def test_chat(engine):
    answer = chat(engine, "What is the capital of France? Answer in one word.").json()
    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["finish_reason"] in ("stop", "length")


def test_streamed_equals_whole(engine):
    whole = engine.complete(PROMPT, max_tokens=40)
    assert streamed_text(stream(engine, "/v1/completions", prompt=PROMPT, max_tokens=40)) == text_of(whole)
    answer = chat(engine, max_tokens=20).json()["choices"][0]
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 20}
    chunks = [c["choices"][0] for c in stream(engine, "/v1/chat/completions", **body)]
    assert chunks[0]["delta"]["role"] == "assistant"
    assert "".join(c["delta"].get("content") or "" for c in chunks) == answer["message"]["content"]
    assert chunks[-1]["finish_reason"] == answer["finish_reason"]


def test_usage_in_streams(engine):
    """C44."""
    plain = stream(engine, "/v1/completions", prompt=PROMPT, max_tokens=6)
    assert all(c["choices"] and not c.get("usage") for c in plain)
    asked = stream(engine, "/v1/completions", prompt=PROMPT, max_tokens=6, stream_options={"include_usage": True})
    assert asked[-1]["choices"] == [] and all(c["choices"] for c in asked[:-1])
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    whole = engine.complete(PROMPT, max_tokens=6).json()["usage"]
    assert [asked[-1]["usage"][c] for c in counts] == [whole[c] for c in counts]


def test_several_prompts(engine):
    answer = engine.complete([PROMPT, "One two three"], max_tokens=4).json()
    assert [c["index"] for c in answer["choices"]] == [0, 1]
    assert answer["choices"][0]["text"] == text_of(engine.complete(PROMPT, max_tokens=4))


def test_more_prompts_than_can_ever_wait_are_refused(engine):
    error = assert_error(engine.complete(["a"] * 100, max_tokens=1), 400, "prompt", says=r"100 answers.*room for \d+")
    assert error["type"] == "invalid_request_error"
    assert_error(engine.complete(["a"] * 30, max_tokens=1, n=16), 400, "n", says="480 answers")


def test_several_answers_read_their_prompt_once(engine):
    wait_for(engine.idle, "the engine is idle")
    prompt = "A list of unusual instruments, with the century in which each was first built: " * 6
    before = engine.generation()["prompt_tokens"]
    answer = engine.complete(prompt, n=4, max_tokens=6, temperature=0.8, seed=3).json()
    length = answer["usage"]["prompt_tokens"]
    wait_for(engine.idle, "the engine is idle")
    # The whole of it once, and of each further answer the last token.
    assert length > 80 and engine.generation()["prompt_tokens"] - before <= length + 3
    alone = [engine.complete(prompt, max_tokens=6, temperature=0.8, seed=3 + k).json()["choices"][0]["text"] for k in range(4)]
    assert [c["text"] for c in answer["choices"]] == alone


def test_greedy_is_the_same_alone_and_in_company(engine):
    prompts = [PROMPT, "Once upon a time", "def add(a, b):", "serving " * 48, "The quick brown", "1 2 3 4 5"]
    alone = [text_of(engine.complete(p, max_tokens=32)) for p in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(lambda p: text_of(engine.complete(p, max_tokens=32)), prompts))
    assert alone == together


def test_seeds(engine):
    def sample(seed):
        return text_of(engine.complete("A poem:", max_tokens=24, temperature=1.0, seed=seed))

    assert sample(1) == sample(1)
    assert len({sample(s) for s in range(1, 5)}) > 1


def test_stops(engine):
    """C43: stream and whole alike."""
    full = text_of(engine.complete(PROMPT, max_tokens=24))
    middle = full[len(full) // 3 : len(full) // 3 + 9]
    cases = [
        ([middle], full[: full.index(middle)], "stop"),
        ([full[-4:] + "never comes"], full, "length"),
        ([full[:3]], "", "stop"),
    ]
    for stop, wanted, reason in cases:
        answer = engine.complete(PROMPT, max_tokens=24, stop=stop)
        assert text_of(answer) == wanted and answer.json()["choices"][0]["finish_reason"] == reason
        assert streamed_text(stream(engine, "/v1/completions", prompt=PROMPT, max_tokens=24, stop=stop)) == wanted
    assert_error(engine.complete(PROMPT, stop=""), 400, "stop")
    assert_error(engine.complete(PROMPT, stop=["a", ""]), 400)
    assert_error(engine.complete(PROMPT, stop=["a", "b", "c", "d", "e"]), 400, "stop")


@pytest.mark.parametrize(
    "field, value",
    [
        ("max_tokens", -1),
        ("max_tokens", "ten"),
        ("n", 0),
        ("temperature", -0.5),
        ("temperature", float("1e9")),
        ("top_p", 1.5),
        ("top_p", 0),
        ("logprobs", 1000),
        ("presence_penalty", 9),
        ("stop", 5),
        ("seed", "x"),
        ("stop_token_ids", [10_000_000]),
        ("min_tokens", -1),
        ("logit_bias", {"5": 1000}),
        ("logit_bias", {"10000000": 1}),
        ("echo", True),
        ("n_predict", 5),
        ("options", {"num_ctx": 64}),
        ("include_stop_str_in_output", True),
        ("stream", "yes"),
        ("model", "no-such-model"),
        ("prompt", None),
        ("prompt", []),
        ("prompt", [[10_000_000]]),
        ("prompt", {"a": 1}),
    ],
)
def test_bad_fields(engine, field, value):
    """C40: 400 naming the field, and a plain request after it works."""
    prompt = value if field == "prompt" else PROMPT
    fields = {} if field == "prompt" else {field: value}
    error = assert_error(engine.complete(prompt, **fields), (400, 404))
    assert field in (error["param"] or "") or field in error["message"]
    assert engine.complete(PROMPT, max_tokens=1).status_code == 200


def test_stop_tokens_of_another_model(engine):
    """C40: the pair names the token that is not the model's."""
    error = assert_error(engine.complete(PROMPT, stop_token_ids=[49_152 + 5], min_tokens=4), 400)
    assert error["param"] == "stop_token_ids[0]"
    assert engine.complete(PROMPT, max_tokens=1).status_code == 200


def test_tokens_steer_an_answer(engine):
    forced = engine.complete(PROMPT, max_tokens=4, logit_bias={"400": 100}, logprobs=0).json()["choices"][0]
    assert len(set(forced["logprobs"]["tokens"])) == 1, forced
    # Nothing stops before the least length, and then anything does.
    answer = engine.complete(PROMPT, max_tokens=30, min_tokens=5, stop=[" ", ".", "e", "a"]).json()
    assert answer["usage"]["completion_tokens"] >= 5 and answer["choices"][0]["finish_reason"] == "stop"


def test_a_common_start_is_not_computed_again(engine):
    """C19, without drafts: what a slot kept changes no answer."""
    start = "You are a careful assistant that answers briefly. " * 12
    texts = [start + tail for tail in ("Name a colour:", "Name a fruit:", "Name a colour: red. Another:")]
    first = [engine.complete(t, max_tokens=12).json() for t in texts]
    again = [engine.complete(t, max_tokens=12).json() for t in texts]
    assert [a["choices"][0]["text"] for a in first] == [a["choices"][0]["text"] for a in again]
    cached = [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in first + again]
    assert cached[1] > 80 and min(cached[3:]) > 80, cached
    assert again[0]["timings"]["prompt_n"] + again[0]["timings"]["cache_n"] == again[0]["usage"]["prompt_tokens"]


def test_null_means_default(engine):
    """C40."""
    answer = engine.complete("Say: a", max_tokens=None, stop=["\n"], temperature=None, n=None, seed=None)
    assert answer.status_code == 200, answer.text


def test_echo_and_logprobs(engine):
    """C40: `echo` is refused by name; log-probabilities sum up plausibly."""
    assert_error(engine.complete(PROMPT, echo=True, max_tokens=0, logprobs=1), 400, "echo")
    answer = engine.complete(PROMPT, max_tokens=3, logprobs=2).json()["choices"][0]["logprobs"]
    assert len(answer["tokens"]) == len(answer["token_logprobs"]) == 3
    for chosen, best in zip(answer["token_logprobs"], answer["top_logprobs"]):
        assert chosen <= 0 and chosen == pytest.approx(max(best.values()), abs=1e-5)
    content = chat(engine, logprobs=True, top_logprobs=3).json()["choices"][0]["logprobs"]["content"]
    assert all(len(token["top_logprobs"]) == 3 for token in content)


@pytest.mark.parametrize(
    "body",
    [
        "{\"model\": \"smollm2-135m\", \"prompt\": \"你好\"}".encode("gbk"),
        b'{"model": "smollm2-135m", "prompt": "lone \\ud800 half"}',
        b'{"model": "smollm2-135m", "prompt": "raw \x00 nul"}',
        b'{"model": "smollm2-135m", "prompt": ' + b"[" * 10_000,
        b"[" * 10_000,
        b"",
        b"null",
        b"not json",
    ],
    ids=["gbk", "lone surrogate", "raw nul", "deep prompt", "brackets", "empty", "null", "words"],
)
def test_broken_bodies(engine, body):
    """C41."""
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/rerank"):
        answer = engine.http.post(path, content=body, headers={"content-type": "application/json"})
        assert_error(answer, 400)
    assert engine.complete(PROMPT, max_tokens=1).status_code == 200
    assert "\\x00" not in engine.log() and "\x00" not in engine.log()


def test_prompt_longer_than_the_context(engine):
    error = assert_error(engine.complete("word " * 9_000), 400, says=r"\d{4}.*\d{4}")
    assert error["code"] == "context_length_exceeded" and error["param"] == "prompt"
    error = assert_error(engine.complete("a", max_tokens=5_000), 400, says=r"5000.*2048")
    assert error["code"] == "context_length_exceeded" and error["param"] == "max_tokens"


def test_bad_messages(engine):
    for messages in ([], "hi", [{"role": "user"}], [{"role": "captain", "content": "x"}], [{"content": "x"}]):
        body = {"model": LANGUAGE_MODEL, "messages": messages, "max_tokens": 1}
        error = assert_error(engine.http.post("/v1/chat/completions", json=body), 400)
        assert "messages" in (error["param"] or "") + error["message"]


def test_content_parts(engine):
    parts = [{"type": "text", "text": "Say hello."}]
    assert chat(engine, parts).json()["choices"][0] == chat(engine, "Say hello.").json()["choices"][0]
    assert_error(chat(engine, [{"type": "image_url", "image_url": {"url": "x"}}]), 400)


def test_parts_of_characters(engine):
    """Tokens of a byte-level model are parts of characters: their bytes are true, their text is told apart, none is shown."""
    content, rare = "Repeat: 😀 😃 😄 😁", "日本の首都は東京です。"
    kept = 0
    for n in range(1, 13):
        answer = chat(engine, content, max_tokens=n, logprobs=True, top_logprobs=2).json()
        choice = answer["choices"][0]
        text, tokens = choice["message"]["content"], choice["logprobs"]["content"]
        assert answer["usage"]["completion_tokens"] == n and len(tokens) == n
        joined = b"".join(bytes(token["bytes"]) for token in tokens)
        # What is left out is the beginning of a character, and nothing else.
        assert joined.startswith(text.encode()) and joined.decode(errors="ignore") == text and "\ufffd" not in text
        kept += len(joined) > len(text.encode())
        for token in tokens:
            spelled = "bytes:" + "".join(f"\\x{b:02x}" for b in token["bytes"])
            assert token["token"] in (bytes(token["bytes"]).decode(errors="replace"), spelled)
            assert "\ufffd" not in token["token"] and token["top_logprobs"][0]["bytes"] == token["bytes"]
    assert kept, "the case needs an answer that is cut in a character"

    body = {"max_tokens": 12, "logprobs": 2, "temperature": 1.2, "seed": 5}
    whole = engine.complete(rare, **body).json()["choices"][0]
    logprobs = whole["logprobs"]
    assert any(token.startswith("bytes:\\x") for token in logprobs["tokens"])
    offsets = logprobs["text_offset"]
    assert offsets == sorted(offsets) and 0 == offsets[0] and offsets[-1] <= len(whole["text"])
    for token, value, best in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
        assert best[token] == value and 2 <= len(best) <= 3
    chunks = [c["choices"][0] for c in stream(engine, "/v1/completions", prompt=rare, **body)]
    assert "".join(c["text"] for c in chunks) == whole["text"]
    for column, values in logprobs.items():
        assert [v for c in chunks if c["logprobs"] for v in c["logprobs"][column]] == values
    for n in range(1, 8):
        cut = engine.complete(rare, max_tokens=n).json()
        assert "\ufffd" not in text_of(engine.complete(rare, max_tokens=n)) and cut["usage"]["completion_tokens"] == n
        assert streamed_text(stream(engine, "/v1/completions", prompt=rare, max_tokens=n)) == cut["choices"][0]["text"]


def test_utf8_is_never_cut(engine):
    chunks = stream(engine, "/v1/completions", prompt="日本の首都は東京です。フランスの首都は", max_tokens=40)
    text = streamed_text(chunks)
    assert text == text_of(engine.complete("日本の首都は東京です。フランスの首都は", max_tokens=40))
