/* The GPU kernels against the scalar tier, bit for bit: random model parts with all weight types and shapes
 * with tails, on the software driver through the real loader. Everything that a step leaves in device memory
 * is compared, the gaps between values too. And the lists of launches: how many there are. */
#include "gpu_model.h"
#include "ze_runner.h"

static const uint32_t all_types[] = {
    BLOCK_Q4_0, BLOCK_Q4_1,  BLOCK_Q5_0,   BLOCK_Q5_1,  BLOCK_Q8_0,   BLOCK_Q4_K,    BLOCK_Q5_K,
    BLOCK_Q6_K, BLOCK_F32,   BLOCK_F16,    BLOCK_BF16,  BLOCK_IQ4_NL, BLOCK_MXFP4,   BLOCK_Q2_K,
    BLOCK_Q3_K, BLOCK_IQ2_S, BLOCK_IQ4_XS, BLOCK_IQ1_S, BLOCK_IQ3_S,  BLOCK_IQ3_XXS, BLOCK_TQ2_0};
#define N_TYPES (sizeof all_types / sizeof all_types[0])
static const uint32_t k_types[] = {BLOCK_Q4_K, BLOCK_Q5_K,  BLOCK_Q6_K,   BLOCK_Q2_K,
                                   BLOCK_Q3_K, BLOCK_IQ2_S, BLOCK_IQ3_XXS};

static const struct launch_traits plain_traits = {
    .max_group = 512, .local_bytes = 65536, .threads = 64, .sub_group_sizes = 1u << 3 | 1u << 4 | 1u << 5};

/* So many that groups share units, and that 17 to 32 tokens are few. */
static const struct launch_traits busy_traits = {
    .max_group = 512, .local_bytes = 65536, .threads = 8192, .sub_group_sizes = 1u << 3 | 1u << 4 | 1u << 5};

static uint32_t pick(uint64_t *seed, const uint32_t *from, uint32_t n) {
    return from[testing_below(seed, n)];
}

static bool with_factors;
static uint32_t with_ff; /* the width of the feed-forward, if not 0 */
static bool with_halves; /* heads that may be cut in two: not normed, pairs side by side */

/* A random shape whose widths are multiples of what the types need. */
static struct gpu_model_want random_want(uint64_t *seed, const uint32_t type[7], uint32_t batch) {
    struct gpu_model_want w = {.batch = batch, .rows = 1 + (uint32_t)testing_below(seed, 3), .sequences = 3};
    memcpy(w.type, type, sizeof w.type);
    bool k = false, blocks = false;
    for (int i = 0; i < 7; i++) {
        k |= block_info(type[i])->values == 256;
        blocks |= block_info(type[i])->values == 32;
    }
    static const uint32_t heads[] = {32, 64, 96, 128};
    w.embd_type = pick(seed, type, 7);
    w.output_type = pick(seed, type, 7);
    w.head_k = pick(seed, heads, 4);
    w.head_v = testing_below(seed, 4) == 0 ? pick(seed, heads, 4) : w.head_k;
    uint32_t group = 1 + (uint32_t)testing_below(seed, 3);
    w.n_kv_heads = k ? 4 : 1 + (uint32_t)testing_below(seed, 4);
    if (k) /* the product of heads and dims must be a multiple of 256 */
        group *= 4 * w.head_v % 256 == 0 ? 1 : 2;
    w.n_heads = w.n_kv_heads * group;
    w.n_embd = k        ? 256 * (1 + (uint32_t)testing_below(seed, 3))
               : blocks ? 32 * (1 + (uint32_t)testing_below(seed, 25))
                        : 1 + (uint32_t)testing_below(seed, 700);
    w.n_ff = k        ? 256 * (1 + (uint32_t)testing_below(seed, 2))
             : blocks ? 32 * (1 + (uint32_t)testing_below(seed, 20))
                      : 1 + (uint32_t)testing_below(seed, 300);
    w.n_ff = with_ff != 0 ? with_ff : w.n_ff;
    w.vocab = 1 + (uint32_t)testing_below(seed, 300);
    w.bias = testing_below(seed, 2);
    w.norms = testing_below(seed, 2);
    w.neox = testing_below(seed, 2);
    w.n_rot = testing_below(seed, 2) ? w.head_k : 2 * (1 + (uint32_t)testing_below(seed, w.head_k / 2));
    w.type_k = (uint32_t)testing_below(seed, KERNELS_KV_TYPES);
    w.type_v = testing_below(seed, 2) ? w.type_k : (uint32_t)testing_below(seed, KERNELS_KV_TYPES);
    w.kv_slices = 1 + (uint32_t)testing_below(seed, ARITH_MIN(w.n_kv_heads, 4u));
    w.blocks = (uint32_t)arith_ceil_div(batch, KERNELS_KV_BLOCK) + (testing_below(seed, 3) == 0 ? 18 : 2);
    w.cells = testing_below(seed, 3) == 0 ? (uint32_t)testing_below(seed, 40) : UINT32_MAX;
    w.factors = testing_below(seed, 4) == 0 || with_factors;
    if (with_halves)
        w.norms = w.neox = false;
    w.sinks = testing_below(seed, 2);
    uint32_t spare = (w.blocks - 1) * KERNELS_KV_BLOCK - batch + 2; /* the widest window of a ring of these */
    w.window = testing_below(seed, 2) ? 1 + (uint32_t)testing_below(seed, spare) : 0;
    w.ff_bias = testing_below(seed, 2);
    return w;
}

#if __has_include(<level_zero/ze_api.h>)

static struct ze_runner runner;
static bool have_runner;

static int set_up(void **state) {
    (void)state;
    have_runner = opencl_n_modules > 0 && ze_runner_open(&runner);
    if (opencl_n_modules == 0)
        print_message("skipped: the binary has no GPU kernels (%s)\n", opencl_missing);
    return 0;
}

static void run_part(struct gpu_model *m, const struct launch_traits *t, enum launch_part part,
                     uint32_t rows) {
    uint32_t n = 0;
    stator_error e = {0};
    if (launch_build(&m->model, t, part, rows, NULL, &n, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    struct launch *l = calloc(n, sizeof *l);
    assert_non_null(l);
    assert_int_equal(launch_build(&m->model, t, part, rows, l, &n, &e), STATOR_OK);
    for (uint32_t i = 0; i < n; i++)
        ze_runner_append(&runner, &l[i]);
    ze_runner_execute(&runner);
    free(l);
}

static void run_gpu(struct gpu_model *m, const struct launch_traits *t, uint32_t tokens, uint32_t rows) {
    for (int a = 0; a < DEVICE_ARENAS; a++)
        for (uint32_t s = 0; s < GRAPH_MAX_SLICES; s++)
            if (m->bytes[a][s] > 0)
                ze_runner_slice(&runner, (enum device_arena)a, s, m->before[a][s], m->bytes[a][s]);
    run_part(m, t, LAUNCH_BODY, tokens);
    run_part(m, t, LAUNCH_TAIL, rows);
    for (int a = 0; a < DEVICE_ARENAS; a++)
        for (uint32_t s = 0; s < GRAPH_MAX_SLICES; s++)
            if (m->bytes[a][s] > 0)
                ze_runner_copy(&runner, runner.slices[a][s], m->gpu[a][s], m->bytes[a][s], false);
    ze_runner_free_slices(&runner);
}

/* One random model, one step of `tokens` tokens in a list for `bucket`. */
static void check(uint64_t *seed, const struct launch_traits *t, const uint32_t type[7], uint32_t tokens,
                  uint32_t bucket, uint32_t head_k, uint32_t head_v) {
    uint64_t began = *seed;
    struct gpu_model_want w = random_want(seed, type, bucket);
    w.wide = testing_below(seed, 4) == 0;
    w.late = !w.wide && testing_below(seed, 4) == 0;
    w.cap = testing_below(seed, 3) == 0 ? 0.5f : 0;
    if (head_k > 0) {
        w.head_k = w.n_rot = head_k;
        w.head_v = head_v;
    }
    struct gpu_model *m = gpu_model_new(&w, seed);
    gpu_model_step(m, seed, tokens, w.rows);
    launch_cut(&m->model, t, bucket, (struct step_header *)(void *)m->before[DEVICE_EXCHANGE][0]);
    gpu_model_run_cpu(m);
    run_gpu(m, t, bucket, w.rows);
    char what[256];
    snprintf(what, sizeof what,
             "seed %llu, %u tokens of %u, embd %u, ff %u, heads %u of %u x %u/%u, wide %d, late %d, cap %g, "
             "types %s "
             "%s %s %s "
             "%s %s "
             "%s",
             (unsigned long long)began, tokens, bucket, w.n_embd, w.n_ff, w.n_heads, w.n_kv_heads, w.head_k,
             w.head_v, w.wide, w.late, (double)w.cap, block_info(type[0])->name, block_info(type[1])->name,
             block_info(type[2])->name, block_info(type[3])->name, block_info(type[4])->name,
             block_info(type[5])->name, block_info(type[6])->name);
    gpu_model_compare(m, what);
    gpu_model_free(m);
}

/* A step that is described in `m`, on both. */
static void compare_step(struct gpu_model *m, const struct launch_traits *t, uint32_t bucket,
                         const char *what) {
    launch_cut(&m->model, t, bucket, (struct step_header *)(void *)m->before[DEVICE_EXCHANGE][0]);
    gpu_model_run_cpu(m);
    run_gpu(m, t, bucket, m->want.rows);
    gpu_model_compare(m, what);
    gpu_model_free(m);
}

/* Latent attention: heads that fill a group's rows, or do not, products of a matrix per head of this type. */
static void check_latent(uint64_t *seed, const struct launch_traits *t, uint32_t type, uint32_t tokens,
                         uint32_t bucket, uint32_t kv) {
    static const uint32_t heads[] = {1, 3, 5, 8, 11, 12, 16, 20}, ranks[] = {32, 40, 96, 256, 512};
    const uint64_t began = *seed;
    const uint32_t group = block_info(type)->values;
    /* K types: a head's q must be whole groups, so attn_k_b has another type. */
    const uint32_t of_k = group == 256 ? BLOCK_Q8_0 : type;
    const uint32_t types[7] = {BLOCK_Q8_0, of_k, type, BLOCK_F16, BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0};
    struct gpu_model_want w = random_want(seed, types, bucket);
    w.bias = w.norms = w.sinks = false;
    w.window = 0;
    w.embd_type = w.output_type = BLOCK_Q8_0;
    w.n_heads = pick(seed, heads, sizeof heads / sizeof heads[0]);
    w.n_kv_heads = w.kv_slices = 1;
    w.n_embd = w.n_ff = 64;
    w.n_rot =
        group > 1 ? 32 * (1 + (uint32_t)testing_below(seed, 2)) : 2 * (1 + (uint32_t)testing_below(seed, 32));
    w.nope = group > 1 ? 32 * (1 + (uint32_t)testing_below(seed, 6)) : 1 + (uint32_t)testing_below(seed, 90);
    w.kv_rank = group == 256 ? 256 * (1 + (uint32_t)testing_below(seed, 2)) : pick(seed, ranks, 5);
    if (group == 32 && w.kv_rank == 40)
        w.kv_rank = 64;
    w.dim_v = 1 + (uint32_t)testing_below(seed, 100);
    w.q_rank = testing_below(seed, 2) ? 32 * (1 + (uint32_t)testing_below(seed, 3)) : 0;
    w.head_v = (uint32_t)arith_round_up(w.kv_rank, 32);
    w.head_k = (uint32_t)arith_round_up(w.kv_rank + w.n_rot, 32);
    w.type_k = w.type_v = kv;
    struct gpu_model *m = gpu_model_new(&w, seed);
    gpu_model_step(m, seed, tokens, w.rows);
    char what[200];
    snprintf(what, sizeof what,
             "seed %llu, latent, %u tokens of %u, %u heads, rank %u + %u, nope %u, V %u, %s, KV %u",
             (unsigned long long)began, tokens, bucket, w.n_heads, w.kv_rank, w.n_rot, w.nope, w.dim_v,
             block_info(type)->name, kv);
    compare_step(m, t, bucket, what);
}

/* Attention to both sides, in windows and without. */
static void check_both(uint64_t *seed, const struct launch_traits *t, uint32_t tokens, uint32_t bucket,
                       uint32_t type_k, uint32_t type_v) {
    const uint64_t began = *seed;
    const uint32_t q8[7] = {BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0,
                            BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0};
    struct gpu_model_want w = random_want(seed, q8, bucket);
    w.both = true;
    w.n_embd = w.n_ff = 64;
    w.type_k = type_k;
    w.type_v = type_v;
    struct gpu_model *m = gpu_model_new(&w, seed);
    gpu_model_step(m, seed, tokens, w.rows);
    char what[200];
    snprintf(what, sizeof what,
             "seed %llu, both sides, %u tokens of %u, heads %u of %u x %u/%u, window %u, KV %u/%u",
             (unsigned long long)began, tokens, bucket, w.n_heads, w.n_kv_heads, w.head_k, w.head_v, w.window,
             type_k, type_v);
    compare_step(m, t, bucket, what);
}

/* The same of a layer with experts: every way of routing, biases, a shared expert, a clamped SwiGLU. */
static void check_experts(uint64_t *seed, const struct launch_traits *t, const uint32_t type[7],
                          uint32_t tokens, uint32_t bucket) {
    uint64_t began = *seed;
    struct gpu_model_want w = random_want(seed, type, bucket);
    const bool k = block_info(type[6])->values == 256;
    w.experts = 1 + (uint32_t)testing_below(seed, testing_below(seed, 3) == 0 ? 300 : 20);
    w.used = 1 + (uint32_t)testing_below(seed, ARITH_MIN(w.experts, 8u));
    w.n_embd = ARITH_MIN(w.n_embd, 256u);
    w.n_ff = w.experts > 20 ? (k ? 256 : 32) : w.n_ff;
    w.shared_ff = testing_below(seed, 2) ? 0 : w.n_ff;
    w.expert_bias = testing_below(seed, 2);
    w.sigmoid = testing_below(seed, 2);
    w.choice_bias = w.sigmoid || testing_below(seed, 2);
    w.norm = testing_below(seed, 2);
    w.clamped = testing_below(seed, 2);
    if (testing_below(seed, 2) && w.experts % 2 == 0 && w.experts / 2 >= w.used) { /* of the better groups */
        w.groups = w.experts % 4 == 0 ? 4 : 2;
        w.groups_used = w.groups / 2 + (uint32_t)testing_below(seed, 2);
    }
    struct gpu_model *m = gpu_model_new(&w, seed);
    gpu_model_step(m, seed, tokens, w.rows);
    launch_cut(&m->model, t, bucket, (struct step_header *)(void *)m->before[DEVICE_EXCHANGE][0]);
    gpu_model_run_cpu(m);
    run_gpu(m, t, bucket, w.rows);
    char what[256];
    snprintf(
        what, sizeof what,
        "seed %llu, %u tokens of %u, embd %u, ff %u, %u of %u experts, shared %u, bias %d, sigmoid %d, norm "
        "%d, clamped %d, types %s %s %s",
        (unsigned long long)began, tokens, bucket, w.n_embd, w.n_ff, w.used, w.experts, w.shared_ff,
        w.expert_bias, w.sigmoid, w.norm, w.clamped, block_info(type[4])->name, block_info(type[5])->name,
        block_info(type[6])->name);
    gpu_model_compare(m, what);
    gpu_model_free(m);
}

/* Every set of types that has kernels: each type alone, three K types mixed, all of them, all types. */
static void each_set(const char *test, const struct launch_traits *t, uint32_t n_sets, uint32_t least,
                     uint32_t most) {
    if (!have_runner)
        skip();
    uint64_t seed = testing_seed(test);
    for (uint32_t set = 0; set < n_sets; set++) {
        uint32_t type[7];
        for (int i = 0; i < 7; i++) {
            if (set < N_TYPES)
                type[i] = all_types[set];
            else if (set == N_TYPES)
                type[i] = pick(&seed, k_types, 3);
            else if (set == N_TYPES + 1)
                type[i] = pick(&seed, k_types, sizeof k_types / sizeof k_types[0]);
            else
                type[i] = pick(&seed, all_types, N_TYPES);
        }
        uint32_t tokens = least + (uint32_t)testing_below(&seed, most - least + 1);
        check(&seed, t, type, tokens, most, 0, 0);
    }
}

/* The widest heads: more columns than a group has items. */
static void wide_heads(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    uint64_t seed = testing_seed("wide_heads");
    const uint32_t q8[7] = {BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0,
                            BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0};
    check(&seed, &plain_traits, q8, 1, 1, 512, 512);
    check(&seed, &plain_traits, q8, 3, 4, 256, 512);
    check(&seed, &plain_traits, q8, 18, 18, 512, 256);
}

#define DEEP_CHUNKS 9
static uint32_t tiled_chunks;

/* One step with the chunks' lengths and positions given (n 0: no chunk) in a list for `bucket`, its cells
 * limited. */
struct deep {
    uint32_t bucket;
    uint32_t heads, group, head;
    uint32_t blocks, cells;
    uint32_t window; /* 0: none */
    struct {
        uint32_t n, position;
    } chunk[DEEP_CHUNKS];
};

static void check_deep(uint64_t *seed, const struct launch_traits *t, const uint32_t type[7], uint32_t kv,
                       const struct deep *d) {
    struct gpu_model_want w = random_want(seed, type, d->bucket);
    w.n_kv_heads = d->heads;
    w.n_heads = d->heads * d->group;
    w.head_k = w.head_v = w.n_rot = d->head;
    w.n_embd = w.n_ff = block_info(type[0])->values == 256 ? 256 : 64;
    w.type_k = w.type_v = kv;
    w.blocks = d->blocks;
    w.cells = d->cells;
    w.window = d->window;
    w.kv_slices = 1;
    while (w.sequences < DEEP_CHUNKS && d->chunk[w.sequences].n > 0)
        w.sequences++;
    struct gpu_model *m = gpu_model_new(&w, seed);
    gpu_model_step(m, seed, d->bucket, 1);
    struct step_header *h = (struct step_header *)(void *)m->before[DEVICE_EXCHANGE][0];
    struct step_chunk *c = (struct step_chunk *)(void *)((uint8_t *)h + h->at_chunks);
    uint32_t tokens = 0;
    h->n_chunks = 0;
    for (uint32_t i = 0; i < w.sequences && d->chunk[i].n > 0; i++) {
        c[h->n_chunks++] = (struct step_chunk){.slot = w.sequences - 1 - i,
                                               .first = tokens,
                                               .n = d->chunk[i].n,
                                               .position = d->chunk[i].position};
        tokens += d->chunk[i].n;
    }
    h->n_tokens = tokens;
    h->cache[0].n_fill = 0;
    memset((uint8_t *)h + h->at_rows, 0, 4);
    launch_cut(&m->model, t, d->bucket, h);
    for (uint32_t i = 0; i < h->n_chunks; i++)
        tiled_chunks += c[i].tiled;
    gpu_model_run_cpu(m);
    run_gpu(m, t, d->bucket, 1);
    char what[160];
    snprintf(what, sizeof what, "%u heads of %u x %u, KV type %u, %u cells, %u at %u, %u at %u, %u at %u",
             d->heads, d->group, d->head, kv, d->cells, d->chunk[0].n, d->chunk[0].position, d->chunk[1].n,
             d->chunk[1].position, d->chunk[2].n, d->chunk[2].position);
    gpu_model_compare(m, what);
    gpu_model_free(m);
}

/* Splits side by side: at their edges, more than are merged at a time, of several sequences, for all types of
 * KV, with too few cells for some chunks, with heads whose int8 groups go together. */
static void deep_contexts(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    const uint32_t all = UINT32_MAX;
    const struct deep deep[] = {
        {1, 2, 2, 32, 24, all, 0, {{1, 255}}}, /* the last context of one split */
        {1, 2, 2, 32, 24, all, 0, {{1, 256}}},
        {1, 1, 4, 64, 24, all, 0, {{1, 767}}},
        {1, 1, 1, 32, 1100, all, 0, {{1, 34000}}},                /* 133 splits */
        {4, 2, 3, 32, 48, all, 0, {{2, 511}, {1, 1500}, {1, 3}}}, /* tiles of which one query sees a split
                                                                   * more
                                                                   */
        {4, 2, 12, 32, 32, all, 0, {{3, 510}}},                   /* more rows than a group takes at a time */
        {4, 2, 2, 32, 48, 20, 0, {{2, 1000}, {1, 1400}, {1, 500}}},
        {16, 2, 2, 32, 64, all, 0, {{3, 300}, {10, 1000}, {3, 1900}}}, /* many queries have what is spare */
        {16, 2, 2, 32, 64, 30, 0, {{4, 400}, {12, 1000}}},
        {20, 2, 2, 32, 64, all, 0, {{20, 500}}},
        {18, 8, 4, 32, 64, all, 0, {{17, 900}, {1, 1500}}}, /* enough tiles: the long chunk goes one by one */
        {9,
         2,
         2,
         32,
         24,
         all,
         0,
         {{1, 600}, {1, 0}, {1, 255}, {1, 256}, {1, 511}, {1, 5}, {1, 700}, {1, 300}, {1, 31}}},
        {20,
         2,
         2,
         32,
         24,
         20,
         0,
         {{1, 0}, {2, 511}, {6, 250}, {1, 600}, {1, 3}, {4, 254}, {1, 512}, {4, 20}}},
        /* windows: of one split and of several, of more than are merged at a time, in rings */
        {1, 2, 2, 32, 4, all, 33, {{1, 34000}}},
        {1, 2, 2, 32, 11, all, 257, {{1, 767}}},
        {1, 1, 1, 32, 1070, all, 33900, {{1, 36000}}},
        {4, 2, 3, 32, 12, all, 255, {{3, 510}, {1, 1500}}},
        {4, 2, 12, 32, 6, all, 100, {{3, 510}}},
        {16, 2, 2, 32, 27, all, 700, {{3, 300}, {10, 1016}, {3, 1900}}},
        {20, 2, 2, 32, 3, all, 1, {{20, 500}}},
        {20,
         2,
         2,
         32,
         24,
         20,
         600,
         {{1, 0}, {2, 511}, {6, 250}, {1, 600}, {1, 3}, {4, 1254}, {1, 512}, {4, 20}}},
        {300, 1, 2, 32, 20, all, 40, {{300, 200}}},
    };
    static const uint32_t q8[7] = {BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0,
                                   BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0};
    uint64_t seed = testing_seed("deep_contexts");
    struct launch_traits many = plain_traits;
    many.threads = 640;
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++)
        check_deep(&seed, &many, q8, (uint32_t)i % KERNELS_KV_TYPES, &deep[i]);
    /* Eight KV heads have one group of 256: they arrive at one count. */
    static const uint32_t k[7] = {BLOCK_Q4_K, BLOCK_Q5_K, BLOCK_Q6_K, BLOCK_Q4_K,
                                  BLOCK_Q4_K, BLOCK_Q6_K, BLOCK_Q4_K};
    const struct deep together = {2, 8, 1, 32, 48, all, 0, {{1, 700}, {1, 1300}}};
    for (uint32_t kv = 0; kv < KERNELS_KV_TYPES; kv++)
        check_deep(&seed, &many, k, kv, &together);
    struct launch_traits few = plain_traits;
    few.threads = 16; /* one group has all items */
    check_deep(&seed, &few, k, KERNELS_KV_F16, &together);
}

/* Tiles of many queries: beside chunks that are not tiled, at the edges of splits and blocks, of windows and
 * rings, with groups that do not fill a tile or fill several, of 32 and of 64 rows. */
static const struct deep tile_cases[] = {
    {40, 2, 4, 64, 8, UINT32_MAX, 0, {{40, 0}}},
    {70, 1, 3, 64, 24, UINT32_MAX, 0, {{37, 240}, {1, 600}, {32, 511}}},
    {40, 2, 2, 128, 24, UINT32_MAX, 0, {{24, 500}, {16, 250}}},
    {33, 1, 12, 96, 24, UINT32_MAX, 0, {{30, 255}, {2, 256}, {1, 0}}},
    {80, 1, 1, 32, 24, 40, 0, {{80, 441}}},
    {20, 1, 64, 32, 24, UINT32_MAX, 0, {{3, 300}, {17, 80}}},
    /* windows: less than a block, of some blocks, of more than a split, in rings */
    {64, 1, 2, 64, 6, UINT32_MAX, 5, {{64, 700}}},
    {64, 2, 1, 128, 10, UINT32_MAX, 100, {{40, 1003}, {24, 0}}},
    {100, 1, 3, 64, 14, UINT32_MAX, 300, {{100, 1000}}},
    {34, 1, 2, 32, 13, UINT32_MAX, 257, {{34, 766}}},
};
#define TILE_CASES (sizeof tile_cases / sizeof tile_cases[0])
static const uint32_t all_q8[7] = {BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0,
                                   BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0};

static void tiles(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    uint64_t seed = testing_seed("tiles");
    tiled_chunks = 0;
    struct launch_traits sixteen = plain_traits;
    sixteen.sub_group_sizes = 1u << 4;
    for (size_t i = 0; i < 2 * TILE_CASES; i++)
        check_deep(&seed, (i + i / 2) % 2 ? &sixteen : &plain_traits, all_q8,
                   i % 2 ? KERNELS_KV_F16 : KERNELS_KV_F32, &tile_cases[i / 2]);
    static const uint32_t k[7] = {BLOCK_Q4_K, BLOCK_Q5_K, BLOCK_Q6_K, BLOCK_Q4_K,
                                  BLOCK_Q4_K, BLOCK_Q6_K, BLOCK_Q4_K};
    const struct deep together = {40, 8, 1, 32, 48, UINT32_MAX, 0, {{40, 700}}};
    check_deep(&seed, &plain_traits, k, KERNELS_KV_F16, &together);
    assert_int_equal(tiled_chunks, 27);
    /* no room for 64 rows of such heads */
    struct launch_traits small = plain_traits;
    small.local_bytes = 48 << 10;
    for (size_t i = 2; i < 4; i++)
        check_deep(&seed, &small, all_q8, i % 2 ? KERNELS_KV_F16 : KERNELS_KV_F32, &tile_cases[i]);
    small.sub_group_sizes = 1u << 4;
    check_deep(&seed, &small, all_q8, KERNELS_KV_F16, &tile_cases[7]);
    assert_int_equal(tiled_chunks, 33);
}

/* The same of Q8_0, with the matrix engine and without, and of heads that other types have no tiles for. */
static void tiles_q8(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    uint64_t seed = testing_seed("tiles_q8");
    const struct deep wide = {40, 2, 2, 256, 24, UINT32_MAX, 0, {{24, 500}, {16, 250}}};
    tiled_chunks = 0;
    for (uint32_t how = 0; how < 4; how++) {
        struct launch_traits t = plain_traits;
        t.dpas = how & 1;
        t.sub_group_sizes = how & 2 ? 1u << 4 : t.sub_group_sizes;
        for (size_t i = 0; i < TILE_CASES; i++)
            check_deep(&seed, &t, all_q8, KERNELS_KV_Q8_0, &tile_cases[i]);
        check_deep(&seed, &t, all_q8, KERNELS_KV_Q8_0, &wide);
    }
    assert_int_equal(tiled_chunks, 68);
    struct launch_traits small = plain_traits; /* no room */
    small.local_bytes = 48 << 10;
    check_deep(&seed, &small, all_q8, KERNELS_KV_Q8_0, &wide);
    assert_int_equal(tiled_chunks, 68);
}

/* Every type, in lists for one token, few and many, and on the matrix engine. */
static void experts(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    static const uint32_t buckets[] = {1, 4, 21, 21, 21};
    uint64_t seed = testing_seed("experts");
    for (uint32_t set = 0; set < N_TYPES + 6; set++) {
        for (uint32_t i = 0; i < 5; i++) {
            struct launch_traits t = plain_traits;
            t.dpas = i > 2;
            t.sub_group_sizes = i == 4 ? 1u << 4 : t.sub_group_sizes;
            uint32_t type[7];
            for (uint32_t k = 0; k < 7; k++)
                type[k] = set < N_TYPES       ? all_types[set]
                          : set < N_TYPES + 2 ? pick(&seed, k_types, 3)
                          : set < N_TYPES + 4 ? pick(&seed, k_types, sizeof k_types / sizeof k_types[0])
                                              : pick(&seed, all_types, N_TYPES);
            check_experts(&seed, &t, type, 1 + (uint32_t)testing_below(&seed, buckets[i]), buckets[i]);
        }
    }
}

/* What multiplies the sums of matrices, in the kernels of every family. */
static void factors(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    static const uint32_t buckets[] = {1, 4, 16, 21}, of[] = {BLOCK_F16, BLOCK_Q8_0, BLOCK_Q4_K};
    uint64_t seed = testing_seed("factors");
    with_factors = true;
    for (uint32_t i = 0; i < 24; i++) {
        const uint32_t bucket = buckets[i % 4], t = of[i / 4 % 3];
        const uint32_t type[7] = {t, t, t, t, t, t, t};
        struct launch_traits traits = i % 2 ? busy_traits : plain_traits;
        traits.dpas = i >= 12;
        traits.sub_group_sizes = i % 8 > 3 ? 1u << 4 : traits.sub_group_sizes;
        check(&seed, &traits, type, bucket, bucket, 0, 0);
        check_experts(&seed, &traits, type, bucket, bucket);
    }
    with_factors = false;
}

/* Of one token, where a group has not room for all of a head: halves, and floats where registers are wide. */
static void halves(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    static const uint32_t of[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16, BLOCK_Q8_0, BLOCK_Q4_K};
    uint64_t seed = testing_seed("halves");
    struct launch_traits traits = plain_traits;
    traits.max_group = 256;
    with_halves = true;
    for (uint32_t i = 0; i < 20; i++) {
        const uint32_t t = of[i % 5], head = i % 2 ? 256 : 512;
        const uint32_t type[7] = {t, t, t, t, t, t, t};
        traits.sub_group_sizes = i % 3 ? 1u << 4 : plain_traits.sub_group_sizes;
        check(&seed, &traits, type, 1, 1, head, i % 4 == 3 ? 512 : head);
    }
    with_halves = false;
}

/* Every type of K and V, and every type of a matrix per head, for one token and for more, in sub-groups of 8
 * and of 16. */
static void latent(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    static const uint32_t buckets[] = {1, 4, 16, 21};
    uint64_t seed = testing_seed("latent");
    for (uint32_t i = 0; i < 4 * N_TYPES; i++) {
        struct launch_traits t = plain_traits;
        t.sub_group_sizes = (i + i / 4) % 2 ? 1u << 4 | 1u << 5 : t.sub_group_sizes;
        t.dpas = i / 2 % 2;
        const uint32_t bucket = buckets[i % 4];
        check_latent(&seed, &t, all_types[i / 4], 1 + (uint32_t)testing_below(&seed, bucket), bucket,
                     (uint32_t)testing_below(&seed, KERNELS_KV_TYPES));
    }
}

static void both_sides(void **state) {
    (void)state;
    if (!have_runner)
        skip();
    static const uint32_t buckets[] = {1, 4, 40, 300};
    uint64_t seed = testing_seed("both_sides");
    for (uint32_t i = 0; i < 40; i++) {
        struct launch_traits t = plain_traits;
        t.sub_group_sizes = i / 20 ? 1u << 4 | 1u << 5 : t.sub_group_sizes;
        const uint32_t bucket = buckets[i % 4], kv = i / 4 % 5;
        check_both(&seed, &t, 1 + (uint32_t)testing_below(&seed, bucket), bucket, kv % KERNELS_KV_TYPES,
                   kv < KERNELS_KV_TYPES ? kv : KERNELS_KV_Q8_0);
    }
}

static void decode_one(void **state) {
    (void)state;
    each_set("decode_one", &plain_traits, N_TYPES + 3, 1, 1);
    each_set("decode_one, many threads", &busy_traits, N_TYPES + 3, 1, 1);
}

static void decode_few(void **state) {
    (void)state;
    each_set("decode_few", &busy_traits, N_TYPES + 3, 1, 24);
    struct launch_traits t = busy_traits;
    t.sub_group_sizes = 1u << 4 | 1u << 5;
    each_set("few", &t, N_TYPES + 3, 1, 33);
}

static void prefill(void **state) {
    (void)state;
    struct launch_traits t = plain_traits;
    each_set("prefill8", &t, N_TYPES + 3, 10, 37);
    t.sub_group_sizes = 1u << 4 | 1u << 5;
    each_set("prefill", &t, N_TYPES + 3, 10, 21);
}

static void matrix_engine(void **state) {
    (void)state;
    struct launch_traits t = plain_traits;
    t.dpas = true;
    each_set("dpas8", &t, N_TYPES + 3, 10, 21);
    t.sub_group_sizes = 1u << 4 | 1u << 5;
    each_set("few beside dpas16", &t, N_TYPES, 9, 16);
    each_set("dealt16", &t, N_TYPES + 3, 17, 48); /* heads from 33 on */
    with_ff = 2816;                               /* more segments than are in flight, and half of one */
    each_set("dealt16, long rows", &t, N_TYPES + 3, 17, 40);
    with_ff = 0;
    each_set("dpas16", &t, N_TYPES + 3, 65, 80);
    t.threads = 4; /* the largest tiles */
    each_set("dpas16, many tokens", &t, N_TYPES + 3, 100, 140);
    t.threads = busy_traits.threads; /* groups of few panels */
    each_set("dealt16, few panels", &t, N_TYPES + 3, 17, 40);
    each_set("dpas16, few panels", &t, N_TYPES + 3, 65, 70);
}

#else

static int set_up(void **state) {
    (void)state;
    print_message("skipped: no level_zero/ze_api.h\n");
    return 0;
}
static void nothing(void **state) {
    (void)state;
    skip();
}
#define decode_one    nothing
#define decode_few    nothing
#define prefill       nothing
#define experts       nothing
#define factors       nothing
#define latent        nothing
#define both_sides    nothing
#define matrix_engine nothing
#define wide_heads    nothing
#define deep_contexts nothing
#define tiles         nothing
#define tiles_q8      nothing

#endif

static bool is_tiles(const struct launch *l) {
    return strncmp(launch_kernels[l->kernel].name, "tiles", 5) == 0;
}

/* A dense layer is seven launches, in every bucket, for all kinds of weights; lists of many tokens may have
 * an eighth, of attention's tiles. */
static void launches_per_layer(void **state) {
    (void)state;
    uint64_t seed = testing_seed("launches_per_layer");
    for (uint32_t set = 0; set <= N_TYPES; set++) {
        uint32_t type[7];
        for (int i = 0; i < 7; i++)
            type[i] = set < N_TYPES ? all_types[set] : pick(&seed, all_types, N_TYPES);
        struct gpu_model_want w = random_want(&seed, type, 300);
        w.kv_slices = 1;
        struct gpu_model *m = gpu_model_new(&w, &seed);
        uint32_t bounds[LAUNCH_BUCKETS];
        uint32_t buckets = launch_buckets(w.batch, 0, bounds);
        assert_int_equal(buckets, 6);
        for (uint32_t b = 0; b < buckets; b++) {
            for (int dpas = 0; dpas < 2; dpas++) {
                struct launch_traits t = plain_traits;
                t.dpas = dpas;
                uint32_t n = 0;
                stator_error e = {0};
                if (launch_build(&m->model, &t, LAUNCH_BODY, bounds[b], NULL, &n, &e) != STATOR_OK)
                    fail_msg("%s", e.text);
                struct launch *l = calloc(n, sizeof *l);
                assert_non_null(l);
                assert_int_equal(launch_build(&m->model, &t, LAUNCH_BODY, bounds[b], l, &n, &e), STATOR_OK);
                uint32_t in_layer = 0, tiles = 0;
                for (uint32_t i = 0; i < n; i++) {
                    in_layer += m->graph.ops[l[i].op].layer == 0;
                    tiles += m->graph.ops[l[i].op].layer == 0 && is_tiles(&l[i]);
                    assert_true(l[i].kernel < launch_n_kernels && l[i].groups > 0 &&
                                l[i].group <= t.max_group);
                }
                /* Weights cut over two slices cost nothing: a launch takes both parts. */
                assert_int_equal(in_layer, 7 + tiles);
                assert_true(tiles <= (bounds[b] > 16));
                free(l);
            }
        }
        gpu_model_free(m);
    }
}

/* The groups of attention in a list for so many tokens. */
static uint32_t attention_groups(struct gpu_model *m, const struct launch_traits *t, uint32_t rows) {
    uint32_t n = 0, groups = 0;
    stator_error e = {0};
    assert_int_equal(launch_build(&m->model, t, LAUNCH_BODY, rows, NULL, &n, &e), STATOR_OK);
    struct launch *l = calloc(n, sizeof *l);
    assert_non_null(l);
    assert_int_equal(launch_build(&m->model, t, LAUNCH_BODY, rows, l, &n, &e), STATOR_OK);
    for (uint32_t i = 0; i < n; i++)
        if (m->graph.ops[l[i].op].kind == GRAPH_ATTENTION && !is_tiles(&l[i]))
            groups = l[i].groups;
    free(l);
    return groups;
}

/* However long the planned context is, splits that may come bring no more groups than the device runs at
 * once: each costs time in every step. */
static void context_and_groups(void **state) {
    (void)state;
    static const struct {
        uint32_t blocks, groups[3]; /* lists for 1, 4 and 20 tokens */
    } cases[] = {{8, {2, 8, 40}}, {80, {20, 80, 128}}, {800, {128, 128, 128}}};
    uint64_t seed = testing_seed("context_and_groups");
    const uint32_t q8[7] = {BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0,
                            BLOCK_Q8_0, BLOCK_Q8_0, BLOCK_Q8_0};
    struct gpu_model_want w = random_want(&seed, q8, 20);
    struct launch_traits t = plain_traits;
    t.threads = 1024; /* 128 groups */
    w.type_k = w.type_v = KERNELS_KV_Q8_0;
    w.n_heads = w.n_kv_heads = 2;
    w.kv_slices = 1;
    w.cells = UINT32_MAX;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        w.blocks = cases[i].blocks;
        struct gpu_model *m = gpu_model_new(&w, &seed);
        assert_int_equal(attention_groups(m, &t, 1), cases[i].groups[0]);
        assert_int_equal(attention_groups(m, &t, 4), cases[i].groups[1]);
        assert_int_equal(attention_groups(m, &t, 20), cases[i].groups[2]);
        gpu_model_free(m);
    }
}

static void buckets(void **state) {
    (void)state;
    uint32_t b[LAUNCH_BUCKETS];
    assert_int_equal(launch_buckets(1, 0, b), 1);
    assert_int_equal(b[0], 1);
    assert_int_equal(launch_buckets(4, 0, b), 2);
    assert_int_equal(b[1], 4);
    assert_int_equal(launch_buckets(17, 0, b), 4);
    assert_int_equal(b[3], 17);
    assert_int_equal(launch_buckets(512, 0, b), 6);
    assert_int_equal(b[3], 32);
    assert_int_equal(b[5], 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets),       cmocka_unit_test(launches_per_layer),
        cmocka_unit_test(latent),        cmocka_unit_test(both_sides),
        cmocka_unit_test(decode_one),    cmocka_unit_test(decode_few),
        cmocka_unit_test(prefill),       cmocka_unit_test(experts),
        cmocka_unit_test(factors),       cmocka_unit_test(halves),
        cmocka_unit_test(matrix_engine), cmocka_unit_test(wide_heads),
        cmocka_unit_test(deep_contexts), cmocka_unit_test(tiles),
        cmocka_unit_test(tiles_q8),      cmocka_unit_test(context_and_groups),
    };
    cmocka_set_test_filter(getenv("STATOR_TEST_ONLY")); /* one test */
    return cmocka_run_group_tests(tests, set_up, NULL);
}
