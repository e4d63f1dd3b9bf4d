#!/usr/bin/env python3
"""Reference transcripts and speed of faster-whisper on the same CTranslate2 weights.

  whisper.py reference --model FOLDER [--speech FOLDER] --out tests/reference/whisper.json
  whisper.py bench     --model FOLDER [--threads N] [--rounds N] [--types int8,float32] FILE...

FOLDER holds model.bin, tokenizer.json and config.json. Speech is Debian's pocketsphinx-testdata: public-domain readings
with their texts. Decoding is greedy with the usual temperature fall-back; bench reports CPU seconds (this kind of machine
pauses for whole seconds, which wall time would show as the model's).
"""

import argparse
import json
import re
import time
from importlib.metadata import version
from pathlib import Path

TEMPERATURES = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


def truths(speech):
    """(path below the speech folder, text) of each reading."""
    for folder, listing in (("librivox", "transcription"), ("cards", "cards.transcription")):
        for line in (speech / folder / listing).read_text().splitlines():
            found = re.match(r"<s>\s*(.*?)\s*</s>\s*\((.*)\)", line)
            if found:
                yield f"{folder}/{found[2]}.wav", " ".join(found[1].split())


def transcribe(model, path):
    segments, info = model.transcribe(str(path), beam_size=1, best_of=1, temperature=TEMPERATURES)
    return "".join(segment.text for segment in segments).strip(), info.duration


def load(args, compute_type, threads):
    from faster_whisper import WhisperModel

    return WhisperModel(args.model, device="cpu", compute_type=compute_type, cpu_threads=threads)


def reference(args):
    model = load(args, "float32", 2)
    rows = []
    for name, truth in truths(Path(args.speech)):
        text, seconds = transcribe(model, Path(args.speech) / name)
        rows.append({"file": name, "seconds": round(seconds, 3), "truth": truth, "text": text})
        print(f"{name}: {text}")
    made_by = {name: version(name) for name in ("faster-whisper", "ctranslate2")}
    out = {"made_by": made_by, "model": "whisper-tiny-en", "compute_type": "float32", "beam_size": 1, "rows": rows}
    Path(args.out).write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


def bench(args):
    models = {name: load(args, name, args.threads) for name in args.types.split(",")}
    best = {}
    for _ in range(args.rounds):
        for name, model in models.items():
            cpu, seconds = time.process_time(), 0.0
            for path in args.files:
                seconds += transcribe(model, path)[1]
            cpu = time.process_time() - cpu
            best[name] = min(best.get(name, (cpu, seconds)), (cpu, seconds))
    for name, (cpu, seconds) in best.items():
        figures = {"peer": f"faster-whisper {name}", "threads": args.threads, "audio_s": round(seconds, 2)}
        print(json.dumps(figures | {"cpu_s": round(cpu, 3), "audio_s_per_cpu_s": round(seconds / cpu, 2)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("reference")
    one.add_argument("--model", required=True)
    one.add_argument("--speech", default="/usr/share/pocketsphinx/test/data")
    one.add_argument("--out", required=True)
    one.set_defaults(run=reference)
    two = commands.add_parser("bench")
    two.add_argument("--model", required=True)
    two.add_argument("--threads", type=int, default=2)
    two.add_argument("--rounds", type=int, default=3)
    two.add_argument("--types", default="int8,float32")
    two.add_argument("files", nargs="+")
    two.set_defaults(run=bench)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
