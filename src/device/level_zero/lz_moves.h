/* Moves of blocks between the caches and buffers of the host (device.h): a recorded list for each buffer,
 * with a fence. The host writes which blocks into the buffer's struct step_moves, in the pinned part, which
 * the list's kernels read. Lists go into the steps' queue, which runs in order. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_MOVES_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_MOVES_H

#include "device/level_zero/lz_parts.h"

struct lz_move *lz_moves_lay_out(struct carve *c, const struct device_model *m);
/* Records the lists, with steps.launches mapped (lz_steps.c). */
stator_status lz_moves_record(struct lz_device *d, stator_error *e);
stator_status lz_moves_begin(struct lz_device *d, uint32_t buffer, bool out,
                             const struct device_piece *pieces, uint32_t n, stator_error *e);
stator_status lz_moves_wait(struct lz_device *d, uint32_t buffer, uint64_t timeout_ns, bool *ended,
                            stator_error *e);
/* As lz_steps_settle and lz_steps_close. */
void lz_moves_settle(struct lz_device *d);
void lz_moves_close(struct lz_device *d);

#endif
