#include "device/level_zero/lz_queue.h"

#include "base/check.h"

#include <string.h>

#define SETTLE_DEADLINE 10000000000ull /* ns to wait at close for running work, or q->deadline_ns if less */

static void break_queue(struct lz_queue *q, const stator_error *why) {
    if (!q->broken)
        q->why = *why;
    q->broken = true;
}

stator_status lz_queue_error(struct lz_queue *q, const char *call, ze_result_t r, stator_error *e) {
    stator_error own;
    stator_status st = lz_calls_error(&own, q->gpu->name, call, r);
    if (r == ZE_RESULT_ERROR_DEVICE_LOST || r == ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET)
        break_queue(q, &own);
    if (e != NULL)
        *e = own;
    return st;
}

/* Reports again what broke the queue: the second caller may be the one whose error is shown. */
static stator_status is_broken(const struct lz_queue *q, stator_error *e) {
    if (e != NULL)
        *e = q->why;
    return q->why.code;
}

void lz_queue_settle(struct lz_queue *q, ze_fence_handle_t fence) {
    uint64_t deadline = q->deadline_ns < SETTLE_DEADLINE ? q->deadline_ns : SETTLE_DEADLINE;
    if (!q->hangs && q->ze->zeFenceHostSynchronize(fence, deadline) == ZE_RESULT_NOT_READY)
        q->hangs = true;
}

void lz_queue_settle_transfers(struct lz_queue *q) {
    for (uint32_t i = 0; i < LZ_QUEUE_TRANSFERS; i++)
        if (q->transfers[i].busy)
            lz_queue_settle(q, q->transfers[i].fence);
}

stator_status lz_queue_list(struct lz_queue *q, ze_command_list_handle_t *out, stator_error *e) {
    ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                   .commandQueueGroupOrdinal = q->ordinal};
    ze_result_t r = q->ze->zeCommandListCreate(q->context, q->gpu->handle, &desc, out);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(q, "zeCommandListCreate", r, e);
}

stator_status lz_queue_fence(struct lz_queue *q, ze_fence_handle_t *out, stator_error *e) {
    ze_fence_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_result_t r = q->ze->zeFenceCreate(q->handle, &desc, out);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(q, "zeFenceCreate", r, e);
}

static stator_status create(struct lz_queue *q, stator_error *e) {
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = q->ordinal,
                                    .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                    .priority = ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_result_t r = q->ze->zeCommandQueueCreate(q->context, q->gpu->handle, &desc, &q->handle);
    if (r == ZE_RESULT_SUCCESS)
        return STATOR_OK;
    q->handle = NULL;
    return lz_queue_error(q, "zeCommandQueueCreate", r, e);
}

stator_status lz_queue_open(struct lz_queue *q, const struct lz_calls *ze, const struct lz_gpu *g,
                            ze_context_handle_t context, uint64_t deadline_ns, stator_error *e) {
    *q = (struct lz_queue){
        .ze = ze, .gpu = g, .context = context, .ordinal = g->compute_queue, .deadline_ns = deadline_ns};
    stator_status st = create(q, e);
    for (uint32_t i = 0; i < LZ_QUEUE_TRANSFERS && st == STATOR_OK; i++) {
        st = lz_queue_list(q, &q->transfers[i].list, e);
        if (st == STATOR_OK)
            st = lz_queue_fence(q, &q->transfers[i].fence, e);
    }
    return st;
}

stator_status lz_queue_open_copies(struct lz_queue *q, const struct lz_calls *ze, const struct lz_gpu *g,
                                   ze_context_handle_t context, uint64_t deadline_ns, stator_error *e) {
    CHECK(g->copy_queue != LZ_NO_QUEUE);
    *q = (struct lz_queue){
        .ze = ze, .gpu = g, .context = context, .ordinal = g->copy_queue, .deadline_ns = deadline_ns};
    return create(q, e);
}

void lz_queue_close(struct lz_queue *q) {
    lz_queue_settle_transfers(q);
    if (q->hangs)
        return;
    for (uint32_t i = 0; i < LZ_QUEUE_TRANSFERS; i++) {
        if (q->transfers[i].fence != NULL)
            (void)q->ze->zeFenceDestroy(q->transfers[i].fence);
        if (q->transfers[i].list != NULL)
            (void)q->ze->zeCommandListDestroy(q->transfers[i].list);
    }
    if (q->handle != NULL)
        (void)q->ze->zeCommandQueueDestroy(q->handle);
    memset(q->transfers, 0, sizeof q->transfers);
    q->handle = NULL;
}

stator_status lz_queue_submit(struct lz_queue *q, ze_command_list_handle_t *lists, uint32_t n,
                              ze_fence_handle_t fence, stator_error *e) {
    if (q->broken)
        return is_broken(q, e);
    CHECK(n > 0 && q->handle != NULL);
    ze_result_t r = q->ze->zeCommandQueueExecuteCommandLists(q->handle, n, lists, fence);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(q, "zeCommandQueueExecuteCommandLists", r, e);
}

stator_status lz_queue_fence_wait(struct lz_queue *q, ze_fence_handle_t fence, uint64_t timeout_ns,
                                  bool *ended, stator_error *e) {
    *ended = false;
    if (q->broken)
        return is_broken(q, e);
    CHECK(fence != NULL);
    ze_result_t r = q->ze->zeFenceHostSynchronize(fence, timeout_ns);
    if (r == ZE_RESULT_NOT_READY)
        return STATOR_OK;
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(q, "zeFenceHostSynchronize", r, e);
    *ended = true;
    return STATOR_OK;
}

static stator_status finish(struct lz_queue *q, struct lz_transfer *t, stator_error *e) {
    if (!t->busy)
        return STATOR_OK;
    bool ended = false;
    stator_status st = lz_queue_fence_wait(q, t->fence, q->deadline_ns, &ended, e);
    if (st == STATOR_OK && !ended) {
        q->hangs = true;
        stator_error why;
        error_set(
            &why, STATOR_DEVICE,
            "%s: zeFenceHostSynchronize: a copy has not ended after %.1f s: the device or its driver hangs",
            q->gpu->name, (double)q->deadline_ns * 1e-9);
        break_queue(q, &why);
        st = is_broken(q, e);
    }
    t->busy = st != STATOR_OK;
    return st;
}

/* The next transfer, empty and open. */
static stator_status begin(struct lz_queue *q, struct lz_transfer **out, stator_error *e) {
    if (q->broken)
        return is_broken(q, e);
    struct lz_transfer *t = *out = &q->transfers[q->next];
    q->next = (q->next + 1) % LZ_QUEUE_TRANSFERS;
    stator_status st = finish(q, t, e);
    if (st != STATOR_OK)
        return st;
    CHECK(!t->busy);
    ze_result_t r = q->ze->zeFenceReset(t->fence);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(q, "zeFenceReset", r, e);
    r = q->ze->zeCommandListReset(t->list);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(q, "zeCommandListReset", r, e);
}

static stator_status go(struct lz_queue *q, struct lz_transfer *t, stator_error *e) {
    /* Lists of one queue start in order; the barrier makes the next one see what this one wrote. */
    ze_result_t r = q->ze->zeCommandListAppendBarrier(t->list, NULL, 0, NULL);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(q, "zeCommandListAppendBarrier", r, e);
    r = q->ze->zeCommandListClose(t->list);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(q, "zeCommandListClose", r, e);
    stator_status st = lz_queue_submit(q, &t->list, 1, t->fence, e);
    t->busy = st == STATOR_OK;
    return st;
}

stator_status lz_queue_copy(struct lz_queue *q, void *to, const void *from, uint64_t bytes, stator_error *e) {
    CHECK(bytes > 0);
    struct lz_transfer *t = NULL;
    stator_status st = begin(q, &t, e);
    if (st != STATOR_OK)
        return st;
    ze_result_t r = q->ze->zeCommandListAppendMemoryCopy(t->list, to, from, bytes, NULL, 0, NULL);
    return r == ZE_RESULT_SUCCESS ? go(q, t, e) : lz_queue_error(q, "zeCommandListAppendMemoryCopy", r, e);
}

stator_status lz_queue_fill(struct lz_queue *q, void *to, uint64_t bytes, stator_error *e) {
    static const uint32_t zero = 0;
    CHECK(bytes > 0 && bytes % sizeof zero == 0);
    struct lz_transfer *t = NULL;
    stator_status st = begin(q, &t, e);
    if (st != STATOR_OK)
        return st;
    ze_result_t r =
        q->ze->zeCommandListAppendMemoryFill(t->list, to, &zero, sizeof zero, bytes, NULL, 0, NULL);
    return r == ZE_RESULT_SUCCESS ? go(q, t, e) : lz_queue_error(q, "zeCommandListAppendMemoryFill", r, e);
}

stator_status lz_queue_wait(struct lz_queue *q, stator_error *e) {
    stator_status first = STATOR_OK;
    for (uint32_t i = 0; i < LZ_QUEUE_TRANSFERS && first == STATOR_OK; i++)
        first = finish(q, &q->transfers[i], e);
    return first;
}
