/* Attention over quantised K and V in the vector tiers: a template, included once by a tier's source
 * (attention_walk.h says what each function is). Tiles are inlined with constant row counts. No state; any
 * thread.
 *
 * Before it: the tier's vec header, its kv header (TIER_KV_TILE), and
 *   kv_qk_rows  the scores of a constant number of rows */
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

void TIER(plain_q8_0)(const void *v, uint32_t dim, float *to) {
    const int8_t *from = v;
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t += 4) {
        for (size_t d = 0; d < dim; d += VEC) {
            const vec_int x = vec_load_int(from + t * dim + 4 * d);
            float *at = to + d / KERNELS_KV_GROUP * ATTENTION_WALK_PANEL + d % KERNELS_KV_GROUP +
                        t * ATTENTION_WALK_WIDTH;
            VEC_REPEAT
            for (unsigned i = 0; i < 4; i++)
                vec_store(at + i * ATTENTION_WALK_WIDTH, vec_byte(x, i));
        }
    }
}

void TIER(plain_q4_0)(const void *v, uint32_t dim, float *to) {
    const uint8_t *from = v;
    for (size_t t = 0; t < KERNELS_KV_BLOCK; t += 4) {
        for (size_t d = 0; d < dim; d += KERNELS_KV_GROUP) {
            float *at = to + d / KERNELS_KV_GROUP * ATTENTION_WALK_PANEL + t * ATTENTION_WALK_WIDTH;
            VEC_REPEAT
            for (size_t lane = 0; lane < KERNELS_KV_GROUP / 2; lane += VEC) {
                vec_int x[2];
                vec_nibbles(vec_load_int(from + t * dim / 2 + 2 * d + 4 * lane), x);
                VEC_REPEAT
                for (unsigned i = 0; i < 4; i++) {
                    vec_store(at + i * ATTENTION_WALK_WIDTH + lane, vec_byte(x[0], i));
                    vec_store(at + i * ATTENTION_WALK_WIDTH + lane + KERNELS_KV_GROUP / 2, vec_byte(x[1], i));
                }
            }
        }
    }
}

void TIER(weigh)(uint32_t rows, uint32_t blocks, const float *e, const float *scales, size_t stride,
                 float *w) {
    for (uint32_t b = 0; b < blocks; b++, e += KERNELS_KV_BLOCK, w += KERNELS_KV_BLOCK, scales += stride) {
        vec d[KERNELS_KV_BLOCK / VEC];
        VEC_REPEAT
        for (int i = 0; i < KERNELS_KV_BLOCK / VEC; i++)
            d[i] = vec_load(scales + VEC * i);
        for (size_t at = 0; at < (size_t)rows * KERNELS_SPLIT; at += KERNELS_SPLIT) {
            VEC_REPEAT
            for (int i = 0; i < KERNELS_KV_BLOCK / VEC; i++)
                vec_store(w + at + VEC * i, vec_mul(vec_load(e + at + VEC * i), d[i]));
        }
    }
}

VEC_INLINE void kv_add_token(const uint32_t rows, const vec_int x[2], const unsigned token, const float *w,
                             vec acc[TIER_KV_TILE][2]) {
    const vec low = vec_byte(x[0], token), high = vec_byte(x[1], token);
    VEC_REPEAT
    for (uint32_t r = 0; r < rows; r++) {
        const vec weight = vec_set(w[r * KERNELS_KV_BLOCK + token]);
        acc[r][0] = vec_fma(weight, low, acc[r][0]);
        acc[r][1] = vec_fma(weight, high, acc[r][1]);
    }
}

/* Two vectors of a group's dims, of the tokens before `end`: q8_0's next to each other, q4_0's 16 apart. v is
 * the first token's, `quad` bytes lie between four tokens and the next. */
VEC_INLINE void kv_pv_dims(const uint32_t rows, const bool four, const float *w, const uint8_t *v,
                           const uint8_t *next, size_t quad, uint32_t end, float *o, size_t o_stride) {
    const size_t second = four ? KERNELS_KV_GROUP / 2 : VEC, bytes = (four ? 1 : 2) * sizeof(vec_int);
    vec acc[TIER_KV_TILE][2];
    VEC_REPEAT
    for (uint32_t r = 0; r < rows; r++) {
        acc[r][0] = vec_load(o + r * o_stride);
        acc[r][1] = vec_load(o + r * o_stride + second);
    }
    size_t at = 0;
    for (uint32_t t = 0; t < end; t += 4, at += quad) {
        prefetch_lines(next, at, bytes);
        vec_int x[2];
        if (four) {
            vec_nibbles(vec_load_int(v + at), x);
        } else {
            x[0] = vec_load_int(v + at);
            x[1] = vec_load_int(v + at + sizeof(vec_int));
        }
        kv_add_token(rows, x, 0, w + t, acc);
        if (t + 1 < end)
            kv_add_token(rows, x, 1, w + t, acc);
        if (t + 2 < end)
            kv_add_token(rows, x, 2, w + t, acc);
        if (t + 3 < end)
            kv_add_token(rows, x, 3, w + t, acc);
    }
    VEC_REPEAT
    for (uint32_t r = 0; r < rows; r++) {
        vec_store(o + r * o_stride, acc[r][0]);
        vec_store(o + r * o_stride + second, acc[r][1]);
    }
}

VEC_INLINE void kv_pv_rows(const uint32_t rows, const bool four, const float *e, const uint8_t *v,
                           const uint8_t *next, uint32_t dim, uint32_t end, float *o, size_t o_stride) {
    const enum kernels_kv type = four ? KERNELS_KV_Q4_0 : KERNELS_KV_Q8_0;
    const size_t row = 4 * (size_t)kv_layout_group(type); /* bytes of a group in four tokens */
    const size_t quad = dim / KERNELS_KV_GROUP * row;
    const size_t bytes = (four ? 1 : 2) * sizeof(vec_int), dims = (four ? 1 : 2) * VEC; /* of kv_pv_dims */
    const uint16_t *scales = (const uint16_t *)(const void *)(v + kv_layout_scales(type, dim));
    for (size_t g = 0; g < dim / KERNELS_KV_GROUP; g++, o += KERNELS_KV_GROUP) {
        _Alignas(64) float w[TIER_KV_TILE * KERNELS_KV_BLOCK];
        vec d[KERNELS_KV_BLOCK / VEC];
        VEC_REPEAT
        for (int i = 0; i < KERNELS_KV_BLOCK / VEC; i++)
            d[i] = vec_load_f16(scales + g * KERNELS_KV_BLOCK + VEC * i);
        VEC_REPEAT
        for (uint32_t r = 0; r < rows; r++) {
            VEC_REPEAT
            for (int i = 0; i < KERNELS_KV_BLOCK / VEC; i++)
                vec_store(w + r * KERNELS_KV_BLOCK + VEC * i,
                          vec_mul(vec_load(e + r * KERNELS_SPLIT + VEC * i), d[i]));
        }
        VEC_REPEAT
        for (size_t part = 0; part < row / bytes; part++)
            kv_pv_dims(rows, four, w, v + g * row + part * bytes, next + g * row + part * bytes, quad, end,
                       o + part * dims, o_stride);
    }
}

VEC_INLINE void kv_pv(const bool four, uint32_t rows, const float *e, const void *v, const void *next,
                      uint32_t dim, uint32_t end, float *o, size_t o_stride) {
    ATTENTION_WALK_DISPATCH(TIER_KV_TILE, rows, kv_pv_rows, four, e, v, next, dim, end, o, o_stride);
}

void TIER(pv_q8_0)(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t end,
                   float *o, size_t o_stride) {
    kv_pv(false, rows, e, v, next, dim, end, o, o_stride);
}

void TIER(pv_q4_0)(uint32_t rows, const float *e, const void *v, const void *next, uint32_t dim, uint32_t end,
                   float *o, size_t o_stride) {
    kv_pv(true, rows, e, v, next, dim, end, o, o_stride);
}
