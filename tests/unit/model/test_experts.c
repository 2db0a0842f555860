/* Mixture of experts: routing against its definition, odd shapes against a dense model, and one numerics end
 * to end. */
#include "engine_harness.h"

#include "experts_model.h"

#include "base/arith.h"
#include "kernels/kernels.h"
#include "kernels/shared/experts.h"

#include <math.h>

static float most_of(const struct kernels_route *r) {
    float most = r->logits[0];
    for (uint32_t e = 1; e < r->experts; e++)
        most = r->logits[e] > most ? r->logits[e] : most;
    return most;
}

/* Of a softmax with a bias by the kernel's own arithmetic: what rounds alike is alike. */
static double score_of(const struct kernels_route *r, float sum, uint32_t e) {
    const float l = r->logits[e];
    if (r->how & EXPERTS_SIGMOID)
        return (double)num_sigmoid(l) + (r->bias ? (double)r->bias[e] : 0);
    if (r->bias == NULL)
        return (double)l;
    const float share = num_exp(l - most_of(r)) * num_rcp(sum);
    return (double)(float)(share + r->bias[e]);
}

static float sum_of(const struct kernels_route *r) {
    float lane[128] = {0};
    for (uint32_t e = 0; e < r->experts; e++)
        lane[e % 128] += num_exp(r->logits[e] - most_of(r));
    return num_sum128(lane);
}

/* Of a group: the sum of its two best scores, or its best. */
static double group_score(const struct kernels_route *r, const double *score, uint32_t group) {
    const uint32_t n = r->experts / r->groups;
    double best = -INFINITY, second = -INFINITY;
    for (uint32_t e = group * n; e < (group + 1) * n; e++) {
        second = fmax(second, fmin(best, score[e]));
        best = fmax(best, score[e]);
    }
    return (r->how & EXPERTS_SIGMOID) && n > 1 ? (double)((float)best + (float)second) : best;
}

static void leave_out_groups(const struct kernels_route *r, double *score) {
    const uint32_t n = r->experts / r->groups;
    double of[KERNELS_MAX_GROUPS];
    for (uint32_t g = 0; g < r->groups; g++)
        of[g] = group_score(r, score, g);
    for (uint32_t g = 0; g < r->groups; g++) {
        uint32_t better = 0;
        for (uint32_t o = 0; o < r->groups; o++)
            better += of[o] > of[g] || (of[o] == of[g] && o < g);
        for (uint32_t e = g * n; better >= r->groups_used && e < (g + 1) * n; e++)
            score[e] = -INFINITY;
    }
}

/* Expert e is chosen if fewer than `used` are better, an equal one with a lower number included. */
static void check_route(const struct kernels_route *r) {
    double sum = 0, all = 0, most = -INFINITY, score[EXPERTS_MAX];
    const float total = sum_of(r);
    uint32_t n = 0;
    for (uint32_t e = 0; e < r->experts; e++)
        score[e] = (double)(float)score_of(r, total, e);
    if (r->groups > 1)
        leave_out_groups(r, score);
    for (uint32_t e = 0; e < r->experts; e++)
        most = fmax(most, (double)r->logits[e]);
    for (uint32_t e = 0; e < r->experts; e++) {
        uint32_t better = 0;
        for (uint32_t o = 0; o < r->experts; o++)
            better += score[o] > score[e] || (score[o] == score[e] && o < e);
        all += exp((double)r->logits[e] - most);
        if (better >= r->used)
            continue;
        assert_true(n < r->used && r->chosen[n++] == e);
        double l = (double)r->logits[e];
        sum += r->how & EXPERTS_SIGMOID ? 1 / (1 + exp(-l)) : exp(l - most);
    }
    assert_int_equal(n, r->used);
    for (uint32_t i = 0; i < n; i++) {
        double l = (double)r->logits[r->chosen[i]];
        double w = r->how & EXPERTS_SIGMOID ? 1 / (1 + exp(-l)) : exp(l - most);
        if (r->how & EXPERTS_NORM)
            w /= sum;
        else if (!(r->how & EXPERTS_SIGMOID))
            w /= all;
        w *= (double)r->scale;
        assert_true(fabs((double)r->weight[i] - w) <= 2e-6 * w + 1e-30);
    }
}

static void routing(void **state) {
    (void)state;
    struct kernels k;
    kernels_init(&k, kernels_best_tier());
    uint64_t seed = testing_seed("routing");
    for (int round = 0; round < 2000; round++) {
        float logits[EXPERTS_MAX], bias[EXPERTS_MAX], weight[EXPERTS_MAX_USED];
        uint32_t chosen[EXPERTS_MAX_USED];
        const uint32_t experts = 1 + (uint32_t)testing_below(&seed, round % 8 == 0 ? EXPERTS_MAX : 40);
        const uint32_t most = experts < EXPERTS_MAX_USED ? experts : EXPERTS_MAX_USED;
        for (uint32_t e = 0; e < experts; e++) { /* many are equal */
            logits[e] =
                round % 2 == 0 ? (float)((int)testing_below(&seed, 7) - 3) : testing_uniform(&seed) * 6;
            bias[e] = (float)testing_below(&seed, 3) * .25f;
            if (logits[e] == 0 && testing_below(&seed, 2) == 0)
                logits[e] = -0.0f;
        }
        struct kernels_route r = {.logits = logits,
                                  .bias = round % 3 == 0 ? bias : NULL,
                                  .experts = experts,
                                  .used = 1 + (uint32_t)testing_below(&seed, most),
                                  .how = (uint32_t)testing_below(&seed, 4),
                                  .scale = round % 5 == 0 ? 2.5f : 1.0f,
                                  .chosen = chosen,
                                  .weight = weight};
        if (round % 4 == 1) { /* the most groups that divide the experts, some of them */
            r.groups = KERNELS_MAX_GROUPS;
            while (experts % r.groups != 0 || experts / r.groups < 2)
                if (--r.groups == 0)
                    break;
        }
        if (r.groups > 1) {
            const uint32_t each = experts / r.groups;
            r.groups_used = 1 + (uint32_t)testing_below(&seed, r.groups);
            r.used = 1 + (uint32_t)testing_below(&seed, ARITH_MIN(most, each * r.groups_used));
        }
        k.route(&r);
        check_route(&r);
        logits[testing_below(&seed, experts)] = NAN; /* any experts, but as many, and ascending */
        k.route(&r);
        for (uint32_t i = 0; i < r.used; i++)
            assert_true(chosen[i] < experts && (i == 0 || chosen[i] > chosen[i - 1]));
    }
}

/* Tiers agree by bits on what they do themselves; the clamped SwiGLU against double. */
static void small_kernels(void **state) {
    (void)state;
    uint64_t seed = testing_seed("small_kernels");
    struct kernels k[KERNELS_TIERS];
    const int n_tiers = (int)kernels_best_tier() + 1;
    for (int t = 0; t < n_tiers; t++)
        kernels_init(&k[t], (enum kernels_tier)t);
    for (int round = 0; round < 200; round++) {
        float x[100], y[100], expected[100], z[100];
        const uint32_t n = 1 + (uint32_t)testing_below(&seed, 100);
        for (uint32_t i = 0; i < n; i++) {
            x[i] = testing_uniform(&seed) * 20;
            y[i] = testing_uniform(&seed) * 20;
        }
        const float by = testing_uniform(&seed);
        for (uint32_t i = 0; i < n; i++)
            expected[i] = fmaf(x[i], by, y[i]);
        for (int t = 0; t < n_tiers; t++) {
            memcpy(z, y, sizeof z);
            k[t].add_scaled(z, x, by, n);
            assert_memory_equal(z, expected, n * sizeof *z);
        }
        k[0].clamped_glu(expected, x, y, n, 1.702f, 7.0f);
        for (uint32_t i = 0; i < n; i++) {
            double g = fmin((double)x[i], 7), u = fmax(fmin((double)y[i], 7), -7);
            double want = g / (1 + exp(-g * 1.702)) * (u + 1);
            assert_true(fabs((double)expected[i] - want) <= 2e-6 * (fabs(want) + fabs(g)) + 1e-30);
        }
        for (int t = 1; t < n_tiers; t++) {
            memcpy(z, x, sizeof z);
            k[t].clamped_glu(z, z, y, n, 1.702f, 7.0f);
            assert_memory_equal(z, expected, n * sizeof *z);
        }
    }
}

#define N_IDS 77

static float *logits_of(struct experts_model m, const char *const *sets) {
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    int32_t ids[N_IDS];
    uint64_t random = 7;
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)testing_below(&random, 512);
    experts_model_write(&w, m);
    gguf_writer_finish(&w);
    stator *s = harness_start(gguf_writer_memory_path(&w, path), sets);
    float *out = harness_logits(s, ids, N_IDS);
    stator_close(s);
    gguf_writer_free(&w);
    return out;
}

/* Where all experts are alike, it is the dense model. */
static void alike(void **state) {
    (void)state;
    static const uint32_t types[] = {BLOCK_F16, BLOCK_Q8_0};
    for (size_t i = 0; i < 2; i++) {
        struct experts_model m = experts_model_odd(types[i]);
        m.alike = 1;
        const char *sets[] = {"memory.kv_type=f32", "memory.context=96", "memory.batch=64", NULL};
        float *got = logits_of(m, sets);
        m.experts = 0;
        float *dense = logits_of(m, sets);
        float worst = 0, size = 0;
        for (size_t k = 0; k < (size_t)N_IDS * 512; k++) {
            worst = fmaxf(worst, fabsf(got[k] - dense[k]));
            size = fmaxf(size, fabsf(dense[k]));
        }
        print_message("%s: logits up to %g, differ by %g at most\n", block_info(types[i])->name, (double)size,
                      (double)worst);
        assert_true(size > .1f && worst <= 1e-5f * size);
        free(got);
        free(dense);
    }
}

/* Chunks, threads, tiers and devices change no bit. */
static void one_numerics(void **state) {
    (void)state;
    const struct experts_model models[] = {experts_model_k(), experts_model_odd(BLOCK_Q8_0),
                                           experts_model_odd(BLOCK_F16)};
    const char *settings[16] = {
        "memory.batch=1", "memory.batch=7", "memory.batch=96",         "cpu.threads=1",
        "cpu.threads=3",  "cpu.threads=16", "devices.use=cpu:0,cpu:1", "devices.use=cpu:0,cpu:1,cpu:2"};
    char tier[KERNELS_TIERS][32];
    size_t n = 8;
    for (int t = 0; t < (int)kernels_best_tier(); t++) {
        snprintf(tier[t], sizeof tier[t], "cpu.tier=%s", kernels_tier_name((enum kernels_tier)t));
        settings[n++] = tier[t];
    }
    for (size_t i = 0; i < 3; i++) {
        const char *sets[] = {"memory.context=96", "memory.batch=64", "cpu.threads=2", NULL, NULL};
        float *expected = logits_of(models[i], sets);
        for (size_t k = 0; k < n; k++) {
            sets[3] = settings[k];
            float *got = logits_of(models[i], sets);
            if (memcmp(got, expected, (size_t)N_IDS * 512 * sizeof *got) != 0)
                fail_msg("model %zu: logits differ with %s", i, settings[k]);
            free(got);
        }
        free(expected);
    }
}

/* Requests that come and go beside each other get the text that each gets alone. */
static void neighbours(void **state) {
    (void)state;
    enum { REQUESTS = 8 };
    static struct harness_text alone[REQUESTS], together[REQUESTS];
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    int32_t ids[96];
    uint64_t random = 9;
    for (size_t i = 0; i < 96; i++)
        ids[i] = (int32_t)testing_below(&random, 512);
    experts_model_write(&w, experts_model_k());
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    const char *one[] = {"memory.context=128", NULL};
    stator *s = harness_start(path, one);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        alone[i].id = harness_submit(s, ids + i, 3 + 8 * i, 12 + 3 * i, i % 2 ? 0.9f : 0.0f, 100 + i);
        harness_collect(s, &alone[i], 1);
    }
    stator_close(s);
    static const char *const sequences[] = {"memory.sequences=3", "memory.sequences=8"};
    for (size_t k = 0; k < 2; k++) {
        const char *many[] = {"memory.context=128",
                              sequences[k],
                              "memory.batch=16",
                              "memory.logits_rows=2",
                              k == 0 ? "devices.use=cpu:0,cpu:1" : NULL,
                              NULL};
        memset(together, 0, sizeof together);
        s = harness_start(path, many);
        for (uint32_t i = 0; i < REQUESTS; i++)
            together[i].id = harness_submit(s, ids + i, 3 + 8 * i, 12 + 3 * i, i % 2 ? 0.9f : 0.0f, 100 + i);
        harness_collect(s, together, REQUESTS);
        stator_close(s);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            assert_int_equal(together[i].n, alone[i].n);
            assert_memory_equal(together[i].ids, alone[i].ids, alone[i].n * sizeof(int32_t));
        }
    }
    gguf_writer_free(&w);
}

/* Bytes of scratch that the plan has for a context. */
static uint64_t scratch_of(const char *path, const char *context) {
    const char *sets[] = {context, "memory.batch=64"};
    stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = 2};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_plan(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    uint64_t bytes = 0;
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(s, i, &row, &have, NULL) != STATOR_OK || !have)
            break;
        if (strcmp(row.arena, "scratch") == 0)
            bytes = row.planned;
    }
    stator_close(s);
    return bytes;
}

static void scratch(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    experts_model_write(&w, experts_model_k());
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    uint64_t few = scratch_of(path, "memory.context=4096"), many = scratch_of(path, "memory.context=262144");
    assert_true(few > 0 && few == many);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(routing),    cmocka_unit_test(small_kernels),
                                       cmocka_unit_test(alike),      cmocka_unit_test(one_numerics),
                                       cmocka_unit_test(neighbours), cmocka_unit_test(scratch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
