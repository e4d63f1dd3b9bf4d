"""The official client against the served API."""

import io

import openai
import pytest
from conftest import LANGUAGE_MODEL, SPEECH_MODEL, TEXT_MODEL, word_errors


@pytest.fixture
def client(engine):
    return openai.OpenAI(base_url=f"{engine.url}/v1", api_key="unused", max_retries=0)


def test_models(client):
    assert {m.id for m in client.models.list()} >= {SPEECH_MODEL, LANGUAGE_MODEL, TEXT_MODEL}
    assert client.models.retrieve(LANGUAGE_MODEL).object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_transcriptions(client, clip):
    audio, text = clip
    file = ("clip.wav", io.BytesIO(audio))
    plain = client.audio.transcriptions.create(model=SPEECH_MODEL, file=file)
    assert word_errors(text, plain.text) <= 1
    verbose = client.audio.transcriptions.create(
        model=SPEECH_MODEL, file=("clip.wav", io.BytesIO(audio)), response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert verbose.text == plain.text and verbose.segments
    streamed = client.audio.transcriptions.create(model=SPEECH_MODEL, file=("clip.wav", io.BytesIO(audio)), stream=True)
    events = list(streamed)
    assert events[-1].type == "transcript.text.done" and events[-1].text.strip() == plain.text.strip()


def test_embeddings(client):
    answer = client.embeddings.create(model=TEXT_MODEL, input=["one", "two"])
    assert len(answer.data) == 2 and len(answer.data[0].embedding) == 384 and answer.usage.total_tokens > 0


def test_chat(client):
    question = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    answer = client.chat.completions.create(model=LANGUAGE_MODEL, messages=question, temperature=0, max_tokens=16)
    assert "Paris" in answer.choices[0].message.content
    chunks = list(
        client.chat.completions.create(
            model=LANGUAGE_MODEL, messages=question, temperature=0, max_tokens=16, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == answer.choices[0].message.content
    # The second finds its prompt in the cache; what is counted is the same.
    counted = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [getattr(chunks[-1].usage, n) for n in counted] == [getattr(answer.usage, n) for n in counted]


def test_completions(client):
    answer = client.completions.create(model=LANGUAGE_MODEL, prompt="One, two, three,", temperature=0, max_tokens=4)
    assert "four" in answer.choices[0].text


def test_errors_arrive_as_the_clients_own_types(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=LANGUAGE_MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=-1)
    assert refused.value.param == "max_tokens"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="no-such-model", input="x")
