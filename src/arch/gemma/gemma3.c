/* gemma2 and gemma3: norms also behind attention and feed-forward, GELU, a scaled embedding; windows. gemma2
 * caps scores and logits, and every second layer sees all tokens. gemma3 norms heads; of every six layers the
 * last sees all tokens, the others a window, with a base of RoPE of their own and no scaling. Tokens of a
 * picture see each other, on both sides (transformers: the causal mask, or that of the window, or the same
 * picture). */
#include "arch/parts/parts.h"

#include <math.h>
#include <stdio.h>

static const struct shape_place layer2[] = {PARTS_DENSE_LAYER, PARTS_NORMS_BEHIND};

static const struct shape_place layer[] = {PARTS_DENSE_LAYER, PARTS_NORMS_BEHIND, PARTS_HEAD_NORMS};

static const struct shape_place global[] = {PARTS_ENDS};

static const struct shape_place global_embedding[] = {
    PARTS_ENDS,
    {SHAPE_GLOBAL(dense_in), .name = "dense_2.weight", .cols = SHAPE_EMBD, .rows = SHAPE_DENSE,
     .optional = true},
    {SHAPE_GLOBAL(dense_out), .name = "dense_3.weight", .cols = SHAPE_DENSE, .rows = SHAPE_EMBD,
     .optional = true}};

/* The largest scales by another width than its heads'; no key says so. */
static void set_scales(const struct gguf *g, struct shape *s, uint32_t layers_of_largest) {
    char key[96];
    snprintf(key, sizeof key, "%s.attention.scale", s->arch_name);
    s->embed_scale = (float)sqrt((double)s->n_embd);
    if (s->n_layers == layers_of_largest && !gguf_find(g, key, NULL))
        s->attention_scale = (float)(1 / sqrt((double)s->n_embd / s->n_heads));
}

static stator_status read2(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_window(g, s, false, 2, e);
    for (uint32_t i = 0; st == STATOR_OK && s->window == 0 && i < s->n_layers; i++)
        s->windowed[i] = i % 2 == 0;
    if (s->window == 0) /* the first files don't say */
        s->window = 4096;
    if (st == STATOR_OK && gguf_find(g, "gemma2.rope.freq_base_swa", NULL))
        st = shape_read_local_base(g, s, s->rope_base, e);
    if (st == STATOR_OK)
        st = shape_read_caps(g, s, 50, 30, e);
    if (st == STATOR_OK)
        set_scales(g, s, 46);
    return st;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = parts_read_neox(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_window(g, s, false, 6, e);
    if (st == STATOR_OK)
        st = shape_read_local_base(g, s, 10000, e);
    if (st == STATOR_OK)
        st = shape_read_caps(g, s, 0, 0, e);
    if (st == STATOR_OK)
        set_scales(g, s, 62);
    return st;
}

/* Embedding models: attention sees tokens on both sides, and two matrices may follow (files that were
 * converted with the dense modules of sentence-transformers have them). The base of RoPE of layers with the
 * window is no key's. */
static stator_status read_embedding(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = read(g, s, e);
    s->sees_ahead = true;
    return st == STATOR_OK ? shape_read_u32_or(g, s, "dense_2_feat_out", 0, 1 << 20, 0, &s->dense, e) : st;
}

static stator_status check_embedding(const struct gguf *g, const struct shape *s, stator_error *e) {
    if ((s->dense_in == NULL) == (s->dense_out == NULL))
        return STATOR_OK;
    return gguf_error(g, e, "tensor 'dense_%d.weight' is missing, but 'dense_%d.weight' is there",
                      s->dense_in == NULL ? 2 : 3, s->dense_in == NULL ? 3 : 2);
}

static void build_layers(struct graph *g, const struct shape *s, bool pictures) {
    struct parts p;
    parts_begin(&p, g, s);
    p.pictures = pictures;
    const uint32_t all = p.kv, angles = p.angles;
    const uint32_t width = s->sees_ahead ? s->window / 2 + 1 : s->window;
    const uint32_t window = s->window > 0 ? parts_window(&p, width) : all;
    const struct graph_angles base = {
        .n_rot = s->n_rot, .base = s->rope_local_base, .scale = 1, .magnitude = 1};
    const uint32_t local = s->window > 0 && s->rope_local_base > 0 ? graph_add_angles(g, &base) : angles;
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const bool far = !shape_has_window(s, i);
        p.kv = far ? all : window;
        p.angles = far ? angles : local;
        parts_layer_normed_behind(&p, i, GRAPH_GEGLU);
    }
    parts_end(&p);
}

static void build(struct graph *g, const struct shape *s) {
    build_layers(g, s, false);
}

static void build3(struct graph *g, const struct shape *s) {
    build_layers(g, s, true);
}

const struct arch arch_gemma3 = {.name = "gemma3",
                                 .models = "gemma 3 (1B to 27B; with pictures)",
                                 .tensors = {SHAPE_TABLE(layer, global)},
                                 .read = read,
                                 .build = build3,
                                 .layer = {.ops = 10, .values = 10, .weights = 16}};

const struct arch arch_gemma2 = {.name = "gemma2",
                                 .models = "Gemma 2",
                                 .tensors = {SHAPE_TABLE(layer2, global)},
                                 .read = read2,
                                 .build = build,
                                 .layer = {.ops = 10, .values = 10, .weights = 16}};

const struct arch arch_gemma_embedding = {.name = "gemma-embedding",
                                          .models = "EmbeddingGemma (300M)",
                                          .tensors = {SHAPE_TABLE(layer, global_embedding)},
                                          .read = read_embedding,
                                          .check = check_embedding,
                                          .build = build,
                                          .layer = {.ops = 10, .values = 10, .weights = 16}};
