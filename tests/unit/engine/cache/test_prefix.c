/* Prefixes that are not computed again: the bytes of every answer are those of a fresh computation. */
#include "experts_model.h"
#include "prefix_play.h"

#define DEMO "configs/demo.gguf"

static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                    "cpu.threads=2", NULL};

/* Two devices, types of the cache, batches that are no whole blocks, with room for three sequences. */
static void conversations(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"devices.use=cpu:0", "memory.kv_type=f16", "memory.batch=512"},
        {"devices.use=cpu:0", "memory.kv_type=q8_0", "memory.batch=40"},
        {"devices.use=cpu:0,cpu:1", "memory.kv_type=f16", "memory.batch=100"},
        {"devices.use=cpu:0,cpu:1,cpu:2", "memory.kv_type=q8_0", "memory.batch=70"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *sets[] = {cases[i][0],          cases[i][1],     cases[i][2], "memory.context=256",
                              "memory.sequences=3", "cpu.threads=2", NULL};
        const char *alone[] = {plain[0], plain[1], plain[2], plain[3], cases[i][1], NULL};
        struct prefix_play p;
        uint64_t cached = prefix_play(cases[i][0], DEMO, sets, alone, 30, &p);
        assert_true(cached > 2000);
        assert_true(p.stats.prefix_hits > 25 && p.stats.blocks_evicted > 30 && p.stats.blocks_cached > 0);
    }
}

/* One sequence: what it leaves is all that the next one finds, and it needs the memory itself. */
static void pressure(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=256", "memory.batch=50", "cpu.threads=2", NULL};
    struct prefix_play p;
    assert_true(prefix_play("pressure", DEMO, sets, plain, 30, &p) > 500);
    assert_true(p.stats.blocks_evicted > 100);
}

static void with_experts(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    experts_model_write(&w, experts_model_small());
    gguf_writer_finish(&w);
    const char *sets[] = {"memory.context=256", "memory.batch=45", "memory.sequences=4", "cpu.threads=2",
                          NULL};
    struct prefix_play p;
    assert_true(prefix_play("experts", gguf_writer_memory_path(&w, path), sets, plain, 30, &p) > 500);
    gguf_writer_free(&w);
}

static stator_stats stats_of(stator *s) {
    stator_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_stats(s, &t, NULL), STATOR_OK);
    return t;
}

/* Four answers to one prompt compute it once, also in one step; and a fifth later. */
static void answers(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"devices.use=cpu:0", "memory.batch=512"},
                                           {"devices.use=cpu:0", "memory.batch=50"},
                                           {"devices.use=cpu:0,cpu:1", "memory.batch=512"},
                                           {"devices.use=cpu:0,cpu:1", "memory.batch=40"}};
    struct prefix_play_request *r = calloc(5, sizeof *r);
    assert_non_null(r);
    uint64_t random = 3;
    for (uint32_t i = 0; i < 150; i++)
        r[0].prompt[i] = (int32_t)testing_below(&random, 2048);
    for (uint32_t i = 0; i < 5; i++) {
        memcpy(r[i].prompt, r[0].prompt, sizeof r[i].prompt);
        r[i].n_prompt = 150;
        r[i].max_new = 40;
        r[i].seed = i;
    }
    struct prefix_play_request *want = calloc(1, sizeof *want);
    assert_non_null(want);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const char *sets[] = {cases[c][0],          cases[c][1],     "memory.context=256",
                              "memory.sequences=4", "cpu.threads=2", NULL};
        stator *s = harness_start(DEMO, sets);
        for (uint32_t i = 0; i < 4; i++)
            prefix_play_submit(s, &r[i]);
        prefix_play_collect(s, r, 4);
        /* 4 full blocks of 32 once, and 22 tokens behind them four times. */
        uint32_t cached = 0;
        for (uint32_t i = 0; i < 4; i++)
            cached += r[i].n_cached;
        assert_in_range(cached, 3 * 128 - 2 * 32, 3 * 128); /* parts of blocks, where chunks end in them */
        assert_int_equal(stats_of(s).tokens_in, 4 * 150 - cached);
        prefix_play_submit(s, &r[4]);
        prefix_play_collect(s, &r[4], 1);
        assert_int_equal(r[4].n_cached, 128);
        assert_int_equal(stats_of(s).tokens_in, 5 * 150 - cached - 128);
        stator_close(s);
        s = harness_start(DEMO, plain);
        for (uint32_t i = 0; i < 5; i++) {
            *want = r[i];
            prefix_play_submit(s, want);
            prefix_play_collect(s, want, 1);
            assert_int_equal(want->n_cached, 0);
            assert_int_equal(want->n, 40);
            assert_memory_equal(want->told, r[i].told, 40 * sizeof *want->told);
        }
        stator_close(s);
    }
    free(want);
    free(r);
}

/* A conversation goes on where it ended, whatever another one has done between; benchmarks and readers of
 * logits compute everything. */
static void turns(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=256", "memory.batch=64", "cpu.threads=2", NULL};
    stator *s = harness_start(DEMO, sets);
    struct prefix_play_request *r = calloc(3, sizeof *r);
    assert_non_null(r);
    for (uint32_t i = 0; i < 64; i++) {
        r[0].prompt[i] = (int32_t)(i + 5);
        r[1].prompt[i] = (int32_t)(i + 6);
    }
    r[0].n_prompt = r[1].n_prompt = 64;
    r[0].max_new = r[1].max_new = 34;
    for (uint32_t i = 0; i < 2; i++) {
        prefix_play_submit(s, &r[i]);
        prefix_play_collect(s, &r[i], 1);
        assert_int_equal(r[i].n_cached, 0);
    }
    assert_int_equal(stats_of(s).blocks_cached, 6);
    prefix_play_submit(s, &r[0]); /* the same: its last token is computed, and with it its block */
    prefix_play_collect(s, &r[0], 1);
    assert_int_equal(r[0].n_cached, 32);
    r[2] = r[0];
    for (uint32_t i = 0; i < 34; i++)
        r[2].prompt[64 + i] = r[0].told[i].token;
    r[2].n_prompt = 98;
    prefix_play_submit(s, &r[2]);
    prefix_play_collect(s, &r[2], 1);
    assert_int_equal(r[2].n_cached, 96);
    uint64_t before = stats_of(s).tokens_in;
    float *logits = harness_logits(s, r[2].prompt, 98);
    assert_int_equal(stats_of(s).tokens_in, before + 98);
    free(logits);
    stator_close(s);
    free(r);
}

/* The blocks of running requests, shared and their own, cached ones and free ones. */
static void blocks(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=128", "memory.batch=64", "memory.sequences=3", "cpu.threads=2",
                          NULL};
    stator_error error, *e = &error;
    stator *s = harness_start(DEMO, sets);
    stator_cache cache = {.size = sizeof cache};
    int have = 0;
    assert_int_equal(stator_get_cache(s, 0, &cache, &have, NULL), STATOR_OK);
    assert_true(have == 1 && cache.blocks == 12 && cache.block_tokens == 32);
    assert_string_equal(cache.kind, "paged");
    stator_memory_row row = {.size = sizeof row};
    for (size_t i = 0; strcmp(row.arena, "kv") != 0; i++)
        assert_int_equal(stator_get_memory(s, i, &row, &have, NULL), STATOR_OK);
    assert_int_equal(row.planned, cache.blocks * cache.block_bytes);
    assert_int_equal(stator_get_cache(s, 1, &cache, &have, NULL), STATOR_OK);
    assert_int_equal(have, 0);
    struct prefix_play_request *r = calloc(3, sizeof *r);
    assert_non_null(r);
    uint64_t random = 3;
    for (uint32_t i = 0; i < 3; i++) {
        r[i].n_prompt = 70;
        r[i].max_new = i == 0 ? 1 : 50;
        for (uint32_t k = 0; k < 70; k++)
            r[i].prompt[k] = i == 2 ? r[1].prompt[k] : (int32_t)testing_below(&random, 2048);
    }
    stator_block b[12];
    size_t n = 0;
    prefix_play_submit(s, &r[0]);
    prefix_play_collect(s, &r[0], 1);
    for (uint32_t i = 1; i < 3; i++) {
        prefix_play_submit(s, &r[i]);
        assert_int_equal(stator_hold(s, r[i].id, 1, NULL), STATOR_OK);
    }
    /* 2 blocks are cached, 2 shared, and each has 2 more, as its 50 tokens have come. */
    for (stator_request_stats q[2] = {{.n_generated = 0}}; q[0].n_generated + q[1].n_generated < 100;)
        for (uint32_t i = 0; i < 2; i++) {
            q[i].size = sizeof q[i];
            assert_int_equal(stator_get_request(s, r[i + 1].id, &q[i], NULL), STATOR_OK);
        }
    assert_int_equal(stator_get_blocks(s, 0, 0, b, 12, &n, NULL), STATOR_OK);
    assert_int_equal(n, 12);
    uint32_t states[3] = {0};
    for (uint32_t i = 0; i < 12; i++) {
        states[b[i].state]++;
        assert_int_equal(b[i].state == STATOR_BLOCK_HELD, b[i].holders > 0);
        assert_int_equal(b[i].state == STATOR_BLOCK_HELD, b[i].request == r[1].id || b[i].request == r[2].id);
    }
    assert_true(states[STATOR_BLOCK_FREE] >= 4 && states[STATOR_BLOCK_CACHED] >= 2);
    assert_int_equal(stator_get_blocks(s, 0, 10, b + 5, 7, &n, NULL), STATOR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(stator_get_blocks(s, 0, 12, b, 12, &n, NULL), STATOR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(stator_get_blocks(s, 0, SIZE_MAX, NULL, 0, &n, NULL), STATOR_OK);
    assert_int_equal(stator_get_blocks(s, 1, 0, b, 12, &n, e), STATOR_USAGE);
    assert_non_null(strstr(error.text, "there is no cache 1"));
    for (uint32_t i = 1; i < 3; i++)
        assert_int_equal(stator_hold(s, r[i].id, 0, NULL), STATOR_OK);
    prefix_play_collect(s, r + 1, 2);
    stator_close(s);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(turns),    cmocka_unit_test(answers),
                                       cmocka_unit_test(blocks),   cmocka_unit_test(conversations),
                                       cmocka_unit_test(pressure), cmocka_unit_test(with_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
