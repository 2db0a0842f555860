/* One numerics, end to end: threads, tiers, prompt chunking, logits rows and neighbours in the batch change
 * no bit. */
#include "engine_harness.h"

#include "kernels/kernels.h"

static const char *const models[] = {"../shared/oracles/models/llama-tied.gguf",
                                     "../shared/oracles/models/qwen3.gguf",
                                     "../shared/oracles/models/quant-q4_k.gguf",
                                     "../shared/oracles/models/quant-q8_0.gguf",
                                     "../shared/oracles/models/quant-q5_1.gguf",
                                     "../shared/oracles/models/qwen35.gguf",
                                     "../shared/oracles/models/qwen35moe.gguf",
                                     "../shared/oracles/models/gpt-oss.gguf",
                                     "configs/demo.gguf"};
#define N_MODELS (sizeof models / sizeof models[0])
#define N_IDS    77

static bool here(const char *model) {
    if (access(model, R_OK) == 0)
        return true;
    assert_true(strncmp(model, "../shared", 9) == 0); /* the demo model is always there */
    assert_null(getenv("STATOR_TEST_REQUIRE"));
    print_message("skipped %s: absent\n", model);
    return false;
}

static void make_ids(int32_t *ids, size_t n) {
    uint64_t random = 7;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)testing_below(&random, 512);
}

/* The logits with each of the settings are those with none. */
static void same_logits(const char *const *settings, size_t n_settings) {
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t m = 0; m < N_MODELS; m++) {
        if (!here(models[m]))
            continue;
        const char *plain[] = {"cpu.threads=2", "memory.batch=64", "memory.logits_rows=8", NULL};
        stator *s = harness_start(models[m], plain);
        size_t bytes = N_IDS * harness_vocab(s) * sizeof(float);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        for (size_t i = 0; i < n_settings; i++) {
            const char *sets[] = {"cpu.threads=2", "memory.batch=64", "memory.logits_rows=1", settings[i],
                                  NULL};
            s = harness_start(models[m], sets);
            float *got = harness_logits(s, ids, N_IDS);
            stator_close(s);
            if (memcmp(got, expected, bytes) != 0)
                fail_msg("%s: logits differ with %s", models[m], settings[i]);
            free(got);
        }
        free(expected);
    }
}

static void threads(void **state) {
    (void)state;
    const char *const settings[] = {"cpu.threads=1", "cpu.threads=3", "cpu.threads=5"};
    same_logits(settings, 3);
}

/* One token far into a sequence, the last chunk: its 3 splits of 2 KV heads are shared out, also to more
 * threads than they are. */
static void splits_and_threads(void **state) {
    (void)state;
    enum { FAR = 2 * KERNELS_SPLIT + 41 };
    _Static_assert(FAR - 1 == 552, "memory.batch leaves one token");
    int32_t ids[FAR];
    make_ids(ids, FAR);
    const char *const settings[] = {"cpu.threads=1", "cpu.threads=3", "cpu.threads=7", "cpu.threads=16"};
    float *expected = NULL;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *sets[] = {settings[i], "memory.batch=552", "memory.logits_rows=8", "memory.context=1024",
                              NULL};
        stator *s = harness_start("configs/demo.gguf", sets);
        size_t bytes = FAR * harness_vocab(s) * sizeof(float);
        float *got = harness_logits(s, ids, FAR);
        stator_close(s);
        if (expected != NULL && memcmp(got, expected, bytes) != 0)
            fail_msg("logits differ with %s", settings[i]);
        if (expected != NULL)
            free(got);
        else
            expected = got;
    }
    free(expected);
}

static void chunking(void **state) {
    (void)state;
    const char *const settings[] = {"memory.batch=1", "memory.batch=7", "memory.batch=32",
                                    "memory.batch=512"};
    same_logits(settings, 4);
}

/* Every pair of KV types, in all tiers, with other threads and chunks; and each pair is its own. */
static void kv_types(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "q8_0", "q4_0"};
    const char *const settings[] = {"cpu.tier=scalar", "cpu.tier=auto"};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    float *all[16];
    size_t bytes = 0;
    for (size_t pair = 0; pair < 16; pair++) {
        char k[32];
        char v[32];
        snprintf(k, sizeof k, "memory.kv_type_k=%s", types[pair / 4]);
        snprintf(v, sizeof v, "memory.kv_type_v=%s", types[pair % 4]);
        const char *plain[] = {k, v, "cpu.threads=2", "memory.batch=64", NULL};
        stator *s = harness_start("configs/demo.gguf", plain);
        bytes = N_IDS * harness_vocab(s) * sizeof(float);
        all[pair] = harness_logits(s, ids, N_IDS);
        stator_close(s);
        for (size_t i = 0; i < 2; i++) {
            const char *sets[] = {
                k, v, "cpu.threads=3", i == 0 ? "memory.batch=7" : "memory.batch=1", settings[i], NULL};
            s = harness_start("configs/demo.gguf", sets);
            float *got = harness_logits(s, ids, N_IDS);
            stator_close(s);
            if (memcmp(got, all[pair], bytes) != 0)
                fail_msg("logits differ with %s, %s, %s, %s", k, v, sets[3], sets[4]);
            free(got);
        }
        for (size_t other = 0; other < pair; other++)
            assert_int_not_equal(memcmp(all[other], all[pair], bytes), 0);
    }
    for (size_t pair = 0; pair < 16; pair++)
        free(all[pair]);
}

static void tiers(void **state) {
    (void)state;
    char text[KERNELS_TIERS][32];
    const char *settings[KERNELS_TIERS];
    size_t n = 0;
    for (; n < (size_t)kernels_best_tier(); n++) { /* the best is what they are compared with */
        snprintf(text[n], sizeof text[n], "cpu.tier=%s", kernels_tier_name((enum kernels_tier)n));
        settings[n] = text[n];
    }
    same_logits(settings, n);
}

/* Several requests at once give each the text that it gets alone, sampled ones too. */
static void neighbours(void **state) {
    (void)state;
    enum { REQUESTS = 7 };
    const char *model = "configs/demo.gguf";
    int32_t ids[64];
    make_ids(ids, 64);
    struct harness_text alone[REQUESTS];
    struct harness_text together[REQUESTS];
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    const char *one[] = {"memory.context=256", NULL};
    const char *many[] = {"memory.context=256", "memory.sequences=3", "memory.batch=16",
                          "memory.logits_rows=2", NULL};
    stator *s = harness_start(model, one);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        alone[i].id = harness_submit(s, ids + i, 3 + 8 * i, 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
        harness_collect(s, &alone[i], 1);
    }
    stator_close(s);
    s = harness_start(model, many);
    for (uint32_t i = 0; i < REQUESTS; i++)
        together[i].id = harness_submit(s, ids + i, 3 + 8 * i, 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
    harness_collect(s, together, REQUESTS);
    stator_close(s);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(alone[i].n, 20 + i);
        assert_int_equal(together[i].n, alone[i].n);
        assert_memory_equal(together[i].ids, alone[i].ids, alone[i].n * sizeof(int32_t));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads),  cmocka_unit_test(splits_and_threads),
                                       cmocka_unit_test(chunking), cmocka_unit_test(tiers),
                                       cmocka_unit_test(kv_types), cmocka_unit_test(neighbours)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
