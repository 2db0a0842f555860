/* Models with windowed layers end to end: whatever chunks a prompt comes in, however often the ring goes
 * round, whoever is beside it and however many devices there are, every logit has the same bits; and neither
 * rings nor scratch grow with the context. */
#include "engine_harness.h"

#include "app/selftest/selftest_model.h"
#include "formats/block.h"

#define LONGEST 700
#define VOCAB   97

struct file {
    int fd;
    char path[SELFTEST_MODEL_PATH];
};

static struct file make(const char *architecture, uint32_t window, uint32_t heads, uint32_t kv_heads,
                        uint32_t type) {
    struct selftest_model m = {.architecture = architecture,
                               .type = type,
                               .n_layers = 3,
                               .n_embd = 64,
                               .n_ff = 96,
                               .n_heads = heads,
                               .n_kv_heads = kv_heads,
                               .head_dim = 32,
                               .vocab = VOCAB,
                               .context = 4096,
                               .window = window,
                               .experts = strcmp(architecture, "gpt-oss") == 0 ? 5 : 0,
                               .used = 2,
                               .seed = window + heads};
    struct file f;
    stator_error e = {0};
    if (selftest_model_make(&m, &f.fd, f.path, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return f;
}

static struct file make_rope(float factor, bool longrope) {
    struct selftest_model m = {.architecture = "phi3",
                               .type = BLOCK_F16,
                               .n_layers = 2,
                               .n_embd = 64,
                               .n_ff = 48,
                               .n_heads = 2,
                               .n_kv_heads = 1,
                               .head_dim = 32,
                               .vocab = VOCAB,
                               .context = 4096,
                               .rope_factor = factor,
                               .longrope = longrope,
                               .seed = 5};
    struct file f;
    stator_error e = {0};
    if (selftest_model_make(&m, &f.fd, f.path, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return f;
}

static void make_ids(int32_t *ids, size_t n) {
    uint64_t random = 11;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)testing_below(&random, VOCAB);
}

/* more: settings, NULL at the end. */
static float *logits_with(const struct file *f, uint32_t batch, uint32_t n, const char *const *more) {
    int32_t ids[LONGEST];
    make_ids(ids, LONGEST);
    char path[96], b[32];
    snprintf(path, sizeof path, "model.path=%s", f->path);
    snprintf(b, sizeof b, "memory.batch=%u", batch);
    const char *sets[HARNESS_SETS] = {path, b, "memory.context=768",
                                      batch < 8 ? "memory.logits_rows=1" : "memory.logits_rows=5"};
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        sets[4 + i] = more[i];
    stator *s = harness_start(f->path, sets);
    float *out = harness_logits(s, ids, n);
    stator_close(s);
    return out;
}

static void expect_same(const float *got, const float *want, uint32_t n, const char *what) {
    for (uint32_t p = 0; p < n; p++)
        if (memcmp(got + (size_t)p * VOCAB, want + (size_t)p * VOCAB, VOCAB * sizeof *got) != 0)
            fail_msg("%s: position %u has other logits", what, p);
}

/* Windows below, at and above a block, a split and the batch; five heads on one. */
static void chunks(void **state) {
    (void)state;
    static const struct {
        const char *architecture;
        uint32_t window, heads, kv_heads, n;
        const char *kv;
    } cases[] = {
        {"gemma3", 1, 4, 2, 200, "memory.kv_type=f32"},   {"gemma3", 16, 5, 1, 200, "memory.kv_type=f16"},
        {"gemma3", 32, 4, 4, 200, "memory.kv_type=q8_0"}, {"gemma3", 50, 5, 5, 330, "memory.kv_type=f32"},
        {"gpt-oss", 16, 5, 1, 200, "memory.kv_type=f16"}, {"gpt-oss", 300, 4, 2, 700, "memory.kv_type=f32"},
        {"phi3", 31, 5, 1, 700, "memory.kv_type=f16"},    {"phi3", 257, 4, 2, 700, "memory.kv_type=q4_0"},
        {"phi3", 4000, 4, 2, 200, "memory.kv_type=f16"},
    };
    static const uint32_t batches[] = {1, 7, 64};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct file f =
            make(cases[c].architecture, cases[c].window, cases[c].heads, cases[c].kv_heads, BLOCK_F16);
        const uint32_t n = cases[c].n;
        const char *more[] = {cases[c].kv, "cpu.threads=2", NULL, NULL};
        float *want = logits_with(&f, 512, n, more);
        for (size_t b = 0; b < 3; b++) {
            char what[64];
            snprintf(what, sizeof what, "%s, window %u, chunks of %u", cases[c].architecture, cases[c].window,
                     batches[b]);
            more[1] = b == 0 ? "cpu.threads=3" : "cpu.threads=1";
            float *got = logits_with(&f, batches[b], n, more);
            expect_same(got, want, n, what);
            free(got);
        }
        more[1] = "cpu.tier=scalar";
        more[2] = "cpu.threads=2";
        float *got = logits_with(&f, 100, n, more);
        expect_same(got, want, n, "scalar");
        free(got);
        free(want);
        close(f.fd);
    }
}

/* Layers over two devices, with weights of blocks, whose fused tensors are cut into their parts. */
static void split(void **state) {
    (void)state;
    static const char *const architectures[] = {"gemma3", "phi3", "gpt-oss"};
    for (int i = 0; i < 3; i++) {
        struct file f = make(architectures[i], 40, 4, 2, i == 0 ? BLOCK_F16 : BLOCK_Q8_0);
        float *want = logits_with(&f, 64, 200, (const char *[]){"cpu.threads=2", NULL});
        float *got =
            logits_with(&f, 48, 200, (const char *[]){"devices.use=cpu:0,cpu:1", "devices.split=1,2", NULL});
        expect_same(got, want, 200, architectures[i]);
        free(got);
        free(want);
        close(f.fd);
    }
}

/* A sequence takes over the blocks of another one that was cancelled, with its window full. */
static void neighbours(void **state) {
    (void)state;
    struct file f = make("gemma3", 40, 4, 2, BLOCK_F16);
    char path[96];
    snprintf(path, sizeof path, "model.path=%s", f.path);
    const char *sets[] = {
        path, "memory.context=512", "memory.batch=64", "memory.sequences=3", "cpu.threads=2", NULL};
    int32_t ids[LONGEST];
    make_ids(ids, LONGEST);
    struct harness_text want = {0};
    stator *s = harness_start(f.path, sets);
    want.id = harness_submit(s, ids, 150, 100, 0.8f, 3);
    harness_collect(s, &want, 1);
    stator_close(s);
    s = harness_start(f.path, sets);
    struct harness_text texts[6] = {0};
    for (uint32_t i = 0; i < 6; i++)
        texts[i].id = i % 2 == 1
                          ? harness_submit(s, ids, 150, 100, 0.8f, 3)
                          : harness_submit(s, ids + 7 * (size_t)i, 33 + 50 * (size_t)i, 200, 0.8f, 9 + i);
    stator_cancel(s, texts[0].id);
    stator_cancel(s, texts[2].id);
    harness_collect(s, texts, 6);
    for (uint32_t i = 1; i < 6; i += 2) {
        assert_int_equal(texts[i].n, want.n);
        assert_memory_equal(texts[i].ids, want.ids, want.n * sizeof want.ids[0]);
    }
    stator_close(s);
    close(f.fd);
}

static uint64_t planned(const char *path, const char *context, const char *arena) {
    char model[96];
    snprintf(model, sizeof model, "model.path=%s", path);
    const char *sets[] = {model, context, "memory.batch=64", "memory.on_oom=fail"};
    stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = 4};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_plan(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    uint64_t bytes = 0;
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        assert_int_equal(stator_get_memory(s, i, &row, &have, NULL), STATOR_OK);
        if (!have)
            break;
        if (strcmp(row.arena, arena) == 0)
            bytes += row.planned;
    }
    stator_close(s);
    return bytes;
}

/* All layers of phi3 have the window. Of gemma3's three layers one sees everything. */
static void sizes(void **state) {
    (void)state;
    struct file f = make("phi3", 100, 4, 2, BLOCK_F16);
    assert_int_equal(planned(f.path, "memory.context=512", "kv"),
                     planned(f.path, "memory.context=4096", "kv"));
    assert_int_equal(planned(f.path, "memory.context=512", "scratch"),
                     planned(f.path, "memory.context=4096", "scratch"));
    close(f.fd);
    f = make("gemma3", 100, 4, 2, BLOCK_F16);
    /* f16 K and V of two heads of 32: 256 bytes a token */
    uint64_t grown =
        planned(f.path, "memory.context=4096", "kv") - planned(f.path, "memory.context=2048", "kv");
    assert_true(grown >= 256 * 2048 && grown < 256 * 2048 + 65536);
    assert_int_equal(planned(f.path, "memory.context=512", "scratch"),
                     planned(f.path, "memory.context=4096", "scratch"));
    close(f.fd);
}

/* Divisors of 1 are none, divisors of 2 are what a linear factor of 2 is; the planned context chooses. */
static void longrope(void **state) {
    (void)state;
    struct file plain = make_rope(0, false), linear = make_rope(2, false), both = make_rope(0, true);
    const char *const small[] = {"memory.context=512", "cpu.threads=2", NULL}; /* the later setting counts */
    const char *const large[] = {"memory.context=513", "cpu.threads=2", NULL};
    float *one = logits_with(&plain, 64, 100, small), *two = logits_with(&linear, 64, 100, small);
    float *near = logits_with(&both, 64, 100, small), *far = logits_with(&both, 64, 100, large);
    expect_same(near, one, 100, "short divisors");
    expect_same(far, two, 100, "long divisors");
    assert_memory_not_equal(one + 99 * VOCAB, two + 99 * VOCAB, VOCAB * sizeof *one);
    free(one), free(two), free(near), free(far);
    close(plain.fd), close(linear.fd), close(both.fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks), cmocka_unit_test(split),
                                       cmocka_unit_test(neighbours), cmocka_unit_test(sizes),
                                       cmocka_unit_test(longrope)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
