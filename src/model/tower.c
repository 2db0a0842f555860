#include "model/tower.h"

#include "base/arith.h"
#include "formats/block.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum extent { ONE, TWO, COLOURS, PATCH, WIDTH, HEAD, THREE_WIDTHS, FF, POSITIONS, MERGED, TEXT };

enum {
    QWEN3VL = 1 << TOWER_QWEN3VL,
    GEMMA3 = 1 << TOWER_GEMMA3,
    PIXTRAL = 1 << TOWER_PIXTRAL,
    QWEN25VL = 1 << TOWER_QWEN25VL,
    GEMMA4 = 1 << TOWER_GEMMA4,
    QWEN = QWEN3VL | QWEN25VL,
    BOTH = QWEN3VL | GEMMA3,
    GATED = PIXTRAL | QWEN25VL | GEMMA4,
    ALL = BOTH | GATED,
    APART = GEMMA3 | GATED /* with q, k and v as matrices of their own */
};
enum {
    DEEPSTACK = 1,
    NO_ENDING = 2,     /* the name is whole: nothing like ".weight" follows */
    IF_MERGED = 4,     /* only where several patches become one token */
    MAY_BE_BIASED = 8, /* a bias is taken where the file has one */
    OPTIONAL = 16
};

static const struct projector {
    const char *name;
    uint32_t merge; /* where the key is missing */
    const char *merge_key;
    uint64_t min_pixels; /* of the published preprocessors */
    uint64_t max_pixels;
} projectors[TOWER_PROJECTORS] = {
    [TOWER_QWEN3VL] = {"qwen3vl_merger", 2, "clip.vision.spatial_merge_size", 65536, 16777216},
    [TOWER_GEMMA3] = {"gemma3", 4, "clip.vision.projector.scale_factor", 0, 0},
    [TOWER_PIXTRAL] = {"pixtral", 1, "clip.vision.spatial_merge_size", 0, 0},
    [TOWER_QWEN25VL] = {"qwen2.5vl_merger", 2, "clip.vision.spatial_merge_size", 3136, 12845056},
    [TOWER_GEMMA4] = {"gemma4v", 3, "clip.vision.projector.scale_factor", 0, 0},
};

/* Of a picture: transformers' preprocessor allows 70, 140, 280, 560 and 1120, and 280 is published. */
enum { GEMMA4_TOKENS = 280 };

/* A row per tensor. */
struct place {
    const char *name; /* of layers: behind "v.blk.N.", or "v.deepstack.N." */
    uint32_t who;     /* projectors that have it */
    uint32_t biased;  /* those of them with a bias */
    uint32_t flags;
    enum extent ne[4];
};

static const struct place globals[TOWER_GLOBALS] = {
    [TOWER_PATCH] = {"v.patch_embd", ALL, BOTH, 0, {PATCH, PATCH, COLOURS, WIDTH}},
    [TOWER_PATCH_NEXT] = {"v.patch_embd.weight.1", QWEN, 0, NO_ENDING, {PATCH, PATCH, COLOURS, WIDTH}},
    [TOWER_POSITIONS] = {"v.position_embd", BOTH, 0, 0, {WIDTH, POSITIONS, ONE, ONE}},
    [TOWER_AXES] = {"v.position_embd", GEMMA4, 0, 0, {WIDTH, POSITIONS, TWO, ONE}},
    [TOWER_PRE_NORM] = {"v.pre_ln", PIXTRAL, 0, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_POST_NORM] = {"v.post_ln", BOTH | QWEN25VL, BOTH, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_UP] = {"mm.0", QWEN, QWEN, 0, {MERGED, MERGED, ONE, ONE}},
    [TOWER_DOWN] = {"mm.2", QWEN, QWEN, 0, {MERGED, TEXT, ONE, ONE}},
    [TOWER_SOFT_NORM] = {"mm.soft_emb_norm", GEMMA3, 0, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_PROJECTION] = {"mm.input_projection", GEMMA3, 0, 0, {TEXT, WIDTH, ONE, ONE}},
    [TOWER_MERGER_NORM] = {"mm.input_norm", PIXTRAL, 0, IF_MERGED, {WIDTH, ONE, ONE, ONE}},
    [TOWER_MERGER] = {"mm.patch_merger", PIXTRAL, 0, IF_MERGED, {MERGED, WIDTH, ONE, ONE}},
    [TOWER_INTO_TEXT] = {"mm.1", PIXTRAL, 0, MAY_BE_BIASED, {WIDTH, TEXT, ONE, ONE}},
    [TOWER_IN_TEXT] = {"mm.2", PIXTRAL, 0, MAY_BE_BIASED, {TEXT, TEXT, ONE, ONE}},
    [TOWER_BREAK] = {"v.token_embd.img_break", PIXTRAL, 0, NO_ENDING, {TEXT, ONE, ONE, ONE}},
    [TOWER_SHIFT] = {"v.std_bias", GEMMA4, 0, NO_ENDING | OPTIONAL, {WIDTH, ONE, ONE, ONE}},
    [TOWER_SCALE] = {"v.std_scale", GEMMA4, 0, NO_ENDING | OPTIONAL, {WIDTH, ONE, ONE, ONE}},
    [TOWER_TO_TEXT] = {"mm.input_projection", GEMMA4, 0, 0, {WIDTH, TEXT, ONE, ONE}},
};

static const struct place layers[TOWER_LAYER_PARTS] = {
    [TOWER_NORM_1] = {"ln1", ALL, BOTH, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_QKV] = {"attn_qkv", QWEN3VL, QWEN3VL, 0, {WIDTH, THREE_WIDTHS, ONE, ONE}},
    [TOWER_Q] = {"attn_q", APART, GEMMA3 | QWEN25VL, 0, {WIDTH, WIDTH, ONE, ONE}},
    [TOWER_K] = {"attn_k", APART, GEMMA3 | QWEN25VL, 0, {WIDTH, WIDTH, ONE, ONE}},
    [TOWER_V] = {"attn_v", APART, GEMMA3 | QWEN25VL, 0, {WIDTH, WIDTH, ONE, ONE}},
    [TOWER_Q_NORM] = {"attn_q_norm", GEMMA4, 0, 0, {HEAD, ONE, ONE, ONE}},
    [TOWER_K_NORM] = {"attn_k_norm", GEMMA4, 0, 0, {HEAD, ONE, ONE, ONE}},
    [TOWER_ATTENTION_OUT] = {"attn_out", ALL, BOTH | QWEN25VL, 0, {WIDTH, WIDTH, ONE, ONE}},
    [TOWER_ATTENTION_NORM] = {"attn_post_norm", GEMMA4, 0, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_NORM_2] = {"ln2", ALL, BOTH, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_FF_GATE] = {"ffn_gate", GATED, QWEN25VL, 0, {WIDTH, FF, ONE, ONE}},
    [TOWER_FF_UP] = {"ffn_up", ALL, BOTH | QWEN25VL, 0, {WIDTH, FF, ONE, ONE}},
    [TOWER_FF_DOWN] = {"ffn_down", ALL, BOTH | QWEN25VL, 0, {FF, WIDTH, ONE, ONE}},
    [TOWER_FF_NORM] = {"ffn_post_norm", GEMMA4, 0, 0, {WIDTH, ONE, ONE, ONE}},
    [TOWER_DEEP_NORM] = {"norm", QWEN3VL, QWEN3VL, DEEPSTACK, {MERGED, ONE, ONE, ONE}},
    [TOWER_DEEP_UP] = {"fc1", QWEN3VL, QWEN3VL, DEEPSTACK, {MERGED, MERGED, ONE, ONE}},
    [TOWER_DEEP_DOWN] = {"fc2", QWEN3VL, QWEN3VL, DEEPSTACK, {MERGED, TEXT, ONE, ONE}},
};

const char *tower_projector_name(enum tower_projector p) {
    return projectors[p].name;
}

bool tower_is(const struct gguf *g) {
    struct gguf_text name;
    return gguf_read_text(g, "general.architecture", &name, NULL) == STATOR_OK && gguf_text_is(name, "clip");
}

static uint64_t extent_of(const struct tower *t, enum extent x) {
    switch (x) {
    case TWO:
        return 2;
    case COLOURS:
        return 3;
    case PATCH:
        return t->patch;
    case WIDTH:
        return t->width;
    case HEAD:
        return t->width / t->heads;
    case THREE_WIDTHS:
        return 3 * (uint64_t)t->width;
    case FF:
        return t->ff;
    case POSITIONS:
        return t->positions;
    case MERGED:
        return (uint64_t)t->merge * t->merge * t->width;
    case TEXT:
        return t->text_width;
    default:
        return 1;
    }
}

static void show_dims(const uint64_t ne[4], char *out, size_t n) {
    snprintf(out, n, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64, ne[0], ne[1], ne[2], ne[3]);
}

/* Finds a tensor, checks its shape and counts it. */
static stator_status find(const struct gguf *g, struct tower *t, const char *name, const uint64_t ne[4],
                          const struct gguf_tensor **out, stator_error *e) {
    char has[96], wants[96];
    const struct gguf_tensor *found = gguf_find_tensor(g, name);
    show_dims(ne, wants, sizeof wants);
    if (found == NULL)
        return gguf_error(g, e, "there is no tensor '%s' (%s), which the projector %s needs", name, wants,
                          projectors[t->projector].name);
    show_dims(found->ne, has, sizeof has);
    if (memcmp(found->ne, ne, 4 * sizeof ne[0]) != 0)
        return gguf_error(g, e, "tensor '%s' is %s, expected %s", name, has, wants);
    if (ne[1] == 1 && found->type != BLOCK_F32)
        return gguf_error(g, e, "tensor '%s' has the type %s, expected F32", name,
                          block_info(found->type)->name);
    t->tensors++;
    t->tensor_bytes = arith_must_add(t->tensor_bytes, found->bytes); /* tensors lie side by side in files */
    *out = found;
    return STATOR_OK;
}

/* The tensors of a row; prefix is what stands in front of its name. */
static stator_status place(const struct gguf *g, struct tower *t, const struct place *p, const char *prefix,
                           struct tower_tensor *out, stator_error *e) {
    char name[96];
    uint64_t ne[4];
    for (int i = 0; i < 4; i++)
        ne[i] = extent_of(t, p->ne[i]);
    const uint64_t bias[4] = {ne[1] == 1 ? ne[0] : ne[3] != 1 ? ne[3] : ne[1], 1, 1, 1};
    snprintf(name, sizeof name, "%s%s%s", prefix, p->name, (p->flags & NO_ENDING) != 0 ? "" : ".weight");
    if ((p->flags & OPTIONAL) != 0 && gguf_find_tensor(g, name) == NULL)
        return STATOR_OK;
    stator_status s = find(g, t, name, ne, &out->weight, e);
    if (s != STATOR_OK)
        return s;
    snprintf(name, sizeof name, "%s%s.bias", prefix, p->name);
    const bool has = (p->flags & MAY_BE_BIASED) != 0 && gguf_find_tensor(g, name) != NULL;
    return has || (p->biased & 1u << t->projector) != 0 ? find(g, t, name, bias, &out->bias, e) : STATOR_OK;
}

/* Early files have the names of the two matrices the wrong way round. */
static void see_swapped(const struct gguf *g, struct tower *t) {
    const struct gguf_tensor *up = gguf_find_tensor(g, "v.blk.0.ffn_up.weight");
    t->ff_swapped = t->ff != t->width && up != NULL && up->ne[0] == t->ff && up->ne[1] == t->width;
}

static stator_status place_layer(const struct gguf *g, struct tower *t, uint32_t i, bool deep,
                                 stator_error *e) {
    stator_status s = STATOR_OK;
    for (uint32_t k = 0; k < TOWER_LAYER_PARTS && s == STATOR_OK; k++) {
        struct place p = layers[k];
        const bool of_deep = (p.flags & DEEPSTACK) != 0;
        if ((p.who & 1u << t->projector) == 0 || (of_deep && !deep))
            continue;
        if (t->ff_swapped && (k == TOWER_FF_UP || k == TOWER_FF_DOWN))
            p.name = layers[k == TOWER_FF_UP ? TOWER_FF_DOWN : TOWER_FF_UP].name;
        char prefix[32];
        snprintf(prefix, sizeof prefix, "v.%s.%" PRIu32 ".", of_deep ? "deepstack" : "blk", i);
        s = place(g, t, &p, prefix, &t->layer[i][k], e);
    }
    return s;
}

static bool is_placed(const struct tower *t, const struct gguf_tensor *x) {
    for (uint32_t k = 0; k < TOWER_GLOBALS; k++)
        if (t->global[k].weight == x || t->global[k].bias == x)
            return true;
    for (uint32_t i = 0; i < t->layers; i++)
        for (uint32_t k = 0; k < TOWER_LAYER_PARTS; k++)
            if (t->layer[i][k].weight == x || t->layer[i][k].bias == x)
                return true;
    return false;
}

/* Stops at the first stranger, so that a file of very many tensors costs little. */
static stator_status refuse_others(const struct gguf *g, const struct tower *t, stator_error *e) {
    char shown[GGUF_SHOWN];
    for (uint64_t i = 0; i < gguf_tensors(g) && gguf_tensors(g) != t->tensors; i++)
        if (!is_placed(t, gguf_tensor(g, i)))
            return gguf_error(
                g, e,
                "tensor '%s' is not known for the projector %s; leaving it out would give wrong "
                "results%s",
                gguf_show(gguf_tensor(g, i)->name, shown), projectors[t->projector].name,
                t->projector == TOWER_GEMMA4
                    ? ". Of gemma 4 the towers of 26B-A4B and 31B are supported; those of E2B and E4B have "
                      "clamped products and an audio tower beside them"
                    : "");
    return STATOR_OK;
}

static stator_status read_projector(const struct gguf *g, struct tower *t, stator_error *e) {
    struct gguf_text name;
    char shown[GGUF_SHOWN];
    const char *key = gguf_find(g, "clip.vision.projector_type", NULL) ? "clip.vision.projector_type"
                                                                       : "clip.projector_type";
    stator_status s = gguf_read_text(g, key, &name, e);
    for (uint32_t p = 0; s == STATOR_OK && p < TOWER_PROJECTORS; p++)
        if (gguf_text_is(name, projectors[p].name)) {
            t->projector = (enum tower_projector)p;
            return STATOR_OK;
        }
    if (s != STATOR_OK)
        return s;
    return gguf_error(g, e, "%s is \"%s\"; the projectors %s, %s, %s, %s and %s are known", key,
                      gguf_show(name, shown), projectors[TOWER_QWEN3VL].name, projectors[TOWER_QWEN25VL].name,
                      projectors[TOWER_GEMMA3].name, projectors[TOWER_GEMMA4].name,
                      projectors[TOWER_PIXTRAL].name);
}

static stator_status read_three(const struct gguf *g, const char *key, float out[3], bool positive,
                                stator_error *e) {
    struct gguf_value v;
    stator_status s = gguf_read_array(g, key, GGUF_F32, &v, e);
    if (s != STATOR_OK)
        return s;
    if (v.count != 3)
        return gguf_error(g, e, "%s has %" PRIu64 " values, expected 3: red, green, blue", key, v.count);
    for (uint64_t i = 0; i < 3; i++) {
        out[i] = gguf_item_f32(&v, i);
        if (!(fabsf(out[i]) <= 1000.0f) || (positive && !(out[i] > 0.0f)))
            return gguf_error(g, e, "%s has the value %g, expected %s", key, (double)out[i],
                              positive ? "a positive number" : "a number");
    }
    return STATOR_OK;
}

static stator_status read_numbers(const struct gguf *g, struct tower *t, stator_error *e) {
    const struct projector *p = &projectors[t->projector];
    uint64_t merge = 0;
    const struct {
        const char *key;
        uint32_t *out;
        uint64_t max;
    } rows[] = {{"clip.vision.embedding_length", &t->width, 1 << 15},
                {"clip.vision.feed_forward_length", &t->ff, 1 << 17},
                {"clip.vision.block_count", &t->layers, TOWER_MAX_LAYERS},
                {"clip.vision.attention.head_count", &t->heads, 1 << 10},
                {"clip.vision.projection_dim", &t->text_width, 1 << 17},
                {"clip.vision.patch_size", &t->patch, 256},
                {"clip.vision.image_size", &t->image_size, 8192}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t v;
        stator_status s = gguf_read_u64(g, rows[i].key, 1, rows[i].max, &v, e);
        if (s != STATOR_OK)
            return s;
        *rows[i].out = (uint32_t)v;
    }
    stator_status s = gguf_read_u64_or(g, p->merge_key, 1, 16, p->merge, &merge, e);
    t->merge = (uint32_t)merge;
    if (s == STATOR_OK)
        s = gguf_read_u64_or(g, "clip.vision.image_min_pixels", 1, 1 << 28, p->min_pixels, &t->min_pixels, e);
    const uint64_t unit = (uint64_t)t->patch * t->merge;
    const uint64_t most = t->projector == TOWER_GEMMA4 ? GEMMA4_TOKENS * unit * unit : p->max_pixels;
    if (s == STATOR_OK)
        s = gguf_read_u64_or(g, "clip.vision.image_max_pixels", 1, 1 << 28, most, &t->max_pixels, e);
    if (s == STATOR_OK)
        s = gguf_read_f32(g, "clip.vision.attention.layer_norm_epsilon", &t->eps, e);
    if (s == STATOR_OK)
        s = read_three(g, "clip.vision.image_mean", t->mean, false, e);
    return s == STATOR_OK ? read_three(g, "clip.vision.image_std", t->spread, true, e) : s;
}

/* What the numbers must be to each other. */
static stator_status check_numbers(const struct gguf *g, struct tower *t, stator_error *e) {
    const uint32_t side = t->image_size / t->patch;
    const bool any_size = t->projector == TOWER_PIXTRAL || t->projector == TOWER_GEMMA4;
    if (t->width % t->heads != 0 || t->width / t->heads % 4 != 0)
        return gguf_error(g, e,
                          "clip.vision.embedding_length %" PRIu32 " over %" PRIu32
                          " heads: a head's size must be a multiple of 4",
                          t->width, t->heads);
    if ((t->image_size % t->patch != 0 && !any_size) ||
        (t->projector == TOWER_GEMMA3 && side % t->merge != 0))
        return gguf_error(g, e,
                          "clip.vision.image_size %" PRIu32 " is no multiple of %" PRIu32
                          " pixels (patches of %" PRIu32 ")",
                          t->image_size, t->projector == TOWER_GEMMA3 ? t->patch * t->merge : t->patch,
                          t->patch);
    if (t->image_size < t->patch * t->merge && t->projector != TOWER_GEMMA4)
        return gguf_error(g, e,
                          "clip.vision.image_size %" PRIu32 " is below %" PRIu32 " pixels, which are a token",
                          t->image_size, t->patch * t->merge);
    if (!(t->eps >= 0.0f && t->eps < 1.0f))
        return gguf_error(g, e, "clip.vision.attention.layer_norm_epsilon is %g", (double)t->eps);
    if (t->min_pixels > t->max_pixels)
        return gguf_error(g, e, "clip.vision.image_min_pixels %" PRIu64 " is above image_max_pixels %" PRIu64,
                          t->min_pixels, t->max_pixels);
    t->positions = side * side;
    return STATOR_OK;
}

/* No key says how many; the tensor does. */
static stator_status read_axes(const struct gguf *g, struct tower *t, stator_error *e) {
    enum { MOST = 1 << 20 };
    char name[96];
    if (t->projector != TOWER_GEMMA4)
        return STATOR_OK;
    snprintf(name, sizeof name, "%s.weight", globals[TOWER_AXES].name);
    const struct gguf_tensor *x = gguf_find_tensor(g, name);
    if (x == NULL)
        return gguf_error(
            g, e, "there is no tensor '%s' (%" PRIu32 " x positions x 2), which the projector %s needs", name,
            t->width, projectors[t->projector].name);
    if (x->ne[1] < t->merge || x->ne[1] > MOST)
        return gguf_error(g, e, "tensor '%s' has %" PRIu64 " positions a side, expected %" PRIu32 " to %d",
                          name, x->ne[1], t->merge, (int)MOST);
    t->positions = (uint32_t)x->ne[1];
    return STATOR_OK;
}

/* Keys of llama.cpp's converter; towers of 2025 have no key for the size, which is 112 pixels in all of them.
 */
static stator_status read_windows(const struct gguf *g, struct tower *t, stator_error *e) {
    const uint32_t unit = t->patch * t->merge;
    uint64_t pixels = 0, whole = 0;
    if (t->projector != TOWER_QWEN25VL)
        return STATOR_OK;
    stator_status s = gguf_read_u64_or(g, "clip.vision.n_wa_pattern", 0, TOWER_MAX_LAYERS, 0, &whole, e);
    if (s == STATOR_OK)
        s = gguf_read_u64_or(g, "clip.vision.window_size", 1, 1 << 14, 8 * (uint64_t)t->patch, &pixels, e);
    if (s == STATOR_OK && pixels < unit)
        s = gguf_error(g, e,
                       "clip.vision.window_size %" PRIu64 " is below %" PRIu32 " pixels, which are a token",
                       pixels, unit);
    t->window = whole > 0 ? (uint32_t)pixels / unit : 0;
    t->whole = (uint32_t)whole;
    return s;
}

/* The feed-forward of these projectors is gated, by silu as far as we know them. */
static stator_status check_activation(const struct gguf *g, const struct tower *t, stator_error *e) {
    static const char key[] = "clip.use_silu";
    struct gguf_value v;
    if (t->projector != TOWER_PIXTRAL && t->projector != TOWER_QWEN25VL)
        return STATOR_OK;
    if (!gguf_find(g, key, &v) || v.kind != GGUF_BOOL || gguf_item_i64(&v, 0) == 0)
        return gguf_error(g, e, "%s is not true: of the projector %s only towers with silu are known", key,
                          projectors[t->projector].name);
    return STATOR_OK;
}

/* A tensor as the matrix that it is. Patches: a row per output, a column per colour, row and column. */
static struct gguf_tensor matrix_of(const struct tower *t, enum tower_part part, uint64_t cols,
                                    uint64_t rows) {
    struct gguf_tensor m = *t->global[part].weight;
    m.n_dims = 2;
    m.ne[0] = cols;
    m.ne[1] = rows;
    m.ne[2] = m.ne[3] = 1;
    return m;
}

static void make_matrices(struct tower *t) {
    const uint64_t pixels = 3 * (uint64_t)t->patch * t->patch;
    t->patch_matrix = matrix_of(t, TOWER_PATCH, pixels, t->width);
    if (tower_is_qwen(t))
        t->patch_next_matrix = matrix_of(t, TOWER_PATCH_NEXT, pixels, t->width);
    if (t->projector == TOWER_GEMMA4)
        t->position_matrix = matrix_of(t, TOWER_AXES, t->width, 2 * (uint64_t)t->positions);
}

/* deep[i]: layer i has deepstack. Only qwen3vl knows the key. */
static stator_status read_deepstack(const struct gguf *g, struct tower *t, bool *deep, stator_error *e) {
    static const char key[] = "clip.vision.is_deepstack_layers";
    struct gguf_value v;
    memset(deep, 0, TOWER_MAX_LAYERS * sizeof *deep);
    if (t->projector != TOWER_QWEN3VL || !gguf_find(g, key, NULL))
        return STATOR_OK;
    stator_status s = gguf_read_array(g, key, GGUF_BOOL, &v, e);
    if (s == STATOR_OK && v.count != t->layers)
        s = gguf_error(g, e, "%s has %" PRIu64 " values, expected one per layer (%" PRIu32 ")", key, v.count,
                       t->layers);
    for (uint64_t i = 0; s == STATOR_OK && i < v.count; i++) {
        deep[i] = gguf_item_i64(&v, i) != 0;
        t->deepstacks += deep[i];
    }
    return s;
}

stator_status tower_read(const struct gguf *g, struct tower *t, stator_error *e) {
    bool deep[TOWER_MAX_LAYERS];
    *t = (struct tower){.projector = TOWER_QWEN3VL};
    stator_status s = read_projector(g, t, e);
    if (s == STATOR_OK)
        s = read_numbers(g, t, e);
    if (s == STATOR_OK)
        s = check_numbers(g, t, e);
    if (s == STATOR_OK)
        s = read_deepstack(g, t, deep, e);
    if (s == STATOR_OK)
        s = check_activation(g, t, e);
    if (s == STATOR_OK)
        s = read_windows(g, t, e);
    if (s == STATOR_OK)
        s = read_axes(g, t, e);
    if (s != STATOR_OK)
        return s;
    see_swapped(g, t);
    for (uint32_t k = 0; k < TOWER_GLOBALS && s == STATOR_OK; k++)
        if ((globals[k].who & 1u << t->projector) != 0 &&
            ((globals[k].flags & IF_MERGED) == 0 || t->merge > 1))
            s = place(g, t, &globals[k], "", &t->global[k], e);
    for (uint32_t i = 0; i < t->layers && s == STATOR_OK; i++)
        s = place_layer(g, t, i, deep[i], e);
    if (s == STATOR_OK && (t->global[TOWER_SHIFT].weight == NULL) != (t->global[TOWER_SCALE].weight == NULL))
        s = gguf_error(g, e, "there is only one of the tensors '%s' and '%s', which go together",
                       globals[TOWER_SHIFT].name, globals[TOWER_SCALE].name);
    if (s != STATOR_OK)
        return s;
    make_matrices(t);
    return refuse_others(g, t, e);
}

static uint64_t whole_units(double side, double unit, bool up) {
    return (uint64_t)(up ? ceil(side / unit) : floor(side / unit));
}

/* Sides of at least one unit with at most `units` units in all. */
static void bound_units(uint64_t units, uint64_t *x, uint64_t *y) {
    *x = ARITH_MIN(ARITH_MAX(*x, 1), units);
    *y = ARITH_MIN(ARITH_MAX(*y, 1), units);
    if (*x * *y > units && *x > *y)
        *x = units / *y;
    else if (*x * *y > units)
        *y = units / *x;
}

/* Pixtral's: the longer side shrinks to image_size, the other with it (rounded down), and then both grow to
 * whole units. A plan's bound shrinks both sides further, to whole units downwards. */
static void pixtral_units(const struct tower *t, uint32_t unit, double width, double height, uint64_t most,
                          uint64_t *x, uint64_t *y) {
    const double ratio = fmax(width, height) / t->image_size;
    if (ratio > 1) {
        width = fmax(floor(width / ratio), 1);
        height = fmax(floor(height / ratio), 1);
    }
    *x = whole_units(width, unit, true);
    *y = whole_units(height, unit, true);
    if (*x * *y * unit * unit > most) {
        const double shrink = sqrt(width * height / (double)most);
        *x = whole_units(width / fmax(shrink, 1), unit, false);
        *y = whole_units(height / fmax(shrink, 1), unit, false);
    }
}

/* Qwen2-VL's smart_resize: both sides to the nearest multiple of `unit` (half to even), and if that has too
 * many or too few pixels, both by the same factor, downwards or upwards. */
static void qwen_units(const struct tower *t, uint32_t unit, uint32_t width, uint32_t height, uint64_t most,
                       uint64_t *x, uint64_t *y) {
    const uint64_t least = ARITH_MIN(t->min_pixels, most);
    *x = (uint64_t)nearbyint((double)width / unit);
    *y = (uint64_t)nearbyint((double)height / unit);
    const uint64_t area = *x * *y * unit * unit;
    const double all = (double)width * (double)height;
    if (area > most) {
        const double shrink = sqrt(all / (double)most);
        *x = whole_units(width / shrink, unit, false);
        *y = whole_units(height / shrink, unit, false);
    } else if (area < least) {
        const double grow = sqrt((double)least / all);
        *x = whole_units(width * grow, unit, true);
        *y = whole_units(height * grow, unit, true);
    }
}

/* gemma 4's: as many pixels as it may have, or fewer, so that both sides are whole units. */
static void gemma4_units(const struct tower *t, uint32_t unit, double width, double height, uint64_t most,
                         uint64_t *x, uint64_t *y) {
    const double factor = sqrt((double)most / (width * height));
    *x = ARITH_MIN(whole_units(width * factor, unit, false), t->positions / t->merge);
    *y = ARITH_MIN(whole_units(height * factor, unit, false), t->positions / t->merge);
}

stator_status tower_size_of(const struct tower *t, uint32_t width, uint32_t height, uint64_t max_pixels,
                            struct tower_size *size, stator_error *e) {
    const uint32_t unit = t->patch * t->merge;
    CHECK(width > 0 && height > 0);
    if (t->projector == TOWER_GEMMA3) {
        const uint32_t side = t->image_size / unit;
        *size = (struct tower_size){t->image_size, t->image_size, side, side, side * side + 1};
        return STATOR_OK;
    }
    if (ARITH_MAX(width, height) > 200 * (uint64_t)ARITH_MIN(width, height))
        return error_set(e, STATOR_USAGE,
                         "the picture has %" PRIu32 "x%" PRIu32
                         " pixels: one side may be 200 times the other at most",
                         width, height);
    const uint64_t own = t->projector == TOWER_PIXTRAL ? max_pixels : ARITH_MIN(max_pixels, t->max_pixels);
    const uint64_t most = ARITH_MAX(own, (uint64_t)unit * unit);
    uint64_t x = 0, y = 0;
    if (t->projector == TOWER_PIXTRAL)
        pixtral_units(t, unit, width, height, most, &x, &y);
    else if (t->projector == TOWER_GEMMA4)
        gemma4_units(t, unit, width, height, most, &x, &y);
    else
        qwen_units(t, unit, width, height, most, &x, &y);
    /* transformers lets narrow pictures exceed the bound, because a side keeps one unit. A plan can't. */
    bound_units(most / ((uint64_t)unit * unit), &x, &y);
    const uint64_t each = x + (t->projector == TOWER_PIXTRAL);
    *size = (struct tower_size){(uint32_t)x * unit, (uint32_t)y * unit, (uint32_t)x, (uint32_t)y,
                                (uint32_t)(each * y)};
    return STATOR_OK;
}

uint64_t tower_most_patches(const struct tower *t, uint64_t max_pixels) {
    const uint64_t unit = (uint64_t)t->patch * t->merge;
    uint64_t most = t->image_size / t->patch * (uint64_t)(t->image_size / t->patch);
    if (tower_is_qwen(t) || t->projector == TOWER_GEMMA4)
        most = ARITH_MIN(max_pixels, t->max_pixels) / (unit * unit) * t->merge * t->merge;
    else if (t->projector == TOWER_PIXTRAL) {
        const uint64_t side = arith_ceil_div(t->image_size, unit);
        most = ARITH_MIN(max_pixels / (unit * unit), side * side) * t->merge * t->merge;
    }
    return ARITH_MAX(most, (uint64_t)t->merge * t->merge);
}
