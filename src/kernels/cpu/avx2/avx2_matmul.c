/* Matmul with AVX2, FMA and F16C: a panel is worked on in halves of 8 rows, one lane per row, nothing is ever
 * summed across lanes. Quants are multiplied as stored (unsigned) by vpmaddubsw into int16, of which only as
 * many are added as cannot overflow; of wide types the absolute value, the activation taking the sign. No
 * state; any thread. */
#include "base/arith.h"

#define MATMUL_TILE 4 /* tokens that share one unpacking of the weights */
#include "kernels/cpu/avx2/avx2_batch.h"
#include "kernels/cpu/avx2/avx2_unpack.h"
#include "kernels/cpu/matmul_tile.h"

/* Keeps a sum as written: balanced into a tree, as gcc would, a full tile needs more registers than there
 * are. */
MATMUL_INLINE __m256i in_order(uint32_t n, __m256i sum) {
    if (n == MATMUL_TILE)
        __asm__("" : "+x"(sum));
    return sum;
}

/* i[t] = the products of steps from..to of the block with the activations at q of n tokens, each `row` after
 * the last. Tokens are the inner loop: their sums don't wait for each other. */
MATMUL_INLINE void dot_steps(uint32_t type, uint32_t n, const struct panel_layout *l, const uint8_t *quants,
                             const uint8_t *high, int from, int to, const int8_t *q, size_t row, __m256i *i) {
    __m256i p[MATMUL_TILE];
    const int group = avx2_steps_in_int16(type);
#ifdef __SANITIZE_THREAD__ /* gcc does not see there that all are written before they are read */
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        p[t] = i[t] = _mm256_setzero_si256();
#endif
    UNROLL
    for (int s = from; s < to; s++) {
        __m256i w = avx2_load_step(type, l, quants, high, s);
        __m256i size = matmul_is_wide(type) ? _mm256_abs_epi8(w) : w;
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m256i a = _mm256_set1_epi32(matmul_load32(q + t * row + 4 * s));
            if (matmul_is_wide(type))
                a = _mm256_sign_epi8(a, w);
            __m256i both = _mm256_maddubs_epi16(size, a);
            p[t] = s % group == 0 ? both : in_order(n, _mm256_add_epi16(p[t], both));
            if (s % group == group - 1) {
                __m256i four = _mm256_madd_epi16(p[t], _mm256_set1_epi16(1));
                i[t] = s - from == group - 1 ? four : in_order(n, _mm256_add_epi32(i[t], four));
            }
        }
    }
}

/* Ends the segments before the next step of k begins. */
MATMUL_INLINE void end_segments(uint32_t n, __m256 *total, __m256 *acc) {
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        total[t] = _mm256_add_ps(total[t], acc[t]);
        acc[t] = _mm256_setzero_ps();
    }
}

MATMUL_INLINE void store_totals(uint32_t n, const struct matmul_tile *m, uint32_t half, const __m256 *total) {
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        _mm256_storeu_ps(m->out + t * PANEL_ROWS + (size_t)AVX2_HALF_ROWS * half, total[t]);
}

/* Block b, whose activations are a, for one half; added to acc. */
MATMUL_INLINE void block32(uint32_t type, uint32_t n, const struct matmul_tile *m,
                           const struct matmul_quants *a, uint32_t half, uint32_t b, __m256 *acc) {
    const uint32_t blocks = m->l->cols / 32;
    const float *da = m->a->d32 + m->first * blocks + b;
    const int16_t *sums = m->a->s32 + m->first * blocks + b;
    const uint8_t *quants = m->panel + b * matmul_block_bytes(type) + (size_t)32 * half;
    const uint8_t *high = m->panel + m->l->high + (size_t)b * 64 + (size_t)32 * half;
    size_t scale_at = ((size_t)b * PANEL_ROWS + AVX2_HALF_ROWS * half) * 2;
    __m256 d = avx2_load_scale(type, m->panel + m->l->d, b, half);
    __m256 least = matmul_has_m(type) ? avx2_load_f16(m->panel + m->l->m + scale_at) : d;
    __m256i i[MATMUL_TILE];
    dot_steps(type, n, m->l, quants, high, 0, 8, a->q, a->token, i);
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        if (matmul_offset(type) != 0)
            i[t] = _mm256_add_epi32(i[t], _mm256_set1_epi32(-matmul_offset(type) * sums[t * blocks]));
        __m256 one = _mm256_set1_ps(da[t * blocks]);
        acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i[t]), _mm256_mul_ps(d, one), acc[t]);
        if (matmul_has_m(type)) {
            __m256 sum = _mm256_cvtepi32_ps(_mm256_set1_epi32(sums[t * blocks]));
            acc[t] = _mm256_fmadd_ps(sum, _mm256_mul_ps(least, one), acc[t]);
        }
    }
}

MATMUL_INLINE void tile32(uint32_t type, uint32_t n, const struct matmul_tile *m) {
    const uint32_t blocks = m->l->cols / 32;
    __m256 total[2][MATMUL_TILE];
    __m256 acc[2][MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        total[0][t] = total[1][t] = acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (uint32_t start = 0; start < blocks; start += KERNELS_SEGMENT / 32) {
        uint32_t count = ARITH_MIN(blocks - start, KERNELS_SEGMENT / 32);
        struct matmul_quants a = matmul_quants(m, ACT_TILE_32, (size_t)start * 32);
        for (uint32_t b = start; b < start + count; b++) {
            if (m->ahead)
                matmul_prefetch32(type, m, b);
            for (uint32_t half = 0; half < 2; half++)
                block32(type, n, m, &a, half, b, acc[half]);
            a.q += a.block;
        }
        end_segments(n, total[0], acc[0]);
        end_segments(n, total[1], acc[1]);
    }
    store_totals(n, m, 0, total[0]);
    store_totals(n, m, 1, total[1]);
}

/* The sums of 16 activations times a number per row, two sums at a time: the numbers are the minima, else the
 * scales (for the offset). */
MATMUL_INLINE void dot_sums(uint32_t type, uint32_t n, const struct matmul_tile *m, uint32_t half,
                            uint32_t super, __m256i *i) {
    const size_t row = m->l->cols / 16;
    const int16_t *sums = m->a->s256 + m->first * row + (size_t)super * 16;
    UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        const bool one = matmul_subs(type) == 8; /* for two sums */
        __m256i pair;
        if (matmul_has_m(type)) {
            const __m256i first = avx2_load_min(type, m->l, m->panel, super, one ? j : 2 * j, half);
            pair =
                avx2_pair(first, one ? first : avx2_load_min(type, m->l, m->panel, super, 2 * j + 1, half));
        } else {
            const uint8_t *sub =
                m->panel + m->l->sub + (size_t)super * matmul_sub_bytes(type) + (size_t)AVX2_HALF_ROWS * half;
            pair = avx2_pair(avx2_load_sub(type, sub, 2 * j), avx2_load_sub(type, sub, 2 * j + 1));
        }
        UNROLL
        for (uint32_t t = 0; t < n; t++) {
            __m256i v = _mm256_madd_epi16(pair, _mm256_set1_epi32(matmul_load32(sums + t * row + 2 * j)));
            i[t] = j == 0 ? v : in_order(n, _mm256_add_epi32(i[t], v));
        }
    }
}

/* The 256 columns of a super block, whose activations are a, of one half, added to acc. */
MATMUL_INLINE void block256(uint32_t type, uint32_t n, const struct matmul_tile *m,
                            const struct matmul_quants *a, uint32_t half, uint32_t super, __m256 *acc) {
    const uint8_t *quants = m->panel + super * 8 * matmul_block_bytes(type) + (size_t)32 * half;
    const uint8_t *high =
        m->panel + m->l->high + (size_t)super * 512 * matmul_high_bits(type) + (size_t)32 * half;
    const uint8_t *sub =
        m->panel + m->l->sub + (size_t)super * matmul_sub_bytes(type) + (size_t)AVX2_HALF_ROWS * half;
    const int part = (int)(64 / matmul_subs(type)); /* steps with one scale */
    __m256i sum[MATMUL_TILE];
    __m256i i[MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        sum[t] = _mm256_setzero_si256();
    for (uint32_t b = 0; b < 8; b++) {
        const int8_t *q = a->q + b / 2 * a->block + b % 2 * 32;
        if (m->ahead && half == 0)
            matmul_prefetch32(type, m, (size_t)8 * super + b);
        UNROLL
        for (int from = 0; from < 8; from += part) {
            dot_steps(type, n, m->l, quants, high, from, from + part, q, a->token, i);
            __m256i scale = avx2_load_sub(type, sub, (uint32_t)(from / part));
            UNROLL
            for (uint32_t t = 0; t < n; t++)
                sum[t] = _mm256_add_epi32(sum[t], _mm256_mullo_epi32(i[t], scale));
        }
        quants += matmul_block_bytes(type);
        high += (size_t)64 * matmul_high_bits(type);
        sub += matmul_sub_bytes(type) / 8;
    }
    size_t scale_at = ((size_t)super * PANEL_ROWS + AVX2_HALF_ROWS * half) * 2;
    __m256 d = avx2_load_scale256(type, m->l, m->panel, super, half);
    __m256 least = matmul_has_m(type) ? avx2_load_f16(m->panel + m->l->m + scale_at) : d;
    if (matmul_has_m(type) || matmul_offset(type) != 0)
        dot_sums(type, n, m, half, super, i);
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        __m256 da = _mm256_set1_ps(m->a->d256[(m->first + t) * (m->l->cols / 256) + super]);
        if (matmul_offset(type) != 0)
            sum[t] = _mm256_sub_epi32(sum[t],
                                      _mm256_slli_epi32(i[t], __builtin_ctz((unsigned)matmul_offset(type))));
        acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t]), _mm256_mul_ps(d, da), acc[t]);
        if (matmul_has_m(type))
            acc[t] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(i[t]), _mm256_mul_ps(least, da), acc[t]);
    }
}

MATMUL_INLINE void tile256(uint32_t type, uint32_t n, const struct matmul_tile *m) {
    const uint32_t supers = m->l->cols / 256;
    __m256 total[2][MATMUL_TILE];
    __m256 acc[2][MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        total[0][t] = total[1][t] = acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (uint32_t super = 0; super < supers; super++) {
        if (super % (KERNELS_SEGMENT / 256) == 0) {
            end_segments(n, total[0], acc[0]);
            end_segments(n, total[1], acc[1]);
        }
        const struct matmul_quants a = matmul_quants(m, ACT_TILE_256, (size_t)super * 256);
        if (m->ahead)
            matmul_prefetch256(type, m, super);
        for (uint32_t half = 0; half < 2; half++)
            block256(type, n, m, &a, half, super, acc[half]);
    }
    end_segments(n, total[0], acc[0]);
    end_segments(n, total[1], acc[1]);
    store_totals(n, m, 0, total[0]);
    store_totals(n, m, 1, total[1]);
}

/* 8 weights of one column from the column pair at p; of BF16 the two columns lie side by side. */
MATMUL_INLINE __m256 load_column(uint32_t type, const uint8_t *p, uint32_t half, uint32_t odd) {
    if (type == BLOCK_F32)
        return _mm256_load_ps((const float *)(const void *)(p + (size_t)64 * odd + (size_t)32 * half));
    if (type == BLOCK_F16)
        return avx2_load_f16(p + (size_t)32 * odd + (size_t)16 * half);
    __m256i both = _mm256_load_si256((const __m256i *)(const void *)(p + (size_t)32 * half));
    return _mm256_castsi256_ps(odd == 0 ? _mm256_slli_epi32(both, 16)
                                        : _mm256_and_si256(both, _mm256_set1_epi32((int32_t)0xFFFF0000)));
}

/* The product of one column of both halves with the activations x of n tokens, each `row` after the last. */
MATMUL_INLINE void add_column(uint32_t type, uint32_t n, const uint8_t *columns, uint32_t odd, const float *x,
                              size_t row, __m256 acc[2][MATMUL_TILE]) {
    __m256 w0 = load_column(type, columns, 0, odd);
    __m256 w1 = load_column(type, columns, 1, odd);
    UNROLL
    for (uint32_t t = 0; t < n; t++) {
        __m256 a = _mm256_set1_ps(x[t * row + odd]);
        acc[0][t] = _mm256_fmadd_ps(w0, a, acc[0][t]);
        acc[1][t] = _mm256_fmadd_ps(w1, a, acc[1][t]);
    }
}

/* The activations are read where they are: to copy them would cost more than it saves here. */
MATMUL_INLINE void tile_float(uint32_t type, uint32_t n, const struct matmul_tile *m) {
    const uint32_t cols = m->l->cols;
    const size_t column = type == BLOCK_F32 ? 64 : 32;
    __m256 total[2][MATMUL_TILE];
    __m256 acc[2][MATMUL_TILE];
    UNROLL
    for (uint32_t t = 0; t < n; t++)
        total[0][t] = total[1][t] = acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (uint32_t start = 0; start < cols; start += KERNELS_SEGMENT) {
        uint32_t count = ARITH_MIN(cols - start, KERNELS_SEGMENT);
        const uint8_t *columns = m->panel + start * column;
        const float *x = m->a->f32 + m->first * cols + start;
        for (uint32_t k = 0; k + 2 <= count; k += 2) { /* in pairs, as BF16 has them */
            if (m->ahead)
                matmul_prefetch_float(type, m, start + k);
            add_column(type, n, columns, 0, x, cols, acc);
            add_column(type, n, columns, 1, x, cols, acc);
            columns += 2 * column;
            x += 2;
        }
        if (count % 2 != 0)
            add_column(type, n, columns, 0, x, cols, acc);
        end_segments(n, total[0], acc[0]);
        end_segments(n, total[1], acc[1]);
    }
    store_totals(n, m, 0, total[0]);
    store_totals(n, m, 1, total[1]);
}

MATMUL_ENTRIES(tile_float, tile32, tile256, avx2_batch)

void avx2_matmul_init(struct kernels *k) {
    matmul_entries(k);
}
