/* cache.kv_dir with the GPU kernels, run by the software driver: files that a CPU has written serve a GPU,
 * those of a GPU serve a CPU, with every byte the same; for models without and with windows and states, split
 * by layers and by heads, staged, beside a CPU; and a GPU that is lost while it copies blocks.
 * test_gpu_seal.c has the seal. */
#include "hybrid_model.h"
#include "kv_folder.h"
#include "prefix_play.h"

#include "app/selftest/selftest_model.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#include <sys/mman.h>

#define SMALL "slices=1,subslices=1,eus=8,threads=8"

static const char *const plain[] = {"devices.use=cpu:0",  "server.prefix_cache=false",
                                    "memory.context=256", "memory.batch=64",
                                    "cpu.threads=2",      NULL};

/* Of the next child, or of the CPU in this process. */
static const char *model;
static struct {
    const char *use, *split, *batch, *name, *groups;
    bool first; /* nobody has written files before */
} now;

static void check_driver(void) {
    CHECK(strstr(now.use, "level_zero") == NULL || zesim_counter("violations") == 0);
}

static void converse(void) {
    const char *sets[] = {now.use,
                          now.split,
                          now.batch,
                          now.groups,
                          "memory.context=256",
                          "memory.sequences=3",
                          "cpu.threads=2",
                          "server.checkpoints=5",
                          "memory.driver_reserve=1MiB",
                          kv_folder_set,
                          NULL};
    struct prefix_play p;
    (void)prefix_play(now.use, model, sets, plain, 5, &p);
    CHECK(now.first || (p.stats.kv_hits > 0 && p.stats.kv_tokens >= 32 && p.stats.kv_files_read > 0));
    check_driver();
}

static const struct engine {
    const char *zesim, *use, *split, *batch, *groups;
} engines[] = {
    {NULL, "devices.use=cpu:0", "devices.split=auto", "memory.batch=64", NULL},
    {"devices=1," SMALL, "devices.use=level_zero:0", "devices.split=auto", "memory.batch=40", NULL},
    {"devices=2," SMALL, "devices.use=\"level_zero:0, level_zero:1\"", "devices.split=auto",
     "memory.batch=64", NULL},
    {"devices=2,peer=none," SMALL, "devices.use=\"level_zero:0, level_zero:1\"", "devices.split=auto",
     "memory.batch=70", NULL},
    {"devices=1," SMALL, "devices.use=\"cpu:0, level_zero:0\"", "devices.split=auto", "memory.batch=90",
     NULL},
    {NULL, "devices.use=\"cpu:0, cpu:1\"", "devices.split=auto", "memory.batch=33", NULL},
    {"devices=2," SMALL, "devices.use=\"level_zero:0, level_zero:1\"", "devices.split=tensor",
     "memory.batch=64", NULL},
    {"devices=4," SMALL, "devices.use=\"level_zero:0, level_zero:1, level_zero:2, level_zero:3\"",
     "devices.split=tensor:1,1,2,1", "memory.batch=64", "devices.groups=3,5"},
};

/* One after the other, in one folder: every further one finds what those before have left. */
static void converse_all(size_t n) {
    prefix_play_texts = 2;
    for (size_t i = 0; i < n; i++) {
        assert_true(n <= sizeof engines / sizeof *engines);
        now.use = engines[i].use;
        now.split = engines[i].split;
        now.batch = engines[i].batch;
        now.groups = engines[i].groups != NULL ? engines[i].groups : "devices.groups=1";
        now.first = i == 0;
        if (engines[i].zesim != NULL)
            zesim_run(engines[i].zesim, converse);
        else
            converse();
    }
}

static void dense(void **state) {
    (void)state;
    ZESIM_NEED();
    model = "configs/demo.gguf";
    converse_all(8);
}

static struct gguf_writer hybrid(char path[GGUF_WRITER_PATH]) {
    struct hybrid_model m = hybrid_model_usual();
    m.interval = 2;
    struct gguf_writer w = gguf_writer_new();
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    model = gguf_writer_memory_path(&w, path);
    return w;
}

static void states(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(path);
    converse_all(6);
    gguf_writer_free(&w);
}

static void windows(void **state) {
    (void)state;
    ZESIM_NEED();
    const struct selftest_model m = {.architecture = "gemma3",
                                     .type = BLOCK_F16,
                                     .n_layers = 7,
                                     .n_embd = 64,
                                     .n_ff = 96,
                                     .n_heads = 2,
                                     .n_kv_heads = 1,
                                     .head_dim = 32,
                                     .vocab = 97,
                                     .context = 4096,
                                     .window = 40,
                                     .seed = 9};
    int fd = -1;
    char path[SELFTEST_MODEL_PATH];
    stator_error e = {0};
    if (selftest_model_make(&m, &fd, path, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    model = path;
    converse_all(6);
    close(fd);
}

/* One prompt; its tokens and log probabilities, in memory that the parent sees. */
static struct {
    struct prefix_play_request r;
    stator_stats stats;
    bool failed;
} * answer;

static void ask_once(void) {
    const char *sets[] = {now.use,
                          now.split,
                          "memory.context=256",
                          "memory.batch=64",
                          "memory.sequences=1",
                          "cpu.threads=2",
                          "server.checkpoints=3",
                          "memory.driver_reserve=1MiB",
                          kv_folder_set,
                          NULL};
    uint64_t random = 21;
    answer->r = (struct prefix_play_request){.n_prompt = 200, .max_new = 8, .seed = 5};
    for (uint32_t i = 0; i < 200; i++)
        answer->r.prompt[i] = (int32_t)testing_below(&random, 96);
    stator *s = harness_start(model, sets);
    prefix_play_submit(s, &answer->r);
    prefix_play_collect(s, &answer->r, 1);
    answer->stats = (stator_stats){.size = sizeof answer->stats};
    CHECK(stator_get_stats(s, &answer->stats, NULL) == STATOR_OK);
    stator_close(s);
    check_driver();
}

static struct prefix_play_request ask(const struct engine *e) {
    now.use = e->use;
    now.split = e->split;
    if (e->zesim != NULL)
        zesim_run(e->zesim, ask_once);
    else
        ask_once();
    return answer->r;
}

static void assert_same(const struct prefix_play_request *a, const struct prefix_play_request *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->told, b->told, a->n * sizeof *a->told);
}

/* All files of the folder in one text, sorted by name. */
static size_t folder_text(char *text, size_t capacity) {
    char command[300];
    snprintf(command, sizeof command, "cd %s && for f in *.kv; do echo $f; cat $f; done", kv_folder);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, capacity, f);
    assert_true(n < capacity && pclose(f) == 0);
    return n;
}

/* The files of a GPU are those of a CPU, and each reads those of the other. */
static void play_files(size_t n) {
    static char written[2][16 << 20];
    size_t bytes[2] = {0, 0};
    const struct prefix_play_request fresh = ask(&engines[0]);
    const uint32_t files = kv_folder_each('k', NULL) + kv_folder_each('c', NULL);
    assert_true(fresh.n_cached == 0 && files >= 6);
    bytes[0] = folder_text(written[0], sizeof written[0]);
    for (size_t i = 1; i < n; i++) {
        const struct prefix_play_request read = ask(&engines[i]); /* what the device before has written */
        assert_same(&fresh, &read);
        assert_true(read.n_cached >= 128 && answer->stats.kv_files_read >= 4);
        (void)kv_folder_each(0, kv_folder_remove_file);
        const struct prefix_play_request computed = ask(&engines[i]);
        assert_same(&fresh, &computed);
        assert_int_equal(computed.n_cached, 0);
        bytes[1] = folder_text(written[1], sizeof written[1]);
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(written[0], written[1], bytes[0]);
    }
    const struct prefix_play_request read = ask(&engines[0]);
    assert_same(&fresh, &read);
    assert_true(read.n_cached >= 128);
}

static void files_of_dense(void **state) {
    (void)state;
    ZESIM_NEED();
    model = "configs/demo.gguf";
    play_files(7);
}

static void files_of_hybrid(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(path);
    play_files(5);
    gguf_writer_free(&w);
}

/* The slot's text is saved; then, in another engine, it is restored. */
static void use_slot(void) {
    const char *sets[] = {now.use,
                          "memory.context=256",
                          "memory.sequences=1",
                          "server.checkpoints=3",
                          "memory.driver_reserve=1MiB",
                          kv_folder_set,
                          NULL};
    stator *s = harness_start(model, sets);
    if (now.first) {
        struct prefix_play_request r = answer->r;
        prefix_play_submit(s, &r);
        prefix_play_collect(s, &r, 1);
    }
    const stator_event ev = kv_folder_act(s, now.first ? STATOR_SLOT_SAVE : STATOR_SLOT_RESTORE, 0, "text");
    CHECK(ev.n_cached >= 128 && ev.n_bytes > 1000);
    stator_close(s);
}

static void slots(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(path);
    (void)ask(&engines[0]);
    for (size_t i = 0; i < 2; i++) {
        (void)kv_folder_each(0, kv_folder_remove_file);
        now.first = true;
        now.use = engines[1].use;
        zesim_run(engines[1].zesim, use_slot);
        now.first = false;
        now.use = engines[i].use;
        if (engines[i].zesim != NULL)
            zesim_run(engines[i].zesim, use_slot);
        else
            use_slot();
    }
    char name[100];
    snprintf(name, sizeof name, "%s/text.save", kv_folder);
    kv_folder_remove_file(name);
    gguf_writer_free(&w);
}

/* A restore in a GPU with a fault ends with the fresh answer, or with an error that names the device. */
static void restore(void) {
    const char *sets[] = {now.use,
                          "memory.context=256",
                          "memory.batch=64",
                          "devices.deadline=2",
                          "memory.sequences=1",
                          "server.checkpoints=3",
                          "memory.driver_reserve=1MiB",
                          kv_folder_set,
                          NULL};
    const struct prefix_play_request fresh = answer->r;
    struct prefix_play_request r = {.n_prompt = fresh.n_prompt, .max_new = fresh.max_new, .seed = fresh.seed};
    memcpy(r.prompt, fresh.prompt, sizeof r.prompt);
    stator *s = harness_start(model, sets);
    prefix_play_submit(s, &r);
    for (bool done = false; !done;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        CHECK(stator_poll(s, UINT64_MAX, &ev, &have, NULL) == STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN) {
            CHECK(ev.token == fresh.told[r.n].token && ev.logprob == fresh.told[r.n].logprob);
            r.n++;
        }
        done = have && ev.kind == STATOR_EVENT_DONE;
        answer->failed = done && ev.reason == STATOR_REASON_FAILED;
        CHECK(!answer->failed || (ev.status == STATOR_DEVICE && strstr(ev.text, "level_zero:0") != NULL));
        CHECK(!done || answer->failed || r.n == fresh.n);
    }
    stator_close(s);
}

/* In each kernel of the moves and in some of the steps, in the calls that begin a move or wait for it. */
static void faults(void **state) {
    (void)state;
    ZESIM_NEED();
    static const char *const calls[] = {"zeCommandQueueExecuteCommandLists@began/%u:ERROR_UNKNOWN",
                                        "zeCommandQueueExecuteCommandLists@began/%u:hang",
                                        "zeFenceHostSynchronize@began/%u:ERROR_UNKNOWN",
                                        "zeFenceReset@began/%u:ERROR_UNKNOWN"};
    char path[GGUF_WRITER_PATH], config[200], fault[100];
    struct gguf_writer w = hybrid(path);
    (void)ask(&engines[0]);
    now.use = engines[1].use;
    uint32_t failed = 0;
    for (uint32_t i = 1; i < 40; i += i < 12 ? 1 : 9) {
        snprintf(config, sizeof config, "devices=1," SMALL ",fault=exec.kernel@%u:lost", i);
        zesim_run(config, restore);
        failed += answer->failed;
    }
    assert_int_equal(failed, 15);
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        for (uint32_t i = 1; i < 6; i += 2) {
            snprintf(fault, sizeof fault, calls[k], i);
            snprintf(config, sizeof config, "devices=1," SMALL ",fault=exec.kernel@1:mark:began,fault=%s",
                     fault);
            zesim_run(config, restore);
            assert_true(answer->failed);
        }
    gguf_writer_free(&w);
}

int main(void) {
    answer = mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED)
        return 1;
#define CASE(name) cmocka_unit_test_setup_teardown(name, kv_folder_make, kv_folder_remove)
    const struct CMUnitTest tests[] = {CASE(files_of_dense), CASE(files_of_hybrid), CASE(slots),
                                       CASE(faults),         CASE(dense),           CASE(states),
                                       CASE(windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
