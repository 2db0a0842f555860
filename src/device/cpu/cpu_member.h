/* What the functions that run ops share (cpu_step.c, cpu_delta.c, cpu_exchange.c, cpu_experts.c,
 * cpu_index.c, cpu_nextn.c): a member of the team in a step, and where things are. */
#ifndef STATOR_DEVICE_CPU_MEMBER_H
#define STATOR_DEVICE_CPU_MEMBER_H

#include "device/cpu/cpu_device.h"

#include <string.h>

struct member {
    struct cpu_device *d;
    const struct graph *g;
    const struct step_header *h;
    const uint8_t *slot; /* the descriptor's bytes */
    uint32_t half;       /* the slot's number: of values with two halves */
    uint32_t id;
    uint32_t n;
    uint32_t lane; /* the device's place in its group: its sharings are the team's of this lane */
    /* EXCHANGED: members like this one of all devices of the group, and the op of each. */
    const struct member *peers;
    const struct graph_op *const *peer_ops;
};

static inline uint8_t *value_base(const struct cpu_device *d, const struct graph_value *v, uint32_t slot) {
    enum device_arena a = v->arena == GRAPH_SCRATCH ? DEVICE_SCRATCH : DEVICE_EXCHANGE;
    DCHECK(v->halves == 1 || slot < v->halves);
    return d->slices[a][0].memory + v->offset + (v->halves > 1 ? slot * v->half_bytes : 0);
}

static inline float *value_f32(const struct member *m, uint32_t value) {
    return cpu_step_value(m->d, value, m->half);
}

static inline struct kernels_act value_act(const struct member *m, uint32_t value) {
    const struct graph_value *v = &m->g->values[value];
    uint8_t *base = value_base(m->d, v, m->half);
    struct kernels_act a = {.tile_rows = v->tile_rows};
    if (v->forms & GRAPH_F32)
        a.f32 = (float *)(void *)(base + v->f32);
    if (v->forms & GRAPH_I8_32) {
        a.q32 = (int8_t *)(base + v->q32);
        a.d32 = (float *)(void *)(base + v->d32);
        a.s32 = (int16_t *)(base + v->s32);
    }
    if (v->forms & GRAPH_I8_256) {
        a.q256 = (int8_t *)(base + v->q256);
        a.d256 = (float *)(void *)(base + v->d256);
        a.s256 = (int16_t *)(base + v->s256);
    }
    return a;
}

/* Values that become int8 together; the kernels write quants side by side, from there they go to their tile.
 */
#define QUANTISED_TOGETHER 256

/* Columns column .. column + n of row `row` of a value from floats to the int8 forms that it has. */
static inline void quantise_part(const struct member *m, const struct graph_value *v,
                                 const struct kernels_act *a, uint32_t row, uint32_t column, uint32_t n,
                                 const float *x) {
    _Alignas(64) int8_t q[QUANTISED_TOGETHER];
    for (uint32_t done = 0; done < n; done += QUANTISED_TOGETHER) {
        const uint32_t here = ARITH_MIN(n - done, (uint32_t)QUANTISED_TOGETHER);
        const size_t at = (size_t)row * v->width + column + done;
        if (v->forms & GRAPH_I8_32) {
            m->d->kernels.quantise32(x + done, here, q, a->d32 + at / 32, a->s32 + at / 32);
            act_tiles_put(a->q32, q, a->tile_rows, ACT_TILE_32, v->width, row, column + done, here);
        }
        if (v->forms & GRAPH_I8_256) {
            m->d->kernels.quantise256(x + done, here, q, a->d256 + at / 256, a->s256 + at / 16);
            act_tiles_put(a->q256, q, a->tile_rows, ACT_TILE_256, v->width, row, column + done, here);
        }
    }
}

static inline void quantise_row(const struct member *m, const struct graph_value *v,
                                const struct kernels_act *a, uint32_t row, const float *x) {
    quantise_part(m, v, a, row, 0, v->width, x);
}

/* Values of a row that its int8 forms take together; 0: it has none. */
static inline uint32_t int8_group(const struct graph_value *v) {
    return v->forms & GRAPH_I8_256 ? 256 : v->forms & GRAPH_I8_32 ? 32 : 0;
}

static inline const float *plain_weight(const struct member *m, uint32_t weight) {
    const struct graph_weight *w = &m->g->weights[weight];
    CHECK(!w->packed && w->n_pieces == 1);
    return (const float *)(const void *)(m->d->slices[DEVICE_WEIGHTS][w->pieces[0].slice].memory +
                                         w->pieces[0].offset);
}

static inline const uint8_t *panel_at(const struct member *m, const struct graph_weight *w, uint32_t panel) {
    const struct graph_piece *p = w->pieces;
    while (panel >= p->first_panel + p->panels)
        p++;
    DCHECK(p < w->pieces + w->n_pieces);
    return m->d->slices[DEVICE_WEIGHTS][p->slice].memory + p->offset +
           (uint64_t)(panel - p->first_panel) * w->layout.panel_bytes;
}

static inline uint32_t share_begin(const struct member *m, uint64_t items) {
    return (uint32_t)(items * m->id / m->n);
}

static inline uint32_t share_end(const struct member *m, uint64_t items) {
    return (uint32_t)(items * (m->id + 1) / m->n);
}

/* Block `block` of a layer's unit. */
static inline uint8_t *cache_block(const struct member *m, uint32_t cache, uint32_t layer, uint32_t unit,
                                   uint32_t block) {
    const struct graph_cache *g = &m->g->caches[cache];
    const struct device_cache *c = &m->d->model.caches[cache];
    DCHECK(block < c->n_blocks && unit < g->units && layer < g->n_layers);
    unit += layer * g->units;
    return m->d->slices[DEVICE_KV][m->d->cache_slice[cache] + unit / c->units_per_slice].memory +
           (uint64_t)(unit % c->units_per_slice) * c->unit_bytes + (uint64_t)block * g->bytes;
}

static inline const uint32_t *block_table(const struct member *m, uint32_t cache, uint32_t slot) {
    DCHECK(cache < m->h->n_caches && slot < m->d->model.sequences);
    const struct step_cache *c = &m->h->cache[cache];
    return (const uint32_t *)(m->slot + c->at_tables) + (size_t)slot * c->table_stride;
}

/* The member's own floats, device->norm_stride of them. */
static inline float *own_floats(const struct member *m) {
    return m->d->norm_rows + (size_t)m->id * m->d->norm_stride;
}

/* Where a row's floats are made, from a column on: in the value, or the member's own if it has only int8. */
static inline float *floats_at(const struct member *m, const struct kernels_act *a, uint32_t width,
                               uint32_t row, uint32_t column) {
    return a->f32 != NULL ? a->f32 + (size_t)row * width + column : own_floats(m);
}

/* The chunk that a token of the step is in. */
static inline const struct step_chunk *chunk_of(const struct member *m, uint32_t token) {
    DCHECK(token < m->h->n_tokens);
    const struct step_chunk *c = (const struct step_chunk *)(m->slot + m->h->at_chunks);
    while (token >= c->first + c->n)
        c++;
    return c;
}

/* Rows that the op works on: those of the step's tokens, or in the tail the wanted ones. */
static inline uint32_t member_rows(const struct member *m, const struct graph_op *op) {
    return op->wanted || op >= m->g->ops + m->g->tail ? m->h->n_rows : m->h->n_tokens;
}

/* cpu_step.c: what attention's kernel works on, for queries first .. first + n of a chunk; int8 of what has
 * not become it where it was made, which are rows that several members wrote. */
struct kernels_attention cpu_step_attention(const struct member *m, const struct graph_op *op,
                                            const struct step_chunk *c, uint32_t head, uint32_t first,
                                            uint32_t n);
void cpu_step_quantise(const struct member *m, const struct graph_op *op);

/* cpu_exchange.c */
void cpu_exchange_run(const struct member *m, const struct graph_op *op);

/* cpu_tower.c */
void cpu_tower_gelu(const struct member *m, const struct graph_op *op);
void cpu_tower_merge(const struct member *m, const struct graph_op *op);
void cpu_tower_project(const struct member *m, const struct graph_op *op);
void cpu_tower_blend(const struct member *m, const struct graph_op *op);
void cpu_tower_spread(const struct member *m, const struct graph_op *op);
void cpu_tower_features(const struct member *m, const struct graph_op *op);
/* Whether all queries of a chunk see the same, and then their attention. */
bool cpu_tower_groups_queries(const struct member *m, const struct graph_op *op);
void cpu_tower_attention(const struct member *m, const struct graph_op *op);
/* cpu_index.c */
void cpu_index_store(const struct member *m, const struct graph_op *op);
void cpu_index_choose(const struct member *m, const struct graph_op *op);
/* Attention of one query, token `token` of the step, to what its list names; in `a` its position is the last
 * place of the list, and the splits are the list's. */
void cpu_index_attention(const struct member *m, const struct graph_op *op, uint32_t token,
                         const struct kernels_attention *a);
/* cpu_streams.c */
void cpu_streams_norm(const struct member *m, const struct graph_op *op);
void cpu_streams_silu(const struct member *m, const struct graph_op *op);
void cpu_streams_mix(const struct member *m, const struct graph_op *op);
void cpu_streams_inject(const struct member *m, const struct graph_op *op);
/* cpu_gated_conv.c */
void cpu_gated_conv(const struct member *m, const struct graph_op *op);
/* cpu_ngram.c */
void cpu_ngram_gate(const struct member *m, const struct graph_op *op);
void cpu_ngram_conv(const struct member *m, const struct graph_op *op);
/* cpu_delta.c */
void cpu_delta_conv(const struct member *m, const struct graph_op *op);
void cpu_delta_rule(const struct member *m, const struct graph_op *op);
void cpu_delta_gate(const struct member *m, const struct graph_op *op);
/* The sums of token j, n rows from the first panel on, which lie panel after panel. */
static inline void take_sums(const struct member *m, const float *sums, uint32_t j, uint32_t n, float *to) {
    sums += (size_t)j * PANEL_ROWS;
    uint32_t r = 0;
    for (; n - r >= PANEL_ROWS; r += PANEL_ROWS, sums += m->d->sums_panel)
        memcpy(to + r, sums, PANEL_ROWS * sizeof *to);
    if (r < n)
        memcpy(to + r, sums, (n - r) * sizeof *to);
}

/* Sums of so many panels and tokens times what op's weight i has for that matrix, if anything. */
static inline void scale_sums(const struct member *m, const struct graph_op *op, uint32_t i, uint32_t matrix,
                              uint32_t n_panels, uint32_t tokens, float *sums) {
    if (op->factor[i] == GRAPH_NONE)
        return;
    const float factor = plain_weight(m, op->factor[i])[matrix];
    for (uint32_t p = 0; p < n_panels; p++, sums += m->d->sums_panel)
        for (uint32_t j = 0; j < tokens * PANEL_ROWS; j++)
            sums[j] = sums[j] * factor;
}

/* Sums of so many tokens, n rows of op's weight i from `row` on, which lie panel after panel, plus its bias,
 * if it has one. */
static inline void bias_sums(const struct member *m, const struct graph_op *op, uint32_t i, uint32_t row,
                             uint32_t n, uint32_t tokens, float *sums) {
    if (op->bias[i] == GRAPH_NONE)
        return;
    const float *bias = plain_weight(m, op->bias[i]) + row;
    for (uint32_t r = 0; r < n; r += PANEL_ROWS, sums += m->d->sums_panel)
        for (uint32_t j = 0; j < tokens; j++) {
            float *at = sums + (size_t)j * PANEL_ROWS;
            m->d->kernels.add(at, at, bias + r, ARITH_MIN(n - r, (uint32_t)PANEL_ROWS));
        }
}

/* Panels from `panel` on that lie one after the other. */
static inline uint32_t panels_in_piece(const struct graph_weight *w, uint32_t panel) {
    const struct graph_piece *p = w->pieces;
    while (panel >= p->first_panel + p->panels)
        p++;
    return p->first_panel + p->panels - panel;
}

/* cpu_nextn.c */
void cpu_nextn_pair(const struct member *m, const struct graph_op *op);
void cpu_nextn_keep(const struct member *m, const struct graph_op *op);

/* cpu_experts.c */
void cpu_experts_route(const struct member *m, const struct graph_op *op);
/* The rows of the step's slots, by a value that ROUTE has made. */
const uint32_t *cpu_experts_rows(const struct member *m, uint32_t routes, uint32_t used);
void cpu_experts_run(const struct member *m, const struct graph_op *op);
void cpu_experts_heads(const struct member *m, const struct graph_op *op);
/* Makes the routes of `op`, whose rows are kept apart, by one member, of the expert that each slot of the
 * step chose. map: only of experts that have EXPERTS_FAR there; NULL: of all. */
void cpu_experts_group(const struct member *m, const struct graph_op *op, const uint32_t *chosen,
                       const uint32_t *map);

#endif
