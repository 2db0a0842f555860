/* One model over several CPU devices: the same bytes as on one, whatever the split, the route, the batch and
 * the chunks, for logits and for text. */
#include "engine_harness.h"
#include "peer_models.h"

#include "engine/engine.h"

static const char *const models[] = {
    "../shared/oracles/models/llama-tied.gguf", "../shared/oracles/models/qwen3.gguf",
    "../shared/oracles/models/qwen2.gguf",      "../shared/oracles/models/quant-q4_k.gguf",
    "../shared/oracles/models/quant-q8_0.gguf", "configs/demo.gguf"};
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
    uint64_t random = 11;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)testing_below(&random, 512);
}

static const char *const uses[] = {"devices.use=cpu:0", "devices.use=cpu:0,cpu:1",
                                   "devices.use=cpu:1,cpu:0,cpu:5", "devices.use=cpu:0,cpu:1,cpu:2,cpu:3"};

/* The demo model has eight layers; the oracles have fewer than four in some cases. */
static uint32_t layers(const char *model) {
    const char *one[] = {"memory.context=64", NULL};
    stator *s = harness_start(model, one);
    char *json = malloc(1 << 20);
    assert_non_null(json);
    size_t n = 0;
    assert_int_equal(stator_report_json(s, json, 1 << 20, &n, NULL), STATOR_OK);
    const char *at = strstr(json, "\"layers\": ");
    assert_non_null(at);
    uint32_t count = (uint32_t)strtoul(at + 10, NULL, 10);
    free(json);
    stator_close(s);
    return count;
}

static void logits(void **state) {
    (void)state;
    static const char *const batches[] = {"memory.batch=1", "memory.batch=7", "memory.batch=64",
                                          "memory.batch=512"};
    static const char *const rows[] = {"memory.logits_rows=1", "memory.logits_rows=5"};
    static const char *const modes[] = {"transfer.mode=auto", "transfer.mode=direct", "transfer.mode=staged"};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    size_t compared = 0;
    for (size_t m = 0; m < N_MODELS; m++) {
        if (!here(models[m]))
            continue;
        const char *plain[] = {"cpu.threads=2", NULL};
        uint32_t n_layers = layers(models[m]);
        stator *s = harness_start(models[m], plain);
        size_t bytes = N_IDS * harness_vocab(s) * sizeof(float);
        float *expected = harness_logits(s, ids, N_IDS);
        stator_close(s);
        for (size_t devices = 1; devices <= 4 && devices <= n_layers; devices++) {
            for (size_t b = 0; b < 4; b++) {
                const char *sets[] = {
                    uses[devices - 1],        batches[b],      rows[b == 0 ? 0 : (b + devices) % 2],
                    modes[(b + devices) % 3], "cpu.threads=2", NULL};
                s = harness_start(models[m], sets);
                float *got = harness_logits(s, ids, N_IDS);
                stator_close(s);
                if (memcmp(got, expected, bytes) != 0)
                    fail_msg("%s: logits differ with %s %s %s", models[m], sets[0], sets[1], sets[3]);
                free(got);
                compared++;
            }
        }
        free(expected);
    }
    assert_true(compared >= 16);
}

/* Every way to cut the eight layers of the demo model in two and some in three and four. */
static void splits(void **state) {
    (void)state;
    static const char *const shares[][2] = {{"devices.use=cpu:0,cpu:1", "devices.split=1,7"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=2,6"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=3,5"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=4,4"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=5,3"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=6,2"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=7,1"},
                                            {"devices.use=cpu:0,cpu:1", "devices.split=30,1"},
                                            {"devices.use=cpu:0,cpu:1,cpu:2", "devices.split=1,1,6"},
                                            {"devices.use=cpu:0,cpu:1,cpu:2", "devices.split=3,2,3"},
                                            {"devices.use=cpu:0,cpu:1,cpu:2,cpu:3", "devices.split=1,2,3,2"},
                                            {"devices.use=cpu:0,cpu:1,cpu:2,cpu:3", "devices.split=5,1,1,1"}};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS);
    const char *plain[] = {"cpu.threads=2", NULL};
    stator *s = harness_start("configs/demo.gguf", plain);
    size_t bytes = N_IDS * harness_vocab(s) * sizeof(float);
    float *expected = harness_logits(s, ids, N_IDS);
    stator_close(s);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        const char *sets[] = {shares[i][0], shares[i][1], "memory.batch=32", "cpu.threads=2", NULL};
        s = harness_start("configs/demo.gguf", sets);
        float *got = harness_logits(s, ids, N_IDS);
        stator_close(s);
        if (memcmp(got, expected, bytes) != 0)
            fail_msg("logits differ with %s %s", sets[0], sets[1]);
        free(got);
    }
    free(expected);
}

/* Texts of several requests, sampled ones too, and logits requests between them. */
static void texts(void **state) {
    (void)state;
    enum { REQUESTS = 6 };
    int32_t ids[64];
    make_ids(ids, 64);
    struct harness_text expected[REQUESTS];
    memset(expected, 0, sizeof expected);
    for (size_t devices = 1; devices <= 4; devices++) {
        const char *sets[] = {uses[devices - 1],
                              "memory.context=256",
                              "memory.sequences=3",
                              "memory.batch=16",
                              "memory.logits_rows=2",
                              "cpu.threads=2",
                              devices == 3 ? "transfer.mode=staged" : "transfer.mode=auto",
                              NULL};
        struct harness_text got[REQUESTS];
        memset(got, 0, sizeof got);
        stator *s = harness_start("configs/demo.gguf", sets);
        for (uint32_t i = 0; i < REQUESTS; i++)
            got[i].id = harness_submit(s, ids + i, 3 + 9 * i, 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
        harness_collect(s, got, REQUESTS);
        stator_close(s);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            assert_int_equal(got[i].n, 20 + i);
            if (devices == 1)
                expected[i] = got[i];
            assert_memory_equal(got[i].ids, expected[i].ids, got[i].n * sizeof(int32_t));
        }
    }
}

/* What cannot be. */
static void refused(void **state) {
    (void)state;
    static const struct {
        const char *sets[2];
        stator_status status;
        const char *text;
    } cases[] = {
        {{"devices.use=cpu:8", "memory.context=64"}, STATOR_USAGE, "cpu:7"},
        {{"devices.use=cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7,fpga:0", "memory.context=64"},
         STATOR_USAGE,
         "at most 8"},
        {{"devices.use=fpga", "memory.context=64"}, STATOR_USAGE, "fpga"},
        {{"devices.use=cpu:0,level_zero:0", "memory.context=64"}, STATOR_DEVICE, "level_zero:0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stator_options o = {
            .size = sizeof o, .config = "configs/demo.gguf", .set = cases[i].sets, .n_set = 2};
        stator *s = NULL;
        stator_error e = {0};
        stator_status st = stator_open(&o, &s, &e);
        if (st != cases[i].status || strstr(e.text, cases[i].text) == NULL)
            fail_msg("%s: %d, %s", cases[i].sets[0], (int)st, e.text);
        stator_close(s);
    }
}

/* Layers that read the K and V of earlier ones stay on the device of these, whatever the shares say. */
static void joined(void **state) {
    (void)state;
    const struct peer_model *m = peer_model_named("gemma4-shared");
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    peer_model_write(&w, m, BLOCK_F32);
    assert_true(gguf_writer_finish(&w));
    const char *sets[] = {"memory.context=64", "devices.use=cpu:0,cpu:1", "devices.split=4,1"};
    stator_options o = {
        .size = sizeof o, .config = gguf_writer_memory_path(&w, path), .set = sets, .n_set = 3};
    stator *s = NULL;
    stator_error e = {0};
    assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
    assert_int_equal(stator_start(s, &e), STATOR_OK);
    assert_int_equal(s->planning.plan.places[0].n_layers, 1);
    assert_int_equal(s->planning.plan.places[1].n_layers, 4);
    stator_close(s);
    s = NULL;
    sets[1] = "devices.use=cpu:0,cpu:1,cpu:2";
    o.n_set = 2;
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    assert_int_equal(st, STATOR_USAGE);
    assert_non_null(strstr(e.text, "3 devices are too many for this model: its last 2 layers read K and V of "
                                   "layers from layer 1 on"));
    stator_close(s);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits), cmocka_unit_test(splits),
                                       cmocka_unit_test(texts), cmocka_unit_test(refused),
                                       cmocka_unit_test(joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
