/* One step on the team: every member walks the ops in order, does its share of the work items, and meets the
 * others at a barrier where the next op reads what this one wrote. A work item, never a thread, owns an
 * output, so the number of threads changes no bit. */
#include "device/cpu/cpu_member.h"

#include "base/clock.h"
#include "device/cluster.h"

#include <string.h>

float *cpu_step_value(const struct cpu_device *d, uint32_t value, uint32_t slot) {
    const struct graph_value *v = &d->model.graph->values[value];
    CHECK(v->f32 != UINT64_MAX);
    return (float *)(void *)(value_base(d, v, slot) + v->f32);
}

uint8_t *cpu_step_slot(const struct cpu_device *d, uint32_t slot) {
    CHECK(slot < d->model.slots);
    return d->slices[DEVICE_EXCHANGE][0].memory + slot * d->model.step_bytes;
}

/* Row + 1 becomes what the int8 form of row `row` left of y, which is overwritten. */
static void quantise_remainder(const struct member *m, const struct graph_value *v,
                               const struct kernels_act *a, uint32_t row, float *y) {
    CHECK(v->forms == GRAPH_I8_32 || v->forms == GRAPH_I8_256);
    const uint32_t group = int8_group(v);
    const int8_t *quants = group == 32 ? a->q32 : a->q256;
    const float *d = (group == 32 ? a->d32 : a->d256) + (size_t)row * (v->width / group);
    _Alignas(64) int8_t q[QUANTISED_TOGETHER];
    for (uint32_t done = 0; done < v->width; done += QUANTISED_TOGETHER) {
        const uint32_t here = ARITH_MIN(v->width - done, (uint32_t)QUANTISED_TOGETHER);
        act_tiles_get(q, quants, a->tile_rows, group == 32 ? ACT_TILE_32 : ACT_TILE_256, v->width, row, done,
                      here);
        m->d->kernels.remainder(y + done, y + done, q, d + done / group, here, group);
    }
    quantise_row(m, v, a, row + 1, y);
}

static void fill_cache(const struct member *m, uint32_t cache) {
    const struct graph_cache *g = &m->g->caches[cache];
    const struct step_fill *fill = (const struct step_fill *)(m->slot + m->h->cache[cache].at_fill);
    uint32_t units = g->n_layers * g->units;
    uint64_t items = (uint64_t)m->h->cache[cache].n_fill * units;
    for (uint64_t i = items * m->id / m->n; i < items * (m->id + 1) / m->n; i++) {
        const uint32_t layer = (uint32_t)(i % units) / g->units, unit = (uint32_t)(i % units) % g->units;
        void *to = cache_block(m, cache, layer, unit, fill[i / units].block);
        const uint32_t from = fill[i / units].from;
        if (from == STEP_ZEROS)
            memset(to, 0, g->bytes);
        else
            memcpy(to, cache_block(m, cache, layer, unit, from), g->bytes);
    }
}

static void run_fill(const struct member *m, const struct graph_op *op) {
    (void)op;
    for (uint32_t i = 0; i < m->g->n_caches; i++)
        fill_cache(m, i);
}

static bool fills(const struct member *m) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->g->n_caches; i++)
        n += m->h->cache[i].n_fill;
    return n > 0;
}

static void run_embed(const struct member *m, const struct graph_op *op) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const int32_t *tokens = (const int32_t *)(m->slot + m->h->at_tokens);
    float *x = value_f32(m, op->out);
    uint32_t width = m->g->values[op->out].width;
    CHECK(width == w->layout.cols);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++) {
        uint32_t row = (uint32_t)(graph_is_picture(tokens[t]) ? GRAPH_PICTURE(tokens[t]) : tokens[t]);
        if (graph_is_picture(tokens[t]) && op->work != GRAPH_NONE) {
            memcpy(x + (size_t)t * width, value_f32(m, op->work) + (size_t)t * m->g->values[op->work].width,
                   width * sizeof *x);
            continue;
        }
        row -= w->cut ? w->runs.first : 0;
        if (w->cut && row >= w->layout.rows)
            continue; /* another device of the tensor split has it */
        CHECK(row < w->layout.rows);
        /* One panel is a matrix of its own: pieces lie in different slices. */
        float *to = x + (size_t)t * width;
        panel_decode_row(&w->layout, panel_at(m, w, row / PANEL_ROWS), row % PANEL_ROWS, to);
        for (uint32_t i = 0; i < width && op->scale != 1; i++)
            to[i] = to[i] * op->scale;
    }
}

/* A layer norm: the row without its mean, which is as that of GRAPH_CENTER, then the norm and the bias. */
static void centred_norm(const struct member *m, const struct graph_op *op, float *y, const float *x,
                         uint32_t width) {
    const struct kernels *k = &m->d->kernels;
    memcpy(y, x, width * sizeof *y);
    k->center(y, width, op->norm.inv_width);
    k->rms_norm(y, y, plain_weight(m, op->weight[0]), width, op->norm.inv_width, op->norm.eps);
    k->add(y, y, plain_weight(m, op->bias[0]), width);
}

/* Norm of the rows of `in` (all tokens, or those that the step wants logits of) into the forms of out. */
static void run_norm(const struct member *m, const struct graph_op *op) {
    bool gather = op->kind == GRAPH_GATHER_NORM;
    if (op->norm.apart) {
        cpu_streams_norm(m, op);
        return;
    }
    const uint32_t *rows = (const uint32_t *)(m->slot + m->h->at_rows);
    const struct graph_value *out = &m->g->values[op->out];
    const float *in = value_f32(m, op->in);
    const float *weight = op->n_weights > 0 ? plain_weight(m, op->weight[0]) : m->d->ones;
    struct kernels_act a = value_act(m, op->out);
    const uint32_t parts = ARITH_MAX(op->norm.parts, 1u), width = out->width / parts;
    uint32_t n = gather ? m->h->n_rows : member_rows(m, op) * parts;
    float *temporary = own_floats(m);
    bool pairs = gather && a.f32 == NULL, adds = op->epilogue == GRAPH_RESIDUAL;
    const float *scale = op->n_weights > 1 ? plain_weight(m, op->weight[1]) : NULL;
    CHECK(scale == NULL || adds);
    CHECK(!adds || (!gather && out->forms == GRAPH_F32));
    CHECK((parts == 1 || adds) && out->width % parts == 0);
    CHECK(!op->norm.centred || (!adds && !pairs && op->bias[0] != GRAPH_NONE));
    for (uint32_t t = share_begin(m, n); t < share_end(m, n); t++) {
        const float *x = in + (size_t)(gather ? rows[t] : t) * width;
        float *sum = a.f32 != NULL ? a.f32 + (size_t)t * width : NULL;
        float *y = sum != NULL && !adds ? sum : temporary;
        if (op->norm.centred)
            centred_norm(m, op, y, x, width);
        else
            m->d->kernels.rms_norm(y, x, weight, width, op->norm.inv_width, op->norm.eps);
        if (adds)
            m->d->kernels.add(sum, sum, y, width);
        else
            quantise_row(m, out, &a, pairs ? 2 * t : t, y);
        for (uint32_t i = 0; scale != NULL && i < width; i++)
            sum[i] *= scale[0];
        if (pairs)
            quantise_remainder(m, out, &a, 2 * t, y);
    }
}

static void run_center(const struct member *m, const struct graph_op *op) {
    const uint32_t width = m->g->values[op->out].width;
    float *x = value_f32(m, op->out);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++)
        m->d->kernels.center(x + (size_t)t * width, width, op->norm.inv_width);
}

static void run_forms(const struct member *m, const struct graph_op *op) {
    const struct graph_value *out = &m->g->values[op->out];
    const struct kernels_act a = value_act(m, op->out);
    const float *in = value_f32(m, op->in);
    const uint32_t rows = member_rows(m, op);
    for (uint32_t t = share_begin(m, rows); t < share_end(m, rows); t++) {
        const float *x = in + (size_t)t * out->width;
        if (a.f32 != NULL)
            memcpy(a.f32 + (size_t)t * out->width, x, out->width * sizeof *x);
        quantise_row(m, out, &a, t, x);
    }
}

/* Panels of a matmul that stay together on a member: pairs, on which the kernels work, or what int8 takes
 * together, if the op's tiles become int8 where they are made. */
static uint32_t panels_together(const struct member *m, const struct graph_op *op) {
    uint32_t group = int8_group(&m->g->values[op->out]);
    return graph_op_activated(op) && group > 2 * PANEL_ROWS ? group / PANEL_ROWS : 2;
}

_Static_assert(CPU_TILE_ROWS % 256 == 0, "a tile has whole groups");
_Static_assert(DEVICE_MAX <= TEAM_LANES, "a lane for each device of a group");

/* The tiles of a SwiGLU become int8 while they are near. Not where a group of values would be cut, and not
 * where whole groups share out badly: then it is done in a second pass. The bits are the same. */
static bool quantises_tiles(const struct member *m, const struct graph_op *op) {
    if (!graph_op_activated(op) || int8_group(&m->g->values[op->out]) == 0)
        return false;
    const struct graph_weight *gate = &m->g->weights[op->weight[0]];
    uint32_t items = gate->layout.panels / panels_together(m, op);
    uint32_t most = (items + m->n - 1) / m->n;
    return gate->n_pieces == 1 && m->g->weights[op->weight[op->n_weights - 1]].n_pieces == 1 &&
           most * m->n <= items + items / 8;
}

/* The same of an attention's heads. */
static bool quantises_heads(const struct member *m, const struct graph_op *op) {
    uint32_t group = int8_group(&m->g->values[op->out]);
    const struct graph_attention *a = &op->attention;
    return group != 0 && a->heads / a->kv_heads * a->dim_v % group == 0;
}

/* What becomes of a tile of finished sums (SwiGLU: of values): rows row .. row + n of weight i, of tokens
 * first .. first + tokens. */
struct tile {
    uint32_t i; /* the op's weight */
    uint32_t row;
    uint32_t n;
    uint32_t first;
    uint32_t tokens;
};

static void finish_tile(const struct member *m, const struct graph_op *op, const struct tile *t,
                        const float *sums) {
    const struct kernels *k = &m->d->kernels;
    const struct graph_value *out = &m->g->values[op->out];
    const bool biased = op->bias[t->i] != GRAPH_NONE && !graph_op_activated(op);
    const float *bias = biased ? plain_weight(m, op->bias[t->i]) + t->row : NULL;
    float *values = value_f32(m, op->out) + op->column[t->i] + t->row;
    _Alignas(64) float sum[CPU_TILE_ROWS];
    if (op->epilogue == GRAPH_PAIRS) {
        CHECK(t->first % 2 == 0 && t->tokens % 2 == 0 && bias == NULL);
        for (uint32_t j = 0; j < t->tokens; j += 2) {
            float *y = values + (size_t)(t->first + j) / 2 * out->width;
            take_sums(m, sums, j, t->n, y);
            take_sums(m, sums, j + 1, t->n, sum);
            k->add(y, y, sum, t->n);
        }
        return;
    }
    const bool int8 = quantises_tiles(m, op);
    const struct kernels_act a = value_act(m, op->out);
    for (uint32_t j = 0; j < t->tokens; j++) {
        float *y = values + (size_t)(t->first + j) * out->width;
        if (bias == NULL && !int8 && op->epilogue != GRAPH_RESIDUAL) {
            take_sums(m, sums, j, t->n, y);
            continue;
        }
        take_sums(m, sums, j, t->n, sum);
        if (bias != NULL)
            k->add(sum, sum, bias, t->n);
        if (int8)
            quantise_part(m, out, &a, t->first + j, op->column[t->i] + t->row, t->n, sum);
        else if (op->epilogue == GRAPH_RESIDUAL)
            k->add(y, y, sum, t->n);
        else
            memcpy(y, sum, t->n * sizeof *y);
    }
}

/* Consecutive panels of weight i, at most CPU_TILE_PANELS, that lie in one piece; so does a SwiGLU's other
 * weight. */
static void run_matmul_panels(const struct member *m, const struct graph_op *op, const struct kernels_act *a,
                              uint32_t i, uint32_t panel, uint32_t n_panels, uint32_t tokens) {
    float *sums = (float *)(void *)(m->d->matmul_work + m->id * m->d->matmul_stride);
    const size_t apart = m->d->sums_panel;
    float *other = sums + CPU_TILE_PANELS * apart;
    const struct kernels *k = &m->d->kernels;
    const struct graph_weight *w = &m->g->weights[op->weight[i]];
    struct tile tile = {.i = i, .row = panel * PANEL_ROWS};
    CHECK(n_panels > 0 && n_panels <= CPU_TILE_PANELS && panel + n_panels <= w->layout.panels);
    tile.n = ARITH_MIN(w->layout.rows - tile.row, n_panels * PANEL_ROWS);
    for (uint32_t t = 0; t < tokens; t += CPU_TILE_TOKENS) {
        tile.first = t;
        tile.tokens = ARITH_MIN(tokens - t, (uint32_t)CPU_TILE_TOKENS);
        struct kernels_matmul product = {
            .out = sums,
            .out_panel = apart,
            .l = &w->layout,
            .panels = panel_at(m, w, panel),
            .n_panels = n_panels,
            .a = a,
            .first = t,
            .tokens = tile.tokens,
            .work = other + CPU_TILE_PANELS * apart,
        };
        k->matmul[w->layout.type](&product);
        scale_sums(m, op, i, 0, n_panels, tile.tokens, sums);
        if (graph_op_activated(op))
            bias_sums(m, op, 0, tile.row, tile.n, tile.tokens, sums);
        if (graph_op_gated(op)) {
            const struct graph_weight *up = &m->g->weights[op->weight[1]];
            product.out = other;
            product.l = &up->layout;
            product.panels = panel_at(m, up, panel);
            k->matmul[up->layout.type](&product);
            scale_sums(m, op, 1, 0, n_panels, tile.tokens, other);
            bias_sums(m, op, 1, tile.row, tile.n, tile.tokens, other);
            void (*const multiply)(float *, const float *, const float *, uint32_t) =
                op->epilogue == GRAPH_GEGLU ? k->gelu_mul : k->silu_mul;
            for (uint32_t p = 0; p < n_panels; p++)
                multiply(sums + p * apart, sums + p * apart, other + p * apart, tile.tokens * PANEL_ROWS);
        }
        for (uint32_t p = 0; op->epilogue == GRAPH_RELU2 && p < n_panels; p++)
            k->relu2(sums + p * apart, sums + p * apart, tile.tokens * PANEL_ROWS);
        for (uint32_t j = 0; op->epilogue == GRAPH_GELU_ONE && j < tile.tokens * PANEL_ROWS; j++)
            other[j] = 1;
        for (uint32_t p = 0; op->epilogue == GRAPH_GELU_ONE && p < n_panels; p++)
            k->gelu_mul(sums + p * apart, sums + p * apart, other, tile.tokens * PANEL_ROWS);
        finish_tile(m, op, &tile, sums);
    }
}

/* With more tokens a kernel's call is dear enough that it shall have all its panels. */
#define MATMUL_FEW 8

/* Panels begin .. end of the op's, where those of all its weights stand in one row. */
static void run_matmul_part(const struct member *m, const struct graph_op *op, const struct kernels_act *a,
                            uint64_t begin, uint64_t end, uint32_t tokens) {
    bool gated = graph_op_gated(op);
    uint64_t base = 0;
    for (uint32_t i = 0; base < end; i++) {
        const struct graph_weight *w = &m->g->weights[op->weight[i]];
        uint64_t here = w->layout.panels;
        for (uint64_t p = ARITH_MAX(begin, base); p < ARITH_MIN(end, base + here);) {
            uint32_t panel = (uint32_t)(p - base);
            uint32_t n = (uint32_t)ARITH_MIN(ARITH_MIN(end, base + here) - p, (uint64_t)CPU_TILE_PANELS);
            n = ARITH_MIN(n, panels_in_piece(w, panel));
            if (gated)
                n = ARITH_MIN(n, panels_in_piece(&m->g->weights[op->weight[1]], panel));
            run_matmul_panels(m, op, a, i, panel, n, tokens);
            p += n;
        }
        base += here;
    }
}

/* What has not become int8 where it was made: rows that several members wrote. */
void cpu_step_quantise(const struct member *m, const struct graph_op *op) {
    const struct graph_value *v = &m->g->values[op->out];
    if (int8_group(v) == 0)
        return;
    team_barrier(m->d->team, m->id);
    struct kernels_act a = value_act(m, op->out);
    const uint32_t n = member_rows(m, op);
    for (uint32_t t = share_begin(m, n); t < share_end(m, n); t++)
        quantise_row(m, v, &a, t, a.f32 + (size_t)t * v->width);
}

static void run_matmul(const struct member *m, const struct graph_op *op) {
    uint32_t tokens = member_rows(m, op);
    if (op->epilogue == GRAPH_PAIRS)
        tokens *= 2;
    const struct kernels_act a = value_act(m, op->in);
    uint32_t n_weights = graph_op_gated(op) ? 1 : op->n_weights;
    uint64_t panels = 0;
    for (uint32_t i = 0; i < n_weights; i++)
        panels += m->g->weights[op->weight[i]].layout.panels;
    uint64_t unit = quantises_tiles(m, op) ? panels_together(m, op) : 2;
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, (panels + unit - 1) / unit);
    const uint64_t most = CPU_TILE_PANELS / unit, least = tokens > MATMUL_FEW ? most : 1;
    for (uint64_t first, end; team_share_take(&share, least, most, &first, &end);)
        run_matmul_part(m, op, &a, unit * first, ARITH_MIN(unit * end, panels), tokens);
    if (graph_op_activated(op) && !quantises_tiles(m, op))
        cpu_step_quantise(m, op);
}

/* Weights of a norm without weights. */
#define ONES_8  1, 1, 1, 1, 1, 1, 1, 1
#define ONES_64 ONES_8, ONES_8, ONES_8, ONES_8, ONES_8, ONES_8, ONES_8, ONES_8
static const float ones[] = {ONES_64, ONES_64, ONES_64, ONES_64, ONES_64, ONES_64, ONES_64, ONES_64};
_Static_assert(sizeof ones == KERNELS_MAX_HEAD * sizeof ones[0], "a head");

/* Heads of q get their ends from `work`; the row of K is normed, rotated and stored. */
static void run_latent_store(const struct member *m, const struct graph_op *op) {
    const struct graph_rope *r = &op->rope;
    const struct kernels *k = &m->d->kernels;
    const struct graph_cache *kv = &m->g->caches[op->cache];
    const uint32_t width = m->g->values[op->in].width, q_width = m->g->values[op->work].width;
    const uint32_t head = q_width / r->heads, at = r->latent;
    const struct graph_angles *all = m->g->angles;
    const uint32_t of_k = all[r->angles].first;
    const uint32_t of_q = r->angles_q != GRAPH_NONE ? all[r->angles_q].first : of_k;
    const uint32_t rest = r->dim_k - at - r->n_rot;
    CHECK(at <= r->dim_v && at + r->n_rot <= r->dim_k && r->kv_heads == 1 && op->n_weights == 1);
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++) {
        float *row = value_f32(m, op->in) + (size_t)t * width, *key = row + (size_t)r->heads * r->dim_k;
        const float *q = value_f32(m, op->work) + (size_t)t * q_width;
        const float *angles =
            (const float *)(const void *)(m->slot + m->h->at_rope) + (size_t)t * m->h->rope_stride;
        const struct step_chunk *c = chunk_of(m, t);
        const uint32_t position = c->position + (t - c->first);
        const uint32_t block = block_table(
            m, op->cache, c->slot)[position / KERNELS_KV_BLOCK % m->h->cache[op->cache].table_stride];
        for (uint32_t i = 0; i < r->heads; i++) {
            float *x = row + (size_t)i * r->dim_k + at;
            memcpy(x, q + (size_t)(i + 1) * head - r->n_rot, r->n_rot * sizeof *x);
            k->rope(x, angles + of_q, r->n_rot / 2, r->neox);
            memset(x + r->n_rot, 0, rest * sizeof *x);
        }
        memset(key + at + r->n_rot, 0, rest * sizeof *key);
        k->rms_norm(key, key, plain_weight(m, op->weight[0]), at, r->norm_k.inv_width, r->norm_k.eps);
        k->rope(key + at, angles + of_k, r->n_rot / 2, r->neox);
        k->store_k[kv->type_k](cache_block(m, op->cache, op->cache_layer, 0, block), key, r->dim_k,
                               position % KERNELS_KV_BLOCK);
    }
}

/* A head. */
static void rotate(const struct kernels *k, const struct graph_rope *r, float *x, const float *angles) {
    const uint32_t half = r->n_rot / 2;
    CHECK(!r->halves || (r->neox && half % 2 == 0));
    k->rope(x, angles, r->halves ? half / 2 : half, r->neox);
    if (r->halves)
        k->rope(x + half, angles + half, half / 2, true);
}

static void run_rope_store(const struct member *m, const struct graph_op *op) {
    const struct graph_rope *r = &op->rope;
    if (r->latent) {
        run_latent_store(m, op);
        return;
    }
    const struct kernels *k = &m->d->kernels;
    const struct graph_cache *kv = &m->g->caches[op->cache];
    uint32_t width = m->g->values[op->in].width;
    uint32_t heads = r->heads + r->kv_heads;
    const float *q_norm = op->n_weights > 0 ? plain_weight(m, op->weight[0]) : NULL;
    const float *k_norm = op->n_weights > 1 ? plain_weight(m, op->weight[1]) : NULL;
    const struct graph_angles *all = m->g->angles;
    const uint32_t of_k = all[r->angles].first;
    const uint32_t of_q = r->angles_q != GRAPH_NONE ? all[r->angles_q].first : of_k;
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++) {
        float *row = value_f32(m, op->in) + (size_t)t * width;
        const float *angles =
            (const float *)(const void *)(m->slot + m->h->at_rope) + (size_t)t * m->h->rope_stride;
        const struct step_chunk *c = chunk_of(m, t);
        uint32_t position = c->position + (t - c->first);
        uint32_t block = block_table(
            m, op->cache, c->slot)[position / KERNELS_KV_BLOCK % m->h->cache[op->cache].table_stride];
        if (r->wide) {
            float *key = row + (size_t)r->heads * r->dim_k;
            k->rms_norm(row, row, q_norm, r->heads * r->dim_k, r->norm.inv_width, r->norm.eps);
            k->rms_norm(key, key, k_norm, r->kv_heads * r->dim_k, r->norm_k.inv_width, r->norm_k.eps);
        }
        for (uint32_t i = 0; i < heads; i++) {
            float *x = row + (size_t)i * r->dim_k;
            const float *norm = i < r->heads ? q_norm : k_norm;
            if (norm != NULL && !r->wide && !r->late)
                k->rms_norm(x, x, norm, r->dim_k, r->norm.inv_width, r->norm.eps);
            rotate(k, r, x, angles + (i < r->heads ? of_q : of_k));
            if (norm != NULL && r->late)
                k->rms_norm(x, x, norm, r->dim_k, r->norm.inv_width, r->norm.eps);
        }
        for (uint32_t i = 0; i < r->kv_heads; i++) {
            uint8_t *at = cache_block(m, op->cache, op->cache_layer, i, block);
            const float *key = row + (size_t)(r->heads + i) * r->dim_k;
            float *value = row + (size_t)heads * r->dim_k + (size_t)i * r->dim_v;
            if (r->norm_v)
                k->rms_norm(value, value, ones, r->dim_v, r->norm.inv_width, r->norm.eps);
            k->store_k[kv->type_k](at, key, r->dim_k, position % KERNELS_KV_BLOCK);
            k->store_v[kv->type_v](at + kv->k_bytes, value, r->dim_v, position % KERNELS_KV_BLOCK);
        }
    }
}

/* The last token that a query sees, and how many it sees with that one; 0: all. */
struct sight {
    uint32_t last, window;
};

/* Whether the chunk's tokens are the rest of a picture, which see each other. */
static bool sees_picture(const struct member *m, const struct graph_op *op, const struct step_chunk *c) {
    const int32_t *tokens = (const int32_t *)(const void *)(m->slot + m->h->at_tokens);
    return op->attention.pictures && graph_is_picture(tokens[c->first]);
}

/* Where tokens see both sides, kernels take each query for itself, as if it stood at the end of what it sees.
 */
static struct sight sight_of(const struct graph_op *op, const struct graph_cache *kv,
                             const struct step_chunk *c, uint32_t query, bool picture) {
    const uint32_t at = c->position + query, end = c->position + c->n - 1;
    if (picture && kv->window != 0 && at >= kv->window)
        return (struct sight){end, end - (at + 1 - kv->window) + 1};
    if (picture)
        return (struct sight){end, 0};
    if (!op->attention.both)
        return (struct sight){graph_attention_sees(&op->attention, at) - 1, kv->window};
    if (kv->window == 0)
        return (struct sight){end, 0};
    const uint32_t side = kv->window - 1, last = ARITH_MIN(at + side, end);
    return (struct sight){last, at > side ? last - (at - side) + 1 : 0};
}

/* Attention of n queries of a chunk, from its query `first` on, with one KV head. */
struct kernels_attention cpu_step_attention(const struct member *m, const struct graph_op *op,
                                            const struct step_chunk *c, uint32_t head, uint32_t first,
                                            uint32_t n) {
    const struct graph_attention *g = &op->attention;
    const struct graph_cache *kv = &m->g->caches[op->cache];
    uint32_t group = g->heads / g->kv_heads, token = c->first + first;
    uint32_t in_width = m->g->values[op->in].width, out_width = m->g->values[op->out].width;
    const uint8_t *base = cache_block(m, op->cache, op->cache_layer, g->latent ? 0 : head, 0);
    const bool picture = sees_picture(m, op, c);
    const struct sight see = sight_of(op, kv, c, first, picture);
    CHECK((!g->both && !picture) || n == 1);
    return (struct kernels_attention){
        .q = value_f32(m, op->in) + (size_t)token * in_width + (size_t)head * group * g->dim_k,
        .out = value_f32(m, op->out) + (size_t)token * out_width + (size_t)head * group * g->dim_v,
        .q_stride = in_width,
        .out_stride = out_width,
        .n_queries = n,
        .first_position = see.last,
        .window = see.window,
        .skip = g->skip,
        .sinks = op->n_weights > 0 ? plain_weight(m, op->weight[0]) + (size_t)head * group : NULL,
        .group = group,
        .head_dim_k = g->dim_k,
        .head_dim_v = g->dim_v,
        .scale = g->scale,
        .cap = g->cap,
        .cap_inverse = g->cap != 0 ? 1.0f / g->cap : 0,
        .type_k = kv->type_k,
        .type_v = kv->type_v,
        .k = base,
        .v = g->latent ? NULL : base + kv->k_bytes,
        .block_stride = kv->bytes,
        .blocks = block_table(m, op->cache, c->slot),
        .ring = kv->kind == GRAPH_RING ? m->h->cache[op->cache].table_stride : 0,
        .work = m->d->attention_work + (size_t)m->id * m->d->work_floats,
    };
}

/* What attention wrote, from `token` on, while it is near. */
static void quantise_heads(const struct member *m, const struct graph_op *op,
                           const struct kernels_attention *a, uint32_t token, uint32_t head) {
    if (!quantises_heads(m, op))
        return;
    const struct kernels_act forms = value_act(m, op->out);
    const uint32_t width = a->group * a->head_dim_v;
    for (uint32_t i = 0; i < a->n_queries; i++)
        quantise_part(m, &m->g->values[op->out], &forms, token + i, head * width, width,
                      a->out + (size_t)i * a->out_stride);
}

/* How a step's attention is cut into work items: each KV head of a chunk into groups of queries, or that of
 * one query into splits. The items of a head follow one another, as they read the same K and V. */
struct attention_cut {
    const struct step_chunk *chunks;
    uint32_t kv_heads;
    uint32_t group; /* query heads of a KV head */
    uint32_t window;
    uint32_t parts; /* into so many at least, if there are queries: where heads are fewer than members */
    bool splits;
    bool single;                      /* an item is one query, */
    bool pictures;                    /* or is where a chunk is a picture, */
    const struct graph_attention *of; /* or where a query sees chosen blocks */
    const int32_t *tokens;
    uint64_t items; /* of all heads of all chunks */
};

static uint32_t queries_of_item(const struct attention_cut *cut, const struct step_chunk *c) {
    if (cut->single || (cut->pictures && graph_is_picture(cut->tokens[c->first])) ||
        graph_attention_sees(cut->of, c->position + c->n - 1) < c->position + c->n)
        return 1;
    return ARITH_MIN(kernels_attention_queries(cut->group), (c->n + cut->parts - 1) / cut->parts);
}

static uint32_t items_of_head(const struct attention_cut *cut, const struct step_chunk *c) {
    if (cut->splits)
        return (graph_attention_sees(cut->of, c->position) - 1) / KERNELS_SPLIT + 1 -
               kernels_attention_first(c->position, cut->window);
    const uint32_t queries = queries_of_item(cut, c);
    return (c->n + queries - 1) / queries;
}

static uint64_t items_of_step(const struct member *m, const struct attention_cut *cut) {
    uint64_t items = 0;
    for (uint32_t c = 0; c < m->h->n_chunks; c++)
        items += (uint64_t)items_of_head(cut, &cut->chunks[c]) * cut->kv_heads;
    return items;
}

/* Splits are for generation alone, where whole heads would leave members idle. */
static struct attention_cut attention_cut(const struct member *m, const struct graph_op *op) {
    const struct graph_attention *a = &op->attention;
    const uint32_t heads = m->h->n_chunks * a->kv_heads;
    struct attention_cut cut = {.chunks = (const struct step_chunk *)(m->slot + m->h->at_chunks),
                                .kv_heads = a->kv_heads,
                                .group = a->heads / a->kv_heads,
                                .window = m->g->caches[op->cache].window,
                                .parts = (m->n + heads - 1) / heads,
                                .single = a->both,
                                .of = a,
                                .pictures = a->pictures,
                                .tokens = (const int32_t *)(const void *)(m->slot + m->h->at_tokens),
                                .splits = !a->both && m->h->n_tokens == m->h->n_chunks && heads % m->n != 0 &&
                                          heads < 8 * m->n};
    cut.items = items_of_step(m, &cut);
    if (cut.splits && (cut.items == heads ||
                       cut.items * kernels_attention_part(cut.group, a->dim_v) > m->d->parts_floats)) {
        cut.splits = false;
        cut.items = items_of_step(m, &cut);
    }
    return cut;
}

static void attend(const struct member *m, const struct graph_op *op, uint32_t token,
                   const struct kernels_attention *a) {
    if (op->attention.ratio > 0 && a->n_queries == 1)
        cpu_index_attention(m, op, token, a);
    else
        m->d->kernels.attention(a);
}

static void run_attention_items(const struct member *m, const struct graph_op *op,
                                const struct attention_cut *cut, uint64_t begin, uint64_t end) {
    const size_t part = kernels_attention_part(cut->group, op->attention.dim_v);
    uint64_t base = 0;
    for (const struct step_chunk *c = cut->chunks; base < end; c++) {
        const uint32_t items = items_of_head(cut, c), queries = queries_of_item(cut, c);
        for (uint32_t head = 0; head < cut->kv_heads; head++, base += items) {
            const uint64_t first = ARITH_MAX(begin, base), last = ARITH_MIN(end, base + items);
            if (first < last && cut->splits) {
                struct kernels_attention a = cpu_step_attention(m, op, c, head, 0, 1);
                a.parts = m->d->attention_parts + base * part;
                const uint32_t seen = kernels_attention_first(c->position, cut->window);
                a.first_split = seen + (uint32_t)(first - base);
                a.end_split = seen + (uint32_t)(last - base);
                attend(m, op, c->first, &a);
                continue;
            }
            for (uint64_t i = first; i < last; i++) {
                const uint32_t query = (uint32_t)(i - base) * queries;
                struct kernels_attention a =
                    cpu_step_attention(m, op, c, head, query, ARITH_MIN(c->n - query, queries));
                attend(m, op, c->first + query, &a);
                quantise_heads(m, op, &a, c->first + query, head);
            }
        }
    }
}

static void merge_splits(const struct member *m, const struct graph_op *op, const struct attention_cut *cut) {
    const size_t part = kernels_attention_part(cut->group, op->attention.dim_v);
    const uint32_t heads = m->h->n_chunks * cut->kv_heads;
    uint64_t base = 0;
    for (uint32_t i = 0; i < share_end(m, heads); i++) {
        const struct step_chunk *c = &cut->chunks[i / cut->kv_heads];
        if (i >= share_begin(m, heads)) {
            struct kernels_attention a = cpu_step_attention(m, op, c, i % cut->kv_heads, 0, 1);
            a.parts = m->d->attention_parts + base * part;
            m->d->kernels.attention_merge(&a);
            quantise_heads(m, op, &a, c->first, i % cut->kv_heads);
        }
        base += items_of_head(cut, c);
    }
}

static void run_attention(const struct member *m, const struct graph_op *op) {
    if (cpu_tower_groups_queries(m, op)) {
        cpu_tower_attention(m, op);
        return;
    }
    const struct attention_cut cut = attention_cut(m, op);
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, cut.items);
    for (uint64_t first, end; team_share_take(&share, 1, cut.items, &first, &end);)
        run_attention_items(m, op, &cut, first, end);
    if (cut.splits) {
        team_barrier(m->d->team, m->id);
        merge_splits(m, op, &cut);
    }
    if (!quantises_heads(m, op))
        cpu_step_quantise(m, op);
}

/* Numbers of a row of logits that a member takes at a time. */
#define CAPPED_TOGETHER 4096u

static void run_softcap(const struct member *m, const struct graph_op *op) {
    const uint32_t width = m->g->values[op->out].width;
    const uint32_t parts = (width + CAPPED_TOGETHER - 1) / CAPPED_TOGETHER;
    const uint64_t items = (uint64_t)m->h->n_rows * parts;
    for (uint64_t i = share_begin(m, items); i < share_end(m, items); i++) {
        const uint32_t at = (uint32_t)(i % parts) * CAPPED_TOGETHER;
        float *x = value_f32(m, op->out) + i / parts * width + at;
        m->d->kernels.softcap(x, x, ARITH_MIN(width - at, CAPPED_TOGETHER), op->cap, 1.0f / op->cap);
    }
}

static void run_argmax(const struct member *m, const struct graph_op *op) {
    const float *logits = value_f32(m, op->in);
    uint32_t vocab = m->g->values[op->in].width;
    struct step_pick *picks = (struct step_pick *)value_f32(m, op->out);
    for (uint32_t r = share_begin(m, m->h->n_rows); r < share_end(m, m->h->n_rows); r++) {
        bool finite = true;
        picks[r].token = (int32_t)m->d->kernels.argmax(logits + (size_t)r * vocab, vocab, &finite);
        picks[r].finite = finite;
    }
}

/* The residual stream from the device before: it lies in our landing zone, or in the window. */
static void run_land(const struct member *m, const struct graph_op *op) {
    size_t width = m->g->values[op->out].width;
    size_t first = share_begin(m, m->h->n_tokens) * width;
    size_t n = share_end(m, m->h->n_tokens) * width - first;
    float *landing = value_f32(m, op->in) + first;
    if (!m->d->in->direct)
        memcpy(landing, m->d->in->window[m->half] + first, n * sizeof(float));
    memcpy(value_f32(m, op->out) + first, landing, n * sizeof(float));
}

static void run_send(const struct member *m, const struct graph_op *op) {
    const struct device_link *link = m->d->out;
    size_t width = m->g->values[op->out].width;
    size_t first = share_begin(m, m->h->n_tokens) * width;
    size_t n = share_end(m, m->h->n_tokens) * width - first;
    float *outgoing = value_f32(m, op->out) + first;
    memcpy(outgoing, value_f32(m, op->in) + first, n * sizeof(float));
    float *target = link->window[m->half];
    if (link->direct) {
        const struct cpu_device *peer = (const struct cpu_device *)link->peer;
        target = cpu_step_value(peer, peer->model.graph->landing, m->half);
    }
    memcpy(target + first, outgoing, n * sizeof(float));
}

/* By kind. Other ops are other functions here; what they need of the device is in cpu_device.h. */
static void (*const run_op[GRAPH_KINDS])(const struct member *m, const struct graph_op *op) = {
    [GRAPH_FILL] = run_fill,
    [GRAPH_EMBED] = run_embed,
    [GRAPH_NORM] = run_norm,
    [GRAPH_MATMUL] = run_matmul,
    [GRAPH_ROPE_STORE] = run_rope_store,
    [GRAPH_ATTENTION] = run_attention,
    [GRAPH_GATHER_NORM] = run_norm,
    [GRAPH_ARGMAX] = run_argmax,
    [GRAPH_LAND] = run_land,
    [GRAPH_SEND] = run_send,
    [GRAPH_INDEX] = cpu_index_store,
    [GRAPH_CHOOSE] = cpu_index_choose,
    [GRAPH_CONV] = cpu_delta_conv,
    [GRAPH_DELTA] = cpu_delta_rule,
    [GRAPH_GATE] = cpu_delta_gate,
    [GRAPH_ROUTE] = cpu_experts_route,
    [GRAPH_EXPERTS] = cpu_experts_run,
    [GRAPH_PAIR] = cpu_nextn_pair,
    [GRAPH_KEEP] = cpu_nextn_keep,
    [GRAPH_FORMS] = run_forms,
    [GRAPH_SOFTCAP] = run_softcap,
    [GRAPH_GATED_CONV] = cpu_gated_conv,
    [GRAPH_NGRAM_GATE] = cpu_ngram_gate,
    [GRAPH_NGRAM_CONV] = cpu_ngram_conv,
    [GRAPH_CENTER] = run_center,
    [GRAPH_EXCHANGED] = cpu_exchange_run,
    [GRAPH_HEADS] = cpu_experts_heads,
    [GRAPH_GELU] = cpu_tower_gelu,
    [GRAPH_SILU] = cpu_streams_silu,
    [GRAPH_MIX] = cpu_streams_mix,
    [GRAPH_INJECT] = cpu_streams_inject,
    [GRAPH_MERGE] = cpu_tower_merge,
    [GRAPH_PROJECT] = cpu_tower_project,
    [GRAPH_BLEND] = cpu_tower_blend,
    [GRAPH_SPREAD] = cpu_tower_spread,
    [GRAPH_FEATURES] = cpu_tower_features,
};

/* By member 0, when all have met: op i began where the one before it ended. */
static void note_span(struct cpu_device *d, uint32_t slot, uint32_t op, uint64_t *began) {
    if (d->spans == NULL)
        return;
    uint64_t now = clock_ns();
    d->spans[(size_t)slot * d->model.graph->n_ops + d->n_spans[slot]++] =
        (struct device_span){.op = op, .begin_ns = *began, .end_ns = now};
    *began = now;
}

/* What a step runs: two runs of ops, one after the other. */
struct ranges {
    uint32_t begin[2], end[2];
};

static struct ranges ranges_of(const struct graph *g, const struct step_header *h) {
    if (h->run_body == STEP_GUESS)
        return (struct ranges){{g->nextn, g->guess}, {g->nextn_end, g->n_ops}};
    const uint32_t tail = h->n_rows > 0 ? g->guess : g->tail;
    return (struct ranges){{h->run_body ? 0 : g->tail, tail}, {tail, tail}};
}

uint32_t cpu_step_ops(const struct graph *g, const struct step_header *h) {
    const struct ranges r = ranges_of(g, h);
    return r.end[0] - r.begin[0] + r.end[1] - r.begin[1];
}

static struct member member_of(struct cpu_device *d, uint32_t slot, uint32_t member, uint32_t n) {
    const uint8_t *step = cpu_step_slot(d, slot);
    return (struct member){.d = d,
                           .g = d->model.graph,
                           .h = (const struct step_header *)step,
                           .slot = step,
                           .half = slot,
                           .id = member,
                           .n = n};
}

/* The devices of a group, each with its own place in its ops. All have as many exchanges, so they come to the
 * same one. */
struct together {
    uint32_t count;
    struct member members[DEVICE_MAX];
    const struct graph_op *ops[DEVICE_MAX]; /* NULL: the device has ended its ops */
    uint32_t at[DEVICE_MAX];
    struct ranges ranges[DEVICE_MAX];
    uint64_t began[DEVICE_MAX];
    uint32_t slot, member;
};

static void find_op(struct together *t, uint32_t i) {
    const struct ranges *r = &t->ranges[i];
    while (t->at[i] < r->end[0] && t->members[i].g->ops[t->at[i]].kind == GRAPH_FILL &&
           !fills(&t->members[i]))
        t->at[i]++;
    if (t->at[i] == r->end[0])
        t->at[i] = r->begin[1];
    const bool in_one = t->at[i] < r->end[0] || (t->at[i] >= r->begin[1] && t->at[i] < r->end[1]);
    t->ops[i] = in_one ? &t->members[i].g->ops[t->at[i]] : NULL;
}

static void begin_op(struct together *t, uint32_t i) {
    if (t->member == 0 && t->members[i].d->spans != NULL)
        t->began[i] = clock_ns();
}

/* Another op of the device i; the barrier before was for its readers. */
static void end_op(struct together *t, uint32_t i) {
    if (t->member == 0)
        note_span(t->members[i].d, t->slot, t->at[i], &t->began[i]);
    t->at[i]++;
    find_op(t, i);
}

/* An op of each device that is not at an exchange, then one barrier: what one device writes no other reads
 * before the exchange. False: all are at an exchange, or at their end. */
static bool run_one_of_each(struct together *t) {
    bool ran[DEVICE_MAX] = {false}, any = false;
    for (uint32_t i = 0; i < t->count; i++) {
        ran[i] = t->ops[i] != NULL && t->ops[i]->kind != GRAPH_EXCHANGED;
        any = any || ran[i];
        if (!ran[i])
            continue;
        begin_op(t, i);
        run_op[t->ops[i]->kind](&t->members[i], t->ops[i]);
    }
    if (!any)
        return false;
    if (t->member == 0)
        device_cluster_tend();
    team_barrier(t->members[0].d->team, t->member);
    for (uint32_t i = 0; i < t->count; i++)
        if (ran[i])
            end_op(t, i);
    return true;
}

/* Devices read what others have made, and write only what is theirs. */
static void run_exchange(struct together *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        CHECK(t->ops[i] != NULL && t->ops[i]->kind == GRAPH_EXCHANGED);
        begin_op(t, i);
        cpu_exchange_run(&t->members[i], t->ops[i]);
    }
    team_barrier(t->members[0].d->team, t->member);
    for (uint32_t i = 0; i < t->count; i++)
        end_op(t, i);
}

void cpu_step_run_group(const struct device_group *group, uint32_t slot, uint32_t member, uint32_t n) {
    struct together t = {.count = group->count, .slot = slot, .member = member};
    for (uint32_t i = 0; i < t.count; i++) {
        /* Other numbers on every device: an op of one token is the work of another member. */
        t.members[i] = member_of((struct cpu_device *)group->devices[i], slot, (member + i) % n, n);
        t.members[i].lane = i;
        t.members[i].peers = t.members;
        t.members[i].peer_ops = t.ops;
        t.ranges[i] = ranges_of(t.members[i].g, t.members[i].h);
        t.at[i] = t.ranges[i].begin[0];
        find_op(&t, i);
    }
    do {
        while (run_one_of_each(&t))
            ;
        if (t.ops[0] != NULL)
            run_exchange(&t);
    } while (t.ops[0] != NULL || t.ops[t.count - 1] != NULL);
}

void cpu_step_run(struct cpu_device *d, uint32_t slot, uint32_t member, uint32_t n) {
    struct member m = member_of(d, slot, member, n);
    const struct ranges r = ranges_of(m.g, m.h);
    const uint32_t last = r.end[1] > r.begin[1] ? r.end[1] : r.end[0];
    uint64_t began = d->spans != NULL ? clock_ns() : 0;
    for (uint32_t i = r.begin[0]; i < last; i++) {
        if (i == r.end[0])
            i = r.begin[1];
        const struct graph_op *op = &m.g->ops[i];
        if (op->kind == GRAPH_FILL && !fills(&m))
            continue;
        run_op[op->kind](&m, op);
        if (member == 0)
            device_cluster_tend();
        if (i + 1 < last) /* the run's own end is the last meeting */
            team_barrier(d->team, member);
        if (member == 0)
            note_span(d, slot, i, &began);
    }
}
