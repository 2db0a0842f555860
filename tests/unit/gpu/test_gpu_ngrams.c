/* n-gram embeddings with the GPU kernels, run by the software driver: the CPU's bits, with the rows on the
 * first or the second GPU, by tensor, beside a CPU, in chunks, with draft tokens and reused prefixes. */
#include "ngram_model.h"
#include "prefix_play.h"

#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"

/* Of the next child. */
static char model[GGUF_WRITER_PATH];
static const char *const *way;

static void same(void) {
    float *cpu = ngram_model_run(model, "memory.batch=64", "devices.use=cpu:0", NULL);
    float *gpu = ngram_model_run(model, way[0], way[1], way[2]);
    CHECK(memcmp(cpu, gpu, N_IDS * VOCAB * sizeof *cpu) == 0);
    CHECK(zesim_counter("violations") == 0);
    free(cpu);
    free(gpu);
}

static void bits(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        const char *zesim, *sets[3];
    } cases[] = {
        {"devices=1," SMALL, {"memory.batch=64", "devices.use=level_zero:0", NULL}},
        {"devices=1," SMALL, {"memory.batch=7", "devices.use=level_zero:0", NULL}},
        {"devices=2," SMALL, {"memory.batch=9", "devices.use=\"level_zero:0, level_zero:1\"", NULL}},
        {"devices=2,peer=none," SMALL,
         {"memory.batch=40", "devices.use=\"level_zero:0, level_zero:1\"", NULL}},
        {"devices=2," SMALL,
         {"memory.batch=40", "devices.use=\"level_zero:0, level_zero:1\"", "devices.split=tensor"}},
        {"devices=1," SMALL, {"memory.batch=5", "devices.use=\"cpu:0, level_zero:0\"", NULL}},
    };
    struct gguf_writer w = ngram_model_write(false, BLOCK_IQ4_NL);
    ngram_model_path(&w, model);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        way = cases[i].sets;
        const int status = zesim_child(cases[i].zesim, same, text, sizeof text);
        if (status != 0)
            fail_msg("%s %s: status 0x%x\n%s", cases[i].sets[0], cases[i].sets[1], (unsigned)status, text);
    }
    gguf_writer_free(&w);
}

static void converse(void) {
    static const char *const plain[] = {"devices.use=cpu:0",  "server.prefix_cache=false",
                                        "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2",      NULL};
    static const char *const sets[] = {"devices.use=\"level_zero:0, level_zero:1\"",
                                       "memory.batch=40",
                                       "memory.sequences=3",
                                       "memory.context=256",
                                       "memory.driver_reserve=1MiB",
                                       "speculation.mode=ngram",
                                       "server.checkpoints=5",
                                       "cpu.threads=2",
                                       NULL};
    struct prefix_play p;
    CHECK(prefix_play("n-grams", model, sets, plain, 6, &p) > 0 && p.stats.checkpoints_resumed > 0);
    CHECK(zesim_counter("violations") == 0);
}

static void prefixes_and_drafts(void **state) {
    (void)state;
    ZESIM_NEED();
    char text[4096];
    struct gguf_writer w = ngram_model_write(false, BLOCK_Q8_0);
    ngram_model_path(&w, model);
    const int status = zesim_child("devices=2," SMALL, converse, text, sizeof text);
    if (status != 0)
        fail_msg("status 0x%x\n%s", (unsigned)status, text);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits), cmocka_unit_test(prefixes_and_drafts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
