/* What is common to architectures: numbers from the metadata (keys ARCH.*, meanings and defaults as llama.cpp
 * has them), then every tensor of the directory into its place by name, then each place against the
 * numbers. */
#include "model/shape.h"

#include "base/arith.h"
#include "formats/block.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_WIDTH =
        1 << 20, /* of any row or column but the vocabulary: 32-bit sizes of panels and activations hold it */
    MAX_VOCAB = 1 << 24,
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 512, /* KERNELS_MAX_HEAD */
    MAX_GROUP = 64,     /* KERNELS_MAX_GROUP */
    HEAD_DIM_STEP = 32,
    MAX_EXPERTS = 1024, /* EXPERTS_MAX */
    MAX_USED = 64,      /* EXPERTS_MAX_USED */
    MAX_GROUPS = 64,    /* KERNELS_MAX_GROUPS */
    MAX_SCALE = 1000000,
    MAX_CONTEXT = INT32_MAX
};

/* "ARCH.name" into out. */
static const char *key_of(const struct shape *s, const char *name, char out[96]) {
    snprintf(out, 96, "%s.%s", s->arch_name, name);
    return out;
}

stator_status shape_read_name(const struct gguf *g, struct shape *s, stator_error *e) {
    struct gguf_text name = {0};
    stator_status st = STATOR_OK;
    if (gguf_find(g, "general.name", NULL)) {
        st = gguf_read_text(g, "general.name", &name, e);
        if (st != STATOR_OK)
            return st;
    }
    if (name.length == 0) {
        const char *path = gguf_path(g, 0), *slash = strrchr(path, '/');
        name.data = slash != NULL ? slash + 1 : path;
        name.length = strlen(name.data);
        if (name.length > 5 && strcmp(name.data + name.length - 5, ".gguf") == 0)
            name.length -= 5;
    }
    uint64_t n = ARITH_MIN(name.length, sizeof s->model_name - 1);
    while (n > 0 && n < name.length && ((unsigned char)name.data[n] & 0xC0) == 0x80)
        n--; /* not in the middle of a character */
    memcpy(s->model_name, name.data, n);
    for (uint64_t i = 0; i < n; i++) /* it goes to terminals */
        if ((unsigned char)s->model_name[i] < 0x20 || s->model_name[i] == 0x7F)
            s->model_name[i] = '?';
    return STATOR_OK;
}

stator_status shape_read_u32(const struct gguf *g, const struct shape *s, const char *name, uint32_t min,
                             uint32_t max, uint32_t *v, stator_error *e) {
    char key[96];
    uint64_t value = 0;
    stator_status st = gguf_read_u64(g, key_of(s, name, key), min, max, &value, e);
    *v = (uint32_t)value;
    return st;
}

stator_status shape_read_u32_or(const struct gguf *g, const struct shape *s, const char *name, uint32_t min,
                                uint32_t max, uint32_t fallback, uint32_t *v, stator_error *e) {
    char key[96];
    *v = fallback;
    return gguf_find(g, key_of(s, name, key), NULL) ? shape_read_u32(g, s, name, min, max, v, e) : STATOR_OK;
}

/* A number, or an array with one item per layer that are all the same number, or (of attention.head_count_kv,
 * where `zero` is not NULL) 0, which it notes in zero[layer]. */
static stator_status read_per_layer_or(const struct gguf *g, const struct shape *s, const char *name,
                                       uint32_t max, uint32_t *v, bool *zero, stator_error *e) {
    char key[96];
    struct gguf_value value;
    if (!gguf_find(g, key_of(s, name, key), &value) || value.kind != GGUF_ARRAY)
        return shape_read_u32(g, s, name, 1, max, v, e);
    if (value.item == GGUF_STRING || value.item == GGUF_F32 || value.item == GGUF_F64 ||
        value.item == GGUF_BOOL)
        return gguf_error(g, e, "key '%s' has type array of %s, expected an integer", key,
                          gguf_kind_name(value.item));
    if (value.count != s->n_layers)
        return gguf_error(g, e,
                          "key '%s' has %" PRIu64 " items, expected one for each of the %" PRIu32 " layers",
                          key, value.count, s->n_layers);
    uint64_t at = 0; /* the layer whose number it is */
    for (uint64_t i = 0; zero != NULL && i < value.count; i++)
        zero[i] = gguf_item_i64(&value, i) == 0;
    while (zero != NULL && at + 1 < value.count && zero[at])
        at++;
    int64_t first = gguf_item_i64(&value, at);
    for (uint64_t i = at + 1; i < value.count; i++)
        if (gguf_item_i64(&value, i) != first && (zero == NULL || !zero[i]))
            return gguf_error(g, e,
                              "key '%s' differs between layers (%" PRId64 " in layer %" PRIu64 ", %" PRId64
                              " in layer %" PRIu64 "); only models with layers that are alike are supported",
                              key, first, at, gguf_item_i64(&value, i), i);
    if (zero != NULL && zero[at])
        return gguf_error(g, e, "key '%s' is 0 in every layer, expected at least one layer with attention",
                          key);
    if (first < 1 || first > max)
        return gguf_error(g, e, "key '%s' is %" PRId64 ", expected 1 to %" PRIu32, key, first, max);
    *v = (uint32_t)first;
    return STATOR_OK;
}

static stator_status read_per_layer(const struct gguf *g, const struct shape *s, const char *name,
                                    uint32_t max, uint32_t *v, stator_error *e) {
    return read_per_layer_or(g, s, name, max, v, NULL, e);
}

stator_status shape_check_head_dim(const struct gguf *g, const char *what, uint32_t dim, stator_error *e) {
    if (dim % HEAD_DIM_STEP != 0 || dim == 0 || dim > MAX_HEAD_DIM)
        return gguf_error(g, e,
                          "the head dimension of %s is %" PRIu32
                          "; the KV cache and the attention kernels need a multiple of "
                          "%d, at most %d",
                          what, dim, HEAD_DIM_STEP, MAX_HEAD_DIM);
    return STATOR_OK;
}

stator_status shape_check_groups(const struct gguf *g, const struct shape *s, uint32_t kv_heads,
                                 stator_error *e) {
    if (s->n_heads % kv_heads == 0 && s->n_heads / kv_heads <= MAX_GROUP)
        return STATOR_OK;
    return gguf_error(g, e,
                      "%" PRIu32 " attention heads (%s.attention.head_count) do not share %" PRIu32
                      " KV heads (%s.attention.head_count_kv) evenly, at most %d each",
                      s->n_heads, s->arch_name, kv_heads, s->arch_name, MAX_GROUP);
}

static stator_status read_heads(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    stator_status st = read_per_layer(g, s, "attention.head_count", MAX_HEADS, &s->n_heads, e);
    s->n_kv_heads = s->n_heads;
    if (s->heads_by_kind)
        s->window_heads.n_kv = s->n_kv_heads;
    if (st == STATOR_OK && gguf_find(g, key_of(s, "attention.head_count_kv", key), NULL))
        st = s->heads_by_kind ? shape_read_kv_heads_by_kind(g, s, e)
                              : read_per_layer_or(g, s, "attention.head_count_kv", MAX_HEADS, &s->n_kv_heads,
                                                  s->attention_optional ? s->no_attention : NULL, e);
    if (st == STATOR_OK && s->latent)
        return shape_read_mla(g, s, e);
    if (st == STATOR_OK)
        st = shape_check_groups(g, s, s->n_kv_heads, e);
    if (st != STATOR_OK)
        return st;
    uint32_t fallback = s->n_embd / s->n_heads;
    if (!gguf_find(g, key_of(s, "attention.key_length", key), NULL) && s->n_embd % s->n_heads != 0)
        return gguf_error(g, e,
                          "key '%s' is missing, and %s.embedding_length %" PRIu32
                          " is not a multiple of the %" PRIu32 " attention heads",
                          key, s->arch_name, s->n_embd, s->n_heads);
    st = shape_read_u32_or(g, s, "attention.key_length", 1, MAX_WIDTH, fallback, &s->head_dim_k, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "attention.value_length", 1, MAX_WIDTH, fallback, &s->head_dim_v, e);
    if (st == STATOR_OK)
        st = shape_check_head_dim(g, "K (attention.key_length)", s->head_dim_k, e);
    if (st == STATOR_OK)
        st = shape_check_head_dim(g, "V (attention.value_length)", s->head_dim_v, e);
    if (st == STATOR_OK && (uint64_t)s->n_heads * ARITH_MAX(s->head_dim_k, s->head_dim_v) > MAX_WIDTH)
        st =
            gguf_error(g, e, "%" PRIu32 " heads of %" PRIu32 " dimensions: at most %d together are supported",
                       s->n_heads, ARITH_MAX(s->head_dim_k, s->head_dim_v), MAX_WIDTH);
    return st;
}

/* Refuses what would change the result and is not computed here. */
static stator_status refuse_variants(const struct gguf *g, const struct shape *s, stator_error *e) {
    bool causal = true;
    char key[96];
    stator_status st = gguf_read_bool_or(g, key_of(s, "attention.causal", key), true, &causal, e);
    if (st == STATOR_OK && !causal)
        st = gguf_error(g, e, "key '%s' is false: only models with causal attention are supported", key);
    return st;
}

static stator_status refuse_experts(const struct gguf *g, const struct shape *s, stator_error *e) {
    uint32_t experts = 0;
    stator_status st = shape_read_u32_or(g, s, "expert_count", 0, UINT32_MAX, 0, &experts, e);
    if (st == STATOR_OK && experts > 0)
        st = gguf_error(g, e,
                        "key '%s.expert_count' is %" PRIu32
                        ": mixture-of-experts models of this architecture are not "
                        "supported",
                        s->arch_name, experts);
    return st;
}

/* A model of nothing but experts may say so: 0, or no key. */
static stator_status read_feed_forward(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    struct gguf_value value;
    const bool there = gguf_find(g, key_of(s, "feed_forward_length", key), &value);
    if (s->ff_by_layer)
        return shape_read_ffs(g, s, e);
    if (s->experts.count > 0 && (!there || value.kind != GGUF_ARRAY))
        return shape_read_u32_or(g, s, "feed_forward_length", 0, MAX_WIDTH, 0, &s->n_ff, e);
    return read_per_layer(g, s, "feed_forward_length", MAX_WIDTH, &s->n_ff, e);
}

static stator_status read_decoder(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    stator_status st = refuse_variants(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "block_count", 1, SHAPE_MAX_LAYERS, &s->n_layers, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "embedding_length", 1, MAX_WIDTH, &s->n_embd, e);
    if (st == STATOR_OK)
        st = read_feed_forward(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "context_length", 1, MAX_CONTEXT, &s->context_trained, e);
    if (st == STATOR_OK && s->heads_by_kind)
        st = shape_read_window(g, s, false, s->window_pattern, e);
    if (st == STATOR_OK)
        st = read_heads(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_rope(g, s, e);
    if (st == STATOR_OK && s->heads_by_kind)
        st = shape_read_window_heads(g, s, e);
    if (st == STATOR_OK)
        st = gguf_read_f32(
            g,
            key_of(s, s->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                   key),
            &s->norm_eps, e);
    if (st == STATOR_OK && !(s->norm_eps > 0 && s->norm_eps < 1))
        st = gguf_error(g, e, "key '%s' is %g, expected a number between 0 and 1", key, (double)s->norm_eps);
    if (st != STATOR_OK)
        return st;
    /* 0, like a missing key, means the usual scale. */
    st = gguf_read_f32_or(g, key_of(s, "attention.scale", key), 0, &s->attention_scale, e);
    if (st == STATOR_OK && !(s->attention_scale >= 0 && s->attention_scale <= MAX_SCALE))
        st = gguf_error(g, e, "key '%s' is %g, expected a number above 0, at most %d", key,
                        (double)s->attention_scale, MAX_SCALE);
    const uint32_t scored = s->latent ? s->mla.nope + s->n_rot : s->head_dim_k;
    if (st == STATOR_OK && s->attention_scale == 0)
        s->attention_scale = (float)(1 / sqrt((double)scored));
    if (s->mla.score_magnitude != 0)
        s->attention_scale *= s->mla.score_magnitude * s->mla.score_magnitude;
    return st;
}

stator_status shape_read_dense(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = refuse_experts(g, s, e);
    return st == STATOR_OK ? read_decoder(g, s, e) : st;
}

/* Those chosen are of the best groups of experts. */
static stator_status read_groups(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_experts *x = &s->experts;
    stator_status st = shape_read_u32_or(g, s, "expert_group_count", 0, UINT32_MAX, 1, &x->groups, e);
    if (st != STATOR_OK || x->groups <= 1)
        return st;
    if (!x->may_group)
        return gguf_error(g, e,
                          "key '%s.expert_group_count' is %" PRIu32 ": groups of experts are not supported",
                          s->arch_name, x->groups);
    if (x->groups > MAX_GROUPS || x->count % x->groups != 0)
        return gguf_error(g, e,
                          "key '%s.expert_group_count' is %" PRIu32 ", expected a divisor of the %" PRIu32
                          " experts, at most %d",
                          s->arch_name, x->groups, x->count, MAX_GROUPS);
    st = shape_read_u32(g, s, "expert_group_used_count", 1, x->groups, &x->groups_used, e);
    if (st == STATOR_OK && x->used > x->groups_used * (x->count / x->groups))
        st = gguf_error(g, e,
                        "key '%s.expert_used_count' is %" PRIu32 ", but %" PRIu32
                        " groups (%s.expert_group_used_count) have only %" PRIu32 " experts",
                        s->arch_name, x->used, x->groups_used, s->arch_name,
                        x->groups_used * (x->count / x->groups));
    return st;
}

/* How weights come of the router's logits: keys over the architecture's defaults. */
static stator_status read_routing(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_experts *x = &s->experts;
    enum { SOFTMAX = 1, SIGMOID, SOFTMAX_OF_CHOSEN };
    uint32_t function = 0;
    char key[96];
    stator_status st = gguf_read_bool_or(g, key_of(s, "expert_weights_norm", key), x->norm, &x->norm, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "expert_gating_func", 0, SOFTMAX_OF_CHOSEN, 0, &function, e);
    if (st != STATOR_OK)
        return st;
    if (function != 0)
        x->sigmoid = function == SIGMOID;
    x->of_chosen = function == SOFTMAX_OF_CHOSEN;
    x->norm = x->norm || x->of_chosen;
    float scale = 0; /* which, like a missing key, means none */
    st = gguf_read_f32_or(g, key_of(s, "expert_weights_scale", key), 0, &scale, e);
    if (st == STATOR_OK && !(scale >= 0 && scale <= MAX_SCALE))
        st = gguf_error(g, e, "key '%s' is %g, expected 0 (none) to %d", key, (double)scale, MAX_SCALE);
    if (scale != 0 || x->scale == 0)
        x->scale = scale != 0 ? scale : 1;
    return st == STATOR_OK ? read_groups(g, s, e) : st;
}

static stator_status read_expert_sizes(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_experts *x = &s->experts;
    uint32_t shared = 0;
    stator_status st = shape_read_u32(g, s, "expert_used_count", 1, MAX_USED, &x->used, e);
    if (st == STATOR_OK && x->used > x->count)
        st = gguf_error(g, e,
                        "key '%s.expert_used_count' is %" PRIu32 ", but %s.expert_count is only %" PRIu32,
                        s->arch_name, x->used, s->arch_name, x->count);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "expert_feed_forward_length", 1, MAX_WIDTH, x->ff != 0 ? x->ff : s->n_ff,
                               &x->ff, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "expert_shared_count", 0, MAX_EXPERTS, 0, &shared, e);
    if (st == STATOR_OK && (uint64_t)shared * x->ff > MAX_WIDTH)
        st = gguf_error(g, e, "key '%s.expert_shared_count' is %" PRIu32 ": too many of %" PRIu32 " rows",
                        s->arch_name, shared, x->ff);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "expert_shared_feed_forward_length", 0, MAX_WIDTH, shared * x->ff,
                               &x->shared_ff, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "leading_dense_block_count", 0, s->n_layers, 0, &x->leading_dense, e);
    if (st == STATOR_OK && (x->ff == 0 || (x->leading_dense > 0 && s->n_ff == 0)))
        st = gguf_error(g, e, "key '%s.feed_forward_length' is missing or 0, but %s", s->arch_name,
                        x->ff == 0 ? "expert_feed_forward_length does not say how wide experts are"
                                   : "leading_dense_block_count says that there are dense layers");
    uint32_t every = 1;
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "interleave_moe_layer_step", 0, UINT32_MAX, 1, &every, e);
    if (st == STATOR_OK && every > 1)
        st = gguf_error(g, e,
                        "key '%s.interleave_moe_layer_step' is %" PRIu32
                        ": only leading layers may be without experts",
                        s->arch_name, every);
    return st;
}

stator_status shape_read_experts(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_u32_or(g, s, "expert_count", 0, MAX_EXPERTS, 0, &s->experts.count, e);
    if (st == STATOR_OK)
        st = read_decoder(g, s, e);
    if (st == STATOR_OK && s->experts.count > 0)
        st = read_expert_sizes(g, s, e);
    if (st == STATOR_OK && s->experts.count > 0)
        st = read_routing(g, s, e);
    return st;
}

static const struct gguf_tensor **slot(void *base, const struct shape_place *p) {
    return (const struct gguf_tensor **)((uint8_t *)base + p->field);
}

bool shape_split_layer_name(struct gguf_text name, uint64_t *layer, struct gguf_text *rest) {
    uint64_t at = 4, n = 0, digits = 0;
    if (name.length < 4 || memcmp(name.data, "blk.", 4) != 0)
        return false;
    for (; at < name.length && name.data[at] >= '0' && name.data[at] <= '9' && digits < 9; at++, digits++)
        n = n * 10 + (uint64_t)(name.data[at] - '0');
    if (digits == 0 || (digits > 1 && name.data[4] == '0') || at >= name.length || name.data[at] != '.')
        return false;
    *layer = n;
    *rest = (struct gguf_text){name.data + at + 1, name.length - at - 1};
    return true;
}

/* Nothing that the rest of the file does not say. */
static bool is_redundant(const struct shape_tensors *tensors, struct gguf_text name, bool in_layer) {
    for (const char *const *r = tensors->redundant; r != NULL && *r != NULL; r++) {
        bool of_layer = strncmp(*r, "blk.N.", 6) == 0;
        if (of_layer == in_layer && gguf_text_is(name, *r + (of_layer ? 6 : 0)))
            return true;
    }
    return false;
}

static bool place_in(const struct shape_place *places, size_t n, struct gguf_text name,
                     const struct gguf_tensor *t, void *base) {
    for (size_t i = 0; i < n; i++) {
        if (!gguf_text_is(name, places[i].name))
            continue;
        *slot(base, &places[i]) = t;
        return true;
    }
    return false;
}

/* They are checked when somebody wants them (shape_check_nextn). */
static void place_nextn(const struct shape_tensors *tensors, struct gguf_text name,
                        const struct gguf_tensor *t, struct shape_layer *l) {
    if (tensors->n_nextn > 0 && !place_in(tensors->nextn, tensors->n_nextn, name, t, l))
        place_in(tensors->layer, tensors->n_layer, name, t, l);
}

/* Names of a vision tower and its projector, as llama.cpp's converter writes them. No text depends on them.
 */
static bool is_vision(struct gguf_text name) {
    return (name.length > 2 && memcmp(name.data, "v.", 2) == 0) ||
           (name.length > 3 && memcmp(name.data, "mm.", 3) == 0);
}

/* Every tensor of the file goes to its place, is of a vision tower, or is refused by name. */
static stator_status place_tensor(const struct gguf *g, const struct shape_tensors *tensors,
                                  const struct gguf_tensor *t, struct shape *s, stator_error *e) {
    const struct shape_place *places = tensors->global;
    size_t n = tensors->n_global;
    struct gguf_text name = t->name;
    uint64_t layer = 0;
    char shown[GGUF_SHOWN];
    void *base = s;
    bool of_input = false;
    bool in_layer = shape_split_layer_name(t->name, &layer, &name);
    if (in_layer) {
        if (layer >= s->n_layers && layer - s->n_layers < s->n_nextn) {
            s->nextn_tensors++;
            s->nextn_bytes = arith_must_add(s->nextn_bytes, t->bytes);
            s->n_factors += shape_is_factor(name, &of_input) && !of_input;
            place_nextn(tensors, name, t, &s->layers[layer]);
            return STATOR_OK;
        }
        if (layer >= s->n_layers)
            return gguf_error(g, e,
                              "tensor '%s' belongs to layer %" PRIu64 ", but %s.block_count is %" PRIu32,
                              gguf_show(t->name, shown), layer, s->arch_name, s->n_layers + s->n_nextn);
        base = &s->layers[layer];
        places = tensors->layer;
        n = tensors->n_layer;
    }
    /* Bounded: tensors lie side by side in files. */
    if (!in_layer && is_vision(name)) {
        s->vision_tensors++;
        s->vision_bytes = arith_must_add(s->vision_bytes, t->bytes);
        return STATOR_OK;
    }
    s->tensor_bytes = arith_must_add(s->tensor_bytes, t->bytes);
    s->parameters = arith_must_add(s->parameters, t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    if (place_in(places, n, name, t, base))
        return STATOR_OK;
    if (is_redundant(tensors, name, in_layer))
        return STATOR_OK;
    if (shape_is_factor(name, &of_input)) {
        s->n_factors += !of_input;
        return shape_check_factor(g, s, t, name, e);
    }
    return gguf_error(
        g, e, "tensor '%s' is not known for the architecture %s; leaving it out would give wrong results",
        gguf_show(t->name, shown), s->arch_name);
}

/* layer: UINT32_MAX outside of layers. */
static uint64_t extent_of(const struct shape *s, enum shape_extent x, uint32_t layer) {
    const struct shape_heads h = shape_heads_of(s, layer);
    switch (x) {
    case SHAPE_NONE:
        return 1;
    case SHAPE_EMBD:
        return s->n_embd;
    case SHAPE_TWO_EMBD:
        return 2 * (uint64_t)s->n_embd;
    case SHAPE_THREE_EMBD:
        return 3 * (uint64_t)s->n_embd;
    case SHAPE_FF:
        return shape_ff_of(s, layer);
    case SHAPE_HEADS_K:
        return (uint64_t)s->n_heads * h.dim_k;
    case SHAPE_HEADS_V:
        return (uint64_t)s->n_heads * h.dim_v;
    case SHAPE_KV_K:
        return (uint64_t)h.n_kv * h.dim_k;
    case SHAPE_KV_V:
        return (uint64_t)h.n_kv * h.dim_v;
    case SHAPE_HEAD_K:
        return h.dim_k;
    case SHAPE_VOCAB:
        return s->vocab;
    case SHAPE_HALF_ROT:
        return h.n_rot / 2;
    case SHAPE_GATED_HEADS_K:
        return (uint64_t)2 * s->n_heads * h.dim_k;
    case SHAPE_DELTA_QKV:
        return (uint64_t)2 * s->delta.key_heads * s->delta.dim_k +
               (uint64_t)s->delta.value_heads * s->delta.dim_v;
    case SHAPE_DELTA_QKVZ:
        return 2 * ((uint64_t)s->delta.key_heads * s->delta.dim_k +
                    (uint64_t)s->delta.value_heads * s->delta.dim_v);
    case SHAPE_DELTA_V:
        return (uint64_t)s->delta.value_heads * s->delta.dim_v;
    case SHAPE_DELTA_HEADS:
        return s->delta.value_heads;
    case SHAPE_DELTA_TWO_HEADS:
        return 2 * (uint64_t)s->delta.value_heads;
    case SHAPE_DELTA_HEAD_V:
        return s->delta.dim_v;
    case SHAPE_DELTA_TAPS:
        return s->delta.taps;
    case SHAPE_DELTA_KEY_HEADS:
        return s->delta.key_heads;
    case SHAPE_SSD_IN:
        return 2 * ((uint64_t)s->delta.key_heads * s->delta.dim_k +
                    (uint64_t)s->delta.value_heads * s->delta.dim_v) +
               s->delta.value_heads;
    case SHAPE_SSD_GROUP:
        return (uint64_t)s->delta.value_heads / s->delta.key_heads * s->delta.dim_v;
    case SHAPE_CONV_TAPS:
        return s->conv_taps;
    case SHAPE_HEADS:
        return s->n_heads;
    case SHAPE_QKV:
        return (uint64_t)s->n_heads * h.dim_k + (uint64_t)h.n_kv * (h.dim_k + h.dim_v);
    case SHAPE_TWO_FF:
        return 2 * (uint64_t)shape_ff_of(s, layer);
    case SHAPE_EXPERTS:
        return s->experts.count;
    case SHAPE_EXPERT_FF:
        return s->experts.ff;
    case SHAPE_EXPERT_IN:
        return s->experts.latent > 0 ? s->experts.latent : s->n_embd;
    case SHAPE_TWO_EXPERT_FF:
        return 2 * (uint64_t)s->experts.ff;
    case SHAPE_SHARED_FF:
        return s->experts.shared_ff;
    case SHAPE_LABELS:
        return s->labels;
    case SHAPE_MLA_Q:
        return (uint64_t)s->n_heads * (s->mla.nope + s->n_rot);
    case SHAPE_MLA_Q_RANK:
        return s->mla.q_rank;
    case SHAPE_MLA_KV_RANK:
        return s->mla.kv_rank;
    case SHAPE_MLA_ROW:
        return (uint64_t)s->mla.kv_rank + s->n_rot;
    case SHAPE_MLA_NOPE:
        return s->mla.nope;
    case SHAPE_MLA_KV_B:
        return (uint64_t)s->n_heads * (s->mla.nope + s->mla.dim_v);
    case SHAPE_MLA_V:
        return s->mla.dim_v;
    case SHAPE_MLA_HEADS_V:
        return (uint64_t)s->n_heads * s->mla.dim_v;
    case SHAPE_STREAMS:
        return s->streams.count;
    case SHAPE_STREAMS_EMBD:
        return (uint64_t)s->streams.count * s->n_embd;
    case SHAPE_STREAMS_RANK:
        return s->streams.rank;
    case SHAPE_INDEX_Q:
        return (uint64_t)s->index.heads * s->index.dim;
    case SHAPE_INDEX_K:
        return s->index.dim;
    case SHAPE_NGRAM_DIM:
        return s->ngram.dim;
    case SHAPE_NGRAM_EMBD:
        return (uint64_t)s->ngram.heads * s->ngram.dim;
    case SHAPE_NGRAM_ROWS:
        return s->ngram_table != NULL ? s->ngram_table->ne[1] : 0;
    case SHAPE_NGRAM_TAPS:
        return s->ngram.taps;
    case SHAPE_DENSE:
        return s->dense;
    case SHAPE_LAYER_EMBD:
        return s->layer_embd;
    case SHAPE_ALL_LAYER_EMBD:
        return (uint64_t)s->layer_embd * s->n_layers;
    }
    CHECK(!"an extent");
    return 0;
}

static bool layer_has(const struct shape *s, const struct shape_place *p, uint32_t layer) {
    switch (p->layers) {
    case SHAPE_ALL_LAYERS:
        return true;
    case SHAPE_DELTA_LAYERS:
        return shape_is_delta(s, layer);
    case SHAPE_FULL_LAYERS:
        return shape_has_attention(s, layer);
    case SHAPE_CONV_LAYERS:
        return s->no_attention[layer];
    case SHAPE_NGRAM_LAYERS:
        return shape_has_ngram(s, layer);
    case SHAPE_DENSE_LAYERS:
        return shape_has_ff(s, layer) && !shape_has_experts(s, layer);
    case SHAPE_EXPERT_LAYERS:
        return shape_has_experts(s, layer);
    case SHAPE_SHARED_LAYERS:
        return shape_has_experts(s, layer) && s->experts.shared_ff > 0;
    case SHAPE_Q_RANK_LAYERS:
        return s->mla.q_rank > 0;
    case SHAPE_NO_Q_RANK_LAYERS:
        return s->mla.q_rank == 0;
    case SHAPE_LATENT_LAYERS:
        return shape_has_experts(s, layer) && s->experts.latent > 0;
    }
    CHECK(!"a kind of layers");
    return false;
}

/* The key that says which layers have attention, and what such a layer is called. */
static const char *what_says(const struct shape *s, uint32_t layer, char out[160]) {
    const uint32_t kv_heads = s->no_attention[layer] ? 0 : s->n_kv_heads;
    if (s->one_part)
        snprintf(out, 160,
                 "%s.attention.head_count_kv, %" PRIu32 ", feed_forward_length, %" PRIu32
                 ", and moe_latent_size, %" PRIu32,
                 s->arch_name, kv_heads, s->ffs[layer], s->experts.latent);
    else if (s->attention_optional)
        snprintf(out, 160, "%s.attention.head_count_kv, %" PRIu32, s->arch_name, kv_heads);
    else
        snprintf(out, 160, "%s.full_attention_interval, %" PRIu32, s->arch_name, s->delta.interval);
    return out;
}

static const char *kind_of(const struct shape *s, uint32_t layer) {
    return shape_has_attention(s, layer) ? "full attention"
           : shape_is_delta(s, layer)    ? (s->delta.ssd ? "Mamba-2" : "delta-net")
           : s->one_part                 ? "feed-forward"
                                         : "convolution";
}

/* What makes a layer have a tensor, where that is not all layers. */
static stator_status missing(const struct gguf *g, const struct shape *s, const struct shape_place *p,
                             const char *prefix, uint32_t layer, stator_error *e) {
    if (p->layers == SHAPE_NGRAM_LAYERS)
        return gguf_error(g, e,
                          "tensor '%s%s' is missing: by %s.ple.layers, this layer has n-gram embeddings",
                          prefix, p->name, s->arch_name);
    const bool mixed =
        s->experts.count > 0 || (layer < s->n_layers && s->layers[layer].experts.router != NULL);
    if (p->layers >= SHAPE_DENSE_LAYERS && mixed && !s->one_part)
        return gguf_error(
            g, e,
            "tensor '%s%s' is missing: %s.expert_count is %" PRIu32 ", leading_dense_block_count %" PRIu32
            ", and the shared expert has %" PRIu32 " rows, so this layer has %s",
            prefix, p->name, s->arch_name, s->experts.count, s->experts.leading_dense, s->experts.shared_ff,
            p->layers == SHAPE_DENSE_LAYERS ? "a dense feed-forward" : "experts");
    if (layer < s->n_layers && p->layers != SHAPE_ALL_LAYERS) {
        char why[160];
        return gguf_error(g, e, "tensor '%s%s' is missing: by %s, this layer is a %s one", prefix, p->name,
                          what_says(s, layer, why), kind_of(s, layer));
    }
    return gguf_error(g, e, "tensor '%s%s' is missing", prefix, p->name);
}

static const struct gguf_tensor *fused_of(const struct shape *s, const struct shape_place *p,
                                          uint32_t layer) {
    if (p->fused == 0 || layer == UINT32_MAX)
        return NULL;
    const uint8_t *l = (const uint8_t *)&s->layers[layer];
    return *(const struct gguf_tensor *const *)(const void *)(l + p->fused);
}

/* layer: UINT32_MAX outside of layers. */
static stator_status check_place(const struct gguf *g, const struct shape *s, const struct shape_place *p,
                                 const char *prefix, uint32_t layer, const struct gguf_tensor *t,
                                 stator_error *e) {
    const struct gguf_tensor *fused = fused_of(s, p, layer);
    char shown[GGUF_SHOWN];
    if (t == NULL)
        return p->optional || fused != NULL ? STATOR_OK : missing(g, s, p, prefix, layer, e);
    if (fused != NULL)
        return gguf_error(g, e, "tensor '%s%s' is there, but its rows are in '%s' too", prefix, p->name,
                          gguf_show(fused->name, shown));
    uint64_t cols = extent_of(s, p->cols, layer), rows = extent_of(s, p->rows, layer),
             matrices = extent_of(s, p->matrices, layer);
    if (t->ne[0] != cols || t->ne[1] != rows || t->ne[2] != matrices || t->ne[3] != 1)
        return gguf_error(g, e,
                          "tensor '%s%s' has shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                          "], but the metadata says [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", 1]",
                          prefix, p->name, t->ne[0], t->ne[1], t->ne[2], t->ne[3], cols, rows, matrices);
    const struct block_info *b = block_info(t->type);
    CHECK(b != NULL);
    if ((p->rows == SHAPE_NONE || p->f32) && t->type != BLOCK_F32)
        return gguf_error(g, e, "tensor '%s%s' has type %s, expected f32%s", prefix, p->name, b->name,
                          p->rows == SHAPE_NONE ? " for a vector" : "");
    if (!b->computable)
        return gguf_error(
            g, e,
            "tensor '%s%s' has type %s, which is none of weights: stator computes with f32, f16, bf16 "
            "and all block formats of GGUF files but q8_1 and q8_k",
            prefix, p->name, b->name);
    return STATOR_OK;
}

static stator_status check_absent(const struct gguf *g, const struct shape *s, const struct shape_place *p,
                                  const char *prefix, uint32_t layer, const struct gguf_tensor *t,
                                  stator_error *e) {
    if (t == NULL)
        return STATOR_OK;
    if (p->layers == SHAPE_NGRAM_LAYERS)
        return gguf_error(
            g, e, "tensor '%s%s' is not expected: by %s.ple.layers, this layer has no n-gram embeddings",
            prefix, p->name, s->arch_name);
    if (p->layers >= SHAPE_DENSE_LAYERS && !s->one_part)
        return gguf_error(
            g, e,
            "tensor '%s%s' does not belong to this layer: %s.expert_count is %" PRIu32
            ", leading_dense_block_count %" PRIu32 ", and the shared expert has %" PRIu32 " rows",
            prefix, p->name, s->arch_name, s->experts.count, s->experts.leading_dense, s->experts.shared_ff);
    char why[160];
    return gguf_error(g, e, "tensor '%s%s' is not expected: by %s, this layer is a %s one", prefix, p->name,
                      what_says(s, layer, why), kind_of(s, layer));
}

/* A key that promises one to an architecture without. */
static stator_status check_shared(const struct gguf *g, const struct shape_tensors *tensors,
                                  const struct shape *s, stator_error *e) {
    for (size_t i = 0; i < tensors->n_layer; i++)
        if (tensors->layer[i].layers == SHAPE_SHARED_LAYERS)
            return STATOR_OK;
    if (s->experts.shared_ff == 0)
        return STATOR_OK;
    return gguf_error(g, e,
                      "keys '%s.expert_shared_count' and '%s.expert_shared_feed_forward_length' say that a "
                      "shared expert has %" PRIu32 " rows, but the architecture has none",
                      s->arch_name, s->arch_name, s->experts.shared_ff);
}

/* The vocabulary's size is the number of rows of token_embd; the metadata may repeat it in two places. */
static stator_status check_vocab(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    uint64_t rows = 0;
    struct gguf_value tokens;
    if (s->token_embd == NULL)
        return gguf_error(g, e, "tensor 'token_embd.weight' is missing%s",
                          gguf_tensors(g) == 0 ? " (the file has no tensors: a vocabulary only)" : "");
    rows = s->token_embd->ne[1];
    if (rows > MAX_VOCAB)
        return gguf_error(
            g, e, "tensor 'token_embd.weight' has %" PRIu64 " rows; vocabularies of at most %d are supported",
            rows, MAX_VOCAB);
    s->vocab = (uint32_t)rows;
    uint64_t said = rows;
    stator_status st = gguf_read_u64_or(g, key_of(s, "vocab_size", key), 0, UINT64_MAX, rows, &said, e);
    if (st == STATOR_OK && said != rows)
        st = gguf_error(g, e, "key '%s' is %" PRIu64 ", but tensor 'token_embd.weight' has %" PRIu64 " rows",
                        key, said, rows);
    if (st != STATOR_OK || !gguf_find(g, "tokenizer.ggml.tokens", NULL))
        return st;
    st = gguf_read_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, e);
    if (st == STATOR_OK && tokens.count != rows)
        st = gguf_error(g, e,
                        "key 'tokenizer.ggml.tokens' has %" PRIu64
                        " items, but tensor 'token_embd.weight' has %" PRIu64 " rows",
                        tokens.count, rows);
    return st;
}

stator_status shape_read_tensors(const struct gguf *g, const struct shape_tensors *tensors, struct shape *s,
                                 stator_error *e) {
    stator_status st = STATOR_OK;
    char prefix[32];
    for (uint64_t i = 0; i < gguf_tensors(g) && st == STATOR_OK; i++)
        st = place_tensor(g, tensors, gguf_tensor(g, i), s, e);
    if (st == STATOR_OK && tensors->derive != NULL)
        tensors->derive(g, s);
    if (st == STATOR_OK)
        st = check_vocab(g, s, e);
    if (st == STATOR_OK)
        st = check_shared(g, tensors, s, e);
    for (size_t i = 0; i < tensors->n_global && st == STATOR_OK; i++)
        st = check_place(g, s, &tensors->global[i], "", UINT32_MAX, *slot(s, &tensors->global[i]), e);
    for (uint32_t l = 0; l < s->n_layers && st == STATOR_OK; l++) {
        snprintf(prefix, sizeof prefix, "blk.%" PRIu32 ".", l);
        for (size_t i = 0; i < tensors->n_layer && st == STATOR_OK; i++) {
            const struct shape_place *p = &tensors->layer[i];
            const struct gguf_tensor *t = *slot(&s->layers[l], p);
            st = layer_has(s, p, l) ? check_place(g, s, p, prefix, l, t, e)
                                    : check_absent(g, s, p, prefix, l, t, e);
        }
        if (st == STATOR_OK && s->layers[l].qkv_bias != NULL && s->layers[l].qkv == NULL)
            st = gguf_error(g, e, "tensor '%sattn_qkv.bias' is there, but 'attn_qkv.weight' is not", prefix);
        if (st == STATOR_OK && shape_kv_layer(s, l) == l &&
            (s->layers[l].q_norm == NULL) != (s->layers[l].k_norm == NULL))
            st = gguf_error(
                g, e, "tensor '%sattn_%c_norm.weight' is missing, but attn_%c_norm.weight is there", prefix,
                s->layers[l].q_norm == NULL ? 'q' : 'k', s->layers[l].q_norm == NULL ? 'k' : 'q');
        if (st == STATOR_OK && s->layers[l].experts.choice_bias != NULL && s->experts.of_chosen)
            st = gguf_error(g, e,
                            "tensor '%sexp_probs_b.bias' is there, but %s.expert_gating_func is 3: expected "
                            "1 (softmax) or 2 (sigmoid) "
                            "with a bias",
                            prefix, s->arch_name);
    }
    if (st == STATOR_OK && s->rope_needs_freqs && s->rope_freqs == NULL)
        st = gguf_error(g, e,
                        "key '%s.rope.scaling.type' is llama3, but tensor 'rope_freqs.weight' is missing",
                        s->arch_name);
    if (st == STATOR_OK && s->rope_long && (s->rope_factors_long == NULL || s->rope_factors_short == NULL))
        st = gguf_error(g, e, "RoPE scaling longrope: tensor 'rope_factors_%s.weight' is missing",
                        s->rope_factors_long == NULL ? "long" : "short");
    s->tied = s->output == NULL;
    if (s->tied)
        s->output = s->token_embd;
    return st;
}

stator_status shape_check_nextn(const struct gguf *g, const struct shape *s,
                                const struct shape_tensors *tensors, stator_error *e) {
    const char *model = s->model_name;
    const struct shape_layer *l = &s->layers[s->n_layers];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blk.%" PRIu32 ".", s->n_layers);
    if (s->n_nextn == 0)
        return error_set(
            e, STATOR_USAGE,
            "speculation.mode is \"mtp\", but model '%s' has no MTP head (key "
            "'%s.nextn_predict_layers' is missing or 0, or the file has no nextn tensors): take \"ngram\" or "
            "\"off\"",
            model, s->arch_name);
    if (tensors->n_nextn == 0 || s->nextn_tensors == 0)
        return error_set(e, STATOR_USAGE,
                         "speculation.mode is \"mtp\", but %s of model '%s' (key "
                         "'%s.nextn_predict_layers' is %" PRIu32 "): take \"ngram\" or \"off\"",
                         s->nextn_tensors == 0 ? "the file leaves out the MTP head"
                                               : "this build does not compute the MTP head",
                         model, s->arch_name, s->n_nextn);
    stator_status st = STATOR_OK;
    for (size_t i = 0; i < tensors->n_layer && st == STATOR_OK; i++) {
        const struct shape_place *p = &tensors->layer[i];
        const struct gguf_tensor *t = *slot((void *)l, p);
        st = layer_has(s, p, s->n_layers) ? check_place(g, s, p, prefix, s->n_layers, t, e)
                                          : check_absent(g, s, p, prefix, s->n_layers, t, e);
    }
    for (size_t i = 0; i < tensors->n_nextn && st == STATOR_OK; i++)
        st = check_place(g, s, &tensors->nextn[i], prefix, s->n_layers, *slot((void *)l, &tensors->nextn[i]),
                         e);
    for (uint64_t i = 0; i < gguf_tensors(g) && st == STATOR_OK; i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        struct gguf_text name = t->name;
        uint64_t layer = 0;
        bool of_input;
        if (shape_split_layer_name(t->name, &layer, &name) && layer == s->n_layers &&
            shape_is_factor(name, &of_input))
            st = shape_check_factor(g, s, t, name, e);
    }
    return st;
}
