/* The steps of a GPU, recorded: closed command lists that are made before the seal and only submitted after
 * it.
 *
 * Per slot and bucket of token counts one list with the body (descriptor, landing, ops, sending), per slot
 * and bucket of row counts one with the tail (ops, results), and per slot one that copies only the
 * descriptor, for steps without a body. A step is one submit of one or two of them, followed by the slot's
 * fence. A list in flight may not be submitted again, hence one of each per slot.
 *
 * Every kernel launch and every copy is followed by a barrier: ops of a step depend on one another. With
 * trace, every launch signals an event that holds its times. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_STEPS_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_STEPS_H

#include "device/device.h"
#include "device/launch/launch.h"
#include "device/level_zero/lz_queue.h"

struct lz_device;

struct lz_list {
    ze_command_list_handle_t handle;
    uint32_t launches;
    uint32_t first_event; /* with trace: of the slot's events, one per launch, */
    uint32_t *ops;        /* and the launches' ops */
    uint64_t direct_bytes, staged_bytes, copied_bytes;
};

struct lz_steps {
    ze_module_handle_t *modules; /* [opencl_n_modules], NULL where no launch needs it */
    ze_kernel_handle_t *kernels; /* [launch_n_kernels], likewise */
    struct launch *launches;     /* of the list that is being recorded; mapped while recording */
    uint64_t launches_bytes;
    uint32_t n_bodies, n_tails; /* buckets */
    uint32_t body_bounds[LAUNCH_BUCKETS];
    uint32_t tail_bounds[LAUNCH_BUCKETS];
    struct lz_list body[2][LAUNCH_BUCKETS];
    struct lz_list tail[2][LAUNCH_BUCKETS];
    struct lz_list head[2];
    ze_fence_handle_t fence[2];
    bool running[2];
    /* With trace. */
    uint32_t max_events; /* per slot; 0: no trace */
    ze_event_pool_handle_t pool;
    ze_event_handle_t *events[2];
    const struct lz_list *last[2][2]; /* the lists of the slot's last step */
};

/* Takes the tables out of c (carve_count() to measure). */
void lz_steps_lay_out(struct lz_steps *s, struct carve *c, const struct device_model *m, bool trace);
/* Builds the modules and records all lists. Needs all slices, setup and pinned. */
stator_status lz_steps_record(struct lz_device *d, stator_error *e);
stator_status lz_steps_submit(struct lz_device *d, uint32_t slot, stator_error *e);
stator_status lz_steps_wait(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                            stator_error *e);
uint32_t lz_steps_spans(struct lz_device *d, uint32_t slot, struct device_span *out, uint32_t max);
/* Until no step runs, or d->queue.hangs. */
void lz_steps_settle(struct lz_device *d);
void lz_steps_close(struct lz_device *d);

#endif
