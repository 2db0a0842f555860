/* Attention over quantised K and V in the vector tiers: a template, included once by a tier's source
 * (attention_walk.h says what each function is). Tiles are inlined with constant row counts. No state; any
 * thread.
 *
 * Before it: the tier's vec header, its kv header (TIER_KV_TILE), and
 *   kv_qk_rows       the scores of a constant number of rows
 *   KV_WIDE          vectors of sums of pairs of tokens that a row has in registers
 *   kv_wide          vectors of numbers of 16 bits out of half as many bytes (unsigned: of q4_0)
 *   kv_wide_nibbles  of such bytes, the low halves and the high ones, each - 8
 *   kv_four          four weights in all of a vector
 *   kv_add_pairs     sums plus products of two neighbours each
 *   kv_of_pairs      two vectors of them, two lanes a dim, as floats
 *   kv_store_low     the low 16 bits of all lanes of two vectors */
#include "kernels/cpu/attention_walk.h"

VEC_INLINE void kv_qk(const bool four, uint32_t rows, const float *q, const void *k, const void *next,
                      uint32_t dim, float scale, float *score) {
    ATTENTION_WALK_DISPATCH(TIER_KV_TILE, rows, kv_qk_rows, four, q, k, next, dim, scale, score);
}

void TIER(qk_q8_0)(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                   float *score) {
    kv_qk(false, rows, q, k, next, dim, scale, score);
}

void TIER(qk_q4_0)(uint32_t rows, const float *q, const void *k, const void *next, uint32_t dim, float scale,
                   float *score) {
    kv_qk(true, rows, q, k, next, dim, scale, score);
}

/* Scales from token t of a split on. */
VEC_INLINE vec kv_scales(const float *scales, size_t stride, uint32_t t) {
    return vec_load(scales + t / KERNELS_KV_BLOCK * stride + t % KERNELS_KV_BLOCK);
}

/* 0 of those that are not of tokens begin .. end. */
VEC_INLINE vec kv_seen(vec x, uint32_t t, uint32_t begin, uint32_t end) {
    x = vec_keep(vec_first(end > t ? end - t : 0), x);
    return begin > t ? vec_select(vec_first(begin - t), vec_zero(), x) : x;
}

/* The factor of what is largest in any lane. */
VEC_INLINE float kv_factor(vec_int most, float *unit) {
    const float largest = vec_lane0(vec_of_bits(vec_int_largest(most)));
    *unit = largest * NUM_QUANT_WEIGHT_INVERSE;
    return largest == 0.0f ? 0.0f : NUM_QUANT_WEIGHT * num_rcp(largest);
}

float TIER(factors)(const float *scales, size_t stride, uint32_t begin, uint32_t end, float *factors) {
    const bool whole = begin == 0 && end == KERNELS_SPLIT;
    vec_int most[2] = {vec_int_set(0), vec_int_set(0)};
    float unit;
    for (uint32_t t = 0; t < KERNELS_SPLIT; t += 2 * VEC) {
        VEC_REPEAT
        for (uint32_t i = 0; i < 2; i++) {
            vec x = kv_scales(scales, stride, t + i * VEC);
            if (!whole)
                x = kv_seen(x, t + i * VEC, begin, end);
            most[i] = vec_int_max(most[i], vec_bits(vec_abs(x)));
        }
    }
    const vec factor = vec_set(kv_factor(vec_int_max(most[0], most[1]), &unit));
    for (uint32_t t = 0; t < KERNELS_SPLIT; t += VEC) {
        vec x = kv_scales(scales, stride, t);
        vec_store(factors + t, vec_mul(whole ? x : kv_seen(x, t, begin, end), factor));
    }
    return unit;
}

void TIER(weigh)(const float *e, const float *factors, uint32_t from, uint32_t to, int16_t *weights) {
    const vec round = vec_set(NUM_ROUND);
    for (uint32_t t = from; t < to; t += 2 * VEC)
        kv_store_low(weights + t, vec_bits(vec_fma(vec_load(e + t), vec_load(factors + t), round)),
                     vec_bits(vec_fma(vec_load(e + t + VEC), vec_load(factors + t + VEC), round)));
}

/* Part `part` of a group's dims, KV_WIDE vectors of VEC / 2 dims: q8_0's next to each other, q4_0's half 16
 * dims on. v: of the group in the block's first four tokens, `quad` bytes before the next four. */
VEC_INLINE void kv_pv_dims(const uint32_t rows, const bool four, const struct attention_integers *p,
                           const size_t part, size_t group, size_t quad) {
    const unsigned loads = four ? KV_WIDE / 2 : KV_WIDE;
    const size_t at = part * loads * sizeof(vec_int) / 2;
    int32_t *sums[KV_WIDE];
    vec_int acc[TIER_KV_TILE][KV_WIDE];
    VEC_REPEAT
    for (unsigned w = 0; w < KV_WIDE; w++) {
        const size_t vector = part * loads + w % loads;
        sums[w] = p->sums + vector * VEC + w / loads * KERNELS_KV_GROUP;
        VEC_REPEAT
        for (uint32_t r = 0; r < rows; r++)
            acc[r][w] = p->fresh ? vec_int_set(0) : vec_load_int(sums[w] + r * p->sums_stride);
    }
    for (uint32_t b = 0; b < p->blocks; b++) {
        const uint8_t *v = (const uint8_t *)p->v[b] + group + at,
                      *next = (const uint8_t *)p->next[b] + group + at;
        const uint32_t left = p->tokens - b * KERNELS_KV_BLOCK;
        const int16_t *weights = p->weights + (size_t)b * KERNELS_KV_BLOCK;
        for (uint32_t t = 0; t < left && t < KERNELS_KV_BLOCK; t += 4, v += quad, next += quad) {
            prefetch_lines(next, 0, loads * sizeof(vec_int) / 2);
            vec_int x[KV_WIDE];
            VEC_REPEAT
            for (unsigned w = 0; w < loads; w++) {
                x[w] = kv_wide(four, v + w * sizeof(vec_int) / 2);
                if (four)
                    kv_wide_nibbles(&x[w], &x[w + loads]);
            }
            VEC_REPEAT
            for (uint32_t r = 0; r < rows; r++) {
                const vec_int weight = kv_four(weights + r * KERNELS_SPLIT + t);
                VEC_REPEAT
                for (unsigned w = 0; w < KV_WIDE; w++)
                    acc[r][w] = kv_add_pairs(acc[r][w], weight, x[w]);
            }
        }
    }
    VEC_REPEAT
    for (uint32_t r = 0; r < rows; r++) {
        VEC_REPEAT
        for (unsigned w = 0; w < KV_WIDE; w++)
            vec_store_int(sums[w] + r * p->sums_stride, acc[r][w]);
    }
}

VEC_INLINE void kv_pv_rows(const uint32_t rows, const bool four, const struct attention_integers *p) {
    const enum kernels_kv type = four ? KERNELS_KV_Q4_0 : KERNELS_KV_Q8_0;
    const size_t row = 4 * (size_t)kv_layout_group(type); /* bytes of a group in four tokens */
    VEC_REPEAT
    for (size_t part = 0; part < 2 * KERNELS_KV_GROUP / (KV_WIDE * VEC); part++)
        kv_pv_dims(rows, four, p, part, p->group * row, p->dim / KERNELS_KV_GROUP * row);
}

VEC_INLINE void kv_pv(const bool four, const struct attention_integers *p) {
    ATTENTION_WALK_DISPATCH(TIER_KV_TILE, p->rows, kv_pv_rows, four, p);
}

void TIER(pv_q8_0)(const struct attention_integers *p) {
    kv_pv(false, p);
}

void TIER(pv_q4_0)(const struct attention_integers *p) {
    kv_pv(true, p);
}

void TIER(put_integers)(const int32_t *sums, float unit, float *o, const float *old, const float *now) {
    const vec by = vec_set(unit);
    for (uint32_t d = 0; d < KERNELS_KV_GROUP; d += VEC) {
        vec x = vec_mul(kv_of_pairs(vec_load_int(sums + 2 * d), vec_load_int(sums + 2 * d + VEC)), by);
        if (old != NULL)
            x = vec_fma(x, vec_set(*now), vec_mul(vec_load(o + d), vec_set(*old)));
        vec_store(o + d, x);
    }
}
