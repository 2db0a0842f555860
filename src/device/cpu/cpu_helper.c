/* device_helper.h on a team of threads: the experts of a GPU's graph as a small graph of their own, which a
 * CPU device runs op by op. A layer is one run of the team.
 *
 * Invariants: the weights are the GPU's, in host memory. The rows that come and go lie in the GPU's pinned
 * part (slice 0 of exchange), routes and the rows between the products in the helper's memory (slice 0 of
 * scratch). All layers use the same places, one after the other. */
#include "device/device_helper.h"
#include "device/cpu/cpu_member.h"
#include "kernels/shared/act_tiles.h"
#include "kernels/shared/experts.h"

#define OPS    2 /* of a layer */
#define VALUES 4

struct device_helper {
    struct device *device;
    struct device_model model;
    struct graph graph;
    uint32_t *layer_of; /* [ops of the GPU's graph]: which layer the gated op is; else GRAPH_NONE */
    struct step_header *step;
    uint8_t *scratch;
    uint64_t scratch_bytes;
    struct device_hosted at;
    uint32_t layer; /* of the run */
};

static uint32_t count_layers(const struct graph *g) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        n += graph_op_opens_experts(&g->ops[i]);
    return n;
}

/* The op that multiplies what the gated op makes. */
static const struct graph_op *second_of(const struct graph *g, uint32_t gated) {
    for (uint32_t i = gated + 1; i < g->n_ops; i++)
        if (g->ops[i].kind == GRAPH_EXPERTS && g->ops[i].in == g->ops[gated].out)
            return &g->ops[i];
    CHECK(!"a gated op of experts without a second product");
    return NULL;
}

/* As a CPU's graph has them: an expert's rows begin at tiles. */
static struct graph_experts experts_of(const struct graph *gpu, const struct graph_op *op) {
    struct graph_experts x = op->experts;
    const uint64_t slots = (uint64_t)gpu->want.batch * x.used;
    x.align = ACT_TILE_PAIR;
    x.rows = (uint32_t)(slots + (x.align - 1) * ARITH_MIN(slots, (uint64_t)x.experts));
    x.shared = x.gate = GRAPH_NONE;
    return x;
}

/* An empty graph for so many layers, with the GPU's weights. */
static void make_graph(struct device_helper *h, const struct graph *gpu, struct graph_op *ops,
                       struct graph_value *values, uint32_t layers) {
    memset(h, 0, sizeof *h);
    h->graph = (struct graph){.want = {.batch = gpu->want.batch},
                              .width = gpu->width,
                              .weights = gpu->weights,
                              .n_weights = gpu->n_weights,
                              .weight_slices = gpu->weight_slices,
                              .logits = GRAPH_NONE,
                              .picks = GRAPH_NONE,
                              .landing = GRAPH_NONE,
                              .outgoing = GRAPH_NONE,
                              .ops = ops,
                              .values = values,
                              .max_ops = OPS * layers,
                              .max_values = VALUES * layers};
    h->model = (struct device_model){.graph = &h->graph, .slots = 1};
}

/* Where the GPU puts the rows of a layer that the experts multiply. */
static void place_in(struct graph_value *v, const struct device_hosted *at) {
    v->f32 = v->forms & GRAPH_F32 ? at->f32 : UINT64_MAX;
    v->q32 = at->q32, v->d32 = at->d32, v->s32 = at->s32;
    v->q256 = at->q256, v->d256 = at->d256, v->s256 = at->s256;
}

/* The two ops of a layer, their values, and the bytes of scratch that these take. */
static uint64_t add_layer(struct device_helper *h, const struct graph *gpu, uint32_t gated,
                          const struct device_hosted *at) {
    struct graph *g = &h->graph;
    const struct graph_op *first = &gpu->ops[gated], *second = second_of(gpu, gated);
    const struct graph_value *in = &gpu->values[first->in], *between = &gpu->values[first->out];
    struct graph_experts x = experts_of(gpu, first);
    const uint32_t slots = gpu->want.batch * x.used;
    g->want.tiled = false;
    const uint32_t rows_in =
        graph_add_value(g, "in", GRAPH_EXCHANGE, gpu->want.batch, in->width, device_hosted_forms(gpu, gated));
    place_in(&g->values[rows_in], at);
    const uint32_t out =
        graph_add_value(g, "out", GRAPH_EXCHANGE, slots, gpu->values[second->out].width, GRAPH_F32);
    g->values[out].f32 = at->out;
    x.routes = graph_add_value(g, "routes", GRAPH_SCRATCH, 1, EXPERTS_WORDS(slots, x.rows), GRAPH_F32);
    g->want.tiled = true;
    const uint32_t rows =
        graph_add_value(g, "between", GRAPH_SCRATCH, x.rows, between->width, between->forms);
    g->values[rows].offset = arith_round_up(g->values[x.routes].bytes, CARVE_ALIGN);
    CHECK(g->n_ops + OPS <= g->max_ops);
    struct graph_op *op = &g->ops[g->n_ops++];
    *op = *first;
    op->experts = x;
    op->in = rows_in;
    op->out = rows;
    op = &g->ops[g->n_ops++];
    *op = *second;
    op->experts = x;
    op->in = rows;
    op->out = op->work = out; /* rows of slots, which the GPU mixes */
    return g->values[rows].offset + g->values[rows].bytes;
}

/* Bytes of the opened CPU device, and of scratch: those of the layer that needs most. */
static void measure(const struct device_choice *c, const struct graph *gpu, uint64_t *device,
                    uint64_t *scratch) {
    const struct device_hosted nowhere = {0};
    *device = *scratch = 0;
    for (uint32_t i = 0; i < gpu->n_ops; i++) {
        struct graph_op ops[OPS];
        struct graph_value values[VALUES];
        struct device_helper one;
        if (!graph_op_opens_experts(&gpu->ops[i]))
            continue;
        make_graph(&one, gpu, ops, values, 1);
        const uint64_t values_take = add_layer(&one, gpu, i, &nowhere);
        const uint64_t device_takes = cpu_device_host_bytes(c, &one.model, false);
        *scratch = ARITH_MAX(*scratch, values_take);
        *device = ARITH_MAX(*device, device_takes);
    }
    CHECK(*device > 0);
}

struct parts {
    struct device_helper *helper;
    uint32_t *layer_of;
    struct graph_op *ops;
    struct graph_value *values;
    struct step_header *step;
    uint8_t *scratch;
    void *device;
    uint64_t device_bytes, scratch_bytes;
};

static struct parts lay_out(struct carve *c, const struct device_choice *choice, const struct graph *gpu) {
    struct parts p;
    const uint32_t layers = count_layers(gpu);
    measure(choice, gpu, &p.device_bytes, &p.scratch_bytes);
    p.helper = carve_take(c, 1, sizeof *p.helper);
    p.layer_of = carve_take(c, gpu->n_ops, sizeof *p.layer_of);
    p.ops = carve_take(c, (uint64_t)OPS * layers, sizeof *p.ops);
    p.values = carve_take(c, (uint64_t)VALUES * layers, sizeof *p.values);
    p.step = carve_take(c, 1, sizeof *p.step);
    p.scratch = carve_take(c, p.scratch_bytes, 1);
    p.device = carve_take(c, p.device_bytes, 1);
    return p;
}

static struct device_choice choice_of(const struct device_choice *processors, bool joins) {
    struct device_choice c = *processors;
    c.joins = joins;
    return c;
}

uint64_t device_helper_bytes(const struct device_choice *processors, const struct device_model *m,
                             bool joins) {
    const struct device_choice choice = choice_of(processors, joins);
    struct carve count = carve_count();
    lay_out(&count, &choice, m->graph);
    return count.used;
}

stator_status device_helper_open(const struct device_choice *processors, const struct device_model *m,
                                 struct device_helper *with, const struct phase *phase, void *memory,
                                 uint64_t bytes, struct device_helper **out, stator_error *e) {
    struct device_choice choice = choice_of(processors, with != NULL);
    const struct graph *gpu = m->graph;
    struct carve c = carve_in(memory, bytes);
    struct parts p = lay_out(&c, &choice, gpu);
    struct device_helper *h = p.helper;
    *out = NULL;
    make_graph(h, gpu, p.ops, p.values, count_layers(gpu));
    h->layer_of = p.layer_of;
    h->step = p.step;
    h->scratch = p.scratch;
    h->scratch_bytes = p.scratch_bytes;
    memset(h->step, 0, sizeof *h->step);
    memset(h->scratch, 0, h->scratch_bytes);
    device_hosted_lay_out(m, 0, &h->at);
    for (uint32_t i = 0, layer = 0; i < gpu->n_ops; i++) {
        const bool gated = graph_op_opens_experts(&gpu->ops[i]);
        h->layer_of[i] = gated ? layer++ : GRAPH_NONE;
        if (gated)
            add_layer(h, gpu, i, &h->at);
    }
    choice.with = with != NULL ? with->device : NULL;
    const struct device_opening opening = {
        .choice = &choice, .model = &h->model, .phase = phase, .memory = p.device, .bytes = p.device_bytes};
    stator_status st = cpu_device_open(&opening, &h->device, e);
    *out = st == STATOR_OK ? h : NULL;
    return st;
}

static struct cpu_device *cpu_of(struct device_helper *h) {
    return (struct cpu_device *)h->device;
}

void device_helper_attach(struct device_helper *h, const struct device *gpu, void *pinned,
                          const struct device_pinned *at) {
    struct cpu_device *d = cpu_of(h);
    const struct graph *g = &h->graph;
    for (uint32_t i = 0; i < g->weight_slices; i++) {
        struct cpu_slice *s = &d->slices[DEVICE_WEIGHTS][i];
        s->memory = (uint8_t *)(uintptr_t)gpu->vtable->spilled(gpu, DEVICE_WEIGHTS, i, &s->bytes);
    }
    CHECK(g->weight_slices > 0 && d->slices[DEVICE_WEIGHTS][g->weight_slices - 1].memory != NULL);
    d->slices[DEVICE_EXCHANGE][0] =
        (struct cpu_slice){.memory = (uint8_t *)pinned + at->hosted, .bytes = at->hosted_bytes};
    d->slices[DEVICE_SCRATCH][0] = (struct cpu_slice){.memory = h->scratch, .bytes = h->scratch_bytes};
}

static void run_member(void *context, uint32_t member, uint32_t n) {
    struct device_helper *h = context;
    const struct member m = {
        .d = cpu_of(h), .g = &h->graph, .h = h->step, .slot = (const uint8_t *)h->step, .id = member, .n = n};
    const struct graph_op *ops = &h->graph.ops[OPS * h->layer];
    cpu_experts_run(&m, &ops[0]);
    team_barrier(m.d->team, member);
    cpu_experts_run(&m, &ops[1]);
}

void device_helper_run(struct device_helper *h, uint32_t op, uint32_t tokens, const uint32_t *map) {
    struct cpu_device *d = cpu_of(h);
    h->layer = h->layer_of[op];
    CHECK(h->layer != GRAPH_NONE && tokens > 0 && tokens <= h->graph.want.batch);
    h->step->n_tokens = tokens;
    const struct member m = {.d = d, .g = &h->graph, .h = h->step, .slot = (const uint8_t *)h->step, .n = 1};
    cpu_experts_group(&m, &h->graph.ops[OPS * h->layer],
                      (const uint32_t *)(const void *)(d->slices[DEVICE_EXCHANGE][0].memory + h->at.chosen),
                      map);
    team_run(d->team, run_member, h);
}

void device_helper_close(struct device_helper *h) {
    if (h == NULL)
        return;
    struct cpu_device *d = cpu_of(h);
    memset(d->slices, 0, sizeof d->slices); /* none is its own */
    d->device.vtable->close(&d->device);
}
