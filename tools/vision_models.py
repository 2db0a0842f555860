#!/usr/bin/python3
"""Synthetic files for timing a vision tower: an mmproj of the size of Qwen3-VL-4B's tower (24 layers of 1024, patches of
16, deepstack in three layers) and a small qwen3vl text model of its width, random weights. Needs numpy.

    tools/vision_models.py FOLDER [F16|Q8_0] [LAYERS]

Writes FOLDER/mmproj.gguf, FOLDER/text.gguf and FOLDER/picture.png, of 1024x1024 pixels."""
import os, struct, sys, zlib
import numpy as np

U32, F32, BOOL, TEXT, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TYPES = {'F32': 0, 'F16': 1, 'Q8_0': 8}
ALIGN = 32


class Writer:
    def __init__(self):
        self.keys, self.entries, self.data, self.at = b'', b'', [], 0
        self.n_keys = self.n_tensors = 0
        self.random = np.random.default_rng(48)

    @staticmethod
    def text(s):
        s = s.encode()
        return struct.pack('<Q', len(s)) + s

    def key(self, name, kind, value, item=None):
        pack = {U32: '<I', F32: '<f', BOOL: '<?', I32: '<i'}
        one = lambda k, v: self.text(v) if k == TEXT else struct.pack(pack[k], v)
        body = struct.pack('<IQ', item, len(value)) + b''.join(one(item, v) for v in value) if kind == ARRAY else one(kind, value)
        self.keys += self.text(name) + struct.pack('<I', kind) + body
        self.n_keys += 1

    def put(self, name, shape, kind, blob):
        self.entries += self.text(name) + struct.pack('<I', len(shape)) + struct.pack('<%dQ' % len(shape), *shape)
        self.entries += struct.pack('<IQ', TYPES[kind], self.at)
        blob += bytes(-len(blob) % ALIGN)
        self.data.append(blob)
        self.at += len(blob)
        self.n_tensors += 1

    def tensor(self, name, shape, kind, middle=0.0, spread=0.02):
        """shape: columns first."""
        n = int(np.prod(shape))
        x = middle + spread * self.random.standard_normal(n, dtype=np.float32)
        if kind == 'F16':
            x = x.astype('<f2')
        if kind == 'Q8_0':
            blocks = x.reshape(-1, 32)
            d = (np.abs(blocks).max(1) / 127).astype('<f2')
            q = np.round(blocks / np.maximum(d.astype(np.float32), 1e-9)[:, None]).astype(np.int8)
            packed = np.zeros(len(d), dtype=[('d', '<f2'), ('q', 'i1', 32)])
            packed['d'], packed['q'] = d, q
            x = packed
        self.put(name, shape, kind, x.tobytes())

    def save(self, path):
        head = struct.pack('<4sIQQ', b'GGUF', 3, self.n_tensors, self.n_keys) + self.keys + self.entries
        with open(path, 'wb') as f:
            f.write(head + bytes(-len(head) % ALIGN))
            for blob in self.data:
                f.write(blob)


def write_tower(path, kind, layers):
    w, width, ff, text, merged = Writer(), 1024, 4096, 2560, 4096
    deep = [layers // 4 - 1, layers // 2 - 1, 3 * layers // 4 - 1] if layers >= 4 else []
    w.key('general.architecture', TEXT, 'clip')
    w.key('general.name', TEXT, 'synthetic tower')
    w.key('clip.has_vision_encoder', BOOL, True)
    w.key('clip.projector_type', TEXT, 'qwen3vl_merger')
    w.key('clip.use_gelu', BOOL, True)
    for name, value in (('embedding_length', width), ('feed_forward_length', ff), ('block_count', layers),
                        ('attention.head_count', 16), ('projection_dim', text), ('patch_size', 16), ('image_size', 768),
                        ('spatial_merge_size', 2)):
        w.key('clip.vision.' + name, U32, value)
    w.key('clip.vision.attention.layer_norm_epsilon', F32, 1e-6)
    for name in ('mean', 'std'):
        w.key('clip.vision.image_' + name, ARRAY, [0.5] * 3, F32)
    w.key('clip.vision.is_deepstack_layers', ARRAY, [i in deep for i in range(layers)], BOOL)

    def pair(name, cols, rows, of=kind):
        if rows:
            w.tensor(name + '.weight', [cols, rows], of)
        else:
            w.tensor(name + '.weight', [cols], 'F32', 1.0)
        w.tensor(name + '.bias', [rows or cols], 'F32')
    for name in ('v.patch_embd.weight', 'v.patch_embd.weight.1'):
        w.tensor(name, [16, 16, 3, width], 'F16')
    w.tensor('v.patch_embd.bias', [width], 'F32')
    w.tensor('v.position_embd.weight', [width, 48 * 48], 'F32')
    for i in range(layers):
        b = 'v.blk.%d.' % i
        pair(b + 'ln1', width, 0)
        pair(b + 'attn_qkv', width, 3 * width)
        pair(b + 'attn_out', width, width)
        pair(b + 'ln2', width, 0)
        pair(b + 'ffn_up', width, ff)
        pair(b + 'ffn_down', ff, width)
    pair('v.post_ln', width, 0)
    pair('mm.0', merged, merged)
    pair('mm.2', merged, text)
    for i in deep:
        d = 'v.deepstack.%d.' % i
        pair(d + 'norm', merged, 0)
        pair(d + 'fc1', merged, merged)
        pair(d + 'fc2', merged, text)
    w.save(path)
    return len(deep)


def write_text(path, deep):
    w, width, ff, layers = Writer(), 2560, 512, 4
    words = ['<unk>', '<s>', '</s>'] + ['<0x%02X>' % b for b in range(256)] + ['\u2581', 'a', 'b', '\u2581a']
    kinds = [2, 3, 3] + [6] * 256 + [1] * 4
    words += ['<|image_pad|>', '<|vision_start|>', '<|vision_end|>']
    kinds += [3, 3, 3]
    w.key('general.architecture', TEXT, 'qwen3vl')
    w.key('general.name', TEXT, 'synthetic text model')
    for name, value in (('block_count', layers), ('embedding_length', width), ('feed_forward_length', ff),
                        ('context_length', 32768), ('attention.head_count', 8), ('attention.head_count_kv', 2),
                        ('attention.key_length', 128), ('attention.value_length', 128), ('rope.dimension_count', 128),
                        ('n_deepstack_layers', deep), ('vocab_size', len(words))):
        w.key('qwen3vl.' + name, U32, value)
    w.key('qwen3vl.attention.layer_norm_rms_epsilon', F32, 1e-6)
    w.key('qwen3vl.rope.freq_base', F32, 5e6)
    w.key('qwen3vl.rope.dimension_sections', ARRAY, [24, 20, 20, 0], I32)
    w.key('tokenizer.ggml.model', TEXT, 'llama')
    w.key('tokenizer.ggml.tokens', ARRAY, words, TEXT)
    w.key('tokenizer.ggml.scores', ARRAY, [float(-i) for i in range(len(words))], F32)
    w.key('tokenizer.ggml.token_type', ARRAY, kinds, I32)
    w.key('tokenizer.ggml.bos_token_id', U32, 1)
    w.key('tokenizer.ggml.eos_token_id', U32, 2)
    w.tensor('token_embd.weight', [width, len(words)], 'F16')
    w.tensor('output_norm.weight', [width], 'F32', 1.0)
    for i in range(layers):
        for name, cols, rows in (('attn_norm', width, 0), ('attn_q', width, 1024), ('attn_k', width, 256),
                                 ('attn_v', width, 256), ('attn_q_norm', 128, 0), ('attn_k_norm', 128, 0),
                                 ('attn_output', 1024, width), ('ffn_norm', width, 0), ('ffn_gate', width, ff),
                                 ('ffn_up', width, ff), ('ffn_down', ff, width)):
            w.tensor('blk.%d.%s.weight' % (i, name), [cols, rows] if rows else [cols], 'F16' if rows else 'F32',
                     0.0 if rows else 1.0)
    w.save(path)


def write_picture(path, side):
    rows = np.random.default_rng(1).integers(0, 256, (side // 8, side // 8, 3), dtype=np.uint8)
    rows = rows.repeat(8, 0).repeat(8, 1).reshape(side, -1)
    raw = np.concatenate([np.zeros((side, 1), np.uint8), rows], 1).tobytes()
    chunk = lambda name, data: struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    with open(path, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', side, side, 8, 2, 0, 0, 0)) +
                chunk(b'IDAT', zlib.compress(raw, 1)) + chunk(b'IEND', b''))


def main():
    if not 2 <= len(sys.argv) <= 4 or (len(sys.argv) > 2 and sys.argv[2] not in ('F16', 'Q8_0')):
        sys.exit(__doc__)
    folder, kind, layers = sys.argv[1], (sys.argv + ['F16'])[2], int((sys.argv + ['F16', '24'])[3]) if len(sys.argv) > 3 else 24
    os.makedirs(folder, exist_ok=True)
    deep = write_tower(os.path.join(folder, 'mmproj.gguf'), kind, layers)
    write_text(os.path.join(folder, 'text.gguf'), deep)
    write_picture(os.path.join(folder, 'picture.png'), 1024)


if __name__ == '__main__':
    main()
