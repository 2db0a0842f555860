/* Copies of spilled experts into the window, ahead of the launches that want them: recorded with a step's
 * body, in a list of their own for the copy engine. On a device without one they stand in the body itself.
 *
 * Between the two lists of a slot there are five events, each signalled by one of them and reset by the
 * other, which waits for it: `begin`, the body has begun, so that nothing older reads the window; per half
 * `copied`, and `read`, it may be filled anew. The last launch that reads a half does not say so: nobody
 * would wait. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_STREAM_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_STREAM_H

#include "device/level_zero/lz_parts.h"

/* A body that is being recorded. */
struct lz_streaming {
    struct lz_device *d;
    uint32_t slot;
    struct lz_list *body;
    ze_command_list_handle_t copies; /* NULL: in the body */
    uint32_t n, at;                  /* launches with copies in the body, and before the next one */
};

/* The queue, fences and events, if the model has a window and the device a copy engine. */
stator_status lz_stream_open(struct lz_device *d, stator_error *e);
/* With the body empty, for n launches with copies; n may be 0. */
stator_status lz_stream_begin(struct lz_streaming *r, struct lz_device *d, uint32_t slot, uint32_t bucket,
                              struct lz_list *body, uint32_t n, stator_error *e);
/* Around a launch with copies: before it, and in place of the barrier behind it. */
stator_status lz_stream_before(struct lz_streaming *r, const struct launch *l, stator_error *e);
stator_status lz_stream_after(struct lz_streaming *r, const struct launch *l, stator_error *e);
stator_status lz_stream_end(struct lz_streaming *r, stator_error *e);

/* With the body of that slot and bucket, before it; and until the copies of the slot's step have ended. */
stator_status lz_stream_submit(struct lz_device *d, uint32_t slot, uint32_t bucket, stator_error *e);
stator_status lz_stream_wait(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                             stator_error *e);
/* As lz_steps_settle and lz_steps_close. */
void lz_stream_settle(struct lz_device *d);
void lz_stream_close(struct lz_device *d);

#endif
