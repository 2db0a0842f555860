#!/usr/bin/python3
"""What a small vision tower makes of a picture, in float64, from the published formulas alone: the reference for
towers in stator. Needs numpy; reads mmproj files (qwen3vl_merger,
qwen2.5vl_merger, gemma3, gemma4v, pixtral) whose tensors are all F32.
tests/unit/model/test_tower_run.c compares stator's pixtral with what this program wrote.

    tools/reference_tower.py MMPROJ.gguf PIXELS WIDTH HEIGHT OUTPUT

PIXELS: HEIGHT rows of WIDTH pixels of red, green, blue, a byte each, of the size that the tower sees. OUTPUT:
float32 [tokens][text width], for towers with deepstack [tokens][text width x (1 + deepstack layers)]: the output,
then the features for the decoder's layers 0, 1, .."""
import sys
import numpy as np
from reference_logits import read_model

erf = np.vectorize(__import__('math').erf)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def gelu_erf(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


class Tower:
    def __init__(self, path):
        self.meta, self.tensors = read_model(path)
        self.kind = self.meta.get('clip.vision.projector_type', self.meta.get('clip.projector_type'))
        for name in ('embedding_length', 'block_count', 'patch_size', 'image_size'):
            setattr(self, name, self.meta['clip.vision.' + name])
        self.heads = self.meta['clip.vision.attention.head_count']
        self.eps = self.meta['clip.vision.attention.layer_norm_epsilon']
        self.qwen = self.kind == 'qwen3vl_merger'
        self.windowed = self.kind == 'qwen2.5vl_merger'
        self.pixtral = self.kind == 'pixtral'
        self.gemma4 = self.kind == 'gemma4v'
        self.rms = self.pixtral or self.windowed or self.gemma4
        key = 'clip.vision.projector.scale_factor' if 'gemma' in self.kind else 'clip.vision.spatial_merge_size'
        self.merge = self.meta.get(key, {'qwen3vl_merger': 2, 'qwen2.5vl_merger': 2, 'gemma3': 4, 'gemma4v': 3, 'pixtral': 1}[self.kind])

    def of(self, name):
        return np.asarray(self.tensors[name], dtype=np.float64)

    def linear(self, x, name):
        y = x @ self.of(name + '.weight').T
        return y + self.of(name + '.bias') if name + '.bias' in self.tensors or not (self.pixtral or self.gemma4) else y

    def norm(self, x, name):
        if name is None:
            return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.eps)
        if self.rms:
            return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.eps) * self.of(name + '.weight')
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + self.eps)
        return scaled * self.of(name + '.weight') + self.of(name + '.bias')

    def order(self, down, across):
        """Rows and columns of the patches in the tower's order: qwen3vl goes through one square of merge x merge
        after the other, so that a token's patches are neighbours (and pixtral here; its order makes no difference)."""
        rows, columns = np.mgrid[0:down, 0:across]
        if 'gemma' not in self.kind:
            m = self.merge
            rows, columns = (v.reshape(down // m, m, across // m, m).transpose(0, 2, 1, 3) for v in (rows, columns))
        return rows.reshape(-1), columns.reshape(-1)

    def patches(self, pixels, rows, columns):
        mean, spread = (np.array(self.meta['clip.vision.image_' + k], dtype=np.float64) for k in ('mean', 'std'))
        picture = (pixels / 255.0 - mean) / spread
        if self.gemma4:
            picture = 2 * (picture - 0.5)
        p = self.patch_size
        kernel = self.of('v.patch_embd.weight')  # [width][colour][y][x]
        if self.qwen or self.windowed:  # a still is a pair of equal pictures
            kernel = kernel + self.of('v.patch_embd.weight.1')
        cut = [picture[y * p:y * p + p, x * p:x * p + p].transpose(2, 0, 1).reshape(-1) for y, x in zip(rows, columns)]
        x = np.array(cut) @ kernel.reshape(kernel.shape[0], -1).T
        return x if self.rms else x + self.of('v.patch_embd.bias')

    def positions(self, down, across, rows, columns):
        """The learned position of each patch; qwen3vl interpolates its square of positions linearly in both
        directions, first and last patch on first and last position."""
        if self.gemma4:  # one table for columns, one for rows
            across, down = self.of('v.position_embd.weight')
            return across[columns] + down[rows]
        if self.rms:
            return 0
        table = self.of('v.position_embd.weight')
        side = self.image_size // self.patch_size
        if not self.qwen:
            return table[rows * side + columns]
        y, x = np.linspace(0, side - 1, down)[rows], np.linspace(0, side - 1, across)[columns]
        y0, x0 = y.astype(int), x.astype(int)
        y1, x1 = np.minimum(y0 + 1, side - 1), np.minimum(x0 + 1, side - 1)
        fy, fx = (y - y0)[:, None], (x - x0)[:, None]
        return ((1 - fy) * ((1 - fx) * table[y0 * side + x0] + fx * table[y0 * side + x1]) +
                fy * ((1 - fx) * table[y1 * side + x0] + fx * table[y1 * side + x1]))

    def turn(self, x, rows, columns):
        """2-D RoPE of x [patch][head][size]: the first quarter of a head's pairs (j, j + size / 2) turns by the row,
        the second by the column."""
        size = x.shape[-1]
        rates = 10000.0 ** (-np.arange(size // 4) / (size // 4))
        angles = np.concatenate([np.outer(rows, rates), np.outer(columns, rates)], 1)[:, None, :]
        a, b = x[..., :size // 2], x[..., size // 2:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)

    def turn_pixtral(self, x, rows, columns):
        """The same, of pairs (2 j, 2 j + 1), which files of pixtral have; rows take the even frequencies of a head,
        columns the odd ones."""
        size = x.shape[-1]
        rates = 10000.0 ** (-np.arange(0, size, 2) / size)
        angles = np.concatenate([np.outer(rows, rates[::2]), np.outer(columns, rates[1::2])], 1)[:, None, :]
        a, b = x[..., ::2], x[..., 1::2]
        return np.stack([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)],
                        -1).reshape(x.shape)

    def turn_gemma4(self, x, rows, columns):
        """Each half of a head turns for itself, pairs (j, j + size / 4): the first by the column, the second by the
        row."""
        half, out = x.shape[-1] // 2, []
        rates = 100.0 ** (-2.0 * np.arange(half // 2) / half)
        for part, at in ((x[..., :half], columns), (x[..., half:], rows)):
            angles = np.outer(at, rates)[:, None, :]
            a, b = part[..., :half // 2], part[..., half // 2:]
            out += [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)]
        return np.concatenate(out, -1)

    def sees(self, i, rows, columns):
        """Whether a patch sees another in layer i: in qwen2.5vl_merger those of its window, a square of window_size
        pixels, but in each n_wa_pattern-th layer all."""
        pattern = self.meta.get('clip.vision.n_wa_pattern', 0) if self.windowed else 0
        if pattern == 0 or (i + 1) % pattern == 0:
            return True
        side = self.meta.get('clip.vision.window_size', 8 * self.patch_size) // self.patch_size // self.merge * self.merge
        window = rows // side * 10 ** 6 + columns // side
        return window[:, None] == window[None, :]

    def attention(self, x, block, rows, columns, sees):
        n, width = x.shape
        if self.qwen:
            q, k, v = np.split(self.linear(x, block + 'attn_qkv'), 3, 1)
        else:
            q, k, v = (self.linear(x, block + 'attn_' + c) for c in 'qkv')
        q, k, v = (t.reshape(n, self.heads, -1) for t in (q, k, v))
        if self.qwen or self.windowed:
            q, k = self.turn(q, rows, columns), self.turn(k, rows, columns)
        if self.pixtral:
            q, k = self.turn_pixtral(q, rows, columns), self.turn_pixtral(k, rows, columns)
        if self.gemma4:
            q, k, v = self.norm(q, block + 'attn_q_norm'), self.norm(k, block + 'attn_k_norm'), self.norm(v, None)
            q, k = self.turn_gemma4(q, rows, columns), self.turn_gemma4(k, rows, columns)
        scores = np.einsum('qhd,khd->hqk', q, k) / (1 if self.gemma4 else np.sqrt(width // self.heads))
        scores = np.where(sees, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.linear(np.einsum('hqk,khd->qhd', weights, v).reshape(n, width), block + 'attn_out')

    def layer(self, x, i, rows, columns):
        block = 'v.blk.%d.' % i
        if self.gemma4:
            y = self.attention(self.norm(x, block + 'ln1'), block, rows, columns, True)
            x = x + self.norm(y, block + 'attn_post_norm')
            y = self.norm(x, block + 'ln2')
            y = gelu_tanh(self.linear(y, block + 'ffn_gate')) * self.linear(y, block + 'ffn_up')
            return x + self.norm(self.linear(y, block + 'ffn_down'), block + 'ffn_post_norm')
        x = x + self.attention(self.norm(x, block + 'ln1'), block, rows, columns, self.sees(i, rows, columns))
        if self.rms:
            y = self.norm(x, block + 'ln2')
            gate = self.linear(y, block + 'ffn_gate')
            return x + self.linear(gate / (1 + np.exp(-gate)) * self.linear(y, block + 'ffn_up'), block + 'ffn_down')
        up, down = block + 'ffn_up', block + 'ffn_down'
        if self.tensors[up + '.weight'].shape[1] != self.embedding_length:
            up, down = down, up  # the names of early files
        return x + self.linear(gelu_tanh(self.linear(self.norm(x, block + 'ln2'), up)), down)

    def encode(self, pixels):
        down, across = pixels.shape[0] // self.patch_size, pixels.shape[1] // self.patch_size
        rows, columns = self.order(down, across)
        x = self.patches(pixels.astype(np.float64), rows, columns) + self.positions(down, across, rows, columns)
        if self.pixtral:
            x = self.norm(x, 'v.pre_ln')
        merged, deep = self.merge ** 2 * self.embedding_length, []
        flags = self.meta.get('clip.vision.is_deepstack_layers', [])
        for i in range(self.block_count):
            x = self.layer(x, i, rows, columns)
            if self.qwen and i < len(flags) and flags[i]:
                name = 'v.deepstack.%d.' % i
                y = self.norm(x.reshape(-1, merged), name + 'norm')
                deep.append(self.linear(gelu_erf(self.linear(y, name + 'fc1')), name + 'fc2'))
        if self.pixtral:
            if self.merge > 1:  # a square's patches side by side, channel by channel
                x = self.norm(x, 'mm.input_norm').reshape(-1, self.merge ** 2, self.embedding_length)
                x = self.linear(x.transpose(0, 2, 1).reshape(-1, merged), 'mm.patch_merger')
            return self.linear(gelu_erf(self.linear(x, 'mm.1')), 'mm.2')
        if self.gemma4:
            m, width = self.merge, self.embedding_length
            x = x.reshape(down // m, m, across // m, m, width).mean((1, 3)).reshape(-1, width) * np.sqrt(width)
            if 'v.std_bias' in self.tensors:
                x = (x - self.of('v.std_bias')) * self.of('v.std_scale')
            return self.linear(self.norm(x, None), 'mm.input_projection')
        x = self.norm(x, 'v.post_ln')
        if self.qwen or self.windowed:
            x = self.linear(gelu_erf(self.linear(x.reshape(-1, merged), 'mm.0')), 'mm.2')
            return np.concatenate([x] + deep, 1)
        m = self.merge
        x = x.reshape(down // m, m, across // m, m, -1).mean((1, 3)).reshape(-1, self.embedding_length)
        x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.eps) * self.of('mm.soft_emb_norm.weight')
        return x @ self.of('mm.input_projection.weight')  # stored the other way round


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    tower, width, height = Tower(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
    unit = tower.patch_size * tower.merge
    if width % unit or height % unit or (tower.kind == 'gemma3' and (width, height) != (tower.image_size,) * 2):
        sys.exit('%dx%d is no size that this tower sees' % (width, height))
    pixels = np.fromfile(sys.argv[2], dtype=np.uint8).reshape(height, width, 3)
    tower.encode(pixels).astype('<f4').tofile(sys.argv[5])


if __name__ == '__main__':
    main()
