/* Lists of launches follow from what ops say that they read and write, not from where they stand. */
#include "gpu_model.h"

#include "device/launch/launch.h"

static const struct launch_traits traits = {
    .max_group = 512, .local_bytes = 65536, .threads = 64, .sub_group_sizes = 1u << 3 | 1u << 4 | 1u << 5};

/* gate, up: their types; all other weights are of Q8_0. */
static struct gpu_model *model_of(uint64_t *seed, uint32_t gate, uint32_t up, uint32_t width,
                                  uint32_t batch) {
    struct gpu_model_want w = {.embd_type = BLOCK_Q8_0,
                               .output_type = BLOCK_Q8_0,
                               .n_embd = width,
                               .n_ff = width,
                               .n_heads = 2,
                               .n_kv_heads = 1,
                               .head_k = 32,
                               .head_v = 32,
                               .vocab = 48,
                               .batch = batch,
                               .rows = 1,
                               .sequences = 2,
                               .blocks = 2 + batch / 16,
                               .n_rot = 32,
                               .type_k = KERNELS_KV_F16,
                               .type_v = KERNELS_KV_F16,
                               .kv_slices = 1};
    for (int i = 0; i < 7; i++)
        w.type[i] = BLOCK_Q8_0;
    w.type[4] = gate;
    w.type[5] = up;
    return gpu_model_new(&w, seed);
}

static struct gpu_model *model_new(uint64_t *seed) {
    return model_of(seed, BLOCK_Q8_0, BLOCK_Q8_0, 64, 4);
}

static uint32_t op_of(const struct graph *g, enum graph_kind kind) {
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == kind)
            return i;
    fail_msg("no such op");
    return 0;
}

static void insert(struct graph *g, uint32_t at, const struct graph_op *op) {
    assert_true(g->n_ops < g->max_ops && at <= g->tail);
    memmove(&g->ops[at + 1], &g->ops[at], (g->n_ops - at) * sizeof g->ops[0]);
    g->ops[at] = *op;
    g->n_ops++;
    g->tail++;
}

/* How many launches, and how many of them also rotate and store heads. */
static stator_status count(const struct gpu_model *m, uint32_t *n, uint32_t *heads, stator_error *e) {
    *heads = 0;
    stator_status st = launch_build(&m->model, &traits, LAUNCH_BODY, 4, NULL, n, e);
    if (st != STATOR_OK)
        return st;
    struct launch *l = calloc(*n, sizeof *l);
    assert_non_null(l);
    assert_int_equal(launch_build(&m->model, &traits, LAUNCH_BODY, 4, l, n, e), STATOR_OK);
    for (uint32_t i = 0; i < *n; i++)
        *heads += strstr(launch_kernels[l[i].kernel].name, "_heads") != NULL;
    for (uint32_t i = 1; i < *n; i++)
        assert_true(l[i].op >= l[i - 1].op);
    free(l);
    return STATOR_OK;
}

/* The product and the rotation of its heads are one launch with any op between them that minds its own
 * values. Where that op looks at the heads, or at the layer's cache, they are rotated and stored by a launch
 * of their own. */
static void fusion(void **state) {
    (void)state;
    uint64_t seed = testing_seed("launch fusion");
    uint32_t plain = 0;
    uint32_t n = 0;
    uint32_t heads = 0;
    stator_error e = {0};
    for (int other = 0; other < 3; other++) {
        struct gpu_model *m = model_new(&seed);
        struct graph *g = &m->graph;
        assert_int_equal(count(m, &plain, &heads, &e), STATOR_OK);
        assert_int_equal(heads, 1);
        uint32_t rope = op_of(g, GRAPH_ROPE_STORE);
        struct graph_op op = g->ops[op_of(g, GRAPH_NORM)];
        if (other == 1)
            op.in = g->ops[rope].in;
        if (other == 2)
            op = g->ops[op_of(g, GRAPH_ATTENTION)];
        if (other == 2)
            op.in = op.out;
        insert(g, rope, &op);
        assert_int_equal(count(m, &n, &heads, &e), STATOR_OK);
        if (other == 0)
            assert_true(n == plain + 1 && heads == 1);
        else
            assert_true(n > plain + 1 && heads == 0);
        gpu_model_free(m);
    }
}

/* An op whose attention has other heads than the first one has launches of its own, with its own heads. */
static void mixed_heads(void **state) {
    (void)state;
    uint64_t seed = testing_seed("launch mixed heads");
    struct gpu_model *m = model_new(&seed);
    struct graph *g = &m->graph;
    uint32_t plain = 0;
    uint32_t n = 0;
    uint32_t heads = 0;
    stator_error e = {0};
    assert_int_equal(count(m, &plain, &heads, &e), STATOR_OK);
    struct graph_op op = g->ops[op_of(g, GRAPH_ATTENTION)];
    op.attention.heads *= 2;
    insert(g, op_of(g, GRAPH_ATTENTION) + 1, &op);
    assert_int_equal(count(m, &n, &heads, &e), STATOR_OK);
    assert_true(n > plain);
    gpu_model_free(m);
}

/* The kernel of gate and up in a step of so many tokens; heads: of q, k and v. */
static const char *kernel_of(const struct gpu_model *m, const struct launch_traits *t, uint32_t rows,
                             bool heads) {
    uint32_t n = 0;
    stator_error e = {0};
    assert_int_equal(launch_build(&m->model, t, LAUNCH_BODY, rows, NULL, &n, &e), STATOR_OK);
    struct launch *l = calloc(n, sizeof *l);
    assert_non_null(l);
    assert_int_equal(launch_build(&m->model, t, LAUNCH_BODY, rows, l, &n, &e), STATOR_OK);
    const char *name = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct graph_op *o = &m->graph.ops[l[i].op];
        const char *kernel = launch_kernels[l[i].kernel].name;
        if (o->kind == GRAPH_MATMUL &&
            (heads ? strstr(kernel, "_heads") != NULL : o->epilogue == GRAPH_SWIGLU))
            name = kernel;
    }
    free(l);
    assert_non_null(name);
    return name;
}

/* Which family of kernels a step takes, by its tokens, with registers of 64 bytes (sub-groups of 16) and of
 * 32, with the matrix engine and without. */
static void families(void **state) {
    (void)state;
    enum { WIDE = 1u << 4 | 1u << 5, NARROW = 1u << 3 | WIDE };
    static const struct {
        uint32_t rows, sizes, gate, up;
        bool dpas;
        const char *name, *heads;
    } want[] = {{1, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "wide1_q4_k", "wide1_q8_0_heads"},
                {2, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "few_q4_k", "few_q8_0_heads"},
                {16, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "few_q4_k", "few_q8_0_heads"},
                {17, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "dealt16_q4_k", "few_q8_0_heads"},
                {32, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "dealt16_q4_k", "few_q8_0_heads"},
                {33, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "dealt16_q4_k", "dealt16_q8_0_heads"},
                {64, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "dealt16_q4_k", "dealt16_q8_0_heads"},
                {65, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, true, "dpas16_q4_k", "dpas16_q8_0_heads"},
                /* Types of which dealt16 has no module, or which differ. */
                {32, WIDE, BLOCK_Q2_K, BLOCK_Q2_K, true, "few_q2_k", "few_q8_0_heads"},
                {33, WIDE, BLOCK_Q2_K, BLOCK_Q2_K, true, "dpas16_q2_k", "dealt16_q8_0_heads"},
                {32, WIDE, BLOCK_Q4_K, BLOCK_Q6_K, true, "few_k", "few_q8_0_heads"},
                {33, WIDE, BLOCK_Q4_K, BLOCK_Q6_K, true, "dpas16_k", "dealt16_q8_0_heads"},
                {1, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, false, "wide1_q4_k", "wide1_q8_0_heads"},
                {16, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, false, "few_q4_k", "few_q8_0_heads"},
                {33, WIDE, BLOCK_Q4_K, BLOCK_Q4_K, false, "prefill_q4_k", "prefill_q8_0_heads"},
                {16, NARROW, BLOCK_Q4_K, BLOCK_Q4_K, true, "decode4_q4_k", "decode4_q8_0_heads"},
                {17, NARROW, BLOCK_Q4_K, BLOCK_Q4_K, true, "dpas8_q4_k", "dpas8_q8_0_heads"},
                {16, NARROW, BLOCK_Q4_K, BLOCK_Q4_K, false, "decode4_q4_k", "decode4_q8_0_heads"},
                {33, NARROW, BLOCK_Q4_K, BLOCK_Q4_K, false, "prefill8_q4_k", "prefill8_q8_0_heads"}};
    uint64_t seed = testing_seed("launch families");
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct gpu_model *m = model_of(&seed, want[i].gate, want[i].up, 256, 65);
        struct launch_traits t = traits;
        t.sub_group_sizes = want[i].sizes;
        t.dpas = want[i].dpas;
        assert_string_equal(kernel_of(m, &t, want[i].rows, false), want[i].name);
        assert_string_equal(kernel_of(m, &t, want[i].rows, true), want[i].heads);
        gpu_model_free(m);
    }
}

/* Every kind has a name, and what it says of values is what its ops have. */
static void table(void **state) {
    (void)state;
    uint64_t seed = testing_seed("launch table");
    struct gpu_model *m = model_new(&seed);
    const struct graph *g = &m->graph;
    for (int k = 0; k < GRAPH_KINDS; k++)
        assert_true(graph_kind_info((enum graph_kind)k)->name != NULL);
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        assert_int_equal(graph_op_reads(op, op->in), op->in != GRAPH_NONE);
        assert_int_equal(graph_op_writes(op, op->out), op->out != GRAPH_NONE);
        assert_int_equal(graph_op_reads(op, op->out),
                         op->in == op->out ? op->in != GRAPH_NONE : op->epilogue == GRAPH_RESIDUAL);
        assert_false(graph_op_reads(op, GRAPH_NONE) || graph_op_writes(op, GRAPH_NONE));
    }
    uint64_t macs = 0;
    for (uint32_t i = 0; i < g->tail; i++)
        macs += graph_op_macs(g, &g->ops[i]);
    assert_true(macs == 64 * (64 + 32 + 32 + 64 + 3 * 64));
    gpu_model_free(m);
}

/* Every row of modules.def is carried and has kernels, which are named after one module each. */
static void modules(void **state) {
    (void)state;
    uint32_t kernels[LAUNCH_MODULES] = {0};
    for (uint32_t k = 0; k < launch_n_kernels; k++) {
        assert_non_null(launch_kernels[k].name);
        kernels[launch_kernels[k].module - launch_modules]++;
        for (uint32_t other = 0; other < k; other++)
            assert_string_not_equal(launch_kernels[k].name, launch_kernels[other].name);
    }
    for (uint32_t m = 0; m < LAUNCH_MODULES; m++) {
        assert_true(kernels[m] > 0);
        assert_non_null(launch_modules[m].options);
        assert_true(opencl_n_modules == 0 || launch_modules_find(launch_modules[m].name) < opencl_n_modules);
    }
    assert_true(opencl_n_modules == 0 || opencl_n_modules == LAUNCH_MODULES);
}

/* The bucket of a step of so many tokens. */
static uint32_t bucket_of(uint32_t batch, uint32_t stream, uint32_t tokens) {
    uint32_t bounds[LAUNCH_BUCKETS], i = 0;
    const uint32_t n = launch_buckets(batch, stream, bounds);
    while (i < n && bounds[i] < tokens)
        i++;
    assert_true(i < n);
    return bounds[i];
}

/* What goes between the devices of a group lies the same way on all, though one has a list more. */
static void packed(void **state) {
    (void)state;
    static const uint32_t batches[] = {1, 3, 16, 40, 100, 512}, streams[] = {2, 5, 17, 33, 41, 65, 300, 512};
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++)
        for (size_t s = 0; s < sizeof streams / sizeof streams[0]; s++)
            for (uint32_t t = 1; t <= batches[b]; t++) {
                const struct graph g = {.want = {.batch = batches[b]}};
                const struct graph_value v = {.packed = 3, .rows = 3 * batches[b]};
                const uint32_t rows = launch_packed_rows(&g, &v, bucket_of(batches[b], 0, t));
                assert_int_equal(rows, launch_packed_rows(&g, &v, bucket_of(batches[b], streams[s], t)));
                assert_true(rows >= 3 * t && rows <= v.rows);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed),      cmocka_unit_test(fusion),
                                       cmocka_unit_test(mixed_heads), cmocka_unit_test(families),
                                       cmocka_unit_test(table),       cmocka_unit_test(modules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
