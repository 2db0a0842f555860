/* Attention to blocks that an indexer chooses, in an engine: texts far longer than what a token attends to
 * have the same bits in chunks of any size, with every type of K and V, on any tier, divided by layers and
 * within layers; and with drafts and reused prefixes the answers of a fresh computation. */
#include "engine_harness.h"
#include "peer_models.h"
#include "prefix_play.h"

#include "kernels/kernels.h"

#define N_IDS 230

static const char *const names[] = {"qwen4exp-odd", "qwen4exp-blocks"};
#define NAMES (sizeof names / sizeof names[0])

struct model {
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    const char *use;
    uint32_t vocab;
};

static void make_model(struct model *m, const char *name, uint32_t type) {
    const struct peer_model *shape = peer_model_named(name);
    m->w = gguf_writer_new();
    peer_model_write(&m->w, shape, type);
    gguf_writer_finish(&m->w);
    m->use = gguf_writer_memory_path(&m->w, m->path);
    m->vocab = shape->vocab;
}

static float *logits_with(const struct model *m, const char *keys, const char *values, const char *other) {
    const char *sets[] = {
        "cpu.threads=2", "memory.context=256", "memory.sequences=1", keys, values, other, NULL};
    int32_t ids[N_IDS];
    uint64_t random = 5;
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)testing_below(&random, m->vocab);
    stator *s = harness_start(m->use, sets);
    float *rows = harness_logits(s, ids, N_IDS);
    stator_close(s);
    return rows;
}

static void same_bits(void **state) {
    (void)state;
    static const char *const types[][2] = {{"memory.kv_type_k=f32", "memory.kv_type_v=f32"},
                                           {"memory.kv_type_k=f16", "memory.kv_type_v=f16"},
                                           {"memory.kv_type_k=q8_0", "memory.kv_type_v=q4_0"}};
    const char *const others[] = {"memory.batch=1",
                                  "memory.batch=6",
                                  "memory.batch=33",
                                  "memory.batch=512",
                                  "cpu.threads=5",
                                  "cpu.tier=scalar",
                                  kernels_best_tier() >= KERNELS_TIER_AVX2 ? "cpu.tier=avx2"
                                                                           : "cpu.threads=1",
                                  "devices.use=cpu:0,cpu:1"};
    for (size_t n = 0; n < NAMES; n++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            struct model m;
            make_model(&m, names[n], BLOCK_Q8_0);
            float *want = logits_with(&m, types[t][0], types[t][1], "memory.batch=64");
            for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
                float *got = logits_with(&m, types[t][0], types[t][1], others[i]);
                if (memcmp(got, want, N_IDS * m.vocab * sizeof *got) != 0)
                    fail_msg("%s, %s: logits differ with %s", names[n], types[t][0], others[i]);
                free(got);
            }
            free(want);
            gguf_writer_free(&m.w);
        }
}

/* Each device computes the indexer, and attends with its own heads. */
static void divided_layers(void **state) {
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        struct model m;
        make_model(&m, names[n], BLOCK_Q8_0);
        float *want = logits_with(&m, "memory.batch=64", "cpu.threads=2", "cpu.threads=2");
        float *got = logits_with(&m, "memory.batch=64", "devices.use=cpu:0,cpu:1", "devices.split=tensor");
        assert_memory_equal(got, want, N_IDS * m.vocab * sizeof *got);
        free(got);
        free(want);
        gguf_writer_free(&m.w);
    }
}

/* Answers of three tokens alone, so that they repeat themselves; with drafts many of these are taken back. */
static void answer(const struct model *m, const char *const *sets, struct harness_text texts[3],
                   stator_stats *stats) {
    stator *s = harness_start(m->use, sets);
    memset(texts, 0, 3 * sizeof *texts);
    for (uint32_t i = 0; i < 3; i++) {
        const stator_logit_bias few[] = {{11, 100}, {12, 100}, {13, 100}};
        int32_t ids[150];
        for (uint32_t k = 0; k < 150; k++)
            ids[k] = 11 + (int32_t)(k % (2 + i) % 3);
        stator_request q = {
            .size = sizeof q, .tokens = ids, .n_tokens = 150 - i, .max_new = 90, .ignore_eos = 1};
        q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED,
                                       .temperature = 1.0f,
                                       .seed = i,
                                       .logit_bias = few,
                                       .n_logit_bias = 3};
        stator_error e = {0};
        if (stator_submit(s, &q, &texts[i].id, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        harness_collect(s, &texts[i], 1);
    }
    *stats = (stator_stats){.size = sizeof *stats};
    assert_int_equal(stator_get_stats(s, stats, NULL), STATOR_OK);
    stator_close(s);
}

/* Drafts that are taken back leave no block key behind. */
static void drafts(void **state) {
    (void)state;
    static const char *const plain[] = {"memory.context=256", "memory.batch=64", "cpu.threads=2", NULL};
    static const char *const sets[] = {"speculation.mode=ngram",
                                       "speculation.tokens=7",
                                       "memory.logits_rows=auto",
                                       "memory.context=256",
                                       "memory.batch=64",
                                       "cpu.threads=2",
                                       NULL};
    static struct harness_text want[3], got[3];
    for (size_t n = 0; n < NAMES; n++) {
        struct model m;
        stator_stats stats;
        make_model(&m, names[n], BLOCK_F32);
        answer(&m, plain, want, &stats);
        answer(&m, sets, got, &stats);
        if (stats.guessed[0] < 20 || stats.kept[0] >= stats.guessed[0])
            fail_msg("%s: %llu drafts, %llu kept", names[n], (unsigned long long)stats.guessed[0],
                     (unsigned long long)stats.kept[0]);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(got[i].n, want[i].n);
            assert_memory_equal(got[i].ids, want[i].ids, want[i].n * sizeof want[i].ids[0]);
        }
        gguf_writer_free(&m.w);
    }
}

/* What other requests have left is gone on from. */
static void prefixes(void **state) {
    (void)state;
    static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2", NULL};
    static const char *const sets[] = {"memory.batch=40",      "memory.sequences=3", "memory.context=256",
                                       "server.checkpoints=8", "cpu.threads=2",      NULL};
    for (size_t n = 0; n < NAMES; n++) {
        struct model m;
        struct prefix_play p;
        make_model(&m, names[n], BLOCK_F32);
        prefix_play_texts = 3;
        assert_true(prefix_play(names[n], m.use, sets, plain, 8, &p) > 0);
        gguf_writer_free(&m.w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(divided_layers),
                                       cmocka_unit_test(drafts), cmocka_unit_test(prefixes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
