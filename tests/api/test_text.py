"""Embeddings and rerank."""

import base64
import http.client
import json
import math
import struct

import pytest
from conftest import TEXT_MODEL, assert_error


def vector(answer, index=0):
    assert answer.status_code == 200, answer.text
    return answer.json()["data"][index]["embedding"]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_meaning(engine):
    data = engine.embed(["a cat sat on the mat", "a kitten rested on a rug", "interest rates rose"]).json()["data"]
    cat, kitten, rates = (d["embedding"] for d in data)
    assert [d["index"] for d in data] == [0, 1, 2]
    assert math.isclose(cosine(cat, cat), 1, abs_tol=1e-4)
    assert cosine(cat, kitten) > cosine(cat, rates) + 0.2


def test_encoding_formats(engine):
    """C46."""
    absent, floats = engine.embed("one text"), engine.embed("one text", encoding_format="float")
    packed = engine.embed("one text", encoding_format="base64")
    numbers = vector(floats)
    assert vector(absent) == numbers
    raw = base64.b64decode(vector(packed))
    unpacked = struct.unpack(f"<{len(raw) // 4}f", raw)
    assert list(unpacked) == pytest.approx(numbers, abs=1e-7)
    assert_error(engine.embed("one text", encoding_format="hex"), 400, "encoding_format", "hex")


@pytest.mark.parametrize("texts", ["", [], [""], ["good", ""], [[]]])
def test_nothing_to_embed(engine, texts):
    """C47: 400 that names the place."""
    error = assert_error(engine.embed(texts), 400, says="empty")
    assert error["param"].startswith("input")
    if texts == ["good", ""]:
        assert "1" in error["param"] + error["message"]


@pytest.mark.parametrize("text", [".", " ", "日本語", "\u0000 escaped", "🦜" * 20])
def test_odd_texts_give_finite_unit_vectors(engine, text):
    numbers = vector(engine.embed(text))
    assert all(math.isfinite(x) for x in numbers) and math.isclose(cosine(numbers, numbers), 1, abs_tol=1e-4)


def test_long_text(engine):
    """C47: 400 with both numbers; with truncation asked, a vector and a mark."""
    text = "word " * 6_400
    error = assert_error(engine.embed(text), 400, says="256")
    assert error["code"] == "context_length_exceeded"
    answer = engine.embed(text, truncate=True)
    assert len(vector(answer)) == 384 and "truncated" in answer.text


def test_many_texts_keep_their_order(engine):
    """C49."""
    texts = [f"text number {i}" for i in range(257)]
    data = engine.embed(texts).json()["data"]
    assert [d["index"] for d in data] == list(range(257))
    for i in (0, 100, 256):
        assert cosine(vector(engine.embed(texts[i])), data[i]["embedding"]) > 0.99999


def test_tokens_as_input(engine):
    answer = engine.embed([[101, 7592, 102], [101, 2088, 102]])
    assert cosine(vector(answer, 0), vector(engine.embed("hello"))) > 0.9999
    assert answer.json()["usage"]["prompt_tokens"] == 6
    assert_error(engine.embed([[101, 999_999]]), 400, says="999999")


def test_dimensions(engine):
    numbers = vector(engine.embed("short", dimensions=64))
    assert len(numbers) == 64 and math.isclose(cosine(numbers, numbers), 1, abs_tol=1e-4)
    for wrong in (0, 385, -1, "many"):
        assert_error(engine.embed("short", dimensions=wrong), 400, "dimensions")


def test_body_too_large(own_engine):
    """C49: 413 naming limit and value, connection closed cleanly, the engine goes on."""
    engine = own_engine("limits.json_bytes=100000")
    answer = engine.embed("x" * 300_000)
    assert_error(answer, 413, says="100000|100 ?k|97")
    assert engine.embed("fine").status_code == 200
    many = engine.embed(["a"] * 20_000)
    assert_error(many, (400, 413))


def test_false_content_length(engine):
    """C49: a body shorter than it claims is never answered with success, and harms nobody."""
    body = json.dumps({"model": TEXT_MODEL, "input": "hello"}).encode()
    for claimed in (len(body) - 5, len(body) + 50):
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
        connection.putrequest("POST", "/v1/embeddings")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(claimed))
        connection.endheaders(body)
        connection.sock.shutdown(1)
        try:
            assert connection.getresponse().status == 400
        except (http.client.HTTPException, ConnectionError):
            pass  # closed without an answer
        connection.close()
    assert engine.embed("still here").status_code == 200


DOCUMENTS = [
    "Bread is baked in an oven.",
    "The parrot spoke two languages.",
    "Paris is the capital of France.",
    "France's largest city lies on the Seine.",
    "Rust is a programming language.",
]


def rerank(engine, documents=DOCUMENTS, **fields):
    body = {"model": TEXT_MODEL, "query": "What is the capital of France?", "documents": documents, **fields}
    return engine.http.post("/v1/rerank", json=body)


def test_rerank(engine):
    """C50."""
    answer = rerank(engine, top_n=2).json()
    assert [r["index"] for r in answer["results"]] == [2, 3]
    assert answer["results"][0]["relevance_score"] > answer["results"][1]["relevance_score"]
    assert answer["method"] == "cosine"
    assert len(rerank(engine, top_n=99).json()["results"]) == 5
    assert_error(rerank(engine, top_n=0), 400, "top_n")
    assert_error(rerank(engine, documents=[]), 400, "documents")


def test_rerank_equal_documents_and_objects(engine):
    """C50: equal scores keep their order; documents may be objects."""
    doubled = [DOCUMENTS[2], DOCUMENTS[0], DOCUMENTS[2]]
    assert [r["index"] for r in rerank(engine, documents=doubled).json()["results"]] == [0, 2, 1]
    objects = rerank(engine, documents=[{"text": d} for d in DOCUMENTS], return_documents=True).json()
    assert objects["results"][0]["document"]["text"] == DOCUMENTS[2]
