#include "arch/vision.h"

#include "arch/parts/parts.h"
#include "formats/block.h"
#include "kernels/shared/kv_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_HEAD 512

static const struct gguf_tensor *global(const struct parts *p, enum tower_part part) {
    return p->s->tower->global[part].weight;
}

static void begin(struct parts *p, struct graph *g, const struct shape *s) {
    *p = (struct parts){
        .g = g, .s = s, .arrivals = GRAPH_NONE, .angles_q = GRAPH_NONE, .layer_in = GRAPH_NONE};
    const struct graph_angles angles = {.n_rot = s->n_rot, .base = s->rope_base, .scale = 1, .magnitude = 1};
    p->angles = graph_add_angles(g, &angles);
    struct graph_cache c = {.name = "kv",
                            .kind = GRAPH_PAGED,
                            .units = s->n_kv_heads,
                            .k_bytes = kv_layout_bytes(g->want.kv_type_k, s->head_dim_k),
                            .type_k = g->want.kv_type_k,
                            .type_v = g->want.kv_type_v};
    c.bytes = c.k_bytes + kv_layout_bytes(g->want.kv_type_v, s->head_dim_v);
    p->kv = graph_add_cache(g, &c);
    p->x = graph_add_value(g, "residual", GRAPH_SCRATCH, g->want.batch, s->n_embd, GRAPH_F32);
}

/* The patches' pixels become rows, and those are normed. */
static void add_patches(struct parts *p) {
    struct graph *g = p->g;
    const struct gguf_tensor *matrix = &p->s->tower->patch_matrix;
    g->pictures =
        graph_add_value(g, "pixels", GRAPH_EXCHANGE, g->want.batch, (uint32_t)matrix->ne[0], GRAPH_F32);
    const uint32_t rows =
        graph_add_value(g, "patches", GRAPH_SCRATCH, g->want.batch, p->s->n_embd, GRAPH_F32);
    struct graph_op *op = graph_add_op(g, GRAPH_MATMUL, GRAPH_NONE, g->pictures, rows);
    graph_op_weight(g, op, matrix, NULL, 0);
    op = graph_add_op(g, GRAPH_NORM, GRAPH_NONE, rows, p->x);
    op->norm = parts_norm_of(p->s, p->s->n_embd);
    graph_op_weight(g, op, global(p, TOWER_PRE_NORM), NULL, 0);
}

static void use_cache(struct parts *p, struct graph_op *op, uint32_t layer) {
    if (layer == 0)
        graph_op_cache(p->g, op, p->kv);
    else
        graph_op_cache_of(p->g, op, p->kv, 0);
}

static void add_attention(struct parts *p, uint32_t i) {
    const struct shape *s = p->s;
    const struct tower_tensor *l = s->tower->layer[i];
    const struct gguf_tensor *q = l[TOWER_Q].weight, *k = l[TOWER_K].weight, *v = l[TOWER_V].weight;
    const uint32_t normed = parts_norm(p, i, "norm_1", l[TOWER_NORM_1].weight, parts_forms(q, k, v));
    const uint32_t qkv = parts_value(p, i, "qkv", 3 * s->n_embd, GRAPH_F32);
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, qkv);
    graph_op_weight(p->g, op, q, NULL, 0);
    graph_op_weight(p->g, op, k, NULL, s->n_embd);
    graph_op_weight(p->g, op, v, NULL, 2 * s->n_embd);
    op = graph_add_op(p->g, GRAPH_ROPE_STORE, i, qkv, qkv);
    op->rope = (struct graph_rope){.heads = s->n_heads,
                                   .kv_heads = s->n_kv_heads,
                                   .dim_k = s->head_dim_k,
                                   .dim_v = s->head_dim_v,
                                   .n_rot = s->n_rot,
                                   .angles = p->angles,
                                   .angles_q = GRAPH_NONE};
    use_cache(p, op, i);
    const struct gguf_tensor *to = l[TOWER_ATTENTION_OUT].weight;
    const uint32_t heads = parts_value(p, i, "heads", s->n_embd, GRAPH_F32 | graph_form_for(to));
    op = graph_add_op(p->g, GRAPH_ATTENTION, i, qkv, heads);
    op->attention = (struct graph_attention){.heads = s->n_heads,
                                             .kv_heads = s->n_kv_heads,
                                             .dim_k = s->head_dim_k,
                                             .dim_v = s->head_dim_v,
                                             .scale = s->attention_scale,
                                             .both = true,
                                             .arrivals = GRAPH_NONE};
    use_cache(p, op, i);
    parts_add_product(p, i, heads, p->x, to, NULL);
}

static void add_feed_forward(struct parts *p, uint32_t i) {
    const struct tower_tensor *l = p->s->tower->layer[i];
    const struct gguf_tensor *gate = l[TOWER_FF_GATE].weight, *up = l[TOWER_FF_UP].weight;
    const struct gguf_tensor *down = l[TOWER_FF_DOWN].weight;
    const uint32_t normed = parts_norm(p, i, "norm_2", l[TOWER_NORM_2].weight, parts_forms(gate, up, NULL));
    const uint32_t h = parts_value(p, i, "ff", p->s->tower->ff, GRAPH_F32 | graph_form_for(down));
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, h);
    op->epilogue = GRAPH_SWIGLU;
    graph_op_weight(p->g, op, gate, NULL, 0);
    graph_op_weight(p->g, op, up, NULL, 0);
    parts_add_product(p, i, h, p->x, down, NULL);
}

static uint32_t add_rows(struct parts *p, const char *name, uint32_t width, uint32_t forms) {
    return graph_add_value(p->g, name, GRAPH_SCRATCH, p->g->want.logits_rows, width, forms);
}

static void multiply(struct parts *p, uint32_t in, uint32_t out, enum tower_part part) {
    const struct tower_tensor *t = &p->s->tower->global[part];
    graph_op_weight(p->g, graph_add_op(p->g, GRAPH_MATMUL, GRAPH_NONE, in, out), t->weight, t->bias, 0);
}

/* What becomes a token, and the projector. */
static void add_projector(struct parts *p) {
    struct graph *g = p->g;
    const struct tower *t = p->s->tower;
    const struct gguf_tensor *first = global(p, t->merge > 1 ? TOWER_MERGER : TOWER_INTO_TEXT);
    const uint32_t merged = t->merge * t->merge;
    uint32_t from = p->x;
    if (t->merge > 1) {
        from = graph_add_value(g, "merger_norm", GRAPH_SCRATCH, g->want.batch, t->width, GRAPH_F32);
        struct graph_op *op = graph_add_op(g, GRAPH_NORM, GRAPH_NONE, p->x, from);
        op->norm = parts_norm_of(p->s, t->width);
        graph_op_weight(g, op, global(p, TOWER_MERGER_NORM), NULL, 0);
    }
    g->tail = g->n_ops;
    uint32_t squares = add_rows(p, "squares", merged * t->width, graph_form_for(first));
    graph_add_op(g, GRAPH_MERGE, GRAPH_NONE, from, squares)->merged = merged;
    if (t->merge > 1) {
        const uint32_t tokens = add_rows(p, "tokens", t->width, GRAPH_F32);
        const uint32_t form = graph_form_for(global(p, TOWER_INTO_TEXT));
        multiply(p, squares, tokens, TOWER_MERGER);
        squares = form == GRAPH_F32 ? tokens : add_rows(p, "tokens_int8", t->width, form);
        if (squares != tokens)
            graph_add_op(g, GRAPH_FORMS, GRAPH_NONE, tokens, squares);
    }
    const uint32_t hidden = add_rows(p, "hidden", t->text_width, GRAPH_F32);
    const uint32_t gelu = add_rows(p, "gelu", t->text_width, graph_form_for(global(p, TOWER_IN_TEXT)));
    multiply(p, squares, hidden, TOWER_INTO_TEXT);
    graph_add_op(g, GRAPH_GELU, GRAPH_NONE, hidden, gelu);
    g->logits =
        graph_add_value(g, "embeddings", GRAPH_EXCHANGE, g->want.logits_rows, t->text_width, GRAPH_F32);
    graph_value_halves(g, g->logits, g->want.result_halves);
    multiply(p, gelu, g->logits, TOWER_IN_TEXT);
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    begin(&p, g, s);
    add_patches(&p);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_attention(&p, i);
        add_feed_forward(&p, i);
    }
    add_projector(&p);
}

static const struct arch vision = {.name = "clip", .build = build, .layer = {.ops = 9}};

static stator_status check_sizes(const struct gguf *g, const struct tower *t, stator_error *e) {
    const uint32_t head = t->width / t->heads;
    if (head % 32 != 0 || head > MOST_HEAD)
        return gguf_error(g, e,
                          "clip.vision.embedding_length %" PRIu32 " over %" PRIu32
                          " heads: heads must have a multiple of 32 values, at most %d",
                          t->width, t->heads, MOST_HEAD);
    if (block_info(t->patch_matrix.type)->values > 1)
        return gguf_error(g, e, "tensor 'v.patch_embd.weight' has the type %s, expected F32, F16 or BF16",
                          block_info(t->patch_matrix.type)->name);
    return STATOR_OK;
}

stator_status vision_read(const struct gguf *g, uint64_t max_pixels, struct tower *t, struct shape *s,
                          stator_error *e) {
    if (!tower_is(g))
        return gguf_error(g, e,
                          "this is no mmproj file: general.architecture is not \"clip\"; model.vision names "
                          "the file of the vision tower");
    stator_status st = tower_read(g, t, e);
    if (st != STATOR_OK)
        return st;
    if (t->projector != TOWER_PIXTRAL)
        return error_set(e, STATOR_USAGE,
                         "%s: towers of the projector %s are read (`stator inspect`), but not computed yet; "
                         "so far those of %s are",
                         gguf_path(g, 0), tower_projector_name(t->projector),
                         tower_projector_name(TOWER_PIXTRAL));
    st = check_sizes(g, t, e);
    if (st != STATOR_OK)
        return st;
    memset(s, 0, sizeof *s);
    const uint64_t merged = (uint64_t)t->merge * t->merge * t->width;
    s->arch = &vision;
    snprintf(s->arch_name, sizeof s->arch_name, "%s", vision.name);
    s->tower = t;
    s->n_layers = t->layers;
    s->n_embd = t->width;
    s->n_ff = (uint32_t)ARITH_MAX(ARITH_MAX((uint64_t)t->ff, t->patch_matrix.ne[0]), merged);
    s->n_heads = s->n_kv_heads = t->heads;
    s->head_dim_k = s->head_dim_v = s->n_rot = t->width / t->heads;
    s->rope_base = 10000;
    s->norm_eps = t->eps;
    s->attention_scale = 1.0f / sqrtf((float)s->head_dim_k);
    s->vocab = t->text_width;
    s->context_trained = (uint32_t)tower_most_patches(t, max_pixels);
    s->tensor_bytes = t->tensor_bytes;
    return shape_read_name(g, s, e);
}
