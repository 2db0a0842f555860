/* Answers of small models with an MTP head, whose guesses must be those of tests/data/peer_guesses.txt,
 * which tools/reference_logits.py computed in float64. */
#ifndef STATOR_TESTS_NEXTN_PLAY_H
#define STATOR_TESTS_NEXTN_PLAY_H

#include "engine_harness.h"
#include "peer_models.h"

#include "stator_bench.h"

enum { NEXTN_PROMPTS = 5, NEXTN_NEW = 10, NEXTN_GUESSED = 4 };

struct nextn_expected {
    uint32_t prompt;
    int32_t text[NEXTN_NEW];
    int32_t guess[NEXTN_NEW][NEXTN_GUESSED]; /* behind text[i] */
};

static inline void nextn_play_expected(const char *name, struct nextn_expected x[NEXTN_PROMPTS]) {
    char *all = testing_read_file("tests/data/peer_guesses.txt", NULL), line[64];
    snprintf(line, sizeof line, "\n%s\n", name);
    char *at = strstr(all, line);
    if (at == NULL)
        fail_msg("tests/data/peer_guesses.txt has no model %s: run tools/check_peer --update", name);
    at += strlen(line);
    for (uint32_t i = 0; i < NEXTN_PROMPTS; i++) {
        x[i].prompt = (uint32_t)strtoul(at, &at, 10);
        for (uint32_t k = 0; k < NEXTN_NEW; k++) {
            x[i].text[k] = (int32_t)strtol(at, &at, 10);
            for (uint32_t j = 0; j < NEXTN_GUESSED; j++)
                x[i].guess[k][j] = (int32_t)strtol(at, &at, 10);
        }
    }
    free(all);
}

/* What the trace says of the passes: guess n behind a place is the expected one. Returns how many. */
static inline uint32_t nextn_play_compare(const char *trace, const struct nextn_expected *x,
                                          const char *what) {
    uint32_t n = 0;
    for (const char *at = trace; (at = strstr(at, "\"guess ")) != NULL; n++) {
        unsigned number = 0, place = 0;
        int token = 0;
        if (sscanf(at, "\"guess %u: %d behind %u\"", &number, &token, &place) != 3)
            fail_msg("%s: not a guess: %.60s", what, at);
        at++;
        /* The first is made at the place of a known token, further ones behind it. */
        const uint32_t known = place - (number - 1) - x->prompt;
        assert_true(number >= 1 && number <= NEXTN_GUESSED && known < NEXTN_NEW);
        if (token != x->guess[known][number - 1])
            fail_msg("%s: guess %u behind token %u of the answer is %d, in float64 it is %d", what, number,
                     known, token, x->guess[known][number - 1]);
    }
    return n;
}

static inline void nextn_play(const char *model, const struct peer_model *m, const struct nextn_expected *x,
                              float accept, const char *const *more) {
    const char *sets[HARNESS_SETS] = {"memory.kv_type=f32",   "memory.context=256",   "memory.batch=24",
                                      "speculation.mode=mtp", "speculation.tokens=4", "memory.sequences=1",
                                      "cpu.threads=2"};
    const size_t fixed = 7;
    size_t n = fixed;
    char path[] = "/tmp/test_nextn.XXXXXX", what[160];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (; more[n - fixed] != NULL; n++)
        sets[n] = more[n - fixed];
    snprintf(what, sizeof what, "%s, %u, %s, accept %g", m->name, x->prompt, more[0], (double)accept);
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = n, .trace = path};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK)
        fail_msg("%s: %s", what, e.text);
    int32_t ids[PEER_TOKENS];
    for (uint32_t i = 0; i < x->prompt; i++)
        ids[i] = peer_token(m, i);
    stator_request q = {
        .size = sizeof q, .tokens = ids, .n_tokens = x->prompt, .max_new = NEXTN_NEW, .ignore_eos = 1};
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE};
    stator_bench b = {.size = sizeof b,
                      .laps = accept >= 0 ? 3 : 1,
                      .guesses = accept >= 0 ? STATOR_BENCH_REPLAY : STATOR_BENCH_AS_CONFIGURED,
                      .accept = accept >= 0 ? accept : 0};
    uint64_t id = 0;
    if (stator_bench_submit(s, &q, &b, &id, &e) != STATOR_OK)
        fail_msg("%s: %s", what, e.text);
    uint32_t told = 0, kept = 0;
    for (bool done = false; !done;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN)
            assert_int_equal(ev.token, x->text[told++ % NEXTN_NEW]);
        done = have && ev.kind == STATOR_EVENT_DONE;
        kept = have && ev.kind == STATOR_EVENT_DONE ? ev.n_kept : kept;
        if (done && ev.reason == STATOR_REASON_FAILED)
            fail_msg("%s: %s", what, ev.text);
    }
    stator_close(s);
    assert_int_equal(told, NEXTN_NEW * b.laps);
    char *trace = testing_read_file(path, NULL);
    assert_in_range(nextn_play_compare(trace, x, what), 7, 200);
    assert_true(accept < 1 || kept > 10);
    free(trace);
    close(fd);
    unlink(path);
}

/* Writes the model; its path. */
static inline const char *nextn_play_model(const struct peer_model *m, struct gguf_writer *w,
                                           char path[GGUF_WRITER_PATH]) {
    *w = gguf_writer_new();
    peer_model_write(w, m, BLOCK_F32);
    assert_true(gguf_writer_finish(w));
    assert_non_null(gguf_writer_memory_path(w, path));
    return path;
}

#endif
