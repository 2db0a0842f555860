/* Guesses of a model's MTP head: each is the one that tools/reference_logits.py computed in float64
 * (tests/data/peer_guesses.txt), on one device, on two with a part of the layers, on two and three by tensor
 * and on two groups of two, whatever the prompt's chunks, also behind guesses that were kept; and what is
 * refused. */
#include "hybrid_model.h"
#include "nextn_play.h"

static void right(void **state) {
    const char *name = *state;
    const struct peer_model *m = peer_models;
    struct nextn_expected x[NEXTN_PROMPTS];
    struct gguf_writer w;
    char memory[GGUF_WRITER_PATH];
    while (strcmp(m->name, name) != 0)
        m++;
    nextn_play_expected(name, x);
    const char *path = nextn_play_model(m, &w, memory);
    static const char
        *const one[] = {"devices.use=cpu:0", NULL},
               *const two[] = {"devices.use=cpu:0,cpu:1", NULL}, *const scalar[] = {"cpu.tier=scalar", NULL},
               *const tensor[] = {"devices.use=cpu:0,cpu:1", "devices.split=tensor", NULL},
               *const uneven[] = {"devices.use=cpu:0,cpu:1,cpu:2", "devices.split=tensor:3,1,2", NULL},
               *const groups[] = {"devices.use=cpu:0,cpu:1,cpu:2,cpu:3", "devices.split=tensor",
                                  "devices.groups=2", NULL};
    for (uint32_t i = 0; i < NEXTN_PROMPTS; i++) {
        nextn_play(path, m, &x[i], -1, one);
        nextn_play(path, m, &x[i], 0.6f, i % 2 ? one : two);
        nextn_play(path, m, &x[i], 1, i % 2 ? two : scalar);
        nextn_play(path, m, &x[i], i % 2 ? 1 : 0.6f, i % 2 ? tensor : uneven);
        nextn_play(path, m, &x[i], -1, i % 2 ? uneven : tensor);
        nextn_play(path, m, &x[i], i % 2 ? 0.6f : 1, groups);
    }
    gguf_writer_free(&w);
}

static void refused(const char *model, const char *const *sets, stator_status code,
                    const char *const *words) {
    stator_options o = {.size = sizeof o, .config = model, .set = sets};
    while (sets[o.n_set] != NULL)
        o.n_set++;
    stator *s = NULL;
    stator_error e = {0};
    assert_int_equal(stator_open(&o, &s, &e), code);
    for (size_t i = 0; words[i] != NULL; i++)
        if (strstr(e.text, words[i]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", e.text, words[i]);
}

static void refusals(void **state) {
    (void)state;
    static const char *const mtp[] = {"speculation.mode=mtp", NULL};
    static const char *const none[] = {"speculation.mode", "mtp", "no MTP head", "nextn_predict_layers",
                                       NULL};
    static const char *const missing[] = {"tensor 'blk.4.nextn.eh_proj.weight' is missing", NULL};
    struct hybrid_model m = hybrid_model_usual();
    for (uint32_t i = 0; i < 2; i++) {
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        m.nextn = i;
        m.blocks = 4 + i;
        m.no_pair = i;
        hybrid_model_write(&w, m);
        assert_true(gguf_writer_finish(&w));
        assert_non_null(gguf_writer_memory_path(&w, path));
        refused(path, mtp, i == 0 ? STATOR_USAGE : STATOR_BAD_MODEL, i == 0 ? none : missing);
        gguf_writer_free(&w);
    }
}

/* A tensor that only some heads have: the norm before the experts of a head in one layer, the last mix of
 * streams, the norm of all streams. */
static void refusals_of_own(void **state) {
    (void)state;
    static const char *const mtp[] = {"speculation.mode=mtp", NULL};
    static const char *const cases[][2] = {{"nemotron_h_moe-nextn", "blk.4.post_attention_norm.weight"},
                                           {"qwen4exp-nextn", "blk.4.nextn.hc_head_up.weight"},
                                           {"qwen4exp-nextn", "blk.4.nextn.hnorm.weight"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char missing[96], path[GGUF_WRITER_PATH];
        snprintf(missing, sizeof missing, "tensor '%s' is missing", cases[i][1]);
        const char *const what[] = {missing, NULL};
        const struct peer_model *m = peer_model_named(cases[i][0]);
        assert_non_null(m);
        struct gguf_writer w = gguf_writer_new();
        w.drop[0] = cases[i][1];
        peer_model_write(&w, m, BLOCK_F32);
        assert_true(gguf_writer_finish(&w));
        assert_non_null(gguf_writer_memory_path(&w, path));
        refused(path, mtp, STATOR_BAD_MODEL, what);
        gguf_writer_free(&w);
    }
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
        {"with factors", right, NULL, NULL, (void *)(uintptr_t) "qwen35-scales-nextn"},
        cmocka_unit_test(refusals),
        cmocka_unit_test(refusals_of_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
