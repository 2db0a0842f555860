"""Reference results of demo.gguf in float64, from the file alone (numpy; no code shared with the exporter).

    reference.py demo.gguf tokenizer.json held-out.txt OUTPUT_DIR

Writes demo.json, demo.logits.f32, demo.prompt.txt, demo.greedy.txt, demo.tokens.txt, demo-heldout.json.
"""
import json
import os
import struct
import sys

import numpy as np
from tokenizers import Tokenizer

PROMPT, GREEDY, CHUNK = 48, 24, 256
TEXTS = [
    "Once upon a time, there was a little fox named Pip.",
    "One day, Mia went to the river.\n\n\"Where is my kite?\" she cried.",
    " leading space, trailing space ",
    "two  spaces and   three",
    "line\nline\n\nparagraph\n\n\nthree\ttab",
    "don't can't we'll I'm you've they're it's he'd DON'T",
    "12345 67 8 and 3.14 + 2,718",
    "UPPER lower MiXeD _under_score",
    "caf\u00e9 na\u00efve \u00fcber stra\u00dfe",
    "\u4f60\u597d, \u4e16\u754c! \u041f\u0440\u0438\u0432\u0435\u0442",
    "emoji \U0001f98a and \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "!!! ??? ... ((( \"quoted\" -- end",
    "a",
    " ",
    "\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the old turtle said, \"Good things take time.\" And so it was.\r\nWindows line",
    "non\u00a0breaking\u2003em space\u3000wide",
]


def read_gguf(path):
    with open(path, "rb") as f:
        raw = f.read()
    at = 0

    def take(fmt):
        nonlocal at
        v = struct.unpack_from("<" + fmt, raw, at)
        at += struct.calcsize("<" + fmt)
        return v[0]

    def string():
        nonlocal at
        n = take("Q")
        at += n
        return raw[at - n:at].decode()

    def item(kind):
        if kind == 8:
            return string()
        if kind == 9:
            inner, n = take("I"), take("Q")
            return [item(inner) for _ in range(n)]
        return take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])

    assert raw[:4] == b"GGUF"
    at = 4
    assert take("I") == 3
    tensors, keys = take("Q"), take("Q")
    meta = {}
    for _ in range(keys):
        key = string()
        meta[key] = item(take("I"))
    infos = [(string(), [take("Q") for _ in range(take("I"))], take("I"), take("Q")) for _ in range(tensors)]
    base = -(-at // meta["general.alignment"]) * meta["general.alignment"]
    weights = {}
    for name, shape, kind, offset in infos:
        n = int(np.prod(shape))
        if kind == 0:
            x = np.frombuffer(raw, "<f4", n, base + offset).astype(np.float64)
        else:
            blocks = np.frombuffer(raw, np.uint8, n // 32 * 34, base + offset).reshape(-1, 34)
            d = blocks[:, :2].copy().view("<f2").astype(np.float64)
            x = (blocks[:, 2:].copy().view(np.int8) * d).reshape(-1)
        weights[name] = x.reshape(shape[::-1])
    return meta, weights


class Model:
    def __init__(self, path):
        self.meta, self.w = read_gguf(path)
        m = lambda k: self.meta["llama." + k]
        self.layers, self.heads, self.kv = m("block_count"), m("attention.head_count"), m("attention.head_count_kv")
        self.hd, self.eps, self.theta = m("rope.dimension_count"), m("attention.layer_norm_rms_epsilon"), m("rope.freq_base")

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w[name]

    def rope(self, x):
        angle = np.outer(np.arange(x.shape[0]), self.theta ** (-np.arange(0, self.hd, 2) / self.hd))[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., 0::2] = a * np.cos(angle) - b * np.sin(angle)
        y[..., 1::2] = a * np.sin(angle) + b * np.cos(angle)
        return y

    def logits(self, ids):
        w, n = self.w, len(ids)
        x = w["token_embd.weight"][ids]
        mask = np.triu(np.full((n, n), -np.inf), 1)
        for i in range(self.layers):
            t = lambda name: w["blk.%d.%s.weight" % (i, name)].T
            h = self.norm(x, "blk.%d.attn_norm.weight" % i)
            q = self.rope((h @ t("attn_q")).reshape(n, self.heads, self.hd))
            k = self.rope((h @ t("attn_k")).reshape(n, self.kv, self.hd)).repeat(self.heads // self.kv, 1)
            v = (h @ t("attn_v")).reshape(n, self.kv, self.hd).repeat(self.heads // self.kv, 1)
            s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.hd) + mask
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            x = x + np.einsum("hqk,khd->qhd", s, v).reshape(n, -1) @ t("attn_output")
            h = self.norm(x, "blk.%d.ffn_norm.weight" % i)
            g = h @ t("ffn_gate")
            x = x + (g / (1 + np.exp(-g)) * (h @ t("ffn_up"))) @ t("ffn_down")
        return self.norm(x, "output_norm.weight") @ w["token_embd.weight"].T

    def greedy(self, ids, count):
        """The next ids and the smallest lead of a winner over the second."""
        ids, lead = list(ids), np.inf
        for _ in range(count):
            z = self.logits(ids)[-1]
            a, b = np.sort(z)[-2:]
            lead = min(lead, b - a)
            ids.append(int(z.argmax()))
        return ids[-count:], lead


def perplexity(model, ids, bos):
    """Chunks of CHUNK ids, each after a BOS of its own; every id is scored once."""
    total, chunks = 0., 0
    for i in range(0, len(ids), CHUNK):
        part = ids[i:i + CHUNK]
        z = model.logits([bos] + part[:-1])
        z = z - z.max(-1, keepdims=True)
        total -= (z[np.arange(len(part)), part] - np.log(np.exp(z).sum(-1))).sum()
        chunks += 1
    return total, chunks


def clearest(model, ids, bos):
    """Of the held-out text, the prompt whose greedy words are won most clearly: other roundings must not change them."""
    found = []
    for i in range(0, len(ids) - CHUNK, CHUNK):
        part = ids[i:i + CHUNK]
        z = model.logits([bos] + part[:-1])
        two = np.sort(z)[:, -2:]
        lead = np.where(z.argmax(-1) == part, two[:, 1] - two[:, 0], 0)
        for p in range(PROMPT - 1, CHUNK - GREEDY):
            found.append((lead[p:p + GREEDY].min(), i + p))
    best = None
    for _, p in sorted(found, reverse=True)[:8]:
        prompt = [bos] + ids[p - PROMPT + 1:p]
        nxt, lead = model.greedy(prompt, GREEDY)
        if best is None or lead > best[2]:
            best = prompt, nxt, lead
    return best


def write(path, s):
    with open(path, "w", newline="") as f:
        f.write(s)


def main(gguf, tokenizer, heldout, out):
    model, tok = Model(gguf), Tokenizer.from_file(tokenizer)
    encode = lambda t: tok.encode(t, add_special_tokens=False).ids
    bos, vocab = model.meta["tokenizer.ggml.bos_token_id"], len(model.meta["tokenizer.ggml.tokens"])
    with open(heldout, newline="") as f:
        text = f.read()
    ids = encode(text)
    prompt, nxt, lead = clearest(model, ids, bos)
    z = model.logits(prompt)
    z.astype("<f4").tofile(os.path.join(out, "demo.logits.f32"))
    path = lambda name: os.path.join(out, name)
    write(path("demo.json"), json.dumps({
        "model": "configs/demo.gguf", "arch": "llama", "source": "tools/demo/reference.py: float64 over the decoded Q8_0 weights",
        "prompt": prompt, "greedy": nxt, "vocab": vocab, "positions": PROMPT, "logits": "demo.logits.f32",
        "smallest_greedy_lead": round(float(lead), 4), "prompt_text": tok.decode(prompt[1:]), "greedy_text": tok.decode(nxt)}, indent=1) + "\n")
    write(path("demo.prompt.txt"), " ".join(map(str, prompt)) + "\n")
    write(path("demo.greedy.txt"), " ".join(map(str, nxt)) + "\n")
    escape = lambda t: t.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    first = text.split("\n\n* * *\n\n")[0]
    write(path("demo.tokens.txt"), "".join("%s\t%s\n" % (escape(t), " ".join(map(str, encode(t)))) for t in TEXTS + [first]))
    nll, chunks = perplexity(model, ids, bos)
    write(path("demo-heldout.json"), json.dumps({
        "text": "demo-heldout.txt", "protocol": "the file is tokenized as one text (no BOS); consecutive chunks of 256 ids (the last may be shorter); each chunk is one "
        "sequence BOS + chunk, whose predictions of all the chunk's ids are scored; perplexity = exp(sum of -log p / tokens)",
        "chunk": CHUNK, "chunks": chunks, "tokens": len(ids), "nll": float(nll), "perplexity": float(np.exp(nll / len(ids)))}, indent=1) + "\n")
    print("perplexity %.5f over %d tokens; greedy lead %.3f: %r -> %r" % (np.exp(nll / len(ids)), len(ids), lead, tok.decode(prompt[1:]), tok.decode(nxt)))


if __name__ == "__main__":
    main(*sys.argv[1:])
