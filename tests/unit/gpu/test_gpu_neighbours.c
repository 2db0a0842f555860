/* Experts and states on the GPU kernels (tools/zesim): chunks of 1, 7, 64 and 512 tokens, 1, 3 and 8 requests
 * that arrive and leave beside each other, some cancelled on the way, on 1 to 3 devices: the CPU's bits. */
#include "engine_harness.h"
#include "experts_model.h"
#include "hybrid_model.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"

#ifndef ZESIM_ABSENT

#define SMALL    "slices=1,subslices=1,eus=8,threads=8,devices=3"
#define N_IDS    516
#define VOCAB    96
#define REQUESTS 8
#define MOST     16 /* new tokens */

static char model[GGUF_WRITER_PATH];
static struct gguf_writer writer;
static int32_t ids[N_IDS];
static float *expected;                   /* logits of all ids */
static int32_t texts[REQUESTS][MOST + 1]; /* of each request alone; their lengths first */

static stator *start(const char *const *sets) {
    stator_error e = {0};
    const char *all[8] = {"memory.context=576", "memory.kv_type=f32", "cpu.threads=2"};
    size_t n = 3;
    for (; *sets != NULL; sets++)
        all[n++] = *sets;
    stator_options o = {.size = sizeof o, .config = model, .set = all, .n_set = n};
    stator *s = NULL;
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK) {
        fprintf(stderr, "%s\n", e.text);
        _exit(99);
    }
    return s;
}

static uint64_t submit(stator *s, uint32_t i) {
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = ids + 11 * i,
                        .n_tokens = 3 + 6 * i,
                        .max_new = 4 + i,
                        .ignore_eos = 1,
                        .sampling = {.has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED,
                                     .temperature = i % 2 ? 0.8f : 0.0f,
                                     .seed = 40 + i}};
    uint64_t id = 0;
    CHECK(stator_submit(s, &q, &id, NULL) == STATOR_OK);
    return id;
}

/* Until all n requests, with these ids, are done; a cancelled one's text is a part of the whole. */
static void collect(stator *s, const uint64_t *id, uint32_t n, int32_t got[REQUESTS][MOST + 1]) {
    for (uint32_t left = n; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        CHECK(stator_poll(s, UINT64_MAX, &ev, &have, NULL) == STATOR_OK);
        uint32_t i = 0;
        while (have && i < n && id[i] != ev.request)
            i++;
        if (!have)
            continue;
        CHECK(i < n);
        if (ev.kind == STATOR_EVENT_TOKEN) {
            CHECK(got[i][0] < MOST);
            got[i][++got[i][0]] = ev.token;
        } else {
            CHECK(ev.kind == STATOR_EVENT_DONE && ev.reason != STATOR_REASON_FAILED);
            left--;
        }
    }
}

static void logits_of(stator *s, uint32_t n, float *out) {
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = n};
    uint64_t id = 0;
    CHECK(stator_submit(s, &q, &id, NULL) == STATOR_OK);
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        CHECK(stator_poll(s, UINT64_MAX, &ev, &have, NULL) == STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_DONE) {
            CHECK(ev.reason != STATOR_REASON_FAILED);
            return;
        }
        if (have)
            memcpy(out + ev.position * VOCAB, ev.logits, VOCAB * sizeof *out);
    }
}

static void chunks(void) {
    static const struct {
        const char *batch, *use;
        uint32_t n;
    } cases[] = {{"memory.batch=1", "devices.use=\"level_zero:0\"", 12},
                 {"memory.batch=7", "devices.use=\"level_zero:0, level_zero:1\"", 40},
                 {"memory.batch=64", "devices.use=\"level_zero:0, level_zero:1, level_zero:2\"", 140},
                 {"memory.batch=512", "devices.use=\"level_zero:0\"", N_IDS}};
    float *got = calloc(N_IDS, VOCAB * sizeof *got);
    CHECK(got != NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *sets[] = {cases[i].use, cases[i].batch, NULL};
        stator *s = start(sets);
        memset(got, 0, N_IDS * VOCAB * sizeof *got);
        logits_of(s, cases[i].n, got);
        stator_close(s);
        if (memcmp(got, expected, cases[i].n * VOCAB * sizeof *got) != 0)
            fprintf(stderr, "logits differ with %s on %s\n", cases[i].batch, cases[i].use);
        CHECK(memcmp(got, expected, cases[i].n * VOCAB * sizeof *got) == 0);
    }
    free(got);
    CHECK(zesim_counter("violations") == 0);
}

static void beside(void) {
    static const struct {
        const char *sequences, *use;
    } cases[] = {{"memory.sequences=1", "devices.use=\"level_zero:0\""},
                 {"memory.sequences=3", "devices.use=\"level_zero:0, level_zero:1\""},
                 {"memory.sequences=8", "devices.use=\"level_zero:0, level_zero:1, level_zero:2\""}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *sets[] = {cases[k].use, cases[k].sequences, "memory.batch=16", NULL};
        stator *s = start(sets);
        for (uint32_t lap = 0; lap < 2;
             lap++) { /* in the first some are cancelled, where others then begin */
            static int32_t got[REQUESTS][MOST + 1];
            uint64_t id[REQUESTS];
            memset(got, 0, sizeof got);
            for (uint32_t i = 0; i < REQUESTS; i++)
                id[i] = submit(s, i);
            for (uint32_t i = 1; i < REQUESTS && lap == 0; i += 2)
                stator_cancel(s, id[i]);
            collect(s, id, REQUESTS, got);
            for (uint32_t i = 0; i < REQUESTS; i++) {
                CHECK(got[i][0] == texts[i][0] || (lap == 0 && i % 2 == 1));
                CHECK(memcmp(got[i] + 1, texts[i] + 1, (size_t)got[i][0] * sizeof got[i][0]) == 0);
            }
        }
        stator_close(s);
    }
    CHECK(zesim_counter("violations") == 0);
}

static void compare(void) {
    gguf_writer_finish(&writer);
    gguf_writer_memory_path(&writer, model);
    uint64_t random = 21;
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)testing_below(&random, VOCAB);
    expected = calloc(N_IDS, VOCAB * sizeof *expected);
    assert_non_null(expected);
    /* On the CPU in steps of 64, and in one of 512. */
    static const char *const plain[] = {"devices.use=cpu:0", "memory.batch=64", NULL};
    static const char *const whole[] = {"devices.use=cpu:0", "memory.batch=512", NULL};
    stator *s = start(plain);
    logits_of(s, N_IDS, expected);
    memset(texts, 0, sizeof texts);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint64_t id = submit(s, i);
        collect(s, &id, 1, texts + i);
        assert_int_equal(texts[i][0], 4 + i);
    }
    stator_close(s);
    s = start(whole);
    float *again = calloc(N_IDS, VOCAB * sizeof *again);
    assert_non_null(again);
    logits_of(s, N_IDS, again);
    assert_memory_equal(again, expected, N_IDS * VOCAB * sizeof *again);
    stator_close(s);
    free(again);
    zesim_run(SMALL ",order=shuffle", chunks);
    zesim_run(SMALL, beside);
    free(expected);
    gguf_writer_free(&writer);
}

static void experts(void **state) {
    (void)state;
    ZESIM_NEED();
    struct experts_model m = experts_model_small();
    m.n_layers = 3;
    m.type = m.down = BLOCK_Q8_0;
    writer = gguf_writer_new();
    experts_model_write(&writer, m);
    compare();
}

static void states(void **state) {
    (void)state;
    ZESIM_NEED();
    struct hybrid_model m = hybrid_model_usual();
    writer = gguf_writer_new();
    hybrid_model_write(&writer, m);
    compare();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(experts), cmocka_unit_test(states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
