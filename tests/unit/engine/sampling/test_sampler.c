/* The sampler on rows made by hand, and its distribution against exact probabilities. */
#include "testing.h"

#include "engine/sampling/sampler.h"

#include <math.h>
#include <stdlib.h>

#define VOCAB 250
#define MOST  300 /* tokens of a sequence */

static struct sampler sampler_of(uint32_t vocab, void **memory) {
    struct sampler s;
    struct carve count = carve_count();
    sampler_layout(&s, &count, vocab, MOST);
    *memory = aligned_alloc(64, count.used);
    assert_non_null(*memory);
    struct carve c = carve_in(*memory, count.used);
    sampler_layout(&s, &c, vocab, MOST);
    return s;
}

static const struct sampler_settings plain = {
    .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .typical_p = 1, .seed = 1};

/* How often each of the first n tokens comes at `draws` positions. */
static void count_picks(const struct sampler_settings *set, const float *row, uint32_t n, uint32_t draws,
                        uint32_t *counts) {
    void *memory;
    struct sampler s = sampler_of(n, &memory);
    memset(counts, 0, n * sizeof *counts);
    for (uint32_t p = 0; p < draws; p++) {
        int32_t t = sampler_pick(&s, set, row, NULL, NULL, 0, 0, p);
        assert_in_range(t, 0, n - 1);
        counts[t]++;
    }
    free(memory);
}

/* The tokens that come at all, as a string of digits, in order. */
static void check_support(const struct sampler_settings *set, const float *row, uint32_t n,
                          const char *expected) {
    uint32_t counts[16];
    char got[17] = "";
    count_picks(set, row, n, 4000, counts);
    for (uint32_t i = 0, k = 0; i < n; i++)
        if (counts[i] > 0)
            got[k++] = (char)('0' + i);
    assert_string_equal(got, expected);
}

static void greedy(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(6, &memory);
    struct sampler_settings set = plain;
    set.temperature = 0;
    set.top_k = 3;
    const float row[] = {-1, 2, 5, 5, -7, 4.99f};
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 2); /* the first of equals */
    const float equal[] = {3, 3, 3, 3, 3, 3};
    assert_int_equal(sampler_pick(&s, &set, equal, NULL, NULL, 0, 0, 0), 0);
    const float low[] = {-3e38f, -3e38f, -2e38f, -3e38f, -3e38f, -2e38f};
    assert_int_equal(sampler_pick(&s, &set, low, NULL, NULL, 0, 0, 0), 2);
    free(memory);
    s = sampler_of(1, &memory);
    set = plain;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 9), 0);
    free(memory);
}

/* p = 8/15, 4/15, 2/15, 1/15 in the order 2, 0, 3, 1. */
static float binary_row[4];

static void filters(void **state) {
    (void)state;
    const float weights[] = {4, 1, 8, 2};
    for (int i = 0; i < 4; i++)
        binary_row[i] = logf(weights[i]) - 3;
    const struct {
        uint32_t top_k;
        float top_p, min_p;
        const char *expected;
    } cases[] = {{0, 1, 0, "0123"},      {1, 1, 0, "2"},          {2, 1, 0, "02"},
                 {3, 1, 0, "023"},       {4, 1, 0, "0123"},       {9, 1, 0, "0123"},
                 {0, 0.01f, 0, "2"},                          /* always at least one */
                 {0, 0.53f, 0, "2"},     {0, 0.54f, 0, "02"}, /* the token that reaches p belongs to it */
                 {0, 0.79f, 0, "02"},    {0, 0.81f, 0, "023"},    {0, 0.94f, 0, "0123"},
                 {0, 1, 0.1f, "0123"}, /* relative to the likeliest: 1/8 */
                 {0, 1, 0.13f, "023"},   {0, 1, 0.26f, "02"},     {0, 1, 0.51f, "2"},
                 {0, 1, 1, "2"},         {2, 0.6f, 0, "2"},       /* top-p of what top-k has left: 8/12 */
                 {2, 0.7f, 0, "02"},     {0, 0.81f, 0.26f, "02"}, /* the narrower one */
                 {0, 0.54f, 0.13f, "02"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sampler_settings set = plain;
        set.top_k = cases[i].top_k;
        set.top_p = cases[i].top_p;
        set.min_p = cases[i].min_p;
        check_support(&set, binary_row, 4, cases[i].expected);
        set.temperature = 3; /* comes last: the filters see the model's own probabilities */
        check_support(&set, binary_row, 4, cases[i].expected);
    }
}

static void filter_ties(void **state) {
    (void)state;
    const float equal[] = {1, 1, 1, 1, 1};
    struct sampler_settings set = plain;
    set.top_k = 2;
    check_support(&set, equal, 5, "01");
    set.top_k = 0;
    set.top_p = 0.59f;
    check_support(&set, equal, 5, "012");
    set.top_p = 1;
    set.min_p = 1; /* all are as likely as the likeliest */
    check_support(&set, equal, 5, "01234");
}

/* Divides positive logits and multiplies negative ones, once per token, over the last 64 tokens. */
static void penalty(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(6, &memory);
    struct sampler_settings set = plain;
    set.temperature = 0;
    set.repeat_penalty = 2;
    const float row[] = {0, 3, 2, 1.4f, 1, -1};
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 1);
    assert_int_equal(sampler_pick(&s, &set, row, NULL, (const int32_t[]){1}, 1, 0, 0), 2); /* 1.5 < 2 */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, (const int32_t[]){1, 1, 1}, 3, 0, 0), 2);
    assert_int_equal(sampler_pick(&s, &set, row, NULL, (const int32_t[]){1, 1, 2}, 3, 0, 0),
                     1); /* once: 1.5, 1, 1.4 */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, (const int32_t[]){1, 2, 3, 2}, 4, 0, 0), 1);
    const float negative[] = {-1, -1.5f, -4, -5, -6, -7};
    assert_int_equal(sampler_pick(&s, &set, negative, NULL, (const int32_t[]){0}, 1, 0, 0), 1);
    int32_t tokens[65];
    memset(tokens, 0, sizeof tokens);
    tokens[0] = 1;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 65, 0, 0), 1); /* 65 tokens ago: forgotten */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 64, 0, 0), 2);
    set.repeat_penalty = 0.5f; /* below 1 it is a reward */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, (const int32_t[]){2}, 1, 0, 0), 2);
    free(memory);
}

/* Off the logits of generated tokens, once and for every time, and of none of the prompt's. */
static void generated_penalties(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(4, &memory);
    struct sampler_settings set = plain;
    set.temperature = 0;
    set.presence_penalty = 1;
    const float row[] = {5, 4.5f, 3.5f, -1};
    const int32_t tokens[] = {1, 0, 0, 1, 1, 1};
    for (int twice = 0; twice < 2; twice++) { /* a call leaves nothing behind */
        assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 3, 0, 0), 0);
        assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 3, 1, 0), 1);
        assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 3, 3, 0), 0); /* 4, 3.5, 3.5 */
        assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 6, 6, 0), 0); /* however often */
    }
    set.presence_penalty = 0;
    set.frequency_penalty = 0.5f;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 2, 1, 0), 0); /* 4.5 twice: the first */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 3, 2, 0), 1); /* 4, 4.5 */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 6, 6, 0), 0); /* 4, 2.5 */
    set.presence_penalty = 0.25f;
    set.frequency_penalty = -0.375f;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens + 3, 2, 1, 0), 0); /* 5, 4.625 */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens + 3, 3, 2, 0), 0); /* 5, 5: the first */
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens + 3, 3, 3, 0), 1); /* 5, 5.375 */
    /* They come before the filters. */
    set = plain;
    set.top_k = 1;
    set.presence_penalty = 2;
    for (uint32_t p = 0; p < 50; p++)
        assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 2, 1, p), 1);
    free(memory);
}

static void logit_bias(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(4, &memory);
    struct sampler_settings set = plain;
    const float row[] = {5, 4.5f, 3.5f, -1};
    const stator_logit_bias one[] = {{3, 100}};
    const stator_logit_bias two[] = {{0, -0.25f}, {2, -3}, {0, -0.5f}};
    set.bias = one;
    set.n_bias = 1;
    for (uint32_t p = 0; p < 50; p++)
        assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, p), 3);
    set.temperature = 0;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 3);
    set.bias = two;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 0); /* 4.75 */
    set.n_bias = 3;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 1); /* 4.25: they add up */
    /* The repeat penalty sees the biased logits: 4.25 / 2 and 4.5 / 2. */
    set.repeat_penalty = 2;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, (const int32_t[]){0, 1}, 2, 0, 0), 1);
    free(memory);
    set = plain;
    set.temperature = 0;
    assert_true(sampler_is_plain(&set));
    set.n_bias = 1;
    assert_false(sampler_is_plain(&set));
    set.n_bias = 0;
    set.presence_penalty = -1;
    assert_false(sampler_is_plain(&set));
    set.presence_penalty = 0;
    set.frequency_penalty = 1;
    assert_false(sampler_is_plain(&set));
}

/* 0.999 quantile of chi-square, by Wilson and Hilferty. */
static double chi_limit(double degrees) {
    double a = 2 / (9 * degrees);
    return degrees * pow(1 - a + 3.0902 * sqrt(a), 3);
}

/* The draws at many positions against p = exp(l / T), cells of at least 8 expected draws. */
static void check_distribution(const struct sampler_settings *set, const float *row, uint32_t n,
                               uint32_t draws) {
    uint32_t *counts = calloc(n, sizeof *counts);
    double *p = calloc(n, sizeof *p);
    assert_non_null(counts);
    assert_non_null(p);
    count_picks(set, row, n, draws, counts);
    double total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += p[i] = exp((double)row[i] / (double)set->temperature);
    double chi = 0;
    double rest_p = 0;
    double rest_n = 0;
    double cells = 0;
    for (uint32_t i = 0; i < n; i++) {
        double expected = p[i] / total * draws;
        if (expected < 8) {
            rest_p += expected;
            rest_n += counts[i];
            continue;
        }
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
        cells++;
    }
    if (rest_p > 8) {
        chi += (rest_n - rest_p) * (rest_n - rest_p) / rest_p;
        cells++;
    }
    print_message("chi-square %.1f, limit %.1f for %.0f cells\n", chi, chi_limit(cells - 1), cells);
    assert_true(cells >= 4);
    assert_true(chi <= chi_limit(cells - 1));
    free(counts);
    free(p);
}

static void distribution(void **state) {
    (void)state;
    struct sampler_settings set = plain;
    float row[VOCAB];
    uint64_t random = 3;
    for (int i = 0; i < VOCAB; i++)
        row[i] = 6 * testing_uniform(&random);
    check_distribution(&set, binary_row, 4, 20000);
    set.seed = 77;
    check_distribution(&set, row, VOCAB, 20000);
    set.temperature = 0.6f;
    check_distribution(&set, row, VOCAB, 20000);
    set.temperature = 5;
    check_distribution(&set, row, VOCAB, 20000);
    /* top-k of n is the same as none. */
    set.top_k = VOCAB;
    check_distribution(&set, row, VOCAB, 20000);
}

/* Rows with many equal logits: top-k keeps the same tokens as sorting does, equal ones by token id. */
static void top_k_of_equals(void **state) {
    (void)state;
    uint64_t random = testing_seed("top_k_of_equals");
    for (int round = 0; round < 200; round++) {
        float row[64];
        uint32_t counts[64];
        uint32_t n = 2 + testing_below(&random, 63);
        uint32_t k = 1 + testing_below(&random, n);
        for (uint32_t i = 0; i < n; i++)
            row[i] = (float)testing_below(&random, 1 + testing_below(&random, 12)) * 0.01f;
        struct sampler_settings set = plain;
        set.top_k = k;
        count_picks(&set, row, n, 2000, counts);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t before = 0; /* candidates that come before this one */
            for (uint32_t j = 0; j < n; j++)
                before += row[j] > row[i] || (row[j] == row[i] && j < i);
            assert_int_equal(counts[i] > 0, before < k); /* a token is missed once in 10^12 */
        }
    }
}

/* A pick depends on its own row, settings, seed and position; not on what was picked before. */
static void counters(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(VOCAB, &memory);
    void *other_memory;
    struct sampler other = sampler_of(VOCAB, &other_memory);
    float row[VOCAB];
    uint64_t random = 4;
    for (int i = 0; i < VOCAB; i++)
        row[i] = 3 * testing_uniform(&random);
    int32_t forward[200];
    int differ = 0;
    for (int seed = 0; seed < 3; seed++) {
        struct sampler_settings set = plain;
        set.seed = (uint64_t)seed << 40; /* high bits of the seed count */
        for (uint32_t p = 0; p < 200; p++)
            forward[p] = sampler_pick(&s, &set, row, NULL, NULL, 0, 0, p);
        for (uint32_t p = 200; p-- > 0;)
            assert_int_equal(sampler_pick(&other, &set, row, NULL, NULL, 0, 0, p), forward[p]);
        struct sampler_settings next = set;
        next.seed++;
        for (uint32_t p = 0; p < 200; p++)
            differ += sampler_pick(&s, &next, row, NULL, NULL, 0, 0, p) != forward[p];
    }
    assert_true(differ > 500);
    /* Neither neighbouring seeds nor positions are in step; 24 bits in [0, 1). */
    double sum = 0;
    double products = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        float a = sampler_random(i % 100, i / 100);
        float b = sampler_random(i % 100 + 1, i / 100);
        float c = sampler_random(i % 100, i / 100 + 1);
        assert_true(a >= 0 && a < 1 && a * 0x1p24f == floorf(a * 0x1p24f));
        sum += (double)a;
        products += ((double)a - 0.5) * (((double)b - 0.5) + ((double)c - 0.5));
    }
    assert_true(fabs(sum / 10000 - 0.5) < 4 * sqrt(1 / 12.0 / 10000));
    assert_true(fabs(products / 10000) < 4 * sqrt(2 / 144.0 / 10000));
    free(memory);
    free(other_memory);
}

/* Logits at the ends of the range neither overflow nor leave the row. */
static void extremes(void **state) {
    (void)state;
    struct sampler_settings set = plain;
    const float wide[] = {-3.4e38f, 3.4e38f, 0, -3.4e38f};
    check_support(&set, wide, 4, "1");
    set.temperature = 1e-6f;
    check_support(&set, wide, 4, "1");
    const float close[] = {1, 1.00001f, 1, 1};
    check_support(&set, close, 4, "1");
    set.temperature = 100;
    check_support(&set, close, 4, "0123");
    set.repeat_penalty = 10;
    check_support(&set, wide, 4, "1");
}

/* A plain reference of the samplers that follow llama.cpp, in double: lists are sorted whole, repetitions are
 * counted place by place. It shares the random numbers with the sampler, and nothing else. */
#define REFERENCE_VOCAB 24
struct reference_token {
    double logit, key;
    int32_t token;
};
struct reference {
    const struct sampler_settings *set;
    const uint8_t *marks;
    struct reference_token list[REFERENCE_VOCAB];
    uint32_t n;
};

static int by_key(const void *a, const void *b) {
    const struct reference_token *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key ? -1 : 1) : x->token - y->token;
}

static void reference_sort(struct reference *r) {
    for (uint32_t i = 0; i < r->n; i++)
        r->list[i].key = r->list[i].logit;
    qsort(r->list, r->n, sizeof *r->list, by_key);
}

static double reference_total(const struct reference *r) {
    double total = 0;
    for (uint32_t i = 0; i < r->n; i++)
        total += exp(r->list[i].logit);
    return total;
}

static void reference_dry(struct reference *r, const int32_t *tokens, uint32_t n) {
    const struct sampler_settings *set = r->set;
    const uint32_t first = n > set->dry_penalty_last_n ? n - set->dry_penalty_last_n : 0;
    if (set->dry_multiplier <= 0 || set->dry_base < 1)
        return;
    for (int32_t token = 0; token < REFERENCE_VOCAB; token++) {
        int64_t longest = -1;
        for (uint32_t at = first + 1; at < n; at++) { /* token stood here before */
            uint32_t length = 0;
            if (tokens[at] != token)
                continue;
            while (length < at - first && tokens[at - 1 - length] == tokens[n - 1 - length] &&
                   (r->marks[tokens[n - 1 - length]] & SAMPLER_BREAKS) == 0)
                length++;
            longest = length >= set->dry_allowed_length && length > longest ? length : longest;
        }
        if (longest >= 0 && n - first > set->dry_allowed_length && (r->marks[token] & SAMPLER_BREAKS) == 0) {
            const double penalty = (double)set->dry_multiplier *
                                   pow((double)set->dry_base, (double)(longest - set->dry_allowed_length));
            r->list[token].logit -= penalty < 1e6 ? penalty : 1e6;
        }
    }
}

static void reference_sigma(struct reference *r) {
    double mean = 0, variance = 0, top = -INFINITY;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        mean += r->list[i].logit / r->n;
        top = fmax(top, r->list[i].logit);
    }
    for (uint32_t i = 0; i < r->n; i++)
        variance += pow(r->list[i].logit - mean, 2) / r->n;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].logit >= top - (double)r->set->top_n_sigma * sqrt(variance))
            r->list[kept++] = r->list[i];
    r->n = kept;
}

static void reference_typical(struct reference *r) {
    struct reference_token sorted[REFERENCE_VOCAB];
    const double total = reference_total(r);
    double entropy = 0, sum = 0;
    uint32_t n = 0, kept = 0;
    bool stays[REFERENCE_VOCAB] = {false};
    for (uint32_t i = 0; i < r->n; i++) {
        const double log_p = r->list[i].logit - log(total);
        entropy -= exp(log_p) * log_p;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        sorted[i] = r->list[i];
        sorted[i].key = -fabs(log(total) - r->list[i].logit - entropy);
    }
    qsort(sorted, r->n, sizeof *sorted, by_key);
    while (n < r->n && sum <= (double)r->set->typical_p) {
        sum += exp(sorted[n].logit) / total;
        stays[sorted[n++].token] = true;
    }
    for (uint32_t i = 0; i < r->n; i++)
        if (stays[r->list[i].token])
            r->list[kept++] = r->list[i];
    r->n = kept;
}

static void reference_nucleus(struct reference *r) {
    const double total = reference_total(r), top = r->list[0].logit;
    double sum = 0;
    uint32_t kept = 0;
    while (kept < r->n) {
        if (kept > 0 && exp(r->list[kept].logit - top) < (double)r->set->min_p)
            break;
        sum += exp(r->list[kept++].logit) / total;
        if (r->set->top_p < 1 && sum >= (double)r->set->top_p)
            break;
    }
    r->n = kept;
}

/* The list must be sorted for this alone, so a sorted copy says which tokens go. */
static void reference_xtc(struct reference *r, double chance) {
    struct reference sorted = *r;
    const double total = reference_total(r);
    uint32_t above = 0, kept = 0;
    bool goes[REFERENCE_VOCAB] = {false};
    if (!(chance < (double)r->set->xtc_probability) || r->set->xtc_threshold > 0.5f)
        return;
    reference_sort(&sorted);
    while (above < r->n && exp(sorted.list[above].logit) / total >= (double)r->set->xtc_threshold)
        above++;
    for (uint32_t i = 0; i + 1 < above; i++)
        goes[sorted.list[i].token] = true;
    for (uint32_t i = 0; i < r->n; i++)
        if (!goes[r->list[i].token])
            r->list[kept++] = r->list[i];
    r->n = kept;
}

static int32_t reference_pick(const struct sampler_settings *set, const uint8_t *marks, const float *row,
                              const int32_t *tokens, uint32_t n, uint32_t n_generated, uint32_t position) {
    struct reference r = {.set = set, .marks = marks, .n = REFERENCE_VOCAB};
    for (int32_t i = 0; i < REFERENCE_VOCAB; i++)
        r.list[i] = (struct reference_token){.logit = (double)row[i], .token = i};
    reference_dry(&r, tokens, n);
    if (n_generated < set->min_tokens) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < r.n; i++)
            if ((marks[r.list[i].token] & SAMPLER_ENDS) == 0)
                r.list[kept++] = r.list[i];
        r.n = kept;
    }
    if (set->temperature <= 0) {
        reference_sort(&r);
        return r.list[0].token;
    }
    if (set->top_n_sigma > 0)
        reference_sigma(&r);
    const bool few = set->top_k > 0 && set->top_k < r.n;
    if (few) {
        reference_sort(&r);
        r.n = set->top_k;
    }
    if (set->typical_p < 1)
        reference_typical(&r);
    if (few || set->top_p < 1 || set->min_p > 0) {
        reference_sort(&r);
        reference_nucleus(&r);
    }
    reference_xtc(&r, (double)sampler_random(set->seed ^ 0x5854435F64726177ull, position));
    double total = 0, top = -INFINITY;
    for (uint32_t i = 0; i < r.n; i++)
        top = fmax(top, r.list[i].logit);
    for (uint32_t i = 0; i < r.n; i++)
        total += exp((r.list[i].logit - top) / (double)set->temperature);
    double at = (double)sampler_random(set->seed, position) * total;
    for (uint32_t i = 0; i < r.n; i++) {
        at -= exp((r.list[i].logit - top) / (double)set->temperature);
        if (at < 0)
            return r.list[i].token;
    }
    fail_msg("the reference has drawn nothing of %u tokens", r.n);
    return -1;
}

/* Settings of all kinds together, each off in half of the cases; texts of few tokens, which repeat
 * themselves. */
static void by_reference(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(REFERENCE_VOCAB, &memory);
    uint64_t seed = 43;
    uint32_t other = 0; /* than without the samplers under test */
    sampler_mark(&s, 0, true, "", 0);
    sampler_mark(&s, 1, true, "<end>", 5);
    sampler_mark(&s, 2, false, "a:", 2);
    sampler_mark(&s, 3, false, "\n", 1);
    sampler_mark(&s, 4, false, "b\0\"", 3);
    sampler_mark(&s, 5, false, "a\0b", 3);
    assert_int_equal(s.marks[0], SAMPLER_ENDS);
    assert_int_equal(s.marks[4], SAMPLER_BREAKS);
    assert_int_equal(s.marks[5], 0);
    for (uint32_t round = 0; round < 30000; round++) {
        float row[REFERENCE_VOCAB];
        int32_t tokens[MOST];
        const uint32_t n = (uint32_t)testing_below(&seed, MOST + 1);
        const uint32_t few = 1 + (uint32_t)testing_below(&seed, 5);
        for (uint32_t i = 0; i < REFERENCE_VOCAB; i++)
            row[i] = 4 * testing_uniform(&seed);
        for (uint32_t i = 0; i < n; i++)
            tokens[i] = (int32_t)(testing_below(&seed, 12) == 0 ? testing_below(&seed, REFERENCE_VOCAB)
                                                                : 6 + i % few);
#define SOMETIMES(value, off) (testing_random(&seed) % 2 == 0 ? (value) : (off))
        struct sampler_settings set = plain;
        set.temperature = SOMETIMES(0.3f + 2 * fabsf(testing_uniform(&seed)), SOMETIMES(0.0f, 1.0f));
        set.top_k = SOMETIMES((uint32_t)testing_below(&seed, 30), 0);
        set.top_p = SOMETIMES(fabsf(testing_uniform(&seed)), 1);
        set.min_p = SOMETIMES(0.3f * fabsf(testing_uniform(&seed)), 0);
        set.repeat_penalty = 1;
        set.seed = testing_random(&seed);
        set.min_tokens = SOMETIMES(20, 0);
        set.dry_multiplier = SOMETIMES(fabsf(testing_uniform(&seed)), 0);
        set.dry_base = SOMETIMES(1.75f, SOMETIMES(1.0f, 0.5f));
        set.dry_allowed_length = (uint32_t)testing_below(&seed, 5);
        set.dry_penalty_last_n = SOMETIMES((uint32_t)testing_below(&seed, MOST), UINT32_MAX);
        set.top_n_sigma = SOMETIMES(2 * fabsf(testing_uniform(&seed)), SOMETIMES(-1.0f, 0.0f));
        set.typical_p = SOMETIMES(fabsf(testing_uniform(&seed)), 1);
        set.xtc_probability = SOMETIMES(0.5f, SOMETIMES(1.0f, 0.0f));
        set.xtc_threshold = SOMETIMES(0.1f, testing_uniform(&seed));
        struct sampler_settings without = plain;
        without.temperature = set.temperature;
        without.top_k = set.top_k;
        without.top_p = set.top_p;
        without.min_p = set.min_p;
        without.seed = set.seed;
        const uint32_t generated = n < 30 ? n : 30 - n % 20;
        const int32_t got = sampler_pick(&s, &set, row, NULL, tokens, n, generated, n);
        const int32_t want = reference_pick(&set, s.marks, row, tokens, n, generated, n);
        if (got != want)
            fail_msg("round %u: token %d, of the reference %d", round, got, want);
        other += got != sampler_pick(&s, &without, row, NULL, tokens, n, generated, n);
        for (uint32_t i = 0; i < REFERENCE_VOCAB; i++)
            assert_int_equal(s.count[i], 0);
    }
    assert_in_range(other, 5000, 29000);
    free(memory);
}

/* A penalty beyond all bounds stays finite, and a vocabulary of end tokens alone keeps them. */
static void sampler_limits(void **state) {
    (void)state;
    void *memory;
    struct sampler s = sampler_of(4, &memory);
    int32_t tokens[MOST];
    struct sampler_settings set = plain;
    const float row[] = {0, 2, 1, -1};
    for (uint32_t i = 0; i < MOST; i++)
        tokens[i] = 1;
    set.dry_multiplier = 100;
    set.dry_base = 100;
    set.dry_penalty_last_n = UINT32_MAX;
    set.temperature = 0;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, MOST, MOST, 0), 2);
    assert_true(s.heap[1].logit == 2 - 1e6f);
    set.dry_penalty_last_n = 0;
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, MOST, MOST, 0), 1);
    set = plain;
    set.min_tokens = 1;
    assert_false(sampler_is_plain(&set));
    for (int32_t i = 0; i < 4; i++)
        sampler_mark(&s, i, true, "", 0);
    set.temperature = 0;
    assert_false(sampler_is_plain(&set));
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 1);
    sampler_mark(&s, 3, false, "", 0);
    assert_int_equal(sampler_pick(&s, &set, row, NULL, NULL, 0, 0, 0), 3);
    assert_int_equal(sampler_pick(&s, &set, row, NULL, tokens, 1, 1, 0), 1);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(greedy),
                                       cmocka_unit_test(filters),
                                       cmocka_unit_test(filter_ties),
                                       cmocka_unit_test(penalty),
                                       cmocka_unit_test(generated_penalties),
                                       cmocka_unit_test(logit_bias),
                                       cmocka_unit_test(distribution),
                                       cmocka_unit_test(top_k_of_equals),
                                       cmocka_unit_test(counters),
                                       cmocka_unit_test(extremes),
                                       cmocka_unit_test(by_reference),
                                       cmocka_unit_test(sampler_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
