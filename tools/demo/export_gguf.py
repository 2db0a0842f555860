"""Writes weights and vocabulary as GGUF v3: matrices Q8_0 (of the shape "manuals": F16), norms F32.

    export_gguf.py weights.pt tokenizer.json demo.gguf [SHAPE]
"""
import json
import struct
import sys

import numpy as np
import torch

from llama_torch import SHAPES

U32, F32, BOOL, STR, ARR, I32 = 4, 6, 7, 8, 9, 5
TYPE_F32, TYPE_F16, TYPE_Q8_0 = 0, 1, 8
ALIGN = 32
# general.name, description, licence, and whether matrices are Q8_0 (F16 otherwise).
MODELS = {
    "demo": ("stator demo", "Short children's stories, trained on text from a grammar (tools/demo)", "mit", True),
    "manuals": ("stator manuals", "Trained on documentation of Debian packages (tools/demo/MANUALS.md)", "other", False),
    "trial": ("trial", "To try tools/demo", "mit", False),
}


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if kind == STR:
        return text(v)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", I32: "<i"}[kind], v)


def pair(key, kind, v):
    return text(key) + struct.pack("<I", kind) + value(kind, v)


def array(key, kind, values):
    return text(key) + struct.pack("<IIQ", ARR, kind, len(values)) + b"".join(value(kind, v) for v in values)


def q8_0(x):
    """As ggml's reference: d = amax / 127 kept as f16, q = round half away from zero of x * (1 / d) with the unrounded d."""
    x = x.astype(np.float32).reshape(-1, 32)
    d = np.abs(x).max(1) / np.float32(127)
    inv = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)
    y = x * inv[:, None]
    q = np.trunc(y + np.copysign(np.float32(.5), y)).astype(np.int8)
    out = np.empty((len(x), 34), np.uint8)
    out[:, :2] = d.astype("<f2").view(np.uint8).reshape(-1, 2)
    out[:, 2:] = q.view(np.uint8)
    return out.tobytes()


def metadata(tokenizer, shape):
    s, (name, description, licence, small) = SHAPES[shape], MODELS[shape]
    with open(tokenizer) as f:
        bpe = json.load(f)["model"]
    tokens = [t for t, _ in sorted(bpe["vocab"].items(), key=lambda kv: kv[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in bpe["merges"]]
    kind = [3 if t in ("<s>", "</s>") else 1 for t in tokens]     # control, normal
    a = "llama."
    return [
        pair("general.architecture", STR, "llama"), pair("general.name", STR, name), pair("general.license", STR, licence),
        pair("general.description", STR, description),
        pair("general.file_type", U32, 7 if small else 1), pair("general.quantization_version", U32, 2), pair("general.alignment", U32, ALIGN),
        pair(a + "vocab_size", U32, s["vocab"]), pair(a + "context_length", U32, s["context"]), pair(a + "embedding_length", U32, s["dim"]),
        pair(a + "block_count", U32, s["layers"]), pair(a + "feed_forward_length", U32, s["ffn"]),
        pair(a + "attention.head_count", U32, s["heads"]), pair(a + "attention.head_count_kv", U32, s["kv_heads"]),
        pair(a + "attention.layer_norm_rms_epsilon", F32, s["eps"]), pair(a + "rope.dimension_count", U32, s["head_dim"]),
        pair(a + "rope.freq_base", F32, s["theta"]),
        pair("tokenizer.ggml.model", STR, "gpt2"), pair("tokenizer.ggml.pre", STR, "gpt-2"),
        array("tokenizer.ggml.tokens", STR, tokens), array("tokenizer.ggml.token_type", I32, kind), array("tokenizer.ggml.merges", STR, merges),
        pair("tokenizer.ggml.bos_token_id", U32, 0), pair("tokenizer.ggml.eos_token_id", U32, 1),
        pair("tokenizer.ggml.add_bos_token", BOOL, True), pair("tokenizer.ggml.add_eos_token", BOOL, False),
    ]


def main(weights, tokenizer, path, shape="demo"):
    state = torch.load(weights)
    keys = metadata(tokenizer, shape)
    wide, encode = (TYPE_Q8_0, q8_0) if MODELS[shape][3] else (TYPE_F16, lambda x: x.astype("<f2").tobytes())
    infos, data = b"", b""
    for name, t in state.items():
        x = t.numpy()
        data += bytes(-len(data) % ALIGN)
        infos += text(name) + struct.pack("<I", x.ndim) + b"".join(struct.pack("<Q", n) for n in reversed(x.shape))
        infos += struct.pack("<IQ", wide if x.ndim == 2 else TYPE_F32, len(data))
        data += encode(x) if x.ndim == 2 else x.astype("<f4").tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(state), len(keys)) + b"".join(keys) + infos
    head += bytes(-len(head) % ALIGN)
    data += bytes(-len(data) % ALIGN)
    with open(path, "wb") as f:
        f.write(head + data)
    print(path, len(head) + len(data), "bytes,", len(state), "tensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
