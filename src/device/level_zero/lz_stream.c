#include "device/level_zero/lz_stream.h"

#define EVENTS_OF_SLOT 5

static stator_status make_events(struct lz_device *d, stator_error *e) {
    const struct lz_calls *ze = &d->system->ze;
    struct lz_stream *s = &d->stream;
    ze_device_handle_t device = d->gpu->handle;
    ze_event_pool_desc_t pool = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .count = 2 * EVENTS_OF_SLOT};
    ze_result_t r = ze->zeEventPoolCreate(d->context, &pool, 1, &device, &s->pool);
    if (r != ZE_RESULT_SUCCESS) {
        s->pool = NULL;
        return lz_queue_error(&d->queue, "zeEventPoolCreate(of copies of experts)", r, e);
    }
    for (uint32_t i = 0; i < 2 * EVENTS_OF_SLOT; i++) {
        struct lz_stream_events *of = &s->events[i / EVENTS_OF_SLOT];
        ze_event_handle_t *all[EVENTS_OF_SLOT] = {&of->begin, &of->copied[0], &of->copied[1], &of->read[0],
                                                  &of->read[1]};
        ze_event_desc_t event = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                 .index = i,
                                 .signal = ZE_EVENT_SCOPE_FLAG_DEVICE,
                                 .wait = ZE_EVENT_SCOPE_FLAG_DEVICE};
        r = ze->zeEventCreate(s->pool, &event, all[i % EVENTS_OF_SLOT]);
        if (r != ZE_RESULT_SUCCESS) {
            *all[i % EVENTS_OF_SLOT] = NULL;
            return lz_queue_error(&d->queue, "zeEventCreate(of copies of experts)", r, e);
        }
    }
    return STATOR_OK;
}

stator_status lz_stream_open(struct lz_device *d, stator_error *e) {
    struct lz_stream *s = &d->stream;
    if (d->model->stream.tokens == 0 || d->gpu->copy_queue == LZ_NO_QUEUE)
        return STATOR_OK;
    stator_status st =
        lz_queue_open_copies(&s->queue, &d->system->ze, d->gpu, d->context, d->queue.deadline_ns, e);
    for (uint32_t k = 0; k < d->model->slots && st == STATOR_OK; k++)
        st = lz_queue_fence(&s->queue, &s->fence[k], e);
    return st == STATOR_OK ? make_events(d, e) : st;
}

static stator_status barrier(struct lz_streaming *r, ze_command_list_handle_t list, ze_event_handle_t signal,
                             ze_event_handle_t wait, stator_error *e) {
    const struct lz_calls *ze = &r->d->system->ze;
    ze_result_t z = ze->zeCommandListAppendBarrier(list, signal, wait != NULL, wait != NULL ? &wait : NULL);
    return z == ZE_RESULT_SUCCESS ? STATOR_OK
                                  : lz_queue_error(&r->d->queue, "zeCommandListAppendBarrier", z, e);
}

/* Everything behind it in the list comes after the other list's signal, which can then be given again. */
static stator_status wait_for(struct lz_streaming *r, ze_command_list_handle_t list, ze_event_handle_t event,
                              stator_error *e) {
    const struct lz_calls *ze = &r->d->system->ze;
    stator_status st = barrier(r, list, NULL, event, e);
    if (st != STATOR_OK)
        return st;
    ze_result_t z = ze->zeCommandListAppendEventReset(list, event);
    if (z != ZE_RESULT_SUCCESS)
        return lz_queue_error(&r->d->queue, "zeCommandListAppendEventReset", z, e);
    return barrier(r, list, NULL, NULL, e);
}

static stator_status append_copies(struct lz_streaming *r, ze_command_list_handle_t list,
                                   const struct launch *l, stator_error *e) {
    const struct lz_calls *ze = &r->d->system->ze;
    const struct lz_slice *window = &r->d->slices[DEVICE_WINDOW][0];
    for (uint32_t i = 0; i < l->n_copies; i++) {
        const struct launch_copy *c = &l->copies[i];
        const struct lz_slice *from = &r->d->slices[c->from.arena][c->from.slice];
        CHECK(window->memory != NULL && c->to <= window->bytes && c->bytes <= window->bytes - c->to);
        CHECK(from->spilled && c->from.offset <= from->bytes && c->bytes <= from->bytes - c->from.offset);
        ze_result_t z = ze->zeCommandListAppendMemoryCopy(
            list, window->memory + c->to, from->memory + c->from.offset, c->bytes, NULL, 0, NULL);
        if (z != ZE_RESULT_SUCCESS)
            return lz_queue_error(&r->d->queue, "zeCommandListAppendMemoryCopy(spilled experts)", z, e);
        r->body->streamed_bytes += c->bytes;
    }
    return STATOR_OK;
}

stator_status lz_stream_begin(struct lz_streaming *r, struct lz_device *d, uint32_t slot, uint32_t bucket,
                              struct lz_list *body, uint32_t n, stator_error *e) {
    CHECK(slot < 2 && bucket < LAUNCH_BUCKETS);
    struct lz_stream *s = &d->stream;
    *r = (struct lz_streaming){.d = d, .slot = slot, .body = body, .n = n};
    if (n == 0 || s->queue.handle == NULL)
        return STATOR_OK;
    ze_event_handle_t begin = s->events[slot].begin;
    stator_status st = lz_queue_list(&s->queue, &s->list[slot][bucket], e);
    if (st != STATOR_OK) {
        s->list[slot][bucket] = NULL;
        return st;
    }
    r->copies = s->list[slot][bucket];
    st = barrier(r, body->handle, begin, NULL, e);
    return st == STATOR_OK ? wait_for(r, r->copies, begin, e) : st;
}

stator_status lz_stream_before(struct lz_streaming *r, const struct launch *l, stator_error *e) {
    CHECK(r->at < r->n && l->half == r->at % 2);
    const struct lz_stream_events *events = &r->d->stream.events[r->slot];
    ze_command_list_handle_t list = r->copies != NULL ? r->copies : r->body->handle;
    stator_status st = STATOR_OK;
    if (r->copies != NULL && r->at >= 2)
        st = wait_for(r, list, events->read[l->half], e);
    if (st == STATOR_OK)
        st = append_copies(r, list, l, e);
    if (st == STATOR_OK)
        st = barrier(r, list, r->copies != NULL ? events->copied[l->half] : NULL, NULL, e);
    if (st == STATOR_OK && r->copies != NULL)
        st = wait_for(r, r->body->handle, events->copied[l->half], e);
    return st;
}

stator_status lz_stream_after(struct lz_streaming *r, const struct launch *l, stator_error *e) {
    CHECK(r->at < r->n);
    const bool awaited = r->copies != NULL && r->at + 2 < r->n;
    r->at++;
    return barrier(r, r->body->handle, awaited ? r->d->stream.events[r->slot].read[l->half] : NULL, NULL, e);
}

stator_status lz_stream_end(struct lz_streaming *r, stator_error *e) {
    CHECK(r->at == r->n);
    if (r->copies == NULL)
        return STATOR_OK;
    ze_result_t z = r->d->system->ze.zeCommandListClose(r->copies);
    return z == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(&r->d->queue, "zeCommandListClose", z, e);
}

stator_status lz_stream_submit(struct lz_device *d, uint32_t slot, uint32_t bucket, stator_error *e) {
    struct lz_stream *s = &d->stream;
    if (s->list[slot][bucket] == NULL)
        return STATOR_OK;
    CHECK(!s->running[slot]);
    ze_result_t r = d->system->ze.zeFenceReset(s->fence[slot]);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, "zeFenceReset", r, e);
    stator_status st = lz_queue_submit(&s->queue, &s->list[slot][bucket], 1, s->fence[slot], e);
    s->running[slot] = st == STATOR_OK;
    return st;
}

stator_status lz_stream_wait(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                             stator_error *e) {
    struct lz_stream *s = &d->stream;
    *ended = !s->running[slot];
    if (*ended)
        return STATOR_OK;
    stator_status st = lz_queue_fence_wait(&s->queue, s->fence[slot], timeout_ns, ended, e);
    s->running[slot] = !*ended;
    return st;
}

void lz_stream_settle(struct lz_device *d) {
    for (uint32_t k = 0; k < 2; k++)
        if (d->stream.running[k])
            lz_queue_settle(&d->stream.queue, d->stream.fence[k]);
    d->queue.hangs |= d->stream.queue.hangs;
}

void lz_stream_close(struct lz_device *d) {
    struct lz_stream *s = &d->stream;
    const struct lz_calls *ze = &d->system->ze;
    if (d->queue.hangs)
        return;
    for (uint32_t k = 0; k < 2; k++) {
        struct lz_stream_events *of = &s->events[k];
        const ze_event_handle_t all[EVENTS_OF_SLOT] = {of->begin, of->copied[0], of->copied[1], of->read[0],
                                                       of->read[1]};
        for (uint32_t b = 0; b < LAUNCH_BUCKETS; b++)
            if (s->list[k][b] != NULL)
                (void)ze->zeCommandListDestroy(s->list[k][b]);
        for (uint32_t i = 0; i < EVENTS_OF_SLOT; i++)
            if (all[i] != NULL)
                (void)ze->zeEventDestroy(all[i]);
        if (s->fence[k] != NULL)
            (void)ze->zeFenceDestroy(s->fence[k]);
    }
    if (s->pool != NULL)
        (void)ze->zeEventPoolDestroy(s->pool);
    if (s->queue.ze != NULL)
        lz_queue_close(&s->queue);
}
