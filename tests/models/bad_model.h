/* What tests of refused models share: a model with one thing changed is refused by the name of the key or
 * tensor, with what was expected and found, or computed. */
#ifndef STATOR_TESTS_BAD_MODEL_H
#define STATOR_TESTS_BAD_MODEL_H

#include "engine_harness.h"
#include "peer_models.h"

#include <math.h>

enum how { LEFT_OUT, NUMBER, SIGNED, FRACTION, TEXT, TRUTHS, NUMBERS, SHAPE, HALVES };

struct change {
    const char *model;
    const char *name; /* of a key behind the architecture's, or (SHAPE, HALVES) of a tensor */
    enum how how;
    double number; /* also: the length of arrays; of SHAPE: the first value, where it is not 0 */
    const char *text;
    uint32_t ne[3];
    const char *refusal; /* a part of the message; NULL: the model runs */
};

static inline const struct peer_model *find(const char *name) {
    for (size_t i = 0; i < PEER_MODELS; i++)
        if (strcmp(peer_models[i].name, name) == 0)
            return &peer_models[i];
    fail_msg("no model %s", name);
    return NULL;
}

static inline void add_array(struct gguf_writer *w, const char *key, const struct change *c) {
    const uint64_t n = (uint64_t)c->number;
    const uint32_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint8_t truths[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_true(n <= 8);
    if (c->how == TRUTHS)
        gguf_writer_array(w, key, GGUF_BOOL, n, truths, n);
    else
        gguf_writer_array(w, key, GGUF_U32, n, ones, n * sizeof ones[0]);
}

static inline void add_change(struct gguf_writer *w, const char *key, const struct change *c) {
    const uint64_t ne[3] = {c->ne[0], c->ne[1] != 0 ? c->ne[1] : 1, c->ne[2] != 0 ? c->ne[2] : 1};
    const uint32_t dims = c->ne[2] != 0 ? 3 : c->ne[1] != 0 ? 2 : 1;
    const float values[16] = {(float)c->number, 1};
    assert_true(c->how != SHAPE || c->number == 0 || ne[0] * ne[1] * ne[2] <= 16);
    switch (c->how) {
    case LEFT_OUT:
        break;
    case NUMBER:
        gguf_writer_u32(w, key, (uint32_t)c->number);
        break;
    case SIGNED:
        gguf_writer_i32(w, key, (int32_t)c->number);
        break;
    case FRACTION:
        gguf_writer_f32(w, key, (float)c->number);
        break;
    case TEXT:
        gguf_writer_text(w, key, c->text);
        break;
    case TRUTHS:
    case NUMBERS:
        add_array(w, key, c);
        break;
    case SHAPE:
    case HALVES:
        gguf_writer_tensor(w, key, c->how == SHAPE ? BLOCK_F32 : BLOCK_F16, dims, ne,
                           c->number != 0 ? values : NULL);
        break;
    }
}

/* The model with the change opened and started as every command does it. */
static stator_status start(struct gguf_writer *w, const struct change *c, stator **s, stator_error *e) {
    const struct peer_model *m = find(c->model);
    char key[96], path[GGUF_WRITER_PATH];
    const bool tensor = c->how == SHAPE || c->how == HALVES || strncmp(c->name, "blk.", 4) == 0;
    snprintf(key, sizeof key, "%s%s%s", tensor ? "" : m->arch, tensor ? "" : ".", c->name);
    *w = gguf_writer_new();
    w->drop[0] = key;
    peer_model_write(w, m, BLOCK_F32);
    w->drop[0] = NULL;
    add_change(w, key, c);
    assert_true(gguf_writer_finish(w));
    const char *sets[] = {"memory.kv_type=f32", "memory.context=64", "memory.batch=16"};
    stator_options o = {.size = sizeof o,
                        .config = gguf_writer_memory_path(w, path),
                        .set = sets,
                        .n_set = sizeof sets / sizeof sets[0]};
    stator_status st = stator_open(&o, s, e);
    return st == STATOR_OK ? stator_start(*s, e) : st;
}

static inline void check_runs(stator *s, const struct change *c) {
    const struct peer_model *m = find(c->model);
    enum { TOKENS = 40 };
    int32_t ids[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = peer_token(m, i);
    float *logits = harness_logits(s, ids, TOKENS);
    for (size_t i = 0; i < (size_t)TOKENS * m->vocab; i++)
        if (!isfinite(logits[i]))
            fail_msg("%s, %s %g: logit %zu is %g", c->model, c->name, c->number, i, (double)logits[i]);
    free(logits);
}

static inline void check(const struct change *c) {
    struct gguf_writer w;
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = start(&w, c, &s, &e);
    if (c->refusal == NULL) {
        if (st != STATOR_OK)
            fail_msg("%s, %s %g: %s", c->model, c->name, c->number, e.text);
        check_runs(s, c);
    } else if (st != STATOR_BAD_MODEL || strstr(e.text, c->refusal) == NULL)
        fail_msg("%s, %s %g: %d \"%s\", expected \"%s\"", c->model, c->name, c->number, (int)st, e.text,
                 c->refusal);
    stator_close(s);
    gguf_writer_free(&w);
}

#endif
