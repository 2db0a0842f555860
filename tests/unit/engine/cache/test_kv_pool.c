/* The pool of KV blocks: random texts of random sequences against a list of what was kept, with the
 * invariants looked at after every step. */
#include "testing.h"

#include "engine/cache/kv_pool.h"

enum { BLOCKS = 23, SEQUENCES = 5, LONGEST = 6, TOKENS = KV_LAYOUT_BLOCK };

static struct kv_pool pool_of(uint32_t n, void **memory) {
    struct kv_pool p;
    struct carve count = carve_count();
    kv_pool_lay_out(&p, &count, n);
    *memory = aligned_alloc(64, count.used);
    assert_non_null(*memory);
    struct carve c = carve_in(*memory, count.used);
    kv_pool_lay_out(&p, &c, n);
    assert_int_equal(c.used, count.used);
    assert_true(kv_pool_is_whole(&p));
    return p;
}

/* Block k of text `text`: texts that are equal up to k have equal numbers here. */
static void tokens_of(uint32_t text, int32_t *out) {
    for (int i = 0; i < TOKENS; i++)
        out[i] = (int32_t)(text >> (i == TOKENS - 1 ? 0 : 4)); /* neighbours differ in the last token only */
}

struct sequence {
    bool runs;
    uint32_t n, kept;
    uint32_t path[LONGEST]; /* what its k-th block says */
    uint32_t block[LONGEST];
};

/* The model: of each kept block the whole text up to it, and when its last holder left. */
struct known {
    bool kept;
    uint32_t depth;
    uint32_t path[LONGEST];
    uint64_t left;
};

struct play {
    struct kv_pool p;
    struct sequence s[SEQUENCES];
    struct known known[BLOCKS];
    uint64_t now;
    uint64_t evicted;
};

static uint32_t holders_of(const struct play *g, uint32_t block) {
    uint32_t n = 0;
    for (int i = 0; i < SEQUENCES; i++)
        for (uint32_t k = 0; g->s[i].runs && k < g->s[i].n; k++)
            n += g->s[i].block[k] == block;
    return n;
}

static uint32_t known_block(const struct play *g, const uint32_t *path, uint32_t depth) {
    for (uint32_t b = 0; b < BLOCKS; b++)
        if (g->known[b].kept && g->known[b].depth == depth &&
            memcmp(g->known[b].path, path, (depth + 1) * sizeof *path) == 0)
            return b;
    return KV_POOL_NONE;
}

static void agree(const struct play *g) {
    uint32_t cached = 0, held = 0;
    assert_true(kv_pool_is_whole(&g->p));
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t holders = holders_of(g, b);
        uint64_t shown = atomic_load(&g->p.shown[b]);
        assert_int_equal(g->p.blocks[b].holders, holders);
        assert_int_equal(g->p.blocks[b].kept, g->known[b].kept);
        assert_int_equal(shown & UINT16_MAX, holders);
        assert_int_equal(shown == KV_POOL_CACHED, g->known[b].kept && holders == 0);
        assert_int_equal(shown == 0, !g->known[b].kept && holders == 0);
        cached += g->known[b].kept && holders == 0;
        held += holders > 0;
    }
    assert_int_equal(g->p.n_cached, cached);
    assert_int_equal(g->p.n_free, BLOCKS - held - cached);
    assert_int_equal(g->p.evicted, g->evicted);
}

static uint32_t find(const struct play *g, const struct sequence *q, uint32_t text) {
    int32_t tokens[TOKENS];
    uint32_t path[LONGEST];
    memcpy(path, q->path, sizeof path);
    path[q->n] = text;
    tokens_of(text, tokens);
    uint32_t got = kv_pool_find(&g->p, q->n > 0 ? q->block[q->n - 1] : KV_POOL_NONE, tokens);
    assert_int_equal(got, known_block(g, path, q->n));
    return got;
}

/* A block more: one that is kept, or a new one, which is kept. */
static void grow(struct play *g, struct sequence *q, uint32_t text) {
    const uint64_t name = (uint64_t)(q - g->s) + 1;
    uint32_t block = find(g, q, text);
    q->path[q->n] = text;
    if (block != KV_POOL_NONE) {
        kv_pool_hold(&g->p, block, name);
        q->block[q->n++] = block;
        return;
    }
    if (g->p.n_free == 0 && g->p.n_cached == 0)
        return; /* all are held */
    uint32_t oldest = KV_POOL_NONE;
    for (uint32_t b = 0; b < BLOCKS; b++)
        if (g->known[b].kept && holders_of(g, b) == 0 &&
            (oldest == KV_POOL_NONE || g->known[b].left < g->known[oldest].left))
            oldest = b;
    bool evicts = g->p.n_free == 0;
    block = kv_pool_take(&g->p, name);
    assert_int_equal(atomic_load(&g->p.shown[block]), KV_POOL_SHOWN(name, 1));
    if (evicts) {
        assert_int_equal(block, oldest);
        g->known[block].kept = false;
        g->evicted++;
    }
    int32_t tokens[TOKENS];
    tokens_of(text, tokens);
    kv_pool_keep(&g->p, block, q->n > 0 ? q->block[q->n - 1] : KV_POOL_NONE, tokens);
    q->block[q->n++] = block;
    g->known[block] = (struct known){.kept = true, .depth = q->n - 1};
    memcpy(g->known[block].path, q->path, sizeof q->path);
}

static void end(struct play *g, struct sequence *q) {
    while (q->n > 0) {
        uint32_t block = q->block[--q->n];
        g->known[block].left = ++g->now;
        kv_pool_drop(&g->p, block, 7);
    }
    q->runs = false;
}

static void random_texts(void **state) {
    (void)state;
    void *memory;
    struct play *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->p = pool_of(BLOCKS, &memory);
    uint64_t random = 1;
    uint32_t hits = 0;
    for (int i = 0; i < 60000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        struct sequence *q = &g->s[(random >> 40) % SEQUENCES];
        uint32_t what = (uint32_t)(random >> 50) % 8;
        q->runs = true;
        if (q->n == LONGEST || what == 0) {
            end(g, q);
        } else {
            uint32_t text = (uint32_t)(random >> 56) % 3;
            hits += find(g, q, text) != KV_POOL_NONE;
            grow(g, q, text);
        }
        agree(g);
    }
    assert_true(hits > 10000 && g->evicted > 1000);
    free(memory);
    free(g);
}

/* A block that was not kept is free at once; one that was stays until all others are gone. */
static void one_by_one(void **state) {
    (void)state;
    void *memory;
    struct kv_pool p = pool_of(3, &memory);
    int32_t tokens[TOKENS] = {0};
    uint32_t a = kv_pool_take(&p, 5);
    kv_pool_keep(&p, a, KV_POOL_NONE, tokens);
    uint32_t b = kv_pool_take(&p, 5);
    kv_pool_drop(&p, b, 0);
    assert_int_equal(atomic_load(&p.shown[b]), 0);
    kv_pool_hold(&p, a, 6);
    assert_int_equal(atomic_load(&p.shown[a]), KV_POOL_SHOWN(6, 2));
    kv_pool_drop(&p, a, 5);
    assert_int_equal(atomic_load(&p.shown[a]), KV_POOL_SHOWN(5, 1));
    kv_pool_drop(&p, a, 0);
    assert_int_equal(atomic_load(&p.shown[a]), KV_POOL_CACHED);
    assert_int_equal(kv_pool_find(&p, KV_POOL_NONE, tokens), a);
    assert_int_equal(kv_pool_find(&p, a, tokens), KV_POOL_NONE); /* the same, elsewhere */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(kv_pool_take(&p, 8) == a, i == 2);
    assert_int_equal(kv_pool_find(&p, KV_POOL_NONE, tokens), KV_POOL_NONE);
    assert_int_equal(p.evicted, 1);
    assert_true(kv_pool_is_whole(&p));
    free(memory);
    p = pool_of(0, &memory); /* of a model without such caches */
    free(memory);
}

/* Texts whose hashes fall into one bucket are told apart. */
static void equal_hashes(void **state) {
    (void)state;
    void *memory;
    struct kv_pool p = pool_of(64, &memory);
    p.n_buckets = 1;
    for (int32_t i = 0; i < 64; i++) {
        int32_t tokens[TOKENS] = {0};
        tokens[i % TOKENS] = 1 + i;
        uint32_t block = kv_pool_take(&p, 1);
        assert_int_equal(kv_pool_find(&p, KV_POOL_NONE, tokens), KV_POOL_NONE);
        kv_pool_keep(&p, block, KV_POOL_NONE, tokens);
        assert_int_equal(kv_pool_find(&p, KV_POOL_NONE, tokens), block);
    }
    assert_true(kv_pool_is_whole(&p));
    free(memory);
}

/* A block that steps under way may still write is no idle one. */
static void idle_blocks(void **state) {
    (void)state;
    void *memory;
    struct kv_pool p = pool_of(2, &memory);
    const uint32_t a = kv_pool_take(&p, 1), b = kv_pool_take(&p, 1);
    kv_pool_leave(&p, b, 0);
    kv_pool_leave(&p, a, 7);
    assert_int_equal(kv_pool_take_idle(&p, 2, 6), b); /* a take would get the other */
    assert_int_equal(kv_pool_take_idle(&p, 2, 6), KV_POOL_NONE);
    assert_int_equal(kv_pool_take_idle(&p, 2, 7), a);
    kv_pool_leave(&p, a, 9);
    assert_int_equal(kv_pool_take(&p, 3), a); /* in a step */
    kv_pool_drop(&p, a, 0);
    assert_int_equal(kv_pool_take_idle(&p, 2, 7), a); /* it was dropped again by who had no step under way */
    assert_true(kv_pool_is_whole(&p));
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(idle_blocks), cmocka_unit_test(random_texts),
                                       cmocka_unit_test(one_by_one), cmocka_unit_test(equal_hashes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
