/* The definition of an indexer's scores, and the choice of the best blocks. No state; any thread. */
#include "kernels/kernels.h"
#include "kernels/shared/num.h"

#include "base/check.h"

#include <math.h>

static float key_of(const struct kernels_index *x, const uint8_t *keys, uint32_t d, uint32_t at) {
    const size_t i = index_key(x->ratio, d, at);
    return x->type == KERNELS_KV_F32 ? ((const float *)(const void *)keys)[i]
                                     : block_from_f16(((const uint16_t *)(const void *)keys)[i]);
}

static float score_of(const struct kernels_index *x, uint32_t block) {
    const uint32_t each = KERNELS_KV_BLOCK / x->ratio;
    const uint8_t *keys = x->keys + x->blocks[block / each] * x->block_stride;
    float score = 0.0f;
    for (uint32_t h = 0; h < x->heads; h++) {
        float dot = 0.0f;
        for (uint32_t d = 0; d < x->dim; d++)
            dot = fmaf(x->q[(size_t)h * x->dim + d], key_of(x, keys, d, block % each), dot);
        score += dot > 0.0f ? dot : 0.0f;
    }
    return score;
}

void scalar_index_scores(const struct kernels_index *x) {
    CHECK(x->ratio >= INDEX_LEAST_RATIO && KERNELS_KV_BLOCK % x->ratio == 0 && x->type <= KERNELS_KV_F16);
    for (uint32_t i = 0; i < x->n; i++)
        x->score[i] = score_of(x, x->first + i);
}

/* Scores are not below +0, so their bits, as whole numbers, have their order: digit by digit from above, how
 * many have the digits of the last one that is taken. */
static void index_choose(const float *score, uint32_t n, uint32_t keep, uint32_t *chosen) {
    uint32_t last = 0, left = keep; /* of those that begin like `last`, so many are taken */
    CHECK(keep > 0 && keep < n);
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t count[256] = {0}, digit = 255;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t key = NUM_BITS(score[i]);
            count[key >> shift & 255] += ((uint64_t)(key ^ last) >> shift >> 8) == 0;
        }
        for (; count[digit] < left; digit--)
            left -= count[digit];
        last |= digit << shift;
    }
    for (uint32_t i = 0, at = 0; at < keep; i++) {
        const uint32_t key = NUM_BITS(score[i]);
        const bool equal = key == last && left > 0;
        left -= equal;
        if (key > last || equal)
            chosen[at++] = i;
    }
}

void scalar_index_init(struct kernels *k) {
    k->index_scores = scalar_index_scores;
    k->index_choose = index_choose;
}
