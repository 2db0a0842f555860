/* Attention: scalar against a softmax in double, every other tier against scalar by bits, several queries in
 * one call against one call per query by bits, over all tokens, windows and rings, with and without sinks.
 * Cache slots that no query may see are NaN (where a tier reads a quantised value of the block where a window
 * begins, another token's), table entries that none needs point far outside, and all buffers are guarded. */
#include "kernel_tiers.h"

#include <math.h>

struct problem {
    struct kernels_attention a;
    uint32_t tokens;
    size_t floats_out;
    float *given_keys; /* [tokens][head_dim_k], before the store */
    float *given_values;
    float *keys; /* as stored */
    float *values;
    uint8_t *k;
    uint8_t *v;
    float sinks[KERNELS_MAX_GROUP];
    bool latent; /* V is the beginning of K */
    struct kernel_check_edge q, bk, bv, blocks, work, out;
};

/* The layouts of K and V as kernels.h defines them, written independently of the kernels. */
static float decoded(enum kernels_kv type, bool key, const uint8_t *p, uint32_t dim, uint32_t d, uint32_t t) {
    size_t plain = key ? (size_t)d * 32 + t : (size_t)t * dim + d;
    if (type == KERNELS_KV_F32)
        return ((const float *)(const void *)p)[plain];
    if (type == KERNELS_KV_F16)
        return block_from_f16(((const uint16_t *)(const void *)p)[plain]);
    size_t bytes = type == KERNELS_KV_Q8_0 ? dim : dim / 2;
    uint32_t row = type == KERNELS_KV_Q8_0 ? d : d / 32 * 16 + d % 16;
    uint8_t byte = key ? p[row / 4 * 128 + t * 4 + row % 4] : p[t / 4 * 4 * bytes + row * 4 + t % 4];
    float scale = block_from_f16(((const uint16_t *)(const void *)(p + 32 * bytes))[d / 32 * 32 + t]);
    if (type == KERNELS_KV_Q8_0)
        return scale * (float)(int8_t)byte;
    return scale * (float)((d % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

static uint64_t block_at(const struct kernels_attention *a, uint32_t t) {
    return a->blocks[a->ring != 0 ? t / 32 % a->ring : t / 32] * a->block_stride;
}

/* The first token that the query at `position` sees. */
static uint32_t window_begin(const struct kernels_attention *a, uint32_t position) {
    const uint32_t begin = a->window != 0 && position + 1 > a->window ? position + 1 - a->window : 0;
    return begin == 0 && position > 0 ? a->skip : begin;
}

/* Writes the first n tokens, as far as the query at `oldest` and later ones see them, into a cache that is
 * NaN everywhere else. */
static void fill_cache(struct problem *p, uint32_t oldest, uint32_t n) {
    uint32_t begin = window_begin(&p->a, oldest);
    memset(p->k, 0xFF, p->bk.bytes);
    memset(p->v, 0xFF, p->bv.bytes);
    if (kernels_kv_group(p->a.type_v) > 1)
        begin -= begin % 32;
    for (uint32_t t = begin; t < n; t++) {
        uint64_t at = block_at(&p->a, t);
        tiers[0].store_k[p->a.type_k](p->k + at, p->given_keys + (size_t)t * p->a.head_dim_k, p->a.head_dim_k,
                                      t % 32);
        tiers[0].store_v[p->a.type_v](p->v + at, p->given_values + (size_t)t * p->a.head_dim_v,
                                      p->a.head_dim_v, t % 32);
    }
}

static void read_cache(struct problem *p) {
    const struct kernels_attention *a = &p->a;
    for (uint32_t t = window_begin(a, a->first_position); t < p->tokens; t++) {
        uint64_t at = block_at(a, t);
        for (uint32_t d = 0; d < a->head_dim_k; d++)
            p->keys[(size_t)t * a->head_dim_k + d] =
                decoded(a->type_k, true, p->k + at, a->head_dim_k, d, t % 32);
        for (uint32_t d = 0; d < a->head_dim_v; d++)
            p->values[(size_t)t * a->head_dim_v + d] =
                p->latent ? p->keys[(size_t)t * a->head_dim_k + d]
                          : decoded(a->type_v, false, p->v + at, a->head_dim_v, d, t % 32);
    }
}

static float *random_tokens(const struct problem *p, uint32_t dim, float scale, uint64_t *seed) {
    float *x = malloc((size_t)p->tokens * dim * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < (size_t)p->tokens * dim; i++)
        x[i] = testing_below(seed, 50) == 0 ? -0.0f : testing_uniform(seed) * scale;
    return x;
}

/* Quantised types where the dims allow them. */
static enum kernels_kv random_type(uint32_t dim, uint64_t *seed) {
    return (enum kernels_kv)testing_below(seed, dim % 32 == 0 ? KERNELS_KV_TYPES : KERNELS_KV_Q8_0);
}

/* All but the types. */
static void problem_fill(struct problem *p, uint64_t *seed, uint32_t group, uint32_t dim_k, uint32_t dim_v,
                         uint32_t first, uint32_t queries, float sharpness) {
    p->tokens = first + queries;
    uint32_t n_blocks = (p->tokens + 31) / 32;
    uint32_t ring = (p->a.window + queries - 1 + 31) / 32 + 1;
    if (p->a.ring != 0) /* wanted */
        p->a.ring = n_blocks = n_blocks < ring ? n_blocks : ring;
    uint32_t spare = (uint32_t)testing_below(seed, 3);
    size_t k_bytes = kernels_kv_bytes(p->a.type_k, dim_k), v_bytes = kernels_kv_bytes(p->a.type_v, dim_v);
    struct kernels_attention *a = &p->a;
    a->block_stride = (k_bytes > v_bytes ? k_bytes : v_bytes) + 64 * testing_below(seed, 3);
    uint32_t *blocks = kernel_check_edge_alloc(&p->blocks, (n_blocks + spare) * sizeof *blocks);
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint32_t other = (uint32_t)testing_below(seed, b + 1);
        blocks[b] = blocks[other];
        blocks[other] = b;
    }
    for (uint32_t b = n_blocks; b < n_blocks + spare; b++)
        blocks[b] = UINT32_MAX;
    a->k = p->k = kernel_check_edge_alloc(&p->bk, (n_blocks - 1) * a->block_stride + k_bytes);
    a->v = p->v = kernel_check_edge_alloc(&p->bv, (n_blocks - 1) * a->block_stride + v_bytes);
    a->blocks = blocks;
    a->q_stride = (size_t)group * dim_k + testing_below(seed, 20);
    a->out_stride = (size_t)group * dim_v + testing_below(seed, 20);
    size_t n_q = (queries - 1) * a->q_stride + (size_t)group * dim_k;
    p->floats_out = (queries - 1) * a->out_stride + (size_t)group * dim_v;
    float *q = kernel_check_edge_alloc(&p->q, n_q * sizeof *q);
    for (size_t i = 0; i < n_q; i++)
        q[i] = testing_uniform(seed) * sharpness;
    a->q = q;
    a->out = kernel_check_edge_alloc(&p->out, p->floats_out * sizeof(float));
    a->work = kernel_check_edge_alloc(&p->work,
                                      kernels_attention_work(queries, group, dim_k, dim_v) * sizeof(float));
    assert_int_equal((uintptr_t)a->work % 64, 0);
    a->n_queries = queries;
    a->first_position = first;
    a->group = group;
    a->head_dim_k = dim_k;
    a->head_dim_v = dim_v;
    a->scale = 1.0f / sqrtf((float)dim_k);
    p->given_keys = random_tokens(p, dim_k, 2.0f, seed);
    p->given_values = random_tokens(p, dim_v, 1.0f, seed);
    p->keys = malloc((size_t)p->tokens * dim_k * sizeof *p->keys);
    p->values = malloc((size_t)p->tokens * dim_v * sizeof *p->values);
    assert_non_null(p->keys);
    assert_non_null(p->values);
    fill_cache(p, first, p->tokens);
    read_cache(p);
    if (p->latent)
        a->v = NULL;
}

/* Of three problems one has a window, of two of those it is in a ring; of two problems one has sinks, of
 * three one a cap of scores, of four one skips the first token. */
static void random_view(struct problem *p, uint32_t tokens, uint64_t *seed) {
    static const uint32_t windows[] = {1, 2, 16, 31, 32, 33, 64, 128, 255, 256, 257, 300};
    if (testing_below(seed, 3) == 0)
        p->a.window = testing_below(seed, 3) == 0 ? windows[testing_below(seed, 12)]
                                                  : 1 + (uint32_t)testing_below(seed, tokens + 3);
    p->a.skip = testing_below(seed, 4) == 0;
    p->a.cap = testing_below(seed, 3) == 0 ? 2.0f + testing_uniform(seed) : 0;
    p->a.cap_inverse = p->a.cap != 0 ? 1.0f / p->a.cap : 0;
    p->a.ring = p->a.window != 0 && testing_below(seed, 2) == 0;
    for (uint32_t i = 0; i < KERNELS_MAX_GROUP; i++)
        p->sinks[i] = testing_uniform(seed) * (i % 2 == 0 ? 1.0f : 40.0f);
    p->a.sinks = testing_below(seed, 2) == 0 ? p->sinks : NULL;
}

static void problem_init(struct problem *p, uint64_t *seed, uint32_t group, uint32_t dim_k, uint32_t dim_v,
                         uint32_t first, uint32_t queries, float sharpness) {
    *p = (struct problem){.a = {.type_k = random_type(dim_k, seed), .type_v = random_type(dim_v, seed)}};
    random_view(p, first + queries, seed);
    problem_fill(p, seed, group, dim_k, dim_v, first, queries, sharpness);
}

static void problem_free(struct problem *p) {
    kernel_check_edge_free(&p->q), kernel_check_edge_free(&p->bk), kernel_check_edge_free(&p->bv);
    kernel_check_edge_free(&p->blocks), kernel_check_edge_free(&p->work), kernel_check_edge_free(&p->out);
    free(p->given_keys);
    free(p->given_values);
    free(p->keys);
    free(p->values);
}

/* By how much the weights of quantised values, integers of 1 .. 32639 in each split, may change an output:
 * each by half a step, of the split's largest weight and of values up to 1. e: of tokens begin .. n. */
static double weight_steps(const double *e, uint32_t begin, uint32_t n) {
    double steps = 0.0;
    for (uint32_t from = begin, end; from < n; from = end) {
        double most = 0.0;
        end = (from / KERNELS_SPLIT + 1) * KERNELS_SPLIT < n ? (from / KERNELS_SPLIT + 1) * KERNELS_SPLIT : n;
        for (uint32_t t = from; t < end; t++)
            most = fmax(most, e[t]);
        steps += most * (end - from) * 1.02 / (2 * 32639);
    }
    return steps;
}

/* Softmax in double, straight from the meaning. */
static void check_against_double(const struct problem *p) {
    const struct kernels_attention *a = &p->a;
    double *score = malloc(p->tokens * sizeof *score);
    assert_non_null(score);
    bool small_query = kernels_kv_group(a->type_k) > 1;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        for (uint32_t h = 0; h < a->group; h++) {
            const float *q = a->q + i * a->q_stride + (size_t)h * a->head_dim_k;
            const float *out = a->out + i * a->out_stride + (size_t)h * a->head_dim_v;
            uint32_t n = a->first_position + i + 1, begin = window_begin(a, n - 1);
            double largest_query = 0.0;
            for (uint32_t d = 0; d < a->head_dim_k; d++)
                largest_query = fmax(largest_query, fabs((double)q[d]));
            double max = -INFINITY, sum = 0.0, size = 1.0, slack = 0.0;
            for (uint32_t t = begin; t < n; t++) {
                double dot = 0.0, terms = 0.0, keys = 0.0;
                for (uint32_t d = 0; d < a->head_dim_k; d++) {
                    double term = (double)q[d] * (double)p->keys[(size_t)t * a->head_dim_k + d];
                    dot += term;
                    terms += fabs(term);
                    keys += fabs((double)p->keys[(size_t)t * a->head_dim_k + d]);
                }
                slack = fmax(slack, keys * largest_query / 32512 * (double)a->scale);
                score[t] = dot * (double)a->scale;
                if (a->cap != 0)
                    score[t] = (double)a->cap * tanh(score[t] / (double)a->cap);
                max = score[t] > max ? score[t] : max;
                size = terms * (double)a->scale > size ? terms * (double)a->scale : size;
            }
            if (a->sinks != NULL) {
                max = fmax(max, (double)a->sinks[h]);
                sum = exp((double)a->sinks[h] - max);
            }
            for (uint32_t t = begin; t < n; t++)
                sum += score[t] = exp(score[t] - max);
            const double weights =
                kernels_kv_group(a->type_v) > 1 ? weight_steps(score, begin, n) / sum : 0.0;
            for (uint32_t d = 0; d < a->head_dim_v; d++) {
                double want = 0.0;
                for (uint32_t t = begin; t < n; t++)
                    want += score[t] / sum * (double)p->values[(size_t)t * a->head_dim_v + d];
                /* scores err by about size * 2^-24 * a few; |v| <= 1. Quantised keys: by half a step of the
                 * query's 15 bits in each dim. */
                assert_true(fabs((double)out[d] - want) <=
                            1e-6 * size + 2e-6 + weights + (small_query ? 2 * slack : 0));
            }
        }
    }
    free(score);
}

static void check_tiers(struct problem *p) {
    float *want = malloc(p->floats_out * sizeof *want);
    assert_non_null(want);
    memcpy(want, p->a.out, p->floats_out * sizeof *want);
    for (int t = 1; t < n_tiers; t++) {
        memset(p->a.out, 0xA9, p->floats_out * sizeof *want);
        memset(p->a.work, 0xFF, p->work.bytes);
        tiers[t].attention(&p->a);
        kernel_check_same_floats(p->a.out, want, p->floats_out, tiers[t].tier);
    }
    free(want);
}

/* One call per query, the cache NaN beyond that query. */
static void check_single_queries(struct problem *p, int t) {
    float *want = malloc(p->floats_out * sizeof *want);
    assert_non_null(want);
    memcpy(want, p->a.out, p->floats_out * sizeof *want);
    memset(p->a.out, 0xA9, p->floats_out * sizeof *want);
    for (uint32_t i = 0; i < p->a.n_queries; i++) {
        struct kernels_attention one = p->a;
        one.n_queries = 1;
        one.first_position += i;
        one.q += i * one.q_stride;
        one.out += i * one.out_stride;
        fill_cache(p, one.first_position, one.first_position + 1);
        tiers[t].attention(&one);
    }
    kernel_check_same_floats(p->a.out, want, p->floats_out, "one query at a time");
    free(want);
}

/* The last query's splits apart, in calls of some splits each, last to first, then merged: the same bits. */
static void check_parts(struct problem *p, uint64_t *seed) {
    struct kernels_attention one = p->a;
    struct kernel_check_edge edge;
    size_t floats = (size_t)one.group * one.head_dim_v;
    one.first_position += one.n_queries - 1;
    one.q += (one.n_queries - 1) * one.q_stride;
    one.out += (one.n_queries - 1) * one.out_stride;
    one.n_queries = 1;
    uint32_t begin = kernels_attention_first(one.first_position, one.window);
    uint32_t end = one.first_position / KERNELS_SPLIT + 1, splits = end - begin;
    size_t part = kernels_attention_part(one.group, one.head_dim_v);
    assert_int_equal(part % 16, 0);
    one.parts = kernel_check_edge_alloc(&edge, splits * part * sizeof(float));
    float *want = malloc(floats * sizeof *want);
    assert_non_null(want);
    memcpy(want, one.out, floats * sizeof *want);
    for (int t = 0; t < n_tiers; t++) {
        memset(one.parts, 0xFF, edge.bytes);
        memset(one.out, 0xA9, floats * sizeof *want);
        for (one.end_split = end; one.end_split > begin; one.end_split = one.first_split) {
            one.first_split = one.end_split - 1 - (uint32_t)testing_below(seed, one.end_split - begin);
            tiers[t].attention(&one);
            for (size_t d = 0; d < floats; d++) /* it is the merge that writes out */
                assert_memory_equal(&one.out[d], "\xA9\xA9\xA9\xA9", 4);
        }
        tiers[t].attention_merge(&one);
        kernel_check_same_floats(one.out, want, floats, tiers[t].tier);
    }
    free(want);
    kernel_check_edge_free(&edge);
}

static void random_shapes(void **state) {
    (void)state;
    static const uint32_t dims[] = {1, 3, 8, 15, 16, 31, 32, 33, 47, 64, 65, 80, 96, 128, 131, 160, 192, 256};
    static const uint32_t groups[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12};
    uint64_t seed = testing_seed("attention");
    for (int round = 0; round < 160; round++) {
        uint32_t group = groups[testing_below(&seed, 10)];
        uint32_t dim_k = dims[testing_below(&seed, 18)];
        uint32_t dim_v = round % 2 == 0 ? dim_k : dims[testing_below(&seed, 18)];
        uint32_t queries = round % 3 == 0 ? 1 : 1 + (uint32_t)testing_below(&seed, round % 7 == 1 ? 70 : 9);
        /* About this many multiply-adds a round. */
        uint32_t most = 600000 / (group * (dim_k + dim_v) * queries) + 1;
        uint32_t first = (uint32_t)testing_below(&seed, most < 800 ? most : 800);
        struct problem p;
        problem_init(&p, &seed, group, dim_k, dim_v, first, queries, round % 4 == 0 ? 20.0f : 2.0f);
        tiers[0].attention(&p.a);
        check_against_double(&p);
        check_tiers(&p);
        check_parts(&p, &seed);
        int tier = (int)testing_below(&seed, (uint64_t)n_tiers);
        check_single_queries(&p, tier);
        problem_free(&p);
    }
}

/* Around the ends of blocks and splits, where masks and merges begin. */
static void boundaries(void **state) {
    (void)state;
    uint64_t seed = testing_seed("attention boundaries");
    static const uint32_t firsts[] = {0,   1,   30,  31,  32,  63,  127, 128, 250, 254,
                                      255, 256, 257, 287, 288, 510, 511, 512, 767, 768};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        for (uint32_t queries = 1; queries <= 7; queries += 3) {
            struct problem p;
            problem_init(&p, &seed, 3, 32, 32, firsts[i], queries, 2.0f);
            tiers[0].attention(&p.a);
            check_against_double(&p);
            check_tiers(&p);
            check_parts(&p, &seed);
            check_single_queries(&p, n_tiers - 1);
            problem_free(&p);
        }
    }
}

/* Passes of several tiles over several splits, every pair of types; more rows than one pass has. */
static void many_rows(void **state) {
    (void)state;
    uint64_t seed = testing_seed("attention rows");
    static const uint32_t dims[] = {32, 64, 96};
    static const uint32_t groups[] = {1, 2, 4, 5, 7, 8};
    for (int pair = 0; pair < KERNELS_KV_TYPES * KERNELS_KV_TYPES; pair++) {
        uint32_t group = groups[testing_below(&seed, 6)];
        uint32_t queries = (uint32_t)(9 + testing_below(&seed, 300)) / group + 1;
        uint32_t dim_k = dims[testing_below(&seed, 3)], dim_v = dims[testing_below(&seed, 3)];
        struct problem p = {.a = {.type_k = (enum kernels_kv)(pair % KERNELS_KV_TYPES),
                                  .type_v = (enum kernels_kv)(pair / KERNELS_KV_TYPES)}};
        uint32_t first = (uint32_t)testing_below(&seed, 600);
        random_view(&p, first + queries, &seed);
        problem_fill(&p, &seed, group, dim_k, dim_v, first, queries, 2.0f);
        tiers[0].attention(&p.a);
        check_tiers(&p);
        check_parts(&p, &seed);
        check_single_queries(&p, (int)testing_below(&seed, (uint64_t)n_tiers));
        problem_free(&p);
    }
}

/* V is the beginning of K, as latent attention has it; the last shape is that of published models. */
static void latent(void **state) {
    (void)state;
    uint64_t seed = testing_seed("latent attention");
    for (int round = 0; round < 40; round++) {
        const bool published = round % 10 == 9;
        const uint32_t dim_v = published ? 512 : 32 * (1 + (uint32_t)testing_below(&seed, 4));
        const uint32_t dim_k = dim_v + (published ? 64 : 32 * (uint32_t)testing_below(&seed, 3));
        const enum kernels_kv type = (enum kernels_kv)(round % KERNELS_KV_TYPES);
        const uint32_t group = published ? 20 : 1 + (uint32_t)testing_below(&seed, 12);
        const uint32_t queries = 1 + (uint32_t)testing_below(&seed, published ? 2 : 40);
        const uint32_t first = (uint32_t)testing_below(&seed, published ? 40 : 600);
        struct problem p = {.latent = true, .a = {.type_k = type, .type_v = type}};
        if (!published)
            random_view(&p, first + queries, &seed);
        problem_fill(&p, &seed, group, dim_k, dim_v, first, queries, 2.0f);
        tiers[0].attention(&p.a);
        check_against_double(&p);
        check_tiers(&p);
        check_parts(&p, &seed);
        check_single_queries(&p, (int)testing_below(&seed, (uint64_t)n_tiers));
        problem_free(&p);
    }
}

static void largest(void **state) {
    (void)state;
    uint64_t seed = testing_seed("attention largest");
    for (uint32_t queries = 1; queries <= 2; queries++) {
        struct problem p;
        problem_init(&p, &seed, KERNELS_MAX_GROUP, KERNELS_MAX_HEAD, KERNELS_MAX_HEAD, 40 - queries, queries,
                     1.0f);
        tiers[0].attention(&p.a);
        check_against_double(&p);
        check_tiers(&p);
        check_parts(&p, &seed);
        problem_free(&p);
    }
}

/* Far apart scores: everything but the largest underflows to +0, in whichever split it lies. */
static void one_token_wins(void **state) {
    (void)state;
    uint64_t seed = testing_seed("attention extremes");
    for (uint32_t winner = 0; winner < 600; winner += 149) {
        struct problem p;
        p = (struct problem){
            .a = {.type_k = random_type(32, &seed), .type_v = random_type(winner % 2 == 0 ? 48 : 64, &seed)}};
        problem_fill(&p, &seed, 2, 32, winner % 2 == 0 ? 48 : 64, 599, 1, 1.0f);
        for (uint32_t d = 0; d < 64; d++)
            ((float *)p.q.data)[d] = 8.0f;
        for (uint32_t t = 0; t < p.tokens; t++)
            for (uint32_t d = 0; d < 32; d++)
                p.given_keys[t * 32 + d] = t == winner ? 8.0f : -8.0f;
        fill_cache(&p, 0, p.tokens);
        read_cache(&p);
        tiers[0].attention(&p.a);
        uint32_t dim = p.a.head_dim_v;
        /* A weight of quantised values has at most 32639 steps. */
        const double step = kernels_kv_group(p.a.type_v) > 1 ? 1.1 / (2 * 32639) : 0.0;
        for (uint32_t d = 0; d < 2 * dim; d++)
            assert_true(fabs((double)p.a.out[d] - (double)p.values[winner * dim + d % dim]) <= step);
        check_tiers(&p);
        problem_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes), cmocka_unit_test(boundaries),     cmocka_unit_test(many_rows),
        cmocka_unit_test(largest),       cmocka_unit_test(one_token_wins), cmocka_unit_test(latent),
    };
    return cmocka_run_group_tests(tests, fill_tiers, NULL);
}
