/* mmproj files: what is read, what is refused, and how many tokens a picture becomes. */
#include "testing.h"
#include "tower_model.h"

#include "model/tower.h"

static struct tower tower; /* large */

/* Opens what was written and reads it; e.text is set in every case. */
static stator_status read_tower(struct gguf_writer *w, stator_error *e) {
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    *e = (stator_error){0};
    assert_true(gguf_writer_finish(w));
    assert_non_null(gguf_writer_memory_path(w, path));
    if (gguf_open(path, &g, e) != STATOR_OK)
        fail_msg("%s", e->text);
    assert_true(tower_is(g));
    stator_status s = tower_read(g, &tower, e);
    assert_int_equal(s, e->code);
    gguf_close(g);
    gguf_writer_free(w);
    return s;
}

static void test_qwen3vl(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    stator_error e;
    tower_model_write(&w, "qwen3vl_merger", false);
    const uint64_t tensors = w.n_tensors;
    if (read_tower(&w, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(tower.projector, TOWER_QWEN3VL);
    assert_true(tower.width == 8 && tower.ff == 6 && tower.layers == 2 && tower.heads == 2);
    assert_true(tower.text_width == 4 && tower.patch == 2 && tower.merge == 2 && tower.positions == 16);
    assert_true(tower.deepstacks == 1 && tower.tensors == tensors && !tower.ff_swapped);
    assert_true(tower.min_pixels == 65536 && tower.max_pixels == 16777216);
    assert_true(tower.mean[1] == 0.5f && tower.spread[2] == 0.5f);
    assert_null(tower.layer[0][TOWER_DEEP_UP].weight);
    assert_non_null(tower.layer[1][TOWER_DEEP_UP].bias);
    assert_null(tower.layer[0][TOWER_Q].weight);
    assert_null(tower.global[TOWER_PATCH_NEXT].bias);
}

static void test_gemma3(void **state) {
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct gguf_writer w = gguf_writer_new();
        stator_error e;
        tower_model_write(&w, "gemma3", swapped);
        if (read_tower(&w, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        assert_int_equal(tower.projector, TOWER_GEMMA3);
        assert_int_equal(tower.ff_swapped, swapped);
        assert_true(tower.merge == 2 && tower.deepstacks == 0);
        assert_null(tower.global[TOWER_UP].weight);
        struct tower_size size;
        assert_int_equal(tower_size_of(&tower, 5000, 1, TOWER_PIXELS, &size, &e), STATOR_OK);
        assert_true(size.width == 8 && size.height == 8 && size.across == 2 && size.down == 2);
    }
}

static const struct tower_model_pixtral pixtral = {.width = 64,
                                                   .ff = 40,
                                                   .layers = 2,
                                                   .heads = 2,
                                                   .text = 48,
                                                   .patch = 3,
                                                   .merge = 2,
                                                   .image_size = 40,
                                                   .type = BLOCK_F16};

static void test_pixtral(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        struct gguf_writer w = gguf_writer_new();
        struct tower_model_pixtral m = pixtral;
        stator_error e;
        m.merge = 1 + k % 2;
        m.biased = k > 1;
        tower_model_write_pixtral(&w, &m, 1);
        const uint64_t tensors = w.n_tensors;
        if (read_tower(&w, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        assert_true(tower.projector == TOWER_PIXTRAL && tower.merge == m.merge && tower.tensors == tensors);
        assert_true((tower.global[TOWER_MERGER].weight != NULL) == (m.merge > 1));
        assert_true((tower.global[TOWER_IN_TEXT].bias != NULL) == m.biased);
        assert_null(tower.layer[0][TOWER_Q].bias);
        assert_true(tower.patch_matrix.ne[0] == 27 && tower.patch_matrix.ne[1] == 64);
    }
    static const struct {
        const char *drop, *what;
    } rows[] = {{"clip.use_silu", "clip.use_silu is not true"},
                {"mm.input_norm.weight", "no tensor 'mm.input_norm.weight' (64 x 1"},
                {"v.blk.1.ffn_gate.weight", "no tensor 'v.blk.1.ffn_gate.weight' (64 x 40"},
                {"v.token_embd.img_break", "no tensor 'v.token_embd.img_break' (48 x 1"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        stator_error e;
        w.drop[0] = rows[i].drop;
        tower_model_write_pixtral(&w, &pixtral, 1);
        assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
        if (strstr(e.text, rows[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", rows[i].what, e.text);
    }
}

static const struct tower_model_gemma4 gemma4 = {16, 6, 2, 2, 4, 2, 3, 21, 0, BLOCK_F16, true};

static void test_gemma4(void **state) {
    (void)state;
    static const struct {
        const char *drop, *what;
    } rows[] = {
        {"v.position_embd.weight", "no tensor 'v.position_embd.weight' (16 x positions x 2), which"},
        {"v.blk.1.attn_k_norm.weight", "no tensor 'v.blk.1.attn_k_norm.weight' (8 x 1"},
        {"v.blk.0.ffn_post_norm.weight", "no tensor 'v.blk.0.ffn_post_norm.weight' (16 x 1"},
        {"mm.input_projection.weight", "no tensor 'mm.input_projection.weight' (16 x 4"},
        {"v.std_bias", "there is only one of the tensors 'v.std_bias' and 'v.std_scale', which go together"}};
    for (int scaled = 0; scaled < 2; scaled++) {
        struct gguf_writer w = gguf_writer_new();
        struct tower_model_gemma4 m = gemma4;
        stator_error e;
        m.scaled = scaled;
        tower_model_write_gemma4(&w, &m, 1);
        const uint64_t tensors = w.n_tensors;
        if (read_tower(&w, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        assert_true(tower.projector == TOWER_GEMMA4 && tower.tensors == tensors && tower.positions == 21);
        assert_true((tower.global[TOWER_SCALE].weight != NULL) == (scaled == 1));
        assert_true(tower.max_pixels == 280 * 36);
        assert_true(tower.position_matrix.ne[0] == 16 && tower.position_matrix.ne[1] == 42);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        stator_error e;
        w.drop[0] = rows[i].drop;
        tower_model_write_gemma4(&w, &gemma4, 1);
        assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
        if (strstr(e.text, rows[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", rows[i].what, e.text);
    }
    struct gguf_writer w = gguf_writer_new();
    struct tower_model_gemma4 m = gemma4;
    stator_error e;
    tower_model_write_gemma4(&w, &m, 1);
    gguf_writer_tensor(&w, "v.blk.0.attn_q.input_max", BLOCK_F32, 1, (uint64_t[]){1}, NULL);
    assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
    assert_non_null(
        strstr(e.text, "tensor 'v.blk.0.attn_q.input_max' is not known for the projector gemma4v"));
    assert_non_null(strstr(e.text, "those of E2B and E4B have clamped products"));
    w = gguf_writer_new();
    m.positions = 2;
    tower_model_write_gemma4(&w, &m, 1);
    assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "tensor 'v.position_embd.weight' has 2 positions a side, expected 3 to"));
}

static struct tower_model_qwen windowed(void) {
    return (struct tower_model_qwen){.width = 8,
                                     .ff = 6,
                                     .layers = 4,
                                     .heads = 2,
                                     .text = 4,
                                     .patch = 2,
                                     .merge = 2,
                                     .image_size = 8,
                                     .min_pixels = 16,
                                     .max_pixels = 4096,
                                     .window = 12,
                                     .type = BLOCK_F16};
}

/* Windows of 3 x 3 tokens but in layers 1 and 3, and what is wrong with such a file. */
static void test_qwen25vl(void **state) {
    (void)state;
    static const struct {
        const char *drop, *what;
        uint32_t window;
    } wrong[] = {{"v.blk.1.ffn_gate.weight", "no tensor 'v.blk.1.ffn_gate.weight' (8 x 6", 12},
                 {"v.blk.0.attn_q.bias", "no tensor 'v.blk.0.attn_q.bias'", 12},
                 {"v.patch_embd.weight.1", "no tensor 'v.patch_embd.weight.1'", 12},
                 {"clip.use_silu", "clip.use_silu is not true: of the projector qwen2.5vl_merger only", 12},
                 {NULL, "clip.vision.window_size 3 is below 4 pixels, which are a token", 3}};
    struct tower_model_qwen m = windowed();
    struct gguf_writer w = gguf_writer_new();
    stator_error e;
    tower_model_write_qwen(&w, &m, 1);
    assert_int_equal(read_tower(&w, &e), STATOR_OK);
    assert_int_equal(tower.projector, TOWER_QWEN25VL);
    assert_true(tower.window == 3 && tower.whole == 2 && tower.deepstacks == 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(tower_has_windows(&tower, i), i % 2 == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        w = gguf_writer_new();
        w.drop[0] = wrong[i].drop;
        m.window = wrong[i].window;
        tower_model_write_qwen(&w, &m, 1);
        assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
        if (strstr(e.text, wrong[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", wrong[i].what, e.text);
    }
    /* Files of 2025 have no key for the size. */
    w = gguf_writer_new();
    w.drop[0] = "clip.vision.window_size";
    m.window = 12;
    tower_model_write_qwen(&w, &m, 1);
    assert_int_equal(read_tower(&w, &e), STATOR_OK);
    assert_int_equal(tower.window, 4);
}

static void test_what_is_missing(void **state) {
    (void)state;
    static const struct {
        const char *projector, *drop, *what;
    } rows[] = {
        {"qwen3vl_merger", "clip.projector_type", "clip.projector_type"},
        {"qwen3vl_merger", "clip.vision.block_count", "clip.vision.block_count"},
        {"qwen3vl_merger", "clip.vision.image_mean", "clip.vision.image_mean"},
        {"qwen3vl_merger", "v.patch_embd.weight.1", "no tensor 'v.patch_embd.weight.1' (2 x 2 x 3 x 8)"},
        {"qwen3vl_merger", "mm.2.bias", "no tensor 'mm.2.bias' (4 x 1 x 1 x 1)"},
        {"qwen3vl_merger", "v.deepstack.1.fc1.weight", "no tensor 'v.deepstack.1.fc1.weight' (32 x 32"},
        {"qwen3vl_merger", "clip.vision.is_deepstack_layers",
         "tensor 'v.deepstack.1.norm.weight' is not known"},
        {"gemma3", "v.blk.1.attn_k.bias", "no tensor 'v.blk.1.attn_k.bias'"},
        {"gemma3", "mm.soft_emb_norm.weight", "which the projector gemma3 needs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        stator_error e;
        w.drop[0] = rows[i].drop;
        tower_model_write(&w, rows[i].projector, false);
        assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
        if (strstr(e.text, rows[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", rows[i].what, e.text);
    }
}

/* A key in place of the good one. */
static void test_wrong_numbers(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint32_t v;
        const char *what;
    } rows[] = {
        {"clip.vision.attention.head_count", 3, "8 over 3 heads"},
        {"clip.vision.attention.head_count", 4, "8 over 4 heads: a head's size must be a multiple of 4"},
        {"clip.vision.block_count", 0, "clip.vision.block_count"},
        {"clip.vision.block_count", 129, "clip.vision.block_count"},
        {"clip.vision.block_count", 3, "is_deepstack_layers has 2 values, expected one per layer (3)"},
        {"clip.vision.image_size", 9, "image_size 9 is no multiple of 2"},
        {"clip.vision.image_size", 16, "tensor 'v.position_embd.weight' is 8 x 16 x 1 x 1, expected 8 x 64"},
        {"clip.vision.feed_forward_length", 7,
         "tensor 'v.blk.0.ffn_up.weight' is 8 x 6 x 1 x 1, expected 8 x 7"},
        {"clip.vision.projection_dim", 5, "tensor 'mm.2.weight' is 32 x 4 x 1 x 1, expected 32 x 5"},
        {"clip.vision.spatial_merge_size", 1, "tensor 'mm.0.weight' is 32 x 32"},
        {"clip.vision.image_max_pixels", 9, "image_min_pixels 65536 is above image_max_pixels 9"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        stator_error e;
        w.drop[0] = rows[i].key;
        tower_model_write(&w, "qwen3vl_merger", false);
        w.drop[0] = NULL;
        gguf_writer_u32(&w, rows[i].key, rows[i].v);
        assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
        if (strstr(e.text, rows[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", rows[i].what, e.text);
    }
}

static void test_others_are_refused_by_name(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    stator_error e;
    tower_model_keys(&w, "internvl");
    assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "is \"internvl\"; the projectors qwen3vl_merger, qwen2.5vl_merger, "
                                   "gemma3, gemma4v and pixtral are known"));
    w = gguf_writer_new();
    tower_model_write(&w, "gemma3", false);
    gguf_writer_tensor(&w, "v.blk.0.ls1.weight", BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "tensor 'v.blk.0.ls1.weight' is not known for the projector gemma3"));
    w = gguf_writer_new();
    w.drop[0] = "v.post_ln.bias";
    tower_model_write(&w, "gemma3", false);
    w.drop[0] = NULL;
    gguf_writer_tensor(&w, "v.post_ln.bias", BLOCK_F16, 1, (uint64_t[]){8}, NULL);
    assert_int_equal(read_tower(&w, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "tensor 'v.post_ln.bias' has the type f16, expected F32"));
}

/* Against a program of the published formula (round half to even, floor, ceil) in Python. */
static void test_sizes(void **state) {
    (void)state;
    static const uint32_t rows[][4] = {
        {1024, 1024, 1024, 1024}, {1, 1, 256, 256},        {16, 16, 256, 256},       {48, 80, 224, 352},
        {640, 480, 640, 480},     {641, 479, 640, 480},    {1920, 1080, 1632, 896},  {4000, 3000, 1408, 1056},
        {3000, 4000, 1056, 1408}, {100, 5000, 96, 4992},   {256, 256, 256, 256},     {255, 257, 256, 256},
        {333, 777, 320, 768},     {65535, 400, 15648, 64}, {1224, 1224, 1216, 1216}, {1225, 1225, 1216, 1216},
    };
    const struct tower t = {
        .projector = TOWER_QWEN3VL, .patch = 16, .merge = 2, .min_pixels = 65536, .max_pixels = 16777216};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tower_size size;
        stator_error e = {0};
        assert_int_equal(tower_size_of(&t, rows[i][0], rows[i][1], TOWER_PIXELS, &size, &e), STATOR_OK);
        if (size.width != rows[i][2] || size.height != rows[i][3])
            fail_msg("%ux%u becomes %ux%u, expected %ux%u", rows[i][0], rows[i][1], size.width, size.height,
                     rows[i][2], rows[i][3]);
        assert_true(size.across * 32 == size.width && size.down * 32 == size.height);
    }
}

/* Likewise of Pixtral's (the longer side to 1540, floor, then whole units upwards), where no bound holds; and
 * three where one does. */
static void test_pixtral_sizes(void **state) {
    (void)state;
    static const uint32_t rows[][4] = {
        {1024, 1024, 1036, 1036}, {1, 1, 28, 28},           {28, 29, 28, 56},
        {640, 480, 644, 504},     {1540, 1540, 1540, 1540}, {1541, 1540, 1540, 1540},
        {4000, 3000, 1540, 1176}, {3000, 4000, 1176, 1540}, {10000, 60, 1540, 28},
        {65535, 400, 1540, 28},
    };
    const struct tower t = {.projector = TOWER_PIXTRAL, .patch = 14, .merge = 2, .image_size = 1540};
    struct tower_size size;
    stator_error e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tower_size_of(&t, rows[i][0], rows[i][1], 1 << 24, &size, &e), STATOR_OK);
        if (size.width != rows[i][2] || size.height != rows[i][3])
            fail_msg("%ux%u becomes %ux%u, expected %ux%u", rows[i][0], rows[i][1], size.width, size.height,
                     rows[i][2], rows[i][3]);
    }
    assert_int_equal(tower_size_of(&t, 4000, 3000, 500000, &size, &e), STATOR_OK);
    assert_true(size.width == 812 && size.height == 588);
    assert_int_equal(tower_size_of(&t, 3000, 3000, 28 * 28, &size, &e), STATOR_OK);
    assert_true(size.width == 28 && size.height == 28);
    assert_int_equal(tower_most_patches(&t, 1500000), 1913 * 4);
    assert_int_equal(tower_most_patches(&t, 1 << 24), 110 * 110);
}

/* Likewise of gemma 4's (280 tokens of 48 pixels a side at most, sides rounded downwards); the last row is
 * bounded by the positions. */
static void test_gemma4_sizes(void **state) {
    (void)state;
    static const uint32_t rows[][4] = {
        {1024, 1024, 768, 768}, {1, 1, 768, 768},       {640, 480, 912, 672},  {1920, 1080, 1056, 576},
        {480, 640, 672, 912},   {4000, 3000, 912, 672}, {100, 5000, 96, 5664}, {799, 801, 768, 768},
        {333, 777, 480, 1200},  {65535, 400, 9600, 48},
    };
    const struct tower t = {
        .projector = TOWER_GEMMA4, .patch = 16, .merge = 3, .positions = 600, .max_pixels = 645120};
    struct tower_size size;
    stator_error e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tower_size_of(&t, rows[i][0], rows[i][1], TOWER_PIXELS, &size, &e), STATOR_OK);
        if (size.width != rows[i][2] || size.height != rows[i][3])
            fail_msg("%ux%u becomes %ux%u, expected %ux%u", rows[i][0], rows[i][1], size.width, size.height,
                     rows[i][2], rows[i][3]);
        assert_int_equal(size.tokens, size.across * size.down);
    }
    assert_int_equal(tower_most_patches(&t, TOWER_PIXELS), 280 * 9);
    assert_int_equal(tower_most_patches(&t, 100000), 43 * 9);
}

/* Whatever the picture, the bound holds. */
static void stay_below(const struct tower *of, const char *name) {
    uint64_t random = testing_seed(name);
    const struct tower t = *of;
    struct tower_size size;
    stator_error e = {0};
    for (int i = 0; i < 100000; i++) {
        const uint32_t w = (uint32_t)testing_below(&random, 1u << testing_below(&random, 17)) + 1;
        const uint32_t h = (uint32_t)testing_below(&random, 1u << testing_below(&random, 17)) + 1;
        const uint64_t most = testing_below(&random, 1u << testing_below(&random, 24)) + 1;
        if (tower_size_of(&t, w, h, most, &size, &e) != STATOR_OK) {
            assert_true(w > 200 * h || h > 200 * w);
            continue;
        }
        assert_true(size.across >= 1 && size.down >= 1);
        const uint64_t unit = (uint64_t)t.patch * t.merge;
        assert_true((uint64_t)size.width * size.height <= (most > unit * unit ? most : unit * unit));
        assert_true(size.across * unit == size.width && size.down * unit == size.height);
        assert_true((uint64_t)size.across * size.down * t.merge * t.merge <= tower_most_patches(&t, most));
    }
    assert_int_equal(tower_size_of(&t, 201, 1, 1 << 20, &size, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "201x1 pixels: one side may be 200 times the other"));
}

static void test_sizes_stay_below_the_bound(void **state) {
    (void)state;
    static const struct tower qwen = {
        .projector = TOWER_QWEN3VL, .patch = 16, .merge = 2, .min_pixels = 65536, .max_pixels = 16777216};
    static const struct tower mistral = {
        .projector = TOWER_PIXTRAL, .patch = 14, .merge = 2, .image_size = 1540};
    stay_below(&qwen, "sizes");
    static const struct tower gemma = {
        .projector = TOWER_GEMMA4, .patch = 16, .merge = 3, .positions = 10240, .max_pixels = 645120};
    stay_below(&mistral, "pixtral sizes");
    stay_below(&gemma, "gemma4 sizes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen3vl),       cmocka_unit_test(test_qwen25vl),
        cmocka_unit_test(test_gemma3),        cmocka_unit_test(test_pixtral),
        cmocka_unit_test(test_gemma4),        cmocka_unit_test(test_what_is_missing),
        cmocka_unit_test(test_wrong_numbers), cmocka_unit_test(test_others_are_refused_by_name),
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_pixtral_sizes),
        cmocka_unit_test(test_gemma4_sizes),  cmocka_unit_test(test_sizes_stay_below_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
