/* devices.split = "tensor": every device has a share of each layer, and the results have the bytes of one
 * device, whatever the number of devices, the batch and the chunks, for logits and for text. What cannot be
 * divided is refused by name. */
#include "engine_harness.h"
#include "peer_models.h"

#include "engine/engine.h"
#include "graph/share.h"

#define N_IDS 77

static const char *const uses[] = {"devices.use=cpu:0", "devices.use=cpu:0,cpu:1",
                                   "devices.use=cpu:1,cpu:0,cpu:5", "devices.use=cpu:0,cpu:1,cpu:2,cpu:3"};

static bool here(const char *model) {
    if (access(model, R_OK) == 0)
        return true;
    assert_true(strncmp(model, "../shared", 9) == 0); /* the demo model is always there */
    assert_null(getenv("STATOR_TEST_REQUIRE"));
    print_message("skipped %s: absent\n", model);
    return false;
}

static void make_ids(int32_t *ids, size_t n) {
    uint64_t random = 11;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)testing_below(&random, 512);
}

/* Logits with the settings, compared with those of one device. */
static void compare(const char *model, const char *const *sets, const int32_t *ids, const float *expected) {
    stator *s = harness_start(model, sets);
    const size_t bytes = N_IDS * harness_vocab(s) * sizeof(float);
    float *got = harness_logits(s, ids, N_IDS);
    stator_close(s);
    if (memcmp(got, expected, bytes) != 0)
        fail_msg("%s: logits differ with %s %s %s", model, sets[0], sets[1], sets[2]);
    free(got);
}

#define ORACLE(name) "../shared/oracles/models/" name ".gguf"
/* Dense models: GQA, biases, norms of heads, norms behind, fused tensors, windows, K types, a tied output.
 * Experts: with biases, shared ones with and without a gate, chosen by softmax or sigmoid. */
static const char *const models[] = {"configs/demo.gguf",
                                     ORACLE("llama-tied"),
                                     ORACLE("llama-mlpbias"),
                                     ORACLE("qwen2"),
                                     ORACLE("qwen3"),
                                     ORACLE("gemma2"),
                                     ORACLE("gemma3"),
                                     ORACLE("gemma4"),
                                     ORACLE("phi3"),
                                     ORACLE("phi3-window"),
                                     ORACLE("glm4"),
                                     ORACLE("exaone4"),
                                     ORACLE("cohere2"),
                                     ORACLE("granite"),
                                     ORACLE("smollm3"),
                                     ORACLE("ministral3"),
                                     ORACLE("seed-oss"),
                                     ORACLE("quant-q4_k"),
                                     ORACLE("quant-q6_k"),
                                     ORACLE("quant-q8_0"),
                                     ORACLE("quant-iq4_xs"),
                                     ORACLE("quant-q5_1"),
                                     ORACLE("mixtral"),
                                     ORACLE("qwen2moe"),
                                     ORACLE("qwen3moe"),
                                     ORACLE("gpt-oss"),
                                     ORACLE("granitemoe-shared"),
                                     ORACLE("glm4moe-air-nextn"),
                                     ORACLE("lfm2"),
                                     ORACLE("lfm2moe"),
                                     ORACLE("olmo2"),
                                     ORACLE("olmo3-attnfactor"),
                                     ORACLE("qwen35"),
                                     ORACLE("qwen35moe"),
                                     ORACLE("qwen3next")};
static const char *const batches[] = {"memory.batch=1", "memory.batch=7", "memory.batch=64",
                                      "memory.batch=512"};
static const char *const rows[] = {"memory.logits_rows=1", "memory.logits_rows=5"};

static void logits(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        if (!here(models[m]))
            continue;
        const char *plain[] = {"cpu.threads=2", "memory.context=128", NULL};
        stator *s = harness_start(models[m], plain);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        for (size_t devices = 2; devices <= 4; devices++) {
            for (size_t b = (m + devices) % 2; b < 4; b += 2) {
                const char *sets[] = {uses[devices - 1],
                                      "devices.split=tensor",
                                      batches[b],
                                      rows[b == 0 ? 0 : (b + devices) % 2],
                                      "cpu.threads=2",
                                      "memory.context=128",
                                      NULL};
                compare(models[m], sets, ids, expected);
            }
        }
        free(expected);
    }
}

#define SIX   "devices.use=cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5"
#define EIGHT "devices.use=cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7"

/* Groups of devices, each with some of the layers, which its devices divide. */
static void groups(void **state) {
    (void)state;
    static const char *const splits[][3] = {
        {"devices.use=cpu:0,cpu:1,cpu:2,cpu:3", "devices.split=tensor", "devices.groups=2"},
        {"devices.use=cpu:3,cpu:1,cpu:0,cpu:2", "devices.split=tensor:3,1,1,2", "devices.groups=1,2"},
        {SIX, "devices.split=tensor", "devices.groups=2"},
        {SIX, "devices.split=tensor:1,9,2,2,1,1", "devices.groups=2,1"},
        {EIGHT, "devices.split=tensor", "devices.groups=4"},
        {EIGHT, "devices.split=tensor:1,1,2,1,1,1,3,1", "devices.groups=1,4,2,1"}};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        if (!here(models[m]))
            continue;
        const char *plain[] = {"cpu.threads=2", "memory.context=128", NULL};
        stator *s = harness_start(models[m], plain);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        const size_t n = m == 0 ? 6 : 4; /* the others have too few layers */
        for (size_t i = m == 0 ? 0 : m % 2; i < n; i += m == 0 ? 1 : 2) {
            const size_t b = (m / 2 + i) % 4;
            const char *sets[] = {
                splits[i][0],    splits[i][1],         splits[i][2], batches[b], rows[b == 0 ? 0 : i % 2],
                "cpu.threads=2", "memory.context=128", NULL};
            compare(models[m], sets, ids, expected);
        }
        free(expected);
    }
}

/* More devices than heads. */
static void many(void **state) {
    (void)state;
    static const char *const few[] = {"configs/demo.gguf", ORACLE("glm4"), ORACLE("gemma4")};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t m = 0; m < sizeof few / sizeof few[0]; m++) {
        const char *plain[] = {"cpu.threads=2", "memory.context=128", NULL};
        const char *sets[] = {EIGHT,           "devices.split=tensor", "memory.batch=16",
                              "cpu.threads=2", "memory.context=128",   NULL};
        if (!here(few[m]))
            continue;
        stator *s = harness_start(few[m], plain);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        compare(few[m], sets, ids, expected);
        free(expected);
    }
}

/* False: the model has an op that is not divided yet, and is refused for it. */
static bool divides(const char *model, const char *const *sets, size_t n_sets) {
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = n_sets};
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_plan(s, &e);
    stator_close(s);
    assert_true(st == STATOR_OK || (st == STATOR_USAGE && strstr(e.text, "devices.split") != NULL) ||
                (st == STATOR_USAGE && strstr(e.text, "2 groups of devices are too many") != NULL));
    return st == STATOR_OK;
}

/* A small model of every architecture, of odd shapes: in F32, and in Q8_0 with uneven shares. */
static void architectures(void **state) {
    (void)state;
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    size_t in_groups = 0;
    for (size_t i = 0; i < 2 * (size_t)PEER_MODELS; i++) {
        const struct peer_model *m = &peer_models[i / 2];
        if (m->pooling != 0)
            continue; /* it gives vectors, and no logits */
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = gguf_writer_new();
        peer_model_write(&w, m, i % 2 == 0 || m->nope % 32 != 0 ? BLOCK_F32 : BLOCK_Q8_0);
        gguf_writer_finish(&w);
        assert_non_null(gguf_writer_memory_path(&w, path));
        const char *plain[] = {"cpu.threads=2", "memory.context=96", NULL};
        const char *sets[] = {i % 2 == 0 ? "devices.use=cpu:0,cpu:1" : "devices.use=cpu:0,cpu:1,cpu:2",
                              i % 2 == 0 ? "devices.split=tensor" : "devices.split=tensor:1,3,2",
                              "memory.batch=24",
                              "cpu.threads=2",
                              "memory.context=96",
                              NULL};
        const char *grouped[] = {uses[3],
                                 i % 2 == 0 ? "devices.split=tensor" : "devices.split=tensor:1,3,2,2",
                                 "memory.batch=24",
                                 "cpu.threads=2",
                                 "memory.context=96",
                                 "devices.groups=2",
                                 NULL};
        if (!divides(path, sets, 5)) {
            gguf_writer_free(&w);
            continue;
        }
        stator *s = harness_start(path, plain);
        for (size_t k = 0; k < N_IDS; k++)
            ids[k] %= (int32_t)harness_vocab(s);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        compare(path, sets, ids, expected);
        if (divides(path, grouped, 6)) { /* not if all layers must be together */
            compare(path, grouped, ids, expected);
            in_groups++;
        }
        free(expected);
        gguf_writer_free(&w);
    }
    assert_true(in_groups > 40);
}

/* Shares in proportions; also such that leave a device the least that it can have. */
static void uneven(void **state) {
    (void)state;
    static const char *const some[] = {"configs/demo.gguf", ORACLE("quant-q4_k"), ORACLE("mixtral"),
                                       ORACLE("qwen3next")};
    static const char *const splits[][2] = {{"devices.use=cpu:0,cpu:1", "devices.split=tensor:3,1"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=tensor:1,999999"},
                                            {"devices.use=cpu:0,cpu:1,cpu:2", "devices.split=tensor:2,1,3"}};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t m = 0; m < sizeof some / sizeof some[0]; m++) {
        const char *plain[] = {"cpu.threads=2", "memory.context=128", NULL};
        if (!here(some[m]))
            continue;
        stator *s = harness_start(some[m], plain);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
            const char *sets[] = {splits[i][0],    splits[i][1],         "memory.batch=32",
                                  "cpu.threads=2", "memory.context=128", NULL};
            compare(some[m], sets, ids, expected);
        }
        free(expected);
    }
}

/* Every type of K and V, as many threads as there are or one, and every instruction set. */
static void kinds(void **state) {
    (void)state;
    static const char *const more[][2] = {{"memory.kv_type=f32", "cpu.threads=1"},
                                          {"memory.kv_type=q8_0", "cpu.threads=2"},
                                          {"memory.kv_type=q4_0", "cpu.threads=3"},
                                          {"cpu.tier=scalar", "cpu.threads=2"}};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        const char *plain[] = {more[i][0], more[i][1], NULL};
        const char *sets[] = {"devices.use=cpu:0,cpu:1,cpu:2",
                              "devices.split=tensor",
                              more[i][0],
                              more[i][1],
                              "memory.batch=16",
                              NULL};
        stator *s = harness_start("configs/demo.gguf", plain);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        compare("configs/demo.gguf", sets, ids, expected);
        free(expected);
    }
}

/* Bytes that the first device gets for a token; *attention, *inner: the forms in which a layer's heads and
 * the inside of its feed-forward go. */
static uint64_t received(const stator *s, uint32_t *attention, uint32_t *inner) {
    const struct graph *g = &s->planning.devices[0].graph;
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_EXCHANGED && strstr(g->values[g->ops[i].out].name, "attn") != NULL)
            *attention = g->ops[i].exchanged.int8;
        else if (g->ops[i].kind == GRAPH_EXCHANGED && strstr(g->values[g->ops[i].out].name, "_h") != NULL)
            *inner = g->ops[i].exchanged.int8;
    return share_received(g);
}

/* What the next product reads goes as int8, unless shares cut values with one scale: 256 values of 292 bytes,
 * or 32 of 38, instead of 4 bytes each. Of a layer's 512 heads' values and 1,024 values inside the
 * feed-forward the other device has half; beside them go 2 x 128 floats of its residual stream, and once 256
 * of the embedding. */
static void int8(void **state) {
    (void)state;
    static const struct {
        const char *split;
        uint32_t type, attention, inner;
        uint64_t bytes;
    } cases[] = {
        {"devices.split=tensor", BLOCK_Q4_K, GRAPH_I8_256, GRAPH_I8_256, 1024 + 2 * (1024 + 3 * 292)},
        {"devices.split=tensor", BLOCK_Q5_1, GRAPH_I8_32, GRAPH_I8_32, 1024 + 2 * (1024 + 24 * 38)},
        {"devices.split=tensor", BLOCK_F16, 0, 0, 1024 + 2 * (1024 + 768 * 4)},
        {"devices.split=tensor:1,3", BLOCK_Q6_K, 0, GRAPH_I8_256,
         1024 + 2 * (2 * 192 * 4 + 384 * 4 + 3 * 292)},
        {"devices.split=tensor:3,5", BLOCK_Q4_K, GRAPH_I8_256, 0, 0},
        {"devices.split=tensor:3,5", BLOCK_Q8_0, GRAPH_I8_32, GRAPH_I8_32, 0}};
    int32_t ids[N_IDS];
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(i * 37 % 130);
    for (size_t i = 0; i < PEER_WIDE * sizeof cases / sizeof cases[0]; i++) {
        const size_t c = i / PEER_WIDE;
        const struct peer_model m = peer_wide(i % PEER_WIDE);
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = gguf_writer_new();
        peer_model_write(&w, &m, cases[c].type);
        gguf_writer_finish(&w);
        assert_non_null(gguf_writer_memory_path(&w, path));
        const char *plain[] = {"cpu.threads=2", "memory.context=96", NULL};
        stator *s = harness_start(path, plain);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        for (size_t b = 0; b < 2; b++) {
            const char *sets[] = {
                uses[1],         cases[c].split,      b == 0 ? "memory.batch=1" : "memory.batch=64",
                "cpu.threads=2", "memory.context=96", NULL};
            compare(path, sets, ids, expected);
        }
        const char *sets[] = {uses[1], cases[c].split, "memory.context=96", NULL};
        s = harness_start(path, sets);
        uint32_t attention = 99, inner = 99;
        const uint64_t bytes = received(s, &attention, &inner);
        stator_close(s);
        assert_int_equal(attention, cases[c].attention);
        assert_int_equal(inner, cases[c].inner);
        if (cases[c].bytes > 0 && i % PEER_WIDE == 0)
            assert_int_equal(bytes, cases[c].bytes);
        gguf_writer_free(&w);
        free(expected);
    }
}

/* Texts of several requests, sampled ones too, that begin alike and come twice: with caches of every kind,
 * shared beginnings, checkpoints and n-gram speculation. */
static void texts_of(const char *model) {
    enum { REQUESTS = 6 };
    int32_t ids[64];
    make_ids(ids, 64);
    static struct harness_text expected[2 * REQUESTS], got[2 * REQUESTS];
    for (size_t devices = 1; devices <= 6; devices++) {
        const bool grouped = devices > 4; /* four devices in two groups */
        const char *sets[] = {uses[grouped ? 3 : devices - 1],
                              devices > 1 ? "devices.split=tensor" : "devices.split=auto",
                              "memory.context=256",
                              "memory.sequences=3",
                              "memory.batch=16",
                              "cpu.threads=2",
                              devices % 2 == 0 ? "server.checkpoints=4" : "server.checkpoints=0",
                              devices % 3 == 0 ? "speculation.mode=ngram" : "speculation.mode=off",
                              grouped ? "devices.groups=2" : "devices.groups=1",
                              NULL};
        memset(got, 0, sizeof got);
        stator *s = harness_start(model, sets);
        for (uint32_t turn = 0; turn < 2; turn++) {
            for (uint32_t i = 0; i < REQUESTS; i++)
                got[turn * REQUESTS + i].id =
                    harness_submit(s, ids, 3 + 9 * i, 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
            harness_collect(s, got + turn * REQUESTS, REQUESTS);
        }
        stator_close(s);
        for (uint32_t i = 0; i < 2 * REQUESTS; i++) {
            assert_int_equal(got[i].n, 20 + i % REQUESTS);
            if (devices == 1)
                expected[i] = got[i];
            if (memcmp(got[i].ids, expected[i].ids, got[i].n * sizeof(int32_t)) != 0)
                fail_msg("%s: text %u differs in run %zu", model, i, devices);
        }
    }
}

static void texts(void **state) {
    (void)state;
    static const char *const some[] = {"configs/demo.gguf", ORACLE("gemma3"), ORACLE("gpt-oss"),
                                       ORACLE("qwen35")};
    for (size_t m = 0; m < sizeof some / sizeof some[0]; m++)
        if (here(some[m]))
            texts_of(some[m]);
}

static void refuse(const char *model, const char *const *sets, size_t n_sets, const char *text) {
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = n_sets};
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_plan(s, &e);
    if (st != STATOR_USAGE || strstr(e.text, text) == NULL)
        fail_msg("%s: %s: %d, %s", model, sets[0], (int)st, e.text);
    stator_close(s);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        const char *model;
        const char *sets[2]; /* the second one may take "tensor" back */
        const char *text;
    } cases[] = {
        {"configs/demo.gguf", {"devices.use=cpu:0", "transfer.mode=auto"}, "two devices or more"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1", "devices.split=tensor:1"}, "differ in length"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1", "devices.split=tensor:1,0"}, "devices.split"},
        {"configs/demo.gguf", {"devices.use=auto", "transfer.mode=auto"}, "two devices or more"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1", "transfer.mode=staged"}, "transfer.mode"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1", "speculation.mode=mtp"}, "speculation.mode"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1,cpu:2", "devices.groups=2"}, "groups of one size"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1", "devices.groups=2"}, "of two devices or more"},
        {"configs/demo.gguf", {"devices.use=cpu:0,cpu:1", "devices.groups=1,0"}, "whole number from 1"},
        {"configs/demo.gguf", {"devices.split=auto", "devices.groups=2"}, "devices.split"},
        {ORACLE("quant-q4_k"),
         {SIX, "devices.groups=3"},
         "3 groups of devices are too many for the 2 layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *sets[] = {"devices.split=tensor", cases[i].sets[0], cases[i].sets[1]};
        if (here(cases[i].model))
            refuse(cases[i].model, sets, 3, cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits), cmocka_unit_test(architectures), cmocka_unit_test(many),
        cmocka_unit_test(groups), cmocka_unit_test(uneven),        cmocka_unit_test(kinds),
        cmocka_unit_test(int8),   cmocka_unit_test(texts),         cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
