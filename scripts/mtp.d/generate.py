"""Writes the model's own text, with the hidden state and the model's choice behind every token, to FOLDER/texts-N.npz.

Texts to test on come first and are greedy; of those to train on, three of ten are sampled at temperature 0.7, so that
the head sees how the model goes on after a token that it would not have chosen.
"""

import argparse
import os
import random
import time

import numpy as np
import prompts
import torch
from teacher import Teacher

LONGEST_ANSWER = 160
CAPACITY = 288
SHARD = 5_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="the model's GGUF file")
    parser.add_argument("folder")
    parser.add_argument("--tokens", type=int, default=16_000, help="tokens to train on")
    parser.add_argument("--slots", type=int, default=128, help="texts at once")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("MTP_THREADS", "1")))
    torch.set_grad_enabled(False)
    os.makedirs(args.folder, exist_ok=True)
    run(Teacher(args.model), args)


def run(teacher, args):
    chance, noise = random.Random(args.seed), torch.Generator().manual_seed(args.seed)
    work = [(True, *p) for p in prompts.held()] + [(False, *p) for p in prompts.train()]
    cache = teacher.cache(args.slots, CAPACITY)
    # Every chat begins alike: that part is read once.
    one, other = teacher.chat("a"), teacher.chat("b")
    shared = next(i for i in range(len(one)) if one[i] != other[i])
    start = teacher.cache(1, shared)
    teacher.read(start, 0, 0, one[:shared])
    output, k = teacher.output.T, teacher.kv_heads

    def begin(slot):
        if not work:
            return None
        held, kind, prompt = work.pop(0)
        ids, skip = (teacher.plain(prompt), 0) if kind == "plain" else (teacher.chat(prompt), shared)
        if skip:
            for own, common in zip(cache, start):
                for mine, theirs in zip(own, common):
                    mine[slot * k : (slot + 1) * k, :shared] = theirs
        hidden = teacher.read(cache, slot, skip, ids[skip:])
        best = (hidden @ output).argmax(-1).tolist()
        temperature = 0.0 if held or chance.random() < 0.7 else 0.7
        return {
            "held": held, "kind": kind, "temperature": temperature, "prompt": len(ids) - skip, "at": len(ids),
            "ids": ids[skip:], "best": best, "hidden": [hidden.half().numpy()], "next": best[-1],
        }  # fmt: skip

    slots, finished, written, own = [None] * args.slots, [], 0, {True: 0, False: 0}
    began = time.process_time()
    while own[False] < args.tokens:
        slots = [s or begin(i) for i, s in enumerate(slots)]
        live = [i for i, s in enumerate(slots) if s]
        if not live:
            break
        ids = torch.tensor([s["next"] if s else 0 for s in slots])
        at = torch.tensor([s["at"] if s else 0 for s in slots])
        hidden = teacher.step(cache, ids, at)
        logits = hidden @ output
        best, hidden = logits.argmax(-1).tolist(), hidden.half().numpy()
        for i in live:
            s = slots[i]
            s["ids"].append(s["next"])
            s["best"].append(best[i])
            s["hidden"].append(hidden[i : i + 1])
            s["at"] += 1
            own[s["held"]] += 1
            answer = s["ids"][s["prompt"] :]
            repeats = len(answer) > 64 and answer[-32:] == answer[-64:-32]
            if s["next"] in teacher.ends or len(answer) >= LONGEST_ANSWER or s["at"] >= CAPACITY or repeats:
                finished.append(s)
                slots[i] = None
            elif s["temperature"] > 0:
                chances = (logits[i] / s["temperature"]).softmax(-1)
                s["next"] = int(torch.multinomial(chances, 1, generator=noise))
            else:
                s["next"] = best[i]
        if sum(len(s["ids"]) for s in finished) > SHARD:
            written = write(args.folder, written, finished)
            finished = []
            print(f"{own[True]} + {own[False]} tokens, {time.process_time() - began:.0f} s of CPU", flush=True)
    # What is not ended is as good to train on; a text to test on is kept whole.
    write(args.folder, written, finished + [s for s in slots if s and not s["held"]])
    print(f"{own[True]} + {own[False]} tokens, {time.process_time() - began:.0f} s of CPU", flush=True)


def write(folder, number, texts):
    path = os.path.join(folder, f"texts-{number:03}.npz")
    np.savez(
        path + ".part.npz",
        held=np.array([s["held"] for s in texts]),
        kind=np.array([s["kind"] for s in texts]),
        greedy=np.array([s["temperature"] == 0 for s in texts]),
        prompt=np.array([s["prompt"] for s in texts]),
        length=np.array([len(s["ids"]) for s in texts]),
        ids=np.concatenate([s["ids"] for s in texts]).astype(np.int32),
        best=np.concatenate([s["best"] for s in texts]).astype(np.int32),
        hidden=np.concatenate([h for s in texts for h in s["hidden"]]),
    )
    os.rename(path + ".part.npz", path)
    return number + 1


if __name__ == "__main__":
    main()
