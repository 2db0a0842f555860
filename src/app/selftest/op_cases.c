#include "app/selftest/op_cases_made.h"

#include "kernels/kernels.h"
#include "kernels/shared/experts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void build_embedding(struct op_graph *b) {
    const struct gguf_tensor *t = add_matrix(b, b->sizes->in, OP_CASES_IDS);
    struct graph_op *op = add_op(b, GRAPH_EMBED, GRAPH_NONE, add_output(b, b->sizes->in));
    op->scale = 1.25f;
    graph_op_weight(&b->graph, op, t, NULL, 0);
}

static void build_norm(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_NORM, in, add_output(b, b->sizes->in));
    op->norm = norm_of(b->sizes->in);
    graph_op_weight(&b->graph, op, add_vector(b, b->sizes->in, 1, 0.25f), NULL, 0);
}

static void build_plain_norm(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    add_op(b, GRAPH_NORM, in, add_output(b, b->sizes->in))->norm = norm_of(b->sizes->in);
}

static void build_added_norm(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_NORM, in, add_filled_output(b, b->sizes->in));
    op->epilogue = GRAPH_RESIDUAL;
    op->norm = norm_of(b->sizes->in);
    graph_op_weight(&b->graph, op, add_vector(b, b->sizes->in, 1, 0.25f), NULL, 0);
    graph_op_weight(&b->graph, op, add_vector(b, 1, 0.75f, 0.1f), NULL, 0);
}

static void build_layer_norm(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_NORM, in, add_output(b, b->sizes->in));
    op->norm = norm_of(b->sizes->in);
    op->norm.centred = true;
    const struct gguf_tensor *weight = add_vector(b, b->sizes->in, 1, 0.25f);
    graph_op_weight(&b->graph, op, weight, add_vector(b, b->sizes->in, 0, 1), 0);
}

/* Heads of `dim` values in `out` each. */
static void build_spread(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    const uint32_t in = add_input(b, z->heads * z->dim, GRAPH_F32);
    add_op(b, GRAPH_SPREAD, in, add_output(b, z->heads * z->out))->spread =
        (struct graph_spread){.from = z->dim, .to = z->out};
}

static void build_silu(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    add_op(b, GRAPH_SILU, in, add_output(b, b->sizes->in))->scale = 0.75f;
}

/* z->used parts of z->in values, each normed; a product reads their int8 forms. */
static void build_norm_apart(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    const uint32_t width = z->in * z->used, in = add_input(b, width, GRAPH_F32);
    const uint32_t normed = add_value(b, "normed", OP_CASES_BATCH, width, GRAPH_F32 | GRAPH_I8_32);
    struct graph_op *op = add_op(b, GRAPH_NORM, in, normed);
    op->norm = norm_of(z->in);
    op->norm.parts = z->used;
    op->norm.apart = true;
    graph_op_weight(&b->graph, op, add_vector(b, width, 1, 0.25f), NULL, 0);
    const uint32_t out = add_output(b, width + PANEL_ROWS);
    for (uint32_t k = 0; k < 2; k++) {
        const struct gguf_tensor *t =
            add_tensor(b, k == 0 ? BLOCK_F32 : BLOCK_Q8_0, width, k == 0 ? width : PANEL_ROWS, 0);
        graph_op_weight(&b->graph, add_op(b, GRAPH_MATMUL, normed, out), t, NULL, k * width);
    }
}

/* z->used streams of z->in values. */
static void build_mix_of_streams(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    const uint32_t in = add_input(b, z->in * z->used, GRAPH_F32);
    const uint32_t gates = add_input(b, z->in * z->used, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_MIX, in, add_output(b, z->in));
    op->work = gates;
    op->streams = (struct graph_streams){.count = z->used, .inverse = 1.0f / (float)z->used};
}

static void add_streams(struct op_graph *b, bool adds) {
    const struct op_shape *z = b->sizes;
    const uint32_t in = add_input(b, z->in, GRAPH_F32);
    const uint32_t gates = adds ? add_input(b, z->used, GRAPH_F32) : GRAPH_NONE, width = z->in * z->used;
    struct graph_op *op =
        add_op(b, GRAPH_INJECT, in, adds ? add_filled_output(b, width) : add_output(b, width));
    op->work = gates;
    op->epilogue = adds ? GRAPH_RESIDUAL : GRAPH_STORE;
    op->streams = (struct graph_streams){.count = z->used, .inverse = 1.0f / (float)z->used};
}

static void build_add_to_streams(struct op_graph *b) {
    add_streams(b, true);
}

static void build_fill_streams(struct op_graph *b) {
    add_streams(b, false);
}

static void build_center(struct op_graph *b) {
    const uint32_t v = add_filled_output(b, b->sizes->in);
    add_op(b, GRAPH_CENTER, v, v)->norm = norm_of(b->sizes->in);
}

static void build_softcap(struct op_graph *b) {
    const uint32_t v = add_filled_output(b, b->sizes->in);
    begin_tail(b);
    add_op(b, GRAPH_SOFTCAP, v, v)->cap = 0.5f;
}

static void build_gelu(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    add_op(b, GRAPH_GELU, in, add_output(b, b->sizes->in));
}

/* Of so many patches side by side that no step has too few of them. */
static void build_merge(struct op_graph *b) {
    const uint32_t in = add_value(b, "wide", OP_CASES_BATCH * b->sizes->used, b->sizes->in, GRAPH_F32);
    fill_value(b, in);
    begin_tail(b);
    const uint32_t out = add_output(b, b->sizes->in * b->sizes->used);
    add_op(b, GRAPH_MERGE, in, out)->merge =
        (struct graph_merge){.rows = b->sizes->used, .woven = b->sizes->woven};
}

static struct graph_op *add_mean(struct op_graph *b) {
    const uint32_t in = add_value(b, "wide", OP_CASES_BATCH * b->sizes->used, b->sizes->in, GRAPH_F32);
    fill_value(b, in);
    begin_tail(b);
    struct graph_op *op = add_op(b, GRAPH_MERGE, in, add_output(b, b->sizes->in));
    op->merge =
        (struct graph_merge){.rows = b->sizes->used, .mean = true, .factor = 1.0f / (float)b->sizes->used};
    return op;
}

static void build_mean(struct op_graph *b) {
    (void)add_mean(b);
}

static void build_scaled_mean(struct op_graph *b) {
    struct graph_op *op = add_mean(b);
    op->weight[0] = graph_add_plain(&b->graph, add_vector(b, b->sizes->in, 1, 0.25f));
    op->bias[0] = graph_add_plain(&b->graph, add_vector(b, b->sizes->in, 0, 1));
    op->n_weights = 1;
}

/* A whole number as the float that has its bits. */
static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Rows of struct step_blend: the same four rows of the table for all, each with factors of its own, which a
 * product makes. */
static void build_blend(struct op_graph *b) {
    const uint32_t in = add_input(b, 64, GRAPH_F32), width = sizeof(struct step_blend) / sizeof(float);
    const uint32_t places = add_value(b, "places", OP_CASES_BATCH, width, GRAPH_F32);
    fill_value(b, places);
    b->middle[b->n_tensors - 1] = float_of_bits(OP_CASES_IDS - 2);
    b->spread[b->n_tensors - 1] = 0;
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, places);
    graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_F32, 64, 4, 0), NULL, 4);
    const uint32_t out = add_filled_output(b, b->sizes->in);
    op = add_op(b, GRAPH_BLEND, places, out);
    graph_op_weight(&b->graph, op, add_matrix(b, b->sizes->in, OP_CASES_IDS), NULL, 0);
}

/* A matrix that is stored the other way round. */
static void build_project(struct op_graph *b) {
    const struct gguf_tensor *m = add_matrix(b, b->sizes->out, b->sizes->in);
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    begin_tail(b);
    graph_op_weight(&b->graph, add_op(b, GRAPH_PROJECT, in, add_output(b, b->sizes->out)), m, NULL, 0);
}

/* The output matrix with the norm before it. */
static void build_tail(struct op_graph *b) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    const struct gguf_tensor *m = add_matrix(b, b->sizes->in, b->sizes->out);
    const uint32_t form = graph_form_for(m), rows = (form == GRAPH_F32 ? 1 : 2) * OP_CASES_BATCH;
    const uint32_t normed = add_value(b, "normed", rows, b->sizes->in, form);
    begin_tail(b);
    struct graph_op *op = add_op(b, GRAPH_GATHER_NORM, in, normed);
    op->norm = norm_of(b->sizes->in);
    graph_op_weight(&b->graph, op, add_vector(b, b->sizes->in, 1, 0.25f), NULL, 0);
    op = add_op(b, GRAPH_MATMUL, normed, add_output(b, b->sizes->out));
    op->epilogue = form == GRAPH_F32 ? GRAPH_STORE : GRAPH_PAIRS;
    graph_op_weight(&b->graph, op, m, NULL, 0);
}

static void build_matmul(struct op_graph *b) {
    const struct gguf_tensor *m = add_matrix(b, b->sizes->in, b->sizes->out);
    const uint32_t in = add_input(b, b->sizes->in, graph_form_for(m));
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, add_output(b, b->sizes->out));
    graph_op_weight(&b->graph, op, m, NULL, 0);
}

/* Two of one value, which the GPU's kernels make together: of so many rows, and of 5. */
static void build_two_matmuls(struct op_graph *b) {
    const uint32_t rows = b->sizes->out, few = 5;
    const struct gguf_tensor *m = add_matrix(b, b->sizes->in, rows);
    const uint32_t in = add_input(b, b->sizes->in, graph_form_for(m)), out = add_output(b, rows + few);
    graph_op_weight(&b->graph, add_op(b, GRAPH_MATMUL, in, out), m, NULL, 0);
    graph_op_weight(&b->graph, add_op(b, GRAPH_MATMUL, in, out), add_matrix(b, b->sizes->in, few), NULL,
                    rows);
}

/* Added to what is there, with a bias. */
static void build_added_matmul(struct op_graph *b) {
    const struct gguf_tensor *m = add_matrix(b, b->sizes->in, b->sizes->out);
    const uint32_t in = add_input(b, b->sizes->in, graph_form_for(m));
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, add_filled_output(b, b->sizes->out));
    op->epilogue = GRAPH_RESIDUAL;
    graph_op_weight(&b->graph, op, m, add_vector(b, b->sizes->out, 0, 1), 0);
}

static void add_gated(struct op_graph *b, enum graph_epilogue epilogue) {
    const struct gguf_tensor *gate = add_matrix(b, b->sizes->in, b->sizes->out);
    const struct gguf_tensor *up = add_matrix(b, b->sizes->in, b->sizes->out);
    const uint32_t in = add_input(b, b->sizes->in, graph_form_for(gate));
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, add_output(b, b->sizes->out));
    op->epilogue = epilogue;
    graph_op_weight(&b->graph, op, gate, add_vector(b, b->sizes->out, 0, 1), 0);
    graph_op_weight(&b->graph, op, up, add_vector(b, b->sizes->out, 0, 1), 0);
}

/* One matrix. */
static void add_ungated(struct op_graph *b, enum graph_epilogue epilogue) {
    const struct gguf_tensor *up = add_matrix(b, b->sizes->in, b->sizes->out);
    const uint32_t in = add_input(b, b->sizes->in, graph_form_for(up));
    struct graph_op *op = add_op(b, GRAPH_MATMUL, in, add_output(b, b->sizes->out));
    op->epilogue = epilogue;
    graph_op_weight(&b->graph, op, up, add_vector(b, b->sizes->out, 0, 1), 0);
}

static void build_relu2(struct op_graph *b) {
    add_ungated(b, GRAPH_RELU2);
}

static void build_gelu_one(struct op_graph *b) {
    add_ungated(b, GRAPH_GELU_ONE);
}

/* int8 of a row, which a small product reads. */
static void add_forms(struct op_graph *b, uint32_t type, uint32_t forms) {
    const uint32_t in = add_input(b, b->sizes->in, GRAPH_F32);
    const uint32_t v = add_value(b, "forms", OP_CASES_BATCH, b->sizes->in, forms);
    add_op(b, GRAPH_FORMS, in, v);
    struct graph_op *op = add_op(b, GRAPH_MATMUL, v, add_output(b, PANEL_ROWS));
    graph_op_weight(&b->graph, op, add_tensor(b, type, b->sizes->in, PANEL_ROWS, 0), NULL, 0);
}

static void build_int8_32(struct op_graph *b) {
    add_forms(b, BLOCK_Q8_0, GRAPH_I8_32);
}

static void build_int8_256(struct op_graph *b) {
    add_forms(b, BLOCK_Q4_K, GRAPH_I8_256);
}

/* Every case ends with it; this one has nothing else. */
static void build_argmax(struct op_graph *b) {
    (void)add_filled_output(b, b->sizes->in);
}

static void build_swiglu(struct op_graph *b) {
    add_gated(b, GRAPH_SWIGLU);
}

static void build_geglu(struct op_graph *b) {
    add_gated(b, GRAPH_GEGLU);
}

static struct graph_op *add_gate(struct op_graph *b, bool normed, bool gelu) {
    const struct op_shape *z = b->sizes;
    const uint32_t in = add_input(b, z->heads * z->dim, GRAPH_F32);
    const uint32_t gates = add_input(b, z->heads * z->dim + 8, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_GATE, in, add_output(b, z->heads * z->dim));
    op->work = gates;
    op->gate = (struct graph_gate){
        .heads = z->heads, .dim = z->dim, .column = gelu ? 0 : 8, .gelu = gelu, .norm = norm_of(z->dim)};
    if (normed)
        graph_op_weight(&b->graph, op, add_vector(b, z->dim, 1, 0.25f), NULL, 0);
    return op;
}

static void build_gate(struct op_graph *b) {
    (void)add_gate(b, false, false);
}

static void build_gelu_gate(struct op_graph *b) {
    (void)add_gate(b, false, true);
}

static void build_normed_gate(struct op_graph *b) {
    (void)add_gate(b, true, false);
}

static void build_sigmoid_gate(struct op_graph *b) {
    add_gate(b, true, false)->gate.sigmoid = true;
}

/* Router, and the experts that it chooses; of RELU2 they have no gate. */
static void add_experts(struct op_graph *b, enum graph_epilogue epilogue) {
    const struct op_shape *z = b->sizes;
    struct graph *g = &b->graph;
    const uint32_t slots = OP_CASES_BATCH * z->used, align = g->want.tiled ? ACT_TILE_PAIR : 1;
    struct graph_experts x = {.experts = z->experts,
                              .used = z->used,
                              .rows = slots + (align - 1) * ARITH_MIN(slots, z->experts),
                              .align = align,
                              .how = EXPERTS_NORM,
                              .scale = 1.5f,
                              .shared = GRAPH_NONE,
                              .gate = GRAPH_NONE};
    const struct gguf_tensor *gate =
        epilogue == GRAPH_RELU2 ? NULL : add_tensor(b, b->type, z->in, z->out, z->experts);
    const struct gguf_tensor *up = add_tensor(b, b->type, z->in, z->out, z->experts);
    const struct gguf_tensor *down = add_tensor(b, b->type, z->out, z->in, z->experts);
    const uint32_t logits = add_input(b, z->experts, GRAPH_F32);
    const uint32_t in = add_input(b, z->in, graph_form_for(up)), out = add_filled_output(b, z->in);
    x.routes = add_value(b, "routes", 1, EXPERTS_WORDS(slots, x.rows), GRAPH_F32);
    add_op(b, GRAPH_ROUTE, logits, x.routes)->experts = x;
    const uint32_t h = add_value(b, "h", x.rows, z->out, GRAPH_F32 | graph_form_for(down));
    struct graph_op *op = add_op(b, GRAPH_EXPERTS, in, h);
    op->epilogue = epilogue;
    op->experts = x;
    if (gate != NULL)
        graph_op_weight(g, op, gate, NULL, 0);
    graph_op_weight(g, op, up, NULL, 0);
    op = add_op(b, GRAPH_EXPERTS, h, out);
    op->epilogue = GRAPH_RESIDUAL;
    op->experts = x;
    graph_op_weight(g, op, down, NULL, 0);
    if (g->want.experts_apart)
        op->work = add_value(b, "experts", slots, z->in, GRAPH_F32);
}

static void build_experts(struct op_graph *b) {
    add_experts(b, GRAPH_SWIGLU);
}

static void build_relu2_experts(struct op_graph *b) {
    add_experts(b, GRAPH_RELU2);
}

static uint32_t add_state(struct op_graph *b, uint64_t bytes) {
    const struct graph_cache c = {
        .name = "state", .kind = GRAPH_STATE, .units = 1, .bytes = arith_round_up(bytes, GRAPH_CACHE_ALIGN)};
    add_op(b, GRAPH_FILL, GRAPH_NONE, GRAPH_NONE)->layer = GRAPH_NONE;
    return graph_add_cache(&b->graph, &c);
}

/* Convolution and gated delta rule. */
static void build_delta(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    struct graph_delta d = {.key_heads = z->kv_heads,
                            .value_heads = z->heads,
                            .dim_k = z->dim,
                            .dim_v = z->dim,
                            .taps = z->taps,
                            .channels = (2 * z->kv_heads + z->heads) * z->dim,
                            .eps = 1e-5f,
                            .scale = 1.0f / sqrtf((float)z->dim)};
    d.beta = d.channels;
    d.alpha = d.beta + d.value_heads;
    d.window = d.value_heads * arith_ceil_div(d.dim_v, DELTA_BLOCK) * d.dim_k * DELTA_BLOCK * sizeof(float);
    const uint32_t cache = add_state(b, d.window + (uint64_t)(d.taps - 1) * d.channels * sizeof(float));
    const uint32_t qkv = add_input(b, d.channels, GRAPH_F32);
    const uint32_t heads = add_input(b, d.alpha + d.value_heads, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_CONV, qkv, heads);
    op->delta = d;
    graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_F32, d.taps, d.channels, 0), NULL, 0);
    graph_op_cache(&b->graph, op, cache);
    op = add_op(b, GRAPH_DELTA, heads, add_output(b, d.value_heads * d.dim_v));
    op->work = qkv;
    op->delta = d;
    graph_op_weight(&b->graph, op, add_vector(b, d.value_heads, 0, 1), NULL, 0);
    graph_op_weight(&b->graph, op, add_vector(b, d.value_heads, -0.5f, 0.4f), NULL, 0);
    graph_op_cache(&b->graph, op, cache);
}

/* Convolution and state space of Mamba-2. */
static void build_ssd(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    struct graph_delta d = {.key_heads = z->kv_heads,
                            .value_heads = z->heads,
                            .dim_k = z->dim,
                            .dim_v = z->out,
                            .taps = z->taps,
                            .channels = 2 * z->kv_heads * z->dim + z->heads * z->out,
                            .grouped = z->heads / z->kv_heads,
                            .ssd = true};
    d.beta = d.alpha = d.channels;
    d.window = d.value_heads * arith_ceil_div(d.dim_v, DELTA_BLOCK) * d.dim_k * DELTA_BLOCK * sizeof(float);
    const uint32_t cache = add_state(b, d.window + (uint64_t)(d.taps - 1) * d.channels * sizeof(float));
    const uint32_t xbc = add_input(b, d.channels, GRAPH_F32);
    const uint32_t heads = add_input(b, d.alpha + d.value_heads, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_CONV, xbc, heads);
    op->delta = d;
    graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_F32, d.taps, d.channels, 0), NULL, 0);
    graph_op_weight(&b->graph, op, add_vector(b, d.channels, 0, 1), NULL, 0);
    graph_op_cache(&b->graph, op, cache);
    op = add_op(b, GRAPH_DELTA, heads, add_output(b, d.value_heads * d.dim_v));
    op->work = xbc;
    op->delta = d;
    graph_op_weight(&b->graph, op, add_vector(b, d.value_heads, 0, 1), NULL, 0);
    graph_op_weight(&b->graph, op, add_vector(b, d.value_heads, -0.5f, 0.4f), NULL, 0);
    graph_op_weight(&b->graph, op, add_vector(b, d.value_heads, 1, 0.5f), NULL, 0);
    graph_op_cache(&b->graph, op, cache);
}

/* Gated first, then normed, with weights for each head. */
static void build_early_gate(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    const uint32_t in = add_input(b, z->heads * z->dim, GRAPH_F32);
    const uint32_t gates = add_input(b, z->heads * z->dim + 8, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_GATE, in, add_output(b, z->heads * z->dim));
    op->work = gates;
    op->gate = (struct graph_gate){
        .heads = z->heads, .dim = z->dim, .column = 8, .early = true, .norm = norm_of(z->dim)};
    op->weight[op->n_weights++] = graph_add_plain(&b->graph, add_tensor(b, BLOCK_F32, z->dim, z->heads, 0));
}

static void build_gated_conv(struct op_graph *b) {
    const struct op_shape *z = b->sizes;
    const uint32_t cache = add_state(b, (uint64_t)(z->taps - 1) * z->out * sizeof(float));
    const uint32_t bcx = add_input(b, 3 * z->out, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_GATED_CONV, bcx, add_output(b, z->out));
    op->gated_conv = (struct graph_gated_conv){.channels = z->out, .taps = z->taps};
    graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_F32, z->taps, z->out, 0), NULL, 0);
    graph_op_cache(&b->graph, op, cache);
}

static struct graph_ngram ngram_of(const struct op_shape *z) {
    return (struct graph_ngram){.streams = z->heads,
                                .dim = z->dim,
                                .taps = z->taps,
                                .apart = z->used,
                                .norm = norm_of(z->dim),
                                .scale = 1.0f / sqrtf((float)z->dim)};
}

static void build_ngram_gate(struct op_graph *b) {
    const struct graph_ngram n = ngram_of(b->sizes);
    const uint32_t all = n.streams * n.dim, stream = add_input(b, all, GRAPH_F32);
    const uint32_t v = add_filled_output(b, all + n.dim + n.streams);
    struct graph_op *op = add_op(b, GRAPH_NGRAM_GATE, v, v);
    op->work = stream;
    op->ngram = n;
    for (int i = 0; i < 3; i++)
        graph_op_weight(&b->graph, op, add_vector(b, all, 1, 0.25f), NULL, 0);
}

static void build_ngram_conv(struct op_graph *b) {
    const struct graph_ngram n = ngram_of(b->sizes);
    const uint32_t all = n.streams * n.dim;
    const uint32_t cache = add_state(b, (uint64_t)(n.taps - 1) * n.apart * all * sizeof(float));
    const uint32_t in = add_input(b, all + n.dim + n.streams, GRAPH_F32);
    struct graph_op *op = add_op(b, GRAPH_NGRAM_CONV, in, add_filled_output(b, all));
    op->ngram = n;
    graph_op_weight(&b->graph, op, add_tensor(b, BLOCK_F32, n.taps, all, 0), NULL, 0);
    graph_op_cache(&b->graph, op, cache);
}

/* K types need widths that are multiples of 256. */
static const struct op_case cases[] = {
    {"embedding", build_embedding, OP_CASES_BLOCKS, 1, {.in = 512}, {0}},
    {"matmul", build_matmul, OP_CASES_BLOCKS, 2, {.in = 768, .out = 301}, {.in = 2048, .out = 8192}},
    {"matmul, two", build_two_matmuls, OP_CASES_BLOCKS, 48, {.in = 768, .out = 40}, {0}},
    {"matmul, added", build_added_matmul, OP_CASES_BLOCKS, 3, {.in = 256, .out = 40}, {0}},
    {"swiglu", build_swiglu, OP_CASES_BLOCKS, 4, {.in = 256, .out = 272}, {.in = 2048, .out = 4096}},
    {"geglu", build_geglu, OP_CASES_ONE, 5, {.in = 96, .out = 77}, {.in = 2048, .out = 4096}},
    {"relu2", build_relu2, OP_CASES_ONE, 24, {.in = 256, .out = 310}, {0}},
    {"output matrix", build_tail, OP_CASES_BLOCKS, 6, {.in = 256, .out = 310}, {.in = 2048, .out = 8192}},
    {"experts",
     build_experts,
     OP_CASES_BLOCKS,
     7,
     {.in = 256, .out = 256, .experts = 7, .used = 2},
     {.in = 1024, .out = 768, .experts = 32, .used = 4}},
    {"experts, relu2",
     build_relu2_experts,
     OP_CASES_ONE,
     25,
     {.in = 256, .out = 256, .experts = 7, .used = 2},
     {0}},
    {"attention",
     op_cases_attention,
     OP_CASES_KV,
     8,
     {.in = 128, .heads = 4, .kv_heads = 2, .dim = 64},
     {.in = 1024, .heads = 32, .kv_heads = 8, .dim = 128}},
    {"attention, one KV head",
     op_cases_attention,
     OP_CASES_KV,
     9,
     {.in = 64, .heads = 6, .kv_heads = 1, .dim = 32},
     {0}},
    {"attention in a window",
     op_cases_attention,
     OP_CASES_KV,
     10,
     {.in = 128, .heads = 4, .kv_heads = 4, .dim = 96, .window = 50},
     {.in = 1024, .heads = 32, .kv_heads = 8, .dim = 128, .window = 128}},
    {"attention to chosen blocks",
     op_cases_attention,
     OP_CASES_KV,
     42,
     {.in = 128, .heads = 6, .kv_heads = 2, .dim = 64, .experts = 32, .used = 4, .taps = 4},
     {.in = 512,
      .heads = 24,
      .kv_heads = 2,
      .dim = 256,
      .experts = 2048,
      .used = 4,
      .taps = 4,
      .before = 32768}},
    {"attention to chosen blocks, several splits, ties",
     op_cases_attention,
     OP_CASES_KV,
     43,
     {.in = 64, .heads = 2, .kv_heads = 1, .dim = 32, .experts = 272, .used = 8, .taps = 1},
     {0}},
    {"attention of all to all",
     op_cases_whole_attention,
     OP_CASES_KV,
     24,
     {.in = 128, .heads = 4, .kv_heads = 4, .dim = 64},
     {0}},
    {"attention of all to all in a window",
     op_cases_whole_attention,
     OP_CASES_KV,
     29,
     {.in = 128, .heads = 6, .kv_heads = 2, .dim = 64, .window = 20},
     {0}},
    {"attention of all to all, spread heads",
     op_cases_whole_attention,
     OP_CASES_KV,
     39,
     {.out = 36, .heads = 3, .kv_heads = 3, .dim = 64},
     {0}},
    {"gelu", build_gelu, OP_CASES_ONE, 25, {.in = 333}, {0}},
    {"matmul, gelu", build_gelu_one, OP_CASES_BLOCKS, 28, {.in = 256, .out = 301}, {0}},
    {"layer norm", build_layer_norm, OP_CASES_ONE, 29, {.in = 333}, {0}},
    {"spread", build_spread, OP_CASES_ONE, 30, {.heads = 6, .dim = 36, .out = 64}, {0}},
    {"spread, narrower", build_spread, OP_CASES_ONE, 31, {.heads = 5, .dim = 96, .out = 72}, {0}},
    {"merge, mean", build_mean, OP_CASES_ONE, 36, {.in = 66, .used = 9}, {0}},
    {"merge, scaled mean", build_scaled_mean, OP_CASES_ONE, 40, {.in = 300, .used = 9}, {0}},
    {"blend", build_blend, OP_CASES_BLOCKS, 38, {.in = 256}, {0}},
    {"project", build_project, OP_CASES_BLOCKS, 37, {.in = 75, .out = 256}, {0}},
    {"merge, one behind the other", build_merge, OP_CASES_ONE, 32, {.in = 66, .used = 4}, {0}},
    {"merge", build_merge, OP_CASES_ONE, 26, {.in = 66, .used = 4, .woven = true}, {0}},
    {"delta rule",
     build_delta,
     OP_CASES_ONE,
     11,
     {.heads = 4, .kv_heads = 2, .dim = 64, .taps = 4},
     {.heads = 32, .kv_heads = 16, .dim = 128, .taps = 4}},
    {"delta rule, odd sizes",
     build_delta,
     OP_CASES_ONE,
     12,
     {.heads = 3, .kv_heads = 1, .dim = 50, .taps = 6},
     {0}},
    {"delta rule, keys of 128",
     build_delta,
     OP_CASES_ONE,
     42,
     {.heads = 4, .kv_heads = 2, .dim = 128, .taps = 4},
     {0}},
    {"state space, keys of 128",
     build_ssd,
     OP_CASES_ONE,
     43,
     {.heads = 4, .kv_heads = 2, .dim = 128, .out = 64, .taps = 4},
     {0}},
    {"state space",
     build_ssd,
     OP_CASES_ONE,
     26,
     {.heads = 6, .kv_heads = 2, .dim = 48, .out = 40, .taps = 4},
     {0}},
    {"gate, early", build_early_gate, OP_CASES_ONE, 27, {.heads = 3, .dim = 70}, {0}},
    {"latent attention",
     op_cases_latent,
     OP_CASES_KV,
     28,
     {.in = 128, .out = 48, .heads = 6, .kv_heads = 2, .dim = 96},
     {0}},
    {"gated convolution",
     build_gated_conv,
     OP_CASES_ONE,
     13,
     {.out = 300, .taps = 3},
     {.out = 2048, .taps = 4}},
    {"n-gram gate", build_ngram_gate, OP_CASES_ONE, 42, {.heads = 3, .dim = 270}, {.heads = 4, .dim = 2560}},
    {"n-gram convolution",
     build_ngram_conv,
     OP_CASES_ONE,
     43,
     {.heads = 3, .dim = 270, .taps = 4, .used = 3},
     {.heads = 4, .dim = 2560, .taps = 4, .used = 3}},
    {"n-gram convolution, far",
     build_ngram_conv,
     OP_CASES_ONE,
     44,
     {.heads = 2, .dim = 50, .taps = 16, .used = 2},
     {0}},
    {"gate", build_gate, OP_CASES_ONE, 14, {.heads = 3, .dim = 70}, {.heads = 32, .dim = 128}},
    {"gate, gelu", build_gelu_gate, OP_CASES_ONE, 23, {.heads = 3, .dim = 70}, {.heads = 32, .dim = 128}},
    {"gate, normed", build_normed_gate, OP_CASES_ONE, 15, {.heads = 3, .dim = 70}, {.heads = 32, .dim = 128}},
    {"gate, normed, sigmoid", build_sigmoid_gate, OP_CASES_ONE, 42, {.heads = 3, .dim = 70}, {0}},
    {"silu", build_silu, OP_CASES_ONE, 43, {.in = 333}, {0}},
    {"norm of parts", build_norm_apart, OP_CASES_ONE, 44, {.in = 96, .used = 3}, {0}},
    {"mix of streams",
     build_mix_of_streams,
     OP_CASES_ONE,
     45,
     {.in = 333, .used = 3},
     {.in = 2560, .used = 4}},
    {"add to streams",
     build_add_to_streams,
     OP_CASES_ONE,
     46,
     {.in = 333, .used = 3},
     {.in = 2560, .used = 4}},
    {"fill streams", build_fill_streams, OP_CASES_ONE, 47, {.in = 333, .used = 3}, {0}},
    {"norm", build_norm, OP_CASES_ONE, 16, {.in = 701}, {.in = 4096}},
    {"norm without weights", build_plain_norm, OP_CASES_ONE, 41, {.in = 701}, {0}},
    {"norm, added", build_added_norm, OP_CASES_ONE, 17, {.in = 333}, {.in = 4096}},
    {"int8 per 32", build_int8_32, OP_CASES_ONE, 20, {.in = 352}, {.in = 4096}},
    {"int8 per 256", build_int8_256, OP_CASES_ONE, 21, {.in = 768}, {.in = 4096}},
    {"argmax", build_argmax, OP_CASES_ONE, 22, {.in = 1001}, {.in = 32000}},
    {"center", build_center, OP_CASES_ONE, 18, {.in = 333}, {.in = 4096}},
    {"softcap", build_softcap, OP_CASES_ONE, 19, {.in = 333}, {.in = 4096}},
};
#define CASES (sizeof cases / sizeof cases[0])

static bool has_case(const struct op_case *c, uint32_t type) {
    const struct block_info *b = block_info(type);
    switch (c->over) {
    case OP_CASES_BLOCKS:
        return b != NULL && b->computable;
    case OP_CASES_KV:
        return type < KERNELS_KV_TYPES;
    case OP_CASES_ONE:
        break;
    }
    return type == BLOCK_F32;
}

/* Case i, if it is one; else how many there are. */
static uint32_t walk(uint32_t i, const struct op_case **row, uint32_t *type) {
    uint32_t n = 0;
    for (size_t k = 0; k < CASES; k++)
        for (uint32_t t = 0; t < BLOCK_TYPES; t++)
            if (has_case(&cases[k], t) && n++ == i) {
                *row = &cases[k];
                *type = t;
                return n;
            }
    return n;
}

uint32_t op_cases_count(void) {
    const struct op_case *row;
    uint32_t type;
    return walk(UINT32_MAX, &row, &type);
}

const struct op_case *op_cases_get(uint32_t i, uint32_t *type) {
    const struct op_case *row = NULL;
    (void)walk(i, &row, type);
    CHECK(row != NULL);
    return row;
}

void op_cases_name(uint32_t i, char out[OP_CASES_NAME]) {
    uint32_t type = 0;
    const struct op_case *c = op_cases_get(i, &type);
    const char *of = c->over == OP_CASES_BLOCKS ? block_info(type)->name
                     : c->over == OP_CASES_KV   ? kernels_kv_name((enum kernels_kv)type)
                                                : "";
    snprintf(out, OP_CASES_NAME, "op %s%s%s", c->name, of[0] != '\0' ? ", " : "", of);
}

void op_cases_build(struct graph *g, const struct shape *s) {
    struct op_graph *b = (struct op_graph *)(uintptr_t)s; /* its first member; it is ours */
    CHECK(&b->graph == g);
    b->n_tensors = 0;
    b->first_op = 0;
    g->tail = 0;
    b->row->build(b);
    CHECK(g->logits != GRAPH_NONE);
    if (g->tail == 0)
        begin_tail(b);
    g->picks = graph_add_value(g, "picks", GRAPH_EXCHANGE, OP_CASES_BATCH, 2, GRAPH_F32);
    graph_value_halves(g, g->picks, g->want.result_halves);
    graph_add_argmax(g);
}
