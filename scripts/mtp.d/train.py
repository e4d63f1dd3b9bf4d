"""Trains a head on the texts of `generate.py`, measures it on those that were kept apart, and writes it as a GGUF file.

The head takes the normed hidden state behind a token and the embedding of the token that the model chose there, and says
what comes after that token:

    x = from_hidden(norm(hidden)) + from_token(norm(embedding))
    x = x + down(silu(gate(norm(x))) * up(norm(x)))
    logits = norm(x) * the rows of the model's own output table that are worth computing

It starts at the ridge regression from (hidden state, embedding) to the next hidden state, since norm(x) stands where the
model's own last norm stands; so its output can take the hidden state's place for a further draft.
"""

import argparse
import glob
import hashlib
import json
import os
import time

import gguf
import numpy as np
import torch
from gguf import quants
from teacher import Teacher

KINDS = ["chat", "code", "json"]


def unit(x, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


class Head(torch.nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        random = lambda o, i, k=1.0: torch.nn.Parameter(torch.randn(o, i) * k * i**-0.5)
        for norm in ("hidden_norm", "token_norm", "inner_norm", "output_norm"):
            setattr(self, norm, torch.nn.Parameter(torch.ones(width)))
        self.from_hidden, self.from_token = random(width, width), random(width, width)
        # Nothing at first: the linear start is all there is.
        self.gate, self.up, self.down = random(inner, width), random(inner, width), random(width, inner, 0.0)

    def forward(self, hidden, embedding):
        x = unit(hidden) * self.hidden_norm @ self.from_hidden.T + unit(embedding) * self.token_norm @ self.from_token.T
        n = unit(x) * self.inner_norm
        x = x + (torch.nn.functional.silu(n @ self.gate.T) * (n @ self.up.T)) @ self.down.T
        return unit(x) * self.output_norm


class Pairs:
    """Positions whose next token and the choice behind it are known: of the training texts, or of those kept apart."""

    def __init__(self, folder, held):
        parts = {name: [] for name in ("hidden", "token", "target", "next_hidden", "own", "kind", "greedy", "text")}
        for path in sorted(glob.glob(os.path.join(folder, "texts-???.npz"))):
            z = np.load(path)
            at, hidden = 0, z["hidden"]
            for mine, kind, greedy, prompt, n in zip(z["held"], z["kind"], z["greedy"], z["prompt"], z["length"]):
                here = slice(at, at + n)
                at += n
                if mine != held or n < 3:
                    continue
                h, ids, best = hidden[here], z["ids"][here], z["best"][here]
                parts["hidden"].append(h[:-1])
                parts["token"].append(ids[1:])
                parts["target"].append(best[1:])
                parts["next_hidden"].append(h[1:])
                parts["own"].append(np.arange(n - 1) >= prompt - 1)
                for name, value in (("kind", kind), ("greedy", greedy), ("text", len(parts["hidden"]))):
                    parts[name].append(np.full(n - 1, value))
        join = {name: np.concatenate(p) for name, p in parts.items()}
        self.kind = join.pop("kind")
        for name, values in join.items():
            t = torch.from_numpy(values)
            setattr(self, name, t.long() if t.dtype in (torch.int32, torch.int64) else t)

    def __len__(self):
        return len(self.token)


@torch.no_grad()
def ridge(head, teacher, data, strength=0.02):
    """Sets the linear part to the best linear guess of the next hidden state."""
    width = teacher.hidden
    xx, xy = torch.zeros(2 * width, 2 * width), torch.zeros(2 * width, width)
    for c in torch.arange(len(data)).split(2048):
        x = torch.cat([unit(data.hidden[c].float()), unit(teacher.embeddings[data.token[c]])], -1)
        xx += x.T @ x
        xy += x.T @ (data.next_hidden[c].float() / teacher.norm)
    w = torch.linalg.solve(xx + strength * len(data) * torch.eye(2 * width), xy).T
    head.from_hidden.copy_(w[:, :width])
    head.from_token.copy_(w[:, width:])
    head.output_norm.copy_(teacher.norm)


def vocabulary(data, size, entries):
    """The tokens most often seen; of those never seen, the ones that the tokenizer learned first."""
    seen = torch.bincount(torch.cat([data.target, data.token]), minlength=entries)
    return seen.argsort(descending=True, stable=True)[:size].sort().values


@torch.no_grad()
def acceptance(head, teacher, rows, data):
    """Per kind: greedy positions, the part of them where the first draft holds, and the second where the first did."""
    table, found = teacher.output[rows], {}
    for kind in KINDS + ["all"]:
        pick = data.own & data.greedy & torch.from_numpy((data.kind == kind) | (kind == "all"))
        first = second = asked = 0
        at = pick.nonzero()[:, 0]
        for c in at.split(512):
            out = head(data.hidden[c].float(), teacher.embeddings[data.token[c]])
            draft = rows[(out @ table.T).argmax(-1)]
            held = draft == data.target[c]
            first += int(held.sum())
            # Where the first draft held and the text went on with it, the head's own output goes in again.
            after = (c + 1).clamp(max=len(data) - 1)
            on = held & (data.text[after] == data.text[c]) & (data.token[after] == draft) & (after > c)
            if on.any():
                again = head(out[on], teacher.embeddings[draft[on]])
                second += int((rows[(again @ table.T).argmax(-1)] == data.target[after[on]]).sum())
                asked += int(on.sum())
        found[kind] = {
            "positions": len(at),
            "first": round(first / max(len(at), 1), 4),
            "second": round(second / max(asked, 1), 4),
        }
    return found


def fit(head, teacher, rows, data, held, args):
    entries = len(teacher.output)
    place = torch.full((entries,), -1)
    place[rows] = torch.arange(len(rows))
    table = teacher.output[rows].contiguous()
    usable = (place[data.target] >= 0).nonzero()[:, 0]
    print(f"{len(data)} pairs, {len(usable) / len(data):.3f} of their targets among {len(rows)} tokens", flush=True)
    optimizer = torch.optim.AdamW(head.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.02)
    steps, step = args.epochs * (len(usable) // args.batch), 0
    for epoch in range(args.epochs):
        total = 0.0
        for c in usable[torch.randperm(len(usable))].split(args.batch)[: len(usable) // args.batch]:
            share = 0.5 * (1 + np.cos(np.pi * step / steps))
            for group in optimizer.param_groups:
                group["lr"] = args.rate * min(1, (step + 1) / 50) * max(0.02, share)
            hidden, after = data.hidden[c].float(), data.next_hidden[c].float()
            # The hidden states of the served model, whose activations are rounded, differ a little from these.
            hidden = hidden + 0.05 * torch.randn_like(hidden) * hidden.pow(2).mean(-1, keepdim=True).sqrt()
            out = head(hidden, teacher.embeddings[data.token[c]])
            says = (out @ table.T).log_softmax(-1)
            with torch.no_grad():
                model_says = (after @ table.T).softmax(-1)
            loss = -0.5 * (model_says * says).sum(-1).mean() - 0.5 * says.gather(1, place[data.target[c]][:, None]).mean()
            loss = loss + 0.1 * ((out - after) / teacher.norm).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimizer.step()
            step += 1
            total += float(loss.detach())
        told = acceptance(head, teacher, rows, held)["all"]
        print(f"epoch {epoch + 1}: loss {total * args.epochs / steps:.3f}, {told}, {time.process_time():.0f} s", flush=True)


def write(head, teacher, rows, record, model, path):
    """Rounds the head as it will be served (Q8_0) and writes it; returns the rounded values' head."""
    out = gguf.GGUFWriter(path, "mtp")
    with open(model, "rb") as file:
        out.add_string("mtp.model.sha256", hashlib.file_digest(file, "sha256").hexdigest())
    out.add_uint32("mtp.embedding_length", teacher.hidden)
    out.add_uint32("mtp.feed_forward_length", len(head.gate))
    out.add_float32("mtp.norm_epsilon", 1e-5)
    out.add_array("mtp.tokens", [int(i) for i in rows])
    out.add_string("mtp.record", json.dumps(record, sort_keys=True))
    for name, value in head.named_parameters():
        values = value.detach().numpy()
        if values.ndim == 1:
            out.add_tensor(f"{name}.weight", values)
        else:
            rounded = quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            out.add_tensor(f"{name}.weight", rounded, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


@torch.no_grad()
def rounded(head):
    """The values that the file will hold."""
    for value in head.parameters():
        if value.ndim == 2:
            q = gguf.GGMLQuantizationType.Q8_0
            value.copy_(torch.from_numpy(quants.dequantize(quants.quantize(value.numpy(), q), q)))
    return head


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the model's GGUF file")
    parser.add_argument("folder", help="where generate.py wrote")
    parser.add_argument("out", help="the head's file")
    parser.add_argument("--inner", type=int, default=768, help="width of the gated block")
    parser.add_argument("--rows", type=int, default=6144, help="tokens that can be drafted")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("MTP_THREADS", "1")))
    torch.manual_seed(args.seed)
    teacher = Teacher(args.model)
    data, held = Pairs(args.folder, held=False), Pairs(args.folder, held=True)
    rows = vocabulary(data, args.rows, len(teacher.output))
    head = Head(teacher.hidden, args.inner)
    ridge(head, teacher, data)
    print(f"linear: {acceptance(head, teacher, rows, held)}", flush=True)
    fit(head, teacher, rows, data, held, args)
    measured = acceptance(rounded(head), teacher, rows, held)
    record = {
        "recipe": {k: getattr(args, k) for k in ("inner", "rows", "epochs", "batch", "rate", "seed")},
        "pairs": len(data),
        "acceptance": measured,
    }
    write(head, teacher, rows, record, args.model, args.out)
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
