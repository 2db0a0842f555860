"""Writes models that answer with a given text, whatever the prompt is, so that a test can drive `stator serve` through any answer.

One layer without effect: the output maps each token to the next one of the text. A token that occurs once stands for each piece,
so a piece may be any text. Usage: script_model.py OUT TEMPLATE-FILE PIECE...; a PIECE that is <|..|> is a control
token, <..> a token that a tokenizer finds in any text. +PIECE is in the vocabulary only. --words in front: a word of a text that
is a piece is its token (else only the model writes pieces). --rank: a reranker, with the template "{query}|{document}"; without
--classifier its scores come from the logits of yes and no."""
import re
import struct
import sys

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
END = "<|im_end|>"
WIDTH_STEP = 64
CONTEXT = 4096


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def value(kind, v):
    if kind == STRING:
        return text(v)
    if kind == ARRAY:
        of, items = v
        return struct.pack("<IQ", of, len(items)) + b"".join(value(of, item) for item in items)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", I32: "<i"}[kind], v)


def byte_characters():
    """The characters that stand for bytes in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def vocabulary(pieces):
    """Tokens, their kinds and the ids of the script."""
    names = byte_characters()
    tokens, kinds, script = [names[b] for b in range(256)], [1] * 256, []
    for piece in [p for p in pieces if not p.startswith("+")] + [END] + [p[1:] for p in pieces if p.startswith("+")]:
        if len(piece.encode()) == 1:
            script.append(piece.encode()[0])
            continue
        script.append(len(tokens))
        kind = 3 if re.fullmatch(r"<\|.*\|>", piece) else 4 if re.fullmatch(r"</?\w+>", piece) else 1
        tokens.append("".join(names[b] for b in piece.encode()) if kind == 1 else piece)
        kinds.append(kind)
    if len(set(script)) < len(script) or len(set(tokens)) < len(tokens):
        sys.exit("script_model.py: a piece is there twice")
    said = len(script) - sum(p.startswith("+") for p in pieces)
    return tokens + ["qz"], kinds + [1], script[:said]


def matrix(rows, width, at):
    """f32, zero but for ones: at[row] is the column."""
    return b"".join(b"\0" * 4 * at[row] + struct.pack("<f", 1) + b"\0" * 4 * (width - at[row] - 1) if row in at else b"\0" * 4 * width
                    for row in range(rows))


def score_of(token):
    """The classifier's value of a text that ends with the token."""
    return (token - 96) / 100


def write(path, pieces, template, pre, ranks, classifies):
    tokens, kinds, script = vocabulary(pieces)
    vocab = len(tokens)
    width = -(-vocab // WIDTH_STEP) * WIDTH_STEP
    following = dict(zip(script, script[1:]))
    # output[next][token]: what is no token of the script begins it.
    rows = {}
    for token in range(vocab):
        rows.setdefault(following.get(token, script[0]), []).append(token)
    output = bytearray(4 * vocab * width)
    for row, columns in rows.items():
        for column in columns:
            struct.pack_into("<f", output, 4 * (row * width + column), 1)
    heads, head, ff = 2, 32, 64
    one = struct.pack("<f", 1) * width
    tensors = [("token_embd.weight", (width, vocab), matrix(vocab, width, {i: i for i in range(vocab)})), ("output_norm.weight", (width,), one),
               ("output.weight", (width, vocab), bytes(output)), ("blk.0.attn_norm.weight", (width,), one), ("blk.0.ffn_norm.weight", (width,), one)]
    for name, dims in (("attn_q", (width, heads * head)), ("attn_k", (width, heads * head)), ("attn_v", (width, heads * head)),
                       ("attn_output", (heads * head, width)), ("ffn_gate", (width, ff)), ("ffn_up", (width, ff)), ("ffn_down", (ff, width))):
        tensors.append(("blk.0.%s.weight" % name, dims, bytes(4 * dims[0] * dims[1])))
    keys = [("general.architecture", STRING, "llama"), ("general.name", STRING, "script"), ("llama.context_length", U32, CONTEXT),
            ("llama.embedding_length", U32, width), ("llama.block_count", U32, 1), ("llama.feed_forward_length", U32, ff),
            ("llama.attention.head_count", U32, heads), ("llama.attention.head_count_kv", U32, heads), ("llama.attention.key_length", U32, head),
            ("llama.attention.value_length", U32, head), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
            ("llama.rope.dimension_count", U32, head), ("llama.rope.freq_base", F32, 10000.0), ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, pre), ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
            ("tokenizer.ggml.token_type", ARRAY, (I32, kinds)), ("tokenizer.ggml.merges", ARRAY, (STRING, ["q z"])),
            ("tokenizer.ggml.eos_token_id", U32, script[-1]), ("tokenizer.ggml.add_bos_token", BOOL, False),
            ("tokenizer.chat_template", STRING, template)]
    if ranks:
        keys += [("llama.pooling_type", U32, 4), ("tokenizer.chat_template.rerank", STRING, "{query}|{document}")]
    if classifies:
        keys += [("llama.classifier.output_labels", ARRAY, (STRING, ["yes", "no"]))]
        yes = b"".join(struct.pack("<f", score_of(token) if token < 256 else 0) for token in range(width))
        tensors.append(("cls.output.weight", (width, 2), yes + bytes(4 * width)))
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, kind, v in keys:
        out += text(key) + struct.pack("<I", kind) + value(kind, v)
    offset = 0
    for name, dims, data in tensors:
        out += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, 0, offset)
        offset += -(-len(data) // 32) * 32
    out += b"\0" * (-len(out) % 32)
    with open(path, "wb") as f:
        f.write(out)
        for _, _, data in tensors:
            f.write(data + b"\0" * (-len(data) % 32))


if __name__ == "__main__":
    flags = [a for a in sys.argv[1:] if a in ("--words", "--rank", "--classifier")]
    out, template, *pieces = sys.argv[1 + len(flags):]
    with open(template) as f:
        write(out, pieces, f.read(), "llama-bpe" if "--words" in flags else "qwen2", "--rank" in flags, "--classifier" in flags)
