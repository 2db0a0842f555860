/* An indexer's scores on vectors of 8 block keys, which a block of the cache has where an index block has 4
 * tokens. The tiers above use it as well: wider vectors would take two blocks, which lie anywhere. */
#include "kernels/cpu/avx2/avx2_vec.h"

#include "base/check.h"
#include "kernels/kernels.h"

#define HEADS 4 /* at a time */

VEC_INLINE vec index_load(const bool f16, const uint8_t *keys, size_t d) {
    return f16 ? vec_load_f16((const uint16_t *)(const void *)keys + d * VEC)
               : vec_load((const float *)(const void *)keys + d * VEC);
}

/* sum += the heads' products with two blocks of the cache, each if it is above 0. */
VEC_INLINE void index_heads(const uint32_t heads, const bool f16, const float *q, uint32_t dim,
                            const uint8_t *const keys[2], vec sum[2]) {
    vec dot[HEADS][2];
    VEC_REPEAT
    for (uint32_t h = 0; h < heads; h++)
        dot[h][0] = dot[h][1] = vec_zero();
    for (size_t d = 0; d < dim; d++) {
        const vec a = index_load(f16, keys[0], d), b = index_load(f16, keys[1], d);
        VEC_REPEAT
        for (uint32_t h = 0; h < heads; h++) {
            const vec x = vec_set(q[h * dim + d]);
            dot[h][0] = vec_fma(x, a, dot[h][0]);
            dot[h][1] = vec_fma(x, b, dot[h][1]);
        }
    }
    VEC_REPEAT
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < 2; i++)
            sum[i] = vec_add(sum[i], vec_keep(vec_above(dot[h][i], vec_zero()), dot[h][i]));
}

VEC_INLINE void index_blocks(const bool f16, const struct kernels_index *x, const uint8_t *const keys[2],
                             vec sum[2]) {
    uint32_t h = 0;
    sum[0] = sum[1] = vec_zero();
    for (; x->heads - h >= HEADS; h += HEADS)
        index_heads(HEADS, f16, x->q + (size_t)h * x->dim, x->dim, keys, sum);
    for (; h < x->heads; h++)
        index_heads(1, f16, x->q + (size_t)h * x->dim, x->dim, keys, sum);
}

VEC_INLINE void index_all(const bool f16, const struct kernels_index *x) {
    for (uint32_t i = 0; i < x->n; i += 2 * VEC) {
        const uint32_t at = (x->first + i) / VEC;
        const bool two = x->n - i > VEC;
        const uint8_t *const keys[2] = {x->keys + x->blocks[at] * x->block_stride,
                                        x->keys + x->blocks[at + two] * x->block_stride};
        vec sum[2];
        index_blocks(f16, x, keys, sum);
        vec_store(x->score + i, sum[0]);
        if (two)
            vec_store(x->score + i + VEC, sum[1]);
    }
}

static void index_scores(const struct kernels_index *x) {
    CHECK(x->first % (KERNELS_KV_BLOCK / x->ratio) == 0 && x->n % (KERNELS_KV_BLOCK / x->ratio) == 0);
    if (x->ratio != KERNELS_KV_BLOCK / VEC)
        scalar_index_scores(x);
    else if (x->type == KERNELS_KV_F16)
        index_all(true, x);
    else
        index_all(false, x);
}

void avx2_index_init(struct kernels *k) {
    k->index_scores = index_scores;
}
