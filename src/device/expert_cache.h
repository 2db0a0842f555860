/* Which experts have slots on a device (memory.expert_slots): LRU by layer. No device is touched:
 * expert_cache_plan writes the table of the next step, which device and helper go by, and chooses the experts
 * that the step copies to slots. These count from the step after it. Steps run in order, so that a slot is
 * read as what the table of the step says.
 *
 * Copies are bounded: in a step at most device_slot_copies, and one of a layer. If there are fewer hits than
 * copies, copies pause: a hit spares the processors one reading of an expert, a copy costs one.
 *
 * Owner: the device, whose thread it is. */
#ifndef STATOR_DEVICE_EXPERT_CACHE_H
#define STATOR_DEVICE_EXPERT_CACHE_H

#include "base/carve.h"
#include "device/device.h"

struct expert_cache {
    struct device_slot_table table;
    uint32_t n;          /* slots of a layer */
    uint32_t *slot_of;   /* [layers][experts], or EXPERTS_FAR */
    uint32_t *expert_of; /* [layers][n], or EXPERTS_FAR */
    uint64_t *used;      /* [layers][n]: when, among all uses */
    uint32_t *wanted;    /* [layers]: the expert that was missed last, or EXPERTS_FAR */
    uint64_t uses;
    uint32_t next;         /* layer that may copy first */
    uint64_t hits, copies; /* since the last look at whether copies pay */
    uint32_t pause;        /* steps without copies */
};

/* n 0: nothing is laid out, and no other function may be called. */
void expert_cache_lay_out(struct expert_cache *c, struct carve *memory, const struct device_model *m);
/* Fills the table for a step with layers first .. first + count, which makes at most so many copies. Returns
 * how many. */
uint32_t expert_cache_plan(struct expert_cache *c, uint32_t first, uint32_t count, uint32_t most,
                           uint32_t *table);
/* A step has chosen these experts in a layer, n (token, expert), with `map` as the layer's part of its table.
 * Returns how many of them had slots. */
uint32_t expert_cache_saw(struct expert_cache *c, uint32_t layer, const uint32_t *chosen, uint32_t n,
                          const uint32_t *map);

#endif
