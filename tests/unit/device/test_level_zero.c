/* The Level Zero back end inside an engine, on the software driver, for what tests of the binary cannot
 * reach: deadlines, and all of it under the sanitizers. Tests of the binary are in tests/e2e/gpu/gpu.sh. */
#include "base/clock.h"
#include "device/device_info.h"
#include "engine/engine.h"
#include "engine_harness.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"

#define SMALL "slices=1,subslices=1,eus=8,threads=8"
#define MODEL "configs/demo.gguf"
#define STEPS 12

static const int32_t prompt[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

static const char *deadline = "devices.deadline=300";

static stator *start(const char *use, stator_status *st, stator_error *e) {
    char devices[96];
    snprintf(devices, sizeof devices, "devices.use=\"%s\"", use);
    const char *sets[] = {devices, "memory.context=128", "memory.batch=8", "cpu.threads=2", deadline};
    stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 5};
    stator *s = NULL;
    *st = stator_open(&o, &s, e);
    if (*st == STATOR_OK)
        *st = stator_start(s, e);
    return s;
}

/* STEPS tokens after the prompt; *n of them came before it failed. */
static stator_status generate(stator *s, int32_t *tokens, uint32_t *n, stator_error *e) {
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = prompt,
                        .n_tokens = sizeof prompt / sizeof prompt[0],
                        .max_new = STEPS,
                        .ignore_eos = 1,
                        .sampling = {.has = STATOR_HAS_TEMPERATURE}};
    uint64_t id = 0;
    *n = 0;
    stator_status st = stator_submit(s, &q, &id, e);
    while (st == STATOR_OK) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        st = stator_poll(s, UINT64_MAX, &ev, &have, e);
        if (st != STATOR_OK || !have)
            continue;
        if (ev.kind == STATOR_EVENT_TOKEN)
            tokens[(*n)++] = ev.token;
        else if (ev.reason == STATOR_REASON_FAILED)
            return error_set(e, ev.status, "%s", ev.text);
        else
            break;
    }
    return st;
}

static void same_tokens(void) {
    stator_error e;
    stator_status st;
    int32_t on_cpu[STEPS];
    int32_t on_gpu[STEPS];
    uint32_t n = 0;
    stator *cpu = start("cpu:0", &st, &e);
    CHECK(st == STATOR_OK && generate(cpu, on_cpu, &n, &e) == STATOR_OK && n == STEPS);
    stator_close(cpu);
    static const char *const uses[] = {"level_zero:0", "level_zero:0, level_zero:1", "cpu:0, level_zero:1"};
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        stator *gpu = start(uses[i], &st, &e);
        if (st != STATOR_OK)
            fprintf(stderr, "%s: %s\n", uses[i], e.text);
        CHECK(st == STATOR_OK && generate(gpu, on_gpu, &n, &e) == STATOR_OK && n == STEPS);
        CHECK(memcmp(on_cpu, on_gpu, sizeof on_cpu) == 0);
        stator_close(gpu);
    }
    CHECK(zesim_counter("violations") == 0);
    CHECK(zesim_counter("alloc.device.gpu0.bytes") == zesim_counter("free.device.gpu0.bytes"));
    CHECK(zesim_counter("alloc.device.gpu1.bytes") == zesim_counter("free.device.gpu1.bytes"));
}

static void test_same_tokens(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=2," SMALL, same_tokens);
}

/* A kernel that never ends: an error after the deadline, then a close that does not wait for it for ever. */
static void hang(void) {
    stator_error e;
    stator_status st;
    deadline = "devices.deadline=5";
    stator *s = start("level_zero:0", &st, &e);
    CHECK(st == STATOR_OK);
    int32_t tokens[STEPS];
    uint32_t n = 0;
    uint64_t began = clock_ns();
    st = generate(s, tokens, &n, &e);
    uint64_t took = clock_ns() - began;
    fprintf(stderr, "%s\n", e.text);
    CHECK(st == STATOR_DEVICE && strstr(e.text, "level_zero:0") != NULL);
    CHECK(took >= 5000000000 && strstr(e.text, "has not ended after 5.0 s") != NULL);
    /* The engine knows that it is dead. */
    CHECK(generate(s, tokens, &n, &e) == STATOR_DEVICE && n == 0);
    stator_close(s);
}

static void test_hang(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=1," SMALL ",fault=exec.kernel@150:hang", hang);
}

static void lost(void) {
    stator_error e;
    stator_status st;
    stator *s = start("level_zero:0, level_zero:1", &st, &e);
    int32_t tokens[STEPS];
    uint32_t n = 0;
    if (st == STATOR_OK)
        st = generate(s, tokens, &n, &e);
    fprintf(stderr, "%s\n", e.text);
    CHECK(st == STATOR_DEVICE && strstr(e.text, "lost") != NULL);
    stator_close(s);
}

static void test_lost(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=2," SMALL ",fault=exec.kernel@200:lost", lost);
    zesim_run("devices=2," SMALL ",fault=exec.copy@3:lost", lost);
}

static void facts(void) {
    struct device_info list[DEVICE_INFO_MAX];
    struct device_info_stack stack;
    CHECK(device_info_list(list, &stack) == 3 && stack.no_gpus.code == STATOR_OK);
    const struct device_info *g = &list[1];
    CHECK(strcmp(g->facts.name, "level_zero:1") == 0 && strcmp(g->facts.kind, "gpu") == 0);
    CHECK(strcmp(g->pci, "0000:04:00.0") == 0 && g->units == 256 && g->threads_per_unit == 8);
    CHECK(g->total == (8ull << 30) && g->facts.memory == (8ull << 30) / 32 * 31);
    CHECK(g->free == (7ull << 30) && strstr(g->free_source, "usable") != NULL);
    CHECK(g->facts.max_alloc == (3ull << 30) && g->facts.alignment == 65536 && !g->facts.host_memory);
    CHECK(g->n_sub_groups == 3 && g->sub_groups[0] == 8 && g->sub_groups[2] == 32);
    CHECK(!g->dpas && list[0].dpas);
    CHECK(strncmp(list[2].facts.name, "cpu", 3) == 0);
    struct device_info_pair p;
    stator_error e;
    CHECK(device_info_probe(0, 1, 4096, &p, &e) == STATOR_OK && p.route.direct &&
          p.route.bytes_per_second > 0);
    CHECK(p.copies[0].direct_ns > 0 && p.copies[0].staged_ns > 0 && p.copies[1].staged_ns == 0);
    CHECK(device_info_probe(1, 0, 4096, &p, &e) == STATOR_OK && !p.route.direct &&
          strstr(p.route.why, "damaged") != NULL);
    CHECK(p.copies[0].direct_ns == 0 && p.copies[0].staged_ns > 0);
    CHECK(zesim_counter("violations") == 0);
    CHECK(zesim_counter("zeContextCreate") == 2 && zesim_counter("zeContextDestroy") == 2);
}

static void test_facts(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=2,gpu1.memory=8GiB,gpu1.taken=1GiB,gpu1.max_alloc=3GiB,gpu1.slices=4,gpu1.subslices=4,"
              "gpu1.dpas=0,"
              "peer.1.0=corrupt:64",
              facts);
}

/* Without the extension sysman says what is free; with neither it is the total less 1/16
 * (tests/e2e/gpu/gpu_capture.sh). */
static void sysman(void) {
    struct device_info list[DEVICE_INFO_MAX];
    struct device_info_stack stack;
    CHECK(device_info_list(list, &stack) == 2);
    CHECK(list[0].free == 13ull << 30 && strstr(list[0].free_source, "sysman") != NULL);
}

static void test_sysman(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=1,usable_memory=0,taken=3GiB", sysman);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens), cmocka_unit_test(test_hang),   cmocka_unit_test(test_lost),
        cmocka_unit_test(test_facts),       cmocka_unit_test(test_sysman),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
