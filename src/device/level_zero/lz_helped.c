#include "device/level_zero/lz_helped.h"

#include "base/clock.h"
#include "device/device_helper.h"
#include "kernels/shared/experts.h"

void lz_helped_lay_out(struct lz_helped *h, struct carve *c, const struct device_model *m) {
    const struct graph *g = m->graph;
    *h = (struct lz_helped){0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_ops && m->hosted; i++)
        n += graph_op_opens_experts(&g->ops[i]);
    h->ops = carve_take(c, n, sizeof *h->ops);
    expert_cache_lay_out(&h->cache, c, m);
    for (uint32_t i = 0; i < g->n_ops && h->ops != NULL && n > 0; i++)
        if (graph_op_opens_experts(&g->ops[i]))
            h->ops[h->n_ops++] = i;
}

static stator_status make_event(struct lz_device *d, uint32_t index, ze_event_handle_t *out,
                                stator_error *e) {
    ze_event_desc_t event = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                             .index = index,
                             .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                             .wait = ZE_EVENT_SCOPE_FLAG_HOST};
    ze_result_t r = d->system->ze.zeEventCreate(d->helped.pool, &event, out);
    if (r == ZE_RESULT_SUCCESS)
        return STATOR_OK;
    *out = NULL;
    return lz_queue_error(&d->queue, "zeEventCreate(of the helper)", r, e);
}

stator_status lz_helped_open(struct lz_device *d, stator_error *e) {
    struct lz_helped *h = &d->helped;
    if (!d->model->hosted)
        return STATOR_OK;
    CHECK(d->setup.helper != NULL && h->n_ops > 0 && d->pinned.hosted_bytes > 0);
    device_hosted_lay_out(d->model, d->pinned.hosted, &h->places);
    ze_device_handle_t device = d->gpu->handle;
    ze_event_pool_desc_t pool = {
        .stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 2};
    ze_result_t r = d->system->ze.zeEventPoolCreate(d->context, &pool, 1, &device, &h->pool);
    if (r != ZE_RESULT_SUCCESS) {
        h->pool = NULL;
        return lz_queue_error(&d->queue, "zeEventPoolCreate(of the helper)", r, e);
    }
    stator_status st = make_event(d, 0, &h->asked, e);
    return st == STATOR_OK ? make_event(d, 1, &h->answered, e) : st;
}

static stator_status barrier(struct lz_device *d, struct lz_list *list, ze_event_handle_t signal,
                             ze_event_handle_t wait, stator_error *e) {
    ze_result_t r = d->system->ze.zeCommandListAppendBarrier(list->handle, signal, wait != NULL,
                                                             wait != NULL ? &wait : NULL);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(&d->queue, "zeCommandListAppendBarrier", r, e);
}

static stator_status copy(struct lz_device *d, struct lz_list *list, uint64_t to, const uint8_t *from,
                          uint64_t bytes, stator_error *e) {
    CHECK(bytes > 0 && bytes <= d->pinned.bytes && to <= d->pinned.bytes - bytes);
    ze_result_t r = d->system->ze.zeCommandListAppendMemoryCopy(list->handle, (uint8_t *)d->setup.pinned + to,
                                                                from, bytes, NULL, 0, NULL);
    list->copied_bytes += bytes;
    return r == ZE_RESULT_SUCCESS
               ? STATOR_OK
               : lz_queue_error(&d->queue, "zeCommandListAppendMemoryCopy(rows for experts)", r, e);
}

static const uint8_t *value_at(const struct lz_device *d, const struct graph_value *v) {
    CHECK(v->halves == 1);
    return d->slices[v->arena == GRAPH_EXCHANGE ? DEVICE_EXCHANGE : DEVICE_SCRATCH][0].memory + v->offset;
}

static stator_status ask(struct lz_device *d, struct lz_list *list, uint32_t op, uint32_t rows,
                         stator_error *e) {
    const struct graph *g = d->model->graph;
    const struct graph_op *o = &g->ops[op];
    const struct graph_experts *x = &o->experts;
    const struct graph_value *in = &g->values[o->in];
    const struct device_hosted *to = &d->helped.places;
    const uint32_t forms = device_hosted_forms(g, op);
    const uint64_t wide = (uint64_t)rows * in->width;
    const struct {
        uint64_t to, from, bytes;
        uint32_t form;
    } parts[] = {{to->f32, in->f32, wide * sizeof(float), GRAPH_F32},
                 {to->q32, in->q32, wide, GRAPH_I8_32},
                 {to->d32, in->d32, wide / 32 * sizeof(float), GRAPH_I8_32},
                 {to->s32, in->s32, wide / 32 * sizeof(int16_t), GRAPH_I8_32},
                 {to->q256, in->q256, wide, GRAPH_I8_256},
                 {to->d256, in->d256, wide / 256 * sizeof(float), GRAPH_I8_256},
                 {to->s256, in->s256, wide / 16 * sizeof(int16_t), GRAPH_I8_256}};
    CHECK((forms & ~in->forms) == 0 && in->tile_rows == 0);
    stator_status st =
        copy(d, list, to->chosen,
             value_at(d, &g->values[x->routes]) + sizeof(uint32_t) * EXPERTS_CHOSEN(g->want.batch * x->used),
             (uint64_t)rows * x->used * sizeof(uint32_t), e);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && st == STATOR_OK; i++)
        if (forms & parts[i].form)
            st = copy(d, list, parts[i].to, value_at(d, in) + parts[i].from, parts[i].bytes, e);
    if (list->n_asks == 0)
        while (d->helped.ops[list->first_ask] != op)
            list->first_ask++;
    CHECK(d->helped.ops[list->first_ask + list->n_asks] == op);
    list->n_asks++;
    return st == STATOR_OK ? barrier(d, list, d->helped.asked, NULL, e) : st;
}

stator_status lz_helped_record_answer(struct lz_device *d, struct lz_list *list, stator_error *e) {
    stator_status st = barrier(d, list, NULL, d->helped.answered, e);
    if (st != STATOR_OK)
        return st;
    ze_result_t r = d->system->ze.zeCommandListAppendEventReset(list->handle, d->helped.answered);
    return r == ZE_RESULT_SUCCESS ? barrier(d, list, NULL, NULL, e)
                                  : lz_queue_error(&d->queue, "zeCommandListAppendEventReset", r, e);
}

stator_status lz_helped_record(struct lz_device *d, struct lz_list *list, uint32_t op, uint32_t rows,
                               stator_error *e) {
    const struct graph_op *o = &d->model->graph->ops[op];
    return d->model->hosted && graph_op_opens_experts(o) ? ask(d, list, op, rows, e) : STATOR_OK;
}

static uint32_t *table_of(const struct lz_device *d, uint32_t slot) {
    return (uint32_t *)(void *)((uint8_t *)d->setup.pinned + d->pinned.table[slot]);
}

/* The table of a step with these layers. */
static void plan_slots(struct lz_device *d, const struct lz_list *list, uint32_t slot) {
    struct lz_helped *h = &d->helped;
    uint32_t read = 0;
    for (uint32_t i = 0; i < list->n_asks; i++)
        read += d->model->graph->ops[h->ops[list->first_ask + i]].experts.used;
    d->counters.slot_copies += expert_cache_plan(&h->cache, list->first_ask, list->n_asks,
                                                 device_slot_copies(list->n_asks, read), table_of(d, slot));
}

void lz_helped_submit(struct lz_device *d, const struct lz_list *list, uint32_t slot, uint32_t tokens) {
    struct lz_helped *h = &d->helped;
    if (list->n_asks == 0)
        return;
    CHECK(h->n_steps < 2 && list->first_ask + list->n_asks <= h->n_ops);
    h->steps[h->n_steps++] = (struct lz_helped_step){
        .slot = slot, .tokens = tokens, .at = list->first_ask, .end = list->first_ask + list->n_asks};
    if (d->model->cached.n > 0)
        plan_slots(d, list, slot);
}

static bool asks(const struct lz_helped *h, uint32_t slot) {
    return (h->n_steps > 0 && h->steps[0].slot == slot) || (h->n_steps > 1 && h->steps[1].slot == slot);
}

/* Waits for a question and takes it; *asked = false: none came in time. */
static stator_status wait_asked(struct lz_device *d, uint64_t timeout_ns, bool *asked, stator_error *e) {
    const struct lz_calls *ze = &d->system->ze;
    ze_result_t r = ze->zeEventHostSynchronize(d->helped.asked, timeout_ns);
    *asked = r == ZE_RESULT_SUCCESS;
    if (r == ZE_RESULT_NOT_READY)
        return STATOR_OK;
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, "zeEventHostSynchronize", r, e);
    r = ze->zeEventHostReset(d->helped.asked);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(&d->queue, "zeEventHostReset", r, e);
}

/* The oldest step's next question has its answer. */
static stator_status answer(struct lz_device *d, stator_error *e) {
    struct lz_helped *h = &d->helped;
    struct lz_helped_step *s = &h->steps[0];
    ze_result_t r = d->system->ze.zeEventHostSignal(h->answered);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, "zeEventHostSignal", r, e);
    if (++s->at == s->end) {
        h->steps[0] = h->steps[1];
        h->n_steps--;
    }
    return STATOR_OK;
}

static void serve_layer(struct lz_device *d, const struct lz_helped_step *s) {
    struct lz_helped *h = &d->helped;
    const uint32_t op = h->ops[s->at], rows = s->tokens * d->model->graph->ops[op].experts.used;
    const bool slots = d->model->cached.n > 0;
    const uint32_t *map = slots ? table_of(d, s->slot) + (size_t)s->at * h->cache.table.stride : NULL;
    const void *chosen = (const uint8_t *)d->setup.pinned + h->places.chosen;
    const uint32_t hits = slots ? expert_cache_saw(&h->cache, s->at, chosen, rows, map) : 0;
    const uint64_t began = clock_ns();
    if (hits < rows)
        device_helper_run(d->setup.helper, op, s->tokens, map);
    d->counters.helped_ns += clock_ns() - began;
    d->counters.helped_rows += rows - hits;
    d->counters.slot_rows += hits;
}

stator_status lz_helped_serve(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                              stator_error *e) {
    struct lz_helped *h = &d->helped;
    stator_status st = STATOR_OK;
    bool asked = true;
    while (asks(h, slot) && st == STATOR_OK) {
        st = wait_asked(d, timeout_ns, &asked, e);
        if (st != STATOR_OK || !asked)
            break;
        const struct lz_helped_step *s = &h->steps[0];
        serve_layer(d, s);
        st = answer(d, e);
    }
    *ended = !asks(h, slot);
    return st;
}

void lz_helped_settle(struct lz_device *d) {
    struct lz_helped *h = &d->helped;
    bool asked = true;
    while (h->n_steps > 0 && asked && !d->queue.broken)
        if (wait_asked(d, d->queue.deadline_ns, &asked, NULL) != STATOR_OK ||
            (asked && answer(d, NULL) != STATOR_OK))
            break;
}

void lz_helped_close(struct lz_device *d) {
    struct lz_helped *h = &d->helped;
    const struct lz_calls *ze = &d->system->ze;
    if (d->queue.hangs)
        return;
    if (h->asked != NULL)
        (void)ze->zeEventDestroy(h->asked);
    if (h->answered != NULL)
        (void)ze->zeEventDestroy(h->answered);
    if (h->pool != NULL)
        (void)ze->zeEventPoolDestroy(h->pool);
}
