/* Small models of odd shapes against the published formulas in float64: of every position one logit, which
 * tools/reference_logits.py computed and tools/check_peer wrote to tests/data/peer_logits.txt (it also
 * compares all logits with llama.cpp's).
 *
 *     test_peer_models --write DIR    the models as DIR/NAME.gguf, ids as NAME.ids, watched ids as
 * NAME.watched
 *     test_peer_models --only PATTERN    the tests of these names
 */
#include "engine_harness.h"
#include "peer_models.h"

#include "arch/arch.h"
#include "kernels/kernels.h"

#include <math.h>

static const char *path_of(struct gguf_writer *w, const struct peer_model *m, uint32_t type,
                           char path[GGUF_WRITER_PATH]) {
    *w = gguf_writer_new();
    peer_model_write(w, m, type);
    assert_true(gguf_writer_finish(w));
    assert_non_null(gguf_writer_memory_path(w, path));
    return path;
}

static void expected_of(const struct peer_model *m, float want[PEER_TOKENS]) {
    char *text = testing_read_file("tests/data/peer_logits.txt", NULL), line[64];
    snprintf(line, sizeof line, "\n%s\n", m->name);
    const char *at = strstr(text, line);
    if (at == NULL)
        fail_msg("tests/data/peer_logits.txt has no model %s: run tools/check_peer --update", m->name);
    at += strlen(line);
    for (uint32_t i = 0; i < PEER_TOKENS; i++) {
        char *end = NULL;
        want[i] = strtof(at, &end);
        assert_ptr_not_equal(at, end);
        at = end;
    }
    free(text);
}

/* The limits are of the largest difference and of the rms. */
static void check(const struct peer_model *m, uint32_t type, const char *set, double limit,
                  double rms_limit) {
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    const char *sets[] = {
        "memory.kv_type=f32", "memory.context=256", "memory.logits_rows=16", "memory.batch=64", set, NULL};
    float want[PEER_TOKENS];
    int32_t ids[PEER_TOKENS];
    expected_of(m, want);
    for (uint32_t i = 0; i < PEER_TOKENS; i++)
        ids[i] = peer_token(m, i);
    stator *s = harness_start(path_of(&w, m, type, path), sets);
    float *logits = harness_logits(s, ids, PEER_TOKENS), worst = 0;
    double squares = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < PEER_TOKENS; i++) {
        float d = fabsf(logits[(size_t)i * m->vocab + peer_watched(m, i)] - want[i]);
        squares += (double)d * (double)d;
        if (!(d <= worst)) {
            worst = d;
            at = i;
        }
    }
    double rms = sqrt(squares / PEER_TOKENS);
    print_message("%s, %s, %s: at most %.3g off, at position %u; rms %.3g\n", m->name, block_info(type)->name,
                  set, (double)worst, at, rms);
    assert_true((double)worst <= limit && rms <= rms_limit);
    stator_close(s);
    free(logits);
    gguf_writer_free(&w);
}

/* Embeddings of some beginnings of the ids, several of them in a step. The limit is of values of vectors of
 * length 1. */
static void check_embeddings(const struct peer_model *m, uint32_t type, const char *set, double limit) {
    static const uint32_t lengths[] = {1,  2,  12, 13, 14, 17,  18,  24,
                                       25, 31, 32, 33, 65, 100, 151, PEER_TOKENS};
    enum { TEXTS = sizeof lengths / sizeof lengths[0] };
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    const char *sets[] = {"memory.kv_type=f32", "memory.batch=256", set, "memory.sequences=3", NULL};
    float want[PEER_TOKENS], worst = 0;
    int32_t ids[PEER_TOKENS];
    uint64_t requests[TEXTS];
    expected_of(m, want);
    for (uint32_t i = 0; i < PEER_TOKENS; i++)
        ids[i] = peer_token(m, i);
    stator *s = harness_start(path_of(&w, m, type, path), sets);
    for (uint32_t k = 0; k < TEXTS; k++) {
        const stator_request q = {
            .size = sizeof q, .kind = STATOR_EMBED, .tokens = ids, .n_tokens = lengths[k]};
        stator_error e = {0};
        if (stator_submit(s, &q, &requests[k], &e) != STATOR_OK)
            fail_msg("%s: %s", m->name, e.text);
    }
    for (uint32_t left = TEXTS; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        uint32_t k = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        while (have && requests[k] != ev.request)
            k++;
        if (have && ev.kind == STATOR_EVENT_VECTOR) {
            const uint32_t i = lengths[k] - 1;
            const float d = fabsf(ev.logits[peer_watched(m, i) % m->embd] - want[i]);
            assert_int_equal(ev.n_values, m->embd);
            worst = d <= worst ? worst : d;
        } else if (have) {
            assert_int_equal(ev.reason, STATOR_REASON_LENGTH);
            left--;
        }
    }
    print_message("%s, %s, %s: values of embeddings at most %.3g off\n", m->name, block_info(type)->name, set,
                  (double)worst);
    assert_true((double)worst <= limit);
    stator_close(s);
    gguf_writer_free(&w);
}

static void one_embedding(void **state) {
    const struct peer_model *m = *state;
    for (int t = 0; t <= (int)kernels_best_tier(); t++) {
        char set[32];
        snprintf(set, sizeof set, "cpu.tier=%s", kernels_tier_name((enum kernels_tier)t));
        check_embeddings(m, BLOCK_F32, set, 1e-5);
    }
    check_embeddings(m, BLOCK_F16, "cpu.threads=1", 1e-5);
    check_embeddings(m, BLOCK_Q8_0, "cpu.threads=2", .05);
    check_embeddings(m, BLOCK_F32, "devices.use=cpu:0,cpu:1", 1e-5);
    check_embeddings(m, BLOCK_F32, "cpu.threads=4", 1e-5);
}

/* Every model on the best tier, and on one of the others, each in its turn: that all tiers have the same bits
 * is shown by test_kernels.c and its like. Q8_0 rounds what it multiplies with, and a router may choose
 * another expert then. The split run has its vectors stored with trailing dimensions of 1. */
static void one(void **state) {
    const struct peer_model *m = *state;
    const int best = (int)kernels_best_tier(), other = (int)(m - peer_models) % (best + 1);
    for (int t = 0; t <= best; t++) {
        char set[32];
        snprintf(set, sizeof set, "cpu.tier=%s", kernels_tier_name((enum kernels_tier)t));
        if (t == best || t == other)
            check(m, BLOCK_F32, set, 1e-3, 2e-4);
        if (t == best && m->nope % 32 == 0)
            check(m, BLOCK_Q8_0, set, 2, .25);
    }
    check(m, BLOCK_F16, "memory.kv_type=f32", 1e-3, 2e-4);
    peer_vector_dims = 3;
    check(m, BLOCK_F32, "devices.use=cpu:0,cpu:1", 1e-3, 2e-4);
    peer_vector_dims = 1;
}

static void refuse(const char *path, const char *const *sets, const char *why) {
    size_t n = 0;
    while (sets[n] != NULL)
        n++;
    stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = n};
    stator *s = NULL;
    stator_error e = {0};
    assert_int_equal(stator_open(&o, &s, &e), STATOR_USAGE);
    if (strstr(e.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

/* A text whose tokens see both sides is one step. */
static void whole_texts(void **state) {
    (void)state;
    struct gguf_writer w;
    char file[GGUF_WRITER_PATH];
    const char *path = path_of(&w, peer_model_named("gemma-embedding-odd"), BLOCK_F32, file);
    refuse(path, (const char *[]){"memory.context=65", "memory.batch=64", NULL}, "memory.batch = 64");
    refuse(path, (const char *[]){"memory.context=auto", NULL}, "in one step");
    refuse(path, (const char *[]){"memory.logits_rows=8", NULL}, "leave it \"auto\"");
    refuse(path, (const char *[]){"model.pooling=none", NULL}, "makes embeddings alone");
    refuse(path, (const char *[]){"cache.kv_dir=/tmp/none", NULL}, "cache.kv_dir");
    stator *s = harness_start(path, (const char *[]){"memory.batch=40", "server.checkpoints=2", NULL});
    int32_t ids[41];
    for (uint32_t i = 0; i < 41; i++)
        ids[i] = (int32_t)i;
    stator_request q = {.size = sizeof q, .kind = STATOR_EMBED, .tokens = ids, .n_tokens = 41};
    stator_error e = {0};
    uint64_t id = 0;
    assert_int_equal(stator_submit(s, &q, &id, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "memory.context is 40"));
    stator_close(s);
    gguf_writer_free(&w);
}

/* The part of a text from behind `begin` to `end`, line breaks as spaces; malloced. */
static char *part_of(const char *path, const char *begin, const char *end) {
    char *text = testing_read_file(path, NULL), *from = strstr(text, begin);
    if (from == NULL)
        fail_msg("%s does not say \"%s\"", path, begin);
    from += strlen(begin);
    const char *to = strstr(from, end);
    assert_non_null(to);
    char *part = calloc(1, (size_t)(to - from) + 1);
    for (size_t i = 0; from + i < to; i++)
        part[i] = from[i] == '\n' ? ' ' : from[i];
    free(text);
    return part;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The README names the architectures that there are, and each has a model here. */
static void documented(void **state) {
    (void)state;
    const char *names[64];
    size_t n = 0, rows = strlen(" |---|---|");
    char *readme = part_of("README.md", "| models | architecture |", "## A memory plan");
    for (; arch_list[n] != NULL; n++)
        names[n] = arch_list[n]->name;
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i < n; i++) {
        char quoted[64], row[512];
        size_t models = 0;
        snprintf(quoted, sizeof quoted, "`%s`", names[i]);
        snprintf(row, sizeof row, " | %s | %s | ", arch_find(names[i])->models, quoted);
        const char *at = strstr(readme + rows, row);
        if (at != readme + rows)
            fail_msg("README.md's table of models has not the row \"%s\" at its place, by the names of "
                     "architectures",
                     row);
        rows += strlen(row) - 1;
        for (size_t m = 0; m < PEER_MODELS; m++)
            models += strcmp(peer_models[m].arch, names[i]) == 0;
        if (models == 0)
            fail_msg("tests/models/peer_models.h has no model of %s", names[i]);
    }
    assert_string_equal(readme + rows + strspn(readme + rows, " "), "");
    free(readme);
}

static void write_lines(const char *dir, const struct peer_model *m, const char *what) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s", dir, m->name, what);
    FILE *f = fopen(path, "w");
    for (uint32_t i = 0; f != NULL && i < PEER_TOKENS; i++)
        fprintf(f, "%d\n", strcmp(what, "ids") == 0 ? peer_token(m, i) : (int)peer_watched(m, i));
    if (f == NULL || fclose(f) != 0)
        exit(1);
}

static int write_all(const char *dir) {
    for (size_t i = 0; i < PEER_MODELS; i++) {
        const struct peer_model *m = &peer_models[i];
        char path[1024];
        struct gguf_writer w = gguf_writer_new();
        snprintf(path, sizeof path, "%s/%s.gguf", dir, m->name);
        peer_model_write(&w, m, BLOCK_F32);
        if (!gguf_writer_finish(&w) || !gguf_writer_save(&w, path))
            return 1;
        gguf_writer_free(&w);
        write_lines(dir, m, "ids");
        write_lines(dir, m, "watched");
        puts(m->name);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_all(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--only") == 0)
        cmocka_set_test_filter(argv[2]);
    struct CMUnitTest tests[PEER_MODELS + 2];
    tests[PEER_MODELS] = (struct CMUnitTest)cmocka_unit_test(documented);
    tests[PEER_MODELS + 1] = (struct CMUnitTest)cmocka_unit_test(whole_texts);
    for (size_t i = 0; i < PEER_MODELS; i++)
        tests[i] = (struct CMUnitTest){peer_models[i].name, peer_models[i].pooling > 0 ? one_embedding : one,
                                       NULL, NULL, (void *)(uintptr_t)&peer_models[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
