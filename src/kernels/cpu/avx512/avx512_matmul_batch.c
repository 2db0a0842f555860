/* Matmul of many tokens with AVX-512 and VNNI. A segment of k at a time: its activations are packed once for
 * all panels of the call, a pair of panels is unpacked once for all tokens, and tiles of two panels times
 * 4 to 6 tokens (floats: 12) keep their sums in registers. Both packed forms lie in the caller's work memory.
 * No state; any thread.
 *
 * What a tile costs per 32-block and 16 outputs: 8 vpdpbusd, and of 32-value types convert, multiply, fma (11
 * operations on the two 512-bit ports: at most 73% of VNNI's peak); of Q4_K one vpdpwssd for the sub-scale,
 * and per 256 another 14 (86 for 64: 74%); of Q6_K four, and 3 (99 for 64: 65%). */
#include "base/arith.h"
#include "base/check.h"
#include "kernels/cpu/avx512/avx512_batch.h"
#include "kernels/cpu/avx512/avx512_unpack.h"
#include "kernels/cpu/matmul_ahead.h"

#define TOKENS       BATCH_TILE
#define TOKENS_FLOAT BATCH_TILE_FLOAT
#define CHUNK        BATCH_CHUNK

/* Where a tile's sums of a segment go. */
struct place {
    float *out;
    size_t next; /* floats to the second panel's */
    bool first;  /* segment */
    bool second; /* panel exists */
};

MATMUL_INLINE void put_row(float *out, bool first, __m512 acc) {
    _mm512_storeu_ps(out, _mm512_add_ps(first ? _mm512_setzero_ps() : _mm512_loadu_ps(out), acc));
}

MATMUL_INLINE void put_tile(uint32_t n, const struct place *to, const __m512 *acc0, const __m512 *acc1) {
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        put_row(to->out + t * PANEL_ROWS, to->first, acc0[t]);
        if (to->second)
            put_row(to->out + to->next + t * PANEL_ROWS, to->first, acc1[t]);
    }
}

MATMUL_INLINE __m512i set_pair(const void *p) {
    return _mm512_set1_epi32(matmul_load32(p));
}

/* vpdpbusd with the activation broadcast from memory: no instruction of its own, but a load for each use. */
MATMUL_INLINE __m512i dot_memory(__m512i i, __m512i w, const void *a) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(i) : "v"(w), "m"(*(const char(*)[4])a));
    return i;
}

/* The same number loaded for each of two sums: as a load it is free, as a copy of a register it takes a port.
 */
MATMUL_INLINE __m512i set_memory(const int32_t *a) {
    __m512i v;
    __asm__ volatile("vpbroadcastd %1, %0" : "=v"(v) : "m"(*a));
    return v;
}

/* i += the products of `steps` steps of the two panels with the tile's activations at q. Every other token
 * from memory: neither the loads nor the instructions issued are then what the tile waits for. */
MATMUL_INLINE void dot_steps(uint32_t n, uint32_t steps, const uint8_t (*w)[2][64], const int8_t *q,
                             size_t row, __m512i i[2][TOKENS]) {
    UNROLL
    for (uint32_t s = 0; s < steps; s++) {
        __m512i w0 = _mm512_load_si512(w[s][0]);
        __m512i w1 = _mm512_load_si512(w[s][1]);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            const int8_t *at = q + t * row + 4 * s;
            if (t % 2 == 0) {
                i[0][t] = dot_memory(i[0][t], w0, at);
                i[1][t] = dot_memory(i[1][t], w1, at);
            } else {
                __m512i a = set_pair(at);
                i[0][t] = _mm512_dpbusd_epi32(i[0][t], w0, a);
                i[1][t] = _mm512_dpbusd_epi32(i[1][t], w1, a);
            }
        }
    }
}

MATMUL_INLINE void tile32(uint32_t type, uint32_t n, const struct batch_work *work, uint32_t at,
                          uint32_t blocks, const struct place *to, struct matmul_ahead *next) {
    const struct batch_near32 *x = (const struct batch_near32 *)(const void *)(work + 1) + at;
    const struct batch_weights32 *w = &work->weights32;
    __m512 acc[2][TOKENS];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[0][t] = acc[1][t] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < blocks; b++) {
        matmul_ahead_step(next);
        __m512i i[2][TOKENS];
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (uint32_t p = 0; p < 2; p++)
                i[p][t] = unpack_offset(type) != 0 ? set_memory(&x[t].below[b]) : _mm512_setzero_si512();
        }
        dot_steps(n, 8, w->q[b], x->q + 32 * b, sizeof *x, i);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m512 d = _mm512_set1_ps(x[t].d[b]);
            UNROLL
            for (uint32_t p = 0; p < 2; p++) {
                acc[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i[p][t]),
                                            _mm512_mul_ps(_mm512_load_ps(w->d[b][p]), d), acc[p][t]);
                if (matmul_has_m(type))
                    acc[p][t] = _mm512_fmadd_ps(_mm512_set1_ps(x[t].sum[b]),
                                                _mm512_mul_ps(_mm512_load_ps(w->m[b][p]), d), acc[p][t]);
            }
        }
    }
    put_tile(n, to, acc[0], acc[1]);
}

/* Parts of a super block whose sums are multiplied with a scale: those that have one each, of Q5_K and Q6_K
 * halves of them. */
MATMUL_INLINE uint32_t parts_of(uint32_t type) {
    return type == BLOCK_Q5_K ? 16 : type == BLOCK_Q6_K ? 32 : matmul_subs(type);
}

/* Sums of products of numbers in pairs. */
MATMUL_INLINE void dot_pairs(uint32_t n, uint32_t pairs, const int32_t (*w)[2][16], const int16_t *s,
                             size_t row, __m512i i[2][TOKENS]) {
    UNROLL
    for (uint32_t j = 0; j < pairs; j++) {
        __m512i w0 = _mm512_load_si512(w[j][0]);
        __m512i w1 = _mm512_load_si512(w[j][1]);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m512i a = set_pair(s + t * row + (size_t)2 * j);
            i[0][t] = _mm512_dpwssd_epi32(i[0][t], w0, a);
            i[1][t] = _mm512_dpwssd_epi32(i[1][t], w1, a);
        }
    }
}

/* The integer of a super block. The sum of a part, its weights taken as q - 8 (Q4_K, 32 columns), q - 16
 * (Q5_K, 16 columns) and q - 32 (Q6_K, 8 columns), is at most 32512 in size because activations are
 * -127..127: one vpdpwssd multiplies it with the scale. So it does with q (Q2_K) and q - 4 (Q3_K) of 16
 * columns; sums of wide types need 32 bits. */
MATMUL_INLINE void super_sum(uint32_t type, uint32_t n, const struct batch_work *work, uint32_t at,
                             uint32_t super, __m512i sum[2][TOKENS], struct matmul_ahead *next) {
    const struct batch_near256 *x = (const struct batch_near256 *)(const void *)(work + 1) + at;
    const struct batch_weights256 *w = &work->weights256;
    const uint32_t parts = parts_of(type);
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        sum[0][t] = sum[1][t] = _mm512_setzero_si512();
    if (type == BLOCK_Q4_K || type == BLOCK_Q5_K)
        dot_pairs(n, parts / 2, w->pairs[super], x->above[super], sizeof *x / sizeof(int16_t), sum);
    const uint32_t steps = 64 / parts;
    const uint8_t(*q)[2][64] = w->q[8 * super];
    for (uint32_t j = 0; j < parts; j++, q += steps) {
        matmul_ahead_step(next);
        __m512i i[2][TOKENS];
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (uint32_t p = 0; p < 2; p++)
                i[p][t] = type != BLOCK_Q2_K ? set_memory(&x[t].below[super][j]) : _mm512_setzero_si512();
        }
        dot_steps(n, steps, q, x->q + 256 * super + 4 * steps * j, sizeof *x, i);
        const int32_t(*scale)[16] = w->sub[super][type == BLOCK_Q6_K ? j / 2 : j];
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            UNROLL
            for (uint32_t p = 0; p < 2; p++)
                sum[p][t] = matmul_is_wide(type)
                                ? _mm512_add_epi32(sum[p][t],
                                                   _mm512_mullo_epi32(i[p][t], _mm512_load_si512(scale[p])))
                                : _mm512_dpwssd_epi32(sum[p][t], i[p][t], _mm512_load_si512(scale[p]));
        }
    }
}

/* Steps of matmul_ahead in a tile. */
MATMUL_INLINE size_t steps_of(uint32_t type, uint32_t cols) {
    return matmul_is_k(type) ? cols / 256 * parts_of(type) : cols / 32;
}

MATMUL_INLINE void tile256(uint32_t type, uint32_t n, const struct batch_work *work, uint32_t at,
                           uint32_t supers, const struct place *to, struct matmul_ahead *next) {
    const struct batch_near256 *x = (const struct batch_near256 *)(const void *)(work + 1) + at;
    const struct batch_weights256 *w = &work->weights256;
    __m512 acc[2][TOKENS];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[0][t] = acc[1][t] = _mm512_setzero_ps();
    for (uint32_t super = 0; super < supers; super++) {
        __m512i i[2][TOKENS];
        __asm__(""
                : "+m"(acc)); /* the integers need the registers: gcc would keep these, and those in memory */
        super_sum(type, n, work, at, super, i, next);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m512 d = _mm512_set1_ps(x[t].d[super]);
            UNROLL
            for (uint32_t p = 0; p < 2; p++) {
                acc[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i[p][t]),
                                            _mm512_mul_ps(_mm512_load_ps(w->d[super][p]), d), acc[p][t]);
                i[p][t] = _mm512_setzero_si512();
            }
        }
        if (!matmul_has_m(type))
            continue;
        if (type == BLOCK_Q2_K)
            dot_pairs(n, 8, w->pairs[super], x->above[super], sizeof *x / sizeof(int16_t), i);
        else
            dot_pairs(n, 4, w->least[super], x->sum[super], sizeof *x / sizeof(int16_t), i);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m512 d = _mm512_set1_ps(x[t].d[super]);
            UNROLL
            for (uint32_t p = 0; p < 2; p++)
                acc[p][t] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(i[p][t]),
                                             _mm512_mul_ps(_mm512_load_ps(w->m[super][p]), d), acc[p][t]);
        }
    }
    put_tile(n, to, acc[0], acc[1]);
}

/* One chunk; the segment's sums so far are in batch_near_float.acc. */
MATMUL_INLINE void tile_float(struct batch_work *work, uint32_t at, uint32_t chunk, uint32_t count,
                              struct matmul_ahead *next) {
    struct batch_near_float *x = (struct batch_near_float *)(void *)(work + 1) + at;
    const float *columns = x->x + (size_t)chunk * CHUNK;
    const float(*w)[2][16] = work->weights_float.w;
    __m512 acc[2][TOKENS_FLOAT];
    UNROLL
    for (uint32_t t = 0; t < TOKENS_FLOAT; t++) {
        acc[0][t] = chunk == 0 ? _mm512_setzero_ps() : _mm512_load_ps(x[t].acc[0]);
        acc[1][t] = chunk == 0 ? _mm512_setzero_ps() : _mm512_load_ps(x[t].acc[1]);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (k % 32 == 0)
            matmul_ahead_step(next);
        __m512 w0 = _mm512_load_ps(w[k][0]);
        __m512 w1 = _mm512_load_ps(w[k][1]);
        UNROLL
        for (uint32_t t = 0; t < TOKENS_FLOAT; t++) {
            __m512 a = _mm512_set1_ps(columns[t * (sizeof *x / sizeof(float)) + k]);
            acc[0][t] = _mm512_fmadd_ps(w0, a, acc[0][t]);
            acc[1][t] = _mm512_fmadd_ps(w1, a, acc[1][t]);
        }
    }
    UNROLL
    for (uint32_t t = 0; t < TOKENS_FLOAT; t++) {
        _mm512_store_ps(x[t].acc[0], acc[0][t]);
        _mm512_store_ps(x[t].acc[1], acc[1][t]);
    }
}

MATMUL_INLINE void copy64(void *to, const void *from, size_t bytes) {
    size_t i = 0;
    for (; i + 64 <= bytes; i += 64)
        _mm512_storeu_si512((char *)to + i, _mm512_loadu_si512((const char *)from + i));
    if (i < bytes)
        memcpy((char *)to + i, (const char *)from + i, bytes - i);
}

/* Activation row `row`, k from start on, becomes row t. */
static void bring32(struct batch_near32 *x, const struct kernels_matmul *m, size_t row, uint32_t start,
                    uint32_t count, int32_t offset) {
    size_t at = (row * m->l->cols + start) / 32;
    uint32_t blocks = count / 32;
    act_tiles_get(x->q, m->a->q32, m->a->tile_rows, ACT_TILE_32, m->l->cols, row, start, count);
    __mmask16 mask = (__mmask16)((1u << blocks) - 1);
    _mm512_store_ps(x->d, _mm512_maskz_loadu_ps(mask, m->a->d32 + at));
    __m512i sums = _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask, m->a->s32 + at));
    _mm512_store_si512(x->below, _mm512_mullo_epi32(sums, _mm512_set1_epi32(-offset)));
    _mm512_store_ps(x->sum, _mm512_cvtepi32_ps(sums));
}

MATMUL_INLINE void bring256(uint32_t type, struct batch_near256 *x, const struct kernels_matmul *m,
                            size_t row, uint32_t start, uint32_t count) {
    size_t at = (row * m->l->cols + start) / 256;
    act_tiles_get(x->q, m->a->q256, m->a->tile_rows, ACT_TILE_256, m->l->cols, row, start, count);
    for (uint32_t super = 0; super < count / 256; super++) {
        __m256i s16 = _mm256_loadu_si256((const __m256i *)(const void *)(m->a->s256 + 16 * (at + super)));
        __m256i s32 = _mm256_madd_epi16(s16, _mm256_set1_epi16(1));
        _mm_store_si128((__m128i *)(void *)x->sum[super], _mm256_cvtepi32_epi16(s32));
        x->d[super] = m->a->d256[at + super];
        int16_t *above = x->above[super];
        int32_t *below = x->below[super];
        if (type == BLOCK_Q4_K) {
            _mm_store_si128((__m128i *)(void *)above, _mm256_cvtepi32_epi16(_mm256_slli_epi32(s32, 3)));
            _mm256_store_si256((__m256i *)(void *)below, _mm256_mullo_epi32(s32, _mm256_set1_epi32(-8)));
        } else if (type == BLOCK_Q5_K) {
            _mm256_store_si256((__m256i *)(void *)above, _mm256_slli_epi16(s16, 4));
            _mm512_store_si512(below, _mm512_mullo_epi32(_mm512_cvtepi16_epi32(s16), _mm512_set1_epi32(-16)));
        } else if (type == BLOCK_Q2_K) {
            _mm256_store_si256((__m256i *)(void *)above, s16);
        } else if (type == BLOCK_IQ4_XS) {
            _mm256_store_si256((__m256i *)(void *)below,
                               _mm256_mullo_epi32(s32, _mm256_set1_epi32(-unpack_offset(type))));
        } else if (type != BLOCK_Q6_K) {
            _mm512_store_si512(below, _mm512_mullo_epi32(_mm512_cvtepi16_epi32(s16),
                                                         _mm512_set1_epi32(-unpack_offset(type))));
        } else {
            for (uint32_t b = 0; b < 4; b++) {
                __m512i q = _mm512_loadu_si512(x->q + 256 * super + 64 * b);
                __m512i s4 = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q);
                __m256i s8 = _mm512_cvtepi64_epi32(_mm512_add_epi32(s4, _mm512_srli_epi64(s4, 32)));
                _mm256_store_si256((__m256i *)(void *)(below + 8 * b),
                                   _mm256_mullo_epi32(s8, _mm256_set1_epi32(-32)));
            }
        }
    }
}

/* The quants of both panels, from 32-block start on. */
MATMUL_INLINE void unpack_quants(uint32_t type, const struct panel_layout *l, const uint8_t *const panel[2],
                                 uint32_t start, uint32_t blocks, uint8_t (*q)[8][2][64]) {
    for (uint32_t p = 0; p < 2; p++) {
        const uint8_t *quants = panel[p] + start * matmul_block_bytes(type);
        const uint8_t *high = panel[p] + l->high + (size_t)start * 64 * matmul_high_bits(type);
        for (uint32_t b = 0; b < blocks; b++) {
            __m512i w[8];
            unpack_steps(type, l, quants, high, w);
            UNROLL
            for (uint32_t s = 0; s < 8; s++)
                _mm512_store_si512(q[b][s][p], w[s]);
            quants += matmul_block_bytes(type);
            high += (size_t)64 * matmul_high_bits(type);
        }
    }
}

MATMUL_INLINE void unpack32(uint32_t type, struct batch_weights32 *w, const struct panel_layout *l,
                            const uint8_t *const panel[2], uint32_t start, uint32_t blocks) {
    unpack_quants(type, l, panel, start, blocks, w->q);
    for (uint32_t b = 0; b < blocks; b++)
        for (uint32_t p = 0; p < 2; p++) {
            _mm512_store_ps(w->d[b][p], unpack_scale(type, panel[p] + l->d, start + b));
            if (matmul_has_m(type))
                _mm512_store_ps(w->m[b][p], unpack_f16(panel[p] + l->m + (size_t)(start + b) * 32));
        }
}

/* The scales and minima of panel number p's super block as weights256 has them. */
MATMUL_INLINE void unpack_subs(uint32_t type, struct batch_weights256 *w, uint32_t to, uint32_t p,
                               const struct panel_layout *l, const uint8_t *panel, uint32_t super) {
    const uint32_t subs = matmul_subs(type);
    const uint8_t *sub = panel + l->sub + (size_t)super * matmul_sub_bytes(type);
    const __m512i low = _mm512_set1_epi32(matmul_is_wide(type) ? -1 : 0xFFFF);
    for (uint32_t j = 0; j < subs; j += 2) {
        __m512i one = unpack_sub(type, sub, j);
        __m512i two = unpack_sub(type, sub, j + 1);
        if (type == BLOCK_Q5_K) { /* both halves of a 32-block have its scale */
            _mm512_store_si512(w->sub[to][2 * j][p], one);
            _mm512_store_si512(w->sub[to][2 * j + 1][p], one);
            _mm512_store_si512(w->sub[to][2 * j + 2][p], two);
            _mm512_store_si512(w->sub[to][2 * j + 3][p], two);
            _mm512_store_si512(w->pairs[to][j][p], unpack_join(one, one));
            _mm512_store_si512(w->pairs[to][j + 1][p], unpack_join(two, two));
        } else {
            _mm512_store_si512(w->sub[to][j][p], _mm512_and_si512(one, low));
            _mm512_store_si512(w->sub[to][j + 1][p], _mm512_and_si512(two, low));
            if (type == BLOCK_Q4_K)
                _mm512_store_si512(w->pairs[to][j / 2][p], unpack_join(one, two));
        }
    }
    _mm512_store_ps(w->d[to][p], unpack_scale256(type, l, panel, super));
    if (!matmul_has_m(type))
        return;
    _mm512_store_ps(w->m[to][p], unpack_f16(panel + l->m + (size_t)super * 32));
    for (uint32_t j = 0; j < subs; j += 2) {
        const __m512i both =
            unpack_join(unpack_min(type, l, panel, super, j), unpack_min(type, l, panel, super, j + 1));
        _mm512_store_si512(type == BLOCK_Q2_K ? w->pairs[to][j / 2][p] : w->least[to][j / 2][p], both);
    }
}

MATMUL_INLINE void unpack256(uint32_t type, struct batch_weights256 *w, const struct panel_layout *l,
                             const uint8_t *const panel[2], uint32_t start, uint32_t supers) {
    unpack_quants(type, l, panel, 8 * start, 8 * supers, w->q);
    for (uint32_t s = 0; s < supers; s++)
        for (uint32_t p = 0; p < 2; p++)
            unpack_subs(type, w, s, p, l, panel[p], start + s);
}

MATMUL_INLINE void unpack_floats(uint32_t type, struct batch_weights_float *w, const uint8_t *const panel[2],
                                 uint32_t start, uint32_t count) {
    const size_t column = type == BLOCK_F32 ? 64 : 32;
    for (uint32_t p = 0; p < 2; p++) {
        const uint8_t *columns = panel[p] + start * column;
        for (uint32_t k = 0; k < count; k++)
            _mm512_store_ps(w->w[k][p], unpack_column(type, columns + (k - k % 2) * column, k % 2));
    }
}

/* Two panels of the call from number p on, and where their sums go. */
struct pair {
    const uint8_t *panel[2]; /* twice the same where there is only one */
    struct place to;
};

static struct pair pair_of(const struct kernels_matmul *m, uint32_t p, uint32_t start) {
    struct pair pair = {.to = {.next = m->out_panel, .first = start == 0, .second = p + 1 < m->n_panels}};
    pair.panel[0] = m->panels + (size_t)p * m->l->panel_bytes;
    pair.panel[1] = pair.to.second ? pair.panel[0] + m->l->panel_bytes : pair.panel[0];
    return pair;
}

static float *sums_of(const struct kernels_matmul *m, uint32_t p, uint32_t token) {
    return m->out + p * m->out_panel + (size_t)token * PANEL_ROWS;
}

/* A tile of n tokens, from number `at` of the block on. */
MATMUL_INLINE void tile(uint32_t type, uint32_t n, const struct batch_work *work, uint32_t at, uint32_t cols,
                        const struct place *to, struct matmul_ahead *next) {
    if (matmul_is_k(type))
        tile256(type, n, work, at, cols / 256, to, next);
    else
        tile32(type, n, work, at, cols / 32, to, next);
}

/* One segment of k, of up to BATCH_TOKENS tokens from `first` on, at least BATCH_LEAST: tiles of 4 to 6. */
MATMUL_INLINE void segment(uint32_t type, const struct kernels_matmul *m, uint32_t first, uint32_t tokens,
                           uint32_t start) {
    struct batch_work *work = m->work;
    uint32_t count = ARITH_MIN(m->l->cols - start, (uint32_t)KERNELS_SEGMENT);
    const uint32_t tiles = (tokens + TOKENS - 1) / TOKENS;
    for (uint32_t t = 0; t < tokens; t++) {
        size_t row = (size_t)m->first + first + t;
        if (matmul_is_k(type))
            bring256(type, (struct batch_near256 *)(void *)(work + 1) + t, m, row, start, count);
        else
            bring32((struct batch_near32 *)(void *)(work + 1) + t, m, row, start, count, unpack_offset(type));
    }
    for (uint32_t p = 0; p < m->n_panels; p += 2) {
        struct pair pair = pair_of(m, p, start);
        if (matmul_is_k(type))
            unpack256(type, &work->weights256, m->l, pair.panel, start / 256, count / 256);
        else
            unpack32(type, &work->weights32, m->l, pair.panel, start / 32, count / 32);
        struct matmul_ahead next =
            matmul_ahead_after(type, m, start, p + 2, 2, tiles * steps_of(type, count));
        for (uint32_t i = 0, t = 0, n; i < tiles; i++, t += n) {
            n = (tokens - t) / (tiles - i);
            pair.to.out = sums_of(m, p, first + t);
            CHECK(n >= 4 && n <= TOKENS);
            if (n == 6)
                tile(type, 6, work, t, count, &pair.to, &next);
            else if (n == 5)
                tile(type, 5, work, t, count, &pair.to, &next);
            else
                tile(type, 4, work, t, count, &pair.to, &next);
        }
    }
}

/* The same of floats, of up to BATCH_TOKENS_FLOAT tokens. */
MATMUL_INLINE void segment_float(uint32_t type, const struct kernels_matmul *m, uint32_t first,
                                 uint32_t tokens, uint32_t start) {
    struct batch_work *work = m->work;
    struct batch_near_float *near = (struct batch_near_float *)(void *)(work + 1);
    uint32_t count = ARITH_MIN(m->l->cols - start, (uint32_t)KERNELS_SEGMENT);
    uint32_t padded = batch_padded_float(tokens);
    for (uint32_t t = 0; t < padded; t++) {
        const float *x =
            m->a->f32 + ((size_t)m->first + first + ARITH_MIN(t, tokens - 1)) * m->l->cols + start;
        copy64(near[t].x, x, count * sizeof *x);
    }
    for (uint32_t p = 0; p < m->n_panels; p += 2) {
        struct pair pair = pair_of(m, p, start);
        struct matmul_ahead next =
            matmul_ahead_after(type, m, start, p + 2, 2, (size_t)padded / TOKENS_FLOAT * ((count + 31) / 32));
        for (uint32_t k = 0; k < count; k += CHUNK) {
            uint32_t here = ARITH_MIN(count - k, (uint32_t)CHUNK);
            unpack_floats(type, &work->weights_float, pair.panel, start + k, here);
            for (uint32_t t = 0; t < tokens; t += TOKENS_FLOAT)
                tile_float(work, t, k / CHUNK, here, &next);
        }
        for (uint32_t t = 0; t < tokens; t++) {
            __m512 acc[2] = {_mm512_load_ps(near[t].acc[0]), _mm512_load_ps(near[t].acc[1])};
            pair.to.out = sums_of(m, p, first + t);
            put_tile(1, &pair.to, acc, acc + 1);
        }
    }
}

MATMUL_INLINE void batch(uint32_t type, const struct kernels_matmul *m) {
    uint32_t blocks = (m->tokens + BATCH_TOKENS - 1) / BATCH_TOKENS;
    for (uint32_t t = 0, n; blocks > 0; blocks--, t += n) {
        n = (m->tokens - t) / blocks;
        for (uint32_t start = 0; start < m->l->cols; start += KERNELS_SEGMENT)
            segment(type, m, t, n, start);
    }
}

MATMUL_INLINE void batch_float(uint32_t type, const struct kernels_matmul *m) {
    for (uint32_t t = 0; t < m->tokens; t += BATCH_TOKENS_FLOAT)
        for (uint32_t start = 0; start < m->l->cols; start += KERNELS_SEGMENT)
            segment_float(type, m, t, ARITH_MIN(m->tokens - t, (uint32_t)BATCH_TOKENS_FLOAT), start);
}

/* The types whose tiles are here, and how their tokens go through them. */
#define EACH_TYPE(DO)                                                                                        \
    DO(F32, batch_float)                                                                                     \
    DO(F16, batch_float)                                                                                     \
    DO(BF16, batch_float)                                                                                    \
    DO(Q4_0, batch)                                                                                          \
    DO(Q4_1, batch)                                                                                          \
    DO(Q5_0, batch)                                                                                          \
    DO(Q5_1, batch)                                                                                          \
    DO(Q8_0, batch)                                                                                          \
    DO(IQ4_NL, batch)                                                                                        \
    DO(MXFP4, batch)                                                                                         \
    DO(Q4_K, batch)                                                                                          \
    DO(Q5_K, batch)                                                                                          \
    DO(Q6_K, batch)                                                                                          \
    DO(Q2_K, batch)                                                                                          \
    DO(Q3_K, batch)                                                                                          \
    DO(IQ2_S, batch)                                                                                         \
    DO(IQ4_XS, batch)

/* Each type is compiled as a function of its own. In one function of all types gcc 12 kept the sums of some
 * of them in memory and stored each product there, which cost half of their speed (tests/e2e/gpu/spills.sh).
 */
#define FUNCTION(type, way)                                                                                  \
    static __attribute__((noinline)) void batch_##type(const struct kernels_matmul *m) {                     \
        way(BLOCK_##type, m);                                                                                \
    }
EACH_TYPE(FUNCTION)

#define CASE(type, way)                                                                                      \
    case BLOCK_##type:                                                                                       \
        batch_##type(m);                                                                                     \
        return true;

bool avx512_batch(uint32_t type, const struct kernels_matmul *m) {
    if (m->tokens < (matmul_is_float(type) ? BATCH_LEAST_FLOAT : BATCH_LEAST) || m->n_panels < 2)
        return false;
    CHECK((uintptr_t)m->work % 64 == 0);
    switch (type) {
        EACH_TYPE(CASE)
    default:
        return false;
    }
}
