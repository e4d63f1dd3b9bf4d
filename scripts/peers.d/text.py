#!/usr/bin/env python3
"""Reference embeddings and speed of sentence-transformers on the same weights.

  text.py reference --model FOLDER --out tests/reference/text.json
  text.py bench     --model FOLDER [--threads N] [--rounds N]

FOLDER holds the all-MiniLM-L6-v2 checkpoint with its sentence-transformers files (modules.json and so on).
Vectors are written as base64 of little-endian f16: rounding to f16 moves a cosine by about 1e-7.
"""

import argparse
import base64
import json
import time

TEXTS = [
    "The lock keeper opened the gates at dawn.",
    "At sunrise the gates of the lock were opened by its keeper.",
    "Quarterly revenue fell short of what the analysts had expected.",
    "Whisk the eggs with sugar until the mixture turns pale.",
    "How do I reset the password of my router?",
    "Where can I change the access code of my wireless box?",
    "A barge laden with gravel waited below the weir.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "The committee postponed its decision until the spring.",
    "Is there a train to Ghent after ten in the evening?",
    "He tuned the old piano by ear.",
    "Memory safety without garbage collection is the point of ownership.",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }",
    "SELECT name, count(*) FROM visits GROUP BY name HAVING count(*) > 3;",
    "https://example.org/path?query=value&other=1#fragment",
    "3.14159 26535 89793 -42 1e-9 0x1F 50% 12:45",
    ".",
    "?!",
    "a",
    "I",
    "word word word word word word word word",
    "UPPER CASE AND lower case are the same to this model",
    "naïve café résumé Zürich smörgåsbord",
    "Der Schleusenwärter öffnete bei Tagesanbruch die Tore.",
    "L'éclusier ouvrit les portes à l'aube.",
    "日本語の文章です。",
    "船闸管理员在黎明打开了闸门。",
    "Шлюзовщик открыл ворота на рассвете.",
    "مرحبا بالعالم",
    "emoji 🚢 in the middle of 🌅 a sentence 🎉",
    "tabs\tand\nnew lines\r\nand   many    spaces",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "xqzvbn wrtplk ggghhh",
    "It's the users' data, isn't it? \"Yes,\" she said - 'of course'.",
    "e-mail: someone@example.org; phone +32 9 123 45 67",
    "The patient reports a dull headache since Tuesday, no fever, no nausea.",
    "Rain is expected in the north, with gales along the coast towards the evening.",
    "The lease may be ended by either party with three months' notice in writing.",
    "To be, or not to be, that is the question.",
    "A queue is a list in which one joins at the end and leaves at the front.",
    "Batching trades the latency of one request for the throughput of all.",
    "Dogs chase cats.",
    "Cats chase dogs.",
    "The bank raised its rates.",
    "The bank of the river was steep.",
    "[CLS] special tokens [SEP] typed as text [MASK]",
    " ".join(["The boat moved slowly along the canal while the children waved from the towpath."] * 8),
    " ".join(f"Item {n} of the list weighs {n * 7 % 50} grams and costs {n % 9} coins." for n in range(1, 11)),
    " ".join(["antidisestablishmentarianism"] * 24),
    "In the beginning of the last century the canal carried coal, grain and timber between two seas; "
    "today it carries people who have time, and the locks are worked by hand because nobody is in a hurry. " * 3,
]


def load(model, threads=None):
    import torch
    from sentence_transformers import SentenceTransformer

    if threads:
        torch.set_num_threads(threads)
    return SentenceTransformer(model, device="cpu")


def versions():
    import sentence_transformers
    import tokenizers
    import torch
    import transformers

    packages = [sentence_transformers, transformers, tokenizers, torch]
    return {p.__name__: str(p.__version__) for p in packages}


def reference(args):
    import numpy

    encoder = load(args.model)
    assert len(TEXTS) == 50
    vectors = encoder.encode(TEXTS, batch_size=1, normalize_embeddings=True).astype("<f4")
    rows = []
    for text, vector in zip(TEXTS, vectors):
        ids = encoder.tokenizer(text)["input_ids"]
        assert len(ids) <= encoder.max_seq_length, (len(ids), text)
        packed = base64.b64encode(vector.astype("<f2").tobytes()).decode()
        rows.append({"text": text, "tokens": len(ids), "vector": packed})
    document = {"model": "all-MiniLM-L6-v2", "peers": versions(), "dimensions": int(vectors.shape[1]), "rows": rows}
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=1)
        file.write("\n")
    print(f"{len(rows)} texts, {sum(r['tokens'] for r in rows)} tokens; norm of the first {numpy.linalg.norm(vectors[0]):.6f}")


SHORT = "The lock keeper opened the gates at dawn."
LONG = " ".join(["The boat moved slowly along the canal while the children waved from the towpath."] * 26)


def bench(args):
    """Best of the rounds, by the clock and in processor time: a machine may pause, and then a mean says little."""
    encoder = load(args.model, args.threads)
    encoder.max_seq_length = 256  # what the shipped profile serves
    results = {"peers": versions(), "threads": args.threads}
    for name, text, batches in [("short", SHORT, [1, 16]), ("long", LONG, [4])]:
        tokens = min(len(encoder.tokenizer(text)["input_ids"]), encoder.max_seq_length)
        for batch in batches:
            texts = [text] * batch
            walls, cpus = [], []
            for _ in range(args.rounds):
                wall, cpu = time.perf_counter(), time.process_time()
                encoder.encode(texts, batch_size=batch, show_progress_bar=False)
                walls.append(time.perf_counter() - wall)
                cpus.append(time.process_time() - cpu)
            results[f"{name}_{batch}"] = {
                "tokens": tokens,
                "texts_per_s": round(batch / min(walls), 2),
                "texts_per_cpu_s": round(batch / min(cpus), 2),
            }
    print(json.dumps(results, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("reference")
    command.add_argument("--model", required=True)
    command.add_argument("--out", required=True)
    command.set_defaults(run=reference)
    command = commands.add_parser("bench")
    command.add_argument("--model", required=True)
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--rounds", type=int, default=20)
    command.set_defaults(run=bench)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
