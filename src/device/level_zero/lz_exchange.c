#include "device/level_zero/lz_exchange.h"

#include "graph/share.h"

static struct lz_device *peer(const struct lz_device *d, uint32_t i) {
    CHECK(i < d->setup.group->count);
    return (struct lz_device *)d->setup.group->devices[i];
}

static ze_event_handle_t event_of(const struct lz_device *d, uint32_t half, uint32_t from, uint32_t to) {
    return peer(d, 0)->exchange.event[half][from][to];
}

stator_status lz_exchange_open(struct lz_device *d, stator_error *e) {
    const struct device_group *g = d->setup.group;
    const struct lz_calls *ze = &d->system->ze;
    struct lz_exchange *x = &d->exchange;
    if (g == NULL || peer(d, 0) != d)
        return STATOR_OK;
    ze_device_handle_t devices[DEVICE_MAX];
    for (uint32_t i = 0; i < g->count; i++) {
        CHECK(g->devices[i]->vtable == d->device.vtable);
        devices[i] = peer(d, i)->gpu->handle;
        if (peer(d, i)->gpu->driver != d->gpu->driver)
            return error_set(
                e, STATOR_USAGE,
                "devices.split = \"tensor\": %s and %s have different drivers, so they cannot wait for "
                "each other; take \"auto\"",
                d->gpu->name, peer(d, i)->gpu->name);
    }
    ze_event_pool_desc_t pool = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                 .count = 3 * g->count * (g->count - 1)};
    ze_result_t r = ze->zeEventPoolCreate(d->context, &pool, g->count, devices, &x->pool);
    if (r != ZE_RESULT_SUCCESS) {
        x->pool = NULL;
        return lz_queue_error(&d->queue, "zeEventPoolCreate(of a tensor split)", r, e);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3 * g->count * g->count; i++) {
        const uint32_t half = i % 3, from = i / 3 % g->count, to = i / 3 / g->count;
        /* Rows in host memory are seen by another device only behind a signal of that scope. */
        const ze_event_scope_flags_t scope =
            g->direct[from][to] ? ZE_EVENT_SCOPE_FLAG_DEVICE : ZE_EVENT_SCOPE_FLAG_HOST;
        ze_event_desc_t event = {
            .stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = n, .signal = scope, .wait = scope};
        if (from == to)
            continue;
        r = ze->zeEventCreate(x->pool, &event, &x->event[half][from][to]);
        if (r != ZE_RESULT_SUCCESS) {
            x->event[half][from][to] = NULL;
            return lz_queue_error(&d->queue, "zeEventCreate(of a tensor split)", r, e);
        }
        n++;
    }
    return STATOR_OK;
}

void lz_exchange_close(struct lz_device *d) {
    struct lz_exchange *x = &d->exchange;
    const struct lz_calls *ze = &d->system->ze;
    if (d->queue.hangs || d->system->hangs || x->pool == NULL)
        return;
    for (uint32_t i = 0; i < 3 * DEVICE_MAX * DEVICE_MAX; i++) {
        ze_event_handle_t event = x->event[i % 3][i / 3 % DEVICE_MAX][i / 3 / DEVICE_MAX];
        if (event != NULL)
            (void)ze->zeEventDestroy(event);
    }
    (void)ze->zeEventPoolDestroy(x->pool);
    x->pool = NULL;
}

/* Halves go in turn, also from the body of one slot to that of the next. A pass of the MTP head begins with
 * the half of its slot's body: the lists before it are that body, which has ended everywhere, or the body of
 * the other slot. What comes behind the pass is submitted when it has ended everywhere. */
static uint32_t half_of(const struct graph *g, const struct lz_exchange_at *at) {
    if (g->ops[at->op].exchanged.wanted)
        return LZ_EXCHANGE_LOGITS;
    const uint32_t before = at->guesses ? share_exchanges(g, g->nextn) : 0;
    return (share_exchanges(g, at->op) - before + at->slot * share_exchanges(g, g->n_ops)) % 2;
}

/* g, op: of any device of the group, as all have the same rows and columns in an exchange. */
static uint8_t *zone_at(struct lz_device *to, const struct graph *g, const struct graph_op *op, uint32_t half,
                        uint32_t from) {
    const struct graph *receiver = to->model->graph;
    const bool logits = half == LZ_EXCHANGE_LOGITS;
    const uint32_t zone = logits ? receiver->head_zone : receiver->zone;
    const struct graph_value *v = &receiver->values[zone];
    const uint64_t at = share_landing(g, op, receiver->want.share.index, from);
    CHECK(zone != GRAPH_NONE && at <= v->half_bytes);
    return to->slices[DEVICE_EXCHANGE][0].memory + v->offset + (logits ? 0 : half * v->half_bytes) + v->f32 +
           at;
}

void *lz_exchange_rows(struct lz_device *d, const struct lz_exchange_at *at, uint32_t source) {
    const struct graph *g = d->model->graph;
    const struct device_group *group = d->setup.group;
    const uint32_t half = half_of(g, at), me = g->want.share.index;
    CHECK(source != me && source < group->count);
    if (!group->direct[source][me])
        return group->window[source][half];
    return zone_at(d, g, &g->ops[at->op], half, source);
}

static stator_status copy(struct lz_device *d, struct lz_list *list, void *to, const void *from,
                          uint64_t bytes, stator_error *e) {
    CHECK(to != NULL);
    ze_result_t r = d->system->ze.zeCommandListAppendMemoryCopy(list->handle, to, from, bytes, NULL, 0, NULL);
    return r == ZE_RESULT_SUCCESS
               ? STATOR_OK
               : lz_queue_error(&d->queue, "zeCommandListAppendMemoryCopy(of a tensor split)", r, e);
}

static stator_status barrier(struct lz_device *d, struct lz_list *list, ze_event_handle_t signal, uint32_t n,
                             ze_event_handle_t *waits, stator_error *e) {
    ze_result_t r = d->system->ze.zeCommandListAppendBarrier(list->handle, signal, n, n > 0 ? waits : NULL);
    return r == ZE_RESULT_SUCCESS
               ? STATOR_OK
               : lz_queue_error(&d->queue, "zeCommandListAppendBarrier(of a tensor split)", r, e);
}

/* Only the last device gets rows of logits, and it gives none. */
static bool gets(const struct graph_op *op, uint32_t from, uint32_t to) {
    return from != to && (!op->exchanged.wanted || to + 1 == op->exchanged.count);
}

/* This device's rows to all others that get them. */
static stator_status give(struct lz_device *d, struct lz_list *list, uint32_t half, const struct graph_op *op,
                          uint32_t rows, stator_error *e) {
    const struct graph *g = d->model->graph;
    const struct device_group *group = d->setup.group;
    const uint32_t me = g->want.share.index;
    const struct graph_value *own = &g->values[op->in];
    const uint32_t width = share_width(g, op, me), form = op->exchanged.int8;
    const uint32_t all =
        form != 0 ? launch_packed_rows(g, own, rows) : rows * ARITH_MAX(op->exchanged.used, 1u);
    const uint64_t bytes = share_rows(form, all, width).bytes;
    CHECK(all <= own->rows && own->arena == GRAPH_SCRATCH && (width == 0 || own->width == width));
    CHECK(form != 0 ? own->forms & form && own->packed > 0 : own->f32 != UINT64_MAX);
    const uint8_t *from = d->slices[DEVICE_SCRATCH][0].memory + own->offset +
                          (form == 0              ? own->f32
                           : form == GRAPH_I8_256 ? own->q256
                                                  : own->q32);
    stator_status st = STATOR_OK;
    bool staged = false;
    for (uint32_t i = 0; i < group->count && bytes > 0 && st == STATOR_OK; i++) {
        if (!gets(op, me, i))
            continue;
        const bool direct = group->direct[me][i];
        *(direct ? &list->direct_bytes : &list->staged_bytes) += direct || !staged ? bytes : 0;
        if (direct)
            st = copy(d, list, zone_at(peer(d, i), g, op, half, me), from, bytes, e);
        else if (!staged)
            st = copy(d, list, group->window[me][half], from, bytes, e);
        staged = staged || !direct;
    }
    return st == STATOR_OK ? barrier(d, list, NULL, 0, NULL, e) : st;
}

stator_status lz_exchange_append(struct lz_device *d, const struct lz_exchange_at *at, uint32_t rows,
                                 stator_error *e) {
    const struct graph *g = d->model->graph;
    const struct graph_op *op = &g->ops[at->op];
    struct lz_list *list = at->list;
    const uint32_t half = half_of(g, at), me = g->want.share.index, n = d->setup.group->count;
    ze_event_handle_t theirs[DEVICE_MAX];
    uint32_t waits = 0;
    stator_status st = give(d, list, half, op, rows, e);
    for (uint32_t i = 0; i < n && st == STATOR_OK; i++) {
        if (gets(op, me, i))
            st = barrier(d, list, event_of(d, half, me, i), 0, NULL, e);
        if (gets(op, i, me))
            theirs[waits++] = event_of(d, half, i, me);
    }
    if (st == STATOR_OK && waits > 0)
        st = barrier(d, list, NULL, waits, theirs, e);
    for (uint32_t i = 0; i < waits && st == STATOR_OK; i++) {
        ze_result_t r = d->system->ze.zeCommandListAppendEventReset(list->handle, theirs[i]);
        if (r != ZE_RESULT_SUCCESS)
            st = lz_queue_error(&d->queue, "zeCommandListAppendEventReset(of a tensor split)", r, e);
    }
    return st == STATOR_OK ? barrier(d, list, NULL, 0, NULL, e) : st;
}
