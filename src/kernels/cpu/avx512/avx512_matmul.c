/* Matmul with AVX-512 and VNNI: a register holds the panel's 16 rows, so every output has its own lane and
 * nothing is ever summed across lanes. Quants are multiplied as stored (unsigned) by vpdpbusd, which is
 * exact; what the offset adds is taken away with the sums that the activations bring along. No state; any
 * thread. */
#include "base/arith.h"

#define MATMUL_TILE 8 /* tokens that share one unpacking of the weights */
#include "kernels/cpu/avx512/avx512_batch.h"
#include "kernels/cpu/avx512/avx512_unpack.h"
#include "kernels/cpu/matmul_tile.h"

/* i[t] += the products of some steps with the activations at q of n tokens, each `row` after the last. Tokens
 * are the inner loop: their sums don't wait for each other. */
MATMUL_INLINE void dot_steps(uint32_t n, __m512i *i, const __m512i *w, int steps, const int8_t *q,
                             size_t row) {
    UNROLL
    for (int s = 0; s < steps; s++) {
        UNROLL
        for (uint32_t t = 0; t < n; t++)
            i[t] = _mm512_dpbusd_epi32(i[t], w[s], _mm512_set1_epi32(matmul_load32(q + t * row + 4 * s)));
    }
}

/* Ends the segments before k begins. */
MATMUL_INLINE void end_segments(uint32_t n, __m512 *total, __m512 *acc) {
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        total[t] = _mm512_add_ps(total[t], acc[t]);
        acc[t] = _mm512_setzero_ps();
    }
}

MATMUL_INLINE void store_totals(uint32_t n, const struct matmul_tile *m, const __m512 *total) {
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        _mm512_storeu_ps(m->out + t * PANEL_ROWS, total[t]);
}

MATMUL_INLINE void tile32(uint32_t type, uint32_t n, const struct matmul_tile *m) {
    const uint32_t blocks = m->l->cols / 32;
    const int32_t offset = unpack_offset(type);
    const uint8_t *quants = m->panel;
    const uint8_t *high = m->panel + m->l->high;
    const float *da = m->a->d32 + m->first * blocks;
    const int16_t *sums = m->a->s32 + m->first * blocks;
    __m512 total[MATMUL_TILE];
    __m512 acc[MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        total[t] = acc[t] = _mm512_setzero_ps();
    for (uint32_t start = 0; start < blocks; start += KERNELS_SEGMENT / 32) {
        uint32_t count = ARITH_MIN(blocks - start, KERNELS_SEGMENT / 32);
        struct matmul_quants a = matmul_quants(m, ACT_TILE_32, (size_t)start * 32);
        for (uint32_t b = start; b < start + count; b++) {
            __m512i w[8];
            if (m->ahead)
                matmul_prefetch32(type, m, b);
            unpack_steps(type, m->l, quants, high, w);
            quants += matmul_block_bytes(type);
            high += 64;
            __m512 d = unpack_scale(type, m->panel + m->l->d, b);
            __m512 least = d;
            if (matmul_has_m(type))
                least = unpack_f16(m->panel + m->l->m + (size_t)b * 32);
            __m512i i[MATMUL_TILE];
            UNROLL
            for (uint32_t t = 0; t < n; t++)
                i[t] =
                    offset != 0 ? _mm512_set1_epi32(-offset * sums[t * blocks + b]) : _mm512_setzero_si512();
            dot_steps(n, i, w, 8, a.q, a.token);
            a.q += a.block;
            UNROLL
            for (uint32_t t = 0; t < n; t++) {
                __m512 one = _mm512_set1_ps(da[t * blocks + b]);
                acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i[t]), _mm512_mul_ps(d, one), acc[t]);
                if (matmul_has_m(type)) {
                    __m512 sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(sums[t * blocks + b]));
                    acc[t] = _mm512_fmadd_ps(sum, _mm512_mul_ps(least, one), acc[t]);
                }
            }
        }
        end_segments(n, total, acc);
    }
    store_totals(n, m, total);
}

/* The sums of 16 activations times a number per row, two sums at a time: pairs[j] has the numbers of the sums
 * 2j and 2j + 1 as int16. */
MATMUL_INLINE __m512i dot_sums(const __m512i pairs[8], const int16_t *s) {
    __m512i i = _mm512_setzero_si512();
    UNROLL
    for (int j = 0; j < 8; j++)
        i = _mm512_dpwssd_epi32(i, pairs[j], _mm512_set1_epi32(matmul_load32(s + 2 * j)));
    return i;
}

/* What the sums of 16 are multiplied with: the minima, else (for the offset) the scales. */
MATMUL_INLINE void load_pairs(uint32_t type, const struct matmul_tile *m, uint32_t super, __m512i pairs[8]) {
    UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        const bool one = matmul_subs(type) == 8; /* for two sums */
        if (matmul_has_m(type)) {
            __m512i first = unpack_min(type, m->l, m->panel, super, one ? j : 2 * j);
            pairs[j] = unpack_join(first, one ? first : unpack_min(type, m->l, m->panel, super, 2 * j + 1));
        } else {
            const uint8_t *sub = m->panel + m->l->sub + (size_t)super * matmul_sub_bytes(type);
            __m512i first = unpack_sub(type, sub, one ? j : 2 * j);
            pairs[j] = unpack_join(first, one ? first : unpack_sub(type, sub, 2 * j + 1));
        }
    }
}

MATMUL_INLINE void tile256(uint32_t type, uint32_t n, const struct matmul_tile *m) {
    const uint32_t supers = m->l->cols / 256;
    const uint8_t *quants = m->panel;
    const uint8_t *high = m->panel + m->l->high;
    const uint8_t *sub = m->panel + m->l->sub;
    const int part = (int)(64 / matmul_subs(type)); /* steps with one scale */
    __m512 total[MATMUL_TILE];
    __m512 acc[MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        total[t] = acc[t] = _mm512_setzero_ps();
    for (uint32_t super = 0; super < supers; super++) {
        if (super % (KERNELS_SEGMENT / 256) == 0)
            end_segments(n, total, acc);
        const struct matmul_quants a = matmul_quants(m, ACT_TILE_256, (size_t)super * 256);
        if (m->ahead)
            matmul_prefetch256(type, m, super);
        __m512i sum[MATMUL_TILE];
        UNROLL
        for (uint32_t t = 0; t < n; t++)
            sum[t] = _mm512_setzero_si512();
        for (uint32_t b = 0; b < 8; b++) {
            const int8_t *q = a.q + b / 2 * a.block + b % 2 * 32;
            __m512i w[8];
            if (m->ahead)
                matmul_prefetch32(type, m, (size_t)8 * super + b);
            unpack_steps(type, m->l, quants, high, w);
            quants += matmul_block_bytes(type);
            high += (size_t)64 * matmul_high_bits(type);
            UNROLL
            for (int from = 0; from < 8; from += part) {
                __m512i scale = unpack_sub(type, sub, (uint32_t)(from / part));
                __m512i i[MATMUL_TILE];
                UNROLL
                for (uint32_t t = 0; t < n; t++)
                    i[t] = _mm512_setzero_si512();
                dot_steps(n, i, w + from, part, q + 4 * from, a.token);
                UNROLL
                for (uint32_t t = 0; t < n; t++)
                    sum[t] = _mm512_add_epi32(sum[t], _mm512_mullo_epi32(i[t], scale));
            }
            sub += matmul_sub_bytes(type) / 8;
        }
        __m512i pairs[8];
        load_pairs(type, m, super, pairs);
        __m512 d = unpack_scale256(type, m->l, m->panel, super);
        __m512 least = d;
        if (matmul_has_m(type))
            least = unpack_f16(m->panel + m->l->m + (size_t)super * 32);
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m512i i = dot_sums(pairs, m->a->s256 + ((m->first + t) * supers + super) * 16);
            __m512 da = _mm512_set1_ps(m->a->d256[(m->first + t) * supers + super]);
            if (unpack_offset(type) != 0)
                sum[t] = _mm512_sub_epi32(
                    sum[t], _mm512_slli_epi32(i, (unsigned)__builtin_ctz((unsigned)unpack_offset(type))));
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[t]), _mm512_mul_ps(d, da), acc[t]);
            if (matmul_has_m(type))
                acc[t] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(i), _mm512_mul_ps(least, da), acc[t]);
        }
    }
    end_segments(n, total, acc);
    store_totals(n, m, total);
}

/* The product of one column with the activations at x of n tokens, each `row` after the last. */
MATMUL_INLINE void add_column(uint32_t n, __m512 w, const float *x, size_t row, __m512 *acc) {
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[t] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[t * row]), acc[t]);
}

MATMUL_INLINE void tile_float(uint32_t type, uint32_t n, const struct matmul_tile *m) {
    const uint32_t cols = m->l->cols;
    const size_t column = type == BLOCK_F32 ? 64 : 32;
    const uint8_t *w = m->panel;
    const float *x = m->a->f32 + m->first * cols;
    __m512 total[MATMUL_TILE];
    __m512 acc[MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        total[t] = acc[t] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < cols; k += 2) { /* in pairs, as BF16 has them */
        if (k % KERNELS_SEGMENT == 0)
            end_segments(n, total, acc);
        if (m->ahead)
            matmul_prefetch_float(type, m, k);
        add_column(n, unpack_column(type, w, 0), x, cols, acc);
        if (k + 1 < cols)
            add_column(n, unpack_column(type, w, 1), x + 1, cols, acc);
        w += 2 * column;
        x += 2;
    }
    end_segments(n, total, acc);
    store_totals(n, m, total);
}

MATMUL_ENTRIES(tile_float, tile32, tile256, avx512_batch)

void avx512_matmul_init(struct kernels *k) {
    matmul_entries(k);
}

void avx512_matmul(uint32_t type, const struct kernels_matmul *m) {
    static void (*const entries[BLOCK_TYPES])(const struct kernels_matmul *m) = {
        [BLOCK_Q4_0] = matmul_q4_0,   [BLOCK_Q4_1] = matmul_q4_1,    [BLOCK_Q5_0] = matmul_q5_0,
        [BLOCK_Q5_1] = matmul_q5_1,   [BLOCK_Q8_0] = matmul_q8_0,    [BLOCK_Q4_K] = matmul_q4_k,
        [BLOCK_Q5_K] = matmul_q5_k,   [BLOCK_Q6_K] = matmul_q6_k,    [BLOCK_IQ4_NL] = matmul_iq4_nl,
        [BLOCK_MXFP4] = matmul_mxfp4, [BLOCK_Q2_K] = matmul_q2_k,    [BLOCK_Q3_K] = matmul_q3_k,
        [BLOCK_IQ2_S] = matmul_iq2_s, [BLOCK_IQ4_XS] = matmul_iq4_xs};
    entries[type](m);
}
