#include "arch/vision.h"

#include "arch/parts/parts.h"
#include "formats/block.h"
#include "kernels/shared/kv_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_HEAD 512
#define HEAD_STEP 32 /* of attention's kernels */

static const struct tower_tensor *global(const struct parts *p, enum tower_part part) {
    return &p->s->tower->global[part];
}

/* A head as the tensors have it; attention's kernels work on head_dim_k, which is more where that is no
 * multiple of 32. */
static uint32_t head_of(const struct tower *t) {
    return t->width / t->heads;
}

static void begin(struct parts *p, struct graph *g, const struct shape *s) {
    *p = (struct parts){.g = g,
                        .s = s,
                        .streams = GRAPH_NONE,
                        .arrivals = GRAPH_NONE,
                        .angles_q = GRAPH_NONE,
                        .layer_in = GRAPH_NONE};
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

/* in normed to out: by an RMS norm, or, where the tensor has a bias, a layer norm. t NULL: without weights.
 */
static struct graph_op *add_norm(struct parts *p, uint32_t layer, uint32_t in, uint32_t out,
                                 const struct tower_tensor *t) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_NORM, layer, in, out);
    op->norm = parts_norm_of(p->s, p->g->values[out].width);
    op->norm.centred = t != NULL && t->bias != NULL;
    if (t != NULL)
        graph_op_weight(p->g, op, t->weight, t->bias, 0);
    return op;
}

static struct graph_op *multiply(struct parts *p, uint32_t layer, uint32_t in, uint32_t out,
                                 const struct tower_tensor *t) {
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, layer, in, out);
    graph_op_weight(p->g, op, t->weight, t->bias, 0);
    return op;
}

/* The patches' pixels become rows: pixtral's are normed, the others get what their places have. */
static void add_patches(struct parts *p) {
    struct graph *g = p->g;
    const struct tower *t = p->s->tower;
    const uint32_t batch = g->want.batch;
    const struct tower_tensor matrix = {&t->patch_matrix, global(p, TOWER_PATCH)->bias};
    const struct tower_tensor next = {&t->patch_next_matrix, NULL};
    g->pictures =
        graph_add_value(g, "pixels", GRAPH_EXCHANGE, batch, (uint32_t)matrix.weight->ne[0], GRAPH_F32);
    if (t->global[TOWER_PRE_NORM].weight != NULL) {
        const uint32_t rows = graph_add_value(g, "patches", GRAPH_SCRATCH, batch, t->width, GRAPH_F32);
        multiply(p, GRAPH_NONE, g->pictures, rows, &matrix);
        add_norm(p, GRAPH_NONE, rows, p->x, global(p, TOWER_PRE_NORM));
        return;
    }
    multiply(p, GRAPH_NONE, g->pictures, p->x, &matrix);
    if (tower_is_qwen(t))
        multiply(p, GRAPH_NONE, g->pictures, p->x, &next)->epilogue = GRAPH_RESIDUAL;
    const struct gguf_tensor *table =
        t->projector == TOWER_GEMMA4 ? &t->position_matrix : global(p, TOWER_POSITIONS)->weight;
    if (table == NULL)
        return;
    g->blends = graph_add_value(g, "places", GRAPH_EXCHANGE, batch, sizeof(struct step_blend) / sizeof(float),
                                GRAPH_F32);
    const struct graph_runs runs = {.run = t->axis_rows, .stride = t->positions};
    graph_op_runs(g, graph_add_op(g, GRAPH_BLEND, GRAPH_NONE, g->blends, p->x), table,
                  t->axis_rows < t->positions ? runs : (struct graph_runs){0}, 0);
}

static void use_cache(struct parts *p, struct graph_op *op, uint32_t layer) {
    if (layer == 0)
        graph_op_cache(p->g, op, p->kv);
    else
        graph_op_cache_of(p->g, op, p->kv, 0);
}

static uint32_t add_spread(struct parts *p, uint32_t layer, const char *name, uint32_t in, uint32_t from,
                           uint32_t to, uint32_t forms) {
    const uint32_t heads = p->g->values[in].width / from;
    const uint32_t out = parts_value(p, layer, name, heads * to, forms);
    graph_add_op(p->g, GRAPH_SPREAD, layer, in, out)->spread = (struct graph_spread){from, to};
    return out;
}

/* Heads of q, then of k, then of v, as attention's kernels take them. */
static uint32_t add_heads(struct parts *p, uint32_t i) {
    const struct tower *t = p->s->tower;
    const struct tower_tensor *l = t->layer[i];
    const struct tower_tensor *own = &l[TOWER_QKV], *q = &l[TOWER_Q], *k = &l[TOWER_K], *v = &l[TOWER_V];
    const bool fused = own->weight != NULL;
    const uint32_t forms = fused ? graph_form_for(own->weight) : parts_forms(q->weight, k->weight, v->weight);
    const uint32_t normed = parts_value(p, i, "norm_1", t->width, forms);
    add_norm(p, i, p->x, normed, &l[TOWER_NORM_1]);
    const uint32_t qkv = parts_value(p, i, "qkv", 3 * t->width, GRAPH_F32);
    struct graph_op *op = graph_add_op(p->g, GRAPH_MATMUL, i, normed, qkv);
    if (fused) {
        graph_op_weight(p->g, op, own->weight, own->bias, 0);
    } else {
        graph_op_weight(p->g, op, q->weight, q->bias, 0);
        graph_op_weight(p->g, op, k->weight, k->bias, t->width);
        graph_op_weight(p->g, op, v->weight, v->bias, 2 * t->width);
    }
    return head_of(t) == p->s->head_dim_k
               ? qkv
               : add_spread(p, i, "wide_heads", qkv, head_of(t), p->s->head_dim_k, GRAPH_F32);
}

/* in x matrix is added to the stream, normed before where there is a norm. */
static void add_to_stream(struct parts *p, uint32_t i, uint32_t in, const struct tower_tensor *matrix,
                          const struct tower_tensor *norm) {
    if (norm->weight == NULL) {
        parts_add_product(p, i, in, p->x, matrix->weight, matrix->bias);
        return;
    }
    const uint32_t out = parts_value(p, i, "added", p->s->tower->width, GRAPH_F32);
    multiply(p, i, in, out, matrix);
    add_norm(p, i, out, p->x, norm)->epilogue = GRAPH_RESIDUAL;
}

static void add_attention(struct parts *p, uint32_t i) {
    const struct shape *s = p->s;
    const struct tower *t = s->tower;
    const struct tower_tensor *to = &t->layer[i][TOWER_ATTENTION_OUT];
    const uint32_t form = GRAPH_F32 | graph_form_for(to->weight);
    const bool spread = head_of(t) != s->head_dim_k;
    const uint32_t qkv = add_heads(p, i);
    struct graph_op *op = graph_add_op(p->g, GRAPH_ROPE_STORE, i, qkv, qkv);
    op->rope = (struct graph_rope){.heads = s->n_heads,
                                   .kv_heads = s->n_kv_heads,
                                   .dim_k = s->head_dim_k,
                                   .dim_v = s->head_dim_v,
                                   .n_rot = s->n_rot,
                                   .neox = s->rope_neox,
                                   .halves = t->projector == TOWER_GEMMA4,
                                   .angles = p->angles,
                                   .angles_q = GRAPH_NONE,
                                   .norm = parts_norm_of(s, head_of(t)),
                                   .norm_v = t->projector == TOWER_GEMMA4};
    for (uint32_t k = TOWER_Q_NORM; k <= TOWER_K_NORM && t->projector == TOWER_GEMMA4; k++)
        op->weight[op->n_weights++] = graph_add_plain_padded(p->g, t->layer[i][k].weight, s->head_dim_k);
    use_cache(p, op, i);
    uint32_t heads = parts_value(p, i, "heads", s->n_heads * s->head_dim_v, spread ? GRAPH_F32 : form);
    op = graph_add_op(p->g, GRAPH_ATTENTION, i, qkv, heads);
    op->attention = (struct graph_attention){.heads = s->n_heads,
                                             .kv_heads = s->n_kv_heads,
                                             .dim_k = s->head_dim_k,
                                             .dim_v = s->head_dim_v,
                                             .scale = s->attention_scale,
                                             .both = true,
                                             .windows = tower_has_windows(t, i),
                                             .arrivals = GRAPH_NONE};
    if (op->attention.windows)
        op->work = p->g->windows;
    use_cache(p, op, i);
    if (spread)
        heads = add_spread(p, i, "narrow_heads", heads, s->head_dim_v, head_of(t), form);
    add_to_stream(p, i, heads, to, &t->layer[i][TOWER_ATTENTION_NORM]);
}

static void add_feed_forward(struct parts *p, uint32_t i) {
    const struct tower *t = p->s->tower;
    const struct tower_tensor *l = t->layer[i];
    const struct tower_tensor *gate = &l[TOWER_FF_GATE], *up = &l[TOWER_FF_UP], *down = &l[TOWER_FF_DOWN];
    const struct tower_tensor *first = gate->weight != NULL ? gate : up;
    const uint32_t normed =
        parts_value(p, i, "norm_2", t->width, parts_forms(first->weight, up->weight, NULL));
    add_norm(p, i, p->x, normed, &l[TOWER_NORM_2]);
    const uint32_t h = parts_value(p, i, "ff", t->ff, GRAPH_F32 | graph_form_for(down->weight));
    struct graph_op *op = multiply(p, i, normed, h, first);
    op->epilogue = first == up ? GRAPH_GELU_ONE : t->projector == TOWER_GEMMA4 ? GRAPH_GEGLU : GRAPH_SWIGLU;
    if (first != up)
        graph_op_weight(p->g, op, up->weight, up->bias, 0);
    add_to_stream(p, i, h, down, &l[TOWER_FF_NORM]);
}

/* A value of rows that become tokens. */
static uint32_t add_rows(struct parts *p, uint32_t layer, const char *name, uint32_t width, uint32_t forms) {
    char text[32];
    if (layer == GRAPH_NONE)
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "blk.%u.%s", layer, name);
    return graph_add_value(p->g, text, GRAPH_SCRATCH, p->g->want.logits_rows, width, forms);
}

/* down x gelu(up x in), with their biases, to the columns of the result from `column` on. */
static void add_two_products(struct parts *p, uint32_t layer, uint32_t in, const struct tower_tensor *up,
                             const struct tower_tensor *down, uint32_t column) {
    const uint32_t width = (uint32_t)up->weight->ne[1];
    const uint32_t hidden = add_rows(p, layer, "hidden", width, GRAPH_F32);
    const uint32_t gelu = add_rows(p, layer, "gelu", width, graph_form_for(down->weight));
    multiply(p, layer, in, hidden, up)->wanted = true;
    graph_add_op(p->g, GRAPH_GELU, layer, hidden, gelu)->wanted = true;
    struct graph_op *op = multiply(p, layer, gelu, p->g->logits, down);
    op->wanted = true;
    op->column[0] = column;
}

/* The result: a row of the text's width for each token, and behind it one of each deepstack. */
static void add_result(struct parts *p) {
    struct graph *g = p->g;
    g->logits = graph_add_value(g, "embeddings", GRAPH_EXCHANGE, g->want.logits_rows,
                                tower_row_width(p->s->tower), GRAPH_F32);
    graph_value_halves(g, g->logits, g->want.result_halves);
}

static uint32_t add_squares(struct parts *p, uint32_t layer, uint32_t in, uint32_t forms, bool woven) {
    const struct tower *t = p->s->tower;
    const uint32_t merged = t->merge * t->merge;
    const uint32_t squares = add_rows(p, layer, "squares", merged * t->width, forms);
    graph_add_op(p->g, GRAPH_MERGE, layer, in, squares)->merge =
        (struct graph_merge){.rows = merged, .woven = woven};
    return squares;
}

/* What a layer with deepstack gives to the text's layer of that number. */
static void add_deepstack(struct parts *p, uint32_t i, uint32_t number) {
    const struct tower *t = p->s->tower;
    const struct tower_tensor *l = t->layer[i];
    const struct tower_tensor *up = &l[TOWER_DEEP_UP];
    const uint32_t squares = add_squares(p, i, p->x, GRAPH_F32, false);
    const uint32_t normed =
        add_rows(p, i, "squares_norm", p->g->values[squares].width, graph_form_for(up->weight));
    add_norm(p, i, squares, normed, &l[TOWER_DEEP_NORM])->wanted = true;
    add_two_products(p, i, normed, up, &l[TOWER_DEEP_DOWN], (1 + number) * t->text_width);
}

/* A tower's rows through the projector. */
static void add_qwen_projector(struct parts *p) {
    const struct tower_tensor *up = global(p, TOWER_UP);
    const uint32_t normed =
        graph_add_value(p->g, "post_norm", GRAPH_SCRATCH, p->g->want.batch, p->s->tower->width, GRAPH_F32);
    add_norm(p, GRAPH_NONE, p->x, normed, global(p, TOWER_POST_NORM));
    p->g->tail = p->g->n_ops;
    const uint32_t squares = add_squares(p, GRAPH_NONE, normed, graph_form_for(up->weight), false);
    add_two_products(p, GRAPH_NONE, squares, up, global(p, TOWER_DOWN), 0);
}

/* The mean of each square of rows, normed, through a matrix that is stored the other way round. */
static void add_gemma_projector(struct parts *p) {
    struct graph *g = p->g;
    const struct tower *t = p->s->tower;
    const uint32_t normed =
        graph_add_value(g, "post_norm", GRAPH_SCRATCH, g->want.batch, t->width, GRAPH_F32);
    add_norm(p, GRAPH_NONE, p->x, normed, global(p, TOWER_POST_NORM));
    g->tail = g->n_ops;
    const uint32_t means = add_rows(p, GRAPH_NONE, "means", t->width, GRAPH_F32);
    graph_add_op(g, GRAPH_MERGE, GRAPH_NONE, normed, means)->merge = (struct graph_merge){
        .rows = t->merge * t->merge, .mean = true, .factor = 1.0f / (float)(t->merge * t->merge)};
    const uint32_t tokens = add_rows(p, GRAPH_NONE, "means_norm", t->width, GRAPH_F32);
    add_norm(p, GRAPH_NONE, means, tokens, global(p, TOWER_SOFT_NORM))->wanted = true;
    graph_op_weight(g, graph_add_op(g, GRAPH_PROJECT, GRAPH_NONE, tokens, g->logits),
                    global(p, TOWER_PROJECTION)->weight, NULL, 0);
}

/* The mean of each square of rows times the root of the width, scaled, normed without weights, times a
 * matrix. */
static void add_gemma4_projector(struct parts *p) {
    struct graph *g = p->g;
    const struct tower *t = p->s->tower;
    const uint32_t rows = t->merge * t->merge;
    const struct tower_tensor *to = global(p, TOWER_TO_TEXT);
    g->tail = g->n_ops;
    const uint32_t means = add_rows(p, GRAPH_NONE, "means", t->width, GRAPH_F32);
    struct graph_op *op = graph_add_op(g, GRAPH_MERGE, GRAPH_NONE, p->x, means);
    op->merge = (struct graph_merge){
        .rows = rows, .mean = true, .factor = (float)(sqrt((double)t->width) / (double)rows)};
    if (t->global[TOWER_SCALE].weight != NULL) {
        op->weight[0] = graph_add_plain(g, t->global[TOWER_SCALE].weight);
        op->bias[0] = graph_add_plain(g, t->global[TOWER_SHIFT].weight);
        op->n_weights = 1;
    }
    const uint32_t tokens = add_rows(p, GRAPH_NONE, "means_norm", t->width, graph_form_for(to->weight));
    add_norm(p, GRAPH_NONE, means, tokens, NULL)->wanted = true;
    multiply(p, GRAPH_NONE, tokens, g->logits, to)->wanted = true;
}

static void add_pixtral_projector(struct parts *p) {
    struct graph *g = p->g;
    const struct tower *t = p->s->tower;
    const struct tower_tensor *into = global(p, TOWER_INTO_TEXT);
    const struct tower_tensor *first = t->merge > 1 ? global(p, TOWER_MERGER) : into;
    uint32_t from = p->x;
    if (t->merge > 1) {
        from = graph_add_value(g, "merger_norm", GRAPH_SCRATCH, g->want.batch, t->width, GRAPH_F32);
        add_norm(p, GRAPH_NONE, p->x, from, global(p, TOWER_MERGER_NORM));
    }
    g->tail = g->n_ops;
    uint32_t squares = add_squares(p, GRAPH_NONE, from, graph_form_for(first->weight), true);
    if (t->merge > 1) {
        const uint32_t tokens = add_rows(p, GRAPH_NONE, "tokens", t->width, GRAPH_F32);
        const uint32_t form = graph_form_for(into->weight);
        multiply(p, GRAPH_NONE, squares, tokens, first);
        squares = form == GRAPH_F32 ? tokens : add_rows(p, GRAPH_NONE, "tokens_int8", t->width, form);
        if (squares != tokens)
            graph_add_op(g, GRAPH_FORMS, GRAPH_NONE, tokens, squares);
    }
    add_two_products(p, GRAPH_NONE, squares, into, global(p, TOWER_IN_TEXT), 0);
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    uint32_t deep = 0;
    begin(&p, g, s);
    add_result(&p);
    if (s->tower->window > 0)
        g->windows = graph_add_value(g, "windows", GRAPH_EXCHANGE, g->want.batch,
                                     sizeof(struct step_window) / sizeof(float), GRAPH_F32);
    add_patches(&p);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_attention(&p, i);
        add_feed_forward(&p, i);
        if (s->tower->layer[i][TOWER_DEEP_NORM].weight != NULL)
            add_deepstack(&p, i, deep++);
    }
    if (tower_is_qwen(s->tower))
        add_qwen_projector(&p);
    else if (s->tower->projector == TOWER_GEMMA3)
        add_gemma_projector(&p);
    else if (s->tower->projector == TOWER_GEMMA4)
        add_gemma4_projector(&p);
    else
        add_pixtral_projector(&p);
}

/* A layer with deepstack, and as many more as what stands outside layers needs beside its own room. */
static const struct arch vision = {
    .name = "clip", .build = build, .layer = {.ops = 18, .values = 13, .weights = 21}};

static stator_status check_sizes(const struct gguf *g, const struct tower *t, stator_error *e) {
    if (head_of(t) > MOST_HEAD)
        return gguf_error(g, e,
                          "clip.vision.embedding_length %" PRIu32 " over %" PRIu32
                          " heads: heads may have %d values at most",
                          t->width, t->heads, MOST_HEAD);
    const struct gguf_tensor *const patches[] = {&t->patch_matrix, &t->patch_next_matrix};
    for (size_t i = 0; i < 2 && patches[i]->ne[0] > 0; i++)
        if (block_info(patches[i]->type)->values > 1)
            return gguf_error(g, e, "tensor '%.*s' has the type %s, expected F32, F16 or BF16",
                              (int)patches[i]->name.length, patches[i]->name.data,
                              block_info(patches[i]->type)->name);
    return STATOR_OK;
}

/* Rows of a table of gemma4v's positions that a picture of so many patches can reach, in whole panels. */
static uint32_t axis_rows(const struct tower *t, uint64_t patches) {
    const uint64_t side = arith_round_up(patches / t->merge, PANEL_ROWS);
    return (uint32_t)ARITH_MIN(side, t->positions);
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
    s->n_rot = head_of(t);
    s->head_dim_k = s->head_dim_v = (uint32_t)arith_round_up(s->n_rot, HEAD_STEP);
    s->rope_neox = tower_is_qwen(t) || t->projector == TOWER_GEMMA4;
    s->rope_base = 10000;
    s->norm_eps = t->eps;
    s->attention_scale = t->projector == TOWER_GEMMA4 ? 1 : 1.0f / sqrtf((float)s->n_rot);
    s->vocab = tower_row_width(t);
    s->context_trained = (uint32_t)tower_most_patches(t, max_pixels);
    t->axis_rows = t->projector == TOWER_GEMMA4 ? axis_rows(t, s->context_trained) : t->positions;
    s->tensor_bytes = t->tensor_bytes;
    return shape_read_name(g, s, e);
}
