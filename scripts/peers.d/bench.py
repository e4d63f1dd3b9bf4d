"""lanekeeper beside its peers on the same weights and threads, interleaved round by round.

Each round runs every program once, in turn; a figure is the best of its rounds, and the ratio is ours over the peer's.
All by processor time: a shared machine takes time away from the clock, not from that. Printed as a table, or
as Markdown or JSON.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIP = ROOT / "assets" / "clips" / "01.flac"
WHISPER, LANGUAGE, TEXT = "whisper-tiny-en", "smollm2-135m", "minilm-l6"


def lines(command, **environment) -> list[dict]:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, env={**os.environ, **environment})
    text = done.stdout.decode().strip()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


class Bench:
    def __init__(self, args):
        self.args = args
        self.best: dict[str, float] = {}

    def keep(self, name: str, value: float):
        self.best[name] = max(self.best.get(name, 0.0), value)

    def ours(self, model: str, *measures: str):
        command = [os.environ["LANEKEEPER_TEST_BINARY"], "--quiet", "bench", "--offline", "--rounds", "2", "-o", "json"]
        command += ["--threads", str(self.args.threads), "--model", model]
        for measure in measures:
            command += ["--only", measure]
        (result,) = lines(command)
        for figure in result["figures"]:
            self.keep(f"ours {figure['measure']}", figure["per_cpu_s"])

    def whisper(self):
        command = [sys.executable, "scripts/peers.d/whisper.py", "bench", "--model", self.args.models / WHISPER]
        for figure in lines([*command, "--threads", str(self.args.threads), "--rounds", "2", CLIP]):
            self.keep(figure["peer"], figure["audio_s_per_cpu_s"])

    def text(self):
        command = [sys.executable, "scripts/peers.d/text.py", "bench", "--model", self.args.models / TEXT]
        (result,) = lines([*command, "--threads", str(self.args.threads), "--rounds", "10"])
        for name in ("short_1", "short_16", "long_4"):
            self.keep(f"sentence-transformers {name}", result[name]["texts_per_cpu_s"])

    def language(self):
        weights = self.args.models / LANGUAGE / "weights.gguf"
        command = ["node", "scripts/peers.d/llm.mjs", self.args.folder / "node", weights, "--bench", "2"]
        for figure in lines(command, PEER_THREADS=str(self.args.threads)):
            self.keep(f"llama.cpp {figure['what']}", figure["per_cpu_s"])

    def run(self):
        turns = {
            "speech": (WHISPER, ["1 clip"], self.whisper),
            "text": (TEXT, ["text"], self.text),
            "language": (LANGUAGE, ["prefill of 256", "decode"], self.language),
        }
        for number in range(1, self.args.rounds + 1):
            for kind, (model, measures, peer) in turns.items():
                if kind in self.args.only:
                    print(f"round {number} of {self.args.rounds}: {kind}", file=sys.stderr, flush=True)
                    self.ours(model, *measures)
                    peer()

    def rows(self):
        pairs = [
            ("audio-s per cpu-s, one clip", "1 clip", "faster-whisper int8"),
            ("audio-s per cpu-s, one clip", "1 clip", "faster-whisper float32"),
            ("texts per cpu-s, one short", "1 short text", "sentence-transformers short_1"),
            ("texts per cpu-s, 16 short", "16 short texts together", "sentence-transformers short_16"),
            ("texts per cpu-s, 4 of 256 tokens", "4 long texts together", "sentence-transformers long_4"),
            ("tokens per cpu-s, prefill of 256", "prefill of 256 tokens", "llama.cpp prefill_tokens_per_s"),
            *(
                (f"tokens per cpu-s, decode of {n}", f"decode of {n} at once", f"llama.cpp decode_tokens_per_s_{n}")
                for n in (1, 4, 8)
            ),
        ]
        for what, mine, peer in pairs:
            if peer not in self.best:
                continue
            ours, theirs = self.best[f"ours {mine}"], self.best[peer]
            name = peer.split(" ")[0] + (" " + peer.split(" ")[1] if peer.startswith("faster") else "")
            yield {"what": what, "peer": name, "ours": round(ours, 2), "theirs": round(theirs, 2), "ratio": round(ours / theirs, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("PEERS_FOLDER"), help="where the peers are installed")
    parser.add_argument("--models", type=Path, required=True, help="folder made by scripts/peers: a sub-folder a model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    kinds = ["speech", "text", "language"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds, help="which models")
    parser.add_argument("--markdown", action="store_true", help="print a table to paste")
    parser.add_argument("--json", action="store_true")
    bench = Bench(parser.parse_args())
    bench.run()
    rows = list(bench.rows())
    if bench.args.json:
        print(json.dumps({"threads": bench.args.threads, "rounds": bench.args.rounds, "rows": rows}, indent=1))
        return
    print(f"{bench.args.threads} thread(s), best of {bench.args.rounds} interleaved rounds")
    if bench.args.markdown:
        print("\n| | ours | peer | | ratio |\n|---|---:|---|---:|---:|")
        for row in rows:
            print(f"| {row['what']} | {row['ours']} | {row['peer']} | {row['theirs']} | {row['ratio']:.2f} |")
        return
    for row in rows:
        print(f"{row['what']:<34} ours {row['ours']:>9} {row['peer']:<24} {row['theirs']:>9}   ratio {row['ratio']:.2f}")


if __name__ == "__main__":
    main()
