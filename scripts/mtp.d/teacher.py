"""The model that a head is for: the GGUF file's own weights, dequantised, as a plain float32 llama in torch."""

import gguf
import numpy as np
import torch
from gguf import quants
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
CONTROL = 3


class Teacher:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        field = lambda key: reader.fields[key].contents()
        if field("general.architecture") != "llama" or field("tokenizer.ggml.model") != "gpt2":
            raise SystemExit(f"{path}: only llama models with a byte-level tokenizer can be followed")
        self.layers, self.hidden = field("llama.block_count"), field("llama.embedding_length")
        self.heads, self.kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
        self.head_dim = self.hidden // self.heads
        self.eps = field("llama.attention.layer_norm_rms_epsilon")
        base = field("llama.rope.freq_base")
        tensors = {t.name: t for t in reader.tensors}

        def weight(name):
            t = tensors[name]
            return torch.from_numpy(np.array(quants.dequantize(t.data, t.tensor_type), dtype=np.float32))

        self.embeddings, self.norm = weight("token_embd.weight"), weight("output_norm.weight")
        self.output = weight("output.weight") if "output.weight" in tensors else self.embeddings
        self.blocks = []
        for i in range(self.layers):
            part = lambda *names: torch.cat([weight(f"blk.{i}.{n}.weight") for n in names]).contiguous()
            self.blocks.append(
                {
                    "attn_norm": part("attn_norm"),
                    "qkv": part("attn_q", "attn_k", "attn_v"),
                    "o": part("attn_output"),
                    "ffn_norm": part("ffn_norm"),
                    "gate_up": part("ffn_gate", "ffn_up"),
                    "down": part("ffn_down"),
                }
            )
        tokens, merges = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges")
        kinds = field("tokenizer.ggml.token_type")
        vocabulary = {s: i for i, s in reversed(list(enumerate(tokens)))}
        self.tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(m.split(" ")) for m in merges]))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self.tokenizer.decoder = decoders.ByteLevel()
        control = [AddedToken(s, special=True, normalized=False) for s, k in zip(tokens, kinds) if k == CONTROL]
        self.tokenizer.add_special_tokens(control)
        self.ends = {tokens.index(s) for s in ("<|im_end|>", "<|endoftext|>") if s in vocabulary}
        # Of the longest text that is made here, with room.
        angles = torch.arange(1024)[:, None].double() * base ** (
            -torch.arange(0, self.head_dim, 2).double() / self.head_dim
        )
        self.cos, self.sin = angles.cos().float(), angles.sin().float()

    def plain(self, text):
        return self.tokenizer.encode(text).ids

    def chat(self, user):
        turns = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
        return self.plain(turns)

    def rms(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * weight

    def rope(self, x, at):
        """Rotates `[rows, heads, head_dim]`, pairs interleaved."""
        c, s = self.cos[at][:, None], self.sin[at][:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    def cache(self, slots, capacity):
        """Keys and values of every layer, `[slots * kv_heads, capacity, head_dim]`."""
        zeros = lambda: torch.zeros(slots * self.kv_heads, capacity, self.head_dim)
        return [(zeros(), zeros()) for _ in range(self.layers)]

    def block(self, w, x, at, attend):
        n, h, k, d = len(x), self.heads, self.kv_heads, self.head_dim
        qkv = self.rms(x, w["attn_norm"]) @ w["qkv"].T
        q = self.rope(qkv[:, : h * d].view(n, h, d), at)
        keys = self.rope(qkv[:, h * d : (h + k) * d].view(n, k, d), at)
        x = x + attend(q, keys, qkv[:, (h + k) * d :].view(n, k, d)) @ w["o"].T
        gate, up = (self.rms(x, w["ffn_norm"]) @ w["gate_up"].T).chunk(2, -1)
        return x + (torch.nn.functional.silu(gate) * up) @ w["down"].T

    def read(self, cache, slot, start, ids):
        """Reads `ids` at `start` into a slot; gives their normed last hidden states."""
        n, k, d = len(ids), self.kv_heads, self.head_dim
        end = start + n
        at = torch.arange(start, end)
        mask = torch.full((n, end), float("-inf")).triu(start + 1)
        mine = slice(slot * k, (slot + 1) * k)
        x = self.embeddings[torch.tensor(ids)]
        for w, (keys, values) in zip(self.blocks, cache):

            def attend(q, key, value):
                keys[mine, start:end], values[mine, start:end] = key.transpose(0, 1), value.transpose(0, 1)
                q = q.view(n, k, -1, d).permute(1, 2, 0, 3)
                scores = q @ keys[mine, None, :end].transpose(-1, -2) * d**-0.5 + mask
                return (scores.softmax(-1) @ values[mine, None, :end]).permute(2, 0, 1, 3).reshape(n, -1)

            x = self.block(w, x, at, attend)
        return self.rms(x, self.norm)

    def step(self, cache, ids, at):
        """One token for every slot, each at its own position; gives the normed last hidden states."""
        slots, k, d = len(ids), self.kv_heads, self.head_dim
        longest = int(at.max()) + 1
        mask = torch.where(torch.arange(longest)[None] <= at[:, None], 0.0, float("-inf"))
        mask = mask.repeat_interleave(k, 0)[:, None]
        rows, own = torch.arange(slots * k), at.repeat_interleave(k)
        x = self.embeddings[ids]
        for w, (keys, values) in zip(self.blocks, cache):

            def attend(q, key, value):
                keys[rows, own], values[rows, own] = key.reshape(slots * k, d), value.reshape(slots * k, d)
                q = q.reshape(slots * k, -1, d)
                scores = torch.baddbmm(mask, q, keys[:, :longest].transpose(1, 2), alpha=d**-0.5)
                return torch.bmm(scores.softmax(-1), values[:, :longest]).view(slots, -1)

            x = self.block(w, x, at, attend)
        return self.rms(x, self.norm)
