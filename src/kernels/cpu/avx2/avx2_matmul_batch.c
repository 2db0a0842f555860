/* Matmul of many tokens with AVX2. A segment of k at a time: its activations are packed once for all panels
 * of the call, a panel is unpacked once for all tokens, and tiles of its two halves times 4 or 3 tokens keep
 * their sums in registers. Both packed forms lie in the caller's work memory. No state; any thread.
 *
 * What a tile costs per 32-block and 8 outputs, in operations on three ports: Q4_K 8 vpmaddubsw, 7 sums of
 * int16, vpmaddwd with the sub-scale and a sum, and 1.75 for minima and floats; Q6_K 8 vpmaddubsw, 8 sums,
 * two vpmaddwd and their sums, and 0.5. Wide types' products do not fit int16 together: 16 vpmaddwd of int16,
 * 16 sums, convert, multiply, fma; of K types 8 vpmaddubsw, 8 vpmaddwd with the sub-scale, 8 sums, and of
 * IQ4_XS 8 vpsignb. */
#include "base/arith.h"
#include "base/check.h"
#include "kernels/cpu/avx2/avx2_batch.h"
#include "kernels/cpu/avx2/avx2_unpack.h"
#include "kernels/cpu/matmul_ahead.h"

#define TOKENS 4 /* at most: 2 * 4 sums, 2 weights, an activation and a product are 12 registers */

/* Where a tile's sums of a segment go. */
struct place {
    float *out;
    uint32_t tokens; /* of the tile that exist */
    bool first;      /* segment */
};

MATMUL_INLINE void put_tile(uint32_t n, const struct place *to, __m256 acc[2][TOKENS]) {
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        if (t >= to->tokens)
            return;
        UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            float *out = to->out + t * PANEL_ROWS + (size_t)AVX2_HALF_ROWS * h;
            _mm256_storeu_ps(
                out, _mm256_add_ps(to->first ? _mm256_setzero_ps() : _mm256_loadu_ps(out), acc[h][t]));
        }
    }
}

/* Keeps a sum as written: balanced into a tree, as gcc would, a tile needs more registers than there are. */
MATMUL_INLINE __m256i in_order(__m256i sum) {
    __asm__("" : "+x"(sum));
    return sum;
}

MATMUL_INLINE __m256i add_sums(bool words, __m256i a, __m256i b) {
    return words ? _mm256_add_epi32(a, b) : _mm256_add_epi16(a, b);
}

MATMUL_INLINE __m256i load_half(const void *row, uint32_t half) {
    return _mm256_load_si256((const __m256i *)row + half);
}

/* sum = the sums of the products of `steps` steps with the tile's activations at q: bytes into int16, or
 * words into int32. Not fresh: added to what sum has. */
MATMUL_INLINE void dot(uint32_t n, bool words, bool fresh, int steps, const uint8_t (*w)[64], const int8_t *q,
                       size_t row, __m256i sum[2][TOKENS]) {
    UNROLL
    for (int s = 0; s < steps; s++) {
        const __m256i w0 = load_half(w[s], 0), w1 = load_half(w[s], 1);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            const __m256i a = _mm256_set1_epi32(matmul_load32(q + t * row + 4 * s));
            const __m256i x0 = words ? _mm256_madd_epi16(w0, a) : _mm256_maddubs_epi16(w0, a);
            const __m256i x1 = words ? _mm256_madd_epi16(w1, a) : _mm256_maddubs_epi16(w1, a);
            sum[0][t] = fresh && s == 0 ? x0 : in_order(add_sums(words, sum[0][t], x0));
            sum[1][t] = fresh && s == 0 ? x1 : in_order(add_sums(words, sum[1][t], x1));
        }
    }
}

/* The exact sums of a 32-block. */
MATMUL_INLINE void dot_block(uint32_t type, uint32_t n, const uint8_t (*w)[64], const int8_t *q, size_t row,
                             __m256i i[2][TOKENS]) {
    if (matmul_is_wide(type)) {
        dot(n, true, true, 16, w, q, row, i);
        return;
    }
    const int group = avx2_steps_in_int16(type);
    UNROLL
    for (int from = 0; from < 8; from += group) {
        __m256i sum[2][TOKENS];
        dot(n, false, true, group, w + from, q + 4 * from, row, sum);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                __m256i x = _mm256_madd_epi16(sum[h][t], _mm256_set1_epi16(1));
                i[h][t] = from == 0 ? x : _mm256_add_epi32(i[h][t], x);
            }
        }
    }
}

MATMUL_INLINE void tile32(uint32_t type, uint32_t n, const struct avx2_batch_work *work, uint32_t at,
                          uint32_t blocks, const struct place *to, struct matmul_ahead *next) {
    const struct avx2_near32 *x = (const struct avx2_near32 *)(const void *)(work + 1) + at;
    const struct avx2_weights32 *w = &work->weights32;
    const size_t block_bytes = matmul_is_wide(type) ? 64 : 32;
    __m256 acc[2][TOKENS];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < blocks; b++) {
        matmul_ahead_step(next);
        __m256i i[2][TOKENS];
        dot_block(type, n, w->q[b], x->q + block_bytes * b, sizeof *x, i);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            const __m256 d = _mm256_set1_ps(x[t].d[b]);
            UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                if (matmul_offset(type) != 0)
                    i[h][t] = _mm256_add_epi32(i[h][t], _mm256_set1_epi32(x[t].below[b]));
                acc[h][t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i[h][t]),
                                            _mm256_mul_ps(_mm256_load_ps(w->d[b] + 8 * h), d), acc[h][t]);
                if (matmul_has_m(type))
                    acc[h][t] = _mm256_fmadd_ps(_mm256_set1_ps(x[t].sum[b]),
                                                _mm256_mul_ps(_mm256_load_ps(w->m[b] + 8 * h), d), acc[h][t]);
            }
        }
    }
    put_tile(n, to, acc);
}

/* Wide K types whose integers are at most 62 in size: as unsigned bytes 64 larger their products fit int16.
 */
#define SMALL_OFFSET 64

/* The exact sum of a super block of a wide type: products are multiplied with the scale two by two. Small
 * integers are 64 too large; of others the activation takes the sign, the weight is its size. */
MATMUL_INLINE void super_sum_wide(uint32_t type, bool small, uint32_t n, const struct avx2_weights256 *w,
                                  const struct avx2_near256 *x, uint32_t super, __m256i sum[2][TOKENS],
                                  struct matmul_ahead *next) {
    const uint32_t part = 64 / matmul_subs(type);
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        sum[0][t] = sum[1][t] = _mm256_setzero_si256();
    for (uint32_t b = 0; b < 8; b++) {
        matmul_ahead_step(next);
        const uint8_t(*q)[64] = w->q[8 * super + b];
        const int32_t(*sub)[16] = w->sub[super] + b * (8 / part);
        UNROLL
        for (uint32_t s = 0; s < 8; s++) {
            const __m256i w0 = load_half(q[s], 0), w1 = load_half(q[s], 1);
            const __m256i g0 = small ? w0 : load_half(q[8 + s], 0), g1 = small ? w1 : load_half(q[8 + s], 1);
            UNROLL
            for (uint32_t t = 0; t < n; t++) {
                const __m256i a =
                    _mm256_set1_epi32(matmul_load32(x[t].q + 256 * super + 32 * b + (size_t)4 * s));
                const __m256i x0 = _mm256_maddubs_epi16(w0, small ? a : _mm256_sign_epi8(a, g0));
                const __m256i x1 = _mm256_maddubs_epi16(w1, small ? a : _mm256_sign_epi8(a, g1));
                sum[0][t] =
                    in_order(_mm256_add_epi32(sum[0][t], _mm256_madd_epi16(x0, load_half(sub[s / part], 0))));
                sum[1][t] =
                    in_order(_mm256_add_epi32(sum[1][t], _mm256_madd_epi16(x1, load_half(sub[s / part], 1))));
            }
        }
    }
}

/* The exact sum of a super block. Of Q6_K and Q3_K it is that of the weights as q - 32 and q - 4: 8 columns
 * of Q6_K's fit int16, where the stored ones' would take two sums and two multiplications by the scale. */
MATMUL_INLINE void super_sum(uint32_t type, uint32_t n, const struct avx2_weights256 *w,
                             const struct avx2_near256 *x, uint32_t super, __m256i sum[2][TOKENS],
                             struct matmul_ahead *next) {
    const bool below = matmul_offset(type) != 0;
    const int part = (int)(64 / matmul_subs(type)), group = below ? 4 : avx2_steps_in_int16(type);
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        sum[0][t] = sum[1][t] = _mm256_setzero_si256();
    for (uint32_t b = 0; b < 8; b++) {
        matmul_ahead_step(next);
        const uint8_t(*q)[64] = w->q[8 * super + b];
        const int32_t(*sub)[16] = w->sub[super] + b * (8 / (uint32_t)part);
        UNROLL
        for (int from = 0; from < 8; from += group) {
            __m256i i[2][TOKENS];
            UNROLL
            for (uint32_t t = 0; t < n && below; t++)
                i[0][t] = i[1][t] = _mm256_set1_epi32(x[t].below[super][2 * b + (uint32_t)from / 4]);
            dot(n, false, !below, group, q + from, x->q + 256 * super + 32 * b + 4 * (size_t)from, sizeof *x,
                i);
            UNROLL
            for (uint32_t t = 0; t < n; t++) {
                UNROLL
                for (uint32_t h = 0; h < 2; h++)
                    sum[h][t] = _mm256_add_epi32(sum[h][t],
                                                 _mm256_madd_epi16(i[h][t], load_half(sub[from / part], h)));
            }
        }
    }
}

/* The sums of activations times minima (of small integers: scales, for the offset). */
MATMUL_INLINE void dot_minima(uint32_t type, uint32_t n, const struct avx2_weights256 *w,
                              const struct avx2_near256 *x, uint32_t super, __m256i i[2][TOKENS]) {
    UNROLL
    for (uint32_t j = 0; j < matmul_subs(type) / 2; j++) {
        const __m256i w0 = load_half(w->minima[super][j], 0), w1 = load_half(w->minima[super][j], 1);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            const __m256i a = _mm256_set1_epi32(matmul_load32(x[t].s[super] + 2 * j));
            const __m256i x0 = _mm256_madd_epi16(w0, a), x1 = _mm256_madd_epi16(w1, a);
            i[0][t] = j == 0 ? x0 : in_order(_mm256_add_epi32(i[0][t], x0));
            i[1][t] = j == 0 ? x1 : in_order(_mm256_add_epi32(i[1][t], x1));
        }
    }
}

MATMUL_INLINE void tile256(uint32_t type, bool small, uint32_t n, const struct avx2_batch_work *work,
                           uint32_t at, uint32_t supers, const struct place *to, struct matmul_ahead *next) {
    const struct avx2_near256 *x = (const struct avx2_near256 *)(const void *)(work + 1) + at;
    const struct avx2_weights256 *w = &work->weights256;
    __m256 acc[2][TOKENS];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (uint32_t super = 0; super < supers; super++) {
        __m256i sum[2][TOKENS], i[2][TOKENS];
        if (matmul_is_wide(type))
            super_sum_wide(type, small, n, w, x, super, sum, next);
        else
            super_sum(type, n, w, x, super, sum, next);
        if (matmul_has_m(type) || small)
            dot_minima(type, n, w, x, super, i);
        UNROLL
        for (uint32_t t = 0; t < n && small; t++) {
            sum[0][t] = _mm256_sub_epi32(sum[0][t], _mm256_slli_epi32(i[0][t], 6));
            sum[1][t] = _mm256_sub_epi32(sum[1][t], _mm256_slli_epi32(i[1][t], 6));
        }
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            const __m256 d = _mm256_set1_ps(x[t].d[super]);
            UNROLL
            for (uint32_t h = 0; h < 2; h++) {
                acc[h][t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[h][t]),
                                            _mm256_mul_ps(_mm256_load_ps(w->d[super] + 8 * h), d), acc[h][t]);
                if (matmul_has_m(type))
                    acc[h][t] =
                        _mm256_fnmadd_ps(_mm256_cvtepi32_ps(i[h][t]),
                                         _mm256_mul_ps(_mm256_load_ps(w->m[super] + 8 * h), d), acc[h][t]);
            }
        }
    }
    put_tile(n, to, acc);
}

/* --- packing */

/* Bytes 0, 2, 4, .. and 1, 3, 5, .. as int16. */
MATMUL_INLINE __m256i even_bytes(__m256i x) {
    return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
}

MATMUL_INLINE __m256i odd_bytes(__m256i x) {
    return _mm256_srai_epi16(x, 8);
}

/* 32 quants as the type multiplies them. */
MATMUL_INLINE void bring_block(uint32_t type, int8_t *to, const int8_t *block) {
    const __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)block);
    if (matmul_is_wide(type)) {
        _mm256_store_si256((__m256i *)(void *)to, even_bytes(q));
        _mm256_store_si256((__m256i *)(void *)(to + 32), odd_bytes(q));
    } else {
        _mm256_store_si256((__m256i *)(void *)to, q);
    }
}

/* Activation row `row`, k from start on, becomes row t. */
MATMUL_INLINE void bring32(uint32_t type, struct avx2_near32 *x, const struct kernels_matmul *m, size_t row,
                           uint32_t start, uint32_t count) {
    const size_t at = (row * m->l->cols + start) / 32, bytes = matmul_is_wide(type) ? 64 : 32;
    for (uint32_t b = 0; b < count / 32; b++) {
        bring_block(type, x->q + bytes * b,
                    m->a->q32 + act_tiles_at(m->a->tile_rows, ACT_TILE_32, m->l->cols, row, start + 32 * b));
        x->d[b] = m->a->d32[at + b];
        x->below[b] = -matmul_offset(type) * m->a->s32[at + b];
        x->sum[b] = m->a->s32[at + b];
    }
}

/* -offset times the sums of 8 of each 16 columns: 0, 1 of each four, and 2, 3. */
MATMUL_INLINE void bring_below(int32_t offset, int32_t below[16], const int8_t *q) {
    for (uint32_t b = 0; b < 8; b++) {
        const __m256i columns = _mm256_load_si256((const __m256i *)(const void *)(q + 32 * (size_t)b));
        __m256i v = _mm256_maddubs_epi16(_mm256_set1_epi8(1), columns);
        v = _mm256_add_epi16(v, _mm256_shuffle_epi32(v, 0x4e));
        v = _mm256_add_epi16(v, _mm256_shuffle_epi32(v, 0xb1));
        v = _mm256_mullo_epi16(v, _mm256_set1_epi16((int16_t)-offset));
        below[2 * b] = _mm256_extract_epi32(v, 0);
        below[2 * b + 1] = _mm256_extract_epi32(v, 4);
    }
}

MATMUL_INLINE void bring256(uint32_t type, struct avx2_near256 *x, const struct kernels_matmul *m, size_t row,
                            uint32_t start, uint32_t count) {
    const size_t at = (row * m->l->cols + start) / 256;
    for (uint32_t super = 0; super < count / 256; super++) {
        int8_t *q = x->q + 256 * (size_t)super;
        act_tiles_get(q, m->a->q256, m->a->tile_rows, ACT_TILE_256, m->l->cols, row, start + 256 * super,
                      256);
        const int16_t *s = m->a->s256 + 16 * (at + super);
        const bool sums = matmul_has_m(type) || matmul_is_wide(type);
        if (sums && matmul_subs(type) == 16)
            memcpy(x->s[super], s, 16 * sizeof *s);
        for (uint32_t j = 0; j < 8 && sums && matmul_subs(type) == 8; j++)
            x->s[super][j] = (int16_t)(s[2 * j] + s[2 * j + 1]);
        if (matmul_offset(type) != 0)
            bring_below(matmul_offset(type), x->below[super], q);
        x->d[super] = m->a->d256[at + super];
    }
}

MATMUL_INLINE void store_half(uint8_t to[64], uint32_t half, __m256i v) {
    _mm256_store_si256((__m256i *)(void *)to + half, v);
}

/* The quants of a panel's 32-block: of wide types as int16, of wide K types as super_sum_wide has them. */
MATMUL_INLINE void unpack_quants(uint32_t type, bool small, const struct panel_layout *l,
                                 const uint8_t *panel, uint32_t block, uint8_t (*to)[64]) {
    const uint8_t *quants = panel + block * matmul_block_bytes(type);
    const uint8_t *high = panel + l->high + (size_t)block * 64 * matmul_high_bits(type);
    for (uint32_t h = 0; h < 2; h++) {
        UNROLL
        for (int s = 0; s < 8; s++) {
            const __m256i w = avx2_load_step(type, l, quants + (size_t)32 * h, high + (size_t)32 * h, s);
            if (!matmul_is_wide(type)) {
                store_half(to[s], h, w);
            } else if (small) {
                store_half(to[s], h, _mm256_add_epi8(w, _mm256_set1_epi8(SMALL_OFFSET)));
            } else if (matmul_is_k(type)) {
                store_half(to[s], h, _mm256_abs_epi8(w));
                store_half(to[8 + s], h, w);
            } else {
                store_half(to[s], h, even_bytes(w));
                store_half(to[8 + s], h, odd_bytes(w));
            }
        }
    }
}

MATMUL_INLINE void unpack_f16(float *to, const uint8_t *from) {
    _mm256_store_ps(to, avx2_load_f16(from));
    _mm256_store_ps(to + 8, avx2_load_f16(from + 16));
}

MATMUL_INLINE void unpack32(uint32_t type, struct avx2_weights32 *w, const struct panel_layout *l,
                            const uint8_t *panel, uint32_t start, uint32_t blocks) {
    for (uint32_t b = 0; b < blocks; b++) {
        unpack_quants(type, false, l, panel, start + b, w->q[b]);
        for (uint32_t h = 0; h < 2; h++)
            _mm256_store_ps(w->d[b] + 8 * h, avx2_load_scale(type, panel + l->d, start + b, h));
        if (matmul_has_m(type))
            unpack_f16(w->m[b], panel + l->m + (size_t)(start + b) * 32);
    }
}

MATMUL_INLINE void store_pair(int32_t *to, __m256i low, __m256i high) {
    _mm256_store_si256((__m256i *)(void *)to, avx2_pair(low, high));
}

MATMUL_INLINE void unpack_subs(uint32_t type, bool small, struct avx2_weights256 *w, uint32_t to,
                               const struct panel_layout *l, const uint8_t *panel, uint32_t super) {
    const uint32_t subs = matmul_subs(type);
    const uint8_t *sub = panel + l->sub + (size_t)super * matmul_sub_bytes(type);
    for (uint32_t j = 0; j < subs; j++) {
        for (uint32_t h = 0; h < 2; h++) {
            const uint8_t *at = sub + (size_t)AVX2_HALF_ROWS * h;
            const __m256i scale = avx2_load_sub(type, at, j);
            store_pair(w->sub[to][j] + (size_t)AVX2_HALF_ROWS * h, scale, scale);
            if (small && j % 2 == 0)
                store_pair(w->minima[to][j / 2] + (size_t)AVX2_HALF_ROWS * h, scale,
                           avx2_load_sub(type, at, j + 1));
            if (matmul_has_m(type) && j % 2 == 0)
                store_pair(w->minima[to][j / 2] + (size_t)AVX2_HALF_ROWS * h,
                           avx2_load_min(type, l, panel, super, j, h),
                           avx2_load_min(type, l, panel, super, j + 1, h));
        }
    }
    for (uint32_t h = 0; h < 2; h++)
        _mm256_store_ps(w->d[to] + 8 * h, avx2_load_scale256(type, l, panel, super, h));
    if (matmul_has_m(type))
        unpack_f16(w->m[to], panel + l->m + (size_t)super * 32);
}

MATMUL_INLINE void unpack256(uint32_t type, bool small, struct avx2_weights256 *w,
                             const struct panel_layout *l, const uint8_t *panel, uint32_t start,
                             uint32_t supers) {
    for (uint32_t b = 0; b < 8 * supers; b++)
        unpack_quants(type, small, l, panel, 8 * start + b, w->q[b]);
    for (uint32_t s = 0; s < supers; s++)
        unpack_subs(type, small, w, s, l, panel, start + s);
}

/* --- the walk */

/* A tile of n tokens, `at` the first of those packed. */
MATMUL_INLINE void tile(uint32_t type, bool small, uint32_t n, const struct avx2_batch_work *work,
                        uint32_t at, uint32_t count, const struct place *to, struct matmul_ahead *next) {
    if (matmul_is_k(type))
        tile256(type, small, n, work, at, count / 256, to, next);
    else
        tile32(type, n, work, at, count / 32, to, next);
}

/* One segment of k, of up to AVX2_BATCH_TOKENS tokens from `first` on. Rows beyond the last token repeat it.
 * Threes until fours are left: as many tiles as fours alone would be, and none but those of 1, 2 and 5 tokens
 * is filled up. */
MATMUL_INLINE void segment(uint32_t type, bool small, const struct kernels_matmul *m, uint32_t first,
                           uint32_t tokens, uint32_t start) {
    struct avx2_batch_work *work = m->work;
    const uint32_t count = ARITH_MIN(m->l->cols - start, (uint32_t)KERNELS_SEGMENT);
    for (uint32_t t = 0; t < avx2_batch_padded(tokens); t++) {
        size_t row = (size_t)m->first + first + ARITH_MIN(t, tokens - 1);
        if (matmul_is_k(type))
            bring256(type, (struct avx2_near256 *)(void *)(work + 1) + t, m, row, start, count);
        else
            bring32(type, (struct avx2_near32 *)(void *)(work + 1) + t, m, row, start, count);
    }
    for (uint32_t p = 0; p < m->n_panels; p++) {
        const uint8_t *panel = m->panels + (size_t)p * m->l->panel_bytes;
        if (matmul_is_k(type))
            unpack256(type, small, &work->weights256, m->l, panel, start / 256, count / 256);
        else
            unpack32(type, &work->weights32, m->l, panel, start / 32, count / 32);
        struct matmul_ahead next = matmul_ahead_after(type, m, start, p + 1, 1,
                                                      (size_t)(tokens + TOKENS - 1) / TOKENS * (count / 32));
        for (uint32_t t = 0; t < tokens;) {
            const uint32_t left = tokens - t;
            const struct place to = {m->out + p * m->out_panel + (size_t)(first + t) * PANEL_ROWS, left,
                                     start == 0};
            const bool full = left % TOKENS == 0;
            if (full)
                tile(type, small, TOKENS, work, t, count, &to, &next);
            else
                tile(type, small, TOKENS - 1, work, t, count, &to, &next);
            t += full ? TOKENS : TOKENS - 1;
        }
    }
}

MATMUL_INLINE void batch(uint32_t type, bool small, const struct kernels_matmul *m) {
    for (uint32_t t = 0; t < m->tokens; t += AVX2_BATCH_TOKENS)
        for (uint32_t start = 0; start < m->l->cols; start += KERNELS_SEGMENT)
            segment(type, small, m, t, ARITH_MIN(m->tokens - t, (uint32_t)AVX2_BATCH_TOKENS), start);
}

#define CASE(type)                                                                                           \
    case type:                                                                                               \
        batch(type, false, m);                                                                               \
        return true;

bool avx2_batch(uint32_t type, const struct kernels_matmul *m) {
    if (m->tokens < (matmul_is_k(type) ? AVX2_BATCH_LEAST_K : AVX2_BATCH_LEAST))
        return false;
    CHECK((uintptr_t)m->work % 64 == 0);
    switch (type) {
        CASE(BLOCK_Q4_0)
        CASE(BLOCK_Q4_1)
        CASE(BLOCK_Q5_0)
        CASE(BLOCK_Q5_1)
        CASE(BLOCK_Q8_0)
        CASE(BLOCK_IQ4_NL)
        CASE(BLOCK_MXFP4)
        CASE(BLOCK_Q4_K)
        CASE(BLOCK_Q5_K)
        CASE(BLOCK_Q6_K)
        CASE(BLOCK_Q2_K)
        CASE(BLOCK_Q3_K)
    case BLOCK_IQ2_S:
        batch(BLOCK_IQ2_S, true, m);
        return true;
    case BLOCK_IQ4_XS:
        if (m->l->file == BLOCK_IQ4_XS)
            batch(BLOCK_IQ4_XS, false, m);
        else /* IQ3_S, IQ3_XXS */
            batch(BLOCK_IQ4_XS, true, m);
        return true;
    default:
        return false;
    }
}
