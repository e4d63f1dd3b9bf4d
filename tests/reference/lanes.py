"""A plain model of the lane rule, and the runs that the former is held to.

    python3 tests/reference/lanes.py > tests/reference/lanes.json     # writes the expected digests (about a minute)
    python3 tests/reference/lanes.py 180000 on 7                      # one run in full: cap, ageing, seed

A run is 300 steps drawn from a generator that both sides have (`draws`), so that only the outcome is stored: one FNV-1a
digest over every batch (rule, number of items, ids in order).
"""

import json
import sys

CAPS = (4_096, 16_384, 65_536, 180_000, 720_000)
SEEDS, STEPS, WINDOW = 120, 300, 15_000
MASK = 2**64 - 1
RULES = {"alone": 0, "turn": 1, "plain": 2, "plain-aged": 3}


class Former:
    """Lists, scans and sorts: nothing of the engine's data structures."""

    def __init__(self, cap, count, ageing, window=WINDOW, hard=720_000):
        self.cap, self.count, self.ageing, self.window = min(cap, hard), count, ageing, window
        self.pending = []  # dicts: id, cost, alone, t
        self.turn = None  # ids still to serve in the turn of clips under way
        self.snapshot = None  # ids pending when the turn began
        self.left = set()  # ids passed over by an ended turn
        self.last_alone = None

    def add(self, i, cost, alone, t):
        self.pending.append(dict(id=i, cost=cost, alone=alone, t=t))

    def begin_turn(self):
        clips = [p for p in self.pending if not p["alone"]]
        total, members = 0, []
        owed = sorted((p for p in clips if p["id"] in self.left), key=lambda p: (p["t"], p["id"]))
        for p in owed:
            if members and total + p["cost"] > self.cap:
                break
            members.append(p["id"])
            total += p["cost"]
        for p in sorted(clips, key=lambda p: (p["cost"], p["t"], p["id"])):
            if p["id"] in members:
                continue
            if members and total + p["cost"] > self.cap:
                break
            members.append(p["id"])
            total += p["cost"]
        self.snapshot, self.turn = {p["id"] for p in clips}, set(members)

    def next(self, now, max_items):
        if not self.pending or max_items == 0:
            return None
        alone = [p for p in self.pending if p["alone"]]
        clips = [p for p in self.pending if not p["alone"]]
        if self.turn is None:
            oldest = min(self.pending, key=lambda p: (p["t"], p["id"]))
            first = self.last_alone is False or (self.last_alone is None and oldest["alone"])
            if alone and (not clips or first):
                recording = min(alone, key=lambda p: (p["t"], p["id"]))
                self.pending.remove(recording)
                self.last_alone = True
                return "alone", [recording["id"]]
            if clips and (alone or self.last_alone is True):
                self.begin_turn()
        by_cost = lambda p: (p["cost"], p["t"], p["id"])
        if self.turn is not None:
            rule, order = "turn", sorted((p for p in self.pending if p["id"] in self.turn), key=by_cost)
        else:
            rule, order = "plain", sorted(clips, key=by_cost)
            self.left = set()
            oldest = min(order, key=lambda p: (p["t"], p["id"]))
            if self.ageing and now - oldest["t"] >= self.window:
                order.remove(oldest)
                order.insert(0, oldest)
                rule = "plain-aged"
        batch, total = [], 0
        for p in order:
            if len(batch) >= min(self.count, max_items) or (batch and total + p["cost"] > self.cap):
                break
            batch.append(p["id"])
            total += p["cost"]
        self.pending = [p for p in self.pending if p["id"] not in batch]
        self.last_alone = False
        if self.turn is not None:
            self.turn -= set(batch)
            if not self.turn:
                self.left = (self.left | self.snapshot) & {p["id"] for p in self.pending if not p["alone"]}
                self.turn = self.snapshot = None
        return rule, batch


def draws(seed):
    """Knuth's linear congruence of 64 bits; the upper 31 count."""
    x = seed
    while True:
        x = (x * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & MASK
        yield x >> 33


def run(cap, ageing, seed):
    """Every batch of a run."""
    draw = draws(seed * 1_000_003 + cap + ageing)
    former, now, ids = Former(cap, 12, ageing), 0, 0
    for _ in range(STEPS):
        now += next(draw) % 10_000
        kind = next(draw) % 10
        if kind < 6:
            alone = kind < 2
            cost = 30_001 + next(draw) % 270_000 if alone else 1_000 + next(draw) % 29_001
            former.add(ids, cost, alone, now)
            ids += 1
        if next(draw) % 2:
            batch = former.next(now, (10**9, 1, 3)[next(draw) % 3])
            if batch:
                yield batch


def digest(batches):
    h = 0xCBF29CE484222325
    for rule, ids in batches:
        for word in (RULES[rule], len(ids), *ids):
            for byte in word.to_bytes(8, "little"):
                h = ((h ^ byte) * 0x100000001B3) & MASK
    return f"{h:016x}"


def main():
    if len(sys.argv) == 4:
        for rule, ids in run(int(sys.argv[1]), sys.argv[2] == "on", int(sys.argv[3])):
            print(rule, *ids)
        return
    runs = [
        dict(cap=cap, ageing=ageing, digests=[digest(run(cap, ageing, seed)) for seed in range(SEEDS)])
        for cap in CAPS
        for ageing in (False, True)
    ]
    json.dump(dict(recipe="python3 tests/reference/lanes.py", steps=STEPS, runs=runs), sys.stdout, indent=1)
    print()


main()
