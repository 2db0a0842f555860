#!/usr/bin/env python3
"""Rows of n-grams in numpy's uint64, for tests/unit/engine/test_ngram_rows.c: python3 -I tests/models/ngram_rows.py
prints the table of that test. Sizes are as large as those of the published model: 16 heads of about 20 million rows."""
import numpy as np

EOS, SIZE, EACH = 248046, 3, 8
MULTIPLIERS = np.array([23703753246541, 20109073645365, 8052911324071], dtype=np.uint64)
SIZES = np.array([20000003 + 34 * h + h * h for h in range(16)], dtype=np.uint64)
OFFSETS = np.concatenate([[np.uint64(0)], np.cumsum(SIZES)[:-1]]).astype(np.uint64)
TOKENS = [0, 1, 248319, 248046, 17, 17, 248046, 248046, 5, 100000, 248318]


def rows(tokens):
    t = np.array(tokens, dtype=np.uint64)
    all_rows = np.zeros((len(t), (SIZE - 1) * EACH), dtype=np.uint64)
    for p in range(len(t)):
        ends = np.flatnonzero(t[:p] == EOS)
        begin = ends[-1] + 1 if len(ends) else 0  # of the text that the token before p is in
        behind = [t[p - k] if p - k >= begin else np.uint64(EOS) for k in range(SIZE)]
        for n in range(2, SIZE + 1):
            mixed = np.bitwise_xor.reduce(np.array(behind[:n], dtype=np.uint64) * MULTIPLIERS[:n])
            h = slice((n - 2) * EACH, (n - 1) * EACH)
            all_rows[p, h] = mixed % SIZES[h] + OFFSETS[h]
    return all_rows


if __name__ == '__main__':
    for r in rows(TOKENS):
        print('    {' + ', '.join(str(x) for x in r) + '},')
