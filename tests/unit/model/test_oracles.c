/* The engine against numbers from an independent source: Hugging Face transformers in float64
 * (../shared/oracles/models). */
#include "engine_harness.h"

#include "kernels/kernels.h"

#include <math.h>

/* The limit is of the largest difference; with KV caches that round, of the rms, about 1.15 times what was
 * measured. */
static void check_with(const char *name, const char *kv_type, double limit, const char *set) {
    char relative[128];
    snprintf(relative, sizeof relative, "oracles/models/%s.gguf", name);
    TESTING_NEED_SHARED(relative);
    struct harness_oracle o;
    harness_oracle_read(name, &o);
    char kv[64];
    snprintf(kv, sizeof kv, "memory.kv_type=%s", kv_type);
    const char *sets[] = {kv, "memory.logits_rows=16", set, NULL};
    stator *s = harness_start(o.model, sets);
    float *logits = harness_logits(s, o.prompt, o.n_prompt);
    float worst = 0;
    double square = 0;
    for (size_t i = 0; i < o.n_prompt * 512; i++) {
        float d = logits[i] - o.logits[i];
        worst = fmaxf(worst, fabsf(d));
        square += (double)d * (double)d;
    }
    double rms = sqrt(square / ((double)o.n_prompt * 512));
    print_message("%s, KV %s%s%s: logit difference at most %.3g, rms %.3g, over %zu positions\n", name,
                  kv_type, set != NULL ? ", " : "", set != NULL ? set : "", (double)worst, rms, o.n_prompt);
    bool exact = strcmp(kv_type, "f32") == 0;
    assert_true((exact ? (double)worst : rms) <= limit);
    struct harness_text t = {.id = harness_submit(s, o.prompt, o.n_prompt, (uint32_t)o.n_greedy, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.n, o.n_greedy);
    if (strcmp(kv_type, "f32") == 0)
        assert_memory_equal(t.ids, o.greedy, o.n_greedy * sizeof t.ids[0]);
    stator_close(s);
    free(logits);
    free(o.logits);
}

static void check_dense(const char *name, const char *kv_type, double limit) {
    check_with(name, kv_type, limit, NULL);
}

/* On every tier, and split over two devices. Where KV rounds, two experts whose scores are close may change
 * places, so that a position differs a lot: it is the rms that is bounded. */
static void check_everywhere(const char *name, double f16) {
    check_with(name, "f16", f16, NULL);
    check_with(name, "f32", 1e-3, "devices.use=cpu:0,cpu:1");
    for (int t = 0; t <= (int)kernels_best_tier(); t++) {
        char set[32];
        snprintf(set, sizeof set, "cpu.tier=%s", kernels_tier_name((enum kernels_tier)t));
        check_with(name, "f32", 1e-3, set);
    }
}

static void qwen3moe(void **state) {
    (void)state;
    check_everywhere("qwen3moe", .15);
}

static void mixtral(void **state) {
    (void)state;
    check_everywhere("mixtral", 1.3e-3);
}

static void qwen35moe(void **state) {
    (void)state;
    check_everywhere("qwen35moe", 7e-5);
}

static void llama_tied(void **state) {
    (void)state;
    check_dense("llama-tied", "f32", 1e-3);
    check_dense("llama-tied", "f16", 1.1e-3);
    check_dense("llama-tied", "q8_0", .025);
    check_dense("llama-tied", "q4_0", .35);
}

static void llama_untied(void **state) {
    (void)state;
    check_dense("llama-untied", "f32", 1e-3);
    check_dense("llama-untied", "f16", 1.1e-3);
    check_dense("llama-untied", "q8_0", .0275);
    check_dense("llama-untied", "q4_0", .46);
}

static void qwen2(void **state) {
    (void)state;
    check_dense("qwen2", "f32", 1e-3);
    check_dense("qwen2", "f16", 1.1e-3);
    check_dense("qwen2", "q8_0", .0225);
    check_dense("qwen2", "q4_0", .37);
}

static void qwen3(void **state) {
    (void)state;
    check_dense("qwen3", "f32", 1e-3);
    check_dense("qwen3", "f16", 1.1e-3);
    check_dense("qwen3", "q8_0", .0187);
    check_dense("qwen3", "q4_0", .28);
}

static void qwen35(void **state) {
    (void)state;
    check_dense("qwen35", "f32", 1e-3);
    check_dense("qwen35", "f16", 6e-5);
    check_dense("qwen35", "q8_0", .00145);
    check_dense("qwen35", "q4_0", .0225);
    check_everywhere("qwen35", 6e-5);
}

static void gemma3(void **state) {
    (void)state;
    check_everywhere("gemma3", 6e-4);
}

static void phi3(void **state) {
    (void)state;
    check_everywhere("phi3", 1e-3);
}

/* The older reference `gpt-oss` rounds the bounds of YaRN (truncate = true), which no published model does.
 */
static void gpt_oss(void **state) {
    (void)state;
    check_everywhere("gpt-oss-rope-published", .023);
}

/* yarn_attn_factor is the whole magnitude. Its older spelling, attn_factor, is tested in test_shape.c. */
static void olmo3(void **state) {
    (void)state;
    check_everywhere("olmo3-attnfactor", 1.1e-3);
}

/* One reference per architecture, or per way in which its files differ. */
static void others(void **state) {
    (void)state;
    static const char *const names[] = {"olmo2",
                                        "gemma2",
                                        "granite",
                                        "granitemoe-shared",
                                        "smollm3",
                                        "glm4moe-air-nextn",
                                        "ministral3",
                                        "qwen3next",
                                        "phi4mini-longrope",
                                        "phi3-window",
                                        "llama-yarn-attnfactor",
                                        "seed-oss",
                                        "exaone4",
                                        "ernie4_5",
                                        "glm4",
                                        "gemma",
                                        "qwen2moe",
                                        "llama-mlpbias",
                                        "hunyuan-dense"};
    TESTING_NEED_SHARED("oracles/models/olmo2.gguf");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_with(names[i], "f32", 1e-3, NULL);
        check_with(names[i], "f32", 1e-3, "devices.use=cpu:0,cpu:1");
        check_with(names[i], "f32", 1e-3, "cpu.tier=scalar");
    }
}

/* Gated convolutions, whose states checkpoints and the other parts of a split have. */
static void lfm2(void **state) {
    (void)state;
    check_everywhere("lfm2", 9.3e-5);
    check_everywhere("lfm2moe", 2.1e-4);
}

/* An E-model: embeddings of layers, three layers that read the K and V of others. */
static void gemma4(void **state) {
    (void)state;
    check_everywhere("gemma4", 2e-3);
    check_with("gemma4", "q8_0", .05, NULL);
}

/* Layers of Mamba-2. */
static void granitehybrid(void **state) {
    (void)state;
    check_everywhere("granitehybrid", 1e-3);
}

/* Layers of one part: Mamba-2, attention, or a feed-forward without gates. */
static void nemotron_h(void **state) {
    (void)state;
    check_everywhere("nemotron-h", 1e-3);
}

/* Latent attention; experts by a softmax, and by sigmoids of the best groups. */
static void deepseek2(void **state) {
    (void)state;
    check_everywhere("deepseek-v2-lite", 2e-3);
    check_everywhere("deepseek-v3", 2e-3);
    check_with("deepseek-v2-lite", "q8_0", .1, NULL);
}

static void cohere2(void **state) {
    (void)state;
    check_everywhere("cohere2", 1.5e-4);
}

static void log_softmax(const float *logits, double *out) {
    double top = logits[0];
    double sum = 0;
    for (int i = 1; i < 512; i++)
        top = fmax(top, (double)logits[i]);
    for (int i = 0; i < 512; i++)
        sum += exp((double)logits[i] - top);
    for (int i = 0; i < 512; i++)
        out[i] = (double)logits[i] - top - log(sum);
}

/* The rms of log-probability differences where p > 1e-5 must be at most what llama.cpp's own was
 * (../shared/README.md). */
static void quantised(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double limit;
    } types[] = {{"quant-q8_0", .035},   {"quant-q4_0", .035}, {"quant-q4_1", .035}, {"quant-q5_0", .036},
                 {"quant-q5_1", .037},   {"quant-q4_k", .051}, {"quant-q5_k", .050}, {"quant-q6_k", .049},
                 {"quant-iq4_nl", .036}, {"quant-q2_k", .048}, {"quant-q3_k", .049}, {"quant-iq4_xs", .051},
                 {"quant-iq3_s", .055}};
    TESTING_NEED_SHARED("oracles/models/quant-q8_0.gguf");
    int worse = 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct harness_oracle o;
        harness_oracle_read(types[i].name, &o);
        const char *sets[] = {"memory.logits_rows=16", NULL};
        stator *s = harness_start(o.model, sets);
        float *logits = harness_logits(s, o.prompt, o.n_prompt);
        double sum = 0;
        size_t n = 0;
        size_t same = 0;
        for (size_t p = 0; p < o.n_prompt; p++) {
            double ours[512];
            double theirs[512];
            log_softmax(logits + p * 512, ours);
            log_softmax(o.logits + p * 512, theirs);
            int best_ours = 0;
            int best_theirs = 0;
            for (int k = 0; k < 512; k++) {
                best_ours = ours[k] > ours[best_ours] ? k : best_ours;
                best_theirs = theirs[k] > theirs[best_theirs] ? k : best_theirs;
                if (theirs[k] <= log(1e-5))
                    continue;
                sum += (ours[k] - theirs[k]) * (ours[k] - theirs[k]);
                n++;
            }
            same += best_ours == best_theirs;
        }
        double rms = sqrt(sum / (double)n);
        print_message("%s: rms of d log p %.4f (llama.cpp %.3f), arg-max agrees at %zu of %zu\n",
                      types[i].name, rms, types[i].limit, same, o.n_prompt);
        worse += rms > types[i].limit;
        stator_close(s);
        free(logits);
        free(o.logits);
    }
    assert_int_equal(worse, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_tied), cmocka_unit_test(llama_untied),  cmocka_unit_test(qwen2),
        cmocka_unit_test(qwen3),      cmocka_unit_test(qwen35),        cmocka_unit_test(gemma3),
        cmocka_unit_test(phi3),       cmocka_unit_test(qwen3moe),      cmocka_unit_test(qwen35moe),
        cmocka_unit_test(gpt_oss),    cmocka_unit_test(mixtral),       cmocka_unit_test(olmo3),
        cmocka_unit_test(others),     cmocka_unit_test(lfm2),          cmocka_unit_test(cohere2),
        cmocka_unit_test(gemma4),     cmocka_unit_test(granitehybrid), cmocka_unit_test(nemotron_h),
        cmocka_unit_test(deepseek2),  cmocka_unit_test(quantised)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
