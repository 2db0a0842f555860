/* Mixture of experts on the team. Routing groups the step's slots by expert; products then run over (expert,
 * panels). Rows that go to an expert are gathered as they are multiplied, int8 as it is, into memory of the
 * member. Of the products that end a layer a member has its panels of all experts, so that it adds a token's
 * in order where they are near. */
#include "device/cpu/cpu_member.h"

#include "kernels/shared/experts.h"

/* A value of routes, apart. */
struct routes {
    uint32_t *n_items;
    uint32_t *chosen, *place; /* of slots */
    float *weight;
    uint32_t *apart; /* in place of the weights, of items whose rows are kept apart: their first row there */
    uint32_t *items;
    uint32_t *token; /* of rows */
    float *factor;
};

static struct routes routes_of(const struct member *m, const struct graph_experts *x, uint32_t value) {
    const uint32_t slots = m->g->want.batch * x->used;
    float *words = value_f32(m, value);
    uint32_t *at = (uint32_t *)(void *)words;
    return (struct routes){.n_items = at,
                           .chosen = at + EXPERTS_CHOSEN(slots),
                           .place = at + EXPERTS_PLACE(slots),
                           .weight = words + EXPERTS_WEIGHT(slots),
                           .apart = at + EXPERTS_WEIGHT(slots),
                           .items = at + EXPERTS_ITEMS(slots),
                           .token = at + EXPERTS_TOKEN(slots),
                           .factor = words + EXPERTS_FACTOR(slots, x->rows)};
}

/* Rows and items of the step's slots: an item is all rows of an expert. */
static void group_slots(const struct graph_experts *x, const struct routes *r, uint32_t n_slots) {
    uint32_t count[EXPERTS_MAX] = {0}, next[EXPERTS_MAX], row = 0, n = 0;
    for (uint32_t s = 0; s < n_slots; s++) {
        CHECK(r->chosen[s] < x->experts);
        count[r->chosen[s]]++;
    }
    for (uint32_t e = 0; e < x->experts; e++) {
        if (count[e] == 0)
            continue;
        uint32_t *item = r->items + (size_t)EXPERTS_ITEM * n++;
        item[EXPERTS_EXPERT] = e;
        item[EXPERTS_ROW] = next[e] = row;
        item[EXPERTS_ROWS] = count[e];
        row += (uint32_t)arith_round_up(count[e], x->align);
    }
    CHECK(row <= x->rows && n <= n_slots);
    *r->n_items = n;
    for (uint32_t s = 0; s < n_slots; s++) {
        uint32_t at = next[r->chosen[s]]++;
        r->place[s] = at;
        r->token[at] = s / x->used;
        r->factor[at] = r->weight[s];
    }
}

/* As group_slots, of experts that have no slot elsewhere; and where each item's rows are among those of all.
 */
void cpu_experts_group(const struct member *m, const struct graph_op *op, const uint32_t *chosen,
                       const uint32_t *map) {
    const struct graph_experts *x = &op->experts;
    const struct routes r = routes_of(m, x, x->routes);
    const uint32_t n_slots = m->h->n_tokens * x->used;
    uint32_t count[EXPERTS_MAX] = {0}, next[EXPERTS_MAX], row = 0, n = 0, before = 0;
    for (uint32_t s = 0; s < n_slots; s++) {
        CHECK(chosen[s] < x->experts);
        count[chosen[s]]++;
    }
    for (uint32_t e = 0; e < x->experts; before += count[e++]) {
        if (count[e] == 0 || (map != NULL && map[e] != EXPERTS_FAR))
            continue;
        uint32_t *item = r.items + (size_t)EXPERTS_ITEM * n;
        r.apart[n++] = before;
        item[EXPERTS_EXPERT] = e;
        item[EXPERTS_ROW] = next[e] = row;
        item[EXPERTS_ROWS] = count[e];
        row += (uint32_t)arith_round_up(count[e], x->align);
    }
    CHECK(row <= x->rows && n <= n_slots);
    *r.n_items = n;
    for (uint32_t s = 0; s < n_slots; s++) {
        const bool mine = map == NULL || map[chosen[s]] == EXPERTS_FAR;
        r.place[s] = mine ? next[chosen[s]]++ : EXPERTS_FAR;
        if (mine)
            r.token[r.place[s]] = s / x->used;
    }
}

const uint32_t *cpu_experts_rows(const struct member *m, uint32_t routes, uint32_t used) {
    const struct graph_experts x = {.used = used};
    return routes_of(m, &x, routes).place;
}

void cpu_experts_route(const struct member *m, const struct graph_op *op) {
    const struct graph_experts *x = &op->experts;
    const struct routes r = routes_of(m, x, op->out);
    const uint32_t width = m->g->values[op->in].width;
    for (uint32_t t = share_begin(m, m->h->n_tokens); t < share_end(m, m->h->n_tokens); t++)
        m->d->kernels.route(
            &(struct kernels_route){.logits = value_f32(m, op->in) + (size_t)t * width,
                                    .bias = op->n_weights > 0 ? plain_weight(m, op->weight[0]) : NULL,
                                    .experts = x->experts,
                                    .used = x->used,
                                    .how = x->how,
                                    .groups = x->groups,
                                    .groups_used = x->groups_used,
                                    .scale = x->scale,
                                    .chosen = r.chosen + (size_t)t * x->used,
                                    .weight = r.weight + (size_t)t * x->used});
    team_barrier(m->d->team, m->id);
    if (m->id == 0)
        group_slots(x, &r, m->h->n_tokens * x->used);
}

/* Rows that a member has gathered. */
struct gathered {
    uint32_t row, n; /* n 0: none yet */
    struct kernels_act act;
};

/* memory NULL: only the bytes that it takes. */
static struct kernels_act carve_act(uint8_t *memory, uint64_t capacity, uint32_t forms, uint32_t rows,
                                    uint32_t k, uint64_t *bytes) {
    struct carve c = memory != NULL ? carve_in(memory, capacity) : carve_count();
    struct kernels_act a = {0};
    if (forms & GRAPH_F32)
        a.f32 = carve_take(&c, (uint64_t)rows * k, sizeof *a.f32);
    if (forms & GRAPH_I8_32) {
        a.q32 = carve_take(&c, (uint64_t)rows * k, 1);
        a.d32 = carve_take(&c, (uint64_t)rows * (k / 32), sizeof *a.d32);
        a.s32 = carve_take(&c, (uint64_t)rows * (k / 32), sizeof *a.s32);
    }
    if (forms & GRAPH_I8_256) {
        a.q256 = carve_take(&c, (uint64_t)rows * k, 1);
        a.d256 = carve_take(&c, (uint64_t)rows * (k / 256), sizeof *a.d256);
        a.s256 = carve_take(&c, (uint64_t)rows * (k / 16), sizeof *a.s256);
    }
    *bytes = c.used;
    return a;
}

/* The forms that the op's matrices multiply. */
static uint32_t forms_of(const struct graph *g, const struct graph_op *op) {
    uint32_t forms = 0;
    for (uint32_t i = 0; i < op->n_weights; i++)
        forms |= graph_form_for(g->weights[op->weight[i]].tensor);
    return forms;
}

static uint32_t gathered_rows(const struct graph *g) {
    return (uint32_t)arith_round_up(ARITH_MIN(g->want.batch, (uint32_t)CPU_EXPERT_ROWS), ACT_TILE_PAIR);
}

uint64_t cpu_experts_bytes(const struct graph *g) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *op = &g->ops[i];
        uint64_t bytes = 0;
        if (op->kind != GRAPH_EXPERTS && op->kind != GRAPH_HEADS)
            continue;
        if (op->kind == GRAPH_HEADS)
            carve_act(NULL, 0, forms_of(g, op), gathered_rows(g), g->weights[op->weight[0]].layout.cols,
                      &bytes);
        else if (graph_op_opens_experts(op))
            carve_act(NULL, 0, forms_of(g, op), gathered_rows(g), g->values[op->in].width, &bytes);
        else if (op->work == GRAPH_NONE)
            bytes = (uint64_t)g->want.batch * CPU_TILE_ROWS * sizeof(float);
        most = ARITH_MAX(most, bytes);
    }
    return arith_round_up(most, CARVE_ALIGN);
}

static uint8_t *work_of(const struct member *m) {
    return m->d->experts_work + m->id * m->d->experts_stride;
}

/* Some columns of an act's row. */
struct columns {
    uint32_t row, width; /* of all columns */
    uint32_t first;
};

/* The quants of k columns of a row to a row of another act. */
static void copy_quants(int8_t *to, uint32_t to_rows, uint32_t to_row, const int8_t *from, uint32_t from_rows,
                        struct columns c, enum act_tile form, uint32_t k) {
    _Alignas(64) int8_t q[ACT_TILE_SEGMENT];
    for (uint32_t at = 0; at < k; at += ACT_TILE_SEGMENT) {
        const uint32_t n = ARITH_MIN(k - at, (uint32_t)ACT_TILE_SEGMENT);
        act_tiles_get(q, from, from_rows, form, c.width, c.row, c.first + at, n);
        act_tiles_put(to, q, to_rows, form, k, to_row, at, n);
    }
}

static void copy_row(const struct kernels_act *to, uint32_t to_row, const struct kernels_act *from,
                     struct columns c, uint32_t k) {
    const size_t t = to_row, f = (size_t)c.row * c.width + c.first;
    if (to->f32 != NULL)
        memcpy(to->f32 + t * k, from->f32 + f, k * sizeof *to->f32);
    if (to->q32 != NULL) {
        copy_quants(to->q32, to->tile_rows, to_row, from->q32, from->tile_rows, c, ACT_TILE_32, k);
        memcpy(to->d32 + t * (k / 32), from->d32 + f / 32, k / 32 * sizeof *to->d32);
        memcpy(to->s32 + t * (k / 32), from->s32 + f / 32, k / 32 * sizeof *to->s32);
    }
    if (to->q256 != NULL) {
        copy_quants(to->q256, to->tile_rows, to_row, from->q256, from->tile_rows, c, ACT_TILE_256, k);
        memcpy(to->d256 + t * (k / 256), from->d256 + f / 256, k / 256 * sizeof *to->d256);
        memcpy(to->s256 + t * (k / 16), from->s256 + f / 16, k / 16 * sizeof *to->s256);
    }
}

static void gather(const struct member *m, const struct graph_op *op, const struct routes *r, uint32_t row,
                   uint32_t n, struct gathered *to) {
    if (to->n == n && to->row == row)
        return;
    const uint32_t k = m->g->values[op->in].width;
    const struct kernels_act from = value_act(m, op->in);
    CHECK(n > 0 && n <= gathered_rows(m->g) && row + n <= op->experts.rows);
    uint64_t bytes = 0;
    to->act = carve_act(work_of(m), m->d->experts_stride, forms_of(m->g, op), gathered_rows(m->g), k, &bytes);
    to->act.tile_rows = n < ACT_TILE_ROWS ? 0 : (uint32_t)arith_round_up(n, ACT_TILE_PAIR);
    to->row = row;
    to->n = n;
    for (uint32_t j = 0; j < n; j++)
        copy_row(&to->act, j, &from, (struct columns){.row = r->token[row + j], .width = k}, k);
}

/* Panels of one expert's matrix of op's weight i times rows first .. first + tokens of a, into sums. Where
 * there are several experts a matrix lies in one piece. */
static void multiply(const struct member *m, const struct graph_op *op, uint32_t i, uint32_t expert,
                     uint32_t panel, uint32_t n_panels, const struct kernels_act *a, uint32_t first,
                     uint32_t tokens, float *sums) {
    const struct graph_weight *w = &m->g->weights[op->weight[i]];
    float *begin = (float *)(void *)(m->d->matmul_work + m->id * m->d->matmul_stride);
    panel += expert * w->layout.panels;
    CHECK(expert < w->matrices && panel + n_panels <= graph_weight_panels(w));
    while (n_panels > 0) {
        const uint32_t n = ARITH_MIN(n_panels, panels_in_piece(w, panel));
        struct kernels_matmul product = {
            .out = sums,
            .out_panel = m->d->sums_panel,
            .l = &w->layout,
            .panels = panel_at(m, w, panel),
            .n_panels = n,
            .a = a,
            .first = first,
            .tokens = tokens,
            .work = begin + 2 * CPU_TILE_PANELS * m->d->sums_panel,
        };
        m->d->kernels.matmul[w->layout.type](&product);
        scale_sums(m, op, i, expert, n, tokens, sums);
        panel += n;
        n_panels -= n;
        sums += n * m->d->sums_panel;
    }
}

static const float *bias_of(const struct member *m, const struct graph_op *op, uint32_t i, uint32_t expert,
                            uint32_t row) {
    if (op->bias[i] == GRAPH_NONE)
        return NULL;
    return plain_weight(m, op->bias[i]) + (size_t)expert * m->g->weights[op->weight[i]].layout.rows + row;
}

static void activate(const struct member *m, const struct graph_op *op, float *gate, const float *up,
                     uint32_t n) {
    const struct graph_experts *x = &op->experts;
    if (op->epilogue == GRAPH_RELU2)
        m->d->kernels.relu2(gate, gate, n);
    else if (op->epilogue == GRAPH_GEGLU)
        m->d->kernels.gelu_mul(gate, gate, up, n);
    else if (x->clamped)
        m->d->kernels.clamped_glu(gate, gate, up, n, x->alpha, x->limit);
    else
        m->d->kernels.silu_mul(gate, gate, up, n);
}

/* Panels of an item's gate and up, or of up alone. int8: groups of the result are whole. */
static void run_gated(const struct member *m, const struct graph_op *op, const struct routes *r,
                      const uint32_t *item, uint32_t panel, uint32_t n_panels, bool int8,
                      struct gathered *rows) {
    const struct kernels *k = &m->d->kernels;
    const struct graph_value *out = &m->g->values[op->out];
    const struct graph_weight *gate = &m->g->weights[op->weight[0]];
    const struct kernels_act forms = value_act(m, op->out);
    float *sums = (float *)(void *)(m->d->matmul_work + m->id * m->d->matmul_stride);
    float *other = sums + CPU_TILE_PANELS * m->d->sums_panel;
    const uint32_t column = panel * PANEL_ROWS;
    const uint32_t n = ARITH_MIN(gate->layout.rows - column, n_panels * PANEL_ROWS);
    const float *gate_bias = bias_of(m, op, 0, item[EXPERTS_EXPERT], column);
    const bool gated = graph_op_gated(op);
    const float *up_bias = bias_of(m, op, 1, item[EXPERTS_EXPERT], column);
    _Alignas(64) float g[CPU_TILE_ROWS], u[CPU_TILE_ROWS];
    const uint32_t most = gathered_rows(m->g);
    for (uint32_t first = 0; first < item[EXPERTS_ROWS]; first += most) {
        const uint32_t here = ARITH_MIN(item[EXPERTS_ROWS] - first, most);
        gather(m, op, r, item[EXPERTS_ROW] + first, here, rows);
        multiply(m, op, 0, item[EXPERTS_EXPERT], panel, n_panels, &rows->act, 0, here, sums);
        if (gated)
            multiply(m, op, 1, item[EXPERTS_EXPERT], panel, n_panels, &rows->act, 0, here, other);
        for (uint32_t j = 0; j < here; j++) {
            const uint32_t row = item[EXPERTS_ROW] + first + j;
            take_sums(m, sums, j, n, g);
            if (gated)
                take_sums(m, other, j, n, u);
            if (gate_bias != NULL)
                k->add(g, g, gate_bias, n);
            if (up_bias != NULL)
                k->add(u, u, up_bias, n);
            activate(m, op, g, u, n);
            if (int8)
                quantise_part(m, out, &forms, row, column, n, g);
            else
                memcpy(forms.f32 + (size_t)row * out->width + column, g, n * sizeof *g);
        }
    }
}

/* How many panels a member takes at once, of an op with so many units of `unit` panels each: with more rows a
 * kernel's call is dear enough that it shall have all its panels. */
#define EXPERTS_FEW 8

static uint64_t least_units(const struct member *m, const struct graph_experts *x, const struct routes *r,
                            uint64_t units, uint64_t most) {
    if (m->h->n_tokens * x->used <= EXPERTS_FEW * *r->n_items)
        return 1;
    return ARITH_MAX(ARITH_MIN(most, units / (4 * (uint64_t)m->n)), (uint64_t)1);
}

static void run_all_gated(const struct member *m, const struct graph_op *op, const struct routes *r) {
    const struct graph_value *out = &m->g->values[op->out];
    const uint32_t panels = m->g->weights[op->weight[0]].layout.panels;
    const uint32_t group = int8_group(out), n_items = *r->n_items;
    /* Results become int8 where they are made, if whole groups of them share out well. */
    uint32_t unit = ARITH_MAX(group / PANEL_ROWS, 2u);
    uint64_t units = arith_ceil_div(panels, unit);
    const uint64_t each = (n_items * units + m->n - 1) / m->n;
    const bool int8 = group != 0 && each * m->n <= n_items * units + n_items * units / 8;
    if (!int8) {
        unit = 2;
        units = arith_ceil_div(panels, unit);
    }
    struct gathered rows = {0};
    const uint64_t most = CPU_TILE_PANELS / unit;
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, n_items * units);
    const uint64_t least = least_units(m, &op->experts, r, n_items * units, most);
    for (uint64_t first, end; team_share_take(&share, least, most, &first, &end);)
        for (uint64_t u = first; u < end;) {
            const uint64_t of_item = u % units, n = ARITH_MIN(end - u, units - of_item);
            const uint32_t panel = (uint32_t)of_item * unit;
            run_gated(m, op, r, r->items + EXPERTS_ITEM * (u / units), panel,
                      ARITH_MIN((uint32_t)n * unit, panels - panel), int8, &rows);
            u += n;
        }
    if (int8 || group == 0)
        return;
    team_barrier(m->d->team, m->id);
    const struct kernels_act a = value_act(m, op->out);
    const uint32_t n_slots = m->h->n_tokens * op->experts.used;
    for (uint32_t s = share_begin(m, n_slots); s < share_end(m, n_slots); s++)
        if (r->place[s] != EXPERTS_FAR)
            quantise_row(m, out, &a, r->place[s], a.f32 + (size_t)r->place[s] * out->width);
}

/* Panels of an item's product: its rows' sums to their tokens'. */
static void add_item(const struct member *m, const struct graph_op *op, const struct routes *r,
                     const uint32_t *item, uint32_t panel, uint32_t n_panels, float *all) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const struct kernels_act a = value_act(m, op->in);
    const uint32_t column = panel * PANEL_ROWS;
    const uint32_t n = ARITH_MIN(w->layout.rows - column, n_panels * PANEL_ROWS);
    const float *bias = bias_of(m, op, 0, item[EXPERTS_EXPERT], column);
    float *sums = (float *)(void *)(m->d->matmul_work + m->id * m->d->matmul_stride);
    _Alignas(64) float y[CPU_TILE_ROWS];
    for (uint32_t first = 0; first < item[EXPERTS_ROWS]; first += CPU_TILE_TOKENS) {
        const uint32_t here = ARITH_MIN(item[EXPERTS_ROWS] - first, (uint32_t)CPU_TILE_TOKENS);
        const uint32_t row = item[EXPERTS_ROW] + first;
        multiply(m, op, 0, item[EXPERTS_EXPERT], panel, n_panels, &a, row, here, sums);
        for (uint32_t j = 0; j < here; j++) {
            take_sums(m, sums, j, n, y);
            if (bias != NULL)
                m->d->kernels.add(y, y, bias, n);
            m->d->kernels.add_scaled(all + (size_t)r->token[row + j] * CPU_TILE_ROWS, y, r->factor[row + j],
                                     n);
        }
    }
}

/* Of op.work: rows of slots, an expert's one after the other and without a gap between experts, but for the
 * rows of experts that another device computes. */
static void keep_apart(const struct member *m, const struct graph_op *op, const struct routes *r,
                       uint32_t panel, uint32_t n_panels) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const struct kernels_act a = value_act(m, op->in);
    const uint32_t column = panel * PANEL_ROWS, width = m->g->values[op->work].width;
    const uint32_t n = ARITH_MIN(w->layout.rows - column, n_panels * PANEL_ROWS);
    float *sums = (float *)(void *)(m->d->matmul_work + m->id * m->d->matmul_stride);
    for (uint32_t i = 0; i < *r->n_items; i++) {
        const uint32_t *item = r->items + (size_t)EXPERTS_ITEM * i;
        float *to = value_f32(m, op->work) + (size_t)r->apart[i] * width + column;
        const float *bias = bias_of(m, op, 0, item[EXPERTS_EXPERT], column);
        for (uint32_t first = 0; first < item[EXPERTS_ROWS]; first += CPU_TILE_TOKENS) {
            const uint32_t here = ARITH_MIN(item[EXPERTS_ROWS] - first, (uint32_t)CPU_TILE_TOKENS);
            multiply(m, op, 0, item[EXPERTS_EXPERT], panel, n_panels, &a, item[EXPERTS_ROW] + first, here,
                     sums);
            for (uint32_t j = 0; j < here; j++, to += width) {
                take_sums(m, sums, j, n, to);
                if (bias != NULL)
                    m->d->kernels.add(to, to, bias, n);
            }
        }
    }
}

static void run_down(const struct member *m, const struct graph_op *op, const struct routes *r,
                     uint32_t panel, uint32_t n_panels) {
    const struct graph_experts *x = &op->experts;
    const uint32_t width = m->g->values[op->out].width, column = panel * PANEL_ROWS;
    const uint32_t n = ARITH_MIN(width - column, n_panels * PANEL_ROWS);
    if (op->work != GRAPH_NONE) {
        keep_apart(m, op, r, panel, n_panels);
        return;
    }
    float *all = (float *)(void *)work_of(m);
    for (uint32_t t = 0; t < m->h->n_tokens; t++)
        memset(all + (size_t)t * CPU_TILE_ROWS, 0, n * sizeof *all);
    for (uint32_t i = 0; i < *r->n_items; i++)
        add_item(m, op, r, r->items + (size_t)EXPERTS_ITEM * i, panel, n_panels, all);
    for (uint32_t t = 0; t < m->h->n_tokens; t++) {
        float *sum = all + (size_t)t * CPU_TILE_ROWS;
        float *y = value_f32(m, op->out) + (size_t)t * width + column;
        float gate = 1.0f;
        if (x->gate != GRAPH_NONE)
            gate = num_sigmoid(value_f32(m, x->gate)[(size_t)t * m->g->values[x->gate].width + x->experts]);
        if (x->shared != GRAPH_NONE)
            m->d->kernels.add_scaled(sum, value_f32(m, x->shared) + (size_t)t * width + column, gate, n);
        if (op->epilogue == GRAPH_RESIDUAL)
            m->d->kernels.add(y, y, sum, n);
        else
            memcpy(y, sum, n * sizeof *y);
    }
}

/* Panels of matrix h times its columns of all tokens. */
static void run_head(const struct member *m, const struct graph_op *op, uint32_t h, uint32_t panel,
                     uint32_t n_panels) {
    const struct panel_layout *l = &m->g->weights[op->weight[0]].layout;
    const struct graph_value *in = &m->g->values[op->in], *out = &m->g->values[op->out];
    const struct kernels_act from = value_act(m, op->in);
    const uint32_t most = gathered_rows(m->g),
                   n = ARITH_MIN(l->rows - panel * PANEL_ROWS, n_panels * PANEL_ROWS);
    float *sums = (float *)(void *)(m->d->matmul_work + m->id * m->d->matmul_stride);
    float *to = value_f32(m, op->out) + op->column[0] + (size_t)h * op->heads.out_stride + panel * PANEL_ROWS;
    for (uint32_t first = 0; first < m->h->n_tokens; first += most) {
        const uint32_t here = ARITH_MIN(m->h->n_tokens - first, most);
        uint64_t bytes = 0;
        struct kernels_act a =
            carve_act(work_of(m), m->d->experts_stride, forms_of(m->g, op), most, l->cols, &bytes);
        a.tile_rows = here < ACT_TILE_ROWS ? 0 : (uint32_t)arith_round_up(here, ACT_TILE_PAIR);
        for (uint32_t j = 0; j < here; j++)
            copy_row(&a, j, &from, (struct columns){first + j, in->width, h * op->heads.in_stride}, l->cols);
        multiply(m, op, 0, h, panel, n_panels, &a, 0, here, sums);
        for (uint32_t j = 0; j < here; j++)
            take_sums(m, sums, j, n, to + (size_t)(first + j) * out->width);
    }
}

void cpu_experts_heads(const struct member *m, const struct graph_op *op) {
    const struct graph_weight *w = &m->g->weights[op->weight[0]];
    const uint32_t panels = w->layout.panels;
    const uint64_t units = arith_ceil_div(panels, CPU_TILE_PANELS);
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, units * w->matrices);
    CHECK(m->g->values[op->out].forms == GRAPH_F32);
    for (uint64_t first, end; team_share_take(&share, 1, 1, &first, &end);)
        for (uint64_t u = first; u < end; u++) {
            const uint32_t panel = (uint32_t)(u % units) * CPU_TILE_PANELS;
            run_head(m, op, (uint32_t)(u / units), panel,
                     ARITH_MIN(panels - panel, (uint32_t)CPU_TILE_PANELS));
        }
}

void cpu_experts_run(const struct member *m, const struct graph_op *op) {
    const struct routes r = routes_of(m, &op->experts, op->experts.routes);
    if (graph_op_opens_experts(op)) {
        run_all_gated(m, op, &r);
        return;
    }
    const uint32_t panels = m->g->weights[op->weight[0]].layout.panels;
    const uint64_t units = arith_ceil_div(panels, 2), most = CPU_TILE_PANELS / 2;
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, units);
    const uint64_t least = least_units(m, &op->experts, &r, units, most);
    for (uint64_t first, end; team_share_take(&share, least, most, &first, &end);)
        run_down(m, op, &r, (uint32_t)first * 2, (uint32_t)ARITH_MIN(2 * (end - first), panels - 2 * first));
}
