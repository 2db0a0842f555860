/* Hybrids of delta-net and attention layers: the same bits in chunks of any size, on any tier, split, beside
 * neighbours and after ones that were cancelled, also in odd shapes; what can't be is refused by name. */
#include "engine_harness.h"
#include "hybrid_model.h"
#include "peer_models.h"

#include "arch/arch.h"
#include "kernels/kernels.h"

#define N_IDS 77

static void make_ids(int32_t *ids, size_t n, uint32_t vocab) {
    uint64_t random = 7;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)testing_below(&random, vocab);
}

/* The logits with each of the settings are those with none. */
static void check_model(const char *model, uint32_t vocab, const char *what) {
    const char *const settings[] = {"memory.batch=1",
                                    "memory.batch=7",
                                    "memory.batch=512",
                                    "cpu.tier=scalar",
                                    "cpu.threads=5",
                                    "devices.use=cpu:0,cpu:1",
                                    "devices.use=cpu:0,cpu:1,cpu:2",
                                    kernels_best_tier() > KERNELS_TIER_AVX2 ? "cpu.tier=avx2"
                                                                            : "cpu.threads=1"};
    int32_t ids[N_IDS];
    make_ids(ids, N_IDS, vocab);
    const char *plain[] = {"cpu.threads=2", "memory.batch=64", "memory.context=512", NULL};
    stator *s = harness_start(model, plain);
    float *expected = harness_logits(s, ids, N_IDS);
    stator_close(s);
    for (size_t i = 0; i < N_IDS * vocab; i++)
        assert_true(expected[i] - expected[i] == 0.0f); /* finite */
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *sets[] = {"cpu.threads=2", "memory.batch=64", "memory.context=512", settings[i], NULL};
        s = harness_start(model, sets);
        float *got = harness_logits(s, ids, N_IDS);
        stator_close(s);
        if (memcmp(got, expected, N_IDS * vocab * sizeof *got) != 0)
            fail_msg("%s: logits differ with %s", what, settings[i]);
        free(got);
    }
    free(expected);
}

static void check_shape(struct hybrid_model m, const char *what) {
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    check_model(gguf_writer_memory_path(&w, path), m.vocab, what);
    gguf_writer_free(&w);
}

/* Gated convolutions, and hyper-connections. */
static void peers(void **state) {
    (void)state;
    static const char *const names[] = {"lfm2-odd",    "lfm2-wide",    "lfm2-one",
                                        "lfm2moe-odd", "qwen4exp-odd", "qwen4exp-equal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct peer_model *m = peer_model_named(names[i]);
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        peer_model_write(&w, m, BLOCK_Q8_0);
        gguf_writer_finish(&w);
        check_model(gguf_writer_memory_path(&w, path), m->vocab, names[i]);
        gguf_writer_free(&w);
    }
}

static void odd_shapes(void **state) {
    (void)state;
    check_shape(hybrid_model_usual(), "usual");
    struct hybrid_model m = hybrid_model_usual();
    m.taps = 1; /* no window */
    check_shape(m, "conv kernel 1");
    m.taps = 16;
    check_shape(m, "conv kernel 16");
    m = hybrid_model_usual();
    m.heads = 5;
    m.kv_heads = 1;
    m.key_heads = 1;
    m.value_heads = 5;
    m.dim_k = 37; /* heads begin anywhere in panels and vectors */
    m.inner = 5 * 41;
    check_shape(m, "5 heads, MQA, states of 37 x 41");
    m = hybrid_model_usual();
    m.key_heads = 3;
    m.value_heads = 9;
    m.dim_k = 160;
    m.inner = 9 * 72;
    m.n_rot = 32;
    m.type = BLOCK_F32;
    check_shape(m, "states of 160 x 72");
    m = hybrid_model_usual();
    m.interval = 1;
    check_shape(m, "attention only");
    m.interval = 2;
    m.blocks = 3; /* the last layer has a state */
    check_shape(m, "every other layer");
    m.interval = 5;
    check_shape(m, "no attention");
}

/* Requests that arrive and leave beside each other, some cancelled on the way, get the text that they get
 * alone: a state is its sequence's own and begins empty. */
static void neighbours(void **state) {
    (void)state;
    enum { REQUESTS = 9 };
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    int32_t ids[64];
    static struct harness_text alone[REQUESTS], together[REQUESTS];
    memset(alone, 0, sizeof alone);
    hybrid_model_write(&w, hybrid_model_usual());
    gguf_writer_finish(&w);
    make_ids(ids, 64, 96);
    const char *model = gguf_writer_memory_path(&w, path);
    const char *one[] = {"memory.context=256", "memory.sequences=1", NULL};
    stator *s = harness_start(model, one);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        alone[i].id = harness_submit(s, ids + i, 3 + 6 * i, 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
        harness_collect(s, &alone[i], 1);
    }
    stator_close(s);
    static const char *const sequences[] = {"memory.sequences=1", "memory.sequences=3", "memory.sequences=8"};
    for (size_t n = 0; n < 3; n++) {
        const char *many[] = {"memory.context=256", sequences[n], "memory.batch=16", NULL};
        s = harness_start(model, many);
        for (int lap = 0; lap < 2; lap++) { /* in the first some are cancelled */
            memset(together, 0, sizeof together);
            for (uint32_t i = 0; i < REQUESTS; i++)
                together[i].id = harness_submit(s, ids + i, 3 + 6 * i, 20 + i, i % 2 ? 0.9f : 0.0f, 100 + i);
            for (uint32_t i = 0; lap == 0 && i < REQUESTS; i += 2)
                stator_cancel(s, together[i].id);
            harness_collect(s, together, REQUESTS);
            for (uint32_t i = 0; i < REQUESTS; i++) {
                if (lap == 0 && i % 2 == 0)
                    continue;
                assert_int_equal(together[i].n, alone[i].n);
                assert_memory_equal(together[i].ids, alone[i].ids, alone[i].n * sizeof(int32_t));
            }
        }
        stator_close(s);
    }
    gguf_writer_free(&w);
}

static struct shape shape;

static stator_status read_shape(struct hybrid_model m, const char *drop, stator_error *e) {
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    w.drop[0] = drop;
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, e), STATOR_OK);
    stator_status st = arch_read(g, &shape, e);
    gguf_close(g);
    gguf_writer_free(&w);
    return st;
}

static void refused(struct hybrid_model m, const char *drop, const char *part) {
    stator_error e = {0};
    stator_status st = read_shape(m, drop, &e);
    if (st != STATOR_BAD_MODEL || strstr(e.text, part) == NULL)
        fail_msg("%d \"%s\", expected \"%s\"", (int)st, e.text, part);
}

static void bad_models(void **state) {
    (void)state;
    const struct hybrid_model good = hybrid_model_usual();
    struct hybrid_model m = good;
    m.taps = 0;
    refused(m, NULL, "key 'qwen35.ssm.conv_kernel' is 0, expected 1 to 16");
    m.taps = 17;
    refused(m, NULL, "key 'qwen35.ssm.conv_kernel' is 17");
    m = good;
    m.key_heads = 3;
    refused(m, NULL, "4 value heads (qwen35.ssm.time_step_rank) do not share 3 key heads");
    m = good;
    m.inner = 130;
    refused(m, NULL, "key 'qwen35.ssm.inner_size' is 130, expected a multiple of the 4 value heads");
    m = good;
    m.dim_k = 0;
    refused(m, NULL, "key 'qwen35.ssm.state_size' is 0");
    m.dim_k = 257;
    refused(m, NULL, "key 'qwen35.ssm.state_size' is 257");
    m = good;
    m.nextn = 4;
    refused(m, NULL, "key 'qwen35.nextn_predict_layers' is 4, but qwen35.block_count");
    refused(good, "qwen35.ssm.group_count", "'qwen35.ssm.group_count'");
    refused(good, "blk.1.ssm_a", "tensor 'blk.1.ssm_a' is missing");
    refused(good, "blk.3.attn_q_norm.weight", "tensor 'blk.3.attn_q_norm.weight' is missing");
}

/* Reads the model with another number of blocks of nextn in its key than it has. */
static stator_status read_nextn(struct hybrid_model m, uint32_t key, stator_error *e) {
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    w.drop[0] = "qwen35.nextn_predict_layers";
    hybrid_model_write(&w, m);
    w.drop[0] = NULL;
    gguf_writer_u32(&w, "qwen35.nextn_predict_layers", key);
    gguf_writer_finish(&w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, e), STATOR_OK);
    stator_status st = arch_read(g, &shape, e);
    gguf_close(g);
    gguf_writer_free(&w);
    return st;
}

/* The last layer is an MTP head only if it has nextn tensors, or no tensors at all. */
static void nextn_counts(void **state) {
    (void)state;
    struct hybrid_model m = hybrid_model_usual();
    stator_error e = {0};
    m.nextn = 0;
    const uint32_t blocks = m.blocks;
    assert_int_equal(read_nextn(m, 1, &e), STATOR_OK);
    assert_true(shape.n_layers == blocks && shape.n_nextn == 0);
    m.nextn = 1;
    assert_int_equal(read_nextn(m, 1, &e), STATOR_OK);
    assert_true(shape.n_layers == blocks - 1 && shape.n_nextn == 1 && shape.nextn_tensors > 0);
    assert_int_equal(read_nextn(m, 2, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "key 'qwen35.nextn_predict_layers' is 2, so layer"));
    assert_non_null(strstr(e.text, "has tensors and none named blk."));
}

/* A layer that is of the other kind than the keys say. */
static void other_kind(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    stator_error e = {0};
    struct hybrid_model m = hybrid_model_usual();
    hybrid_model_write(&w, m);
    hybrid_model_tensor(&w, &m, "blk.0.attn_k.weight", BLOCK_F16, m.embd, m.kv_heads * m.head_dim, 0);
    gguf_writer_finish(&w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, &e), STATOR_OK);
    assert_int_equal(arch_read(g, &shape, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "tensor 'blk.0.attn_k.weight' is not expected"));
    gguf_close(g);
    gguf_writer_free(&w);
}

/* Blocks of nextn are counted and, where nobody asks for their guesses, left. */
static void nextn(void **state) {
    (void)state;
    struct hybrid_model m = hybrid_model_usual();
    stator_error e = {0};
    m.blocks = 6;
    m.nextn = 2;
    if (read_shape(m, NULL, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(shape.n_layers, 4);
    assert_int_equal(shape.n_nextn, 2);
    assert_int_equal(shape.nextn_tensors, 2 * 15);
    assert_int_equal(shape.nextn_bytes,
                     2 * (2 * 64 * (128 + 256 + 64 + 64 + 128 + 3 * 96) + 4 * (5 * 64 + 2 * 32)));
    check_shape(m, "with nextn");
}

/* Readers of logits beside each other and beside a generation: where others have work a chunk's rest is given
 * up and computed again, which a state can't go back for. */
static void readers(void **state) {
    (void)state;
    enum { READERS = 2 };
    struct hybrid_model m = hybrid_model_usual();
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    int32_t ids[N_IDS];
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    make_ids(ids, N_IDS, m.vocab);
    const char *sets[] = {"cpu.threads=2",      "memory.batch=64",      "memory.context=512",
                          "memory.sequences=4", "memory.logits_rows=3", NULL};
    stator *s = harness_start(gguf_writer_memory_path(&w, path), sets);
    float *expected = harness_logits(s, ids, N_IDS);
    uint64_t reader[READERS], generator = harness_submit(s, ids, 20, 200, 0, 0);
    uint32_t seen[READERS] = {0};
    for (uint32_t i = 0; i < READERS; i++) {
        stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = N_IDS};
        assert_int_equal(stator_submit(s, &q, &reader[i], NULL), STATOR_OK);
    }
    for (uint32_t left = READERS + 1; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, 60000000000u, &ev, &have, NULL), STATOR_OK);
        assert_true(have);
        left -= ev.kind == STATOR_EVENT_DONE;
        for (uint32_t i = 0; i < READERS && ev.kind == STATOR_EVENT_LOGITS; i++)
            if (ev.request == reader[i]) {
                assert_int_equal(ev.position, seen[i]++);
                if (memcmp(ev.logits, expected + (size_t)ev.position * m.vocab, m.vocab * sizeof(float)) != 0)
                    fail_msg("reader %u: position %u has other logits", i, ev.position);
            }
    }
    (void)generator;
    for (uint32_t i = 0; i < READERS; i++)
        assert_int_equal(seen[i], N_IDS);
    stator_close(s);
    free(expected);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nextn_counts), cmocka_unit_test(odd_shapes),
                                       cmocka_unit_test(peers),        cmocka_unit_test(neighbours),
                                       cmocka_unit_test(readers),      cmocka_unit_test(bad_models),
                                       cmocka_unit_test(other_kind),   cmocka_unit_test(nextn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
