/* Checkpoints on the GPU kernels, run by the software driver: conversations with models that have windows or
 * recurrent states say, bit by bit, what the CPU says that computes each prompt anew; also split, staged,
 * beside a CPU, with guesses; and a GPU that is lost while one is taken or gone on from. */
#include "hybrid_model.h"
#include "prefix_play.h"

#include <inttypes.h>

#include "app/selftest/selftest_model.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"

static const char *const plain[] = {"devices.use=cpu:0",  "server.prefix_cache=false",
                                    "memory.context=256", "memory.batch=64",
                                    "cpu.threads=2",      NULL};

/* Of the next child. */
static const char *model;
static struct {
    const char *use, *batch, *mode;
    uint32_t rounds;
} now;

static void converse(void) {
    const char *sets[] = {now.use,
                          now.batch,
                          now.mode,
                          "memory.context=256",
                          "memory.sequences=3",
                          "cpu.threads=2",
                          "server.checkpoints=5",
                          "speculation.tokens=3",
                          "memory.driver_reserve=1MiB",
                          NULL};
    struct prefix_play p;
    const uint64_t cached = prefix_play(now.use, model, sets, plain, now.rounds, &p);
    CHECK(cached > 0 && p.stats.checkpoints_taken > 0 && p.stats.checkpoints_resumed > 0);
    CHECK(zesim_counter("violations") == 0);
}

static void converse_all(size_t n) {
    static const struct {
        const char *zesim, *use, *batch, *mode;
    } cases[] = {
        {"devices=1," SMALL, "devices.use=\"level_zero:0\"", "memory.batch=40", "speculation.mode=off"},
        {"devices=2," SMALL, "devices.use=\"level_zero:0, level_zero:1\"", "memory.batch=64",
         "speculation.mode=ngram"},
        {"devices=2,peer=none," SMALL, "devices.use=\"level_zero:0, level_zero:1\"", "memory.batch=70",
         "speculation.mode=off"},
        {"devices=1," SMALL, "devices.use=\"cpu:0, level_zero:0\"", "memory.batch=90",
         "speculation.mode=ngram"}};
    for (size_t i = 0; i < n; i++) {
        CHECK(n <= sizeof cases / sizeof cases[0]);
        now.use = cases[i].use;
        now.batch = cases[i].batch;
        now.mode = cases[i].mode;
        now.rounds = 7;
        prefix_play_texts = 2;
        zesim_run(cases[i].zesim, converse);
    }
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
    converse_all(4);
    gguf_writer_free(&w);
}

static void windows(void **state) {
    (void)state;
    ZESIM_NEED();
    const struct selftest_model m = {.architecture = "gemma3",
                                     .type = BLOCK_F16,
                                     .n_layers = 6,
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
    converse_all(2);
    close(fd);
}

/* A prompt, and one that goes on from it: what the driver has executed after the start and after each, and
 * how the second ended. */
static void two_turns(void) {
    static struct prefix_play_request r[2];
    const char *sets[] = {now.use,
                          "memory.context=256",
                          "memory.batch=128",
                          "cpu.threads=2",
                          "server.checkpoints=5",
                          "memory.driver_reserve=1MiB",
                          NULL};
    uint64_t seed = 5, kernels[3];
    stator *s = harness_start(model, sets);
    kernels[0] = zesim_counter("exec.kernel");
    bool failed = false;
    for (uint32_t i = 0; i < 2 && !failed; i++) {
        for (uint32_t k = i * 110; k < 110 + i * 60; k++)
            r[1].prompt[k] = (int32_t)testing_below(&seed, 96);
        memcpy(r[0].prompt, r[1].prompt, sizeof r[0].prompt);
        r[i].n_prompt = 110 + i * 60;
        stator_request q = {.size = sizeof q, .tokens = r[i].prompt, .n_tokens = r[i].n_prompt, .max_new = 1};
        stator_error e = {0};
        CHECK(stator_submit(s, &q, &r[i].id, &e) == STATOR_OK);
        for (bool done = false; !done;) {
            stator_event ev = {.size = sizeof ev};
            int have = 0;
            CHECK(stator_poll(s, UINT64_MAX, &ev, &have, &e) == STATOR_OK);
            done = have && ev.kind == STATOR_EVENT_DONE;
            failed = done && ev.reason == STATOR_REASON_FAILED;
            CHECK(!failed || (ev.status == STATOR_DEVICE && strstr(ev.text, "lost") != NULL));
        }
        kernels[i + 1] = zesim_counter("exec.kernel");
    }
    stator_stats stats = {.size = sizeof stats};
    CHECK(stator_get_stats(s, &stats, NULL) == STATOR_OK && stats.blocks_free == stats.blocks);
    fprintf(stderr,
            "kernels %" PRIu64 " %" PRIu64 " %" PRIu64 " failed %d taken %" PRIu64 " resumed %" PRIu64 "\n",
            kernels[0], kernels[1], kernels[2], failed, stats.checkpoints_taken, stats.checkpoints_resumed);
    stator_close(s);
    CHECK(zesim_counter("violations") == 0);
}

/* In the kernel of that number, counted from the start's end. */
static void lost(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[GGUF_WRITER_PATH], text[4096], config[160];
    unsigned long start = 0, first = 0, second = 0, failed = 0, taken = 0, resumed = 0;
    struct gguf_writer w = hybrid(path);
    now.use = "devices.use=\"level_zero:0\"";
    for (unsigned long at = 0; at <= second; at += 31) {
        snprintf(config, sizeof config, "devices=1," SMALL "%s%.0lu%s", at > 0 ? ",fault=exec.kernel@" : "",
                 at, at > 0 ? ":lost" : "");
        const int status = zesim_child(config, two_turns, text, sizeof text);
        const char *said = strstr(text, "kernels ");
        if (status != 0 || said == NULL ||
            sscanf(said, "kernels %lu %lu %lu failed %lu taken %lu resumed %lu", &start, &first,
                   at == 0 ? &second : &start, &failed, &taken, &resumed) != 6)
            fail_msg("with ZESIM=%s: status 0x%x\n%s", config, (unsigned)status, text);
        if (at == 0)
            assert_true(start == 0 && failed == 0 && taken >= 2 && resumed == 1);
        else
            assert_int_equal(failed, 1);
    }
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(states), cmocka_unit_test(windows),
                                       cmocka_unit_test(lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
