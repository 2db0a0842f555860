/* Driving an engine in tests: open on a model with settings, run requests, collect ids and logits; the
 * oracles' files. */
#ifndef STATOR_TESTS_ENGINE_HARNESS_H
#define STATOR_TESTS_ENGINE_HARNESS_H

#include "testing.h"

#include "stator.h"

#define HARNESS_SETS 16

/* sets: texts "section.key=value", NULL at the end. Fails the test when the engine does not start. */
static inline stator *harness_start(const char *model, const char *const *sets) {
    size_t n = 0;
    while (sets != NULL && sets[n] != NULL)
        n++;
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = n, .reuse = 1};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK)
        fail_msg("%s: %s", model, e.text);
    return s;
}

static inline uint32_t harness_vocab(const stator *s) {
    stator_info info = {.size = sizeof info};
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    return info.vocab;
}

/* Rows of logits of a request that asks for them, [n][vocab], malloced. n: its tokens, those of its pictures
 * included. */
static inline float *harness_rows(stator *s, const stator_request *q, size_t n) {
    uint32_t vocab = harness_vocab(s);
    float *out = malloc(n * vocab * sizeof *out);
    assert_non_null(out);
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, q, &id, &e) != STATOR_OK)
        fail_msg("submit: %s", e.text);
    size_t rows = 0;
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_DONE) {
            if (ev.reason == STATOR_REASON_FAILED)
                fail_msg("logits: %s", ev.text);
            break;
        }
        assert_int_equal(ev.kind, STATOR_EVENT_LOGITS);
        assert_int_equal(ev.position, rows);
        assert_true(rows < n);
        memcpy(out + rows++ * vocab, ev.logits, vocab * sizeof *out);
    }
    assert_int_equal(rows, n);
    return out;
}

/* Logits of all positions, [n][vocab], malloced. */
static inline float *harness_logits(stator *s, const int32_t *ids, size_t n) {
    const stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = n};
    return harness_rows(s, &q, n);
}

struct harness_text {
    uint64_t id;
    uint32_t n;
    bool done;
    stator_reason reason;
    int32_t ids[1024];
};

static inline uint64_t harness_submit(stator *s, const int32_t *ids, size_t n, uint32_t max_new,
                                      float temperature, uint64_t seed) {
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = ids,
                        .n_tokens = n,
                        .max_new = max_new,
                        .ignore_eos = 1};
    q.sampling = (stator_sampling){
        .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = temperature, .seed = seed};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("submit: %s", e.text);
    return id;
}

/* Polls until all n texts (with their ids set) are done. */
static inline void harness_collect(stator *s, struct harness_text *texts, size_t n) {
    size_t left = n;
    while (left > 0) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have)
            continue;
        struct harness_text *t = texts;
        while (t < texts + n && t->id != ev.request)
            t++;
        assert_true(t < texts + n && !t->done);
        if (ev.kind == STATOR_EVENT_TOKEN) {
            assert_true(t->n < 1024);
            t->ids[t->n++] = ev.token;
        } else {
            assert_int_equal(ev.kind, STATOR_EVENT_DONE);
            t->done = true;
            t->reason = ev.reason;
            left--;
        }
    }
}

/* The numbers of "key": [..] in a JSON text; returns how many. */
static inline size_t harness_json_ids(const char *json, const char *key, int32_t *ids, size_t capacity) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\": [", key);
    const char *at = strstr(json, name);
    assert_non_null(at);
    at += strlen(name);
    size_t n = 0;
    while (*at != ']') {
        char *end = NULL;
        assert_true(n < capacity);
        ids[n++] = (int32_t)strtol(at, &end, 10);
        assert_ptr_not_equal(end, at);
        at = end + strspn(end, ", \n");
    }
    return n;
}

struct harness_oracle {
    char model[1024];
    int32_t prompt[64];
    size_t n_prompt;
    int32_t greedy[64];
    size_t n_greedy;
    float *logits; /* [n_prompt][512], malloced */
};

/* An oracle of ../shared/oracles/models, which must be there (TESTING_NEED_SHARED). */
static inline void harness_oracle_read(const char *name, struct harness_oracle *o) {
    char relative[128];
    memset(o, 0, sizeof *o);
    snprintf(relative, sizeof relative, "oracles/models/%s.json", name);
    char *json = testing_read_file(testing_shared(relative), NULL);
    o->n_prompt = harness_json_ids(json, "prompt", o->prompt, 64);
    if (strstr(json, "\"greedy\": [") != NULL)
        o->n_greedy = harness_json_ids(json, "greedy", o->greedy, 64);
    free(json);
    snprintf(relative, sizeof relative, "oracles/models/%s.logits.f32", name);
    size_t bytes = 0;
    o->logits = testing_read_file(testing_shared(relative), &bytes);
    assert_int_equal(bytes, o->n_prompt * 512 * sizeof(float));
    snprintf(relative, sizeof relative, "oracles/models/%s.gguf", name);
    snprintf(o->model, sizeof o->model, "%s", testing_shared(relative));
}

#endif
