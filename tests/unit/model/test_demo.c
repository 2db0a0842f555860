/* The model in the repository against its float64 reference (tools/demo/reference.py), so that numbers can be
 * checked on any machine: logits, greedy text, tokenizer, perplexity. Nothing of ../shared is needed. */
#include "engine_harness.h"

#include <math.h>

#define DEMO   "configs/demo.gguf"
#define VOCAB  2048
#define PROMPT 48
#define GREEDY 24

static void log_softmax(const float *logits, double *out) {
    double top = logits[0];
    double sum = 0;
    for (int i = 1; i < VOCAB; i++)
        top = fmax(top, (double)logits[i]);
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)logits[i] - top);
    for (int i = 0; i < VOCAB; i++)
        out[i] = (double)logits[i] - top - log(sum);
}

/* The ids of a file of one line. */
static size_t read_ids(const char *path, int32_t *ids, size_t capacity) {
    char *text = testing_read_file(path, NULL);
    size_t n = 0;
    char *end = NULL;
    for (char *at = text;; at = end) {
        long v = strtol(at, &end, 10);
        if (end == at)
            break;
        assert_true(n < capacity);
        ids[n++] = (int32_t)v;
    }
    free(text);
    return n;
}

/* Ours differ by int8 activations only, and by the KV cache's type. The limits are about 1.15 times what was
 * measured (f16 .0252, f32 .0232, q8_0 .0279, q4_0 .1073; arg-max agreed at 46 positions, q4_0 44); `others`
 * positions may have another arg-max. */
static void check_logits(const char *kv_type, double limit, size_t others) {
    int32_t ids[PROMPT];
    assert_int_equal(read_ids("tests/data/demo.prompt.txt", ids, PROMPT), PROMPT);
    size_t bytes = 0;
    float *reference = testing_read_file("tests/data/demo.logits.f32", &bytes);
    assert_int_equal(bytes, PROMPT * VOCAB * sizeof(float));
    char kv[64];
    snprintf(kv, sizeof kv, "memory.kv_type=%s", kv_type);
    const char *sets[] = {kv, "memory.context=128", "memory.batch=64", "memory.logits_rows=16", NULL};
    stator *s = harness_start(DEMO, sets);
    assert_int_equal(harness_vocab(s), VOCAB);
    float *logits = harness_logits(s, ids, PROMPT);
    double sum = 0;
    double worst = 0;
    size_t n = 0;
    size_t same = 0;
    for (size_t p = 0; p < PROMPT; p++) {
        double ours[VOCAB];
        double theirs[VOCAB];
        log_softmax(logits + p * VOCAB, ours);
        log_softmax(reference + p * VOCAB, theirs);
        int best_ours = 0;
        int best_theirs = 0;
        for (int k = 0; k < VOCAB; k++) {
            best_ours = ours[k] > ours[best_ours] ? k : best_ours;
            best_theirs = theirs[k] > theirs[best_theirs] ? k : best_theirs;
            if (theirs[k] <= log(1e-5))
                continue;
            double d = ours[k] - theirs[k];
            sum += d * d;
            worst = fmax(worst, fabs(d));
            n++;
        }
        same += best_ours == best_theirs;
    }
    double rms = sqrt(sum / (double)n);
    print_message(
        "KV %s: rms of d log p %.4f, at most %.3f, over %zu of p > 1e-5; arg-max agrees at %zu of %d\n",
        kv_type, rms, worst, n, same, PROMPT);
    assert_true(rms <= limit);
    assert_true(same >= PROMPT - others);

    int32_t expected[GREEDY];
    assert_int_equal(read_ids("tests/data/demo.greedy.txt", expected, GREEDY), GREEDY);
    struct harness_text t = {.id = harness_submit(s, ids, PROMPT, GREEDY, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.n, GREEDY);
    assert_memory_equal(t.ids, expected, sizeof expected);
    stator_close(s);
    free(logits);
    free(reference);
}

static void logits_f16(void **state) {
    (void)state;
    check_logits("f16", .029, 3);
}

static void logits_q8_0(void **state) {
    (void)state;
    check_logits("q8_0", .032, 3);
}

static void logits_q4_0(void **state) {
    (void)state;
    check_logits("q4_0", .123, 5);
}

static void logits_f32(void **state) {
    (void)state;
    check_logits("f32", .027, 3);
}

/* Turns \n, \r, \t and \\ back; returns the length. */
static size_t unescape(char *text) {
    char *out = text;
    for (char *at = text; *at != '\0'; at++) {
        if (*at != '\\') {
            *out++ = *at;
            continue;
        }
        at++;
        assert_non_null(strchr("nrt\\", *at));
        *out++ = *at == 'n' ? '\n' : *at == 'r' ? '\r' : *at == 't' ? '\t' : '\\';
    }
    *out = '\0';
    return (size_t)(out - text);
}

static size_t decode_all(const stator *s, const int32_t *ids, size_t n, char *out, size_t capacity) {
    stator_decoder d = {.size = sizeof d};
    size_t used = 0;
    for (size_t i = 0; i <= n; i++) {
        char piece[4096];
        size_t got = 0;
        assert_int_equal(stator_decode(s, &d, i < n ? ids[i] : -1, 0, piece, sizeof piece, &got, NULL),
                         STATOR_OK);
        assert_true(used + got <= capacity);
        memcpy(out + used, piece, got);
        used += got;
    }
    return used;
}

/* Hugging Face's tokenizers made the ids. */
static void tokens(void **state) {
    (void)state;
    const char *sets[] = {"memory.context=256", "memory.batch=8", "cpu.threads=1", NULL};
    stator *s = harness_start(DEMO, sets);
    char *file = testing_read_file("tests/data/demo.tokens.txt", NULL);
    size_t lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(file, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest), lines++) {
        char *tab = strrchr(line, '\t');
        assert_non_null(tab);
        *tab = '\0';
        int32_t expected[1024];
        size_t n_expected = 0;
        char *end = NULL;
        for (char *at = tab + 1; *at != '\0'; at = end) {
            expected[n_expected++] = (int32_t)strtol(at, &end, 10);
            assert_ptr_not_equal(at, end);
        }
        size_t length = unescape(line);
        int32_t ids[1024];
        size_t n = 0;
        assert_int_equal(stator_tokenize(s, line, length, 0, 0, ids, 1024, &n, NULL), STATOR_OK);
        if (n != n_expected || memcmp(ids, expected, n * sizeof *ids) != 0)
            fail_msg("other ids for \"%s\"", line);
        char text[8192];
        assert_int_equal(decode_all(s, ids, n, text, sizeof text), length);
        assert_memory_equal(text, line, length);
        /* With BOS; and with too little room. */
        assert_int_equal(stator_tokenize(s, line, length, 1, 0, ids, 1024, &n, NULL), STATOR_OK);
        assert_int_equal(n, n_expected + 1);
        assert_int_equal(ids[0], 0);
        stator_error e;
        assert_int_equal(stator_tokenize(s, line, length, 1, 0, ids, n - 1, &n, &e), STATOR_USAGE);
        assert_int_equal(n, n_expected + 1);
    }
    print_message("%zu texts\n", lines);
    assert_int_equal(lines, 19);
    free(file);
    stator_close(s);
}

static double json_number(const char *json, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\": ", key);
    const char *at = strstr(json, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

/* By the protocol in demo-heldout.json: chunks of 256 ids, each behind a BOS of its own, every id scored
 * once. */
static void check_perplexity(const char *kv_type) {
    enum { CHUNK = 256 };
    char *json = testing_read_file("tests/data/demo-heldout.json", NULL);
    double expected = json_number(json, "perplexity");
    size_t n_expected = (size_t)json_number(json, "tokens");
    assert_int_equal((size_t)json_number(json, "chunk"), CHUNK);
    free(json);
    char kv[64];
    snprintf(kv, sizeof kv, "memory.kv_type=%s", kv_type);
    /* The context gives room for tokenizing the whole text. */
    const char *sets[] = {kv, "memory.context=1024", "memory.batch=256", "memory.logits_rows=64", NULL};
    stator *s = harness_start(DEMO, sets);
    size_t length = 0;
    char *text = testing_read_file("tests/data/demo-heldout.txt", &length);
    int32_t *ids = malloc((length + 1) * sizeof *ids);
    assert_non_null(ids);
    size_t n = 0;
    assert_int_equal(stator_tokenize(s, text, length, 0, 0, ids, length + 1, &n, NULL), STATOR_OK);
    assert_int_equal(n, n_expected);
    double nll = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t part = n - at < CHUNK ? n - at : CHUNK;
        int32_t chunk[CHUNK] = {0}; /* BOS is 0 */
        memcpy(chunk + 1, ids + at, (part - 1) * sizeof *ids);
        float *logits = harness_logits(s, chunk, part);
        for (size_t p = 0; p < part; p++) {
            double log_p[VOCAB];
            log_softmax(logits + p * VOCAB, log_p);
            nll -= log_p[ids[at + p]];
        }
        free(logits);
    }
    double perplexity = exp(nll / (double)n);
    print_message("KV %s: perplexity %.5f over %zu tokens, float64 %.5f (%+.3f%%)\n", kv_type, perplexity, n,
                  expected, 100 * (perplexity / expected - 1));
    assert_true(fabs(perplexity / expected - 1) <= 0.01);
    free(ids);
    free(text);
    stator_close(s);
}

static void perplexity(void **state) {
    (void)state;
    check_perplexity("f16");
    check_perplexity("f32");
    check_perplexity("q8_0");
    check_perplexity("q4_0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_f16),  cmocka_unit_test(logits_f32),
                                       cmocka_unit_test(logits_q8_0), cmocka_unit_test(logits_q4_0),
                                       cmocka_unit_test(tokens),      cmocka_unit_test(perplexity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
