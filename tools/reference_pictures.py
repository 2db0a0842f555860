#!/usr/bin/python3
"""Logits of a small qwen2vl, qwen3vl, gemma3 or gemma4 model behind pictures, in float64, from the published formulas alone: what
tests/unit/engine/test_pictures_qwen.c and test_pictures_gemma.c compare with. Needs numpy; both files have F32 tensors only.

    tools/reference_pictures.py MODEL.gguf MMPROJ.gguf OUTPUT PART...

PART: the id of a token, or PNG for a picture of the size that the tower sees (8 bits, RGB, not interlaced). OUTPUT:
float32 [positions][vocab]; a picture has a position for each token that the tower makes of it."""
import struct, sys, zlib
import numpy as np
from reference_logits import Model
from reference_tower import Tower


def read_png(path):
    data, at, packed = open(path, 'rb').read(), 8, b''
    while at < len(data):
        n, kind = struct.unpack_from('>I4s', data, at)
        body = data[at + 8:at + 8 + n]
        if kind == b'IHDR':
            width, height, depth, colour, _, _, woven = struct.unpack('>IIBBBBB', body)
            if (depth, colour, woven) != (8, 2, 0):
                sys.exit('%s: expected 8 bits, RGB, not interlaced' % path)
        packed += body if kind == b'IDAT' else b''
        at += n + 12
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, -1)
    above, out = np.zeros(3 * width, int), []
    for line in raw:
        filter_, x = line[0], line[1:].astype(int)
        for i in range(3 * width):
            a, b, c = (x[i - 3] if i > 2 else 0), above[i], (above[i - 3] if i > 2 else 0)
            near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            x[i] = (x[i] + (0, a, b, (a + b) // 2, near)[filter_]) % 256
        above = x
        out.append(x)
    return np.array(out, np.uint8).reshape(height, width, 3)


class Seeing(Model):
    """Each token has a place in time, a row and a column; pair j turns by the row if j % 3 is 1 and j is below three
    times the row's section, likewise by the column, and else by the time. Of qwen2vl the sections lie one behind the
    other: time, row, column."""
    def rotate(self, x, base, scaled):
        f, _ = self.angles(base, scaled)
        j, sections = np.arange(len(f)), self.key('rope.dimension_sections')
        axis = np.where((j % 3 == 1) & (j < 3 * sections[1]), 1, np.where((j % 3 == 2) & (j < 3 * sections[2]), 2, 0))
        if self.arch == 'qwen2vl':
            axis = np.repeat(np.arange(3), sections[:3])
        a = (self.places[:, axis] * f)[:, None]
        y, half = x.copy(), self.rot // 2
        one, two = x[..., :half], x[..., half:self.rot]
        y[..., :half] = one * np.cos(a) - two * np.sin(a)
        y[..., half:self.rot] = one * np.sin(a) + two * np.cos(a)
        return y

    def see(self, tower, parts):
        rows, places, deep, at = [], [], [], 0
        width, layers = self.key('embedding_length'), self.key('n_deepstack_layers', 0)
        for part in parts:
            if part.isdigit():
                rows.append(self.tensors['token_embd.weight'][[int(part)]])
                deep.append(np.zeros((1, layers * width)))
                places.append([[at] * 3])
                at += 1
                continue
            pixels = read_png(part)
            made, unit = tower.encode(pixels), tower.patch_size * tower.merge
            down, across = pixels.shape[0] // unit, pixels.shape[1] // unit
            rows.append(made[:, :width])
            deep.append(made[:, width:])
            places.append([[at, at + y, at + x] for y in range(down) for x in range(across)])
            at += max(down, across)
        self.places, self.kept = np.vstack(places), {}
        x, deep = np.vstack(rows), np.vstack(deep)
        for i in range(self.key('block_count')):
            x = self.layer_of(x, i, 1.0)
            if i < layers:
                x = x + deep[:, i * width:(i + 1) * width]
        return self.head(self.norm(x, self.tensors['output_norm.weight']))


class SeeingBothSides(Model):
    """gemma3: only text is scaled by the root of the width, and tokens of a picture see each other; gemma4: in layers
    with a window."""
    def see(self, tower, parts):
        rows, pictures = [], []
        for i, part in enumerate(parts):
            text = part.isdigit()
            rows.append(self.tensors['token_embd.weight'][[int(part)]] * np.sqrt(self.key('embedding_length')) if text
                        else tower.encode(read_png(part)))
            pictures += [-1 if text else i] * len(rows[-1])
        pictures, self.kept, x = np.array(pictures), {}, np.vstack(rows)
        for i in range(self.key('block_count')):
            self.pictures = pictures if self.arch == 'gemma3' or self.window_of(i)[0] else None
            x = self.layer_of(x, i, 1.0)
        return self.head(self.norm(x, self.tensors['output_norm.weight']))


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    tower = Tower(sys.argv[2])
    model = (SeeingBothSides if 'gemma' in tower.kind else Seeing)(sys.argv[1], 256)
    model.see(tower, sys.argv[4:]).astype('<f4').tofile(sys.argv[3])


if __name__ == '__main__':
    main()
