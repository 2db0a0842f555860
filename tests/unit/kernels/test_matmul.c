/* Matmul: every tier gives the scalar function's bits, and the scalar function is a good product by an
 * independent measure. */
#include "kernel_check.h"

#include "formats/panel.h"
#include "kernels/kernels.h"

#include <math.h>

static const uint32_t types[] = {
    BLOCK_F32,   BLOCK_F16,     BLOCK_BF16,  BLOCK_Q4_0,   BLOCK_Q4_1,  BLOCK_Q5_0,  BLOCK_Q5_1, BLOCK_Q8_0,
    BLOCK_Q4_K,  BLOCK_Q5_K,    BLOCK_Q6_K,  BLOCK_IQ4_NL, BLOCK_MXFP4, BLOCK_Q2_K,  BLOCK_Q3_K, BLOCK_IQ4_XS,
    BLOCK_IQ3_S, BLOCK_IQ3_XXS, BLOCK_IQ2_S, BLOCK_IQ1_M,  BLOCK_TQ2_0, BLOCK_NVFP4, BLOCK_Q1_0};
#define N_TYPES (sizeof types / sizeof types[0])

struct tiers {
    struct kernels scalar;
    uint32_t n; /* of the vector tiers that this machine has */
    struct kernels vector[KERNELS_TIERS];
};

static struct tiers available_tiers(void) {
    struct tiers t = {0};
    kernels_init(&t.scalar, KERNELS_TIER_SCALAR);
    for (uint32_t i = KERNELS_TIER_SCALAR + 1; i <= (uint32_t)kernels_best_tier(); i++)
        kernels_init(&t.vector[t.n++], (enum kernels_tier)i);
    return t;
}

/* One product's problem, of one panel or more. */
struct problem {
    struct panel_layout l;
    uint32_t tokens; /* activation rows in the buffers */
    uint64_t row_bytes;
    struct kernel_check_buffer rows; /* as in the file */
    struct kernel_check_buffer panel;
    struct kernel_check_buffer x, q32, d32, s32, q256, d256, s256;
    struct kernel_check_buffer tiles; /* the quants of the type's form, tiled */
};

static float *floats(const struct kernel_check_buffer *b) {
    return (float *)(void *)b->data;
}

static void set_f16(uint8_t *p, float v) {
    uint16_t h = block_to_f16(v);
    memcpy(p, &h, sizeof h);
}

/* The weights' scales and minima (or the numbers themselves) become d and m, times +-[0.5, 1.5) if vary is
 * set. */
static void set_scales(struct problem *p, uint64_t *seed, float d, float m, bool vary) {
    const struct block_info *info = block_info(p->l.file);
    for (size_t at = 0; at < p->rows.bytes; at += info->bytes) {
        float by = vary ? 1.0f + testing_uniform(seed) / 2 : 1.0f;
        if (vary && testing_below(seed, 2) == 0)
            by = -by;
        uint8_t *block = p->rows.data + at;
        if (info->values == 1) {
            block_put_scales(p->l.file, block, d * testing_uniform(seed), 0);
        } else if (p->l.file == BLOCK_MXFP4) { /* powers of two; now and then the least two */
            const bool least = vary && testing_below(seed, 8) == 0;
            block[0] = (uint8_t)(least ? testing_below(seed, 2) : 128 + (uint64_t)ilogbf(d) + (by < 0));
        } else {
            block_put_scales(p->l.file, block, d * by, m * by);
        }
    }
}

static void pack(struct problem *p) {
    for (uint32_t i = 0; i < p->l.panels; i++) {
        uint32_t row = i * PANEL_ROWS;
        uint32_t n = p->l.rows - row < PANEL_ROWS ? p->l.rows - row : PANEL_ROWS;
        panel_pack(&p->l, p->rows.data + row * p->row_bytes, n, p->panel.data + (size_t)i * p->l.panel_bytes);
    }
}

static struct problem problem_new(uint32_t type, uint32_t rows, uint32_t k, uint32_t tokens) {
    struct problem p = {.tokens = tokens};
    assert_true(panel_layout_init(&p.l, type, rows, k));
    assert_true(block_row_bytes(type, k, &p.row_bytes));
    p.rows = kernel_check_alloc(rows * p.row_bytes);
    p.panel = kernel_check_alloc(p.l.bytes);
    size_t n = (size_t)tokens * k;
    p.x = kernel_check_alloc(n * sizeof(float));
    p.q32 = kernel_check_alloc(n);
    p.d32 = kernel_check_alloc(n / 32 * sizeof(float));
    p.s32 = kernel_check_alloc(n / 32 * sizeof(int16_t));
    p.q256 = kernel_check_alloc(n);
    p.d256 = kernel_check_alloc(n / 256 * sizeof(float));
    p.s256 = kernel_check_alloc(n / 16 * sizeof(int16_t));
    p.tiles = kernel_check_alloc((tokens + ACT_TILE_PAIR - 1) / ACT_TILE_PAIR * ACT_TILE_PAIR * (size_t)k);
    return p;
}

static void problem_free(struct problem *p) {
    struct kernel_check_buffer *all[] = {&p->rows, &p->panel, &p->x,    &p->q32,  &p->d32,
                                         &p->s32,  &p->q256,  &p->d256, &p->s256, &p->tiles};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        kernel_check_free(all[i]);
}

/* The int8 forms of n floats in groups of `group`, sums over `sum` values. */
static void quantise(const float *x, size_t n, uint32_t group, uint32_t sum, int8_t *q, float *d,
                     int16_t *s) {
    for (size_t g = 0; g < n / group; g++) {
        float most = 0;
        for (size_t i = g * group; i < (g + 1) * group; i++)
            most = fmaxf(most, fabsf(x[i]));
        d[g] = most * (1.0f / 127);
        for (size_t i = g * group; i < (g + 1) * group; i++)
            q[i] = (int8_t)fmax(-127, fmin(127, most > 0 ? rint((double)x[i] / (double)d[g]) : 0));
    }
    for (size_t g = 0; g < n / sum; g++) {
        s[g] = 0;
        for (size_t i = g * sum; i < (g + 1) * sum; i++)
            s[g] = (int16_t)(s[g] + q[i]);
    }
}

/* The int8 forms from x, as far as k allows them. */
static void quantise_all(struct problem *p) {
    size_t n = (size_t)p->tokens * p->l.cols;
    if (p->l.cols % 32 == 0)
        quantise(floats(&p->x), n, 32, 32, (int8_t *)p->q32.data, floats(&p->d32),
                 (int16_t *)(void *)p->s32.data);
    if (p->l.cols % 256 == 0)
        quantise(floats(&p->x), n, 256, 16, (int8_t *)p->q256.data, floats(&p->d256),
                 (int16_t *)(void *)p->s256.data);
}

/* Only the forms that the type may read: with the others NULL. Rows of a tile beyond the last token are
 * random. */
static struct kernels_act act_of(const struct problem *p, bool tiled) {
    uint32_t values = block_info(p->l.type)->values;
    const uint32_t rows = (p->tokens + ACT_TILE_PAIR - 1) / ACT_TILE_PAIR * ACT_TILE_PAIR;
    struct kernels_act a = {.tile_rows = tiled && values > 1 ? rows : 0};
    if (values == 1) {
        a.f32 = floats(&p->x);
    } else if (values == 32) {
        a.q32 = (int8_t *)p->q32.data;
        a.d32 = floats(&p->d32);
        a.s32 = (int16_t *)(void *)p->s32.data;
    } else {
        a.q256 = (int8_t *)p->q256.data;
        a.d256 = floats(&p->d256);
        a.s256 = (int16_t *)(void *)p->s256.data;
    }
    if (!tiled || values == 1)
        return a;
    uint64_t state = 5;
    kernel_check_random_bytes(&state, p->tiles.data, p->tiles.bytes);
    const int8_t *q = values == 32 ? a.q32 : a.q256;
    for (uint32_t t = 0; t < p->tokens; t++)
        act_tiles_put((int8_t *)p->tiles.data, q + (size_t)t * p->l.cols, rows,
                      values == 32 ? ACT_TILE_32 : ACT_TILE_256, p->l.cols, t, 0, p->l.cols);
    if (values == 32)
        a.q32 = (int8_t *)p->tiles.data;
    else
        a.q256 = (int8_t *)p->tiles.data;
    return a;
}

/* All panels of the problem times its activation rows from `first` on. */
static void multiply(const struct kernels *k, const struct problem *p, float *out, size_t apart,
                     uint32_t first, bool tiled) {
    struct kernels_act a = act_of(p, tiled);
    struct kernel_check_buffer work = kernel_check_alloc(kernels_matmul_work(p->tokens - first));
    struct kernels_matmul m = {
        .out = out,
        .out_panel = apart,
        .l = &p->l,
        .panels = p->panel.data,
        .n_panels = p->l.panels,
        .a = &a,
        .first = first,
        .tokens = p->tokens - first,
        .work = work.data,
    };
    memset(work.data, 0xFF, work.bytes); /* floats of it are NaN */
    k->matmul[p->l.type](&m);
    kernel_check_free(&work);
}

/* Every tier against scalar, gaps between the outputs included. */
static void compare_tiers(const struct tiers *tiers, const struct problem *p, uint32_t first, uint32_t gap) {
    const uint32_t tokens = p->tokens - first;
    const uint32_t sums = tokens * PANEL_ROWS;
    const size_t apart = sums + gap;
    const size_t n = (p->l.panels - 1) * apart + sums;
    struct kernel_check_buffer expected = kernel_check_alloc(n * sizeof(float));
    multiply(&tiers->scalar, p, floats(&expected), apart, first, false);
    for (uint32_t i = 0; i < p->l.panels; i++)
        for (uint32_t r = 0; r < sums; r++)
            assert_true(isfinite(floats(&expected)[i * apart + r]));
    for (uint32_t i = 0; i <= 2 * tiers->n; i++) {
        const struct kernels *k = i == 0 ? &tiers->scalar : &tiers->vector[(i - 1) / 2];
        const bool tiled = i == 0 || i % 2 == 0;
        char what[128];
        snprintf(what, sizeof what, "%s, %s, k %u, rows %u, tokens %u from %u%s, gap %u", k->tier,
                 block_info(p->l.file)->name, p->l.cols, p->l.rows, tokens, first, tiled ? ", tiled" : "",
                 gap);
        struct kernel_check_buffer got = kernel_check_alloc(n * sizeof(float));
        assert_true(i == 0 || k->matmul[p->l.type] != tiers->scalar.matmul[p->l.type]);
        multiply(k, p, floats(&got), apart, first, tiled);
        kernel_check_same_floats(floats(&got), floats(&expected), n, what);
        kernel_check_free(&got);
    }
    kernel_check_free(&expected);
}

static void tiers_agree_on_random_problems(void **state) {
    (void)state;
    uint64_t seed = testing_seed("tiers_agree_on_random_problems");
    struct tiers tiers = available_tiers();
    if (tiers.n == 0)
        skip();
    for (size_t i = 0; i < N_TYPES; i++) {
        uint32_t values = block_info(types[i])->values;
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t blocks = 1 + (uint32_t)testing_below(&seed, values == 1 ? 1600 : values == 32 ? 50 : 7);
            uint32_t first = (uint32_t)testing_below(&seed, 3);
            uint32_t tokens = first + 1 + (uint32_t)testing_below(&seed, round % 4 == 0 ? 35 : 9);
            struct problem p =
                problem_new(types[i], 1 + (uint32_t)testing_below(&seed, 16), values * blocks, tokens);
            kernel_check_random_bytes(&seed, p.rows.data, p.rows.bytes);
            set_scales(&p, &seed, 0.01f, 0.02f, true);
            pack(&p);
            kernel_check_random_floats(&seed, floats(&p.x), (size_t)tokens * p.l.cols, 3.0f);
            quantise_all(&p);
            compare_tiers(&tiers, &p, first, (uint32_t)testing_below(&seed, 40));
            problem_free(&p);
        }
    }
}

/* Many tokens and several panels: the paths that work on blocks of both, and what is left over at their ends.
 */
static void tiers_agree_on_batches(void **state) {
    (void)state;
    static const uint32_t tokens[] = {5, 6, 7, 9, 10, 11, 12, 13, 17, 31, 64, 97, 98, 200, 257, 300, 530};
    uint64_t seed = testing_seed("tiers_agree_on_batches");
    struct tiers tiers = available_tiers();
    if (tiers.n == 0)
        skip();
    for (size_t i = 0; i < N_TYPES; i++) {
        uint32_t values = block_info(types[i])->values;
        for (uint32_t round = 0; round < sizeof tokens / sizeof tokens[0]; round++) {
            uint32_t blocks = 1 + (uint32_t)testing_below(&seed, values == 1 ? 700 : values == 32 ? 36 : 5);
            uint32_t first = ACT_TILE_PAIR * (uint32_t)testing_below(&seed, 3) + (round % 4 == 3 ? 16 : 0);
            uint32_t rows = 1 + (uint32_t)testing_below(&seed, 64);
            struct problem p = problem_new(types[i], rows, values * blocks, first + tokens[round]);
            kernel_check_random_bytes(&seed, p.rows.data, p.rows.bytes);
            set_scales(&p, &seed, 0.01f, 0.02f, true);
            pack(&p);
            kernel_check_random_floats(&seed, floats(&p.x), (size_t)p.tokens * p.l.cols, 3.0f);
            quantise_all(&p);
            compare_tiers(&tiers, &p, first, (uint32_t)testing_below(&seed, 40));
            problem_free(&p);
        }
    }
}

/* Sum of w * x and of |w * x| in double precision; x from the int8 forms where quantised. */
static double exact(const struct problem *p, const float *w, uint32_t t, bool quantised, double *size) {
    uint32_t values = block_info(p->l.type)->values;
    double sum = 0;
    *size = 0;
    for (uint32_t k = 0; k < p->l.cols; k++) {
        size_t at = (size_t)t * p->l.cols + k;
        double x = (double)floats(&p->x)[at];
        if (quantised && values == 32)
            x = (double)((int8_t *)p->q32.data)[at] * (double)floats(&p->d32)[at / 32];
        else if (quantised && values == 256)
            x = (double)((int8_t *)p->q256.data)[at] * (double)floats(&p->d256)[at / 256];
        sum += (double)w[k] * x;
        *size += fabs((double)w[k] * x);
    }
    return sum;
}

/* The scalar function against the double product of the decoded weights with the quantised activations: what
 * is left is the rounding of few floats. */
static void check_rounding(const struct tiers *tiers, const struct problem *p) {
    const size_t apart = (size_t)p->tokens * PANEL_ROWS;
    struct kernel_check_buffer out = kernel_check_alloc(p->l.panels * apart * sizeof(float));
    struct kernel_check_buffer w = kernel_check_alloc(p->l.cols * sizeof(float));
    multiply(&tiers->scalar, p, floats(&out), apart, 0, false);
    uint32_t values = block_info(p->l.type)->values;
    for (uint32_t r = 0; r < p->l.rows; r++) {
        block_decode_row(p->l.file, p->rows.data + r * p->row_bytes, floats(&w), p->l.cols);
        for (uint32_t t = 0; t < p->tokens; t++) {
            double size = 0;
            double sum = exact(p, floats(&w), t, true, &size);
            /* Terms with a minimum are larger than their difference: the decoded weights hide up to 4 times.
             */
            double steps = 4.0 * (p->l.cols / values + 8);
            double got = (double)floats(&out)[r / PANEL_ROWS * apart + t * PANEL_ROWS + r % PANEL_ROWS];
            if (!(fabs(got - sum) <= steps * 0x1p-24 * size + 1e-30))
                fail_msg("%s, k %u, row %u, token %u: %a, expected %a", block_info(p->l.file)->name,
                         p->l.cols, r, t, got, sum);
        }
    }
    kernel_check_free(&out);
    kernel_check_free(&w);
}

/* The largest sums there can be: every weight byte alike, every activation +127 or -127. */
static void extreme_bytes(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0x80, 0xFF, 0x00, 0x7F, 0x88, 0x08};
    uint64_t seed = testing_seed("extreme_bytes");
    struct tiers tiers = available_tiers();
    for (size_t i = 0; i < N_TYPES; i++) {
        uint32_t values = block_info(types[i])->values;
        for (size_t b = 0; b < sizeof bytes; b++) {
            struct problem p = problem_new(types[i], 32, values == 1 ? 67 : 3 * values, 13);
            memset(p.rows.data, bytes[b], p.rows.bytes);
            set_scales(&p, &seed, 1.0f, 0.0f, false);
            pack(&p);
            for (uint32_t t = 0; t < p.tokens; t++)
                for (uint32_t k = 0; k < p.l.cols; k++) {
                    bool minus = t % 3 == 1 || (t % 3 == 2 && k % 2 == 1);
                    floats(&p.x)[(size_t)t * p.l.cols + k] = minus ? -127.0f : 127.0f;
                }
            quantise_all(&p);
            check_rounding(&tiers, &p);
            compare_tiers(&tiers, &p, 0, 0);
            problem_free(&p);
        }
    }
}

/* Scales from zero and subnormals to the largest, on both sides. */
static void extreme_scales(void **state) {
    (void)state;
    static const float weights[] = {65504.0f, 0x1p-24f, 0x1p-14f, 0.0f, -0x1p-20f};
    static const float activations[] = {0x1p-120f, 0x1p60f, 0x1p-149f, 0x1p-126f, 0.0f};
    uint64_t seed = testing_seed("extreme_scales");
    struct tiers tiers = available_tiers();
    for (size_t i = 0; i < N_TYPES; i++) {
        uint32_t values = block_info(types[i])->values;
        for (uint32_t c = 0; c < 25; c++) {
            struct problem p = problem_new(types[i], 21, values == 1 ? 515 : 2 * values, 13);
            kernel_check_random_bytes(&seed, p.rows.data, p.rows.bytes);
            set_scales(&p, &seed, weights[c / 5], weights[c / 5] / 2, false);
            pack(&p);
            size_t n = (size_t)p.tokens * p.l.cols;
            kernel_check_random_floats(&seed, floats(&p.x), n, 100.0f);
            quantise_all(&p);
            for (size_t at = 0; at < n; at++)
                floats(&p.x)[at] *= activations[c % 5];
            for (size_t at = 0; at < n / 32 && p.l.cols % 32 == 0; at++)
                floats(&p.d32)[at] *= activations[c % 5];
            for (size_t at = 0; at < n / 256 && p.l.cols % 256 == 0; at++)
                floats(&p.d256)[at] *= activations[c % 5];
            compare_tiers(&tiers, &p, 0, 0);
            problem_free(&p);
        }
    }
}

/* Weights of exactly 1; the first block's sum is 2^24, every later block's 1: inside the first segment those
 * are lost, the second segment collects its own. */
static void segments_are_summed_apart(void **state) {
    (void)state;
    static const uint32_t some[] = {BLOCK_F32, BLOCK_Q8_0, BLOCK_Q6_K};
    struct tiers tiers = available_tiers();
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        const struct block_info *info = block_info(some[i]);
        struct problem p = problem_new(some[i], 16, 1024, 1);
        for (size_t at = 0; at < p.rows.bytes; at += info->bytes) {
            float one = 1.0f;
            uint8_t *block = p.rows.data + at;
            if (some[i] == BLOCK_F32) {
                memcpy(block, &one, sizeof one);
            } else if (some[i] == BLOCK_Q8_0) {
                memset(block, 1, info->bytes);
                set_f16(block, one);
            } else { /* 33 - 32, scale 1 */
                memset(block, 0x11, 128);
                memset(block + 128, 0xAA, 64);
                memset(block + 192, 1, 16);
                set_f16(block + 208, one);
            }
        }
        pack(&p);
        for (uint32_t k = 0; k < 1024; k++)
            floats(&p.x)[k] = (k < info->values ? 0x1p24f : 1.0f) / (float)info->values;
        quantise_all(&p);
        memset(p.q32.data, 1, p.q32.bytes);
        memset(p.q256.data, 1, p.q256.bytes);
        for (uint32_t g = 0; g < 32; g++) {
            floats(&p.d32)[g] = floats(&p.x)[32 * g];
            ((int16_t *)(void *)p.s32.data)[g] = 32;
        }
        for (uint32_t g = 0; g < 64; g++) {
            floats(&p.d256)[g / 16] = floats(&p.x)[256 * (g / 16)];
            ((int16_t *)(void *)p.s256.data)[g] = 16;
        }
        float out[PANEL_ROWS];
        multiply(&tiers.scalar, &p, out, PANEL_ROWS, 0, false);
        for (uint32_t r = 0; r < PANEL_ROWS; r++)
            assert_true(out[r] == 0x1p24f + 512.0f / (float)info->values);
        compare_tiers(&tiers, &p, 0, 0);
        problem_free(&p);
    }
}

/* Root mean square over all outputs of (scalar - exact) and of (exact with quantised activations - exact). */
static void check_error(const struct tiers *tiers, const struct problem *p, const char *from) {
    const size_t apart = (size_t)p->tokens * PANEL_ROWS;
    struct kernel_check_buffer out = kernel_check_alloc(p->l.panels * apart * sizeof(float));
    struct kernel_check_buffer w = kernel_check_alloc(p->l.cols * sizeof(float));
    double ours = 0;
    double quantisation = 0;
    multiply(&tiers->scalar, p, floats(&out), apart, 0, false);
    for (uint32_t r = 0; r < p->l.rows; r++) {
        block_decode_row(p->l.file, p->rows.data + r * p->row_bytes, floats(&w), p->l.cols);
        for (uint32_t t = 0; t < p->tokens; t++) {
            double size = 0;
            double sum = exact(p, floats(&w), t, false, &size);
            double coarse = exact(p, floats(&w), t, true, &size);
            double got = (double)floats(&out)[r / PANEL_ROWS * apart + t * PANEL_ROWS + r % PANEL_ROWS];
            ours += (got - sum) * (got - sum);
            quantisation += (coarse - sum) * (coarse - sum);
        }
    }
    assert_true(quantisation > 0);
    if (!(sqrt(ours) <= 1.2 * sqrt(quantisation)))
        fail_msg("%s, %s weights: the error is %g times that of the activations' quantisation",
                 block_info(p->l.file)->name, from, sqrt(ours / quantisation));
    kernel_check_free(&out);
    kernel_check_free(&w);
}

static void scalar_is_as_good_as_its_activations(void **state) {
    (void)state;
    uint64_t seed = testing_seed("scalar_is_as_good_as_its_activations");
    struct tiers tiers = available_tiers();
    for (size_t i = 0; i < N_TYPES; i++) {
        struct problem p = problem_new(types[i], 8, 1024, 12);
        if (block_info(p.l.type)->values == 1) {
            problem_free(&p);
            continue;
        }
        kernel_check_random_floats(&seed, floats(&p.x), (size_t)p.tokens * p.l.cols, 2.0f);
        quantise_all(&p);
        kernel_check_random_bytes(&seed, p.rows.data, p.rows.bytes);
        set_scales(&p, &seed, 0.01f, 0.05f, true);
        pack(&p);
        check_error(&tiers, &p, "random");
        check_rounding(&tiers, &p);
        char name[64];
        snprintf(name, sizeof name, "oracles/quants/%s.bin", block_info(types[i])->name);
        if (testing_shared(name) != NULL) {
            size_t n = 0;
            uint8_t *bin = testing_read_file(testing_shared(name), &n);
            assert_int_equal(n, p.rows.bytes);
            memcpy(p.rows.data, bin, n);
            free(bin);
            pack(&p);
            check_error(&tiers, &p, "ggml's");
            check_rounding(&tiers, &p);
        }
        problem_free(&p);
    }
}

static void floats_err_by_their_rounding_only(void **state) {
    (void)state;
    uint64_t seed = testing_seed("floats_err_by_their_rounding_only");
    struct tiers tiers = available_tiers();
    static const uint32_t ks[] = {1, 2, 3, 511, 512, 513, 1500};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++) {
            struct problem p = problem_new(types[i], 16, ks[j], 3);
            kernel_check_random_floats(&seed, floats(&p.x), (size_t)p.tokens * p.l.cols, 2.0f);
            set_scales(&p, &seed, 1.0f, 0.0f, false);
            pack(&p);
            check_rounding(&tiers, &p);
            compare_tiers(&tiers, &p, 0, 0);
            problem_free(&p);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_agree_on_random_problems),
        cmocka_unit_test(tiers_agree_on_batches),
        cmocka_unit_test(extreme_bytes),
        cmocka_unit_test(extreme_scales),
        cmocka_unit_test(segments_are_summed_apart),
        cmocka_unit_test(scalar_is_as_good_as_its_activations),
        cmocka_unit_test(floats_err_by_their_rounding_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
