/* The second promise with GPUs: between seal and shutdown no engine thread calls the heap or mmap, except
 * inside the driver; here the software driver. What a driver allocates for itself is its own affair (zesim
 * takes a few bytes for every submit; that the test sees them shows that it works). */
#include "engine/engine.h"
#include "experts_model.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT
#include "interpose.h"
#include "kv_folder.h"

#define SMALL "slices=1,subslices=1,eus=8,threads=8"
#define STEPS 10

static const char *model = "configs/demo.gguf";
static uint32_t n_prompt = 10;
static const char *slots = "memory.expert_slots=0";

static stator *start(const char *use, const char *more) {
    char devices[96];
    snprintf(devices, sizeof devices, "devices.use=\"%s\"", use);
    const char *sets[] = {
        devices, "memory.context=128", "memory.batch=8", "cpu.threads=2", "memory.driver_reserve=1MiB", more,
        slots};
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = 7};
    stator *s = NULL;
    stator_error e;
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    if (st != STATOR_OK)
        fprintf(stderr, "%s: %s\n", use, e.text);
    CHECK(st == STATOR_OK);
    return s;
}

static void run(stator *s, stator_request_kind kind) {
    int32_t prompt[36];
    for (int32_t i = 0; i < 36; i++)
        prompt[i] = i + 5;
    stator_request q = {.size = sizeof q,
                        .kind = kind,
                        .tokens = prompt,
                        .n_tokens = n_prompt,
                        .max_new = kind == STATOR_GENERATE ? STEPS : 0,
                        .ignore_eos = 1};
    stator_error e;
    uint64_t id = 0;
    CHECK(stator_submit(s, &q, &id, &e) == STATOR_OK);
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        CHECK(stator_poll(s, UINT64_MAX, &ev, &have, &e) == STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_DONE) {
            CHECK(ev.reason != STATOR_REASON_FAILED);
            return;
        }
    }
}

/* Whether a function of the loader or the driver is among the callers. */
static bool is_drivers(const struct interpose_violation *v) {
    for (int i = 0; i < v->n_frames; i++) {
        Dl_info info;
        if (dladdr(v->frames[i], &info) != 0 && strstr(info.dli_fname, "libze") != NULL)
            return true;
    }
    return false;
}

static void quiet(const char *use, const char *more, bool spills) {
    interpose_reset(INTERPOSE_COUNT);
    stator *s = start(use, more);
    CHECK((zesim_counter("alloc.host.host.count") > 1) == spills);
    run(s, STATOR_GENERATE);
    run(s, STATOR_LOGITS);
    stator_close(s);
    uint64_t ours = 0;
    CHECK(interpose_violations() > 0 && interpose_violations() <= INTERPOSE_MOST);
    for (uint64_t i = 0; i < interpose_violations(); i++) {
        if (is_drivers(interpose_violation(i)))
            continue;
        interpose_print_one(interpose_violation(i));
        ours++;
    }
    CHECK(ours == 0 && zesim_counter("violations") == 0);
}

static void one_gpu(void) {
    quiet("level_zero:0", "memory.on_oom=fail", false);
}

static void spilled(void) {
    quiet("level_zero:0", "memory.on_oom=spill", true);
}

static void two_gpus(void) {
    quiet("level_zero:0, level_zero:1", "memory.on_oom=fail", false);
}

static void mixed(void) {
    quiet("cpu:0, level_zero:0", "memory.on_oom=fail", false);
}

/* The processors compute the experts of two GPUs, as one team. */
static void helped(void) {
    quiet("level_zero:0, level_zero:1", "memory.experts=host", true);
}

static void cached(void) {
    slots = "memory.expert_slots=2";
    helped();
}

/* Blocks move to files, and in the second run from them. */
static void kept(void) {
    n_prompt = 36;
    quiet("level_zero:0, level_zero:1", kv_folder_set, false);
}

static void test_nothing_of_ours(void **state) {
    (void)state;
    ZESIM_NEED();
    INTERPOSE_NEED();
    zesim_run("devices=1," SMALL, one_gpu);
    zesim_run("devices=1,memory=6MiB," SMALL, spilled);
    zesim_run("devices=2," SMALL, two_gpus);
    zesim_run("devices=2,peer=none," SMALL, two_gpus);
    zesim_run("devices=1," SMALL, mixed);
    zesim_run("devices=2," SMALL, kept);
    zesim_run("devices=2," SMALL, kept);
    assert_true(kv_folder_each('k', NULL) > 0);
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    experts_model_write(&w, experts_model_small());
    assert_true(gguf_writer_finish(&w));
    model = gguf_writer_memory_path(&w, path);
    zesim_run("devices=2," SMALL, helped);
    zesim_run("devices=2," SMALL, cached);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_of_ours, kv_folder_make, kv_folder_remove)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
