/* A random model part for tests of the GPU kernels: a graph of one or two layers with random weights of given
 * types, placed with gaps between all values and weights cut over two slices, and a step on it. The same
 * bytes go to the CPU device (scalar) and to a GPU; what they leave must be the same. */
#ifndef STATOR_TESTS_GPU_MODEL_H
#define STATOR_TESTS_GPU_MODEL_H

#include "kernel_check.h"

#include "arch/arch.h"
#include "arch/parts/parts.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/shared/experts.h"

#define GPU_MODEL_GAP     256
#define GPU_MODEL_TENSORS 64
#define GPU_MODEL_PATTERN 0xA9

struct gpu_model_want {
    uint32_t type[7]; /* q, k, v, output, gate, up, down */
    uint32_t embd_type, output_type;
    uint32_t n_embd, n_ff, n_heads, n_kv_heads, head_k, head_v, vocab;
    uint32_t batch, rows, sequences, blocks; /* blocks: of KV per sequence */
    bool bias, ff_bias, norms, neox;
    bool factors; /* of two in three matrices */
    bool late;    /* hunyuan-dense: norms of heads after RoPE */
    bool wide;    /* olmo2: norms of all heads together, none before the products */
    uint32_t n_rot;
    uint32_t type_k, type_v;
    uint32_t kv_slices;
    uint32_t window; /* not 0: blocks are a ring, for at least this many tokens and a step */
    bool sinks;
    float cap; /* of attention and logits; 0: none */
    /* Of the types of gate, up, down; 0: dense. */
    uint32_t experts, used, shared_ff;
    bool expert_bias, choice_bias, sigmoid, norm, clamped;
    uint32_t groups, groups_used; /* of experts */
    uint32_t cells;               /* of attention; at most this, or 0 where no sequence has two splits */
    bool both;                    /* attention to both sides */
    /* Latent attention, kv_rank above 0: K is head_k wide, V head_v, and there is one KV head. */
    uint32_t kv_rank, q_rank, nope, dim_v;
};

struct gpu_model {
    struct gpu_model_want want;
    struct shape shape;
    struct gguf_tensor tensors[GPU_MODEL_TENSORS];
    char names[GPU_MODEL_TENSORS][32];
    uint32_t n_tensors;
    void *tables;
    struct graph graph;
    struct device_model model;
    uint64_t bytes[DEVICE_ARENAS][GRAPH_MAX_SLICES]; /* 0: no such slice */
    uint8_t *before[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    uint8_t *cpu[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    uint8_t *gpu[DEVICE_ARENAS][GRAPH_MAX_SLICES];
};

static inline const struct gguf_tensor *gpu_model_tensor(struct gpu_model *m, const char *name, uint32_t type,
                                                         uint32_t cols, uint32_t rows) {
    assert_true(m->n_tensors < GPU_MODEL_TENSORS);
    struct gguf_tensor *t = &m->tensors[m->n_tensors];
    snprintf(m->names[m->n_tensors], sizeof m->names[0], "%s", name);
    t->name = (struct gguf_text){m->names[m->n_tensors], strlen(name)};
    t->type = type;
    t->n_dims = rows > 0 ? 2 : 1;
    t->ne[0] = cols;
    t->ne[1] = rows > 0 ? rows : 1;
    t->ne[2] = t->ne[3] = 1;
    t->bytes = type == BLOCK_F32 ? t->ne[0] * t->ne[1] * sizeof(float) : 0;
    m->n_tensors++;
    return t;
}

static inline const struct gguf_tensor *gpu_model_cube(struct gpu_model *m, const char *name, uint32_t type,
                                                       uint32_t cols, uint32_t rows, uint32_t matrices) {
    const struct gguf_tensor *t = gpu_model_tensor(m, name, type, cols, rows);
    m->tensors[m->n_tensors - 1].n_dims = 3;
    m->tensors[m->n_tensors - 1].ne[2] = matrices;
    return t;
}

static inline const struct gguf_tensor *gpu_model_matrices(struct gpu_model *m, const char *name,
                                                           uint32_t type, uint32_t cols, uint32_t rows) {
    return gpu_model_cube(m, name, type, cols, rows, m->want.experts);
}

static inline void gpu_model_experts(struct gpu_model *m, struct shape *s) {
    const struct gpu_model_want *w = &m->want;
    struct shape_experts_tensors *t = &s->layers[0].experts;
    s->experts = (struct shape_experts){.count = w->experts,
                                        .used = w->used,
                                        .ff = w->n_ff,
                                        .shared_ff = w->shared_ff,
                                        .sigmoid = w->sigmoid,
                                        .norm = w->norm,
                                        .scale = 1.5f,
                                        .clamped = w->clamped,
                                        .groups = w->groups,
                                        .groups_used = w->groups_used,
                                        .alpha = 1.702f,
                                        .limit = 0.5f};
    t->router = gpu_model_tensor(m, "router", BLOCK_F32, w->n_embd, w->experts);
    t->gate = gpu_model_matrices(m, "gate_exps", w->type[4], w->n_embd, w->n_ff);
    t->up = gpu_model_matrices(m, "up_exps", w->type[5], w->n_embd, w->n_ff);
    t->down = gpu_model_matrices(m, "down_exps", w->type[6], w->n_ff, w->n_embd);
    if (w->expert_bias) {
        t->router_bias = gpu_model_tensor(m, "router_bias", BLOCK_F32, w->experts, 0);
        t->gate_bias = gpu_model_tensor(m, "gate_bias", BLOCK_F32, w->n_ff, w->experts);
        t->up_bias = gpu_model_tensor(m, "up_bias", BLOCK_F32, w->n_ff, w->experts);
        t->down_bias = gpu_model_tensor(m, "down_bias", BLOCK_F32, w->n_embd, w->experts);
    }
    if (w->choice_bias)
        t->choice_bias = gpu_model_tensor(m, "choice_bias", BLOCK_F32, w->experts, 0);
    if (w->shared_ff == 0)
        return;
    t->shared_gate = gpu_model_tensor(m, "shared_gate", w->type[4], w->n_embd, w->shared_ff);
    t->shared_up = gpu_model_tensor(m, "shared_up", w->type[5], w->n_embd, w->shared_ff);
    t->shared_down = gpu_model_tensor(m, "shared_down", w->type[6], w->shared_ff, w->n_embd);
    if (w->norm)
        t->shared_router = gpu_model_tensor(m, "shared_router", BLOCK_F32, w->n_embd, 0);
}

static inline void gpu_model_factors(struct gpu_model *m) {
    const uint32_t n = m->n_tensors;
    for (uint32_t i = 0; i < n; i++) {
        if (m->tensors[i].n_dims == 1 || i % 3 == 1)
            continue;
        gpu_model_tensor(m, "factor", BLOCK_F32, (uint32_t)m->tensors[i].ne[2], 0);
        m->tensors[i].factor = (int32_t)(m->n_tensors - 1 - i);
        m->shape.n_factors++;
    }
}

/* The tensors of latent attention. */
static inline void gpu_model_latent(struct gpu_model *m) {
    const struct gpu_model_want *w = &m->want;
    struct shape *s = &m->shape;
    struct shape_layer *l = &s->layers[0];
    const uint32_t q = w->n_heads * (w->nope + w->n_rot);
    assert_true(w->n_kv_heads == 1 && w->head_v == arith_round_up(w->kv_rank, 32) &&
                w->head_k == arith_round_up(w->kv_rank + w->n_rot, 32));
    s->latent = true;
    s->mla =
        (struct shape_mla){.kv_rank = w->kv_rank, .q_rank = w->q_rank, .nope = w->nope, .dim_v = w->dim_v};
    if (w->q_rank == 0) {
        l->q = gpu_model_tensor(m, "q", w->type[0], w->n_embd, q);
    } else {
        l->own[PARTS_Q_A] = gpu_model_tensor(m, "q_a", w->type[0], w->n_embd, w->q_rank);
        l->own[PARTS_Q_A_NORM] = gpu_model_tensor(m, "q_a_norm", BLOCK_F32, w->q_rank, 0);
        l->own[PARTS_Q_B] = gpu_model_tensor(m, "q_b", w->type[0], w->q_rank, q);
    }
    l->own[PARTS_KV_A] = gpu_model_tensor(m, "kv_a", w->type[0], w->n_embd, w->kv_rank + w->n_rot);
    l->own[PARTS_KV_A_NORM] = gpu_model_tensor(m, "kv_a_norm", BLOCK_F32, w->kv_rank, 0);
    l->own[PARTS_K_B] = gpu_model_cube(m, "k_b", w->type[1], w->nope, w->kv_rank, w->n_heads);
    l->own[PARTS_V_B] = gpu_model_cube(m, "v_b", w->type[2], w->kv_rank, w->dim_v, w->n_heads);
    l->attn_output = gpu_model_tensor(m, "o", w->type[3], w->n_heads * w->dim_v, w->n_embd);
}

/* q, k, v and the product behind attention. */
static inline void gpu_model_attention(struct gpu_model *m) {
    const struct gpu_model_want *w = &m->want;
    struct shape_layer *l = &m->shape.layers[0];
    const uint32_t q = w->n_heads * w->head_k, k = w->n_kv_heads * w->head_k, v = w->n_kv_heads * w->head_v;
    l->q = gpu_model_tensor(m, "q", w->type[0], w->n_embd, q);
    l->k = gpu_model_tensor(m, "k", w->type[1], w->n_embd, k);
    l->v = gpu_model_tensor(m, "v", w->type[2], w->n_embd, v);
    if (w->bias) {
        l->q_bias = gpu_model_tensor(m, "q_bias", BLOCK_F32, q, 0);
        l->k_bias = gpu_model_tensor(m, "k_bias", BLOCK_F32, k, 0);
        l->v_bias = gpu_model_tensor(m, "v_bias", BLOCK_F32, v, 0);
        l->attn_output_bias = gpu_model_tensor(m, "o_bias", BLOCK_F32, w->n_embd, 0);
    }
    if (w->wide) {
        l->q_norm = gpu_model_tensor(m, "q_norm", BLOCK_F32, q, 0);
        l->k_norm = gpu_model_tensor(m, "k_norm", BLOCK_F32, k, 0);
        for (int i = 0; i < 2; i++)
            l->own[i] = gpu_model_tensor(m, i == 0 ? "attn_post" : "ffn_post", BLOCK_F32, w->n_embd, 0);
    } else if (w->norms || w->late) {
        l->q_norm = gpu_model_tensor(m, "q_norm", BLOCK_F32, w->head_k, 0);
        l->k_norm = gpu_model_tensor(m, "k_norm", BLOCK_F32, w->head_k, 0);
    }
    if (w->sinks)
        l->sinks = gpu_model_tensor(m, "sinks", BLOCK_F32, w->n_heads, 0);
    l->attn_output = gpu_model_tensor(m, "o", w->type[3], w->n_heads * w->head_v, w->n_embd);
}

static inline void gpu_model_shape(struct gpu_model *m) {
    const struct gpu_model_want *w = &m->want;
    struct shape *s = &m->shape;
    s->arch = arch_find(w->kv_rank > 0 ? "deepseek2"
                        : w->wide      ? "olmo2"
                        : w->late      ? "hunyuan-dense"
                                       : "llama");
    s->sees_ahead = w->both;
    s->n_layers = 1;
    s->n_embd = w->n_embd;
    s->n_ff = w->n_ff;
    s->n_heads = w->n_heads;
    s->n_kv_heads = w->n_kv_heads;
    s->head_dim_k = w->head_k;
    s->head_dim_v = w->head_v;
    s->n_rot = w->n_rot;
    s->rope_neox = w->neox;
    s->norm_eps = 1e-5f;
    s->attention_scale = 0.125f;
    s->attention_cap = s->logit_cap = w->cap;
    s->vocab = w->vocab;
    s->token_embd = gpu_model_tensor(m, "token_embd", w->embd_type, w->n_embd, w->vocab);
    s->output = gpu_model_tensor(m, "output", w->output_type, w->n_embd, w->vocab);
    s->output_norm = gpu_model_tensor(m, "output_norm", BLOCK_F32, w->n_embd, 0);
    struct shape_layer *l = &s->layers[0];
    l->attn_norm = gpu_model_tensor(m, "attn_norm", BLOCK_F32, w->n_embd, 0);
    if (w->kv_rank > 0)
        gpu_model_latent(m);
    else
        gpu_model_attention(m);
    l->ffn_norm = gpu_model_tensor(m, "ffn_norm", BLOCK_F32, w->n_embd, 0);
    if (w->experts > 0) {
        gpu_model_experts(m, s);
        return;
    }
    l->gate = gpu_model_tensor(m, "gate", w->type[4], w->n_embd, w->n_ff);
    l->up = gpu_model_tensor(m, "up", w->type[5], w->n_embd, w->n_ff);
    l->down = gpu_model_tensor(m, "down", w->type[6], w->n_ff, w->n_embd);
    if (w->ff_bias) {
        l->gate_bias = gpu_model_tensor(m, "gate_bias", BLOCK_F32, w->n_ff, 0);
        l->up_bias = gpu_model_tensor(m, "up_bias", BLOCK_F32, w->n_ff, 0);
        l->down_bias = gpu_model_tensor(m, "down_bias", BLOCK_F32, w->n_embd, 0);
    }
}

/* Values one after the other with gaps, weights cut at a random panel over slices 0 and 1. */
static inline void gpu_model_place(struct gpu_model *m, uint64_t *seed) {
    struct graph *g = &m->graph;
    uint64_t at[2] = {GPU_MODEL_GAP, arith_round_up(m->model.step_bytes, 64) + GPU_MODEL_GAP};
    for (uint32_t i = 0; i < g->n_values; i++) {
        struct graph_value *v = &g->values[i];
        v->offset = at[v->arena];
        at[v->arena] += v->bytes + GPU_MODEL_GAP;
    }
    m->bytes[DEVICE_SCRATCH][0] = g->scratch_bytes = at[GRAPH_SCRATCH];
    m->bytes[DEVICE_EXCHANGE][0] = g->exchange_bytes = at[GRAPH_EXCHANGE];
    uint64_t *slice = m->bytes[DEVICE_WEIGHTS];
    for (uint32_t i = 0; i < g->n_weights; i++) {
        struct graph_weight *w = &g->weights[i];
        uint32_t whole = w->matrices > 1 ? w->layout.panels : 1; /* panels that are not cut */
        uint32_t panels = graph_weight_panels(w), cuts = panels / whole;
        uint32_t first =
            whole * (cuts > 1 && testing_below(seed, 2) ? 1 + (uint32_t)testing_below(seed, cuts - 1) : cuts);
        w->n_pieces = first < panels ? 2 : 1;
        for (uint32_t p = 0; p < w->n_pieces; p++) {
            uint32_t n = p == 0 ? first : panels - first;
            w->pieces[p] = (struct graph_piece){
                .slice = p, .first_panel = p == 0 ? 0 : first, .panels = n, .offset = slice[p]};
            slice[p] += arith_round_up(w->packed ? (uint64_t)n * w->layout.panel_bytes : w->bytes, 64) +
                        GPU_MODEL_GAP;
        }
    }
    slice[1] += GPU_MODEL_GAP;
    g->weight_slices = 2;
    struct device_cache *kv = &m->model.caches[0];
    uint32_t units = m->want.n_kv_heads;
    kv->units_per_slice = (uint32_t)arith_ceil_div(units, m->want.kv_slices);
    for (uint32_t i = 0; i * kv->units_per_slice < units; i++)
        m->bytes[DEVICE_KV][i] =
            ARITH_MIN(kv->units_per_slice, units - i * kv->units_per_slice) * kv->unit_bytes;
}

/* One row of n weights of size about 0.05, as in a file. */
static inline void gpu_model_row(uint64_t *seed, uint32_t type, uint8_t *row, uint32_t n) {
    const struct block_info *info = block_info(type);
    for (uint32_t i = 0; i < n / info->values; i++) {
        uint8_t *block = row + (size_t)i * info->bytes;
        float w = 0.1f * testing_uniform(seed);
        if (type == BLOCK_F32) {
            memcpy(block, &w, 4);
        } else if (type == BLOCK_BF16) {
            memcpy(block, (uint8_t *)&w + 2, 2);
        } else if (type == BLOCK_F16) {
            uint16_t h = block_to_f16(w);
            memcpy(block, &h, 2);
        } else {
            kernel_check_random_bytes(seed, block, info->bytes);
            bool k = info->values == 256;
            if (type == BLOCK_MXFP4)
                block[0] = (uint8_t)(119 + block[0] % 4);
            else
                block_put_scales(type, block,
                                 w * (type == BLOCK_Q8_0 || type == BLOCK_IQ4_NL ? 0.01f
                                      : k                                        ? 0.003f
                                                                                 : 0.1f),
                                 w * (k ? 0.02f : 0.5f));
        }
    }
}

static inline void gpu_model_fill_weight(struct gpu_model *m, uint64_t *seed, const struct graph_weight *w) {
    uint8_t **slices = m->before[DEVICE_WEIGHTS];
    if (!w->packed) {
        float *to = (float *)(void *)(slices[0] + w->pieces[0].offset);
        for (uint64_t i = 0; i < w->tensor->ne[0] * w->tensor->ne[1]; i++)
            to[i] = 1.0f + 0.5f * testing_uniform(seed);
        return;
    }
    uint64_t row_bytes = 0;
    assert_true(block_row_bytes(w->layout.file, w->layout.cols, &row_bytes));
    uint8_t *rows = malloc(PANEL_ROWS * row_bytes);
    assert_non_null(rows);
    for (uint32_t p = 0; p < graph_weight_panels(w); p++) {
        uint32_t n = ARITH_MIN(w->layout.rows - p % w->layout.panels * PANEL_ROWS, (uint32_t)PANEL_ROWS);
        for (uint32_t r = 0; r < n; r++)
            gpu_model_row(seed, w->layout.file, rows + r * row_bytes, w->layout.cols);
        const struct graph_piece *piece = &w->pieces[p >= w->pieces[0].panels];
        panel_pack(&w->layout, rows, n,
                   slices[piece->slice] + piece->offset +
                       (uint64_t)(p - piece->first_panel) * w->layout.panel_bytes);
    }
    free(rows);
}

/* One head's K, or V, of a block. */
static inline void gpu_model_fill_kv(uint64_t *seed, uint32_t type, uint32_t dim, uint8_t *at) {
    uint64_t bytes = kernels_kv_bytes(type, dim), scales = (uint64_t)dim / 32 * KERNELS_KV_BLOCK;
    if (type == KERNELS_KV_F32) {
        kernel_check_random_floats(seed, (float *)(void *)at, bytes / 4, 1);
        return;
    }
    kernel_check_random_bytes(seed, at, bytes);
    uint16_t *halves = (uint16_t *)(void *)at;
    uint64_t first = type == KERNELS_KV_F16 ? 0 : bytes / 2 - scales;
    for (uint64_t i = first; i < bytes / 2; i++)
        halves[i] = block_to_f16(testing_uniform(seed) * (first == 0 ? 1.0f : 0.05f));
}

static inline uint32_t gpu_model_take(uint64_t *at, uint64_t n, uint64_t size) {
    uint64_t here = *at;
    *at = arith_round_up(*at + n * size, 64);
    return (uint32_t)here;
}

/* Everything but the step's numbers. Free it with gpu_model_free. */
static inline struct gpu_model *gpu_model_new(const struct gpu_model_want *want, uint64_t *seed) {
    struct gpu_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->want = *want;
    gpu_model_shape(m);
    if (want->factors)
        gpu_model_factors(m);
    struct carve c = carve_count();
    struct graph none;
    arch_layout(&none, &c, &m->shape, 1);
    m->tables = aligned_alloc(64, arith_round_up(c.used, 64));
    assert_non_null(m->tables);
    c = carve_in(m->tables, c.used);
    arch_layout(&m->graph, &c, &m->shape, 1);
    uint32_t cells = device_cells(&(struct device_facts){0}, want->blocks * KERNELS_KV_BLOCK, want->sequences,
                                  3, want->batch);
    struct graph_want gw = {.batch = want->batch,
                            .logits_rows = want->rows,
                            .kv_type_k = want->type_k,
                            .kv_type_v = want->type_v,
                            .cells = ARITH_MIN(want->cells, cells),
                            .counted = true,
                            .experts_apart = true};
    assert_int_equal(arch_build(&m->graph, &m->shape, &gw, NULL), STATOR_OK);
    assert_int_equal(m->graph.n_caches, 1);
    struct graph_cache *cache = &m->graph.caches[0];
    if (want->window > 0) {
        assert_true(want->blocks * KERNELS_KV_BLOCK >= want->window + want->batch - 1 + 31);
        cache->kind = GRAPH_RING;
        cache->window = want->window;
    }
    struct device_cache *kv = &m->model.caches[0];
    *kv = (struct device_cache){.n_blocks = want->blocks * want->sequences, .per_sequence = want->blocks};
    kv->unit_bytes = cache->bytes * kv->n_blocks;
    uint64_t at = arith_round_up(step_header_bytes(1), 64);
    struct step_header *h = &m->model.step;
    h->n_caches = 1;
    h->cache[0].table_stride = kv->per_sequence;
    h->rope_stride = want->n_rot;
    h->at_tokens = gpu_model_take(&at, want->batch, 4);
    h->at_chunks = gpu_model_take(&at, want->sequences, sizeof(struct step_chunk));
    h->at_rows = gpu_model_take(&at, want->rows, 4);
    h->cache[0].at_fill = gpu_model_take(&at, kv->n_blocks, sizeof(struct step_fill));
    h->cache[0].at_tables = gpu_model_take(&at, kv->n_blocks, 4);
    h->at_rope = gpu_model_take(&at, (uint64_t)want->batch * want->n_rot, 4);
    m->model.step_bytes = at;
    m->model.graph = &m->graph;
    m->model.sequences = want->sequences;
    m->model.slots = 1;
    gpu_model_place(m, seed);
    for (int a = 0; a < DEVICE_ARENAS; a++) {
        for (int s = 0; s < GRAPH_MAX_SLICES; s++) {
            if (m->bytes[a][s] == 0)
                continue;
            uint64_t n = m->bytes[a][s] = arith_round_up(m->bytes[a][s], 64);
            m->before[a][s] = aligned_alloc(64, n);
            m->cpu[a][s] = aligned_alloc(64, n);
            m->gpu[a][s] = aligned_alloc(64, n);
            assert_true(m->before[a][s] != NULL && m->cpu[a][s] != NULL && m->gpu[a][s] != NULL);
            memset(m->before[a][s], GPU_MODEL_PATTERN, n);
        }
    }
    for (uint32_t i = 0; i < m->graph.n_values; i++) {
        const struct graph_value *v = &m->graph.values[i];
        if (strcmp(v->name, "attn_arrivals") == 0)
            memset(m->before[DEVICE_EXCHANGE][0] + v->offset, 0, v->bytes);
    }
    for (uint32_t i = 0; i < m->graph.n_weights; i++)
        gpu_model_fill_weight(m, seed, &m->graph.weights[i]);
    for (int s = 0; m->bytes[DEVICE_KV][s] > 0; s++) {
        uint8_t *block = m->before[DEVICE_KV][s], *end = block + m->bytes[DEVICE_KV][s];
        for (; block < end; block += cache->bytes) {
            gpu_model_fill_kv(seed, want->type_k, want->head_k, block);
            if (want->kv_rank == 0)
                gpu_model_fill_kv(seed, want->type_v, want->head_v, block + cache->k_bytes);
        }
    }
    return m;
}

static inline void gpu_model_free(struct gpu_model *m) {
    for (int a = 0; a < DEVICE_ARENAS; a++) {
        for (int s = 0; s < GRAPH_MAX_SLICES; s++) {
            free(m->before[a][s]);
            free(m->cpu[a][s]);
            free(m->gpu[a][s]);
        }
    }
    free(m->tables);
    free(m);
}

/* Describes a step of `tokens` tokens in up to `sequences` chunks at random positions, in all of which the
 * cache holds what it was filled with. */
static inline void gpu_model_step(struct gpu_model *m, uint64_t *seed, uint32_t tokens, uint32_t rows) {
    const struct gpu_model_want *w = &m->want;
    uint8_t *slot = m->before[DEVICE_EXCHANGE][0];
    memset(slot, 0, m->model.step_bytes);
    struct step_header *h = (struct step_header *)(void *)slot;
    *h = m->model.step;
    h->run_body = 1;
    h->n_tokens = tokens;
    h->n_rows = rows;
    int32_t *ids = (int32_t *)(void *)(slot + h->at_tokens);
    struct step_chunk *chunks = (struct step_chunk *)(void *)(slot + h->at_chunks);
    uint32_t *row = (uint32_t *)(void *)(slot + h->at_rows);
    struct step_fill *fill = (struct step_fill *)(void *)(slot + h->cache[0].at_fill);
    uint32_t *tables = (uint32_t *)(void *)(slot + h->cache[0].at_tables);
    for (uint32_t i = 0; i < tokens; i++)
        ids[i] = (int32_t)testing_below(seed, w->vocab);
    for (uint32_t i = 0; i < rows; i++)
        row[i] = (uint32_t)testing_below(seed, tokens);
    kernel_check_random_floats(seed, (float *)(void *)(slot + h->at_rope), (size_t)tokens * w->n_rot, 1);
    /* Blocks are dealt out backwards, so that no table is the identity. */
    for (uint32_t i = 0; i < m->model.caches[0].n_blocks; i++)
        tables[i] = m->model.caches[0].n_blocks - 1 - i;
    uint32_t done = 0;
    while (done < tokens) {
        uint32_t c = h->n_chunks++;
        bool last = h->n_chunks == w->sequences;
        uint32_t n = last ? tokens - done : 1 + (uint32_t)testing_below(seed, tokens - done);
        uint32_t room = (w->window > 0 ? 1200 : w->blocks * KERNELS_KV_BLOCK) - n;
        chunks[c] = (struct step_chunk){.slot = (c + 1) % w->sequences,
                                        .first = done,
                                        .n = n,
                                        .position = (uint32_t)testing_below(seed, room + 1)};
        done += n;
    }
    /* A block that is cleared in the step, and one that is copied. */
    const uint32_t blocks = m->model.caches[0].n_blocks;
    const uint32_t any = (uint32_t)testing_below(seed, blocks);
    h->cache[0].n_fill = blocks < 3 ? 1 : 2;
    fill[0] = (struct step_fill){any, STEP_ZEROS};
    fill[1] = (struct step_fill){(any + 1) % blocks, (any + 2) % blocks};
}

/* The step on the CPU device in the scalar tier: before -> cpu. */
enum { GPU_MODEL_OPS = 256 };

static inline void gpu_model_run_cpu(struct gpu_model *m) {
    /* Where rows of experts lie apart, a CPU leaves them to whoever mixes them; here it shall mix them
     * itself. */
    uint32_t apart[GPU_MODEL_OPS];
    assert_true(m->graph.n_ops <= GPU_MODEL_OPS);
    for (uint32_t i = 0; i < m->graph.n_ops; i++) {
        apart[i] = m->graph.ops[i].work;
        if (m->graph.ops[i].kind == GRAPH_EXPERTS)
            m->graph.ops[i].work = GRAPH_NONE;
    }
    struct device_options o = {.threads = 1, .tier = "scalar", .cpu_devices = 1};
    struct device_choice choice;
    uint32_t n = 0;
    stator_error e = {0};
    if (device_choose("cpu", &o, &choice, 1, &n, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    choice.pinned = false;
    uint64_t bytes = device_host_bytes(&choice, &m->model, false);
    void *memory = aligned_alloc(4096, arith_round_up(bytes, 4096));
    assert_non_null(memory);
    struct phase phase = {0};
    struct device *d = NULL;
    const struct device_opening opening = {
        .choice = &choice, .model = &m->model, .phase = &phase, .memory = memory, .bytes = bytes};
    if (device_open(&opening, &d, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (int a = 0; a < DEVICE_ARENAS; a++) {
        for (uint32_t s = 0; s < GRAPH_MAX_SLICES; s++) {
            if (m->bytes[a][s] == 0)
                continue;
            if (d->vtable->slice_create(d, (enum device_arena)a, s, m->bytes[a][s], &e) != STATOR_OK)
                fail_msg("%s", e.text);
            memcpy(d->vtable->map(d, (enum device_arena)a, s), m->before[a][s], m->bytes[a][s]);
        }
    }
    struct device_setup setup = {0};
    assert_int_equal(d->vtable->prepare(d, &setup, &e), STATOR_OK);
    memcpy(d->vtable->step_slot(d, 0), m->before[DEVICE_EXCHANGE][0], m->model.step_bytes);
    assert_int_equal(d->vtable->submit(d, 0, &e), STATOR_OK);
    for (int a = 0; a < DEVICE_ARENAS; a++)
        for (uint32_t s = 0; s < GRAPH_MAX_SLICES; s++)
            if (m->bytes[a][s] > 0)
                memcpy(m->cpu[a][s], d->vtable->map(d, (enum device_arena)a, s), m->bytes[a][s]);
    d->vtable->close(d);
    free(memory);
    for (uint32_t i = 0; i < m->graph.n_ops; i++)
        m->graph.ops[i].work = apart[i];
}

/* The value, form and row that byte `at` of the arena belongs to. */
static inline void gpu_model_fail_at(const struct gpu_model *m, int arena, uint64_t at, const char *what) {
    const struct graph *g = &m->graph;
    for (uint32_t i = 0; i < g->n_values; i++) {
        const struct graph_value *v = &g->values[i];
        int there = v->arena == GRAPH_SCRATCH ? DEVICE_SCRATCH : DEVICE_EXCHANGE;
        if (there != arena || at < v->offset || at >= v->offset + v->bytes)
            continue;
        static const char *const names[] = {"f32", "q32", "d32", "s32", "q256", "d256", "s256"};
        uint64_t form[] = {v->f32, v->q32, v->d32, v->s32, v->q256, v->d256, v->s256};
        uint64_t row[] = {v->width * 4ull, v->width,           v->width / 32 * 4, v->width / 32 * 2,
                          v->width,        v->width / 256 * 4, v->width / 16 * 2};
        for (int f = 6; f >= 0; f--)
            if (form[f] != UINT64_MAX && at - v->offset >= form[f])
                fail_msg("%s: value %s, form %s, row %llu, byte %llu", what, v->name, names[f],
                         (unsigned long long)((at - v->offset - form[f]) / row[f]),
                         (unsigned long long)((at - v->offset - form[f]) % row[f]));
    }
    fail_msg("%s: arena %d, byte %llu, between values", what, arena, (unsigned long long)at);
}

/* Bytes of scratch that only one of them writes: the CPU writes floats of a product that is used as integers
 * only, and k and v next to q; the GPU writes the cells of attention. */
static inline void gpu_model_ignore(const struct gpu_model *m, uint8_t *ignored) {
    const struct graph *g = &m->graph;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *o = &g->ops[i];
        if (o->out == GRAPH_NONE)
            continue;
        const struct graph_value *v = &g->values[o->out];
        if (o->work != GRAPH_NONE && o->kind != GRAPH_ROPE_STORE)
            memset(ignored + g->values[o->work].offset, 1, g->values[o->work].bytes);
        if (o->kind == GRAPH_ROUTE) { /* items: the CPU's are whole experts */
            uint32_t slots = g->want.batch * o->experts.used;
            memset(ignored + v->offset + v->f32, 1, EXPERTS_HEAD * 4);
            memset(ignored + v->offset + v->f32 + EXPERTS_ITEMS(slots) * 4, 1,
                   (EXPERTS_TOKEN(slots) - EXPERTS_ITEMS(slots)) * 4);
        }
        if ((o->kind == GRAPH_MATMUL || o->kind == GRAPH_EXPERTS) && o->epilogue == GRAPH_SWIGLU &&
            v->forms != GRAPH_F32)
            memset(ignored + v->offset + v->f32, 1, (size_t)v->rows * v->width * 4);
        if (o->kind == GRAPH_ROPE_STORE && o->rope.latent == 0) {
            uint32_t q = m->want.n_heads * m->want.head_k;
            for (uint32_t r = 0; r < v->rows; r++)
                memset(ignored + v->offset + v->f32 + ((size_t)r * v->width + q) * 4, 1,
                       (size_t)(v->width - q) * 4);
        }
    }
}

/* Scratch first: a difference there is nearer to the cause than its consequences. */
static inline void gpu_model_compare(const struct gpu_model *m, const char *what) {
    static const int order[] = {DEVICE_SCRATCH, DEVICE_KV, DEVICE_EXCHANGE, DEVICE_WEIGHTS};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        int a = order[i];
        for (int s = 0; s < GRAPH_MAX_SLICES; s++) {
            uint64_t n = m->bytes[a][s];
            if (n == 0)
                continue;
            uint8_t *ignored = calloc(1, n);
            assert_non_null(ignored);
            if (a == DEVICE_SCRATCH)
                gpu_model_ignore(m, ignored);
            for (uint64_t at = 0; at < n; at++)
                if (m->cpu[a][s][at] != m->gpu[a][s][at] && !ignored[at])
                    gpu_model_fail_at(m, a, at, what);
            free(ignored);
        }
    }
}

#endif
