/* The exchanges of a tensor split among GPUs, as parts of a recorded body or tail: a GPU copies its columns
 * into the landing zone of every other one, or where a pair cannot do that into its window of pinned host
 * memory, and signals an event for each. It then waits for theirs. graph/share.h says why two halves of a
 * zone are enough; two events of an ordered pair are enough for the same reason. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_EXCHANGE_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_EXCHANGE_H

#include "device/level_zero/lz_parts.h"

/* Makes the group's events, if d is its first device: the others are prepared after it and closed before it.
 * STATOR_USAGE: a GPU of the group has another driver than the first. */
stator_status lz_exchange_open(struct lz_device *d, stator_error *e);
void lz_exchange_close(struct lz_device *d);
/* Where an exchange stands. */
struct lz_exchange_at {
    struct lz_list *list;
    uint32_t slot, op;
    bool guesses; /* in a pass of the MTP head, not in a body or its tail */
};

/* Appends all of an exchange but the kernel that reads the rows; `rows`: tokens of the list. */
stator_status lz_exchange_append(struct lz_device *d, const struct lz_exchange_at *at, uint32_t rows,
                                 stator_error *e);
/* Where the rows of device `source` are. */
void *lz_exchange_rows(struct lz_device *d, const struct lz_exchange_at *at, uint32_t source);

#endif
