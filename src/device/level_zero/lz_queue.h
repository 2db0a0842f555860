/* One in-order queue of a GPU, with a few command lists for transfers: copies and fills that are appended at
 * start-up, each with its fence, so that a few are in flight at once.
 *
 * Invariants: every wait has a deadline; after a lost device or a missed deadline the queue is broken, and
 * nothing more is submitted. A lost device no longer runs anything, so everything is freed; what a hanging
 * one may still touch is kept until the process ends. One thread at a time. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_QUEUE_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_QUEUE_H

#include "device/level_zero/system/lz_system.h"

#define LZ_QUEUE_TRANSFERS 8

struct lz_transfer {
    ze_command_list_handle_t list;
    ze_fence_handle_t fence;
    bool busy;
};

struct lz_queue {
    const struct lz_calls *ze;
    const struct lz_gpu *gpu;
    ze_context_handle_t context;
    uint32_t ordinal; /* of its group */
    ze_command_queue_handle_t handle;
    struct lz_transfer transfers[LZ_QUEUE_TRANSFERS];
    uint32_t next;
    uint64_t deadline_ns; /* of one transfer */
    bool broken;          /* `why` says why */
    bool hangs;           /* something may still run */
    stator_error why;
};

/* A queue that computes, with its transfers; or one of the GPU's copy engine, without. *q is cleared first;
 * after an error lz_queue_close frees what there is. */
stator_status lz_queue_open(struct lz_queue *q, const struct lz_calls *ze, const struct lz_gpu *g,
                            ze_context_handle_t context, uint64_t deadline_ns, stator_error *e);
stator_status lz_queue_open_copies(struct lz_queue *q, const struct lz_calls *ze, const struct lz_gpu *g,
                                   ze_context_handle_t context, uint64_t deadline_ns, stator_error *e);
/* Waits for what runs and destroys all, unless it hangs. */
void lz_queue_close(struct lz_queue *q);
/* Waits until what the fence was submitted with no longer runs; else q->hangs is set. */
void lz_queue_settle(struct lz_queue *q, ze_fence_handle_t fence);
void lz_queue_settle_transfers(struct lz_queue *q);

/* Start a transfer and return before it is done. Memory: device memory of this GPU or a peer's, or
 * zeMemAllocHost's. bytes > 0; a fill is with zeros, of a multiple of 4 bytes. */
stator_status lz_queue_copy(struct lz_queue *q, void *to, const void *from, uint64_t bytes, stator_error *e);
stator_status lz_queue_fill(struct lz_queue *q, void *to, uint64_t bytes, stator_error *e);
/* Until all transfers are done; STATOR_DEVICE when one is over the deadline. */
stator_status lz_queue_wait(struct lz_queue *q, stator_error *e);

/* For recording: a new list and its end, and a fence. */
stator_status lz_queue_list(struct lz_queue *q, ze_command_list_handle_t *out, stator_error *e);
stator_status lz_queue_fence(struct lz_queue *q, ze_fence_handle_t *out, stator_error *e);
/* Submits closed lists, to be executed one after the other; the fence is signalled after them. */
stator_status lz_queue_submit(struct lz_queue *q, ze_command_list_handle_t *lists, uint32_t n,
                              ze_fence_handle_t fence, stator_error *e);
/* *ended = false: timeout_ns passed and the fence is not signalled. */
stator_status lz_queue_fence_wait(struct lz_queue *q, ze_fence_handle_t fence, uint64_t timeout_ns,
                                  bool *ended, stator_error *e);
/* Turns a result into an error, and marks the queue as broken when the device is lost. */
stator_status lz_queue_error(struct lz_queue *q, const char *call, ze_result_t r, stator_error *e);

#endif
