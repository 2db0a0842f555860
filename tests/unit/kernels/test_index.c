/* An indexer's kernels: scores of every tier against the scalar one, these against doubles, and the choice
 * against sorted scores. */
#include "testing.h"

#include "kernel_tiers.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 9   /* of the cache */
#define MOST   300 /* scores of a choice */

static uint64_t seed = 7;

static float random_float(void) {
    return (float)testing_below(&seed, 2001) / 1000.0f - 1.0f;
}

struct cache {
    struct kernels_index x;
    uint32_t tables[BLOCKS];
    uint8_t *bytes;
    float *q;
};

/* A cache whose blocks lie anywhere, full of keys. */
static void make_cache(struct cache *c, enum kernels_kv type, uint32_t ratio, uint32_t heads, uint32_t dim) {
    const uint32_t each = KERNELS_KV_BLOCK / ratio;
    const size_t stride = index_bytes(type, dim, ratio, 8);
    c->bytes = calloc(BLOCKS, stride);
    c->q = calloc((size_t)heads * dim, sizeof *c->q);
    assert_true(c->bytes != NULL && c->q != NULL);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint8_t *keys = c->bytes + b * stride + index_keys(type, dim);
        c->tables[b] = (b * 4 + 2) % BLOCKS;
        for (uint32_t i = 0; i < dim * each; i++)
            if (type == KERNELS_KV_F32)
                ((float *)(void *)keys)[i] = random_float();
            else
                ((uint16_t *)(void *)keys)[i] = block_to_f16(random_float());
    }
    for (uint32_t i = 0; i < heads * dim; i++)
        c->q[i] = random_float();
    c->x = (struct kernels_index){.q = c->q,
                                  .heads = heads,
                                  .dim = dim,
                                  .ratio = ratio,
                                  .type = type,
                                  .keys = c->bytes + index_keys(type, dim),
                                  .block_stride = stride,
                                  .blocks = c->tables};
}

static double score_of(const struct cache *c, uint32_t block) {
    const struct kernels_index *x = &c->x;
    const uint32_t each = KERNELS_KV_BLOCK / x->ratio;
    const uint8_t *keys = x->keys + c->tables[block / each] * x->block_stride;
    double sum = 0;
    for (uint32_t h = 0; h < x->heads; h++) {
        double dot = 0;
        for (uint32_t d = 0; d < x->dim; d++) {
            const size_t at = index_key(x->ratio, d, block % each);
            const double key = x->type == KERNELS_KV_F32
                                   ? (double)((const float *)(const void *)keys)[at]
                                   : (double)block_from_f16(((const uint16_t *)(const void *)keys)[at]);
            dot += (double)c->q[h * x->dim + d] * key;
        }
        sum += dot > 0 ? dot : 0;
    }
    return sum;
}

static void check_scores(const struct cache *c, uint32_t first, uint32_t n) {
    float want[BLOCKS * 8], got[BLOCKS * 8];
    struct kernels_index x = c->x;
    struct kernels scalar;
    kernels_init(&scalar, KERNELS_TIER_SCALAR);
    x.first = first;
    x.n = n;
    x.score = want;
    scalar.index_scores(&x);
    for (uint32_t i = 0; i < n; i++)
        assert_true(fabs((double)want[i] - score_of(c, first + i)) < 1e-5 * c->x.dim);
    for (enum kernels_tier t = KERNELS_TIER_AVX2; t <= kernels_best_tier(); t++) {
        struct kernels k;
        kernels_init(&k, t);
        x.score = got;
        memset(got, 0xFF, sizeof got);
        k.index_scores(&x);
        assert_memory_equal(got, want, n * sizeof *got);
    }
}

static void scores_of_all_tiers(void **state) {
    (void)state;
    static const uint32_t ratios[] = {4, 8, 16, 32}, heads[] = {1, 3, 4, 5, 9}, dims[] = {32, 128, 160};
    for (uint32_t i = 0; i < 4 * 5 * 3 * 2; i++) {
        struct cache c;
        make_cache(&c, i % 2 == 0 ? KERNELS_KV_F32 : KERNELS_KV_F16, ratios[i / 2 % 4], heads[i / 8 % 5],
                   dims[i / 40]);
        const uint32_t each = KERNELS_KV_BLOCK / c.x.ratio;
        check_scores(&c, 0, BLOCKS * each);
        check_scores(&c, 0, each);
        check_scores(&c, 3 * each, 4 * each);
        free(c.bytes);
        free(c.q);
    }
}

/* A broken number is below every other. */
static void scores_of_broken_numbers(void **state) {
    (void)state;
    struct cache c;
    float scores[8];
    make_cache(&c, KERNELS_KV_F32, 4, 4, 32);
    c.q[5] = NAN;
    c.x.n = 8;
    c.x.score = scores;
    for (enum kernels_tier t = KERNELS_TIER_SCALAR; t <= kernels_best_tier(); t++) {
        struct kernels k;
        kernels_init(&k, t);
        k.index_scores(&c.x);
        for (uint32_t i = 0; i < 8; i++)
            assert_true(scores[i] >= 0 && !signbit(scores[i]));
    }
    free(c.bytes);
    free(c.q);
}

static const float *sorted_by;

static int compare_scores(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted_by[x] != sorted_by[y])
        return sorted_by[x] > sorted_by[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static int compare_numbers(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* kinds: how many different scores there are; 0: as many as scores. */
static void check_choice(uint32_t n, uint32_t keep, uint32_t kinds) {
    float score[MOST];
    uint32_t want[MOST], got[MOST];
    struct kernels k;
    kernels_init(&k, kernels_best_tier());
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t x = (uint32_t)testing_below(&seed, kinds > 0 ? kinds : 1u << 30);
        score[i] = x == 0 ? 0.0f : ldexpf((float)x, (int)testing_below(&seed, kinds > 0 ? 1 : 60) - 40);
        want[i] = i;
    }
    if (kinds == 3 && n > 2)
        score[n / 2] = INFINITY;
    sorted_by = score;
    qsort(want, n, sizeof *want, compare_scores);
    qsort(want, keep, sizeof *want, compare_numbers);
    memset(got, 0xFF, sizeof got);
    k.index_choose(score, n, keep, got);
    assert_memory_equal(got, want, keep * sizeof *got);
    assert_int_equal(got[keep], UINT32_MAX);
}

static void choice_with_ties(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t n = 2 + (uint32_t)testing_below(&seed, MOST - 2);
        check_choice(n, 1 + (uint32_t)testing_below(&seed, n - 1), i % 3 == 0 ? 0 : i % 3 == 1 ? 3 : 1);
    }
}

/* What a query sees: all, until a whole block is left out. */
static void what_queries_see(void **state) {
    (void)state;
    for (uint32_t p = 0; p < 2051; p++)
        assert_int_equal(index_sees(4, 512, p), p + 1);
    assert_int_equal(index_sees(4, 512, 2051), 2048);
    assert_int_equal(index_sees(4, 512, 2052), 2049);
    assert_int_equal(index_sees(4, 512, 2054), 2051);
    assert_int_equal(index_sees(4, 512, 262143), 2048);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_all_tiers), cmocka_unit_test(scores_of_broken_numbers),
        cmocka_unit_test(choice_with_ties), cmocka_unit_test(what_queries_see)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
