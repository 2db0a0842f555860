/* What device.h promises of all back ends alike: names of arenas, where caches lie, the layout of pinned
 * parts, workspaces of graphs. */
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

const char *device_arena_name(enum device_arena a) {
    static const char *const names[DEVICE_ARENAS] = {"weights",  "kv",     "scratch",
                                                     "exchange", "window", "slots"};
    CHECK(a < DEVICE_ARENAS);
    return names[a];
}

static uint32_t units_of(const struct device_model *m, uint32_t cache, bool spilled) {
    const struct graph_cache *g = &m->graph->caches[cache];
    uint32_t rest = m->caches[cache].spilled_layers;
    CHECK(rest <= g->n_layers);
    return (spilled ? rest : g->n_layers - rest) * g->units;
}

static uint32_t slices_before(const struct device_model *m, uint32_t cache, bool spilled) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < cache; i++)
        sum += (uint32_t)arith_ceil_div(units_of(m, i, spilled), m->caches[i].units_per_slice);
    return sum;
}

uint32_t device_cache_slices(const struct device_model *m, bool spilled_too) {
    uint32_t n = m->graph->n_caches;
    return slices_before(m, n, false) + (spilled_too ? slices_before(m, n, true) : 0);
}

struct device_cache_part device_cache_part(const struct device_model *m, uint32_t cache, bool spilled) {
    CHECK(cache < m->graph->n_caches);
    struct device_cache_part p = {.units = units_of(m, cache, spilled)};
    p.first = slices_before(m, cache, spilled) + (spilled ? device_cache_slices(m, false) : 0);
    p.end = p.first + (uint32_t)arith_ceil_div(p.units, m->caches[cache].units_per_slice);
    return p;
}

uint32_t device_hosted_forms(const struct graph *g, uint32_t op) {
    uint32_t forms = 0;
    for (uint32_t i = 0; i < g->ops[op].n_weights; i++)
        forms |= graph_form_for(g->weights[g->ops[op].weight[i]].tensor);
    return forms;
}

uint64_t device_hosted_row_bytes(const struct graph *g, uint32_t op) {
    const uint32_t forms = device_hosted_forms(g, op);
    const uint64_t n = g->values[g->ops[op].in].width;
    return (forms & GRAPH_F32 ? 4 * n : 0) + (forms & GRAPH_I8_32 ? n + n / 32 * 6 : 0) +
           (forms & GRAPH_I8_256 ? n + n / 256 * 4 + n / 16 * 2 : 0);
}

void device_hosted_lay_out(const struct device_model *m, uint64_t base, struct device_hosted *h) {
    const struct graph *g = m->graph;
    uint64_t slots = 0, in = 0, out = 0;
    uint32_t forms = 0;
    for (uint32_t i = 0; i < g->n_ops && m->hosted; i++) {
        const struct graph_op *op = &g->ops[i];
        if (op->kind != GRAPH_EXPERTS)
            continue;
        slots = ARITH_MAX(slots, (uint64_t)g->want.batch * op->experts.used);
        if (!graph_op_opens_experts(op)) {
            out = ARITH_MAX(out, (uint64_t)g->values[op->out].width);
            continue;
        }
        in = ARITH_MAX(in, (uint64_t)g->values[op->in].width);
        forms |= device_hosted_forms(g, i);
    }
    const uint64_t rows = g->want.batch;
    struct carve c = carve_count();
    const struct {
        uint64_t *at;
        uint64_t bytes;
    } parts[] = {{&h->chosen, slots * sizeof(uint32_t)},
                 {&h->f32, forms & GRAPH_F32 ? rows * in * sizeof(float) : 0},
                 {&h->q32, forms & GRAPH_I8_32 ? rows * in : 0},
                 {&h->d32, forms & GRAPH_I8_32 ? rows * (in / 32) * sizeof(float) : 0},
                 {&h->s32, forms & GRAPH_I8_32 ? rows * (in / 32) * sizeof(int16_t) : 0},
                 {&h->q256, forms & GRAPH_I8_256 ? rows * in : 0},
                 {&h->d256, forms & GRAPH_I8_256 ? rows * (in / 256) * sizeof(float) : 0},
                 {&h->s256, forms & GRAPH_I8_256 ? rows * (in / 16) * sizeof(int16_t) : 0},
                 {&h->out, slots * out * sizeof(float)}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].at = base + c.used;
        carve_take(&c, parts[i].bytes, 1);
    }
    h->bytes = c.used;
}

void device_pinned_lay_out(const struct device_facts *f, const struct device_model *m,
                           struct device_pinned *p) {
    *p = (struct device_pinned){0};
    for (int k = 0; k < 2; k++)
        p->logits[k] = p->picks[k] = p->pictures[k] = p->ngrams[k] = p->blends[k] = p->windows[k] =
            UINT64_MAX;
    if (f->host_memory)
        return;
    const struct graph *g = m->graph;
    struct carve c = carve_count();
    CHECK(g->logits != GRAPH_NONE || g->picks == GRAPH_NONE);
    for (int k = 0; k < 2; k++) {
        p->step[k] = c.used;
        carve_take(&c, m->step_bytes, 1);
    }
    for (int k = 0; k < 2 && g->logits != GRAPH_NONE; k++) {
        p->logits[k] = c.used;
        carve_take(&c, g->values[g->logits].half_bytes, 1);
        if (g->picks == GRAPH_NONE)
            continue;
        p->picks[k] = c.used;
        carve_take(&c, g->values[g->picks].half_bytes, 1);
    }
    const struct {
        uint32_t value;
        uint64_t *at;
    } inputs[] = {
        {g->pictures, p->pictures}, {g->ngrams, p->ngrams}, {g->blends, p->blends}, {g->windows, p->windows}};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        for (uint32_t k = 0; k < m->slots && inputs[i].value != GRAPH_NONE; k++) {
            inputs[i].at[k] = c.used;
            carve_take(&c, g->values[inputs[i].value].half_bytes, 1);
        }
    struct device_hosted hosted;
    p->hosted = c.used;
    device_hosted_lay_out(m, 0, &hosted);
    p->hosted_bytes = hosted.bytes;
    carve_take(&c, hosted.bytes, 1);
    const struct device_slot_table table = device_slot_table(m);
    for (int k = 0; k < 2; k++) {
        p->table[k] = c.used;
        carve_take(&c, (uint64_t)table.layers * table.stride, sizeof(uint32_t));
    }
    p->moves = c.used;
    p->moves_bytes =
        arith_round_up(sizeof(struct step_moves) + m->moves.pieces * sizeof(struct step_move), CARVE_ALIGN);
    carve_take(&c, arith_must_mul(device_moves_n(&m->moves), p->moves_bytes), 1);
    p->bytes = c.used;
}

/* Places weight by weight in the order of the ops; what does not fit into a slice begins the next. */
static struct device_slot_place next_slots(const struct device_model *m, const struct graph_op *op,
                                           uint32_t weight, uint32_t *slice, uint64_t *at) {
    const struct graph_weight *w = &m->graph->weights[op->weight[weight]];
    const uint64_t n = m->cached.n;
    const uint64_t panels = arith_round_up(n * w->layout.panels * w->layout.panel_bytes, CARVE_ALIGN);
    const uint64_t bias =
        op->bias[weight] != GRAPH_NONE ? arith_round_up(n * w->layout.rows * sizeof(float), CARVE_ALIGN) : 0;
    const uint64_t factor =
        op->factor[weight] != GRAPH_NONE ? arith_round_up(n * sizeof(float), CARVE_ALIGN) : 0;
    if (*at > 0 && *at + panels + bias + factor > m->cached.slice_limit) {
        ++*slice;
        *at = 0;
    }
    const struct device_slot_place p = {*slice, *at, *at + panels, *at + panels + bias};
    *at += panels + bias + factor;
    return p;
}

struct device_slot_place device_slot_place(const struct device_model *m, uint32_t op, uint32_t weight) {
    struct device_slot_place p = {0};
    uint32_t slice = 0;
    uint64_t at = 0;
    CHECK(m->cached.n > 0 && m->graph->ops[op].kind == GRAPH_EXPERTS);
    for (uint32_t i = 0; i <= op; i++)
        for (uint32_t k = 0; m->graph->ops[i].kind == GRAPH_EXPERTS && k < m->graph->ops[i].n_weights &&
                             (i < op || k <= weight);
             k++)
            p = next_slots(m, &m->graph->ops[i], k, &slice, &at);
    return p;
}

uint32_t device_slot_slices(const struct device_model *m, uint64_t slices[GRAPH_MAX_SLICES]) {
    uint32_t slice = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; m->cached.n > 0 && i < m->graph->n_ops; i++)
        for (uint32_t k = 0; m->graph->ops[i].kind == GRAPH_EXPERTS && k < m->graph->ops[i].n_weights; k++) {
            (void)next_slots(m, &m->graph->ops[i], k, &slice, &at);
            if (slice < GRAPH_MAX_SLICES)
                slices[slice] = at;
        }
    return at > 0 ? slice + 1 : 0;
}

struct device_slot_table device_slot_table(const struct device_model *m) {
    struct device_slot_table t = {0};
    for (uint32_t i = 0; m->cached.n > 0 && i < m->graph->n_ops; i++) {
        if (!graph_op_opens_experts(&m->graph->ops[i]))
            continue;
        t.layers++;
        t.experts = ARITH_MAX(t.experts, m->graph->ops[i].experts.experts);
    }
    t.copies = t.experts;
    t.stride =
        (uint32_t)arith_round_up(t.copies + 1 + 2 * DEVICE_SLOT_COPIES, CARVE_ALIGN / sizeof(uint32_t));
    return t;
}

uint32_t device_slot_layer(const struct device_model *m, uint32_t op) {
    uint32_t n = 0;
    for (uint32_t i = 0; i <= op; i++)
        n += graph_op_opens_experts(&m->graph->ops[i]);
    CHECK(n > 0);
    return n - 1;
}

/* Cells beyond what tokens that are generated need, for the few last tokens of a prompt: cells are scratch
 * that grows with the context, so there are not many. */
#define CELLS_TO_SPARE 1024

uint32_t device_cells(const struct device_facts *f, uint32_t context, uint32_t sequences, uint32_t guesses,
                      uint32_t batch) {
    uint64_t splits = arith_ceil_div(context, KERNELS_SPLIT);
    CHECK(sequences > 0 && batch > 0);
    uint64_t each = ARITH_MIN((uint64_t)guesses + 1, (uint64_t)OPENCL_SPLIT_QUERIES);
    uint64_t least = ARITH_MIN(sequences * each, (uint64_t)batch) * splits;
    uint64_t most = ARITH_MIN((uint64_t)sequences * OPENCL_SPLIT_QUERIES, (uint64_t)batch) * splits;
    if (f->host_memory || splits <= 1)
        return 0;
    uint64_t cells = ARITH_MAX(least, ARITH_MIN(most, (uint64_t)CELLS_TO_SPARE));
    return (uint32_t)ARITH_MIN(cells, (uint64_t)UINT32_MAX);
}
