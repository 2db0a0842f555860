/* devices.split = "tensor" over GPUs (tools/zesim): the CPU's bits for models of every architecture, for
 * shares of many kinds, with routes of many kinds, in random conversations; and what becomes of a step when a
 * GPU is lost or hangs. */
#include "base/arith.h"
#include "engine/engine.h"
#include "hybrid_model.h"
#include "peer_models.h"
#include "prefix_play.h"

#include <inttypes.h>
#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"
#define TWO   "devices.use=\"level_zero:0, level_zero:1\""
#define THREE "devices.use=\"level_zero:2, level_zero:0, level_zero:1\""
#define FOUR  "devices.use=\"level_zero:0, level_zero:1, level_zero:2, level_zero:3\""
#define DEMO  "configs/demo.gguf"
#define MOST  140

static int32_t ids[MOST];

static void make_ids(uint32_t vocab) {
    uint64_t random = 11;
    for (size_t i = 0; i < MOST; i++)
        ids[i] = (int32_t)testing_below(&random, vocab);
}

/* Of the next child: a model, or a range of peer models; settings. */
static struct {
    const char *model, *use, *split, *more, *also;
    const char *groups; /* NULL: all devices are one */
    size_t first, end;
    const char *says;
} now;

/* Logits of n tokens; those of the CPU if use is NULL. The caller frees them. NULL: GPUs have no kernel for
 * an op of the model. */
static float *logits_of(const char *model, const char *use, const char *split, const char *more, uint32_t n,
                        size_t *bytes) {
    const bool grouped = use != NULL && now.groups != NULL;
    const char *sets[] = {use != NULL ? use : "devices.use=cpu:0",
                          "memory.context=576",
                          "cpu.threads=2",
                          "memory.driver_reserve=1MiB",
                          "devices.deadline=3600",
                          split != NULL ? split : "devices.split=auto",
                          more != NULL ? more : "memory.batch=64",
                          grouped ? now.groups : "devices.groups=1",
                          NULL};
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = 8};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK) {
        stator_close(s);
        if (strstr(e.text, "there is no GPU kernel") == NULL)
            fprintf(stderr, "%s: %s\n", model, e.text);
        CHECK(strstr(e.text, "there is no GPU kernel") != NULL);
        return NULL;
    }
    make_ids(harness_vocab(s));
    *bytes = n * harness_vocab(s) * sizeof(float);
    float *got = harness_logits(s, ids, n);
    stator_close(s);
    return got;
}

static uint32_t compared; /* models */

static void compare(const char *model, const char *use, const char *split, const char *more, uint32_t n) {
    size_t bytes = 0;
    float *expected = logits_of(model, NULL, NULL, NULL, n, &bytes);
    float *got = logits_of(model, use, split, more, n, &bytes);
    if (got != NULL && memcmp(got, expected, bytes) != 0)
        fprintf(stderr, "%s: logits differ with %s, %s, %s\n", model, use, split, more);
    CHECK(got == NULL || memcmp(got, expected, bytes) == 0);
    compared += got != NULL;
    free(got);
    free(expected);
    CHECK(zesim_counter("violations") == 0);
}

/* Its layers cannot be two devices'. */
static bool needs_all_layers(const char *model) {
    const char *sets[] = {"devices.use=cpu:0,cpu:1"};
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = 1};
    stator *s = NULL;
    stator_error e = {0};
    const bool can = stator_open(&o, &s, &e) == STATOR_OK && stator_plan(s, &e) == STATOR_OK;
    CHECK(can || strstr(e.text, "devices are too many") != NULL);
    stator_close(s);
    return !can;
}

/* A small model of every architecture, of odd shapes, whose layers GPUs have kernels for. */
static void architectures_of(void) {
    for (size_t i = now.first; i < now.end; i++) {
        const struct peer_model *m = &peer_models[i];
        if (m->pooling != 0)
            continue; /* it gives vectors, and no logits */
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = gguf_writer_new();
        peer_model_write(&w, m, i % 2 == 0 || m->nope % 32 != 0 ? BLOCK_F32 : BLOCK_Q8_0);
        gguf_writer_finish(&w);
        CHECK(gguf_writer_memory_path(&w, path) != NULL);
        compare(path, i % 3 == 0 ? THREE : TWO,
                i % 3 == 0 ? "devices.split=tensor:1,3,2" : "devices.split=tensor", "memory.batch=24", 40);
        if (i % 3 == 1 && !needs_all_layers(path)) {
            now.groups = "devices.groups=2";
            compare(path, FOUR, "devices.split=tensor:2,1,1,3", "memory.batch=24", 40);
            now.groups = NULL;
        }
        gguf_writer_free(&w);
    }
    CHECK(compared > 0 || now.end - now.first < 10);
}

static void architectures(void **state) {
    (void)state;
    ZESIM_NEED();
    for (now.first = 0; now.first < PEER_MODELS; now.first = now.end) {
        now.end = ARITH_MIN(now.first + 10, (size_t)PEER_MODELS);
        zesim_run("devices=4," SMALL, architectures_of);
    }
}

/* What goes as int8, in groups of 256 and of 32 values with one scale: between equal shares, and uneven ones
 * that do not cut a group, or do (floats go then). */
static void kinds_of(void) {
    static const uint32_t types[] = {BLOCK_Q4_K, BLOCK_Q6_K, BLOCK_Q5_1};
    static const char *const runs[][2] = {{TWO, "devices.split=tensor"},
                                          {TWO, "devices.split=tensor:3,1"},
                                          {TWO, "devices.split=tensor:5,3"},
                                          {FOUR, "devices.split=tensor"}};
    for (size_t i = 0; i < PEER_WIDE * 3; i++) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = gguf_writer_new();
        const struct peer_model m = peer_wide(i / 3);
        peer_model_write(&w, &m, types[i % 3]);
        gguf_writer_finish(&w);
        CHECK(gguf_writer_memory_path(&w, path) != NULL);
        for (size_t k = 0; k < 4; k++)
            compare(path, runs[k][0], runs[k][1], k % 2 == 0 ? "memory.batch=24" : "memory.batch=5", 40);
        gguf_writer_free(&w);
    }
}

static void kinds(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=4,order=shuffle,seed=9," SMALL, kinds_of);
    zesim_run("devices=4,peer=none," SMALL, kinds_of);
}

/* Chunks of 1 to 512 tokens; two, three and four GPUs, with even and uneven shares. */
static void chunks_of(void) {
    compare(DEMO, TWO, "devices.split=tensor", "memory.batch=1", 9);
    compare(DEMO, TWO, "devices.split=tensor:3,1", "memory.batch=7", 40);
    compare(DEMO, THREE, "devices.split=tensor:1,1,5", "memory.batch=64", 70);
    compare(DEMO, FOUR, "devices.split=tensor", "memory.batch=33", 70);
    compare(DEMO, TWO, "devices.split=tensor", "memory.batch=512", 140);
}

/* Two groups, with even and uneven shares, and layers in proportions; the GPUs of one group may be
 * processors.
 */
static void groups_of(void) {
    now.groups = "devices.groups=2";
    compare(DEMO, FOUR, "devices.split=tensor", "memory.batch=1", 9);
    compare(DEMO, FOUR, "devices.split=tensor:3,1,1,2", "memory.batch=7", 40);
    compare(DEMO, "devices.use=\"level_zero:0, level_zero:1, cpu:0, cpu:1\"", "devices.split=tensor",
            "memory.batch=33", 70);
    now.groups = "devices.groups=7,1";
    compare(DEMO, FOUR, "devices.split=tensor", "memory.batch=512", 140);
    compare(DEMO, "devices.use=\"cpu:0, cpu:1, level_zero:3, level_zero:2\"", "devices.split=tensor:1,1,5,2",
            "memory.batch=64", 70);
    now.groups = NULL;
}

static void groups(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=4,order=shuffle,seed=5," SMALL, groups_of);
    zesim_run("devices=4,peer.0.1=none,peer.1.2=none," SMALL, groups_of);
    zesim_run("devices=4,peer=none," SMALL, groups_of);
}

static void chunks(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=4,order=shuffle,seed=5," SMALL, chunks_of);
}

/* What goes directly and what goes through the host, by the driver's count. */
static void routes_of(void) {
    compare(now.model, THREE, "devices.split=tensor", now.more, 30);
    CHECK((zesim_counter("copy.gpu0>gpu1.count") > 0) == (now.says[0] == 'd'));
    CHECK((zesim_counter("copy.gpu1>gpu0.count") > 0) == (now.says[1] == 'd'));
}

static void routes(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        const char *zesim, *more, *says; /* 0 to 1, 1 to 0: direct or staged */
    } cases[] = {{"peer=push", NULL, "dd"},
                 {"peer=none", NULL, "ss"},
                 {"peer.0.1=none", NULL, "sd"},
                 {"peer.1.0=none,peer.2.1=none", "memory.batch=5", "ds"},
                 {"peer=ok", "transfer.mode=staged", "ss"}};
    now.model = DEMO;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char config[128];
        snprintf(config, sizeof config, "devices=3," SMALL ",%s", cases[i].zesim);
        now.more = cases[i].more;
        now.says = cases[i].says;
        zesim_run(config, routes_of);
    }
}

/* With "auto": by tensor where that is estimated to be faster. */
static void automatic_of(void) {
    compare(DEMO, TWO, "devices.split=auto", now.more, 30);
    CHECK((zesim_counter("copy.gpu1>gpu0.count") > 0) == (now.says[0] == 't'));
}

static void automatic(void **state) {
    (void)state;
    ZESIM_NEED();
    now.more = NULL;
    now.says = "tensor";
    zesim_run("devices=2,bandwidth=1," SMALL, automatic_of);
    now.says = "layers";
    zesim_run("devices=2,bandwidth=456," SMALL, automatic_of);
    zesim_run("devices=2," SMALL, automatic_of);
    now.more = "memory.on_oom=spill";
    now.says = "tensor";
    zesim_run("devices=2,bandwidth=1," SMALL, automatic_of);
}

static void refused_by(const char *use, const char *more, stator_status status, const char *text) {
    const char *sets[] = {use, "devices.split=tensor", more};
    stator_options o = {.size = sizeof o, .config = DEMO, .set = sets, .n_set = 3};
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    if (st != status || strstr(e.text, text) == NULL)
        fprintf(stderr, "%s: %d, %s\n", use, (int)st, e.text);
    CHECK(st == status && strstr(e.text, text) != NULL);
    stator_close(s);
}

static void refused_of(void) {
    refused_by("devices.use=\"level_zero:0, cpu:0\"", "memory.batch=8", STATOR_USAGE, "of two kinds");
    refused_by(TWO, "transfer.mode=direct", STATOR_DEVICE, "level_zero:0 to level_zero:1 can't go directly");
}

static void refused(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=2,peer=none," SMALL, refused_of);
}

/* GPUs that are too small for their shares: weights, experts and K and V in host memory, and experts that
 * long steps copy. */
static void spilled_of(void) {
    static const char *const plain[] = {"devices.use=cpu:0", "memory.context=96", NULL};
    const char *sets[] = {now.use,
                          now.split,
                          now.more,
                          now.groups != NULL ? now.groups : "devices.groups=1",
                          "memory.on_oom=spill",
                          "memory.context=96",
                          "memory.driver_reserve=64KiB",
                          "devices.deadline=3600",
                          NULL};
    stator *s = harness_start(now.model, plain);
    make_ids(harness_vocab(s));
    const size_t bytes = 90 * harness_vocab(s) * sizeof(float);
    float *expected = harness_logits(s, ids, 90);
    stator_close(s);
    s = harness_start(now.model, sets);
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        CHECK(s->planning.devices[i].graph.spilled_slices > 0);
    float *got = harness_logits(s, ids, 90);
    stator_close(s);
    CHECK(memcmp(got, expected, bytes) == 0);
    free(got);
    free(expected);
    CHECK(zesim_counter("violations") == 0);
}

static void spilled(void **state) {
    (void)state;
    ZESIM_NEED();
    now.model = DEMO;
    now.split = "devices.split=tensor";
    now.more = "memory.batch=16";
    now.use = FOUR;
    now.groups = "devices.groups=2";
    zesim_run("devices=4,memory=1792KiB," SMALL, spilled_of);
    now.use = TWO;
    now.groups = NULL;
    zesim_run("devices=2,memory=3072KiB," SMALL, spilled_of);
    now.split = "devices.split=tensor:3,2";
    now.more = "memory.batch=64";
    zesim_run("devices=2,memory=2048KiB,copy_engines=0," SMALL, spilled_of);
    now.model = "../shared/oracles/models/qwen3moe.gguf";
    if (access(now.model, R_OK) == 0)
        zesim_run("devices=2,memory=3072KiB," SMALL, spilled_of);
}

static void converse(void) {
    static const char *const plain[] = {"devices.use=cpu:0",  "server.prefix_cache=false",
                                        "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2",      NULL};
    const char *sets[] = {now.use,
                          "devices.split=tensor",
                          now.groups != NULL ? now.groups : "devices.groups=1",
                          now.more,
                          "memory.batch=40",
                          "memory.context=256",
                          "memory.sequences=3",
                          "cpu.threads=2",
                          "server.checkpoints=5",
                          "devices.deadline=3600",
                          "memory.driver_reserve=1MiB",
                          now.also,
                          NULL};
    struct prefix_play p;
    CHECK(prefix_play(now.use, now.model, sets, plain, 4, &p) > 0);
    CHECK(zesim_counter("violations") == 0);
}

/* Random requests that begin alike, some cancelled, several at a time; with checkpoints of states, guesses.
 */
static void conversations(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[GGUF_WRITER_PATH];
    struct hybrid_model m = hybrid_model_usual();
    m.interval = 2;
    struct gguf_writer w = gguf_writer_new();
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    prefix_play_texts = 2;
    now.model = DEMO;
    now.use = TWO;
    now.more = "speculation.mode=ngram";
    zesim_run("devices=2," SMALL, converse);
    now.more = "speculation.mode=draft";
    now.also = "speculation.model=" DEMO;
    zesim_run("devices=2," SMALL, converse);
    now.also = NULL;
    now.use = FOUR;
    now.groups = "devices.groups=2";
    now.more = "speculation.mode=ngram";
    zesim_run("devices=4," SMALL, converse);
    now.model = gguf_writer_memory_path(&w, path);
    now.more = "speculation.mode=off";
    zesim_run("devices=4,peer.0.1=none,peer.1.2=none," SMALL, converse);
    now.groups = NULL;
    now.use = THREE;
    zesim_run("devices=3,peer.0.1=none," SMALL, converse);
    gguf_writer_free(&w);
}

/* A request of which a step does not end: it fails with the device's error, and the engine closes. */
static void faulty(void) {
    const char *sets[] = {
        now.use,           "devices.split=tensor",       now.groups != NULL ? now.groups : "devices.groups=1",
        "memory.batch=16", "memory.context=128",         "cpu.threads=2",
        now.more,          "memory.driver_reserve=1MiB", NULL};
    stator *s = harness_start(DEMO, sets);
    make_ids(256);
    stator_request q = {.size = sizeof q, .tokens = ids, .n_tokens = 40, .max_new = 8, .ignore_eos = 1};
    stator_error e = {0};
    uint64_t id = 0;
    CHECK(stator_submit(s, &q, &id, &e) == STATOR_OK);
    for (bool done = false; !done;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        CHECK(stator_poll(s, UINT64_MAX, &ev, &have, &e) == STATOR_OK);
        done = have && ev.kind == STATOR_EVENT_DONE;
        if (done && (ev.reason != STATOR_REASON_FAILED || ev.status != STATOR_DEVICE ||
                     strstr(ev.text, now.says) == NULL))
            fprintf(stderr, "%d %d: %s\n", (int)ev.reason, (int)ev.status, ev.text);
        CHECK(!done || (ev.reason == STATOR_REASON_FAILED && ev.status == STATOR_DEVICE &&
                        strstr(ev.text, now.says) != NULL));
    }
    stator_close(s);
}

static void faults(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        const char *fault, *deadline, *says;
    } cases[] = {{"exec.kernel@30:lost", "devices.deadline=3600", "lost"},
                 {"exec.kernel@200:lost", "devices.deadline=3600", "lost"},
                 {"exec.kernel@30:mark:began,fault=zeCommandQueueExecuteCommandLists@began/1:hang",
                  "devices.deadline=3", "hang"}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        char config[160];
        snprintf(config, sizeof config, "devices=4," SMALL ",fault=%s", cases[i / 2].fault);
        now.use = i % 2 == 0 ? TWO : FOUR;
        now.groups = i % 2 == 0 ? NULL : "devices.groups=2";
        now.more = cases[i / 2].deadline;
        now.says = cases[i / 2].says;
        zesim_run(config, faulty);
    }
    now.groups = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(architectures), cmocka_unit_test(kinds),
                                       cmocka_unit_test(chunks),        cmocka_unit_test(groups),
                                       cmocka_unit_test(routes),        cmocka_unit_test(automatic),
                                       cmocka_unit_test(refused),       cmocka_unit_test(conversations),
                                       cmocka_unit_test(spilled),       cmocka_unit_test(faults)};
    cmocka_set_test_filter(getenv("STATOR_TEST_ONLY")); /* one test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
