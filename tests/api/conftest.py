"""The served API, driven as its users drive it: the real binary, the real models, real speech."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest

BINARY = os.environ["LANEKEEPER_TEST_BINARY"]
SPEECH = Path(os.environ.get("LANEKEEPER_TEST_SPEECH", "/usr/share/pocketsphinx/test/data"))
CLIPS = Path(__file__).resolve().parents[2] / "assets" / "clips"
SPEECH_MODEL, LANGUAGE_MODEL, TEXT_MODEL = "whisper-tiny-en", "smollm2-135m", "minilm-l6"

# Generous: the machine may be shared and pause for whole seconds.
PATIENCE_S = 120


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, what: str, seconds: float = PATIENCE_S):
    """Polls until `condition()` is truthy and returns its value; fails with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class Engine:
    """A `lanekeeper serve` process of its own, and ways to speak to it."""

    def __init__(self, folder: Path, profile: str = "demo", settings=(), environment=None, wait_ready: bool = True, fresh: bool = False, stderr=None):
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / "serve.log"
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder / "state"), **(environment or {})}
        command = [BINARY, "serve", "--profile", profile, "--listen", f"127.0.0.1:{self.port}", "--offline"]
        command += ["--fresh"] if fresh else []
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr or open(self.log_path, "w")
        )
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S)
        if wait_ready:
            wait_for(self.is_ready, f"the engine is ready; its log:\n{self.log()}")

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"serve ended with {self.process.returncode}:\n{self.log()}"
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else "(its stderr is the test's)"

    def cli(self, *arguments: str, stdin: bytes | None = None, timeout: float = PATIENCE_S) -> subprocess.CompletedProcess:
        return subprocess.run(
            [BINARY, *arguments], env=self.environment, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout
        )

    def cli_json(self, *arguments: str):
        done = self.cli(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def snapshot(self) -> dict:
        return self.http.get("/control/v1/snapshot").json()

    def model(self, model: str) -> dict:
        return next(m for m in self.snapshot()["models"] if m["id"] == model)

    def lanes(self, model: str) -> dict:
        """The lanes of a model's first queue, by name."""
        return {lane["lane"]: lane for lane in self.model(model)["queues"][0]["lanes"]}

    def generation(self) -> dict:
        return self.snapshot()["generation"][0]

    def idle(self) -> bool:
        return self.snapshot()["requests"]["total"] == 0

    def transcribe(self, audio: bytes, name: str = "audio.wav", **fields) -> httpx.Response:
        data = {"model": SPEECH_MODEL, **fields}
        return self.http.post("/v1/audio/transcriptions", files={"file": (name, audio)}, data=data)

    def text(self, audio: bytes, name: str = "audio.wav", **fields) -> str:
        answer = self.transcribe(audio, name, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["text"]

    def complete(self, prompt, **fields) -> httpx.Response:
        body = {"model": LANGUAGE_MODEL, "prompt": prompt, "temperature": 0, "max_tokens": 16, **fields}
        return self.http.post("/v1/completions", json=body)

    def embed(self, texts, **fields) -> httpx.Response:
        return self.http.post("/v1/embeddings", json={"model": TEXT_MODEL, "input": texts, **fields})

    def stop(self, limit: float = PATIENCE_S) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit)


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """One engine that the tests share; it must be idle again, and alive, at the end."""
    e = Engine(short_folder())
    yield e
    wait_for(e.idle, "the shared engine is idle after all tests")
    assert e.stop() == 0, e.log()


@pytest.fixture
def own_engine():
    """Starts engines with settings of their own; ends them after the test."""
    started = []

    def start(*settings: str, **options) -> Engine:
        started.append(Engine(short_folder(), settings=settings, **options))
        return started[-1]

    yield start
    for e in started:
        if e.process.poll() is None:
            e.process.kill()
            e.process.wait()


def short_folder() -> Path:
    """A short path: unix socket names end at about 100 bytes."""
    return Path(tempfile.mkdtemp(prefix="lk-"))


def assert_error(answer: httpx.Response, status, param: str | None = None, says: str = "") -> dict:
    """The answer is an error of the OpenAI shape."""
    wanted = (status,) if isinstance(status, int) else status
    assert answer.status_code in wanted, f"{answer.status_code}: {answer.text}"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}, error
    assert error["message"], error
    if param is not None:
        assert error["param"] == param, error
    assert re.search(says, error["message"], re.IGNORECASE), f"{says!r} not in {error['message']!r}"
    return error


# ---- audio to send ----


def ffmpeg(*arguments, data: bytes | None = None) -> bytes:
    command = ["ffmpeg", "-v", "error", "-y", *map(str, arguments)]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def convert(audio: bytes, name: str, *options) -> bytes:
    """Encodes audio into the format that `name`'s ending says, with further ffmpeg options."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / name
        source.write_bytes(audio)
        ffmpeg("-i", source, *options, target)
        return target.read_bytes()


def wav(samples: bytes, rate: int = 16_000, channels: int = 1, bits: int = 16, coding: int = 1) -> bytes:
    """A plain WAV file around PCM bytes."""
    align = channels * bits // 8
    head = b"fmt " + (16).to_bytes(4, "little") + coding.to_bytes(2, "little") + channels.to_bytes(2, "little")
    head += rate.to_bytes(4, "little") + (rate * align).to_bytes(4, "little")
    head += align.to_bytes(2, "little") + bits.to_bytes(2, "little")
    body = b"WAVE" + head + b"data" + len(samples).to_bytes(4, "little") + samples
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def pcm(audio: bytes) -> bytes:
    """Mono 16 kHz 16-bit samples of any audio file."""
    return ffmpeg("-i", "pipe:0", "-f", "s16le", "-ac", "1", "-ar", "16000", "pipe:1", data=audio)


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", " ", text.lower().replace("-", " ")).split()


def word_errors(reference: str, heard: str) -> int:
    """Edit distance in words."""
    a, b = words(reference), words(heard)
    row = list(range(len(b) + 1))
    for i, wa in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, wb in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (wa != wb))
    return row[-1]


@pytest.fixture(scope="session")
def clips() -> list[tuple[bytes, str]]:
    """The demo's clips (FLAC bytes) with their texts."""
    texts = json.loads((CLIPS / "texts.json").read_text())
    return [((CLIPS / entry["file"]).read_bytes(), entry["text"]) for entry in texts]


@pytest.fixture(scope="session")
def clip(clips) -> tuple[bytes, str]:
    """One short clip as a 16 kHz WAV, with its text."""
    audio, text = clips[0]
    return wav(pcm(audio)), text


@pytest.fixture(scope="session")
def human() -> list[tuple[bytes, str]]:
    """Readings by a person (public domain), with what was read."""
    folder = SPEECH / "librivox"
    readings = []
    for line in (folder / "transcription").read_text().splitlines():
        match = re.match(r"(.*)\((.+)\)\s*$", line)
        if match:
            spoken = re.sub(r"</?s>|\(\d\)|<sil>|\+\+\w+\+\+", " ", match.group(1))
            readings.append(((folder / f"{match.group(2).strip()}.wav").read_bytes(), spoken))
    assert readings, f"no readings in {folder}"
    return readings
