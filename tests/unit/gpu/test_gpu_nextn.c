/* The MTP head on the GPU kernels, run by the software driver: guesses are those of float64, on one GPU
 * and two, with a part of the layers each or by tensor; and conversations with guesses and copies of states
 * say what the CPU says without. */
#include "hybrid_model.h"
#include "nextn_play.h"
#include "prefix_play.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"

/* Of the next child. */
static const char *model, *use, *split, *groups = "devices.groups=1";
static const struct peer_model *shape;
static struct nextn_expected expected[NEXTN_PROMPTS];

static void answers(void) {
    const char *const sets[] = {use, split, groups, "memory.driver_reserve=1MiB", NULL};
    for (uint32_t i = 0; i < NEXTN_PROMPTS; i += 2) {
        nextn_play(model, shape, &expected[i], -1, sets);
        nextn_play(model, shape, &expected[i], 0.6f, sets);
    }
    CHECK(zesim_counter("violations") == 0);
}

static void right(void **state) {
    ZESIM_NEED();
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    for (shape = peer_models; strcmp(shape->name, *state) != 0;)
        shape++;
    nextn_play_expected(shape->name, expected);
    model = nextn_play_model(shape, &w, path);
    use = "devices.use=\"level_zero:0\"";
    split = "devices.split=auto";
    zesim_run("devices=1," SMALL, answers);
    use = "devices.use=\"level_zero:0, level_zero:1\"";
    split = "devices.split=1,1";
    zesim_run("devices=2," SMALL, answers);
    split = "devices.split=tensor:3,2";
    zesim_run("devices=2,order=shuffle,seed=3," SMALL, answers);
    use = "devices.use=\"level_zero:0, level_zero:1, level_zero:2, level_zero:3\"";
    split = "devices.split=tensor";
    groups = "devices.groups=2";
    zesim_run("devices=4," SMALL, answers);
    groups = "devices.groups=1";
    gguf_writer_free(&w);
}

static void converse(void) {
    static const char *const plain[] = {"devices.use=cpu:0",  "server.prefix_cache=false",
                                        "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2",      NULL};
    const char *sets[] = {use,
                          split,
                          "memory.batch=40",
                          "speculation.mode=mtp",
                          "memory.context=256",
                          "memory.sequences=3",
                          "cpu.threads=2",
                          "server.checkpoints=5",
                          "speculation.tokens=3",
                          "memory.driver_reserve=1MiB",
                          NULL};
    struct prefix_play p;
    prefix_play_texts = 2;
    prefix_play(use, model, sets, plain, 10, &p);
    CHECK(p.stats.checkpoints_taken > 0 && p.stats.guessed[0] > 0);
    CHECK(zesim_counter("violations") == 0);
}

static void conversations(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[GGUF_WRITER_PATH];
    struct hybrid_model m = hybrid_model_usual();
    struct gguf_writer w = gguf_writer_new();
    m.nextn = m.echoes = 1;
    m.blocks++;
    hybrid_model_write(&w, m);
    assert_true(gguf_writer_finish(&w));
    model = gguf_writer_memory_path(&w, path);
    split = "devices.split=auto";
    use = "devices.use=\"cpu:0, level_zero:0\"";
    zesim_run("devices=1," SMALL, converse);
    use = "devices.use=\"level_zero:0\"";
    zesim_run("devices=1," SMALL, converse);
    split = "devices.split=tensor";
    use = "devices.use=\"level_zero:0, level_zero:1\"";
    zesim_run("devices=2,order=shuffle,seed=7," SMALL, converse);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {"qwen35", right, NULL, NULL, (void *)(uintptr_t) "qwen35-nextn"},
        {"qwen35moe", right, NULL, NULL, (void *)(uintptr_t) "qwen35moe-nextn"},
        {"glm4moe", right, NULL, NULL, (void *)(uintptr_t) "glm4moe-nextn"},
        {"deepseek2", right, NULL, NULL, (void *)(uintptr_t) "deepseek2-nextn"},
        {"qwen4exp", right, NULL, NULL, (void *)(uintptr_t) "qwen4exp-nextn"},
        {"nemotron_h_moe", right, NULL, NULL, (void *)(uintptr_t) "nemotron_h_moe-nextn"},
        {"nemotron_h_moe, narrow experts", right, NULL, NULL,
         (void *)(uintptr_t) "nemotron_h_moe-latent-nextn"},
        cmocka_unit_test(conversations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
