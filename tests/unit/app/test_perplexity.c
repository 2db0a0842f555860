/* app/perplexity: figures against numbers that were computed from the definitions in float64 (python), saved
 * log-probabilities there and back, files that must be refused. */
#include "testing.h"

#include "app/perplexity/perplexity_stats.h"
#include "app/perplexity/saved_logits.h"

#include <math.h>

enum { VOCAB = 50, ROWS = 6, WINDOWS = 4, SKIPPED = 2 };

/* Logits that are exact in f32: the formulas of the reference. */
static float ours(int w, int p, int i) {
    return (float)((i * 37 + p * 11 + w * 5) % 23) / 4 - (i == 7 ? 3.0f : 0.0f);
}

static float theirs(int w, int p, int i) {
    return ours(w, p, i) + (float)((i * 13 + p * 7 + w * 3) % 9 - 4) / 8;
}

static void row(float (*f)(int, int, int), int w, int p, float *log_p) {
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = f(w, p, i);
    assert_true(perplexity_log_softmax(logits, VOCAB, log_p));
}

static void close_to(const char *what, double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * fabs(expected)))
        fail_msg("%s is %.12g, expected %.12g", what, got, expected);
}

static void check_estimate(const char *what, struct perplexity_estimate got, double value, double error) {
    close_to(what, got.value, value, 2e-6);
    close_to(what, got.error, error, 2e-5);
}

static void figures_are_those_of_float64(void **state) {
    (void)state;
    struct perplexity_window w[WINDOWS] = {{.done = false}};
    float kl[WINDOWS * ROWS];
    float q[VOCAB], b[VOCAB];
    for (int i = 0; i < WINDOWS; i++) {
        w[i].done = i != SKIPPED; /* as after a signal: what is not complete does not count */
        for (int p = 0; p < ROWS; p++) {
            row(ours, i, p, q);
            row(theirs, i, p, b);
            kl[i * ROWS + p] = (float)perplexity_score(&w[i], q, b, VOCAB, (i * 17 + p * 29) % VOCAB);
        }
    }
    struct perplexity_figures f;
    perplexity_sum(w, WINDOWS, kl, ROWS, &f);
    assert_int_equal(f.scored, 18);
    assert_int_equal(f.windows, 3);
    check_estimate("perplexity", f.perplexity, 173.353950274, 79.6094594764);
    check_estimate("base", f.base, 186.707473431, 92.8706609567);
    check_estimate("ratio", f.ratio, 0.928478903864, 0.072284075262);
    check_estimate("kl", f.kl, 0.0496058768099, 0.00163052742798);
    check_estimate("same top", f.same_top, 0.333333333333, 0.114332390095);
    close_to("correlation", f.correlation, 0.989924368284, 1e-6);
    close_to("median", f.kl_median, 0.047590933785, 2e-5);
    close_to("99 %", f.kl_99, 0.06046121952, 2e-5);
    close_to("largest", f.kl_largest, 0.0606147782222, 2e-5);
    close_to("rms change", f.rms_change, 0.0121925763165, 1e-5);
}

static void nothing_scored(void **state) {
    (void)state;
    struct perplexity_window w[2] = {{.done = false, .scored = 3, .nll = 2}};
    float kl[6] = {0};
    struct perplexity_figures f;
    perplexity_sum(w, 2, kl, 3, &f);
    assert_int_equal(f.scored, 0);
    float log_p[2];
    assert_false(perplexity_log_softmax((float[]){0, INFINITY}, 2, log_p));
    assert_false(perplexity_log_softmax((float[]){0, NAN}, 2, log_p));
    /* Far apart: no overflow, and a probability of 1. */
    assert_true(perplexity_log_softmax((float[]){3e38f, -3e38f}, 2, log_p));
    assert_true(log_p[0] == 0);
}

/* A saved file in the folder of temporary files. */
static char path[] = "/tmp/test_perplexity.XXXXXX";

static int make_path(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path) != 0 && access(path, F_OK) == 0;
}

static const struct saved_logits_key key = {
    .vocab = VOCAB, .window = 14, .scored = ROWS, .windows = WINDOWS, .text = "text", .ids = "ids"};

/* Rows in an order that is not theirs, as several windows at a time give them. */
static void save(void) {
    struct saved_logits s;
    stator_error e = {0};
    float q[VOCAB];
    assert_int_equal(saved_logits_create(&s, path, &key, &e), STATOR_OK);
    for (int n = 0; n < WINDOWS * ROWS; n++) {
        const int at = (n * 7) % (WINDOWS * ROWS);
        row(ours, at / ROWS, at % ROWS, q);
        q[3] = -200; /* below the range */
        assert_int_equal(saved_logits_write(&s, (uint64_t)at, q, &e), STATOR_OK);
    }
    assert_int_equal(saved_logits_close(&s, true, STATOR_OK, &e), STATOR_OK);
}

static void saved_rows_come_back(void **state) {
    (void)state;
    struct saved_logits s;
    stator_error e = {0};
    save();
    assert_int_equal(saved_logits_open(&s, path, &key, &e), STATOR_OK);
    for (int at = WINDOWS * ROWS; at-- > 0;) {
        float q[VOCAB], back[VOCAB];
        row(ours, at / ROWS, at % ROWS, q);
        assert_int_equal(saved_logits_read(&s, (uint64_t)at, back, &e), STATOR_OK);
        double sum = 0;
        for (int i = 0; i < VOCAB; i++)
            sum += exp((double)back[i]);
        assert_true(fabs(sum - 1) < 1e-6);
        for (int i = 0; i < VOCAB; i++) {
            if (i == 3)
                assert_true(back[i] < -20);
            else /* a step (rounding, and of the sum); what token 3 had is given to the others */
                assert_true(fabs((double)back[i] - (double)q[i] + log1p(-exp((double)q[3]))) <
                            (double)SAVED_LOGITS_RANGE / 65535);
        }
    }
    (void)saved_logits_close(&s, false, STATOR_OK, NULL);
}

static void refused(const struct saved_logits_key *k, const char *why) {
    struct saved_logits s;
    stator_error e = {0};
    assert_int_equal(saved_logits_open(&s, path, k, &e), STATOR_USAGE);
    if (strstr(e.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, why);
    (void)saved_logits_close(&s, false, STATOR_OK, NULL);
}

static void other_files_are_refused(void **state) {
    (void)state;
    save();
    struct saved_logits_key k = key;
    k.vocab = 51;
    refused(&k, "its vocabulary has 50 tokens, the model's 51");
    k = key;
    memcpy(k.text, "other", 6);
    refused(&k, "for another text");
    k = key;
    memcpy(k.ids, "other", 6);
    refused(&k, "other token ids");
    k = key;
    k.window = 16;
    refused(&k, "windows of 14 tokens, memory.context is 16");
    k = key;
    k.windows = 5;
    refused(&k, "holds 4 windows, fewer than the 5 that are asked for: give --chunks 4");
    size_t n = 0;
    char *bytes = testing_read_file(path, &n);
    assert_int_equal(truncate(path, (off_t)n - 1), 0);
    refused(&key, "it is damaged");
    assert_int_equal(truncate(path, 50), 0);
    refused(&key, "shorter than a header");
    memset(bytes, 0, 8); /* as a run that was killed leaves it */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    refused(&key, "was not finished");
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_float64),
        cmocka_unit_test(nothing_scored),
        cmocka_unit_test(saved_rows_come_back),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
