#include "plan/parts/split_estimate.h"

#include "arch/arch.h"
#include "graph/share.h"
#include "kernels/kernels.h"
#include "os/pages.h"

#include <stdio.h>

/* What a graph moves for one token. */
struct moved {
    double read;        /* bytes of weights and caches */
    double received;    /* bytes of the other devices' values */
    uint32_t exchanges; /* in turn */
};

/* Where graphs are built to be looked at. */
struct bench {
    struct planning *s;
    struct graph graph;
    void *tables;
    uint64_t bytes;
};

static double weight_bytes(const struct graph *g, const struct graph_op *op, uint32_t k) {
    const struct graph_weight *w = &g->weights[op->weight[k]];
    switch (graph_kind_info(op->kind)->use) {
    case GRAPH_LOOKUP:
        return (double)w->layout.panel_bytes / PANEL_ROWS;
    case GRAPH_CHOSEN:
        CHECK(op->experts.used <= op->experts.experts);
        return (double)w->bytes / op->experts.experts * op->experts.used;
    default:
        return (double)w->bytes;
    }
}

static double cache_bytes(const struct graph *g, uint32_t context) {
    double sum = 0;
    for (uint32_t i = 0; i < g->n_caches; i++) {
        const struct graph_cache *c = &g->caches[i];
        const double units = (double)c->n_layers * c->units, token = (double)c->bytes / KERNELS_KV_BLOCK;
        if (c->kind == GRAPH_STATE)
            sum += 2 * units * (double)c->bytes;
        else
            sum += units * token * (c->kind == GRAPH_RING ? ARITH_MIN(c->window, context) : context);
    }
    return sum;
}

/* Of the whole model (count 0), or of a share `index` of `count` equal ones, or of those in the proportions
 * of devices.split. The devices are those from `first` on. */
static stator_status measure(struct bench *b, uint32_t first, uint32_t index, uint32_t count, struct moved *m,
                             stator_error *e) {
    CHECK(count == 0 ? index == 0 : index < count && count <= DEVICE_MAX);
    const struct planning_want *want = &b->s->want;
    const struct config *c = &b->s->config;
    struct graph *g = &b->graph;
    struct graph_want gw = {.batch = want->batch,
                            .logits_rows = want->logits_rows,
                            .kv_type_k = want->kv_type_k,
                            .kv_type_v = want->kv_type_v,
                            .cells = device_cells(&b->s->devices[0].facts, want->context, want->sequences,
                                                  want->guesses, want->batch),
                            .counted = true,
                            .context = want->context,
                            .experts_apart = true,
                            .lands = count > 1,
                            .share = {.index = index, .count = count}};
    const bool stated = c->devices.tensor && c->devices.n_shares > 0;
    for (uint32_t i = 0; i < count; i++)
        gw.share.parts[i] = stated ? c->devices.share[first + i] : 1;
    struct carve carve = carve_in(b->tables, b->bytes);
    arch_layout_shares(g, &carve, b->s->shape, 1, 1);
    stator_status st = arch_build(g, b->s->shape, &gw, e);
    if (st != STATOR_OK)
        return st;
    *m = (struct moved){.read = cache_bytes(g, want->context),
                        .received = (double)(share_received(g) + share_received_row(g)),
                        .exchanges = share_exchanges(g, g->n_ops) + (share_head(g) != NULL)};
    for (uint32_t i = 0; i < g->n_ops; i++)
        for (uint32_t k = 0; k < g->ops[i].n_weights; k++)
            m->read += weight_bytes(g, &g->ops[i], k);
    return STATOR_OK;
}

/* Bytes per second, and seconds of one hop, from a device to another. Staged, both go twice over the bus. */
static double link_of(const struct planning *s, const struct plan_rates *r) {
    return (double)r->link / (s->config.transfer.mode == CONFIG_TRANSFER_STAGED ? 2 : 1);
}

static double hop_of(const struct planning *s, const struct plan_rates *r) {
    return (double)r->hop_ns * 1e-9 * (s->config.transfer.mode == CONFIG_TRANSFER_STAGED ? 2 : 1);
}

/* Seconds until every device of the group has read its share. The devices are [first, first + count). */
static stator_status group_time(struct bench *b, uint32_t first, uint32_t count, const struct plan_rates *r,
                                double part, double *seconds, stator_error *e) {
    double read = 0, received = 0;
    struct moved m = {0};
    for (uint32_t i = 0; i < count; i++) {
        stator_status st = measure(b, first, i, count, &m, e);
        if (st != STATOR_OK)
            return st;
        read = ARITH_MAX(read, m.read / (double)b->s->devices[first + i].facts.bandwidth);
        received = ARITH_MAX(received, m.received / link_of(b->s, r));
    }
    *seconds = part * (read + received + m.exchanges * hop_of(b->s, r));
    return STATOR_OK;
}

/* One device after the other reads its layers, which are divided by bandwidth. */
static stator_status layers_time(struct bench *b, const struct plan_rates *r, double *seconds,
                                 stator_error *e) {
    const uint32_t n = b->s->n_devices;
    struct moved m;
    double speed = 0;
    CHECK(n > 0);
    stator_status st = measure(b, 0, 0, 0, &m, e);
    for (uint32_t i = 0; i < n; i++)
        speed += (double)b->s->devices[i].facts.bandwidth;
    const double stream = shape_stream_width(b->s->shape) * sizeof(float) / link_of(b->s, r);
    *seconds = st == STATOR_OK ? n * m.read / speed + (n - 1) * (hop_of(b->s, r) + stream) : 0;
    return st;
}

static double rate(double seconds) {
    return seconds > 0 ? 1 / seconds : 0;
}

/* The layers of a group, of all: as devices.groups says, or by bandwidth. */
static double group_part(const struct planning *s, uint32_t group, uint32_t n_groups) {
    const struct config *c = &s->config;
    const uint32_t count = s->n_devices / n_groups;
    double own = 0, all = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const double one = c->devices.n_group_layers > 0 ? c->devices.group_layers[i / count]
                                                         : (double)s->devices[i].facts.bandwidth;
        own += i / count == group ? one : 0;
        all += one;
    }
    return own / all;
}

/* Groups one after the other, each with some of the layers, and tensor shares in each. */
static stator_status groups_time(struct bench *b, const struct plan_rates *r, uint32_t n_groups,
                                 double *seconds, stator_error *e) {
    const struct planning *s = b->s;
    const uint32_t count = s->n_devices / n_groups;
    const double stream = shape_stream_width(s->shape) * sizeof(float) / link_of(s, r);
    stator_status st = STATOR_OK;
    /* A boundary, and one more exchange: the group's first device gives what it has got to the others. */
    *seconds = (n_groups - 1) * 2 * (hop_of(s, r) + stream);
    for (uint32_t i = 0; i < n_groups && st == STATOR_OK; i++) {
        double one = 0;
        st = group_time(b, i * count, count, r, group_part(s, i, n_groups), &one, e);
        *seconds += one;
    }
    return st;
}

/* The groups of the config, or the fastest number of them. */
static void fill_groups(struct bench *b, struct plan_rates *r) {
    const uint32_t n = b->s->n_devices, said = b->s->config.devices.n_groups;
    double seconds = 0;
    for (uint32_t k = said > 1 ? said : 2; n / k >= 2; k++) {
        if (n % k != 0)
            continue;
        if (groups_time(b, r, k, &seconds, NULL) == STATOR_OK && rate(seconds) > r->groups) {
            r->groups = rate(seconds);
            r->n_groups = k;
        }
        if (said > 1)
            break;
    }
}

static stator_status fill(struct bench *b, struct plan_rates *r, stator_error *e) {
    stator_error why;
    double seconds = 0;
    stator_status st = layers_time(b, r, &seconds, e);
    if (st != STATOR_OK)
        return st;
    r->known = true;
    r->layers = rate(seconds);
    if (group_time(b, 0, b->s->n_devices, r, 1, &seconds, &why) == STATOR_OK)
        r->tensor = rate(seconds);
    else
        snprintf(r->no_tensor, sizeof r->no_tensor, "%.255s", why.text);
    fill_groups(b, r);
    return STATOR_OK;
}

/* Why there is no estimate; NULL: there is one. */
static const char *unknown(const struct planning *s) {
    if (s->n_devices < 2)
        return "there is one device";
    if (s->config.cluster.n > 0)
        return "links between hosts are not known";
    if (s->shape->sees_ahead || shape_pools(s->shape))
        return "the model generates no text";
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].facts.host_memory)
            return "a device is a CPU";
        else if (s->devices[i].facts.bandwidth == 0)
            return "the bandwidth of a device is not known";
    return NULL;
}

/* The slowest link and the longest hop of all devices. */
static void take_links(const struct planning *s, struct plan_rates *r) {
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct device_facts *f = &s->devices[i].facts;
        const uint64_t link = f->link != 0 ? f->link : f->bus != 0 ? f->bus : SPLIT_ESTIMATE_LINK;
        r->link = i == 0 ? link : ARITH_MIN(r->link, link);
        r->hop_ns = ARITH_MAX(r->hop_ns, f->hop_ns != 0 ? f->hop_ns : SPLIT_ESTIMATE_HOP_NS);
        r->link_assumed = r->link_assumed || f->link + f->bus == 0;
        r->hop_assumed = r->hop_assumed || f->hop_ns == 0;
    }
}

stator_status split_estimate(struct planning *s, struct plan_rates *r, stator_error *e) {
    *r = (struct plan_rates){.known = false};
    const char *why = unknown(s);
    if (why != NULL) {
        snprintf(r->why, sizeof r->why, "%s", why);
        return STATOR_OK;
    }
    take_links(s, r);
    struct bench b = {.s = s};
    struct carve c = carve_count();
    arch_layout_shares(&b.graph, &c, s->shape, 1, 1);
    b.bytes = c.used;
    stator_status st = pages_map(b.bytes, "a graph to estimate a split with", &b.tables, e);
    if (st != STATOR_OK)
        return st;
    stator_error broken;
    if (fill(&b, r, &broken) != STATOR_OK) /* planning says the same about the graph, and ends */
        snprintf(r->why, sizeof r->why, "%.127s", broken.text);
    pages_unmap(b.tables, b.bytes);
    return STATOR_OK;
}
